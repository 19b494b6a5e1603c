//! Claude Code's transcripts: one record per line, one file per agent.
//!
//! Newer versions keep sub-agents in a separate folder with a `.meta.json` for each, which names the call
//! that started it. Older versions keep them beside the session's file and name them only in that call's
//! result.

use std::collections::{HashMap, HashSet};

use recording::lanes::TurnMark;
use recording::normalize::{SessionCall, SessionResult, SessionText, SessionTurn};
use serde_json::{Value, json};
use session::{Block, CallId, Reply, Role, ToolResult};
use wire::dialect::{DecodedResponse, Dialect};

use super::agents::{Agent, AgentTurn, Millis, assemble};
use super::{ImportSource, ImportedSession, SkipCounter, SourceFile};

/// Suffix of files with data about an agent.
pub(super) const META: &str = ".meta.json";
/// Record types that no model sees.
const BOOKKEEPING: &[&str] = &[
    "agent-name",
    "api-request",
    "api-request-blob",
    "api-request-shape",
    "atis-latch",
    "cost-state",
    "custom-title",
    "file-history-snapshot",
    "last-prompt",
    "progress",
    "queue-operation",
    "summary",
    "system",
    "tools-used",
];
/// The model name of messages that the harness itself wrote to report a failure.
const SYNTHETIC: &str = "<synthetic>";

/// Returns the session of the first record that names one. A file without such a record is no transcript.
pub(super) fn session_of(bytes: &[u8]) -> Option<String> {
    let session = |line: &[u8]| {
        let record: Value = serde_json::from_slice(line).ok()?;
        record["type"].as_str()?;
        record["sessionId"].as_str().map(str::to_owned)
    };
    lines(bytes).find_map(|(_, line)| session(line))
}

/// Imports a session from its transcripts, and other sessions in them.
pub(super) fn read(files: &[SourceFile]) -> ImportedSession {
    let mut reader = Reader::default();
    let (metadata, transcripts): (Vec<&SourceFile>, Vec<&SourceFile>) =
        files.iter().partition(|file| file.name.ends_with(META));
    for file in transcripts {
        for (number, line) in lines(&file.bytes) {
            let place = || format!("{}:{number}", file.name);
            match serde_json::from_slice::<Value>(line) {
                Ok(record) => reader.record(&record, place),
                Err(_) => reader.skips.add("lines that are not JSON", place),
            }
        }
    }
    for file in metadata {
        reader.read_metadata(file);
    }
    reader.finish()
}

/// Returns the non-empty lines, numbered from 1.
fn lines(bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let lines = bytes.split(|byte| *byte == b'\n').enumerate();
    lines.map(|(at, line)| (at + 1, line)).filter(|(_, line)| !line.trim_ascii().is_empty())
}

#[derive(Default)]
struct Reader {
    lanes: Vec<LaneBuilder>,
    /// Lanes by session and agent.
    places: HashMap<(String, Option<String>), usize>,
    seen: HashSet<String>,
    /// The first record of each chain, for agents without an id.
    roots: HashMap<String, String>,
    /// Calls by the agent that their results name.
    started: HashMap<String, CallId>,
    skips: SkipCounter,
}

/// A lane, and the content of its next request.
#[derive(Default)]
struct LaneBuilder {
    agent: Agent,
    /// The provider's id of the last reply. A reply may span several records.
    reply: Option<String>,
    next: AgentTurn,
    /// The time of the next request, if the harness records it.
    sent_at: Option<Millis>,
    place: String,
}

impl Reader {
    fn record(&mut self, record: &Value, place: impl Fn() -> String) {
        let text = |name: &str| record[name].as_str();
        let (Some(kind), Some(session)) = (text("type"), text("sessionId")) else {
            let what = format!("records of type `{}` without a session", text("type").unwrap_or("?"));
            match text("type").is_some_and(|kind| BOOKKEEPING.contains(&kind)) {
                true => self.skips.bookkeeping += 1,
                false => self.skips.add(what, place),
            }
            return;
        };
        if let Some(uuid) = text("uuid")
            && !self.seen.insert(uuid.to_owned())
        {
            return self.skips.add("duplicate records", place);
        }
        let at = text("timestamp").and_then(millis);
        let agent = self.agent_of(record);
        let known = match kind {
            "user" | "assistant" | "attachment" | "api-request" | "system" => true,
            kind if BOOKKEEPING.contains(&kind) => {
                self.skips.bookkeeping += 1;
                return;
            }
            _ => false,
        };
        if !known {
            return self.skips.add(format!("records of type `{kind}`"), place);
        }
        let number = self.lane(session, agent, at.unwrap_or_default());
        let lane = &mut self.lanes[number];
        lane.place = place();
        let understood = match kind {
            "user" => lane.user(record, at, &mut self.started),
            "assistant" => lane.assistant(record, at),
            "attachment" => lane.attachment(record),
            _ => lane.note(record, at),
        };
        match understood {
            RecordOutcome::Used => {}
            RecordOutcome::Bookkeeping => self.skips.bookkeeping += 1,
            RecordOutcome::Skipped(what) => self.skips.add(what, place),
        }
    }

    /// Returns the agent of a record; `None` for the main agent. Versions without agent ids mark records as a
    /// side chain, which is identified by its first record.
    fn agent_of(&mut self, record: &Value) -> Option<String> {
        if let Some(agent) = record["agentId"].as_str() {
            return Some(agent.to_owned());
        }
        if record["isSidechain"] != true {
            return None;
        }
        let uuid = record["uuid"].as_str().unwrap_or_default();
        let root = record["parentUuid"].as_str().and_then(|parent| self.roots.get(parent)).cloned();
        let root = root.unwrap_or_else(|| uuid.to_owned());
        self.roots.insert(uuid.to_owned(), root.clone());
        Some(root)
    }

    fn lane(&mut self, session: &str, agent: Option<String>, at: Millis) -> usize {
        let lanes = &mut self.lanes;
        *self.places.entry((session.to_owned(), agent.clone())).or_insert_with(|| {
            let is_main = agent.is_none();
            let agent =
                Agent { session: Some(session.to_owned()), agent, is_main, began: at, ..Agent::default() };
            lanes.push(LaneBuilder { agent, ..LaneBuilder::default() });
            lanes.len() - 1
        })
    }

    /// Reads a `.meta.json`.
    fn read_metadata(&mut self, file: &SourceFile) {
        let place = || file.name.clone();
        let Ok(metadata) = serde_json::from_slice::<Value>(&file.bytes) else {
            return self.skips.add("files about agents that are not JSON", place);
        };
        let name = file.name.rsplit(['/', '\\']).next().unwrap_or_default().trim_end_matches(META);
        let id = name.strip_prefix("agent-").unwrap_or(name);
        let by_id = |id: &str| self.lanes.iter().position(|lane| lane.agent.agent.as_deref() == Some(id));
        let parent = metadata["parentAgentId"].as_str().and_then(by_id);
        let Some(lane) = by_id(id) else {
            return self.skips.add("files about agents that have no transcript", place);
        };
        let agent = &mut self.lanes[lane].agent;
        agent.agent_type = metadata["agentType"].as_str().map(str::to_owned);
        agent.call = metadata["toolUseId"].as_str().map(CallId::new);
        agent.parent = parent;
    }

    fn finish(mut self) -> ImportedSession {
        let mut agents = Vec::new();
        for lane in &mut self.lanes {
            let agent = &mut lane.agent;
            let started = agent.agent.as_ref().and_then(|id| self.started.get(id));
            agent.call = agent.call.take().or_else(|| started.cloned());
            for _ in &lane.next.turn.results {
                self.skips.add("results that no reply followed", || lane.place.clone());
            }
            agents.push(std::mem::take(agent));
        }
        self.skips.finish(assemble(ImportSource::ClaudeTranscript.name(), agents))
    }
}

/// Result of parsing a record.
enum RecordOutcome {
    Used,
    /// No model saw it.
    Bookkeeping,
    Skipped(String),
}

impl LaneBuilder {
    fn user(
        &mut self,
        record: &Value,
        at: Option<Millis>,
        started: &mut HashMap<String, CallId>,
    ) -> RecordOutcome {
        let body = json!({ "messages": [record["message"]] }).to_string();
        let prompt = Dialect::AnthropicMessages.decode_request(body.as_bytes());
        let Some(message) = prompt.as_ref().ok().and_then(|prompt| prompt.messages.first()) else {
            return RecordOutcome::Skipped("messages that cannot be read".to_owned());
        };
        let at = at.unwrap_or_default();
        self.next.asked_at = self.next.asked_at.max(at);
        for part in &message.parts {
            match &part.block {
                Block::ToolResult(result) => {
                    if let Some(agent) = record["toolUseResult"]["agentId"].as_str() {
                        started.entry(agent.to_owned()).or_insert_with(|| result.call.clone());
                    }
                    self.result(result, at);
                }
                Block::Text { text } => self.text(Role::User, text),
                _ => {}
            }
        }
        if record["isCompactSummary"] == true {
            self.next.turn.marks.push(TurnMark::Compaction);
        }
        RecordOutcome::Used
    }

    fn result(&mut self, result: &ToolResult, at: Millis) {
        let text = |block: &Block| match block {
            Block::Text { text } => Some(text.clone()),
            _ => None,
        };
        let text = result.blocks.iter().filter_map(text).collect::<Vec<_>>().join("\n");
        self.next.turn.results.push(SessionResult {
            call: result.call.clone(),
            text,
            is_error: result.is_error,
        });
        self.next.results_at.push(at);
    }

    fn text(&mut self, role: Role, text: &str) {
        if self.agent.opening.is_none() && role == Role::User {
            self.agent.opening = Some(text.to_owned());
        }
        self.next.turn.injected.push(SessionText { role, text: text.to_owned() });
    }

    fn assistant(&mut self, record: &Value, at: Option<Millis>) -> RecordOutcome {
        let message = &record["message"];
        let outcome = Dialect::AnthropicMessages.decode_reply(message.to_string().as_bytes());
        let Ok(DecodedResponse::Reply(answer)) = outcome else {
            return RecordOutcome::Skipped("replies that cannot be read".to_owned());
        };
        if message["model"] == SYNTHETIC {
            return RecordOutcome::Skipped("replies that no model wrote".to_owned());
        }
        let reply = answer.reply;
        let id = Some(reply.id.clone()).filter(|id| !id.is_empty());
        let at = at.unwrap_or_default();
        let continues = id.is_some() && self.reply == id;
        if !continues {
            self.reply = id;
            let mut pending = std::mem::take(&mut self.next);
            pending.asked_at =
                self.sent_at.take().unwrap_or(if pending.asked_at > 0 { pending.asked_at } else { at });
            pending.turn.message = record["uuid"].as_str().map(str::to_owned);
            self.agent.turns.push(pending);
            let asked = record["requestedModel"].as_str().unwrap_or(&reply.model).to_owned();
            self.agent.model.get_or_insert(asked);
        }
        let turn = self.agent.turns.last_mut().expect("one was pushed, or the reply goes on");
        turn.answered_at = at;
        extend(&mut turn.turn, reply);
        RecordOutcome::Used
    }

    /// Adds text that the harness attached, if the record contains it.
    fn attachment(&mut self, record: &Value) -> RecordOutcome {
        let attachment = &record["attachment"];
        let role = match record["renderedRole"].as_str() {
            Some("system") => Role::System,
            _ => Role::User,
        };
        let rendered = record["rendered"].as_array().into_iter().flatten().map(|said| &said["content"]);
        let mut texts: Vec<&str> = rendered.flat_map(texts).collect();
        if texts.is_empty() && attachment["type"] == "queued_command" {
            texts = self::texts(&attachment["prompt"]);
        }
        if texts.is_empty() {
            return RecordOutcome::Bookkeeping;
        }
        for text in texts {
            // An attachment is not the agent's first prompt.
            self.next.turn.injected.push(SessionText { role, text: text.to_owned() });
        }
        RecordOutcome::Used
    }

    fn note(&mut self, record: &Value, at: Option<Millis>) -> RecordOutcome {
        if record["type"] == "api-request" {
            self.sent_at = at;
        }
        RecordOutcome::Bookkeeping
    }
}

/// Returns the texts of a content, which is a string or a list of blocks.
fn texts(content: &Value) -> Vec<&str> {
    match content {
        Value::String(text) => vec![text],
        Value::Array(blocks) => blocks.iter().filter_map(|block| block["text"].as_str()).collect(),
        _ => Vec::new(),
    }
}

/// Adds a record's part of a reply. Each part repeats the usage; the last one is complete.
fn extend(turn: &mut SessionTurn, reply: Reply) {
    if let Some(said) = reply.text() {
        turn.text = Some(match turn.text.take() {
            Some(text) => format!("{text}\n{said}"),
            None => said,
        });
    }
    turn.calls.extend(reply.calls().map(|call| SessionCall {
        id: call.id.clone(),
        name: call.name.clone(),
        input: serde_json::from_str(&call.input).unwrap_or_else(|_| call.input.clone().into()),
        started: Vec::new(),
    }));
    turn.usage = reply.usage;
    turn.stop = reply.stop.or(turn.stop.take());
}

fn millis(text: &str) -> Option<Millis> {
    text.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond)
}
