//! Which lane and turn a request belongs to. A stub: histories that begin alike and the calls they carry.

use std::collections::HashMap;

use session::{Block, Reply, RequestId};
use wire::dialect::{Dialect, Outcome, Prompt, StreamEnd, accumulate};

/// Finds the lane of every request as it comes.
#[derive(Debug, Default)]
pub struct LaneTracker {
    lanes: Vec<Lane>,
    asked: HashMap<RequestId, usize>,
}

#[derive(Debug, Default)]
struct Lane {
    history: Vec<String>,
    /// What the newest reply is recognised by.
    marks: Vec<String>,
    heard: bool,
    turn: u32,
    attempt: u32,
}

/// Where a request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The lane's number, from 0.
    pub lane: usize,
    /// Its turn, from 1.
    pub turn: u32,
    /// The attempt at that turn, from 1.
    pub attempt: u32,
    /// The lane was not known before.
    pub is_new: bool,
}

/// What a request says of who sends it.
#[derive(Clone, Debug, Default)]
pub struct Identity;

impl Identity {
    /// From headers and body.
    pub fn of<'a>(
        _headers: impl Iterator<Item = (&'a str, &'a str)>,
        _body: &[u8],
        _prompt: &Prompt,
    ) -> Self {
        Self
    }
}

/// What came back.
#[derive(Clone, Debug, Default)]
pub struct Heard {
    /// The reply, as far as it came.
    pub reply: Option<Reply>,
    /// The ids of its output items.
    pub items: Vec<String>,
    /// It came whole.
    pub whole: bool,
}

impl Heard {
    /// From a response's body, streamed or not.
    pub fn of(dialect: Dialect, status: u16, body: &[u8]) -> Self {
        let (body, whole) = if body.first() == Some(&b'{') {
            (Some(body.to_vec()), status == 200)
        } else {
            let stream = accumulate(dialect, body);
            (stream.body, stream.end == StreamEnd::Complete)
        };
        let reply = body.and_then(|body| dialect.decode_reply(&body).ok()).and_then(Outcome::answer);
        Self { whole: whole && reply.is_some(), reply: reply.map(|answer| answer.reply), items: Vec::new() }
    }
}

impl LaneTracker {
    /// Knows no lane yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A request came.
    pub fn asked(&mut self, id: &RequestId, prompt: &Prompt, _identity: &Identity) -> Position {
        let history: Vec<String> =
            prompt.conversation().iter().map(|message| format!("{:?}", message.message())).collect();
        let said = said(prompt);
        let extends = |lane: &Lane| {
            lane.heard
                && history.len() > lane.history.len()
                && history.starts_with(&lane.history)
                && lane.marks.iter().any(|mark| said.contains(mark))
        };
        let again = |lane: &Lane| !lane.heard && lane.attempt > 0 && lane.history == history;
        let found = self
            .lanes
            .iter()
            .enumerate()
            .filter(|(_, lane)| extends(lane) || again(lane))
            .max_by_key(|(_, lane)| lane.history.len())
            .map(|(index, _)| index);
        let is_new = found.is_none();
        let index = found.unwrap_or_else(|| {
            self.lanes.push(Lane::default());
            self.lanes.len() - 1
        });
        let lane = &mut self.lanes[index];
        if is_new || lane.heard {
            (lane.turn, lane.attempt) = (lane.turn + 1, 0);
        }
        // Until it is answered it is no attempt's predecessor: twins ask alike at the same time.
        (lane.heard, lane.history, lane.attempt) = (false, history, lane.attempt + 1);
        let position = Position { lane: index, turn: lane.turn, attempt: lane.attempt, is_new };
        self.asked.insert(id.clone(), index);
        lane.marks.clear();
        lane.history.push(String::from("unanswered"));
        position
    }

    /// Its answer went out, or what came of it.
    pub fn answered(&mut self, id: &RequestId, heard: &Heard) {
        let Some(index) = self.asked.get(id) else { return };
        let lane = &mut self.lanes[*index];
        if lane.history.last().is_some_and(|last| last == "unanswered") {
            lane.history.pop();
        }
        lane.heard = heard.whole;
        if let Some(reply) = &heard.reply {
            lane.marks = reply.calls().map(|call| call.id.as_str().to_owned()).collect();
            if lane.marks.is_empty() {
                lane.marks = reply.text().into_iter().collect();
            }
        }
    }
}

fn said(prompt: &Prompt) -> Vec<String> {
    let blocks = prompt.messages.iter().flat_map(|message| &message.parts).map(|part| &part.block);
    blocks
        .filter_map(|block| match block {
            Block::ToolCall(call) => Some(call.id.as_str().to_owned()),
            Block::Text { text } => Some(text.clone()),
            _ => None,
        })
        .collect()
}
