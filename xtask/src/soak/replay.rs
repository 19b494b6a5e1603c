//! `cargo xtask soak replay`: replays each recording. The harness must do the same: equal after masks (E3), and for our own
//! kernel byte-equal (E4).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Result, bail, ensure};
use parity::{Level, Verdict};

use super::{
    CaptureArgs, Cell, CellOutcome, cells, describe, first_error, program, run, run_capture, run_parallel,
    table,
};
use crate::harnesses;

/// Selection of replays.
#[derive(clap::Args)]
pub(crate) struct ReplayArgs {
    #[command(flatten)]
    which: CaptureArgs,
    /// Number of replays of each recording
    #[arg(long, default_value_t = 10)]
    times: u32,
    /// Use all providers of a harness, not only the first
    #[arg(long)]
    providers: bool,
}

/// Our own kernel, which is deterministic.
const OURS: &str = "offshoot";

/// The results of the replays of one recording.
#[derive(Default)]
struct ReplayResults {
    outcomes: Vec<CellOutcome>,
    /// Masks that hid differences.
    masks: BTreeSet<String>,
    /// Places that the verdict called racy, with their number.
    racy: BTreeMap<String, u32>,
}

pub(super) fn soak(args: &ReplayArgs) -> Result<()> {
    harnesses::provide_all()?;
    let program = program(args.which.program.as_deref())?;
    let first = super::MODELS[0];
    let mut cells = cells(&args.which);
    cells.retain(|cell| args.providers || cell.model.is_none_or(|model| model == first));
    ensure!(!cells.is_empty(), "no capture matches the selection");
    let results = run_parallel(cells, args.which.jobs, |cell| {
        let replays = replay_cell(&program, cell, args);
        for outcome in &replays.outcomes {
            eprintln!("{}: {}", cell.label(), describe(outcome));
        }
        replays
    });
    let outcomes: BTreeMap<Cell, Vec<CellOutcome>> =
        results.iter().map(|(cell, replays)| (cell.clone(), replays.outcomes.clone())).collect();
    print!("{}", table(&outcomes));
    println!("\nMasks with differences:\n");
    let mut masks: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for (cell, replays) in &results {
        let row = masks.entry(cell.row().replace(" |", ",")).or_default();
        row.extend(replays.masks.iter().map(String::as_str));
    }
    for (row, masks) in masks {
        println!("- {row}: {}", masks.into_iter().collect::<Vec<_>>().join(", "));
    }
    print!("{}", racy_places(&results));
    let failed = outcomes.values().flatten().filter(|outcome| outcome.is_err()).count();
    if failed > 0 {
        bail!("{failed} replays failed");
    }
    Ok(())
}

/// Formats a line for each racy place.
fn racy_places(results: &[(Cell, ReplayResults)]) -> String {
    let mut lines = BTreeSet::new();
    for (cell, replays) in results {
        let all = replays.outcomes.len();
        let line =
            |(place, times): (&String, &u32)| format!("- {}: {place}, in {times} of {all}\n", cell.label());
        lines.extend(replays.racy.iter().map(line));
    }
    match lines.is_empty() {
        true => String::new(),
        false => format!("\nRacy places, counted as equal:\n\n{}", Vec::from_iter(lines).concat()),
    }
}

fn replay_cell(program: &Path, cell: &Cell, args: &ReplayArgs) -> ReplayResults {
    let mut replays = ReplayResults::default();
    let Ok(place) = tempfile::tempdir() else { return replays };
    let golden = place.path().join("golden");
    match run_capture(program, cell, place.path(), &golden) {
        Ok(ran) if ran.status.success() => {}
        Ok(ran) => {
            let why = first_error(&String::from_utf8_lossy(&ran.stderr));
            replays.outcomes.push(Err(format!("not captured: {why}")));
            return replays;
        }
        Err(why) => {
            replays.outcomes.push(Err(why));
            return replays;
        }
    }
    let required = if cell.harness == OURS { Level::E4 } else { Level::E3 };
    for round in 0..args.times {
        let again = place.path().join(format!("again-{round}"));
        let outcome = replay_and_verify(program, (place.path(), &golden, &again), required, &mut replays);
        if let (Err(_), Some(keep)) = (&outcome, &args.which.keep) {
            let kept = keep.join(format!("{}_{round}", cell.label().replace([' ', '/'], "_")));
            let _ = std::fs::create_dir_all(&kept); // the failure is reported in any case
            let _ = Command::new("cp").arg("-r").args([&golden, &again]).arg(&kept).status();
        }
        replays.outcomes.push(outcome);
        let _ = std::fs::remove_dir_all(&again); // the parent folder is removed at the end
    }
    replays
}

/// Replays a recording and verifies the result.
fn replay_and_verify(
    program: &Path,
    (place, golden, again): (&Path, &Path, &Path),
    required: Level,
    replays: &mut ReplayResults,
) -> CellOutcome {
    let begun = Instant::now();
    let mut command = Command::new(program);
    command.arg("replay").arg(golden).args(["--order", "recorded", "--out"]).arg(again);
    let ran = run(command, place)?;
    let seconds = begun.elapsed().as_secs();
    if !ran.status.success() {
        return Err(first_error(&String::from_utf8_lossy(&ran.stderr)));
    }
    let mut command = Command::new(program);
    command.arg("verify").arg(golden).arg(again).args(["--level", "E4", "--format", "json"]);
    let ran = run(command, place)?;
    let verdict =
        Verdict::from_json(&ran.stdout).map_err(|error| format!("`verify` printed no verdict: {error}"))?;
    let racy = check_verdict(&verdict, required)?;
    for place in racy {
        *replays.racy.entry(place).or_default() += 1;
    }
    let differing = verdict.tolerances.masks.into_iter().filter(|mask| mask.differed > 0);
    replays.masks.extend(differing.map(|mask| mask.name));
    Ok(seconds)
}

/// Checks that the required level holds, or that E3 holds apart from racy places of the golden. Returns these places.
fn check_verdict(verdict: &Verdict, required: Level) -> Result<BTreeSet<String>, String> {
    let holds = |level: Option<Level>| level >= Some(required);
    if holds(verdict.level) {
        return Ok(BTreeSet::new());
    }
    let level = verdict.level.map_or("nothing".to_owned(), |level| level.to_string());
    let mut racy = BTreeSet::new();
    for it in verdict.differences.iter().filter(|it| !holds(it.level)) {
        let Some(race) = it.race.filter(|_| required == Level::E3) else {
            return Err(format!("only {level}: {} {}", it.surface.name(), it.description));
        };
        racy.insert(format!("`{}` at {}, turn {} ({})", race.name(), it.lane, it.turn, it.pointer));
    }
    match racy.is_empty() {
        true => Err(format!("only {level}")),
        false => Ok(racy),
    }
}

#[cfg(test)]
mod tests {
    use parity::{Race, Surface, Tolerances, VERDICT_FORMAT, VerdictDifference, VerdictOutcome};

    use super::*;

    fn verdict(level: Option<Level>, differences: &[VerdictDifference]) -> Verdict {
        Verdict {
            format: VERDICT_FORMAT,
            golden: "golden".to_owned(),
            candidate: "again".to_owned(),
            descriptions: [String::new(), String::new()],
            required: Level::E4,
            level,
            outcome: VerdictOutcome::Differs,
            summary: Vec::new(),
            surfaces: Vec::new(),
            lanes: Vec::new(),
            differences: differences.to_vec(),
            tolerances: Tolerances::default(),
            notes: Vec::new(),
            cache: Vec::new(),
        }
    }

    fn difference(level: Level, race: Option<Race>) -> VerdictDifference {
        VerdictDifference {
            surface: Surface::Jobs,
            level: Some(level),
            lane: "main".to_owned(),
            turn: 4,
            pointer: "/messages/6".to_owned(),
            description: "a text differs".to_owned(),
            golden: None,
            candidate: None,
            suggested_rule: None,
            race,
        }
    }

    #[test]
    fn only_racy_places_may_differ() {
        let e3 =
            |level, differences: &[VerdictDifference]| check_verdict(&verdict(level, differences), Level::E3);
        let by_mask = difference(Level::E3, None);
        let racy = difference(Level::E2, Some(Race::Progress));
        let places = BTreeSet::from(["`progress` at main, turn 4 (/messages/6)".to_owned()]);
        assert_eq!(e3(Some(Level::E2), &[by_mask.clone(), racy.clone()]), Ok(places));
        let unexplained = difference(Level::E2, None);
        assert_eq!(e3(Some(Level::E2), &[racy, unexplained]), Err("only E2: jobs a text differs".to_owned()));
        assert_eq!(e3(None, &[]), Err("only nothing".to_owned()));
        assert_eq!(e3(Some(Level::E3), &[by_mask]), Ok(BTreeSet::new()));
    }

    #[test]
    fn our_own_replays_must_be_byte_equal() {
        let e4 = |level, differences: &[VerdictDifference]| {
            check_verdict(&verdict(Some(level), differences), Level::E4)
        };
        assert_eq!(e4(Level::E4, &[]), Ok(BTreeSet::new()));
        let masked = difference(Level::E3, Some(Race::Start));
        assert_eq!(e4(Level::E3, &[masked]), Err("only E3: jobs a text differs".to_owned()));
        assert_eq!(e4(Level::E3, &[]), Err("only E3".to_owned()));
    }
}
