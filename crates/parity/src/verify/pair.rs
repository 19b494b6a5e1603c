//! Which lane of the candidate is which of the golden, and which turn which.
//!
//! Lanes meet by their place in the tree: the same parent, started by the same call. Their numbers say only who came
//! first, so they count for nothing. Siblings that were started together meet by what they were asked.

use std::collections::{HashMap, HashSet};

use recording::lanes::{Lane, LaneKind, Lanes, Turn};

use super::align::{Row, align};

/// A lane of the golden and its counterpart; one of them may be missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LanePair {
    pub(super) golden: Option<usize>,
    pub(super) candidate: Option<usize>,
    /// Their turns, side by side.
    pub(super) turns: Vec<Row>,
}

/// What two requests have in common, each given by its lane and its place there. It is asked only where the tree does
/// not tell.
pub(super) trait Alike {
    /// How much it is.
    fn likeness(&self, golden: (usize, usize), candidate: (usize, usize)) -> u32;

    /// What the body of a request of either side is known by.
    fn body(&self, side: usize, request: (usize, usize)) -> u64;

    /// Whether they have most of their words in common.
    fn say_the_same(&self, golden: (usize, usize), candidate: (usize, usize)) -> bool;
}

/// Larger tables than this are not filled: what is left is paired in order.
const LARGEST: usize = 10_000;

/// Lays two trees side by side.
pub(super) fn pair(golden: &Lanes, candidate: &Lanes, alike: &dyn Alike) -> Vec<LanePair> {
    let mut pairing = Pairing { golden, candidate, alike, pairs: Vec::new() };
    let of_kind = |lanes: &Lanes, kind: LaneKind| -> Vec<usize> {
        (0..lanes.lanes.len()).filter(|at| lanes.lanes[*at].kind == kind).collect()
    };
    let mains = of_kind(golden, LaneKind::Main).into_iter().zip(of_kind(candidate, LaneKind::Main));
    mains.for_each(|(g, c)| pairing.add(g, c));
    let mut next = 0;
    while next < pairing.pairs.len() {
        pairing.add_children(next);
        next += 1;
    }
    pairing.add_rest();
    let Pairing { mut pairs, .. } = pairing;
    // In the order of the golden, what only the candidate has behind it.
    pairs.sort_by_key(|pair| (pair.golden.is_none(), pair.golden, pair.candidate));
    pairs
}

struct Pairing<'l> {
    golden: &'l Lanes,
    candidate: &'l Lanes,
    alike: &'l dyn Alike,
    pairs: Vec<LanePair>,
}

impl Pairing<'_> {
    fn add(&mut self, golden: usize, candidate: usize) {
        let (mine, theirs) = (&self.golden.lanes[golden], &self.candidate.lanes[candidate]);
        let turns = match asks_no_model(mine) && asks_no_model(theirs) {
            true => self.calls(golden, candidate),
            false => align_turns(&mine.turns, &theirs.turns),
        };
        self.pairs.push(LanePair { golden: Some(golden), candidate: Some(candidate), turns });
    }

    /// Calls that ask no model have no history and no order: they meet by what they say.
    fn calls(&self, golden: usize, candidate: usize) -> Vec<Row> {
        let count = |lanes: &Lanes, lane: usize| lanes.lanes[lane].turns.len();
        let mut mine: Vec<usize> = (0..count(self.golden, golden)).collect();
        let mut theirs: Vec<usize> = (0..count(self.candidate, candidate)).collect();
        let mut by_body: HashMap<u64, Vec<usize>> = HashMap::new();
        for c in theirs.iter().rev() {
            by_body.entry(self.alike.body(1, (candidate, *c))).or_default().push(*c);
        }
        let mut same = |g: usize| by_body.get_mut(&self.alike.body(0, (golden, g))).and_then(Vec::pop);
        let mut met: Vec<(usize, usize)> = mine.iter().filter_map(|g| Some((*g, same(*g)?))).collect();
        let (g_met, c_met): (HashSet<usize>, HashSet<usize>) = met.iter().copied().unzip();
        mine.retain(|g| !g_met.contains(g));
        theirs.retain(|c| !c_met.contains(c));
        let rest = match mine.len().saturating_mul(theirs.len()) > LARGEST {
            true => mine.iter().copied().zip(theirs.iter().copied()).collect(),
            false => best_pairs(&mine, &theirs, |g, c| 2 + self.alike.likeness((golden, g), (candidate, c))),
        };
        met.extend(rest);
        let is_alone = |at: &usize, of: fn(&(usize, usize)) -> usize| met.iter().all(|row| of(row) != *at);
        let alone = mine.iter().filter(|g| is_alone(g, |row| row.0)).map(|g| (Some(*g), None));
        let others = theirs.iter().filter(|c| is_alone(c, |row| row.1)).map(|c| (None, Some(*c)));
        let met = met.iter().map(|(g, c)| (Some(*g), Some(*c)));
        let mut rows: Vec<Row> = met.chain(alone).chain(others).collect();
        rows.sort_unstable_by_key(|(g, c)| (g.is_none(), *g, *c));
        rows
    }

    fn add_children(&mut self, number: usize) {
        let LanePair { golden: Some(g), candidate: Some(c), turns } = self.pairs[number].clone() else {
            return;
        };
        let (g_parent, c_parent) = (&self.golden.lanes[g], &self.candidate.lanes[c]);
        let children = |lanes: &Lanes, parent: &Lane| -> Vec<usize> {
            let is_child = |lane: &Lane| {
                lane.parent.as_ref() == Some(&parent.id)
                    && matches!(lane.kind, LaneKind::Sub | LaneKind::Fork)
            };
            (0..lanes.lanes.len()).filter(|at| is_child(&lanes.lanes[*at])).collect()
        };
        let (mine, theirs) = (children(self.golden, g_parent), children(self.candidate, c_parent));
        let spawns = Spawns { golden: g_parent, candidate: c_parent, turns: &turns };
        let score = |g: usize, c: usize| spawns.score(&self.golden.lanes[g], &self.candidate.lanes[c]);
        for (g, c) in best_pairs(&mine, &theirs, score) {
            self.add(g, c);
        }
    }

    /// Agents that nobody is known to have started, and side calls; then what has no counterpart.
    fn add_rest(&mut self) {
        let alike = |g: usize, c: usize| self.alike.likeness((g, 0), (c, 0));
        let free = |lanes: &Lanes, taken: HashSet<usize>, side: bool| -> Vec<usize> {
            let fits = |at: &usize| !taken.contains(at) && (lanes.lanes[*at].kind == LaneKind::Side) == side;
            (0..lanes.lanes.len()).filter(fits).collect()
        };
        for (side, strays) in [(false, false), (false, true), (true, false), (true, true)] {
            let g_taken = self.pairs.iter().filter_map(|pair| pair.golden).collect();
            let c_taken = self.pairs.iter().filter_map(|pair| pair.candidate).collect();
            let (mine, theirs) = (free(self.golden, g_taken, side), free(self.candidate, c_taken, side));
            let score = |g: usize, c: usize| {
                let (a, b) = (&self.golden.lanes[g], &self.candidate.lanes[c]);
                // A side call that says the same, or goes to nearly the same address, was meant to be the same.
                if side && strays {
                    return 2 * u32::from(are_nearly_same(&a.agent_type, &b.agent_type))
                        + 3 * u32::from(self.alike.say_the_same((g, 0), (c, 0)));
                }
                // An agent whose prompt changed is no longer known by the call that started it.
                if strays {
                    return 2 * alike(g, c);
                }
                if a.kind != b.kind || a.parent.is_some() != b.parent.is_some() {
                    return 0;
                }
                let named =
                    u32::from(a.agent_type == b.agent_type) + 2 * u32::from(a.spawned_by == b.spawned_by);
                if side && a.agent_type != b.agent_type { 0 } else { named + alike(g, c) }
            };
            for (g, c) in best_pairs(&mine, &theirs, score) {
                self.add(g, c);
            }
        }
        for g in 0..self.golden.lanes.len() {
            if !self.pairs.iter().any(|pair| pair.golden == Some(g)) {
                let turns = (0..self.golden.lanes[g].turns.len()).map(|turn| (Some(turn), None)).collect();
                self.pairs.push(LanePair { golden: Some(g), candidate: None, turns });
            }
        }
        for c in 0..self.candidate.lanes.len() {
            if !self.pairs.iter().any(|pair| pair.candidate == Some(c)) {
                let turns = (0..self.candidate.lanes[c].turns.len()).map(|turn| (None, Some(turn))).collect();
                self.pairs.push(LanePair { golden: None, candidate: Some(c), turns });
            }
        }
    }
}

/// Whether a lane is made of calls that ask no model: each stands for itself.
fn asks_no_model(lane: &Lane) -> bool {
    lane.kind == LaneKind::Side && lane.agent_type.is_some() && lane.spawned_by.is_none()
}

/// Whether two names share two thirds of their letters, at the beginning and at the end.
fn are_nearly_same(golden: &Option<String>, candidate: &Option<String>) -> bool {
    let (Some(golden), Some(candidate)) = (golden, candidate) else { return false };
    let (g, c) = (golden.as_bytes(), candidate.as_bytes());
    let head = g.iter().zip(c).take_while(|(g, c)| g == c).count();
    let tail = g[head..].iter().rev().zip(c[head..].iter().rev()).take_while(|(g, c)| g == c).count();
    3 * (head + tail) >= 2 * g.len().max(c.len())
}

/// Two parents, whose calls started agents.
struct Spawns<'l> {
    golden: &'l Lane,
    candidate: &'l Lane,
    turns: &'l [Row],
}

impl Spawns<'_> {
    fn score(&self, golden: &Lane, candidate: &Lane) -> u32 {
        if golden.kind != candidate.kind {
            return 0;
        }
        let place = |parent: &Lane, lane: &Lane| spawn_place(parent, lane);
        let (mine, theirs) = (place(self.golden, golden), place(self.candidate, candidate));
        let (Some(mine), Some(theirs)) = (mine, theirs) else {
            // The call that started one of them is not known: its parent is what speaks for it.
            return 2 + u32::from(golden.agent_type == candidate.agent_type);
        };
        let call = |parent: &'_ Lane, (turn, at): (usize, usize)| parent.turns[turn].calls[at].clone();
        let (my_call, their_call) = (call(self.golden, mine), call(self.candidate, theirs));
        8 * u32::from(my_call.id == their_call.id)
            + 4 * u32::from(my_call.input == their_call.input)
            + 2 * u32::from(golden.agent_type == candidate.agent_type)
            + 2 * u32::from(self.turns.contains(&(Some(mine.0), Some(theirs.0))))
            + u32::from(mine.1 == theirs.1)
    }
}

/// The turn of the parent that made the call, and the call's place in it.
pub(super) fn spawn_place(parent: &Lane, lane: &Lane) -> Option<(usize, usize)> {
    let call = lane.spawned_by.as_ref()?;
    let place = |(turn, of): (usize, &Turn)| Some((turn, of.calls.iter().position(|made| made.id == *call)?));
    parent.turns.iter().enumerate().find_map(place)
}

/// The best pairs first, each lane once; those of which nothing speaks for each other stay alone.
fn best_pairs(mine: &[usize], theirs: &[usize], score: impl Fn(usize, usize) -> u32) -> Vec<(usize, usize)> {
    let mut all = Vec::new();
    for (g_at, g) in mine.iter().enumerate() {
        for (c_at, c) in theirs.iter().enumerate() {
            let points = score(*g, *c);
            if points > 1 {
                all.push((std::cmp::Reverse(points), g_at.abs_diff(c_at), g_at, *g, *c));
            }
        }
    }
    all.sort_unstable();
    let (mut g_taken, mut c_taken) = (HashSet::new(), HashSet::new());
    let mut pairs = Vec::new();
    for (_, _, _, g, c) in all {
        if !g_taken.contains(&g) && !c_taken.contains(&c) {
            g_taken.insert(g);
            c_taken.insert(c);
            pairs.push((g, c));
        }
    }
    pairs.sort_unstable();
    pairs
}

/// Turns meet by what led to them: the calls that were made before, and what came unasked.
fn align_turns(golden: &[Turn], candidate: &[Turn]) -> Vec<Row> {
    let led = |turns: &[Turn], at: usize| -> (Vec<(String, String)>, usize) {
        let before = at.checked_sub(1).map(|before| &turns[before].calls[..]).unwrap_or_default();
        let calls = before.iter().map(|call| (call.id.as_str().to_owned(), call.name.clone())).collect();
        (calls, turns[at].texts.len())
    };
    let mine: Vec<_> = (0..golden.len()).map(|at| led(golden, at)).collect();
    let theirs: Vec<_> = (0..candidate.len()).map(|at| led(candidate, at)).collect();
    let score = |g: usize, c: usize| {
        let ((my_calls, my_texts), (their_calls, their_texts)) = (&mine[g], &theirs[c]);
        let names =
            |calls: &[(String, String)]| calls.iter().map(|(_, name)| name.clone()).collect::<Vec<_>>();
        1 + 4 * u32::from(my_calls == their_calls)
            + 2 * u32::from(names(my_calls) == names(their_calls))
            + u32::from(my_texts == their_texts)
            + u32::from(my_calls.is_empty() == their_calls.is_empty())
            + 2 * u32::from((g == 0) == (c == 0))
    };
    align(golden.len(), candidate.len(), |g, c| mine[g] == theirs[c], score)
}
