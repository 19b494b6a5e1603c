//! Surface `jobs`: agents in the background, from their acknowledgement to their last message.

use std::collections::BTreeSet;

use recording::lanes::LaneJob;

use super::{SurfaceDefinition, results};
use crate::surface::Surface;
use crate::verdict::Level;
use crate::verify::align::PairedRecordings;
use crate::verify::changes::{Changes, counted};
use crate::verify::finding::{Finding, Findings, TurnPlace};
use crate::verify::job_names::is_asynchronous;
use crate::verify::project::UnitKind;
use crate::verify::structure::{ChangeKind, Structure};

pub(super) const DEFINITION: SurfaceDefinition = SurfaceDefinition {
    has_unit: |_, is_about_job| is_about_job,
    value_level: |change| match change.kind {
        UnitKind::Result => results::value_level(change),
        _ => Level::E2,
    },
    unpaired_level: |_| Level::E0,
    unit_name: |kind, _| match kind {
        UnitKind::Result => "an answer about a job".to_owned(),
        _ => "an announcement".to_owned(),
    },
    summary,
    has_prose: true,
    has_versions: true,
    compare_lane: Some(compare_jobs),
    compare_turn: None,
};

/// Events of a job, each with the parent's turn.
type JobEvents = Vec<(u32, &'static str)>;

fn events(job: &LaneJob) -> JobEvents {
    let mut events = Vec::new();
    let answer = if job.background { "acknowledgement" } else { "result" };
    events.extend(job.acknowledged.map(|turn| (turn, answer)));
    events
        .extend(job.touches.iter().map(|touch| (touch.turn, if touch.cancels { "cancel" } else { "poll" })));
    let notice = |wakes: bool| if wakes { "wake-up" } else { "announcement" };
    events.extend(job.notices.iter().map(|it| (it.turn, notice(it.wakes))));
    if job.background {
        events.extend(job.delivered.map(|turn| (turn, "delivery")));
    }
    events.sort_by_key(|(turn, _)| *turn);
    events
}

/// Compares the events of the jobs that two lanes started.
fn compare_jobs(recordings: &PairedRecordings<'_>, pair: usize, findings: &mut Findings) {
    let (Some(golden), Some(candidate)) = (recordings.lane(0, pair), recordings.lane(1, pair)) else {
        return;
    };
    let of = |side: usize, parent: &str| -> Vec<&LaneJob> {
        recordings.sides[side].jobs.iter().filter(|job| job.parent == parent).collect()
    };
    let (mine, theirs) = (of(0, &golden.id), of(1, &candidate.id));
    for job in mine {
        let Some(lane) = recordings.counterpart(0, &job.lane) else { continue };
        let Some(other) = theirs.iter().find(|other| other.lane == lane) else { continue };
        if is_asynchronous(job) || is_asynchronous(other) {
            compare_job(recordings, pair, [job, other], findings);
        }
    }
}

fn compare_job(recordings: &PairedRecordings<'_>, pair: usize, jobs: [&LaneJob; 2], findings: &mut Findings) {
    let (mine, theirs) = (events(jobs[0]), events(jobs[1]));
    let lane = jobs[0].lane.clone();
    let place = TurnPlace { lane: pair, turn: jobs[0].launched };
    let kinds = |events: &JobEvents| events.iter().map(|(_, kind)| *kind).collect::<Vec<_>>();
    let is_equal = kinds(&mine) == kinds(&theirs);
    let finding = Finding::new(place, Surface::Jobs, "job:story").excludable().compared(is_equal);
    if !is_equal {
        let set = |events: &JobEvents| events.iter().map(|(_, kind)| *kind).collect::<BTreeSet<_>>();
        let structure = match set(&mine) == set(&theirs) {
            true => Structure::JobEventOrder { lane },
            false => Structure::JobEvents { lane },
        };
        let [mine, theirs] = [&mine, &theirs].map(|events| kinds(events).join(", "));
        return findings.push(finding.structure(structure, Some(&mine), Some(&theirs)));
    }
    findings.push(finding);
    let rows = &recordings.pairs[pair].turns;
    let moved = mine
        .iter()
        .zip(&theirs)
        .find(|((g, _), (c, _))| !rows.contains(&(Some(*g as usize - 1), Some(*c as usize - 1))));
    let turn = moved.map_or(place.turn, |((golden, _), _)| *golden);
    let place = TurnPlace { turn, ..place };
    let finding = Finding::new(place, Surface::Routing, "job:turn").excludable().compared(moved.is_none());
    findings.push(match moved {
        None => finding,
        Some(((g, event), (c, _))) => {
            let structure = Structure::JobEventTurn { lane, event };
            finding.structure(structure, Some(&format!("turn {g}")), Some(&format!("turn {c}")))
        }
    });
}

fn summary(changes: &Changes) -> Vec<String> {
    let mut lines: Vec<String> = changes.others(Surface::Jobs).collect();
    for (golden, candidate) in &changes.job_events {
        let kinds = |events: &str| events.split(", ").map(str::to_owned).collect::<BTreeSet<String>>();
        let (mine, theirs) = (kinds(golden), kinds(candidate));
        let words = |kinds: Vec<&String>, what: &str| {
            let kinds: Vec<&str> =
                kinds.into_iter().map(String::as_str).filter(|kind| !kind.is_empty()).collect();
            (!kinds.is_empty()).then(|| format!("{} {what}", kinds.join(", ")))
        };
        let of = [
            words(mine.difference(&theirs).collect(), "gone"),
            words(theirs.difference(&mine).collect(), "new"),
        ];
        let of: Vec<String> = of.into_iter().flatten().collect();
        let line = if of.is_empty() { "in another order".to_owned() } else { of.join(", ") };
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    let count = |kind: UnitKind, change: ChangeKind| changes.count(Surface::Jobs, kind, change);
    use ChangeKind::{Gone, New, Reworded};
    let units = [
        counted(count(UnitKind::Text, New), "announcement new", "announcements new"),
        counted(count(UnitKind::Text, Gone), "announcement gone", "announcements gone"),
        counted(count(UnitKind::Text, Reworded), "announcement reworded", "announcements reworded"),
        counted(count(UnitKind::Result, Reworded), "answer reworded", "answers reworded"),
    ];
    lines.extend(units.into_iter().flatten());
    lines
}
