//! `cargo xtask bench fork`: time to build the request of a fork, and to explain the cache of many exchanges.

use std::fmt::Write as _;
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use agent::bench::Parent;
use anyhow::{Context, Result, ensure};
use clap::Args;

use super::growth::{GrowthRow, measurement_folder};
use super::target::offshoot_program;
use super::{dumps, process};
use crate::command::{cargo, run as run_command};

/// Number of exchanges of one lane.
const LANE: usize = 50;
/// Bytes of a request's body without its conversation.
const BODY: usize = 195_000;
/// Bytes that a turn adds to the history, without its frame.
const RESULT: usize = 100;

/// Maximum time of the largest explanation.
const SECONDS: f64 = 2.0;

/// Size of the measurement.
#[derive(Args)]
pub(crate) struct ForkArgs {
    /// Largest number of exchanges; a tenth and three tenths of it are measured, too
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(100..))]
    exchanges: u32,
    /// Number of measurements; the fastest counts, because other processes can only slow it down
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

/// Writes recordings, explains their cache use, and prints the tables.
pub(super) fn run(args: &ForkArgs) -> Result<()> {
    if cfg!(debug_assertions) {
        let (exchanges, rounds) = (args.exchanges.to_string(), args.rounds.to_string());
        return run_command(
            cargo(["run", "--release", "--quiet", "--package", "xtask", "--", "bench", "fork"])
                .args(["--exchanges", &exchanges])
                .args(["--rounds", &rounds]),
        );
    }
    print!("{}", measure_fork_request(args.rounds)?);
    let offshoot = offshoot_program()?;
    println!(
        "| exchanges | size | time | CPU | CPU per exchange | peak memory |\n|---:|---:|---:|---:|---:|---:|"
    );
    let mut lines = Vec::new();
    for exchanges in [args.exchanges / 10, args.exchanges * 3 / 10, args.exchanges] {
        lines.push(measure(&offshoot, exchanges, args.rounds)?);
    }
    print!("{}", judge(&lines));
    Ok(())
}

/// Number and length of the messages of a parent: a megabyte in total.
const MESSAGES: i64 = 100;
const MESSAGE: usize = 10_500;
/// Maximum time to build the request of a fork, in milliseconds.
const MAX_BUILD_MS: f64 = 1.0;
/// Number of requests for one figure.
const BUILDS: u32 = 200;

/// Measures the first request of a fork of a long conversation, and a copy of as many bytes. The ratio shows how often the
/// conversation is copied.
fn measure_fork_request(rounds: u32) -> Result<String> {
    let mut parent = Parent::new(MESSAGES, MESSAGE);
    let size = parent.fork("Which files have you read so far?").len();
    ensure!(size > 1_000_000, "a request of {size} bytes is shorter than a megabyte");
    let original = vec![b'x'; size];
    let (mut fastest, mut copied) = (f64::MAX, f64::MAX);
    for _ in 0..rounds {
        let begun = Instant::now();
        for _ in 0..BUILDS {
            black_box(parent.fork(black_box("Which files have you read so far?")));
        }
        fastest = fastest.min(begun.elapsed().as_secs_f64() * 1e3 / f64::from(BUILDS));
        let begun = Instant::now();
        for _ in 0..BUILDS {
            black_box(black_box(&original).clone());
        }
        copied = copied.min(begun.elapsed().as_secs_f64() * 1e3 / f64::from(BUILDS));
    }
    let met = if fastest < MAX_BUILD_MS { "met" } else { "**missed**" };
    Ok(format!(
        "| request of a fork | aim | built | a copy of it | |\n|---:|---|---:|---:|---|\n\
         | {:.2} MB | under {MAX_BUILD_MS} ms | {fastest:.3} ms | {copied:.3} ms | {met} |\n\n",
        size as f64 / 1e6
    ))
}

fn measure(offshoot: &Path, exchanges: u32, rounds: u32) -> Result<GrowthRow> {
    let folder = measurement_folder()?;
    let bytes = write_dumps(folder.path(), exchanges as usize)?;
    check(offshoot, folder.path(), exchanges)?;
    let mut runs = Vec::new();
    for _ in 0..rounds {
        let used = process::run(Command::new(offshoot).arg("cache").arg(folder.path()))?;
        ensure!(used.status.success(), "`offshoot cache` ended with {}", used.status);
        runs.push(used);
    }
    let line = GrowthRow::of(exchanges, &runs);
    println!(
        "| {exchanges} | {:.0} MB | {:.2} s | {:.2} s | {:.2} ms | {:.0} MB |",
        bytes as f64 / 1e6,
        line.seconds,
        line.cpu,
        line.cpu_ms_per_exchange(),
        line.megabytes
    );
    Ok(line)
}

/// Checks the result: no misses, and all but the first exchange of each lane read the cache.
fn check(offshoot: &Path, folder: &Path, exchanges: u32) -> Result<()> {
    let output = Command::new(offshoot).arg("cache").arg(folder).args(["--format", "json"]).output()?;
    let output = String::from_utf8(output.stdout)?;
    let lanes = (exchanges as usize).div_ceil(LANE);
    let count = |what: &str| output.matches(what).count();
    ensure!(output.contains(r#""missed":0,"#), "there are cache misses");
    let (cold, hits) = (count(r#""reason":"cold""#), count(r#""reason":null"#));
    let wanted = (lanes, exchanges as usize - lanes);
    ensure!((cold, hits) == wanted, "found {cold} cold and {hits} hits, expected {wanted:?}");
    Ok(())
}

fn judge(lines: &[GrowthRow]) -> String {
    let mut text = "\n| figure | aim | measured | |\n|---|---|---|---|\n".to_owned();
    let (Some(least), Some(most)) = (lines.first(), lines.last()) else { return text };
    let rows = [
        ("time", format!("under {SECONDS} s"), format!("{:.2} s", most.seconds), most.seconds < SECONDS),
        most.cpu_figure(least),
    ];
    for (figure, aim, measured, is_met) in rows {
        let met = if is_met { "met" } else { "**missed**" };
        writeln!(text, "| {figure}, {} exchanges | {aim} | {measured} | {met} |", most.exchanges)
            .expect("a string accepts all text");
    }
    text
}

/// Writes lanes in turn, so that many are open at the same time. Returns the number of bytes.
fn write_dumps(folder: &Path, exchanges: usize) -> Result<usize> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create `{}`", folder.display()))?;
    let lanes = exchanges.div_ceil(LANE);
    let mut written = 0;
    for number in 0..exchanges {
        let (lane, turn) = (number % lanes, number / lanes);
        let (request, response) = exchange(lane, turn);
        written += dumps::write(folder, number, &request, &response)?;
    }
    Ok(written)
}

/// Returns the request of a turn with its whole history and a cache marker on the last message, and the reply.
fn exchange(lane: usize, turn: usize) -> (String, String) {
    let mark = r#","cache_control":{"type":"ephemeral"}"#;
    let call = |turn: usize| {
        format!(
            r#"{{"type":"tool_use","id":"toolu_{lane:03}{turn:03}","name":"Read","input":{{"part":{turn}}}}}"#
        )
    };
    let result = |turn: usize, mark: &str| {
        let text = format!("line {turn} of {lane}; ").repeat(RESULT / 16);
        format!(
            r#"{{"type":"tool_result","tool_use_id":"toolu_{lane:03}{turn:03}","content":"{text}"{mark}}}"#
        )
    };
    let first = if turn == 0 { mark } else { "" };
    let mut messages = format!(
        r#"{{"role":"user","content":[{{"type":"text","text":"Look into part {lane} of the work."{first}}}]}}"#
    );
    for before in 0..turn {
        let marked = if before + 1 == turn { mark } else { "" };
        write!(
            messages,
            r#",{{"role":"assistant","content":[{}]}},{{"role":"user","content":[{}]}}"#,
            call(before),
            result(before, marked)
        )
        .expect("a string accepts all text");
    }
    let rules = format!("Rule of part {lane}: the cutting stands in wet sand until it has roots. ");
    let rules = rules.repeat(BODY / rules.len());
    let request = format!(
        r#"{{"model":"claude-opus-5","max_tokens":100,"system":[{{"type":"text","text":"{rules}"{mark}}}],"tools":[{{"name":"Read","input_schema":{{}}}}],"messages":[{messages}]}}"#
    );
    let response = format!(
        r#"{{"id":"msg_{lane:03}{turn:03}","type":"message","role":"assistant","model":"claude-opus-5","content":[{}],"stop_reason":"tool_use","usage":{{"input_tokens":1,"output_tokens":1}}}}"#,
        call(turn)
    );
    (request, response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exchanges_are_of_the_promised_size() {
        let sizes: Vec<usize> = (0..LANE)
            .map(|turn| {
                let (request, response) = exchange(1, turn);
                serde_json::from_str::<serde_json::Value>(&request).expect("the request is JSON");
                serde_json::from_str::<serde_json::Value>(&response).expect("the response is JSON");
                request.len()
            })
            .collect();
        let mean = sizes.iter().sum::<usize>() / sizes.len();
        assert!((195_000..205_000).contains(&mean), "{mean} bytes on average");
    }
}
