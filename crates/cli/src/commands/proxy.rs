//! `offshoot proxy`: records the traffic between any program and a provider.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use proxy::{CachedRequest, Script, ScriptReport, ScriptedModel, Upstream, Upstreams};
use recording::{HarnessInfo, Manifest};

use crate::failure::{ExitKind, OrFail};
use crate::record::{RecordingPlan, substitute_variables};
use crate::signals::Signals;

/// Record the traffic between a harness and its provider
///
/// Secrets are removed before anything is written to the disk. Either point the base URL of the harness at the address that
/// is printed, or give its command after `--`. The command gets ANTHROPIC_BASE_URL and OPENAI_BASE_URL, its output and exit
/// code are passed through, and the recording is sealed when it ends. Output to a terminal is not recorded. Without a
/// command, Ctrl-C seals the recording.
#[derive(clap::Args)]
#[command(override_usage = "\
offshoot proxy --upstream [PREFIX=]URL --out DIR [OPTIONS] [-- COMMAND]
       offshoot proxy --script FILE --out DIR [OPTIONS] [-- COMMAND]")]
#[command(group = clap::ArgGroup::new("model").required(true))]
#[command(after_help = "Examples:
  offshoot proxy --upstream https://api.anthropic.com --out rec -- claude -p hi
  offshoot proxy --script examples/hello.yaml --out rec -- claude -p hi
  offshoot proxy --upstream anthropic=https://api.anthropic.com \\
                 --upstream openai=https://api.openai.com/v1 --out rec

Exit codes: the command's own if it is not 0; else 1 the recording is not sealed
because it still holds a possible secret; 2 you can fix it; 3 the provider or
the disk failed.")]
pub(crate) struct Args {
    /// Address of the provider, for paths with this PREFIX (repeatable)
    #[arg(long, value_name = "[PREFIX=]URL", group = "model")]
    upstream: Vec<String>,
    /// Script that answers instead of a model; see docs/reference/script.md
    #[arg(long, value_name = "FILE", group = "model")]
    script: Option<PathBuf>,
    /// Report simulated prompt cache usage from the script; see docs/guide/cache.md
    #[arg(long, conflicts_with = "upstream")]
    cache_sim: bool,
    /// Folder for the recording; must not exist or be empty
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Name of the harness for the manifest
    #[arg(long, value_parser = crate::recordings::harness_name)]
    name: Option<String>,
    /// Header in which the program sends the id of its conversation; see docs/reference/lanes.md
    #[arg(long, value_name = "NAME", value_parser = crate::recordings::header_name)]
    session_header: Option<String>,
    /// Address to listen on; port 0 means any free port
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Listen on an address that other machines or containers can reach
    #[arg(long)]
    allow_remote: bool,
    /// Maximum wait for calls in flight after the command has ended
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    drain: u64,
    /// Command to record, after `--`
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    // One thread forwards the bytes, because waking others costs more than it saves. Redaction and writing have threads of
    // their own.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .or_fail(ExitKind::Outside)?;
    runtime.block_on(record(args))
}

async fn record(args: Args) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::listen().or_fail(ExitKind::Outside)?;
    let here = std::env::current_dir().or_fail(ExitKind::Usage)?;
    let scripted = scripted_model(args.script.as_deref(), &here, args.cache_sim.then(Vec::new)).await?;
    let upstreams = match &scripted {
        Some(model) => upstreams(&[format!("http://{}", model.addr())])?,
        None => upstreams(&args.upstream)?,
    };
    let plan = RecordingPlan {
        out: args.out,
        flag: "--out",
        listen: args.listen,
        allow_remote: args.allow_remote,
        drain: Duration::from_secs(args.drain),
        command: args.command,
        env: if scripted.is_some() { substitute_variables("script") } else { Vec::new() },
        upstreams,
        manifest: Manifest {
            harness: args.name.map(|name| HarnessInfo {
                name,
                live: args.script.is_none(),
                ..HarnessInfo::default()
            }),
            session_header: args.session_header,
            script: args.script.as_ref().map(|script| script.display().to_string()),
            ..Manifest::default()
        },
    };
    plan.record(
        &mut signals,
        |_| {},
        || {
            scripted.iter().for_each(|model| warn_unanswered(&model.report()));
            None
        },
    )
    .await
}

/// Starts the model of a script. `cache` has the requests in its simulated prompt cache, if it has one.
pub(crate) async fn scripted_model(
    path: Option<&Path>,
    workspace: &Path,
    cache: Option<Vec<CachedRequest>>,
) -> anyhow::Result<Option<ScriptedModel>> {
    let Some(path) = path else { return Ok(None) };
    let hint = || "see docs/reference/script.md and examples/hello.yaml for the format".to_owned();
    let script = Script::read(path).or_fail_with(ExitKind::Usage, hint)?;
    let script = match cache {
        Some(known) => script.with_warm_cache(known),
        None => script,
    };
    Ok(Some(ScriptedModel::start(script, workspace).await.or_fail(ExitKind::Outside)?))
}

/// Warns of requests that the script had no answer to.
pub(crate) fn warn_unanswered(report: &ScriptReport) {
    let Some(first) = &report.first_unanswered else { return };
    let requests = if report.unanswered == 1 { "request" } else { "requests" };
    warning!("the script has no answer to {} {requests}; the first: {first}", report.unanswered);
    if let Some(unused) = report.unused.first() {
        let more = match report.unused.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        hint!("unused: turn {} of lane `{}`{more}", unused.turn, unused.lane);
    }
}

fn upstreams(given: &[String]) -> anyhow::Result<Upstreams> {
    let hint = || {
        "use `--upstream https://api.anthropic.com` or `--upstream openai=https://api.openai.com/v1`".into()
    };
    let list = given.iter().map(|text| Upstream::parse(text)).collect::<Result<Vec<_>, _>>();
    list.and_then(Upstreams::new).or_fail_with(ExitKind::Usage, hint)
}
