//! One lane of the golden and its counterpart, turn by turn.
//!
//! A request repeats the history of its lane. What was compared once is remembered by its digests, so each turn is
//! judged by what is new in it, and a history that one side rewrites shows as a new pair, once.

use std::collections::{HashMap, HashSet};

use recording::lanes::Turn;
use session::RequestId;

use super::compare::{Comparison, hashed};
use super::found::Spot;
use super::jobs::JobWords;
use super::judge::At;
use super::levels;
use super::unit::{HOLE, Kind, Projected, Unit};
use crate::verdict::{Level, Surface};

/// A lane while it is compared.
pub(super) struct LaneWork<'w> {
    /// Its number among the pairs.
    pub(super) number: usize,
    /// What it is called in differences.
    pub(super) name: &'w str,
    /// The words by which jobs are named, the golden's and the candidate's.
    pub(super) jobs: [JobWords; 2],
    /// How often a pair of digests stood in one request, at most.
    pub(super) pairs: HashMap<(u64, u64), usize>,
    /// How the turn before was laid out, results aside, by digests.
    pub(super) rows: Vec<(Option<u64>, Option<u64>)>,
    alone: [HashMap<u64, usize>; 2],
    pub(super) named: HashSet<(Kind, String, u64, u64)>,
    pub(super) markers: HashSet<(String, Option<String>, Option<String>)>,
    pub(super) orders: HashSet<Vec<String>>,
    /// The tools of calls, by the calls' ids.
    pub(super) tools: HashMap<String, String>,
    /// The requests of the turn that is being compared.
    pub(super) at_hand: [Option<RequestId>; 2],
}

/// How often things stand in the request at hand.
#[derive(Default)]
pub(super) struct Standing {
    pairs: HashMap<(u64, u64), usize>,
    alone: [HashMap<u64, usize>; 2],
}

impl<'w> LaneWork<'w> {
    pub(super) fn new(number: usize, name: &'w str, jobs: [JobWords; 2]) -> Self {
        Self {
            number,
            name,
            jobs,
            pairs: HashMap::new(),
            rows: Vec::new(),
            alone: Default::default(),
            named: HashSet::new(),
            markers: HashSet::new(),
            orders: HashSet::new(),
            tools: HashMap::new(),
            at_hand: Default::default(),
        }
    }

    /// The surface of a unit, as a side sees it.
    pub(super) fn surface(&self, side: usize, unit: &Unit, of: &Projected) -> Surface {
        match unit.kind {
            Kind::System | Kind::Reply => Surface::Prompt,
            Kind::Said if unit.late && self.jobs[side].announced(&of.raw(unit)) => Surface::Jobs,
            Kind::Said => Surface::Prompt,
            Kind::Call => Surface::Calls,
            Kind::Result if self.jobs[side].answers(unit.call.as_deref()) => Surface::Jobs,
            Kind::Result => Surface::Results,
            Kind::Tool => Surface::Tools,
            Kind::Model | Kind::Setting | Kind::Header => Surface::Settings,
            Kind::Line | Kind::Identity => Surface::Routing,
        }
    }

    /// Whether this pair has been judged at an earlier turn.
    pub(super) fn is_known(&mut self, golden: &Unit, candidate: &Unit, standing: &mut Standing) -> bool {
        let key = (golden.hash, candidate.hash);
        let here = standing.pairs.entry(key).or_default();
        *here += 1;
        let most = self.pairs.entry(key).or_default();
        let known = *here <= *most;
        *most = (*most).max(*here);
        known
    }

    pub(super) fn is_known_alone(&mut self, side: usize, unit: &Unit, standing: &mut Standing) -> bool {
        let here = standing.alone[side].entry(unit.hash).or_default();
        *here += 1;
        let most = self.alone[side].entry(unit.hash).or_default();
        let known = *here <= *most;
        *most = (*most).max(*here);
        known
    }

    /// Whether the lines of a result may come in any order: what a search brings.
    pub(super) fn any_order(&self, unit: &Unit) -> bool {
        let tool = unit.call.as_ref().and_then(|call| self.tools.get(call));
        unit.kind == Kind::Result && tool.is_some_and(|tool| is_search(tool))
    }
}

/// Whether a tool's name has the word for a search in it, as in `WebSearch` or `list_files`.
fn is_search(tool: &str) -> bool {
    let mut words = vec![String::new()];
    let mut was_small = false;
    for letter in tool.chars() {
        if !letter.is_alphanumeric() || (letter.is_uppercase() && was_small) {
            words.push(String::new());
        }
        was_small = letter.is_lowercase();
        let word = words.last_mut().expect("there is one from the start");
        word.extend(letter.to_lowercase().filter(|letter| letter.is_alphanumeric()));
    }
    words.iter().any(|word| ["grep", "glob", "list", "search", "ls"].contains(&word.as_str()))
}

impl Comparison<'_> {
    /// Compares a turn that both have: its attempts in pairs, counted from the last, which is the one that counts.
    pub(super) fn turn(&mut self, lane: &mut LaneWork<'_>, golden: &Turn, candidate: &Turn) {
        self.tally.counts(lane.number, Surface::Calls).echoed += u64::from(golden.whole);
        let tries = golden.attempts.len();
        let pairs = golden.attempts.iter().rev().zip(candidate.attempts.iter().rev());
        for (back, (mine, theirs)) in pairs.enumerate().collect::<Vec<_>>().into_iter().rev() {
            lane.at_hand = [mine, theirs].map(|id| Some(id.clone()));
            let before = self.differences.len();
            self.attempt(lane, golden.turn, [mine, theirs]);
            if back > 0 {
                let which = format!(", in attempt {} of {tries}", tries - back);
                self.differences[before..].iter_mut().for_each(|(_, it)| it.description.push_str(&which));
            }
        }
    }

    fn attempt(&mut self, lane: &mut LaneWork<'_>, turn: u32, ids: [&RequestId; 2]) {
        let loaded = (self.load(0, ids[0]), self.load(1, ids[1]));
        let (Some(g), Some(c)) = loaded else {
            return self.unreadable(lane, turn, loaded.0.is_some());
        };
        let before = self.differences.len();
        self.named(lane, turn, &g, &c);
        let clean = self.parts(lane, turn, &g, &c);
        if g.frame != c.frame && !self.askew {
            self.frames(lane, turn, ids);
        }
        let silent = clean && self.differences.len() == before;
        if silent && g.body != c.body && !self.uneven {
            self.spelling(lane, turn, ids);
        }
        (self.uneven, self.askew) = (false, false);
    }

    /// A turn that only one side has: what it brings, surface by surface.
    pub(super) fn lonely_turn(&mut self, lane: &mut LaneWork<'_>, side: usize, turn: &Turn) {
        let Some(projected) = turn.attempts.last().and_then(|id| self.load(side, id)) else { return };
        let mut standing = Standing::default();
        let mut brought: HashMap<Surface, (usize, String)> = HashMap::new();
        for unit in projected.parts.iter().filter(|unit| unit.kind != Kind::Reply) {
            if lane.is_known_alone(side, unit, &mut standing) || lane.was_paired(side, unit.hash) {
                continue;
            }
            let surface = lane.surface(side, unit, &projected);
            brought.entry(surface).or_insert((0, unit.pointer.clone())).0 += 1;
        }
        let mut brought: Vec<_> = brought.into_iter().collect();
        brought.sort_unstable();
        for (surface, (count, pointer)) in brought {
            let counts = self.tally.counts(lane.number, surface);
            if side == 0 {
                counts.compared += count as u64
            } else {
                counts.absent += count as u64
            }
            let things = format!("{count} {}", if count == 1 { "unit" } else { "units" });
            let what = match side {
                0 => format!("only the golden has this turn, which brings {things}"),
                _ => format!("only the candidate has this turn, which brings {things}"),
            };
            let spot = Spot { surface, lane: lane.name, turn: turn.turn };
            let [golden, candidate] =
                if side == 0 { [Some(things.as_str()), None] } else { [None, Some(things.as_str())] };
            let difference = spot.structural(levels::UNPAIRED, &pointer, what, golden, candidate);
            if !self.excluded(lane.number, surface, &pointer) {
                self.differ(lane.number, difference);
            }
        }
    }

    fn unreadable(&mut self, lane: &LaneWork<'_>, turn: u32, golden_is_there: bool) {
        let whose = if golden_is_there { "candidate" } else { "golden" };
        let spot = Spot { surface: Surface::Routing, lane: lane.name, turn };
        let what = format!("the {whose}'s request cannot be read");
        let difference = spot.difference(levels::UNPAIRED, "", what, None, None);
        self.differ(lane.number, difference);
    }

    /// What is around the units, where each has its counterpart: a value that differs there is nobody's else.
    fn frames(&mut self, lane: &mut LaneWork<'_>, turn: u32, ids: [&RequestId; 2]) {
        let frames = [0, 1].map(|side| self.sides[side].requests.request(ids[side]));
        let [Some(g), Some(c)] = frames.map(|asked| Projected::frame_of(&asked?)) else { return };
        let surface = Surface::Settings;
        let at = At {
            surface,
            kind: Kind::Setting,
            key: "",
            lane: lane.name,
            turn,
            pointer: "",
            any_order: false,
            as_said: false,
        };
        let judged = self.judge.compare(&at, &g, &c);
        self.uneven |= judged.excluded || !judged.leaves.is_empty();
        self.tally.counts(lane.number, surface).excluded += u64::from(judged.excluded);
        let folded = format!("[{HOLE}]");
        for leaf in judged.leaves {
            let (mine, theirs) = (leaf.golden.as_deref(), leaf.candidate.as_deref());
            if !lane.named.insert((Kind::Setting, leaf.pointer.clone(), hashed(mine), hashed(theirs))) {
                continue;
            }
            let spot = Spot { surface, lane: lane.name, turn };
            let is_text = |value: Option<&str>| value == Some(HOLE) || value == Some(&folded);
            if is_text(mine) && is_text(theirs) {
                let what = "the same text in another form";
                let difference = spot.structural(Some(Level::E3), &leaf.pointer, what, None, None);
                self.differ(lane.number, difference);
            } else {
                self.differ_outside(lane.number, &spot, &leaf, "what is around the units differs");
            }
        }
    }

    /// All values are equal and the bodies are not: space, the order of members, escapes.
    fn spelling(&mut self, lane: &mut LaneWork<'_>, turn: u32, ids: [&RequestId; 2]) {
        use wire::difference::Difference as Found;
        let (g, c) = (self.body(0, ids[0]), self.body(1, ids[1]));
        let (pointer, holds, what) = match wire::difference::first_difference(&g, &c) {
            Some(Found::Value { pointer, .. }) => (pointer, Level::E1, "what is around the units differs"),
            Some(Found::Spelling { pointer, .. }) => {
                (pointer, Level::E3, "the same value, written in other bytes")
            }
            _ => (String::new(), Level::E1, "what is around the units differs"),
        };
        let spot = Spot { surface: Surface::Settings, lane: lane.name, turn };
        let difference = spot.structural(Some(holds), &pointer, what, None, None);
        if !self.excluded(lane.number, Surface::Settings, &pointer) {
            self.differ(lane.number, difference);
        }
    }
}

impl LaneWork<'_> {
    fn was_paired(&self, side: usize, hash: u64) -> bool {
        self.pairs
            .keys()
            .any(|(golden, candidate)| if side == 0 { *golden == hash } else { *candidate == hash })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_is_known_by_a_whole_word_of_its_name() {
        for tool in ["Grep", "glob", "ls", "LS", "list_files", "WebSearch", "mcp__notes__search", "file-list"]
        {
            assert!(is_search(tool), "{tool}");
        }
        for tool in ["details", "skills", "models", "checklist", "Read", "LSP", "todolist", "research"] {
            assert!(!is_search(tool), "{tool}");
        }
    }
}
