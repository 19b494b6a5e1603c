//! `cargo xtask soak replay`: replays each recording. The harness must do the same: equal after masks (E3), and for our own
//! kernel byte-equal (E4).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Result, bail, ensure};
use serde_json::Value;

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

/// The level that a replay must reach.
#[derive(Clone, Copy, PartialEq)]
enum RequiredLevel {
    E3,
    E4,
}

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
    let wanted = if cell.harness == OURS { RequiredLevel::E4 } else { RequiredLevel::E3 };
    for round in 0..args.times {
        let again = place.path().join(format!("again-{round}"));
        let outcome = replay_and_verify(program, (place.path(), &golden, &again), wanted, &mut replays);
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
    wanted: RequiredLevel,
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
    let verdict: Value =
        serde_json::from_slice(&ran.stdout).map_err(|error| format!("`verify` printed no JSON: {error}"))?;
    let racy = check_verdict(&verdict, wanted)?;
    for place in racy {
        *replays.racy.entry(place).or_default() += 1;
    }
    let masks = verdict["masks"].as_array().into_iter().flatten();
    let differing = masks.filter(|mask| mask["differed"].as_u64().is_some_and(|times| times > 0));
    replays.masks.extend(differing.filter_map(|mask| mask["name"].as_str()).map(str::to_owned));
    Ok(seconds)
}

/// Checks that the required level holds, or that E3 holds apart from racy places of the golden. Returns these places.
fn check_verdict(verdict: &Value, wanted: RequiredLevel) -> Result<BTreeSet<String>, String> {
    let text = |of: &Value, key: &str| of[key].as_str().unwrap_or("?").to_owned();
    let holds = |of: &Value, key: &str| match wanted {
        RequiredLevel::E3 => matches!(of[key].as_str(), Some("E3" | "E4")),
        RequiredLevel::E4 => of[key] == "E4",
    };
    if holds(verdict, "level") {
        return Ok(BTreeSet::new());
    }
    let level = verdict["level"].as_str().unwrap_or("nothing");
    let differences = verdict["differences"].as_array().into_iter().flatten();
    let mut racy = BTreeSet::new();
    for it in differences.filter(|it| !holds(it, "holds")) {
        let rule = it["racy"].as_str().filter(|_| wanted == RequiredLevel::E3);
        let Some(rule) = rule else {
            return Err(format!("only {level}: {} {}", text(it, "surface"), text(it, "what")));
        };
        racy.insert(format!(
            "`{rule}` at {}, turn {} ({})",
            text(it, "lane"),
            it["turn"],
            text(it, "pointer")
        ));
    }
    match racy.is_empty() {
        true => Err(format!("only {level}")),
        false => Ok(racy),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_racy_places_may_differ() {
        let difference = |holds: &str, racy: Value| {
            json!({"surface": "jobs", "holds": holds, "lane": "main", "turn": 4, "pointer": "/messages/6",
                "what": "a text differs", "racy": racy})
        };
        let verdict = |differences: Value| json!({"level": "E2", "differences": differences});
        let by_mask = difference("E3", Value::Null);
        let racy = difference("E2", json!("progress"));
        let places = check_verdict(&verdict(json!([by_mask, racy])), RequiredLevel::E3)
            .expect("only racy differences");
        assert_eq!(places, BTreeSet::from(["`progress` at main, turn 4 (/messages/6)".to_owned()]));
        let lost = check_verdict(&verdict(json!([racy, difference("E2", Value::Null)])), RequiredLevel::E3);
        assert_eq!(lost, Err("only E2: jobs a text differs".to_owned()));
        let e3 = |verdict: Value| check_verdict(&verdict, RequiredLevel::E3);
        assert_eq!(e3(json!({"level": null, "differences": []})), Err("only nothing".to_owned()));
        assert_eq!(e3(json!({"level": "E3", "differences": [by_mask]})), Ok(BTreeSet::new()));
    }

    #[test]
    fn our_own_replays_must_be_byte_equal() {
        let e4 = |verdict: Value| check_verdict(&verdict, RequiredLevel::E4);
        assert_eq!(e4(json!({"level": "E4", "differences": []})), Ok(BTreeSet::new()));
        let masked = json!({"surface": "prompt", "holds": "E3", "what": "a text differs", "racy": "start"});
        let verdict = json!({"level": "E3", "differences": [masked]});
        assert_eq!(e4(verdict), Err("only E3: prompt a text differs".to_owned()));
        assert_eq!(e4(json!({"level": "E3", "differences": []})), Err("only E3".to_owned()));
    }
}
