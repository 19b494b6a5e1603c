//! Texts that a provider sends in fragments, spread over the events of a stream.
//!
//! Start at [`split_events`], then [`all_texts`] or [`split_texts`]. Nothing here knows a dialect: strings at the
//! same path in successive events, with the same `index`, `item_id` and so on along that path, are fragments of
//! one text.

use std::collections::HashMap;
use std::ops::Range;

use crate::json::{Document, Member, Value, ValueKind, close_truncated};
use crate::opaque::is_opaque_field;

/// The format that separates the events of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Server-sent events.
    ServerSentEvents,
    /// One JSON text on each line, with or without a record separator (U+001E) before it.
    JsonLines,
}

/// The byte ranges of one event's data lines.
#[derive(Debug, Default)]
pub struct EventData {
    /// The first line. Nearly every event has only this one.
    pub first: Range<usize>,
    /// The lines after the first.
    pub rest: Vec<Range<usize>>,
}

impl EventData {
    /// Returns an event whose data is one range of bytes.
    pub fn single(first: Range<usize>) -> Self {
        Self { first, rest: Vec::new() }
    }

    /// Iterates over the ranges of all data lines.
    pub fn lines(&self) -> impl Iterator<Item = &Range<usize>> {
        std::iter::once(&self.first).chain(&self.rest)
    }
}

/// Splits a stream into its events.
pub fn split_events(framing: Framing, stream: &[u8]) -> Vec<EventData> {
    match framing {
        Framing::ServerSentEvents => split_server_sent_events(stream),
        Framing::JsonLines => {
            let without_separator = |line: Range<usize>| {
                let separator = usize::from(stream[line.clone()].starts_with(b"\x1e"));
                line.start + separator..line.end
            };
            let lines = lines(stream).map(without_separator).filter(|line| !line.is_empty());
            lines.map(EventData::single).collect()
        }
    }
}

fn split_server_sent_events(stream: &[u8]) -> Vec<EventData> {
    let mut events = Vec::with_capacity(stream.len() / 160);
    let mut event: Option<EventData> = None;
    for line in lines(stream) {
        if line.is_empty() {
            events.extend(event.take());
            continue;
        }
        let Some(rest) = stream[line.clone()].strip_prefix(b"data:") else { continue };
        let data = line.end - rest.strip_prefix(b" ").unwrap_or(rest).len()..line.end;
        match &mut event {
            Some(event) => event.rest.push(data),
            None => event = Some(EventData::single(data)),
        }
    }
    events.extend(event);
    events
}

/// Iterates over the lines of a text, without the LF, CR or CRLF that ends them.
fn lines(bytes: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut at = if bytes.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    let has_carriage_returns = memchr::memchr(b'\r', bytes).is_some();
    std::iter::from_fn(move || {
        let rest = bytes.get(at..).filter(|rest| !rest.is_empty())?;
        if rest[0] == b'\n' {
            at += 1;
            return Some(at - 1..at - 1); // the end of an event: every third line of a stream
        }
        let length = match has_carriage_returns {
            true => memchr::memchr2(b'\n', b'\r', rest),
            false => memchr::memchr(b'\n', rest),
        };
        let end = at + length.unwrap_or(rest.len());
        let line = at..end;
        at = if bytes[end..].starts_with(b"\r\n") { end + 2 } else { end + 1 };
        Some(line)
    })
}

/// A text joined from its fragments.
pub struct JoinedText {
    /// The fragments as they were sent, JSON escapes included.
    pub bytes: Vec<u8>,
    /// The text is the value of an [opaque](crate::opaque) field.
    pub is_opaque: bool,
    /// The start of each fragment in `bytes`, and in the stream.
    starts: Vec<(usize, usize)>,
}

impl JoinedText {
    fn new(fragments: Fragments, stream: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(fragments.ranges.iter().map(Range::len).sum());
        let mut starts = Vec::with_capacity(fragments.ranges.len());
        for range in fragments.ranges {
            starts.push((bytes.len(), range.start));
            bytes.extend_from_slice(&stream[range]);
        }
        Self { bytes, starts, is_opaque: fragments.is_opaque }
    }

    /// Returns the ranges of the stream that a range of the text came from.
    pub fn source_ranges(&self, range: &Range<usize>) -> Vec<Range<usize>> {
        let first = self.starts.partition_point(|(at, _)| *at <= range.start) - 1;
        let mut sources = Vec::new();
        for (index, &(at, origin)) in self.starts.iter().enumerate().skip(first) {
            let end = self.starts.get(index + 1).map_or(self.bytes.len(), |next| next.0);
            if at >= range.end {
                break;
            }
            sources.push(origin + (range.start.max(at) - at)..origin + (range.end.min(end) - at));
        }
        sources
    }
}

/// Returns every text of a stream.
pub fn all_texts(events: &[EventData], stream: &[u8]) -> Vec<JoinedText> {
    collect_fragments(events, stream).into_iter().map(|text| JoinedText::new(text, stream)).collect()
}

/// Returns the texts of a stream that have more than one fragment.
pub fn split_texts(events: &[EventData], stream: &[u8]) -> Vec<JoinedText> {
    let split = collect_fragments(events, stream).into_iter().filter(|text| text.ranges.len() > 1);
    split.map(|text| JoinedText::new(text, stream)).collect()
}

/// The fragments of one text, as ranges of the stream.
struct Fragments {
    ranges: Vec<Range<usize>>,
    is_opaque: bool,
}

fn collect_fragments(events: &[EventData], stream: &[u8]) -> Vec<Fragments> {
    let mut collector = FragmentCollector::default();
    for event in events {
        collector.read_event(event, stream);
    }
    collector.texts
}

/// Assigns the strings of successive events to texts.
#[derive(Default)]
struct FragmentCollector {
    texts: Vec<Fragments>,
    /// Indices into `texts`, by the hash of the string's position.
    by_position: HashMap<u64, usize>,
    /// The event that was parsed last. Most events differ from their predecessor in one string only.
    template: Range<usize>,
    /// The strings of `template`, without quotes, and their indices into `texts`.
    template_strings: Vec<(Range<usize>, usize)>,
}

impl FragmentCollector {
    fn read_event(&mut self, event: &EventData, bytes: &[u8]) {
        if !event.rest.is_empty() {
            return self.read_multiline(event, bytes);
        }
        let line = &event.first;
        if let Some((fragment, text)) = self.match_template(line, bytes) {
            if !fragment.is_empty() {
                self.texts[text].ranges.push(fragment);
            }
            return;
        }
        self.template = line.clone();
        self.template_strings.clear();
        let locate = |span: Range<usize>| line.start + span.start..line.start + span.end;
        if let Ok(document) = Document::parse(&bytes[line.clone()]) {
            return self.walk(document.root(), Position::default(), &locate);
        }
        // The stream may end inside this event.
        let closed = (line.end == bytes.len()).then(|| close_truncated(&bytes[line.clone()]));
        match closed.as_deref().map(Document::parse) {
            Some(Ok(document)) => self.walk(document.root(), Position::default(), &locate),
            _ => self.add(PLAIN_TEXT, line.clone(), false),
        }
    }

    /// Parses the joined lines, and maps ranges of the result back to the lines.
    fn read_multiline(&mut self, event: &EventData, bytes: &[u8]) {
        let lines: Vec<&Range<usize>> = event.lines().collect();
        let data = lines.iter().map(|line| &bytes[(*line).clone()]).collect::<Vec<_>>().join(&b'\n');
        let locate = |span: Range<usize>| {
            let mut offset = span.start;
            for line in &lines {
                if offset <= line.len() {
                    return line.start + offset..line.start + offset + span.len();
                }
                offset -= line.len() + 1;
            }
            0..0
        };
        match Document::parse(&data) {
            Ok(document) => self.walk(document.root(), Position::default(), &locate),
            Err(_) => event.lines().for_each(|line| self.add(PLAIN_TEXT, line.clone(), false)),
        }
    }

    /// Compares an event with the template without parsing it. If they differ within one string only, returns
    /// the range of that string and its text.
    fn match_template(&self, line: &Range<usize>, bytes: &[u8]) -> Option<(Range<usize>, usize)> {
        let same = self.template.start + common_prefix(&bytes[self.template.clone()], &bytes[line.clone()]);
        let contains_change = |(inner, _): &&(Range<usize>, usize)| inner.start <= same && same <= inner.end;
        let (inner, text) = self.template_strings.iter().find(contains_change)?;
        let suffix = &bytes[inner.end..self.template.end];
        let start = line.start + (inner.start - self.template.start);
        let end = line.end.checked_sub(suffix.len()).filter(|end| *end >= start)?;
        (bytes[end..line.end] == *suffix && is_string_content(&bytes[start..end]))
            .then_some((start..end, *text))
    }

    fn walk(
        &mut self,
        value: Value<'_, '_>,
        position: Position<'_>,
        locate: &dyn Fn(Range<usize>) -> Range<usize>,
    ) {
        match value.kind() {
            ValueKind::String if !LABELS.contains(&position.key) => {
                let inner = value.inner_span().expect("strings have an inner span");
                if !inner.is_empty() {
                    self.add(position.hash, locate(inner), position.is_opaque);
                }
            }
            ValueKind::Object => self.walk_object(value, position, locate),
            ValueKind::Array => {
                for (index, item) in value.items().enumerate() {
                    // The hash of an item with an `index` field includes that field instead, and the next token
                    // of a text continues the token before it.
                    let by_index = item.get("index").is_none() && !is_token(position.key, item);
                    let index = if by_index { index } else { 0 };
                    let hash = mix(position.hash, &index.to_le_bytes());
                    self.walk(item, Position { hash, is_item: true, ..position }, locate);
                }
            }
            _ => {}
        }
    }

    fn walk_object(
        &mut self,
        value: Value<'_, '_>,
        position: Position<'_>,
        locate: &dyn Fn(Range<usize>) -> Range<usize>,
    ) {
        let (hash, kind) = hash_object(value, &position);
        let opening = kind.filter(|kind| kind.ends_with(".added")).and_then(|_| opening_of(value));
        for member in value.members() {
            let key = member_name(&member);
            let opening = opening.filter(|_| ADDED_OBJECTS.contains(&key));
            let hash = match key {
                _ if opening.is_some() => hash,
                "content_block" => mix(hash, b"delta"),
                _ if position.opening.is_some_and(|opening| opening.field == key) => mix(hash, b"delta"),
                _ => mix(hash, key.as_bytes()),
            };
            let is_opaque = is_opaque_field(key, kind);
            self.walk(member.value, Position { hash, key, is_opaque, opening, is_item: false }, locate);
        }
    }

    fn add(&mut self, position: u64, fragment: Range<usize>, is_opaque: bool) {
        let next = self.texts.len();
        let index = *self.by_position.entry(position).or_insert(next);
        self.template_strings.push((fragment.clone(), index));
        match self.texts.get_mut(index) {
            Some(text) => text.ranges.push(fragment),
            None => self.texts.push(Fragments { ranges: vec![fragment], is_opaque }),
        }
    }
}

/// Returns the length of the common prefix.
fn common_prefix(old: &[u8], new: &[u8]) -> usize {
    let mut at = 0;
    // Eight bytes at a time, because this reads most bytes of a stream.
    let word = |bytes: &[u8], at: usize| bytes.get(at..)?.first_chunk().copied().map(u64::from_le_bytes);
    while let (Some(old), Some(new)) = (word(old, at), word(new, at)) {
        if old != new {
            return at + ((old ^ new).trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    at + old[at..].iter().zip(&new[at..]).take_while(|(a, b)| a == b).count()
}

/// Returns true if the bytes contain no quote, backslash or control character. Reads eight bytes at a time.
fn is_plain(bytes: &[u8]) -> bool {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    // Sets the high bit of each byte below `limit`. The byte above such a byte may be wrong, so any set bit is a no.
    let below = |word: u64, limit: u8| word.wrapping_sub(ONES * u64::from(limit)) & !word & HIGH;
    let special = |word: u64| {
        let is = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
        below(word, 0x20) | is(b'"') | is(b'\\')
    };
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = *b"........";
    last[..rest.len()].copy_from_slice(rest);
    words.iter().chain([&last]).all(|word| special(u64::from_le_bytes(*word)) == 0)
}

/// Returns true if the bytes are certainly valid between the quotes of a JSON string.
fn is_string_content(bytes: &[u8]) -> bool {
    if is_plain(bytes) {
        return true;
    }
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' | 0..=0x1f => return false,
            // Only a parser can tell if another escape is valid.
            b'\\' if !matches!(bytes.get(at + 1), Some(b'"' | b'\\' | b'/' | b'n' | b'r' | b't')) => {
                return false;
            }
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    true
}

/// The position of a value in its event.
#[derive(Clone, Copy, Default)]
struct Position<'a> {
    hash: u64,
    key: &'a str,
    is_opaque: bool,
    /// The text that starts in this object.
    opening: Option<&'static Opening>,
    is_item: bool,
}

/// A text whose first fragment is a field of a new object, and whose other fragments have events of their own.
struct Opening {
    /// The `type` of the new object.
    kind: &'static str,
    /// The field that contains the first fragment.
    field: &'static str,
    /// The type of the events with the other fragments, in quotes.
    event: &'static str,
}

/// The fields of an event that contain a new object.
const ADDED_OBJECTS: &[&str] = &["item", "part"];

#[rustfmt::skip]
const OPENINGS: &[Opening] = &[
    Opening { kind: "function_call", field: "arguments", event: "\"response.function_call_arguments.delta\"" },
    Opening { kind: "mcp_call", field: "arguments", event: "\"response.mcp_call_arguments.delta\"" },
    Opening { kind: "custom_tool_call", field: "input", event: "\"response.custom_tool_call_input.delta\"" },
    Opening { kind: "code_interpreter_call", field: "code", event: "\"response.code_interpreter_call_code.delta\"" },
    Opening { kind: "output_text", field: "text", event: "\"response.output_text.delta\"" },
    Opening { kind: "refusal", field: "refusal", event: "\"response.refusal.delta\"" },
    Opening { kind: "reasoning_text", field: "text", event: "\"response.reasoning_text.delta\"" },
    Opening { kind: "summary_text", field: "text", event: "\"response.reasoning_summary_text.delta\"" },
];

/// Returns the text that starts in an event that adds an object.
fn opening_of(event: Value<'_, '_>) -> Option<&'static Opening> {
    let kind = ADDED_OBJECTS.iter().find_map(|key| event.get(key)?.get("type"))?.raw();
    OPENINGS.iter().find(|opening| kind.trim_matches('"') == opening.kind)
}

/// Returns true if an item of the array `key` is one token of a text, listed with its probability.
fn is_token(key: &str, item: Value<'_, '_>) -> bool {
    match key {
        "logprobs" | "tokens" | "chosenCandidates" | "topCandidates" => true,
        "content" | "refusal" => item.get("token").is_some(),
        _ => false,
    }
}

/// The position hash of data that is not JSON.
const PLAIN_TEXT: u64 = 1;

/// Fields that distinguish the texts of a stream.
const DISTINGUISHING_FIELDS: &[&str] = &[
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

/// Fields that are constant or random, and never a fragment of a text.
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

/// Returns a hash of an object's position and its distinguishing fields, in any order, and the object's type.
fn hash_object<'a>(object: Value<'a, '_>, position: &Position<'_>) -> (u64, Option<&'a str>) {
    let mut hash = position.hash;
    let mut kind = None;
    for member in object.members() {
        let key = member_name(&member);
        // Some providers give an item a new id in each event; its `output_index` is reliable.
        let replaced_by_index = key == "item_id" && object.get("output_index").is_some();
        if !DISTINGUISHING_FIELDS.contains(&key) || replaced_by_index {
            continue;
        }
        let mut value = member.value.raw();
        if key == "type" {
            kind = Some(value.trim_matches('"'));
            // The events that start and continue a text have different types, and only the first chunk of a
            // tool call has one.
            value = match value {
                _ if position.is_item || position.opening.is_some() => continue,
                _ if matches!(position.key, "delta" | "content_block") => continue,
                "\"content_block_start\"" => "\"content_block_delta\"",
                added if added.ends_with(".added\"") => {
                    opening_of(object).map_or(added, |opening| opening.event)
                }
                other => other,
            };
        }
        hash = hash.wrapping_add(mix(mix(position.hash, key.as_bytes()), value.as_bytes()));
    }
    (hash, kind)
}

/// Returns a member's name as it is written, without quotes.
fn member_name<'a>(member: &Member<'a, '_>) -> &'a str {
    let raw = member.key.raw();
    &raw[1..raw.len() - 1]
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
