//! `cargo xtask bench agent`: time and memory of a run with our kernel and with other harnesses, and the durable steps per second
//! of the journal.

mod harnesses;
mod sample;
mod steps;
mod table;

use std::env;
use std::thread;

use anyhow::{Context, Result};
use clap::Args;

use super::target::offshoot_program;
use crate::command::{cargo, run as run_command};

/// Size of the measurement.
#[derive(Args)]
pub(crate) struct AgentArgs {
    /// Number of measurements of each target
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Measure only the journal
    #[arg(long)]
    steps_only: bool,
}

/// Measures harnesses and journal, and prints the tables.
pub(super) fn run(args: &AgentArgs) -> Result<()> {
    if cfg!(debug_assertions) {
        let rounds = args.rounds.to_string();
        let mut again = cargo(["run", "--release", "--quiet", "--package", "xtask", "--", "bench", "agent"]);
        again.args(["--rounds", &rounds]).args(args.steps_only.then_some("--steps-only"));
        return run_command(&mut again);
    }
    let here = env::current_exe()?;
    // Not in the system's temporary folder, which may be in memory.
    let folder = tempfile::Builder::new()
        .prefix("bench-")
        .tempdir_in(here.parent().context("a program is in a folder")?)
        .context("cannot create a folder for the measurement")?;
    let rows = match args.steps_only {
        true => Vec::new(),
        false => harnesses::measure(&offshoot_program()?, folder.path(), args.rounds)?,
    };
    let speeds = steps::measure(folder.path(), args.rounds)?;
    println!("Rounds: {}, cores: {}.\n", args.rounds, thread::available_parallelism()?);
    if !rows.is_empty() {
        println!("{}", table::harnesses(&rows));
    }
    println!("{}", table::steps(&speeds));
    print!("{}", table::aims(&rows, &speeds));
    Ok(())
}
