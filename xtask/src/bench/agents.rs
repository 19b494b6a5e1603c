//! `cargo xtask bench agents`: what a growing number of background sub-agents under one parent takes.
//!
//! It is our own program from its start to its exit, as a user has it: the journal on the disk, requests over HTTP. The
//! model is in this process and answers at once, so what is left is the kernel. A second time it answers sub-agents only
//! when all are launched: then all of them wait at the same time, and their parent is woken by their ends.

use std::env;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use session::{Block, Reply, Usage};
use store::{Filter, Options, Origin, RunStatus, Store};

use super::process::{self, Used};
use super::target::offshoot_program;
use crate::command::{cargo, run as run_command};
use crate::provider::{Pace, Provider, call, reply, text};

/// How many calls one message of the parent has.
const IN_A_MESSAGE: usize = 100;
const PATIENCE: Duration = Duration::from_secs(1800);
/// What ten thousand may take.
const MOST: usize = 10_000;
const MOST_SECONDS: f64 = 60.0;
const MOST_MEGABYTES: f64 = 1000.0;
/// The time of one among ten times as many, against that of one among fewer.
const LINEAR: f64 = 1.5;
/// Only the parent is given this tool.
const PARENTS_TOOL: &[u8] = b"\"name\":\"job_cancel\"";
/// What is said when a summary is wanted.
const TOO_LONG: &[u8] = b"too long to go on with as it is";

/// How much to measure.
#[derive(Args)]
pub(crate) struct AgentsArgs {
    /// How many sub-agents; each number by itself
    #[arg(long, value_delimiter = ',', default_values_t = [10, 100, 1000, MOST])]
    agents: Vec<usize>,
    /// How often each is measured; the fastest counts, for others at work can only slow it down
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Count the money, too
    #[arg(long)]
    budget: bool,
}

/// When sub-agents are answered.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Answers {
    AtOnce,
    WhenAllAreLaunched,
}

/// A model that launches so many, and how many it has launched.
struct Model {
    agents: usize,
    answers: Answers,
    launched: Mutex<usize>,
    all: Condvar,
}

/// One tree that came to its end.
struct Row {
    agents: usize,
    answers: Answers,
    seconds: f64,
    cpu: f64,
    megabytes: f64,
    /// How often the parent was asked, and how often because jobs had ended and it had nothing else to do.
    asked: usize,
    woken: usize,
    summaries: usize,
}

/// Runs all of it, and prints the tables.
pub(super) fn run(args: &AgentsArgs) -> Result<()> {
    if cfg!(debug_assertions) {
        let agents: Vec<String> = args.agents.iter().map(usize::to_string).collect();
        let mut again = cargo(["run", "--release", "--quiet", "--package", "xtask", "--", "bench", "agents"]);
        again.args(["--agents", &agents.join(","), "--rounds", &args.rounds.to_string()]);
        return run_command(again.args(args.budget.then_some("--budget")));
    }
    let offshoot = offshoot_program()?;
    let mut rows: Vec<Row> = Vec::new();
    let each = |answers| args.agents.iter().map(move |agents| (answers, *agents));
    for (answers, agents) in each(Answers::AtOnce).chain(each(Answers::WhenAllAreLaunched)) {
        let mut fastest: Option<Row> = None;
        for round in 1..=args.rounds {
            let row = one(&offshoot, agents, answers, args.budget);
            let row = row.with_context(|| format!("with {agents} agents, {answers:?}"))?;
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
        (Answers::AtOnce, "Answered at once"),
        (Answers::WhenAllAreLaunched, "Answered when all are launched"),
    ] {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.answers == answers).collect();
        println!("#### {title}\n\n{}\n{}", table(&rows), aims(&rows));
    }
    Ok(())
}

/// One tree, in a data folder of its own.
fn one(offshoot: &Path, agents: usize, answers: Answers, budget: bool) -> Result<Row> {
    let here = env::current_exe()?;
    // Beside the program, not in the system's temporary folder: that may be memory, and a journal's disk is not.
    let folder = tempfile::Builder::new()
        .prefix("bench-")
        .tempdir_in(here.parent().context("a program lies in a folder")?)
        .context("could not create a folder to measure in")?;
    let path = |name: &str| folder.path().join(name);
    for name in ["config", "w"] {
        fs::create_dir(path(name))?;
    }
    // One request more than agents at work: those that are not answered yet must not keep their parent from launching.
    let limits = format!("[sub_agents]\nwidth = {agents}\nat_once = 16\nrequests = 17\n");
    fs::write(path("config/offshoot.toml"), limits)?;
    let model = Model { agents, answers, launched: Mutex::default(), all: Condvar::new() };
    let provider = Provider::start(Pace::Whole, move |body| model.answer(body))?;
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
    let words = || fs::read_to_string(path("stderr")).unwrap_or_default();
    ensure!(used.status.success(), "it ended with {}\n{}", used.status, words());
    checked(&path("data/store.db"), agents, answers, &used)
}

impl Model {
    /// The parent launches all of them, message by message, and then waits; the others have one thing to say.
    fn answer(&self, body: &[u8]) -> Reply {
        // As many as a tokenizer would count: a conversation that gets too long is summed up, as it always is.
        let usage = Usage { input: body.len() as u64 / 4, output: 20, ..Usage::default() };
        let says = |blocks: Vec<Block>| reply("msg_bench".to_owned(), blocks, usage);
        let begins = &body[..body.len().min(64 << 10)];
        let ends = &body[body.len().saturating_sub(4 << 10)..];
        let mut launched = self.launched.lock().unwrap_or_else(PoisonError::into_inner);
        if !holds(begins, PARENTS_TOOL) {
            while self.answers == Answers::WhenAllAreLaunched && *launched < self.agents {
                launched = self.all.wait(launched).unwrap_or_else(PoisonError::into_inner);
            }
            return says(vec![text("There is a tide table in it, and nothing else.")]);
        }
        if holds(ends, TOO_LONG) {
            return says(vec![text("Some were launched, and some of them have ended.")]);
        }
        let calls: Vec<Block> = (*launched..self.agents).take(IN_A_MESSAGE).map(launch).collect();
        *launched += calls.len();
        self.all.notify_all();
        if calls.is_empty() { says(vec![text("I wait for those that are at work.")]) } else { says(calls) }
    }
}

fn launch(n: usize) -> Block {
    let input = format!(r#"{{"prompt":"Look into part {n} of the harbour.","run_in_background":true}}"#);
    call(&format!("toolu_{n}"), "spawn_sub_agent", &input)
}

fn holds(text: &[u8], wanted: &[u8]) -> bool {
    text.windows(wanted.len()).any(|window| window == wanted)
}

/// A fast end that is wrong is no end: all have answered, and of each the parent was told once.
fn checked(journal: &Path, agents: usize, answers: Answers, used: &Used) -> Result<Row> {
    let store = Store::open(journal, Options::default())?;
    let runs = store.runs(&Filter::default())?;
    let completed = runs.iter().filter(|run| run.status == RunStatus::Completed).count();
    ensure!(completed == agents + 1, "{completed} of {} runs were completed", agents + 1);
    let root = runs.iter().find(|run| run.parent.is_none()).context("there is no root")?;
    let reads = store.run(&root.id);
    ensure!(reads.inbox()?.is_empty(), "something still waits for the parent");
    let messages = reads.messages()?;
    let told = messages
        .iter()
        .filter(|message| message.origin != Origin::Carried)
        .map(|message| String::from_utf8_lossy(&message.bytes).matches("<job_ended job_id=").count());
    let told: usize = told.sum();
    ensure!(told == agents, "the parent was told of {told} jobs, not of {agents}");
    let of = |origin| messages.iter().filter(|message| message.origin == origin).count();
    Ok(Row {
        agents,
        answers,
        seconds: used.took.as_secs_f64(),
        cpu: used.cpu.as_secs_f64(),
        megabytes: used.memory as f64 / 1e6,
        asked: of(Origin::Reply),
        woken: of(Origin::Inbox),
        summaries: of(Origin::Summary),
    })
}

fn table(rows: &[&Row]) -> String {
    let mut text = "| sub-agents | time | time per agent | CPU per agent | peak memory | parent asked | woken | summed up |\n\
                    |---:|---:|---:|---:|---:|---:|---:|---:|\n"
        .to_owned();
    for Row { agents, seconds, cpu, megabytes, asked, woken, summaries, .. } in rows {
        let each = |seconds: &f64| seconds * 1e3 / *agents as f64;
        text += &format!(
            "| {agents} | {seconds:.2} s | {:.2} ms | {:.2} ms | {megabytes:.0} MB | {asked} | {woken} | {summaries} |\n",
            each(seconds),
            each(cpu)
        );
    }
    text
}

fn aims(rows: &[&Row]) -> String {
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
        let each = |row: &Row| row.cpu / row.agents as f64;
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
        let (answers, launched) = (Answers::WhenAllAreLaunched, Mutex::default());
        let model = Model { agents: 150, answers, launched, all: Condvar::new() };
        let parent = br#"{"tools":[{"name":"job_cancel"}],"messages":[]}"#;
        thread::scope(|scope| {
            let other = scope.spawn(|| model.answer(br#"{"tools":[{"name":"read"}]}"#));
            let calls = || model.answer(parent).calls().count();
            assert_eq!(calls(), 100);
            assert!(!other.is_finished(), "it waits for the others to be launched");
            assert_eq!([calls(), calls()], [50, 0]);
            assert_eq!(other.join().expect("answered").calls().count(), 0);
        });
    }

    #[test]
    fn growth_is_told_by_cpu() {
        let row = |agents: usize, cpu: f64| Row {
            agents,
            answers: Answers::AtOnce,
            seconds: 2.0 * cpu,
            cpu,
            megabytes: 50.0,
            asked: 12,
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
