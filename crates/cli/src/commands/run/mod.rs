//! `offshoot run`: our own agent.

mod ask;
mod board;
mod choose;
mod known;
mod model;
mod watch;

use std::io::{IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use agent::provider::{FailureKind, ProviderFailure, RetryAdvice};
use agent::{
    Asker, ForkPermissions, ForkRequest, Kernel, List, NobodyToAsk, ResumeOverrides, Rules, RunClock,
    RunError, RunLimits, RunOutcome, ShellConfig, StartRequest, StopHandle, StopRequest, ToolServers,
    Toolbox, TreeLimits, Workspace, tools,
};
use store::RunStatus;

use crate::failure::{Kind, OrFail, marked};
use crate::journal;
use crate::paths;
use crate::signals::Signals;
use model::Answering;

/// How long Ctrl-C can still end a run that it has paused.
const SECOND_THOUGHTS: Duration = Duration::from_secs(1);

/// Run an agent in this folder until it has an answer
///
/// It reads, edits and searches files and runs commands. Every step is on the disk before it is taken, so a run that is killed goes on with `--resume`. Ctrl-C pauses
/// it and says how to go on; a second Ctrl-C ends it. On a terminal the answer is shown as it comes; in a pipe only the
/// last message is printed.
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

Exit codes: 0 it answered; 1 it was paused or ended, its steps or money were
used up, or it refused or was refused too often; 2 you can fix it; 3 the
provider, the network or the disk failed.")]
pub(crate) struct Arguments {
    /// What the agent is to do, or a command: `/NAME arguments`; `-` reads it from stdin
    prompt: Option<String>,
    /// The model: opus, sonnet or haiku, a model's id, or PROVIDER/ID
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// The agent, as `offshoot agents check` calls it; a resumed run goes on with its own
    #[arg(long, value_name = "NAME", conflicts_with = "resume")]
    agent: Option<String>,
    /// A script that answers in a model's stead; see docs/reference/script.md
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// The script reports the usage that the provider's prompt cache would come to; see docs/guide/cache.md
    #[arg(long, requires = "script")]
    cache_sim: bool,
    /// Print one event a line as JSON; see docs/guide/run.md
    #[arg(long)]
    json: bool,
    /// Which events: those of the main agent, or of all, with replies as they come
    #[arg(long, value_enum, default_value_t = Events::Main, requires = "json")]
    events: Events,
    /// Make a recording of all requests and answers in this folder, with the secrets gone
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,
    /// How many replies there may be before the last one [default: 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_steps: Option<u32>,
    /// Stop before a request that could make the run cost more than this
    #[arg(long, value_name = "USD", allow_negative_numbers = true)]
    max_budget_usd: Option<f64>,
    /// Stop before a request that could make the run use more tokens than this
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_budget_tokens: Option<u64>,
    /// End when the main agent has nothing more to say, and pause its jobs; without it the run waits for them
    #[arg(long)]
    leave_jobs: bool,
    /// Let the agent do this without a question, as in `bash(cargo test*)` (repeatable)
    #[arg(long, value_name = "RULE")]
    allow: Vec<String>,
    /// Never let the agent do this, as in `bash(git push*)` or `write(docs)` (repeatable)
    #[arg(long, value_name = "RULE")]
    deny: Vec<String>,
    /// Go on with a run; the beginning of its id is enough
    #[arg(long, value_name = "RUN")]
    resume: Option<String>,
    /// Ask something beside a run, with all that it knows and from its prompt cache, and leave it as it is
    #[arg(long, value_name = "RUN", conflicts_with_all = ["resume", "agent", "model"])]
    fork_of: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Events {
    /// Those of the main agent
    Main,
    /// Those of all agents, and pieces of replies as they come
    All,
}

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.or_fail(Kind::Outside)?;
    let code = runtime.block_on(go(arguments));
    // A tool may hang in the system, on a disk that is gone for instance; nobody waits for it.
    runtime.shutdown_timeout(Duration::from_secs(1));
    code
}

async fn go(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let prompt = arguments.prompt.as_deref().map(read_prompt).transpose()?;
    if prompt.is_none() && arguments.resume.is_none() {
        let error = anyhow::anyhow!("there is nothing to do");
        return Err(error).or_fail_with(Kind::Usage, say_what);
    }
    let budget = arguments.max_budget_usd.map(budget).transpose()?;
    let wanted = wanted_id()?;
    // Before there is a run there is nothing to pause, but something may have been begun that is to be ended in order.
    let mut signals = Signals::listen().or_fail(Kind::Outside)?;
    let store = journal::open()?;
    let forked = arguments.fork_of.as_deref().map(|run| journal::find(&store, run)).transpose()?;
    let resumed = arguments.resume.as_deref().map(|run| journal::find(&store, run)).transpose()?;
    // A fork works where its parent does, with the same model.
    let row = resumed
        .as_ref()
        .or(forked.as_ref())
        .map(|run| store.run(run).row())
        .transpose()
        .or_fail(Kind::Outside)?;
    if let (Some(_), Some(row)) = (budget, &row)
        && session::model::price(&row.model).is_none()
    {
        return Err(failure(RunError::UnknownPrice(row.model.clone())));
    }
    let (workspace, clock) = (workspace(row.as_ref())?, clock()?);
    let given = given_rules(&arguments, row.as_ref())?;
    let launcher = std::env::current_exe().or_fail(Kind::Outside)?;
    let here = workspace_path(row.as_ref())?;
    let chosen = choose::Chosen::find(&here, arguments.agent.as_deref(), prompt, row.is_some())?;
    let prompt = chosen.prompt.clone();
    let seen = match (arguments.cache_sim, &row) {
        (true, Some(row)) => Some(known::known(&store, row)?),
        (sim, _) => sim.then(Vec::new),
    };
    let answering = Answering::prepare(&arguments, row.as_ref(), chosen.model(), seen).await?;
    if let Some(run) = &resumed {
        answering.remember(&store, run).map_err(failure)?;
    }
    let mut rules = answering.defaults.rules.clone();
    rules.extend(given);
    let rules = Arc::new(rules);
    let paths = crate::definitions::server_paths(&here)?;
    let mut servers = tokio::select! {
        servers = ToolServers::start(&answering.defaults.mcp, &paths) => servers,
        _ = signals.next() => {
            eprintln!("stopped before the run began");
            answering.abandon().await;
            return Ok(ExitCode::from(Kind::Verdict as u8));
        }
    };
    let tools = servers.add_to(tools::available(answering.defaults.web_fetch.clone()));
    let names: Vec<&str> = tools.iter().map(|tool| tool.name()).collect();
    for rule in rules.about_nothing(&names) {
        eprintln!("warning: the rule `{}` is about no tool that there is", report::plain(rule));
    }
    for warning in &servers.warnings {
        eprintln!("{}", report::plain(warning));
    }

    let board = board::Board::new();
    let lost_output = watch::LostOutput::default();
    let watch = Arc::new(match arguments.json {
        true => {
            watch::Patient::before(watch::Lines::new(arguments.events == Events::All, lost_output.clone()))
        }
        false => watch::Patient::before(watch::Person::new(board.clone(), lost_output.clone())),
    });
    let kernel = Kernel {
        workspace: Arc::new(workspace.with_hidden(&own_folders()).with_rules(Arc::clone(&rules))),
        model: answering.model(),
        backoff: Arc::default(),
        cache_warmup: Arc::default(),
        tools: Arc::new(Toolbox::new(tools)),
        skills: Arc::clone(&chosen.skills),
        agents: Arc::clone(&chosen.agents),
        tiers: Arc::new(answering.tiers()),
        tree_limits: TreeLimits {
            leave_jobs: arguments.leave_jobs,
            ..answering.defaults.tree_limits.clone()
        },
        // Commands are started by this same program, and see neither the journal nor the settings.
        shell: ShellConfig {
            launcher: Some(launcher),
            without_sandbox: answering.defaults.without_sandbox,
            hidden: own_folders(),
        },
        asker: asker(arguments.json, &board),
        rules,
        clock,
        store,
        events: watch.clone(),
    };
    let more = ResumeOverrides {
        max_steps: arguments.max_steps,
        max_budget_microusd: budget,
        max_budget_tokens: arguments.max_budget_tokens,
        provider: Some(answering.provider.clone()),
    };
    let begun = match (resumed, forked) {
        (Some(run), _) => {
            let own = row.as_ref().map_or_else(|| kernel.clone(), |row| kernel.for_run(row));
            kernel.resume(&run, prompt.as_deref()).await.map(|()| (run, own))
        }
        (None, Some(of)) => {
            let fork = ForkRequest::new(prompt.unwrap_or_default(), "side question", "run --fork-of");
            let permissions = ForkPermissions { deny: arguments.deny.clone(), ..ForkPermissions::default() };
            let fork = ForkRequest { max_turns: arguments.max_steps, permissions, ..fork };
            kernel.start_fork(&of, &fork).await
        }
        (None, None) => {
            let started = start(&arguments, &chosen, &answering, &kernel, budget, wanted);
            kernel.start(started).await.map(|run| (run, kernel.clone()))
        }
    };
    let (id, kernel) = match begun {
        Ok(begun) => begun,
        Err(error) => {
            answering.abandon().await;
            return Err(match &error {
                RunError::NoForkPoint(run) if is_at_work(&kernel.store, run) => wait_for_it(error),
                _ => failure(error),
            });
        }
    };
    let stop_handle = StopHandle::new();
    let mut interrupted = false;
    let ended = {
        let work = kernel.run(&id, &more, &stop_handle);
        tokio::pin!(work);
        loop {
            tokio::select! {
                ended = &mut work => break ended,
                signal = signals.next() => {
                    interrupted |= signal == libc::SIGINT;
                    stop_by_signal(signal, &stop_handle, &board);
                }
            }
        }
    };
    let ended = match ended {
        Ok(ended) if ended.status == RunStatus::Paused && interrupted => {
            second_thoughts(ended, &kernel, &stop_handle, &mut signals).await
        }
        ended => ended,
    };
    watch.let_go();
    servers.stop().await;
    let jobs = kernel.store.run(&id).jobs().unwrap_or_default(); // what cannot be read is not counted
    let left = jobs.iter().filter(|job| job.ended_at.is_none()).count();
    let lost = lost_output.take();
    let in_memory = kernel.store.in_memory();
    let is_kept = in_memory.is_none();
    let code = match (ended, in_memory) {
        (Ok(ended), Some(why)) => conclude_lost(&ended, &why, kernel.store.path()),
        (Err(error), Some(_)) => Err(failure(error)),
        (Ok(ended), None) => conclude(&ended, left, arguments.script.as_deref()),
        // The loop could not even end itself: the run stays as it is in the journal.
        (Err(error), None) => Err(resumable(error, &id, arguments.script.as_deref())),
    };
    let code = match (code, lost) {
        (Ok(_), Some(error)) => {
            let hint = is_kept.then(|| format!("the answer is in the journal: `offshoot show {id}`"));
            Err(marked(
                Kind::Outside,
                hint,
                anyhow::Error::new(error).context("the output could not be written"),
            ))
        }
        (code, _) => code,
    };
    answering.finish(code, &mut signals).await
}

/// What the run is to be called, where somebody compares runs to the byte. It goes into file names and tables.
fn wanted_id() -> anyhow::Result<Option<session::RunId>> {
    const LONGEST: usize = 64;
    let Some(id) = std::env::var("OFFSHOOT_RUN_ID").ok().filter(|id| !id.is_empty()) else { return Ok(None) };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    if id.len() > LONGEST || !id.chars().all(is_plain) {
        let error = anyhow::anyhow!(
            "OFFSHOOT_RUN_ID is `{id}`, which is no name of a run: up to {LONGEST} letters, digits, `-` and `_`"
        );
        return Err(error).or_fail_with(Kind::Usage, || "unset OFFSHOOT_RUN_ID".to_owned());
    }
    Ok(Some(session::RunId::new(id)))
}

/// The run that was asked for.
fn start(
    arguments: &Arguments,
    chosen: &choose::Chosen,
    answering: &Answering,
    kernel: &Kernel,
    budget: Option<i64>,
    wanted: Option<session::RunId>,
) -> StartRequest {
    StartRequest {
        id: wanted,
        prompt: chosen.prompt.clone().unwrap_or_default(),
        agent: chosen.name.clone(),
        instructions: chosen.instructions(),
        tools: chosen.tools(&kernel.tools),
        rules: [chosen.rules(), denied(arguments)].concat(),
        provider: answering.provider.clone(),
        model: answering.id.clone(),
        limits: RunLimits {
            max_steps: arguments.max_steps.or(chosen.max_steps()).unwrap_or(RunLimits::MAIN_STEPS),
            max_budget_microusd: budget,
            max_budget_tokens: arguments.max_budget_tokens,
            ..RunLimits::of(&answering.id)
        },
    }
}

/// A run that Ctrl-C has paused may be ended by another one, for a moment longer.
async fn second_thoughts(
    ended: RunOutcome,
    kernel: &Kernel,
    stop_handle: &StopHandle,
    signals: &mut Signals,
) -> Result<RunOutcome, RunError> {
    // The other one may have come when the end was being written.
    if stop_handle.signal().requested() < StopRequest::Cancel {
        let again = tokio::time::timeout(SECOND_THOUGHTS, signals.next()).await;
        if again != Ok(libc::SIGINT) {
            return Ok(ended);
        }
    }
    kernel.cancel(&ended.run).await?;
    Ok(RunOutcome { status: RunStatus::CancelledByUser, ..ended })
}

/// Once pauses, twice ends; who asks us to terminate wants us to come back.
fn stop_by_signal(signal: i32, stop_handle: &StopHandle, board: &board::Board) {
    let again = stop_handle.signal().requested() >= StopRequest::Pause;
    let by_hand = signal == libc::SIGINT;
    match (again, by_hand) {
        (false, true) => board.say("\npausing; Ctrl-C again ends the run"),
        (false, false) => board.say("pausing"),
        _ => {}
    }
    stop_handle.request(if by_hand && again { StopRequest::Cancel } else { StopRequest::Pause });
}

/// Says where the run stands, and finds the exit code.
fn conclude(ended: &RunOutcome, left: usize, script: Option<&Path>) -> anyhow::Result<ExitCode> {
    let RunOutcome { run, status, error, .. } = ended;
    let go_on = go_on(run, script);
    let no = ExitCode::from(Kind::Verdict as u8);
    match status {
        RunStatus::Completed => {
            if ended.final_text.is_none() {
                eprintln!("{}", agent::NO_FINAL_TEXT);
            }
            match left {
                0 => eprintln!("run {run}"),
                1 => eprintln!("run {run}; one job is paused, and `{go_on}` goes on with it"),
                left => eprintln!("run {run}; {left} jobs are paused, and `{go_on}` goes on with them"),
            }
            Ok(ExitCode::SUCCESS)
        }
        RunStatus::Paused => {
            eprintln!("paused; `{go_on}` goes on");
            Ok(no)
        }
        RunStatus::CancelledByUser => {
            eprintln!("the run `{run}` was ended");
            Ok(no)
        }
        RunStatus::StepCap => {
            eprintln!("the steps were used up; `{go_on} --max-steps N` gives it more");
            Ok(no)
        }
        RunStatus::Budget => {
            let why = error.as_deref().unwrap_or("the money was used up");
            let flag = if why.contains("tokens") { "--max-budget-tokens" } else { "--max-budget-usd" };
            eprintln!("{why}; `{go_on} {flag} N` gives it more");
            Ok(no)
        }
        _ => {
            let (kind, hint) = match &ended.failure {
                Some(failure) => mend(failure, &go_on, script),
                // It broke off on purpose, and would again.
                None => (Kind::Verdict, format!("{go_on} 'what you want instead'")),
            };
            let error = anyhow::anyhow!(
                "the run `{run}` is {}: {}",
                status.words(),
                error.as_deref().unwrap_or("it cannot go on")
            );
            Err(marked(kind, Some(hint), error))
        }
    }
}

/// The same of a fork that is only in memory: nobody can go on with it.
fn conclude_lost(ended: &RunOutcome, why: &store::StoreError, path: &Path) -> anyhow::Result<ExitCode> {
    if ended.status == RunStatus::Completed {
        if ended.final_text.is_none() {
            eprintln!("{}", agent::NO_FINAL_TEXT);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let error = ended.error.as_deref().map(|error| format!(": {error}")).unwrap_or_default();
    let error = anyhow::anyhow!("the fork is {}, and nothing of it is kept{error}", ended.status.words());
    let kind = if ended.failure.is_some() { Kind::Outside } else { Kind::Verdict };
    Err(marked(kind, journal::hint(why, path), error))
}

/// The command that goes on with a run.
fn go_on(run: &session::RunId, script: Option<&Path>) -> String {
    let script = script
        .map(|script| format!(" --script {}", paths::word(&script.display().to_string())))
        .unwrap_or_default();
    format!("offshoot run --resume {run}{script}")
}

/// Whose turn it is after a failure, and what to do. A wrong key or a wrong address is the user's to mend, and so is a
/// script.
fn mend(failure: &ProviderFailure, go_on: &str, script: Option<&Path>) -> (Kind, String) {
    if let (Some(script), FailureKind::Status(_) | FailureKind::Auth | FailureKind::NotFound) =
        (script, failure.kind)
    {
        return (Kind::Usage, format!("give `{}` an answer to it, then `{go_on}`", script.display()));
    }
    let kind = match failure.kind {
        FailureKind::Auth | FailureKind::NotFound | FailureKind::Redirect => Kind::Usage,
        // A wrong address.
        FailureKind::Connect | FailureKind::Garbage if failure.retry == RetryAdvice::No => Kind::Usage,
        _ => Kind::Outside,
    };
    let hint = match failure.kind {
        FailureKind::OutputLimit => format!("{go_on} 'Take smaller steps.'"),
        FailureKind::RequestTooLarge => "say what is left to do in a new run: `offshoot run '…'`".to_owned(),
        _ => match &failure.hint {
            Some(hint) => format!("{hint}; then `{go_on}`"),
            None => go_on.to_owned(),
        },
    };
    (kind, hint)
}

fn failure(error: RunError) -> anyhow::Error {
    let (kind, hint) = match &error {
        RunError::Store(error @ store::StoreError::Held { run, .. }) => (
            journal::kind(error),
            Some(format!("wait for it (`offshoot ps --live`), or end it: `offshoot cancel {run}`")),
        ),
        RunError::Store(error @ store::StoreError::Exists { .. })
            if std::env::var_os("OFFSHOOT_RUN_ID").is_some() =>
        {
            (journal::kind(error), Some("unset OFFSHOOT_RUN_ID, which names all runs alike".into()))
        }
        RunError::Store(error) => (journal::kind(error), None),
        RunError::Finished { run, status: RunStatus::Completed } => {
            (Kind::Usage, Some(format!("offshoot run --resume {run} 'what is to be done now'")))
        }
        RunError::Finished { .. } => {
            (Kind::Usage, Some("start another one: `offshoot run 'what is to be done'`".into()))
        }
        RunError::UnknownPrice(_) => {
            (Kind::Usage, Some("leave `--max-budget-usd` out, or take a model that is in the table".into()))
        }
        RunError::DialectMismatch { .. } => {
            (Kind::Usage, Some("give the provider that it was begun with: `--model PROVIDER/ID`".into()))
        }
        RunError::NoForkPoint(run) => {
            (Kind::Usage, Some(format!("let it have a turn first: `offshoot run --resume {run}`")))
        }
        RunError::CacheLost(_) => (Kind::Usage, None),
        RunError::NotMain { root, .. } => (Kind::Usage, Some(format!("offshoot run --resume {root}"))),
        RunError::NoSummary => (Kind::Outside, None),
        _ => (Kind::Bug, None),
    };
    marked(kind, hint, error.into())
}

/// Whether somebody is at work on a run.
fn is_at_work(store: &store::Store, run: &session::RunId) -> bool {
    let below = store::Filter { below: Some(run.clone()), ..store::Filter::default() };
    let runs = store.runs(&below).unwrap_or_default(); // then the usual hint is given
    runs.into_iter().filter(|found| found.id == *run).any(|mut found| {
        journal::as_it_is(&mut found);
        found.status.is_live()
    })
}

/// A run that is at its first turn can be forked soon, and must not be resumed.
fn wait_for_it(error: RunError) -> anyhow::Error {
    let hint = "it is at its first turn: wait until that has ended (`offshoot ps --live`), then ask again";
    marked(Kind::Usage, Some(hint.to_owned()), error.into())
}

/// A loop that broke off leaves a run that can be taken up again; the hint says how.
fn resumable(error: RunError, run: &session::RunId, script: Option<&Path>) -> anyhow::Error {
    let kind = match &error {
        RunError::Store(error) => journal::kind(error),
        RunError::NoSummary => Kind::Outside,
        _ => Kind::Bug,
    };
    let hint = match &error {
        RunError::NoSummary => format!("`{}` asks for it again", go_on(run, script)),
        // What is in it now is nobody's run.
        RunError::Store(
            error @ (store::StoreError::Corrupt { path, .. }
            | store::StoreError::NotADatabase { path }
            | store::StoreError::Removed { path }),
        ) => return marked(kind, journal::hint(error, path), anyhow::Error::new(error.clone())),
        _ => format!("nothing is lost; `{}` goes on", go_on(run, script)),
    };
    marked(kind, Some(hint), error.into())
}

fn say_what() -> String {
    "say what, as in `offshoot run 'What does this project do?'`".to_owned()
}

fn read_prompt(prompt: &str) -> anyhow::Result<String> {
    let mut text = prompt.to_owned();
    if prompt == "-" {
        text.clear();
        std::io::stdin().read_to_string(&mut text).or_fail(Kind::Usage)?;
    }
    if text.trim().is_empty() {
        return Err(anyhow::anyhow!("the prompt is empty")).or_fail_with(Kind::Usage, say_what);
    }
    Ok(text)
}

fn budget(usd: f64) -> anyhow::Result<i64> {
    if usd.is_finite() && usd > 0.0 && usd < 1e6 {
        return Ok((usd * 1e6).round() as i64);
    }
    let error = anyhow::anyhow!("a budget is a number of dollars above 0: {usd}");
    Err(error).or_fail_with(Kind::Usage, || "--max-budget-usd 0.50".to_owned())
}

/// The folder we are in, or the one that a resumed run works in.
fn workspace_path(row: Option<&store::Run>) -> anyhow::Result<PathBuf> {
    match row.and_then(|row| agent::RunSettings::from_bytes(&row.settings).ok()) {
        Some(settings) => Ok(PathBuf::from(settings.workspace)),
        None => std::env::current_dir().or_fail(Kind::Usage),
    }
}

fn workspace(row: Option<&store::Run>) -> anyhow::Result<Workspace> {
    let root = workspace_path(row)?;
    Workspace::open(&root).or_fail_with(Kind::Usage, || format!("ls -ld {}", root.display()))
}

/// What was forbidden for this run, and stays so when it goes on.
fn denied(arguments: &Arguments) -> Vec<(List, String)> {
    arguments.deny.iter().map(|rule| (List::Deny, rule.clone())).collect()
}

/// The rules that were given, now and when the run began. What its agent asks about and allows stays with the run.
fn given_rules(arguments: &Arguments, row: Option<&store::Run>) -> anyhow::Result<Rules> {
    let mut rules = Rules::default();
    for (list, flag, given) in
        [(List::Allow, "--allow", &arguments.allow), (List::Deny, "--deny", &arguments.deny)]
    {
        for rule in given {
            let hint =
                || format!("give a tool and what it is called with, as in `{flag} 'bash(git diff:*)'`");
            let added = rules.add(list, rule).map_err(|why| anyhow::anyhow!("{flag}: {why}"));
            added.or_fail_with(Kind::Usage, hint)?;
        }
    }
    let settings = row.and_then(|row| agent::RunSettings::from_bytes(&row.settings).ok());
    for (list, rule) in settings.into_iter().flat_map(|settings| settings.rules) {
        if list == List::Deny {
            rules.add(list, &rule).map_err(anyhow::Error::msg).or_fail(Kind::Bug)?;
        }
    }
    Ok(rules)
}

/// Who is asked where the rules want it: whoever sits at the terminal.
fn asker(json: bool, board: &board::Board) -> Arc<dyn Asker> {
    match !json && std::io::stdin().is_terminal() && std::io::stderr().is_terminal() {
        true => Arc::new(ask::Terminal(board.clone())),
        false => Arc::new(NobodyToAsk),
    }
}

/// Where we keep the journal, settings and what was installed.
fn own_folders() -> Vec<PathBuf> {
    [paths::data_dir(), paths::config_dir(), paths::cache_dir()].into_iter().filter_map(Result::ok).collect()
}

/// The clock, or the time that somebody has stopped it at so that two runs see the same.
fn clock() -> anyhow::Result<RunClock> {
    match std::env::var("OFFSHOOT_CLOCK") {
        Ok(at) if !at.is_empty() => {
            let at = at.parse().map_err(|_| anyhow::anyhow!("OFFSHOOT_CLOCK is no time: {at}"));
            Ok(RunClock::fixed(at.or_fail_with(Kind::Usage, || {
                "export OFFSHOOT_CLOCK='2026-01-01T12:00:00+01:00[Europe/Berlin]'".into()
            })?))
        }
        _ => Ok(RunClock::default()),
    }
}
