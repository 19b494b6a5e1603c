//! Exchanges from a bare folder of dumps: ours, or another tool's of the same names.
//!
//! What others write is read leniently: a body as text, as JSON, as base64, as an excerpt, or as an
//! object that was taken before it was sent; headers as a list or as a map.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::value::RawValue;
use session::RequestId;
use wire::{Ending, Header};

use super::{Answered, Asked, Content, Event, Named, Origin, Problem};
use crate::open::OpenError;
use crate::time::micros;
use crate::{bounds, folder};

const REQUEST: &str = "_request.json";
const RESPONSE: &str = "_response.json";

/// The dumps of a folder, paired.
#[derive(Debug)]
pub(super) struct Dumps {
    /// The folder with `blobs/`, the bodies that are too long for a dump.
    root: PathBuf,
    /// The folder of the dumps, in that one.
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

/// Either dump, as far as anybody writes it.
#[derive(Deserialize)]
struct Dump {
    /// Ours have a version.
    format: Option<serde_json::Value>,
    #[serde(default, deserialize_with = "text")]
    request_id: Option<String>,
    #[serde(default, deserialize_with = "text")]
    timestamp: Option<String>,
    #[serde(default, deserialize_with = "text")]
    method: Option<String>,
    #[serde(rename = "targetUrl", alias = "url", alias = "target_url", default, deserialize_with = "text")]
    target_url: Option<String>,
    #[serde(rename = "workspacePath", default, deserialize_with = "text")]
    workspace_path: Option<String>,
    #[serde(
        rename = "sessionId",
        alias = "sessionID",
        alias = "session_id",
        default,
        deserialize_with = "text"
    )]
    session_id: Option<String>,
    #[serde(rename = "agentId", alias = "agentID", alias = "agent_id", default, deserialize_with = "text")]
    agent_id: Option<String>,
    #[serde(
        rename = "messageId",
        alias = "messageID",
        alias = "message_id",
        default,
        deserialize_with = "text"
    )]
    message_id: Option<String>,
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

/// A text, or anything else spelled out: what others write there is theirs.
fn text<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Ok(match serde_json::Value::deserialize(from)? {
        serde_json::Value::Null => None,
        serde_json::Value::String(text) => Some(text),
        other => Some(other.to_string()),
    })
}

/// A value that may stand in quotes; what is none counts for nothing.
fn lenient<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: serde::de::DeserializeOwned,
{
    let value = serde_json::Value::deserialize(from)?;
    let unquoted = value.as_str().and_then(|text| serde_json::from_str(text).ok());
    Ok(serde_json::from_value(value).ok().or(unquoted))
}

/// A body that is wrapped in a member that says what it is.
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
    /// Pairs the dumps of a folder, or of the one in it that is meant for them.
    pub(super) fn open(dir: &Path) -> Result<(Self, Vec<Problem>), OpenError> {
        let (root, inside) = place(dir)?;
        let place = root.join(inside);
        for name in [folder::SCENARIO, folder::EXPORTS] {
            bounds::look_through(dir, name)?;
        }
        let io = |source| OpenError::Io { path: place.clone(), source };
        let mut names: Vec<String> = Vec::new();
        for entry in fs::read_dir(&place).map_err(io)? {
            let name = entry.map_err(io)?.file_name();
            names.extend(name.into_string().ok());
        }
        // Shorter first: `r9` before `r10`, and `r1` before a copy of it under a longer name.
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
        // By time where all have one, else by name.
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

    pub(super) fn events(&self) -> Vec<Event> {
        self.timed().into_iter().map(|(_, event)| event).collect()
    }

    /// What happened, with the time in microseconds where the dumps have it.
    pub(super) fn timed(&self) -> Vec<(i128, Event)> {
        let mut events = Vec::new();
        for (n, pair) in self.pairs.iter().enumerate() {
            // Without times, each is over before the next begins.
            let at = |time: Option<i128>| time.unwrap_or_default();
            let ended = pair.ended_at.map_or(at(pair.asked_at), |ended| ended.max(at(pair.asked_at)));
            let is_instant = ended == at(pair.asked_at);
            events.push((at(pair.asked_at), n, 1, Event::Asked(n)));
            // At the same instant, what ended comes before what was asked, but not before its own.
            events.push((
                ended,
                if is_instant { n } else { 0 },
                if is_instant { 2 } else { 0 },
                Event::Ended(n),
            ));
        }
        events.sort_by_key(|(time, n, rank, _)| (*time, *n, *rank));
        events.into_iter().map(|(time, _, _, event)| (time, event)).collect()
    }

    pub(super) fn id(&self, n: usize) -> &str {
        &self.pairs[n].id
    }

    pub(super) fn asked(&self, n: usize) -> Result<Asked, OpenError> {
        let pair = &self.pairs[n];
        let dump = read(&self.root, self.inside, &pair.request)?;
        let headers = headers(dump.headers.as_ref());
        let body = self.content(&dump, &headers);
        Ok(Asked {
            id: RequestId::new(pair.id.clone()),
            timestamp: dump.timestamp,
            method: dump.method.unwrap_or_else(|| "POST".into()),
            url: dump.target_url.unwrap_or_default(),
            headers,
            named: Named {
                session: dump.session_id,
                agent: dump.agent_id,
                message: dump.message_id,
                workspace: dump.workspace_path,
            },
            body,
        })
    }

    pub(super) fn answered(&self, n: usize) -> Result<Option<Answered>, OpenError> {
        let Some(name) = &self.pairs[n].response else { return Ok(None) };
        let dump = read(&self.root, self.inside, name)?;
        let headers = headers(dump.headers.as_ref());
        let body = self.content(&dump, &headers);
        let error = dump.error.filter(|error| !error.is_null()).map(|error| match error {
            serde_json::Value::String(text) => text,
            other => other.to_string(),
        });
        Ok(Some(Answered {
            timestamp: dump.timestamp,
            status: dump.status,
            headers,
            ending: dump.ending,
            error,
            first_byte_us: dump.first_byte_us,
            end_us: dump.end_us,
            body,
        }))
    }

    fn content(&self, dump: &Dump, headers: &[Header]) -> Content {
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
        // A response may be named like the request and still say another id, or none.
        self.by_id.entry(stem).or_insert(self.pairs.len());
        self.pairs.push(pair);
    }

    fn response(&mut self, name: &str) {
        let Some(dump) = self.read(name) else { return };
        let stem = name.trim_end_matches(RESPONSE);
        let ids = [Some(stem), dump.request_id.as_deref()];
        let Some(&at) = ids.into_iter().flatten().find_map(|id| self.by_id.get(id)) else {
            return self.problem(name, "there is no request that it answers".into());
        };
        let pair = &mut self.pairs[at];
        if pair.response.is_some() {
            let why = format!("there is another response to `{}`", pair.id);
            return self.problem(name, why);
        }
        let began = dump.timestamp.as_deref().and_then(micros);
        let took = dump.end_us.zip(pair.asked_at).map(|(us, asked)| asked + i128::from(us));
        pair.ended_at = took.or(began);
        pair.response = Some(name.to_owned());
    }

    fn read(&mut self, name: &str) -> Option<Dump> {
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

/// The folder that everything is read from, and the one in it that holds the dumps: that of a recording, or the folder
/// itself. Somebody may also give the dumps' own folder in a recording.
fn place(dir: &Path) -> Result<(PathBuf, &'static str), OpenError> {
    if bounds::has_folder(dir, folder::DUMPS)? {
        return Ok((dir.to_owned(), folder::DUMPS));
    }
    let real = dir.canonicalize().map_err(|source| OpenError::Io { path: dir.to_owned(), source })?;
    match real.parent() {
        Some(parent) if real.ends_with(folder::DUMPS) => Ok((parent.to_owned(), folder::DUMPS)),
        _ => Ok((dir.to_owned(), "")),
    }
}

fn below(inside: &str, name: &str) -> String {
    if inside.is_empty() { name.to_owned() } else { format!("{inside}/{name}") }
}

fn read(root: &Path, inside: &str, name: &str) -> Result<Dump, OpenError> {
    let name = below(inside, name);
    let failed = |source| OpenError::Io { path: root.join(&name), source };
    let bytes = bounds::read(root, &name, bounds::LONGEST_DUMP)?;
    let bytes = bytes.ok_or_else(|| failed(std::io::ErrorKind::NotFound.into()))?;
    if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        return Err(failed(std::io::Error::other("it is not a JSON object")));
    }
    let dump: Dump = serde_json::from_slice(&bytes).map_err(|error| failed(error.into()))?;
    match dump.format.is_some() && name.ends_with(RESPONSE) {
        true => dump.checked().map_err(|why| failed(std::io::Error::other(why))),
        false => Ok(dump),
    }
}

impl Dump {
    /// A response of our own, which always says how it ended.
    fn checked(self) -> Result<Self, &'static str> {
        match (self.ending, self.status) {
            (None, _) => Err("its `ending` is none that is known"),
            (Some(Ending::Complete), None) => Err("it is complete and has no `status`"),
            _ => Ok(self),
        }
    }
}

/// Headers as a list of `{name, value}` or of pairs, or as a map of strings or lists.
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
