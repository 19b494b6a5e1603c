//! What documentation writes where a secret would stand.

/// Whether a key is one of those that AWS writes in its documentation: they all end alike.
pub(super) fn is_aws(key: &[u8]) -> bool {
    let id = key.len() == 20 && (key.starts_with(b"AKIA") || key.starts_with(b"ASIA"));
    (id && key.ends_with(b"EXAMPLE")) || (key.len() == 40 && key.ends_with(b"EXAMPLEKEY"))
}
