//! `cargo xtask bench verify`: growth of time and memory with the number of exchanges.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;

use super::growth::{GrowthRow, measurement_folder};
use super::target::offshoot_program;
use super::{dumps, process};
use crate::command::{cargo, run as run_command};

/// Number of exchanges of one lane.
const LANE: usize = 50;
/// Bytes of the instructions and tools of all requests.
const SHARED: usize = 96_000;
/// Bytes that a turn adds to the history, without its frame.
const RESULT: usize = 200;

/// Maximum time and memory of the largest comparison.
const SECONDS: f64 = 2.0;
const MEGABYTES: f64 = 300.0;

/// Size of the measurement.
#[derive(Args)]
pub(crate) struct VerifyArgs {
    /// Largest number of exchanges; a tenth and three tenths of it are measured, too
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(100..))]
    exchanges: u32,
    /// Number of measurements; the fastest counts, because other processes can only slow it down
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

/// Difference of the second recording from the first.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Candidate {
    /// Other ids, as in each run.
    OtherIds,
    /// Other ids, and another word in the instructions.
    OtherWord,
}

impl Candidate {
    const ALL: [Candidate; 2] = [Candidate::OtherIds, Candidate::OtherWord];

    fn name(self) -> &'static str {
        match self {
            Candidate::OtherIds => "other ids",
            Candidate::OtherWord => "another word in every request",
        }
    }

    /// Returns the exit code of the correct verdict.
    fn exit_code(self) -> i32 {
        match self {
            Candidate::OtherIds => 0,
            Candidate::OtherWord => 1,
        }
    }
}

/// Writes pairs of recordings, compares them, and prints the tables.
pub(super) fn run(args: &VerifyArgs) -> Result<()> {
    if cfg!(debug_assertions) {
        let (exchanges, rounds) = (args.exchanges.to_string(), args.rounds.to_string());
        return run_command(
            cargo(["run", "--release", "--quiet", "--package", "xtask", "--", "bench", "verify"])
                .args(["--exchanges", &exchanges])
                .args(["--rounds", &rounds]),
        );
    }
    let offshoot = offshoot_program()?;
    println!(
        "| the second recording | exchanges | size of both | time | CPU | CPU per exchange | peak memory |\n\
         |---|---:|---:|---:|---:|---:|---:|"
    );
    let mut aims = Vec::new();
    for candidate in Candidate::ALL {
        let mut lines = Vec::new();
        for exchanges in [args.exchanges / 10, args.exchanges * 3 / 10, args.exchanges] {
            lines.push(measure(&offshoot, candidate, exchanges, args.rounds)?);
        }
        aims.push((candidate, lines));
    }
    println!("\n| figure | aim | measured | |\n|---|---|---|---|");
    for (candidate, lines) in &aims {
        print!("{}", judge(*candidate, lines));
    }
    Ok(())
}

fn measure(offshoot: &Path, candidate: Candidate, exchanges: u32, rounds: u32) -> Result<GrowthRow> {
    let folder = measurement_folder()?;
    let [golden, other] = ["golden", "candidate"].map(|name| folder.path().join(name));
    let bytes = write_dumps(&golden, exchanges as usize, "g", "wet")?
        + match candidate {
            Candidate::OtherIds => write_dumps(&other, exchanges as usize, "c", "wet")?,
            Candidate::OtherWord => write_dumps(&other, exchanges as usize, "c", "dry")?,
        };
    let mut runs = Vec::new();
    for _ in 0..rounds {
        let used = process::run(Command::new(offshoot).arg("verify").args([&golden, &other]))?;
        ensure!(
            used.status.code() == Some(candidate.exit_code()),
            "`offshoot verify` ended with {} for recordings that have {}",
            used.status,
            candidate.name()
        );
        runs.push(used);
    }
    let line = GrowthRow::of(exchanges, &runs);
    println!(
        "| {} | {exchanges} | {:.0} MB | {:.2} s | {:.2} s | {:.2} ms | {:.0} MB |",
        candidate.name(),
        bytes as f64 / 1e6,
        line.seconds,
        line.cpu,
        line.cpu_ms_per_exchange(),
        line.megabytes
    );
    Ok(line)
}

/// Formats the aims of one kind of comparison as rows of a table.
fn judge(candidate: Candidate, lines: &[GrowthRow]) -> String {
    let mut text = String::new();
    let (Some(least), Some(most)) = (lines.first(), lines.last()) else { return text };
    let rows = [
        ("time", format!("under {SECONDS} s"), format!("{:.2} s", most.seconds), most.seconds < SECONDS),
        (
            "peak memory",
            format!("under {MEGABYTES} MB"),
            format!("{:.0} MB", most.megabytes),
            most.megabytes < MEGABYTES,
        ),
        most.cpu_figure(least),
    ];
    for (figure, aim, measured, is_met) in rows {
        let met = if is_met { "met" } else { "**missed**" };
        let (name, count) = (candidate.name(), most.exchanges);
        writeln!(text, "| {figure}, {count} exchanges, {name} | {aim} | {measured} | {met} |")
            .expect("a string accepts all text");
    }
    text
}

/// Writes a main lane that starts an agent for each other lane, and the turns of these agents. Returns the number of bytes.
fn write_dumps(folder: &Path, exchanges: usize, ids: &str, word: &str) -> Result<usize> {
    fs::create_dir(folder).with_context(|| format!("cannot create `{}`", folder.display()))?;
    let lanes = exchanges.div_ceil(LANE);
    let mut written = 0;
    for number in 0..exchanges {
        // The lanes alternate, main first, so that many are open at the same time.
        let (lane, turn) = (number % lanes, number / lanes);
        let (request, response) = exchange(lane, turn, lanes, ids, word);
        written += dumps::write(folder, number, &request, &response)?;
    }
    Ok(written)
}

/// Returns the request of a turn with its whole history, and the reply.
fn exchange(lane: usize, turn: usize, lanes: usize, ids: &str, word: &str) -> (String, String) {
    let mut messages = format!(r#"{{"role":"user","content":"{}"}}"#, prompt(lane));
    for before in 0..turn {
        let calls = calls(lane, before, lanes);
        let uses: Vec<String> = calls.iter().map(|call| call.tool_use(ids)).collect();
        let results: Vec<String> = calls.iter().map(|call| call.tool_result(ids)).collect();
        write!(
            messages,
            r#",{{"role":"assistant","content":[{}]}},{{"role":"user","content":[{}]}}"#,
            uses.join(","),
            results.join(",")
        )
        .expect("a string accepts all text");
    }
    let who = if lane == 0 { "You lead the others" } else { "You look at one part" };
    let request = format!(
        r#"{{"model":"m","max_tokens":100,"system":"{who}. {}","tools":[{}],"messages":[{messages}]}}"#,
        rules(word),
        tools()
    );
    let uses: Vec<String> = calls(lane, turn, lanes).iter().map(|call| call.tool_use(ids)).collect();
    let response = format!(
        r#"{{"id":"msg_{ids}{lane:03}{turn:03}","type":"message","role":"assistant","model":"m","content":[{}],"stop_reason":"tool_use","usage":{{"input_tokens":1,"output_tokens":1}}}}"#,
        uses.join(",")
    );
    (request, response)
}

/// A tool call of the model.
struct Call {
    id: String,
    tool: &'static str,
    input: String,
}

impl Call {
    fn tool_use(&self, ids: &str) -> String {
        let Call { id, tool, input } = self;
        format!(r#"{{"type":"tool_use","id":"toolu_{ids}{id}","name":"{tool}","input":{input}}}"#)
    }

    fn tool_result(&self, ids: &str) -> String {
        let text = format!("line of {}; ", self.id).repeat(RESULT / 16);
        format!(r#"{{"type":"tool_result","tool_use_id":"toolu_{ids}{}","content":"{text}"}}"#, self.id)
    }
}

fn calls(lane: usize, turn: usize, lanes: usize) -> Vec<Call> {
    if lane == 0 && turn == 0 && lanes > 1 {
        let spawn = |other: usize| Call {
            id: format!("{other:03}spawn"),
            tool: "Task",
            input: format!(r#"{{"prompt":"{}"}}"#, prompt(other)),
        };
        return (1..lanes).map(spawn).collect();
    }
    let input = format!(r#"{{"path":"part{lane}/file{turn}"}}"#);
    vec![Call { id: format!("{lane:03}{turn:03}"), tool: "Read", input }]
}

fn prompt(lane: usize) -> String {
    format!("Look into part {lane} of the work and say what is to be done about it.")
}

fn rules(word: &str) -> String {
    let rule = |number: usize| {
        let word = if number == 400 { word } else { "wet" };
        format!("Rule {number}: the cutting stands in {word} sand until it has roots. ")
    };
    (0..SHARED * 2 / 3 / 68).map(rule).collect()
}

fn tools() -> String {
    let tool = |name: &str| {
        let about = format!("{name} does what its name says, and tells what came of it. ");
        let about = about.repeat(SHARED / 3 / 10 / about.len());
        format!(
            r#"{{"name":"{name}","description":"{about}","input_schema":{{"type":"object","properties":{{"path":{{"type":"string"}}}}}}}}"#
        )
    };
    let names = ["Task", "Read", "Write", "Edit", "Search", "Find", "Run", "Fetch", "Ask", "List"];
    names.map(tool).join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exchanges_are_of_the_promised_size() {
        let sizes: Vec<usize> = (0..LANE)
            .map(|turn| {
                let (request, response) = exchange(1, turn, 20, "g", "wet");
                serde_json::from_str::<serde_json::Value>(&request).expect("the request is JSON");
                serde_json::from_str::<serde_json::Value>(&response).expect("the response is JSON");
                request.len()
            })
            .collect();
        let mean = sizes.iter().sum::<usize>() / sizes.len();
        assert!((95_000..105_000).contains(&mean), "{mean} bytes on average");
        assert!(sizes.is_sorted());
    }

    #[test]
    fn a_single_word_distinguishes_two_requests() {
        let of = |word| exchange(0, 0, 2, "g", word).0;
        assert_eq!(
            of("wet").replace("Rule 400: the cutting stands in wet", ""),
            of("dry").replace("Rule 400: the cutting stands in dry", "")
        );
        assert_ne!(of("wet"), of("dry"));
    }
}
