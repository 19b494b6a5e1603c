//! Redaction of texts that are too long for memory.
//!
//! The window always holds back its last 64 KiB, so that a secret of that length is complete before any of it is
//! returned. The 64 KiB before the window stay visible, because they may contain the name of a value.

use std::collections::BTreeSet;

use wire::json::Edits;

use super::hit::Hit;
use super::unpack::Gap;
use super::{Redactor, SearchGap, TextFormat, hit};

const HOLD: usize = 64 << 10;
const BATCH: usize = 192 << 10;

/// Redacts a long text in parts.
///
/// The text must not be compressed.
#[derive(Debug)]
pub struct RedactionWindow {
    place: String,
    content_type: Option<String>,
    format: Option<TextFormat>,
    /// Returned bytes that are still visible, then bytes that are held back.
    seen: Vec<u8>,
    /// The number of returned bytes in `seen`.
    released: usize,
    /// The offset of `seen` in the whole text.
    start: usize,
    edits: Edits,
    gaps: BTreeSet<Gap>,
    hold: usize,
    batch: usize,
}

impl RedactionWindow {
    /// Creates a window at the start of the text at `place`.
    pub fn new(place: &str, content_type: Option<&str>) -> Self {
        Self::sized(place, content_type, HOLD, BATCH)
    }

    pub(super) fn sized(place: &str, content_type: Option<&str>, hold: usize, batch: usize) -> Self {
        Self {
            place: place.to_owned(),
            content_type: content_type.map(str::to_owned),
            format: None,
            seen: Vec::new(),
            released: 0,
            start: 0,
            edits: Edits::default(),
            gaps: BTreeSet::new(),
            hold,
            batch,
        }
    }

    /// Adds bytes and returns those that are final, redacted.
    pub fn push(&mut self, redactor: &mut Redactor, bytes: &[u8]) -> Vec<u8> {
        self.seen.extend_from_slice(bytes);
        if self.seen.len() - self.released < self.hold + self.batch {
            return Vec::new();
        }
        let limit = self.seen.len() - self.hold;
        self.release(redactor, limit)
    }

    /// Ends the text and returns the rest of it, redacted.
    pub fn finish(&mut self, redactor: &mut Redactor) -> Vec<u8> {
        self.release(redactor, self.seen.len())
    }

    /// Returns the edits so far, in offsets of the whole text.
    pub fn edits(&self) -> &Edits {
        &self.edits
    }

    /// Returns the parts so far that could not be searched.
    pub fn unsearched(&self) -> Option<SearchGap> {
        SearchGap::of(&self.gaps)
    }

    fn release(&mut self, redactor: &mut Redactor, limit: usize) -> Vec<u8> {
        let format =
            *self.format.get_or_insert_with(|| TextFormat::of(self.content_type.as_deref(), &self.seen));
        let hits = redactor.find_hits(&self.place, format, &self.seen);
        self.gaps.append(&mut redactor.search.gaps);
        let cut = if limit == self.seen.len() { limit } else { self.cut_before(format, limit, &hits) };
        let mine: Vec<Hit> = hits.into_iter().filter_map(|hit| self.clip_to_release(hit, cut)).collect();
        redactor.count(&self.place, &mine);
        let whole = hit::to_edits(&mine).apply(&self.seen[..cut]).expect("settled hits do not overlap");
        let out = whole[self.released..].to_vec();
        for hit in mine {
            self.edits.replace(self.start + hit.range.start..self.start + hit.range.end, hit.with);
        }
        self.forget(format, cut);
        out
    }

    /// Returns the part of a hit in the bytes that are returned next. If it started before them, its placeholder is
    /// returned already.
    fn clip_to_release(&self, mut hit: Hit, cut: usize) -> Option<Hit> {
        if hit.range.start < self.released {
            hit.range.start = self.released;
            hit.with.clear();
        }
        hit.range.end = hit.range.end.min(cut);
        (hit.range.start < hit.range.end).then_some(hit)
    }

    /// Returns the last offset up to `limit` at which the text may be cut: between events or lines, and not inside
    /// of an escape or a hit.
    fn cut_before(&self, format: TextFormat, limit: usize, hits: &[Hit]) -> usize {
        let mut limit = limit;
        loop {
            let cut = self.last_border(format, limit);
            let through = hits.iter().find(|hit| hit.range.start < cut && cut < hit.range.end);
            match through {
                Some(hit) if hit.range.start > self.released => limit = hit.range.start,
                _ => return cut,
            }
        }
    }

    fn last_border(&self, format: TextFormat, limit: usize) -> usize {
        let text = &self.seen[self.released..limit];
        let event = |ends: &[&[u8]]| {
            ends.iter().filter_map(|end| memchr::memmem::rfind(text, end).map(|at| at + end.len())).max()
        };
        let found = match format {
            TextFormat::Events => event(&[b"\n\n", b"\r\n\r\n", b"\r\r"]),
            TextFormat::Lines => event(&[b"\n"]),
            TextFormat::Parameters | TextFormat::Items | TextFormat::Other => None,
        };
        // An escape is at most a few backslashes and a pair of `\uXXXX`.
        let calm = |at: &usize| !text[at.saturating_sub(32)..*at].contains(&b'\\') && text[at - 1].is_ascii();
        let calm = || (1..=text.len()).rev().take(64 << 10).find(calm);
        self.released + found.or_else(calm).unwrap_or(text.len())
    }

    /// Drops bytes that are no longer needed.
    fn forget(&mut self, format: TextFormat, cut: usize) {
        let keep = cut.saturating_sub(self.hold);
        self.released = cut;
        let drop = match format {
            TextFormat::Events | TextFormat::Lines => {
                let ends = memchr::memmem::find(
                    &self.seen[keep..cut],
                    if format == TextFormat::Lines { b"\n" } else { b"\n\n" },
                );
                ends.map_or(keep, |at| keep + at + if format == TextFormat::Lines { 1 } else { 2 })
            }
            TextFormat::Parameters | TextFormat::Items | TextFormat::Other => keep,
        };
        let drop = if keep == 0 { 0 } else { drop };
        self.seen.drain(..drop);
        self.start += drop;
        self.released -= drop;
    }
}
