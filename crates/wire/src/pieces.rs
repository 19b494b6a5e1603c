//! Texts that the events of a stream make together.
//!
//! No dialect is known here. Strings that stand at the same place in successive events (the same path, and
//! the same `index`, `item_id` and so on along it) are the pieces of one text.

use std::collections::HashMap;
use std::ops::Range;

use crate::json::{Document, Kind, Value, completed};
use crate::redact::is_sealed;

/// The data lines of one event: nearly always one.
#[derive(Debug, Default)]
pub(crate) struct Event {
    pub(crate) line: Range<usize>,
    pub(crate) more: Vec<Range<usize>>,
}

/// The events of a stream; of one JSON text a line, behind a separator or not, where `by_line`.
pub(crate) fn events(by_line: bool, bytes: &[u8]) -> Vec<Event> {
    let mut events = Vec::with_capacity(bytes.len() / 160);
    let mut event: Option<Event> = None;
    for line in lines(bytes) {
        if by_line {
            let separator = usize::from(bytes[line.clone()].starts_with(b"\x1e"));
            let line = line.start + separator..line.end;
            events.extend((!line.is_empty()).then_some(Event { line, more: Vec::new() }));
            continue;
        }
        if line.is_empty() {
            events.extend(event.take());
            continue;
        }
        let Some(rest) = bytes[line.clone()].strip_prefix(b"data:") else { continue };
        let data = line.end - rest.strip_prefix(b" ").unwrap_or(rest).len()..line.end;
        match &mut event {
            Some(event) => event.more.push(data),
            None => event = Some(Event { line: data, more: Vec::new() }),
        }
    }
    events.extend(event);
    events
}

/// The lines of a text, ended by LF, CR or both, without their ends.
fn lines(bytes: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut at = if bytes.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    let returns = memchr::memchr(b'\r', bytes).is_some();
    std::iter::from_fn(move || {
        let rest = bytes.get(at..).filter(|rest| !rest.is_empty())?;
        if rest[0] == b'\n' {
            at += 1;
            return Some(at - 1..at - 1); // an event's end, every third line of a stream
        }
        let end = if returns { memchr::memchr2(b'\n', b'\r', rest) } else { memchr::memchr(b'\n', rest) };
        let end = at + end.unwrap_or(rest.len());
        let line = at..end;
        at = if bytes[end..].starts_with(b"\r\n") { end + 2 } else { end + 1 };
        Some(line)
    })
}

/// A text put together from the pieces of several events.
pub(crate) struct Joined {
    /// The pieces as they are written, escapes and all.
    pub(crate) bytes: Vec<u8>,
    /// Where each piece begins, here and in the stream.
    pieces: Vec<(usize, usize)>,
    pub(crate) sealed: bool,
}

impl Joined {
    fn new(lane: Lane, stream: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(lane.pieces.iter().map(Range::len).sum());
        let mut pieces = Vec::with_capacity(lane.pieces.len());
        for piece in lane.pieces {
            pieces.push((bytes.len(), piece.start));
            bytes.extend_from_slice(&stream[piece]);
        }
        Self { bytes, pieces, sealed: lane.sealed }
    }

    /// Where a stretch of the text stands in the stream.
    pub(crate) fn parts(&self, range: &Range<usize>) -> Vec<Range<usize>> {
        let first = self.pieces.partition_point(|(at, _)| *at <= range.start) - 1;
        let mut parts = Vec::new();
        for (index, &(at, origin)) in self.pieces.iter().enumerate().skip(first) {
            let end = self.pieces.get(index + 1).map_or(self.bytes.len(), |next| next.0);
            if at >= range.end {
                break;
            }
            parts.push(origin + (range.start.max(at) - at)..origin + (range.end.min(end) - at));
        }
        parts
    }
}

/// Strings that stand at one place in successive events.
struct Lane {
    pieces: Vec<Range<usize>>,
    sealed: bool,
}

#[derive(Default)]
struct Lanes {
    by_place: HashMap<u64, usize>,
    list: Vec<Lane>,
    /// The last event that was parsed: most events differ from the one before in one string only.
    pattern: Range<usize>,
    /// The strings of that event, where their insides stand, and their lanes.
    strings: Vec<(Range<usize>, usize)>,
}

/// The texts that stand in several pieces.
pub(crate) fn joined(events: &[Event], bytes: &[u8]) -> Vec<Joined> {
    let several = lanes(events, bytes).into_iter().filter(|lane| lane.pieces.len() > 1);
    several.map(|lane| Joined::new(lane, bytes)).collect()
}

/// All texts, those in one piece too.
pub(crate) fn texts(events: &[Event], bytes: &[u8]) -> Vec<Joined> {
    lanes(events, bytes).into_iter().map(|lane| Joined::new(lane, bytes)).collect()
}

fn lanes(events: &[Event], bytes: &[u8]) -> Vec<Lane> {
    let mut lanes = Lanes::default();
    for event in events {
        lanes.read(event, bytes);
    }
    lanes.list
}

impl Lanes {
    fn read(&mut self, event: &Event, bytes: &[u8]) {
        if event.more.is_empty() {
            let line = &event.line;
            if let Some((piece, lane)) = self.like_the_last(line, bytes) {
                if !piece.is_empty() {
                    self.list[lane].pieces.push(piece);
                }
                return;
            }
            self.pattern = line.clone();
            self.strings.clear();
            let locate = |span: Range<usize>| line.start + span.start..line.start + span.end;
            if let Ok(document) = Document::parse(&bytes[line.clone()]) {
                return self.walk(document.root(), Place::default(), &locate);
            }
            // The stream may have ended inside of it.
            let cut = (line.end == bytes.len()).then(|| completed(&bytes[line.clone()]));
            match cut.as_deref().map(Document::parse) {
                Some(Ok(document)) => self.walk(document.root(), Place::default(), &locate),
                _ => self.add(PLAIN_TEXT, line.clone(), false),
            }
            return;
        }
        // JSON over several data lines: put together here, found again line by line.
        let spans: Vec<&Range<usize>> = std::iter::once(&event.line).chain(&event.more).collect();
        let data = spans.iter().map(|span| &bytes[(*span).clone()]).collect::<Vec<_>>().join(&b'\n');
        match Document::parse(&data) {
            Ok(document) => self.walk(document.root(), Place::default(), &|span| {
                let mut offset = span.start;
                for line in &spans {
                    if offset <= line.len() {
                        return line.start + offset..line.start + offset + span.len();
                    }
                    offset -= line.len() + 1;
                }
                0..0
            }),
            Err(_) => spans.into_iter().for_each(|span| self.add(PLAIN_TEXT, span.clone(), false)),
        }
    }

    /// Where an event is the last parsed one but for the inside of one string: that inside, and its
    /// lane. What is the same in both needs no second look.
    fn like_the_last(&self, line: &Range<usize>, bytes: &[u8]) -> Option<(Range<usize>, usize)> {
        let same = self.pattern.start + same(&bytes[self.pattern.clone()], &bytes[line.clone()]);
        let around = |(inner, _): &&(Range<usize>, usize)| inner.start <= same && same <= inner.end;
        let (inner, lane) = self.strings.iter().find(around)?;
        let behind = &bytes[inner.end..self.pattern.end];
        let start = line.start + (inner.start - self.pattern.start);
        let end = line.end.checked_sub(behind.len()).filter(|end| *end >= start)?;
        (bytes[end..line.end] == *behind && is_inside_of_string(&bytes[start..end]))
            .then_some((start..end, *lane))
    }

    fn walk(
        &mut self,
        value: Value<'_, '_>,
        place: Place<'_>,
        locate: &dyn Fn(Range<usize>) -> Range<usize>,
    ) {
        match value.kind() {
            Kind::String if !LABELS.contains(&place.key) => {
                let inner = value.inner_span().expect("strings have an inside");
                if !inner.is_empty() {
                    self.add(place.hash, locate(inner), place.sealed);
                }
            }
            Kind::Object => {
                let (hash, kind) = numbered(value, &place);
                let begun = kind.filter(|kind| kind.ends_with(".added")).and_then(|_| begun(value));
                for member in value.members() {
                    let raw = member.key.raw();
                    let key = &raw[1..raw.len() - 1];
                    let sealed = is_sealed(key, kind);
                    let begun = begun.filter(|_| BEGUN.contains(&key));
                    let hash = match key {
                        _ if begun.is_some() => hash,
                        "content_block" => mix(hash, b"delta"),
                        _ if place.begun.is_some_and(|begun| begun.member == key) => mix(hash, b"delta"),
                        _ => mix(hash, key.as_bytes()),
                    };
                    self.walk(member.value, Place { hash, key, sealed, begun, is_item: false }, locate);
                }
            }
            Kind::Array => {
                for (position, item) in value.items().enumerate() {
                    // An item that says its own index keeps it wherever it stands; one that is the next word
                    // of a text has none.
                    let apart = item.get("index").is_none() && !is_word(place.key, item);
                    let position = if apart { position } else { 0 };
                    let hash = mix(place.hash, &position.to_le_bytes());
                    self.walk(item, Place { hash, is_item: true, ..place }, locate);
                }
            }
            _ => {}
        }
    }

    fn add(&mut self, place: u64, piece: Range<usize>, sealed: bool) {
        let next = self.list.len();
        let index = *self.by_place.entry(place).or_insert(next);
        self.strings.push((piece.clone(), index));
        match self.list.get_mut(index) {
            Some(lane) => lane.pieces.push(piece),
            None => self.list.push(Lane { pieces: vec![piece], sealed }),
        }
    }
}

/// How many bytes both begin with.
fn same(old: &[u8], new: &[u8]) -> usize {
    let mut at = 0;
    // Eight at a time: this sees most bytes of a stream.
    let word = |bytes: &[u8], at: usize| bytes.get(at..)?.first_chunk().copied().map(u64::from_le_bytes);
    while let (Some(old), Some(new)) = (word(old, at), word(new, at)) {
        if old != new {
            return at + ((old ^ new).trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    at + old[at..].iter().zip(&new[at..]).take_while(|(a, b)| a == b).count()
}

/// Whether there is no quote, backslash or control character in it; eight bytes at a time.
fn is_plain(bytes: &[u8]) -> bool {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    // The high bit of each byte that is less than `limit`; one above it may be wrong, so any is a no.
    let below = |word: u64, limit: u8| word.wrapping_sub(ONES * u64::from(limit)) & !word & HIGH;
    let odd = |word: u64| {
        let is = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
        below(word, 0x20) | is(b'"') | is(b'\\')
    };
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = *b"........";
    last[..rest.len()].copy_from_slice(rest);
    words.iter().chain([&last]).all(|word| odd(u64::from_le_bytes(*word)) == 0)
}

/// Whether this could stand between the quotes of a JSON string.
fn is_inside_of_string(bytes: &[u8]) -> bool {
    if is_plain(bytes) {
        return true;
    }
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' | 0..=0x1f => return false,
            // A parser must say whether the escape is one.
            b'\\' if !matches!(bytes.get(at + 1), Some(b'"' | b'\\' | b'/' | b'n' | b'r' | b't')) => {
                return false;
            }
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    true
}

/// Where a value stands in its event.
#[derive(Clone, Copy, Default)]
struct Place<'a> {
    hash: u64,
    key: &'a str,
    sealed: bool,
    /// What is added here comes with the first piece of a text.
    begun: Option<&'static Begun>,
    is_item: bool,
}

/// A text whose first piece comes with what it belongs to, and the next ones in events of their own.
struct Begun {
    /// What is added.
    kind: &'static str,
    /// Its member that is the first piece.
    member: &'static str,
    /// The events with the next pieces, in quotes.
    event: &'static str,
}

/// Where what is added stands in its event.
const BEGUN: &[&str] = &["item", "part"];

#[rustfmt::skip]
const BEGINNINGS: &[Begun] = &[
    Begun { kind: "function_call", member: "arguments", event: "\"response.function_call_arguments.delta\"" },
    Begun { kind: "mcp_call", member: "arguments", event: "\"response.mcp_call_arguments.delta\"" },
    Begun { kind: "custom_tool_call", member: "input", event: "\"response.custom_tool_call_input.delta\"" },
    Begun { kind: "code_interpreter_call", member: "code", event: "\"response.code_interpreter_call_code.delta\"" },
    Begun { kind: "output_text", member: "text", event: "\"response.output_text.delta\"" },
    Begun { kind: "refusal", member: "refusal", event: "\"response.refusal.delta\"" },
    Begun { kind: "reasoning_text", member: "text", event: "\"response.reasoning_text.delta\"" },
    Begun { kind: "summary_text", member: "text", event: "\"response.reasoning_summary_text.delta\"" },
];

/// The text that an event begins with what it adds.
fn begun(event: Value<'_, '_>) -> Option<&'static Begun> {
    let kind = BEGUN.iter().find_map(|key| event.get(key)?.get("type"))?.raw();
    BEGINNINGS.iter().find(|begun| kind.trim_matches('"') == begun.kind)
}

/// Whether an item of the array under `key` is the next word of a model's text, as it is listed with how
/// probable it was.
fn is_word(key: &str, item: Value<'_, '_>) -> bool {
    match key {
        "logprobs" | "tokens" | "chosenCandidates" | "topCandidates" => true,
        "content" | "refusal" => item.get("token").is_some(),
        _ => false,
    }
}

/// The place of data that is not JSON.
const PLAIN_TEXT: u64 = 1;

/// Members that tell one lane of a stream from another.
const NUMBERS: &[&str] = &[
    "type",
    "index",
    "output_index",
    "content_index",
    "summary_index",
    "item_id",
    "session_id",
    "sessionID",
    "parent_tool_use_id",
    "agent_id",
    "partID",
    "messageID",
];

/// Members that are the same in every event, or random, and never a piece of a text.
const LABELS: &[&str] = &[
    "type",
    "id",
    "object",
    "model",
    "role",
    "item_id",
    "finish_reason",
    "stop_reason",
    "system_fingerprint",
    "service_tier",
    "status",
    "obfuscation",
    "session_id",
    "uuid",
    "parent_tool_use_id",
];

/// An object's place, told apart by the numbers it carries, in whatever order; and its type.
fn numbered<'a>(object: Value<'a, '_>, place: &Place<'_>) -> (u64, Option<&'a str>) {
    let mut hash = place.hash;
    let mut kind = None;
    for member in object.members() {
        let raw = member.key.raw();
        let key = &raw[1..raw.len() - 1];
        // Some give an item another id in each event; where there is an index, that tells it better.
        if !NUMBERS.contains(&key) || (key == "item_id" && object.get("output_index").is_some()) {
            continue;
        }
        let mut value = member.value.raw();
        if key == "type" {
            kind = Some(value.trim_matches('"'));
            // What begins and what goes on are one text, whatever each calls its kind; and of a call's
            // chunks only the first says one.
            value = match value {
                _ if place.is_item || place.begun.is_some() => continue,
                _ if matches!(place.key, "delta" | "content_block") => continue,
                "\"content_block_start\"" => "\"content_block_delta\"",
                added if added.ends_with(".added\"") => begun(object).map_or(added, |begun| begun.event),
                other => other,
            };
        }
        hash = hash.wrapping_add(mix(mix(place.hash, key.as_bytes()), value.as_bytes()));
    }
    (hash, kind)
}

fn mix(hash: u64, bytes: &[u8]) -> u64 {
    let mut hash = hash ^ 0xcbf2_9ce4_8422_2325 ^ (bytes.len() as u64) << 56;
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }
    hash
}
