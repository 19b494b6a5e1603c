//! One lane of the golden and its counterpart, turn by turn.
//!
//! A request repeats the history of its lane. What was compared once is remembered by its digests, so each turn is
//! judged by what is new in it, and a history that one side rewrites shows as a new pair, once.

use std::collections::{BTreeSet, HashMap, HashSet};

use recording::lanes::Turn;
use session::Role;
use wire::json::Document;

use super::align::{Row, align};
use super::changes::How;
use super::compare::Comparison;
use super::found::{Spot, short, unpaired, what};
use super::jobs::JobWords;
use super::judge::At;
use super::levels;
use super::unit::{Bytes, Kind, Projected, Unit};
use crate::verdict::{Difference, Level, Surface};

/// A lane while it is compared.
pub(super) struct LaneWork<'w> {
    /// Its number among the pairs.
    pub(super) number: usize,
    /// What it is called in differences.
    pub(super) name: &'w str,
    /// The words by which jobs are named, the golden's and the candidate's.
    pub(super) jobs: [JobWords; 2],
    /// How often a pair of digests stood in one request, at most.
    pairs: HashMap<(u64, u64), usize>,
    alone: [HashMap<u64, usize>; 2],
    named: HashSet<(Kind, String, u64, u64)>,
    markers: HashSet<(String, Option<String>, Option<String>)>,
    orders: HashSet<Vec<String>>,
    /// The tools of calls, by the calls' ids.
    tools: HashMap<String, String>,
}

/// How often things stand in the request at hand.
#[derive(Default)]
struct Standing {
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
            alone: Default::default(),
            named: HashSet::new(),
            markers: HashSet::new(),
            orders: HashSet::new(),
            tools: HashMap::new(),
        }
    }

    /// The surface of a unit, as a side sees it.
    fn surface(&self, side: usize, unit: &Unit, of: &Projected) -> Surface {
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
    fn is_known(&mut self, golden: &Unit, candidate: &Unit, standing: &mut Standing) -> bool {
        let key = (golden.hash, candidate.hash);
        let here = standing.pairs.entry(key).or_default();
        *here += 1;
        let most = self.pairs.entry(key).or_default();
        let known = *here <= *most;
        *most = (*most).max(*here);
        known
    }

    fn is_known_alone(&mut self, side: usize, unit: &Unit, standing: &mut Standing) -> bool {
        let here = standing.alone[side].entry(unit.hash).or_default();
        *here += 1;
        let most = self.alone[side].entry(unit.hash).or_default();
        let known = *here <= *most;
        *most = (*most).max(*here);
        known
    }

    /// Whether the lines of a result may come in any order: what a search brings.
    fn any_order(&self, unit: &Unit) -> bool {
        let tool =
            unit.call.as_ref().and_then(|call| self.tools.get(call)).map(|tool| tool.to_ascii_lowercase());
        unit.kind == Kind::Result
            && tool.is_some_and(|tool| {
                ["grep", "glob", "list", "search", "ls"].iter().any(|name| tool.contains(name))
            })
    }
}

impl Comparison<'_> {
    /// Compares a turn that both have.
    pub(super) fn turn(&mut self, lane: &mut LaneWork<'_>, golden: &Turn, candidate: &Turn) {
        let loaded = (self.load(0, golden), self.load(1, candidate));
        let (Some(g), Some(c)) = loaded else {
            return self.unreadable(lane, golden.turn, loaded.0.is_some());
        };
        if g.parts.iter().any(|unit| unit.kind == Kind::Reply || unit.kind == Kind::Call) || golden.whole {
            self.tally.counts(lane.number, Surface::Calls).echoed += u64::from(golden.whole);
        }
        let before = self.differences.len();
        self.named(lane, golden.turn, &g, &c);
        let clean = self.parts(lane, golden.turn, &g, &c);
        let silent = clean && self.differences.len() == before;
        if silent && g.body != c.body && !self.uneven {
            self.around(lane, golden.turn, &g, &c);
        }
        self.uneven = false;
    }

    /// A turn that only one side has: what it brings, surface by surface.
    pub(super) fn lonely_turn(&mut self, lane: &mut LaneWork<'_>, side: usize, turn: &Turn) {
        let Some(projected) = self.load(side, turn) else { return };
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

    /// All units are equal and the bodies are not: space, the order of members, escapes, a text in another form.
    fn around(&mut self, lane: &mut LaneWork<'_>, turn: u32, g: &Projected, c: &Projected) {
        use wire::difference::Difference as Found;
        let (pointer, what) = match wire::difference::first_difference(g.body.as_bytes(), c.body.as_bytes()) {
            Some(Found::Spelling { pointer, .. }) => (pointer, "the same value, written in other bytes"),
            Some(Found::Value { pointer, .. }) => (pointer, "what is around the units differs"),
            _ => (String::new(), "what is around the units differs"),
        };
        let spot = Spot { surface: Surface::Settings, lane: lane.name, turn };
        let difference = spot.structural(Some(Level::E3), &pointer, what, None, None);
        self.differ(lane.number, difference);
    }

    /// Tools, settings and headers, by name.
    fn named(&mut self, lane: &mut LaneWork<'_>, turn: u32, g: &Projected, c: &Projected) {
        let index = |of: &Projected| -> HashMap<(Kind, String), usize> {
            of.named.iter().enumerate().map(|(at, unit)| ((unit.kind, unit.key.clone()), at)).collect()
        };
        let (mine, theirs) = (index(g), index(c));
        for unit in &g.named {
            match theirs.get(&(unit.kind, unit.key.clone())) {
                Some(at) => {
                    let other = &c.named[*at];
                    self.marker(lane, turn, &unit.key, (unit, g), (other, c));
                    self.uneven |= unit.hash != other.hash && matches!(unit.bytes, Bytes::Body(..));
                    if lane.named.insert((unit.kind, unit.key.clone(), unit.hash, other.hash)) {
                        self.unit(lane, turn, (unit, g), (other, c));
                    }
                }
                None if lane.named.insert((unit.kind, unit.key.clone(), unit.hash, 0)) => {
                    self.alone(lane, turn, 0, unit, g);
                }
                None => {}
            }
        }
        for unit in c.named.iter().filter(|unit| !mine.contains_key(&(unit.kind, unit.key.clone()))) {
            if lane.named.insert((unit.kind, unit.key.clone(), 0, unit.hash)) {
                self.alone(lane, turn, 1, unit, c);
            }
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

    /// Instructions and messages. Returns whether nothing was left aside that may differ.
    fn parts(&mut self, lane: &mut LaneWork<'_>, turn: u32, g: &Projected, c: &Projected) -> bool {
        for unit in g.parts.iter().filter(|unit| unit.kind == Kind::Call) {
            let call = unit.call.clone().unwrap_or_default();
            lane.tools.entry(call).or_insert_with(|| unit.key.clone());
        }
        let rows = lay_out(lane, g, c);
        let mut standing = Standing::default();
        let mut fresh: Vec<(usize, usize)> = Vec::new();
        let mut clean = true;
        for (mine, theirs) in rows {
            match (mine, theirs) {
                (Some(at), Some(other)) => {
                    let (unit, counterpart) = (&g.parts[at], &c.parts[other]);
                    if unit.kind != Kind::Result {
                        let region = region(unit, g.parts.len() - at);
                        self.marker(lane, turn, &region, (unit, g), (counterpart, c));
                    }
                    if unit.kind == Kind::Reply {
                        clean &= unit.hash == counterpart.hash;
                        continue;
                    }
                    self.uneven |= unit.hash != counterpart.hash;
                    if lane.is_known(unit, counterpart, &mut standing) {
                        continue;
                    }
                    fresh.push((at, other));
                    self.frame(lane, turn, (unit, g), (counterpart, c));
                    self.unit(lane, turn, (unit, g), (counterpart, c));
                }
                (Some(at), None) => {
                    let unit = &g.parts[at];
                    clean = false;
                    if unit.kind != Kind::Reply && !lane.is_known_alone(0, unit, &mut standing) {
                        self.alone(lane, turn, 0, unit, g);
                    }
                }
                (None, Some(other)) => {
                    let unit = &c.parts[other];
                    clean = false;
                    if unit.kind != Kind::Reply && !lane.is_known_alone(1, unit, &mut standing) {
                        self.alone(lane, turn, 1, unit, c);
                    }
                }
                (None, None) => {}
            }
        }
        // Results may have changed places; what a request marks, it marks by place.
        let results = |of: &Projected| -> Vec<usize> {
            (0..of.parts.len()).filter(|at| of.parts[*at].kind == Kind::Result).collect()
        };
        for (at, other) in results(g).into_iter().zip(results(c)) {
            let region = region(&g.parts[at], g.parts.len() - at);
            self.marker(lane, turn, &region, (&g.parts[at], g), (&c.parts[other], c));
        }
        self.order_of_parts(lane, turn, &fresh, g, c);
        self.cuts(lane, turn, &fresh, g, c);
        clean
    }

    /// The order of what is new at this turn and was said by the harness.
    fn order_of_parts(
        &mut self,
        lane: &mut LaneWork<'_>,
        turn: u32,
        fresh: &[(usize, usize)],
        g: &Projected,
        c: &Projected,
    ) {
        let mut said: Vec<(usize, usize)> =
            fresh.iter().copied().filter(|(at, _)| g.parts[*at].role != Some(Role::Assistant)).collect();
        said.sort_unstable();
        let mut highest: Option<(usize, usize)> = None;
        let mut late: Option<[(usize, usize); 2]> = None;
        for pair in said {
            match highest {
                Some(high) if pair.1 < high.1 => late = late.or(Some([high, pair])),
                _ => highest = Some(pair),
            }
        }
        let Some([early, late]) = late else { return };
        let units = [&g.parts[early.0], &g.parts[late.0]];
        let surfaces = units.map(|unit| lane.surface(0, unit, g));
        let surface = match surfaces {
            all if all.contains(&Surface::Jobs) => Surface::Jobs,
            all if all.contains(&Surface::Results) => Surface::Results,
            _ => Surface::Prompt,
        };
        let results = units.iter().all(|unit| unit.kind == Kind::Result);
        let announced = surfaces == [Surface::Jobs; 2] && units.iter().all(|unit| unit.kind == Kind::Said);
        let promised = !announced && !results
            || results && self.sides[0].facts.promises_order()
            || results && self.sides[1].facts.promises_order();
        let holds = if promised { Level::E1 } else { Level::E3 };
        let what = match (results, promised) {
            _ if announced => "announcements come in another order, which no harness promises",
            (true, true) => "results come in another order",
            (true, false) => "results come in another order, which this harness does not promise",
            _ if surface == Surface::Jobs => {
                "an answer about a job and what is announced have changed places"
            }
            _ => "what is said comes in another order",
        };
        if announced {
            self.note("announcements were compared as a set: jobs end in any order".into());
        } else if !promised {
            self.note(
                "results of one message were compared as a set: this harness sends them as they end".into(),
            );
        }
        let spot = Spot { surface, lane: lane.name, turn };
        let name = |unit: &Unit, of: &Projected| unit.call.clone().unwrap_or_else(|| short(&of.raw(unit)));
        let (golden, candidate) = (name(units[0], g), name(&c.parts[late.1], c));
        let difference =
            spot.structural(Some(holds), &units[0].pointer, what, Some(&golden), Some(&candidate));
        if !self.excluded(lane.number, surface, &difference.pointer) {
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

    /// In whose name a unit is said, where a message begins, and whether it is a bare string.
    fn frame(&mut self, lane: &LaneWork<'_>, turn: u32, g: (&Unit, &Projected), c: (&Unit, &Projected)) {
        let (unit, other) = (g.0, c.0);
        let surface = lane.surface(0, unit, g.1);
        let spot = Spot { surface, lane: lane.name, turn };
        let role = |unit: &Unit| unit.role.map(|role| format!("{role:?}").to_ascii_lowercase());
        let found = if unit.role != other.role {
            Some((Level::E0, "it is said in another name", role(unit), role(other)))
        } else if unit.opens != other.opens && unit.kind != Kind::Result {
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

    /// The cache markers of two units that meet.
    fn marker(
        &mut self,
        lane: &mut LaneWork<'_>,
        turn: u32,
        region: &str,
        g: (&Unit, &Projected),
        c: (&Unit, &Projected),
    ) {
        let raw = |(unit, of): (&Unit, &Projected)| {
            unit.marker.as_ref().map(|marker| of.body[marker.place.span.clone()].to_owned())
        };
        let (mine, theirs) = (raw(g), raw(c));
        if mine.is_none() && theirs.is_none() {
            return;
        }
        self.uneven |= mine != theirs;
        let new = lane.markers.insert((region.to_owned(), mine.clone(), theirs.clone()));
        let marker = g.0.marker.as_ref().or(c.0.marker.as_ref());
        let pointer = marker.map(|marker| marker.place.pointer.clone()).unwrap_or_default();
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
        self.differ(lane.number, difference);
    }

    /// Two units that meet.
    fn unit(&mut self, lane: &mut LaneWork<'_>, turn: u32, g: (&Unit, &Projected), c: (&Unit, &Projected)) {
        let (unit, other) = (g.0, c.0);
        let surface = lane.surface(0, unit, g.1);
        let at = At {
            surface,
            kind: unit.kind,
            key: &unit.key,
            lane: lane.name,
            turn,
            pointer: &unit.pointer,
            any_order: lane.any_order(unit),
        };
        let (golden, candidate) = (g.1.raw(unit), c.1.raw(other));
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
            let difference = spot.difference(
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
            match (unit.kind, holds) {
                (Kind::Call, Level::E0) => {
                    self.changes.renamed.insert((unit.key.clone(), other.key.clone()));
                }
                (Kind::Model, _) => {
                    let what = format!("model {} is now {}", short(&golden), short(&candidate));
                    *self.changes.others.entry((surface, what)).or_default() += 1;
                }
                (_, Level::E2) => self.changes.add(unit.kind, How::Reworded, &unit.key),
                _ => self.changes.add(unit.kind, How::Differs, &unit.key),
            }
            self.differ(lane.number, difference);
        }
        if judged.more > 0 {
            self.note(format!(
                "{} more values differ at `{}` in turn {turn} of {}",
                judged.more, unit.pointer, lane.name
            ));
        }
    }

    /// A unit without a counterpart.
    fn alone(&mut self, lane: &LaneWork<'_>, turn: u32, side: usize, unit: &Unit, of: &Projected) {
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
        self.changes.add(unit.kind, if side == 0 { How::Gone } else { How::New }, &unit.key);
        if unit.kind == Kind::Tool {
            self.changes.schemas[side].insert(unit.key.clone(), arguments(&raw));
        }
        let spot = Spot { surface, lane: lane.name, turn };
        let difference: Difference = spot.difference(holds, &unit.pointer, what, sides[0], sides[1]);
        self.differ(lane.number, difference);
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

    fn was_paired(&self, side: usize, hash: u64) -> bool {
        self.pairs
            .keys()
            .any(|(golden, candidate)| if side == 0 { *golden == hash } else { *candidate == hash })
    }
}

/// What a marker's place is called: in a message it is counted from the end, for markers move with it.
fn region(unit: &Unit, from_end: usize) -> String {
    match unit.kind {
        Kind::System => unit.pointer.clone(),
        _ if !unit.late => unit.pointer.clone(),
        _ => format!("-{from_end}"),
    }
}

/// Lays two conversations side by side: in order, but results by the calls they answer.
fn lay_out(lane: &LaneWork<'_>, g: &Projected, c: &Projected) -> Vec<Row> {
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
    let rows = align(mine.len(), theirs.len(), same, score);
    let mut rows: Vec<Row> =
        rows.into_iter().map(|(a, b)| (a.map(|a| mine[a]), b.map(|b| theirs[b]))).collect();
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
    if a.kind != b.kind || (a.kind == Kind::Said && a.key != b.key) {
        return 0;
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
