//! What was found, and the splices that come of it.

use std::ops::Range;

use wire::json::{Document, Edits, ValueKind};

/// One stretch of a text that must go, and what comes in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hit {
    pub(super) range: Range<usize>,
    pub(super) with: Vec<u8>,
    pub(super) rule: &'static str,
    /// The learned value that was found, by its number.
    pub(super) secret: Option<usize>,
    /// Of two hits on the same bytes, the one that knows more of the secret: the lower.
    pub(super) rank: Rank,
}

/// How well a hit knows what it found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// Saw it put together from the pieces of a stream.
    Joined,
    /// Saw it with one more layer of encoding undone.
    Decoded,
    Seen,
}

/// Hits that do not overlap, in order: of several that do, the widest carries the placeholder and
/// takes in what the others stand on.
pub(super) fn settle(mut hits: Vec<Hit>) -> Vec<Hit> {
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

/// The edits that `hits` ask for.
pub(super) fn edits(hits: &[Hit]) -> Edits {
    let mut edits = Edits::default();
    for hit in hits {
        edits.replace(hit.range.clone(), hit.with.clone());
    }
    edits
}

/// Cuts hits to the strings and numbers of a document that begins at `base`, so that it stays
/// JSON: a learned value that happens to hold quotes or commas must not take the brackets along.
pub(super) fn clip(document: &Document<'_>, base: usize, hits: Vec<Hit>) -> Vec<Hit> {
    let Slots { list: slots, spelled } = Slots::of(document);
    let mut clipped = Vec::with_capacity(hits.len());
    for hit in hits {
        let range = hit.range.start - base..hit.range.end - base;
        let first = slots.partition_point(|slot: &Slot| slot.span.end <= range.start);
        let mut with = hit.with.clone();
        for slot in slots[first..].iter().take_while(|slot| slot.span.start < range.end) {
            let part = range.start.max(slot.span.start)..range.end.min(slot.span.end);
            let piece = match slot.quoted {
                true => std::mem::take(&mut with),
                // A part of a number is no secret; all of it but the sign is.
                false if part.end < slot.span.end || part.start > slot.span.start + slot.sign => continue,
                false if with.is_empty() => b"null".to_vec(),
                // Whatever quotes it brings were guessed from the text; here they are known.
                false => [b"\"", bare(&std::mem::take(&mut with)), b"\""].concat(),
            };
            let part = if slot.quoted { part } else { slot.span.clone() };
            clipped.push(Hit { range: part.start + base..part.end + base, with: piece, ..hit.clone() });
        }
    }
    // A word that went is written beside it once more, byte by byte.
    let mut settled = settle(clipped);
    let mut beside = Vec::new();
    for (word, bytes) in spelled {
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
        settled = settle(settled);
    }
    settled
}

/// A placeholder without the quotes around it.
fn bare(with: &[u8]) -> &[u8] {
    let is_quote = |byte: &u8| matches!(byte, b'"' | b'\\' | b'\'');
    let start = with.iter().position(|byte| !is_quote(byte)).unwrap_or(with.len());
    let end = with.iter().rposition(|byte| !is_quote(byte)).map_or(start, |at| at + 1);
    &with[start..end]
}

/// A stretch of a document that may be edited.
struct Slot {
    span: Range<usize>,
    quoted: bool,
    /// How long a number's sign is.
    sign: usize,
}

/// The stretches of a document that may be edited, in order.
#[derive(Default)]
struct Slots {
    list: Vec<Slot>,
    /// Words of a model's text, and the array of bytes that says the same.
    spelled: Vec<(Range<usize>, Range<usize>)>,
}

impl Slots {
    fn of(document: &Document<'_>) -> Self {
        let mut slots = Self::default();
        slots.gather(document.root());
        slots
    }

    fn gather(&mut self, value: wire::json::Value<'_, '_>) {
        match value.kind() {
            ValueKind::String => {
                self.list.extend(value.inner_span().map(|span| Slot { span, quoted: true, sign: 0 }))
            }
            ValueKind::Number => {
                let sign = usize::from(value.raw().starts_with('-'));
                self.list.push(Slot { span: value.span(), quoted: false, sign });
            }
            ValueKind::Array => value.items().for_each(|item| self.gather(item)),
            ValueKind::Object => {
                let word = value.get("token").and_then(|token| token.inner_span());
                let bytes = word.and_then(|word| Some((word, value.get("bytes")?.span())));
                self.spelled.extend(bytes);
                value.members().for_each(|member| {
                    self.gather(member.key);
                    self.gather(member.value);
                });
            }
            ValueKind::Null | ValueKind::Bool => {}
        }
    }
}
