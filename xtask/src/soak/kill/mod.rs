//! `cargo xtask soak kill`: our own kernel, killed at random moments, must end like one that was never disturbed.
//!
//! The tests kill it at every durable point by name. Here it is killed by the clock, wherever it happens to be: while
//! it starts, while SQLite writes, between two events of a stream. What is resumed is killed again.

mod tree;
mod verdict;
mod world;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::command::{cargo, output};
use verdict::{Moment, Wholes};
use world::{Scene, World};

/// How much of it.
#[derive(clap::Args)]
pub(crate) struct KillArgs {
    /// How many runs are killed, each up to three times
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    times: u32,
    /// The first run's seed; each further one has the next. `--times 1 --seed S` does one again
    #[arg(long)]
    seed: Option<u64>,
    /// A tree of runs: jobs, one of them fetched and one that wakes its parent, and an agent that is waited for
    #[arg(long)]
    tree: bool,
    /// The `offshoot` to kill, with the feature `agent/crash-points`; it is built without
    #[arg(long)]
    program: Option<PathBuf>,
}

/// How often one run is killed at most.
const MOST_KILLS: usize = 3;
/// How often a kind of run is done undisturbed, to know how long it takes and that it is always the same.
const UNDISTURBED: u32 = 3;

/// One kind of run, and what it is when nobody disturbs it.
struct Kind {
    scene: Scene,
    takes: Duration,
    wholes: Wholes,
    /// What models were asked.
    requests: usize,
    /// How many questions may be open at the same time, and are asked again where nobody saw their answers.
    open: usize,
}

/// What came of one run that was killed.
#[derive(Default)]
struct Killed {
    moments: Vec<Moment>,
    asked_again: usize,
    may_have_run: usize,
}

pub(super) fn soak(args: &KillArgs) -> Result<()> {
    let program = program(args)?;
    let first = args.seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
    let scenes = match args.tree {
        true => vec![Scene::Tree],
        false => vec![Scene::Alone(world::SCRIPT.to_owned()), Scene::Alone(world::long_script())],
    };
    let kinds: Vec<Kind> =
        scenes.into_iter().map(|scene| undisturbed(&program, scene)).collect::<Result<_>>()?;
    for kind in &kinds {
        let (ms, asked, runs) = (kind.takes.as_millis(), kind.requests, kind.wholes.len());
        let messages: usize = kind.wholes.values().map(|whole| whole.messages.len()).sum();
        eprintln!("undisturbed: {ms} ms, runs: {runs}, {asked} requests, {messages} messages");
    }
    let (mut all, mut failed) = (Vec::new(), 0);
    for seed in (first..).take(args.times as usize) {
        match killed(&program, &kinds, seed) {
            Ok(killed) => all.push(killed),
            Err(why) => {
                failed += 1;
                eprintln!("FAILED, again with `--times 1 --seed {seed}`: {why:#}");
            }
        }
    }
    println!("Runs: {}, from seed {first}. Failed: {failed}.\n", args.times);
    print!("{}", table(&all));
    if failed > 0 {
        bail!("{failed} runs did not end as they should");
    }
    Ok(())
}

/// The program that was given, or one that is built now, with the tool that must not happen twice.
fn program(args: &KillArgs) -> Result<PathBuf> {
    if let Some(program) = &args.program {
        return program.canonicalize().with_context(|| format!("there is no `{}`", program.display()));
    }
    output(&mut cargo(["build", "--package", "cli", "--features", "agent/crash-points"]))?;
    super::built()
}

fn undisturbed(program: &Path, scene: Scene) -> Result<Kind> {
    let mut times = Vec::new();
    let mut whole: Option<(Wholes, usize)> = None;
    for _ in 0..UNDISTURBED {
        let mut world = World::new(program, &scene)?;
        let attempt = world.attempt(None, None)?;
        attempt.is_good()?;
        let now = (world.wholes()?, world.requests);
        verdict::compare(&now.0, &now.0)?;
        ensure!(whole.as_ref().is_none_or(|before| *before == now), "two runs that nobody disturbed differ");
        whole = Some(now);
        times.push(attempt.took);
    }
    times.sort();
    let (wholes, requests) = whole.context("it was never run")?;
    let open = match scene {
        Scene::Alone(_) => 1,
        Scene::Tree => {
            tree::is_told_once(&wholes)?;
            tree::AT_ONCE
        }
    };
    Ok(Kind { scene, takes: times[times.len() / 2], wholes, requests, open })
}

/// One run, killed and resumed until it is whole.
fn killed(program: &Path, kinds: &[Kind], seed: u64) -> Result<Killed> {
    let mut chance = fastrand::Rng::with_seed(seed);
    let kind = &kinds[chance.usize(..kinds.len())];
    let kills = chance.usize(1..=MOST_KILLS);
    let mut world = World::new(program, &kind.scene)?;
    let mut killed = Killed::default();
    let mut left = kind.takes;
    let mut run = None;
    loop {
        let after = (killed.moments.len() < kills).then(|| left.mul_f64(chance.f64()));
        let attempt = world.attempt(run.as_deref(), after)?;
        if !attempt.was_killed() {
            // Killed after its end was written down and before it said so: then there is nothing to go on with.
            if !attempt.found_it_completed() {
                attempt.is_good()?;
            }
            break;
        }
        // A resumed run has less to do.
        left = left.saturating_sub(after.unwrap_or_default()).max(kind.takes / 4);
        killed.moments.push(attempt.moment());
        let told = attempt.run();
        // Half of the time nobody looks before it goes on: whoever opens the journal mends it.
        if told.is_none() || chance.bool() {
            let shown = world.shown()?;
            world.check()?;
            attempt.is_kept(&shown)?;
            ensure!(!shown.is_empty() || run.is_none() && told.is_none(), "the run is gone");
            run = shown.into_iter().find(|(_, run)| run["run"]["parent"].is_null()).map(|(id, _)| id);
        } else {
            run = told;
        }
    }
    world.check()?;
    killed.may_have_run = verdict::compare(&world.wholes()?, &kind.wholes)?;
    let most = killed.moments.len() * kind.open;
    killed.asked_again = verdict::asked_again(world.requests, kind.requests, most)?;
    verdict::nothing_twice(&world.points(), &world.stamps())?;
    Ok(killed)
}

/// Where the kills hit.
fn table(all: &[Killed]) -> String {
    let mut moments = BTreeMap::<Moment, [usize; 2]>::new();
    for killed in all {
        for (nth, moment) in killed.moments.iter().enumerate() {
            moments.entry(*moment).or_default()[usize::from(nth > 0)] += 1;
        }
    }
    let mut text = "| killed | the first time | when resumed |\n|---|---:|---:|\n".to_owned();
    for (moment, [first, resumed]) in &moments {
        text.push_str(&format!("| {} | {first} | {resumed} |\n", moment.words()));
    }
    let sum = |count: fn(&Killed) -> usize| all.iter().map(count).sum::<usize>();
    let kills = sum(|killed| killed.moments.len());
    let first = sum(|killed| killed.moments.len().min(1));
    text.push_str(&format!("| **all** | {first} | {} |\n", kills - first));
    text.push_str(&format!(
        "\nKills: {kills}. Questions asked again: {}. Calls that may have run: {}.\n",
        sum(|killed| killed.asked_again),
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
        let killed =
            |moments: &[Moment]| Killed { moments: moments.to_vec(), asked_again: 1, may_have_run: 0 };
        let all = [killed(&[Moment::Starting, Moment::Asking]), killed(&[Moment::Calling]), killed(&[])];
        expect![[r#"
            | killed | the first time | when resumed |
            |---|---:|---:|
            | before it said anything | 1 | 0 |
            | while a model was to be asked, or had not said anything yet | 0 | 1 |
            | while tools were to be called, or were at work | 1 | 0 |
            | **all** | 2 | 1 |

            Kills: 3. Questions asked again: 3. Calls that may have run: 0.
        "#]]
        .assert_eq(&table(&all));
    }
}
