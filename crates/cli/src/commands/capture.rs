//! `offshoot capture`: runs a harness through a scenario and records it.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use harness::{
    CaptureFolders, CaptureOutcome, CaptureRequest, HarnessAdapter, HarnessError, RepliesRequest,
    ScenarioOverrides,
};
use parity::CheckReport;
use recording::{NetworkIsolation, ProxyBypass};

use crate::failure::{self, ExitKind, OrFail};
use crate::paths;
use crate::progress::Progress;
use crate::record::{warn_suspicious, warn_unsearched};
use crate::signals::Signals;

/// Run a harness through a scenario and record it
///
/// A scripted model answers, without network access, unless `--live` is given. offshoot installs the harness from npm into
/// your cache if needed. The harness works in folders of its own, at the same paths every time. Where the system allows it,
/// it has a network of its own, in which calls that bypass the proxy are refused and reported. The recording is written to
/// ./recordings/HARNESS/VERSION/SCENARIO/RUN, and its path is printed.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  offshoot capture claude-code --scenario async-subagents
  offshoot capture claude-code --harness-version 2.0.76 --scenario ./mine
  offshoot capture command --scenario ./mine -- ./my-agent --ask {prompt}
  ANTHROPIC_API_KEY=… offshoot capture claude-code --scenario cancel \\
                      --live --max-budget-usd 0.50

Exit codes:
  0  the harness ran and the check passed
  1  the check failed, or the recording still holds a possible secret
  2  you can fix it
  3  the harness, the provider, the registry or the disk failed
After a failure the traffic so far is kept. An incomplete recording stays
unsealed, with the reason.")]
pub(crate) struct Args {
    #[arg(value_name = "HARNESS", value_parser = PossibleValuesParser::new(harness_names()))]
    #[arg(hide_possible_values = true, help = harness_help())]
    harness: String,
    /// Folder or name of the scenario; see docs/reference/scenarios.md
    #[arg(long, value_name = "S")]
    scenario: String,
    #[command(flatten)]
    versions: VersionArgs,
    #[command(flatten)]
    overrides: ScenarioArgs,
    #[command(flatten)]
    provider: ProviderArgs,
    #[command(flatten)]
    environment: EnvironmentArgs,
    /// Folder for the recording; must not exist or be empty
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Arguments for the harness, after `--`; for `command`, the command
    #[arg(last = true, value_name = "ARGS")]
    arguments: Vec<String>,
}

/// Options that choose the program to run.
#[derive(clap::Args)]
struct VersionArgs {
    /// Version of the harness [default: the newest tested version]
    #[arg(long, value_name = "V")]
    harness_version: Option<String>,
    /// Version of the program that loads the plugin
    #[arg(long, value_name = "V")]
    host_version: Option<String>,
    /// Mode to run the harness in, for harnesses with several
    #[arg(long, value_name = "MODE")]
    mode: Option<String>,
}

/// Options that replace parts of the scenario.
#[derive(clap::Args)]
struct ScenarioArgs {
    /// Prompt to use instead of the scenario's
    #[arg(long, value_name = "P")]
    prompt: Option<String>,
    /// Model to use instead of the scenario's
    #[arg(long, value_name = "M")]
    model: Option<String>,
    /// Workspace to use instead of the scenario's
    #[arg(long, value_name = "DIR")]
    fixture_dir: Option<PathBuf>,
    /// Script to use instead of the scenario's; see docs/reference/script.md
    #[arg(long, value_name = "FILE", conflicts_with = "live")]
    script: Option<PathBuf>,
    /// Maximum run time; the scenario has a default
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    timeout: Option<u64>,
}

/// Options that choose the model that answers.
#[derive(clap::Args)]
struct ProviderArgs {
    /// Report simulated prompt cache usage from the script; see docs/guide/cache.md
    #[arg(long, conflicts_with = "live")]
    cache_sim: bool,
    /// Use the real provider, with the key from the environment
    #[arg(long)]
    live: bool,
    /// End the harness when its calls have cost this much
    #[arg(long, value_name = "USD", requires = "live")]
    max_budget_usd: Option<f64>,
}

/// Options for the surroundings of the harness.
#[derive(clap::Args)]
struct EnvironmentArgs {
    /// Set a variable, or pass on one of yours (repeatable)
    #[arg(long, value_name = "NAME[=VALUE]")]
    env: Vec<String>,
    /// Header in which the harness sends the id of its conversation; see docs/reference/lanes.md
    #[arg(long, value_name = "NAME", value_parser = crate::recordings::header_name)]
    session_header: Option<String>,
    /// Run the harness in the network of the machine
    #[arg(long)]
    no_namespace: bool,
}

fn harness_names() -> Vec<&'static str> {
    harness::list().iter().map(|harness| harness.name()).collect()
}

fn harness_help() -> String {
    format!("Harness to capture: {} (your own, after `--`)", harness_names().join(", "))
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().or_fail(ExitKind::Outside)?;
    let captured = capture(&runtime, capture_options(args)?)?;
    let check = derive_files(&captured);
    let code = print_result(&captured);
    match check {
        Ok(check) if captured.failure.is_none() => Ok(print_failed_check(&check).unwrap_or(code)),
        // The failure of the harness is the more useful message.
        Ok(_) => Ok(code),
        Err(error) => Err(error),
    }
}

/// Captures until the harness ends or a signal comes.
pub(crate) fn capture(
    runtime: &tokio::runtime::Runtime,
    asked: CaptureRequest,
) -> anyhow::Result<CaptureOutcome> {
    runtime.block_on(async {
        let mut signals = Signals::listen().or_fail(ExitKind::Outside)?;
        let progress = Progress::start();
        let stop = async {
            signals.next().await;
        };
        harness::capture(asked, &|step| show_step(&progress, step), stop).await.map_err(explain)
    })
}

/// Shows a step on a terminal. A pipe gets a line only for installations, which can take minutes, and for failed ones.
fn show_step(progress: &Progress, step: &str) {
    if ["installing ", "continues without "].iter().any(|begin| step.starts_with(begin))
        && !std::io::stderr().is_terminal()
    {
        status!("{}", report::plain(step));
    }
    progress.set_step(step);
}

/// Writes `normalized/` and checks the recording.
pub(crate) fn derive_files(captured: &CaptureOutcome) -> anyhow::Result<CheckReport> {
    let source = crate::recordings::open(&captured.dir)?;
    super::normalize::write_normalized(&source, &recording::normalize::default_folder(&source))?;
    super::check::checked(&source)
}

/// Prints the criteria that failed; returns the exit code then.
fn print_failed_check(check: &CheckReport) -> Option<ExitCode> {
    if check.ok {
        return None;
    }
    error!("check failed: {}", super::check::failures(check));
    hint!("offshoot check RECORDING");
    Some(ExitCode::from(ExitKind::Verdict as u8))
}

/// Returns the folders of offshoot.
pub(crate) fn places() -> anyhow::Result<CaptureFolders> {
    let hint = || "export HOME=/home/you".to_owned();
    Ok(CaptureFolders {
        data: paths::data_dir().or_fail_with(ExitKind::Usage, hint)?,
        cache: paths::cache_dir().or_fail_with(ExitKind::Usage, hint)?,
        slots: paths::slots_dir(),
    })
}

/// Returns the environment as text.
pub(crate) fn user_env() -> BTreeMap<String, String> {
    std::env::vars_os()
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()))
        .collect()
}

fn capture_options(args: Args) -> anyhow::Result<CaptureRequest> {
    let Args { versions, overrides, provider, environment, .. } = args;
    let places = places()?;
    let config = paths::config_dir().ok();
    let scenario = harness::find_scenario(&args.scenario, config.as_deref()).map_err(explain)?;
    let harness: Box<dyn HarnessAdapter> = harness::find(&args.harness).expect("clap has checked the name");
    let user_env = user_env();
    Ok(CaptureRequest {
        harness,
        version: versions.harness_version,
        host_version: versions.host_version,
        scenario,
        overrides: ScenarioOverrides {
            prompt: overrides.prompt,
            model: overrides.model,
            mode: versions.mode,
            fixture_dir: overrides.fixture_dir,
            timeout: overrides.timeout.map(Duration::from_secs),
        },
        replies: RepliesRequest {
            script: overrides.script,
            cache_sim: provider.cache_sim,
            live: provider.live,
            replay: None,
            max_budget_usd: provider.max_budget_usd,
        },
        out: args.out,
        arguments: args.arguments,
        session_header: environment.session_header,
        clock: None,
        env: variables(&environment.env, &user_env)?,
        sealed: !environment.no_namespace,
        folders: places,
        user_env,
    })
}

/// Parses `--env`.
pub(crate) fn variables(
    given: &[String],
    user_env: &BTreeMap<String, String>,
) -> anyhow::Result<BTreeMap<String, String>> {
    let one = |text: &String| match text.split_once('=') {
        Some(("", _)) => Err(anyhow::anyhow!("`--env {text}` has no variable name"))
            .or_fail_with(ExitKind::Usage, || "--env NAME=value".to_owned()),
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => match user_env.get(text) {
            Some(value) => Ok((text.clone(), value.clone())),
            None => Err(anyhow::anyhow!("the variable `{text}` is not set"))
                .or_fail_with(ExitKind::Usage, || format!("--env {text}=value")),
        },
    };
    given.iter().map(one).collect()
}

/// Adds the exit code and the hint to an error of a harness.
pub(crate) fn explain(error: HarnessError) -> anyhow::Error {
    let kind = match error.blame() {
        harness::Blame::User => ExitKind::Usage,
        harness::Blame::Outside => ExitKind::Outside,
        harness::Blame::Verdict => ExitKind::Verdict,
    };
    let hint = error.hint().map(str::to_owned);
    failure::classify(kind, hint, error.into())
}

/// Prints the result of a capture, and returns the exit code.
pub(crate) fn print_result(captured: &CaptureOutcome) -> ExitCode {
    let dir = captured.dir.display();
    for loss in &captured.losses {
        status!("not kept: {loss}");
    }
    for warning in &captured.warnings {
        warning!("{warning}");
    }
    warn_unsearched(&captured.unsearched, &captured.dir);
    warn_suspicious(&captured.suspicious, &captured.dir);
    for round in &captured.round {
        warning!("a call bypassed the proxy: {}", describe(round));
    }
    if captured.network == NetworkIsolation::Environment {
        warning!("the network was not isolated, so calls that bypassed the proxy may be missing");
    }
    let result = match &captured.unsealed_because {
        None => "recorded",
        Some(_) => "kept, unsealed,",
    };
    status!("{result} {} in `{dir}`", report::counted(captured.counts.exchanges, "exchange"));
    if let Some(spent) = captured.spent_usd {
        status!("cost: about ${spent:.4} (prices of {})", harness::PRICES_OF);
    }
    crate::terminal::print(&format!("{dir}\n"));
    match &captured.failure {
        Some(failure) => {
            error!("{}", failure.what);
            hint!("{}", failure.hint);
            ExitCode::from(ExitKind::Outside as u8)
        }
        None if captured.unsealed_because.is_some() || !captured.losses.is_empty() => {
            ExitCode::from(ExitKind::Outside as u8)
        }
        None => ExitCode::SUCCESS,
    }
}

fn describe(round: &ProxyBypass) -> String {
    let host = match round.port {
        Some(port) => format!("{}:{port}", round.host),
        None => round.host.clone(),
    };
    let seen = match round.seen_by {
        recording::BypassEvidence::Proxy => "request to the refusing proxy",
        recording::BypassEvidence::Connection => "connection",
        recording::BypassEvidence::Name => "name lookup",
    };
    match round.count {
        1 => format!("{host} ({seen})"),
        count => format!("{host} ({seen}, {count} times)"),
    }
}
