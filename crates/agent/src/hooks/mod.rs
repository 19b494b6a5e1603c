//! Hooks: commands that are asked before and after tool calls, and at the end of a turn.
//!
//! Start at [`HookSet`]. A hook gets JSON on its standard input ([`request`]), runs as a [`command`] with a time limit, and answers
//! with its exit code or with JSON on its standard output ([`answer`]). [`workspace_names`] decides whether it runs in the sandbox.
//! [`config`] reads the settings. What hooks may do to a run is decided in `hook_events`.

mod answer;
mod command;
mod config;
mod matcher;
mod request;
mod workspace_names;

#[cfg(test)]
mod tests;

pub(crate) use answer::{HookRecord, HookReply, StoredAnswer};
pub(crate) use command::ask;
pub(crate) use config::{Hook, HookTables};
pub use config::{HookSet, UnusedHook};
pub(crate) use request::{CallInput, HookRequest};

/// The events that hooks are asked about. The names are those of Claude Code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HookPoint {
    /// Before a tool call.
    PreToolUse,
    /// After a tool call that was made.
    PostToolUse,
    /// Before the main agent ends its turn.
    Stop,
    /// Before a sub-agent or a fork ends.
    SubagentStop,
}

impl HookPoint {
    const ALL: [Self; 4] = [Self::PreToolUse, Self::PostToolUse, Self::Stop, Self::SubagentStop];

    /// Returns its name in settings.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::PreToolUse => "PreToolUse",
            Self::PostToolUse => "PostToolUse",
            Self::Stop => "Stop",
            Self::SubagentStop => "SubagentStop",
        }
    }
}
