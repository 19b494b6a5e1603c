//! Streams: a secret may be cut up over many events.
//!
//! The search knows no dialect. The pieces that make one text are put together, searched, and what is
//! found is cut up again: the first event carries the placeholder, the others lose their piece.

use std::ops::Range;

use wire::json::{self, Document, close_truncated};
use wire::stream_text::{EventData, Framing, split_events, split_texts};

use super::Form;
use super::hit::{self, Hit, Rank};
use super::plain::Plain;
use super::search::{Ruled, Search, Terms};

/// The events of a text of that form: none where it does not begin as that.
pub(super) fn events(form: Form, bytes: &[u8]) -> Vec<EventData> {
    if form != Form::Items {
        let framing = if form == Form::Lines { Framing::JsonLines } else { Framing::ServerSentEvents };
        return split_events(framing, bytes);
    }
    let items = |text: &[u8]| -> Option<Vec<EventData>> {
        let document = Document::parse(text).ok()?;
        Some(document.root().items().map(|item| EventData::single(item.span())).collect())
    };
    items(bytes).unwrap_or_else(|| {
        let mut items = items(&close_truncated(bytes)).unwrap_or_default();
        if let Some(last) = items.last_mut() {
            last.first.end = bytes.len(); // it goes on up to the cut
        }
        items
    })
}

/// What must go from a stream, settled and in order.
pub(super) fn hits(search: &mut Search, place: &str, events: &[EventData], bytes: &[u8]) -> Vec<Hit> {
    let texts = split_texts(events, bytes);
    let plain = Plain::of_escaped(bytes);
    let plains: Vec<Plain<'_>> = texts.iter().map(|text| Plain::of_escaped(&text.bytes)).collect();

    // All rules before all values, so that what one text teaches is found in every other.
    let mut seen = search.by_rule(place, &plain, Terms::default());
    let mut in_texts = Vec::with_capacity(texts.len());
    for (text, plain) in texts.iter().zip(&plains) {
        in_texts.push(search.by_rule(place, plain, Terms { is_opaque: text.is_opaque, form: false }));
    }
    seen.hits.extend(search.by_value(&plain, &seen.notes));
    for (found, plain) in in_texts.iter_mut().zip(&plains) {
        found.hits.extend(search.by_value(plain, &found.notes));
    }

    let seen = hit::settle(seen.hits);
    let mut all = Vec::new();
    for (found, text) in in_texts.into_iter().zip(&texts) {
        for hit in hit::settle(found.hits) {
            let parts = text.source_ranges(&hit.range);
            // Each part is a secret by itself: the same thing said twice, not one thing cut up.
            if !parts.iter().all(|part| covered(&seen, part)) {
                all.extend(cut_up(&hit, parts));
            }
        }
    }
    if seen.is_empty() && all.is_empty() {
        return Vec::new();
    }
    all.extend(seen);
    keep_valid(events, bytes, hit::settle(all))
}

/// What must go from the streams that stand in a JSON text as strings, as dump files hold them; not
/// settled, for the text itself is searched too.
pub(super) fn nested(search: &mut Search, place: &str, bytes: &[u8]) -> Vec<Hit> {
    let mut all = Vec::new();
    let mut from = 0;
    while let Some(inner) = next_stream(bytes, from) {
        from = inner.end;
        let Ok(text) = std::str::from_utf8(&bytes[inner.clone()]) else { continue };
        let stream = Plain::of_json_string(text);
        for hit in hits(search, place, &events(Form::Events, stream.bytes()), stream.bytes()) {
            let range = stream.original(&hit.range);
            let quoted = json::quote(&String::from_utf8_lossy(&hit.with));
            let with = quoted.as_bytes()[1..quoted.len() - 1].to_vec();
            all.push(Hit {
                range: inner.start + range.start..inner.start + range.end,
                with,
                rank: Rank::Joined,
                ..hit
            });
        }
    }
    all
}

/// What must go from the texts that a JSON text lists word by word; not settled either.
pub(super) fn spelled(search: &mut Search, place: &str, bytes: &[u8]) -> Vec<Hit> {
    let whole = EventData::single(0..bytes.len());
    let mut all = Vec::new();
    for text in split_texts(&[whole], bytes) {
        let plain = Plain::of_escaped(&text.bytes);
        let terms = Terms { is_opaque: text.is_opaque, form: false };
        let Ruled { mut hits, notes } = search.by_rule(place, &plain, terms);
        hits.extend(search.by_value(&plain, &notes));
        all.extend(hit::settle(hits).iter().flat_map(|hit| cut_up(hit, text.source_ranges(&hit.range))));
    }
    all
}

/// What stands beside each word of such a text.
pub(super) const WORDS: &[&str] = &["\"logprob\"", "\"logProbability\"", "\"token_logprobs\""];

/// How a JSON string begins that holds a stream.
pub(super) const BEGINS: &[&str] = &["\"data:", "\"event:", "\"id:", "\"retry:"];

/// The inside of the next JSON string that begins like a stream.
fn next_stream(bytes: &[u8], from: usize) -> Option<Range<usize>> {
    let find = |begin: &&str| memchr::memmem::find(&bytes[from..], begin.as_bytes()).map(|at| from + at + 1);
    let start = BEGINS.iter().filter_map(find).min()?;
    let mut end = start;
    while let Some(more) = memchr::memchr2(b'"', b'\\', &bytes[end.min(bytes.len())..]) {
        end += more;
        if bytes[end] == b'"' {
            return Some(start..end);
        }
        end += 2;
    }
    None
}

fn covered(hits: &[Hit], part: &Range<usize>) -> bool {
    let behind = hits.partition_point(|hit| hit.range.end < part.end);
    hits.get(behind).is_some_and(|hit| hit.range.start <= part.start)
}

/// The first part carries what comes in the hit's place, the others only go.
fn cut_up(hit: &Hit, parts: Vec<Range<usize>>) -> Vec<Hit> {
    let mut with = hit.with.clone();
    let part = |range| Hit { range, with: std::mem::take(&mut with), rank: Rank::Joined, ..hit.clone() };
    parts.into_iter().map(part).collect()
}

/// Keeps every hit inside the data lines, and inside the strings and numbers of their JSON: the
/// stream's own fields and line ends are no part of any secret.
fn keep_valid(events: &[EventData], bytes: &[u8], hits: Vec<Hit>) -> Vec<Hit> {
    let spans: Vec<&Range<usize>> = events.iter().flat_map(EventData::lines).collect();
    let inside: Vec<Hit> =
        hits.iter().flat_map(|hit| cut_up(hit, in_lines(&spans, bytes, &hit.range))).collect();
    let mut valid = Vec::with_capacity(inside.len());
    let mut rest = inside.into_iter().peekable();
    for span in events.iter().filter(|event| event.rest.is_empty()).map(|event| &event.first) {
        valid.extend(std::iter::from_fn(|| rest.next_if(|hit| hit.range.end <= span.start)));
        let here: Vec<Hit> = std::iter::from_fn(|| rest.next_if(|hit| hit.range.start < span.end)).collect();
        match (!here.is_empty()).then(|| Document::parse(&bytes[span.clone()])) {
            Some(Ok(document)) => valid.extend(hit::clip(&document, span.start, here)),
            _ => valid.extend(here),
        }
    }
    valid.extend(rest);
    valid
}

/// The parts of a hit that lie in data lines; of one that lies in none, its first line.
fn in_lines(spans: &[&Range<usize>], bytes: &[u8], hit: &Range<usize>) -> Vec<Range<usize>> {
    let first = spans.partition_point(|span| span.end <= hit.start);
    let parts: Vec<Range<usize>> = spans[first..]
        .iter()
        .take_while(|span| span.start < hit.end)
        .map(|span| hit.start.max(span.start)..hit.end.min(span.end))
        .collect();
    if !parts.is_empty() {
        return parts;
    }
    let line = memchr::memchr2(b'\n', b'\r', &bytes[hit.clone()]).map_or(hit.end, |len| hit.start + len);
    Vec::from_iter((line > hit.start).then_some(hit.start..line))
}

/// The texts that successive events make together, as they are written, and whether each is opaque.
pub(super) fn texts(form: Form, bytes: &[u8]) -> Vec<(Vec<u8>, bool)> {
    split_texts(&events(form, bytes), bytes).into_iter().map(|text| (text.bytes, text.is_opaque)).collect()
}

/// Every data line.
pub(super) fn data(form: Form, bytes: &[u8]) -> Vec<Range<usize>> {
    events(form, bytes).into_iter().flat_map(|event| std::iter::once(event.first).chain(event.rest)).collect()
}
