//! `cargo xtask soak replay`: each recording stands in for its model, and the harness must do the same again.

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

/// How the replays of one recording went, and what kept them from being equal to the byte.
#[derive(Default)]
struct Replays {
    outcomes: Vec<Outcome>,
    kept: BTreeSet<String>,
}

pub(super) fn soak(args: &ReplayArgs) -> Result<()> {
    harnesses::provide_all()?;
    let program = program(&args.which)?;
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
    let failed = outcomes.values().flatten().filter(|outcome| outcome.is_err()).count();
    if failed > 0 {
        bail!("{failed} replays went wrong");
    }
    Ok(())
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
    for round in 0..args.times {
        let again = place.path().join(format!("again-{round}"));
        let outcome = replayed(program, place.path(), &golden, &again, &mut replays.kept);
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
    place: &Path,
    golden: &Path,
    again: &Path,
    kept: &mut BTreeSet<String>,
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
    let differences = || verdict["differences"].as_array().into_iter().flatten();
    let words = |difference: &Value| {
        format!(
            "{} {}",
            difference["surface"].as_str().unwrap_or("?"),
            difference["what"].as_str().unwrap_or("?")
        )
    };
    match verdict["level"].as_str() {
        Some("E3" | "E4") => {
            let masks = verdict["masks"].as_array().into_iter().flatten();
            let differed = masks.filter(|mask| mask["differed"].as_u64().is_some_and(|times| times > 0));
            kept.extend(differed.filter_map(|mask| mask["name"].as_str()).map(str::to_owned));
            Ok(seconds)
        }
        level => {
            let worst = differences().find(|it| !matches!(it["holds"].as_str(), Some("E3" | "E4")));
            let what = worst.map_or_else(String::new, |it| format!(": {}", words(it)));
            Err(format!("only {}{what}", level.unwrap_or("nothing")))
        }
    }
}
