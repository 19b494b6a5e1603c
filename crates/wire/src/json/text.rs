//! The inside of JSON strings: escapes there and back.

use std::borrow::Cow;
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
    let mut out = Vec::with_capacity(text.len() + text.len() / 8 + 2);
    out.push(b'"');
    escape_into(&mut out, text);
    out.push(b'"');
    String::from_utf8(out).expect("escapes are ASCII, and all else is the text's own")
}

/// Bytes that are looked at together.
const STRIDE: usize = 32;
/// No byte becomes longer than `\u0000`.
const LONGEST: usize = 256;

/// Appends `text` as the inside of a JSON string, escaping only what must be.
pub fn escape_into(out: &mut Vec<u8>, text: &str) {
    for stride in text.as_bytes().chunks(STRIDE) {
        // Without a branch for each byte, so that the processor compares many at once.
        if !stride.iter().fold(false, |special, &byte| special | is_special(byte)) {
            out.extend_from_slice(stride);
            continue;
        }
        let mut escaped = [0; LONGEST];
        let mut length = 0;
        for &byte in stride {
            // The mask changes nothing; it lets the compiler see that the place is inside.
            escaped[length % LONGEST] = byte;
            length += 1;
            if is_special(byte) {
                let escape = escape_of(byte);
                escaped[length - 1..length - 1 + escape.len()].copy_from_slice(escape.as_bytes());
                length += escape.len() - 1;
            }
        }
        out.extend_from_slice(&escaped[..length]);
    }
}

fn is_special(byte: u8) -> bool {
    (byte < 0x20) | (byte == b'"') | (byte == b'\\')
}

fn escape_of(special: u8) -> &'static str {
    const CONTROLS: [&str; 32] = [
        "\\u0000", "\\u0001", "\\u0002", "\\u0003", "\\u0004", "\\u0005", "\\u0006", "\\u0007", "\\b", "\\t",
        "\\n", "\\u000b", "\\f", "\\r", "\\u000e", "\\u000f", "\\u0010", "\\u0011", "\\u0012", "\\u0013",
        "\\u0014", "\\u0015", "\\u0016", "\\u0017", "\\u0018", "\\u0019", "\\u001a", "\\u001b", "\\u001c",
        "\\u001d", "\\u001e", "\\u001f",
    ];
    match special {
        b'"' => "\\\"",
        b'\\' => "\\\\",
        control => CONTROLS[usize::from(control)],
    }
}
