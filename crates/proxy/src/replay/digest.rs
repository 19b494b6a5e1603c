//! Digests of texts and bodies, comparable within one process.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// Returns a digest of `bytes`.
pub(super) fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}
