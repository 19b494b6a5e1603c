//! `offshoot replay`: serves recorded replies instead of calling the model.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use harness::ReplaySource;
use proxy::replay::{
    Fault, OnMiss, Order, Pace, RecordedTraffic, ReplayLoadError, ReplayReport, ReplayServer, ReplaySettings,
};
use proxy::{Upstream, Upstreams};
use recording::{HarnessInfo, Manifest, Recording, Replay};

use super::capture;
use crate::failure::{ExitKind, OrFail};
use crate::record::{
    RECORDED_AT, RecordingPlan, base_urls, check_command, substitute_variables, warn_remote,
};
use crate::signals::Signals;
use crate::{child, paths};

/// Serve recorded replies instead of calling the model
///
/// Without a command and without --listen, offshoot starts the harness of the recording again as `capture` did, and makes a
/// new recording. A command after `--` is started with ANTHROPIC_BASE_URL and OPENAI_BASE_URL set to the replay. With
/// --listen, the replay serves all clients until Ctrl-C.
///
/// No request is forwarded to a real model. The replies so far decide which reply a request gets. A main agent that begins
/// with another prompt is served and reported. A turn, a sub-agent or a side call that resembles no recorded one gets an
/// error in the format of the provider.
#[derive(clap::Args)]
#[command(after_help = after_help())]
pub(crate) struct Args {
    /// Recording, or folder of dumps
    #[arg(value_name = "RECORDING", value_parser = crate::recordings::recording_at())]
    recording: PathBuf,
    /// Address to listen on; port 0 means any free port
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// Listen on an address that other machines or containers can reach
    #[arg(long, requires = "listen")]
    allow_remote: bool,
    /// Process id of the harness, if it was started elsewhere
    #[arg(long, value_name = "PID", requires = "listen")]
    pid: Option<u32>,
    /// Pace of the replies
    #[arg(long, value_name = "instant|recorded", default_value = "instant", value_parser = parse_pace)]
    pace: Pace,
    /// Order of the replies: as requested, as recorded, or another valid order [default: recorded; free with --listen]
    #[arg(long, value_name = "free|recorded|seed=N")]
    order: Option<Order>,
    /// Wait this long for an idle harness, instead of watching its process
    #[arg(long, value_name = "MS")]
    settle: Option<u64>,
    /// Make something fail at an exact place (repeatable); see docs/guide/replay.md
    #[arg(long, value_name = "SPEC")]
    fault: Vec<Fault>,
    /// Reply to a request that was not recorded
    #[arg(long, value_name = "error|nearest", default_value = "error", value_parser = parse_on_miss)]
    on_miss: OnMiss,
    /// Report simulated prompt cache usage instead of the recorded one; see docs/guide/cache.md
    #[arg(long)]
    cache_sim: bool,
    /// Version of the harness to use instead of the recorded one
    #[arg(long, value_name = "V", conflicts_with_all = ["command", "listen"])]
    harness_version: Option<String>,
    /// Workspace to use instead of the recorded one
    #[arg(long, value_name = "DIR", conflicts_with_all = ["command", "listen"])]
    fixture_dir: Option<PathBuf>,
    /// Maximum run time of the harness
    #[arg(long, value_name = "SECONDS", conflicts_with_all = ["command", "listen"])]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    timeout: Option<u64>,
    /// Set a variable of the harness, or pass on one of yours (repeatable)
    #[arg(long, value_name = "NAME[=VALUE]", conflicts_with_all = ["command", "listen"])]
    env: Vec<String>,
    /// Folder for the new recording; must not exist or be empty [default for a harness: in ./replays]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Command to serve, after `--`
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

const FAULT_GRAMMAR: &str = "\
A fault is lane=L,turn=N[,attempt=N|all][,event=N]:KIND, where KIND is one of
  status=CODE[,retry-after=S]  cut  reset  stall[=TIME]  slow=TIME  garbage
  half  duplicate  error=TYPE  end  content-type=TYPE";

fn after_help() -> String {
    format!(
        "Examples:
  offshoot replay recordings/claude-code/2.1.325/wakeup --out again
  offshoot replay rec -- claude -p hello
  offshoot replay rec --listen 127.0.0.1:8080 --order free
  offshoot replay rec --fault lane=main,turn=2,event=5:cut --out cut

{FAULT_GRAMMAR}

Exit codes: the command's own if it is not 0; else
  0  every request got its recorded reply, every recorded turn was requested,
     and every fault happened
  1  otherwise
  2  you can fix it
  3  the harness or the disk failed"
    )
}

fn parse_pace(text: &str) -> Result<Pace, String> {
    match text {
        "instant" => Ok(Pace::Instant),
        "recorded" => Ok(Pace::Recorded),
        _ => Err("expected `instant` or `recorded`".to_owned()),
    }
}

fn parse_on_miss(text: &str) -> Result<OnMiss, String> {
    match text {
        "error" => Ok(OnMiss::Error),
        "nearest" => Ok(OnMiss::Nearest),
        _ => Err("expected `error` or `nearest`".to_owned()),
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let traffic = Arc::new(load(&args.recording)?);
    warn_of_damage(&args.recording);
    check_faults(&traffic, &args.fault)?;
    let default = if args.listen.is_some() { Order::Free } else { Order::Recorded };
    let settings = ReplaySettings {
        pace: args.pace,
        order: args.order.unwrap_or(default),
        settle: args.settle.map(Duration::from_millis),
        faults: args.fault.clone(),
        on_miss: args.on_miss,
        cache_sim: args.cache_sim,
    };
    if args.command.is_empty() && args.listen.is_none() {
        return replay_to_harness(args, traffic, settings);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .or_fail(ExitKind::Outside)?;
    runtime.block_on(serve(args, traffic, settings))
}

fn load(dir: &Path) -> anyhow::Result<RecordedTraffic> {
    let hint = || match dir.is_dir() {
        true => format!("offshoot check {}", dir.display()),
        false => "give the folder that `--out` named".to_owned(),
    };
    match RecordedTraffic::load(dir) {
        Err(ReplayLoadError::Empty { .. }) => RecordedTraffic::load(dir)
            .or_fail_with(ExitKind::Usage, || {
                "make a recording first, for example with `offshoot capture`".into()
            }),
        loaded => loaded.or_fail_with(ExitKind::Usage, hint),
    }
}

/// Warns of a recording that changed since it was sealed. It is replayed, because the change may be intended.
fn warn_of_damage(dir: &Path) {
    let damage = Recording::open(dir).and_then(|recording| recording.damage()).unwrap_or_default();
    if let Some(first) = damage.first() {
        warning!("the recording changed since it was sealed: {}", report::visible(first));
        hint!("offshoot show {}", dir.display());
    }
}

/// Refuses a fault at a place that the recording does not have.
fn check_faults(traffic: &RecordedTraffic, faults: &[Fault]) -> anyhow::Result<()> {
    for fault in faults {
        let lane = traffic.lanes().lanes.iter().find(|lane| lane.id == fault.lane);
        let lanes: Vec<String> = traffic.lanes().lanes.iter().map(|lane| format!("`{}`", lane.id)).collect();
        match lane {
            None => {
                Err(anyhow::anyhow!("the recording has no lane `{}` for the fault `{fault}`", fault.lane))
                    .or_fail_with(ExitKind::Usage, || format!("use one of the lanes {}", lanes.join(", ")))?
            }
            Some(lane) if fault.turn as usize > lane.turns.len() => {
                Err(anyhow::anyhow!("lane `{}` has no turn {} for the fault `{fault}`", lane.id, fault.turn))
                    .or_fail_with(ExitKind::Usage, || format!("use a turn from 1 to {}", lane.turns.len()))?;
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// Starts the recorded harness again, and replays to it.
fn replay_to_harness(
    args: Args,
    traffic: Arc<RecordedTraffic>,
    settings: ReplaySettings,
) -> anyhow::Result<ExitCode> {
    let dir = &args.recording;
    let replaying = ReplaySource { name: dir.display().to_string(), traffic, settings };
    let config = paths::config_dir().ok();
    let user_env = capture::user_env();
    let mut asked = harness::replay_request(
        dir,
        replaying,
        args.harness_version,
        config.as_deref(),
        capture::places()?,
        capture::variables(&args.env, &user_env)?,
        user_env,
    )
    .map_err(capture::explain)?;
    asked.out = args.out;
    asked.overrides.fixture_dir = args.fixture_dir;
    asked.overrides.timeout = args.timeout.map(Duration::from_secs);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().or_fail(ExitKind::Outside)?;
    let captured = capture::capture(&runtime, asked)?;
    let check = capture::derive_files(&captured);
    let report = captured.replayed.clone().unwrap_or_default();
    print_report(&report);
    let code = capture::print_result(&captured);
    check?;
    Ok(final_code(code, &report))
}

/// Serves a command or any client until it ends.
async fn serve(
    args: Args,
    traffic: Arc<RecordedTraffic>,
    settings: ReplaySettings,
) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::listen().or_fail(ExitKind::Outside)?;
    check_command(&args.command)?;
    check_process(args.pid)?;
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let requested = args.listen.unwrap_or(any);
    // While recording, the recording proxy takes the requested address.
    let own = if args.out.is_some() { any } else { requested };
    if !requested.ip().is_loopback() {
        match args.allow_remote {
            true if args.out.is_none() => warn_remote(requested),
            true => {} // the recording proxy warns
            false => Err(anyhow::anyhow!("`{requested}` is not a loopback address"))
                .or_fail_with(ExitKind::Usage, || "--listen 127.0.0.1:0, or add `--allow-remote`".into())?,
        }
    }
    let server = start_server(traffic, &settings, own).await?;
    if let Some(pid) = args.pid {
        server.watch_process(pid);
    }
    let code = match args.out {
        Some(_) => record(args, &settings, &server, requested, &mut signals).await?,
        None if args.command.is_empty() => {
            crate::terminal::print(&format!("http://{}\n", server.addr()));
            status!("replaying `{}`; Ctrl-C ends it", args.recording.display());
            signals.next().await;
            ExitCode::SUCCESS
        }
        None => run_command(&args, &server, &mut signals).await?,
    };
    let report = server.report();
    print_report(&report);
    Ok(final_code(code, &report))
}

fn check_process(pid: Option<u32>) -> anyhow::Result<()> {
    match pid.filter(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
        Some(pid) => Err(anyhow::anyhow!("no process {pid}"))
            .or_fail_with(ExitKind::Usage, || "pgrep -af NAME".to_owned()),
        None => Ok(()),
    }
}

async fn start_server(
    traffic: Arc<RecordedTraffic>,
    settings: &ReplaySettings,
    addr: SocketAddr,
) -> anyhow::Result<ReplayServer> {
    let listener = tokio::net::TcpListener::bind(addr)
        .await
        .map_err(|error| anyhow::Error::new(error).context(format!("cannot listen on `{addr}`")))
        .or_fail_with(ExitKind::Usage, || "--listen 127.0.0.1:0".to_owned())?;
    ReplayServer::start(traffic, settings, listener).or_fail(ExitKind::Outside)
}

fn upstreams(server: &ReplayServer) -> anyhow::Result<Upstreams> {
    Upstream::parse(&format!("http://{}", server.addr()))
        .and_then(|upstream| Upstreams::new(vec![upstream]))
        .or_fail(ExitKind::Bug)
}

/// Serves through a recording proxy.
async fn record(
    args: Args,
    settings: &ReplaySettings,
    server: &ReplayServer,
    listen: SocketAddr,
    signals: &mut Signals,
) -> anyhow::Result<ExitCode> {
    let replay = Replay {
        of: args.recording.display().to_string(),
        order: settings.order.to_string(),
        pace: settings.pace.to_string(),
        faults: settings.faults.iter().map(ToString::to_string).collect(),
        sha256: Replay::digest_of(&args.recording),
    };
    let harness = harness_of(&args.recording, &args.command);
    let plan = RecordingPlan {
        out: args.out.unwrap_or_default(),
        flag: "--out",
        listen,
        allow_remote: args.allow_remote,
        drain: Duration::from_secs(10),
        command: args.command,
        env: replay_variables(&args.recording),
        upstreams: upstreams(server)?,
        manifest: Manifest { replay: Some(replay), harness, ..Manifest::default() },
    };
    let report = || Some(("replay.json", server.report().to_json()));
    plan.record(signals, |pid| server.watch_process(pid), report).await
}

/// Names the harness of a new recording after the replayed one. Its version is known only if it is this program.
fn harness_of(recording: &Path, command: &[String]) -> Option<HarnessInfo> {
    let recorded = Recording::open(recording).ok()?;
    let recorded = recorded.manifest()?.harness.as_ref()?;
    let program = child::find(command.first()?)?.canonicalize().ok();
    let is_own =
        program.is_some() && program == std::env::current_exe().and_then(|own| own.canonicalize()).ok();
    Some(HarnessInfo {
        name: recorded.name.clone(),
        version: is_own.then(|| env!("CARGO_PKG_VERSION").to_owned()),
        model: recorded.model.clone(),
        ..HarnessInfo::default()
    })
}

/// Returns the variables of a command that a recording answers.
fn replay_variables(recording: &Path) -> Vec<(String, String)> {
    let mut variables = substitute_variables("replay");
    let recording = Recording::open(recording).ok();
    let manifest = recording.as_ref().and_then(Recording::manifest);
    variables.extend(manifest.map(|manifest| (RECORDED_AT.to_owned(), manifest.started_at.clone())));
    variables
}

async fn run_command(args: &Args, server: &ReplayServer, signals: &mut Signals) -> anyhow::Result<ExitCode> {
    let Args { recording, command, .. } = args;
    let variables = [base_urls(&upstreams(server)?, server.addr()), replay_variables(recording)].concat();
    let running =
        child::start_unrecorded(command, &variables).map_err(|error| child::start_error(command, error))?;
    if let Some(pid) = running.pid() {
        server.watch_process(pid);
    }
    let status = running.wait(signals).await.or_fail(ExitKind::Outside)?;
    Ok(ExitCode::from(u8::try_from(child::exit_code(status)).unwrap_or(1)))
}

/// Returns the code of the command, or the negative verdict of an incomplete replay.
fn final_code(code: ExitCode, report: &ReplayReport) -> ExitCode {
    match code == ExitCode::SUCCESS && !report.is_complete() {
        true => ExitCode::from(ExitKind::Verdict as u8),
        false => code,
    }
}

fn print_report(report: &ReplayReport) {
    status!("{}", report.to_string().trim_end());
}
