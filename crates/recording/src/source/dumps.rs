//! Exchanges from a plain folder of dumps, written by offshoot or by another tool with the same file names.
//!
//! Dumps of other tools are read leniently: a body may be text, JSON, base64, an excerpt, or an object from
//! before it was sent. Headers may be a list or a map.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use session::RequestId;
use wire::{Ending, Header};

use super::{Content, Origin, Problem, SenderIds, SourceEvent, SourceRequest, SourceResponse};
use crate::error::OpenError;
use crate::time::micros;
use crate::{bounds, file_names};

const REQUEST: &str = "_request.json";
const RESPONSE: &str = "_response.json";

/// Pairs of dumps in a folder.
#[derive(Debug)]
pub(super) struct Dumps {
    /// Folder with `blobs/`, the bodies that are too long for a dump.
    root: PathBuf,
    /// Folder of the dumps within `root`.
    inside: &'static str,
    pairs: Vec<Pair>,
}

#[derive(Debug)]
struct Pair {
    id: String,
    request: String,
    response: Option<String>,
    asked_at: Option<i128>,
    ended_at: Option<i128>,
}

/// Request or response dump with every known spelling of its fields.
#[derive(Deserialize)]
struct DumpFile {
    /// Version. Only offshoot writes one.
    format: Option<serde_json::Value>,
    #[serde(default, deserialize_with = "text")]
    request_id: Option<String>,
    #[serde(default, deserialize_with = "text")]
    timestamp: Option<String>,
    #[serde(default, deserialize_with = "text")]
    method: Option<String>,
    #[serde(rename = "targetUrl", alias = "url", alias = "target_url", default, deserialize_with = "text")]
    target_url: Option<String>,
    headers: Option<serde_json::Value>,
    body: Option<Box<RawValue>>,
    #[serde(rename = "bodySha256", default, deserialize_with = "text")]
    body_sha256: Option<String>,
    #[serde(
        rename = "bodyExcerpt",
        alias = "body_excerpt",
        alias = "excerpt",
        default,
        deserialize_with = "text"
    )]
    body_excerpt: Option<String>,
    /// The list of reads is long and not needed. Named here, it is skipped instead of buffered.
    #[serde(default, rename = "chunks")]
    _chunks: IgnoredAny,
    #[serde(flatten)]
    sender: DumpSender,
    #[serde(flatten)]
    result: DumpResult,
}

/// Sender of a dumped request.
#[derive(Deserialize)]
struct DumpSender {
    #[serde(rename = "workspacePath", default, deserialize_with = "text")]
    workspace: Option<String>,
    #[serde(
        rename = "sessionId",
        alias = "sessionID",
        alias = "session_id",
        default,
        deserialize_with = "text"
    )]
    session: Option<String>,
    #[serde(rename = "agentId", alias = "agentID", alias = "agent_id", default, deserialize_with = "text")]
    agent: Option<String>,
    #[serde(
        rename = "messageId",
        alias = "messageID",
        alias = "message_id",
        default,
        deserialize_with = "text"
    )]
    message: Option<String>,
}

/// Status, times and ending of a dumped response.
#[derive(Deserialize)]
struct DumpResult {
    #[serde(default, deserialize_with = "lenient")]
    status: Option<u16>,
    #[serde(rename = "firstByteUs", default, deserialize_with = "lenient")]
    first_byte_us: Option<u64>,
    #[serde(rename = "endUs", default, deserialize_with = "lenient")]
    end_us: Option<u64>,
    #[serde(default, deserialize_with = "lenient")]
    ending: Option<Ending>,
    error: Option<serde_json::Value>,
}

/// Reads a text. Any other value becomes its JSON.
fn text<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Ok(match serde_json::Value::deserialize(from)? {
        serde_json::Value::Null => None,
        serde_json::Value::String(text) => Some(text),
        other => Some(other.to_string()),
    })
}

/// Reads a value that may be in quotes. An invalid one counts as absent.
fn lenient<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: serde::de::DeserializeOwned,
{
    let value = serde_json::Value::deserialize(from)?;
    let unquoted = value.as_str().and_then(|text| serde_json::from_str(text).ok());
    Ok(serde_json::from_value(value).ok().or(unquoted))
}

/// Body in an object whose member names the encoding.
#[derive(Deserialize)]
struct Wrapped<'b> {
    text: Option<String>,
    #[serde(borrow)]
    json: Option<&'b RawValue>,
    base64: Option<String>,
    blob: Option<String>,
    excerpt: Option<String>,
    #[serde(default)]
    lost: bool,
    #[serde(default)]
    truncated: bool,
    #[serde(rename = "decodedFrom")]
    decoded_from: Option<String>,
}

impl Dumps {
    /// Pairs the dumps of a folder, or of its `provider_dumps`.
    pub(super) fn open(dir: &Path) -> Result<(Self, Vec<Problem>), OpenError> {
        let (root, inside) = place(dir)?;
        let place = root.join(inside);
        for name in [file_names::SCENARIO, file_names::EXPORTS] {
            bounds::check_entries(dir, name)?;
        }
        let io = |source| OpenError::Io { path: place.clone(), source };
        let mut names: Vec<String> = Vec::new();
        for entry in fs::read_dir(&place).map_err(io)? {
            let name = entry.map_err(io)?.file_name();
            names.extend(name.into_string().ok());
        }
        // Shorter names first: `r9` before `r10`, and `r1` before a copy with a longer name.
        names.sort_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
        for name in names.iter().filter(|name| name.ends_with(REQUEST) || name.ends_with(RESPONSE)) {
            if let Err(outside @ OpenError::Outside { .. }) = bounds::file(&root, &below(inside, name)) {
                return Err(outside);
            }
        }
        let mut pairing =
            Pairing { root: &root, inside, pairs: Vec::new(), by_id: HashMap::new(), problems: Vec::new() };
        for name in names.iter().filter(|name| name.ends_with(REQUEST)) {
            pairing.request(name);
        }
        for name in names.iter().filter(|name| name.ends_with(RESPONSE)) {
            pairing.response(name);
        }
        let Pairing { mut pairs, problems, .. } = pairing;
        match &problems[..] {
            _ if !pairs.is_empty() => {}
            [] => return Err(OpenError::NotARecording { dir: dir.to_owned() }),
            [Problem { what, why }, ..] => {
                return Err(OpenError::Damaged { path: place.join(what), why: why.clone() });
            }
        }
        // Sorted by time if all have one, else by name.
        if pairs.iter().all(|pair| pair.asked_at.is_some()) {
            pairs.sort_by(|a, b| (a.asked_at, &a.id).cmp(&(b.asked_at, &b.id)));
        } else {
            pairs.iter_mut().for_each(|pair| (pair.asked_at, pair.ended_at) = (None, None));
        }
        Ok((Self { root, inside, pairs }, problems))
    }

    pub(super) fn len(&self) -> usize {
        self.pairs.len()
    }

    pub(super) fn events(&self) -> Vec<SourceEvent> {
        self.timed().into_iter().map(|(_, event)| event).collect()
    }

    /// Returns the events in order, each with its time in microseconds if the dumps have times.
    pub(super) fn timed(&self) -> Vec<(i128, SourceEvent)> {
        let mut events = Vec::new();
        for (n, pair) in self.pairs.iter().enumerate() {
            // Without times, each exchange ends before the next one begins.
            let at = |time: Option<i128>| time.unwrap_or_default();
            let ended = pair.ended_at.map_or(at(pair.asked_at), |ended| ended.max(at(pair.asked_at)));
            let is_instant = ended == at(pair.asked_at);
            events.push((at(pair.asked_at), n, 1, SourceEvent::Request(n)));
            // At equal times, an end comes before a request, but not before its own request.
            events.push((
                ended,
                if is_instant { n } else { 0 },
                if is_instant { 2 } else { 0 },
                SourceEvent::ResponseEnd(n),
            ));
        }
        events.sort_by_key(|(time, n, rank, _)| (*time, *n, *rank));
        events.into_iter().map(|(time, _, _, event)| (time, event)).collect()
    }

    pub(super) fn id(&self, n: usize) -> &str {
        &self.pairs[n].id
    }

    pub(super) fn request(&self, n: usize) -> Result<SourceRequest, OpenError> {
        let pair = &self.pairs[n];
        let dump = read(&self.root, self.inside, &pair.request)?;
        let headers = headers(dump.headers.as_ref());
        let body = self.content(&dump, &headers);
        Ok(SourceRequest {
            id: RequestId::new(pair.id.clone()),
            timestamp: dump.timestamp,
            method: dump.method.unwrap_or_else(|| "POST".into()),
            url: dump.target_url.unwrap_or_default(),
            headers,
            sender: SenderIds {
                session: dump.sender.session,
                agent: dump.sender.agent,
                message: dump.sender.message,
                workspace: dump.sender.workspace,
            },
            body,
        })
    }

    pub(super) fn response(&self, n: usize) -> Result<Option<SourceResponse>, OpenError> {
        let Some(name) = &self.pairs[n].response else { return Ok(None) };
        let dump = read(&self.root, self.inside, name)?;
        let headers = headers(dump.headers.as_ref());
        let body = self.content(&dump, &headers);
        let error = dump.result.error.filter(|error| !error.is_null()).map(|error| match error {
            serde_json::Value::String(text) => text,
            other => other.to_string(),
        });
        Ok(Some(SourceResponse {
            timestamp: dump.timestamp,
            status: dump.result.status,
            headers,
            ending: dump.result.ending,
            error,
            first_byte_us: dump.result.first_byte_us,
            end_us: dump.result.end_us,
            body,
        }))
    }

    fn content(&self, dump: &DumpFile, headers: &[Header]) -> Content {
        let sha256 = dump.body_sha256.clone();
        let lost = Content { bytes: None, sha256: sha256.clone(), origin: Origin::Lost };
        let with = |text: &str, origin| Content { bytes: Some(text.into()), sha256: sha256.clone(), origin };
        let Some(body) = dump.body.as_deref().map(RawValue::get).filter(|body| *body != "null") else {
            return dump.body_excerpt.as_ref().map_or(lost, |text| with(text, Origin::Excerpt));
        };
        if let Ok(text) = serde_json::from_str::<String>(body) {
            return Content::stored(Some(text.into()), headers, true, sha256);
        }
        let Ok(wrapped) = serde_json::from_str::<Wrapped<'_>>(body) else {
            return with(body, Origin::Object);
        };
        let is_plain = wrapped.decoded_from.is_some();
        let whole = |bytes: Option<Vec<u8>>| match Content::stored(bytes, headers, is_plain, sha256.clone()) {
            content if wrapped.truncated => Content { origin: Origin::Excerpt, ..content },
            content => content,
        };
        match wrapped {
            Wrapped { json: Some(json), .. } => with(json.get(), Origin::Rewritten),
            Wrapped { text: Some(text), .. } => whole(Some(text.into())),
            Wrapped { base64: Some(base64), .. } => whole(STANDARD.decode(base64).ok()),
            Wrapped { blob: Some(blob), .. } => whole(bounds::blob(&self.root, &blob).ok().flatten()),
            Wrapped { excerpt: Some(text), .. } => with(&text, Origin::Excerpt),
            Wrapped { lost: true, .. } => lost,
            _ if body.starts_with('{') && body != "{}" => with(body, Origin::Object),
            _ => whole(None),
        }
    }
}

struct Pairing<'p> {
    root: &'p Path,
    inside: &'static str,
    pairs: Vec<Pair>,
    by_id: HashMap<String, usize>,
    problems: Vec<Problem>,
}

impl Pairing<'_> {
    fn request(&mut self, name: &str) {
        let Some(dump) = self.read(name) else { return };
        let stem = name.trim_end_matches(REQUEST).to_owned();
        let id = dump.request_id.unwrap_or_else(|| stem.clone());
        if self.by_id.contains_key(&id) {
            return self.problem(name, format!("there is another request `{id}`"));
        }
        let asked_at = dump.timestamp.as_deref().and_then(micros);
        let pair =
            Pair { id: id.clone(), request: name.to_owned(), response: None, asked_at, ended_at: None };
        self.by_id.insert(id, self.pairs.len());
        // A response may have the file name of its request and another id, or none.
        self.by_id.entry(stem).or_insert(self.pairs.len());
        self.pairs.push(pair);
    }

    fn response(&mut self, name: &str) {
        let Some(dump) = self.read(name) else { return };
        let stem = name.trim_end_matches(RESPONSE);
        let ids = [Some(stem), dump.request_id.as_deref()];
        let Some(&at) = ids.into_iter().flatten().find_map(|id| self.by_id.get(id)) else {
            return self.problem(name, "its request is missing".into());
        };
        let pair = &mut self.pairs[at];
        if pair.response.is_some() {
            let why = format!("there is another response to `{}`", pair.id);
            return self.problem(name, why);
        }
        let began = dump.timestamp.as_deref().and_then(micros);
        let took = dump.result.end_us.zip(pair.asked_at).map(|(us, request)| request + i128::from(us));
        pair.ended_at = took.or(began);
        pair.response = Some(name.to_owned());
    }

    fn read(&mut self, name: &str) -> Option<DumpFile> {
        match read(self.root, self.inside, name) {
            Ok(dump) => Some(dump),
            Err(error) => {
                let cause =
                    std::error::Error::source(&error).map_or_else(|| error.to_string(), |e| e.to_string());
                self.problem(name, format!("it cannot be read: {cause}"));
                None
            }
        }
    }

    fn problem(&mut self, name: &str, why: String) {
        self.problems.push(Problem { what: name.to_owned(), why });
    }
}

/// Returns the folder to read from, and the folder of the dumps within it: the folder itself, a recording, or
/// the dumps of a recording.
fn place(dir: &Path) -> Result<(PathBuf, &'static str), OpenError> {
    if bounds::has_folder(dir, file_names::DUMPS)? {
        return Ok((dir.to_owned(), file_names::DUMPS));
    }
    let real = dir.canonicalize().map_err(|source| OpenError::Io { path: dir.to_owned(), source })?;
    match real.parent() {
        Some(parent) if real.ends_with(file_names::DUMPS) => Ok((parent.to_owned(), file_names::DUMPS)),
        _ => Ok((dir.to_owned(), "")),
    }
}

fn below(inside: &str, name: &str) -> String {
    if inside.is_empty() { name.to_owned() } else { format!("{inside}/{name}") }
}

fn read(root: &Path, inside: &str, name: &str) -> Result<DumpFile, OpenError> {
    let name = below(inside, name);
    let failed = |source| OpenError::Io { path: root.join(&name), source };
    let bytes = bounds::read(root, &name, bounds::LONGEST_DUMP)?;
    let bytes = bytes.ok_or_else(|| failed(std::io::ErrorKind::NotFound.into()))?;
    if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        return Err(failed(std::io::Error::other("it is not a JSON object")));
    }
    let dump: DumpFile = serde_json::from_slice(&bytes).map_err(|error| failed(error.into()))?;
    match dump.format.is_some() && name.ends_with(RESPONSE) {
        true => dump.checked().map_err(|why| failed(std::io::Error::other(why))),
        false => Ok(dump),
    }
}

impl DumpFile {
    /// Refuses a response of offshoot without an ending.
    fn checked(self) -> Result<Self, &'static str> {
        match (self.result.ending, self.result.status) {
            (None, _) => Err("its `ending` is unknown"),
            (Some(Ending::Complete), None) => Err("it is complete but has no `status`"),
            _ => Ok(self),
        }
    }
}

/// Reads headers from a list of `{name, value}` or of pairs, or from a map of strings or lists.
fn headers(value: Option<&serde_json::Value>) -> Vec<Header> {
    use serde_json::Value;
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let plain = |name: &str, value: &Value| Header::Plain { name: name.to_owned(), value: text(value) };
    match value {
        Some(Value::Array(list)) => list
            .iter()
            .filter_map(|header| match header {
                Value::Array(pair) => Some(plain(pair.first()?.as_str()?, pair.get(1)?)),
                header => serde_json::from_value(header.clone()).ok(),
            })
            .collect(),
        Some(Value::Object(map)) => map
            .iter()
            .flat_map(|(name, value)| match value {
                Value::Array(values) => values.iter().map(|value| plain(name, value)).collect(),
                Value::Object(_) => {
                    let mut named = value.clone();
                    named["name"] = Value::String(name.clone());
                    serde_json::from_value(named).into_iter().collect()
                }
                value => vec![plain(name, value)],
            })
            .collect(),
        _ => Vec::new(),
    }
}
