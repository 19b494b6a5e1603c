//! Learned values and the forms in which they are found again.

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use super::needles::{Needle, NeedleForm, NeedleMatch, Needles};
use super::placeholder;
use super::plain::PlainText;
use super::wrapped;

/// Shorter values are redacted where they are found, and not searched for elsewhere.
pub(super) const SHORTEST: usize = 8;

/// Words that are not secret even under a secret name, in lower case. If they were learned, they would disappear
/// from every sentence.
const WORDS: &[&str] = &[
    "password",
    "passwords",
    "passphrase",
    "undefined",
    "required",
    "redacted",
    "[redacted]",
    "disabled",
    "changeme",
    "argon2",
    "argon2id",
    "pbkdf2",
    "optional",
    "internal",
    "username",
    "localhost",
    "postgres",
    "anonymous",
    "undefined",
    "unlimited",
    "credential",
    "credentials",
    "authorization",
    "authenticated",
    "unauthorized",
    "production",
    "development",
    "automatic",
    "function",
    "bearer",
    "basic",
    "digest",
    "string",
    "secret",
    "token",
    "hidden",
    "number",
    "boolean",
    "object",
    "default",
    "example",
    "invalid",
    "missing",
    "disabled",
    "enabled",
    "expired",
    "include",
    "same-origin",
    "offshoot",
    "offshoot-redacted",
    "not-needed",
    "no-key-required",
    "api_key",
    "api-key",
    "apikey",
    "access_token",
    "client_secret",
    "auth_token",
    "private_key",
    "secret_key",
    "none",
    "null",
    "true",
    "false",
    "test",
    "your-api-key",
    "your_api_key",
];

/// Returns true if a value is such a word.
pub(super) fn is_word(value: &[u8]) -> bool {
    value.len() <= 24 && WORDS.iter().any(|word| value.eq_ignore_ascii_case(word.as_bytes()))
}

/// A learned value.
#[derive(Debug)]
pub(super) struct LearnedValue {
    /// The name or place where it was found.
    pub(super) source: String,
    /// The value with its escapes undone.
    pub(super) value: Vec<u8>,
    /// The original value.
    pub(super) given: Vec<u8>,
}

/// All learned values and their forms.
pub(super) struct Values {
    secrets: Vec<LearnedValue>,
    known: HashSet<Vec<u8>>,
    needles: Needles,
    /// The values in UTF-16. They are separate, because only a text with zeros can contain one.
    wide: Needles,
}

impl Values {
    pub(super) fn new() -> Self {
        Self { secrets: Vec::new(), known: HashSet::new(), needles: Needles::new(), wide: Needles::new() }
    }

    pub(super) fn secrets(&self) -> &[LearnedValue] {
        &self.secrets
    }

    /// Learns a value unless it is too short, a common word, or known. Returns true if it was new.
    pub(super) fn learn(&mut self, source: &str, value: &[u8]) -> bool {
        let given = value.trim_ascii();
        let plain = PlainText::from_escaped(given);
        let value = plain.bytes();
        if value.len() < SHORTEST || is_word(value) || placeholder::find(value).is_some() || is_mask(value) {
            return false;
        }
        if !self.known.insert(value.to_vec()) {
            return false;
        }
        let secret = self.secrets.len();
        self.secrets.push(LearnedValue {
            source: source.to_owned(),
            value: value.to_vec(),
            given: given.to_vec(),
        });
        // Also the original, because an escaped backslash may be written as `\\u005c`.
        let decoded = decoded(value);
        let all = [value, given].into_iter().chain(decoded.as_deref());
        let forms = all.flat_map(|value| [plain_forms(value), encoded_forms(value)].concat());
        self.needles.extend(forms.map(|(bytes, form)| Needle { bytes, form, secret }));
        self.wide.extend(utf16_forms(value).into_iter().map(|bytes| Needle {
            bytes,
            form: NeedleForm::AsIs,
            secret,
        }));
        true
    }

    /// Finds all known values in `text`, in any form.
    pub(super) fn find(&self, text: &[u8]) -> Vec<NeedleMatch> {
        let mut found = self.needles.find(text);
        if !self.wide.is_empty() && memchr::memchr(0, text).is_some() {
            found.extend(self.wide.find(text));
        }
        found
    }

    /// Finds all known values that continue after a line end.
    pub(super) fn find_wrapped(&self, text: &PlainText<'_>) -> Vec<NeedleMatch> {
        if self.needles.is_empty() {
            return Vec::new();
        }
        let inside = |block: &wrapped::Base64Block| {
            let found = self.needles.find(block.bytes()).into_iter();
            found
                .filter_map(|found| Some(NeedleMatch { range: block.over_lines(&found.range)?, ..found }))
                .collect()
        };
        wrapped::find_blocks(text).iter().flat_map(|block| -> Vec<NeedleMatch> { inside(block) }).collect()
    }
}

/// Returns true for `********` and similar texts.
fn is_mask(value: &[u8]) -> bool {
    value.iter().all(|byte| matches!(byte, b'*' | b'.' | b'-' | b'_' | b'x' | b'X'))
}

/// Returns the forms of a value in plain text. JSON and URL escapes are undone before the search and need no forms.
fn plain_forms(value: &[u8]) -> Vec<(Vec<u8>, NeedleForm)> {
    if value.iter().all(u8::is_ascii_digit) {
        return vec![(value.to_vec(), NeedleForm::Digits)];
    }
    let mut forms = vec![(value.to_vec(), NeedleForm::AsIs)];
    let head = match value[0] {
        b'b' => Some(8),
        b'f' => Some(12),
        b'n' => Some(b'\n'),
        b'r' => Some(b'\r'),
        b't' => Some(b'\t'),
        _ => None,
    };
    forms.extend(head.map(|head| (value[1..].to_vec(), NeedleForm::Headless(head))));
    if value.contains(&b' ') {
        let plus = value.iter().map(|&byte| if byte == b' ' { b'+' } else { byte });
        forms.push((plus.collect(), NeedleForm::AsIs));
    }
    forms
}

/// Returns the encoded forms of a value.
fn encoded_forms(value: &[u8]) -> Vec<(Vec<u8>, NeedleForm)> {
    let mut forms = Vec::new();
    for shift in 0..3 {
        let mut shifted = vec![0; shift];
        shifted.extend_from_slice(value);
        let core = (shift * 8).div_ceil(6)..shifted.len() * 8 / 6;
        let form = NeedleForm::Base64 { before: shift > 0, behind: !shifted.len().is_multiple_of(3) };
        for encoded in [STANDARD_NO_PAD.encode(&shifted), URL_SAFE_NO_PAD.encode(&shifted)] {
            forms.push((encoded.as_bytes()[core.clone()].to_vec(), form));
        }
    }
    let hex: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
    forms.push((hex.to_ascii_uppercase().into_bytes(), NeedleForm::AsIs));
    forms.push((hex.into_bytes(), NeedleForm::AsIs));
    forms
}

/// Returns the value after URL decoding, if it contains an escape. The `%41` in it is decoded together with the
/// encoding of the text around it.
pub(super) fn decoded(value: &[u8]) -> Option<Vec<u8>> {
    let decoded = PlainText::from_percent(value).bytes().to_vec();
    (decoded.len() < value.len() && decoded.len() >= SHORTEST).then_some(decoded)
}

/// Returns a value in UTF-16, in both byte orders.
pub(super) fn utf16_forms(value: &[u8]) -> Vec<Vec<u8>> {
    let Ok(text) = std::str::from_utf8(value) else { return Vec::new() };
    vec![
        text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
        text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
    ]
}
