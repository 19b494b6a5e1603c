//! The inside of JSON strings: escapes there and back.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::ops::Range;

/// A stretch of a string's inside and what it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Stands for itself.
    Plain(&'a str),
    /// One escape, or a pair of surrogate escapes, and its character.
    Escaped(char),
}

/// Takes the inside of a JSON string apart; each piece comes with its byte range in `inner`.
///
/// Half a surrogate pair stands for U+FFFD, as browsers have it. The text is assumed to be the
/// inside of a string that parsed; a stray backslash is taken as itself.
pub fn pieces(inner: &str) -> impl Iterator<Item = (Range<usize>, Piece<'_>)> {
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
            return Some((start..at, Piece::Plain(&rest[..plain])));
        }
        let (len, character) = escape(rest);
        at += len;
        Some((start..at, Piece::Escaped(character)))
    })
}

/// The length and the character of the escape that `rest` begins with.
fn escape(rest: &str) -> (usize, char) {
    let simple = match rest.as_bytes().get(1) {
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => return unicode_escape(rest),
        Some(&other) if other.is_ascii() => other as char,
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

/// The value of a string whose inside is `inner`.
pub fn unescape(inner: &str) -> Cow<'_, str> {
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Cow::Borrowed(inner);
    }
    let mut out = String::with_capacity(inner.len());
    for (_, piece) in pieces(inner) {
        match piece {
            Piece::Plain(text) => out.push_str(text),
            Piece::Escaped(character) => out.push(character),
        }
    }
    Cow::Owned(out)
}

/// `text` as a JSON string, quotes included, escaping only what must be.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8 + 2);
    out.push('"');
    let mut from = 0;
    for (at, byte) in text.bytes().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.push_str(&text[from..at]);
        from = at + 1;
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            0x8 => out.push_str("\\b"),
            0xc => out.push_str("\\f"),
            other => write!(out, "\\u{other:04x}").expect("writing to a String cannot fail"),
        }
    }
    out.push_str(&text[from..]);
    out.push('"');
    out
}
