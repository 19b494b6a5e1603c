//! Step 5, summarise: counts the classified findings by lane and surface, and makes the verdict.

mod changes;
mod lines;
mod notes;
mod tally;

use super::align::PairedRecordings;
use super::classify::{Classified, Classifier};
use crate::verdict::{
    LaneVerdict, MaskUse, Tolerances, VERDICT_FORMAT, Verdict, VerdictDifference, VerdictOutcome,
};

use self::tally::Tally;

/// Everything that the steps before have found.
pub(super) struct ComparisonResult {
    pub(super) findings: Vec<Classified>,
    pub(super) notes: Vec<String>,
    pub(super) masks: Vec<MaskUse>,
    /// Pairs of different ids.
    pub(super) ids: Vec<(String, String)>,
    pub(super) is_own_replay: bool,
}

/// Makes the verdict of a comparison.
pub(super) fn summarise(
    recordings: &PairedRecordings<'_>,
    result: ComparisonResult,
    classifier: &Classifier<'_>,
) -> Verdict {
    let required = classifier.required;
    let tally = Tally::of(&result.findings);
    let changes = changes::collect(&result.findings);
    let mut notes = notes::deduplicated(result.notes);
    notes.extend(notes::bytes_only(&result.findings, required));
    let rules = classifier.rules.rule_uses();
    let level = tally.level();
    let has_stale_rule = rules.iter().any(|rule| rule.stale);
    let outcome = match level {
        _ if recordings.sides[0].lanes().lanes.is_empty() => {
            VerdictOutcome::Inconclusive("the golden has no request".to_owned())
        }
        None => VerdictOutcome::Inconclusive("no unit was compared".to_owned()),
        Some(level) if level >= Some(required) && !has_stale_rule => VerdictOutcome::Match,
        Some(_) => VerdictOutcome::Differs,
    };
    let sides = [0, 1].map(|side| recordings.sides[side].recording);
    let mut verdict = Verdict {
        format: VERDICT_FORMAT,
        golden: sides[0].folder.clone(),
        candidate: sides[1].folder.clone(),
        descriptions: sides.map(|side| side.facts.description()),
        required,
        level: level.flatten(),
        outcome,
        summary: Vec::new(),
        surfaces: tally.surfaces(),
        lanes: (0..recordings.pairs.len()).map(|pair| lane_verdict(recordings, &tally, pair)).collect(),
        differences: differences(result.findings, classifier),
        tolerances: Tolerances { masks: result.masks, rules, ids: result.ids },
        notes,
        cache: Vec::new(),
    };
    let races = notes::races(recordings.sides[0].lanes(), &verdict, result.is_own_replay);
    verdict.notes.extend(races);
    verdict.summary = lines::summary_lines(&verdict, &changes, sides.map(|side| &side.facts));
    verdict
}

/// Returns the listed differences in the order of lanes and turns.
fn differences(findings: Vec<Classified>, classifier: &Classifier<'_>) -> Vec<VerdictDifference> {
    let listed = |it: Classified| {
        let difference = it.difference.filter(|difference| classifier.is_listed(difference))?;
        Some((it.place.lane, difference.excerpt))
    };
    let mut differences: Vec<_> = findings.into_iter().filter_map(listed).collect();
    differences.sort_by_key(|(lane, difference)| (*lane, difference.turn));
    differences.into_iter().map(|(_, difference)| difference).collect()
}

fn lane_verdict(recordings: &PairedRecordings<'_>, tally: &Tally, pair: usize) -> LaneVerdict {
    let [golden, candidate] = [0, 1].map(|side| recordings.lane(side, pair));
    let turn = |lane: Option<&recording::lanes::Lane>, at: Option<usize>| Some(lane?.turns.get(at?)?.turn);
    let turns = recordings.pairs[pair].turns.iter().map(|(g, c)| (turn(golden, *g), turn(candidate, *c)));
    LaneVerdict {
        golden: golden.map(|lane| lane.id.clone()),
        candidate: candidate.map(|lane| lane.id.clone()),
        turns: turns.collect(),
        surfaces: tally.lane(pair),
    }
}
