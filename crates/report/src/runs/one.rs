//! Output of `offshoot show RUN`: the steps of one run, and its tree.

use std::fmt::Write as _;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Map, Value, json};
use session::{Block, Role};
use store::{
    Attempt, Fork, Millis, ModelCall, ModelCallStatus, Origin, Purpose, Resumption, Run, RunStatus,
    RunSummary, Seq, StoredMessage, StoredToolCall,
};

use super::{FORMAT, dollars, usage, usd};
use crate::style::Tone;
use crate::text::{fit, plain, tokens};

/// A run with all its data.
#[derive(Debug)]
pub struct OneRun {
    /// The run.
    pub run: Run,
    /// Its usage, and its current status.
    pub summary: RunSummary,
    /// Its fork point, if it is a fork.
    pub fork: Option<Fork>,
    /// The folder it works in.
    pub workspace: String,
    /// The task it works on: name and subject.
    pub task: Option<(String, String)>,
    /// The JSON schema of its answer.
    pub output_schema: Option<Value>,
    /// The heads of its requests, by digest.
    pub heads: Vec<(String, Vec<u8>)>,
    /// Its messages.
    pub messages: Vec<StoredMessage>,
    /// Its tool calls.
    pub tool_calls: Vec<StoredToolCall>,
    /// Its model calls, each with its attempts.
    pub model_calls: Vec<(ModelCall, Vec<Attempt>)>,
    /// The times at which it went on after a kill or a pause.
    pub resumptions: Vec<Resumption>,
    /// The ended jobs that were delivered to it.
    pub delivered_jobs: Vec<DeliveredJob>,
}

/// The delivery of an ended job.
#[derive(Debug)]
pub struct DeliveredJob {
    /// The message that delivered it.
    pub message: Seq,
    /// The job's current row.
    pub job: Run,
    /// The delivered text.
    pub text: String,
}

/// Renders a run for people.
pub fn run_text(one: &OneRun, width: usize) -> String {
    let OneRun { run, summary, .. } = one;
    let mut out = String::new();
    let line = |out: &mut String, text: String| {
        out.push_str(&fit(&text, width));
        out.push('\n');
    };
    let status = super::tone(summary.status).paint(&summary.status.words());
    line(&mut out, format!("run {}  {}  {status}", run.id, run.kind));
    let ended = run.ended_at.map(|ended| format!(", ended {}", when(ended))).unwrap_or_default();
    line(&mut out, format!("  began {}{ended}", when(run.created_at)));
    line(&mut out, format!("  in {}", plain(&one.workspace)));
    if let Some(parent) = &run.parent {
        let by = run.spawned_by.as_ref().map(|call| format!(", by its call {}", plain(call.as_str())));
        let job = if summary.job { ", as a job" } else { "" };
        line(&mut out, format!("  started by {parent}{}{job}", by.unwrap_or_default()));
    }
    line(
        &mut out,
        format!("  agent {}, model {} ({})", plain(&run.agent), plain(&run.model), plain(&run.provider)),
    );
    line(&mut out, format!("  {}, {}", tokens(&summary.inclusive.usage), dollars(&summary.inclusive)));
    if let Some((name, subject)) = &one.task {
        line(&mut out, format!("  task {} {}", plain(name), plain(subject)));
    }
    if let Some(schema) = &one.output_schema {
        line(&mut out, format!("  output schema {}", plain(&schema.to_string())));
    }
    for about in one.fork.iter().flat_map(|fork| about_fork(one, fork)) {
        line(&mut out, format!("  {about}"));
    }
    if let Some(error) = &run.error {
        line(&mut out, format!("  {}", Tone::Bad.paint(&plain(error))));
    }
    for message in &one.messages {
        let delivered = || one.delivered_jobs.iter().filter(|job| job.message == message.seq);
        match message.origin {
            Origin::Carried => continue,
            Origin::Results if delivered().next().is_none() && incoming(message).is_empty() => continue,
            _ => {}
        }
        line(&mut out, String::new());
        line(&mut out, format!("{}{}", author(message), failure_note(one, message)));
        for DeliveredJob { job, .. } in delivered() {
            let sign = if job.status == RunStatus::Completed { "✓" } else { "✗" };
            let sign = super::tone(job.status).paint(sign);
            let (agent, status) = (plain(&job.agent), job.status.words());
            line(&mut out, format!("  {sign} job {} ({agent}) {status}", job.id));
            let said =
                [&job.final_text, &job.error, &job.partial_text].into_iter().find_map(Option::as_deref);
            if let Some(said) = said.and_then(first_line) {
                line(&mut out, format!("      {said}"));
            }
        }
        // The text is not cut; the terminal wraps its lines.
        let own_words = match message.origin {
            Origin::Kernel => Some(kernel_words(message)),
            Origin::Inbox | Origin::Results => Some(incoming(message)),
            _ => None,
        };
        let text = message.text.as_deref().or(own_words.as_deref()).unwrap_or_default();
        for text in text.lines() {
            out.push_str(&format!("  {}\n", crate::text::readable(text)));
        }
        for call in one.tool_calls.iter().filter(|call| call.key.message == message.seq) {
            let input = String::from_utf8_lossy(&call.input);
            line(&mut out, format!("  {} {} {}", mark(call), plain(&call.name), plain(&input)));
            if let Some(answer) = first_words(call) {
                line(&mut out, format!("      {answer}"));
            }
        }
    }
    out
}

/// Returns the messages of others in a message from the inbox.
fn incoming(message: &StoredMessage) -> String {
    let wire: Value = serde_json::from_slice(&message.bytes).unwrap_or_default();
    let blocks = wire["content"].as_array().into_iter().flatten().filter_map(|block| block["text"].as_str());
    let texts = wire["content"].as_str().into_iter().chain(blocks);
    texts.filter(|text| text.starts_with("<incoming_message ")).collect::<Vec<_>>().join("\n")
}

/// Returns text of the kernel, which has no readable text in the journal, so that searches do not find it.
fn kernel_words(message: &StoredMessage) -> String {
    let wire: Value = serde_json::from_slice(&message.bytes).unwrap_or_default();
    let content = &wire["content"];
    let blocks = content.as_array().into_iter().flatten().filter_map(|block| block["text"].as_str());
    // Ended jobs are rendered on their own.
    let words = content.as_str().into_iter().chain(blocks).filter(|text| !text.starts_with("<job_ended "));
    words.collect::<Vec<_>>().join("\n")
}

/// Describes what a fork shares, and how long it waited for the first fork of its turn.
fn about_fork(one: &OneRun, fork: &Fork) -> Vec<String> {
    let mut lines = vec![format!("fork `{}` of {} by {}", plain(&fork.label), fork.of, plain(&fork.source))];
    if let Some(rate) = one.summary.own.usage.hit_rate() {
        lines.push(format!("{:.1} % of what it sent came from the cache", rate * 100.0));
    }
    let first = one.model_calls.first().and_then(|(call, attempts)| Some((call.asked_at, attempts.first()?)));
    if let Some((asked, attempt)) = first {
        let waited = attempt.started_at.0.saturating_sub(asked.0);
        if (WORTH_SAYING..HOUR).contains(&waited) {
            lines.push(format!("waited {waited} ms for the first fork of the turn"));
        }
    }
    lines
}

/// Shorter waits are normal, and longer ones stem from clocks that differ; in milliseconds.
const WORTH_SAYING: i64 = 50;
const HOUR: i64 = 3_600_000;

/// Renders a run as JSON. Bytes are given as text, because our data and that of providers is UTF-8.
pub fn run_json(one: &OneRun, tree: &[OneRun]) -> Value {
    let OneRun { run, summary, .. } = one;
    json!({
        "format": FORMAT,
        "run": {
            "run": run.id,
            "thread": run.thread,
            "parent": run.parent,
            "kind": run.kind.as_str(),
            "status": summary.status.as_str(),
            "agent": run.agent,
            "model": run.model,
            "provider": run.provider,
            "chain": run.chain,
            "depth": run.depth,
            "task": one.task.as_ref().map(|(name, _)| name),
            "output_schema": one.output_schema,
            "final_text": run.final_text,
            "partial_text": run.partial_text,
            "error": run.error,
            "created_at_ms": run.created_at.0,
            "ended_at_ms": run.ended_at.map(|at| at.0),
            "usage": usage(&summary.own.usage),
            "cost_usd": usd(&summary.own),
            "cost_inclusive_usd": usd(&summary.inclusive),
        },
        "fork": one.fork.as_ref().map(fork_json),
        "lanes": tree.iter().map(lane).collect::<Vec<_>>(),
        "workspace": one.workspace,
        "heads": one.heads.iter().map(|(digest, bytes)| (digest.clone(), String::from_utf8_lossy(bytes).into())).collect::<Map<_, _>>(),
        "messages": one.messages.iter().map(message_json).collect::<Vec<_>>(),
        "tool_calls": one.tool_calls.iter().map(call_json).collect::<Vec<_>>(),
        "resumptions": one.resumptions.iter().map(resumption_json).collect::<Vec<_>>(),
        "inbox": one.delivered_jobs.iter().map(delivered_json).collect::<Vec<_>>(),
        "model_calls": one.model_calls.iter().map(|(call, attempts)| model_call_json(call, attempts)).collect::<Vec<_>>(),
    })
}

fn resumption_json(resumption: &Resumption) -> Value {
    json!({ "at_ms": resumption.at.0, "status": resumption.status.as_str() })
}

fn fork_json(fork: &Fork) -> Value {
    let ended = fork.ended.as_deref().and_then(|ended| serde_json::from_str::<Value>(ended).ok());
    json!({
        "of": fork.of,
        "from": fork.from.0,
        "to": fork.to.0,
        "label": fork.label,
        "source": fork.source,
        "ended": ended,
    })
}

fn delivered_json(delivered: &DeliveredJob) -> Value {
    json!({ "message": delivered.message.0, "job": delivered.job.id, "text": delivered.text })
}

/// Renders a run in the format of a recording's lane.
fn lane(one: &OneRun) -> Value {
    let run = &one.run;
    let answered = one
        .model_calls
        .iter()
        .filter(|(call, _)| call.status == ModelCallStatus::Answered && call.purpose == Purpose::Turn);
    let turns = answered.enumerate().map(|(index, (call, _))| {
        let reply = one.messages.iter().find(|message| message.model_call == Some(call.id));
        let calls = one.tool_calls.iter().filter(|tool| reply.is_some_and(|reply| tool.key.message == reply.seq));
        let calls: Vec<&StoredToolCall> = calls.collect();
        json!({
            "turn": index + 1,
            "seq": reply.map(|reply| reply.seq.0),
            "calls": calls.iter().map(|call| json!({ "id": call.call, "name": call.name })).collect::<Vec<_>>(),
            "results": calls.iter().filter(|call| call.result.is_some()).map(|call| &call.call).collect::<Vec<_>>(),
            "usage": usage(&call.usage),
        })
    });
    let exchanges = one.model_calls.iter().flat_map(|(call, attempts)| {
        attempts.iter().map(move |attempt| format!("{}.{}", call.id, attempt.n))
    });
    json!({
        "id": run.id,
        "kind": run.kind.as_str(),
        "parent": run.parent,
        "spawned_by": run.spawned_by,
        "session": run.thread,
        "agent": run.agent,
        "exchanges": exchanges.collect::<Vec<_>>(),
        "turns": turns.collect::<Vec<_>>(),
    })
}

fn message_json(message: &StoredMessage) -> Value {
    json!({
        "seq": message.seq.0,
        "role": role(message.role),
        "origin": message.origin.as_str(),
        "text": message.text,
        "wire": String::from_utf8_lossy(&message.bytes),
        "at_ms": message.at.0,
    })
}

fn call_json(call: &StoredToolCall) -> Value {
    json!({
        "message": call.key.message.0,
        "id": call.call,
        "name": call.name,
        "input": String::from_utf8_lossy(&call.input),
        "policy": call.policy.as_str(),
        "status": call.status.as_str(),
        "result": call.result,
        "preview": call.preview,
        "started_at_ms": call.started_at.map(|at| at.0),
        "ended_at_ms": call.ended_at.map(|at| at.0),
    })
}

fn model_call_json(call: &ModelCall, attempts: &[Attempt]) -> Value {
    let attempts = attempts.iter().map(|attempt| {
        json!({
            "attempt": attempt.n,
            "status": attempt.status,
            "ending": attempt.ending,
            "error": attempt.error,
            "retry_after_ms": attempt.retry_after_ms,
            "started_at_ms": attempt.started_at.0,
            "first_byte_at_ms": attempt.first_byte_at.map(|at| at.0),
            "ended_at_ms": attempt.ended_at.map(|at| at.0),
            "response": String::from_utf8_lossy(&attempt.response),
        })
    });
    json!({
        "id": call.id.0,
        "step": call.step,
        "purpose": call.purpose.as_str(),
        "status": call.status.as_str(),
        "error": call.error,
        "head": call.head.to_string(),
        "messages": { "from": call.from.0, "to": call.to.0 },
        "marks": call.marks.split(',').filter_map(|seq| seq.parse::<i64>().ok()).collect::<Vec<_>>(),
        "request_sha256": call.request_sha256.to_string(),
        "request_bytes": call.request_len,
        "usage": usage(&call.usage),
        "cost_usd": call.cost_microusd.map(|cost| cost as f64 / 1e6),
        "attempts": attempts.collect::<Vec<_>>(),
    })
}

/// Formats a time, as in `2026-11-15T10:15:00Z`.
fn when(at: Millis) -> String {
    let since = Duration::from_secs(u64::try_from(at.0 / 1000).unwrap_or_default());
    let iso = recording::iso(UNIX_EPOCH + since);
    iso.split_once('.').map_or(iso.clone(), |(seconds, _)| format!("{seconds}Z"))
}

fn author(message: &StoredMessage) -> &'static str {
    match message.origin {
        Origin::Summary => "summary",
        Origin::Kernel => "offshoot",
        // A message of results may also contain inbox entries, which are shown under this name.
        Origin::Inbox | Origin::Results => "inbox",
        _ => role(message.role),
    }
}

fn role(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::Developer => "developer",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}

/// Describes the failed attempts before a reply.
fn failure_note(one: &OneRun, message: &StoredMessage) -> String {
    let Some(id) = message.model_call else { return String::new() };
    let found = one.model_calls.iter().find(|(call, _)| call.id == id);
    let failed = found.map_or(0, |(_, attempts)| attempts.len().saturating_sub(1));
    let mut out = String::new();
    if failed > 0 {
        let times = if failed == 1 { "attempt" } else { "attempts" };
        write!(out, "  (after {failed} failed {times})").expect("a string takes everything");
    }
    out
}

fn mark(call: &StoredToolCall) -> &'static str {
    use store::CallStatus as Is;
    match call.status {
        Is::Planned => "·",
        Is::Running => "…",
        Is::Done => "✓",
        Is::Failed => "✗",
        Is::Denied => "⊘",
        Is::MayHaveRun => "?",
    }
}

/// The first line of what a tool answered.
fn first_words(call: &StoredToolCall) -> Option<String> {
    let result = call.result.as_ref()?;
    let texts = result.blocks.iter().filter_map(|block| match block {
        Block::Text { text } => Some(text.as_str()),
        _ => None,
    });
    first_line(&texts.collect::<Vec<_>>().join("\n"))
}

/// The first line that says something, and how many there are behind.
fn first_line(text: &str) -> Option<String> {
    let first = text.lines().find(|line| !line.trim().is_empty())?;
    Some(match text.lines().count().saturating_sub(1) {
        0 => plain(first),
        1 => format!("{} (and 1 more line)", plain(first)),
        more => format!("{} (and {more} more lines)", plain(first)),
    })
}
