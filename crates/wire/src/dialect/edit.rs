//! Edits of a decoded request as splices into its body. All other bytes stay unchanged.

use std::ops::Range;

use crate::json::{Document, Edits, StringPiece, ValueKind, quote, string_pieces};

use super::{Marker, Part, Prompt};

impl Prompt {
    /// Replaces the model. Does nothing if the body has none.
    pub fn set_model(&self, body: &[u8], model: &str, edits: &mut Edits) {
        let Ok(document) = Document::parse(body) else { return };
        if let Some(value) = document.root().get("model") {
            edits.add(value.replaced_by(quote(model)));
        }
    }

    /// Removes every cache marker, each with one comma.
    pub fn remove_markers(&self, body: &[u8], edits: &mut Edits) {
        let Ok(document) = Document::parse(body) else { return };
        for Marker { place, .. } in &self.markers {
            let (carrier, name) = place.pointer.rsplit_once('/').unwrap_or_default();
            if let Some(carrier) = document.root().pointer(carrier) {
                carrier.without_member(name).into_iter().for_each(|edit| edits.add(edit));
            }
        }
    }
}

impl Part {
    /// Replaces the text. Returns false if the part does not consist of one string.
    pub fn set_text(&self, body: &[u8], text: &str, edits: &mut Edits) -> bool {
        let Some(place) = &self.content else { return false };
        let is_string = body.get(place.span.start) == Some(&b'"');
        if is_string {
            edits.replace(place.span.clone(), quote(text));
        }
        is_string
    }
}

/// Replaces `from` by `to` in every string within `span` of a JSON text, except keys. Returns the number of
/// replacements. `span` must contain exactly one value.
pub fn replace_in(body: &[u8], span: Range<usize>, from: &str, to: &str, edits: &mut Edits) -> usize {
    let Some(Ok(document)) = body.get(span.clone()).map(Document::parse) else { return 0 };
    let quoted = quote(to);
    let mut count = 0;
    for value in document.root().walk().into_iter().filter(|value| value.kind() == ValueKind::String) {
        let Some(inner) = value.inner_span() else { continue };
        for found in occurrences(&document.text()[inner.clone()], from) {
            let start = span.start + inner.start;
            edits.replace(start + found.start..start + found.end, &quoted[1..quoted.len() - 1]);
            count += 1;
        }
    }
    count
}

/// Finds `needle` in the raw content of a string, whatever escapes spell it.
fn occurrences(inner: &str, needle: &str) -> Vec<Range<usize>> {
    if needle.is_empty() {
        return Vec::new();
    }
    let mut text = String::with_capacity(inner.len());
    let mut escapes = Vec::new(); // (offset in text, length there, range in `inner`)
    for (raw, piece) in string_pieces(inner) {
        match piece {
            StringPiece::Plain(plain) => text.push_str(plain),
            StringPiece::Escaped(character) => {
                escapes.push((text.len(), character.len_utf8(), raw));
                text.push(character);
            }
        }
    }
    let raw_at = |offset: usize| {
        let before = escapes.partition_point(|(at, _, _)| *at < offset);
        match before.checked_sub(1).map(|last| &escapes[last]) {
            Some((at, len, raw)) => raw.end + (offset - at - len),
            None => offset,
        }
    };
    text.match_indices(needle).map(|(at, _)| raw_at(at)..raw_at(at + needle.len())).collect()
}
