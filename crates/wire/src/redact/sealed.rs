//! Fields that a provider sealed: thinking signatures and encrypted content.
//!
//! They are random text that only the provider can read, so a shape found in them is an accident.
//! A learned value is not, and is removed from them like from everything else.

const FIELDS: &[&str] = &[
    "signature",
    "thoughtSignature",
    "thought_signature",
    "encrypted_content",
    "encryptedContent",
    "reasoning_opaque",
    "encrypted_index",
    "encrypted_stdout",
];

/// Types whose `data` is sealed.
const SEALED_DATA: &[&str] = &["redacted_thinking", "reasoning.encrypted"];

/// Whether a member of that name is sealed, in an object of that type.
pub(crate) fn is_sealed(name: &str, object_type: Option<&str>) -> bool {
    FIELDS.contains(&name) || (name == "data" && object_type.is_some_and(|kind| SEALED_DATA.contains(&kind)))
}

/// Whether the string around `at` is the value of a sealed field.
pub(super) fn holds(plain: &[u8], at: usize) -> bool {
    let Some(open) = memchr::memrchr(b'"', &plain[..at]) else { return false };
    let Some(key) = key_before(plain, open) else { return false };
    let name = std::str::from_utf8(&plain[key.clone()]).unwrap_or_default();
    if name != "data" {
        return is_sealed(name, None);
    }
    let before = &plain[key.start.saturating_sub(120)..key.start];
    let close = memchr::memchr(b'"', &plain[at..]).map_or(plain.len(), |found| at + found);
    let behind = &plain[close..plain.len().min(close + 120)];
    let names =
        |near: &[u8]| SEALED_DATA.iter().any(|kind| memchr::memmem::find(near, kind.as_bytes()).is_some());
    names(before) || names(behind)
}

/// The key whose value's opening quote stands at `open`.
fn key_before(plain: &[u8], open: usize) -> Option<std::ops::Range<usize>> {
    let before = |at: usize| plain[..at].iter().rposition(|byte| !byte.is_ascii_whitespace());
    let colon = before(open).filter(|&at| plain[at] == b':')?;
    let close = before(colon).filter(|&at| plain[at] == b'"')?;
    let start = memchr::memrchr(b'"', &plain[..close])? + 1;
    Some(start..close)
}
