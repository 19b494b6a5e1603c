//! Two conversations, side by side.

use std::collections::{HashMap, HashSet};

use super::align::{Row, align};
use super::lane::LaneWork;
use super::unit::{Kind, Projected, Unit};

/// Lays two conversations side by side: in order, but results by the calls they answer.
pub(super) fn lay_out(lane: &mut LaneWork<'_>, g: &Projected, c: &Projected) -> Vec<Row> {
    let without_results = |of: &Projected| -> Vec<usize> {
        (0..of.parts.len()).filter(|at| of.parts[*at].kind != Kind::Result).collect()
    };
    let (mine, theirs) = (without_results(g), without_results(c));
    let same = |a: usize, b: usize| {
        let (a, b) = (&g.parts[mine[a]], &c.parts[theirs[b]]);
        a.kind == b.kind
            && a.role == b.role
            && (a.hash == b.hash || lane.pairs.contains_key(&(a.hash, b.hash)))
    };
    let score = |a: usize, b: usize| likeness((&g.parts[mine[a]], g), (&c.parts[theirs[b]], c));
    let hash = |of: &Projected, at: usize| of.parts[at].hash;
    let mut rows = as_before(
        &lane.rows,
        |a| mine.get(a).map(|at| hash(g, *at)),
        |b| theirs.get(b).map(|at| hash(c, *at)),
    );
    let (a, b) = (rows.iter().filter_map(|row| row.0).count(), rows.iter().filter_map(|row| row.1).count());
    let rest = align(mine.len() - a, theirs.len() - b, |x, y| same(a + x, b + y), |x, y| score(a + x, b + y));
    rows.extend(rest.into_iter().map(|(x, y)| (x.map(|x| a + x), y.map(|y| b + y))));
    let mut rows: Vec<Row> =
        rows.into_iter().map(|(a, b)| (a.map(|a| mine[a]), b.map(|b| theirs[b]))).collect();
    lane.rows = rows.iter().map(|(a, b)| (a.map(|a| hash(g, a)), b.map(|b| hash(c, b)))).collect();
    pair_calls(&mut rows, g, c);
    let mut calls: HashMap<&str, &str> = HashMap::new();
    for row in &rows {
        if let (Some(a), Some(b)) = row
            && let (Some(a), Some(b)) = (&g.parts[*a].call, &c.parts[*b].call)
        {
            calls.insert(a, b);
        }
    }
    lane.pair_announcements(&mut rows, g, c);
    rows.extend(results(&calls, g, c));
    rows.sort_by_key(|(a, b)| (a.is_none(), *a, *b));
    rows
}

/// The rows of the turn before as far as both still say the same, up to the last that met. Without them, whatever
/// only one side has would make every later turn search its whole history anew.
fn as_before(
    before: &[(Option<u64>, Option<u64>)],
    golden: impl Fn(usize) -> Option<u64>,
    candidate: impl Fn(usize) -> Option<u64>,
) -> Vec<Row> {
    let (mut a, mut b) = (0, 0);
    let mut rows: Vec<Row> = Vec::new();
    for (mine, theirs) in before {
        if (mine.is_some() && golden(a) != *mine) || (theirs.is_some() && candidate(b) != *theirs) {
            break;
        }
        rows.push((mine.map(|_| a), theirs.map(|_| b)));
        a += usize::from(mine.is_some());
        b += usize::from(theirs.is_some());
    }
    let met = rows.iter().rposition(|row| row.0.is_some() && row.1.is_some()).map_or(0, |at| at + 1);
    rows.truncate(met);
    rows
}

/// The golden's calls that stand before one that they stand behind in the candidate, or the other way round.
pub(super) fn moved_calls(rows: &[Row], g: &Projected) -> HashSet<usize> {
    let is_call = |row: &&Row| row.0.is_some_and(|at| g.parts[at].kind == Kind::Call);
    let calls: Vec<(usize, usize)> = rows.iter().filter(is_call).filter_map(|(a, b)| (*a).zip(*b)).collect();
    let mut moved = HashSet::new();
    let (mut highest, mut lowest) = (0, usize::MAX);
    for ((a, b), (later_a, later_b)) in calls.iter().zip(calls.iter().rev()) {
        if *b < highest {
            moved.insert(*a);
        }
        if *later_b > lowest {
            moved.insert(*later_a);
        }
        (highest, lowest) = (highest.max(*b), lowest.min(*later_b));
    }
    moved
}

/// Calls that have changed places are still the same calls.
fn pair_calls(rows: &mut Vec<Row>, g: &Projected, c: &Projected) {
    let is_alone = |unit: &Unit| unit.kind == Kind::Call && unit.call.is_some();
    let mut left: HashMap<(&str, &str), usize> = HashMap::new();
    for row in rows.iter() {
        if let (None, Some(b)) = row
            && is_alone(&c.parts[*b])
        {
            let unit = &c.parts[*b];
            left.entry((unit.call.as_deref().unwrap_or_default(), &unit.key)).or_insert(*b);
        }
    }
    let mut taken = Vec::new();
    for row in rows.iter_mut() {
        if let (Some(a), None) = *row
            && is_alone(&g.parts[a])
        {
            let unit = &g.parts[a];
            row.1 = left.remove(&(unit.call.as_deref().unwrap_or_default(), unit.key.as_str()));
            taken.extend(row.1);
        }
    }
    rows.retain(|row| !matches!(row, (None, Some(b)) if taken.contains(b)));
}

fn results(calls: &HashMap<&str, &str>, g: &Projected, c: &Projected) -> Vec<Row> {
    let of = |of: &Projected| -> Vec<usize> {
        (0..of.parts.len()).filter(|at| of.parts[*at].kind == Kind::Result).collect()
    };
    let mut by_call: HashMap<&str, Vec<usize>> = HashMap::new();
    for at in of(c).into_iter().rev() {
        by_call.entry(c.parts[at].call.as_deref().unwrap_or_default()).or_default().push(at);
    }
    let mut rows: Vec<Row> = Vec::new();
    let mut left = Vec::new();
    for at in of(g) {
        let call = g.parts[at].call.as_deref().unwrap_or_default();
        let theirs = calls.get(call).copied().unwrap_or(call);
        match by_call.get_mut(theirs).and_then(Vec::pop) {
            Some(other) => rows.push((Some(at), Some(other))),
            None => left.push(at),
        }
    }
    let mut others: Vec<usize> = by_call.into_values().flatten().collect();
    others.sort_unstable();
    // A result that names another call is still one that was given in its stead.
    let shared = left.len().min(others.len());
    rows.extend(left.iter().zip(&others).map(|(a, b)| (Some(*a), Some(*b))));
    rows.extend(left[shared..].iter().map(|a| (Some(*a), None)));
    rows.extend(others[shared..].iter().map(|b| (None, Some(*b))));
    rows
}

fn likeness(g: (&Unit, &Projected), c: (&Unit, &Projected)) -> u32 {
    let (a, b) = (g.0, c.0);
    if a.kind != b.kind {
        return 0;
    }
    if a.kind == Kind::Reply && a.key != b.key {
        return 0;
    }
    if matches!(a.kind, Kind::Said | Kind::System) && a.key != b.key {
        return 1;
    }
    if a.hash == b.hash && a.role == b.role {
        return 60;
    }
    let same_name = 6 * u32::from(a.key == b.key);
    let base = 2 + 4 * u32::from(a.role == b.role);
    match a.kind {
        Kind::Call => base + same_name + 20 * u32::from(a.call == b.call),
        _ => {
            let (mine, theirs) = (g.1.raw(a), c.1.raw(b));
            let shared = mine.bytes().zip(theirs.bytes()).take(64).take_while(|(x, y)| x == y).count();
            base + (shared / 4) as u32
        }
    }
}

impl LaneWork<'_> {
    /// Announcements meet by the jobs that they name: jobs end in any order.
    fn pair_announcements(&self, rows: &mut [Row], g: &Projected, c: &Projected) {
        let jobs = |side: usize, at: usize, of: &Projected| self.jobs[side].named(&of.raw(&of.parts[at]));
        let is_open = |row: &Row| match row {
            (Some(a), Some(b)) => {
                let (a, b) = (&g.parts[*a], &c.parts[*b]);
                let known = a.hash == b.hash || self.pairs.contains_key(&(a.hash, b.hash));
                a.kind == Kind::Said && a.late && !known
            }
            _ => false,
        };
        let open: Vec<usize> = (0..rows.len()).filter(|at| is_open(&rows[*at])).collect();
        for here in open.iter().copied() {
            let (Some(a), Some(b)) = rows[here] else { continue };
            let (mine, theirs) = (jobs(0, a, g), jobs(1, b, c));
            if mine.is_empty() || mine == theirs {
                continue;
            }
            let fits = |there: &&usize| {
                rows[**there].1.is_some_and(|b| jobs(1, b, c) == mine)
                    && rows[**there].0.is_some_and(|a| jobs(0, a, g) != mine)
            };
            if let Some(there) = open.iter().find(fits).copied() {
                let other = rows[there].1;
                rows[there].1 = rows[here].1;
                rows[here].1 = other;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_goes_on_from_the_one_before_as_far_as_both_say_the_same() {
        let before = [(Some(1), Some(1)), (Some(2), None), (Some(3), Some(4)), (None, Some(5))];
        let rows = |golden: &[u64], candidate: &[u64]| {
            as_before(&before, |at| golden.get(at).copied(), |at| candidate.get(at).copied())
        };
        let all = [(Some(0), Some(0)), (Some(1), None), (Some(2), Some(1))];
        assert_eq!(rows(&[1, 2, 3, 6], &[1, 4, 5, 7]), all, "what stands alone at the end is still open");
        assert_eq!(rows(&[1, 2, 3], &[1, 2, 4]), all[..1], "the candidate has it now");
        assert_eq!(rows(&[9, 2, 3], &[1, 4, 5]), []);
    }
}
