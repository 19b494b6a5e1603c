//! `offshoot capture`: run a harness through a scenario and keep the recording.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use harness::{Asked, Captured, Harness, HarnessError, Places};
use parity::CheckReport;
use recording::{NetworkSeal, Round};

use crate::failure::{self, Kind, OrFail};
use crate::paths;
use crate::progress::Progress;
use crate::record::tell_suspicious;
use crate::signals::Signals;
use crate::terminal::counted;

/// Run a harness through a scenario, and keep the recording
///
/// A scripted model answers, and nothing is asked of anybody outside, unless there is `--live`. The harness is installed from npm into your cache when it is not there. It works in folders of its own, at paths
/// that are the same every time, and where the system allows it in a network of its own, where every call that goes
/// round the proxy is seen and refused. The recording goes to ./goldens/HARNESS/VERSION/SCENARIO/runs/RUN, and
/// that path to standard output.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  offshoot capture claude-code --scenario async-subagents
  offshoot capture claude-code --harness-version 2.0.76 --scenario ./mine
  offshoot capture command --scenario ./mine -- ./my-agent --ask {prompt}
  ANTHROPIC_API_KEY=… offshoot capture claude-code --scenario cancel \\
                      --live --max-budget-usd 0.50

Exit codes:
  0  it ran and the check holds
  1  the check says no, or the recording still holds what looks like a secret
  2  you can fix it
  3  the harness, the provider, the registry or the disk failed
What was recorded until then is kept; where it is not whole, it stays
unsealed and says why.")]
pub(crate) struct Arguments {
    #[arg(value_name = "HARNESS", value_parser = parse_harness, help = harnesses())]
    harness: String,
    /// A scenario's folder or name; see docs/reference/scenarios.md
    #[arg(long, value_name = "S")]
    scenario: String,
    /// Another version than the newest that is tested
    #[arg(long, value_name = "V")]
    harness_version: Option<String>,
    /// For a plugin: another version of the program that loads it
    #[arg(long, value_name = "V")]
    host_version: Option<String>,
    /// For a harness with several: the way to run it
    #[arg(long, value_name = "MODE")]
    mode: Option<String>,
    /// Another prompt than the scenario's
    #[arg(long, value_name = "P")]
    prompt: Option<String>,
    /// Another model than the scenario's
    #[arg(long, value_name = "M")]
    model: Option<String>,
    /// Another workspace than the scenario's
    #[arg(long, value_name = "DIR")]
    fixture_dir: Option<PathBuf>,
    /// Another script than the scenario's; see docs/reference/script.md
    #[arg(long, value_name = "FILE", conflicts_with = "live")]
    script: Option<PathBuf>,
    /// The script reports the usage that the provider's prompt cache would come to; see docs/guide/cache.md
    #[arg(long, conflicts_with = "live")]
    cache_sim: bool,
    /// Use the real provider, with the key from the environment
    #[arg(long)]
    live: bool,
    /// End the harness when its calls have cost this much
    #[arg(long, value_name = "USD", requires = "live")]
    max_budget_usd: Option<f64>,
    /// End the harness after so many seconds; the scenario says how many without
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    timeout: Option<u64>,
    /// Pass this variable on, or set it (repeatable)
    #[arg(long, value_name = "NAME[=VALUE]")]
    env: Vec<String>,
    /// Leave the harness in the machine's own network
    #[arg(long)]
    no_namespace: bool,
    /// The recording's own folder; must not exist or be empty
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Arguments for the harness, behind `--`; for `command`, the command
    #[arg(last = true, value_name = "ARGS")]
    arguments: Vec<String>,
}

fn names() -> Vec<&'static str> {
    harness::list().iter().map(|harness| harness.name()).collect()
}

fn harnesses() -> String {
    format!("What to capture: {}, which is yours, behind `--`", names().join(", "))
}

fn parse_harness(name: &str) -> Result<String, String> {
    let names = names();
    if names.contains(&name) { Ok(name.to_owned()) } else { Err(format!("there are {}", names.join(", "))) }
}

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().or_fail(Kind::Outside)?;
    let asked = asked(arguments)?;
    let captured = captured(&runtime, asked)?;
    let derived = after_sealing(&captured);
    let code = conclude(&captured);
    match derived {
        Ok(check) if captured.failure.is_none() => Ok(judge(&check).unwrap_or(code)),
        // What went wrong with the harness is the more useful thing to hear.
        Ok(_) => Ok(code),
        Err(error) => Err(error),
    }
}

/// Captures, until it is done or a signal comes.
pub(crate) fn captured(runtime: &tokio::runtime::Runtime, asked: Asked) -> anyhow::Result<Captured> {
    runtime.block_on(async {
        let mut signals = Signals::listen().or_fail(Kind::Outside)?;
        let progress = Progress::start();
        let stop = async {
            signals.next().await;
        };
        harness::capture(asked, &|what| progress.say(what), stop).await.map_err(explain)
    })
}

/// Makes what is derived from a recording: `normalized/` and the verdict of `check`.
pub(crate) fn after_sealing(captured: &Captured) -> anyhow::Result<CheckReport> {
    let source = crate::recordings::open(&captured.dir)?;
    super::normalize::normalized(&source)?;
    super::check::checked(&source)
}

/// Says which criteria do not hold; the exit code then.
fn judge(check: &CheckReport) -> Option<ExitCode> {
    if check.ok {
        return None;
    }
    eprintln!("error: the check says no: {}", super::check::failures(check));
    eprintln!("hint: `offshoot check RECORDING` has all criteria");
    Some(ExitCode::from(Kind::Verdict as u8))
}

/// The folders that are ours.
pub(crate) fn places() -> anyhow::Result<Places> {
    let hint = || "export HOME=/home/you".to_owned();
    Ok(Places {
        data: paths::data_dir().or_fail_with(Kind::Usage, hint)?,
        cache: paths::cache_dir().or_fail_with(Kind::Usage, hint)?,
        slots: paths::slots_dir(),
    })
}

/// The environment as text.
pub(crate) fn user_env() -> BTreeMap<String, String> {
    std::env::vars_os()
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()))
        .collect()
}

fn asked(arguments: Arguments) -> anyhow::Result<Asked> {
    let places = places()?;
    let config = paths::config_dir().ok();
    let scenario = harness::find_scenario(&arguments.scenario, config.as_deref()).map_err(explain)?;
    let harness: Box<dyn Harness> = harness::find(&arguments.harness).expect("its name was checked");
    let user_env = user_env();
    Ok(Asked {
        harness,
        version: arguments.harness_version,
        host_version: arguments.host_version,
        scenario,
        prompt: arguments.prompt,
        model: arguments.model,
        mode: arguments.mode,
        fixture_dir: arguments.fixture_dir,
        script: arguments.script,
        cache_sim: arguments.cache_sim,
        live: arguments.live,
        replay: None,
        max_budget_usd: arguments.max_budget_usd,
        timeout: arguments.timeout.map(Duration::from_secs),
        out: arguments.out,
        arguments: arguments.arguments,
        clock: None,
        env: variables(&arguments.env, &user_env)?,
        sealed: !arguments.no_namespace,
        places,
        user_env,
    })
}

pub(crate) fn variables(
    given: &[String],
    user_env: &BTreeMap<String, String>,
) -> anyhow::Result<BTreeMap<String, String>> {
    let one = |text: &String| match text.split_once('=') {
        Some(("", _)) => Err(anyhow::anyhow!("`{text}` names no variable"))
            .or_fail_with(Kind::Usage, || "give it as in `--env NAME=value`".to_owned()),
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => match user_env.get(text) {
            Some(value) => Ok((text.clone(), value.clone())),
            None => Err(anyhow::anyhow!("the variable `{text}` is not set"))
                .or_fail_with(Kind::Usage, || format!("give it as in `--env {text}=value`")),
        },
    };
    given.iter().map(one).collect()
}

/// A harness's error, with whose turn it is and its hint.
pub(crate) fn explain(error: HarnessError) -> anyhow::Error {
    let kind = match error.blame() {
        harness::Blame::You => Kind::Usage,
        harness::Blame::Outside => Kind::Outside,
        harness::Blame::Verdict => Kind::Verdict,
    };
    let hint = error.hint().map(str::to_owned);
    failure::marked(kind, hint, error.into())
}

/// Says what happened, and finds the exit code.
pub(crate) fn conclude(captured: &Captured) -> ExitCode {
    let dir = captured.dir.display();
    for loss in &captured.losses {
        eprintln!("not kept: {loss}");
    }
    for warning in &captured.warnings {
        eprintln!("warning: {warning}");
    }
    tell_suspicious(&captured.suspicious, &captured.dir);
    for round in &captured.round {
        eprintln!("warning: went round the proxy: {}", describe(round));
    }
    if captured.network == NetworkSeal::Environment {
        eprintln!("warning: the network was not sealed, so calls that went round the proxy may be missing");
    }
    let sealed = match &captured.unsealed_because {
        None => "recorded",
        Some(_) => "kept, unsealed,",
    };
    eprintln!("{sealed} {} in `{dir}`", counted(captured.counts.exchanges, "exchange"));
    if let Some(spent) = captured.spent_usd {
        eprintln!("it cost about ${spent:.4}, by the prices of {}", harness::PRICES_OF);
    }
    crate::terminal::print(&format!("{dir}\n"));
    match &captured.failure {
        Some(failure) => {
            eprintln!("error: {}", failure.what);
            eprintln!("hint: {}", failure.hint);
            ExitCode::from(Kind::Outside as u8)
        }
        None if captured.unsealed_because.is_some() || !captured.losses.is_empty() => {
            ExitCode::from(Kind::Outside as u8)
        }
        None => ExitCode::SUCCESS,
    }
}

fn describe(round: &Round) -> String {
    let host = match round.port {
        Some(port) => format!("{}:{port}", round.host),
        None => round.host.clone(),
    };
    let seen = match round.seen_by {
        recording::SeenBy::Proxy => "asked the refusing proxy",
        recording::SeenBy::Connection => "connected",
        recording::SeenBy::Name => "asked for its address",
    };
    match round.count {
        1 => format!("{host} ({seen})"),
        count => format!("{host} ({seen}, {count} times)"),
    }
}
