//! First differing bytes of two blocks, for display.

use std::ops::Range;

use wire::json::Document;

use crate::explanation::CacheMiss;

/// Maximum length of an excerpt.
const SHOWN: usize = 60;
/// Maximum length of the part before the difference.
const BEFORE: usize = 16;

/// First difference of two blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByteDiff {
    /// Pointer to the innermost value with the first differing byte.
    pub pointer: String,
    /// Excerpt of this request.
    pub current: String,
    /// Excerpt of the previous request.
    pub previous: String,
}

/// Returns the first difference of a missed prefix, from the bodies of the request and of the previous one.
pub fn byte_diff(miss: &CacheMiss, current: &[u8], previous: &[u8]) -> Option<ByteDiff> {
    let [ours, theirs] = miss.spans.clone();
    let (Some(ours), Some(theirs)) = (ours.clone(), theirs.clone()) else {
        let side = |span: Option<Range<usize>>, body: &[u8]| {
            let span = span.filter(|span| span.end <= body.len());
            span.map_or("nothing".to_owned(), |span| around(&body[span], 0, 0))
        };
        let is_known = ours.is_some() || theirs.is_some();
        let (current, previous) = (side(ours, current), side(theirs, previous));
        return is_known.then(|| ByteDiff { pointer: miss.pointer.clone(), current, previous });
    };
    let (our_text, their_text) = (current.get(ours.clone())?, previous.get(theirs)?);
    let same = our_text.iter().zip(their_text).take_while(|(one, other)| one == other).count();
    let document = Document::parse(current).ok()?;
    let at = (ours.start + same).min(ours.end.saturating_sub(1));
    let inner = document.pointer_at(at);
    let pointer = if inner.starts_with(&miss.pointer) { inner } else { miss.pointer.clone() };
    // The bytes before the value are only its frame.
    let value = document.root().pointer(&pointer).map_or(ours.start, |value| value.span().start + 1);
    let lead = same.min(at.saturating_sub(value)).min(BEFORE);
    Some(ByteDiff {
        pointer,
        current: around(our_text, same, lead),
        previous: around(their_text, same, lead),
    })
}

/// Returns an excerpt around an offset, from `lead` bytes before it, with ellipses where text is cut off.
fn around(text: &[u8], at: usize, lead: usize) -> String {
    let from = at.saturating_sub(lead).min(text.len());
    let to = (from + SHOWN).min(text.len());
    let dots = |cut: bool| if cut { "…" } else { "" };
    let shown = String::from_utf8_lossy(&text[from..to]);
    format!("{}{}{}", dots(from > 0), shown.trim_matches('\u{fffd}'), dots(to < text.len()))
}
