//! `offshoot replay`: a recording stands in for the model.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use harness::Replaying;
use proxy::replay::{
    Fault, OnMiss, Order, Pace, RecordedTraffic, ReplayLoadError, ReplayReport, ReplayServer, ReplaySettings,
};
use proxy::{Upstream, Upstreams};
use recording::{Manifest, Recording, Replay};

use super::capture;
use crate::failure::{Kind, OrFail};
use crate::record::{Session, base_urls, check_command, stand_in};
use crate::signals::Signals;
use crate::{child, paths};

/// Let a recording stand in for the model
///
/// Without a command and without --listen, the harness of the recording is started again as `capture` started it,
/// and a new recording is made. With a command behind `--`, that is started with ANTHROPIC_BASE_URL and
/// OPENAI_BASE_URL leading here. With --listen, whoever comes is answered until Ctrl-C.
///
/// Nothing is ever forwarded to a real model. What the model had said before decides which answer a request gets. A
/// main agent that begins with other words than the recorded one is served all the same, and reported. A turn, a
/// sub-agent or a question aside that is nothing like a recorded one gets an error in the provider's shape.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  offshoot replay goldens/claude-code/2.1.325/wakeup/runs/RUN --out again
  offshoot replay rec -- claude -p hello
  offshoot replay rec --listen 127.0.0.1:8080 --order free
  offshoot replay rec --fault lane=main,turn=2,event=5:cut --out cut

A fault is lane=L,turn=N[,attempt=N|all][,event=N]:KIND, and KIND one of
  status=CODE[,retry-after=S]  cut  reset  stall[=TIME]  slow=TIME  garbage
  half  duplicate  error=TYPE  end  content-type=TYPE

Exit codes: the command's own when that is not 0; else
  0  every request had its answer, every recorded turn was asked for, and
     every fault happened
  1  not so
  2  you can fix it
  3  the harness or the disk failed")]
pub(crate) struct Arguments {
    /// A recording, or a folder of dumps
    #[arg(value_name = "RECORDING", value_parser = crate::recordings::recording_at())]
    recording: PathBuf,
    /// The loopback address to listen on; port 0 takes any free one
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// The harness's process, where it was not started from here
    #[arg(long, value_name = "PID", requires = "listen")]
    pid: Option<u32>,
    /// How fast: as it goes, or as it was
    #[arg(long, value_name = "instant|recorded", default_value = "instant", value_parser = parse_pace)]
    pace: Pace,
    /// In which order: whoever asks first, as recorded, or another legal one; `recorded` without, and `free` with
    /// --listen
    #[arg(long, value_name = "free|recorded|seed=N")]
    order: Option<Order>,
    /// Wait so long wherever the harness gives no sign, instead of looking whether it rests
    #[arg(long, value_name = "MS")]
    settle: Option<u64>,
    /// Let something go wrong at an exact place (repeatable); see docs/guide/replay.md
    #[arg(long, value_name = "SPEC")]
    fault: Vec<Fault>,
    /// What a request gets that was not recorded
    #[arg(long, value_name = "error|nearest", default_value = "error", value_parser = parse_on_miss)]
    on_miss: OnMiss,
    /// ReplayReport the usage that the provider's prompt cache would come to now, not the recorded one; see docs/guide/cache.md
    #[arg(long)]
    cache_sim: bool,
    /// Another version of the recorded harness
    #[arg(long, value_name = "V", conflicts_with_all = ["command", "listen"])]
    harness_version: Option<String>,
    /// Another workspace than the recorded one
    #[arg(long, value_name = "DIR", conflicts_with_all = ["command", "listen"])]
    fixture_dir: Option<PathBuf>,
    /// End the harness after so many seconds
    #[arg(long, value_name = "SECONDS", conflicts_with_all = ["command", "listen"])]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    timeout: Option<u64>,
    /// Pass this variable on to the recorded harness, or set it (repeatable)
    #[arg(long, value_name = "NAME[=VALUE]", conflicts_with_all = ["command", "listen"])]
    env: Vec<String>,
    /// The new recording's own folder; must not exist or be empty; a harness that is started again goes to ./replays/…
    /// without
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The command to replay it to, behind `--`
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

fn parse_pace(text: &str) -> Result<Pace, String> {
    match text {
        "instant" => Ok(Pace::Instant),
        "recorded" => Ok(Pace::Recorded),
        _ => Err("there are `instant` and `recorded`".to_owned()),
    }
}

fn parse_on_miss(text: &str) -> Result<OnMiss, String> {
    match text {
        "error" => Ok(OnMiss::Error),
        "nearest" => Ok(OnMiss::Nearest),
        _ => Err("there are `error` and `nearest`".to_owned()),
    }
}

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let traffic = Arc::new(load(&arguments.recording)?);
    warn_of_damage(&arguments.recording);
    check_faults(&traffic, &arguments.fault)?;
    let usual = if arguments.listen.is_some() { Order::Free } else { Order::Recorded };
    let settings = ReplaySettings {
        pace: arguments.pace,
        order: arguments.order.unwrap_or(usual),
        settle: arguments.settle.map(Duration::from_millis),
        faults: arguments.fault.clone(),
        on_miss: arguments.on_miss,
        cache_sim: arguments.cache_sim,
    };
    if arguments.command.is_empty() && arguments.listen.is_none() {
        return start_again(arguments, traffic, settings);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .or_fail(Kind::Outside)?;
    runtime.block_on(serve(arguments, traffic, settings))
}

fn load(dir: &Path) -> anyhow::Result<RecordedTraffic> {
    let hint = || match dir.is_dir() {
        true => format!("`offshoot check {}` says what is wrong with it", dir.display()),
        false => "give the folder of a recording, the one that `--out` named".to_owned(),
    };
    match RecordedTraffic::load(dir) {
        Err(ReplayLoadError::Empty { .. }) => RecordedTraffic::load(dir)
            .or_fail_with(Kind::Usage, || "record something first, as with `offshoot capture`".into()),
        loaded => loaded.or_fail_with(Kind::Usage, hint),
    }
}

/// What was changed is replayed all the same: somebody may want just that. Loose dumps were never sealed.
fn warn_of_damage(dir: &Path) {
    let damage = Recording::open(dir).and_then(|recording| recording.damage()).unwrap_or_default();
    if let Some(first) = damage.first() {
        eprintln!("warning: the recording was changed since it was sealed: {}", report::visible(first));
        eprintln!("hint: `offshoot show {}` names everything that was", dir.display());
    }
}

/// A fault at a place that the recording has not would never happen.
fn check_faults(traffic: &RecordedTraffic, faults: &[Fault]) -> anyhow::Result<()> {
    for fault in faults {
        let lane = traffic.lanes().lanes.iter().find(|lane| lane.id == fault.lane);
        let lanes: Vec<String> = traffic.lanes().lanes.iter().map(|lane| format!("`{}`", lane.id)).collect();
        match lane {
            None => {
                Err(anyhow::anyhow!("the recording has no lane `{}` for the fault `{fault}`", fault.lane))
                    .or_fail_with(Kind::Usage, || format!("its lanes are {}", lanes.join(", ")))?
            }
            Some(lane) if fault.turn as usize > lane.turns.len() => {
                Err(anyhow::anyhow!("lane `{}` has no turn {} for the fault `{fault}`", lane.id, fault.turn))
                    .or_fail_with(Kind::Usage, || format!("it has {}", lane.turns.len()))?;
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// Runs the recorded harness again.
fn start_again(
    arguments: Arguments,
    traffic: Arc<RecordedTraffic>,
    settings: ReplaySettings,
) -> anyhow::Result<ExitCode> {
    let dir = &arguments.recording;
    let replaying = Replaying { name: dir.display().to_string(), traffic, settings };
    let config = paths::config_dir().ok();
    let user_env = capture::user_env();
    let mut asked = harness::again(
        dir,
        replaying,
        arguments.harness_version,
        config.as_deref(),
        capture::places()?,
        arguments.out,
        capture::variables(&arguments.env, &user_env)?,
        user_env,
    )
    .map_err(capture::explain)?;
    asked.fixture_dir = arguments.fixture_dir;
    asked.timeout = arguments.timeout.map(Duration::from_secs);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().or_fail(Kind::Outside)?;
    let captured = capture::captured(&runtime, asked)?;
    let derived = capture::after_sealing(&captured);
    let report = captured.replayed.clone().unwrap_or_default();
    tell(&report);
    let code = capture::conclude(&captured);
    derived?;
    match code == ExitCode::SUCCESS && !report.is_complete() {
        true => Ok(ExitCode::from(Kind::Verdict as u8)),
        false => Ok(code),
    }
}

/// Answers a command, or whoever comes.
async fn serve(
    arguments: Arguments,
    traffic: Arc<RecordedTraffic>,
    settings: ReplaySettings,
) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::listen().or_fail(Kind::Outside)?;
    check_command(&arguments.command)?;
    if let Some(pid) = arguments.pid.filter(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
        Err(anyhow::anyhow!("there is no process {pid}"))
            .or_fail_with(Kind::Usage, || "`pgrep -af NAME` finds the harness's".to_owned())?;
    }
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let wanted = arguments.listen.unwrap_or(any);
    if !wanted.ip().is_loopback() {
        Err(anyhow::anyhow!("`{wanted}` is not a loopback address"))
            .or_fail_with(Kind::Usage, || "listen on 127.0.0.1, as in `--listen 127.0.0.1:0`".into())?;
    }
    // With a recording between, the proxy takes the address that was asked for.
    let own = if arguments.out.is_some() { any } else { wanted };
    let listener = tokio::net::TcpListener::bind(own)
        .await
        .map_err(|error| anyhow::Error::new(error).context(format!("cannot listen on `{own}`")))
        .or_fail_with(Kind::Usage, || "let it take any free port: `--listen 127.0.0.1:0`".to_owned())?;
    let player = ReplayServer::start(traffic, &settings, listener).or_fail(Kind::Outside)?;
    if let Some(pid) = arguments.pid {
        player.watch_process(pid);
    }
    let upstreams = Upstream::parse(&format!("http://{}", player.addr()))
        .and_then(|upstream| Upstreams::new(vec![upstream]))
        .or_fail(Kind::Bug)?;
    let code = match arguments.out {
        Some(out) => {
            let about = Manifest {
                replay: Some(Replay {
                    of: arguments.recording.display().to_string(),
                    order: settings.order.to_string(),
                    pace: settings.pace.to_string(),
                    faults: settings.faults.iter().map(ToString::to_string).collect(),
                    sha256: Replay::digest_of(&arguments.recording),
                }),
                ..Manifest::default()
            };
            let session = Session {
                out,
                flag: "--out",
                listen: wanted,
                drain: Duration::from_secs(10),
                command: arguments.command,
                env: stand_in("replay"),
                upstreams,
                about,
            };
            session
                .record(
                    &mut signals,
                    |pid| player.watch_process(pid),
                    || Some(("replay.json", player.report().to_json())),
                )
                .await?
        }
        None if arguments.command.is_empty() => {
            crate::terminal::print(&format!("http://{}\n", player.addr()));
            eprintln!("replaying `{}`; Ctrl-C ends it", arguments.recording.display());
            signals.next().await;
            ExitCode::SUCCESS
        }
        None => {
            let variables = [base_urls(&upstreams, player.addr()), stand_in("replay")].concat();
            let running = child::start_unrecorded(&arguments.command, &variables)
                .map_err(|error| child::not_started(&arguments.command, error))?;
            if let Some(pid) = running.pid() {
                player.watch_process(pid);
            }
            let status = running.wait(&mut signals).await.or_fail(Kind::Outside)?;
            ExitCode::from(u8::try_from(child::code(status)).unwrap_or(1))
        }
    };
    let report = player.report();
    tell(&report);
    match code == ExitCode::SUCCESS && !report.is_complete() {
        true => Ok(ExitCode::from(Kind::Verdict as u8)),
        false => Ok(code),
    }
}

fn tell(report: &ReplayReport) {
    eprint!("{report}");
}
