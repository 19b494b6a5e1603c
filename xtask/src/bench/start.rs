//! `cargo xtask bench start`: start time and size of our program.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;

use super::target::offshoot_program;
use crate::command::{cargo, run as run_command};

/// Maximum additional time compared with `true`, in milliseconds.
const MAX_LATER_MS: f64 = 10.0;
/// Maximum size in millions of bytes.
const MAX_SIZE_MB: f64 = 30.0;

/// Size of the measurement.
#[derive(Args)]
pub(crate) struct StartArgs {
    /// Number of starts of each program
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

/// Starts both in turn, and prints the table.
pub(super) fn run(args: &StartArgs) -> Result<()> {
    if cfg!(debug_assertions) {
        let rounds = args.rounds.to_string();
        return run_command(
            cargo(["run", "--release", "--quiet", "--package", "xtask", "--", "bench", "start"])
                .args(["--rounds", &rounds]),
        );
    }
    let offshoot = offshoot_program()?;
    let size = fs::metadata(&offshoot).context("cannot read the program")?.len();
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    // The first start of each reads it from the disk.
    for round in 0..=args.rounds {
        let (nothing, version) = (start(Path::new("true"), &[])?, start(&offshoot, &["--version"])?);
        if round > 0 {
            theirs.push(nothing);
            ours.push(version);
        }
    }
    print!("{}", table(median(&mut theirs), median(&mut ours), size));
    Ok(())
}

/// Measures the time of a program from its start to its end.
fn start(program: &Path, arguments: &[&str]) -> Result<Duration> {
    let begun = Instant::now();
    let status = Command::new(program).args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).status();
    let status = status.with_context(|| format!("cannot start `{}`", program.display()))?;
    let took = begun.elapsed();
    ensure!(status.success(), "`{}` ended with {status}", program.display());
    Ok(took)
}

/// Returns the median in milliseconds.
fn median(times: &mut [Duration]) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 2).map_or(0.0, |time| time.as_secs_f64() * 1e3)
}

fn table(theirs: f64, ours: f64, size: u64) -> String {
    let met = |met: bool| if met { "met" } else { "**missed**" };
    let (later, size) = (ours - theirs, size as f64 / 1e6);
    format!(
        "| `true` | `offshoot --version` | later | aim | | size, stripped | aim | |\n\
         |---:|---:|---:|---|---|---:|---|---|\n\
         | {theirs:.2} ms | {ours:.2} ms | {later:.2} ms | under {MAX_LATER_MS} ms | {} | {size:.1} MB | under {MAX_SIZE_MB} MB | {} |\n",
        met(later < MAX_LATER_MS),
        met(size < MAX_SIZE_MB),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_aims_are_marked() {
        let ms = Duration::from_millis;
        assert_eq!(median(&mut [ms(30), ms(1), ms(2)]), 2.0);
        let good = table(1.0, 3.5, 20_000_000);
        assert!(good.contains("| 2.50 ms | under 10 ms | met | 20.0 MB | under 30 MB | met |"), "{good}");
        assert_eq!(table(1.0, 12.0, 31_000_000).matches("**missed**").count(), 2);
    }
}
