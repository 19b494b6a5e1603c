//! OpenCode's exports: one JSON file per session, `{info, messages: [{info, parts}]}`.

use recording::normalize::{SessionCall, SessionResult, SessionText, SessionTurn};
use serde_json::Value;
use session::{CallId, Role, StopReason, Usage};

use super::agents::{Agent, AgentTurn, Millis, assemble};
use super::{ImportSource, ImportedSession, SkipCounter, SourceFile};

/// Parts without text of the conversation, or that the provider gets in another form.
const BOOKKEEPING: &[&str] = &[
    "agent",
    "compaction",
    "file",
    "patch",
    "reasoning",
    "retry",
    "snapshot",
    "step-finish",
    "step-start",
    "subtask",
];

/// Returns whether the bytes are an export.
pub(super) fn is_export(bytes: &[u8]) -> bool {
    serde_json::from_slice::<Value>(bytes)
        .is_ok_and(|export| export["info"]["id"].is_string() && export["messages"].is_array())
}

/// Imports a session and its child sessions, one file each.
pub(super) fn read(files: &[SourceFile]) -> ImportedSession {
    let mut skips = SkipCounter::default();
    let mut exports: Vec<(Value, &str)> = Vec::new();
    for file in files {
        let Ok(export) = serde_json::from_slice::<Value>(&file.bytes) else { continue };
        match exports.iter().any(|(known, _)| known["info"]["id"] == export["info"]["id"]) {
            true => skips.add("sessions that are exported twice", || file.name.clone()),
            false => exports.push((export, &file.name)),
        }
    }
    let mut agents: Vec<Agent> = Vec::new();
    for (export, name) in &exports {
        let mut reader =
            Reader { skips: &mut skips, name, agent: Agent::default(), next: AgentTurn::default() };
        reader.session(export);
        for _ in &reader.next.turn.results {
            reader.skips.add("results that no reply followed", || (*name).to_owned());
        }
        agents.push(reader.agent);
    }
    for at in 0..exports.len() {
        let parent = exports[at].0["info"]["parentID"].as_str();
        agents[at].parent = exports.iter().position(|(other, _)| other["info"]["id"].as_str() == parent);
    }
    name_children(&exports, &mut agents, &mut skips);
    skips.finish(assemble(ImportSource::OpencodeExport.name(), agents))
}

/// Sets the call of each child session. A call that continues a session names it as well, but comes later.
fn name_children(exports: &[(Value, &str)], agents: &mut [Agent], skips: &mut SkipCounter) {
    let mut missing: Vec<&str> = Vec::new();
    for (export, name) in exports {
        for part in parts(export) {
            let (Some(call), Some(child)) = (part["callID"].as_str(), child_of(part)) else { continue };
            match agents.iter_mut().find(|agent| agent.session.as_deref() == Some(child)) {
                Some(agent) => drop(agent.call.get_or_insert_with(|| CallId::new(call))),
                None if missing.contains(&child) => {}
                None => {
                    missing.push(child);
                    skips.add("sessions that a call started but no file contains", || {
                        format!("{name}: {child}")
                    });
                }
            }
        }
    }
}

fn child_of(part: &Value) -> Option<&str> {
    let metadata = &part["state"]["metadata"];
    ["sessionId", "sessionID"].iter().find_map(|name| metadata[*name].as_str())
}

fn parts(export: &Value) -> impl Iterator<Item = &Value> {
    let messages = export["messages"].as_array().into_iter().flatten();
    messages.flat_map(|message| message["parts"].as_array().into_iter().flatten())
}

struct Reader<'r> {
    skips: &'r mut SkipCounter,
    name: &'r str,
    agent: Agent,
    /// The content of the next request.
    next: AgentTurn,
}

impl Reader<'_> {
    fn session(&mut self, export: &Value) {
        let info = &export["info"];
        self.agent.session = info["id"].as_str().map(str::to_owned);
        self.agent.is_main = info["parentID"].is_null();
        self.agent.began = info["time"]["created"].as_i64().unwrap_or_default();
        for message in export["messages"].as_array().into_iter().flatten() {
            match message["info"]["role"].as_str() {
                Some("user") => self.user(message),
                Some("assistant") => self.assistant(message),
                other => {
                    let what = format!("messages of role `{}`", other.unwrap_or("?"));
                    self.skips.add(what, || self.name.to_owned());
                }
            }
        }
    }

    fn user(&mut self, message: &Value) {
        for part in message["parts"].as_array().into_iter().flatten() {
            match (part["type"].as_str(), part["text"].as_str()) {
                (Some("text"), Some(_)) if part["ignored"] == true => self.skips.bookkeeping += 1,
                (Some("text"), Some(text)) => {
                    self.agent.opening.get_or_insert_with(|| text.to_owned());
                    self.next.turn.injected.push(SessionText { role: Role::User, text: text.to_owned() });
                }
                (kind, _) => self.skip_part(kind),
            }
        }
        if !self.agent.is_main {
            let asked = message["info"]["agent"].as_str().map(str::to_owned);
            self.agent.agent_type = self.agent.agent_type.take().or(asked);
        }
    }

    /// A message may contain several replies: each starts with a `step-start`.
    fn assistant(&mut self, message: &Value) {
        let (info, empty) = (&message["info"], Vec::new());
        let parts = message["parts"].as_array().unwrap_or(&empty);
        let is_start = |part: &Value| part["type"] == "step-start";
        let is_said = |part: &Value| part["type"] == "text" || part["type"] == "tool";
        let steps: Vec<&[Value]> = match parts.iter().any(is_start) {
            true => parts.chunk_by(|_, part| !is_start(part)).collect(),
            false => vec![parts],
        };
        if parts.is_empty() {
            return self.skips.add("replies that never came", || self.name.to_owned());
        }
        let only = steps.len() == 1;
        for step in steps {
            // Parts before the first step are no reply.
            if only || step.first().is_some_and(is_start) || step.iter().any(is_said) {
                self.step(info, step, only);
            } else {
                step.iter().for_each(|part| self.skip_part(part["type"].as_str()));
            }
        }
    }

    fn step(&mut self, info: &Value, parts: &[Value], only: bool) {
        let created = info["time"]["created"].as_i64().unwrap_or_default();
        let mut pending = std::mem::take(&mut self.next);
        // A message is created when its first request is sent; a later step follows the results before it.
        pending.asked_at = pending.results_at.iter().copied().fold(created, Millis::max);
        pending.turn.message = info["id"].as_str().map(str::to_owned);
        let model = info["modelID"].as_str().map(str::to_owned);
        self.agent.model = self.agent.model.take().or(model);
        let finish = parts.iter().rfind(|part| part["type"] == "step-finish");
        let whole = Value::Null;
        let finish = finish.unwrap_or(if only { info } else { &whole });
        pending.turn.usage = usage(&finish["tokens"]);
        let reason = finish["reason"].as_str().or(finish["finish"].as_str());
        let (mut texts, mut said_at) = (Vec::new(), pending.asked_at);
        for part in parts {
            let times = [&part["time"]["end"], &part["state"]["time"]["start"]];
            said_at = times.iter().filter_map(|time| time.as_i64()).fold(said_at, Millis::max);
            match (part["type"].as_str(), part["text"].as_str()) {
                (Some("text"), Some(text)) if part["ignored"] != true => texts.push(text),
                (Some("tool"), _) => self.tool(part, &mut pending.turn),
                (kind, _) => self.skip_part(kind),
            }
        }
        pending.turn.text = (!texts.is_empty()).then(|| texts.join("\n"));
        pending.turn.stop = reason.map(|reason| stop(reason, &pending.turn));
        pending.answered_at = said_at;
        self.agent.turns.push(pending);
    }

    /// Adds a call, and its result to the next request.
    fn tool(&mut self, part: &Value, turn: &mut SessionTurn) {
        let (Some(id), Some(name)) = (part["callID"].as_str(), part["tool"].as_str()) else {
            return self.skips.add("calls without an id or a tool", || self.name.to_owned());
        };
        let (id, state) = (CallId::new(id), &part["state"]);
        let call = SessionCall {
            id: id.clone(),
            name: name.to_owned(),
            input: state["input"].clone(),
            started: Vec::new(),
        };
        turn.calls.push(call);
        let failed = state["error"].as_str();
        let Some(text) = state["output"].as_str().or(failed) else {
            return self.skips.add("calls that have no result", || format!("{}: {id}", self.name));
        };
        let is_error = state["output"].is_null();
        self.next.turn.results.push(SessionResult { call: id, text: text.to_owned(), is_error });
        self.next.results_at.push(state["time"]["end"].as_i64().unwrap_or_default());
    }

    fn skip_part(&mut self, kind: Option<&str>) {
        match kind {
            Some(kind) if BOOKKEEPING.contains(&kind) || kind == "text" => self.skips.bookkeeping += 1,
            other => {
                let what = format!("parts of type `{}`", other.unwrap_or("?"));
                self.skips.add(what, || self.name.to_owned());
            }
        }
    }
}

/// Reads token counts. Newer versions count reasoning apart from output; the total shows which it is.
fn usage(tokens: &Value) -> Usage {
    let count = |value: &Value| value.as_u64().unwrap_or_default();
    let (output, reasoning) = (count(&tokens["output"]), count(&tokens["reasoning"]));
    let usage = Usage {
        input: count(&tokens["input"]),
        output,
        cache_read: count(&tokens["cache"]["read"]),
        cache_write_5m: count(&tokens["cache"]["write"]),
        reasoning,
        ..Usage::default()
    };
    let is_apart = tokens["total"].as_u64() == Some(usage.input_total() + output + reasoning);
    Usage { output: if is_apart { output + reasoning } else { output }, ..usage }
}

fn stop(reason: &str, turn: &SessionTurn) -> StopReason {
    match reason {
        "tool-calls" => StopReason::ToolUse,
        "stop" if turn.calls.is_empty() => StopReason::EndTurn,
        "stop" => StopReason::ToolUse,
        "length" => StopReason::MaxTokens,
        "content-filter" => StopReason::ContentFilter,
        other => StopReason::Other(other.to_owned()),
    }
}
