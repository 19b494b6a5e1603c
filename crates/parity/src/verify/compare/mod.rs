//! Step 3, compare: compares aligned units value by value, and the order and frame around them.
//!
//! The result is a list of [`Finding`](super::finding::Finding)s. This step does not decide levels.

mod carried;
mod ids;
mod mask;
mod named;
mod ordered;
mod race;
mod transcript;
mod turn;
mod unit;
mod values;

use session::RequestId;

use super::align::PairedRecordings;
use super::finding::{Difference, Finding, Findings, Subject, TurnPlace, ValueAgreement, ValueDifference};
use super::history::LaneHistory;
use super::job_names::JobNames;
use super::rules::AppliedRules;
use crate::verdict::MaskUse;

#[cfg(test)]
pub(super) use race::is_of;
pub(super) use race::is_own_replay;
pub(super) use turn::{compare_attempt, compare_spelling, compare_unpaired_turn};

use self::carried::CarriedReplies;
use self::ids::IdPairing;
use self::mask::{MaskTally, Masks};
use self::values::ValueComparer;

/// State of the comparison that spans all lanes.
pub(super) struct Comparer<'c> {
    pub(super) recordings: &'c PairedRecordings<'c>,
    values: ValueComparer<'c>,
    replies: CarriedReplies<'c>,
    /// True if the candidate is a replay of the golden, so that only a race can make them differ.
    is_own_replay: bool,
}

/// State of the comparison of one lane pair.
pub(super) struct LaneComparison {
    pub(super) number: usize,
    jobs: [JobNames; 2],
    history: LaneHistory,
    /// The two requests that are being compared.
    requests: [Option<RequestId>; 2],
}

/// The comparison of two requests.
#[derive(Debug, Default)]
pub(super) struct RequestComparison {
    pub(super) findings: Findings,
    /// True if something in the bodies is not byte-equal.
    is_unequal: bool,
    /// True if units have no counterpart or moved, so that the frames cannot be compared.
    is_misaligned: bool,
    /// True if a reply differs or a unit has no counterpart.
    is_incomplete: bool,
    /// True if the bodies differ although all their units are equal.
    pub(super) has_unexplained_bytes: bool,
}

impl<'c> Comparer<'c> {
    pub(super) fn new(recordings: &'c PairedRecordings<'c>, rules: &'c AppliedRules) -> Self {
        let [golden, candidate] = [0, 1].map(|side| recordings.sides[side].recording);
        let masks = [(golden, candidate), (candidate, golden)]
            .map(|(side, other)| Masks::of(&side.facts.completed_by(&other.facts)));
        let ids = IdPairing::learn(recordings);
        Self {
            recordings,
            values: ValueComparer { masks, rules, ids, mask_hits: MaskTally::default() },
            replies: CarriedReplies::new(recordings),
            is_own_replay: is_own_replay(golden, candidate),
        }
    }

    /// Ends the comparison. Returns the hits of the masks, the pairs of ids, and findings about conflicting ids.
    pub(super) fn finish(self) -> (Vec<MaskUse>, Vec<(String, String)>, Findings) {
        let (pairs, conflicts) = self.values.ids.resolve();
        let mut findings = Findings::default();
        for conflict in conflicts {
            let elsewhere = match &conflict.elsewhere {
                Some(other) => format!("`{}` is paired with `{other}` elsewhere", conflict.golden),
                None => format!("`{}` is paired with another id elsewhere", conflict.candidate),
            };
            let place = conflict.place;
            let difference = ValueDifference {
                subject: Subject::Id { conflict: elsewhere },
                inside: String::new(),
                values: [Some(conflict.golden), Some(conflict.candidate)],
                agreement: ValueAgreement::Different,
                race: None,
            };
            let finding = Finding::new(place.turn, place.surface, place.pointer).excludable();
            findings.push(finding.with(Difference::Value(difference)));
        }
        (self.values.mask_hits.mask_uses(), pairs, findings)
    }
}

impl LaneComparison {
    pub(super) fn new(recordings: &PairedRecordings<'_>, number: usize) -> Self {
        Self {
            number,
            jobs: job_names(recordings, number),
            history: LaneHistory::default(),
            requests: Default::default(),
        }
    }

    fn at(&self, turn: u32) -> TurnPlace {
        TurnPlace { lane: self.number, turn }
    }
}

/// Collects the names of both sides' jobs in a pair of lanes. Both use the golden's names of the jobs.
fn job_names(recordings: &PairedRecordings<'_>, pair: usize) -> [JobNames; 2] {
    [0, 1].map(|side| {
        let Some(lane) = recordings.lane(side, pair) else { return JobNames::default() };
        let name = |job: &str| match side {
            0 => job.to_owned(),
            _ => recordings.counterpart(1, job).unwrap_or_else(|| format!("{job} of the candidate")),
        };
        let of = &recordings.sides[side];
        JobNames::of(of.lanes(), &of.jobs, lane, name)
    })
}
