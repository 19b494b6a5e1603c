//! Values that reads return.

use std::path::PathBuf;

use session::{CallId, Role, RunId, TaskId, ThreadId, ToolResult, Usage};

use crate::{
    CallKey, CallStatus, Cursor, Digest, HookEvent, InboxId, InboxKind, Lease, Millis, ModelCallId,
    ModelCallStatus, Origin, Policy, Purpose, RunKind, RunStatus, Seq, TaskStatus,
};

/// A conversation, as lists show it.
#[derive(Clone, Debug, PartialEq)]
pub struct Thread {
    /// Its id.
    pub id: ThreadId,
    /// Its title.
    pub title: String,
    /// The folder it works in.
    pub workspace: String,
    /// Time of creation.
    pub created_at: Millis,
    /// Time of the last change.
    pub updated_at: Millis,
    /// Its newest main run with its status.
    pub last_run: Option<(RunId, RunStatus)>,
    /// Number of prompts and replies.
    pub messages: u64,
    /// The beginning of its last reply.
    pub preview: Option<String>,
}

/// Some messages of a conversation: prompts of the user and replies of main agents.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadPage {
    /// The title of the conversation.
    pub title: String,
    /// Number of messages of the whole conversation.
    pub total: u64,
    /// The messages, oldest first.
    pub messages: Vec<SaidMessage>,
}

/// A prompt or a reply.
#[derive(Clone, Debug, PartialEq)]
pub struct SaidMessage {
    /// Its number in the conversation, from 1.
    pub number: u64,
    /// The author's role.
    pub role: Role,
    /// Time at which it was stored.
    pub at: Millis,
    /// Its text.
    pub text: String,
}

/// A conversation with its main runs and their usage.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionInfo {
    /// The conversation.
    pub thread: Thread,
    /// Its main runs, oldest first.
    pub runs: Vec<Run>,
    /// Number of messages that the user sees.
    pub messages: u64,
    /// Usage of the main runs alone. [`Store::runs`](crate::Store::runs) includes the runs below them.
    pub totals: UsageTotals,
}

/// The row of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Its id.
    pub id: RunId,
    /// The conversation.
    pub thread: ThreadId,
    /// Its kind.
    pub kind: RunKind,
    /// The root of its run tree; a main run is its own root.
    pub root: RunId,
    /// The run that started it.
    pub parent: Option<RunId>,
    /// The task it works on.
    pub task: Option<TaskId>,
    /// The parent's tool call that started it.
    pub spawned_by: Option<CallId>,
    /// The agent's name.
    pub agent: String,
    /// The model.
    pub model: String,
    /// The provider.
    pub provider: String,
    /// Its status.
    pub status: RunStatus,
    /// Its answer.
    pub final_text: Option<String>,
    /// Its last text, if it has ended or is paused without an answer.
    pub partial_text: Option<String>,
    /// The error that ended it.
    pub error: Option<String>,
    /// Further settings that are needed to resume it.
    pub settings: Vec<u8>,
    /// The chain id of its events.
    pub chain: String,
    /// Its distance from the root.
    pub depth: u32,
    /// The first message that is still in the model's context.
    pub context_from: Seq,
    /// Time of creation.
    pub created_at: Millis,
    /// Time at which its loop last started.
    pub started_at: Millis,
    /// Time at which its loop ended.
    pub ended_at: Option<Millis>,
    /// The process that writes its tree. Only a root's row has one.
    pub writer: Option<Lease>,
    /// Time of the last change.
    pub updated_at: Millis,
}

/// A message of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredMessage {
    /// Its number in the run.
    pub seq: Seq,
    /// Its role.
    pub role: Role,
    /// The reason why it is in the run.
    pub origin: Origin,
    /// Its exact JSON in requests.
    pub bytes: Vec<u8>,
    /// Its readable text.
    pub text: Option<String>,
    /// The model call that produced it.
    pub model_call: Option<ModelCallId>,
    /// Time at which it was stored.
    pub at: Millis,
}

/// A message as the user sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct MainMessage {
    /// Its position. Pass the last one to [`live_messages`](crate::MainReads::live_messages) to read on.
    pub cursor: Cursor,
    /// The main run it belongs to.
    pub run: RunId,
    /// The message.
    pub message: StoredMessage,
}

/// A model call.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelCall {
    /// Its id.
    pub id: ModelCallId,
    /// The run that made it.
    pub run: RunId,
    /// The step of the run.
    pub step: u32,
    /// The purpose of the request.
    pub purpose: Purpose,
    /// The digest of the request's head.
    pub head: Digest,
    /// The first message of the request.
    pub from: Seq,
    /// The last message of the request.
    pub to: Seq,
    /// The positions of the cache markers.
    pub marks: String,
    /// The digest of the whole request body.
    pub request_sha256: Digest,
    /// The length of the request body in bytes.
    pub request_len: u64,
    /// The model.
    pub model: String,
    /// The provider.
    pub provider: String,
    /// Its status.
    pub status: ModelCallStatus,
    /// The error, if it was given up.
    pub error: Option<String>,
    /// The tokens it used.
    pub usage: Usage,
    /// Its cost, if the price is known.
    pub cost_microusd: Option<i64>,
    /// The cost that was reserved for it.
    pub reserved_microusd: i64,
    /// Time at which it was stored, before the request was sent.
    pub asked_at: Millis,
    /// Time of the first byte of the response.
    pub first_byte_at: Option<Millis>,
    /// Time at which it was answered or given up.
    pub ended_at: Option<Millis>,
    /// The accumulated response body.
    pub reply: Option<Vec<u8>>,
}

/// One HTTP request of a model call and its response.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// Its number within the model call, from 1.
    pub n: u32,
    /// The HTTP status, if one was received.
    pub status: Option<u16>,
    /// Its ending in one word.
    pub ending: String,
    /// The error.
    pub error: Option<String>,
    /// The delay that the provider asked for before a retry.
    pub retry_after_ms: Option<i64>,
    /// Time at which it was sent.
    pub started_at: Millis,
    /// Time of the first byte of the response.
    pub first_byte_at: Option<Millis>,
    /// Time at which it ended. An attempt without an end is open, or its process was killed.
    pub ended_at: Option<Millis>,
    /// The response bytes as received.
    pub response: Vec<u8>,
}

/// A tool call.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredToolCall {
    /// Its position in the run.
    pub key: CallKey,
    /// The call id that the model chose.
    pub call: CallId,
    /// The tool's name.
    pub name: String,
    /// The arguments: as the model wrote them, or as hooks changed them.
    pub input: Vec<u8>,
    /// The action allowed if the call's end is never seen.
    pub policy: Policy,
    /// Its status.
    pub status: CallStatus,
    /// The whole result.
    pub result: Option<ToolResult>,
    /// The shortened result that the model sees instead.
    pub preview: Option<String>,
    /// Time at which it last started.
    pub started_at: Option<Millis>,
    /// Time at which it ended.
    pub ended_at: Option<Millis>,
}

/// An answer of hooks.
#[derive(Clone, Debug, PartialEq)]
pub struct HookAnswer {
    /// The message with the call, or the last message of the turn.
    pub message: Seq,
    /// The position of the call in the message; `None` at the end of a turn.
    pub position: Option<u32>,
    /// The event.
    pub event: HookEvent,
    /// The answer as JSON.
    pub answer: Vec<u8>,
    /// Time at which it was stored.
    pub at: Millis,
}

/// The instructions of a folder that a run has got.
#[derive(Clone, Debug, PartialEq)]
pub struct FolderNote {
    /// The call that first read a file there.
    pub call: CallKey,
    /// The folder within the workspace.
    pub folder: PathBuf,
    /// The text.
    pub text: String,
}

/// The state that a resumed loop starts from, read in one transaction.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSnapshot {
    /// The run.
    pub run: Run,
    /// The messages in the model's context, in order.
    pub messages: Vec<StoredMessage>,
    /// The number of the run's last message, in the context or not.
    pub last_seq: Option<Seq>,
    /// The last model call. A call with status `asked` has no reply. An answered `summary` whose message is
    /// missing has not been used yet.
    pub last_call: Option<ModelCall>,
    /// All tool calls of the last reply in order, with and without a result.
    pub calls: Vec<StoredToolCall>,
}

/// An entry of an inbox.
#[derive(Clone, Debug, PartialEq)]
pub struct InboxEntry {
    /// Its id.
    pub id: InboxId,
    /// Its kind.
    pub kind: InboxKind,
    /// The job it reports on.
    pub job: Option<RunId>,
    /// Its content.
    pub body: Vec<u8>,
    /// Time at which it arrived.
    pub at: Millis,
}

/// A run in the background.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// The job's run.
    pub run: RunId,
    /// The run that gets its result.
    pub parent: RunId,
    /// The call that started it.
    pub call: Option<CallId>,
    /// The run's status.
    pub status: RunStatus,
    /// Time at which the job started.
    pub created_at: Millis,
    /// Time at which its result was stored; `None` while the result is owed.
    pub ended_at: Option<Millis>,
}

/// A run and, if it is a job, the state of its result, as its parent reads them on resume.
#[derive(Clone, Debug, PartialEq)]
pub struct Child {
    /// Its row.
    pub run: Run,
    /// For a job, whether it still owes its result; `None` for other runs.
    pub owes: Option<bool>,
}

/// A run that has worked on a task, and its answer.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskAttempt {
    /// The run.
    pub run: RunId,
    /// Its status.
    pub status: RunStatus,
    /// The error, if it failed.
    pub error: Option<String>,
    /// Its answer.
    pub final_text: Option<String>,
}

/// A time at which a run went on after a pause or a killed process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resumption {
    /// The time.
    pub at: Millis,
    /// The run's status before. After a killed process, it is a live one.
    pub status: RunStatus,
}

/// A fork point and the fork's outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct Fork {
    /// The run whose messages it starts with.
    pub of: RunId,
    /// The digest of that run's request head.
    pub head: Digest,
    /// The first of those messages.
    pub from: Seq,
    /// The last of those messages: the parent's reply.
    pub to: Seq,
    /// Its label.
    pub label: String,
    /// The feature that started it.
    pub source: String,
    /// Its outcome as JSON.
    pub ended: Option<String>,
}

/// A task.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Its id.
    pub id: TaskId,
    /// The conversation.
    pub thread: ThreadId,
    /// Its subject, in a few words.
    pub subject: String,
    /// The work to do.
    pub description: String,
    /// Its status.
    pub status: TaskStatus,
    /// Its result.
    pub result: Option<String>,
    /// Its position in the list.
    pub position: u32,
    /// Time of creation.
    pub created_at: Millis,
    /// Time of the last change.
    pub updated_at: Millis,
}

/// A memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    /// Its conversation; `None` for all conversations.
    pub thread: Option<ThreadId>,
    /// Its name.
    pub name: String,
    /// Its text.
    pub text: String,
    /// Time of the last change.
    pub updated_at: Millis,
}

/// A message that matches a search.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchHit {
    /// The conversation.
    pub thread: ThreadId,
    /// The title of the conversation.
    pub title: String,
    /// The main run.
    pub run: RunId,
    /// The message.
    pub seq: Seq,
    /// Its number among the prompts and replies of the conversation, from 1.
    pub number: u64,
    /// The message's role.
    pub role: Role,
    /// The text around the match, with the matched words in `[` and `]`.
    pub snippet: String,
    /// Time at which the message was stored.
    pub at: Millis,
}

/// Usage of model calls, added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageTotals {
    /// Number of model calls.
    pub calls: u64,
    /// Number of answered calls whose cost is unknown, and of requests that were open when a process was killed.
    pub unpriced: u64,
    /// Number of open calls of live runs. If their process was killed, their cost is unknown, too.
    pub open: u64,
    /// Tokens of all calls.
    pub usage: Usage,
    /// Cost of all calls with a known price.
    pub cost_microusd: i64,
    /// Cost reserved for calls without a reply.
    pub reserved_microusd: i64,
}

impl std::ops::AddAssign for UsageTotals {
    fn add_assign(&mut self, more: Self) {
        self.calls += more.calls;
        self.unpriced += more.unpriced;
        self.open += more.open;
        self.usage += more.usage;
        self.cost_microusd += more.cost_microusd;
        self.reserved_microusd += more.reserved_microusd;
    }
}

/// A run in a list, with its status and usage but none of its text.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSummary {
    /// Its id.
    pub id: RunId,
    /// The conversation.
    pub thread: ThreadId,
    /// Title of the conversation.
    pub title: String,
    /// Its kind.
    pub kind: RunKind,
    /// The root of its run tree.
    pub root: RunId,
    /// The run that started it.
    pub parent: Option<RunId>,
    /// True if it is a job.
    pub job: bool,
    /// The kind of side work, if it is a fork for that.
    pub side_work: Option<String>,
    /// The agent's name.
    pub agent: String,
    /// The model.
    pub model: String,
    /// The provider.
    pub provider: String,
    /// Its status.
    pub status: RunStatus,
    /// The process that writes its tree; the same for each run of the tree.
    pub writer: Option<Lease>,
    /// Time of creation.
    pub created_at: Millis,
    /// Time at which its loop ended.
    pub ended_at: Option<Millis>,
    /// Usage of the run alone.
    pub own: UsageTotals,
    /// Usage of the run and all runs below it.
    pub inclusive: UsageTotals,
}
