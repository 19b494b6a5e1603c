//! A loaded recording: its exchanges, its turns, and indexes of the turns by their history.

use std::collections::HashMap;
use std::ops::Index;
use std::path::PathBuf;

use recording::lanes::{LaneKind, Lanes, Outline, Replies};
use recording::source::TimelineEntry;
use session::RequestId;
use wire::Ending;
use wire::dialect::Dialect;
use wire::sse::SseDecoder;

use super::names::RecordedNames;
use super::side_request::SideRequest;

/// A recording, loaded for replay.
#[derive(Debug)]
pub struct RecordedTraffic {
    pub(super) dir: PathBuf,
    pub(super) exchanges: Vec<RecordedExchange>,
    /// Turns that ask a model, in the order of their first request.
    pub(super) turns: Vec<RecordedTurn>,
    /// Turns by the digest of all model replies in their history.
    pub(super) by_replies: HashMap<u64, Vec<TurnIndex>>,
    /// Turns by the digest of the last model reply in their history.
    pub(super) by_last_reply: HashMap<u64, Vec<TurnIndex>>,
    /// Requests that ask no model, by method and path.
    pub(super) side_requests: HashMap<String, Vec<ExchangeIndex>>,
    pub(super) replies: Replies,
    pub(super) names: RecordedNames,
    pub(super) lanes: Lanes,
    pub(super) timeline: Vec<TimelineEntry>,
    /// Exchanges by their number in the recording.
    pub(super) by_number: HashMap<usize, ExchangeIndex>,
}

/// Index of an exchange in [`RecordedTraffic`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ExchangeIndex(pub(super) usize);

/// Index of a turn in [`RecordedTraffic`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct TurnIndex(pub(super) usize);

/// One recorded exchange: an attempt at a turn, or a side request.
#[derive(Debug)]
pub(super) struct RecordedExchange {
    pub(super) id: RequestId,
    /// Its number in the recording.
    pub(super) number: usize,
    pub(super) lane: String,
    pub(super) kind: LaneKind,
    pub(super) turn: u32,
    /// `None` if it asks no model.
    pub(super) dialect: Option<Dialect>,
    /// Path of the request; method and path if it asks no model.
    pub(super) path: String,
    pub(super) outline: Outline,
    pub(super) side_request: SideRequest,
    /// Time of the request in microseconds since the recording began.
    pub(super) requested_us: u64,
    pub(super) response: RecordedResponse,
    /// True if the response is a complete answer.
    pub(super) is_complete: bool,
    /// Digest of all model replies in the history, this one included.
    pub(super) replies_after: u64,
    /// The provider's id of the reply.
    pub(super) reply_id: Option<String>,
}

/// One recorded turn with its attempts.
#[derive(Debug)]
pub(super) struct RecordedTurn {
    pub(super) lane: String,
    pub(super) number: u32,
    pub(super) is_side: bool,
    /// In recorded order; at least one.
    pub(super) attempts: Vec<ExchangeIndex>,
}

/// A recorded response.
#[derive(Clone, Debug)]
pub(super) struct RecordedResponse {
    /// `None` if no response was recorded.
    pub(super) status: Option<u16>,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    pub(super) is_stream: bool,
    /// At least one.
    pub(super) parts: Vec<ResponsePart>,
    pub(super) ending: Option<Ending>,
}

/// A part of a body that was read at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ResponsePart {
    /// Offset in the body.
    pub(super) start: usize,
    /// Time since the request in microseconds.
    pub(super) us: u64,
}

impl Index<ExchangeIndex> for RecordedTraffic {
    type Output = RecordedExchange;

    fn index(&self, index: ExchangeIndex) -> &RecordedExchange {
        &self.exchanges[index.0]
    }
}

impl Index<TurnIndex> for RecordedTraffic {
    type Output = RecordedTurn;

    fn index(&self, index: TurnIndex) -> &RecordedTurn {
        &self.turns[index.0]
    }
}

impl RecordedTraffic {
    /// Fills the indexes.
    pub(super) fn build_indexes(&mut self) {
        for (turn, recorded) in self.turns.iter().enumerate() {
            for attempt in &recorded.attempts {
                let outline = &self.exchanges[attempt.0].outline;
                push_new(self.by_replies.entry(outline.replies_digest).or_default(), TurnIndex(turn));
                if let Some(last) = outline.last {
                    push_new(self.by_last_reply.entry(last).or_default(), TurnIndex(turn));
                }
            }
        }
        for (at, exchange) in self.exchanges.iter().enumerate() {
            self.by_number.insert(exchange.number, ExchangeIndex(at));
            if exchange.dialect.is_none() {
                self.side_requests.entry(exchange.path.clone()).or_default().push(ExchangeIndex(at));
            }
        }
    }

    /// Returns the first attempt at a turn.
    pub(super) fn first_attempt(&self, turn: TurnIndex) -> &RecordedExchange {
        &self[self[turn].attempts[0]]
    }

    pub(super) fn turn_indexes(&self) -> impl Iterator<Item = TurnIndex> + use<> {
        (0..self.turns.len()).map(TurnIndex)
    }

    /// Returns the exchanges that an order is planned for: those of agents, not those of side calls.
    pub(super) fn planned_exchanges(&self) -> impl Iterator<Item = ExchangeIndex> {
        let is_planned =
            |exchange: &RecordedExchange| exchange.dialect.is_some() && exchange.kind != LaneKind::Side;
        let exchanges = self.exchanges.iter().enumerate();
        exchanges.filter(move |(_, exchange)| is_planned(exchange)).map(|(at, _)| ExchangeIndex(at))
    }

    /// Number of exchanges.
    pub fn len(&self) -> usize {
        self.exchanges.len()
    }

    /// Returns whether the recording has no exchange.
    pub fn is_empty(&self) -> bool {
        self.exchanges.is_empty()
    }

    /// Returns the lanes of the recording.
    pub fn lanes(&self) -> &Lanes {
        &self.lanes
    }
}

fn push_new(turns: &mut Vec<TurnIndex>, turn: TurnIndex) {
    if turns.last() != Some(&turn) {
        turns.push(turn);
    }
}

impl Default for RecordedResponse {
    /// A response that never came: one empty part.
    fn default() -> Self {
        Self {
            status: None,
            headers: Vec::new(),
            body: Vec::new(),
            is_stream: false,
            parts: vec![ResponsePart { start: 0, us: 0 }],
            ending: None,
        }
    }
}

/// Returns the offset of each event of a stream. A comment belongs to the event that follows it.
pub(super) fn event_starts(body: &[u8]) -> Vec<usize> {
    let frames = SseDecoder::new().push(body);
    let mut starts = vec![0];
    for frame in frames {
        // The empty line that ends a frame follows its span.
        let mut end = frame.span.end;
        for _ in 0..2 {
            end += match &body[end.min(body.len())..] {
                [b'\r', b'\n', ..] => 2,
                [b'\r' | b'\n', ..] => 1,
                _ => 0,
            };
        }
        starts.push(end);
    }
    starts.retain(|start| *start < body.len());
    starts
}
