//! Alignment of the ordered units of two requests.

use std::collections::{HashMap, HashSet};

use super::sequence::align_sequences;
use crate::verify::history::LaneHistory;
use crate::verify::job_names::JobNames;
use crate::verify::project::{RequestUnits, Unit, UnitKind};
use crate::verify::row::Row;

/// Aligns two conversations: in order, but results by the calls that they answer.
pub(in crate::verify) fn align_units(
    history: &mut LaneHistory,
    jobs: &[JobNames; 2],
    golden: &RequestUnits,
    candidate: &RequestUnits,
) -> Vec<Row> {
    let (g, c) = (&golden.ordered, &candidate.ordered);
    let (mine, theirs) = (without_results(golden), without_results(candidate));
    let is_same = |a: usize, b: usize| {
        let (a, b) = (&g[mine[a]], &c[theirs[b]]);
        a.kind == b.kind
            && a.message.role == b.message.role
            && (a.hash == b.hash || history.has_pair(a.hash, b.hash))
    };
    let score = |a: usize, b: usize| similarity(&g[mine[a]], &c[theirs[b]]);
    let mut rows = kept_rows(
        &history.rows,
        |a| mine.get(a).map(|at| g[*at].hash),
        |b| theirs.get(b).map(|at| c[*at].hash),
    );
    let (a, b) = (rows.iter().filter_map(|row| row.0).count(), rows.iter().filter_map(|row| row.1).count());
    let rest = align_sequences(
        mine.len() - a,
        theirs.len() - b,
        |x, y| is_same(a + x, b + y),
        |x, y| score(a + x, b + y),
    );
    rows.extend(rest.into_iter().map(|(x, y)| (x.map(|x| a + x), y.map(|y| b + y))));
    let mut rows: Vec<Row> =
        rows.into_iter().map(|(a, b)| (a.map(|a| mine[a]), b.map(|b| theirs[b]))).collect();
    history.rows = rows.iter().map(|(a, b)| (a.map(|a| g[a].hash), b.map(|b| c[b].hash))).collect();
    pair_moved_calls(&mut rows, golden, candidate);
    pair_announcements(&mut rows, history, jobs, golden, candidate);
    rows.extend(align_results(&rows, golden, candidate));
    rows.sort_by_key(|(a, b)| (a.is_none(), *a, *b));
    rows
}

fn without_results(units: &RequestUnits) -> Vec<usize> {
    (0..units.ordered.len()).filter(|at| units.ordered[*at].kind != UnitKind::Result).collect()
}

fn results(units: &RequestUnits) -> Vec<usize> {
    (0..units.ordered.len()).filter(|at| units.ordered[*at].kind == UnitKind::Result).collect()
}

/// Returns the rows of the turn before that still apply, up to the last pair. Without them, each unit that only one
/// side has would make all later turns align their whole history again.
fn kept_rows(
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
    let paired = rows.iter().rposition(|row| row.0.is_some() && row.1.is_some()).map_or(0, |at| at + 1);
    rows.truncate(paired);
    rows
}

/// Returns the golden's calls that changed places with another call.
pub(in crate::verify) fn moved_calls(rows: &[Row], golden: &RequestUnits) -> HashSet<usize> {
    let is_call = |row: &&Row| row.0.is_some_and(|at| golden.ordered[at].kind == UnitKind::Call);
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

/// Pairs calls that changed places, which are still the same calls.
fn pair_moved_calls(rows: &mut Vec<Row>, golden: &RequestUnits, candidate: &RequestUnits) {
    fn key(unit: &Unit) -> Option<(&str, &str)> {
        let call = unit.call.as_deref().filter(|_| unit.kind == UnitKind::Call)?;
        Some((call, &unit.key))
    }
    let mut unpaired: HashMap<(&str, &str), usize> = HashMap::new();
    for row in rows.iter() {
        if let (None, Some(b)) = row
            && let Some(key) = key(&candidate.ordered[*b])
        {
            unpaired.entry(key).or_insert(*b);
        }
    }
    let mut paired = Vec::new();
    for row in rows.iter_mut() {
        if let (Some(a), None) = *row
            && let Some(key) = key(&golden.ordered[a])
        {
            row.1 = unpaired.remove(&key);
            paired.extend(row.1);
        }
    }
    rows.retain(|row| !matches!(row, (None, Some(b)) if paired.contains(b)));
}

/// Pairs announcements by the jobs that they name, because jobs end in any order.
fn pair_announcements(
    rows: &mut [Row],
    history: &LaneHistory,
    jobs: &[JobNames; 2],
    golden: &RequestUnits,
    candidate: &RequestUnits,
) {
    let named = |side: usize, unit: &Unit| jobs[side].named_in(&unit.json);
    let is_open = |row: &Row| match row {
        (Some(a), Some(b)) => {
            let (a, b) = (&golden.ordered[*a], &candidate.ordered[*b]);
            let is_known = a.hash == b.hash || history.has_pair(a.hash, b.hash);
            a.kind == UnitKind::Text && a.message.follows_reply && !is_known
        }
        _ => false,
    };
    let open: Vec<usize> = (0..rows.len()).filter(|at| is_open(&rows[*at])).collect();
    for here in open.iter().copied() {
        let (Some(a), Some(b)) = rows[here] else { continue };
        let (mine, theirs) = (named(0, &golden.ordered[a]), named(1, &candidate.ordered[b]));
        if mine.is_empty() || mine == theirs {
            continue;
        }
        let fits = |there: &&usize| {
            rows[**there].1.is_some_and(|b| named(1, &candidate.ordered[b]) == mine)
                && rows[**there].0.is_some_and(|a| named(0, &golden.ordered[a]) != mine)
        };
        if let Some(there) = open.iter().find(fits).copied() {
            let other = rows[there].1;
            rows[there].1 = rows[here].1;
            rows[here].1 = other;
        }
    }
}

/// Aligns results by the calls that they answer, given the alignment of the calls.
fn align_results(rows: &[Row], golden: &RequestUnits, candidate: &RequestUnits) -> Vec<Row> {
    let calls: HashMap<&str, &str> = rows
        .iter()
        .filter_map(|(a, b)| {
            Some((golden.ordered[(*a)?].call.as_deref()?, candidate.ordered[(*b)?].call.as_deref()?))
        })
        .collect();
    let call = |units: &'_ RequestUnits, at: usize| units.ordered[at].call.clone().unwrap_or_default();
    let mut by_call: HashMap<String, Vec<usize>> = HashMap::new();
    for at in results(candidate).into_iter().rev() {
        by_call.entry(call(candidate, at)).or_default().push(at);
    }
    let mut rows: Vec<Row> = Vec::new();
    let mut unpaired = Vec::new();
    for at in results(golden) {
        let call = call(golden, at);
        let theirs = calls.get(call.as_str()).copied().unwrap_or(&call);
        match by_call.get_mut(theirs).and_then(Vec::pop) {
            Some(other) => rows.push((Some(at), Some(other))),
            None => unpaired.push(at),
        }
    }
    let mut others: Vec<usize> = by_call.into_values().flatten().collect();
    others.sort_unstable();
    // A result that names another call still replaces the missing one.
    let shared = unpaired.len().min(others.len());
    rows.extend(unpaired.iter().zip(&others).map(|(a, b)| (Some(*a), Some(*b))));
    rows.extend(unpaired[shared..].iter().map(|a| (Some(*a), None)));
    rows.extend(others[shared..].iter().map(|b| (None, Some(*b))));
    rows
}

/// Returns how well two units fit together; 0 if they cannot be a pair.
fn similarity(a: &Unit, b: &Unit) -> u32 {
    if a.kind != b.kind {
        return 0;
    }
    if a.kind == UnitKind::Reply && a.key != b.key {
        return 0;
    }
    if matches!(a.kind, UnitKind::Text | UnitKind::System) && a.key != b.key {
        return 1;
    }
    let same_role = a.message.role == b.message.role;
    if a.hash == b.hash && same_role {
        return 60;
    }
    let base = 2 + 4 * u32::from(same_role);
    match a.kind {
        UnitKind::Call => base + 6 * u32::from(a.key == b.key) + 20 * u32::from(a.call == b.call),
        _ => {
            let shared = a.json.bytes().zip(b.json.bytes()).take(64).take_while(|(x, y)| x == y).count();
            base + (shared / 4) as u32
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_the_turn_before_are_kept_as_far_as_both_sides_repeat_them() {
        let before = [(Some(1), Some(1)), (Some(2), None), (Some(3), Some(4)), (None, Some(5))];
        let rows = |golden: &[u64], candidate: &[u64]| {
            kept_rows(&before, |at| golden.get(at).copied(), |at| candidate.get(at).copied())
        };
        let all = [(Some(0), Some(0)), (Some(1), None), (Some(2), Some(1))];
        assert_eq!(
            rows(&[1, 2, 3, 6], &[1, 4, 5, 7]),
            all,
            "an unpaired unit at the end may still be paired"
        );
        assert_eq!(rows(&[1, 2, 3], &[1, 2, 4]), all[..1], "the candidate has it now");
        assert_eq!(rows(&[9, 2, 3], &[1, 4, 5]), []);
    }
}
