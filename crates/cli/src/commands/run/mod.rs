//! `offshoot run`: runs our own agent.
//!
//! A run takes five steps: parse the arguments ([`options`]), open the journal and the definitions ([`open`]), connect the
//! provider and the tool servers ([`connect`]), run the agent ([`execute`]), and report its end ([`outcome`]).

mod board;
mod call_words;
mod connect;
mod execute;
mod failure;
mod fork_args;
mod open;
mod options;
mod outcome;
mod output;
mod prior_requests;
mod provider;
mod question;
mod selection;
mod side_work;
mod task_lines;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use self::connect::Connection;
use self::fork_args::ForkArgs;
use self::open::OpenRun;
use self::options::RunOptions;
use self::side_work::SideWorkArgs;
use crate::failure::{ExitKind, OrFail};
use crate::signals::Signals;

/// Maximum wait for threads that hang in a system call, for example on a disk that is gone.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// Run an agent in this folder until it has an answer
///
/// The agent reads, edits and searches files, and runs commands. Every step is stored before it is taken, so `--resume`
/// continues a run that was killed. Ctrl-C pauses the run; a second Ctrl-C ends it. A terminal shows the answer while it
/// is written; a pipe gets only the last message.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  offshoot run 'What does this project do?'
  offshoot run --model opus --max-budget-usd 0.50 'Find the bug in the parser'
  offshoot run --script examples/run.yaml 'Sum up the notes'
  offshoot run --agent reviewer 'Look at the last change'
  offshoot run '/fix 17'
  offshoot run --resume 1m7g0c8g
  offshoot run --resume 1m7g0c8g 'And now the same for the tests'
  offshoot run --fork-of 1m7g0c8g 'Which files have you read so far?'

Exit codes: 0 the agent answered; 1 the run was paused or ended, reached a
limit, or was refused too often; 2 you can fix it; 3 the provider, the network
or the disk failed.")]
pub(crate) struct Args {
    /// Task for the agent, or a slash command: `/NAME arguments`; `-` reads it from stdin
    prompt: Option<String>,
    /// Model: opus, sonnet or haiku, a model id, or PROVIDER/ID
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Agent to run, by its name in `offshoot agents check`; a resumed run keeps its agent. A fork keeps its parent's
    /// messages and gets this agent's instructions and tools
    #[arg(long, value_name = "NAME", conflicts_with = "resume")]
    agent: Option<String>,
    /// Resume a run; the beginning of its id is enough
    #[arg(long, value_name = "RUN")]
    resume: Option<String>,
    /// Ask a side question with the context and the prompt cache of a run, which stays unchanged
    #[arg(long, value_name = "RUN", conflicts_with_all = ["resume", "model"])]
    fork_of: Option<String>,
    #[command(flatten)]
    script: ScriptArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    permissions: PermissionArgs,
    /// End when the main agent has finished, and pause its jobs instead of waiting for them
    #[arg(long)]
    leave_jobs: bool,
    #[command(flatten)]
    side_work: SideWorkArgs,
    #[command(flatten)]
    fork: ForkArgs,
}

/// Options of a scripted model.
#[derive(clap::Args)]
struct ScriptArgs {
    /// Script that answers instead of a model; see docs/reference/script.md
    #[arg(long = "script", value_name = "FILE")]
    path: Option<PathBuf>,
    /// Report simulated prompt cache usage from the script; see docs/guide/cache.md
    #[arg(long, requires = "path")]
    cache_sim: bool,
}

/// Options for output.
#[derive(clap::Args)]
struct OutputArgs {
    /// Print one event per line as JSON; see docs/reference/events.md
    #[arg(long)]
    json: bool,
    /// Events to print: of the main agent, or of all agents with partial replies
    #[arg(long, value_enum, default_value_t = EventScope::Main, requires = "json", hide_possible_values = true)]
    events: EventScope,
    /// Record all requests and replies in this folder, without secrets
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,
}

/// Limits of a run.
#[derive(clap::Args)]
struct LimitArgs {
    /// Maximum number of model turns [default: 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_steps: Option<u32>,
    /// Stop before a request that could exceed this cost
    #[arg(long, value_name = "USD", allow_negative_numbers = true)]
    max_budget_usd: Option<f64>,
    /// Stop before a request that could exceed this number of tokens
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_budget_tokens: Option<u64>,
}

/// Permission rules.
#[derive(clap::Args)]
struct PermissionArgs {
    /// Allow an action without a question, as in `bash(cargo test*)` (repeatable)
    #[arg(long, value_name = "RULE")]
    allow: Vec<String>,
    /// Ask before an action, as in `bash(git commit:*)` (repeatable)
    #[arg(long, value_name = "RULE")]
    ask: Vec<String>,
    /// Deny an action, as in `bash(git push*)` or `write(docs)` (repeatable)
    #[arg(long, value_name = "RULE")]
    deny: Vec<String>,
    /// Ask on the terminal also for agents in the background, which are denied otherwise
    #[arg(long)]
    ask_for_background: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum EventScope {
    /// Events of the main agent
    Main,
    /// Events of all agents, and partial replies
    All,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.or_fail(ExitKind::Outside)?;
    let code = runtime.block_on(run_agent(args));
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    code
}

async fn run_agent(args: Args) -> anyhow::Result<ExitCode> {
    let options = RunOptions::parse(args)?;
    // A signal before the run begins must still stop what has been started.
    let mut signals = Signals::listen().or_fail(ExitKind::Outside)?;
    let open = OpenRun::open(&options)?;
    let Some(connection) = Connection::start(&options, open, &mut signals).await? else {
        status!("stopped before the run began");
        return Ok(ExitCode::from(ExitKind::Verdict as u8));
    };
    let started = match execute::start(&options, &connection).await {
        Ok(started) => started,
        Err(error) => {
            let error = outcome::start_failure(error, &connection.kernel.store);
            connection.provider.discard().await;
            return Err(error);
        }
    };
    let result = execute::run_to_end(&options, &started, &connection, &mut signals).await;
    let Connection { provider, servers, output_error, .. } = connection;
    servers.stop().await;
    let code = outcome::report(result, &started, &options, output_error.take());
    provider.finish(code, &mut signals).await
}
