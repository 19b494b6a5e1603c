//! Loads a recording for replay.

use std::collections::HashMap;
use std::path::Path;

use recording::OpenError;
use recording::lanes::{LaneKind, LaneResponse, Lanes, Outline, Replies};
use recording::source::{
    Origin, Problem, Source, SourceObserver, SourceRequest, SourceResponse, TimelineEntry, TimelineEvent,
    url_path,
};
use session::RequestId;
use thiserror::Error;
use wire::dialect::{Dialect, Prompt};
use wire::{Ending, Header};

use super::names::NameFinder;
use super::side_request::SideRequest;
use super::traffic::{
    ExchangeIndex, RecordedExchange, RecordedResponse, RecordedTraffic, RecordedTurn, ResponsePart,
    event_starts,
};

/// Maximum length of a kept text of a request.
const MAX_TEXT: usize = 64 << 10;

/// A recording cannot be replayed.
#[derive(Debug, Error)]
pub enum ReplayLoadError {
    /// The folder cannot be read.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The folder has no exchange.
    #[error("`{dir}` has no exchange")]
    Empty {
        /// The folder.
        dir: String,
    },
    /// A file is incomplete or is not a dump.
    #[error("cannot replay `{file}` in `{dir}`: {why}")]
    Unreadable {
        /// The folder.
        dir: String,
        /// The file, or the exchange.
        file: String,
        /// The problem.
        why: String,
    },
    /// The body of a response is missing.
    #[error("cannot replay the response of `{id}` in `{dir}`: {why}")]
    Unplayable {
        /// The folder.
        dir: String,
        /// The exchange.
        id: RequestId,
        /// The problem.
        why: String,
    },
}

impl RecordedTraffic {
    /// Loads the recording in `dir`.
    pub fn load(dir: &Path) -> Result<Self, ReplayLoadError> {
        let source = Source::open(dir)?;
        if source.is_empty() {
            return Err(ReplayLoadError::Empty { dir: dir.display().to_string() });
        }
        let timeline = source.timeline();
        let mut loader = TrafficLoader { parts: parts(&timeline), timeline, ..TrafficLoader::default() };
        let ordered = source.order_observed(&mut loader);
        if let Some(Problem { what: file, why }) = ordered.problems.into_iter().find(is_unreadable) {
            return Err(ReplayLoadError::Unreadable { dir: dir.display().to_string(), file, why });
        }
        loader.assign_turns(&ordered.lanes);
        loader.check_missing_responses(&source);
        if let Some((id, why)) = loader.unplayable {
            return Err(ReplayLoadError::Unplayable { dir: dir.display().to_string(), id, why });
        }
        let names = loader.names.finish(|n| {
            let asked = source.request(n).ok()?;
            let body = asked.body.bytes.as_deref()?;
            Dialect::detect(&asked.url, body)?.decode_request(body).ok()
        });
        let mut traffic = Self {
            dir: dir.to_owned(),
            turns: turns(&loader.exchanges, &ordered.lanes),
            exchanges: loader.exchanges,
            by_replies: HashMap::new(),
            by_last_reply: HashMap::new(),
            side_requests: HashMap::new(),
            replies: loader.replies,
            names,
            lanes: ordered.lanes,
            timeline: loader.timeline,
            by_number: HashMap::new(),
        };
        traffic.build_indexes();
        Ok(traffic)
    }
}

/// Returns whether a file that is needed cannot be read. Duplicates and responses without a request are not needed.
fn is_unreadable(problem: &Problem) -> bool {
    let is_dump = problem.what.ends_with("_request.json") || problem.what.ends_with("_response.json");
    let is_exchange = problem.what.starts_with("exchange ");
    is_exchange || (is_dump && problem.why.starts_with("it cannot be read"))
}

/// Returns the turns that ask a model, in the order of their first request.
fn turns(exchanges: &[RecordedExchange], lanes: &Lanes) -> Vec<RecordedTurn> {
    let by_id: HashMap<&RequestId, usize> =
        exchanges.iter().enumerate().map(|(at, exchange)| (&exchange.id, at)).collect();
    let mut turns: Vec<(u32, RecordedTurn)> = Vec::new();
    for lane in &lanes.lanes {
        for turn in &lane.turns {
            let known = turn.attempts.iter().filter_map(|id| by_id.get(id).copied());
            let asking = known.filter(|at| exchanges[*at].dialect.is_some());
            let attempts: Vec<ExchangeIndex> = asking.map(ExchangeIndex).collect();
            if !attempts.is_empty() {
                let is_side = lane.kind == LaneKind::Side;
                let recorded = RecordedTurn { lane: lane.id.clone(), number: turn.turn, is_side, attempts };
                turns.push((turn.seq, recorded));
            }
        }
    }
    turns.sort_by_key(|(seq, _)| *seq);
    turns.into_iter().map(|(_, turn)| turn).collect()
}

/// Collects the exchanges while the recording is read.
#[derive(Default)]
struct TrafficLoader {
    timeline: Vec<TimelineEntry>,
    parts: HashMap<usize, Vec<ResponsePart>>,
    exchanges: Vec<RecordedExchange>,
    /// Indexes of exchanges by their number in the recording.
    by_number: HashMap<usize, usize>,
    replies: Replies,
    names: NameFinder,
    /// The first response that cannot be replayed.
    unplayable: Option<(RequestId, String)>,
}

impl TrafficLoader {
    /// Distinguishes responses that were never recorded from those that exist and cannot be read.
    fn check_missing_responses(&mut self, source: &Source) {
        for exchange in self.exchanges.iter().filter(|exchange| exchange.response.status.is_none()) {
            if let Err(error) = source.response(exchange.number) {
                self.unplayable.get_or_insert((exchange.id.clone(), error.to_string()));
            }
        }
    }

    /// Sets lane, turn and time of each exchange.
    fn assign_turns(&mut self, lanes: &Lanes) {
        let mut places = HashMap::new();
        for lane in &lanes.lanes {
            for turn in &lane.turns {
                places.extend(turn.attempts.iter().map(|id| (id, (lane, turn.turn))));
            }
        }
        for exchange in &mut self.exchanges {
            if let Some((lane, turn)) = places.get(&exchange.id) {
                (exchange.lane, exchange.kind, exchange.turn) = (lane.id.clone(), lane.kind, *turn);
            }
        }
        for moment in &self.timeline {
            if let TimelineEvent::RequestArrived(n) = moment.event
                && let Some(at) = self.by_number.get(&n)
            {
                self.exchanges[*at].requested_us = moment.us;
            }
        }
    }
}

/// Returns the parts of each response, by the number of the exchange.
fn parts(timeline: &[TimelineEntry]) -> HashMap<usize, Vec<ResponsePart>> {
    let mut requested = HashMap::new();
    let mut parts: HashMap<usize, Vec<ResponsePart>> = HashMap::new();
    for moment in timeline {
        match moment.event {
            TimelineEvent::RequestArrived(n) => {
                requested.insert(n, moment.us);
            }
            TimelineEvent::ResponseRead { exchange, offset } => {
                let us = moment.us.saturating_sub(requested.get(&exchange).copied().unwrap_or_default());
                parts.entry(exchange).or_default().push(ResponsePart { start: offset as usize, us });
            }
            TimelineEvent::ResponseEnded(_) => {}
        }
    }
    parts
}

impl SourceObserver for TrafficLoader {
    fn request(&mut self, n: usize, asked: &SourceRequest, prompt: Option<&Prompt>) {
        let body = asked.body.bytes.as_deref().unwrap_or_default();
        let mut outline = Outline::default();
        if let Some(prompt) = prompt {
            outline = self.replies.outline(prompt, &asked.identity(body, prompt));
            for text in &mut outline.texts {
                text.truncate(text.floor_char_boundary(MAX_TEXT));
            }
            self.names.add_request(n, prompt);
        }
        let path = url_path(&asked.url).trim_end_matches('/');
        self.by_number.insert(n, self.exchanges.len());
        self.exchanges.push(RecordedExchange {
            id: asked.id.clone(),
            number: n,
            lane: String::new(),
            kind: LaneKind::Side,
            turn: 1,
            dialect: prompt.map(|prompt| prompt.dialect),
            path: match prompt {
                Some(_) => path.to_owned(),
                None => format!("{} {path}", asked.method),
            },
            replies_after: outline.replies_digest,
            outline,
            side_request: match prompt {
                Some(_) => SideRequest::default(),
                None => SideRequest::new(query(&asked.url), body),
            },
            requested_us: 0,
            response: RecordedResponse::default(),
            is_complete: false,
            reply_id: None,
        });
    }

    fn response(&mut self, n: usize, answered: &SourceResponse, heard: &LaneResponse) {
        let Some(&at) = self.by_number.get(&n) else { return };
        let parts = self.parts.remove(&n).unwrap_or_default();
        let exchange = &mut self.exchanges[at];
        match response(answered, parts) {
            Ok(mut response) => {
                if has_ended(answered, heard, exchange.dialect) {
                    response.status = response.status.or(Some(200));
                    response.ending = Some(Ending::Complete);
                }
                exchange.response = response;
            }
            Err(why) => {
                self.unplayable.get_or_insert((exchange.id.clone(), why));
                return;
            }
        }
        exchange.is_complete = match exchange.dialect {
            Some(_) => heard.whole,
            None => exchange.response.ending == Some(Ending::Complete),
        };
        exchange.replies_after = self.replies.learn(exchange.outline.replies_digest, heard);
        if let Some(reply) = &heard.reply {
            exchange.reply_id = Some(reply.id.clone());
            self.names.add_reply(reply);
        }
    }
}

/// Converts a response of a recording.
fn response(answered: &SourceResponse, mut parts: Vec<ResponsePart>) -> Result<RecordedResponse, String> {
    let body = match (&answered.body.bytes, answered.body.origin) {
        (_, Origin::Excerpt | Origin::Object) => {
            return Err("the dump has a part of the body or a decoded object, not the bytes".to_owned());
        }
        (Some(bytes), _) => bytes.clone(),
        // An exchange that was in flight when the recording stopped has none.
        (None, _) if answered.ending.is_none() => Vec::new(),
        (None, _) => return Err("the body was not recorded".to_owned()),
    };
    if let Some(status) = answered.status.filter(|status| !(200..600).contains(status)) {
        return Err(format!("its status is {status}"));
    }
    let headers = headers(answered, &body);
    let kind = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    let is_stream = kind.is_some_and(|(_, kind)| kind.contains("event-stream"))
        || (kind.is_none() && (body.starts_with(b"event:") || body.starts_with(b"data:")));
    // Recorded offsets count the bytes as they were sent. A body that was unpacked is divided by its events instead.
    if answered.body.origin != Origin::Raw || parts.is_empty() {
        parts = evenly_timed_parts(answered, &body, is_stream);
    }
    parts.retain(|part| part.start < body.len());
    parts.dedup_by_key(|part| part.start);
    if parts.first().is_none_or(|part| part.start != 0) {
        parts.insert(0, ResponsePart { start: 0, us: answered.first_byte_us.unwrap_or_default() });
    }
    Ok(RecordedResponse { status: answered.status, headers, body, is_stream, parts, ending: answered.ending })
}

/// Returns the headers to replay: those that do not describe the framing, which is our own.
fn headers(answered: &SourceResponse, body: &[u8]) -> Vec<(String, String)> {
    // A body that could not be unpacked is sent as it was stored, so its encoding still holds.
    let is_packed = answered.body.origin == Origin::Raw && std::str::from_utf8(body).is_err();
    let is_kept =
        |name: &str| !is_framing(name) || (is_packed && name.eq_ignore_ascii_case("content-encoding"));
    let plain = |header: &Header| Some((header.name().to_owned(), header.value()?.to_owned()));
    // A line break would end the header, or the head.
    let is_line = |text: &str| !text.contains(['\r', '\n', '\0']);
    let headers = answered.headers.iter().filter_map(plain);
    headers.filter(|(name, value)| is_kept(name) && is_line(name) && is_line(value)).collect()
}

fn is_framing(name: &str) -> bool {
    const FRAMING: [&str; 7] = [
        "content-length",
        "content-encoding",
        "transfer-encoding",
        "connection",
        "keep-alive",
        "trailer",
        "upgrade",
    ];
    FRAMING.iter().any(|framing| name.eq_ignore_ascii_case(framing))
}

/// Returns a part for each event, with times distributed evenly between first byte and end.
fn evenly_timed_parts(answered: &SourceResponse, body: &[u8], is_stream: bool) -> Vec<ResponsePart> {
    let end_us = answered.end_us.unwrap_or_default();
    let first_us = answered.first_byte_us.unwrap_or(end_us);
    let starts = if is_stream { event_starts(body) } else { vec![0] };
    let steps = starts.len().max(2) as u64 - 1;
    let us = |step: usize| first_us + end_us.saturating_sub(first_us) * step as u64 / steps;
    starts.into_iter().enumerate().map(|(step, start)| ResponsePart { start, us: us(step) }).collect()
}

/// Returns whether a response without a recorded ending is complete, as in dumps of other tools.
fn has_ended(answered: &SourceResponse, heard: &LaneResponse, dialect: Option<Dialect>) -> bool {
    let is_error = answered.status.is_some_and(|status| status >= 400);
    let is_there = answered.body.bytes.is_some() && answered.error.is_none();
    answered.ending.is_none() && is_there && (dialect.is_none() || heard.whole || is_error)
}

fn query(url: &str) -> &str {
    url.split_once('?').map_or("", |(_, query)| query)
}
