//! Helpers for texts and digests.

use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher, Hash};

/// Names of the two sides in messages.
pub(super) const SIDES: [&str; 2] = ["golden", "candidate"];

/// Returns the digest of a value.
pub(super) fn hashed(value: impl Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(value)
}

/// Returns the text of a JSON string, and any other JSON unchanged.
pub(super) fn plain(json: &str) -> String {
    let inside = json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inside.map_or_else(|| json.to_owned(), |inside| wire::json::unescape(inside).into_owned())
}

/// Returns the start of a value.
pub(super) fn short(json: &str) -> String {
    let text = plain(json);
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
