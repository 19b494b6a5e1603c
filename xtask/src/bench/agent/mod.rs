//! `cargo xtask bench agent`: what it takes to run an agent, with our kernel and with others, and how many durable
//! steps a second the journal under it takes.

mod harnesses;
mod steps;
mod table;

use std::env;
use std::thread;

use anyhow::{Context, Result};
use clap::Args;

use super::target::offshoot_program;
use crate::command::{cargo, run as run_command};

/// How much to measure.
#[derive(Args)]
pub(crate) struct AgentArgs {
    /// How often each is measured
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Only the journal, no harness
    #[arg(long)]
    steps_only: bool,
}

/// Measures all of it, and prints the tables.
pub(super) fn run(args: &AgentArgs) -> Result<()> {
    if cfg!(debug_assertions) {
        let rounds = args.rounds.to_string();
        let mut again = cargo(["run", "--release", "--quiet", "--package", "xtask", "--", "bench", "agent"]);
        again.args(["--rounds", &rounds]).args(args.steps_only.then_some("--steps-only"));
        return run_command(&mut again);
    }
    let here = env::current_exe()?;
    // Beside the program, not in the system's temporary folder: that may be memory, and a journal's disk is not.
    let folder = tempfile::Builder::new()
        .prefix("bench-")
        .tempdir_in(here.parent().context("a program lies in a folder")?)
        .context("could not create a folder to measure in")?;
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
