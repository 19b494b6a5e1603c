//! Matches and the edits that redact them.

use std::ops::Range;

use wire::json::{Document, Edits, ValueKind};

/// A range of a text and its replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hit {
    pub(super) range: Range<usize>,
    pub(super) with: Vec<u8>,
    pub(super) rule: &'static str,
    /// The index of the learned value that matched.
    pub(super) secret: Option<usize>,
    /// The rank among matches of the same bytes. The lowest wins.
    pub(super) rank: Rank,
}

/// The quality of a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// Found in text that was joined from the fragments of a stream.
    Joined,
    /// Found after undoing one more layer of encoding.
    Decoded,
    Seen,
}

/// Merges overlapping hits and sorts them. The widest of them keeps its replacement and covers the others.
pub(super) fn merge_overlaps(mut hits: Vec<Hit>) -> Vec<Hit> {
    hits.sort_by(|a, b| {
        (a.range.start, std::cmp::Reverse(a.range.end), a.rank).cmp(&(
            b.range.start,
            std::cmp::Reverse(b.range.end),
            b.rank,
        ))
    });
    let mut settled: Vec<Hit> = Vec::with_capacity(hits.len());
    for hit in hits {
        match settled.last_mut() {
            Some(last) if hit.range.start < last.range.end => {
                last.range.end = last.range.end.max(hit.range.end);
            }
            _ => settled.push(hit),
        }
    }
    settled
}

/// Converts hits to edits.
pub(super) fn to_edits(hits: &[Hit]) -> Edits {
    let mut edits = Edits::default();
    for hit in hits {
        edits.replace(hit.range.clone(), hit.with.clone());
    }
    edits
}

/// Restricts hits to the strings and numbers of the document at offset `base`, so that it stays valid JSON. A
/// learned value that contains quotes or commas would otherwise remove brackets.
pub(super) fn clip_to_json(document: &Document<'_>, base: usize, hits: Vec<Hit>) -> Vec<Hit> {
    let EditableSpans { list: slots, tokens } = EditableSpans::of(document);
    let mut clipped = Vec::with_capacity(hits.len());
    for hit in hits {
        let range = hit.range.start - base..hit.range.end - base;
        let first = slots.partition_point(|slot: &EditableSpan| slot.span.end <= range.start);
        let mut with = hit.with.clone();
        for slot in slots[first..].iter().take_while(|slot| slot.span.start < range.end) {
            let part = range.start.max(slot.span.start)..range.end.min(slot.span.end);
            let piece = match slot.quoted {
                true => std::mem::take(&mut with),
                // A part of a number is not a secret. The number without its sign is.
                false if part.end < slot.span.end || part.start > slot.span.start + slot.sign => continue,
                false if with.is_empty() => b"null".to_vec(),
                // The quotes in the replacement were guessed from the text. Here they are known.
                false => [b"\"", bare(&std::mem::take(&mut with)), b"\""].concat(),
            };
            let part = if slot.quoted { part } else { slot.span.clone() };
            clipped.push(Hit { range: part.start + base..part.end + base, with: piece, ..hit.clone() });
        }
    }
    // A redacted token is repeated beside the text as a list of bytes.
    let mut settled = merge_overlaps(clipped);
    let mut beside = Vec::new();
    for (word, bytes) in tokens {
        let first = settled.partition_point(|hit| hit.range.end <= base + word.start);
        let Some(hit) = settled.get(first).filter(|hit| hit.range.start < base + word.end) else { continue };
        let numbers = slots.partition_point(|slot| slot.span.start < bytes.start);
        beside.extend(slots[numbers..].iter().take_while(|slot| slot.span.end <= bytes.end).map(|slot| {
            let range = base + slot.span.start..base + slot.span.end;
            Hit { range, with: b"null".to_vec(), ..hit.clone() }
        }));
    }
    if !beside.is_empty() {
        settled.extend(beside);
        settled = merge_overlaps(settled);
    }
    settled
}

/// Removes the quotes around a placeholder.
fn bare(with: &[u8]) -> &[u8] {
    let is_quote = |byte: &u8| matches!(byte, b'"' | b'\\' | b'\'');
    let start = with.iter().position(|byte| !is_quote(byte)).unwrap_or(with.len());
    let end = with.iter().rposition(|byte| !is_quote(byte)).map_or(start, |at| at + 1);
    &with[start..end]
}

/// A range of a document that may be edited.
struct EditableSpan {
    span: Range<usize>,
    quoted: bool,
    /// The length of a number's sign.
    sign: usize,
}

/// All ranges of a document that may be edited, in order.
#[derive(Default)]
struct EditableSpans {
    list: Vec<EditableSpan>,
    /// Tokens of a model's text, and the lists of their bytes.
    tokens: Vec<(Range<usize>, Range<usize>)>,
}

impl EditableSpans {
    fn of(document: &Document<'_>) -> Self {
        let mut slots = Self::default();
        slots.collect_from(document.root());
        slots
    }

    fn collect_from(&mut self, value: wire::json::Value<'_, '_>) {
        match value.kind() {
            ValueKind::String => {
                self.list.extend(value.inner_span().map(|span| EditableSpan { span, quoted: true, sign: 0 }))
            }
            ValueKind::Number => {
                let sign = usize::from(value.raw().starts_with('-'));
                self.list.push(EditableSpan { span: value.span(), quoted: false, sign });
            }
            ValueKind::Array => value.items().for_each(|item| self.collect_from(item)),
            ValueKind::Object => {
                let word = value.get("token").and_then(|token| token.inner_span());
                let bytes = word.and_then(|word| Some((word, value.get("bytes")?.span())));
                self.tokens.extend(bytes);
                value.members().for_each(|member| {
                    self.collect_from(member.key);
                    self.collect_from(member.value);
                });
            }
            ValueKind::Null | ValueKind::Bool => {}
        }
    }
}
