//! Base64 in lines: a value may continue after a line end.
//!
//! `base64`, `openssl` and mail wrap at 64 to 76 columns. The lines are joined and searched, and matches are mapped
//! to the text.

use std::ops::Range;

use super::needles::is_base64;
use super::plain::PlainText;

/// The minimum width of a line. Prose contains no words of this length.
pub(super) const NARROWEST: usize = 40;

/// Joined lines of base64.
#[derive(Debug)]
pub(super) struct Base64Block {
    bytes: Vec<u8>,
    /// The start of each line in `bytes` and in the text.
    lines: Vec<(usize, usize)>,
}

impl Base64Block {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Maps a range of the block to the text, if it continues after a line end.
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

/// Finds all blocks of several lines, with escaped or raw line ends.
pub(super) fn find_blocks(text: &PlainText<'_>) -> Vec<Base64Block> {
    let mut blocks = Vec::new();
    let (bytes, raw) = (text.bytes(), text.raw());
    let mut done = 0;
    for escape in text.escapes_behind(NARROWEST) {
        let newline = if bytes[escape] == b'\r' { escape + 1 } else { escape };
        if newline >= done && bytes.get(newline) == Some(&b'\n') {
            done = read_block(bytes, newline, &mut blocks);
        }
    }
    let mut from = NARROWEST;
    done = 0; // raw line ends may be before escaped ones
    while let Some(more) = raw.get(from..).and_then(|rest| memchr::memchr(b'\n', rest)) {
        let newline = from + more;
        let plain = line_before(raw, newline).map(|_| text.plain(newline));
        if let Some(newline) = plain.filter(|newline| *newline >= done) {
            done = read_block(bytes, newline, &mut blocks);
        }
        // A line with the minimum width cannot end earlier.
        from = newline + 1 + NARROWEST;
    }
    blocks
}

/// Returns the base64 before a line end, if it has the minimum width.
fn line_before(text: &[u8], newline: usize) -> Option<Range<usize>> {
    let end = if text[newline - 1] == b'\r' { newline - 1 } else { newline };
    let width = text[..end].iter().rev().take_while(|byte| is_base64(**byte)).count();
    (width >= NARROWEST).then_some(end - width..end)
}

/// Reads the block whose first line ends at `newline`. Returns the start of its last line.
fn read_block(text: &[u8], newline: usize, blocks: &mut Vec<Base64Block>) -> usize {
    let Some(first) = line_before(text, newline) else { return newline };
    let mut block = Base64Block { bytes: Vec::new(), lines: Vec::new() };
    block.add(text, &first);
    let mut end = newline;
    loop {
        let start = end + 1 + line_prefix_length(&text[end + 1..]);
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

/// Returns the length of a line's prefix: its indentation, or the line number of a tool that shows files.
fn line_prefix_length(line: &[u8]) -> usize {
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
