//! Edits as splices: all other bytes stay unchanged.

use std::ops::Range;

use thiserror::Error;

use super::{Value, ValueKind, quote};

/// One splice: `with` replaces the bytes of `range`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The replaced bytes, in offsets of the original.
    pub range: Range<usize>,
    /// The new bytes.
    pub with: Vec<u8>,
}

/// Error: two edits change the same bytes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("two edits overlap at byte {offset}")]
pub struct Overlap {
    /// The first byte that both change.
    pub offset: usize,
}

/// A set of splices of one text, applied together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edits {
    list: Vec<Edit>,
}

impl Edits {
    /// Adds a splice. Insertions at the same offset keep their order.
    pub fn replace(&mut self, range: Range<usize>, with: impl Into<Vec<u8>>) {
        self.list.push(Edit { range, with: with.into() });
    }

    /// Adds an existing splice.
    pub fn add(&mut self, edit: Edit) {
        self.list.push(edit);
    }

    /// Adds all splices of another set.
    pub fn extend(&mut self, others: Self) {
        self.list.extend(others.list);
    }

    /// Returns true if there are no splices.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the edited text.
    pub fn apply(&self, original: &[u8]) -> Result<Vec<u8>, Overlap> {
        let mut out = Vec::with_capacity(original.len());
        let mut at = 0;
        for edit in self.sorted() {
            if edit.range.start < at {
                return Err(Overlap { offset: edit.range.start });
            }
            out.extend_from_slice(&original[at..edit.range.start]);
            out.extend_from_slice(&edit.with);
            at = edit.range.end;
        }
        out.extend_from_slice(&original[at..]);
        Ok(out)
    }

    /// Maps ascending offsets of the original to the edited text. An offset inside a replaced range is mapped to
    /// the end of the replacement.
    pub fn shift(&self, offsets: impl IntoIterator<Item = usize>) -> Vec<usize> {
        let sorted = self.sorted();
        let mut edits = sorted.iter().peekable();
        let mut gone = 0;
        let mut come = 0;
        let mut reached = 0;
        let mut out = Vec::new();
        for offset in offsets {
            while let Some(edit) = edits.next_if(|edit| edit.range.start < offset) {
                gone += edit.range.len();
                come += edit.with.len();
                reached = edit.range.end;
            }
            out.push(offset.max(reached) + come - gone);
        }
        out
    }

    fn sorted(&self) -> Vec<&Edit> {
        let mut sorted: Vec<&Edit> = self.list.iter().collect();
        sorted.sort_by_key(|edit| (edit.range.start, edit.range.end));
        sorted
    }
}

/// Edits of one value. Each changes as few bytes as possible.
impl Value<'_, '_> {
    /// Returns the edit that replaces this value.
    pub fn replaced_by(&self, json: impl Into<Vec<u8>>) -> Edit {
        Edit { range: self.span(), with: json.into() }
    }

    /// Returns the edit that appends a member to this object, or `None` if this is no object.
    pub fn with_member(&self, name: &str, json: &str) -> Option<Edit> {
        let last = self.members().last().map(|member| member.value.span().end);
        (self.kind() == ValueKind::Object).then(|| self.appended(last, &format!("{}:{json}", quote(name))))
    }

    /// Returns the edit that appends an item to this array, or `None` if this is no array.
    pub fn with_item(&self, json: &str) -> Option<Edit> {
        let last = self.items().last().map(|item| item.span().end);
        (self.kind() == ValueKind::Array).then(|| self.appended(last, json))
    }

    fn appended(&self, last_end: Option<usize>, json: &str) -> Edit {
        match last_end {
            Some(end) => Edit { range: end..end, with: format!(",{json}").into_bytes() },
            None => {
                let inside = self.span().start + 1;
                Edit { range: inside..inside, with: json.into() }
            }
        }
    }

    /// Returns the edits that remove the members with the given name, each with one comma.
    pub fn without_member(&self, name: &str) -> Vec<Edit> {
        let members: Vec<_> = self.members().collect();
        let parts = members.iter().map(|m| (m.key.span().start..m.value.span().end, m.is(name)));
        without(parts.collect())
    }

    /// Returns the edits that remove the item at `index`, with one comma.
    pub fn without_item(&self, index: usize) -> Vec<Edit> {
        without(self.items().enumerate().map(|(at, item)| (item.span(), at == index)).collect())
    }
}

/// Removes the marked parts of a comma-separated list. A part is removed with the comma before it. If no part
/// before it stays, everything up to the first remaining part is removed.
fn without(parts: Vec<(Range<usize>, bool)>) -> Vec<Edit> {
    let first_kept = parts.iter().position(|(_, goes)| !goes);
    let mut edits = Vec::new();
    for (at, (span, _)) in parts.iter().enumerate().filter(|(_, (_, goes))| *goes) {
        let range = match first_kept {
            Some(kept) if at > kept => parts[at - 1].0.end..span.end,
            Some(_) => span.start..parts[at + 1].0.start,
            None if at + 1 < parts.len() => span.start..parts[at + 1].0.start,
            None => span.clone(),
        };
        edits.push(Edit { range, with: Vec::new() });
    }
    edits
}
