//! Digests of prompt blocks without their cache markers.
//!
//! A harness moves its marker with every request, and a message without a marker may become a string instead of
//! blocks. The model sees no difference, so the digest must not change.

use std::hash::{DefaultHasher, Hasher as _};
use std::ops::Range;

/// Frames of a block that contains only a text, as they remain when the text is removed.
const PLAIN: [&[u8]; 6] = [
    br#"{"type":"text","text":}"#,
    br#"{"text":,"type":"text"}"#,
    br#"{"type":"input_text","text":}"#,
    br#"{"text":,"type":"input_text"}"#,
    br#"{"type":"output_text","text":}"#,
    br#"{"text":,"type":"output_text"}"#,
];

/// Incremental digest, for comparison within one process. With 64 bits, a collision in one recording would need
/// billions of blocks.
#[derive(Clone)]
pub(crate) struct Digest(DefaultHasher);

impl Digest {
    pub(crate) fn new() -> Self {
        Self(DefaultHasher::new())
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.write(bytes);
        self
    }

    /// Adds a number. As a separator, it prevents equal digests of differently split bytes.
    pub(crate) fn number(&mut self, number: u64) -> &mut Self {
        self.0.write_u64(number);
        self
    }

    pub(crate) fn finish(&self) -> u64 {
        self.0.finish()
    }

    /// Returns the digest of bytes and their length.
    pub(crate) fn of(bytes: &[u8]) -> u64 {
        Self::new().bytes(bytes).number(bytes.len() as u64).finish()
    }
}

/// Text that can be written in several forms.
#[derive(Clone, Debug)]
pub(crate) struct TextForm {
    /// Range of the string.
    pub(crate) text: Range<usize>,
    /// Range of the string, of its block, or of the list with only that block.
    pub(crate) within: Range<usize>,
}

/// Bytes of a body, and the ranges of its cache markers.
pub(crate) struct MarkedBytes<'b> {
    pub(crate) body: &'b [u8],
    /// Ranges of the markers in ascending order.
    cuts: Vec<Range<usize>>,
}

impl<'b> MarkedBytes<'b> {
    /// Creates the value. `markers` are the ranges of the markers' values.
    pub(crate) fn new(body: &'b [u8], markers: impl Iterator<Item = Range<usize>>) -> Self {
        let mut cuts: Vec<_> = markers.filter_map(|value| member(body, value)).collect();
        cuts.sort_by_key(|cut| cut.start);
        Self { body, cuts }
    }

    /// Returns the bytes of a range without markers, in pieces.
    pub(crate) fn pieces(&self, range: Range<usize>) -> impl Iterator<Item = &'b [u8]> {
        let first = self.cuts.partition_point(|cut| cut.end <= range.start);
        let inside = self.cuts[first..].iter().take_while(move |cut| cut.start < range.end);
        let mut from = range.start;
        let mut cuts = inside.cloned().chain(std::iter::once(range.end..range.end));
        std::iter::from_fn(move || {
            let cut = cuts.next()?;
            let piece = &self.body[from..cut.start.max(from)];
            from = cut.end;
            Some(piece)
        })
    }

    /// Returns whether a value is a part of a marker.
    pub(crate) fn is_marker(&self, value: &Range<usize>) -> bool {
        let first = self.cuts.partition_point(|cut| cut.end < value.end);
        self.cuts.get(first).is_some_and(|cut| cut.start <= value.start && value.end <= cut.end)
    }

    /// Adds a block to a digest and returns its length.
    pub(crate) fn block(&self, digest: &mut Digest, all: Range<usize>, said: Option<TextForm>) -> u64 {
        let holds =
            |outer: &Range<usize>, inner: &Range<usize>| outer.start <= inner.start && inner.end <= outer.end;
        let said = said.filter(|said| holds(&all, &said.within) && holds(&said.within, &said.text));
        let Some(TextForm { text, within }) = said else {
            return self.put(digest, all);
        };
        let mut frame: Vec<u8> = Vec::new();
        for piece in self.pieces(within.start..text.start).chain(self.pieces(text.end..within.end)) {
            frame.extend(piece.iter().filter(|byte| !byte.is_ascii_whitespace()));
        }
        let mut length = 0;
        if !is_plain(&frame) {
            digest.bytes(&frame).number(frame.len() as u64);
            length += frame.len() as u64;
        }
        if within != all {
            length += self.put(digest, all.start..within.start) + self.put(digest, within.end..all.end);
        }
        length + self.put(digest, text)
    }

    fn put(&self, digest: &mut Digest, range: Range<usize>) -> u64 {
        let mut length = 0;
        for piece in self.pieces(range) {
            digest.bytes(piece);
            length += piece.len() as u64;
        }
        digest.number(length);
        length
    }
}

/// Returns whether the bytes around a text say only that it is a text.
fn is_plain(frame: &[u8]) -> bool {
    let listed = frame.strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]"));
    frame.is_empty() || PLAIN.contains(&listed.unwrap_or(frame))
}

/// Returns the range of the object member whose value is at `value`, with its comma.
fn member(body: &[u8], value: Range<usize>) -> Option<Range<usize>> {
    let before = |at: usize| body[..at].iter().rposition(|byte| !byte.is_ascii_whitespace());
    let colon = before(value.start).filter(|at| body[*at] == b':')?;
    let quote = before(colon).filter(|at| body[*at] == b'"')?;
    let start = body[..quote].iter().rposition(|byte| *byte == b'"')?;
    if let Some(comma) = before(start).filter(|at| body[*at] == b',') {
        return Some(comma..value.end);
    }
    let behind = body[value.end..].iter().position(|byte| !byte.is_ascii_whitespace())? + value.end;
    Some(start..if body[behind] == b',' { behind + 1 } else { value.end })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(text: &str, said: &str) -> u64 {
        let marker = text.find("\"cache_control\"").map(|at| {
            let value = at + text[at..].find('{').expect("a value");
            value..value + text[value..].find('}').expect("its end") + 1
        });
        let bytes = MarkedBytes::new(text.as_bytes(), marker.into_iter());
        let said = text.find(said).map(|at| at..at + said.len());
        let mut digest = Digest::new();
        let said = said.map(|said| TextForm { text: said, within: 0..text.len() });
        bytes.block(&mut digest, 0..text.len(), said);
        digest.finish()
    }

    #[test]
    fn a_marker_and_the_form_of_a_text_change_nothing() {
        let plain = digest(r#""hi""#, r#""hi""#);
        for same in [
            r#"{"type":"text","text":"hi"}"#,
            r#"{ "type": "text", "text": "hi" }"#,
            r#"{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}}"#,
            r#"{"cache_control":{"type":"ephemeral"},"type":"text","text":"hi"}"#,
            r#"{"type":"text", "cache_control" : {"type":"ephemeral"} ,"text":"hi"}"#,
        ] {
            assert_eq!(digest(same, r#""hi""#), plain, "{same}");
        }
        for other in [r#"{"type":"text","text":"hi","citations":[]}"#, r#"{"type":"thinking","text":"hi"}"#] {
            assert_ne!(digest(other, r#""hi""#), plain, "{other}");
        }
        assert_ne!(digest(r#""ho""#, r#""ho""#), plain);
    }

    #[test]
    fn binary_blocks_are_hashed_unchanged() {
        let call = r#"{"type":"tool_use","id":"a","input":{"x":1}}"#;
        let marked = r#"{"type":"tool_use","id":"a","input":{"x":1},"cache_control":{"type":"ephemeral"}}"#;
        assert_eq!(digest(call, "nothing"), digest(marked, "nothing"));
        assert_ne!(digest(call, "nothing"), digest(&call.replace('1', "2"), "nothing"));
    }
}
