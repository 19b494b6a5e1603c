//! Edits as splices: only the bytes that are edited change.

use std::ops::Range;

use thiserror::Error;

use super::{Value, ValueKind, quote};

/// One splice: the bytes of `range` become `with`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// What goes, in offsets of the original.
    pub range: Range<usize>,
    /// What comes in its place.
    pub with: Vec<u8>,
}

/// Two edits want the same bytes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("two edits overlap at byte {offset}")]
pub struct Overlap {
    /// Where they meet.
    pub offset: usize,
}

/// A set of splices over one text, applied together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edits {
    list: Vec<Edit>,
}

impl Edits {
    /// Adds a splice; insertions at one place keep the order in which they were added.
    pub fn replace(&mut self, range: Range<usize>, with: impl Into<Vec<u8>>) {
        self.list.push(Edit { range, with: with.into() });
    }

    /// Adds a splice made elsewhere.
    pub fn add(&mut self, edit: Edit) {
        self.list.push(edit);
    }

    /// Adds all splices of another set.
    pub fn extend(&mut self, others: Self) {
        self.list.extend(others.list);
    }

    /// Whether nothing is edited.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The edited text.
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

    /// Where each of the ascending `offsets` of the original lies in the edited text; an offset
    /// inside a replaced range lies behind what replaced it.
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

/// Edits of one value; each touches only the bytes it must.
impl Value<'_, '_> {
    /// This value becomes `json`.
    pub fn replaced_by(&self, json: impl Into<Vec<u8>>) -> Edit {
        Edit { range: self.span(), with: json.into() }
    }

    /// This object gets one more member at its end; `None` where this is no object.
    pub fn with_member(&self, name: &str, json: &str) -> Option<Edit> {
        let last = self.members().last().map(|member| member.value.span().end);
        (self.kind() == ValueKind::Object).then(|| self.appended(last, &format!("{}:{json}", quote(name))))
    }

    /// This array gets one more item at its end; `None` where this is no array.
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

    /// This object loses the members of that name, each with one comma.
    pub fn without_member(&self, name: &str) -> Vec<Edit> {
        let members: Vec<_> = self.members().collect();
        let parts = members.iter().map(|m| (m.key.span().start..m.value.span().end, m.is(name)));
        without(parts.collect())
    }

    /// This array loses the item at `index`, with one comma.
    pub fn without_item(&self, index: usize) -> Vec<Edit> {
        without(self.items().enumerate().map(|(at, item)| (item.span(), at == index)).collect())
    }
}

/// Removes the marked parts of a comma-separated list. A part takes the comma before it along, or,
/// where nothing is left before it, everything up to the first part that stays.
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
