//! Development commands, as `cargo xtask <verb>`: check, test, bench, soak.
//!
//! Start at [`Verb`]: one verb, one module. [`debian`], [`harnesses`] and [`deny`] install what a verb needs. A verb never
//! skips a check because something is missing.

#![allow(clippy::print_stdout, clippy::print_stderr)] // development commands print their results

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

/// Development commands.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Check formatting, lints, licences and duplicate dependencies
    Check,
    /// Run `check` and all tests; install what they need
    Test,
    /// Measure offshoot and comparable programs in turn
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Run long test matrices, whose results go into docs/reference/soak.md
    #[command(subcommand)]
    Soak(soak::Soak),
    /// Serve the scripted provider of `bench`
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
