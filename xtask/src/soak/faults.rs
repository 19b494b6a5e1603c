//! `cargo xtask soak faults`: injects permanent faults into the newest harnesses until a deadline.
//!
//! Their reaction is shown, not judged. `offshoot` must end in time, without a panic, with a readable recording.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;

use super::{Cell, first_error, prepare, program, run_capture, run_parallel};
use crate::harnesses;

/// Selection of faults.
#[derive(clap::Args)]
pub(crate) struct FaultsArgs {
    /// Only this harness (repeatable)
    #[arg(long)]
    harness: Vec<String>,
    /// Maximum time of a harness in seconds
    #[arg(long, default_value_t = 30)]
    deadline: u64,
    /// Number of concurrent replays
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..))]
    jobs: u8,
    /// The `offshoot` program to test; built by default
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
/// Additional time for start, export and sealing on a busy machine.
const OVERHEAD: Duration = Duration::from_secs(120);

/// One replay with a fault.
struct FaultCase<'g> {
    golden: &'g Golden,
    lane: &'static str,
    kind: &'static str,
}

/// A recording to replay.
struct Golden {
    name: String,
    dir: PathBuf,
}

/// The reaction of a harness, or the failure of `offshoot`.
type FaultOutcome = Result<String, String>;

pub(super) fn soak(args: &FaultsArgs) -> Result<()> {
    harnesses::provide_all()?;
    let program = program(args.program.as_deref())?;
    let place = tempfile::tempdir()?;
    let is_selected = |name: &str| args.harness.is_empty() || args.harness.iter().any(|one| one == name);
    let mut goldens = Vec::new();
    for name in HARNESSES.into_iter().filter(|name| is_selected(name)) {
        goldens.push(capture_golden(&program, place.path(), name)?);
    }
    let hits = goldens.iter().flat_map(|golden| {
        KINDS.iter().flat_map(move |kind| LANES.map(|lane| FaultCase { golden, lane, kind }))
    });
    let results = run_parallel(hits.collect(), args.jobs, |hit| {
        let outcome = run_case(&program, hit, Duration::from_secs(args.deadline));
        eprintln!("{}, {}, {}: {outcome:?}", hit.golden.name, hit.lane, hit.kind);
        outcome
    });
    print!("{}", table(results.iter().map(|(hit, outcome)| (hit, outcome))));
    match results.iter().filter(|(_, outcome)| outcome.is_err()).count() {
        0 => Ok(()),
        wrong => bail!("{wrong} replays failed"),
    }
}

fn capture_golden(program: &Path, place: &Path, name: &str) -> Result<Golden> {
    let kind = harness::list().into_iter().find(|kind| kind.name() == name);
    let version =
        kind.and_then(|kind| kind.versions().last().copied()).context("no version of it is known")?;
    let cell = Cell { harness: name.into(), version: version.into(), model: None, scenario: SCENARIO };
    let dir = place.join(name);
    let ran = run_capture(program, &cell, place, &dir).map_err(|why| anyhow!("{why}"))?;
    if !ran.status.success() {
        bail!("cannot capture {name}: {}", first_error(&String::from_utf8_lossy(&ran.stderr)));
    }
    Ok(Golden { name: format!("{name} {version}"), dir })
}

fn run_case(program: &Path, hit: &FaultCase<'_>, deadline: Duration) -> FaultOutcome {
    let place = tempfile::tempdir().map_err(|error| error.to_string())?;
    let again = place.path().join("again");
    let mut command = Command::new(program);
    command.arg("replay").arg(&hit.golden.dir).arg("--out").arg(&again);
    command.args(["--timeout", &deadline.as_secs().to_string()]);
    // A reply without streaming has two events, so a later event would not exist.
    command.args(["--fault", &format!("lane={},turn=1,attempt=all,event=2:{}", hit.lane, hit.kind)]);
    let (status, stderr) = run_with_limit(command, place.path(), deadline + OVERHEAD)?;
    if !matches!(status.code(), Some(0 | 1 | 3)) || stderr.contains("panicked at") {
        return Err(format!("it ended with {status}: {}", first_error(&stderr)));
    }
    let mut command = Command::new(program);
    command.arg("show").arg(&again).args(["--format", "json"]);
    let shown = super::run(command, place.path())?;
    if !shown.status.success() {
        return Err(format!("`show` failed: {}", first_error(&String::from_utf8_lossy(&shown.stderr))));
    }
    let report = fs::read(again.join("replay.json")).map_err(|error| error.to_string())?;
    let report = serde_json::from_slice(&report).map_err(|error| error.to_string())?;
    describe_reaction(&report, &stderr)
}

/// Runs the program until it ends, or kills it after `limit`.
fn run_with_limit(command: Command, place: &Path, limit: Duration) -> Result<(ExitStatus, String), String> {
    let message = |error: std::io::Error| error.to_string();
    let log = place.join("stderr.txt");
    let mut command = prepare(command, place)?;
    command.stdout(File::create(place.join("out.txt")).map_err(message)?);
    let mut child = command.stderr(File::create(&log).map_err(message)?).spawn().map_err(message)?;
    let begun = Instant::now();
    let status = loop {
        match child.try_wait().map_err(message)? {
            Some(status) => break status,
            None if begun.elapsed() > limit => {
                child.kill().and_then(|()| child.wait()).map_err(message)?;
                return Err(format!("it hung for {} s", limit.as_secs()));
            }
            None => std::thread::sleep(Duration::from_millis(100)),
        }
    };
    Ok((status, String::from_utf8_lossy(&fs::read(log).map_err(message)?).into_owned()))
}

/// Describes the reaction of a harness to a fault: number of requests, and end.
fn describe_reaction(report: &Value, stderr: &str) -> FaultOutcome {
    let fault = &report["faults"][0];
    fault["hits"].as_u64().filter(|hits| *hits > 0).ok_or("the fault was never applied")?;
    let retries: Vec<&str> =
        fault["then"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let requests = match retries.len() {
        0 => "1 request".to_owned(),
        more => format!("{} requests", more + 1),
    };
    let form = if retries.iter().any(|how| how.contains("without streaming")) {
        ", also without streaming"
    } else {
        ""
    };
    let code = stderr.split_once("ended with code ").map(|(_, rest)| rest);
    let code = code.and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
    let end = match code {
        _ if stderr.contains("was still running after") => "still running at the deadline".to_owned(),
        Some(code) => format!("ended with code {code}"),
        None => "ended with code 0".to_owned(),
    };
    Ok(format!("{requests}{form}, {end}"))
}

/// Formats a table with a row for each kind, and a column for each harness and lane.
fn table<'r>(results: impl Iterator<Item = (&'r FaultCase<'r>, &'r FaultOutcome)>) -> String {
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
    let mut text = format!("| permanent fault | {} |\n", columns.join(" | "));
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
    fn a_reaction_is_described_by_the_report_and_the_end() {
        let report = |hits: u32, then: &[&str]| json!({"faults": [{"hits": hits, "then": then}]});
        let reaction = |hits, then: &[&str], stderr: &str| describe_reaction(&report(hits, then), stderr);
        assert_eq!(reaction(1, &[], ""), Ok("1 request, ended with code 0".to_owned()));
        let retries = ["retried after 1.0 s"; 6];
        let failed = reaction(7, &retries, "error: `x` ended with code 1: no");
        assert_eq!(failed, Ok("7 requests, ended with code 1".to_owned()));
        let other = ["retried after 1.0 s without streaming"];
        let late = reaction(2, &other, "error: `x` was still running after 30 s and was ended");
        assert_eq!(late, Ok("2 requests, also without streaming, still running at the deadline".to_owned()));
        assert_eq!(reaction(0, &[], ""), Err("the fault was never applied".to_owned()));
    }

    #[test]
    fn a_table_has_a_column_for_each_lane() {
        let golden = Golden { name: "tern 1.0".into(), dir: PathBuf::new() };
        let hit = |lane, kind| FaultCase { golden: &golden, lane, kind };
        let results: Vec<(FaultCase<'_>, FaultOutcome)> = vec![
            (hit("sub-1", "cut"), Err("it | hung".into())),
            (hit("main", "cut"), Ok("1 request, ended with code 0".into())),
            (hit("main", "stall"), Ok("1 request, still running at the deadline".into())),
        ];
        expect![[r#"
            | permanent fault | tern 1.0, main | tern 1.0, sub-1 |
            |---|---|---|
            | `cut` | 1 request, ended with code 0 | **it / hung** |
            | `stall` | 1 request, still running at the deadline |  |
        "#]]
        .assert_eq(&table(results.iter().map(|(hit, outcome)| (hit, outcome))));
    }
}
