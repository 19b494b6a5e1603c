//! `cargo xtask bench replay`: a recorded response from nginx, `offshoot replay` and aimock, round after round.
//!
//! Each program first records one call to the scripted provider.

mod aimock;
mod pace;
mod start;
mod table;
mod target;

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use anyhow::{Context, Result, bail};
use clap::Args;

use self::table::{PerformanceAim, ReplayRow, ReplaySample};
use self::target::{ReplayTarget, ReplayTargetKind};
use super::load::{self, LoadCall};
use super::process::ProcessTree;
use super::proxy::{SETTLE, before_args};
use super::server::{Server, StopSignal};
use super::table::quantile;
use super::traffic::Traffic;
use crate::command::{cargo, run as run_command};

const CONNECTIONS: [usize; 2] = [1, 32];
/// Sizes of the request bodies. The response has 20 KB.
const SIZES: [usize; 2] = [20_000, 100_000];
const EVENTS: usize = 105;

/// Size of the measurement.
#[derive(Args)]
pub(crate) struct ReplayArgs {
    /// Number of measurements of each target for each number of connections
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Number of requests in one measurement
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..))]
    requests: u32,
    /// Also measure this `offshoot`, usually the version before
    #[arg(long, value_name = "PROGRAM")]
    before: Option<PathBuf>,
}

/// Measures all installed targets, and prints the tables.
pub(super) fn run(args: &ReplayArgs) -> Result<()> {
    if cfg!(debug_assertions) {
        return run_optimized(args);
    }
    let here = env::current_exe()?;
    let folder = tempfile::Builder::new()
        .prefix("bench-")
        .tempdir_in(here.parent().context("a program is in a folder")?)
        .context("cannot create a folder for the measurement")?;
    let cores = thread::available_parallelism()?;
    println!("Rounds: {}, requests in each measurement: {}, cores: {cores}.\n", args.rounds, args.requests);
    let mut aims = Vec::new();
    for size in SIZES {
        aims.extend(measure_size(args, size, &folder.path().join(size.to_string()))?);
    }
    aims.extend(pace::measure(args.rounds, &folder.path().join("pace"))?);
    println!("{}", table::render_aims(&aims));
    Ok(())
}

/// Runs the benchmark in a release build, because a debug build of the client would be the bottleneck.
fn run_optimized(args: &ReplayArgs) -> Result<()> {
    let (rounds, requests) = (args.rounds.to_string(), args.requests.to_string());
    run_command(
        cargo(["run", "--release", "--quiet", "--package", "xtask", "--", "bench", "replay"])
            .args(["--rounds", &rounds])
            .args(["--requests", &requests])
            .args(before_args(args.before.as_deref())?),
    )
}

/// Starts the scripted provider with a number of events and an average time between them in microseconds.
fn start_upstream(folder: &Path, events: usize, gap: u64) -> Result<(Server, std::net::SocketAddr)> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create `{}`", folder.display()))?;
    let mut server = Server::start(
        Command::new(env::current_exe()?).args([
            "bench-upstream",
            "--events",
            &events.to_string(),
            "--gap",
            &gap.to_string(),
        ]),
        &folder.join("upstream.log"),
        StopSignal::Terminate,
    )?;
    let address = server.wait_until(|log| log.lines().next()?.parse().ok())?;
    Ok((server, address))
}

/// Starts the installed targets.
fn start_all(
    kinds: &[ReplayTargetKind],
    start: impl Fn(&ReplayTargetKind) -> Result<ReplayTarget>,
) -> Vec<ReplayTarget> {
    let mut targets = Vec::new();
    for kind in kinds {
        match start(kind) {
            Ok(target) => targets.push(target),
            Err(error) => eprintln!("{} is not measured: {error:#}", kind.name()),
        }
    }
    targets
}

/// Measures requests of one size.
fn measure_size(args: &ReplayArgs, size: usize, folder: &Path) -> Result<Vec<PerformanceAim>> {
    let traffic = Traffic { request: size, events: EVENTS, is_agent: true };
    let (upstream, address) = start_upstream(folder, EVENTS, 0)?;
    let start = |kind: &ReplayTargetKind| start::start(kind, traffic, address, &folder.join(kind.name()));
    let targets = start_all(&ReplayTargetKind::selected(args.before.as_deref()), start);
    drop(upstream);
    let (mut aims, mut early) = (Vec::new(), Vec::new());
    let mut tables = CONNECTIONS.map(|_| targets.iter().map(ReplayRow::of).collect::<Vec<_>>());
    for round in 0..args.rounds as usize {
        for (connections, rows) in CONNECTIONS.into_iter().zip(&mut tables) {
            for turn in 0..targets.len() {
                let at = (turn + round) % targets.len();
                let name = targets[at].kind.name();
                let sample = measure(&targets[at], traffic, connections, args.requests)
                    .with_context(|| format!("cannot measure {name}"))?;
                let (number, speed) = (round + 1, sample.requests_per_second);
                eprintln!(
                    "round {number}, {size} bytes, connections: {connections}, {name}: {speed:.0} requests/s"
                );
                rows[at].samples.push(sample);
            }
        }
        if round == 0 {
            early = targets.iter().map(ReplayTarget::peak_memory).collect();
        }
    }
    for (connections, rows) in CONNECTIONS.into_iter().zip(&tables) {
        println!("{}", table::render(size, connections, rows));
        aims.extend(table::aims(size, connections, rows));
    }
    println!("{}", table::render_memory(&targets, &early));
    targets.into_iter().try_for_each(finish)?;
    Ok(aims)
}

/// Measures a number of requests, and the CPU time of the target until it is idle again.
fn measure(
    target: &ReplayTarget,
    traffic: Traffic,
    connections: usize,
    requests: u32,
) -> Result<ReplaySample> {
    let tree = target.server.tree();
    let mut before = None;
    let on_start = || before = Some(ProcessTree::cpu(tree));
    let call = LoadCall { request: traffic.request(target.address), expected: target.expected(traffic) };
    let load = super::on_runtime(load::run(target.address, call, connections, requests, on_start))?;
    if !tree.settle(SETTLE) {
        eprintln!("{} was still busy {} s after its last response", target.kind.name(), SETTLE.as_secs());
    }
    let used = tree.cpu() - before.context("the measurement did not start")?;
    let median =
        quantile(load.milliseconds(|response| response.total), 0.5).context("nothing was measured")?;
    Ok(ReplaySample {
        requests_per_second: f64::from(requests) / load.elapsed.as_secs_f64(),
        total_median_ms: median,
        cpu_ms_per_request: used.as_secs_f64() * 1e3 / f64::from(requests),
        responses: load.responses.len(),
        bodies: load.bodies(),
    })
}

/// Stops a target. Checks that `offshoot replay` served each turn and each request.
fn finish(target: ReplayTarget) -> Result<()> {
    let name = target.kind.name();
    let (status, log) = target.server.stop().with_context(|| format!("cannot stop {name}"))?;
    if target.kind != ReplayTargetKind::Nginx && target.kind != ReplayTargetKind::Aimock && !status.success()
    {
        bail!("{name} ended with {status}, so its figures are invalid\n{log}");
    }
    Ok(())
}
