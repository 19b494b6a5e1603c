//! Two units that meet, their cache markers, and a unit that meets nobody.

use std::collections::BTreeSet;

use recording::lanes::LaneKind;
use wire::json::Document;

use super::changes::How;
use super::compare::{Comparison, values_differ};
use super::found::{Spot, short, unpaired, what};
use super::judge::At;
use super::lane::LaneWork;
use super::levels;
use super::unit::{Kind, Projected, Unit};
use crate::verdict::{Level, Surface, VerdictDifference};

impl Comparison<'_> {
    /// The cache markers of two units that meet.
    pub(super) fn marker(
        &mut self,
        lane: &mut LaneWork<'_>,
        turn: u32,
        region: &str,
        g: (&Unit, &Projected),
        c: (&Unit, &Projected),
    ) {
        let raw = |unit: &Unit| unit.marker.as_ref().map(|marker| marker.json.clone());
        let (mine, theirs) = (raw(g.0), raw(c.0));
        if mine.is_none() && theirs.is_none() {
            return;
        }
        self.uneven |= mine != theirs;
        let new = lane.markers.insert((region.to_owned(), mine.clone(), theirs.clone()));
        let marker = g.0.marker.as_ref().or(c.0.marker.as_ref());
        let pointer = marker.map(|marker| marker.pointer.clone()).unwrap_or_default();
        if !new || self.excluded(lane.number, Surface::Settings, &pointer) {
            return;
        }
        let counts = self.tally.counts(lane.number, Surface::Settings);
        counts.compared += u64::from(mine.is_some());
        counts.absent += u64::from(mine.is_none());
        counts.equal += u64::from(mine == theirs);
        if mine == theirs {
            return;
        }
        let (how, what) = match (&mine, &theirs) {
            (Some(_), None) => (How::Gone, "a cache marker is gone"),
            (None, Some(_)) => (How::New, "a cache marker is new"),
            _ => (How::Differs, "a cache marker differs"),
        };
        *self.changes.markers.entry(how).or_default() += 1;
        let spot = Spot { surface: Surface::Settings, lane: lane.name, turn };
        let difference = spot.structural(Some(Level::E1), &pointer, what, mine.as_deref(), theirs.as_deref());
        // It marks the last part, which is another where one announcement more has come.
        let racy = self.race(lane, turn, difference.level, [Some(g), Some(c)]);
        self.differ(lane.number, VerdictDifference { race: racy, ..difference });
    }

    /// Two units that meet.
    pub(super) fn unit(
        &mut self,
        lane: &mut LaneWork<'_>,
        turn: u32,
        g: (&Unit, &Projected),
        c: (&Unit, &Projected),
    ) {
        // A block that has more than its text meets another as a whole.
        if g.0.is_narrow() != c.0.is_narrow() && !g.0.bare && !c.0.bare {
            let (wide, other) = (g.0.widened(), c.0.widened());
            return self.unit(lane, turn, (&wide, g.1), (&other, c.1));
        }
        let (unit, other) = (g.0, c.0);
        let surface = lane.surface(0, unit, g.1);
        if unit.kind == Kind::Tool {
            self.changes.met.insert(unit.key.clone());
        }
        let (golden, candidate) = (g.1.raw(unit), c.1.raw(other));
        let as_said = unit.kind == Kind::Call && golden != candidate && self.are_as_said(lane, [unit, other]);
        let at = At {
            surface,
            kind: unit.kind,
            key: &unit.key,
            lane: lane.name,
            turn,
            pointer: &unit.pointer,
            any_order: lane.any_order(unit),
            as_said,
        };
        let judged = self.judge.compare(&at, &golden, &candidate);
        let equal = golden == candidate;
        let counts = self.tally.counts(lane.number, surface);
        if judged.excluded {
            counts.excluded += 1;
        } else {
            counts.compared += 1;
            counts.equal += u64::from(equal);
            counts.masked += u64::from(judged.masked);
        }
        let spot = Spot { surface, lane: lane.name, turn };
        if !equal && judged.leaves.is_empty() && !judged.excluded {
            let what = "the same value, written in other bytes";
            let difference =
                spot.difference(Some(Level::E3), &unit.pointer, what, Some(&golden), Some(&candidate));
            return self.differ(lane.number, difference);
        }
        for leaf in &judged.leaves {
            let inside = leaf.pointer.strip_prefix(unit.pointer.as_str()).unwrap_or_default();
            let holds = match leaf.masked {
                true => Level::E3,
                false => levels::of_value(
                    unit.kind,
                    surface,
                    inside,
                    leaf.golden.as_deref(),
                    leaf.candidate.as_deref(),
                ),
            };
            let what = what(unit, surface, leaf);
            let mut difference = spot.difference(
                Some(holds),
                &leaf.pointer,
                what,
                leaf.golden.as_deref(),
                leaf.candidate.as_deref(),
            );
            if leaf.masked {
                self.differ_by_byte(lane.number, difference);
                continue;
            }
            difference.race = self.race(lane, turn, Some(holds), [Some(g), Some(c)]);
            match (unit.kind, holds) {
                (Kind::Call, Level::E0) => {
                    self.changes.renamed.insert((unit.key.clone(), other.key.clone()));
                }
                (Kind::Model, _) => {
                    let what = format!("model {} is now {}", short(&golden), short(&candidate));
                    self.changes.tell(surface, what);
                }
                (kind, Level::E2) if kind != Kind::Identity => {
                    self.changes.add(surface, unit.kind, How::Reworded, &unit.key)
                }
                _ => self.changes.add(surface, unit.kind, How::Differs, &unit.key),
            }
            self.differ(lane.number, difference);
        }
        if judged.more > 0 {
            self.note(format!(
                "{} at `{}` in turn {turn} of {}",
                values_differ(judged.more as u64, "more "),
                unit.pointer,
                lane.name
            ));
        }
    }

    /// A unit without a counterpart.
    pub(super) fn alone(&mut self, lane: &LaneWork<'_>, turn: u32, side: usize, unit: &Unit, of: &Projected) {
        let surface = lane.surface(side, unit, of);
        if self.excluded(lane.number, surface, &unit.pointer) {
            return;
        }
        let counts = self.tally.counts(lane.number, surface);
        if side == 0 {
            counts.compared += 1
        } else {
            counts.absent += 1
        }
        let raw = of.raw(unit);
        let sides = if side == 0 { [Some(raw.as_ref()), None] } else { [None, Some(raw.as_ref())] };
        let holds = match unit.kind {
            Kind::Setting | Kind::Header | Kind::Identity | Kind::Line => Some(Level::E1),
            _ => levels::UNPAIRED,
        };
        let what = unpaired(unit, surface, side == 0);
        let how = if side == 0 { How::Gone } else { How::New };
        self.changes.add(surface, unit.kind, how, &unit.key);
        if unit.kind == Kind::Tool {
            let pair = &self.pairs[lane.number];
            let at = if side == 0 { pair.golden } else { pair.candidate };
            let agents = at.map(|at| match self.sides[side].ordered.lanes.lanes[at].kind {
                LaneKind::Main => "main",
                LaneKind::Sub => "sub-agents",
                LaneKind::Fork => "forks",
                LaneKind::Side => "side calls",
            });
            self.changes.whose.entry((how, unit.key.clone())).or_default().extend(agents);
            self.changes.schemas[side].insert(unit.key.clone(), arguments(&raw));
        }
        let spot = Spot { surface, lane: lane.name, turn };
        let here = if side == 0 { [Some((unit, of)), None] } else { [None, Some((unit, of))] };
        let racy = self.race(lane, turn, holds, here);
        let difference = spot.difference(holds, &unit.pointer, what, sides[0], sides[1]);
        self.differ(lane.number, VerdictDifference { race: racy, ..difference });
    }
}

/// The names of the arguments that a tool takes.
fn arguments(raw: &str) -> BTreeSet<String> {
    let Ok(tool) = Document::parse(raw.as_bytes()) else { return BTreeSet::new() };
    let places = ["/input_schema/properties", "/function/parameters/properties", "/parameters/properties"];
    let properties = places.iter().find_map(|place| tool.root().pointer(place));
    properties
        .into_iter()
        .flat_map(|object| object.members())
        .map(|member| member.name().into_owned())
        .collect()
}
