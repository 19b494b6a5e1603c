//! Exchanges to be ordered, whoever recorded them: a recording of ours, or a bare folder of dumps.
//!
//! Start at [`Source`]. Bodies are loaded one at a time; what cannot be read is a [`Problem`], and
//! never keeps the rest from being read.

mod dumps;
mod log;
mod timeline;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use session::RequestId;
use wire::dialect::{DecodeError, Dialect};
use wire::json::Document;
use wire::{Ending, Header};

use crate::lanes::{Heard, Identity, LaneTracker, Lanes};
use crate::open::{OpenError, Recording};
use crate::{folder, hints};
pub use timeline::{Happened, Moment};

/// Bodies are unpacked to at most this size.
const UNPACKED: usize = 64 << 20;

/// A folder of exchanges.
#[derive(Debug)]
pub struct Source {
    dir: PathBuf,
    from: From,
    problems: Vec<Problem>,
}

#[derive(Debug)]
enum From {
    Log(Box<Recording>),
    Dumps(dumps::Dumps),
}

/// Something in a folder that could not be used as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Problem {
    /// The file or the request.
    pub what: String,
    /// What is wrong with it.
    pub why: String,
}

/// The request of an exchange.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Its name.
    pub id: RequestId,
    /// When it arrived.
    pub timestamp: Option<String>,
    /// As in `POST`.
    pub method: String,
    /// Where it went.
    pub url: String,
    /// The headers.
    pub headers: Vec<Header>,
    /// The harness's session, agent and message, where the dump says so.
    pub named: Named,
    /// The body.
    pub body: Content,
}

/// The response of an exchange, as far as it came.
#[derive(Clone, Debug)]
pub struct Answered {
    /// When it began.
    pub timestamp: Option<String>,
    /// The status, where one came.
    pub status: Option<u16>,
    /// The headers.
    pub headers: Vec<Header>,
    /// How it ended; `None` where nobody knows.
    pub ending: Option<Ending>,
    /// What went wrong.
    pub error: Option<String>,
    /// Microseconds from the request to the first byte.
    pub first_byte_us: Option<u64>,
    /// Microseconds from the request to the end.
    pub end_us: Option<u64>,
    /// The body.
    pub body: Content,
}

/// What a dump says of its sender.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// The session.
    pub session: Option<String>,
    /// The agent.
    pub agent: Option<String>,
    /// The message.
    pub message: Option<String>,
    /// The folder the harness worked in.
    pub workspace: Option<String>,
}

/// A body, and how far it can be trusted to be what crossed the wire.
#[derive(Clone, Debug, Default)]
pub struct Content {
    /// The bytes, unpacked; `None` where they are not there.
    pub bytes: Option<Vec<u8>>,
    /// SHA-256 of the stored bytes, where known.
    pub sha256: Option<String>,
    /// Where the bytes come from.
    pub origin: Origin,
}

/// Where a body's bytes come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The wire.
    #[default]
    Raw,
    /// The wire, unpacked from a compressed form.
    Unpacked,
    /// JSON that another tool parsed and wrote again.
    Rewritten,
    /// A part of the body.
    Excerpt,
    /// An object taken before it was sent.
    Object,
    /// Nowhere: it was not kept.
    Lost,
}

/// What happened, in the order it happened; by the number of the exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Asked(usize),
    Ended(usize),
}

/// An exchange in short, once all have been ordered.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Its name.
    pub id: RequestId,
    /// As in `POST`.
    pub method: String,
    /// Where it went.
    pub url: String,
    /// The dialect it speaks, where it asks a model.
    pub dialect: Option<Dialect>,
    /// The model that was asked.
    pub model: Option<String>,
    /// The status.
    pub status: Option<u16>,
    /// How it ended.
    pub ending: Option<Ending>,
    /// Microseconds since the recording began, where known.
    pub started_us: Option<u64>,
    /// Microseconds from the request to the end.
    pub took_us: Option<u64>,
    /// What went wrong: the provider's words, or the connection's.
    pub error: Option<String>,
}

/// A source in order: its lanes, and each exchange in short.
#[derive(Debug, Default)]
pub struct Ordered {
    /// The lanes.
    pub lanes: Lanes,
    /// The exchanges in the order of arrival.
    pub exchanges: Vec<Summary>,
    /// What could not be used as it is.
    pub problems: Vec<Problem>,
}

impl Source {
    /// Opens a recording, or a folder of `*_request.json` and `*_response.json`.
    ///
    /// A recording of ours is looked through: whatever in it is cut off, gone or leads elsewhere is an error. A folder
    /// of dumps may have been written by anybody, so what is wrong with one of them is a [`Problem`]; but nothing
    /// outside of it is ever read either.
    pub fn open(dir: &Path) -> Result<Self, OpenError> {
        let of_log = |recording: Recording| {
            recording.look_through()?;
            Ok(Self { dir: dir.to_owned(), from: From::Log(Box::new(recording)), problems: Vec::new() })
        };
        let of_dumps = |(dumps, problems)| Self { dir: dir.to_owned(), from: From::Dumps(dumps), problems };
        match Recording::open(dir) {
            Ok(recording) if recording.kept_whole().is_some() => of_log(recording),
            Ok(recording) if !recording.is_empty() || !dir.join(folder::DUMPS).is_dir() => of_log(recording),
            // One that lost its log still has its dumps; one in which nothing was asked has neither.
            Ok(recording) => match dumps::Dumps::open(dir) {
                Err(OpenError::NotARecording { .. }) => of_log(recording),
                dumps => dumps.map(of_dumps),
            },
            Err(OpenError::NotARecording { .. }) => dumps::Dumps::open(dir).map(of_dumps),
            Err(error) => Err(error),
        }
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The recording, where it is one of ours.
    pub fn recording(&self) -> Option<&Recording> {
        match &self.from {
            From::Log(recording) => Some(recording),
            From::Dumps(_) => None,
        }
    }

    /// The dumps of a bare folder that could not be used, and why.
    pub fn unused(&self) -> &[Problem] {
        &self.problems
    }

    /// How many exchanges there are.
    pub fn len(&self) -> usize {
        match &self.from {
            From::Log(recording) => recording.len(),
            From::Dumps(dumps) => dumps.len(),
        }
    }

    /// Whether there is no exchange.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The name of the `n`th exchange, from 0.
    pub fn id(&self, n: usize) -> RequestId {
        RequestId::new(match &self.from {
            From::Log(recording) => recording.entries()[n].arrived.id.clone(),
            From::Dumps(dumps) => dumps.id(n).to_owned(),
        })
    }

    /// The request of the `n`th exchange, from 0.
    pub fn asked(&self, n: usize) -> Result<Asked, OpenError> {
        match &self.from {
            From::Log(recording) => log::asked(recording, n),
            From::Dumps(dumps) => dumps.asked(n),
        }
    }

    /// The response of the `n`th exchange, from 0; `None` where there is none.
    pub fn answered(&self, n: usize) -> Result<Option<Answered>, OpenError> {
        match &self.from {
            From::Log(recording) => log::answered(recording, n),
            From::Dumps(dumps) => dumps.answered(n),
        }
    }

    /// Finds the lanes. Every body is read once and let go.
    pub fn order(&self) -> Ordered {
        self.order_watched(&mut Unwatched)
    }

    /// Finds the lanes, and shows each request and response to `watch` in the order of what happened.
    pub fn order_watched(&self, watch: &mut dyn Watch) -> Ordered {
        let events = match &self.from {
            From::Log(recording) => log::events(recording),
            From::Dumps(dumps) => dumps.events(),
        };
        let mut ordering = Ordering {
            source: self,
            watch,
            tracker: LaneTracker::new(),
            exchanges: Vec::new(),
            places: vec![None; self.len()],
            problems: self.problems.clone(),
        };
        for event in events {
            match event {
                Event::Asked(n) => ordering.asked(n),
                Event::Ended(n) => ordering.ended(n),
            }
        }
        let Ordering { tracker, exchanges, problems, .. } = ordering;
        Ordered { lanes: tracker.finish(), exchanges, problems }
    }
}

/// Sees what a source holds while it is put in order.
pub trait Watch {
    /// A request that asks a model, and the document that it was decoded from.
    fn decoded(&mut self, _asked: &Asked, _document: &Document<'_>, _prompt: &wire::dialect::Prompt) {}
    /// The request of the `n`th exchange, decoded where it asks a model.
    fn asked(&mut self, n: usize, asked: &Asked, prompt: Option<&wire::dialect::Prompt>);
    /// The response of the `n`th exchange.
    fn answered(&mut self, n: usize, answered: &Answered, heard: &Heard);
}

struct Unwatched;

impl Watch for Unwatched {
    fn asked(&mut self, _: usize, _: &Asked, _: Option<&wire::dialect::Prompt>) {}
    fn answered(&mut self, _: usize, _: &Answered, _: &Heard) {}
}

struct Ordering<'s> {
    source: &'s Source,
    watch: &'s mut dyn Watch,
    tracker: LaneTracker,
    exchanges: Vec<Summary>,
    places: Vec<Option<usize>>,
    problems: Vec<Problem>,
}

impl Ordering<'_> {
    fn asked(&mut self, n: usize) {
        let asked = match self.source.asked(n) {
            Ok(asked) => asked,
            Err(error) => return self.problem(format!("exchange {}", n + 1), &error),
        };
        let body = asked.body.bytes.as_deref().unwrap_or_default();
        let question = question(&asked, body, self.watch);
        self.watch.asked(n, &asked, question.as_ref().ok());
        let dialect = question.as_ref().ok().map(|prompt| prompt.dialect);
        let model = question.as_ref().ok().and_then(|prompt| prompt.model.clone());
        match &question {
            Ok(prompt) => {
                let identity = asked.identity(body, prompt);
                self.tracker.asked(&asked.id, prompt, &identity);
            }
            Err(reason) => {
                self.tracker.other(&asked.id, &format!("{} {}", asked.method, path(&asked.url)));
                if let Some(why) = reason {
                    self.problems.push(Problem { what: asked.id.to_string(), why: why.clone() });
                }
            }
        }
        if asked.body.origin >= Origin::Excerpt {
            let why = format!("its request is not raw: {}", asked.body.origin.words());
            self.problems.push(Problem { what: asked.id.to_string(), why });
        }
        self.places[n] = Some(self.exchanges.len());
        self.exchanges.push(Summary {
            id: asked.id,
            method: asked.method,
            url: asked.url,
            dialect,
            model,
            status: None,
            ending: None,
            started_us: self.source.recording().and_then(|recording| recording.times(n)).map(|times| times.0),
            took_us: None,
            error: None,
        });
    }

    fn ended(&mut self, n: usize) {
        let Some(place) = self.places[n] else { return };
        let (id, dialect) = (self.exchanges[place].id.clone(), self.exchanges[place].dialect);
        let answered = match self.source.answered(n) {
            Ok(answered) => answered,
            Err(error) => {
                self.tracker.answered(&id, &Heard::default());
                return self.problem(format!("the response of {id}"), &error);
            }
        };
        let heard = answered.as_ref().map(|answered| answered.heard(dialect)).unwrap_or_default();
        self.tracker.answered(&id, &heard);
        if let Some(answered) = &answered {
            self.watch.answered(n, answered, &heard);
        }
        let Some(answered) = answered else {
            let why = "there is no response".to_owned();
            return self.problems.push(Problem { what: id.to_string(), why });
        };
        if answered.body.origin >= Origin::Excerpt {
            let why = format!("its response is not raw: {}", answered.body.origin.words());
            self.problems.push(Problem { what: id.to_string(), why });
        }
        let words = heard.error.map(|error| format!("{}: {}", error.kind, error.message));
        let summary = &mut self.exchanges[place];
        summary.status = answered.status;
        summary.ending = answered.ending;
        summary.took_us = answered.end_us;
        summary.error = answered.error.or(words);
    }

    fn problem(&mut self, what: String, error: &dyn std::error::Error) {
        let mut why = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            why = format!("{why}: {error}");
            cause = error.source();
        }
        self.problems.push(Problem { what, why });
    }
}

/// The question to a model that a request is; else why it is none, where that is worth saying.
fn question(
    asked: &Asked,
    body: &[u8],
    watch: &mut dyn Watch,
) -> Result<wire::dialect::Prompt, Option<String>> {
    if asked.method != "POST" || path(&asked.url).ends_with("/count_tokens") {
        return Err(None);
    }
    if asked.body.bytes.is_none() {
        return Err(Some("its request body is not there".into()));
    }
    let dialect = Dialect::detect(&asked.url, body).ok_or(None)?;
    let not_understood = |error: DecodeError| Some(format!("its request is not understood: {error}"));
    let document = Document::parse(body).map_err(|error| not_understood(error.into()))?;
    let prompt = dialect.decode_document(&document).map_err(not_understood)?;
    watch.decoded(asked, &document, &prompt);
    Ok(prompt)
}

/// The path of an address, without its query.
pub fn path(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest.find('/').map_or("/", |at| &rest[at..]));
    rest.split('?').next().unwrap_or(rest)
}

impl Asked {
    /// What the request says of its sender.
    pub fn identity(&self, body: &[u8], prompt: &wire::dialect::Prompt) -> Identity {
        let headers = self.headers.iter().filter_map(|header| Some((header.name(), header.value()?)));
        let mut identity = Identity::of(headers, body, Some(prompt));
        identity.session = identity.session.or_else(|| self.named.session.clone());
        identity.agent = identity.agent.or_else(|| self.named.agent.clone());
        identity
    }
}

impl Answered {
    /// The response, understood.
    pub fn heard(&self, dialect: Option<Dialect>) -> Heard {
        let (Some(dialect), Some(body)) = (dialect, self.body.bytes.as_deref()) else {
            return Heard::default();
        };
        let mut heard = Heard::of(dialect, self.status.unwrap_or(200), body);
        heard.whole &= self.ending.is_none_or(|ending| ending == Ending::Complete)
            && self.body.origin != Origin::Excerpt;
        heard
    }
}

impl Content {
    /// Bytes as they were stored, unpacked where the headers say so and it can be done.
    fn stored(bytes: Option<Vec<u8>>, headers: &[Header], is_plain: bool, sha256: Option<String>) -> Self {
        let Some(bytes) = bytes else {
            return Self { bytes: None, sha256, origin: Origin::Lost };
        };
        let coding = hints::list_header(headers, "content-encoding").filter(|_| !is_plain);
        let unpacked =
            coding.and_then(|coding| wire::encoding::decode_partly(&coding, &bytes, UNPACKED).ok());
        match unpacked {
            Some(unpacked) => Self { bytes: Some(unpacked.bytes), sha256, origin: Origin::Unpacked },
            None => Self { bytes: Some(bytes), sha256, origin: Origin::Raw },
        }
    }
}

impl PartialOrd for Origin {
    /// The later, the less it is what crossed the wire.
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        (*self as u8).partial_cmp(&(*other as u8))
    }
}

impl Origin {
    /// Whether the bytes are those that crossed the wire.
    pub fn is_raw(self) -> bool {
        matches!(self, Self::Raw | Self::Unpacked)
    }

    fn words(self) -> &'static str {
        match self {
            Self::Raw => "as it crossed the wire",
            Self::Unpacked => "unpacked",
            Self::Rewritten => "JSON that was parsed and written again",
            Self::Excerpt => "only a part of it was kept",
            Self::Object => "an object taken before it was sent",
            Self::Lost => "it was not kept",
        }
    }
}
