//! Base64 that was broken into lines: a value in it may go over a line's end.
//!
//! `base64`, `openssl` and mail wrap at 64 to 76 columns. Such lines are joined here, searched, and
//! what is found is led back to where it stands.

use std::ops::Range;

use super::needles::is_base64;
use super::plain::Plain;

/// The narrowest line that is taken for a part of a block: prose has no such words.
pub(super) const NARROWEST: usize = 40;

/// Lines of base64, joined.
#[derive(Debug)]
pub(super) struct Block {
    bytes: Vec<u8>,
    /// Where each line begins, here and in the text.
    lines: Vec<(usize, usize)>,
}

impl Block {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Where a stretch of the block stands in the text, if it goes over a line's end.
    pub(super) fn over_lines(&self, range: &Range<usize>) -> Option<Range<usize>> {
        let line = |at: usize| self.lines.partition_point(|(begin, _)| *begin <= at) - 1;
        let (first, last) = (line(range.start), line(range.end - 1));
        let original = |line: usize, at: usize| self.lines[line].1 + (at - self.lines[line].0);
        (first < last).then(|| original(first, range.start)..original(last, range.end))
    }

    fn add(&mut self, text: &[u8], line: &Range<usize>) {
        self.lines.push((self.bytes.len(), line.start));
        self.bytes.extend_from_slice(&text[line.clone()]);
    }
}

/// All blocks of more than one line: those whose line ends are escaped, and those whose are not.
pub(super) fn blocks(text: &Plain<'_>) -> Vec<Block> {
    let mut blocks = Vec::new();
    let (bytes, raw) = (text.bytes(), text.raw());
    let mut done = 0;
    for escape in text.escapes_behind(NARROWEST) {
        let newline = if bytes[escape] == b'\r' { escape + 1 } else { escape };
        if newline >= done && bytes.get(newline) == Some(&b'\n') {
            done = read(bytes, newline, &mut blocks);
        }
    }
    let mut from = NARROWEST;
    done = 0; // these may stand before those
    while let Some(more) = raw.get(from..).and_then(|rest| memchr::memchr(b'\n', rest)) {
        let newline = from + more;
        let plain = line_before(raw, newline).map(|_| text.plain(newline));
        if let Some(newline) = plain.filter(|newline| *newline >= done) {
            done = read(bytes, newline, &mut blocks);
        }
        // The next line that counts is no shorter.
        from = newline + 1 + NARROWEST;
    }
    blocks
}

/// The base64 that ends with the line, if it is wide enough.
fn line_before(text: &[u8], newline: usize) -> Option<Range<usize>> {
    let end = if text[newline - 1] == b'\r' { newline - 1 } else { newline };
    let width = text[..end].iter().rev().take_while(|byte| is_base64(**byte)).count();
    (width >= NARROWEST).then_some(end - width..end)
}

/// Reads the block whose first line ends with `newline`, if there is one; where its last line begins.
fn read(text: &[u8], newline: usize, blocks: &mut Vec<Block>) -> usize {
    let Some(first) = line_before(text, newline) else { return newline };
    let mut block = Block { bytes: Vec::new(), lines: Vec::new() };
    block.add(text, &first);
    let mut end = newline;
    loop {
        let start = end + 1 + gutter(&text[end + 1..]);
        let width = text[start..].iter().take_while(|byte| is_base64(**byte)).count();
        if width == 0 {
            break;
        }
        block.add(text, &(start..start + width));
        let behind = &text[start + width..];
        let feed = usize::from(behind.starts_with(b"\r\n"));
        if width < NARROWEST || behind.get(feed) != Some(&b'\n') {
            break;
        }
        end = start + width + feed;
    }
    if block.lines.len() > 1 {
        blocks.push(block);
    }
    end + 1
}

/// How much of a line's beginning is no part of it: its indentation, or the number that a tool which
/// shows files puts before each line.
fn gutter(line: &[u8]) -> usize {
    let blank = |from: usize| line[from..].iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    let indent = blank(0);
    let digits = line[indent..].iter().take(9).take_while(|byte| byte.is_ascii_digit()).count();
    let behind = &line[indent + digits..];
    let mark = ["→", "|", ":", "\t"].iter().find(|mark| behind.starts_with(mark.as_bytes()));
    match mark {
        Some(mark) if digits > 0 => {
            let end = indent + digits + mark.len();
            end + blank(end)
        }
        _ => indent,
    }
}
