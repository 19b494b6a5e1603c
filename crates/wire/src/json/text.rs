//! The content of JSON strings: escaping and unescaping.

use std::borrow::Cow;
use std::ops::Range;

/// A part of a string's content, and the text that it means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StringPiece<'a> {
    /// Text without escapes.
    Plain(&'a str),
    /// The character of one escape, or of a pair of surrogate escapes.
    Escaped(char),
}

/// Splits the content of a JSON string into parts, each with its byte range in `inner`.
///
/// An unpaired surrogate becomes U+FFFD, as in browsers. `inner` must be the content of a valid string. An invalid
/// escape is read as a plain backslash.
pub fn string_pieces(inner: &str) -> impl Iterator<Item = (Range<usize>, StringPiece<'_>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = &inner[at..];
        if rest.is_empty() {
            return None;
        }
        let start = at;
        let plain = memchr::memchr(b'\\', rest.as_bytes()).unwrap_or(rest.len());
        if plain > 0 {
            at += plain;
            return Some((start..at, StringPiece::Plain(&rest[..plain])));
        }
        let (len, character) = escape(rest);
        at += len;
        Some((start..at, StringPiece::Escaped(character)))
    })
}

/// Returns the length and the character of the escape at the start of `rest`.
fn escape(rest: &str) -> (usize, char) {
    let simple = match rest.as_bytes().get(1) {
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => return unicode_escape(rest),
        Some(&itself @ (b'"' | b'\\' | b'/')) => itself as char,
        _ => return (1, '\\'),
    };
    (2, simple)
}

fn unicode_escape(rest: &str) -> (usize, char) {
    let unit = |at: usize| {
        let digits = rest.get(at + 2..at + 6)?;
        rest.get(at..at + 2).filter(|lead| *lead == "\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let Some(first) = unit(0) else { return (1, '\\') };
    let second = unit(6).filter(|second| (0xdc00..0xe000).contains(second));
    match second.filter(|_| (0xd800..0xdc00).contains(&first)) {
        Some(second) => {
            let pair = char::decode_utf16([first, second]).next();
            (12, pair.and_then(Result::ok).unwrap_or(char::REPLACEMENT_CHARACTER))
        }
        None => (6, char::from_u32(first.into()).unwrap_or(char::REPLACEMENT_CHARACTER)),
    }
}

/// Returns the value of a string with the given content.
pub fn unescape(inner: &str) -> Cow<'_, str> {
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Cow::Borrowed(inner);
    }
    let mut out = String::with_capacity(inner.len());
    for (_, piece) in string_pieces(inner) {
        match piece {
            StringPiece::Plain(text) => out.push_str(text),
            StringPiece::Escaped(character) => out.push(character),
        }
    }
    Cow::Owned(out)
}

/// Returns `text` as a JSON string with quotes. Escapes only what must be escaped.
pub fn quote(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len() + text.len() / 8 + 2);
    out.push(b'"');
    escape_into(&mut out, text);
    out.push(b'"');
    String::from_utf8(out).expect("escapes are ASCII, and all else is the text's own")
}

/// Number of bytes that are tested together.
const STRIDE: usize = 32;
/// The longest escaped stride, and room for one more word. The longest escape is `\u0000`.
const LONGEST: usize = STRIDE * 6 + 8;

/// Appends `text` as the content of a JSON string. Escapes only what must be escaped.
pub fn escape_into(out: &mut Vec<u8>, text: &str) {
    let mut escaped = [0; LONGEST];
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        let (clean, behind) = rest.split_at(clean_strides(rest));
        out.extend_from_slice(clean);
        let (stride, behind) = behind.split_at(behind.len().min(STRIDE));
        let length = escape_stride(&mut escaped, stride);
        out.extend_from_slice(&escaped[..length]);
        rest = behind;
    }
}

/// Returns the length of all complete strides at the start that contain nothing to escape.
pub(super) fn clean_strides(bytes: &[u8]) -> usize {
    // No branch or comparison per byte, so that the processor tests many bytes at once.
    let clean = |stride: &&[u8; STRIDE]| stride.iter().fold(1, |least, &byte| least.min(distance(byte))) > 0;
    bytes.as_chunks().0.iter().take_while(clean).count() * STRIDE
}

/// Stores a stride with its escapes and returns the length of the result.
///
/// Works on eight bytes at a time: a run up to a special byte is stored as a whole word, and the next store
/// overwrites the rest.
fn escape_stride(escaped: &mut [u8; LONGEST], stride: &[u8]) -> usize {
    let mut length = 0;
    let (words, rest) = stride.as_chunks::<8>();
    for word in words {
        length = escape_word(escaped, length, u64::from_le_bytes(*word), 8);
    }
    if !rest.is_empty() {
        let mut word = [b' '; 8];
        word[..rest.len()].copy_from_slice(rest);
        length = escape_word(escaped, length, u64::from_le_bytes(word), rest.len());
    }
    length
}

/// Stores the first `left` bytes of a word at `at` and returns the offset after them.
fn escape_word(escaped: &mut [u8; LONGEST], mut at: usize, mut word: u64, mut left: usize) -> usize {
    let mut store = |at: usize, word: u64| escaped[at..at + 8].copy_from_slice(&word.to_le_bytes());
    let mut specials = specials(word);
    while specials != 0 {
        let run = specials.trailing_zeros() as usize / 8;
        store(at, word);
        let (escape, escape_length) = ESCAPES[usize::from((word >> (run * 8)) as u8)];
        store(at + run, escape);
        at += run + escape_length;
        // Two shifts, because a shift by the full width has no effect.
        word = word >> (run * 8) >> 8;
        specials = specials >> (run * 8) >> 8;
        left -= run + 1;
    }
    store(at, word);
    at + left
}

/// Returns a word with the highest bit set in each byte that must be escaped.
fn specials(word: u64) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const LOW: u64 = EACH * 0x7f;
    let zeros = |word: u64| !(((word & LOW) + LOW) | word | LOW);
    zeros(word & (EACH * 0xe0)) | zeros(word ^ (EACH * b'"' as u64)) | zeros(word ^ (EACH * b'\\' as u64))
}

/// Returns zero for a byte that must be escaped, and only for it.
fn distance(byte: u8) -> u8 {
    (byte ^ b'"').min(byte ^ b'\\').min(byte.saturating_sub(0x1f))
}

/// The escape of each special byte, as the bytes of a word, and its length.
static ESCAPES: [(u64, usize); 256] = {
    let mut escapes = [(0, 0); 256];
    let mut byte = 0;
    while byte < 256 {
        escapes[byte] = match byte as u8 {
            b'"' => (word(*b"\\\"......"), 2),
            b'\\' => (word(*b"\\\\......"), 2),
            0x08 => (word(*b"\\b......"), 2),
            b'\t' => (word(*b"\\t......"), 2),
            b'\n' => (word(*b"\\n......"), 2),
            0x0c => (word(*b"\\f......"), 2),
            b'\r' => (word(*b"\\r......"), 2),
            _ => {
                let hex = b"0123456789abcdef";
                (word([b'\\', b'u', b'0', b'0', hex[byte >> 4], hex[byte & 15], b'.', b'.']), 6)
            }
        };
        byte += 1;
    }
    escapes
};

const fn word(bytes: [u8; 8]) -> u64 {
    u64::from_le_bytes(bytes)
}
