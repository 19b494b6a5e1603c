//! Values that were seen under a secret name, and every form in which they may come back.

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use super::needles::{Form, Found, Needle, Needles};
use super::placeholder;
use super::plain::Plain;
use super::wrapped;

/// Shorter values are redacted where they stand and not searched for elsewhere.
pub(super) const SHORTEST: usize = 8;

/// Words that are no secret even under a secret name: were they learned, they would vanish from
/// every sentence. In lower case.
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

/// Whether a value is a word and no secret.
pub(super) fn is_word(value: &[u8]) -> bool {
    value.len() <= 24 && WORDS.iter().any(|word| value.eq_ignore_ascii_case(word.as_bytes()))
}

/// A value that must not be seen.
#[derive(Debug)]
pub(super) struct Secret {
    /// Under which name it was seen.
    pub(super) source: String,
    /// The value with its escapes undone.
    pub(super) value: Vec<u8>,
    /// The value as it was given.
    pub(super) given: Vec<u8>,
}

/// All learned values and their forms.
pub(super) struct Values {
    secrets: Vec<Secret>,
    known: HashSet<Vec<u8>>,
    needles: Needles,
    /// The values in UTF-16: apart, for only a text with zeros in it can hold one.
    wide: Needles,
}

impl Values {
    pub(super) fn new() -> Self {
        Self { secrets: Vec::new(), known: HashSet::new(), needles: Needles::new(), wide: Needles::new() }
    }

    pub(super) fn secrets(&self) -> &[Secret] {
        &self.secrets
    }

    /// Takes a value in, unless it is too short, a word, or known; whether it was new.
    pub(super) fn learn(&mut self, source: &str, value: &[u8]) -> bool {
        let given = value.trim_ascii();
        let plain = Plain::of_escaped(given);
        let value = plain.bytes();
        if value.len() < SHORTEST || is_word(value) || placeholder::find(value).is_some() || is_mask(value) {
            return false;
        }
        if !self.known.insert(value.to_vec()) {
            return false;
        }
        let secret = self.secrets.len();
        self.secrets.push(Secret { source: source.to_owned(), value: value.to_vec(), given: given.to_vec() });
        // As given too: a backslash may be written so that it reads as itself (`\\u005c`).
        let decoded = decoded(value);
        let all = [value, given].into_iter().chain(decoded.as_deref());
        let forms = all.flat_map(|value| [forms(value), encoded(value)].concat());
        self.needles.extend(forms.map(|(bytes, form)| Needle { bytes, form, secret }));
        self.wide.extend(wide(value).into_iter().map(|bytes| Needle { bytes, form: Form::AsIs, secret }));
        true
    }

    /// Every place in `text` where a known value stands, in whatever form.
    pub(super) fn find(&self, text: &[u8]) -> Vec<Found> {
        let mut found = self.needles.find(text);
        if !self.wide.is_empty() && memchr::memchr(0, text).is_some() {
            found.extend(self.wide.find(text));
        }
        found
    }

    /// Every place where a known value goes over the end of a line.
    pub(super) fn find_wrapped(&self, text: &Plain<'_>) -> Vec<Found> {
        if self.needles.is_empty() {
            return Vec::new();
        }
        let inside = |block: &wrapped::Block| {
            let found = self.needles.find(block.bytes()).into_iter();
            found
                .filter_map(|found| Some(Found { range: block.over_lines(&found.range)?, ..found }))
                .collect()
        };
        wrapped::blocks(text).iter().flat_map(|block| -> Vec<Found> { inside(block) }).collect()
    }
}

/// `********` and its like.
fn is_mask(value: &[u8]) -> bool {
    value.iter().all(|byte| matches!(byte, b'*' | b'.' | b'-' | b'_' | b'x' | b'X'))
}

/// Every form in which a value may be read in a plain text. (Escapes of JSON and of URLs are undone
/// before the search, so they are no forms of their own.)
fn forms(value: &[u8]) -> Vec<(Vec<u8>, Form)> {
    if value.iter().all(u8::is_ascii_digit) {
        return vec![(value.to_vec(), Form::Digits)];
    }
    let mut forms = vec![(value.to_vec(), Form::AsIs)];
    let head = match value[0] {
        b'b' => Some(8),
        b'f' => Some(12),
        b'n' => Some(b'\n'),
        b'r' => Some(b'\r'),
        b't' => Some(b'\t'),
        _ => None,
    };
    forms.extend(head.map(|head| (value[1..].to_vec(), Form::Headless(head))));
    if value.contains(&b' ') {
        let plus = value.iter().map(|&byte| if byte == b' ' { b'+' } else { byte });
        forms.push((plus.collect(), Form::AsIs));
    }
    forms
}

/// Every form in which a value may be encoded.
fn encoded(value: &[u8]) -> Vec<(Vec<u8>, Form)> {
    let mut forms = Vec::new();
    for shift in 0..3 {
        let mut shifted = vec![0; shift];
        shifted.extend_from_slice(value);
        let core = (shift * 8).div_ceil(6)..shifted.len() * 8 / 6;
        let form = Form::Base64 { before: shift > 0, behind: !shifted.len().is_multiple_of(3) };
        for encoded in [STANDARD_NO_PAD.encode(&shifted), URL_SAFE_NO_PAD.encode(&shifted)] {
            forms.push((encoded.as_bytes()[core.clone()].to_vec(), form));
        }
    }
    let hex: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
    forms.push((hex.to_ascii_uppercase().into_bytes(), Form::AsIs));
    forms.push((hex.into_bytes(), Form::AsIs));
    forms
}

/// A value that holds what reads as URL encoding: `%41` in it is undone with all the other encoding of a
/// text that it stands in.
pub(super) fn decoded(value: &[u8]) -> Option<Vec<u8>> {
    let decoded = Plain::of_percent(value).bytes().to_vec();
    (decoded.len() < value.len() && decoded.len() >= SHORTEST).then_some(decoded)
}

/// A value in UTF-16, in both orders of bytes.
pub(super) fn wide(value: &[u8]) -> Vec<Vec<u8>> {
    let Ok(text) = std::str::from_utf8(value) else { return Vec::new() };
    vec![
        text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
        text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
    ]
}
