//! `cargo xtask soak`: long test matrices, whose results go into `docs/reference/soak.md`.
//!
//! `capture` records each scenario with each version of each harness, over each provider that it supports, and checks the
//! recording and its lanes. `replay` replays each recording ten times. `faults` injects permanent faults of all kinds.
//! `kill` kills our own kernel at random moments and resumes it. `shell` runs random command lines that pass a rule.

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

/// A test matrix.
#[derive(Subcommand)]
pub(crate) enum Soak {
    /// Capture each harness, version, provider and scenario; check the recording and its lanes
    Capture(CaptureArgs),
    /// Capture each harness, version and scenario; replay it in the recorded order
    Replay(replay::ReplayArgs),
    /// Inject permanent faults of each kind at main and at a sub-agent of the newest harnesses
    Faults(faults::FaultsArgs),
    /// Kill our own kernel at random moments; resume it to the same end
    Kill(kill::KillArgs),
    /// Run random command lines that pass a deny rule; none may run the denied program
    Shell(ShellArgs),
}

/// Number of random lines.
#[derive(clap::Args)]
pub(crate) struct ShellArgs {
    /// Number of lines to judge; those that pass are run
    #[arg(long, default_value_t = 100_000)]
    lines: u64,
    /// Seed of the lines
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Selection of captures.
#[derive(clap::Args)]
pub(crate) struct CaptureArgs {
    /// Only this harness (repeatable)
    #[arg(long)]
    harness: Vec<String>,
    /// Only this version (repeatable); with one harness, any version that npm has
    #[arg(long)]
    version: Vec<String>,
    /// Only this scenario (repeatable)
    #[arg(long)]
    scenario: Vec<String>,
    /// Number of rounds
    #[arg(long, default_value_t = 1)]
    rounds: u32,
    /// Number of concurrent captures
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..))]
    jobs: u8,
    /// The `offshoot` program to test; built by default
    #[arg(long)]
    program: Option<PathBuf>,
    /// Keep the recordings of failed captures in this folder
    #[arg(long)]
    keep: Option<PathBuf>,
}

impl Soak {
    /// Runs the matrix, and prints the result as Markdown.
    pub(crate) fn run(self) -> Result<()> {
        match self {
            Soak::Capture(args) => capture(&args),
            Soak::Replay(args) => replay::soak(&args),
            Soak::Faults(args) => faults::soak(&args),
            Soak::Kill(args) => kill::soak(&args),
            Soak::Shell(args) => shell(&args),
        }
    }
}

/// Runs the test of random lines with more of them.
fn shell(args: &ShellArgs) -> Result<()> {
    let test = "no_random_line_that_passes_runs_the_denied_program";
    let mut command = cargo(["test", "--quiet", "-p", "agent", test, "--", "--nocapture"]);
    command.env("OFFSHOOT_SHELL_LINES", args.lines.to_string());
    command.env("OFFSHOOT_SHELL_SEED", args.seed.to_string());
    ensure!(command.status()?.success(), "a line runs the denied program");
    Ok(())
}

/// Models of the providers that some harnesses support, each with another dialect.
const MODELS: &[&str] = &["anthropic/claude-haiku-4-5", "openai/gpt-5", "compatible/scripted"];
/// Harnesses that support all of these models.
const MULTI_PROVIDER: &[&str] = &["opencode", "oh-my-opencode"];

/// Marks at the start of scripted replies.
const MARKS: &[&str] = &["main", "repo-scanner", "grep-summarizer", "explore", "side"];

/// One capture.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cell {
    harness: String,
    version: String,
    model: Option<&'static str>,
    scenario: &'static str,
}

/// Duration of a capture in seconds, or the problem.
type CellOutcome = Result<u64, String>;

fn capture(args: &CaptureArgs) -> Result<()> {
    harnesses::provide_all()?;
    let program = program(args.program.as_deref())?;
    let cells = cells(args);
    ensure!(!cells.is_empty(), "no capture matches the selection");
    let rounds: Vec<Cell> = (0..args.rounds).flat_map(|_| cells.clone()).collect();
    let mut results = BTreeMap::<Cell, Vec<CellOutcome>>::new();
    for (cell, outcome) in run_parallel(rounds, args.jobs, |cell| {
        let outcome = capture_cell(&program, cell, args.keep.as_deref());
        eprintln!("{}: {}", cell.label(), describe(&outcome));
        outcome
    }) {
        results.entry(cell).or_default().push(outcome);
    }
    print!("{}", table(&results));
    let failed = results.values().flatten().filter(|outcome| outcome.is_err()).count();
    if failed > 0 {
        bail!("{failed} captures failed");
    }
    Ok(())
}

/// Runs `work` for each cell, with `jobs` threads.
fn run_parallel<C: Send, T: Send>(cells: Vec<C>, jobs: u8, work: impl Fn(&C) -> T + Sync) -> Vec<(C, T)> {
    eprintln!("{} cells, {jobs} concurrent", cells.len());
    let (queue, results) = (Mutex::new(cells.into_iter()), Mutex::new(Vec::new()));
    let next = || queue.lock().expect("lock is not poisoned").next();
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some(cell) = next() {
                    let result = work(&cell);
                    results.lock().expect("lock is not poisoned").push((cell, result));
                }
            });
        }
    });
    results.into_inner().expect("lock is not poisoned")
}

/// Returns the given program, or builds it.
fn program(given: Option<&Path>) -> Result<PathBuf> {
    if let Some(program) = given {
        return program.canonicalize().with_context(|| format!("`{}` does not exist", program.display()));
    }
    output(&mut cargo(["build", "--package", "cli"]))?;
    built_program()
}

/// Returns the path of the built program.
fn built_program() -> Result<PathBuf> {
    let metadata = output(&mut cargo(["metadata", "--no-deps", "--format-version", "1"]))?;
    let metadata: Value = serde_json::from_str(&metadata).context("cargo's metadata is not JSON")?;
    let target = metadata["target_directory"].as_str().context("cargo's metadata has no target folder")?;
    Ok(Path::new(target).join("debug/offshoot"))
}

fn cells(args: &CaptureArgs) -> Vec<Cell> {
    let is_selected =
        |names: &[String], name: &str| names.is_empty() || names.iter().any(|other| other == name);
    let mut cells = Vec::new();
    for kind in harness::list().into_iter().filter(|kind| is_selected(&args.harness, kind.name())) {
        let is_multi = MULTI_PROVIDER.contains(&kind.name());
        let models: Vec<_> = if is_multi { MODELS.iter().copied().map(Some).collect() } else { vec![None] };
        for version in versions(args, kind.versions()) {
            for model in &models {
                for scenario in
                    harness::shipped().into_iter().filter(|name| is_selected(&args.scenario, name))
                {
                    let (harness, version) = (kind.name().to_owned(), version.clone());
                    cells.push(Cell { harness, version, model: *model, scenario });
                }
            }
        }
    }
    cells
}

/// Returns the selected versions of a harness: those that were named for it alone, or of the tested ones.
fn versions(args: &CaptureArgs, tested: &[&str]) -> Vec<String> {
    if args.harness.len() == 1 && !args.version.is_empty() {
        return args.version.clone();
    }
    let is_selected =
        |version: &&&str| args.version.is_empty() || args.version.iter().any(|it| it == **version);
    tested.iter().filter(is_selected).map(|version| (*version).to_owned()).collect()
}

impl Cell {
    /// Returns the first columns of its row.
    fn row(&self) -> String {
        let model = self.model.and_then(|model| model.split('/').next()).unwrap_or("anthropic");
        format!("{} {} | {model}", self.harness, self.version)
    }

    fn label(&self) -> String {
        format!("{} {}", self.row().replace(" |", ""), self.scenario)
    }
}

fn capture_cell(program: &Path, cell: &Cell, keep: Option<&Path>) -> CellOutcome {
    let place = tempfile::tempdir().map_err(|error| error.to_string())?;
    let recording = place.path().join("recording");
    let begun = Instant::now();
    let ran = run_capture(program, cell, place.path(), &recording)?;
    let seconds = begun.elapsed().as_secs();
    let outcome = match ran.status.success() {
        true => check_lanes(program, &recording).map(|()| seconds),
        false => Err(first_error(&String::from_utf8_lossy(&ran.stderr))),
    };
    if let (Err(_), Some(keep)) = (&outcome, keep) {
        let kept = keep.join(cell.label().replace([' ', '/'], "_"));
        let _ = fs::create_dir_all(keep); // the failure is reported in any case
        let _ = Command::new("cp").arg("-r").arg(&recording).arg(kept).status();
    }
    outcome
}

fn run_capture(
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

/// Runs the program until it ends.
fn run(command: Command, place: &Path) -> Result<std::process::Output, String> {
    prepare(command, place)?.output().map_err(|error| error.to_string())
}

/// Sets the cache folder with the harnesses, and a data folder of its own.
fn prepare(mut command: Command, place: &Path) -> Result<Command, String> {
    let cache = cache::folder().map_err(|error| error.to_string())?;
    command.env("OFFSHOOT_CACHE_DIR", cache).env("OFFSHOOT_DATA_DIR", place.join("data"));
    command.current_dir(place);
    Ok(command)
}

fn first_error(stderr: &str) -> String {
    let line = stderr.lines().find(|line| line.starts_with("error")).or_else(|| stderr.lines().last());
    line.unwrap_or("no output").trim_start_matches("error: ").to_owned()
}

/// Checks that the replies of each lane have one mark, that each agent has one lane, and that no exchange is missing.
fn check_lanes(program: &Path, recording: &Path) -> Result<(), String> {
    let show = Command::new(program).arg("show").arg(recording).args(["--format", "json"]).output();
    let shown: Value = serde_json::from_slice(&show.map_err(|error| error.to_string())?.stdout)
        .map_err(|error| format!("`show` printed no JSON: {error}"))?;
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
                return Err(format!("lane {id} has replies of {mark}"));
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

/// Returns the mark of a reply. A mark is short enough to be in the first event of its text.
fn mark(recording: &Path, id: &str) -> Option<&'static str> {
    let dump = fs::read_to_string(recording.join(format!("provider_dumps/{id}_response.json"))).ok()?;
    let dump: Value = serde_json::from_str(&dump).ok()?;
    let body = dump["body"]["text"].as_str()?;
    MARKS.iter().copied().find(|mark| body.contains(&format!("\"[{mark}]")))
}

fn describe(outcome: &CellOutcome) -> String {
    match outcome {
        Ok(seconds) => format!("{seconds} s"),
        Err(why) => why.clone(),
    }
}

/// Formats a table with a row for each harness, version and provider, and a column for each scenario.
fn table(results: &BTreeMap<Cell, Vec<CellOutcome>>) -> String {
    let scenarios: BTreeSet<&str> = results.keys().map(|cell| cell.scenario).collect();
    let mut rows: BTreeMap<String, BTreeMap<&str, String>> = BTreeMap::new();
    for (cell, outcomes) in results {
        rows.entry(cell.row()).or_default().insert(cell.scenario, summarize(outcomes));
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

/// Formats outcomes as `3 of 3, 21 s`, with the first problem.
fn summarize(outcomes: &[CellOutcome]) -> String {
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
    fn any_version_of_one_harness_may_be_named() {
        let selected = |harness: &[&str], version: &[&str]| {
            let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            let args = CaptureArgs {
                harness: owned(harness),
                version: owned(version),
                scenario: Vec::new(),
                rounds: 1,
                jobs: 1,
                program: None,
                keep: None,
            };
            versions(&args, &["1.0", "2.0"]).join(" ")
        };
        assert_eq!(selected(&[], &[]), "1.0 2.0");
        assert_eq!(selected(&["a"], &["1.5", "2.0"]), "1.5 2.0");
        assert_eq!(selected(&[], &["1.5", "2.0"]), "2.0");
    }

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
