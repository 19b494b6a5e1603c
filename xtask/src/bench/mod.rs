//! `cargo xtask bench`: us and our peers, measured side by side.
//!
//! Figures from one machine mean little on the next, and little on the same machine an hour later. So all
//! targets are measured in turn, round after round, and what we read are the ratios. `docs/reference/performance.md`
//! says what is measured and how.

mod agent;
mod agents;
mod body;
mod chunked;
mod dumps;
mod fork;
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

use anyhow::{Context, Result};
use clap::{Args, Subcommand};

pub(crate) use upstream::{UpstreamArgs, serve as serve_upstream};

/// What can be measured.
#[derive(Subcommand)]
pub(crate) enum Bench {
    /// Our kernel, Claude Code and OpenCode on the same twenty reads; and the journal against SQLite alone
    Agent(agent::AgentArgs),
    /// A growing number of background sub-agents under one parent: time and memory
    Agents(agents::AgentsArgs),
    /// `offshoot cache` on a growing number of exchanges: time and memory
    Fork(fork::ForkArgs),
    /// Direct, nginx, `offshoot proxy` and mitmproxy: throughput, first byte, CPU, memory
    Proxy(ProxyArgs),
    /// `offshoot normalize` on a growing number of exchanges: time and memory
    Normalize(normalize::NormalizeArgs),
    /// nginx with a static file, `offshoot replay` and aimock: CPU, time, memory, and how even the answers are
    Replay(replay::ReplayArgs),
    /// `true` and `offshoot --version`, one after the other; and the size of the program
    Start(start::StartArgs),
    /// `offshoot verify` on a growing number of exchanges: time and memory
    Verify(verify::VerifyArgs),
}

/// How much to measure.
#[derive(Args)]
pub(crate) struct ProxyArgs {
    /// How often each target is measured at each number of connections
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Requests in one measurement
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    requests: u32,
}

impl Bench {
    /// Measures, and prints the result as Markdown.
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

/// Runs the client or the upstream, on as many threads as there are cores.
///
/// On a single thread each they would be the bottleneck of the direct way, and every target would look good.
fn on_runtime<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Runtime::new().context("could not start a runtime")?.block_on(work)
}
