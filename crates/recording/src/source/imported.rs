//! Exchanges rebuilt from an imported session.
//!
//! A transcript has the messages and nothing else. Requests and replies are encoded from them, so that a session can be
//! shown, compared and replayed like a recording. What it does not say stays unknown: instructions, tools, settings,
//! headers and times. [`ImportedExchanges::problems`] names it.

use std::path::Path;

use session::model::{Model, Vendor};
use session::{Block, Message, Reply, RequestId, Role, StopReason, ToolCall, ToolResult};
use wire::Header;
use wire::dialect::{Dialect, Draft};

use super::{Content, Origin, Problem, SenderIds, SourceEvent, SourceRequest, SourceResponse};
use crate::bounds;
use crate::envelope::{ENVELOPE, Envelope, SessionLane, SessionTurn};
use crate::error::OpenError;
use crate::lanes::{CallNote, CarriedResult, InjectedText, Lane, Lanes, Turn, TurnMark, said_by_user};

/// Number of characters in each event of a rebuilt stream.
const CHUNK: usize = 4096;

/// Turns of an imported session, in order.
#[derive(Debug)]
pub(super) struct ImportedExchanges {
    envelope: Envelope,
    /// Lane and turn of each exchange, by their indexes.
    places: Vec<(usize, usize)>,
}

impl ImportedExchanges {
    /// Reads the session in a folder, if there is one.
    pub(super) fn open(dir: &Path) -> Result<Option<Self>, OpenError> {
        let Some(json) = bounds::read(dir, ENVELOPE, bounds::LONGEST_DUMP)? else { return Ok(None) };
        let envelope: Envelope = serde_json::from_slice(&json)
            .map_err(|error| OpenError::Damaged { path: dir.join(ENVELOPE), why: error.to_string() })?;
        Ok(Some(Self::new(envelope)))
    }

    fn new(envelope: Envelope) -> Self {
        let lanes = lanes_of(&envelope);
        let mut places: Vec<(usize, usize)> = lanes
            .iter()
            .enumerate()
            .flat_map(|(lane, session)| (0..session.turns.len()).map(move |turn| (lane, turn)))
            .collect();
        places.sort_by_key(|(lane, turn)| (lanes[*lane].turns[*turn].seq, *lane, *turn));
        drop(lanes);
        Self { envelope, places }
    }

    /// Returns the format that the session was imported from.
    pub(super) fn source(&self) -> &str {
        &self.envelope.source
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn id(&self, n: usize) -> String {
        RequestId::nth(n as u64 + 1).to_string()
    }

    pub(super) fn events(&self) -> Vec<SourceEvent> {
        (0..self.len()).flat_map(|n| [SourceEvent::Request(n), SourceEvent::ResponseEnd(n)]).collect()
    }

    /// Names what the session does not know.
    pub(super) fn problems(&self) -> Vec<Problem> {
        let problem = |why: String| Problem { what: ENVELOPE.to_owned(), why };
        let mut problems = vec![problem(format!(
            "imported from `{}`; instructions, tools, settings, headers, times and the bytes of requests and replies are \
             unknown",
            self.source()
        ))];
        let lanes = lanes_of(&self.envelope);
        let without =
            lanes.iter().flat_map(|lane| &lane.turns).filter(|turn| !turn.usage.is_reported()).count();
        if without > 0 {
            problems.push(problem(format!("the usage of {without} of {} turns is unknown", self.len())));
        }
        problems
    }

    pub(super) fn request(&self, n: usize) -> SourceRequest {
        let (lane, turn) = self.place(n);
        let dialect = dialect_of(lane);
        let draft = Draft {
            model: lane.model.clone().unwrap_or_default(),
            stream: true,
            messages: history(lane, turn).into_iter().map(Into::into).collect(),
            ..Draft::default()
        };
        SourceRequest {
            id: RequestId::new(self.id(n)),
            timestamp: None,
            method: "POST".to_owned(),
            url: path_of(dialect).to_owned(),
            headers: Vec::new(),
            sender: SenderIds {
                session: lane.session.clone(),
                agent: lane.agent.clone(),
                message: lane.turns[turn].message.clone(),
                workspace: None,
            },
            body: rebuilt(dialect.encode_request(&draft).ok()),
        }
    }

    pub(super) fn response(&self, n: usize) -> Option<SourceResponse> {
        let (lane, turn) = self.place(n);
        let turn = &lane.turns[turn];
        let blocks = reply_blocks(turn);
        if blocks.is_empty() {
            return None;
        }
        let usual = if turn.calls.is_empty() { StopReason::EndTurn } else { StopReason::ToolUse };
        let reply = Reply {
            id: turn.message.clone().unwrap_or_else(|| self.id(n)),
            model: lane.model.clone().unwrap_or_default(),
            blocks,
            stop: Some(turn.stop.clone().unwrap_or(usual)),
            usage: turn.usage,
        };
        let events = dialect_of(lane).encode_stream(&reply, CHUNK);
        Some(SourceResponse {
            timestamp: None,
            status: None,
            headers: vec![Header::Plain {
                name: "content-type".to_owned(),
                value: "text/event-stream".to_owned(),
            }],
            ending: None,
            error: None,
            first_byte_us: None,
            end_us: None,
            body: rebuilt(events.ok().map(|events| events.concat())),
        })
    }

    /// Returns the lanes as the session has them.
    pub(super) fn lanes(&self) -> Lanes {
        let lanes = lanes_of(&self.envelope);
        let id = |lane: usize, turn: usize| {
            let n =
                self.places.iter().position(|place| *place == (lane, turn)).expect("every turn has a place");
            (n, RequestId::new(self.id(n)))
        };
        let lane = |(number, lane): (usize, &&SessionLane)| Lane {
            id: lane.id.clone(),
            kind: lane.kind,
            parent: lane.parent.clone(),
            spawned_by: lane.spawned_by.clone(),
            agent_type: lane.agent_type.clone(),
            session: lane.session.clone(),
            agent: lane.agent.clone(),
            turns: (0..lane.turns.len())
                .map(|at| {
                    let (n, request) = id(number, at);
                    turn(&lane.turns[at], n, request, at == 0)
                })
                .collect(),
        };
        Lanes { lanes: lanes.iter().enumerate().map(lane).collect() }
    }

    fn place(&self, n: usize) -> (&SessionLane, usize) {
        let (lane, turn) = self.places[n];
        (lanes_of(&self.envelope)[lane], turn)
    }
}

/// Returns all lanes, those of agents first.
fn lanes_of(envelope: &Envelope) -> Vec<&SessionLane> {
    envelope.agents().into_iter().chain(&envelope.side).collect()
}

fn turn(turn: &SessionTurn, n: usize, request: RequestId, is_first: bool) -> Turn {
    let texts: Vec<InjectedText> =
        turn.injected.iter().map(|said| InjectedText { role: said.role, text: said.text.clone() }).collect();
    let note = |call: &crate::envelope::SessionCall| CallNote {
        id: call.id.clone(),
        name: call.name.clone(),
        input: input_text(&call.input),
    };
    let carried = |result: &crate::envelope::SessionResult| CarriedResult {
        call: result.call.clone(),
        text: result.text.clone(),
        is_error: result.is_error,
    };
    Turn {
        turn: turn.turn,
        seq: turn.seq,
        attempts: vec![request],
        asked: said_by_user(&texts, is_first),
        calls: turn.calls.iter().map(note).collect(),
        results: turn.results.iter().map(carried).collect(),
        texts,
        text: turn.text.clone(),
        stop: turn.stop.clone(),
        usage: turn.usage,
        marks: turn.marks.clone(),
        asked_at: 2 * n as u64 + 1,
        answered_at: Some(2 * n as u64 + 2),
        whole: true,
    }
}

/// Returns the dialect of the model's vendor. A transcript does not name it.
fn dialect_of(lane: &SessionLane) -> Dialect {
    let model = lane.model.as_deref().unwrap_or_default();
    let id = model.rsplit('/').next().unwrap_or(model);
    match Model::find(id).map(|model| model.vendor) {
        Some(Vendor::OpenAi) => Dialect::OpenAiResponses,
        Some(_) => Dialect::AnthropicMessages,
        None if id.is_empty() || id.contains("claude") => Dialect::AnthropicMessages,
        None => Dialect::OpenAiChat,
    }
}

fn path_of(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::AnthropicMessages => "/v1/messages",
        Dialect::OpenAiChat => "/v1/chat/completions",
        Dialect::OpenAiResponses => "/v1/responses",
    }
}

/// Returns the messages of a request. A compaction starts a new history.
fn history(lane: &SessionLane, turn: usize) -> Vec<Message> {
    let turns = &lane.turns[..=turn];
    let began = turns.iter().rposition(|turn| turn.marks.contains(&TurnMark::Compaction)).unwrap_or_default();
    let mut messages: Vec<Message> = Vec::new();
    for (at, turn) in turns.iter().enumerate().skip(began) {
        for (role, block) in new_blocks(turn) {
            match messages.last_mut() {
                Some(last) if last.role == role => last.blocks.push(block),
                _ => messages.push(Message { role, blocks: vec![block] }),
            }
        }
        let blocks = reply_blocks(turn);
        if at + 1 < turns.len() && !blocks.is_empty() {
            messages.push(Message { role: Role::Assistant, blocks });
        }
    }
    messages
}

/// Returns the new blocks of a request, with their roles.
fn new_blocks(turn: &SessionTurn) -> Vec<(Role, Block)> {
    let text = |text: &str| Block::Text { text: text.to_owned() };
    let results = turn.results.iter().map(|result| {
        let blocks = vec![text(&result.text)];
        let (call, is_error) = (result.call.clone(), result.is_error);
        (Role::User, Block::ToolResult(ToolResult { call, blocks, is_error, server: false }))
    });
    let texts = turn.injected.iter().map(|said| (said.role, text(&said.text)));
    results.chain(texts).collect()
}

fn reply_blocks(turn: &SessionTurn) -> Vec<Block> {
    let text = turn.text.iter().map(|text| Block::Text { text: text.clone() });
    let calls = turn.calls.iter().map(|call| {
        let (id, name, input) = (call.id.clone(), call.name.clone(), input_text(&call.input));
        Block::ToolCall(ToolCall { id, name, input, server: false })
    });
    text.chain(calls).collect()
}

fn input_text(input: &serde_json::Value) -> String {
    match input {
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn rebuilt(bytes: Option<Vec<u8>>) -> Content {
    let origin = if bytes.is_some() { Origin::Rewritten } else { Origin::Lost };
    Content { bytes, sha256: None, origin }
}
