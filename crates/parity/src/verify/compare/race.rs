//! Races: differences that no reply of a model decides, so that no order of replies can reproduce a value.
//!
//! A replay of a golden shows them. Each rule is about one kind of place. All other differences of such a replay are
//! ordinary ones. `docs/reference/verify.md` lists the rules.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use recording::Replay;
use recording::lanes::{LaneJob, LaneKind, Turn, TurnMark};

use super::{Comparer, LaneComparison};
use crate::verdict::{Race, Surface};
use crate::verify::compared::ComparedRecording;
use crate::verify::finding::UnitPair;
use crate::verify::job_names::JobNames;
use crate::verify::project::{ProjectedRecording, UnitKind};
use crate::verify::surfaces::surface_of;

/// Returns whether the candidate is a replay of the golden: by the same harness, in the recorded order, without faults.
/// A harness without a version may be another one each time, so its differences are no races.
pub(in crate::verify) fn is_own_replay(
    golden: &ComparedRecording<'_>,
    candidate: &ComparedRecording<'_>,
) -> bool {
    let (mine, theirs) = (&golden.facts, &candidate.facts);
    if mine.harness.is_none() || mine.version.is_none() {
        return false;
    }
    let same = [&mine.harness, &mine.version, &mine.host_version]
        == [&theirs.harness, &theirs.version, &theirs.host_version];
    let of_it = theirs.replay.as_ref().is_some_and(|replay| {
        is_of(replay, &golden.folder) && replay.order == "recorded" && replay.faults.is_empty()
    });
    same && of_it
}

/// Returns whether a replay is one of the recording in this folder. Old replays have no digest and name only a path.
pub(in crate::verify) fn is_of(replay: &Replay, folder: &str) -> bool {
    let golden = Path::new(folder);
    match &replay.sha256 {
        Some(sha256) => Replay::digest_of(golden).as_ref() == Some(sha256),
        None => {
            let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
            real(Path::new(&replay.of)) == real(golden)
        }
    }
}

/// Returns the race that may explain why two units differ, or why one of them has no counterpart.
pub(super) fn possible_race(
    cx: &Comparer<'_>,
    lane: &LaneComparison,
    turn: u32,
    units: UnitPair<'_>,
) -> Option<Race> {
    if !cx.is_own_replay {
        return None;
    }
    let golden = cx.recordings.lane(0, lane.number)?;
    match (units, units[0].or(units[1])?.kind) {
        (_, UnitKind::Tool) => (golden.kind == LaneKind::Main && turn == 1).then_some(Race::Start),
        ([Some(mine), Some(theirs)], UnitKind::Result) => {
            let are_early = lane.jobs[0].is_early_result(mine) && lane.jobs[1].is_early_result(theirs);
            are_early.then_some(Race::Progress)
        }
        (_, UnitKind::Text) => {
            let is_late = |at: &Turn| at.turn == turn && at.marks.contains(&TurnMark::LateText);
            let announces = |side: usize| {
                units[side].is_none_or(|unit| match golden.kind {
                    LaneKind::Side => names_a_job(&cx.recordings.sides[side], &unit.json),
                    _ => surface_of(unit, &lane.jobs[side]) == Surface::Jobs,
                })
            };
            if golden.turns.iter().any(is_late) {
                return Some(Race::Late);
            }
            let ended_together = cx.recordings.sides.iter().any(|side| have_common_end(&side.jobs));
            (ended_together && announces(0) && announces(1)).then_some(Race::Announced)
        }
        _ => None,
    }
}

/// Returns whether a text of a side call, given as JSON, names a job of any agent.
fn names_a_job(recording: &ProjectedRecording<'_>, json: &str) -> bool {
    let (lanes, jobs) = (recording.lanes(), &recording.jobs);
    let parents: BTreeSet<&str> = jobs.iter().map(|job| job.parent.as_str()).collect();
    let mut parents = parents.into_iter().filter_map(|parent| lanes.lane(parent));
    parents.any(|parent| !JobNames::of(lanes, jobs, parent, str::to_owned).named_in(json).is_empty())
}

/// Returns whether two agents of one parent were announced at the same turn.
fn have_common_end(jobs: &[LaneJob]) -> bool {
    let mut announced: HashMap<(&str, u32), u32> = HashMap::new();
    for job in jobs.iter().filter(|job| job.background) {
        let turns: BTreeSet<u32> = job.notices.iter().map(|notice| notice.turn).collect();
        turns.into_iter().for_each(|turn| *announced.entry((&job.parent, turn)).or_default() += 1);
    }
    announced.values().any(|jobs| *jobs > 1)
}
