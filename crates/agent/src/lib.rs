//! Runs agents: one loop over a journal, the providers that answer it, and the tools it calls.
//!
//! Start at [`Kernel`], then read `agent_loop`. A module uses only the layers below its own:
//!
//! 1. entry points: `start`, `side_fork`
//! 2. the loop: `agent_loop`, `compact`, `calls`, `approval`, `hook_events`, `model_call`, `finish`
//! 3. the runs below a run: `sub_agents`, `end_tree`, `fork`, `spawn`, `messages`, `jobs`
//! 4. one run: `load`, `reminders`, `folder_notes`, `context`, `skill_limits`, `budget`, `run`, `tree`, `head`, `kernel`
//! 5. tools: `tools`, `mcp`, and their interface in `tool`, through which they reach layer 3
//! 6. values of a run: `conversation`, `settings`, `event`, `outcome`
//! 7. access: `definition`, `hooks`, `shell`, `workspace`, `permission`, and `provider` behind `model`
//! 8. the base: prompts, ids, errors, limits

mod agent_loop;
mod approval;
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
mod end_tree;
mod error;
mod event;
mod fence;
mod final_text;
mod finish;
mod folder_notes;
mod fork;
mod fork_agent;
mod fork_request;
mod future;
mod head;
mod hook_events;
mod hooks;
mod ids;
mod jobs;
mod kernel;
mod load;
mod mcp;
mod messages;
mod model;
mod model_call;
mod open_calls;
mod outcome;
mod permission;
mod picture;
mod preview;
mod prior;
mod process;
mod prompts;
pub mod provider;
mod reminders;
mod request;
mod run;
mod schema;
mod settings;
mod settings_fallback;
mod shell;
mod side_fork;
mod side_work;
mod skill_limits;
mod spawn;
mod start;
mod stop;
mod sub_agents;
pub mod tasks;
mod tool;
mod tool_names;
pub mod tools;
mod tree;
mod tree_limits;
mod trust;
mod workspace;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use agent_loop::ResumeOverrides;
pub use cache_warmup::CacheWarmup;
pub use clock::RunClock;
pub use crash::POINTS as CRASH_POINTS;
pub use defaults::RunDefaults;
pub use definition::Skill;
pub use end_tree::end_tree;
pub use error::RunError;
pub use event::{EVENTS_FORMAT, EventKind, EventSink, ForkReport, PriorUsage, RunEvent, usage_json, usd};
pub use fork::ForkPoint;
pub use fork_request::{ForkPermissions, ForkRequest, MessageListener};
pub use future::BoxFuture;
pub use hooks::{HookSet, UnusedHook};
pub use kernel::Kernel;
pub use mcp::{ServerConfig, ServerPaths, ToolServers};
pub use messages::user_message;
pub use model::ModelClient;
pub use outcome::RunOutcome;
pub use permission::{
    Approver, Decision, NoApprover, PermissionAnswer, PermissionQuestion, PermissionRules, RuleList,
    workspace_settings,
};
pub use process::is_lease_holder_alive;
pub use prompts::NO_FINAL_TEXT;
pub use request::rebuild_request;
pub use settings::{ForkSettings, RunLimits, RunSettings};
pub use shell::{Processes, ShellConfig, run_sandbox_step};
pub use side_fork::ForkOutcome;
pub use side_work::{AgentSupervisor, SideWork, SideWorker};
pub use start::StartRequest;
pub use stop::{StopHandle, StopRequest, StopSignal};
pub use tool::{Digest, Policy, SeenFile, Tool, ToolContext, ToolOutput, Toolbox};
pub use tree_limits::TreeLimits;
pub use workspace::{Workspace, WorkspaceError};
