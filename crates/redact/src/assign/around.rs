//! Syntax between a name and its value in code, markup and settings.

use std::ops::Range;

use super::{AssignedValue, Certainty, Cursor, is_line_start, is_quote, is_space, link};

const LONGEST_TAG: usize = 256;
const LONGEST_TYPE: usize = 64;
/// The minimum length of a token in a sentence.
const SHORTEST_SEEN: usize = 16;

/// Wrappers that leave a string unchanged.
const WRAPS: &[&str] = &[
    "Some(",
    "String::from(",
    "new String(",
    "SecretString::from(",
    "SecretString::new(",
    "Secret::new(",
    "SecretStr(",
];

impl Cursor<'_> {
    /// Moves to the value of an element (`<name>…`, `<x:name a="b">…`) and returns the byte that ends it.
    pub(super) fn enter_element(&mut self, name: &Range<usize>) -> Option<u8> {
        let before = &self.bytes[..name.start];
        let space = before.strip_suffix(b":").map(|before| {
            let prefix = before.iter().rev().take(32).take_while(|byte| byte.is_ascii_alphanumeric()).count();
            &before[..before.len() - prefix]
        });
        if !space.unwrap_or(before).ends_with(b"<") {
            return None;
        }
        let inside = self.until(LONGEST_TAG, |byte| matches!(byte, b'>' | b'<'));
        let attributes = &self.bytes[self.at..inside];
        let is_tag = attributes.is_empty() || (is_space(attributes[0]) && !attributes.ends_with(b"/"));
        if self.bytes.get(inside) != Some(&b'>') || !is_tag {
            return None;
        }
        self.at = inside + 1;
        let as_it_is = b"<![CDATA[";
        if self.bytes[self.at..].starts_with(as_it_is) {
            self.at += as_it_is.len();
            return Some(b']');
        }
        Some(b'<')
    }

    /// Reads the text of an element whose attribute or key has the name: `<string name="api_key">…`,
    /// `<key>api_key</key> <string>…`.
    pub(super) fn read_text_of_element(&mut self, quoted: bool) -> Option<Vec<AssignedValue>> {
        let start = self.at;
        if !quoted {
            let behind = self.bytes[self.at..].strip_prefix(b"</key>")?.trim_ascii_start();
            let value = behind.strip_prefix(b"<string>")?;
            self.at = self.bytes.len() - value.len();
        } else if self.bytes[self.at..].starts_with(b">") {
            self.at += 1;
        } else {
            return None;
        }
        let found = self.read_bare(Certainty::ByLooks, |byte| byte == b'<');
        if self.peek() != Some(b'<') && found.is_empty() {
            self.at = start;
        }
        Some(found)
    }

    /// Reads the argument of a call that sets a password: `setPassword("…")`.
    pub(super) fn read_call(&mut self, name: &Range<usize>) -> Option<Vec<AssignedValue>> {
        if self.peek() != Some(b'(') {
            return None;
        }
        let is_password = self.password && !self.bytes[name.clone()].starts_with(b"get");
        self.at += 1;
        let found = match self.peek() {
            Some(byte) if is_password && is_quote(byte) => self.read_string(false, Certainty::ByLooks),
            _ => None,
        };
        Some(Vec::from_iter(found))
    }

    /// Reads the value in a sentence (`the token is …`, `password -> …`), in quotes or a tab after its name, and in a
    /// line that consists of a name and its value.
    pub(super) fn read_sentence(&mut self, name: &Range<usize>) -> Option<Vec<AssignedValue>> {
        let behind = &self.bytes[name.end..];
        let is_apart = self.at > name.end;
        let is_sign = matches!(self.peek(), Some(b':' | b'='));
        let is_line = is_apart && !is_sign && self.password && is_line_start(self.bytes, name.start);
        if let Some(length) = link(behind) {
            self.at = name.end + length;
        } else if !(is_apart && (self.at_quote() || behind.starts_with(b"\t") || is_line)) {
            return None;
        }
        while matches!(self.peek(), Some(b'*' | b' ')) {
            self.at += 1;
        }
        let found = match self.peek() {
            Some(byte) if is_quote(byte) => Vec::from_iter(self.read_string(false, Certainty::ByLooks)),
            _ => self.read_bare(Certainty::ByLooks, |byte| matches!(byte, b',' | b')' | b'*')),
        };
        let is_strong = |found: &AssignedValue| {
            let ends_line =
                self.bytes.get(found.range.end).is_none_or(|byte| matches!(byte, b'\n' | b'\r' | b'"'));
            if is_line { ends_line } else { self.password || found.range.len() >= SHORTEST_SEEN }
        };
        Some(found.into_iter().filter(is_strong).collect())
    }

    /// Skips the type of a declaration: `name: &str = "…"`.
    pub(super) fn skip_type(&mut self) {
        let is_type = |byte: u8| byte.is_ascii_alphanumeric() || b"_&<>[]:?|. ".contains(&byte);
        let end = self.until(LONGEST_TYPE, |byte| !is_type(byte));
        let behind = &self.bytes[end.min(self.bytes.len())..];
        let gap = behind.iter().skip(1).take_while(|byte| **byte == b' ').count();
        let string = behind.starts_with(b"=") && behind.get(1 + gap).copied().is_some_and(is_quote);
        if string && end > self.at {
            self.at = end + 1 + gap;
        }
    }

    /// Skips tags and anchors of YAML (`!!str`, `&anchor`) and the mark of a block on the next lines.
    pub(super) fn skip_yaml_marks(&mut self) {
        if matches!(self.peek(), Some(b'!' | b'&')) {
            let end =
                self.until(LONGEST_TYPE, |byte| !(byte.is_ascii_alphanumeric() || b"!&_-".contains(&byte)));
            if self.bytes.get(end) == Some(&b' ') {
                self.at = end;
                self.skip_spaces(false);
            }
        }
        if matches!(self.peek(), Some(b'|' | b'>')) {
            let end = self.until(4, |byte| !matches!(byte, b'|' | b'>' | b'-' | b'+' | b'0'..=b'9'));
            if matches!(self.bytes.get(end), Some(b'\n' | b'\r')) {
                self.at = end;
                self.skip_spaces(true);
            }
        }
    }

    /// Skips a wrapper around a string, and two of three quotes.
    pub(super) fn skip_wrapper(&mut self) {
        let rest = &self.bytes[self.at..];
        let wrap = WRAPS.iter().find(|wrap| rest.starts_with(wrap.as_bytes())).map_or(0, |wrap| wrap.len());
        if rest.get(wrap).copied().is_some_and(is_quote) {
            self.at += wrap;
        }
        if let Some(&[first, second, third, ..]) = self.bytes.get(self.at..)
            && is_quote(first)
            && first == second
            && second == third
        {
            self.at += 2;
        }
    }

    /// Skips an escape sequence for colour.
    pub(super) fn skip_colour(&mut self) {
        if self.bytes[self.at..].starts_with(b"\x1b[") {
            let parameters = self.bytes[self.at + 2..].iter().take_while(|byte| matches!(byte, 0x30..=0x3f));
            self.at = self.bytes.len().min(self.at + 2 + parameters.count() + 1);
        }
    }

    /// Skips the prefix of a string in code: `b"…"`, `rf'…'`.
    pub(super) fn skip_string_prefix(&mut self) {
        let letters =
            self.bytes[self.at..].iter().take(2).take_while(|byte| matches!(byte, b'b' | b'f' | b'r' | b'u'));
        let end = self.at + letters.count();
        if self.bytes.get(end).is_some_and(|&byte| is_quote(byte)) {
            self.at = end;
        }
    }
}
