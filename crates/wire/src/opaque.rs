//! Fields that only the provider can read: thinking signatures and encrypted content.
//!
//! Their values are random text, so a match by pattern inside them is an accident.

use std::ops::Range;

const OPAQUE_FIELDS: &[&str] = &[
    "signature",
    "thoughtSignature",
    "thought_signature",
    "encrypted_content",
    "encryptedContent",
    "reasoning_opaque",
    "encrypted_index",
    "encrypted_stdout",
];

/// Object types whose `data` field is opaque.
const TYPES_WITH_OPAQUE_DATA: &[&str] = &["redacted_thinking", "reasoning.encrypted"];

/// The distance, in bytes, within which a `data` field's object is searched for its type.
const TYPE_DISTANCE: usize = 120;

/// Returns true if the field `name` is opaque in an object of type `object_type`.
pub fn is_opaque_field(name: &str, object_type: Option<&str>) -> bool {
    let has_opaque_data = || object_type.is_some_and(|kind| TYPES_WITH_OPAQUE_DATA.contains(&kind));
    OPAQUE_FIELDS.contains(&name) || (name == "data" && has_opaque_data())
}

/// Returns true if the byte at `offset` lies in the string value of an opaque field.
///
/// `text` is unescaped JSON and need not be complete: only the bytes near `offset` are read.
pub fn is_in_opaque_field(text: &[u8], offset: usize) -> bool {
    let Some(open) = memchr::memrchr(b'"', &text[..offset]) else { return false };
    let Some(key) = key_before(text, open) else { return false };
    let name = std::str::from_utf8(&text[key.clone()]).unwrap_or_default();
    if name != "data" {
        return is_opaque_field(name, None);
    }
    let before = &text[key.start.saturating_sub(TYPE_DISTANCE)..key.start];
    let close = memchr::memchr(b'"', &text[offset..]).map_or(text.len(), |found| offset + found);
    let after = &text[close..text.len().min(close + TYPE_DISTANCE)];
    let names_type = |near: &[u8]| {
        TYPES_WITH_OPAQUE_DATA.iter().any(|kind| memchr::memmem::find(near, kind.as_bytes()).is_some())
    };
    names_type(before) || names_type(after)
}

/// Returns the range of the key whose value's opening quote is at `open`.
fn key_before(text: &[u8], open: usize) -> Option<Range<usize>> {
    let last_before = |at: usize| text[..at].iter().rposition(|byte| !byte.is_ascii_whitespace());
    let colon = last_before(open).filter(|&at| text[at] == b':')?;
    let close = last_before(colon).filter(|&at| text[at] == b'"')?;
    let start = memchr::memrchr(b'"', &text[..close])? + 1;
    Some(start..close)
}
