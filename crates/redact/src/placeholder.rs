//! Placeholders for secrets.
//!
//! A placeholder is `offshoot-redacted-` and sixteen hex digits. It is valid in headers, URLs and JSON strings,
//! equal for equal secrets under one key, and matched by no rule.

use hmac::{Hmac, Mac as _};
use sha2::Sha256;

pub(super) const PREFIX: &[u8] = b"offshoot-redacted-";
const DIGITS: usize = 16;

/// The key of all fingerprints. It is stored with the user's settings and never in a recording.
#[derive(Clone)]
pub struct FingerprintKey([u8; 32]);

impl FingerprintKey {
    /// Creates a key from its bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns sixteen hex digits that are equal for equal values.
    pub(super) fn fingerprint(&self, value: &[u8]) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        mac.update(value);
        let digest = mac.finalize().into_bytes();
        digest[..DIGITS / 2].iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns the placeholder of a value.
    pub(super) fn placeholder(&self, value: &[u8]) -> Vec<u8> {
        [PREFIX, self.fingerprint(value).as_bytes()].concat()
    }
}

impl std::fmt::Debug for FingerprintKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FingerprintKey")
    }
}

/// Returns the length of the placeholder at the start of `text`.
pub(super) fn at_start(text: &[u8]) -> Option<usize> {
    let digits = text.strip_prefix(PREFIX)?.get(..DIGITS)?;
    digits.iter().all(u8::is_ascii_hexdigit).then_some(PREFIX.len() + DIGITS)
}

/// Returns true if `text` is exactly a placeholder.
pub(super) fn is_placeholder(text: &[u8]) -> bool {
    at_start(text) == Some(text.len())
}

/// Finds the first placeholder in `text`.
pub(super) fn find(text: &[u8]) -> Option<usize> {
    memchr::memmem::find_iter(text, PREFIX).find(|&at| at_start(&text[at..]).is_some())
}
