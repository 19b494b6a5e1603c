//! Edits of a decoded request: splices into its body, which leave every other byte alone.

use std::ops::Range;

use crate::json::{Document, Edits, StringPiece, ValueKind, quote, string_pieces};

use super::{Marker, Part, Prompt};

impl Prompt {
    /// Asks another model. A body that names none stays as it is.
    pub fn set_model(&self, body: &[u8], model: &str, edits: &mut Edits) {
        let Ok(document) = Document::parse(body) else { return };
        if let Some(value) = document.root().get("model") {
            edits.add(value.replaced_by(quote(model)));
        }
    }

    /// Takes every cache marker away, each with one comma.
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
    /// Says `text` instead. Only a part that says what it says in one string can: `false` otherwise.
    pub fn set_text(&self, body: &[u8], text: &str, edits: &mut Edits) -> bool {
        let Some(place) = &self.content else { return false };
        let is_string = body.get(place.span.start) == Some(&b'"');
        if is_string {
            edits.replace(place.span.clone(), quote(text));
        }
        is_string
    }
}

/// Replaces `from` by `to` in every string within `span` of a JSON text, keys aside; answers how
/// often. Only the bytes that spell `from` are touched: `span` must hold exactly one value.
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

/// Where the raw inside of a string spells `needle`, whatever escapes it uses.
fn occurrences(inner: &str, needle: &str) -> Vec<Range<usize>> {
    if needle.is_empty() {
        return Vec::new();
    }
    let mut text = String::with_capacity(inner.len());
    let mut escapes = Vec::new(); // (offset in text, length there, raw range)
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
