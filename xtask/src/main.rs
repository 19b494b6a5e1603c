//! The chores of the house, as `cargo xtask <verb>`: check, test, bench, soak.
//!
//! Start at [`Verb`]: one verb, one module. What a verb needs and a machine may lack is installed by
//! [`debian`], [`harnesses`] or [`deny`]; a verb never skips a check because something is missing.

#![allow(clippy::print_stdout, clippy::print_stderr)] // a chore talks to the person who started it

mod bench;
mod cache;
mod check;
mod command;
mod debian;
mod deny;
mod harnesses;
mod provider;
mod soak;
mod test;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The chores of the house.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Formatting, lints, licences and duplicates of dependencies
    Check,
    /// `check`, then every test, installing what they need
    Test,
    /// Measure us against our peers, in one interleaved run
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Long matrices, whose dated tables go into `docs/`
    #[command(subcommand)]
    Soak(soak::Soak),
    /// The scripted provider that `bench` puts behind each target
    #[command(hide = true)]
    BenchUpstream(bench::UpstreamArgs),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().verb {
        Verb::Check => check::run_all(),
        Verb::Test => test::run_all(),
        Verb::Bench(bench) => bench.run(),
        Verb::Soak(soak) => soak.run(),
        Verb::BenchUpstream(args) => bench::serve_upstream(args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
