//! The first bytes that differ, for people.

use std::ops::Range;

use wire::json::Document;

use crate::explanation::CacheMiss;

/// How much is shown of a text.
const SHOWN: usize = 60;
/// How much of that comes before the difference.
const BEFORE: usize = 16;

/// Where two blocks part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByteDiff {
    /// The innermost value that holds the first byte that differs.
    pub pointer: String,
    /// What stands there now.
    pub here: String,
    /// What stood there before.
    pub there: String,
}

/// Where a missed prefix differs, from the bodies of the request and of the one before it.
pub fn byte_diff(miss: &CacheMiss, here: &[u8], there: &[u8]) -> Option<ByteDiff> {
    let [ours, theirs] = miss.spans.clone();
    let (Some(ours), Some(theirs)) = (ours.clone(), theirs.clone()) else {
        let side = |span: Option<Range<usize>>, body: &[u8]| {
            let span = span.filter(|span| span.end <= body.len());
            span.map_or("nothing".to_owned(), |span| around(&body[span], 0, 0))
        };
        let told = ours.is_some() || theirs.is_some();
        let (here, there) = (side(ours, here), side(theirs, there));
        return told.then(|| ByteDiff { pointer: miss.pointer.clone(), here, there });
    };
    let (our_text, their_text) = (here.get(ours.clone())?, there.get(theirs)?);
    let same = our_text.iter().zip(their_text).take_while(|(one, other)| one == other).count();
    let document = Document::parse(here).ok()?;
    let at = (ours.start + same).min(ours.end.saturating_sub(1));
    let inner = document.pointer_at(at);
    let pointer = if inner.starts_with(&miss.pointer) { inner } else { miss.pointer.clone() };
    // What comes before the value is only its frame.
    let value = document.root().pointer(&pointer).map_or(ours.start, |value| value.span().start + 1);
    let lead = same.min(at.saturating_sub(value)).min(BEFORE);
    Some(ByteDiff { pointer, here: around(our_text, same, lead), there: around(their_text, same, lead) })
}

/// What stands around a place, from `lead` bytes before it, with a sign where there is more.
fn around(text: &[u8], at: usize, lead: usize) -> String {
    let from = at.saturating_sub(lead).min(text.len());
    let to = (from + SHOWN).min(text.len());
    let dots = |cut: bool| if cut { "…" } else { "" };
    let shown = String::from_utf8_lossy(&text[from..to]);
    format!("{}{}{}", dots(from > 0), shown.trim_matches('\u{fffd}'), dots(to < text.len()))
}
