//! What a read brings back.

use session::{CallId, Role, RunId, TaskId, ThreadId, ToolResult, Usage};

use crate::{
    CallKey, CallStatus, Cursor, Digest, InboxId, InboxKind, Lease, Millis, ModelCallId, ModelCallStatus,
    Origin, Policy, Purpose, RunKind, RunStatus, Seq, TaskStatus,
};

/// A conversation, as a list shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Thread {
    /// Its id.
    pub id: ThreadId,
    /// What people call it.
    pub title: String,
    /// The folder it works in.
    pub workspace: String,
    /// When it began.
    pub created_at: Millis,
    /// When something last happened in it.
    pub updated_at: Millis,
    /// Its newest main run and where that stands.
    pub last_run: Option<(RunId, RunStatus)>,
}

/// A conversation, closer: its main runs and what they used.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionInfo {
    /// The conversation.
    pub thread: Thread,
    /// Its main runs, oldest first.
    pub runs: Vec<Run>,
    /// How many messages the user sees.
    pub messages: u64,
    /// What the main runs themselves used; [`Store::runs`](crate::Store::runs) adds up what others did for them.
    pub totals: Totals,
}

/// A run, whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Its id.
    pub id: RunId,
    /// The conversation.
    pub thread: ThreadId,
    /// Its place in the tree.
    pub kind: RunKind,
    /// The top of its tree: itself for a main run.
    pub root: RunId,
    /// The run that started it.
    pub parent: Option<RunId>,
    /// The task it works on.
    pub task: Option<TaskId>,
    /// The parent's call that started it.
    pub spawned_by: Option<CallId>,
    /// The agent's name.
    pub agent: String,
    /// The model.
    pub model: String,
    /// The provider.
    pub provider: String,
    /// Where it stands.
    pub status: RunStatus,
    /// Its last words.
    pub final_text: Option<String>,
    /// What went wrong.
    pub error: Option<String>,
    /// What else is needed to resume it.
    pub settings: Vec<u8>,
    /// The chain its events name.
    pub chain: String,
    /// How far from the root.
    pub depth: u32,
    /// The first message that the model still sees.
    pub context_from: Seq,
    /// When its row was written.
    pub created_at: Millis,
    /// When its loop last started.
    pub started_at: Millis,
    /// When its loop ended.
    pub ended_at: Option<Millis>,
    /// The process that writes its tree; only a root's row has one.
    pub writer: Option<Lease>,
    /// When its row last changed.
    pub updated_at: Millis,
}

/// A message of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Its number.
    pub seq: Seq,
    /// Who speaks.
    pub role: Role,
    /// Why it is there.
    pub origin: Origin,
    /// Its exact JSON on the wire.
    pub bytes: Vec<u8>,
    /// What people read.
    pub text: Option<String>,
    /// The model call that brought it.
    pub model_call: Option<ModelCallId>,
    /// When it was kept.
    pub at: Millis,
}

/// A message as the user sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct MainMessage {
    /// Its place; hand the last one back to [`live_messages`](crate::MainReads::live_messages).
    pub cursor: Cursor,
    /// The main run it belongs to.
    pub run: RunId,
    /// The message.
    pub message: Message,
}

/// A model call.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelCall {
    /// Its id.
    pub id: ModelCallId,
    /// The run that asked.
    pub run: RunId,
    /// Which step.
    pub step: u32,
    /// What for.
    pub purpose: Purpose,
    /// What the request's head is kept under.
    pub head: Digest,
    /// The first message of the request.
    pub from: Seq,
    /// The last.
    pub to: Seq,
    /// Where the cache markers were.
    pub marks: String,
    /// The digest of the whole request body.
    pub request_sha256: Digest,
    /// Its length.
    pub request_len: u64,
    /// The model.
    pub model: String,
    /// The provider.
    pub provider: String,
    /// Where it stands.
    pub status: ModelCallStatus,
    /// Why it was given up.
    pub error: Option<String>,
    /// What it consumed.
    pub usage: Usage,
    /// What it cost, where the price is known.
    pub cost_microusd: Option<i64>,
    /// What was set aside for it.
    pub reserved_microusd: i64,
    /// When it was written down.
    pub asked_at: Millis,
    /// When the first byte of the answer came.
    pub first_byte_at: Option<Millis>,
    /// When it was answered or given up.
    pub ended_at: Option<Millis>,
    /// The accumulated reply.
    pub reply: Option<Vec<u8>>,
}

/// One request on the wire, without its bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// Which one of its model call, from 1.
    pub n: u32,
    /// The HTTP status, where one came.
    pub status: Option<u16>,
    /// How it ended.
    pub ending: String,
    /// What went wrong.
    pub error: Option<String>,
    /// How long the provider asked to wait.
    pub retry_after_ms: Option<i64>,
    /// When it was sent.
    pub started_at: Millis,
    /// When the first byte of the answer came.
    pub first_byte_at: Option<Millis>,
    /// When it was over.
    pub ended_at: Millis,
    /// The bytes as they were received.
    pub response: Vec<u8>,
}

/// A tool call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// Its place.
    pub key: CallKey,
    /// The model's id for it.
    pub call: CallId,
    /// The tool.
    pub name: String,
    /// The arguments, as the model wrote them.
    pub input: Vec<u8>,
    /// What may be done when its end is never seen.
    pub policy: Policy,
    /// Where it stands.
    pub status: CallStatus,
    /// The whole result.
    pub result: Option<ToolResult>,
    /// What the model sees instead.
    pub preview: Option<String>,
    /// When it last started.
    pub started_at: Option<Millis>,
    /// When it ended.
    pub ended_at: Option<Millis>,
}

/// What a resumed loop needs to know, as it was at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Journal {
    /// The run.
    pub run: Run,
    /// What the model sees, in order.
    pub messages: Vec<Message>,
    /// The number of the run's last message, seen or not.
    pub last_seq: Option<Seq>,
    /// The last question to a model. One that is still `asked` has no answer; a `summary` that is answered and
    /// has no message behind it was not yet used.
    pub last_call: Option<ModelCall>,
    /// All tool calls of the last reply, in order, those with a result and those without.
    pub calls: Vec<ToolCall>,
}

/// Something in an inbox.
#[derive(Clone, Debug, PartialEq)]
pub struct Inbox {
    /// Its id.
    pub id: InboxId,
    /// What it is.
    pub kind: InboxKind,
    /// The job it is about.
    pub job: Option<RunId>,
    /// What it says.
    pub body: Vec<u8>,
    /// When it came.
    pub at: Millis,
}

/// A run in the background.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// The run that works.
    pub run: RunId,
    /// The run that it owes a result.
    pub parent: RunId,
    /// The call that started it.
    pub call: Option<CallId>,
    /// Where the run stands.
    pub status: RunStatus,
    /// When it was started.
    pub created_at: Millis,
    /// When its result was written; `None` while it owes one.
    pub ended_at: Option<Millis>,
}

/// A run that another one started, as that one finds it when it goes on.
#[derive(Clone, Debug, PartialEq)]
pub struct Child {
    /// Its row.
    pub run: Run,
    /// It is a job, and whether it still owes its result.
    pub owes: Option<bool>,
}

/// A run that worked on a task, and what it said last.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskAttempt {
    /// The run.
    pub run: RunId,
    /// Where it stands.
    pub status: RunStatus,
    /// What was wrong, where anything was.
    pub error: Option<String>,
    /// Its last words.
    pub final_text: String,
}

/// Where a fork began, and what it came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Fork {
    /// The run whose messages it begins with.
    pub of: RunId,
    /// What that run's request began with.
    pub head: Digest,
    /// The first of its messages.
    pub from: Seq,
    /// The last: its reply.
    pub to: Seq,
    /// What people call it.
    pub label: String,
    /// What it was started by.
    pub source: String,
    /// What it came to, as JSON.
    pub ended: Option<String>,
}

/// A task.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Its id.
    pub id: TaskId,
    /// The conversation.
    pub thread: ThreadId,
    /// What it is about.
    pub subject: String,
    /// What is to be done.
    pub description: String,
    /// Where it stands.
    pub status: TaskStatus,
    /// What came of it.
    pub result: Option<String>,
    /// Its place in the list.
    pub position: u32,
    /// When it was planned.
    pub created_at: Millis,
    /// When it last changed.
    pub updated_at: Millis,
}

/// Something to remember.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    /// The conversation it belongs to; `None` is everywhere.
    pub thread: Option<ThreadId>,
    /// Its name.
    pub name: String,
    /// What it says.
    pub text: String,
    /// When it last changed.
    pub updated_at: Millis,
}

/// A place where the searched words are.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// The conversation.
    pub thread: ThreadId,
    /// What people call it.
    pub title: String,
    /// The main run.
    pub run: RunId,
    /// The message.
    pub seq: Seq,
    /// Who speaks.
    pub role: Role,
    /// The words around, the found ones between `[` and `]`.
    pub snippet: String,
    /// When it was kept.
    pub at: Millis,
}

/// What model calls used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// How many model calls.
    pub calls: u64,
    /// How many of the answered ones have no known cost.
    pub unpriced: u64,
    /// Their tokens.
    pub usage: Usage,
    /// What they cost.
    pub cost_microusd: i64,
    /// What is set aside for those that have no answer yet.
    pub reserved_microusd: i64,
}

impl std::ops::AddAssign for Totals {
    fn add_assign(&mut self, more: Self) {
        self.calls += more.calls;
        self.unpriced += more.unpriced;
        self.usage += more.usage;
        self.cost_microusd += more.cost_microusd;
        self.reserved_microusd += more.reserved_microusd;
    }
}

/// A run in a list: where it stands and what it used, and none of its words.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSummary {
    /// Its id.
    pub id: RunId,
    /// The conversation.
    pub thread: ThreadId,
    /// What the conversation is called.
    pub title: String,
    /// Its place in the tree.
    pub kind: RunKind,
    /// The top of its tree.
    pub root: RunId,
    /// The run that started it.
    pub parent: Option<RunId>,
    /// It is a job.
    pub job: bool,
    /// The agent's name.
    pub agent: String,
    /// The model.
    pub model: String,
    /// The provider.
    pub provider: String,
    /// Where it stands.
    pub status: RunStatus,
    /// The process that writes its tree, whichever run of the tree this is.
    pub writer: Option<Lease>,
    /// When its row was written.
    pub created_at: Millis,
    /// When its loop ended.
    pub ended_at: Option<Millis>,
    /// What it used itself.
    pub own: Totals,
    /// What it and all below it used.
    pub inclusive: Totals,
}
