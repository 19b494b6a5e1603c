//! `cargo xtask soak faults`: what goes wrong stays wrong, and the newest harnesses are left to it until a deadline.
//!
//! What they do is theirs to decide, and is shown. Ours is to end in time, without a panic, with a recording that can
//! be looked at.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;

use super::{Cell, captured, first_error, program, settled, side_by_side};
use crate::harnesses;

/// How much of it.
#[derive(clap::Args)]
pub(crate) struct FaultsArgs {
    /// Only this harness (repeatable)
    #[arg(long)]
    harness: Vec<String>,
    /// How long a harness may try, in seconds
    #[arg(long, default_value_t = 30)]
    deadline: u64,
    /// How many replays go on at once
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..))]
    jobs: u8,
    /// The `offshoot` to soak; it is built without
    #[arg(long)]
    program: Option<PathBuf>,
}

const HARNESSES: [&str; 2] = ["claude-code", "opencode"];
const SCENARIO: &str = "parallel-subagents";
const LANES: [&str; 2] = ["main", "sub-1"];
const KINDS: [&str; 11] = [
    "status=529,retry-after=1",
    "cut",
    "reset",
    "stall",
    "slow=200ms",
    "garbage",
    "half",
    "duplicate",
    "error=overloaded_error",
    "end",
    "content-type=text/html",
];
/// What starting, exporting and sealing may take on a busy machine.
const AROUND: Duration = Duration::from_secs(120);

/// One replay: a harness, where it is hit, and by what.
struct Hit<'g> {
    golden: &'g Golden,
    lane: &'static str,
    kind: &'static str,
}

/// A recording to replay.
struct Golden {
    name: String,
    dir: PathBuf,
}

/// What a harness did, or what was wrong with us.
type Outcome = Result<String, String>;

pub(super) fn soak(args: &FaultsArgs) -> Result<()> {
    harnesses::provide_all()?;
    let program = program(args.program.as_deref())?;
    let place = tempfile::tempdir()?;
    let wanted = |name: &str| args.harness.is_empty() || args.harness.iter().any(|one| one == name);
    let mut goldens = Vec::new();
    for name in HARNESSES.into_iter().filter(|name| wanted(name)) {
        goldens.push(golden(&program, place.path(), name)?);
    }
    let hits = goldens
        .iter()
        .flat_map(|golden| KINDS.iter().flat_map(move |kind| LANES.map(|lane| Hit { golden, lane, kind })));
    let results = side_by_side(hits.collect(), args.jobs, |hit| {
        let outcome = survived(&program, hit, Duration::from_secs(args.deadline));
        eprintln!("{}, {}, {}: {outcome:?}", hit.golden.name, hit.lane, hit.kind);
        outcome
    });
    print!("{}", table(results.iter().map(|(hit, outcome)| (hit, outcome))));
    match results.iter().filter(|(_, outcome)| outcome.is_err()).count() {
        0 => Ok(()),
        wrong => bail!("{wrong} replays went wrong"),
    }
}

fn golden(program: &Path, place: &Path, name: &str) -> Result<Golden> {
    let kind = harness::list().into_iter().find(|kind| kind.name() == name);
    let version = kind.and_then(|kind| kind.versions().last().copied()).context("it has no version")?;
    let cell = Cell { harness: name.into(), version: version.into(), model: None, scenario: SCENARIO };
    let dir = place.join(name);
    let ran = captured(program, &cell, place, &dir).map_err(|why| anyhow!("{why}"))?;
    if !ran.status.success() {
        bail!("{name} was not captured: {}", first_error(&String::from_utf8_lossy(&ran.stderr)));
    }
    Ok(Golden { name: format!("{name} {version}"), dir })
}

fn survived(program: &Path, hit: &Hit<'_>, deadline: Duration) -> Outcome {
    let place = tempfile::tempdir().map_err(|error| error.to_string())?;
    let again = place.path().join("again");
    let mut command = Command::new(program);
    command.arg("replay").arg(&hit.golden.dir).arg("--out").arg(&again);
    command.args(["--timeout", &deadline.as_secs().to_string()]);
    // An answer that is not streamed has two events; a later one would be out of the fault's reach.
    command.args(["--fault", &format!("lane={},turn=1,attempt=all,event=2:{}", hit.lane, hit.kind)]);
    let (status, stderr) = ended(command, place.path(), deadline + AROUND)?;
    if !matches!(status.code(), Some(0 | 1 | 3)) || stderr.contains("panicked at") {
        return Err(format!("it ended with {status}: {}", first_error(&stderr)));
    }
    let mut command = Command::new(program);
    command.arg("show").arg(&again).args(["--format", "json"]);
    let shown = super::run(command, place.path())?;
    if !shown.status.success() {
        return Err(format!("it cannot be shown: {}", first_error(&String::from_utf8_lossy(&shown.stderr))));
    }
    let report = fs::read(again.join("replay.json")).map_err(|error| error.to_string())?;
    let report = serde_json::from_slice(&report).map_err(|error| error.to_string())?;
    did(&report, &stderr)
}

/// Runs the program to its end; one that does not come to it is killed.
fn ended(command: Command, place: &Path, limit: Duration) -> Result<(ExitStatus, String), String> {
    let words = |error: std::io::Error| error.to_string();
    let said = place.join("said.txt");
    let mut command = settled(command, place)?;
    command.stdout(File::create(place.join("out.txt")).map_err(words)?);
    let mut child = command.stderr(File::create(&said).map_err(words)?).spawn().map_err(words)?;
    let begun = Instant::now();
    let status = loop {
        match child.try_wait().map_err(words)? {
            Some(status) => break status,
            None if begun.elapsed() > limit => {
                child.kill().and_then(|()| child.wait()).map_err(words)?;
                return Err(format!("it hung for {} s", limit.as_secs()));
            }
            None => std::thread::sleep(Duration::from_millis(100)),
        }
    };
    Ok((status, String::from_utf8_lossy(&fs::read(said).map_err(words)?).into_owned()))
}

/// What a harness did about a fault: how often it asked, and how it ended.
fn did(report: &Value, stderr: &str) -> Outcome {
    let fault = &report["faults"][0];
    fault["hits"].as_u64().filter(|hits| *hits > 0).ok_or("the fault never happened")?;
    let again: Vec<&str> = fault["then"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let asked = match again.len() {
        0 => "asked once".to_owned(),
        1 => "asked twice".to_owned(),
        more => format!("asked {} times", more + 1),
    };
    let form = if again.iter().any(|how| how.contains("without streaming")) {
        ", also without streaming"
    } else {
        ""
    };
    let code = stderr.split_once("ended with code ").map(|(_, rest)| rest);
    let code = code.and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
    let end = match code {
        _ if stderr.contains("was still running after") => "still running at the deadline".to_owned(),
        Some(code) => format!("ended with code {code}"),
        None => "ended well".to_owned(),
    };
    Ok(format!("{asked}{form}, {end}"))
}

/// A row for each kind; a column for each harness and lane.
fn table<'r>(results: impl Iterator<Item = (&'r Hit<'r>, &'r Outcome)>) -> String {
    let mut columns: Vec<String> = Vec::new();
    let mut rows: BTreeMap<usize, BTreeMap<String, String>> = BTreeMap::new();
    for (hit, outcome) in results {
        let column = format!("{}, {}", hit.golden.name, hit.lane);
        if !columns.contains(&column) {
            columns.push(column.clone());
        }
        let row = KINDS.iter().position(|kind| *kind == hit.kind).unwrap_or_default();
        let words = outcome.clone().unwrap_or_else(|why| format!("**{}**", why.replace('|', "/")));
        rows.entry(row).or_default().insert(column, words);
    }
    columns.sort_unstable();
    let mut text = format!("| fault, for good | {} |\n", columns.join(" | "));
    text.push_str(&format!("|---{}|\n", "|---".repeat(columns.len())));
    for (row, cells) in rows {
        let cells: Vec<&str> =
            columns.iter().map(|column| cells.get(column).map_or("", String::as_str)).collect();
        text.push_str(&format!("| `{}` | {} |\n", KINDS[row], cells.join(" | ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_harness_did_is_told_from_the_report_and_from_its_end() {
        let report = |hits: u32, then: &[&str]| json!({"faults": [{"hits": hits, "then": then}]});
        let told = |hits, then: &[&str], stderr: &str| did(&report(hits, then), stderr);
        assert_eq!(told(1, &[], ""), Ok("asked once, ended well".to_owned()));
        let again = ["asked again after 1.0 s"; 6];
        let failed = told(7, &again, "error: `x` ended with code 1: no");
        assert_eq!(failed, Ok("asked 7 times, ended with code 1".to_owned()));
        let other = ["asked again after 1.0 s without streaming"];
        let late = told(2, &other, "error: `x` was still running after 30 s and was ended");
        assert_eq!(late, Ok("asked twice, also without streaming, still running at the deadline".to_owned()));
        assert_eq!(told(0, &[], ""), Err("the fault never happened".to_owned()));
    }

    #[test]
    fn a_table_has_a_column_for_each_lane() {
        let golden = Golden { name: "tern 1.0".into(), dir: PathBuf::new() };
        let hit = |lane, kind| Hit { golden: &golden, lane, kind };
        let results: Vec<(Hit<'_>, Outcome)> = vec![
            (hit("sub-1", "cut"), Err("it | hung".into())),
            (hit("main", "cut"), Ok("asked once, ended well".into())),
            (hit("main", "stall"), Ok("asked once, still running at the deadline".into())),
        ];
        expect![[r#"
            | fault, for good | tern 1.0, main | tern 1.0, sub-1 |
            |---|---|---|
            | `cut` | asked once, ended well | **it / hung** |
            | `stall` | asked once, still running at the deadline |  |
        "#]]
        .assert_eq(&table(results.iter().map(|(hit, outcome)| (hit, outcome))));
    }
}
