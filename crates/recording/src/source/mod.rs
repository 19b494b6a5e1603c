//! Exchanges from any source: a recording, or a plain folder of dumps.
//!
//! Start at [`Source`]. Bodies are loaded one at a time. Whatever cannot be read becomes a [`Problem`] and does
//! not affect the rest.

mod dumps;
mod imported;
mod log;
mod timeline;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use session::RequestId;
use wire::dialect::{DecodeError, Dialect};
use wire::json::Document;
use wire::{Ending, Header};

use crate::error::OpenError;
use crate::lanes::{Identity, LaneResponse, LaneTracker, Lanes};
use crate::open::Recording;
use crate::{file_names, hints};
pub use timeline::{TimelineEntry, TimelineEvent};

/// Maximum size of a decompressed body.
const UNPACKED: usize = 64 << 20;

/// Folder of exchanges.
#[derive(Debug)]
pub struct Source {
    dir: PathBuf,
    exchanges: Exchanges,
    problems: Vec<Problem>,
    /// Header with the id of the conversation, if the user named it for this source.
    session_header: Option<String>,
}

#[derive(Debug)]
enum Exchanges {
    Log(Box<Recording>),
    Dumps(dumps::Dumps),
    Session(imported::ImportedExchanges),
}

/// Unusable part of a folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Problem {
    /// File or request.
    pub what: String,
    /// Reason.
    pub why: String,
}

/// Request of an exchange.
#[derive(Clone, Debug)]
pub struct SourceRequest {
    /// Exchange id.
    pub id: RequestId,
    /// Time of arrival.
    pub timestamp: Option<String>,
    /// HTTP method, such as `POST`.
    pub method: String,
    /// Address of the request.
    pub url: String,
    /// Headers.
    pub headers: Vec<Header>,
    /// Ids of the sender, if the source has them.
    pub sender: SenderIds,
    /// Body.
    pub body: Content,
}

/// Response of an exchange, possibly incomplete.
#[derive(Clone, Debug)]
pub struct SourceResponse {
    /// Time when the response began.
    pub timestamp: Option<String>,
    /// Status, if one arrived.
    pub status: Option<u16>,
    /// Headers.
    pub headers: Vec<Header>,
    /// Ending; `None` if unknown.
    pub ending: Option<Ending>,
    /// Error message.
    pub error: Option<String>,
    /// Microseconds from the request to the first byte.
    pub first_byte_us: Option<u64>,
    /// Microseconds from the request to the end.
    pub end_us: Option<u64>,
    /// Body.
    pub body: Content,
}

/// Ids of a request's sender.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SenderIds {
    /// Session id.
    pub session: Option<String>,
    /// Agent id.
    pub agent: Option<String>,
    /// Message id.
    pub message: Option<String>,
    /// Working folder of the harness.
    pub workspace: Option<String>,
}

/// Body, and its origin.
#[derive(Clone, Debug, Default)]
pub struct Content {
    /// Decompressed bytes; `None` if they are missing.
    pub bytes: Option<Vec<u8>>,
    /// SHA-256 of the stored bytes, if known.
    pub sha256: Option<String>,
    /// Origin of the bytes.
    pub origin: Origin,
}

/// Origin of a body's bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Bytes from the wire.
    #[default]
    Raw,
    /// Bytes from the wire, decompressed.
    Unpacked,
    /// JSON that another tool parsed and serialized again.
    Rewritten,
    /// Part of the body.
    Excerpt,
    /// Object from before it was sent.
    Object,
    /// Not kept.
    Lost,
}

/// Event of an exchange, by the exchange's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SourceEvent {
    Request(usize),
    ResponseEnd(usize),
}

/// Summary of an exchange.
#[derive(Clone, Debug)]
pub struct ExchangeSummary {
    /// Exchange id.
    pub id: RequestId,
    /// HTTP method, such as `POST`.
    pub method: String,
    /// Address of the request.
    pub url: String,
    /// Dialect, if the request asks a model.
    pub dialect: Option<Dialect>,
    /// Requested model.
    pub model: Option<String>,
    /// Status.
    pub status: Option<u16>,
    /// Ending.
    pub ending: Option<Ending>,
    /// Microseconds since the recording began, if known.
    pub started_us: Option<u64>,
    /// Microseconds from the request to the end.
    pub took_us: Option<u64>,
    /// Error message of the provider or the connection.
    pub error: Option<String>,
}

/// Exchanges of a source in order, with their lanes.
#[derive(Debug, Default)]
pub struct OrderedExchanges {
    /// Lanes.
    pub lanes: Lanes,
    /// Exchanges in the order of arrival.
    pub exchanges: Vec<ExchangeSummary>,
    /// Unusable parts of the source.
    pub problems: Vec<Problem>,
}

impl Source {
    /// Opens a recording, a folder of `*_request.json` and `*_response.json`, or the folder of an imported session.
    ///
    /// A recording must be intact: anything truncated, missing or outside the folder is an error. In a folder
    /// of dumps, which other tools may have written, an unusable dump is a [`Problem`]. Nothing outside the
    /// folder is ever read.
    pub fn open(dir: &Path) -> Result<Self, OpenError> {
        let of_log = |recording: Recording| {
            recording.check_entries()?;
            Ok(Self {
                dir: dir.to_owned(),
                exchanges: Exchanges::Log(Box::new(recording)),
                problems: Vec::new(),
                session_header: None,
            })
        };
        let new =
            |exchanges, problems| Self { dir: dir.to_owned(), exchanges, problems, session_header: None };
        let of_dumps = |(dumps, problems)| new(Exchanges::Dumps(dumps), problems);
        match Recording::open(dir) {
            Ok(recording) if recording.kept_whole().is_some() => of_log(recording),
            Ok(recording) if !recording.is_empty() || !dir.join(file_names::DUMPS).is_dir() => {
                of_log(recording)
            }
            // A recording without a log still has its dumps. One without exchanges has neither.
            Ok(recording) => match dumps::Dumps::open(dir) {
                Err(OpenError::NotARecording { .. }) => of_log(recording),
                dumps => dumps.map(of_dumps),
            },
            Err(OpenError::NotARecording { .. }) => match dumps::Dumps::open(dir) {
                Err(none @ OpenError::NotARecording { .. }) => {
                    let session = imported::ImportedExchanges::open(dir)?.ok_or(none)?;
                    let problems = session.problems();
                    Ok(new(Exchanges::Session(session), problems))
                }
                dumps => dumps.map(of_dumps),
            },
            Err(error) => Err(error),
        }
    }

    /// Sets the header in which the program sends the id of its conversation. Without one, the manifest may name it.
    pub fn with_session_header(self, name: Option<String>) -> Self {
        Self { session_header: name.or(self.session_header), ..self }
    }

    fn session_header(&self) -> Option<&str> {
        let recorded = || self.recording()?.manifest()?.session_header.as_deref();
        self.session_header.as_deref().or_else(recorded)
    }

    /// Returns the format that a session was imported from; `None` for recorded traffic.
    pub fn imported_from(&self) -> Option<&str> {
        match &self.exchanges {
            Exchanges::Session(session) => Some(session.source()),
            Exchanges::Log(_) | Exchanges::Dumps(_) => None,
        }
    }

    /// Returns the folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the recording, unless the source is a plain folder of dumps or an imported session.
    pub fn recording(&self) -> Option<&Recording> {
        match &self.exchanges {
            Exchanges::Log(recording) => Some(recording),
            Exchanges::Dumps(_) | Exchanges::Session(_) => None,
        }
    }

    /// Returns the unusable dumps of a plain folder.
    pub fn unused(&self) -> &[Problem] {
        match self.exchanges {
            // They are about the whole session.
            Exchanges::Session(_) => &[],
            Exchanges::Log(_) | Exchanges::Dumps(_) => &self.problems,
        }
    }

    /// Returns the number of exchanges.
    pub fn len(&self) -> usize {
        match &self.exchanges {
            Exchanges::Log(recording) => recording.len(),
            Exchanges::Dumps(dumps) => dumps.len(),
            Exchanges::Session(session) => session.len(),
        }
    }

    /// Returns whether there are no exchanges.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the id of the `n`th exchange, from 0.
    pub fn id(&self, n: usize) -> RequestId {
        RequestId::new(match &self.exchanges {
            Exchanges::Log(recording) => recording.entries()[n].request_head.id.clone(),
            Exchanges::Dumps(dumps) => dumps.id(n).to_owned(),
            Exchanges::Session(session) => session.id(n),
        })
    }

    /// Loads the request of the `n`th exchange, from 0.
    pub fn request(&self, n: usize) -> Result<SourceRequest, OpenError> {
        match &self.exchanges {
            Exchanges::Log(recording) => log::request(recording, n),
            Exchanges::Dumps(dumps) => dumps.request(n),
            Exchanges::Session(session) => Ok(session.request(n)),
        }
    }

    /// Loads the response of the `n`th exchange, from 0; `None` if there is none.
    pub fn response(&self, n: usize) -> Result<Option<SourceResponse>, OpenError> {
        match &self.exchanges {
            Exchanges::Log(recording) => log::response(recording, n),
            Exchanges::Dumps(dumps) => dumps.response(n),
            Exchanges::Session(session) => Ok(session.response(n)),
        }
    }

    /// Finds the lanes. Each body is read once and dropped.
    pub fn order(&self) -> OrderedExchanges {
        self.order_observed(&mut NoObserver)
    }

    /// Finds the lanes and shows each request and response to `observer`, in the order of the events.
    pub fn order_observed(&self, observer: &mut dyn SourceObserver) -> OrderedExchanges {
        let events = match &self.exchanges {
            Exchanges::Log(recording) => log::events(recording),
            Exchanges::Dumps(dumps) => dumps.events(),
            Exchanges::Session(session) => session.events(),
        };
        let mut ordering = Ordering {
            source: self,
            observer,
            tracker: LaneTracker::new(),
            exchanges: Vec::new(),
            summaries: vec![None; self.len()],
            problems: self.problems.clone(),
        };
        for event in events {
            match event {
                SourceEvent::Request(n) => ordering.add_request(n),
                SourceEvent::ResponseEnd(n) => ordering.add_response(n),
            }
        }
        let Ordering { tracker, exchanges, problems, .. } = ordering;
        let lanes = match &self.exchanges {
            Exchanges::Session(session) => session.lanes(),
            Exchanges::Log(_) | Exchanges::Dumps(_) => tracker.finish(),
        };
        OrderedExchanges { lanes, exchanges, problems }
    }
}

/// Observes the requests and responses of a source while it is put in order.
pub trait SourceObserver {
    /// Receives a request to a model, and the document that it was decoded from.
    fn decoded_request(
        &mut self,
        _asked: &SourceRequest,
        _document: &Document<'_>,
        _prompt: &wire::dialect::Prompt,
    ) {
    }
    /// Receives the request of the `n`th exchange. `prompt` is its decoded form if it asks a model.
    fn request(&mut self, n: usize, request: &SourceRequest, prompt: Option<&wire::dialect::Prompt>);
    /// Receives the response of the `n`th exchange.
    fn response(&mut self, n: usize, response: &SourceResponse, decoded: &LaneResponse);
}

struct NoObserver;

impl SourceObserver for NoObserver {
    fn request(&mut self, _: usize, _: &SourceRequest, _: Option<&wire::dialect::Prompt>) {}
    fn response(&mut self, _: usize, _: &SourceResponse, _: &LaneResponse) {}
}

struct Ordering<'s> {
    source: &'s Source,
    observer: &'s mut dyn SourceObserver,
    tracker: LaneTracker,
    exchanges: Vec<ExchangeSummary>,
    summaries: Vec<Option<usize>>,
    problems: Vec<Problem>,
}

impl Ordering<'_> {
    fn add_request(&mut self, n: usize) {
        let request = match self.source.request(n) {
            Ok(request) => request,
            Err(error) => return self.problem(format!("exchange {}", n + 1), &error),
        };
        let body = request.body.bytes.as_deref().unwrap_or_default();
        let question = question(&request, body, self.observer);
        self.observer.request(n, &request, question.as_ref().ok());
        let dialect = question.as_ref().ok().map(|prompt| prompt.dialect);
        let model = question.as_ref().ok().and_then(|prompt| prompt.model.clone());
        match &question {
            Ok(prompt) => {
                let named =
                    request.headers.iter().filter_map(|header| Some((header.name(), header.value()?)));
                let identity =
                    request.identity(body, prompt).with_session_header(self.source.session_header(), named);
                self.tracker.add_request(&request.id, prompt, &identity);
            }
            Err(reason) => {
                self.tracker
                    .add_side_call(&request.id, &format!("{} {}", request.method, url_path(&request.url)));
                if let Some(why) = reason {
                    self.problems.push(Problem { what: request.id.to_string(), why: why.clone() });
                }
            }
        }
        if request.body.origin >= Origin::Excerpt {
            let why = format!("its request is not raw: {}", request.body.origin.words());
            self.problems.push(Problem { what: request.id.to_string(), why });
        }
        self.summaries[n] = Some(self.exchanges.len());
        self.exchanges.push(ExchangeSummary {
            id: request.id,
            method: request.method,
            url: request.url,
            dialect,
            model,
            status: None,
            ending: None,
            started_us: self.source.recording().and_then(|recording| recording.times(n)).map(|times| times.0),
            took_us: None,
            error: None,
        });
    }

    fn add_response(&mut self, n: usize) {
        let Some(at) = self.summaries[n] else { return };
        let (id, dialect) = (self.exchanges[at].id.clone(), self.exchanges[at].dialect);
        let response = match self.source.response(n) {
            Ok(response) => response,
            Err(error) => {
                self.tracker.add_response(&id, &LaneResponse::default());
                return self.problem(format!("the response of {id}"), &error);
            }
        };
        let decoded = response.as_ref().map(|response| response.decode(dialect)).unwrap_or_default();
        self.tracker.add_response(&id, &decoded);
        if let Some(response) = &response {
            self.observer.response(n, response, &decoded);
        }
        let Some(response) = response else {
            let why = "there is no response".to_owned();
            return self.problems.push(Problem { what: id.to_string(), why });
        };
        if response.body.origin >= Origin::Excerpt {
            let why = format!("its response is not raw: {}", response.body.origin.words());
            self.problems.push(Problem { what: id.to_string(), why });
        }
        let words = decoded.error.map(|error| format!("{}: {}", error.kind, error.message));
        let summary = &mut self.exchanges[at];
        summary.status = response.status;
        summary.ending = response.ending;
        summary.took_us = response.end_us;
        summary.error = response.error.or(words);
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

/// Decodes a request to a model. Else returns the reason, if it is worth reporting.
fn question(
    request: &SourceRequest,
    body: &[u8],
    observer: &mut dyn SourceObserver,
) -> Result<wire::dialect::Prompt, Option<String>> {
    if request.method != "POST" || url_path(&request.url).ends_with("/count_tokens") {
        return Err(None);
    }
    if request.body.bytes.is_none() {
        return Err(Some("its request body is not there".into()));
    }
    let dialect = Dialect::detect(&request.url, body).ok_or(None)?;
    let not_understood = |error: DecodeError| Some(format!("its request is not understood: {error}"));
    let document = Document::parse(body).map_err(|error| not_understood(error.into()))?;
    let prompt = dialect.decode_document(&document).map_err(not_understood)?;
    observer.decoded_request(request, &document, &prompt);
    Ok(prompt)
}

/// Returns the path of an address without its query.
pub fn url_path(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest.find('/').map_or("/", |at| &rest[at..]));
    rest.split('?').next().unwrap_or(rest)
}

impl SourceRequest {
    /// Returns the identity of the sender.
    pub fn identity(&self, body: &[u8], prompt: &wire::dialect::Prompt) -> Identity {
        let headers = self.headers.iter().filter_map(|header| Some((header.name(), header.value()?)));
        let mut identity = Identity::of(headers, body, Some(prompt));
        identity.session = identity.session.or_else(|| self.sender.session.clone());
        identity.agent = identity.agent.or_else(|| self.sender.agent.clone());
        identity.endpoint = self.url.split('?').next().map(str::to_owned);
        identity
    }
}

impl SourceResponse {
    /// Decodes the response.
    pub fn decode(&self, dialect: Option<Dialect>) -> LaneResponse {
        let (Some(dialect), Some(body)) = (dialect, self.body.bytes.as_deref()) else {
            return LaneResponse::default();
        };
        let mut decoded = LaneResponse::decode(dialect, self.status.unwrap_or(200), body);
        decoded.whole &= self.ending.is_none_or(|ending| ending == Ending::Complete)
            && self.body.origin != Origin::Excerpt;
        decoded
    }
}

impl Content {
    /// Builds a body from stored bytes, decompressed if the headers say so and it succeeds.
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
    /// Orders origins by distance from the bytes on the wire.
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        (*self as u8).partial_cmp(&(*other as u8))
    }
}

impl Origin {
    /// Returns whether the bytes are those of the wire.
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
