//! Races: what no reply of a model decides, so that no order of answers brings it back for certain.
//!
//! A golden's own replay shows them. Each rule is about one kind of place; whatever else differs in such a replay is a
//! difference like any other. `docs/guide/verify.md` lists the rules.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use recording::Replay;
use recording::lanes::{Job, LaneKind, Lanes, Mark};

use super::compare::Comparison;
use super::jobs::JobWords;
use super::lane::LaneWork;
use super::side::ComparedRecording;
use super::unit::{Kind, Projected, Unit};
use crate::verdict::{Level, Race, Surface, Verdict};

/// Whether the candidate is a replay of the golden: by the same harness, in the recorded order, and nothing went wrong
/// on purpose. A harness without a version may be another one every time: what it does differently is no race.
pub(super) fn is_own(golden: &ComparedRecording<'_>, candidate: &ComparedRecording<'_>) -> bool {
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

/// Whether a replay is one of the recording in this folder. Those made before there were digests name only a path.
pub(super) fn is_of(replay: &Replay, folder: &str) -> bool {
    let golden = Path::new(folder);
    match &replay.sha256 {
        Some(sha256) => Replay::digest_of(golden).as_ref() == Some(sha256),
        None => {
            let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
            real(Path::new(&replay.of)) == real(golden)
        }
    }
}

/// What a reader should know of races in the golden.
pub(super) fn notes(golden: &Lanes, verdict: &Verdict, is_own: bool) -> Vec<String> {
    let mut notes = Vec::new();
    for lane in &golden.lanes {
        for turn in lane.turns.iter().filter(|turn| turn.marks.contains(&Mark::LateText)) {
            let because = Race::Late.explanation();
            notes.push(format!("the golden is racy at {}, turn {}: {because}", lane.id, turn.turn));
        }
    }
    let worse = |level: Option<Level>| level.is_none_or(|level| level < Level::E3);
    let below: Vec<_> = verdict.differences.iter().filter(|difference| worse(difference.level)).collect();
    for difference in &below {
        if let Some(race) = difference.race.filter(|race| *race != Race::Late) {
            notes.push(format!(
                "the golden is racy at {}, turn {} ({}), rule `{}`: {}",
                difference.lane,
                difference.turn,
                difference.pointer,
                race.name(),
                race.explanation()
            ));
        }
    }
    let others = below.iter().filter(|difference| difference.race.is_none()).count();
    if is_own && others > 0 {
        let others = match others {
            1 => "1 of the differences is".to_owned(),
            n => format!("{n} of the differences are"),
        };
        notes.push(format!(
            "the candidate is a replay of its golden in the recorded order; {others} no known race"
        ));
    }
    notes
}

impl Comparison<'_> {
    /// The race that two units may differ by, or that one of them is there for.
    pub(super) fn race(
        &self,
        lane: &LaneWork<'_>,
        turn: u32,
        holds: Option<Level>,
        units: [Option<(&Unit, &Projected)>; 2],
    ) -> Option<Race> {
        if !self.is_own {
            return None;
        }
        let golden = self.pairs[lane.number].golden?;
        let golden = &self.sides[0].ordered.lanes.lanes[golden];
        let (unit, _) = units[0].or(units[1])?;
        let both = units.iter().all(Option::is_some);
        match unit.kind {
            Kind::Tool if golden.kind == LaneKind::Main && turn == 1 && holds == Some(Level::E2) => {
                Some(Race::Start)
            }
            Kind::Result if both && holds == Some(Level::E2) => {
                let at_work = |side: usize| {
                    let call = units[side].and_then(|(unit, _)| unit.call.as_deref());
                    lane.jobs[side].answers_early(call)
                };
                (at_work(0) && at_work(1)).then_some(Race::Progress)
            }
            Kind::Said => {
                let late =
                    |at: &recording::lanes::Turn| at.turn == turn && at.marks.contains(&Mark::LateText);
                let announces = |side: usize| {
                    units[side].is_none_or(|(unit, of)| match golden.kind {
                        LaneKind::Side => self.names_a_job(side, &of.raw(unit)),
                        _ => lane.surface(side, unit, of) == Surface::Jobs,
                    })
                };
                if golden.turns.iter().any(late) {
                    Some(Race::Late)
                } else {
                    let together = self.jobs.iter().any(|jobs| ended_together(jobs));
                    (together && announces(0) && announces(1)).then_some(Race::Announced)
                }
            }
            _ => None,
        }
    }

    /// Whether a text of a side call, given as JSON, names a job of any agent.
    fn names_a_job(&self, side: usize, json: &str) -> bool {
        let lanes = &self.sides[side].ordered.lanes;
        let parents: BTreeSet<&str> = self.jobs[side].iter().map(|job| job.parent.as_str()).collect();
        let words = parents.into_iter().filter_map(|parent| lanes.lane(parent));
        words
            .map(|parent| JobWords::of(lanes, &self.jobs[side], parent, str::to_owned))
            .any(|words| !words.named(json).is_empty())
    }
}

/// Whether two agents of one parent were announced at one turn.
fn ended_together(jobs: &[Job]) -> bool {
    let mut told: HashMap<(&str, u32), u32> = HashMap::new();
    for job in jobs.iter().filter(|job| job.background) {
        let turns: BTreeSet<u32> = job.notices.iter().map(|notice| notice.turn).collect();
        turns.into_iter().for_each(|turn| *told.entry((&job.parent, turn)).or_default() += 1);
    }
    told.values().any(|jobs| *jobs > 1)
}
