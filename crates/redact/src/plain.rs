//! Text with its escapes undone, and the mapping to the original bytes.
//!
//! A secret in a tool result may be in JSON in a JSON string in a JSON string, where `\\\"` is one quote.
//! [`PlainText`] reads a run of backslashes of any length as one escape. So a secret looks the same at every depth,
//! and one search finds it in all of them. This is ambiguous, because `\\n` may also be a backslash and an `n`.
//! That does no harm: edits are made in the original, and only where a secret was found.

use std::borrow::Cow;
use std::ops::Range;

use wire::json;

use super::entities::entity;

/// One escape: its position in the plain text and in the original.
#[derive(Clone, Copy, Debug)]
struct Escape {
    at: usize,
    len: usize,
    original: usize,
    original_len: usize,
}

/// A text with its escapes undone.
#[derive(Debug)]
pub(super) struct PlainText<'a> {
    original: &'a [u8],
    bytes: Cow<'a, [u8]>,
    escapes: Vec<Escape>,
}

impl<'a> PlainText<'a> {
    /// Undoes backslash escapes of any depth.
    pub(super) fn from_escaped(original: &'a [u8]) -> Self {
        let Some(first) = memchr::memchr(b'\\', original) else {
            return Self { original, bytes: Cow::Borrowed(original), escapes: Vec::new() };
        };
        let mut bytes = Vec::with_capacity(original.len());
        let mut escapes = Vec::with_capacity(original.len() / 64);
        let mut from = 0;
        let mut next = Some(first);
        while let Some(start) = next {
            bytes.extend_from_slice(&original[from..start]);
            let at = bytes.len();
            from = start + undo_backslashes(&original[start..], &mut bytes);
            escapes.push(Escape { at, len: bytes.len() - at, original: start, original_len: from - start });
            next = memchr::memchr(b'\\', &original[from..]).map(|more| from + more);
        }
        bytes.extend_from_slice(&original[from..]);
        Self { original, bytes: Cow::Owned(bytes), escapes }
    }

    /// Undoes the escapes of one JSON string, at one depth.
    pub(super) fn from_json_string(inner: &'a str) -> Self {
        let mut bytes = Vec::with_capacity(inner.len());
        let mut escapes = Vec::new();
        for (range, piece) in json::string_pieces(inner) {
            match piece {
                json::StringPiece::Plain(text) => bytes.extend_from_slice(text.as_bytes()),
                json::StringPiece::Escaped(character) => {
                    let (at, len) = (bytes.len(), character.len_utf8());
                    bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                    escapes.push(Escape { at, len, original: range.start, original_len: range.len() });
                }
            }
        }
        Self { original: inner.as_bytes(), bytes: Cow::Owned(bytes), escapes }
    }

    /// Undoes URL encoding of any depth: `%252F` is a slash, too.
    pub(super) fn from_percent(original: &'a [u8]) -> Self {
        let mut bytes = Vec::with_capacity(original.len());
        let mut escapes = Vec::new();
        let mut from = 0;
        for start in memchr::memchr_iter(b'%', original) {
            let Some((byte, len)) = (start >= from).then(|| percent(&original[start..])).flatten() else {
                continue;
            };
            bytes.extend_from_slice(&original[from..start]);
            escapes.push(Escape { at: bytes.len(), len: 1, original: start, original_len: len });
            bytes.push(byte);
            from = start + len;
        }
        bytes.extend_from_slice(&original[from..]);
        Self { original, bytes: Cow::Owned(bytes), escapes }
    }

    /// Undoes HTML character references of any depth. Returns `None` if there are none.
    pub(super) fn from_html(original: &'a [u8]) -> Option<Self> {
        let mut bytes = Vec::new();
        let mut escapes = Vec::new();
        let mut from = 0;
        for start in memchr::memchr_iter(b'&', original) {
            let Some((character, len)) = (start >= from).then(|| entity(&original[start..])).flatten() else {
                continue;
            };
            bytes.extend_from_slice(&original[from..start]);
            let at = bytes.len();
            bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            escapes.push(Escape { at, len: bytes.len() - at, original: start, original_len: len });
            from = start + len;
        }
        bytes.extend_from_slice(&original[from..]);
        (!escapes.is_empty()).then_some(Self { original, bytes: Cow::Owned(bytes), escapes })
    }

    /// Returns the plain text.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the original text.
    pub(super) fn raw(&self) -> &[u8] {
        self.original
    }

    /// Maps an offset of the original, outside of escapes, to the plain text.
    pub(super) fn plain(&self, original: usize) -> usize {
        let behind = self.escapes.partition_point(|escape| escape.original <= original);
        let escape = behind.checked_sub(1).map(|index| &self.escapes[index]);
        escape.map_or(original, |last| last.at + last.len + original - last.original - last.original_len)
    }

    /// Maps a range of the plain text to the original. Escapes are included as a whole.
    pub(super) fn original(&self, range: &Range<usize>) -> Range<usize> {
        let start = match self.escape_before(range.start) {
            Some(escape) if range.start < escape.at + escape.len => escape.original,
            Some(escape) => escape.original + escape.original_len + (range.start - escape.at - escape.len),
            None => range.start,
        };
        if range.is_empty() {
            return start..start;
        }
        let last = range.end - 1;
        let end = match self.escape_before(last) {
            Some(escape) if last < escape.at + escape.len => escape.original + escape.original_len,
            Some(escape) => escape.original + escape.original_len + (range.end - escape.at - escape.len),
            None => range.end,
        };
        start..end
    }

    /// Returns the number of backslashes before the byte at `at`. It distinguishes the quotes that end a string
    /// from those inside of it.
    pub(super) fn backslashes(&self, at: usize) -> usize {
        match self.escape_before(at) {
            Some(escape) if at < escape.at + escape.len => escape.original_len - 1,
            _ => 0,
        }
    }

    /// Returns the byte at `at` as it is written in the original, with its backslashes.
    pub(super) fn written(&self, at: usize) -> &[u8] {
        &self.original[self.original(&(at..at + 1))]
    }

    /// Iterates over the escapes that are at least `width` bytes after the one before, ignoring escaped slashes.
    pub(super) fn escapes_behind(&self, width: usize) -> impl Iterator<Item = usize> {
        let mut from = 0;
        self.escapes.iter().filter_map(move |escape| {
            let wide = escape.at >= from + width;
            if self.bytes[escape.at] != b'/' {
                from = escape.at + escape.len;
            }
            wide.then_some(escape.at)
        })
    }

    fn escape_before(&self, at: usize) -> Option<&Escape> {
        let behind = self.escapes.partition_point(|escape| escape.at <= at);
        behind.checked_sub(1).map(|index| &self.escapes[index])
    }
}

/// The character of each letter after a backslash. Zero if the letter is not an escape.
const ESCAPED: [u8; 256] = {
    let mut table = [0; 256];
    let escapes = *b"b\x08f\x0cn\nr\rt\t\"\"//\'\'";
    let mut at = 0;
    while at < escapes.len() {
        table[escapes[at] as usize] = escapes[at + 1];
        at += 2;
    }
    table
};

/// Decodes the run of backslashes at the start of `rest` and its escape. Returns their length.
fn undo_backslashes(rest: &[u8], out: &mut Vec<u8>) -> usize {
    let run = match rest {
        [_, next, ..] if *next != b'\\' => 1, // nearly always
        _ => rest.iter().position(|&byte| byte != b'\\').unwrap_or(rest.len()),
    };
    let plain = match rest.get(run) {
        Some(&byte) if ESCAPED[usize::from(byte)] > 0 => ESCAPED[usize::from(byte)],
        Some(b'u') => {
            if let Some((character, len)) = unicode(rest, run) {
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                return len;
            }
            out.push(b'\\');
            return run;
        }
        _ => {
            out.push(b'\\');
            return run;
        }
    };
    out.push(plain);
    run + 1
}

/// Decodes a `\u` escape after `run` backslashes, or a pair of them.
fn unicode(rest: &[u8], run: usize) -> Option<(char, usize)> {
    let unit = |at: usize| {
        let digits = rest.get(at + run + 1..at + run + 5)?;
        let lead = rest[at..at + run].iter().all(|&byte| byte == b'\\') && rest[at + run] == b'u';
        if !lead || !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let len = run + 5;
    let first = unit(0)?;
    if (0xd800..0xdc00).contains(&first)
        && let Some(second) = unit(len)
        && let Some(Ok(pair)) = char::decode_utf16([first, second]).next()
    {
        return Some((pair, 2 * len));
    }
    Some((char::from_u32(first.into()).unwrap_or(char::REPLACEMENT_CHARACTER), len))
}

/// Decodes the percent escape at the start of `rest`. Returns its byte and length.
fn percent(rest: &[u8]) -> Option<(u8, usize)> {
    let digit = |at: usize| (*rest.get(at)? as char).to_digit(16);
    let mut at = 1;
    loop {
        let byte = (digit(at)? * 16 + digit(at + 1)?) as u8;
        let deeper = byte == b'%' && digit(at + 2).is_some() && digit(at + 3).is_some();
        if !deeper {
            return Some((byte, at + 2));
        }
        at += 2;
    }
}

/// Returns the ranges of `bytes` that contain percent escapes. A range ends at a space or quote.
pub(super) fn percent_runs(bytes: &[u8]) -> Vec<Range<usize>> {
    let ends = |byte: &u8| matches!(byte, b'"' | b'\'' | b'`' | b'<' | b'>') || byte.is_ascii_whitespace();
    let mut runs: Vec<Range<usize>> = Vec::new();
    for at in memchr::memchr_iter(b'%', bytes) {
        let covered = runs.last().is_some_and(|run| at < run.end);
        if covered || percent(&bytes[at..]).is_none() {
            continue;
        }
        let floor = runs.last().map_or(0, |run| run.end);
        let start = bytes[floor..at].iter().rposition(ends).map_or(floor, |found| floor + found + 1);
        let end = bytes[at..].iter().position(ends).map_or(bytes.len(), |found| at + found);
        runs.push(start..end);
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(original: &str, plain: &str) {
        let text = PlainText::from_escaped(original.as_bytes());
        assert_eq!(String::from_utf8_lossy(text.bytes()), plain);
    }

    #[test]
    fn every_depth_reads_the_same() {
        check(r#"{"a":"x\ny"}"#, "{\"a\":\"x\ny\"}");
        check(r#"{\"a\":\"x\\ny\"}"#, "{\"a\":\"x\ny\"}");
        check(r#"{\\\"a\\\":\\\"x\\\\ny\\\"}"#, "{\"a\":\"x\ny\"}");
        check(r"\u0041\\u0041\/\\/ \d \\d \", r"AA// \d \d \");
        check(r"\ud83d\ude00 \ud83d \u00e", "\u{1f600} \u{fffd} \\u00e");
    }

    #[test]
    fn ranges_map_to_the_original() {
        let original = r#"a\\\"bc\u0041d"#;
        let text = PlainText::from_escaped(original.as_bytes());
        assert_eq!(text.bytes(), b"a\"bcAd");
        assert_eq!(&original[text.original(&(1..4))], r#"\\\"bc"#);
        assert_eq!(&original[text.original(&(2..5))], r"bc\u0041");
        assert_eq!(text.original(&(6..6)), original.len()..original.len());
        assert_eq!([0, 5, 6, 13].map(|at| text.plain(at)), [0, 2, 3, 5]);
        assert_eq!(text.backslashes(1), 3);
        assert_eq!(text.backslashes(2), 0);
    }

    #[test]
    fn other_escapes_nest() {
        assert_eq!(PlainText::from_percent(b"a%2Fb%252fc%%41%zz").bytes(), b"a/b/c%A%zz");
        let html = PlainText::from_html(b"a&amp;lt;b&#0039;c&#X41;&#x; &amp").expect("holds entities");
        assert_eq!(html.bytes(), b"a<b'cA&#x; &amp");
        assert_eq!(html.original(&(1..2)), 1..9);
        assert!(PlainText::from_html(b"a & b &self &#;").is_none());
        assert_eq!(percent_runs(b"x a%20b y \"c%2f\" 5% z"), [2..7, 11..15]);
    }
}
