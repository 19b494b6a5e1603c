//! What happens in a run, told to whoever watches.

mod fork_report;
mod json;

pub use fork_report::ForkReport;
pub use json::{EVENTS_FORMAT, usage_json, usd};

use std::sync::Arc;

use session::{CallId, RunId, Usage};
use store::{CallStatus, RunKind, RunStatus};

use crate::provider::BlockKind;

/// Somebody who watches.
pub trait EventSink: Send + Sync {
    /// Something happened. Nothing waits for what the watcher does with it, so it must not take long.
    fn emit(&self, event: &RunEvent);
}

/// Something that happened in a run.
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
    /// How far it is from the root.
    pub depth: u32,
    /// It is the one that somebody waits for, at the top of its tree.
    pub is_root: bool,
    /// What.
    pub kind: EventKind,
}

/// What happened. All but [`EventKind::Provisional`] and [`EventKind::Retrying`] is in the journal before it is told; a fork's journal
/// may be in memory.
#[derive(Clone, Debug)]
pub enum EventKind {
    /// A run is written down, and waits for a place among those at work.
    Queued {
        /// The run's place in the tree.
        kind: RunKind,
        /// The agent.
        agent: String,
    },
    /// The loop begins, or goes on.
    Started {
        /// The run's place in the tree.
        kind: RunKind,
        /// The agent.
        agent: String,
        /// The model.
        model: String,
        /// The call of its parent that started it.
        call: Option<CallId>,
        /// It works in the background, and its parent is told when it ends.
        is_job: bool,
        /// What it had come to, where it had been begun before.
        prior: Option<PriorUsage>,
    },
    /// A piece of a reply that is still on its way, and may never be whole.
    Provisional {
        /// What it is a piece of.
        part: BlockKind,
        /// The piece.
        text: String,
    },
    /// The reply that was on its way is not coming; what was shown of it does not count.
    Retrying {
        /// Which attempt failed, from 1.
        attempt: u32,
        /// What was wrong.
        error: String,
        /// How long until the next.
        wait_ms: u64,
    },
    /// A whole reply.
    Message {
        /// Its number in the run.
        seq: i64,
        /// The step it ends.
        step: u32,
        /// Its words.
        text: Option<String>,
        /// The calls it asks for.
        calls: Vec<(CallId, String)>,
        /// What it consumed.
        usage: Usage,
        /// What it cost, where the price is known.
        cost_microusd: Option<i64>,
    },
    /// A tool begins.
    CallStarted {
        /// The call.
        call: CallId,
        /// The tool.
        name: String,
        /// Its input, as the model wrote it.
        input: String,
    },
    /// A tool has answered.
    CallFinished {
        /// The call.
        call: CallId,
        /// The tool.
        name: String,
        /// Its input, as the model wrote it.
        input: String,
        /// How.
        status: CallStatus,
        /// Its words, as the model sees them.
        text: String,
        /// Why it was refused, where it was.
        reason: Option<String>,
        /// How long it took.
        ms: u64,
    },
    /// A command in the background made something that is protected.
    Disarmed {
        /// What, and what is called now.
        text: String,
    },
    /// Older messages were replaced by a summary.
    Compacted {
        /// The summary's number in the run.
        seq: i64,
    },
    /// The agent has nothing more to say, and waits for its jobs.
    Waiting {
        /// How many of them are at work.
        jobs: usize,
    },
    /// The agent is told of jobs that have ended.
    Woken {
        /// The message that tells it.
        seq: i64,
        /// The jobs.
        jobs: Vec<RunId>,
    },
    /// The journal could not be written while a fork was at work, nor when it ended. It has gone on in memory, and what was
    /// said in it is lost when its process ends.
    TranscriptLost {
        /// Why.
        error: String,
    },
    /// A fork has ended, and what it came to.
    ForkEnded(Box<ForkReport>),
    /// The loop has ended.
    Finished {
        /// Where the run stands.
        status: RunStatus,
        /// Its last words.
        final_text: Option<String>,
        /// Why it could not go on.
        error: Option<String>,
        /// What the run used, all its loops together.
        usage: Usage,
        /// What it cost, where all prices are known.
        cost_microusd: Option<i64>,
    },
}

/// What a run had used when it was taken up again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PriorUsage {
    /// Its own tokens.
    pub usage: Usage,
    /// What they cost, where all prices are known.
    pub cost_microusd: Option<i64>,
    /// How long it had worked.
    pub ms: u64,
}
