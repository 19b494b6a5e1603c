//! `cargo xtask soak replay`: each recording stands in for its model, and the harness must do the same again: up to
//! masks (E3), and our own to the byte (E4).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Result, bail, ensure};
use serde_json::Value;

use super::{Args, Cell, Outcome, captured, cells, first_error, program, run, said, side_by_side, table};
use crate::harnesses;

/// How much of it.
#[derive(clap::Args)]
pub(crate) struct ReplayArgs {
    #[command(flatten)]
    which: Args,
    /// How often each recording is replayed
    #[arg(long, default_value_t = 10)]
    times: u32,
    /// Every provider that a harness speaks to, not only the first
    #[arg(long)]
    providers: bool,
}

/// Our own kernel: nothing in it differs from one run to the next.
const OURS: &str = "offshoot";

/// Up to which level a replay must hold.
#[derive(Clone, Copy, PartialEq)]
enum Wanted {
    E3,
    E4,
}

/// How the replays of one recording went.
#[derive(Default)]
struct Replays {
    outcomes: Vec<Outcome>,
    /// What kept them from being equal to the byte.
    kept: BTreeSet<String>,
    /// Where the verdict called the recording racy, and how often.
    racy: BTreeMap<String, u32>,
}

pub(super) fn soak(args: &ReplayArgs) -> Result<()> {
    harnesses::provide_all()?;
    let program = program(args.which.program.as_deref())?;
    let first = super::MODELS[0];
    let mut cells = cells(&args.which);
    cells.retain(|cell| args.providers || cell.model.is_none_or(|model| model == first));
    ensure!(!cells.is_empty(), "no capture fits these choices");
    let results = side_by_side(cells, args.which.jobs, |cell| {
        let replays = replays(&program, cell, args);
        for outcome in &replays.outcomes {
            eprintln!("{}: {}", cell.label(), said(outcome));
        }
        replays
    });
    let outcomes: BTreeMap<Cell, Vec<Outcome>> =
        results.iter().map(|(cell, replays)| (cell.clone(), replays.outcomes.clone())).collect();
    print!("{}", table(&outcomes));
    println!("\nWhat kept them from being equal to the byte:\n");
    let mut kept: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for (cell, replays) in &results {
        kept.entry(cell.row().replace(" |", ","))
            .or_default()
            .extend(replays.kept.iter().map(String::as_str));
    }
    for (row, kept) in kept {
        println!("- {row}: {}", kept.into_iter().collect::<Vec<_>>().join(", "));
    }
    print!("{}", races(&results));
    let failed = outcomes.values().flatten().filter(|outcome| outcome.is_err()).count();
    if failed > 0 {
        bail!("{failed} replays went wrong");
    }
    Ok(())
}

/// A line for each place that was called racy.
fn races(results: &[(Cell, Replays)]) -> String {
    let mut lines = BTreeSet::new();
    for (cell, replays) in results {
        let all = replays.outcomes.len();
        let line =
            |(place, times): (&String, &u32)| format!("- {}: {place}, in {times} of {all}\n", cell.label());
        lines.extend(replays.racy.iter().map(line));
    }
    match lines.is_empty() {
        true => String::new(),
        false => format!("\nCalled racy, and counted as held:\n\n{}", Vec::from_iter(lines).concat()),
    }
}

fn replays(program: &Path, cell: &Cell, args: &ReplayArgs) -> Replays {
    let mut replays = Replays::default();
    let Ok(place) = tempfile::tempdir() else { return replays };
    let golden = place.path().join("golden");
    match captured(program, cell, place.path(), &golden) {
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
    let wanted = if cell.harness == OURS { Wanted::E4 } else { Wanted::E3 };
    for round in 0..args.times {
        let again = place.path().join(format!("again-{round}"));
        let outcome = replayed(program, (place.path(), &golden, &again), wanted, &mut replays);
        if let (Err(_), Some(keep)) = (&outcome, &args.which.keep) {
            let kept = keep.join(format!("{}_{round}", cell.label().replace([' ', '/'], "_")));
            let _ = std::fs::create_dir_all(&kept); // what cannot be kept is reported all the same
            let _ = Command::new("cp").arg("-r").args([&golden, &again]).arg(&kept).status();
        }
        replays.outcomes.push(outcome);
        let _ = std::fs::remove_dir_all(&again); // the whole folder goes in the end
    }
    replays
}

/// One replay and its verdict.
fn replayed(
    program: &Path,
    (place, golden, again): (&Path, &Path, &Path),
    wanted: Wanted,
    replays: &mut Replays,
) -> Outcome {
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
        serde_json::from_slice(&ran.stdout).map_err(|error| format!("`verify` says no JSON: {error}"))?;
    let racy = judged(&verdict, wanted)?;
    for place in racy {
        *replays.racy.entry(place).or_default() += 1;
    }
    let masks = verdict["masks"].as_array().into_iter().flatten();
    let differed = masks.filter(|mask| mask["differed"].as_u64().is_some_and(|times| times > 0));
    replays.kept.extend(differed.filter_map(|mask| mask["name"].as_str()).map(str::to_owned));
    Ok(seconds)
}

/// Whether the level holds that is wanted, or E3 would but for places where the golden is racy; gives those places.
fn judged(verdict: &Value, wanted: Wanted) -> Result<BTreeSet<String>, String> {
    let word = |of: &Value, key: &str| of[key].as_str().unwrap_or("?").to_owned();
    let holds = |of: &Value, key: &str| match wanted {
        Wanted::E3 => matches!(of[key].as_str(), Some("E3" | "E4")),
        Wanted::E4 => of[key] == "E4",
    };
    if holds(verdict, "level") {
        return Ok(BTreeSet::new());
    }
    let level = verdict["level"].as_str().unwrap_or("nothing");
    let differences = verdict["differences"].as_array().into_iter().flatten();
    let mut racy = BTreeSet::new();
    for it in differences.filter(|it| !holds(it, "holds")) {
        let rule = it["racy"].as_str().filter(|_| wanted == Wanted::E3);
        let Some(rule) = rule else {
            return Err(format!("only {level}: {} {}", word(it, "surface"), word(it, "what")));
        };
        racy.insert(format!(
            "`{rule}` at {}, turn {} ({})",
            word(it, "lane"),
            it["turn"],
            word(it, "pointer")
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
    fn only_what_is_called_racy_may_differ() {
        let difference = |holds: &str, racy: Value| {
            json!({"surface": "jobs", "holds": holds, "lane": "main", "turn": 4, "pointer": "/messages/6",
                "what": "a text differs", "racy": racy})
        };
        let verdict = |differences: Value| json!({"level": "E2", "differences": differences});
        let by_mask = difference("E3", Value::Null);
        let racy = difference("E2", json!("progress"));
        let places = judged(&verdict(json!([by_mask, racy])), Wanted::E3).expect("it is held");
        assert_eq!(places, BTreeSet::from(["`progress` at main, turn 4 (/messages/6)".to_owned()]));
        let lost = judged(&verdict(json!([racy, difference("E2", Value::Null)])), Wanted::E3);
        assert_eq!(lost, Err("only E2: jobs a text differs".to_owned()));
        let e3 = |verdict: Value| judged(&verdict, Wanted::E3);
        assert_eq!(e3(json!({"level": null, "differences": []})), Err("only nothing".to_owned()));
        assert_eq!(e3(json!({"level": "E3", "differences": [by_mask]})), Ok(BTreeSet::new()));
    }

    #[test]
    fn our_own_are_equal_to_the_byte() {
        let e4 = |verdict: Value| judged(&verdict, Wanted::E4);
        assert_eq!(e4(json!({"level": "E4", "differences": []})), Ok(BTreeSet::new()));
        let masked = json!({"surface": "prompt", "holds": "E3", "what": "a text differs", "racy": "start"});
        let verdict = json!({"level": "E3", "differences": [masked]});
        assert_eq!(e4(verdict), Err("only E3: prompt a text differs".to_owned()));
        assert_eq!(e4(json!({"level": "E3", "differences": []})), Err("only E3".to_owned()));
    }
}
