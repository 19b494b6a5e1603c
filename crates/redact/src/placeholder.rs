//! What stands where a secret stood.
//!
//! `offshoot-redacted-` and sixteen hex digits: legal in headers, URLs and JSON strings, equal for
//! equal secrets under one key, and matched by no rule.

use hmac::{Hmac, Mac as _};
use sha2::Sha256;

pub(super) const PREFIX: &[u8] = b"offshoot-redacted-";
const DIGITS: usize = 16;

/// The key that fingerprints are made with. It lives with the user, never in a recording.
#[derive(Clone)]
pub struct FingerprintKey([u8; 32]);

impl FingerprintKey {
    /// A key from its bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Sixteen hex digits that are equal for equal values.
    pub(super) fn fingerprint(&self, value: &[u8]) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        mac.update(value);
        let digest = mac.finalize().into_bytes();
        digest[..DIGITS / 2].iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// What stands in a value's place.
    pub(super) fn placeholder(&self, value: &[u8]) -> Vec<u8> {
        [PREFIX, self.fingerprint(value).as_bytes()].concat()
    }
}

impl std::fmt::Debug for FingerprintKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FingerprintKey")
    }
}

/// The length of the placeholder that `text` begins with.
pub(super) fn at_start(text: &[u8]) -> Option<usize> {
    let digits = text.strip_prefix(PREFIX)?.get(..DIGITS)?;
    digits.iter().all(u8::is_ascii_hexdigit).then_some(PREFIX.len() + DIGITS)
}

/// Whether `text` is a placeholder and nothing else.
pub(super) fn is(text: &[u8]) -> bool {
    at_start(text) == Some(text.len())
}

/// Where the first placeholder in `text` begins.
pub(super) fn find(text: &[u8]) -> Option<usize> {
    memchr::memmem::find_iter(text, PREFIX).find(|&at| at_start(&text[at..]).is_some())
}
