//! Tables in CSV, TSV and Markdown with a column that has a secret name.

use std::ops::Range;

use super::{AssignedValue, Certainty, Cursor, Family, SHORTEST_VALUE};
use crate::runs::LONGEST;

const LONGEST_LINE: usize = 512;
const LONGEST_CELL: usize = 40;
const SEPARATORS: &[u8] = b"|\t,;";

impl Cursor<'_> {
    /// Reads the column below the name, if the name is a cell in the header of a table.
    pub(super) fn read_column(&self, name: &Range<usize>) -> Option<Vec<AssignedValue>> {
        let header_end = self.line_end(name.end, None)?;
        if self.bytes.get(header_end) != Some(&b'\n') {
            return None;
        }
        // In JSON, the line end is an escape, and the quotes around the text have fewer backslashes.
        let depth = self.text.backslashes(header_end);
        let start = self.line_start(name.start, depth)?;
        let header = &self.bytes[start..header_end];
        let &separator = SEPARATORS.iter().find(|separator| header.contains(separator))?;
        let count = |line: &[u8]| line.iter().filter(|byte| **byte == separator).count();
        let is_header = header.split(|byte| *byte == separator).all(|cell| is_header_cell(cell, separator));
        let before = self.bytes[..start].strip_suffix(b"\n").unwrap_or_default();
        let previous = memchr::memrchr(b'\n', &before[before.len().saturating_sub(LONGEST_LINE)..]);
        let previous =
            &before[previous.map_or(0, |newline| before.len().saturating_sub(LONGEST_LINE) + newline + 1)..];
        let is_first =
            previous.is_empty() || previous.len() > LONGEST_LINE || count(previous) != count(header);
        let index = count(&self.bytes[start..name.start]);
        if !is_header || !is_first || self.cell(&(start..header_end), separator, index) != Some(name.clone())
        {
            return None;
        }
        let lists_accounts = header.split(|byte| *byte == separator).any(is_about_account);
        let limit = self.bytes.len().min(name.end + LONGEST);
        let mut found = Vec::new();
        let mut rows = 0;
        let mut from = header_end + 1;
        while from < limit
            && let Some(end) = self.line_end(from, Some(depth))
        {
            let row = &self.bytes[from..end];
            if count(row) != count(header) {
                break;
            }
            rows += 1;
            let cell = self.cell(&(from..end), separator, index);
            found.extend(cell.and_then(|cell| self.column_value(cell, lists_accounts)));
            if self.bytes.get(end) != Some(&b'\n') {
                break;
            }
            from = end + 1;
        }
        (rows > 0).then_some(found)
    }

    /// Returns the value of a cell, if it is a secret. Sentences are not: they describe the column. A word is one if
    /// the table lists accounts.
    fn column_value(&self, cell: Range<usize>, lists_accounts: bool) -> Option<AssignedValue> {
        let value = &self.bytes[cell.clone()];
        let is_letters = value.iter().all(u8::is_ascii_alphabetic);
        let is_password = self.family == Family::Password
            && value.len() >= SHORTEST_VALUE
            && (!is_letters || (lists_accounts && !is_about_password(value)))
            && value.iter().any(u8::is_ascii_alphanumeric);
        let is_word = !value.iter().any(u8::is_ascii_whitespace);
        let certainty = if is_password { Certainty::Certain } else { Certainty::ByLooks };
        is_word.then(|| self.check(cell, certainty, true)).flatten()
    }

    /// Returns the range of a cell without the spaces and quotes around it.
    fn cell(&self, line: &Range<usize>, separator: u8, index: usize) -> Option<Range<usize>> {
        let mut start = line.start;
        let cell = self.bytes[line.clone()].split(|byte| *byte == separator).enumerate().find_map(
            |(at, cell)| {
                let range = start..start + cell.len();
                start = range.end + 1;
                (at == index).then_some(range)
            },
        )?;
        let is_edge = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b'`' | b'*');
        let bytes = &self.bytes[cell.clone()];
        let first = bytes.iter().position(|byte| !is_edge(byte))?;
        let last = bytes.iter().rposition(|byte| !is_edge(byte))?;
        Some(cell.start + first..cell.start + last + 1)
    }

    /// Returns the end of the line, or of the JSON string that contains it.
    fn line_end(&self, from: usize, depth: Option<usize>) -> Option<usize> {
        let rest = self.bytes.get(from..self.bytes.len().min(from + LONGEST_LINE))?;
        let ends = |&(at, byte): &(usize, &u8)| *byte == b'\n' || self.is_outer_quote(from + at, depth);
        match rest.iter().enumerate().find(ends) {
            Some((at, _)) => Some(from + at),
            None => (from + rest.len() == self.bytes.len()).then_some(self.bytes.len()),
        }
    }

    fn line_start(&self, from: usize, depth: usize) -> Option<usize> {
        let near = from.saturating_sub(LONGEST_LINE);
        let starts = |&at: &usize| self.bytes[at] == b'\n' || self.is_outer_quote(at, Some(depth));
        match (near..from).rev().find(starts) {
            Some(at) => Some(at + 1),
            None => (near == 0).then_some(0),
        }
    }

    fn is_outer_quote(&self, at: usize, depth: Option<usize>) -> bool {
        self.bytes[at] == b'"' && depth.is_some_and(|depth| self.text.backslashes(at) < depth)
    }
}

/// Returns true for a cell that may be in a header: short, and without the punctuation of sentences and code.
fn is_header_cell(cell: &[u8], separator: u8) -> bool {
    let cell = cell.trim_ascii();
    let words = cell.split(u8::is_ascii_whitespace).count();
    let is_text =
        |byte: &u8| byte.is_ascii_alphanumeric() || b" _-/()\"'`*#".contains(byte) || !byte.is_ascii();
    let fits = cell.len() <= LONGEST_CELL && cell.iter().all(is_text);
    fits && (words <= 2 || separator == b'|' || separator == b'\t')
}

/// Names of columns that identify an account.
const ACCOUNTS: &[&str] =
    &["user", "username", "login", "email", "account", "host", "server", "service", "database", "name", "id"];

fn is_about_account(cell: &[u8]) -> bool {
    let words = cell.split(|byte| !byte.is_ascii_alphanumeric());
    words.into_iter().any(|word| ACCOUNTS.iter().any(|account| word.eq_ignore_ascii_case(account.as_bytes())))
}

/// Words in the place of a password.
const ABOUT_PASSWORDS: &[&str] = &[
    "text",
    "varchar",
    "char",
    "bytes",
    "masked",
    "unknown",
    "empty",
    "blank",
    "plain",
    "hashed",
    "encrypted",
    "unset",
    "same",
    "forgotten",
    "prompt",
    "ask",
    "never",
    "always",
    "changed",
    "strong",
    "weak",
    "valid",
];

fn is_about_password(word: &[u8]) -> bool {
    ABOUT_PASSWORDS.iter().any(|about| word.eq_ignore_ascii_case(about.as_bytes()))
        || crate::names::family(word).is_some()
}
