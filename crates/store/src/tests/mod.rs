//! Tests of the store on a real SQLite in a temporary folder.

mod damage;
mod deletes;
mod fallback;
mod fixtures;
mod group;
mod hooks;
mod jobs;
mod leases;
mod main_only;
mod migrations;
mod processes;
mod resumed;
mod search;
mod spent;
mod steps;
mod totals;

use std::path::PathBuf;
use std::time::Duration;

use session::{Block, CallId, Role, RunId, ThreadId, ToolResult, Usage};
use tempfile::TempDir;

use crate::*;

/// The lease of this process.
const ME: Lease = Lease { pid: 7, start: 70 };
/// An arbitrary time.
const NOW: Millis = Millis(1_000);

/// A store in its own folder.
struct Room {
    store: Store,
    folder: TempDir,
}

impl Room {
    fn path(&self) -> PathBuf {
        self.folder.path().join("store.db")
    }

    /// Opens the store as another process would.
    fn reopened(&self) -> Store {
        open(&self.path()).expect("the store opens again")
    }
}

fn room() -> Room {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder.path().join("store.db")).expect("a store");
    Room { store, folder }
}

fn open(path: &std::path::Path) -> Result<Store, StoreError> {
    Store::open(path, Options { busy_timeout: Duration::from_secs(5) })
}

fn run_id(id: &str) -> RunId {
    RunId::new(id)
}

fn thread_id(id: &str) -> ThreadId {
    ThreadId::new(id)
}

fn message(role: Role, origin: Origin, text: &str) -> NewMessage {
    let bytes = format!(r#"{{"said":"{text}"}}"#).into_bytes();
    NewMessage { role, origin, bytes, text: Some(text.to_owned()), at: NOW }
}

fn prompt(text: &str) -> NewMessage {
    message(Role::User, Origin::Prompt, text)
}

/// A main run `id` whose thread has the same id.
fn main_run(id: &str, text: &str) -> NewRun {
    NewRun {
        id: run_id(id),
        thread: RunThread::New(NewThread {
            id: thread_id(id),
            title: format!("about {id}"),
            workspace: "/w".to_owned(),
        }),
        kind: RunKind::Main,
        parent: None,
        task: None,
        spawned_by: None,
        background: false,
        agent: "main".to_owned(),
        model: "opus".to_owned(),
        provider: "scripted".to_owned(),
        settings: b"{}".to_vec(),
        chain: format!("chain-{id}"),
        depth: 0,
        fork: None,
        messages: vec![prompt(text)],
        at: NOW,
    }
}

/// A run below `parent`, in the thread of the root `root`.
fn child_run(id: &str, parent: &str, root: &str, kind: RunKind) -> NewRun {
    NewRun {
        thread: RunThread::Existing(thread_id(root)),
        kind,
        parent: Some(run_id(parent)),
        spawned_by: Some(CallId::new(format!("call-{id}"))),
        agent: "searcher".to_owned(),
        depth: 1,
        ..main_run(id, "look")
    }
}

fn job_run(id: &str, parent: &str) -> NewRun {
    NewRun { background: true, ..child_run(id, parent, parent, RunKind::Sub) }
}

fn question(run: &str) -> NewModelCall {
    NewModelCall {
        run: run_id(run),
        step: 1,
        purpose: Purpose::Turn,
        head: Head::new(&b"{\"system\":\"be brief\"}"[..]),
        from: Seq::FIRST,
        to: None,
        marks: String::new(),
        request_sha256: Digest::of(b"request"),
        request_len: 7,
        model: "opus".to_owned(),
        provider: "scripted".to_owned(),
        reserved_microusd: 500,
        reserved_tokens: 0,
        within: Vec::new(),
        results: None,
        delivers: Vec::new(),
        at: NOW,
    }
}

fn attempt(response: &str) -> NewAttempt {
    NewAttempt {
        status: Some(200),
        ending: "complete".to_owned(),
        error: None,
        retry_after_ms: None,
        response: response.as_bytes().to_vec(),
        started_at: NOW,
        first_byte_at: Some(NOW),
        ended_at: NOW,
    }
}

/// A reply with `text` and calls of these tools.
fn answer(text: &str, tools: &[&str]) -> NewReply {
    let call = |name: &&str| NewToolCall {
        call: CallId::new(format!("call-{name}")),
        name: (*name).to_owned(),
        input: b"{}".to_vec(),
        policy: Policy::Pure,
    };
    NewReply {
        reply: text.as_bytes().to_vec(),
        usage: Usage { input: 10, output: 5, cache_read: 3, ..Usage::default() },
        cost_microusd: Some(100),
        message: Some(message(Role::Assistant, Origin::Reply, text)),
        calls: tools.iter().map(call).collect(),
    }
}

fn key(run: &str, message: Seq, position: u32) -> CallKey {
    CallKey { run: run_id(run), message, position }
}

fn finished(key: CallKey, text: &str) -> FinishedCall {
    let blocks = vec![Block::Text { text: text.to_owned() }];
    let result = ToolResult { call: CallId::new("call"), blocks, is_error: false, server: false };
    FinishedCall {
        key,
        status: CallStatus::Done,
        result,
        preview: None,
        seen: Vec::new(),
        folders: Vec::new(),
        at: NOW,
    }
}

fn ending(status: RunStatus, text: &str) -> RunEnd {
    let (final_text, partial_text) = match status {
        RunStatus::Completed | RunStatus::StepCap => (Some(text.to_owned()), None),
        _ => (None, Some(text.to_owned())),
    };
    RunEnd { status, final_text, partial_text, error: None, misfits: false, fork: None, at: NOW }
}

impl Store {
    /// Completes a turn without tool results. Returns the number of the reply.
    async fn turn(&self, run: &str, says: &str, tools: &[&str]) -> Seq {
        let call = self.begin_model_call(question(run)).await.expect("asked");
        let seq = self.finish_model_call(call, attempt(says), answer(says, tools)).await.expect("answered");
        seq.expect("a reply is a message")
    }

    /// Returns the texts of a run's messages, in order.
    fn said(&self, run: &str) -> Vec<String> {
        let messages = self.run(&run_id(run)).messages().expect("messages");
        messages.into_iter().filter_map(|message| message.text).collect()
    }
}
