//! Values that writes take.

use std::path::PathBuf;

use session::{CallId, Role, RunId, TaskId, ThreadId, ToolResult, Usage};

use crate::{
    CallKey, CallStatus, Digest, Head, HookEvent, InboxId, InboxKind, Millis, Origin, Policy, Purpose,
    RunKind, RunStatus, Seq, TaskStatus,
};

/// A conversation to create.
#[derive(Clone, Debug)]
pub struct NewThread {
    /// Its id.
    pub id: ThreadId,
    /// Its title.
    pub title: String,
    /// The folder it works in.
    pub workspace: String,
}

/// The conversation of a new run.
#[derive(Clone, Debug)]
pub enum RunThread {
    /// A conversation that starts with this run.
    New(NewThread),
    /// An existing conversation.
    Existing(ThreadId),
}

/// A run to start.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// Its id.
    pub id: RunId,
    /// The conversation.
    pub thread: RunThread,
    /// Its kind.
    pub kind: RunKind,
    /// The run that starts it; `None` for a main run.
    pub parent: Option<RunId>,
    /// The task it works on.
    pub task: Option<TaskId>,
    /// The parent's tool call that started it.
    pub spawned_by: Option<CallId>,
    /// True if it is a job: it runs in the background and owes its parent a result.
    pub background: bool,
    /// The agent's name.
    pub agent: String,
    /// The model.
    pub model: String,
    /// The provider.
    pub provider: String,
    /// Further settings that are needed to resume it, as JSON. Not interpreted here.
    pub settings: Vec<u8>,
    /// The chain id of its events.
    pub chain: String,
    /// Its distance from the root; 0 for a main run.
    pub depth: u32,
    /// Its fork point, if it is a fork.
    pub fork: Option<NewFork>,
    /// The first messages.
    pub messages: Vec<NewMessage>,
    /// The current time.
    pub at: Millis,
}

/// The fork point of a new run.
#[derive(Clone, Debug)]
pub struct NewFork {
    /// The run whose messages it starts with.
    pub of: RunId,
    /// The digest of that run's request head.
    pub head: Digest,
    /// The first of those messages.
    pub from: Seq,
    /// The last of those messages: the parent's reply.
    pub to: Seq,
    /// True if it is a run tree of its own, which another process may write than its parent's.
    pub alone: bool,
    /// True if it starts with its parent's known files.
    pub knows_files: bool,
    /// Its label.
    pub label: String,
    /// The feature that starts it.
    pub source: String,
}

/// A message to append. The store assigns its number.
#[derive(Clone, Debug)]
pub struct NewMessage {
    /// Its role.
    pub role: Role,
    /// The reason why it is in the run.
    pub origin: Origin,
    /// Its exact JSON in requests.
    pub bytes: Vec<u8>,
    /// Its readable and searchable text; `None` if there is none.
    pub text: Option<String>,
    /// The current time.
    pub at: Millis,
}

/// A model call, stored before its request is sent.
#[derive(Clone, Debug)]
pub struct NewModelCall {
    /// The run that makes it.
    pub run: RunId,
    /// The step of the run.
    pub step: u32,
    /// The purpose of the request.
    pub purpose: Purpose,
    /// The request up to its messages.
    pub head: Head,
    /// The first message of the request.
    pub from: Seq,
    /// The last message of the request, if it is not the run's last after `results` is appended.
    pub to: Option<Seq>,
    /// The positions of the cache markers. The format is the loop's.
    pub marks: String,
    /// The digest of the whole request body.
    pub request_sha256: Digest,
    /// Its length in bytes.
    pub request_len: u64,
    /// The model.
    pub model: String,
    /// The provider.
    pub provider: String,
    /// The highest possible cost, reserved until the call ends.
    pub reserved_microusd: i64,
    /// The highest possible number of tokens, reserved like the cost.
    pub reserved_tokens: u64,
    /// The limits of this run and the runs above it. Each includes the runs below.
    pub within: Vec<Limit>,
    /// A message to append in the same transaction, usually the tool results.
    pub results: Option<NewMessage>,
    /// The inbox entries that this message delivers, marked in the same transaction.
    pub delivers: Vec<InboxId>,
    /// The current time.
    pub at: Millis,
}

/// The budget of a run and all runs below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The run.
    pub run: RunId,
    /// Cost limit.
    pub microusd: Option<i64>,
    /// Limit of input and output tokens.
    pub tokens: Option<u64>,
}

/// One HTTP request of a model call and its response.
#[derive(Clone, Debug)]
pub struct NewAttempt {
    /// The HTTP status, if one was received.
    pub status: Option<u16>,
    /// Its ending in one word.
    pub ending: String,
    /// The error.
    pub error: Option<String>,
    /// The delay that the provider asked for before a retry.
    pub retry_after_ms: Option<i64>,
    /// The response body as received.
    pub response: Vec<u8>,
    /// Time at which it was sent.
    pub started_at: Millis,
    /// Time of the first byte of the response.
    pub first_byte_at: Option<Millis>,
    /// Time at which it ended.
    pub ended_at: Millis,
}

/// The complete reply to a model call.
#[derive(Clone, Debug)]
pub struct NewReply {
    /// The accumulated response body.
    pub reply: Vec<u8>,
    /// The tokens it used.
    pub usage: Usage,
    /// Its cost, if the price is known.
    pub cost_microusd: Option<i64>,
    /// The reply as a message of the run; `None` for a summary, which becomes one in
    /// [`compact_messages`](crate::Store::compact_messages).
    pub message: Option<NewMessage>,
    /// The tool calls in the reply, in order.
    pub calls: Vec<NewToolCall>,
}

/// A tool call in a reply.
#[derive(Clone, Debug)]
pub struct NewToolCall {
    /// The call id that the model chose.
    pub call: CallId,
    /// The tool's name.
    pub name: String,
    /// The arguments, exactly as the model wrote them.
    pub input: Vec<u8>,
    /// The action allowed if the call's end is never seen.
    pub policy: Policy,
}

/// The end of a tool call.
#[derive(Clone, Debug)]
pub struct FinishedCall {
    /// The call.
    pub key: CallKey,
    /// Its status; never an open one.
    pub status: CallStatus,
    /// The whole result.
    pub result: ToolResult,
    /// The shortened result that the model sees instead of a long one.
    pub preview: Option<String>,
    /// The files that the run knows now.
    pub seen: Vec<SeenFile>,
    /// The instructions of folders that the model gets with the result.
    pub folders: Vec<FolderText>,
    /// The current time.
    pub at: Millis,
}

/// Instructions of a folder, as a model gets them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderText {
    /// The folder within the workspace.
    pub folder: PathBuf,
    /// The text.
    pub text: String,
}

/// The answer of the hooks of one event.
#[derive(Clone, Debug)]
pub struct NewHookAnswer {
    /// The run.
    pub run: RunId,
    /// The message with the call, or the last message of the turn.
    pub message: Seq,
    /// The position of the call in the message; `None` at the end of a turn.
    pub position: Option<u32>,
    /// The event.
    pub event: HookEvent,
    /// The answer as JSON.
    pub answer: Vec<u8>,
    /// The new input of the call, if the hooks changed it.
    pub input: Option<Vec<u8>>,
    /// The current time.
    pub at: Millis,
}

/// A known file of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenFile {
    /// Its path in the workspace, with links resolved.
    pub path: PathBuf,
    /// The digest of its content.
    pub sha256: Digest,
}

/// The end of a run, or a pause.
#[derive(Clone, Debug)]
pub struct RunEnd {
    /// The new status; never a live one.
    pub status: RunStatus,
    /// Its answer.
    pub final_text: Option<String>,
    /// Its last text, if it has no answer.
    pub partial_text: Option<String>,
    /// The error.
    pub error: Option<String>,
    /// True if the answer fails the requested output schema. It is then no result of the task.
    pub misfits: bool,
    /// The outcome, if it is a fork.
    pub fork: Option<ForkEnd>,
    /// The current time.
    pub at: Millis,
}

/// The runs of a tree to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelScope {
    /// A run and all runs below it.
    Tree,
    /// Only the runs below it.
    Descendants,
}

/// The data to record for a run that is ended from outside its loop.
#[derive(Clone, Debug, Default)]
pub struct FinalRecord {
    /// Its last text, if it has no answer.
    pub partial_text: Option<String>,
    /// The outcome, if it is a fork.
    pub fork: Option<ForkEnd>,
    /// Results for its calls that have none and will not run.
    pub results: Vec<FinishedCall>,
}

/// The outcome of a fork.
#[derive(Clone, Debug)]
pub struct ForkEnd {
    /// The outcome as JSON.
    pub event: String,
    /// If set, deletes the fork's messages and texts but keeps its usage. The value replaces its settings,
    /// without those that describe the fork's request.
    pub forget: Option<Vec<u8>>,
}

/// An entry to add to a run's inbox.
#[derive(Clone, Debug)]
pub struct NewInboxEntry {
    /// The run.
    pub run: RunId,
    /// Its kind.
    pub kind: InboxKind,
    /// The tool call that sends it. A call that is repeated adds nothing.
    pub sent_by: Option<CallKey>,
    /// Its content.
    pub body: Vec<u8>,
    /// The current time.
    pub at: Millis,
}

/// A task to create.
#[derive(Clone, Debug)]
pub struct NewTask {
    /// Its id.
    pub id: TaskId,
    /// The conversation.
    pub thread: ThreadId,
    /// Its subject, in a few words.
    pub subject: String,
    /// The work to do.
    pub description: String,
    /// The current time.
    pub at: Millis,
}

/// Changes to a task; `None` leaves a field unchanged.
#[derive(Clone, Debug, Default)]
pub struct TaskChange {
    /// The subject.
    pub subject: Option<String>,
    /// The work to do.
    pub description: Option<String>,
    /// The status.
    pub status: Option<TaskStatus>,
    /// The result.
    pub result: Option<String>,
    /// The position in the list, from 0.
    pub position: Option<u32>,
}
