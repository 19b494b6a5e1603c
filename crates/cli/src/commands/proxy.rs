//! `offshoot proxy`: record whatever speaks to a provider.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use proxy::{CachedRequest, Script, ScriptReport, ScriptedModel, Upstream, Upstreams};
use recording::Manifest;

use crate::failure::{Kind, OrFail};
use crate::record::{Session, stand_in};
use crate::signals::Signals;

/// Record what a harness and its provider say to each other
///
/// Secrets are gone before anything reaches the disk. Point the harness's base URL at the address that is printed, or give its command behind `--`:
/// then ANTHROPIC_BASE_URL and OPENAI_BASE_URL are set for it, its output and exit code are passed
/// through, and the recording is sealed when it ends. Output that goes to a terminal is the command's own
/// and is not kept. Without a command, Ctrl-C seals.
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

Exit codes: the command's own when that is not 0; else 1 the recording was not
sealed because it still holds what looks like a secret, 2 you can fix it,
3 the provider or the disk failed.")]
pub(crate) struct Arguments {
    /// Where requests go; with a PREFIX only those whose path begins with it (repeatable)
    #[arg(long, value_name = "[PREFIX=]URL", group = "model")]
    upstream: Vec<String>,
    /// A script that answers in a model's stead; see docs/reference/script.md
    #[arg(long, value_name = "FILE", group = "model")]
    script: Option<PathBuf>,
    /// The script reports the usage that the provider's prompt cache would come to; see docs/guide/cache.md
    #[arg(long, conflicts_with = "upstream")]
    cache_sim: bool,
    /// The recording's own folder; must not exist or be empty
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The loopback address to listen on; port 0 takes any free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Seconds to wait for calls in flight when the command has ended; Ctrl-C ends the wait
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    drain: u64,
    /// The command to record, behind `--`
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    // One thread passes the bytes on: to wake others for it costs more than it is worth, and those
    // that search and write are beside it.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .or_fail(Kind::Outside)?;
    runtime.block_on(record(arguments))
}

async fn record(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::listen().or_fail(Kind::Outside)?;
    let here = std::env::current_dir().or_fail(Kind::Usage)?;
    let scripted =
        scripted_model(arguments.script.as_deref(), &here, arguments.cache_sim.then(Vec::new)).await?;
    let upstreams = match &scripted {
        Some(model) => upstreams(&[format!("http://{}", model.addr())])?,
        None => upstreams(&arguments.upstream)?,
    };
    let session = Session {
        out: arguments.out,
        flag: "--out",
        listen: arguments.listen,
        drain: Duration::from_secs(arguments.drain),
        command: arguments.command,
        env: if scripted.is_some() { stand_in("script") } else { Vec::new() },
        upstreams,
        about: Manifest {
            script: arguments.script.as_ref().map(|script| script.display().to_string()),
            ..Manifest::default()
        },
    };
    session
        .record(
            &mut signals,
            |_| {},
            || {
                scripted.iter().for_each(|model| tell_unanswered(&model.report()));
                None
            },
        )
        .await
}

/// The script's model; `cache` are the requests that its simulated cache knows, where it has one.
pub(crate) async fn scripted_model(
    path: Option<&Path>,
    workspace: &Path,
    cache: Option<Vec<CachedRequest>>,
) -> anyhow::Result<Option<ScriptedModel>> {
    let Some(path) = path else { return Ok(None) };
    let hint = || "docs/reference/script.md describes the format, and examples/hello.yaml is one".to_owned();
    let script = Script::read(path).or_fail_with(Kind::Usage, hint)?;
    let script = match cache {
        Some(known) => script.with_warm_cache(known),
        None => script,
    };
    Ok(Some(ScriptedModel::start(script, workspace).await.or_fail(Kind::Outside)?))
}

/// Says what the script had no answer to.
pub(crate) fn tell_unanswered(report: &ScriptReport) {
    let Some(first) = &report.first_unanswered else { return };
    let requests = if report.unanswered == 1 { "request" } else { "requests" };
    eprintln!("warning: the script has no answer to {} {requests}; the first: {first}", report.unanswered);
    if let Some(unused) = report.unused.first() {
        let more = match report.unused.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        eprintln!("hint: never used: turn {} of lane `{}`{more}", unused.turn, unused.lane);
    }
}

fn upstreams(given: &[String]) -> anyhow::Result<Upstreams> {
    let hint = || {
        "give it as in `--upstream https://api.anthropic.com` or `--upstream openai=https://api.openai.com/v1`".into()
    };
    let list = given.iter().map(|text| Upstream::parse(text)).collect::<Result<Vec<_>, _>>();
    list.and_then(Upstreams::new).or_fail_with(Kind::Usage, hint)
}
