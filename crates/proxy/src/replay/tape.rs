//! A recording, ready to be played: every response, and the position that each answers.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

use recording::OpenError;
use recording::lanes::{Heard, LaneKind, Lanes, Outline, Replies};
use recording::source::{Answered, Asked, Happened, Moment, Origin, Problem, Source, Watch, path};
use session::RequestId;
use thiserror::Error;
use wire::dialect::{Dialect, Prompt};
use wire::sse::SseDecoder;
use wire::{Ending, Header};

use super::names::{Census, Names};
use super::question::Question;

/// Longest text that is kept of what a conversation opens with.
const OPENING: usize = 64 << 10;

/// A recording that cannot be played.
#[derive(Debug, Error)]
pub enum ReplayLoadError {
    /// It cannot be read.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// There is nothing in it.
    #[error("`{dir}` holds no exchange")]
    Empty {
        /// The folder.
        dir: String,
    },
    /// A file of it is cut short, or is no dump.
    #[error("`{file}` in `{dir}` cannot be played: {why}")]
    Unreadable {
        /// The folder.
        dir: String,
        /// The file, or which exchange it is.
        file: String,
        /// What is wrong.
        why: String,
    },
    /// A body of it is missing.
    #[error("the response of `{id}` in `{dir}` cannot be played: {why}")]
    Unplayable {
        /// The folder.
        dir: String,
        /// The exchange.
        id: RequestId,
        /// What is wrong.
        why: String,
    },
}

/// A recording, ready to be played.
#[derive(Debug)]
pub struct RecordedTraffic {
    pub(super) dir: PathBuf,
    pub(super) takes: Vec<Take>,
    /// Turns that ask a model.
    pub(super) spots: Vec<Spot>,
    /// Spots by what the model had said before.
    pub(super) by_spine: HashMap<u64, Vec<usize>>,
    /// Spots by what it had said last.
    pub(super) by_last: HashMap<u64, Vec<usize>>,
    /// Requests that ask no model, by method and path.
    pub(super) others: HashMap<String, Vec<usize>>,
    pub(super) replies: Replies,
    pub(super) names: Names,
    pub(super) lanes: Lanes,
    pub(super) timeline: Vec<Moment>,
    /// Takes by the number of their exchange.
    pub(super) by_exchange: HashMap<usize, usize>,
}

/// One recorded exchange.
#[derive(Debug)]
pub(super) struct Take {
    pub(super) id: RequestId,
    /// The number of its exchange.
    pub(super) exchange: usize,
    pub(super) lane: String,
    pub(super) kind: LaneKind,
    pub(super) turn: u32,
    pub(super) dialect: Option<Dialect>,
    pub(super) path: String,
    pub(super) outline: Outline,
    /// What it asks for, where it asks no model.
    pub(super) question: Question,
    pub(super) asked_us: u64,
    pub(super) response: Recorded,
    /// It ended as it should.
    pub(super) whole: bool,
    /// The spine of what is said with it.
    pub(super) after: u64,
    /// What the model calls its reply.
    pub(super) reply_id: Option<String>,
}

/// A turn and its attempts.
#[derive(Debug)]
pub(super) struct Spot {
    pub(super) lane: String,
    pub(super) turn: u32,
    pub(super) is_side: bool,
    /// In the order they were made.
    pub(super) takes: Vec<usize>,
}

/// A recorded response.
#[derive(Clone, Debug)]
pub(super) struct Recorded {
    /// Nothing where not even that came.
    pub(super) status: Option<u16>,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    pub(super) is_stream: bool,
    /// Where each part begins, and when it came, in microseconds since the request.
    pub(super) parts: Vec<(usize, u64)>,
    pub(super) ending: Option<Ending>,
}

impl RecordedTraffic {
    /// Loads the recording in `dir`.
    pub fn load(dir: &Path) -> Result<Self, ReplayLoadError> {
        let source = Source::open(dir)?;
        if source.is_empty() {
            return Err(ReplayLoadError::Empty { dir: dir.display().to_string() });
        }
        let timeline = source.timeline();
        let mut reading = Loading { parts: parts(&timeline), timeline, ..Loading::default() };
        let ordered = source.order_watched(&mut reading);
        if let Some(Problem { what: file, why }) = ordered.problems.into_iter().find(is_unreadable) {
            return Err(ReplayLoadError::Unreadable { dir: dir.display().to_string(), file, why });
        }
        reading.place(&ordered.lanes);
        reading.missing(&source);
        if let Some((id, why)) = reading.unplayable {
            return Err(ReplayLoadError::Unplayable { dir: dir.display().to_string(), id, why });
        }
        let names = reading.census.finish(|n| {
            let asked = source.asked(n).ok()?;
            let body = asked.body.bytes.as_deref()?;
            Dialect::detect(&asked.url, body)?.decode_request(body).ok()
        });
        let takes = reading.takes;
        let by_exchange = takes.iter().enumerate().map(|(at, take)| (take.exchange, at)).collect();
        let spots = spots(&takes, &ordered.lanes);
        let mut tape = Self {
            dir: dir.to_owned(),
            by_spine: HashMap::new(),
            by_last: HashMap::new(),
            others: HashMap::new(),
            replies: reading.replies,
            names,
            lanes: ordered.lanes,
            timeline: reading.timeline,
            by_exchange,
            takes,
            spots,
        };
        tape.index();
        Ok(tape)
    }

    fn index(&mut self) {
        for (number, spot) in self.spots.iter().enumerate() {
            for take in &spot.takes {
                let outline = &self.takes[*take].outline;
                add(self.by_spine.entry(outline.spine).or_default(), number);
                if let Some(last) = outline.last {
                    add(self.by_last.entry(last).or_default(), number);
                }
            }
        }
        for (at, take) in self.takes.iter().enumerate().filter(|(_, take)| take.dialect.is_none()) {
            self.others.entry(take.path.clone()).or_default().push(at);
        }
    }

    /// The first attempt at a turn.
    pub(super) fn first_of(&self, spot: usize) -> &Take {
        &self.takes[self.spots[spot].takes[0]]
    }

    /// How many exchanges there are.
    pub fn len(&self) -> usize {
        self.takes.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.takes.is_empty()
    }

    /// The lanes.
    pub fn lanes(&self) -> &Lanes {
        &self.lanes
    }
}

/// Whether a file that should be played cannot even be read. What is there twice, or answers nothing, hides nothing.
fn is_unreadable(problem: &Problem) -> bool {
    let is_dump = problem.what.ends_with("_request.json") || problem.what.ends_with("_response.json");
    let is_exchange = problem.what.starts_with("exchange ");
    is_exchange || (is_dump && problem.why.starts_with("it cannot be read"))
}

fn add(list: &mut Vec<usize>, number: usize) {
    if list.last() != Some(&number) {
        list.push(number);
    }
}

/// The turns that ask a model, in the order they were asked.
fn spots(takes: &[Take], lanes: &Lanes) -> Vec<Spot> {
    let by_id: HashMap<&RequestId, usize> =
        takes.iter().enumerate().map(|(at, take)| (&take.id, at)).collect();
    let mut turns: Vec<(u32, Spot)> = Vec::new();
    for lane in &lanes.lanes {
        for turn in &lane.turns {
            let found = turn.attempts.iter().filter_map(|id| by_id.get(id).copied());
            let attempts: Vec<usize> = found.filter(|take| takes[*take].dialect.is_some()).collect();
            if !attempts.is_empty() {
                let is_side = lane.kind == LaneKind::Side;
                turns.push((
                    turn.seq,
                    Spot { lane: lane.id.clone(), turn: turn.turn, is_side, takes: attempts },
                ));
            }
        }
    }
    turns.sort_by_key(|(seq, _)| *seq);
    turns.into_iter().map(|(_, spot)| spot).collect()
}

/// A tape while it is loaded.
#[derive(Default)]
struct Loading {
    timeline: Vec<Moment>,
    parts: HashMap<usize, Vec<(usize, u64)>>,
    takes: Vec<Take>,
    by_exchange: HashMap<usize, usize>,
    replies: Replies,
    census: Census,
    unplayable: Option<(RequestId, String)>,
}

impl Loading {
    /// A response that is there and cannot be read is no missing one.
    fn missing(&mut self, source: &Source) {
        for take in self.takes.iter().filter(|take| take.response.status.is_none()) {
            if let Err(error) = source.answered(take.exchange) {
                self.unplayable.get_or_insert((take.id.clone(), error.to_string()));
            }
        }
    }

    /// Gives every take its lane and turn.
    fn place(&mut self, lanes: &Lanes) {
        let mut places = HashMap::new();
        for lane in &lanes.lanes {
            for turn in &lane.turns {
                places.extend(turn.attempts.iter().map(|id| (id, (lane, turn.turn))));
            }
        }
        for take in &mut self.takes {
            if let Some((lane, turn)) = places.get(&take.id) {
                (take.lane, take.kind, take.turn) = (lane.id.clone(), lane.kind, *turn);
            }
        }
        for moment in &self.timeline {
            if let Happened::Asked(n) = moment.what
                && let Some(take) = self.by_exchange.get(&n)
            {
                self.takes[*take].asked_us = moment.us;
            }
        }
    }
}

/// When each part of each response was read, since its request; by exchange.
fn parts(timeline: &[Moment]) -> HashMap<usize, Vec<(usize, u64)>> {
    let mut asked = HashMap::new();
    let mut parts: HashMap<usize, Vec<(usize, u64)>> = HashMap::new();
    for moment in timeline {
        match moment.what {
            Happened::Asked(n) => {
                asked.insert(n, moment.us);
            }
            Happened::Read { exchange, offset } => {
                let since = moment.us.saturating_sub(asked.get(&exchange).copied().unwrap_or_default());
                parts.entry(exchange).or_default().push((offset as usize, since));
            }
            Happened::Ended(_) => {}
        }
    }
    parts
}

impl Watch for Loading {
    fn asked(&mut self, n: usize, asked: &Asked, prompt: Option<&Prompt>) {
        let mut outline = Outline::default();
        if let Some(prompt) = prompt {
            let body = asked.body.bytes.as_deref().unwrap_or_default();
            outline = self.replies.outline(prompt, &asked.identity(body, prompt));
            for text in &mut outline.texts {
                text.truncate(text.floor_char_boundary(OPENING));
            }
            self.census.asked(n, prompt);
        }
        self.by_exchange.insert(n, self.takes.len());
        self.takes.push(Take {
            id: asked.id.clone(),
            exchange: n,
            lane: String::new(),
            kind: LaneKind::Side,
            turn: 1,
            dialect: prompt.map(|prompt| prompt.dialect),
            path: match prompt {
                Some(_) => path(&asked.url).trim_end_matches('/').to_owned(),
                None => format!("{} {}", asked.method, path(&asked.url).trim_end_matches('/')),
            },
            after: outline.spine,
            outline,
            question: match prompt {
                Some(_) => Question::default(),
                None => Question::of(query(&asked.url), asked.body.bytes.as_deref().unwrap_or_default()),
            },
            asked_us: 0,
            response: Recorded::default(),
            whole: false,
            reply_id: None,
        });
    }

    fn answered(&mut self, n: usize, answered: &Answered, heard: &Heard) {
        let Some(&at) = self.by_exchange.get(&n) else { return };
        let parts = self.parts.remove(&n).unwrap_or_default();
        let id = self.takes[at].id.clone();
        let has_ended = has_ended(answered, heard, self.takes[at].dialect);
        match Recorded::of(answered, parts) {
            Ok(recorded) if has_ended => {
                let status = recorded.status.or(Some(200));
                self.takes[at].response = Recorded { ending: Some(Ending::Complete), status, ..recorded };
            }
            Ok(recorded) => self.takes[at].response = recorded,
            Err(why) => {
                self.unplayable.get_or_insert((id, why));
                return;
            }
        }
        let take = &mut self.takes[at];
        take.whole = match take.dialect {
            Some(_) => heard.whole,
            None => take.response.ending == Some(Ending::Complete),
        };
        take.after = self.replies.learn(take.outline.spine, heard);
        if let Some(reply) = &heard.reply {
            take.reply_id = Some(reply.id.clone());
            self.census.answered(reply);
        }
    }
}

impl Default for Recorded {
    /// Nothing came back: there is one part, and it is empty.
    fn default() -> Self {
        Self {
            status: None,
            headers: Vec::new(),
            body: Vec::new(),
            is_stream: false,
            parts: vec![(0, 0)],
            ending: None,
        }
    }
}

impl Recorded {
    fn of(answered: &Answered, mut parts: Vec<(usize, u64)>) -> Result<Self, String> {
        let body = match (&answered.body.bytes, answered.body.origin) {
            (_, Origin::Excerpt | Origin::Object) => {
                return Err("it is not what crossed the wire, but a part of it or an object".to_owned());
            }
            (Some(bytes), _) => bytes.clone(),
            // An exchange that was in flight when the recording stopped has none.
            (None, _) if answered.ending.is_none() => Vec::new(),
            (None, _) => return Err("its body was not kept".to_owned()),
        };
        if let Some(status) = answered.status.filter(|status| !(200..600).contains(status)) {
            return Err(format!("its status is {status}"));
        }
        // A body that could not be unpacked goes out as it was stored, and says so.
        let is_packed = answered.body.origin == Origin::Raw && std::str::from_utf8(&body).is_err();
        let is_kept =
            |name: &str| is_kept(name) || (is_packed && name.eq_ignore_ascii_case("content-encoding"));
        let plain = |header: &Header| Some((header.name().to_owned(), header.value()?.to_owned()));
        // What would end the line would end the head.
        let is_line = |text: &str| !text.contains(['\r', '\n', '\0']);
        let headers: Vec<(String, String)> = answered
            .headers
            .iter()
            .filter_map(plain)
            .filter(|(name, value)| is_kept(name) && is_line(name) && is_line(value))
            .collect();
        let kind = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        let is_stream = kind.is_some_and(|(_, kind)| kind.contains("event-stream"))
            || (kind.is_none() && (body.starts_with(b"event:") || body.starts_with(b"data:")));
        let end_us = answered.end_us.unwrap_or_default();
        // Offsets count the bytes as they were stored, not as they are unpacked.
        if answered.body.origin != Origin::Raw || parts.is_empty() {
            let first = answered.first_byte_us.unwrap_or(end_us);
            let starts = if is_stream { event_starts(&body) } else { vec![0] };
            let steps = starts.len().max(2) as u64 - 1;
            let at = |step: usize| first + end_us.saturating_sub(first) * step as u64 / steps;
            parts = starts.into_iter().enumerate().map(|(step, start)| (start, at(step))).collect();
        }
        parts.retain(|(start, _)| *start < body.len());
        parts.dedup_by_key(|(start, _)| *start);
        if parts.first().is_none_or(|(start, _)| *start != 0) {
            parts.insert(0, (0, answered.first_byte_us.unwrap_or_default()));
        }
        Ok(Self { status: answered.status, headers, body, is_stream, parts, ending: answered.ending })
    }
}

/// Whether a response came to its end that does not say how it ended, as in the dumps of others: it is whole, and
/// nothing says otherwise.
fn has_ended(answered: &Answered, heard: &Heard, dialect: Option<Dialect>) -> bool {
    let is_error = answered.status.is_some_and(|status| status >= 400);
    let is_there = answered.body.bytes.is_some() && answered.error.is_none();
    answered.ending.is_none() && is_there && (dialect.is_none() || heard.whole || is_error)
}

fn query(url: &str) -> &str {
    url.split_once('?').map_or("", |(_, query)| query)
}

/// Where each event of a stream begins; comments belong to the event behind them.
pub(super) fn event_starts(body: &[u8]) -> Vec<usize> {
    let frames = SseDecoder::new().push(body);
    let mut starts = vec![0];
    for frame in frames {
        // The empty line that ends a frame is behind its span.
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

/// Headers that say how a body is wrapped are ours to say.
fn is_kept(name: &str) -> bool {
    const OURS: [&str; 7] = [
        "content-length",
        "content-encoding",
        "transfer-encoding",
        "connection",
        "keep-alive",
        "trailer",
        "upgrade",
    ];
    !OURS.iter().any(|ours| name.eq_ignore_ascii_case(ours))
}

/// A body as a number.
pub(super) fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}
