//! Two recordings in, a verdict out. RequestSource are asked for one pair at a time.

use std::cell::RefCell;
use std::collections::HashSet;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher, Hash};

use recording::lanes::{Job, Lane, LaneKind};
use session::RequestId;

use super::carried::Spoken;
use super::changes::Changes;
use super::found::{self, Spot};
use super::gather::Gathered;
use super::ids::Ids;
use super::jobs::{JobWords, siblings};
use super::judge::{Judge, Leaf};
use super::lane::LaneWork;
use super::looks::Looks;
use super::mask::{MaskTally, Masks};
use super::pair::{LanePair, pair};
use super::racy;
use super::rules::ParityRules;
use super::side::ComparedRecording;
use super::summary;
use super::tally::Tally;
use super::unit::{Kind, Projected};
use crate::verdict::{
    LaneVerdict, Level, Surface, VERDICT_FORMAT, Verdict, VerdictDifference, VerdictOutcome,
};

/// Whether two recordings agree.
pub fn compare(
    golden: &ComparedRecording<'_>,
    candidate: &ComparedRecording<'_>,
    rules: &ParityRules,
    required: Level,
) -> Verdict {
    compare_gathered(golden, candidate, Default::default(), rules, required)
}

/// The same, where requests have been taken apart already.
pub(super) fn compare_gathered(
    golden: &ComparedRecording<'_>,
    candidate: &ComparedRecording<'_>,
    gathered: [Gathered; 2],
    rules: &ParityRules,
    required: Level,
) -> Verdict {
    let mut known = golden.ids();
    known.extend(candidate.ids());
    let sides = [golden, candidate];
    let mut comparison = Comparison {
        sides,
        gathered: gathered.map(RefCell::new),
        pairs: Vec::new(),
        jobs: sides.map(|side| side.ordered.lanes.jobs()),
        judge: Judge {
            masks: [(golden, candidate), (candidate, golden)]
                .map(|(side, other)| Masks::of(&side.facts.completed_by(&other.facts))),
            rules: rules.applied_to([&golden.facts, &candidate.facts]),
            ids: Ids::knowing(known),
            hits: MaskTally::default(),
        },
        tally: Tally::default(),
        differences: Vec::new(),
        by_byte: 0,
        notes: Vec::new(),
        required,
        uneven: false,
        askew: false,
        resolved: Vec::new(),
        changes: Changes::default(),
        spoken: Default::default(),
        is_own: racy::is_own(golden, candidate),
    };
    comparison.count_ids();
    comparison.run();
    comparison.verdict()
}

/// The work of comparing.
pub(super) struct Comparison<'c> {
    /// The golden and the candidate.
    pub(super) sides: [&'c ComparedRecording<'c>; 2],
    gathered: [RefCell<Gathered>; 2],
    pub(super) pairs: Vec<LanePair>,
    pub(super) jobs: [Vec<Job>; 2],
    pub(super) judge: Judge,
    pub(super) tally: Tally,
    pub(super) differences: Vec<(usize, VerdictDifference)>,
    /// Values that differ under a mask only.
    by_byte: u64,
    notes: Vec<String>,
    required: Level,
    /// Something in the turn at hand is not equal by the byte.
    pub(super) uneven: bool,
    /// The units of the turn at hand are not one to one, so what is around them cannot be compared.
    pub(super) askew: bool,
    /// Ids that stand for each other.
    resolved: Vec<(String, String)>,
    /// What changed, by name.
    pub(super) changes: Changes,
    /// What the models said, the golden's and the candidate's.
    pub(super) spoken: [Spoken; 2],
    /// The candidate is a replay of the golden, so that only a race can make the two differ.
    pub(super) is_own: bool,
}

impl Comparison<'_> {
    fn run(&mut self) {
        let [golden, candidate] = self.sides;
        let (g_lanes, c_lanes) = (&golden.ordered.lanes, &candidate.ordered.lanes);
        let pairs = pair(g_lanes, c_lanes, &Looks::of(self));
        self.pairs = pairs;
        let pairs = self.pairs.clone();
        for (number, pair) in pairs.iter().enumerate() {
            self.lane(number, pair);
        }
        for together in siblings(g_lanes) {
            self.note(format!(
                "{} were started together: they were compared as a set, paired by what they were asked",
                together.join(", ")
            ));
        }
        let sides = pairs.iter().filter_map(|pair| pair.golden.zip(pair.candidate));
        let sides = sides.filter(|(g, _)| g_lanes.lanes[*g].kind == LaneKind::Side).count();
        if sides > 0 {
            self.note(format!("{sides} side calls were paired and compared; their number is not judged"));
        }
        self.conflicts();
    }

    /// How often what looks like an id stands in either recording: in each text once, however often it is repeated.
    fn count_ids(&mut self) {
        for side in [0, 1] {
            let lanes = &self.sides[side].ordered.lanes;
            for parent in &lanes.lanes {
                let words = JobWords::of(lanes, &self.jobs[side], parent, str::to_owned);
                words.names().for_each(|word| self.judge.ids.names_a_job(side, word));
            }
            self.learn_ids(side);
            let (mut seen, mut texts) = (HashSet::new(), HashSet::new());
            for id in lanes.lanes.iter().flat_map(|lane| lane.requests()) {
                let Some(request) = self.load(side, id) else { continue };
                for unit in request.named.iter().chain(&request.parts) {
                    let is_text = !matches!(unit.kind, Kind::Tool | Kind::Model | Kind::Setting | Kind::Line);
                    // The same text in another message is no other place.
                    if is_text && seen.insert(unit.hash) && texts.insert(hashed(request.raw(unit))) {
                        self.judge.ids.count(side, &wire::json::unescape(&request.raw(unit)));
                    }
                }
            }
        }
    }

    /// What the harness and its tools call ids, in results and in what comes between the model's words.
    fn learn_ids(&mut self, side: usize) {
        let lanes = &self.sides[side].ordered.lanes;
        let mut seen = HashSet::new();
        for id in lanes.lanes.iter().flat_map(|lane| lane.requests()) {
            let Some(request) = self.load(side, id) else { continue };
            for unit in &request.parts {
                let is_told = unit.kind == Kind::Result || (unit.kind == Kind::Said && unit.late);
                if is_told && seen.insert(unit.hash) {
                    self.judge.ids.learn(side, &wire::json::unescape(&request.raw(unit)));
                }
            }
        }
    }

    fn lane(&mut self, number: usize, pair: &LanePair) {
        let lanes = [0, 1].map(|side| &self.sides[side].ordered.lanes);
        let golden = pair.golden.map(|at| &lanes[0].lanes[at]);
        let candidate = pair.candidate.map(|at| &lanes[1].lanes[at]);
        let Some(first) = golden.or(candidate) else { return };
        let name = first.id.as_str();
        if first.kind == LaneKind::Main && number == 0 {
            self.outcome(number, name);
        }
        self.place(number, pair, name);
        self.jobs(number, pair, name);
        let words = |side: usize, lane| {
            // Jobs go by the golden's names, whoever speaks of them.
            let name = |job: &str| match side {
                0 => job.to_owned(),
                _ => self.counterpart(1, job).unwrap_or_else(|| format!("{job} of the candidate")),
            };
            JobWords::of(lanes[side], &self.jobs[side], lane, name)
        };
        let jobs = [
            golden.map(|lane| words(0, lane)).unwrap_or_default(),
            candidate.map(|lane| words(1, lane)).unwrap_or_default(),
        ];
        let mut work = LaneWork::new(number, name, jobs);
        let is_side = first.kind == LaneKind::Side;
        for (g, c) in &pair.turns {
            let mine = g.and_then(|g| Some(&golden?.turns[g]));
            let theirs = c.and_then(|c| Some(&candidate?.turns[c]));
            match (mine, theirs) {
                (Some(mine), Some(theirs)) => {
                    self.attempts(number, name, mine, theirs);
                    self.turn(&mut work, mine, theirs);
                }
                // What a lane that is missing brings is said by its missing.
                _ if is_side || golden.is_none() || candidate.is_none() => {}
                (Some(mine), None) => self.lonely_turn(&mut work, 0, mine),
                (None, Some(theirs)) => self.lonely_turn(&mut work, 1, theirs),
                (None, None) => {}
            }
        }
        if let (true, Some(golden), Some(candidate)) = (is_side, golden, candidate) {
            self.lonely_calls(number, pair, [golden, candidate]);
        }
    }

    /// A request, taken apart.
    pub(super) fn load(&self, side: usize, id: &RequestId) -> Option<Projected> {
        let mut gathered = self.gathered[side].borrow_mut();
        if let Some(known) = gathered.requests.get(id) {
            return Some(known.clone());
        }
        self.sides[side].requests.request(id).map(|asked| Projected::of(&asked, &mut gathered.pool))
    }

    /// The body of a request.
    pub(super) fn body(&self, side: usize, id: &RequestId) -> Vec<u8> {
        let bytes =
            self.sides[side].requests.request(id).and_then(|asked| asked.body.bytes).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned().into_bytes()
    }

    /// The lane of the other side that a lane was paired with.
    pub(super) fn counterpart(&self, side: usize, lane: &str) -> Option<String> {
        let lanes = [0, 1].map(|side| &self.sides[side].ordered.lanes.lanes);
        let at = lanes[side].iter().position(|other| other.id == lane)?;
        let of = |pair: &LanePair| [pair.golden, pair.candidate];
        let pair = self.pairs.iter().find(|pair| of(pair)[side] == Some(at))?;
        of(pair)[1 - side].map(|at| lanes[1 - side][at].id.clone())
    }

    /// Whether a rule leaves this place out.
    pub(super) fn excluded(&mut self, lane: usize, surface: Surface, pointer: &str) -> bool {
        let covering = self.judge.rules.covering(surface, pointer);
        let rule = covering.iter().find(|(_, effect)| matches!(effect, super::rules::Effect::Exclude));
        if let Some((number, _)) = rule {
            self.judge.rules.hit(*number);
            self.tally.counts(lane, surface).excluded += 1;
        }
        rule.is_some()
    }

    pub(super) fn differ(&mut self, lane: usize, difference: VerdictDifference) {
        self.tally.lower(lane, difference.surface, difference.level);
        self.differences.push((lane, difference));
    }

    /// A value outside of the units that differs, or does so under a mask only.
    pub(super) fn differ_outside(&mut self, lane: usize, spot: &Spot<'_>, leaf: &Leaf, what: &str) {
        let holds = if leaf.masked { Level::E3 } else { Level::E1 };
        let (golden, candidate) = (leaf.golden.as_deref(), leaf.candidate.as_deref());
        let difference = spot.difference(Some(holds), &leaf.pointer, what, golden, candidate);
        match leaf.masked {
            true => self.differ_by_byte(lane, difference),
            false => self.differ(lane, difference),
        }
    }

    /// A difference that a mask covers: told of only where equal bytes are required.
    pub(super) fn differ_by_byte(&mut self, lane: usize, difference: VerdictDifference) {
        self.tally.lower(lane, difference.surface, Some(Level::E3));
        self.by_byte += 1;
        if self.required == Level::E4 {
            self.differences.push((lane, difference));
        }
    }

    pub(super) fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Ids that go against what most places say.
    fn conflicts(&mut self) {
        let (pairs, conflicts) = std::mem::take(&mut self.judge.ids).resolve();
        self.resolved = pairs;
        for conflict in conflicts {
            let place = conflict.place;
            let lane = self.lane_number(&place.lane);
            if self.excluded(lane, place.surface, &place.pointer) {
                continue;
            }
            let elsewhere = match &conflict.elsewhere {
                Some(other) => format!("`{}` stands for `{other}` elsewhere", conflict.golden),
                None => format!("`{}` stands for another id elsewhere", conflict.candidate),
            };
            let spot = Spot { surface: place.surface, lane: &place.lane, turn: place.turn };
            let (g, c) = (Some(conflict.golden.as_str()), Some(conflict.candidate.as_str()));
            let what = format!("an id stands for two: {elsewhere}");
            let difference = spot.difference(Some(Level::E2), &place.pointer, what, g, c);
            self.changes.tell(place.surface, "an id stands for two");
            self.differ(lane, difference);
        }
    }

    fn lane_number(&self, name: &str) -> usize {
        let lanes = [0, 1].map(|side| &self.sides[side].ordered.lanes.lanes);
        let named = |pair: &LanePair| {
            let of = |side: usize, at: Option<usize>| at.map(|at| lanes[side][at].id.as_str());
            of(0, pair.golden).or(of(1, pair.candidate)) == Some(name)
        };
        self.pairs.iter().position(named).unwrap_or_default()
    }

    fn verdict(mut self) -> Verdict {
        let [golden, candidate] = self.sides;
        let rules = self.judge.rules.uses();
        let level = self.tally.level();
        let stale = rules.iter().filter(|rule| rule.stale).count();
        if self.by_byte > 0 && self.required != Level::E4 {
            let differ = values_differ(self.by_byte, "");
            self.notes.push(format!("{differ} under a mask only; `--level E4` lists them"));
        }
        self.differences.sort_by_key(|(lane, difference)| (*lane, difference.turn));
        let to_the_byte = self.required == Level::E4;
        let offered = |difference: VerdictDifference| VerdictDifference {
            suggested_rule: difference
                .suggested_rule
                .map(|rule| if to_the_byte { found::to_the_byte(&rule) } else { rule }),
            ..difference
        };
        let differences: Vec<VerdictDifference> =
            self.differences.into_iter().map(|(_, difference)| offered(difference)).collect();
        let outcome = match level {
            None => VerdictOutcome::Inconclusive("nothing was compared".to_owned()),
            Some(level) if level >= Some(self.required) && stale == 0 => VerdictOutcome::Match,
            Some(_) => VerdictOutcome::Differs,
        };
        let lanes = self.pairs.iter().enumerate().map(|(number, pair)| {
            let lane =
                |side: usize, at: Option<usize>| at.map(|at| &self.sides[side].ordered.lanes.lanes[at]);
            let (mine, theirs) = (lane(0, pair.golden), lane(1, pair.candidate));
            let turn = |of: Option<&Lane>, at: Option<usize>| Some(of?.turns.get(at?)?.turn);
            LaneVerdict {
                golden: mine.map(|lane| lane.id.clone()),
                candidate: theirs.map(|lane| lane.id.clone()),
                turns: pair.turns.iter().map(|(g, c)| (turn(mine, *g), turn(theirs, *c))).collect(),
                surfaces: self.tally.lane(number),
            }
        });
        let mut verdict = Verdict {
            format: VERDICT_FORMAT,
            golden: golden.folder.clone(),
            candidate: candidate.folder.clone(),
            descriptions: [golden.facts.in_words(), candidate.facts.in_words()],
            required: self.required,
            level: level.flatten(),
            outcome,
            summary: Vec::new(),
            surfaces: self.tally.surfaces(),
            lanes: lanes.collect(),
            differences,
            masks: self.judge.hits.uses(),
            rules,
            ids: self.resolved,
            notes: self.notes,
            cache: Vec::new(),
        };
        let racy = racy::notes(&golden.ordered.lanes, &verdict, self.is_own);
        verdict.notes.extend(racy);
        verdict.summary = summary::of(&verdict, &self.changes, [&golden.facts, &candidate.facts]);
        verdict
    }
}

/// A value as a number.
pub(super) fn hashed(value: impl Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(value)
}

/// As in `2 more values differ`.
pub(super) fn values_differ(count: u64, more: &str) -> String {
    if count == 1 { format!("1 {more}value differs") } else { format!("{count} {more}values differ") }
}
