//! `cargo xtask bench normalize`: growth of time and memory with the number of exchanges.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;

use super::{dumps, process};
use crate::command::{cargo, run as run_command};

/// Number of exchanges of one lane.
const LANE: usize = 100;
/// Bytes of the body of one request.
const BODY: usize = 100_000;

/// Size of the measurement.
#[derive(Args)]
pub(crate) struct NormalizeArgs {
    /// Largest number of exchanges; a quarter and a half of it are measured, too
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(400..))]
    exchanges: u32,
}

/// Writes folders of dumps, normalizes them, and prints the table.
pub(super) fn run(args: &NormalizeArgs) -> Result<()> {
    let count = args.exchanges;
    if cfg!(debug_assertions) {
        let count = count.to_string();
        let bench =
            ["run", "--release", "--package", "xtask", "--", "bench", "normalize", "--exchanges", &count];
        return run_command(&mut cargo(bench));
    }
    run_command(&mut cargo(["build", "--release", "--package", "cli"]))?;
    let here = env::current_exe()?;
    let offshoot = here.with_file_name("offshoot");
    println!("| exchanges | size | time | time per exchange | peak memory |\n|---:|---:|---:|---:|---:|");
    for exchanges in [count / 4, count / 2, count] {
        let folder = tempfile::Builder::new()
            .prefix("bench-")
            .tempdir_in(here.parent().context("a program is in a folder")?)
            .context("cannot create a folder for the measurement")?;
        let bytes = write_dumps(folder.path(), exchanges as usize)?;
        let used = process::run(Command::new(&offshoot).arg("normalize").arg(folder.path()))?;
        ensure!(used.status.success(), "`offshoot normalize` ended with {}", used.status);
        check_lanes(folder.path(), exchanges as usize)?;
        println!(
            "| {exchanges} | {:.0} MB | {:.1} s | {:.2} ms | {:.0} MB |",
            bytes as f64 / 1e6,
            used.took.as_secs_f64(),
            used.took.as_secs_f64() * 1e3 / f64::from(exchanges),
            used.memory as f64 / 1e6
        );
    }
    Ok(())
}

/// Checks the number of lanes.
fn check_lanes(folder: &Path, exchanges: usize) -> Result<()> {
    let manifest = fs::read_to_string(folder.join("normalized/manifest.json"))?;
    let lanes = manifest.matches("\"kind\":").count();
    let wanted = exchanges.div_ceil(LANE);
    ensure!(lanes == wanted, "found {lanes} lanes, expected {wanted}");
    Ok(())
}

/// Writes a main lane that starts agents, and the turns of these agents. Returns the number of bytes.
fn write_dumps(folder: &Path, exchanges: usize) -> Result<usize> {
    let mut written = 0;
    let lanes = exchanges.div_ceil(LANE);
    for number in 0..exchanges {
        // The lanes alternate, main first, so that many are open at the same time.
        let (lane, turn) = (number % lanes, number / lanes);
        let (request, response) = if lane == 0 { main_turn(turn, lanes) } else { agent_turn(lane, turn) };
        written += dumps::write(folder, number, &request, &response)?;
    }
    Ok(written)
}

fn main_turn(turn: usize, lanes: usize) -> (String, String) {
    let call = |turn: usize| match turn {
        0 => {
            let spawns = (1..lanes).map(|lane| {
                format!(
                    r#"{{"type":"tool_use","id":"spawn_{lane}","name":"Task","input":{{"prompt":"{}"}}}}"#,
                    prompt(lane)
                )
            });
            spawns.collect::<Vec<_>>().join(",")
        }
        turn => format!(r#"{{"type":"tool_use","id":"main_{turn}","name":"Read","input":{{}}}}"#),
    };
    conversation("You lead the others.", "Do all of it, please.", turn, &call)
}

fn agent_turn(lane: usize, turn: usize) -> (String, String) {
    let call = |turn: usize| {
        format!(r#"{{"type":"tool_use","id":"agent_{lane}_{turn}","name":"Read","input":{{}}}}"#)
    };
    conversation("You look at one part.", &prompt(lane), turn, &call)
}

fn prompt(lane: usize) -> String {
    format!("Look into part {lane} of the work.")
}

/// Returns the request of a turn with its whole history, filled up to its size, and the reply.
fn conversation(system: &str, prompt: &str, turn: usize, call: &dyn Fn(usize) -> String) -> (String, String) {
    let mut messages = format!(r#"{{"role":"user","content":"{prompt}"}}"#);
    for before in 0..turn {
        let calls = call(before);
        let results: Vec<String> = calls
            .split(r#""id":""#)
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
            .map(|id| format!(r#"{{"type":"tool_result","tool_use_id":"{id}","content":"seen"}}"#))
            .collect();
        write!(
            messages,
            r#",{{"role":"assistant","content":[{calls}]}},{{"role":"user","content":[{}]}}"#,
            results.join(",")
        )
        .expect("a string accepts all text");
    }
    let filler = "one more word of the rules ".repeat(BODY.saturating_sub(messages.len()) / 27);
    let request = format!(
        r#"{{"model":"m","max_tokens":100,"system":"{system} {filler}","tools":[{{"name":"Task","input_schema":{{}}}},{{"name":"Read","input_schema":{{}}}}],"messages":[{messages}]}}"#
    );
    let response = format!(
        r#"{{"id":"msg","type":"message","role":"assistant","model":"m","content":[{}],"stop_reason":"tool_use","usage":{{"input_tokens":1,"output_tokens":1}}}}"#,
        call(turn)
    );
    (request, response)
}
