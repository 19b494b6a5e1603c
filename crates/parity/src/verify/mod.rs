//! Compares two recordings, surface by surface.
//!
//! Two recordings become a verdict in five steps. Each is a function from values to values:
//!
//! 1. **Project** (`project`): takes each request apart into [units](project::Unit), such as a text, a tool, a header or
//!    a result. Together with the frame around them they hold every byte of the body.
//! 2. **Align** (`align`): finds the counterparts. Lanes are aligned by their place in the tree of agents, turns by the
//!    calls that led to them, units by name or in order.
//! 3. **Compare** (`compare`): compares each aligned pair value by value, and the order and frame around them. A request
//!    repeats its history, so only what is new since the turn before is compared; `history` remembers the rest. Masks,
//!    rules and paired ids make values equal that differ without meaning. The result is a list of
//!    [findings](finding::Finding), without levels.
//! 4. **Classify** (`classify`): gives each difference the highest level that still holds.
//! 5. **Summarise** (`summarise`): counts findings by lane and surface, and makes the verdict. A surface has the level of
//!    its lowest difference, and the verdict has the level of its lowest surface. Without any difference that is E4.
//!
//! E2 and E3 are decided like this. `compare` asks whether two values are equal after masks, with ids paired one to one. If they
//! are, but not in their bytes, the finding says `Masked`, and `classify` leaves E3. If they are not, it says
//! `Different`, and the file of the surface decides (`value_level` in `surfaces`): E2 if the structure is the same, as
//! with two texts of similar length or another description of a tool, and E1 or E0 otherwise. A unit without a counterpart
//! is E0. A value with other bytes and the same meaning, and one that the model produced, leaves E3. At the end `compare`
//! checks the pairs of ids over the whole recording, and a contradiction lowers a text to E2. Differences of order, lanes
//! and attempts have their levels in one table ([`structure::Structure`]).
//!
//! Start at [`verify`], which reads two folders, or at [`compare`], which compares values and reads nothing itself. The
//! table in `crate::surface` says how to add a surface.

mod align;
mod cache_changes;
mod changes;
mod classify;
mod compare;
mod compared;
mod day;
mod finding;
mod folder_renames;
mod history;
mod id_shape;
mod job_names;
mod load;
mod project;
mod row;
mod rules;
mod seal;
mod structure;
mod summarise;
mod surfaces;
mod text;

use recording::SealState;
use recording::lanes::{LaneKind, Lanes, Turn};
use recording::source::Source;

pub use self::cache_changes::{GoldenCache, golden_cache};
pub use self::compared::{ComparedRecording, RecordingFacts, RequestSource};
pub use self::rules::{ParityRules, ParityRulesError, RULES_FILE, RULES_FORMAT};

use self::align::PairedRecordings;
use self::classify::{Classified, Classifier};
use self::compare::{Comparer, LaneComparison};
use self::finding::{Finding, Findings, TurnPlace};
use self::load::LoadedRecording;
use self::project::{ProjectedRecording, UnitCollector};
use self::summarise::{ComparisonResult, summarise};
use crate::verdict::{Level, Verdict, VerdictOutcome};

/// Reads two recordings and compares them. Problems of either are in the notes of the verdict.
pub fn verify(golden: &Source, candidate: &Source, rules: &ParityRules, required: Level) -> Verdict {
    let (mut mine, mut theirs) = LoadedRecording::load_both(golden, candidate);
    let mut verdict = LoadedRecording::compare(&mut mine, &mut theirs, rules, required);
    let mut doubts = Vec::new();
    for (side, loaded) in [("golden", &mine), ("candidate", &theirs)] {
        let state = loaded.source.recording().map(|recording| recording.state());
        if let Some(SealState::Unsealed { because }) = state {
            doubts.push(format!("the {side} is not sealed: {because}"));
            verdict.notes.extend(doubts.last().cloned());
        }
        doubts.extend(
            loaded
                .source
                .unused()
                .iter()
                .map(|dump| format!("a dump of the {side} was not compared: `{}`: {}", dump.what, dump.why)),
        );
        let problems = loaded.ordered.problems.iter();
        verdict.notes.extend(problems.map(|problem| format!("{side}, {}: {}", problem.what, problem.why)));
    }
    if golden.imported_from().is_some() || candidate.imported_from().is_some() {
        limit_to_messages(&mut verdict, golden, candidate);
    }
    cache_changes::add_cache_changes(&mut verdict, &mine.explained, &theirs.explained);
    seal::add_seal_differences(&mut verdict, [(golden, &mine.ordered), (candidate, &theirs.ordered)]);
    // Bytes that were not compared may differ.
    if let (Some(doubt), VerdictOutcome::Match) = (doubts.into_iter().next(), &verdict.outcome) {
        verdict.outcome = VerdictOutcome::Inconclusive(doubt);
    }
    verdict
}

/// Limits a verdict about an imported session, which has messages and neither bytes nor settings.
fn limit_to_messages(verdict: &mut Verdict, golden: &Source, candidate: &Source) {
    verdict.level = verdict.level.min(Some(Level::E3));
    let is_one_sided = golden.imported_from().is_some() != candidate.imported_from().is_some();
    let doubt = match verdict.outcome {
        VerdictOutcome::Match if verdict.required > Level::E3 => {
            "an imported session has no bytes to compare"
        }
        VerdictOutcome::Differs if is_one_sided => {
            "only one side is an imported session, which has no instructions, tools and settings"
        }
        _ => return,
    };
    verdict.outcome = VerdictOutcome::Inconclusive(doubt.to_owned());
}

/// Compares two recordings.
pub fn compare(
    golden: &ComparedRecording<'_>,
    candidate: &ComparedRecording<'_>,
    rules: &ParityRules,
    required: Level,
) -> Verdict {
    compare_collected(golden, candidate, Default::default(), rules, required)
}

/// Compares two recordings whose units have been collected, as far as they have.
fn compare_collected(
    golden: &ComparedRecording<'_>,
    candidate: &ComparedRecording<'_>,
    [golden_units, candidate_units]: [UnitCollector; 2],
    rules: &ParityRules,
    required: Level,
) -> Verdict {
    let sides =
        [ProjectedRecording::new(golden, golden_units), ProjectedRecording::new(candidate, candidate_units)];
    let recordings = PairedRecordings::align(sides);
    let rules = rules.applied_to([&golden.facts, &candidate.facts]);
    let lanes = (0..recordings.pairs.len()).map(|pair| recordings.first_lane(pair).id.clone()).collect();
    let classifier = Classifier { rules: &rules, required, lanes };
    let mut cx = Comparer::new(&recordings, &rules);
    let mut result = ClassifiedFindings { classifier: &classifier, findings: Vec::new(), notes: Vec::new() };
    for pair in 0..recordings.pairs.len() {
        compare_lanes(&mut cx, pair, &mut result);
    }
    result.notes.extend(alignment_notes(&recordings));
    let is_own_replay = compare::is_own_replay(golden, candidate);
    let (masks, ids, conflicts) = cx.finish();
    result.add(conflicts);
    let ClassifiedFindings { findings, notes, .. } = result;
    let result = ComparisonResult { findings, notes, masks, ids, is_own_replay };
    summarise(&recordings, result, &classifier)
}

/// Findings with their levels, in the order in which they were made.
struct ClassifiedFindings<'c> {
    classifier: &'c Classifier<'c>,
    findings: Vec<Classified>,
    notes: Vec<String>,
}

impl ClassifiedFindings<'_> {
    fn add(&mut self, findings: Findings) {
        self.notes.extend(findings.notes);
        self.findings.extend(findings.list.into_iter().map(|finding| self.classifier.classify(finding)));
    }

    /// Returns whether one of the findings from `start` on is a listed difference.
    fn has_listed(&self, start: usize) -> bool {
        let differences = self.findings[start..].iter().filter_map(|it| it.difference.as_ref());
        differences.into_iter().any(|difference| self.classifier.is_listed(difference))
    }
}

/// Compares a pair of lanes, turn by turn.
fn compare_lanes(cx: &mut Comparer<'_>, pair: usize, result: &mut ClassifiedFindings<'_>) {
    let recordings = cx.recordings;
    let mut findings = Findings::default();
    surfaces::compare_lane(recordings, pair, &mut findings);
    result.add(findings);
    let lanes = [0, 1].map(|side| recordings.lane(side, pair));
    // The turns of a missing lane need no findings of their own, and the number of side calls is not judged.
    let [Some(golden), Some(candidate)] = lanes else { return };
    let is_side = golden.kind == LaneKind::Side;
    let mut lane = LaneComparison::new(recordings, pair);
    for row in &recordings.pairs[pair].turns {
        match (row.0.map(|at| &golden.turns[at]), row.1.map(|at| &candidate.turns[at])) {
            (Some(mine), Some(theirs)) => compare_turns(cx, &mut lane, [mine, theirs], result),
            (Some(turn), None) if !is_side => {
                result.add(compare::compare_unpaired_turn(cx, &mut lane, 0, turn));
            }
            (None, Some(turn)) if !is_side => {
                result.add(compare::compare_unpaired_turn(cx, &mut lane, 1, turn));
            }
            _ => {}
        }
    }
}

/// Compares two aligned turns: their attempts in pairs, counted from the last, which got the reply.
fn compare_turns(
    cx: &mut Comparer<'_>,
    lane: &mut LaneComparison,
    turns: [&Turn; 2],
    result: &mut ClassifiedFindings<'_>,
) {
    let place = TurnPlace { lane: lane.number, turn: turns[0].turn };
    let mut findings = Findings::default();
    surfaces::compare_turn(cx.recordings, place, turns, &mut findings);
    result.add(findings);
    let attempts = turns[0].attempts.len();
    let pairs: Vec<_> = turns[0].attempts.iter().rev().zip(turns[1].attempts.iter().rev()).collect();
    for (back, (mine, theirs)) in pairs.into_iter().enumerate().rev() {
        let suffix = match back {
            0 => String::new(),
            _ => format!(", in attempt {} of {attempts}", attempts - back),
        };
        let with_suffix = |mut findings: Findings| {
            findings.list.iter_mut().for_each(|finding| finding.suffix.clone_from(&suffix));
            findings
        };
        let start = result.findings.len();
        let compared = compare::compare_attempt(cx, lane, place.turn, [mine, theirs]);
        result.add(with_suffix(compared.findings));
        if compared.has_unexplained_bytes && !result.has_listed(start) {
            let finding: Finding = compare::compare_spelling(cx, place, [mine, theirs]);
            result.add(with_suffix(Findings { list: vec![finding], notes: Vec::new() }));
        }
    }
}

/// Returns notes about lanes that were aligned as a set, and about side calls.
fn alignment_notes(recordings: &PairedRecordings<'_>) -> Vec<String> {
    let mut notes: Vec<String> = siblings(recordings.sides[0].lanes())
        .into_iter()
        .map(|lanes| {
            format!(
                "{} were started together; they were aligned by their prompts, not by their numbers",
                lanes.join(", ")
            )
        })
        .collect();
    let is_side = |pair: &usize| {
        let lanes = [0, 1].map(|side| recordings.lane(side, *pair));
        matches!(lanes, [Some(golden), Some(_)] if golden.kind == LaneKind::Side)
    };
    match (0..recordings.pairs.len()).filter(is_side).count() {
        0 => {}
        n => notes.push(format!("{n} side calls were compared; their number does not count")),
    }
    notes
}

/// Returns the groups of agents that one turn started.
fn siblings(lanes: &Lanes) -> Vec<Vec<String>> {
    /// A parent and the index of its turn.
    type Start = (Option<String>, Option<usize>);
    let mut groups: Vec<(Start, Vec<String>)> = Vec::new();
    for lane in lanes.lanes.iter().filter(|lane| lane.kind == LaneKind::Sub) {
        let parent = lane.parent.as_deref().and_then(|parent| lanes.lane(parent));
        let turn = parent.and_then(|parent| align::spawn_place(parent, lane)).map(|(turn, _)| turn);
        let start = (lane.parent.clone(), turn);
        match groups.iter_mut().find(|(known, _)| *known == start) {
            Some((_, lanes)) => lanes.push(lane.id.clone()),
            None => groups.push((start, vec![lane.id.clone()])),
        }
    }
    groups.into_iter().map(|(_, lanes)| lanes).filter(|lanes| lanes.len() > 1).collect()
}

#[cfg(test)]
mod tests;
