//! Decoder for server-sent events that works on bytes as they arrive.
//!
//! [`SseDecoder`] returns the same frames however the bytes are split. A frame knows the offsets of its fields in
//! the stream, so that a part of its data can be edited in place.

use std::ops::Range;

/// One event of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The last `event:` field, or the empty string.
    pub event: String,
    /// The `data:` lines joined by newlines.
    pub data: String,
    /// The range of each data line in the stream, without field name and line end.
    pub data_spans: Vec<Range<usize>>,
    /// The last `id:` field.
    pub id: Option<String>,
    /// The last `retry:` field with a number.
    pub retry: Option<u64>,
    /// The range from the first byte of the first line to the last byte of the last line.
    pub span: Range<usize>,
    /// True if some bytes were not UTF-8 and are U+FFFD in the fields above. Such a frame cannot be edited through
    /// `data`.
    pub lossy: bool,
}

impl Frame {
    /// Maps an offset of `data` to the stream. The newline between two data lines is mapped to the end of the
    /// first.
    pub fn stream_offset(&self, mut offset: usize) -> usize {
        for span in &self.data_spans {
            if offset <= span.len() {
                return span.start + offset;
            }
            offset -= span.len() + 1;
        }
        self.span.end
    }
}

/// Decodes a byte stream into [`Frame`]s.
#[derive(Debug, Default)]
pub struct SseDecoder {
    /// The unfinished line.
    line: Vec<u8>,
    /// Stream offset of the first byte of `line`.
    line_start: usize,
    /// The number of bytes so far.
    seen: usize,
    /// True if the last byte was a CR. A following LF belongs to it.
    after_cr: bool,
    frame: Frame,
    /// True if a line of the frame has been read.
    begun: bool,
    any_field: bool,
}

impl SseDecoder {
    /// Creates a decoder at the start of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Decodes the next bytes and returns the frames that they complete.
    pub fn push(&mut self, mut bytes: &[u8]) -> Vec<Frame> {
        let mut frames = Vec::new();
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_cr) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                self.seen += 1;
                self.line_start = self.seen;
                continue;
            }
            let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) else {
                self.line.extend_from_slice(bytes);
                self.seen += bytes.len();
                break;
            };
            self.line.extend_from_slice(&bytes[..end]);
            self.after_cr = bytes[end] == b'\r';
            self.seen += end + 1;
            bytes = &bytes[end + 1..];
            frames.extend(self.end_line());
        }
        frames
    }

    /// Ends the stream and returns the frame that has no closing empty line, if there is one. Browsers drop such a
    /// frame, but a recorder needs it.
    pub fn finish(mut self) -> Option<Frame> {
        if !self.line.is_empty() {
            self.seen += 1; // as if the line had ended
            self.end_line();
            self.frame.span.end = self.seen - 1;
        }
        (self.begun && self.any_field).then_some(self.frame)
    }

    fn end_line(&mut self) -> Option<Frame> {
        let mut line = std::mem::take(&mut self.line);
        let mut start = std::mem::replace(&mut self.line_start, self.seen);
        if start == 0 && line.starts_with(b"\xef\xbb\xbf") {
            line.drain(..3);
            start = 3;
        }
        if line.is_empty() {
            let frame = std::mem::take(&mut self.frame);
            self.begun = false;
            return std::mem::take(&mut self.any_field).then_some(frame);
        }
        if !std::mem::replace(&mut self.begun, true) {
            self.frame.span = start..start;
        }
        self.frame.span.end = start + line.len();
        self.field(&line, start);
        line.clear();
        self.line = line; // reuse the allocation
        None
    }

    fn field(&mut self, line: &[u8], start: usize) {
        let colon = memchr::memchr(b':', line);
        let (name, mut value_at) = match colon {
            Some(0) => return, // a comment
            Some(colon) => (&line[..colon], colon + 1),
            None => (line, line.len()),
        };
        if line.get(value_at) == Some(&b' ') {
            value_at += 1;
        }
        let value = String::from_utf8_lossy(&line[value_at..]);
        self.frame.lossy |= matches!(value, std::borrow::Cow::Owned(_));
        match name {
            b"event" => self.frame.event = value.into_owned(),
            b"data" => {
                if !self.frame.data_spans.is_empty() {
                    self.frame.data.push('\n');
                }
                self.frame.data.push_str(&value);
                self.frame.data_spans.push(start + value_at..start + line.len());
            }
            b"id" if !value.contains('\0') => self.frame.id = Some(value.into_owned()),
            b"retry" => self.frame.retry = value.parse().ok().or(self.frame.retry),
            _ => return,
        }
        self.any_field = true;
    }
}

/// Decodes a complete stream into its frames and an unfinished last one.
pub fn decode(stream: &[u8]) -> (Vec<Frame>, Option<Frame>) {
    let mut decoder = SseDecoder::new();
    let frames = decoder.push(stream);
    (frames, decoder.finish())
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    use super::*;

    fn check(stream: &[u8], expected: Expect) {
        let (frames, rest) = decode(stream);
        let mut out = String::new();
        for (mark, frame) in frames.iter().map(|f| ("", f)).chain(rest.iter().map(|f| ("unfinished ", f))) {
            let Frame { event, data, data_spans, id, retry, span, lossy } = frame;
            out += &format!("{mark}{span:?} {event:?} {data:?} at {data_spans:?}");
            id.iter().for_each(|id| out += &format!(" id={id}"));
            retry.iter().for_each(|ms| out += &format!(" retry={ms}"));
            out += if *lossy { " lossy\n" } else { "\n" };
        }
        expected.assert_eq(&out);
    }

    const FIXTURES: &[&[u8]] = &[
        b"event: a\ndata: 1\n\ndata: 2\n\n",
        b"\xef\xbb\xbfevent:a\r\ndata:{\"x\":\r\ndata: 1}\r\n\r\n: ping\r\n\r\ndata\r\n\r\n",
        b"data: a\rdata: b\r\rid: 7\rretry: 10\rretry: x\rdata:  two\r\r",
        b": only a comment\n\nevent: no data\n\nfoo: bar\n\ndata: caf\xc3\xa9 \xf0\x9f\x98\x80\n\n",
        b"data: bad \xff\xc3 bytes\n\nid: a\0b\ndata: x\n\ndata: never finished",
        b"\n\n\r\n\rdata: x\n\r\ndata: y\r\n\n",
        b"data: [DONE]\n",
    ];

    #[test]
    fn fields_comments_and_line_ends() {
        check(
            b"\xef\xbb\xbfevent:a\r\ndata:{\"x\":\r\ndata: 1}\r\n\r\n: ping\r\n\r\ndata\r\n\r\n",
            expect![[r#"
                3..32 "a" "{\"x\":\n1}" at [17..22, 30..32]
                46..50 "" "" at [50..50]
            "#]],
        );
    }

    #[test]
    fn a_truncated_frame_is_unfinished() {
        check(
            b"data: a\n\nevent: e\ndata: b",
            expect![[r#"
            0..7 "" "a" at [6..7]
            unfinished 9..25 "e" "b" at [24..25]
        "#]],
        );
    }

    #[test]
    fn bytes_that_are_not_utf8_mark_the_frame() {
        check(
            b"data: x\xff\n\n",
            expect![[r#"
            0..8 "" "x�" at [6..8] lossy
        "#]],
        );
    }

    #[test]
    fn every_cut_gives_the_same_frames() {
        for stream in FIXTURES {
            let whole = decode(stream);
            for first in 0..=stream.len() {
                for second in first..=stream.len() {
                    let mut decoder = SseDecoder::new();
                    let mut frames = decoder.push(&stream[..first]);
                    frames.extend(decoder.push(&stream[first..second]));
                    frames.extend(decoder.push(&stream[second..]));
                    assert_eq!(
                        (frames, decoder.finish()),
                        whole,
                        "cut at {first} and {second} of {stream:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn data_is_found_again_in_the_stream() {
        for stream in FIXTURES {
            for frame in decode(stream).0.iter().filter(|frame| !frame.lossy) {
                for (at, byte) in frame.data.bytes().enumerate().filter(|(_, byte)| *byte != b'\n') {
                    assert_eq!(stream[frame.stream_offset(at)], byte);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_cut_anywhere(stream in "[\r\n: adt\u{e9}]{0,60}", cuts in prop::collection::vec(0usize..200, 0..8)) {
            let bytes = stream.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.sort_unstable();
            let mut decoder = SseDecoder::new();
            let mut frames = Vec::new();
            let mut from = 0;
            for cut in cuts.into_iter().chain([bytes.len()]) {
                frames.extend(decoder.push(&bytes[from..cut]));
                from = cut;
            }
            prop_assert_eq!((frames, decoder.finish()), decode(bytes));
        }
    }
}
