//! Where a name and its value stand apart, each under a word that says which it is.

use std::ops::Range;

use super::{Assigned, Cursor, Ends, Sure, Tail as _, is_quote, mixed};

/// As far as a member with a value is looked for around the one with its name.
const LONGEST_PAIR: usize = 512;

impl Cursor<'_> {
    /// `"name":"…","value":"…"`, `name="…"` of a form with its value below, `["name","value"]`.
    pub(super) fn in_a_pair(&mut self, name: &Range<usize>) -> Option<Vec<Assigned>> {
        let start = self.at;
        let is_part = self.bytes[..name.start - 1].to_ascii_lowercase_tail(5).ends_with(b"name=");
        if is_part && let Some(found) = self.form_part() {
            return Some(found);
        }
        self.spaces(true);
        let comma = self.peek() == Some(b',');
        if comma {
            self.at += 1;
            self.spaces(true);
        }
        if self.value_word() {
            let quoted = comma;
            return Some(self.value(quoted, Sure::Yes, name));
        }
        if self.is_called(name) && (self.value_before(name) || (comma && self.value_behind())) {
            return Some(self.value(true, Sure::ByLooks, name));
        }
        if comma && matches!(self.peek(), Some(b'"' | b'\'')) {
            let found = self.string(true, Sure::ByLooks);
            let strong =
                |found: &Assigned| found.range.len() >= 16 && mixed(&self.bytes[found.range.clone()]);
            return Some(found.filter(strong).into_iter().collect());
        }
        self.at = start;
        None
    }

    /// Whether the name is what a member called `name` or `key` says.
    fn is_called(&self, name: &Range<usize>) -> bool {
        let before = self.bytes[..name.start - 1].trim_ascii_end();
        let key = before.strip_suffix(b":").map(<[u8]>::trim_ascii_end).unwrap_or_default();
        [&b"name\""[..], b"key\"", b"Name\"", b"Key\""].iter().any(|called| key.ends_with(called))
    }

    /// Goes to the value where its member stands right before that with the name.
    fn value_before(&mut self, name: &Range<usize>) -> bool {
        let start = self.at;
        let near = name.start.saturating_sub(LONGEST_PAIR);
        let Some(found) = memchr::memmem::rfind(&self.bytes[near..name.start], b"value\"") else {
            return false;
        };
        self.at = (near + found).saturating_sub(1);
        if self.value_word() && self.at_quote() {
            let value = self.at;
            let whole = self.quoted(true, name.start).is_some_and(|(_, whole)| whole);
            // Nothing but the key of the name may stand between them.
            let between = self.bytes.get(self.at..name.start - 1).unwrap_or_default();
            let quotes = between.iter().filter(|byte| is_quote(**byte)).count();
            if whole && between.trim_ascii_start().starts_with(b",") && quotes == 2 {
                self.at = value;
                return true;
            }
        }
        self.at = start;
        false
    }

    /// Goes to the value where other members of the same object stand before it.
    fn value_behind(&mut self) -> bool {
        let start = self.at;
        let limit = self.bytes.len().min(start + LONGEST_PAIR);
        while self.at_quote() {
            if self.value_word() {
                return self.at_quote();
            }
            // A key and a string, or a key and a number or a word.
            if !self.quoted(true, limit).is_some_and(|(_, whole)| whole) {
                break;
            }
            self.separator();
            if !self.at_quote() {
                self.at = self.until(16, |byte| !byte.is_ascii_alphanumeric());
                self.separator();
            }
        }
        self.at = start;
        false
    }

    fn separator(&mut self) {
        self.spaces(true);
        if matches!(self.peek(), Some(b':' | b',')) {
            self.at += 1;
            self.spaces(true);
        }
    }

    /// `name: NAME` with `value: …` on the next line.
    pub(super) fn listed(&mut self) -> Vec<Assigned> {
        if !matches!(self.peek(), Some(b'\n' | b'\r')) {
            return Vec::new();
        }
        self.spaces(true);
        if !self.value_word() {
            return Vec::new();
        }
        match self.peek() {
            Some(byte) if is_quote(byte) => self.string(true, Sure::Yes).into_iter().collect(),
            _ => self.bare(Sure::ByLooks, |_| false),
        }
    }

    /// Reads `value:` or `value=`, with or without quotes around the word.
    fn value_word(&mut self) -> bool {
        let start = self.at;
        if self.at_quote() {
            self.at += 1;
        }
        let is_value = self.bytes[self.at..].get(..5).is_some_and(|word| word.eq_ignore_ascii_case(b"value"));
        if is_value {
            self.at += 5;
            if self.at_quote() {
                self.at += 1;
            }
            self.spaces(true);
            if matches!(self.peek(), Some(b':' | b'=')) {
                self.at += 1;
                self.spaces(true);
                return true;
            }
        }
        self.at = start;
        false
    }

    /// The value of a multipart form's part stands behind an empty line.
    fn form_part(&mut self) -> Option<Vec<Assigned>> {
        let near = &self.bytes[self.at..self.bytes.len().min(self.at + 512)];
        let gap = memchr::memmem::find(near, b"\r\n\r\n")?;
        let start = self.at + gap + 4;
        let end = Ends::find(&self.ends.part, start, || {
            let len = memchr::memmem::find(&self.bytes[start..], b"\r\n--");
            len.map_or(self.bytes.len(), |len| start + len)
        });
        let whole = end < self.bytes.len();
        Some(self.checked(start..end, Sure::Yes, whole).into_iter().collect())
    }
}
