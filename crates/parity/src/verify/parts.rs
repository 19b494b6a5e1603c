//! What meets in order: instructions and messages.

use std::collections::HashSet;

use super::carried::differ_in_words_only;
use super::compare::Comparison;
use super::found::{Spot, short};
use super::judge::At;
use super::lane::{LaneWork, Standing};
use super::layout::{lay_out, moved_calls};
use super::unit::{Kind, Projected, Unit};
use crate::verdict::{Level, Surface};

/// What stands in a conversation, as far as its order goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Sort {
    Said,
    Announced,
    Result,
    Call,
    Reply,
}

impl Sort {
    const ALL: [Self; 5] = [Self::Said, Self::Announced, Self::Result, Self::Call, Self::Reply];

    fn of(lane: &LaneWork<'_>, unit: &Unit, of: &Projected) -> Self {
        match unit.kind {
            Kind::Call => Self::Call,
            Kind::Reply => Self::Reply,
            Kind::Result => Self::Result,
            _ if lane.surface(0, unit, of) == Surface::Jobs => Self::Announced,
            _ => Self::Said,
        }
    }

    fn in_words(self) -> &'static str {
        match self {
            Self::Said => "what is said",
            Self::Announced => "what is announced",
            Self::Result => "a result",
            Self::Call => "a call",
            Self::Reply => "what the model said",
        }
    }
}

impl Comparison<'_> {
    /// Instructions and messages. Returns whether nothing was left aside that may differ.
    pub(super) fn parts(&mut self, lane: &mut LaneWork<'_>, turn: u32, g: &Projected, c: &Projected) -> bool {
        for unit in g.parts.iter().filter(|unit| unit.kind == Kind::Call) {
            let call = unit.call.clone().unwrap_or_default();
            lane.tools.entry(call).or_insert_with(|| unit.key.clone());
        }
        let rows = lay_out(lane, g, c);
        let moved = moved_calls(&rows, g);
        let alone = [
            rows.iter().filter(|row| row.1.is_none()).filter_map(|row| row.0).collect::<HashSet<_>>(),
            rows.iter().filter(|row| row.0.is_none()).filter_map(|row| row.1).collect::<HashSet<_>>(),
        ];
        let mut standing = Standing::default();
        let mut met: Vec<(usize, usize)> = Vec::new();
        let mut fresh: Vec<(usize, usize)> = Vec::new();
        let mut clean = true;
        let mut whole = true;
        for (mine, theirs) in rows {
            match (mine, theirs) {
                (Some(at), Some(other)) => {
                    let (unit, counterpart) = (&g.parts[at], &c.parts[other]);
                    if unit.kind != Kind::Result {
                        let region = region(unit, g.parts.len() - at);
                        self.marker(lane, turn, &region, (unit, g), (counterpart, c));
                    }
                    met.push((at, other));
                    self.uneven |= unit.hash != counterpart.hash || unit.opens != counterpart.opens;
                    self.askew |= unit.opens != counterpart.opens;
                    if lane.is_known(unit, counterpart, &mut standing) {
                        continue;
                    }
                    self.beside(lane, turn, unit, counterpart);
                    if unit.kind == Kind::Reply && g.raw(unit) != c.raw(counterpart) {
                        clean = false;
                        let (mine, theirs) = (g.raw(unit), c.raw(counterpart));
                        if differ_in_words_only(&unit.key, &mine, &theirs)
                            && self.are_as_said(lane, [unit, counterpart])
                        {
                            self.echoed(lane, turn, [Some((unit, g)), Some((counterpart, c))]);
                            continue;
                        }
                    }
                    fresh.push((at, other));
                    let displaced = moved.contains(&at)
                        || is_first_left(&alone[0], at, g)
                        || is_first_left(&alone[1], other, c);
                    self.frame(lane, turn, displaced, (unit, g), (counterpart, c));
                    self.unit(lane, turn, (unit, g), (counterpart, c));
                }
                (Some(at), None) => {
                    let unit = &g.parts[at];
                    (clean, self.askew) = (false, true);
                    whole &= unit.kind != Kind::Result;
                    if !lane.is_known_alone(0, unit, &mut standing) {
                        match unit.kind {
                            Kind::Reply => self.reply_alone(lane, turn, 0, unit, g),
                            _ => self.alone(lane, turn, 0, unit, g),
                        }
                    }
                }
                (None, Some(other)) => {
                    let unit = &c.parts[other];
                    (clean, self.askew) = (false, true);
                    whole &= unit.kind != Kind::Result;
                    if !lane.is_known_alone(1, unit, &mut standing) {
                        match unit.kind {
                            Kind::Reply => self.reply_alone(lane, turn, 1, unit, c),
                            _ => self.alone(lane, turn, 1, unit, c),
                        }
                    }
                }
                (None, None) => {}
            }
        }
        // Results may have changed places; what a request marks, it marks by place.
        let results = |of: &Projected| -> Vec<usize> {
            (0..of.parts.len()).filter(|at| of.parts[*at].kind == Kind::Result).collect()
        };
        // They are counted from the end, where the marker is, for one may be missing.
        let (mine, theirs) = (results(g), results(c));
        let missing = mine.len().saturating_sub(theirs.len());
        let more = theirs.len().saturating_sub(mine.len());
        for (at, other) in mine.into_iter().skip(missing).zip(theirs.into_iter().skip(more)) {
            let region = region(&g.parts[at], g.parts.len() - at);
            self.marker(lane, turn, &region, (&g.parts[at], g), (&c.parts[other], c));
        }
        self.order_of_parts(lane, turn, &met, g, c);
        self.order_of_calls(lane, turn, &met, g, c);
        // Where a result is missing, so is its place.
        if whole {
            self.cuts(lane, turn, &fresh, g, c);
        }
        clean
    }

    /// The order of all that both have, but for calls among themselves; another order is named once.
    fn order_of_parts(
        &mut self,
        lane: &mut LaneWork<'_>,
        turn: u32,
        met: &[(usize, usize)],
        g: &Projected,
        c: &Projected,
    ) {
        let mut met = met.to_vec();
        met.sort_unstable();
        if met.is_sorted_by_key(|(_, other)| *other) {
            return;
        }
        self.uneven = true;
        // Of each sort the one that stands farthest back in the candidate: what comes before it there has moved.
        let mut farthest: [Option<(usize, usize)>; Sort::ALL.len()] = Default::default();
        let mut named = HashSet::new();
        for pair in met {
            let sort = Sort::of(lane, &g.parts[pair.0], g);
            for other in Sort::ALL {
                let before = farthest[other as usize].filter(|before| pair.1 < before.1);
                let Some(before) = before.filter(|_| [sort, other] != [Sort::Call; 2]) else { continue };
                self.askew |= sort != other;
                let hash = |at: usize| g.parts[at].hash.to_string();
                // One of each sort is told of in a request.
                if lane.orders.insert(vec![hash(before.0), hash(pair.0)]) && named.insert([other, sort]) {
                    self.moved(lane, turn, [other, sort], [before, pair], g, c);
                }
            }
            let last = &mut farthest[sort as usize];
            *last = (*last).filter(|last| last.1 > pair.1).or(Some(pair));
        }
    }

    /// Two that have changed places.
    fn moved(
        &mut self,
        lane: &LaneWork<'_>,
        turn: u32,
        sorts: [Sort; 2],
        [early, late]: [(usize, usize); 2],
        g: &Projected,
        c: &Projected,
    ) {
        let units = [&g.parts[early.0], &g.parts[late.0]];
        let surfaces = units.map(|unit| lane.surface(0, unit, g));
        let surface = match surfaces {
            _ if sorts.contains(&Sort::Call) => Surface::Calls,
            all if all.contains(&Surface::Jobs) => Surface::Jobs,
            all if all.contains(&Surface::Results) => Surface::Results,
            _ => Surface::Prompt,
        };
        // What answers one message of the model has nothing but results in it.
        let together = g.parts[early.0..late.0].iter().all(|unit| unit.kind == Kind::Result);
        let promised = self.sides.iter().any(|side| side.facts.promises_order());
        let (holds, what) = match sorts {
            [Sort::Announced, Sort::Announced] => {
                self.note("announcements were compared as a set: jobs end in any order".into());
                (Level::E3, "announcements come in another order, which no harness promises".to_owned())
            }
            [Sort::Result, Sort::Result] if together && !promised => {
                self.note(
                    "results of one message were compared as a set: this harness sends them as they end"
                        .into(),
                );
                (Level::E3, "results come in another order, which this harness does not promise".to_owned())
            }
            [Sort::Result, Sort::Result] => (Level::E1, "results come in another order".to_owned()),
            [Sort::Said, Sort::Said] => (Level::E1, "what is said comes in another order".to_owned()),
            [a, b] => (Level::E1, format!("{} and {} have changed places", a.in_words(), b.in_words())),
        };
        let spot = Spot { surface, lane: lane.name, turn };
        let name = |unit: &Unit, of: &Projected| unit.call.clone().unwrap_or_else(|| short(&of.raw(unit)));
        let (golden, candidate) = (name(units[0], g), name(&c.parts[late.1], c));
        let difference =
            spot.structural(Some(holds), &units[0].pointer, what, Some(&golden), Some(&candidate));
        if !self.excluded(lane.number, surface, &difference.pointer) {
            self.differ(lane.number, difference);
        }
    }

    /// The order of the calls; two that have changed places are named once.
    fn order_of_calls(
        &mut self,
        lane: &mut LaneWork<'_>,
        turn: u32,
        met: &[(usize, usize)],
        g: &Projected,
        c: &Projected,
    ) {
        let mut calls: Vec<(usize, usize)> =
            met.iter().copied().filter(|(at, _)| g.parts[*at].kind == Kind::Call).collect();
        calls.sort_unstable();
        let Some(two) = calls.windows(2).find(|two| two[1].1 < two[0].1) else { return };
        self.uneven = true;
        let (first, second) = (two[0], two[1]);
        let units = [&g.parts[first.0], &g.parts[second.0]];
        if !lane.orders.insert(units.map(|unit| unit.hash.to_string()).to_vec()) {
            return;
        }
        let mut theirs: Vec<usize> = calls.iter().map(|(_, other)| *other).collect();
        theirs.sort_unstable();
        let same_names =
            calls.iter().zip(&theirs).all(|((at, _), other)| g.parts[*at].key == c.parts[*other].key);
        let (holds, what) = match same_names {
            true => (Level::E1, "calls of one name have changed places"),
            false => (Level::E0, "calls come in another order"),
        };
        let spot = Spot { surface: Surface::Calls, lane: lane.name, turn };
        let name = |unit: &Unit| unit.call.clone().unwrap_or_else(|| unit.key.clone());
        let (golden, candidate) = (name(units[0]), name(&c.parts[second.1]));
        let difference =
            spot.structural(Some(holds), &units[0].pointer, what, Some(&golden), Some(&candidate));
        if !self.excluded(lane.number, Surface::Calls, &difference.pointer) {
            self.differ(lane.number, difference);
        }
    }

    /// How many messages bring the results that are new.
    fn cuts(
        &mut self,
        lane: &LaneWork<'_>,
        turn: u32,
        fresh: &[(usize, usize)],
        g: &Projected,
        c: &Projected,
    ) {
        let results: Vec<_> = fresh.iter().filter(|(at, _)| g.parts[*at].kind == Kind::Result).collect();
        let mine = results.iter().filter(|(at, _)| g.parts[*at].opens).count();
        let theirs = results.iter().filter(|(_, other)| c.parts[*other].opens).count();
        let Some((first, _)) = results.first().filter(|_| mine != theirs) else { return };
        let (surface, pointer) = (Surface::Results, g.parts[*first].pointer.clone());
        let spot = Spot { surface, lane: lane.name, turn };
        let words = [mine, theirs].map(|count| format!("opens {count} messages"));
        let what = "results are cut into messages at another place";
        let difference = spot.structural(Some(Level::E1), &pointer, what, Some(&words[0]), Some(&words[1]));
        if !self.excluded(lane.number, surface, &pointer) {
            self.differ(lane.number, difference);
        }
    }

    /// What the model's messages have beside their words; replies may differ, but this is the harness's own.
    fn beside(&mut self, lane: &LaneWork<'_>, turn: u32, unit: &Unit, other: &Unit) {
        let Some(at) = unit.beside.as_ref().or(other.beside.as_ref()) else { return };
        let [mine, theirs] =
            [unit, other].map(|unit| unit.beside.as_ref().map_or("{}", |beside| &beside.json));
        let surface = Surface::Prompt;
        let judge_at = At {
            surface,
            kind: Kind::Reply,
            key: "message",
            lane: lane.name,
            turn,
            pointer: &at.pointer,
            any_order: false,
            as_said: false,
        };
        let judged = self.judge.compare(&judge_at, mine, theirs);
        let spot = Spot { surface, lane: lane.name, turn };
        for leaf in &judged.leaves {
            self.differ_outside(lane.number, &spot, leaf, "what is beside the model's words differs");
        }
    }

    /// In whose name a unit is said, where a message begins, and whether it is a bare string.
    fn frame(
        &mut self,
        lane: &LaneWork<'_>,
        turn: u32,
        displaced: bool,
        g: (&Unit, &Projected),
        c: (&Unit, &Projected),
    ) {
        let (unit, other) = (g.0, c.0);
        let surface = lane.surface(0, unit, g.1);
        let spot = Spot { surface, lane: lane.name, turn };
        let role = |unit: &Unit| {
            let known = || unit.role.map(|role| format!("{role:?}").to_ascii_lowercase());
            unit.written_role.clone().or_else(known)
        };
        let found = if unit.role != other.role || unit.written_role != other.written_role {
            Some((Level::E0, "it is said in another name", role(unit), role(other)))
        } else if unit.opens != other.opens && unit.kind != Kind::Result && !displaced {
            let place =
                |unit: &Unit| Some(if unit.opens { "opens a message" } else { "goes on in one" }.to_owned());
            Some((Level::E1, "messages are cut at another place", place(unit), place(other)))
        } else if unit.bare != other.bare {
            let form = |unit: &Unit| Some(if unit.bare { "a string" } else { "a block" }.to_owned());
            Some((Level::E3, "the same text in another form", form(unit), form(other)))
        } else {
            None
        };
        let Some((holds, what, golden, candidate)) = found else { return };
        let difference =
            spot.structural(Some(holds), &unit.pointer, what, golden.as_deref(), candidate.as_deref());
        if !self.excluded(lane.number, surface, &difference.pointer) {
            self.differ(lane.number, difference);
        }
    }
}

/// Whether all that stands before a unit in its message is what the other side has not: then the message is cut
/// at another place for that reason, which is told of already.
fn is_first_left(alone: &HashSet<usize>, at: usize, of: &Projected) -> bool {
    let opening = (0..=at).rev().find(|at| of.parts[*at].opens).unwrap_or(at);
    opening < at && (opening..at).all(|before| alone.contains(&before))
}

/// What a marker's place is called: in a message it is counted from the end, for markers move with it.
fn region(unit: &Unit, from_end: usize) -> String {
    match unit.kind {
        Kind::System => unit.pointer.clone(),
        _ if !unit.late => unit.pointer.clone(),
        _ => format!("-{from_end}"),
    }
}
