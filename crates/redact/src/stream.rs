//! Secrets that are split over the events of a stream.
//!
//! The search knows no dialect. Fragments of one text are joined and searched, and a match is split again: the
//! first event gets the placeholder, and the others lose their part.

use std::ops::Range;

use wire::json::{self, Document, close_truncated};
use wire::stream_text::{EventData, Framing, split_events, split_texts};

use super::TextFormat;
use super::hit::{self, Hit, Rank};
use super::plain::PlainText;
use super::search::{RuleMatches, Search, SearchOptions};
use super::triggers::STREAM_STARTS;

/// Splits a text of the given format into events. Returns none if it does not start like that format.
pub(super) fn events(format: TextFormat, bytes: &[u8]) -> Vec<EventData> {
    if format != TextFormat::Items {
        let framing =
            if format == TextFormat::Lines { Framing::JsonLines } else { Framing::ServerSentEvents };
        return split_events(framing, bytes);
    }
    let items = |text: &[u8]| -> Option<Vec<EventData>> {
        let document = Document::parse(text).ok()?;
        Some(document.root().items().map(|item| EventData::single(item.span())).collect())
    };
    items(bytes).unwrap_or_else(|| {
        let mut items = items(&close_truncated(bytes)).unwrap_or_default();
        if let Some(last) = items.last_mut() {
            last.first.end = bytes.len(); // continues up to the cut
        }
        items
    })
}

/// Finds secrets in a stream. The hits are sorted and do not overlap.
pub(super) fn find_hits(search: &mut Search, place: &str, events: &[EventData], bytes: &[u8]) -> Vec<Hit> {
    let texts = split_texts(events, bytes);
    let plain = PlainText::from_escaped(bytes);
    let plains: Vec<PlainText<'_>> = texts.iter().map(|text| PlainText::from_escaped(&text.bytes)).collect();

    // All rules before all values, so that a value learned in one text is found in every other.
    let mut seen = search.find_by_rule(place, &plain, SearchOptions::default());
    let mut in_texts = Vec::with_capacity(texts.len());
    for (text, plain) in texts.iter().zip(&plains) {
        in_texts.push(search.find_by_rule(
            place,
            plain,
            SearchOptions { is_opaque: text.is_opaque, is_form: false },
        ));
    }
    seen.hits.extend(search.find_by_value(place, &plain, &seen.features));
    for (found, plain) in in_texts.iter_mut().zip(&plains) {
        found.hits.extend(search.find_by_value(place, plain, &found.features));
    }

    // Before merging: a hit that continues after its data line must not cover a secret in another line.
    let lines: Vec<&Range<usize>> = events.iter().flat_map(EventData::lines).collect();
    let clip = |hit: Hit| match clip_to_lines(&lines, bytes, &hit.range) {
        parts if parts == [hit.range.clone()] => vec![hit],
        parts => split_hit(&hit, parts),
    };
    let seen = hit::merge_overlaps(seen.hits.into_iter().flat_map(clip).collect());
    let mut all = Vec::new();
    for (found, text) in in_texts.into_iter().zip(&texts) {
        for hit in hit::merge_overlaps(found.hits) {
            let parts = text.source_ranges(&hit.range);
            // If each part is a match of its own, the text contains the secret several times.
            if !parts.iter().all(|part| is_covered(&seen, part)) {
                all.extend(split_hit(&hit, parts));
            }
        }
    }
    if seen.is_empty() && all.is_empty() {
        return Vec::new();
    }
    all.extend(seen);
    clip_to_valid(events, bytes, hit::merge_overlaps(all))
}

/// Finds secrets in streams that are strings of a JSON text, as in dump files. The hits may overlap, because the
/// text itself is searched, too.
pub(super) fn find_in_nested_streams(search: &mut Search, place: &str, bytes: &[u8]) -> Vec<Hit> {
    let mut all = Vec::new();
    let mut from = 0;
    while let Some(inner) = next_stream(bytes, from) {
        from = inner.end;
        let Ok(text) = std::str::from_utf8(&bytes[inner.clone()]) else { continue };
        let stream = PlainText::from_json_string(text);
        for hit in find_hits(search, place, &events(TextFormat::Events, stream.bytes()), stream.bytes()) {
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

/// Finds secrets in texts that a JSON text lists token by token. The hits may overlap.
pub(super) fn find_in_listed_tokens(search: &mut Search, place: &str, bytes: &[u8]) -> Vec<Hit> {
    let whole = EventData::single(0..bytes.len());
    let mut all = Vec::new();
    for text in split_texts(&[whole], bytes) {
        let plain = PlainText::from_escaped(&text.bytes);
        let options = SearchOptions { is_opaque: text.is_opaque, is_form: false };
        let RuleMatches { mut hits, features } = search.find_by_rule(place, &plain, options);
        hits.extend(search.find_by_value(place, &plain, &features));
        all.extend(
            hit::merge_overlaps(hits).iter().flat_map(|hit| split_hit(hit, text.source_ranges(&hit.range))),
        );
    }
    all
}

/// Returns the content of the next JSON string that starts like a stream.
fn next_stream(bytes: &[u8], from: usize) -> Option<Range<usize>> {
    let find = |begin: &&str| memchr::memmem::find(&bytes[from..], begin.as_bytes()).map(|at| from + at + 1);
    let start = STREAM_STARTS.iter().filter_map(find).min()?;
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

fn is_covered(hits: &[Hit], part: &Range<usize>) -> bool {
    let behind = hits.partition_point(|hit| hit.range.end < part.end);
    hits.get(behind).is_some_and(|hit| hit.range.start <= part.start)
}

/// Splits a hit. The first part gets the replacement, and the others are removed.
fn split_hit(hit: &Hit, parts: Vec<Range<usize>>) -> Vec<Hit> {
    let mut with = hit.with.clone();
    let part = |range| Hit { range, with: std::mem::take(&mut with), rank: Rank::Joined, ..hit.clone() };
    parts.into_iter().map(part).collect()
}

/// Restricts hits to the data lines, and to the strings and numbers of their JSON. Field names and line ends of the
/// stream are not a part of a secret.
fn clip_to_valid(events: &[EventData], bytes: &[u8], hits: Vec<Hit>) -> Vec<Hit> {
    let spans: Vec<&Range<usize>> = events.iter().flat_map(EventData::lines).collect();
    let inside: Vec<Hit> =
        hits.iter().flat_map(|hit| split_hit(hit, clip_to_lines(&spans, bytes, &hit.range))).collect();
    let mut valid = Vec::with_capacity(inside.len());
    let mut rest = inside.into_iter().peekable();
    for span in events.iter().filter(|event| event.rest.is_empty()).map(|event| &event.first) {
        valid.extend(std::iter::from_fn(|| rest.next_if(|hit| hit.range.end <= span.start)));
        let here: Vec<Hit> = std::iter::from_fn(|| rest.next_if(|hit| hit.range.start < span.end)).collect();
        match (!here.is_empty()).then(|| Document::parse(&bytes[span.clone()])) {
            Some(Ok(document)) => valid.extend(hit::clip_to_json(&document, span.start, here)),
            _ => valid.extend(here),
        }
    }
    valid.extend(rest);
    valid
}

/// Returns the parts of a hit in data lines. A hit outside of them is reduced to its first line.
fn clip_to_lines(spans: &[&Range<usize>], bytes: &[u8], hit: &Range<usize>) -> Vec<Range<usize>> {
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

/// Returns the texts that are split over events, and true for opaque ones.
pub(super) fn texts(format: TextFormat, bytes: &[u8]) -> Vec<(Vec<u8>, bool)> {
    split_texts(&events(format, bytes), bytes).into_iter().map(|text| (text.bytes, text.is_opaque)).collect()
}

/// Returns the ranges of all data lines.
pub(super) fn data(format: TextFormat, bytes: &[u8]) -> Vec<Range<usize>> {
    events(format, bytes)
        .into_iter()
        .flat_map(|event| std::iter::once(event.first).chain(event.rest))
        .collect()
}
