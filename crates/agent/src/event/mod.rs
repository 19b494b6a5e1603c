//! Events of runs.

mod fork_report;
mod json;

pub use fork_report::ForkReport;
pub use json::{EVENTS_FORMAT, usage_json, usd};

use std::sync::Arc;

use session::{CallId, RunId, Usage};
use store::{CallStatus, RunKind, RunStatus, TaskStatus};

use crate::provider::BlockKind;

/// Receives run events.
pub trait EventSink: Send + Sync {
    /// Receives an event. The run waits for this call, so it must not block.
    fn emit(&self, event: &RunEvent);
}

/// An event of a run.
#[derive(Clone, Debug)]
pub struct RunEvent {
    /// The run.
    pub run: RunId,
    /// The run that started it.
    pub parent: Option<RunId>,
    /// The chain of the run.
    pub chain: Arc<str>,
    /// The chain of the run that started it.
    pub parent_chain: Option<Arc<str>>,
    /// Its distance from the root.
    pub depth: u32,
    /// True if the run is at the top of its tree.
    pub is_root: bool,
    /// The kind of event, with its data.
    pub kind: EventKind,
}

/// A kind of event. All but [`EventKind::Provisional`] and [`EventKind::Retrying`] are in the journal before they are emitted.
/// A fork's journal may be in memory.
#[derive(Clone, Debug)]
pub enum EventKind {
    /// A run is in the journal and waits for a slot.
    Queued {
        /// The run's place in the tree.
        kind: RunKind,
        /// The agent.
        agent: String,
        /// The beginning of its assignment. `None` for a main run.
        subject: Option<String>,
    },
    /// The loop starts.
    Started {
        /// The run's place in the tree.
        kind: RunKind,
        /// The agent.
        agent: String,
        /// The model.
        model: String,
        /// The call of its parent that started it.
        call: Option<CallId>,
        /// True if it runs in the background.
        is_job: bool,
        /// The beginning of its assignment. `None` for a main run.
        subject: Option<String>,
        /// The usage of earlier loops, for a resumed run.
        prior: Option<PriorUsage>,
    },
    /// A part of a reply that may never be complete.
    Provisional {
        /// The kind of block.
        part: BlockKind,
        /// The text of the part.
        text: String,
    },
    /// An attempt failed. The parts of its reply are void.
    Retrying {
        /// 1-based attempt number.
        attempt: u32,
        /// The failure.
        error: String,
        /// Time until the next attempt.
        wait_ms: u64,
    },
    /// A complete reply.
    Message {
        /// Its message number in the run.
        seq: i64,
        /// Its step.
        step: u32,
        /// Its text.
        text: Option<String>,
        /// Its calls.
        calls: Vec<(CallId, String)>,
        /// Its usage.
        usage: Usage,
        /// Its cost, if the price is known.
        cost_microusd: Option<i64>,
    },
    /// A call starts.
    CallStarted {
        /// The call.
        call: CallId,
        /// The tool.
        name: String,
        /// Its input, as the model wrote it, or as hooks changed it.
        input: String,
    },
    /// A call has its result.
    CallFinished {
        /// The call.
        call: CallId,
        /// The tool.
        name: String,
        /// Its input, as the model wrote it.
        input: String,
        /// Its status.
        status: CallStatus,
        /// Its text, as the model sees it.
        text: String,
        /// The reason if it was denied.
        reason: Option<String>,
        /// Duration.
        ms: u64,
    },
    /// A hook was asked.
    Hook {
        /// Its event, as the settings name it.
        event: &'static str,
        /// Its command.
        command: String,
        /// The call that it was asked about.
        call: Option<CallId>,
        /// The tool of that call.
        tool: Option<String>,
        /// The outcome in one word.
        outcome: &'static str,
        /// The reason, or a text for the user.
        text: Option<String>,
        /// Duration.
        ms: u64,
    },
    /// The tasks of the conversation have changed.
    TasksChanged {
        /// All tasks in their order: name, status and subject.
        tasks: Vec<(String, TaskStatus, String)>,
    },
    /// A background command created a protected path, which was renamed.
    Disarmed {
        /// The path and its new name.
        text: String,
    },
    /// The provider rejected settings of the request. The run continues without them.
    SettingsDropped {
        /// The model.
        model: String,
        /// The names: `thinking`, `effort`.
        settings: Vec<&'static str>,
        /// The provider's refusal.
        error: String,
    },
    /// Older messages were replaced by a summary.
    Compacted {
        /// The summary's message number in the run.
        seq: i64,
    },
    /// The agent is done and waits for its jobs.
    Waiting {
        /// Number of jobs at work.
        jobs: usize,
    },
    /// The agent is notified of jobs that have ended.
    Woken {
        /// The number of the message.
        seq: i64,
        /// The jobs.
        jobs: Vec<RunId>,
    },
    /// A fork's journal could not be written, neither while it worked nor at its end. Its transcript is in memory and is lost
    /// when the process ends.
    TranscriptLost {
        /// The failure.
        error: String,
    },
    /// Side work has an answer, or failed.
    SideWork {
        /// Its name: `turn_summary`, `prompt_suggestion`, `session_memory` or `supervisor`.
        label: &'static str,
        /// The fork, if one was started.
        fork: Option<RunId>,
        /// The answer.
        text: Option<String>,
        /// The failure.
        error: Option<String>,
        /// True if the agent gets the answer of a supervisor as a reminder.
        is_reminder: bool,
    },
    /// A fork has ended.
    ForkEnded(Box<ForkReport>),
    /// The loop has ended.
    Finished {
        /// The status of the run.
        status: RunStatus,
        /// Its answer.
        final_text: Option<String>,
        /// Its last text, if it has no answer.
        partial_text: Option<String>,
        /// The reason for a status other than `completed`.
        error: Option<String>,
        /// Number of its calls that were denied.
        denied_calls: u64,
        /// The usage of the run and all runs below it.
        usage: Usage,
        /// Its cost, if all prices are known.
        cost_microusd: Option<i64>,
    },
}

/// The usage of a run before it was resumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PriorUsage {
    /// Its own tokens.
    pub usage: Usage,
    /// Its cost, if all prices are known.
    pub cost_microusd: Option<i64>,
    /// Its working time.
    pub ms: u64,
}
