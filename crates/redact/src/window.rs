//! Redaction of bytes that are too many to hold: a window that moves over them.
//!
//! The last 64 KiB are always held back, so that a secret of that length is whole before any of it
//! is let go. The 64 KiB before the window stay in sight, for a name may stand before its value.

use wire::json::Edits;

use super::hit::Hit;
use super::{Form, Redactor, hit};

const HOLD: usize = 64 << 10;
const BATCH: usize = 192 << 10;

/// Redacts a long text piece by piece.
///
/// It sees bytes as they are: a compressed body must be decoded before it is pushed.
#[derive(Debug)]
pub struct RedactionWindow {
    place: String,
    content_type: Option<String>,
    form: Option<Form>,
    /// What was let go already but is still in sight, then what is held.
    seen: Vec<u8>,
    /// How much of `seen` was let go.
    gone: usize,
    /// Offset of `seen` in the whole text.
    start: usize,
    edits: Edits,
    hold: usize,
    batch: usize,
}

impl RedactionWindow {
    /// A window over the text at `place`, at its beginning.
    pub fn new(place: &str, content_type: Option<&str>) -> Self {
        Self::sized(place, content_type, HOLD, BATCH)
    }

    pub(super) fn sized(place: &str, content_type: Option<&str>, hold: usize, batch: usize) -> Self {
        Self {
            place: place.to_owned(),
            content_type: content_type.map(str::to_owned),
            form: None,
            seen: Vec::new(),
            gone: 0,
            start: 0,
            edits: Edits::default(),
            hold,
            batch,
        }
    }

    /// Takes the next bytes; returns those that are final now, without their secrets.
    pub fn push(&mut self, redactor: &mut Redactor, bytes: &[u8]) -> Vec<u8> {
        self.seen.extend_from_slice(bytes);
        if self.seen.len() - self.gone < self.hold + self.batch {
            return Vec::new();
        }
        let limit = self.seen.len() - self.hold;
        self.let_go(redactor, limit)
    }

    /// The text is over: the rest of it.
    pub fn finish(&mut self, redactor: &mut Redactor) -> Vec<u8> {
        self.let_go(redactor, self.seen.len())
    }

    /// What was spliced so far, in offsets of the whole text.
    pub fn edits(&self) -> &Edits {
        &self.edits
    }

    fn let_go(&mut self, redactor: &mut Redactor, limit: usize) -> Vec<u8> {
        let form = *self.form.get_or_insert_with(|| Form::of(self.content_type.as_deref(), &self.seen));
        let hits = redactor.hits(&self.place, form, &self.seen);
        let cut = if limit == self.seen.len() { limit } else { self.cut(form, limit, &hits) };
        let mine: Vec<Hit> = hits.into_iter().filter_map(|hit| self.between(hit, cut)).collect();
        redactor.count(&self.place, &mine);
        let whole = hit::edits(&mine).apply(&self.seen[..cut]).expect("settled hits do not overlap");
        let out = whole[self.gone..].to_vec();
        for hit in mine {
            self.edits.replace(self.start + hit.range.start..self.start + hit.range.end, hit.with);
        }
        self.forget(form, cut);
        out
    }

    /// The part of a hit that lies in what is let go now. One that began in what has gone carried its
    /// placeholder there.
    fn between(&self, mut hit: Hit, cut: usize) -> Option<Hit> {
        if hit.range.start < self.gone {
            hit.range.start = self.gone;
            hit.with.clear();
        }
        hit.range.end = hit.range.end.min(cut);
        (hit.range.start < hit.range.end).then_some(hit)
    }

    /// The last place up to `limit` where the text may be cut: between events or lines, inside no
    /// escape, and through no hit.
    fn cut(&self, form: Form, limit: usize, hits: &[Hit]) -> usize {
        let mut limit = limit;
        loop {
            let cut = self.border(form, limit);
            let through = hits.iter().find(|hit| hit.range.start < cut && cut < hit.range.end);
            match through {
                Some(hit) if hit.range.start > self.gone => limit = hit.range.start,
                _ => return cut,
            }
        }
    }

    fn border(&self, form: Form, limit: usize) -> usize {
        let text = &self.seen[self.gone..limit];
        let event = |ends: &[&[u8]]| {
            ends.iter().filter_map(|end| memchr::memmem::rfind(text, end).map(|at| at + end.len())).max()
        };
        let found = match form {
            Form::Events => event(&[b"\n\n", b"\r\n\r\n", b"\r\r"]),
            Form::Lines => event(&[b"\n"]),
            Form::Parameters | Form::Items | Form::Other => None,
        };
        // An escape is at most a few backslashes and a pair of `\uXXXX`.
        let calm = |at: &usize| !text[at.saturating_sub(32)..*at].contains(&b'\\') && text[at - 1].is_ascii();
        let calm = || (1..=text.len()).rev().take(64 << 10).find(calm);
        self.gone + found.or_else(calm).unwrap_or(text.len())
    }

    /// Drops what is out of sight.
    fn forget(&mut self, form: Form, cut: usize) {
        let keep = cut.saturating_sub(self.hold);
        self.gone = cut;
        let drop = match form {
            Form::Events | Form::Lines => {
                let ends = memchr::memmem::find(
                    &self.seen[keep..cut],
                    if form == Form::Lines { b"\n" } else { b"\n\n" },
                );
                ends.map_or(keep, |at| keep + at + if form == Form::Lines { 1 } else { 2 })
            }
            Form::Parameters | Form::Items | Form::Other => keep,
        };
        let drop = if keep == 0 { 0 } else { drop };
        self.seen.drain(..drop);
        self.start += drop;
        self.gone -= drop;
    }
}
