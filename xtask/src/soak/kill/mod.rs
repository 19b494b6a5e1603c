//! `cargo xtask soak kill`: kills our own kernel at random moments. The resumed run must equal an undisturbed one.
//!
//! The tests kill it at each durable point by name. Here the moment is random: at the start, while SQLite writes, between two
//! events of a stream. A resumed run is killed again.

mod tree;
mod verdict;
mod world;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::command::{cargo, output};
use verdict::{KillMoment, RunSnapshots};
use world::{KillWorld, RunScenario};

/// Selection of kills.
#[derive(clap::Args)]
pub(crate) struct KillArgs {
    /// Number of runs; each is killed up to three times
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    times: u32,
    /// Seed of the first run; the next run has the next seed. `--times 1 --seed S` repeats one run
    #[arg(long)]
    seed: Option<u64>,
    /// Kill a tree of runs: two jobs, of which one is fetched and one wakes its parent, and one awaited agent
    #[arg(long)]
    tree: bool,
    /// The `offshoot` program to kill, with the feature `agent/crash-points`; built by default
    #[arg(long)]
    program: Option<PathBuf>,
}

/// Maximum number of kills of one run.
const MAX_KILLS: usize = 3;
/// Number of undisturbed runs of each kind, to measure their time and to check that they are equal.
const UNDISTURBED: u32 = 3;

/// One kind of run, with the result of an undisturbed one.
struct RunKind {
    scene: RunScenario,
    duration: Duration,
    snapshots: RunSnapshots,
    /// Number of requests to models.
    requests: usize,
    /// Maximum number of concurrent requests. Those in flight at a kill are repeated.
    open: usize,
}

/// The result of one killed run.
#[derive(Default)]
struct KilledRun {
    moments: Vec<KillMoment>,
    repeated_requests: usize,
    may_have_run: usize,
}

pub(super) fn soak(args: &KillArgs) -> Result<()> {
    let program = program(args)?;
    let first = args.seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
    let scenes = match args.tree {
        true => vec![RunScenario::Tree],
        false => vec![RunScenario::Alone(world::SCRIPT.to_owned()), RunScenario::Alone(world::long_script())],
    };
    let kinds: Vec<RunKind> =
        scenes.into_iter().map(|scene| undisturbed(&program, scene)).collect::<Result<_>>()?;
    for kind in &kinds {
        let (ms, asked, runs) = (kind.duration.as_millis(), kind.requests, kind.snapshots.len());
        let messages: usize = kind.snapshots.values().map(|whole| whole.messages.len()).sum();
        eprintln!("undisturbed: {ms} ms, runs: {runs}, {asked} requests, {messages} messages");
    }
    let (mut all, mut failed) = (Vec::new(), 0);
    for seed in (first..).take(args.times as usize) {
        match killed(&program, &kinds, seed) {
            Ok(killed) => all.push(killed),
            Err(why) => {
                failed += 1;
                eprintln!("FAILED; repeat with `--times 1 --seed {seed}`: {why:#}");
            }
        }
    }
    println!("Runs: {}, from seed {first}. Failed: {failed}.\n", args.times);
    print!("{}", table(&all));
    if failed > 0 {
        bail!("{failed} runs failed");
    }
    Ok(())
}

/// Returns the given program, or builds it with the test tool whose calls must not be repeated.
fn program(args: &KillArgs) -> Result<PathBuf> {
    if let Some(program) = &args.program {
        return program.canonicalize().with_context(|| format!("`{}` does not exist", program.display()));
    }
    output(&mut cargo(["build", "--package", "cli", "--features", "agent/crash-points"]))?;
    super::built_program()
}

fn undisturbed(program: &Path, scene: RunScenario) -> Result<RunKind> {
    let mut times = Vec::new();
    let mut result: Option<(RunSnapshots, usize)> = None;
    for _ in 0..UNDISTURBED {
        let mut world = KillWorld::new(program, &scene)?;
        let attempt = world.attempt(None, None)?;
        attempt.check_success()?;
        let now = (world.snapshots()?, world.requests);
        verdict::compare(&now.0, &now.0)?;
        ensure!(result.as_ref().is_none_or(|before| *before == now), "two undisturbed runs differ");
        result = Some(now);
        times.push(attempt.took);
    }
    times.sort();
    let (snapshots, requests) = result.context("there was no undisturbed run")?;
    let open = match scene {
        RunScenario::Alone(_) => 1,
        RunScenario::Tree => {
            tree::check_notices(&snapshots)?;
            tree::AT_ONCE
        }
    };
    Ok(RunKind { scene, duration: times[times.len() / 2], snapshots, requests, open })
}

/// Kills and resumes one run until it is complete.
fn killed(program: &Path, kinds: &[RunKind], seed: u64) -> Result<KilledRun> {
    let mut chance = fastrand::Rng::with_seed(seed);
    let kind = &kinds[chance.usize(..kinds.len())];
    let kills = chance.usize(1..=MAX_KILLS);
    let mut world = KillWorld::new(program, &kind.scene)?;
    let mut killed = KilledRun::default();
    let mut left = kind.duration;
    let mut run = None;
    loop {
        let after = (killed.moments.len() < kills).then(|| left.mul_f64(chance.f64()));
        let attempt = world.attempt(run.as_deref(), after)?;
        if !attempt.was_killed() {
            // A kill after its end was stored and before it was printed leaves nothing to resume.
            if !attempt.was_completed() {
                attempt.check_success()?;
            }
            break;
        }
        // A resumed run has less to do.
        left = left.saturating_sub(after.unwrap_or_default()).max(kind.duration / 4);
        killed.moments.push(attempt.moment());
        let printed = attempt.run();
        // Half of the time the journal is not opened before the resume, because opening it recovers it.
        if printed.is_none() || chance.bool() {
            let shown = world.shown()?;
            world.check()?;
            attempt.check_stored(&shown)?;
            ensure!(!shown.is_empty() || run.is_none() && printed.is_none(), "the run is missing");
            run = shown.into_iter().find(|(_, run)| run["run"]["parent"].is_null()).map(|(id, _)| id);
        } else {
            run = printed;
        }
    }
    world.check()?;
    killed.may_have_run = verdict::compare(&world.snapshots()?, &kind.snapshots)?;
    let most = killed.moments.len() * kind.open;
    killed.repeated_requests = verdict::repeated_requests(world.requests, kind.requests, most)?;
    verdict::check_effects(&world.points(), &world.stamps())?;
    Ok(killed)
}

/// Formats a table of the moments of the kills.
fn table(all: &[KilledRun]) -> String {
    let mut moments = BTreeMap::<KillMoment, [usize; 2]>::new();
    for killed in all {
        for (nth, moment) in killed.moments.iter().enumerate() {
            moments.entry(*moment).or_default()[usize::from(nth > 0)] += 1;
        }
    }
    let mut text = "| killed | first kill | resumed run |\n|---|---:|---:|\n".to_owned();
    for (moment, [first, resumed]) in &moments {
        text.push_str(&format!("| {} | {first} | {resumed} |\n", moment.description()));
    }
    let sum = |count: fn(&KilledRun) -> usize| all.iter().map(count).sum::<usize>();
    let kills = sum(|killed| killed.moments.len());
    let first = sum(|killed| killed.moments.len().min(1));
    text.push_str(&format!("| **all** | {first} | {} |\n", kills - first));
    text.push_str(&format!(
        "\nKills: {kills}. Repeated requests: {}. Calls that may have run: {}.\n",
        sum(|killed| killed.repeated_requests),
        sum(|killed| killed.may_have_run)
    ));
    text
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn the_table_counts_first_kills_and_later_ones() {
        let killed = |moments: &[KillMoment]| KilledRun {
            moments: moments.to_vec(),
            repeated_requests: 1,
            may_have_run: 0,
        };
        let all = [
            killed(&[KillMoment::Starting, KillMoment::Asking]),
            killed(&[KillMoment::Calling]),
            killed(&[]),
        ];
        expect![[r#"
            | killed | first kill | resumed run |
            |---|---:|---:|
            | before the first event | 1 | 0 |
            | before or during a request, before its first event | 0 | 1 |
            | before or during tool calls | 1 | 0 |
            | **all** | 2 | 1 |

            Kills: 3. Repeated requests: 3. Calls that may have run: 0.
        "#]]
        .assert_eq(&table(&all));
    }
}
