//! An index of all learned values, for one search.
//!
//! Adding a value is cheap, because a provider may set a new cookie with every response. The search skips bytes
//! with the table of Wu and Manber: if the current three bytes are in no needle's prefix, then no needle can start
//! just before them.

use std::collections::HashMap;
use std::ops::Range;

use aho_corasick::packed;

/// The form of a secret in a needle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NeedleForm {
    AsIs,
    /// Without the first letter. After a backslash it reads as an escape, for this character.
    Headless(u8),
    /// Only the characters that depend on the value alone. The neighbours that contain its first and last bits are
    /// redacted, too.
    Base64 {
        before: bool,
        behind: bool,
    },
    /// A number, which must not be a part of a longer one.
    Digits,
}

/// One form of one secret.
#[derive(Debug)]
pub(super) struct Needle {
    pub(super) bytes: Vec<u8>,
    pub(super) form: NeedleForm,
    pub(super) secret: usize,
}

/// A match of a secret in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NeedleMatch {
    pub(super) range: Range<usize>,
    pub(super) secret: usize,
    pub(super) number: bool,
}

const WINDOW: usize = 7;
const BLOCK: usize = 3;
const FURTHEST: u8 = (WINDOW - BLOCK + 1) as u8;

/// The needles and the tables for the search.
pub(super) struct Needles {
    all: Vec<Needle>,
    /// Needles by their first bytes.
    begins: HashMap<[u8; WINDOW], Vec<usize>>,
    /// The distance to skip after a block, by the block's hash.
    skips: Box<[u8; 1 << 16]>,
    /// A faster test for few needles. Most texts contain none.
    few: Option<packed::Searcher>,
}

/// The maximum number of needles for the faster test.
const FEW: usize = 48;

impl Needles {
    pub(super) fn new() -> Self {
        let skips = Box::new([FURTHEST; 1 << 16]);
        Self { all: Vec::new(), begins: HashMap::new(), skips, few: None }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn extend(&mut self, needles: impl IntoIterator<Item = Needle>) {
        needles.into_iter().for_each(|needle| self.add(needle));
        let needles = self.all.iter().map(|needle| &needle.bytes);
        self.few = (self.all.len() <= FEW).then(|| packed::Searcher::new(needles)).flatten();
    }

    fn add(&mut self, needle: Needle) {
        let Some(begin) = needle.bytes.first_chunk::<WINDOW>() else { return };
        for at in 0..=WINDOW - BLOCK {
            let skip = &mut self.skips[hash(&needle.bytes[at..])];
            *skip = (*skip).min((WINDOW - BLOCK - at) as u8);
        }
        let same = self.begins.entry(*begin).or_default();
        if !same.iter().any(|&other| self.all[other].bytes == needle.bytes) {
            same.push(self.all.len());
            self.all.push(needle);
        }
    }

    /// Finds all needles in `text`.
    pub(super) fn find(&self, text: &[u8]) -> Vec<NeedleMatch> {
        let mut found = Vec::new();
        if self.is_empty() || self.few.as_ref().is_some_and(|few| few.find(text).is_none()) {
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
                found.extend(self.all[index].at(text, start));
            }
            end += 1;
        }
        found
    }
}

impl Needle {
    fn at(&self, text: &[u8], start: usize) -> Option<NeedleMatch> {
        let end = start + self.bytes.len();
        if text.get(start..end)? != self.bytes {
            return None;
        }
        let before = start.checked_sub(1).map(|at| text[at]);
        let behind = text.get(end).copied();
        let range = match self.form {
            NeedleForm::AsIs => start..end,
            NeedleForm::Headless(head) => (before == Some(head)).then_some(start - 1..end)?,
            NeedleForm::Base64 { before: lead, behind: trail } => {
                let lead = lead && before.is_some_and(is_base64);
                let trail = trail && behind.is_some_and(is_base64);
                start - usize::from(lead)..end + usize::from(trail)
            }
            NeedleForm::Digits => is_whole_number(text, &(start..end)).then_some(start..end)?,
        };
        Some(NeedleMatch { range, secret: self.secret, number: self.form == NeedleForm::Digits })
    }
}

/// Returns true if the digits in `range` are a complete number.
pub(super) fn is_whole_number(text: &[u8], range: &Range<usize>) -> bool {
    let digit = |at: Option<usize>| at.and_then(|at| text.get(at)).is_some_and(u8::is_ascii_digit);
    let point = |at: Option<usize>| at.and_then(|at| text.get(at)) == Some(&b'.');
    let (first, second) = (range.start.checked_sub(1), range.start.checked_sub(2));
    let exponent = matches!(text.get(range.end), Some(b'e' | b'E'))
        && text.get(range.end + 1).is_some_and(|byte| byte.is_ascii_digit() || matches!(byte, b'+' | b'-'));
    let before = digit(first) || (point(first) && digit(second));
    let behind = digit(Some(range.end)) || (point(Some(range.end)) && digit(Some(range.end + 1)));
    !(before || behind || exponent)
}

fn hash(block: &[u8]) -> usize {
    let [a, b, c] = *block.first_chunk::<BLOCK>().expect("called with a block");
    (usize::from(a) ^ usize::from(b) << 5 ^ usize::from(c) << 9) & 0xffff
}

pub(super) fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_')
}
