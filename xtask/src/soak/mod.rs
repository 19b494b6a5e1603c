//! `cargo xtask soak`: long matrices, whose dated tables go into `docs/`.
//!
//! `capture` records every scenario with every version of every harness, over every provider it speaks to, and looks
//! whether the check holds and every lane is true. `replay` lets each recording stand in for its model, ten times.
//! `faults` lets it fail for good, in every way it can. `kill` ends our own kernel at random moments and resumes it.

mod faults;
mod kill;
mod replay;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use clap::Subcommand;
use serde_json::Value;

use crate::command::{cargo, output};
use crate::{cache, harnesses};

/// What can be soaked.
#[derive(Subcommand)]
pub(crate) enum Soak {
    /// Every harness, version, provider and scenario: captured, checked, and every lane true
    Capture(Args),
    /// Every harness, version and scenario: captured, and replayed in the recorded order
    Replay(replay::ReplayArgs),
    /// Faults that stay, of every kind, at main and at a sub-agent: what the newest harnesses do
    Faults(faults::FaultsArgs),
    /// Our own kernel: killed at random moments, and resumed to the same end
    Kill(kill::KillArgs),
}

/// How much of it.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only this harness (repeatable)
    #[arg(long)]
    harness: Vec<String>,
    /// Only this version (repeatable)
    #[arg(long)]
    version: Vec<String>,
    /// Only this scenario (repeatable)
    #[arg(long)]
    scenario: Vec<String>,
    /// How often the whole is done
    #[arg(long, default_value_t = 1)]
    rounds: u32,
    /// How many captures go on at once
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..))]
    jobs: u8,
    /// The `offshoot` to soak; it is built without
    #[arg(long)]
    program: Option<PathBuf>,
    /// Keep the recordings of what went wrong in this folder
    #[arg(long)]
    keep: Option<PathBuf>,
}

impl Soak {
    /// Does it, and prints the result as Markdown.
    pub(crate) fn run(self) -> Result<()> {
        match self {
            Soak::Capture(args) => capture(&args),
            Soak::Replay(args) => replay::soak(&args),
            Soak::Faults(args) => faults::soak(&args),
            Soak::Kill(args) => kill::soak(&args),
        }
    }
}

/// Harnesses that speak to several providers, each in another dialect.
const MODELS: &[&str] = &["anthropic/claude-haiku-4-5", "openai/gpt-5", "compatible/scripted"];
const SEVERAL: &[&str] = &["opencode", "oh-my-opencode"];

/// The marks that the scripts' replies begin with.
const MARKS: &[&str] = &["main", "repo-scanner", "grep-summarizer", "side"];

/// One capture.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cell {
    harness: String,
    version: String,
    model: Option<&'static str>,
    scenario: &'static str,
}

/// How a capture went: seconds, or what was wrong.
type Outcome = Result<u64, String>;

fn capture(args: &Args) -> Result<()> {
    harnesses::provide_all()?;
    let program = program(args.program.as_deref())?;
    let cells = cells(args);
    ensure!(!cells.is_empty(), "no capture fits these choices");
    let rounds: Vec<Cell> = (0..args.rounds).flat_map(|_| cells.clone()).collect();
    let mut results = BTreeMap::<Cell, Vec<Outcome>>::new();
    for (cell, outcome) in side_by_side(rounds, args.jobs, |cell| {
        let outcome = one(&program, cell, args.keep.as_deref());
        eprintln!("{}: {}", cell.label(), said(&outcome));
        outcome
    }) {
        results.entry(cell).or_default().push(outcome);
    }
    print!("{}", table(&results));
    let failed = results.values().flatten().filter(|outcome| outcome.is_err()).count();
    if failed > 0 {
        bail!("{failed} captures went wrong");
    }
    Ok(())
}

/// Does something for each cell, a few at a time.
fn side_by_side<C: Send, T: Send>(cells: Vec<C>, jobs: u8, work: impl Fn(&C) -> T + Sync) -> Vec<(C, T)> {
    eprintln!("{} cells, {jobs} at once", cells.len());
    let (queue, results) = (Mutex::new(cells.into_iter()), Mutex::new(Vec::new()));
    let next = || queue.lock().expect("nobody panics with it").next();
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some(cell) = next() {
                    let result = work(&cell);
                    results.lock().expect("nobody panics with it").push((cell, result));
                }
            });
        }
    });
    results.into_inner().expect("nobody panics with it")
}

/// The program that was given, or the one that is built now.
fn program(given: Option<&Path>) -> Result<PathBuf> {
    if let Some(program) = given {
        return program.canonicalize().with_context(|| format!("there is no `{}`", program.display()));
    }
    output(&mut cargo(["build", "--package", "cli"]))?;
    built()
}

/// Where cargo puts the program.
fn built() -> Result<PathBuf> {
    let metadata = output(&mut cargo(["metadata", "--no-deps", "--format-version", "1"]))?;
    let metadata: Value = serde_json::from_str(&metadata).context("cargo's metadata is not JSON")?;
    let target = metadata["target_directory"].as_str().context("cargo's metadata has no target folder")?;
    Ok(Path::new(target).join("debug/offshoot"))
}

fn cells(args: &Args) -> Vec<Cell> {
    let wanted = |all: &[String], one: &str| all.is_empty() || all.iter().any(|name| name == one);
    let mut cells = Vec::new();
    for kind in harness::list().into_iter().filter(|kind| wanted(&args.harness, kind.name())) {
        let several = SEVERAL.contains(&kind.name());
        let models: Vec<_> = if several { MODELS.iter().copied().map(Some).collect() } else { vec![None] };
        for version in kind.versions().iter().filter(|version| wanted(&args.version, version)) {
            for model in &models {
                for scenario in harness::shipped().into_iter().filter(|name| wanted(&args.scenario, name)) {
                    let (harness, version) = (kind.name().to_owned(), (*version).to_owned());
                    cells.push(Cell { harness, version, model: *model, scenario });
                }
            }
        }
    }
    cells
}

impl Cell {
    /// What stands at the beginning of its row.
    fn row(&self) -> String {
        let model = self.model.and_then(|model| model.split('/').next()).unwrap_or("anthropic");
        format!("{} {} | {model}", self.harness, self.version)
    }

    fn label(&self) -> String {
        format!("{} {}", self.row().replace(" |", ""), self.scenario)
    }
}

fn one(program: &Path, cell: &Cell, keep: Option<&Path>) -> Outcome {
    let place = tempfile::tempdir().map_err(|error| error.to_string())?;
    let recording = place.path().join("recording");
    let begun = Instant::now();
    let ran = captured(program, cell, place.path(), &recording)?;
    let seconds = begun.elapsed().as_secs();
    let outcome = match ran.status.success() {
        true => lanes_are_true(program, &recording).map(|()| seconds),
        false => Err(first_error(&String::from_utf8_lossy(&ran.stderr))),
    };
    if let (Err(_), Some(keep)) = (&outcome, keep) {
        let kept = keep.join(cell.label().replace([' ', '/'], "_"));
        let _ = fs::create_dir_all(keep); // what cannot be kept is reported all the same
        let _ = Command::new("cp").arg("-r").arg(&recording).arg(kept).status();
    }
    outcome
}

fn captured(
    program: &Path,
    cell: &Cell,
    place: &Path,
    recording: &Path,
) -> Result<std::process::Output, String> {
    let mut command = Command::new(program);
    command.args(["capture", &cell.harness, "--scenario", cell.scenario, "--harness-version", &cell.version]);
    command.args(cell.model.iter().flat_map(|model| ["--model", model])).arg("--out").arg(recording);
    run(command, place)
}

/// Runs the program to its end.
fn run(command: Command, place: &Path) -> Result<std::process::Output, String> {
    settled(command, place)?.output().map_err(|error| error.to_string())
}

/// The program with our harnesses and a data folder of its own.
fn settled(mut command: Command, place: &Path) -> Result<Command, String> {
    let cache = cache::folder().map_err(|error| error.to_string())?;
    command.env("OFFSHOOT_CACHE_DIR", cache).env("OFFSHOOT_DATA_DIR", place.join("data"));
    command.current_dir(place);
    Ok(command)
}

fn first_error(stderr: &str) -> String {
    let line = stderr.lines().find(|line| line.starts_with("error")).or_else(|| stderr.lines().last());
    line.unwrap_or("it said nothing").trim_start_matches("error: ").to_owned()
}

/// Each lane's replies carry one mark, each agent has one lane, and no exchange is lost.
fn lanes_are_true(program: &Path, recording: &Path) -> Result<(), String> {
    let show = Command::new(program).arg("show").arg(recording).args(["--format", "json"]).output();
    let shown: Value = serde_json::from_slice(&show.map_err(|error| error.to_string())?.stdout)
        .map_err(|error| format!("`show` says no JSON: {error}"))?;
    let mut agents = BTreeSet::new();
    let mut shown_exchanges = 0;
    for lane in shown["lanes"].as_array().into_iter().flatten() {
        let exchanges: Vec<&str> =
            lane["exchanges"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        shown_exchanges += exchanges.len();
        let marks: BTreeSet<&str> = exchanges.iter().filter_map(|id| mark(recording, id)).collect();
        let id = lane["id"].as_str().unwrap_or("?");
        if marks.len() > 1 {
            return Err(format!("lane {id} has replies of {marks:?}"));
        }
        for mark in marks {
            if (lane["kind"] == "side") != (mark == "side") {
                return Err(format!("lane {id} is no place for {mark}"));
            }
            if mark != "side" && !agents.insert(mark) {
                return Err(format!("{mark} is in two lanes"));
            }
        }
    }
    let dumped = fs::read_dir(recording.join("provider_dumps")).map_err(|error| error.to_string())?;
    let requests =
        dumped.flatten().filter(|file| file.file_name().to_string_lossy().ends_with("_request.json"));
    match requests.count() {
        all if all == shown_exchanges => Ok(()),
        all => Err(format!("{shown_exchanges} of {all} exchanges are in lanes")),
    }
}

/// Whose reply it is. A mark is short enough to stand whole in the first event of its text.
fn mark(recording: &Path, id: &str) -> Option<&'static str> {
    let dump = fs::read_to_string(recording.join(format!("provider_dumps/{id}_response.json"))).ok()?;
    let dump: Value = serde_json::from_str(&dump).ok()?;
    let body = dump["body"]["text"].as_str()?;
    MARKS.iter().copied().find(|mark| body.contains(&format!("\"[{mark}]")))
}

fn said(outcome: &Outcome) -> String {
    match outcome {
        Ok(seconds) => format!("{seconds} s"),
        Err(why) => why.clone(),
    }
}

/// A row for each harness, version and provider; a column for each scenario.
fn table(results: &BTreeMap<Cell, Vec<Outcome>>) -> String {
    let scenarios: BTreeSet<&str> = results.keys().map(|cell| cell.scenario).collect();
    let mut rows: BTreeMap<String, BTreeMap<&str, String>> = BTreeMap::new();
    for (cell, outcomes) in results {
        rows.entry(cell.row()).or_default().insert(cell.scenario, summed_up(outcomes));
    }
    let names: Vec<&str> = scenarios.iter().copied().collect();
    let mut text = format!("| harness | provider | {} |\n", names.join(" | "));
    text.push_str(&format!("|---|---{}|\n", "|---".repeat(names.len())));
    for (row, cells) in rows {
        let cells: Vec<&str> = names.iter().map(|name| cells.get(name).map_or("", String::as_str)).collect();
        text.push_str(&format!("| {row} | {} |\n", cells.join(" | ")));
    }
    text
}

/// `3 of 3, 21 s`, or what was wrong first.
fn summed_up(outcomes: &[Outcome]) -> String {
    let good: Vec<u64> = outcomes.iter().filter_map(|outcome| outcome.as_ref().ok().copied()).collect();
    let wrong = outcomes.iter().find_map(|outcome| outcome.as_ref().err());
    let longest = good.iter().max().map_or_else(String::new, |seconds| format!(", {seconds} s"));
    let wrong = wrong.map_or_else(String::new, |why| format!(": {}", why.replace('|', "/")));
    format!("{} of {}{longest}{wrong}", good.len(), outcomes.len())
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn a_table_has_a_row_for_each_provider() {
        let cell = |model, scenario| Cell {
            harness: "opencode".into(),
            version: "1.0.185".into(),
            model: Some(model),
            scenario,
        };
        let results = BTreeMap::from([
            (cell("openai/gpt-5", "cancel"), vec![Ok(20), Ok(22)]),
            (cell("openai/gpt-5", "wakeup"), vec![Ok(31), Err("it hung".into())]),
            (cell("anthropic/claude", "cancel"), vec![Err("no | answer".into())]),
        ]);
        expect![[r#"
            | harness | provider | cancel | wakeup |
            |---|---|---|---|
            | opencode 1.0.185 | anthropic | 0 of 1: no / answer |  |
            | opencode 1.0.185 | openai | 2 of 2, 22 s | 1 of 2, 31 s: it hung |
        "#]]
        .assert_eq(&table(&results));
    }
}
