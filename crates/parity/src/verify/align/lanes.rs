//! Alignment of lanes and turns.
//!
//! Lanes are aligned by their place in the tree: the same parent, and the same call that started them. Their numbers
//! only say which came first, so they are ignored. Siblings that were started together are aligned by their prompts.

use std::collections::{HashMap, HashSet};

use recording::lanes::{Lane, LaneKind, Lanes, Turn};

use super::sequence::align_sequences;
use super::similarity::{RequestSimilarity, UnitSimilarity};
use crate::verify::project::ProjectedRecording;
use crate::verify::row::Row;

/// A lane of the golden and its counterpart. One of them may be missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::verify) struct LanePair {
    /// Indices of the lanes, the golden's first.
    pub(in crate::verify) lanes: [Option<usize>; 2],
    /// The alignment of their turns.
    pub(in crate::verify) turns: Vec<Row>,
}

/// Both recordings and the alignment of their lanes.
pub(in crate::verify) struct PairedRecordings<'c> {
    /// The golden and the candidate.
    pub(in crate::verify) sides: [ProjectedRecording<'c>; 2],
    pub(in crate::verify) pairs: Vec<LanePair>,
}

impl<'c> PairedRecordings<'c> {
    /// Aligns the lanes and turns of two recordings.
    pub(in crate::verify) fn align(sides: [ProjectedRecording<'c>; 2]) -> Self {
        let similarity = UnitSimilarity::new(&sides);
        let pairs = align_lanes(sides[0].lanes(), sides[1].lanes(), &similarity);
        Self { pairs, sides }
    }

    /// Returns one side's lane of a pair.
    pub(in crate::verify) fn lane(&self, side: usize, pair: usize) -> Option<&'c Lane> {
        self.pairs[pair].lanes[side].map(|at| self.sides[side].lane(at))
    }

    /// Returns the golden's lane of a pair, or the candidate's if there is none.
    pub(in crate::verify) fn first_lane(&self, pair: usize) -> &'c Lane {
        self.lane(0, pair).or_else(|| self.lane(1, pair)).expect("a pair has a lane")
    }

    /// Returns the other side's name of a lane.
    pub(in crate::verify) fn counterpart(&self, side: usize, lane: &str) -> Option<String> {
        let at = self.sides[side].lanes().lanes.iter().position(|other| other.id == lane)?;
        let pair = self.pairs.iter().find(|pair| pair.lanes[side] == Some(at))?;
        pair.lanes[1 - side].map(|at| self.sides[1 - side].lane(at).id.clone())
    }

    /// Returns whether either recording has a lane that is no side call.
    pub(in crate::verify) fn have_agents(&self) -> bool {
        self.sides.iter().any(|side| side.lanes().lanes.iter().any(|lane| lane.kind != LaneKind::Side))
    }
}

/// Limit for comparing all side calls with each other. More are paired in order.
const MAX_COMPARISONS: usize = 10_000;

/// Aligns the lanes of two recordings. Pairs are in the golden's order, followed by lanes of the candidate alone.
fn align_lanes(golden: &Lanes, candidate: &Lanes, similarity: &dyn RequestSimilarity) -> Vec<LanePair> {
    let mut aligner = LaneAligner { golden, candidate, similarity, pairs: Vec::new() };
    let of_kind = |lanes: &Lanes, kind: LaneKind| -> Vec<usize> {
        (0..lanes.lanes.len()).filter(|at| lanes.lanes[*at].kind == kind).collect()
    };
    let mains = of_kind(golden, LaneKind::Main).into_iter().zip(of_kind(candidate, LaneKind::Main));
    mains.for_each(|(g, c)| aligner.add(g, c));
    let mut next = 0;
    while next < aligner.pairs.len() {
        aligner.add_children(next);
        next += 1;
    }
    aligner.add_similar();
    aligner.add_unpaired();
    let LaneAligner { mut pairs, .. } = aligner;
    pairs.sort_by_key(|pair| (pair.lanes[0].is_none(), pair.lanes));
    pairs
}

struct LaneAligner<'l> {
    golden: &'l Lanes,
    candidate: &'l Lanes,
    similarity: &'l dyn RequestSimilarity,
    pairs: Vec<LanePair>,
}

impl LaneAligner<'_> {
    fn add(&mut self, golden: usize, candidate: usize) {
        let (mine, theirs) = (&self.golden.lanes[golden], &self.candidate.lanes[candidate]);
        let turns = match has_no_model(mine) && has_no_model(theirs) {
            true => self.align_calls(golden, candidate),
            false => align_turns(&mine.turns, &theirs.turns),
        };
        self.pairs.push(LanePair { lanes: [Some(golden), Some(candidate)], turns });
    }

    /// Aligns calls without a model by their content, because they have no history and no order.
    fn align_calls(&self, golden: usize, candidate: usize) -> Vec<Row> {
        let count = |lanes: &Lanes, lane: usize| lanes.lanes[lane].turns.len();
        let mut mine: Vec<usize> = (0..count(self.golden, golden)).collect();
        let mut theirs: Vec<usize> = (0..count(self.candidate, candidate)).collect();
        let mut by_body: HashMap<u64, Vec<usize>> = HashMap::new();
        for c in theirs.iter().rev() {
            by_body.entry(self.similarity.body(1, (candidate, *c))).or_default().push(*c);
        }
        let mut same = |g: usize| by_body.get_mut(&self.similarity.body(0, (golden, g))).and_then(Vec::pop);
        let mut pairs: Vec<(usize, usize)> = mine.iter().filter_map(|g| Some((*g, same(*g)?))).collect();
        let (g_paired, c_paired): (HashSet<usize>, HashSet<usize>) = pairs.iter().copied().unzip();
        mine.retain(|g| !g_paired.contains(g));
        theirs.retain(|c| !c_paired.contains(c));
        let rest = match mine.len().saturating_mul(theirs.len()) > MAX_COMPARISONS {
            true => mine.iter().copied().zip(theirs.iter().copied()).collect(),
            false => {
                best_pairs(&mine, &theirs, |g, c| 2 + self.similarity.similarity((golden, g), (candidate, c)))
            }
        };
        pairs.extend(rest);
        let is_alone = |at: &usize, of: fn(&(usize, usize)) -> usize| pairs.iter().all(|row| of(row) != *at);
        let alone = mine.iter().filter(|g| is_alone(g, |row| row.0)).map(|g| (Some(*g), None));
        let others = theirs.iter().filter(|c| is_alone(c, |row| row.1)).map(|c| (None, Some(*c)));
        let pairs = pairs.iter().map(|(g, c)| (Some(*g), Some(*c)));
        let mut rows: Vec<Row> = pairs.chain(alone).chain(others).collect();
        rows.sort_unstable_by_key(|(g, c)| (g.is_none(), *g, *c));
        rows
    }

    fn add_children(&mut self, number: usize) {
        let LanePair { lanes: [Some(g), Some(c)], turns } = self.pairs[number].clone() else { return };
        let (g_parent, c_parent) = (&self.golden.lanes[g], &self.candidate.lanes[c]);
        let children = |lanes: &Lanes, parent: &Lane| -> Vec<usize> {
            let is_child = |lane: &Lane| {
                lane.parent.as_ref() == Some(&parent.id)
                    && matches!(lane.kind, LaneKind::Sub | LaneKind::Fork)
            };
            (0..lanes.lanes.len()).filter(|at| is_child(&lanes.lanes[*at])).collect()
        };
        let (mine, theirs) = (children(self.golden, g_parent), children(self.candidate, c_parent));
        let parents = ParentPair { golden: g_parent, candidate: c_parent, turns: &turns };
        let score = |g: usize, c: usize| parents.score(&self.golden.lanes[g], &self.candidate.lanes[c]);
        for (g, c) in best_pairs(&mine, &theirs, score) {
            self.add(g, c);
        }
    }

    /// Pairs agents without a known parent, and side calls, by their similarity.
    fn add_similar(&mut self) {
        // First those of the same kind and name, then whatever is similar enough.
        for (is_side, is_loose) in [(false, false), (false, true), (true, false), (true, true)] {
            let mine = self.unpaired(0, |lane| (lane.kind == LaneKind::Side) == is_side);
            let theirs = self.unpaired(1, |lane| (lane.kind == LaneKind::Side) == is_side);
            let score = |g: usize, c: usize| match (is_side, is_loose) {
                // A side call with the same words, or nearly the same address, has the same purpose.
                (true, true) => {
                    let names = [&self.golden.lanes[g].agent_type, &self.candidate.lanes[c].agent_type];
                    2 * u32::from(are_nearly_equal(names))
                        + 3 * u32::from(self.similarity.have_same_words((g, 0), (c, 0)))
                }
                // An agent with a changed prompt is not recognised by the call that started it.
                (false, true) => 2 * self.similarity.similarity((g, 0), (c, 0)),
                (_, false) => self.strict_score(g, c, is_side),
            };
            for (g, c) in best_pairs(&mine, &theirs, score) {
                self.add(g, c);
            }
        }
    }

    fn strict_score(&self, g: usize, c: usize, is_side: bool) -> u32 {
        let (a, b) = (&self.golden.lanes[g], &self.candidate.lanes[c]);
        if a.kind != b.kind || a.parent.is_some() != b.parent.is_some() {
            return 0;
        }
        if is_side && a.agent_type != b.agent_type {
            return 0;
        }
        let names = u32::from(a.agent_type == b.agent_type) + 2 * u32::from(a.spawned_by == b.spawned_by);
        names + self.similarity.similarity((g, 0), (c, 0))
    }

    fn add_unpaired(&mut self) {
        for side in [0, 1] {
            for at in self.unpaired(side, |_| true) {
                let turns = 0..[self.golden, self.candidate][side].lanes[at].turns.len();
                self.pairs.push(match side {
                    0 => LanePair {
                        lanes: [Some(at), None],
                        turns: turns.map(|it| (Some(it), None)).collect(),
                    },
                    _ => LanePair {
                        lanes: [None, Some(at)],
                        turns: turns.map(|it| (None, Some(it))).collect(),
                    },
                });
            }
        }
    }

    fn unpaired(&self, side: usize, fits: impl Fn(&Lane) -> bool) -> Vec<usize> {
        let lanes = &[self.golden, self.candidate][side].lanes;
        let paired: HashSet<usize> = self.pairs.iter().filter_map(|pair| pair.lanes[side]).collect();
        (0..lanes.len()).filter(|at| !paired.contains(at) && fits(&lanes[*at])).collect()
    }
}

/// Returns whether a lane consists of calls that ask no model. Each of them is independent.
fn has_no_model(lane: &Lane) -> bool {
    lane.kind == LaneKind::Side && lane.agent_type.is_some() && lane.spawned_by.is_none()
}

/// Returns whether two names share two thirds of their letters, at the start and at the end.
fn are_nearly_equal([golden, candidate]: [&Option<String>; 2]) -> bool {
    let (Some(golden), Some(candidate)) = (golden, candidate) else { return false };
    let (g, c) = (golden.as_bytes(), candidate.as_bytes());
    let head = g.iter().zip(c).take_while(|(g, c)| g == c).count();
    let tail = g[head..].iter().rev().zip(c[head..].iter().rev()).take_while(|(g, c)| g == c).count();
    3 * (head + tail) >= 2 * g.len().max(c.len())
}

/// Two aligned lanes whose calls started agents.
struct ParentPair<'l> {
    golden: &'l Lane,
    candidate: &'l Lane,
    turns: &'l [Row],
}

impl ParentPair<'_> {
    fn score(&self, golden: &Lane, candidate: &Lane) -> u32 {
        if golden.kind != candidate.kind {
            return 0;
        }
        let places = (spawn_place(self.golden, golden), spawn_place(self.candidate, candidate));
        let (Some(mine), Some(theirs)) = places else {
            // The call that started one of them is unknown, but they have the same parent.
            return 2 + u32::from(golden.agent_type == candidate.agent_type);
        };
        let my_call = &self.golden.turns[mine.0].calls[mine.1];
        let their_call = &self.candidate.turns[theirs.0].calls[theirs.1];
        8 * u32::from(my_call.id == their_call.id)
            + 4 * u32::from(my_call.input == their_call.input)
            + 2 * u32::from(golden.agent_type == candidate.agent_type)
            + 2 * u32::from(self.turns.contains(&(Some(mine.0), Some(theirs.0))))
            + u32::from(mine.1 == theirs.1)
    }
}

/// Returns the parent's turn that made the call which started a lane, and the index of the call in it.
pub(in crate::verify) fn spawn_place(parent: &Lane, lane: &Lane) -> Option<(usize, usize)> {
    let call = lane.spawned_by.as_ref()?;
    let place = |(turn, of): (usize, &Turn)| Some((turn, of.calls.iter().position(|made| made.id == *call)?));
    parent.turns.iter().enumerate().find_map(place)
}

/// Returns the pairs with the highest scores, each index once. A score below 2 is no reason for a pair.
fn best_pairs(mine: &[usize], theirs: &[usize], score: impl Fn(usize, usize) -> u32) -> Vec<(usize, usize)> {
    let mut scored = Vec::new();
    for (g_at, g) in mine.iter().enumerate() {
        for (c_at, c) in theirs.iter().enumerate() {
            let points = score(*g, *c);
            if points > 1 {
                scored.push((std::cmp::Reverse(points), g_at.abs_diff(c_at), g_at, *g, *c));
            }
        }
    }
    scored.sort_unstable();
    let (mut g_taken, mut c_taken) = (HashSet::new(), HashSet::new());
    let mut pairs = Vec::new();
    for (_, _, _, g, c) in scored {
        if !g_taken.contains(&g) && !c_taken.contains(&c) {
            g_taken.insert(g);
            c_taken.insert(c);
            pairs.push((g, c));
        }
    }
    pairs.sort_unstable();
    pairs
}

/// Aligns turns by their causes: the calls before them, and the texts that came unasked.
fn align_turns(golden: &[Turn], candidate: &[Turn]) -> Vec<Row> {
    let cause = |turns: &[Turn], at: usize| -> (Vec<(String, String)>, usize) {
        let before = at.checked_sub(1).map(|before| &turns[before].calls[..]).unwrap_or_default();
        let calls = before.iter().map(|call| (call.id.as_str().to_owned(), call.name.clone())).collect();
        (calls, turns[at].texts.len())
    };
    let mine: Vec<_> = (0..golden.len()).map(|at| cause(golden, at)).collect();
    let theirs: Vec<_> = (0..candidate.len()).map(|at| cause(candidate, at)).collect();
    let score = |g: usize, c: usize| {
        let ((my_calls, my_texts), (their_calls, their_texts)) = (&mine[g], &theirs[c]);
        let same_names = my_calls.iter().map(|(_, name)| name).eq(their_calls.iter().map(|(_, name)| name));
        1 + 4 * u32::from(my_calls == their_calls)
            + 2 * u32::from(same_names)
            + u32::from(my_texts == their_texts)
            + u32::from(my_calls.is_empty() == their_calls.is_empty())
            + 2 * u32::from((g == 0) == (c == 0))
    };
    align_sequences(golden.len(), candidate.len(), |g, c| mine[g] == theirs[c], score)
}
