//! What meets by name: tools, settings, headers.

use std::collections::{HashMap, HashSet};

use super::compare::Comparison;
use super::found::Spot;
use super::lane::LaneWork;
use super::unit::{Kind, Projected};
use crate::verdict::{Level, Surface};

impl Comparison<'_> {
    /// Tools, settings and headers, by name.
    pub(super) fn named(&mut self, lane: &mut LaneWork<'_>, turn: u32, g: &Projected, c: &Projected) {
        let index = |of: &Projected| -> HashMap<(Kind, String), usize> {
            of.named.iter().enumerate().map(|(at, unit)| ((unit.kind, unit.key.clone()), at)).collect()
        };
        let (mine, theirs) = (index(g), index(c));
        for unit in &g.named {
            match theirs.get(&(unit.kind, unit.key.clone())) {
                Some(at) => {
                    let other = &c.named[*at];
                    self.marker(lane, turn, &unit.key, (unit, g), (other, c));
                    self.uneven |= unit.hash != other.hash && unit.in_body;
                    if lane.named.insert((unit.kind, unit.key.clone(), unit.hash, other.hash)) {
                        self.unit(lane, turn, (unit, g), (other, c));
                    }
                }
                None => {
                    if lane.named.insert((unit.kind, unit.key.clone(), unit.hash, 0)) {
                        self.alone(lane, turn, 0, unit, g);
                    }
                    self.uneven = true;
                    self.askew |= unit.in_body;
                }
            }
        }
        for unit in c.named.iter().filter(|unit| !mine.contains_key(&(unit.kind, unit.key.clone()))) {
            if lane.named.insert((unit.kind, unit.key.clone(), 0, unit.hash)) {
                self.alone(lane, turn, 1, unit, c);
            }
            self.uneven = true;
            self.askew |= unit.in_body;
        }
        for kind in [Kind::Tool, Kind::Header] {
            self.order_of_named(lane, turn, kind, g, c);
        }
    }

    /// The order of what both have.
    fn order_of_named(
        &mut self,
        lane: &mut LaneWork<'_>,
        turn: u32,
        kind: Kind,
        g: &Projected,
        c: &Projected,
    ) {
        let names = |of: &Projected, other: &Projected| -> Vec<(String, String)> {
            let there: HashSet<&String> =
                other.named.iter().filter(|unit| unit.kind == kind).map(|unit| &unit.key).collect();
            let both = of.named.iter().filter(|unit| unit.kind == kind && there.contains(&unit.key));
            both.map(|unit| (unit.key.clone(), unit.pointer.clone())).collect()
        };
        let (mine, theirs) = (names(g, c), names(c, g));
        let Some(at) = (0..mine.len().min(theirs.len())).find(|at| mine[*at].0 != theirs[*at].0) else {
            return;
        };
        self.uneven |= kind == Kind::Tool;
        let keys: Vec<String> = mine.iter().chain(&theirs).map(|(key, _)| key.clone()).collect();
        if !lane.orders.insert(keys) {
            return;
        }
        let (surface, holds, what) = match kind {
            Kind::Tool => (Surface::Tools, Level::E1, "the tools come in another order"),
            _ => (Surface::Settings, Level::E3, "the headers come in another order"),
        };
        let spot = Spot { surface, lane: lane.name, turn };
        let (golden, candidate) = (Some(mine[at].0.as_str()), Some(theirs[at].0.as_str()));
        let difference = spot.structural(Some(holds), &mine[at].1, what, golden, candidate);
        if !self.excluded(lane.number, surface, &difference.pointer) {
            self.differ(lane.number, difference);
        }
    }
}
