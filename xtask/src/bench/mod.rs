//! `cargo xtask bench`: measures offshoot and comparable programs.
//!
//! Absolute figures depend on the machine and its load. So all targets are measured in turn, round after round, and the ratios
//! count. `docs/reference/performance.md` describes the measurements.

mod agent;
mod agents;
mod body;
mod chunked;
mod dumps;
mod fork;
mod growth;
mod load;
mod normalize;
mod process;
mod proxy;
mod replay;
mod server;
mod start;
mod table;
mod target;
mod traffic;
mod upstream;
mod verify;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};

pub(crate) use upstream::{UpstreamArgs, serve as serve_upstream};

/// A benchmark.
#[derive(Subcommand)]
pub(crate) enum Bench {
    /// Measure our kernel, Claude Code and OpenCode with twenty reads; and the journal against plain SQLite
    Agent(agent::AgentArgs),
    /// Measure time and memory of a growing number of background sub-agents under one parent
    Agents(agents::AgentsArgs),
    /// Measure time and memory of `offshoot cache` with a growing number of exchanges
    Fork(fork::ForkArgs),
    /// Measure throughput, first byte, CPU and memory of nginx, `offshoot proxy` and mitmproxy
    Proxy(ProxyArgs),
    /// Measure time and memory of `offshoot normalize` with a growing number of exchanges
    Normalize(normalize::NormalizeArgs),
    /// Measure CPU, time, memory and equality of responses of nginx, `offshoot replay` and aimock
    Replay(replay::ReplayArgs),
    /// Measure the start of `offshoot --version` and of `true`, and the size of the program
    Start(start::StartArgs),
    /// Measure time and memory of `offshoot verify` with a growing number of exchanges
    Verify(verify::VerifyArgs),
}

/// Size of the measurement.
#[derive(Args)]
pub(crate) struct ProxyArgs {
    /// Number of measurements of each target for each number of connections
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Number of requests in one measurement
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    requests: u32,
    /// Also measure this `offshoot`, usually the version before
    #[arg(long, value_name = "PROGRAM")]
    before: Option<PathBuf>,
}

impl Bench {
    /// Runs the benchmark, and prints the result as Markdown.
    pub(crate) fn run(self) -> Result<()> {
        match self {
            Bench::Agent(args) => agent::run(&args),
            Bench::Agents(args) => agents::run(&args),
            Bench::Fork(args) => fork::run(&args),
            Bench::Proxy(args) => proxy::run(&args),
            Bench::Normalize(args) => normalize::run(&args),
            Bench::Replay(args) => replay::run(&args),
            Bench::Start(args) => start::run(&args),
            Bench::Verify(args) => verify::run(&args),
        }
    }
}

/// Runs the client or the upstream on a thread per core.
///
/// With a single thread they would be the bottleneck, and all targets would look good.
fn on_runtime<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Runtime::new().context("cannot start a runtime")?.block_on(work)
}
