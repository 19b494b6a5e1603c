//! A request, taken apart into the units that are compared.
//!
//! Every byte of a body belongs to a unit, or to the frame around the units, which is compared as a whole. A unit
//! leaves out the cache marker that it carries: a marker is a setting, and moves from turn to turn.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hasher as _};
use std::ops::Range;

use recording::source::Asked;
use session::{Block, Role};
use wire::Header;
use wire::dialect::{Dialect, Marker, Part, Prompt};
use wire::json::Document;

/// What a unit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// A block of the instructions beside the messages.
    System,
    /// Something said to the model: text, picture, document.
    Said,
    /// Something the model said, carried back.
    Reply,
    /// A call that the harness carries back.
    Call,
    /// What a tool answered.
    Result,
    /// A tool on offer.
    Tool,
    /// The model that is asked.
    Model,
    /// Any other member of the body, or of a message.
    Setting,
    /// A header.
    Header,
    /// The request's method, path or query.
    Line,
    /// An id of a session, an agent, a conversation.
    Identity,
}

/// One thing that is compared.
#[derive(Clone, Debug)]
pub(super) struct Unit {
    pub(super) kind: Kind,
    /// What it meets its counterpart by: a tool's, a header's, a member's name; a block's type.
    pub(super) key: String,
    pub(super) pointer: String,
    pub(super) bytes: Bytes,
    /// Digest of the bytes, in whatever form they are sent.
    pub(super) hash: u64,
    pub(super) marker: Option<Marker>,
    pub(super) role: Option<Role>,
    /// It is the first of its message.
    pub(super) opens: bool,
    /// The call that it makes or answers.
    pub(super) call: Option<String>,
    /// The model had spoken before it.
    pub(super) late: bool,
    /// A text that is a bare string instead of a block.
    pub(super) bare: bool,
    /// The block around a text that is compared without it: where it is, and its bytes.
    block: Option<(String, Bytes)>,
}

/// Where a unit's bytes are.
#[derive(Clone, Debug)]
pub(super) enum Bytes {
    /// In the body, with a hole where its marker is.
    Body(Range<usize>, Option<Range<usize>>),
    /// Not in the body; a JSON text.
    Own(String),
}

/// A request, taken apart.
pub(super) struct Projected {
    /// The body.
    pub(super) body: String,
    /// Tools, settings, headers: they meet by name.
    pub(super) named: Vec<Unit>,
    /// Instructions and messages: they meet in order.
    pub(super) parts: Vec<Unit>,
}

impl Projected {
    /// Takes a request apart; one that speaks no dialect is one setting.
    pub(super) fn of(asked: Asked) -> Self {
        let body = match String::from_utf8(asked.body.bytes.unwrap_or_default()) {
            Ok(body) => body,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        };
        let mut named = head(&asked.method, &asked.url, &asked.headers);
        let mut parts = Vec::new();
        match Document::parse(body.as_bytes()) {
            Ok(document) => {
                let dialect = Dialect::of(&asked.url, body.as_bytes());
                let prompt = dialect.and_then(|dialect| dialect.decode_document(&document).ok());
                match &prompt {
                    Some(prompt) => {
                        named.extend(tools(prompt, &body));
                        named.extend(settings(prompt, &document, &body));
                        parts = conversation(prompt, &body);
                    }
                    None => named.push(Unit::whole(&body)),
                }
            }
            Err(_) if body.is_empty() => {}
            Err(_) => named.push(Unit::own(Kind::Setting, "body", "", &wire::json::quote(&body))),
        }
        number_twins(&mut named);
        Self { body, named, parts }
    }

    /// A unit's bytes, without its marker.
    pub(super) fn raw<'p>(&'p self, unit: &'p Unit) -> Cow<'p, str> {
        unit.raw(&self.body)
    }
}

impl Unit {
    fn new(kind: Kind, key: impl Into<String>, pointer: &str, bytes: Bytes) -> Self {
        Self {
            kind,
            key: key.into(),
            pointer: pointer.to_owned(),
            bytes,
            hash: 0,
            marker: None,
            role: None,
            opens: false,
            call: None,
            late: false,
            bare: false,
            block: None,
        }
    }

    /// With the block around it, where it is compared without.
    pub(super) fn widened(&self) -> Self {
        match self.block.clone() {
            Some((pointer, bytes)) => Self { pointer, bytes, block: None, ..self.clone() },
            None => self.clone(),
        }
    }

    /// Whether it is a text that is compared without the block around it.
    pub(super) fn is_narrow(&self) -> bool {
        self.block.is_some()
    }

    /// With the digest of its bytes.
    fn hashed(mut self, body: &str) -> Self {
        self.hash = match &self.bytes {
            Bytes::Own(json) => digest(&[json]),
            Bytes::Body(span, None) => digest(&[&body[span.clone()]]),
            Bytes::Body(span, Some(hole)) => {
                digest(&[&body[span.start..hole.start], &body[hole.end..span.end]])
            }
        };
        self
    }

    fn in_body(kind: Kind, key: impl Into<String>, pointer: &str, span: Range<usize>, body: &str) -> Self {
        Self::new(kind, key, pointer, Bytes::Body(span, None)).hashed(body)
    }

    fn own(kind: Kind, key: impl Into<String>, pointer: &str, json: &str) -> Self {
        Self::new(kind, key, pointer, Bytes::Own(json.to_owned())).hashed("")
    }

    fn whole(body: &str) -> Self {
        Self::in_body(Kind::Setting, "body", "", 0..body.len(), body)
    }

    fn marked(mut self, marker: Option<&Marker>, body: &str) -> Self {
        if let (Some(marker), Bytes::Body(span, hole)) = (marker, &mut self.bytes) {
            *hole = Some(member_around(body, &marker.place.span, span));
            self.marker = Some(marker.clone());
        }
        self
    }

    fn raw<'b>(&'b self, body: &'b str) -> Cow<'b, str> {
        match &self.bytes {
            Bytes::Own(json) => Cow::Borrowed(json),
            Bytes::Body(span, None) => Cow::Borrowed(&body[span.clone()]),
            Bytes::Body(span, Some(hole)) => {
                Cow::Owned(format!("{}{}", &body[span.start..hole.start], &body[hole.end..span.end]))
            }
        }
    }
}

fn digest(pieces: &[&str]) -> u64 {
    let mut hasher = DefaultHasher::new();
    pieces.iter().for_each(|piece| hasher.write(piece.as_bytes()));
    hasher.finish()
}

/// A member with its key and one comma, so that the object without it is still one.
fn member_around(body: &str, value: &Range<usize>, owner: &Range<usize>) -> Range<usize> {
    let before = &body[owner.start..value.start];
    let key = before.rfind(':').and_then(|colon| {
        let close = before[..colon].rfind('"')?;
        before[..close].rfind('"')
    });
    let start = owner.start + key.unwrap_or(before.len());
    let ahead = body[owner.start..start].trim_end();
    if ahead.ends_with(',') {
        return owner.start + ahead.len() - 1..value.end;
    }
    let behind = &body[value.end..owner.end];
    let comma = behind.len() - behind.trim_start().len();
    match behind.trim_start().starts_with(',') {
        true => start..value.end + comma + 1,
        false => start..value.end,
    }
}

/// Units of one name are told apart by their number.
fn number_twins(units: &mut [Unit]) {
    let mut seen = std::collections::HashMap::<(Kind, String), usize>::new();
    for unit in units {
        let count = seen.entry((unit.kind, unit.key.clone())).or_default();
        *count += 1;
        if *count > 1 {
            unit.key = format!("{} ({count})", unit.key);
        }
    }
}

/// Method, address and headers.
fn head(method: &str, url: &str, headers: &[Header]) -> Vec<Unit> {
    let quote = wire::json::quote;
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let at = rest.find('/').unwrap_or(rest.len());
    let (host, target) = rest.split_at(at);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut units = vec![
        Unit::own(Kind::Line, "method", "method", &quote(method)),
        Unit::own(Kind::Line, "host", "url:host", &quote(host)),
        Unit::own(Kind::Line, "path", "url:path", &quote(path)),
    ];
    if !query.is_empty() {
        units.push(Unit::own(Kind::Header, "query", "url:query", &quote(query)));
    }
    for header in headers {
        let name = header.name().to_ascii_lowercase();
        let pointer = format!("header:{name}");
        let kind = if names_an_agent(&name) { Kind::Identity } else { Kind::Header };
        let json = match header {
            Header::Plain { value, .. } => quote(value),
            Header::Secret { fingerprint, .. } => format!("{{\"fingerprint\":{}}}", quote(fingerprint)),
        };
        units.push(Unit::own(kind, name, &pointer, &json));
    }
    units
}

/// Whether a header's name says that it holds the id of a session, an agent or a request.
fn names_an_agent(name: &str) -> bool {
    let has = |word: &str| name.split('-').any(|part| part == word);
    let of_agent = has("session") || has("conversation") || has("thread") || has("parent");
    !has("user")
        && (of_agent || (has("id") && (has("agent") || has("request") || has("trace"))) || has("traceparent"))
}

fn tools<'p>(prompt: &'p Prompt, body: &'p str) -> impl Iterator<Item = Unit> + 'p {
    // Those inside messages belong to their messages.
    let listed = prompt.tools.iter().filter(|tool| tool.message.is_none());
    listed.map(|tool| {
        let span = tool.place.span.clone();
        let unit = Unit::new(Kind::Tool, &tool.name, &tool.place.pointer, Bytes::Body(span, None));
        unit.marked(tool.marker.as_ref(), body).hashed(body)
    })
}

/// Members of the body that hold what is compared by itself.
const CONTENT: &[&str] = &["system", "instructions", "messages", "input", "tools"];
/// Members of the body that say who asks.
const IDENTITY: &[&str] = &[
    "metadata",
    "prompt_cache_key",
    "previous_response_id",
    "safety_identifier",
    "user",
    "session_id",
    "conversation",
];

fn settings(prompt: &Prompt, document: &Document<'_>, body: &str) -> Vec<Unit> {
    let mut units = Vec::new();
    for member in document.root().members() {
        let name = member.name();
        if CONTENT.contains(&name.as_ref()) && !member.value.is_null() {
            continue;
        }
        let kind = match name.as_ref() {
            "model" => Kind::Model,
            name if IDENTITY.contains(&name) => Kind::Identity,
            _ => Kind::Setting,
        };
        let pointer = format!("/{}", name.replace('~', "~0").replace('/', "~1"));
        units.push(Unit::in_body(kind, name, &pointer, member.value.span(), body));
    }
    // What the model's own messages carry beside their words is the model's.
    for message in prompt.messages.iter().filter(|message| message.role != Role::Assistant) {
        let whole = message.parts.iter().any(|part| part.place.span == message.place.span);
        for extra in message.extra.iter().filter(|_| !whole) {
            let (pointer, span) = (&extra.place.pointer, extra.place.span.clone());
            units.push(Unit::in_body(Kind::Setting, pointer, pointer, span, body));
        }
    }
    units
}

fn conversation(prompt: &Prompt, body: &str) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    for part in &prompt.system {
        units.push(Unit { kind: Kind::System, ..said(part, body) });
    }
    let mut late = false;
    for message in &prompt.messages {
        late |= message.role == Role::Assistant;
        for (at, part) in message.parts.iter().enumerate() {
            let mut unit = block(part, message.role, body);
            unit.role = Some(message.role);
            unit.opens = at == 0;
            unit.late = late;
            // In another name, or in another message, it is not what it was.
            let opens = unit.opens && unit.kind != Kind::Result;
            unit.hash = unit.hash.rotate_left(message.role as u32 + 1) ^ u64::from(opens);
            units.push(unit);
        }
    }
    units
}

fn block(part: &Part, role: Role, body: &str) -> Unit {
    let in_body = |kind: Kind, key: &str| {
        Unit::new(kind, key, &part.place.pointer, Bytes::Body(part.place.span.clone(), None))
            .marked(part.marker.as_ref(), body)
            .hashed(body)
    };
    match &part.block {
        Block::ToolCall(call) if !call.server => {
            Unit { call: Some(call.id.as_str().to_owned()), ..in_body(Kind::Call, &call.name) }
        }
        Block::ToolResult(result) if !result.server => {
            Unit { call: Some(result.call.as_str().to_owned()), ..in_body(Kind::Result, &part.kind) }
        }
        _ if role == Role::Assistant => in_body(Kind::Reply, &part.kind),
        _ => said(part, body),
    }
}

/// What is said to the model. A bare string and a block that holds nothing else have one digest, for harnesses
/// fold one into the other from turn to turn.
fn said(part: &Part, body: &str) -> Unit {
    const FRAME: usize = r#"{"type":"text","text":}"#.len();
    const OPENAI_FRAME: usize = r#"{"type":"input_text","text":}"#.len();
    let (place, text) = (&part.place, matches!(part.block, Block::Text { .. }));
    let key = if text { "text" } else { part.kind.as_str() };
    let unit = Unit::new(Kind::Said, key, &place.pointer, Bytes::Body(place.span.clone(), None))
        .marked(part.marker.as_ref(), body);
    let Some(content) = part.content.as_ref().filter(|_| text) else { return unit.hashed(body) };
    let inside = &body[content.span.clone()];
    let bare = content.span == place.span;
    let hole = unit.marker.is_some().then(|| unit.raw(body).len());
    let frame = hole.unwrap_or(place.span.len()) - inside.len();
    if !bare && frame != FRAME && frame != OPENAI_FRAME {
        return unit.hashed(body);
    }
    let block = (!bare).then(|| (unit.pointer.clone(), unit.bytes.clone()));
    Unit {
        bytes: Bytes::Body(content.span.clone(), None),
        pointer: content.pointer.clone(),
        hash: digest(&[inside]),
        bare,
        block,
        ..unit
    }
}
