//! `cargo xtask bench agents`: time and memory of a growing number of background sub-agents under one parent.
//!
//! It measures our program from start to exit, with a journal on disk and requests over HTTP. The model is in this process and
//! replies at once, so the kernel dominates. In a second series it replies to sub-agents only when all are launched, so that all
//! wait at the same time and their ends wake the parent.

use std::env;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use session::{Block, Reply, Usage};
use store::{Filter, Options, Origin, RunStatus, Store};

use super::process::{self, ResourceUsage};
use super::target::offshoot_program;
use crate::command::{cargo, run as run_command};
use crate::provider::{Provider, ReplyPace, call, reply, text};

/// Number of calls in one message of the parent.
const CALLS_PER_MESSAGE: usize = 100;
const PATIENCE: Duration = Duration::from_secs(1800);
/// Maximum time and memory of ten thousand agents.
const MOST: usize = 10_000;
const MOST_SECONDS: f64 = 60.0;
const MOST_MEGABYTES: f64 = 1000.0;
/// Maximum growth of the CPU time per agent for ten times as many agents.
const LINEAR: f64 = 1.5;
/// A tool that only the parent has.
const PARENTS_TOOL: &[u8] = b"\"name\":\"job_cancel\"";
/// Text of a request for a summary.
const TOO_LONG: &[u8] = b"has become too long to continue";

/// Size of the measurement.
#[derive(Args)]
pub(crate) struct AgentsArgs {
    /// Numbers of sub-agents, measured one by one
    #[arg(long, value_delimiter = ',', default_values_t = [10, 100, 1000, MOST])]
    agents: Vec<usize>,
    /// Number of measurements; the fastest counts, because other processes can only slow it down
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Set a budget, too
    #[arg(long)]
    budget: bool,
}

/// Time of the replies to sub-agents.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ReplyTime {
    AtOnce,
    WhenAllAreLaunched,
}

/// A model whose parent launches a number of sub-agents.
struct LaunchingModel {
    agents: usize,
    answers: ReplyTime,
    launched: Mutex<usize>,
    all: Condvar,
}

/// The measurement of one tree.
struct AgentsRow {
    agents: usize,
    answers: ReplyTime,
    seconds: f64,
    cpu: f64,
    megabytes: f64,
    /// Number of the parent's requests, and of those after a wake-up.
    requests: usize,
    woken: usize,
    summaries: usize,
}

/// Measures all numbers of agents, and prints the tables.
pub(super) fn run(args: &AgentsArgs) -> Result<()> {
    if cfg!(debug_assertions) {
        let agents: Vec<String> = args.agents.iter().map(usize::to_string).collect();
        let mut again = cargo(["run", "--release", "--quiet", "--package", "xtask", "--", "bench", "agents"]);
        again.args(["--agents", &agents.join(","), "--rounds", &args.rounds.to_string()]);
        return run_command(again.args(args.budget.then_some("--budget")));
    }
    let offshoot = offshoot_program()?;
    let mut rows: Vec<AgentsRow> = Vec::new();
    let each = |answers| args.agents.iter().map(move |agents| (answers, *agents));
    for (answers, agents) in each(ReplyTime::AtOnce).chain(each(ReplyTime::WhenAllAreLaunched)) {
        let mut fastest: Option<AgentsRow> = None;
        for round in 1..=args.rounds {
            let row = measure(&offshoot, agents, answers, args.budget);
            let row = row.with_context(|| format!("cannot measure {agents} agents, {answers:?}"))?;
            let (s, mb) = (row.seconds, row.megabytes);
            eprintln!("round {round}, {agents} agents, {answers:?}: {s:.2} s, {mb:.0} MB");
            if fastest.as_ref().is_none_or(|before| row.seconds < before.seconds) {
                fastest = Some(row);
            }
        }
        rows.extend(fastest);
    }
    println!("Rounds: {}, cores: {}.\n", args.rounds, thread::available_parallelism()?);
    for (answers, title) in [
        (ReplyTime::AtOnce, "Immediate replies"),
        (ReplyTime::WhenAllAreLaunched, "Replies after all are launched"),
    ] {
        let rows: Vec<&AgentsRow> = rows.iter().filter(|row| row.answers == answers).collect();
        println!("#### {title}\n\n{}\n{}", table(&rows), aims(&rows));
    }
    Ok(())
}

/// Measures one tree in a data folder of its own.
fn measure(offshoot: &Path, agents: usize, answers: ReplyTime, budget: bool) -> Result<AgentsRow> {
    let here = env::current_exe()?;
    // Not in the system's temporary folder, which may be in memory.
    let folder = tempfile::Builder::new()
        .prefix("bench-")
        .tempdir_in(here.parent().context("a program is in a folder")?)
        .context("cannot create a folder for the measurement")?;
    let path = |name: &str| folder.path().join(name);
    for name in ["config", "w"] {
        fs::create_dir(path(name))?;
    }
    // One request more than concurrent agents, so that waiting agents do not keep their parent from launching others.
    let limits = format!("[sub_agents]\nwidth = {agents}\nat_once = 16\nrequests = 17\n");
    fs::write(path("config/offshoot.toml"), limits)?;
    let model = LaunchingModel { agents, answers, launched: Mutex::default(), all: Condvar::new() };
    let provider = Provider::start(ReplyPace::Whole, move |body| model.reply(body))?;
    let mut command = Command::new(offshoot);
    command
        .args(["run", "--json", "--model", "sonnet", "--max-steps", "100000", "Let them all look."])
        .args(budget.then_some(["--max-budget-usd", "900000"]).into_iter().flatten())
        .current_dir(path("w"))
        .env_clear()
        .env("HOME", path("home"))
        .env("OFFSHOOT_DATA_DIR", path("data"))
        .env("OFFSHOOT_CONFIG_DIR", path("config"))
        .env("ANTHROPIC_BASE_URL", format!("http://{}", provider.address))
        .env("ANTHROPIC_API_KEY", "sk-test-0123456789")
        .stdout(File::create(path("stdout"))?)
        .stderr(File::create(path("stderr"))?);
    let used = process::run_tree(&mut command, PATIENCE)?;
    let stderr = || fs::read_to_string(path("stderr")).unwrap_or_default();
    ensure!(used.status.success(), "it ended with {}\n{}", used.status, stderr());
    read_row(&path("data/store.db"), agents, answers, &used)
}

impl LaunchingModel {
    /// Replies to a request: the parent launches all agents, message by message, and then waits. An agent has one reply.
    fn reply(&self, body: &[u8]) -> Reply {
        // About the count of a tokenizer, so that a long conversation is compacted as usual.
        let usage = Usage { input: body.len() as u64 / 4, output: 20, ..Usage::default() };
        let with_blocks = |blocks: Vec<Block>| reply("msg_bench".to_owned(), blocks, usage);
        let start = &body[..body.len().min(64 << 10)];
        let end = &body[body.len().saturating_sub(4 << 10)..];
        let mut launched = self.launched.lock().expect("lock is not poisoned");
        if !contains(start, PARENTS_TOOL) {
            while self.answers == ReplyTime::WhenAllAreLaunched && *launched < self.agents {
                launched = self.all.wait(launched).expect("lock is not poisoned");
            }
            return with_blocks(vec![text("There is a tide table in it, and nothing else.")]);
        }
        if contains(end, TOO_LONG) {
            return with_blocks(vec![text("Some were launched, and some of them have ended.")]);
        }
        let calls: Vec<Block> = (*launched..self.agents).take(CALLS_PER_MESSAGE).map(launch).collect();
        *launched += calls.len();
        self.all.notify_all();
        if calls.is_empty() {
            with_blocks(vec![text("I wait for those that are at work.")])
        } else {
            with_blocks(calls)
        }
    }
}

fn launch(n: usize) -> Block {
    let input = format!(r#"{{"prompt":"Look into part {n} of the harbour.","run_in_background":true}}"#);
    call(&format!("toolu_{n}"), "spawn_sub_agent", &input)
}

fn contains(text: &[u8], wanted: &[u8]) -> bool {
    text.windows(wanted.len()).any(|window| window == wanted)
}

/// Checks that all agents are completed and that the parent got one notice of each. Returns the row.
fn read_row(journal: &Path, agents: usize, answers: ReplyTime, used: &ResourceUsage) -> Result<AgentsRow> {
    let store = Store::open(journal, Options::default())?;
    let runs = store.runs(&Filter::default())?;
    let completed = runs.iter().filter(|run| run.status == RunStatus::Completed).count();
    ensure!(completed == agents + 1, "{completed} of {} runs are completed", agents + 1);
    let root = runs.iter().find(|run| run.parent.is_none()).context("there is no root run")?;
    let reads = store.run(&root.id);
    ensure!(reads.inbox()?.is_empty(), "the inbox of the parent is not empty");
    let messages = reads.messages()?;
    let notices = messages
        .iter()
        .filter(|message| message.origin != Origin::Carried)
        .map(|message| String::from_utf8_lossy(&message.bytes).matches("<job_ended job_id=").count());
    let notices: usize = notices.sum();
    ensure!(notices == agents, "the parent got {notices} notices of {agents} jobs");
    let of = |origin| messages.iter().filter(|message| message.origin == origin).count();
    Ok(AgentsRow {
        agents,
        answers,
        seconds: used.took.as_secs_f64(),
        cpu: used.cpu.as_secs_f64(),
        megabytes: used.memory as f64 / 1e6,
        requests: of(Origin::Reply),
        woken: of(Origin::Inbox),
        summaries: of(Origin::Summary),
    })
}

fn table(rows: &[&AgentsRow]) -> String {
    let mut text = "| sub-agents | time | time per agent | CPU per agent | peak memory | parent's requests | wake-ups | summaries |\n\
                    |---:|---:|---:|---:|---:|---:|---:|---:|\n"
        .to_owned();
    for AgentsRow { agents, seconds, cpu, megabytes, requests, woken, summaries, .. } in rows {
        let each = |seconds: &f64| seconds * 1e3 / *agents as f64;
        text += &format!(
            "| {agents} | {seconds:.2} s | {:.2} ms | {:.2} ms | {megabytes:.0} MB | {requests} | {woken} | {summaries} |\n",
            each(seconds),
            each(cpu)
        );
    }
    text
}

fn aims(rows: &[&AgentsRow]) -> String {
    let mut text = "| figure | aim | measured | |\n|---|---|---|---|\n".to_owned();
    let mut line = |figure: &str, aim: String, measured: String, met: bool| {
        let verdict = if met { "met" } else { "**missed**" };
        text += &format!("| {figure} | {aim} | {measured} | {verdict} |\n");
    };
    if let Some(most) = rows.iter().find(|row| row.agents == MOST) {
        let (s, mb) = (most.seconds, most.megabytes);
        line("time, 10,000", format!("under {MOST_SECONDS:.0} s"), format!("{s:.1} s"), s < MOST_SECONDS);
        line(
            "peak memory, 10,000",
            format!("under {MOST_MEGABYTES:.0} MB"),
            format!("{mb:.0} MB"),
            mb < MOST_MEGABYTES,
        );
    }
    for pair in rows.windows(2).filter(|pair| pair[0].agents >= 100) {
        let each = |row: &AgentsRow| row.cpu / row.agents as f64;
        let ratio = each(pair[1]) / each(pair[0]);
        let figure = format!("CPU per agent, {} against {}", pair[1].agents, pair[0].agents);
        line(&figure, format!("at most {LINEAR:.1} ×"), format!("{ratio:.2} ×"), ratio <= LINEAR);
    }
    text
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn the_parent_launches_all_and_then_waits() {
        let (answers, launched) = (ReplyTime::WhenAllAreLaunched, Mutex::default());
        let model = LaunchingModel { agents: 150, answers, launched, all: Condvar::new() };
        let parent = br#"{"tools":[{"name":"job_cancel"}],"messages":[]}"#;
        thread::scope(|scope| {
            let other = scope.spawn(|| model.reply(br#"{"tools":[{"name":"read"}]}"#));
            let calls = || model.reply(parent).calls().count();
            assert_eq!(calls(), 100);
            assert!(!other.is_finished(), "it waits until all are launched");
            assert_eq!([calls(), calls()], [50, 0]);
            assert_eq!(other.join().expect("answered").calls().count(), 0);
        });
    }

    #[test]
    fn growth_is_measured_by_cpu_time() {
        let row = |agents: usize, cpu: f64| AgentsRow {
            agents,
            answers: ReplyTime::AtOnce,
            seconds: 2.0 * cpu,
            cpu,
            megabytes: 50.0,
            requests: 12,
            woken: 2,
            summaries: 0,
        };
        let rows = [row(10, 0.5), row(1000, 1.0), row(10_000, 20.0)];
        expect![[r#"
            | figure | aim | measured | |
            |---|---|---|---|
            | time, 10,000 | under 60 s | 40.0 s | met |
            | peak memory, 10,000 | under 1000 MB | 50 MB | met |
            | CPU per agent, 10000 against 1000 | at most 1.5 × | 2.00 × | **missed** |
        "#]]
        .assert_eq(&aims(&rows.each_ref()));
    }
}
