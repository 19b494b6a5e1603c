//! Runs agents: one loop over a journal, the providers it asks and the tools it calls.
//!
//! Start at [`Kernel`], and then at `agent_loop` in `kernel.rs`, which is all there is to it. A run is started or resumed in the
//! journal first; the loop reads it, asks, calls, and writes down each step before it is taken.

mod ask;
mod begin;
#[doc(hidden)]
pub mod bench;
mod budget;
mod cache_warmup;
mod calls;
mod clock;
mod compact;
mod context;
mod conversation;
mod crash;
mod defaults;
pub mod definition;
mod error;
mod event;
mod fence;
mod fork;
mod jobs;
mod kernel;
mod mcp;
mod model;
mod narrow;
mod permission;
mod picture;
mod preview;
mod process;
pub mod provider;
mod request;
mod run;
mod schema;
mod settings;
mod shell;
mod spawn;
mod spoken;
mod stop;
pub mod tasks;
mod tool;
pub mod tools;
mod tree;
mod tree_limits;
mod turns;
mod words;
mod workspace;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use cache_warmup::CacheWarmup;
pub use clock::RunClock;
pub use crash::POINTS as CRASH_POINTS;
pub use defaults::RunDefaults;
pub use definition::Skill;
pub use error::RunError;
pub use event::{EVENTS_FORMAT, EventKind, EventSink, PriorUsage, RunEvent, usage_json, usd};
pub use fork::{
    ForkOutcome, ForkPermissions, ForkPoint, ForkReport, ForkRequest, ForkSettings, MessageListener,
};
pub use jobs::end_tree;
pub use kernel::{Kernel, ResumeOverrides, RunOutcome, StartRequest};
pub use mcp::{ServerConfig, ServerPaths, ToolServers};
pub use model::ModelClient;
pub use permission::{Answer, Asker, Judgement, List, NobodyToAsk, Question, Rules};
pub use process::is_lease_holder_alive;
pub use request::rebuild_request;
pub use settings::{RunLimits, RunSettings};
pub use shell::{Processes, ShellConfig, run_sandbox_step};
pub use stop::{StopHandle, StopRequest, StopSignal};
pub use tool::{BoxFuture, Digest, Policy, SeenFile, Tool, ToolContext, ToolOutput, Toolbox};
pub use tree_limits::TreeLimits;
pub use words::NO_FINAL_TEXT;
pub use workspace::{Workspace, WorkspaceError};
