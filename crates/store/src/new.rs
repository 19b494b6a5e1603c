//! What a caller hands over to be kept.

use std::path::PathBuf;

use session::{CallId, Role, RunId, TaskId, ThreadId, ToolResult, Usage};

use crate::{
    CallKey, CallStatus, Digest, Head, InboxId, InboxKind, Millis, Origin, Policy, Purpose, RunKind,
    RunStatus, Seq, TaskStatus,
};

/// A conversation to begin.
#[derive(Clone, Debug)]
pub struct NewThread {
    /// Its id.
    pub id: ThreadId,
    /// What people call it.
    pub title: String,
    /// The folder it works in.
    pub workspace: String,
}

/// The conversation that a run belongs to.
#[derive(Clone, Debug)]
pub enum RunThread {
    /// One that begins with this run.
    New(NewThread),
    /// One that exists.
    Existing(ThreadId),
}

/// A run to start.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// Its id.
    pub id: RunId,
    /// The conversation.
    pub thread: RunThread,
    /// Its place in the tree.
    pub kind: RunKind,
    /// The run that started it; a main run has none.
    pub parent: Option<RunId>,
    /// The task it works on.
    pub task: Option<TaskId>,
    /// The parent's tool call that started it.
    pub spawned_by: Option<CallId>,
    /// It goes on in the background and owes its parent a result: a job.
    pub background: bool,
    /// The agent's name.
    pub agent: String,
    /// The model.
    pub model: String,
    /// The provider.
    pub provider: String,
    /// What else is needed to resume it, JSON; opaque here.
    pub settings: Vec<u8>,
    /// The chain its events name.
    pub chain: String,
    /// How far from the root; 0 for a main run.
    pub depth: u32,
    /// Where it begins, where it is a fork.
    pub fork: Option<NewFork>,
    /// The first messages.
    pub messages: Vec<NewMessage>,
    /// Now.
    pub at: Millis,
}

/// Where a fork begins.
#[derive(Clone, Debug)]
pub struct NewFork {
    /// The run whose messages it begins with.
    pub of: RunId,
    /// What that run's request began with.
    pub head: Digest,
    /// The first of its messages.
    pub from: Seq,
    /// The last: its reply.
    pub to: Seq,
    /// It is a tree of its own, which any process may write, whoever writes the other one.
    pub alone: bool,
    /// It knows the files that its parent knows.
    pub knows_files: bool,
    /// What people call it.
    pub label: String,
    /// What it was started by.
    pub source: String,
}

/// A message to keep. Its number is handed out when it is.
#[derive(Clone, Debug)]
pub struct NewMessage {
    /// Who speaks.
    pub role: Role,
    /// Why it is there.
    pub origin: Origin,
    /// Its exact JSON on the wire.
    pub bytes: Vec<u8>,
    /// What people read and search for; `None` when there is nothing to read.
    pub text: Option<String>,
    /// Now.
    pub at: Millis,
}

/// A question to a model, written down before it is asked.
#[derive(Clone, Debug)]
pub struct NewModelCall {
    /// The run that asks.
    pub run: RunId,
    /// Which step of the run.
    pub step: u32,
    /// What it is asked for.
    pub purpose: Purpose,
    /// The request up to its messages.
    pub head: Head,
    /// The first message of the request.
    pub from: Seq,
    /// The last one, where that is not the run's last, `results` included.
    pub to: Option<Seq>,
    /// Where the cache markers are, in the loop's own words.
    pub marks: String,
    /// The digest of the whole request body.
    pub request_sha256: Digest,
    /// Its length in bytes.
    pub request_len: u64,
    /// The model.
    pub model: String,
    /// The provider.
    pub provider: String,
    /// The most it can cost, set aside until it ended.
    pub reserved_microusd: i64,
    /// The most tokens it can use, set aside likewise.
    pub reserved_tokens: u64,
    /// What this run and those above it may use, all below them included.
    pub within: Vec<Limit>,
    /// What is to be said to the model first (the tools' results, usually): appended in the same commit.
    pub results: Option<NewMessage>,
    /// What of its inbox that message says: taken out in the same commit.
    pub delivers: Vec<InboxId>,
    /// Now.
    pub at: Millis,
}

/// What a run and all below it may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The run.
    pub run: RunId,
    /// Money.
    pub microusd: Option<i64>,
    /// Tokens, of questions and answers.
    pub tokens: Option<u64>,
}

/// One request on the wire and what came back.
#[derive(Clone, Debug)]
pub struct NewAttempt {
    /// The HTTP status, where one came.
    pub status: Option<u16>,
    /// How it ended, in a word.
    pub ending: String,
    /// What went wrong.
    pub error: Option<String>,
    /// How long the provider asks to wait.
    pub retry_after_ms: Option<i64>,
    /// The body, the bytes as they were received.
    pub response: Vec<u8>,
    /// When it was sent.
    pub started_at: Millis,
    /// When the first byte of the answer came.
    pub first_byte_at: Option<Millis>,
    /// When it was over.
    pub ended_at: Millis,
}

/// A whole reply.
#[derive(Clone, Debug)]
pub struct Answered {
    /// The accumulated body.
    pub reply: Vec<u8>,
    /// What it consumed.
    pub usage: Usage,
    /// What it cost, where the price is known.
    pub cost_microusd: Option<i64>,
    /// The reply as a message of the run; `None` for a summary, which becomes one in
    /// [`compacted`](crate::Store::compacted).
    pub message: Option<NewMessage>,
    /// The calls it asks for, in order.
    pub calls: Vec<NewToolCall>,
}

/// A tool call that the model asked for.
#[derive(Clone, Debug)]
pub struct NewToolCall {
    /// The model's id for it.
    pub call: CallId,
    /// The tool.
    pub name: String,
    /// The arguments, exactly as the model wrote them.
    pub input: Vec<u8>,
    /// What may be done when its end is never seen.
    pub policy: Policy,
}

/// A tool call that ended.
#[derive(Clone, Debug)]
pub struct FinishedCall {
    /// Which.
    pub key: CallKey,
    /// How; never an open one.
    pub status: CallStatus,
    /// The whole result.
    pub result: ToolResult,
    /// What the model sees instead, when the result is long.
    pub preview: Option<String>,
    /// The files that its run knows now as they are.
    pub seen: Vec<SeenFile>,
    /// Now.
    pub at: Millis,
}

/// A file as a run knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenFile {
    /// Where it is in the workspace, links resolved.
    pub path: PathBuf,
    /// What was in it.
    pub sha256: Digest,
}

/// How a run ends, or stops for now.
#[derive(Clone, Debug)]
pub struct Ending {
    /// Where it stands; never a live one.
    pub status: RunStatus,
    /// Its last words.
    pub final_text: Option<String>,
    /// What went wrong.
    pub error: Option<String>,
    /// Its last words are not what was asked for: then they are no answer to its task.
    pub misfits: bool,
    /// What else is kept of a fork.
    pub fork: Option<ForkEnd>,
    /// Now.
    pub at: Millis,
}

/// Who ends where a tree does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whom {
    /// A run and all below it.
    Tree,
    /// Only those below it.
    Below,
}

/// What is left of a run that is ended while nobody is at work on it.
#[derive(Clone, Debug, Default)]
pub struct Left {
    /// Its last words.
    pub final_text: Option<String>,
    /// What is kept of it, where it is a fork.
    pub fork: Option<ForkEnd>,
    /// What is said of its calls that have no result and will get none by being run.
    pub results: Vec<FinishedCall>,
}

/// The end of a fork.
#[derive(Clone, Debug)]
pub struct ForkEnd {
    /// What it came to, as JSON.
    pub event: String,
    /// Nothing of what was said in it is kept, but what it used; and its settings without what they say of it.
    pub forget: Option<Vec<u8>>,
}

/// Something to put into a run's inbox.
#[derive(Clone, Debug)]
pub struct NewInbox {
    /// Whose inbox.
    pub run: RunId,
    /// What it is.
    pub kind: InboxKind,
    /// What it says.
    pub body: Vec<u8>,
    /// Now.
    pub at: Millis,
}

/// A task to plan.
#[derive(Clone, Debug)]
pub struct NewTask {
    /// Its id.
    pub id: TaskId,
    /// The conversation.
    pub thread: ThreadId,
    /// What it is about, in a few words.
    pub subject: String,
    /// What is to be done.
    pub description: String,
    /// Now.
    pub at: Millis,
}

/// What changes in a task; `None` leaves a field as it is.
#[derive(Clone, Debug, Default)]
pub struct TaskChange {
    /// What it is about.
    pub subject: Option<String>,
    /// What is to be done.
    pub description: Option<String>,
    /// Where it stands.
    pub status: Option<TaskStatus>,
    /// What came of it.
    pub result: Option<String>,
    /// Its place in the list, from 0.
    pub position: Option<u32>,
}
