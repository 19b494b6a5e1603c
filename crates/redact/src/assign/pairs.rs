//! Names and values in separate members, such as `"name"` and `"value"`.

use std::ops::Range;

use super::super::runs::hcl_default;
use super::{AssignedValue, Certainty, Cursor, EndCache, ends_with_ignore_case, is_mixed, is_quote};

/// The maximum distance between the member with the name and the one with the value.
const LONGEST_PAIR: usize = 512;
/// The searched length of a block in HCL.
const LONGEST_BLOCK: usize = 1 << 10;

impl Cursor<'_> {
    /// Reads `"name":"…","value":"…"`, a form part with `name="…"`, or `["name","value"]`.
    pub(super) fn read_pair(&mut self, name: &Range<usize>) -> Option<Vec<AssignedValue>> {
        let start = self.at;
        let is_part = ends_with_ignore_case(&self.bytes[..name.start - 1], b"name=");
        if is_part && let Some(found) = self.read_form_part() {
            return Some(found);
        }
        self.skip_spaces(true);
        let comma = self.peek() == Some(b',');
        if comma {
            self.at += 1;
            self.skip_spaces(true);
        }
        if self.skip_value_key() {
            let quoted = comma;
            return Some(self.read_value(quoted, Certainty::Certain, name));
        }
        if self.is_called(name) && (self.enter_value_before(name) || (comma && self.enter_value_after())) {
            return Some(self.read_value(true, Certainty::ByLooks, name));
        }
        if comma && matches!(self.peek(), Some(b'"' | b'\'')) {
            let found = self.read_string(true, Certainty::ByLooks);
            // The arguments of a call, unlike the items of a list, are a name and its value.
            let is_call = self.bytes[..name.start - 1].trim_ascii_end().ends_with(b"(");
            let strong = |found: &AssignedValue| {
                let value = &self.bytes[found.range.clone()];
                is_mixed(value) && (value.len() >= 16 || (is_call && self.password))
            };
            return Some(found.filter(strong).into_iter().collect());
        }
        self.at = start;
        None
    }

    /// Reads the string after an option in a list of strings: `"--name", "value"`.
    pub(super) fn read_next_argument(&mut self, name: &Range<usize>) -> Option<Vec<AssignedValue>> {
        let quote = self.peek().filter(|byte| is_quote(*byte))?;
        let before = &self.bytes[..name.start];
        let dashes = before.iter().rev().take_while(|byte| **byte == b'-').count();
        if dashes == 0 || before.get(before.len() - dashes - 1) != Some(&quote) {
            return None;
        }
        let start = self.at;
        self.at += 1;
        self.skip_separator();
        if !self.at_quote() {
            self.at = start;
            return None;
        }
        let found = self.read_string(true, Certainty::Certain);
        Some(found.filter(|found| !self.bytes[found.range.clone()].starts_with(b"-")).into_iter().collect())
    }

    /// Reads the default of a variable in HCL: `variable "name" { default = "…" }`.
    pub(super) fn read_default(&mut self, name: &Range<usize>) -> Option<Vec<AssignedValue>> {
        let before = self.bytes[..name.start - 1].trim_ascii_end();
        let near = &self.bytes[self.at..self.bytes.len().min(self.at + LONGEST_BLOCK)];
        if !before.ends_with(b"variable") || !near.trim_ascii_start().starts_with(b"{") {
            return None;
        }
        let block = self.at..self.at + memchr::memchr(b'}', near)?;
        let start = hcl_default(self.bytes, &block)?;
        self.at = start - 1;
        Some(Vec::from_iter(self.read_string(false, Certainty::Certain)))
    }

    /// Returns true if the secret name is the value of a member called `name` or `key`.
    fn is_called(&self, name: &Range<usize>) -> bool {
        let before = self.bytes[..name.start - 1].trim_ascii_end();
        let key = before.strip_suffix(b":").map(<[u8]>::trim_ascii_end).unwrap_or_default();
        [&b"name\""[..], b"key\"", b"Name\"", b"Key\""].iter().any(|called| key.ends_with(called))
    }

    /// Moves to the value if its member is directly before the one with the name.
    fn enter_value_before(&mut self, name: &Range<usize>) -> bool {
        let start = self.at;
        let near = name.start.saturating_sub(LONGEST_PAIR);
        let Some(found) = memchr::memmem::rfind(&self.bytes[near..name.start], b"value\"") else {
            return false;
        };
        self.at = (near + found).saturating_sub(1);
        if self.skip_value_key() && self.at_quote() {
            let value = self.at;
            let whole = self.read_quoted(true, name.start).is_some_and(|(_, whole)| whole);
            // Only the key `name` may be between them.
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

    /// Moves to the value if its member is after the one with the name, in the same object.
    fn enter_value_after(&mut self) -> bool {
        let start = self.at;
        let limit = self.bytes.len().min(start + LONGEST_PAIR);
        while self.at_quote() {
            if self.skip_value_key() {
                return self.at_quote();
            }
            // A key with a string, or a key with a number or a literal.
            if !self.read_quoted(true, limit).is_some_and(|(_, whole)| whole) {
                break;
            }
            self.skip_separator();
            if !self.at_quote() {
                self.at = self.until(16, |byte| !byte.is_ascii_alphanumeric());
                self.skip_separator();
            }
        }
        self.at = start;
        false
    }

    fn skip_separator(&mut self) {
        self.skip_spaces(true);
        if matches!(self.peek(), Some(b':' | b',')) {
            self.at += 1;
            self.skip_spaces(true);
        }
    }

    /// Reads `name: NAME` with `value: …` on the next line.
    pub(super) fn read_next_line(&mut self) -> Vec<AssignedValue> {
        if !matches!(self.peek(), Some(b'\n' | b'\r')) {
            return Vec::new();
        }
        self.skip_spaces(true);
        if !self.skip_value_key() {
            return Vec::new();
        }
        match self.peek() {
            Some(byte) if is_quote(byte) => self.read_string(true, Certainty::Certain).into_iter().collect(),
            _ => self.read_bare(Certainty::ByLooks, |_| false),
        }
    }

    /// Reads `value:` or `value=`, with or without quotes.
    fn skip_value_key(&mut self) -> bool {
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
            self.skip_spaces(true);
            if matches!(self.peek(), Some(b':' | b'=')) {
                self.at += 1;
                self.skip_spaces(true);
                return true;
            }
        }
        self.at = start;
        false
    }

    /// Reads the value of a part in a multipart form, which follows an empty line.
    fn read_form_part(&mut self) -> Option<Vec<AssignedValue>> {
        let near = &self.bytes[self.at..self.bytes.len().min(self.at + 512)];
        let gap = memchr::memmem::find(near, b"\r\n\r\n")?;
        let start = self.at + gap + 4;
        let end = EndCache::find(&self.end_cache.part, start, || {
            let len = memchr::memmem::find(&self.bytes[start..], b"\r\n--");
            len.map_or(self.bytes.len(), |len| start + len)
        });
        let whole = end < self.bytes.len();
        Some(self.check(start..end, Certainty::Certain, whole).into_iter().collect())
    }
}
