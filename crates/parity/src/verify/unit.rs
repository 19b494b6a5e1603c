//! A request, taken apart into the units that are compared.
//!
//! Every byte of a body belongs to a unit, or to the frame around the units, which is compared as a whole. A unit
//! leaves out the cache marker that it carries: a marker is a setting, and moves from turn to turn.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::ops::Range;
use std::sync::Arc;

use recording::source::Asked;
use session::{Block, Role};
use wire::Header;
use wire::dialect::{Dialect, JsonLocation, Marker, Part, Prompt, PromptMessage, ToolDefinition};
use wire::json::Document;

use super::ids::is_made_up;

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
    /// It stands in the body, and not beside it.
    pub(super) in_body: bool,
    /// Its JSON text, without the marker that it carries.
    json: String,
    /// Digest of the text, in whatever form it is sent.
    pub(super) hash: u64,
    pub(super) marker: Option<Marked>,
    pub(super) role: Option<Role>,
    /// The role as it is written, whether anybody knows it or not.
    pub(super) written_role: Option<String>,
    /// What the model's message has beside its words, with its place: told by the first unit of the message.
    pub(super) beside: Option<Marked>,
    /// It is the first of its message.
    pub(super) opens: bool,
    /// The call that it makes or answers.
    pub(super) call: Option<String>,
    /// The model had spoken before it.
    pub(super) late: bool,
    /// A text that is a bare string instead of a block.
    pub(super) bare: bool,
    /// The block around a text that is compared without it.
    block: Option<Around>,
}

/// A cache marker, or something else that stands beside what is compared.
#[derive(Clone, Debug)]
pub(super) struct Marked {
    pub(super) pointer: String,
    pub(super) json: String,
}

/// What stands around a text.
#[derive(Clone, Debug)]
struct Around {
    pointer: String,
    before: String,
    behind: String,
}

/// A request, taken apart. It holds no body: what a lane says again in every request is kept once.
#[derive(Clone, Debug)]
pub(super) struct Projected {
    /// Digest of the body: of the units in it and of all that is around them.
    pub(super) body: u64,
    /// Digest of what is around the units alone.
    pub(super) frame: u64,
    /// Tools, settings, headers: they meet by name.
    pub(super) named: Vec<Arc<Unit>>,
    /// Instructions and messages: they meet in order.
    pub(super) parts: Vec<Arc<Unit>>,
}

/// The units of a recording. Most stand in many requests, and are made and kept once.
#[derive(Debug, Default)]
pub(super) struct Pool {
    units: HashMap<u64, Arc<Unit>>,
}

/// What stands in a frame where a unit is; no body holds it by chance.
pub(super) const HOLE: &str = r#""\u0001""#;

/// A cache marker, and the span of what carries it.
type Held<'p> = (&'p Marker, &'p Range<usize>);

/// The markers of a part and of those inside it, in their order.
fn markers(part: &Part) -> Vec<Held<'_>> {
    let parts = std::iter::once(part).chain(&part.parts);
    parts.filter_map(|part| Some((part.marker.as_ref()?, &part.place.span))).collect()
}

/// A request in the making.
struct Taking<'t> {
    pool: &'t mut Pool,
    body: &'t str,
    /// Where units are in the body, and what tells them apart.
    spans: Vec<(Range<usize>, u64)>,
}

impl Projected {
    /// Takes a request apart; one that speaks no dialect is one setting.
    pub(super) fn of(asked: &Asked, pool: &mut Pool) -> Self {
        let body = String::from_utf8_lossy(asked.body.bytes.as_deref().unwrap_or_default());
        let document = Document::parse(body.as_bytes());
        let dialect = document.as_ref().ok().and_then(|_| Dialect::detect(&asked.url, body.as_bytes()));
        let prompt = document.as_ref().ok().zip(dialect);
        let prompt = prompt.and_then(|(document, dialect)| dialect.decode_document(document).ok());
        if let (Ok(document), Some(prompt)) = (&document, &prompt) {
            return Self::of_prompt(asked, document, prompt, pool);
        }
        let mut taking = Taking { pool, body: &body, spans: Vec::new() };
        let mut named = head(&mut taking, &asked.method, &asked.url, &asked.headers);
        match document {
            Ok(_) => named.push(taking.in_body(Kind::Setting, "body", "", 0..body.len())),
            Err(_) if body.is_empty() => {}
            Err(_) => named.push(taking.own(Kind::Setting, "body", "", &wire::json::quote(&body))),
        }
        number_twins(&mut named);
        let (body, frame) = taking.digests();
        Self { body, frame, named, parts: Vec::new() }
    }

    /// Takes apart a request that has been decoded already.
    pub(super) fn of_prompt(
        asked: &Asked,
        document: &Document<'_>,
        prompt: &Prompt,
        pool: &mut Pool,
    ) -> Self {
        let mut taking = Taking { pool, body: document.text(), spans: Vec::new() };
        let mut named = head(&mut taking, &asked.method, &asked.url, &asked.headers);
        let parts = taking.take(document, prompt, &mut named);
        let (body, frame) = taking.digests();
        Self { body, frame, named, parts }
    }

    /// What is around the units of a request: its body with a hole where each of them is.
    pub(super) fn frame_of(asked: &Asked) -> Option<String> {
        let body = String::from_utf8_lossy(asked.body.bytes.as_deref()?);
        let document = Document::parse(body.as_bytes()).ok()?;
        let prompt = Dialect::detect(&asked.url, body.as_bytes())?.decode_document(&document).ok()?;
        let mut taking = Taking { pool: &mut Pool::default(), body: &body, spans: Vec::new() };
        taking.take(&document, &prompt, &mut Vec::new());
        Some(taking.frame())
    }

    /// A unit's JSON text, without its marker.
    pub(super) fn raw<'p>(&'p self, unit: &'p Unit) -> Cow<'p, str> {
        Cow::Borrowed(&unit.json)
    }
}

impl Taking<'_> {
    /// The unit at a place of the body: one that is known, or a new one. All that it is made from must be in `by` or
    /// in its bytes.
    fn unit(
        &mut self,
        by: impl Hash,
        pointer: &str,
        span: Range<usize>,
        make: impl FnOnce(&str) -> Unit,
    ) -> Arc<Unit> {
        let stamp = stamp(by, pointer, &self.body[span.clone()]);
        self.spans.push((span, stamp));
        Arc::clone(self.pool.units.entry(stamp).or_insert_with(|| Arc::new(make(self.body))))
    }

    fn in_body(&mut self, kind: Kind, key: &str, pointer: &str, span: Range<usize>) -> Arc<Unit> {
        self.unit((kind, key), pointer, span.clone(), |body| Unit::new(kind, key, pointer, &body[span]))
    }

    /// A unit beside the body.
    fn own(&mut self, kind: Kind, key: &str, pointer: &str, json: &str) -> Arc<Unit> {
        let make = || Arc::new(Unit { in_body: false, ..Unit::new(kind, key, pointer, json) });
        Arc::clone(self.pool.units.entry(stamp((kind, key), pointer, json)).or_insert_with(make))
    }

    /// Takes the body apart; what meets by name joins what is there.
    fn take(
        &mut self,
        document: &Document<'_>,
        prompt: &Prompt,
        named: &mut Vec<Arc<Unit>>,
    ) -> Vec<Arc<Unit>> {
        named.extend(tools(self, prompt));
        named.extend(settings(self, prompt, document));
        number_twins(named);
        conversation(self, prompt, document)
    }

    /// Of the body, and of what is around its units. Bodies are equal where both are.
    fn digests(mut self) -> (u64, u64) {
        self.spans.sort_unstable_by_key(|(span, _)| span.start);
        let (mut whole, mut around) = (DefaultHasher::new(), DefaultHasher::new());
        let mut end = 0;
        for (span, stamp) in &self.spans {
            if end <= span.start {
                let between = &self.body.as_bytes()[end..span.start];
                whole.write(between);
                around.write(between);
                around.write_u8(0);
            }
            whole.write_u64(*stamp);
            end = end.max(span.end);
        }
        let behind = &self.body.as_bytes()[end..];
        whole.write(behind);
        around.write(behind);
        (whole.finish(), around.finish())
    }

    /// The body with holes.
    fn frame(mut self) -> String {
        self.spans.sort_unstable_by_key(|(span, _)| (span.start, std::cmp::Reverse(span.end)));
        let mut frame = String::new();
        let mut end = 0;
        for (span, _) in &self.spans {
            if end <= span.start {
                frame.push_str(&self.body[end..span.start]);
                frame.push_str(HOLE);
            }
            end = end.max(span.end);
        }
        frame.push_str(&self.body[end..]);
        frame
    }
}

impl Unit {
    fn new(kind: Kind, key: impl Into<String>, pointer: &str, json: &str) -> Self {
        Self {
            kind,
            key: key.into(),
            pointer: pointer.to_owned(),
            in_body: true,
            hash: digest(json),
            json: json.to_owned(),
            marker: None,
            role: None,
            written_role: None,
            beside: None,
            opens: false,
            call: None,
            late: false,
            bare: false,
            block: None,
        }
    }

    /// One that may carry a marker, and whose parts inside may, too.
    fn marked(
        kind: Kind,
        key: impl Into<String>,
        place: &JsonLocation,
        markers: &[Held<'_>],
        body: &str,
    ) -> Self {
        let span = &place.span;
        let mut json = body[span.clone()].to_owned();
        let mut holes: Vec<_> =
            markers.iter().map(|(marker, owner)| member_around(body, &marker.place.span, owner)).collect();
        holes.sort_unstable_by_key(|hole| std::cmp::Reverse(hole.start));
        for hole in holes {
            json.replace_range(hole.start - span.start..hole.end - span.start, "");
        }
        // One that is inside says where: it is another if it moves.
        let said = |(marker, owner): &Held<'_>| match *owner == span {
            true => body[marker.place.span.clone()].to_owned(),
            false => {
                let inside = marker.place.pointer.strip_prefix(&place.pointer).unwrap_or_default();
                format!("{inside} {}", &body[marker.place.span.clone()])
            }
        };
        let marker = markers.first().map(|(first, _)| Marked {
            pointer: first.place.pointer.clone(),
            json: markers.iter().map(said).collect::<Vec<_>>().join(", "),
        });
        Self { marker, ..Self::new(kind, key, &place.pointer, &json) }
    }

    /// With the block around it, where it is compared without.
    pub(super) fn widened(&self) -> Self {
        let Some(Around { pointer, before, behind }) = &self.block else { return self.clone() };
        let json = format!("{before}{}{behind}", self.json);
        Self { pointer: pointer.clone(), json, block: None, ..self.clone() }
    }

    /// Whether it is a text that is compared without the block around it.
    pub(super) fn is_narrow(&self) -> bool {
        self.block.is_some()
    }
}

fn digest(json: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(json.as_bytes());
    hasher.finish()
}

fn stamp(by: impl Hash, pointer: &str, raw: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    by.hash(&mut hasher);
    pointer.hash(&mut hasher);
    hasher.write(raw.as_bytes());
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
fn number_twins(units: &mut [Arc<Unit>]) {
    let mut seen = HashMap::<(Kind, String), usize>::new();
    for unit in units {
        let count = seen.entry((unit.kind, unit.key.clone())).or_default();
        *count += 1;
        if *count > 1 {
            let key = format!("{} ({count})", unit.key);
            Arc::make_mut(unit).key = key;
        }
    }
}

/// This machine, as an address names it.
const LOOPBACK: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];

fn is_port_of(host: &str, known: &str) -> bool {
    let port = host.strip_prefix(known).and_then(|rest| rest.strip_prefix(':'));
    port.is_some_and(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Method, address and headers.
fn head(taking: &mut Taking<'_>, method: &str, url: &str, headers: &[Header]) -> Vec<Arc<Unit>> {
    let quote = wire::json::quote;
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let at = rest.find('/').unwrap_or(rest.len());
    let (host, target) = rest.split_at(at);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    // Whoever stands in for a provider has any port that was free; the harness never saw it.
    let host = LOOPBACK.into_iter().find(|known| is_port_of(host, known)).unwrap_or(host);
    let mut units = vec![
        taking.own(Kind::Line, "method", "method", &quote(method)),
        taking.own(Kind::Line, "host", "url:host", &quote(host)),
        taking.own(Kind::Line, "path", "url:path", &quote(path)),
    ];
    if !query.is_empty() {
        units.push(taking.own(Kind::Header, "query", "url:query", &quote(query)));
    }
    for header in headers {
        let name = header.name().to_ascii_lowercase();
        let pointer = format!("header:{name}");
        let is_id = header.value().is_some_and(|value| holds_an_id(&name, value));
        let kind = if is_id { Kind::Identity } else { Kind::Header };
        let json = match header {
            Header::Plain { value, .. } => quote(value),
            Header::Secret { fingerprint, .. } => format!("{{\"fingerprint\":{}}}", quote(fingerprint)),
        };
        units.push(taking.own(kind, &name, &pointer, &json));
    }
    units
}

/// What a header's name speaks of that has an id.
const NAMED: &[&str] = &[
    "agent",
    "b3",
    "baggage",
    "conversation",
    "correlation",
    "idempotency",
    "interaction",
    "parent",
    "request",
    "sentry",
    "session",
    "span",
    "thread",
    "trace",
    "traceparent",
    "tracestate",
    "turn",
];

/// Whether a header holds an id: its name says of what, and says that it is one or the value looks like one. A mode or
/// a count of sessions is a value like any other.
fn holds_an_id(name: &str, value: &str) -> bool {
    let has = |word: &str| name.split(['-', '_']).any(|part| part == word);
    let is_of = NAMED.iter().any(|word| has(word)) && !has("user");
    is_of && (has("id") || is_made_up(value))
}

fn tools(taking: &mut Taking<'_>, prompt: &Prompt) -> Vec<Arc<Unit>> {
    // Those inside messages belong to their messages.
    let listed = prompt.tools.iter().filter(|tool| tool.message.is_none());
    let unit = |tool: &ToolDefinition| {
        let place = &tool.place;
        let markers: Vec<_> = tool.marker.iter().map(|marker| (marker, &place.span)).collect();
        taking.unit((Kind::Tool, &tool.name), &place.pointer, place.span.clone(), |body| {
            Unit::marked(Kind::Tool, &tool.name, place, &markers, body)
        })
    };
    listed.map(unit).collect()
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

fn settings(taking: &mut Taking<'_>, prompt: &Prompt, document: &Document<'_>) -> Vec<Arc<Unit>> {
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
        units.push(taking.in_body(kind, &name, &pointer, member.value.span()));
    }
    // What the model's own messages have beside their words goes with them.
    for message in prompt.messages.iter().filter(|message| message.role != Role::Assistant) {
        let whole = message.parts.iter().any(|part| part.place.span == message.place.span);
        for extra in message.extra.iter().filter(|_| !whole) {
            let (pointer, span) = (&extra.place.pointer, extra.place.span.clone());
            units.push(taking.in_body(Kind::Setting, pointer, pointer, span));
        }
    }
    units
}

fn conversation(taking: &mut Taking<'_>, prompt: &Prompt, document: &Document<'_>) -> Vec<Arc<Unit>> {
    let mut units = Vec::new();
    for part in &prompt.system {
        let make = |body: &str| Unit { kind: Kind::System, ..said(part, body) };
        units.push(taking.unit(
            (Kind::System, seen(part)),
            &part.place.pointer,
            part.place.span.clone(),
            make,
        ));
    }
    // A message of the prompt is an item of the list; a text in the list's stead has no role.
    let list = ["messages", "input"].iter().find_map(|name| document.root().get(name));
    let mut items = list.iter().flat_map(|list| list.items());
    let mut late = false;
    for message in &prompt.messages {
        let item = items.next();
        late |= message.role == Role::Assistant;
        let whole = message.parts.iter().any(|part| part.place.span == message.place.span);
        let frame = item.filter(|_| !whole && !message.parts.is_empty());
        let written_role = frame.and_then(|item| item.get("role")).map(|role| {
            taking.spans.push((role.span(), digest(role.raw())));
            role.as_str().unwrap_or_else(|| role.raw().into()).into_owned()
        });
        let beside = frame.and_then(|_| beside(taking, message));
        for (at, part) in message.parts.iter().enumerate() {
            let (opens, role) = (at == 0, message.role);
            let beside = beside.as_ref().filter(|_| opens);
            let around = stamp((&written_role, beside.map(|beside| &beside.json)), "", "");
            let make = |body: &str| {
                let unit = Unit { role: Some(role), opens, late, ..block(part, role, body) };
                // In another name, or in another message, it is not what it was.
                let first = opens && unit.kind != Kind::Result;
                let hash = unit.hash.rotate_left(role as u32 + 1) ^ u64::from(first) ^ around;
                Unit { hash, written_role: written_role.clone(), beside: beside.cloned(), ..unit }
            };
            let by = (role as u32, opens, late, around, seen(part));
            units.push(taking.unit(by, &part.place.pointer, part.place.span.clone(), make));
        }
    }
    units
}

/// What a message of the model has beside role and words, as one object. A cache marker there stays around the units:
/// it moves from turn to turn.
fn beside(taking: &mut Taking<'_>, message: &PromptMessage) -> Option<Marked> {
    let of_model = message.role == Role::Assistant;
    let is_marker = |name: &str| name.starts_with("cache_") || name.starts_with("prompt_cache_");
    let extra: Vec<_> = message.extra.iter().filter(|extra| of_model && !is_marker(&extra.name)).collect();
    let mut members = Vec::new();
    for extra in extra {
        let raw = &taking.body[extra.place.span.clone()];
        members.push(format!("{}:{raw}", wire::json::quote(&extra.name)));
        taking.spans.push((extra.place.span.clone(), digest(raw)));
    }
    let json = format!("{{{}}}", members.join(","));
    (!members.is_empty()).then(|| Marked { pointer: message.place.pointer.clone(), json })
}

/// What was decoded of a part and cannot be told from its bytes: a call's id may stand beside them.
fn seen(part: &Part) -> impl Hash {
    let inside = |place: &JsonLocation| {
        let start = part.place.span.start;
        (place.span.start.wrapping_sub(start), place.span.end.wrapping_sub(start))
    };
    let call = match &part.block {
        Block::ToolCall(call) => Some((call.id.as_str(), call.name.as_str(), call.server)),
        Block::ToolResult(result) => Some((result.call.as_str(), "", result.server)),
        _ => None,
    };
    let is_text = matches!(part.block, Block::Text { .. });
    let marker = part.marker.as_ref().map(|marker| inside(&marker.place));
    (part.kind.as_str(), call, is_text, part.content.as_ref().map(inside), marker)
}

fn block(part: &Part, role: Role, body: &str) -> Unit {
    let in_body = |kind: Kind, key: &str| Unit::marked(kind, key, &part.place, &markers(part), body);
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
    let unit = Unit::marked(Kind::Said, key, place, &markers(part), body);
    let Some(content) = part.content.as_ref().filter(|_| text) else { return unit };
    let inside = &body[content.span.clone()];
    let bare = content.span == place.span;
    let frame = unit.json.len() - inside.len();
    if !bare && frame != FRAME && frame != OPENAI_FRAME {
        return unit;
    }
    // A marker stands before the text or behind it, and was taken out of the block.
    let is_behind = |marker: &&Marker| marker.place.span.start > content.span.start;
    let at = match part.marker.as_ref().filter(|marker| !is_behind(marker)) {
        Some(_) => unit.json.len() - (place.span.end - content.span.start),
        None => content.span.start - place.span.start,
    };
    let block = (!bare).then(|| Around {
        pointer: unit.pointer.clone(),
        before: unit.json[..at].to_owned(),
        behind: unit.json[at + inside.len()..].to_owned(),
    });
    Unit { marker: unit.marker, bare, block, ..Unit::new(Kind::Said, key, &content.pointer, inside) }
}
