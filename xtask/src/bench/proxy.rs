//! `cargo xtask bench proxy`: measures each target in turn, round after round.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::ProxyArgs;
use super::load::{self, LoadCall};
use super::process::ProcessTree;
use super::server::{Server, StopSignal};
use super::table::{self, Memory, ProxyRow, ProxySample, quantile};
use super::target::{ProxyTarget, ProxyTargetKind, RECORDING};
use super::traffic::Traffic;
use crate::command::{cargo, run as run_command};

const CONNECTIONS: [usize; 2] = [1, 32];

/// Maximum time of a target to become idle after its last response.
pub(super) const SETTLE: Duration = Duration::from_secs(30);

/// Measures all installed targets, and prints the tables.
pub(super) fn run(args: &ProxyArgs) -> Result<()> {
    if cfg!(debug_assertions) {
        return run_optimized(args);
    }
    let here = env::current_exe()?;
    // Not in the system's temporary folder, which may be in memory.
    let folder = tempfile::Builder::new()
        .prefix("bench-")
        .tempdir_in(here.parent().context("a program is in a folder")?)
        .context("cannot create a folder for the measurement")?;
    let mut upstream = Server::start(
        Command::new(&here).arg("bench-upstream"),
        &folder.path().join("upstream.log"),
        StopSignal::Terminate,
    )?;
    let upstream_address = upstream.wait_until(|log| log.lines().next()?.parse().ok())?;

    let mut targets = Vec::new();
    for kind in ProxyTargetKind::selected(args.before.as_deref()) {
        match kind.start(upstream_address, &folder.path().join(kind.name())) {
            Ok(target) => targets.push(target),
            Err(error) => eprintln!("{} is not measured: {error:#}", kind.name()),
        }
    }
    let results = measure_all(args, &targets)?;
    let cores = thread::available_parallelism()?;
    println!("Rounds: {}, requests in each measurement: {}, cores: {cores}.\n", args.rounds, args.requests);
    for (connections, rows) in CONNECTIONS.into_iter().zip(&results.tables) {
        println!("{}", table::render(connections, rows));
    }
    print!("{}", table::render_memory(&results.memory));
    let calls =
        args.rounds as usize * CONNECTIONS.map(|count| args.requests as usize + count).iter().sum::<usize>();
    targets.into_iter().try_for_each(|target| finish(target, folder.path(), calls))
}

/// Runs the benchmark in a release build, because a debug build of the client would be the bottleneck.
fn run_optimized(args: &ProxyArgs) -> Result<()> {
    let (rounds, requests) = (args.rounds.to_string(), args.requests.to_string());
    run_command(
        cargo(["run", "--release", "--quiet", "--package", "xtask", "--", "bench", "proxy"])
            .args(["--rounds", &rounds])
            .args(["--requests", &requests])
            .args(before_args(args.before.as_deref())?),
    )
}

/// Returns the arguments that name the program to compare with, as an absolute path.
pub(super) fn before_args(before: Option<&Path>) -> Result<Vec<PathBuf>> {
    let Some(program) = before else { return Ok(Vec::new()) };
    let program =
        fs::canonicalize(program).with_context(|| format!("cannot find `{}`", program.display()))?;
    Ok(vec!["--before".into(), program])
}

/// The results of all targets.
struct Results {
    /// For each number of connections, a row for each target.
    tables: [Vec<ProxyRow>; CONNECTIONS.len()],
    memory: Vec<Memory>,
}

/// Measures each target in turn, in an order that rotates from round to round.
fn measure_all(args: &ProxyArgs, targets: &[ProxyTarget]) -> Result<Results> {
    let row = |target: &ProxyTarget| ProxyRow {
        kind: target.kind.clone(),
        description: target.description.clone(),
        samples: Vec::new(),
    };
    let mut tables = CONNECTIONS.map(|_| targets.iter().map(row).collect::<Vec<_>>());
    let mut after_first_round = Vec::new();
    for round in 0..args.rounds as usize {
        for (connections, rows) in CONNECTIONS.into_iter().zip(&mut tables) {
            for turn in 0..targets.len() {
                let at = (turn + round) % targets.len();
                let name = targets[at].kind.name();
                let sample = measure(&targets[at], connections, args.requests)
                    .with_context(|| format!("cannot measure {name}"))?;
                let (number, speed) = (round + 1, sample.requests_per_second);
                eprintln!("round {number}, connections: {connections}, {name}: {speed:.0} requests/s");
                rows[at].samples.push(sample);
            }
        }
        if round == 0 {
            after_first_round = peak_memory(targets);
        }
    }
    let memory =
        after_first_round.into_iter().zip(peak_memory(targets)).map(|((description, early), (_, late))| {
            Memory { description, after_first_round: early, after_last_round: late }
        });
    Ok(Results { tables, memory: memory.collect() })
}

/// Measures a number of requests, and the CPU time of the target until it is idle again.
fn measure(target: &ProxyTarget, connections: usize, requests: u32) -> Result<ProxySample> {
    let tree = target.server.as_ref().map(Server::tree);
    let mut before = None;
    let on_start = || before = tree.map(ProcessTree::cpu);
    let traffic = Traffic::PROXY;
    let expected = Some(traffic.events().concat().into_bytes());
    let call = LoadCall { request: traffic.request(target.address), expected };
    let load = super::on_runtime(load::run(target.address, call, connections, requests, on_start))?;
    // Deferred work counts for the target, and must not slow the next target down.
    if tree.is_some_and(|tree| !tree.settle(SETTLE)) {
        eprintln!("{} was still busy {} s after its last response", target.kind.name(), SETTLE.as_secs());
    }
    let used = tree.zip(before).map(|(tree, before)| tree.cpu() - before);
    let first_bytes = load.milliseconds(|response| response.first_byte);
    let first_byte = |share| quantile(first_bytes.clone(), share).context("nothing was measured");
    Ok(ProxySample {
        requests_per_second: f64::from(requests) / load.elapsed.as_secs_f64(),
        first_byte_median_ms: first_byte(0.5)?,
        first_byte_p99_ms: first_byte(0.99)?,
        cpu_ms_per_request: used.map(|used| used.as_secs_f64() * 1e3 / f64::from(requests)),
    })
}

/// Returns description and peak memory in megabytes of each target with processes.
fn peak_memory(targets: &[ProxyTarget]) -> Vec<(String, f64)> {
    let megabytes = |server: &Server| server.tree().peak_memory() as f64 / 1e6;
    targets
        .iter()
        .filter_map(|target| Some((target.description.clone(), megabytes(target.server.as_ref()?))))
        .collect()
}

/// Stops a target. Checks that `offshoot proxy` recorded all of its `calls`.
fn finish(target: ProxyTarget, folder: &Path, calls: usize) -> Result<()> {
    let Some(server) = target.server else { return Ok(()) };
    let name = target.kind.name();
    let start = Instant::now();
    let (status, log) = server.stop().with_context(|| format!("cannot stop {name}"))?;
    if !matches!(target.kind, ProxyTargetKind::Offshoot | ProxyTargetKind::Before(_)) {
        return Ok(());
    }
    if !status.success() {
        bail!("{name} ended with {status}, so its figures are invalid\n{log}");
    }
    let dumps = folder.join(name).join(RECORDING).join("provider_dumps");
    let kept = fs::read_dir(&dumps)
        .with_context(|| format!("cannot read `{}`", dumps.display()))?
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_string_lossy().ends_with("_response.json"))
        .count();
    ensure!(kept == calls, "{name} recorded {kept} of {calls} exchanges, so its figures are invalid");
    println!("\nAll {calls} exchanges were recorded; sealing took {:.1} s.", start.elapsed().as_secs_f64());
    Ok(())
}
