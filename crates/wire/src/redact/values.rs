//! Values that were seen under a secret name, and every form in which they may come back.
//!
//! One index holds all forms of all values. Learning is cheap, for a provider may set a fresh
//! cookie with every response; so is the search, which skips ahead by Wu and Manber's table: where
//! the three bytes at hand end no needle's beginning, no needle can begin in the bytes before them.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use aho_corasick::packed;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use super::placeholder;
use super::plain::Plain;

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

/// In which form a needle holds its secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    AsIs,
    /// Without its first letter, which reads as an escape behind a backslash: as this character.
    Headless(u8),
    /// Only the characters that the value alone decides; the neighbours that hold the rest of its
    /// first and last bits go with it.
    Base64 {
        before: bool,
        behind: bool,
    },
    /// A number: it must not be a part of a longer one.
    Digits,
}

#[derive(Debug)]
struct Needle {
    bytes: Vec<u8>,
    form: Form,
    secret: usize,
}

/// Where a secret was found in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) range: Range<usize>,
    pub(super) secret: usize,
    pub(super) number: bool,
}

const WINDOW: usize = 7;
const BLOCK: usize = 3;
const FURTHEST: u8 = (WINDOW - BLOCK + 1) as u8;

/// All learned values and their forms.
pub(super) struct Values {
    secrets: Vec<Secret>,
    known: HashSet<Vec<u8>>,
    needles: Vec<Needle>,
    /// Needles by their first bytes.
    begins: HashMap<[u8; WINDOW], Vec<usize>>,
    /// How far one may skip after a block, by the block's hash.
    skips: Box<[u8; 1 << 16]>,
    /// All needles for a faster look, as long as they are few; most texts hold none.
    few: Option<packed::Searcher>,
}

/// More needles than this are found by skipping alone.
const FEW: usize = 48;

impl Values {
    pub(super) fn new() -> Self {
        Self {
            secrets: Vec::new(),
            known: HashSet::new(),
            needles: Vec::new(),
            begins: HashMap::new(),
            skips: Box::new([FURTHEST; 1 << 16]),
            few: None,
        }
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
        for (bytes, form) in
            [value, given].into_iter().flat_map(|value| [forms(value), encoded(value)].concat())
        {
            self.add(Needle { bytes, form, secret });
        }
        let needles = self.needles.iter().map(|needle| &needle.bytes);
        self.few = (self.needles.len() <= FEW).then(|| packed::Searcher::new(needles)).flatten();
        true
    }

    fn add(&mut self, needle: Needle) {
        let Some(begin) = needle.bytes.first_chunk::<WINDOW>() else { return };
        for at in 0..=WINDOW - BLOCK {
            let skip = &mut self.skips[hash(&needle.bytes[at..])];
            *skip = (*skip).min((WINDOW - BLOCK - at) as u8);
        }
        let same = self.begins.entry(*begin).or_default();
        if !same.iter().any(|&other| self.needles[other].bytes == needle.bytes) {
            same.push(self.needles.len());
            self.needles.push(needle);
        }
    }

    /// Every place in `text` where a known value stands, in whatever form.
    pub(super) fn find(&self, text: &[u8]) -> Vec<Found> {
        let mut found = Vec::new();
        if self.needles.is_empty() || self.few.as_ref().is_some_and(|few| few.find(text).is_none()) {
            return found;
        }
        let mut end = WINDOW;
        while end <= text.len() {
            let skip = self.skips[hash(&text[end - BLOCK..end])];
            if skip > 0 {
                end += usize::from(skip);
                continue;
            }
            let start = end - WINDOW;
            let window = text[start..].first_chunk::<WINDOW>().expect("the window ends inside the text");
            for &index in self.begins.get(window).into_iter().flatten() {
                found.extend(self.needles[index].at(text, start));
            }
            end += 1;
        }
        found
    }
}

impl Needle {
    fn at(&self, text: &[u8], start: usize) -> Option<Found> {
        let end = start + self.bytes.len();
        if text.get(start..end)? != self.bytes {
            return None;
        }
        let before = start.checked_sub(1).map(|at| text[at]);
        let behind = text.get(end).copied();
        let range = match self.form {
            Form::AsIs => start..end,
            Form::Headless(head) => (before == Some(head)).then_some(start - 1..end)?,
            Form::Base64 { before: lead, behind: trail } => {
                let lead = lead && before.is_some_and(is_base64);
                let trail = trail && behind.is_some_and(is_base64);
                start - usize::from(lead)..end + usize::from(trail)
            }
            Form::Digits => {
                let more = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_digit());
                if more(before) || more(behind) {
                    return None;
                }
                start..end
            }
        };
        Some(Found { range, secret: self.secret, number: self.form == Form::Digits })
    }
}

fn hash(block: &[u8]) -> usize {
    let [a, b, c] = *block.first_chunk::<BLOCK>().expect("called with a block");
    (usize::from(a) ^ usize::from(b) << 5 ^ usize::from(c) << 9) & 0xffff
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_')
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
    if value.iter().all(u8::is_ascii_digit) {
        return forms;
    }
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
