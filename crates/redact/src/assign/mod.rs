//! Finds the value of a name: `"name": "value"`, `NAME=value`, `name: value` and similar forms.
//!
//! The search works on unescaped text (see [`PlainText`]), in which JSON looks the same at every depth. Quotes
//! belong together if the same number of backslashes is before them.

mod around;
mod pairs;
mod tables;

use std::cell::Cell;
use std::ops::Range;

use super::looks::is_path;
use super::names::{self, Family};
use super::plain::PlainText;
use super::runs::{LONGEST, is_mixed};
use super::values::is_word;
use super::{examples, looks, placeholder};

/// The value of a secret name.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AssignedValue {
    /// The secret, without quotes and without `Bearer `.
    pub(super) range: Range<usize>,
    /// The quote of the name, if the value is a number in JSON. A placeholder needs quotes of the same depth.
    pub(super) quote: Option<Range<usize>>,
    /// True if the end of the value was found. False if it may be truncated.
    pub(super) whole: bool,
}

/// The certainty that a value was found, and not prose or code.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Certainty {
    /// The syntax is unambiguous: every value is a secret.
    Certain,
    /// Only a value that looks like a secret is one.
    ByLooks,
}

/// Returns true if the name that ends at `end` may have a value. A fast check before the full one.
pub(super) fn may_follow(text: &[u8], end: usize) -> bool {
    let behind = text[end..].iter().take(8).find(|byte| !matches!(byte, b' ' | b'\t'));
    behind.is_some_and(|byte| leads_to_value(*byte))
        || text.get(end) == Some(&b'\t')
        || link(&text[end..]).is_some()
}

/// Words between a name and its value in a sentence.
const LINKS: &[&str] = &[" is ", " was ", " is: ", " provided: ", " → ", " -> "];

fn link(behind: &[u8]) -> Option<usize> {
    LINKS.iter().find(|link| behind.starts_with(link.as_bytes())).map(|link| link.len())
}

/// Returns true if only a space may separate the name at `start` from its value: after an option, in an element
/// with attributes, or in a command that sets a variable.
pub(super) fn may_stand_apart(text: &[u8], start: usize) -> bool {
    let is_option =
        text[start..].starts_with(b"--") || (text[start..].starts_with(b"-") && is_after_gap(text, start));
    is_option || text[..start].ends_with(b"<") || is_set(&text[..start]) || is_line_start(text, start)
}

/// Returns true at the start of a word of a command.
fn is_after_gap(text: &[u8], at: usize) -> bool {
    at.checked_sub(1).is_none_or(|before| matches!(text[before], b' ' | b'\t' | b'\n' | b'"'))
}

/// Returns true at the first word of a line.
fn is_line_start(text: &[u8], at: usize) -> bool {
    let indent = text[..at].iter().rev().take(LONGEST_INDENT).take_while(|byte| **byte == b' ').count();
    at == indent || matches!(text[at - indent - 1], b'\n' | b'"')
}

const LONGEST_INDENT: usize = 16;

/// Returns true if a text ends with the dashes of an option.
fn ends_option(before: &[u8]) -> bool {
    let dashes = before.iter().rev().take_while(|byte| **byte == b'-').count();
    dashes >= 2 || (dashes == 1 && is_after_gap(before, before.len() - 1))
}

/// Commands that set a variable to the next word.
const SETS: &[&str] = &[
    "ENV ",
    "setenv ",
    "set -x ",
    "set -gx ",
    "set -Ux ",
    "#define ",
    "setx ",
    "setx /M ",
    "config set ",
    "secrets set ",
];

fn is_set(before: &[u8]) -> bool {
    before.ends_with(b" ") && SETS.iter().any(|set| before.ends_with(set.as_bytes()))
}

/// Returns true if a name may continue with `byte`, or if a value may follow after it.
pub(super) fn may_continue_with(byte: u8) -> bool {
    names::is_name(byte) || matches!(byte, b' ' | b'\t') || leads_to_value(byte)
}

fn leads_to_value(byte: u8) -> bool {
    matches!(
        byte,
        b':' | b'=' | b'"' | b'\'' | b'`' | b']' | b'>' | b',' | b';' | b'|' | b'\r' | b'\n' | b'(' | b'<'
    )
}

/// Cached ends of lines and of form parts. Without the cache, a line with a hundred thousand names would be
/// searched as many times.
#[derive(Debug, Default)]
pub(super) struct EndCache {
    line: Cell<Option<(usize, usize)>>,
    part: Cell<Option<(usize, usize)>>,
}

impl EndCache {
    /// Returns the cached end if it is valid for `at`. Otherwise runs `search`.
    fn find(known: &Cell<Option<(usize, usize)>>, at: usize, search: impl FnOnce() -> usize) -> usize {
        if let Some((_, end)) = known.get().filter(|(from, end)| (*from..=*end).contains(&at)) {
            return end;
        }
        let end = search();
        known.set(Some((at, end)));
        end
    }
}

/// Finds the values of the name in the given range.
pub(super) fn find_values(
    text: &PlainText<'_>,
    name: &Range<usize>,
    family: Family,
    form: bool,
    end_cache: &EndCache,
) -> Vec<AssignedValue> {
    let word = &text.bytes()[name.clone()];
    let password = family == Family::Password || names::is_password(word);
    // `pass: build2024 done` is no password, unlike `db_pass: build2024`.
    let is_bare = family == Family::Weak && word.iter().all(u8::is_ascii_alphabetic);
    let mut cursor = Cursor { text, bytes: text.bytes(), at: name.end, family, password, is_bare, end_cache };
    let found = cursor.read(name, form);
    found.into_iter().filter(|found| !found.range.is_empty()).collect()
}

/// Returns true if the value of a secret name is a secret.
pub(super) fn is_secret(name: &[u8], family: Family, value: &[u8]) -> bool {
    let text = PlainText::from_escaped(b"");
    let password = names::is_password(name);
    let cursor = Cursor {
        text: &text,
        bytes: value,
        at: 0,
        family,
        password,
        is_bare: false,
        end_cache: &EndCache::default(),
    };
    cursor.check(0..value.len(), Certainty::Certain, true).is_some()
}

struct Cursor<'t> {
    text: &'t PlainText<'t>,
    bytes: &'t [u8],
    at: usize,
    family: Family,
    /// True for a password, which may be a word with digits.
    password: bool,
    /// True if the name is one ambiguous word. Its value must end its line or its string.
    is_bare: bool,
    end_cache: &'t EndCache,
}

impl Cursor<'_> {
    fn read(&mut self, name: &Range<usize>, form: bool) -> Vec<AssignedValue> {
        let before = name.start.checked_sub(1).map(|at| self.bytes[at]);
        let quoted = before.is_some_and(is_quote) && self.peek() == before;
        if let Some(found) = self.read_column(name) {
            return found;
        }
        if quoted {
            self.at += 1;
            if let Some(found) = self.read_default(name).or_else(|| self.read_pair(name)) {
                return found;
            }
        }
        if let Some(found) = self.read_text_of_element(quoted) {
            return found;
        }
        if !quoted && let Some(found) = self.read_call(name) {
            return found;
        }
        if !quoted && let Some(end) = self.enter_element(name) {
            return self.read_bare(Certainty::ByLooks, |byte| byte == end);
        }
        if !quoted && let Some(found) = self.read_next_argument(name) {
            return found;
        }
        if self.peek() == Some(b']') {
            self.at += 1;
        }
        let parameter =
            !quoted && (matches!(before, Some(b'?' | b'&' | b';' | b'#')) || (form && name.start == 0));
        if parameter && self.peek() == Some(b'=') {
            self.at += 1;
            self.is_bare = false;
            if self.at_quote() {
                return Vec::from_iter(self.read_string(false, Certainty::Certain));
            }
            return self.read_bare(Certainty::Certain, |byte| matches!(byte, b'&' | b'#' | b';'));
        }
        let close = self.at;
        self.skip_spaces(quoted);
        let before = &self.bytes[..name.start];
        let apart = !quoted && self.at > close && (ends_option(before) || is_set(before));
        if !quoted
            && !apart
            && let Some(found) = self.read_sentence(name)
        {
            return found;
        }
        match self.peek() {
            Some(b':') if self.bytes.get(self.at + 1) != Some(&b':') => self.at += 1,
            Some(b'=') => {}
            Some(byte) if apart && is_quote(byte) => {
                let is_macro = before.ends_with(b"#define ");
                let certainty = if is_macro { Certainty::Certain } else { Certainty::ByLooks };
                return Vec::from_iter(self.read_string(false, certainty));
            }
            _ if apart => return self.read_bare(Certainty::ByLooks, |_| false),
            _ => return self.read_next_line(),
        }
        let colon = self.bytes[self.at - 1] == b':';
        let equals = self.peek() == Some(b'=');
        while matches!(self.peek(), Some(b'=' | b'>')) {
            self.at += 1;
        }
        let tight = equals && close + 1 == self.at && !self.peek().is_some_and(is_space);
        let shouted = !self.bytes[name.clone()].iter().any(u8::is_ascii_lowercase);
        self.is_bare &= !(tight && shouted);
        self.skip_spaces(quoted);
        if !quoted
            && colon
            && matches!(self.family, Family::Cookie | Family::Authorization)
            && !self.at_quote()
        {
            return self.read_header_line(name);
        }
        if !quoted && colon {
            self.skip_type();
            self.skip_yaml_marks();
            if matches!(self.peek(), Some(b'\n' | b'\r')) {
                return self.read_next_line();
            }
        }
        let certainty = if quoted || (tight && shouted) { Certainty::Certain } else { Certainty::ByLooks };
        self.read_value(quoted, certainty, name)
    }

    fn read_value(&mut self, quoted: bool, certainty: Certainty, name: &Range<usize>) -> Vec<AssignedValue> {
        self.skip_colour();
        self.skip_string_prefix();
        if !quoted {
            self.skip_wrapper();
        }
        match self.peek() {
            Some(byte) if is_quote(byte) => self.read_string(quoted, certainty).into_iter().collect(),
            Some(b'[') if quoted => self.read_array(),
            Some(b'{') if quoted => self.read_object(),
            Some(b'-' | b'0'..=b'9') if quoted => self.read_number(name),
            Some(_) if quoted => Vec::new(), // a literal of JSON, or an expression
            Some(_) if certainty == Certainty::Certain => self.read_bare(Certainty::Certain, |_| false),
            Some(_) => self.read_bare(Certainty::ByLooks, |byte| {
                matches!(byte, b',' | b';' | b')' | b'}' | b']' | b'<' | b'>' | b'|' | b'&')
            }),
            None => Vec::new(),
        }
    }

    /// Reads the value of `Authorization: …` or `Cookie: …`, up to the end of the line.
    fn read_header_line(&mut self, name: &Range<usize>) -> Vec<AssignedValue> {
        let ends = |byte: u8| matches!(byte, b'\n' | b'\r' | b'"' | b'\'' | b'`');
        let rest = &self.bytes[self.at..];
        let end = EndCache::find(&self.end_cache.line, self.at, || {
            self.at + rest.iter().position(|&byte| ends(byte)).unwrap_or(rest.len())
        });
        let line = self.at..end;
        let value = &self.bytes[line.clone()];
        let token_end = |byte: u8| ends(byte) || is_space(byte) || byte == b',';
        let several = value.len() >= SHORTEST_LINE;
        let cookies = several && is_cookie_header(&self.bytes[name.clone()]) && is_pair(value);
        let found = match self.family {
            Family::Cookie if cookies => self.check(line, Certainty::Certain, true),
            Family::Cookie => None,
            _ => match scheme(value).or_else(|| any_scheme(value).filter(|_| !has_parameters(value))) {
                Some(skip) => {
                    self.at += skip;
                    self.check(self.at..self.until(LONGEST, token_end), Certainty::ByLooks, true)
                }
                None if several && has_parameters(value) => self.check(line, Certainty::Certain, true),
                None => {
                    self.check(line.start..self.until(LONGEST_LOOKED_AT, token_end), Certainty::ByLooks, true)
                }
            },
        };
        found.into_iter().collect()
    }

    /// Reads a string in quotes. In code, unlike in JSON, it ends with its line.
    fn read_string(&mut self, json: bool, certainty: Certainty) -> Option<AssignedValue> {
        let (inside, whole) = self.read_quoted(json, self.bytes.len())?;
        self.check(inside, certainty, whole)
    }

    /// Returns the content of a string, which ends at `limit` at the latest, and true if its end was found.
    fn read_quoted(&mut self, json: bool, limit: usize) -> Option<(Range<usize>, bool)> {
        let quote = self.peek()?;
        let depth = self.text.backslashes(self.at);
        let start = self.at + 1;
        let mut end = start;
        let mut whole = false;
        while let Some(&byte) = self.bytes[..limit].get(end) {
            if byte == quote {
                let more = self.text.backslashes(end);
                whole = more % (2 * (depth + 1)) == depth;
                // Fewer backslashes end the enclosing string, so this string is truncated.
                if whole || more < depth {
                    break;
                }
            }
            if !json && byte == b'\n' {
                return None;
            }
            end += 1;
        }
        self.at = end + usize::from(whole);
        Some((start..end, whole))
    }

    /// Reads an object with a secret name: its member `value`, and members that look like secrets.
    fn read_object(&mut self) -> Vec<AssignedValue> {
        let limit = self.bytes.len().min(self.at + LONGEST_OBJECT);
        let mut found = Vec::new();
        let mut depth = 0;
        let mut level = None;
        let mut member: Option<Range<usize>> = None;
        while self.at < limit {
            let byte = self.bytes[self.at];
            depth += i32::from(byte == b'{') - i32::from(byte == b'}');
            if depth == 0 {
                break;
            }
            if !is_quote(byte) {
                self.at += 1;
                continue;
            }
            // Fewer backslashes end the enclosing string, so the object is truncated.
            let backslashes = self.text.backslashes(self.at);
            if backslashes < *level.get_or_insert(backslashes) {
                break;
            }
            let Some((inside, whole)) = self.read_quoted(true, limit) else { break };
            self.skip_spaces(true);
            if self.peek() == Some(b':') {
                member = Some(inside);
            } else if let Some(member) = member.take() {
                let certainty = names::in_object(&self.bytes[member]);
                let certainty = certainty
                    .map(|certainty| if certainty { Certainty::Certain } else { Certainty::ByLooks });
                found.extend(certainty.and_then(|certainty| self.check(inside, certainty, whole)));
            }
        }
        found
    }

    fn read_array(&mut self) -> Vec<AssignedValue> {
        let mut found = Vec::new();
        self.at += 1;
        self.skip_spaces(true);
        while self.at_quote() {
            let before = self.at;
            found.extend(self.read_string(true, Certainty::Certain));
            self.skip_spaces(true);
            if self.peek() == Some(b',') {
                self.at += 1;
                self.skip_spaces(true);
            }
            if self.at == before {
                break;
            }
        }
        found
    }

    fn read_number(&mut self, name: &Range<usize>) -> Vec<AssignedValue> {
        let start = self.at;
        let end = self.until(LONGEST, |byte| {
            !(byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E'))
        });
        let quote = name.end..name.end + 1;
        if end - start < SHORTEST_NUMBER {
            return Vec::new();
        }
        vec![AssignedValue { range: start..end, quote: Some(quote), whole: end < self.bytes.len() }]
    }

    fn read_bare(&mut self, certainty: Certainty, stop: impl Fn(u8) -> bool) -> Vec<AssignedValue> {
        let start = self.at;
        if examples::begins_reference(&self.bytes[start..]) {
            return Vec::new(); // wherever it ends
        }
        let most = if certainty == Certainty::Certain { LONGEST } else { LONGEST_LOOKED_AT };
        let mut end = self.until(most, |byte| byte <= b' ' || is_quote(byte) || stop(byte));
        // Punctuation that ends a sentence or a command is not a part of the value.
        let value = &self.bytes[start..end];
        let stops = value.iter().rev().take_while(|byte| **byte == b'.').count();
        if value.ends_with(b";") || value.ends_with(b",") || (certainty == Certainty::ByLooks && stops == 1) {
            end -= 1;
        }
        self.check(start..end, certainty, true).into_iter().collect()
    }

    /// Returns the value if it is a secret.
    fn check(&self, range: Range<usize>, certainty: Certainty, whole: bool) -> Option<AssignedValue> {
        let mut range = trim(range, self.bytes);
        if let Some(skip) = scheme(&self.bytes[range.clone()]) {
            range.start += skip;
        }
        let value = &self.bytes[range.clone()];
        // A value that continued after the line of its event is redacted up to the end of that line.
        let is_redacted = |length| matches!(value.get(length), None | Some(b'\n' | b'\r'));
        let harmless = placeholder::at_start(value).is_some_and(is_redacted)
            || value.len() < SHORTEST_VALUE
            || is_word(value)
            || examples::is_reference(value)
            || examples::is_aws_example(value)
            || (self.family == Family::Credential && is_path(value))
            || (self.family == Family::Cookie && !value.contains(&b'=') && !is_mixed(value));
        let certainty = certainty == Certainty::Certain && self.family != Family::Weak;
        let looks = || {
            let is_password = self.password && self.looks_like_password(&range);
            looks::is_random(value) || is_password
        };
        let secret = !harmless && (certainty || looks());
        secret.then_some(AssignedValue { range, quote: None, whole })
    }

    fn looks_like_password(&self, range: &Range<usize>) -> bool {
        let value = &self.bytes[range.clone()];
        let last =
            self.bytes.get(range.end).is_none_or(|&byte| is_quote(byte) || matches!(byte, b'\r' | b'\n'));
        if self.is_bare && !last {
            return false;
        }
        looks::is_passphrase(value) || looks::is_word_with_digits(value, last) || looks::is_leet(value)
    }

    /// Returns the offset of the first byte for which `stop` holds, at most `most` bytes away.
    fn until(&self, most: usize, stop: impl Fn(u8) -> bool) -> usize {
        let rest = &self.bytes[self.at.min(self.bytes.len())..];
        let rest = &rest[..rest.len().min(most)];
        self.at + rest.iter().position(|&byte| stop(byte)).unwrap_or(rest.len())
    }

    fn skip_spaces(&mut self, lines: bool) {
        while self.peek().is_some_and(|byte| matches!(byte, b' ' | b'\t') || (lines && is_space(byte))) {
            self.at += 1;
        }
    }

    fn at_quote(&self) -> bool {
        self.peek().is_some_and(is_quote)
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }
}

const SHORTEST_VALUE: usize = 4;
const SHORTEST_NUMBER: usize = 6;
const SHORTEST_LINE: usize = 8;

/// The maximum length of a secret that is found by its looks only.
const LONGEST_LOOKED_AT: usize = 8 << 10;
/// The searched length of an object with a secret name.
const LONGEST_OBJECT: usize = 4 << 10;

/// Schemes before a credential that are not a part of it.
const SCHEMES: &[&str] = &["bearer ", "basic ", "token ", "apikey ", "api-key ", "key "];

/// Returns the length of a known scheme at the start of a credential.
pub(super) fn scheme(value: &[u8]) -> Option<usize> {
    let is = |scheme: &&&str| {
        value.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme.as_bytes()))
    };
    let scheme = SCHEMES.iter().find(is)?.len();
    Some(scheme + value[scheme..].iter().take_while(|byte| **byte == b' ').count())
}

/// Returns the length of any scheme at the start of a header's value.
pub(super) fn any_scheme(value: &[u8]) -> Option<usize> {
    let name = value.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'-').count();
    let colon = usize::from(value[name..].starts_with(b":"));
    let gap = value[name + colon..].iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    let credential = name + colon + gap;
    let is_name = name > 0 && !looks::is_random(&value[..name]);
    (is_name && gap > 0 && credential < value.len()).then_some(credential)
}

/// Splits a parameter of a credential into its name and its value without quotes.
pub(super) fn parameter(part: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr(b'=', part).filter(|_| is_pair(part))?;
    let value = &part[at + 1..];
    // Base64 may end with equals signs.
    let padding = value.iter().all(|byte| *byte == b'=');
    (!padding).then(|| (&part[..at], unquoted(value)))
}

/// Removes the quotes around a value.
pub(super) fn unquoted(value: &[u8]) -> &[u8] {
    let inner = value.trim_ascii();
    inner.strip_prefix(b"\"").and_then(|inner| inner.strip_suffix(b"\"")).unwrap_or(inner)
}

/// Returns true if a line starts with `name=value`, without space around the sign.
fn is_pair(line: &[u8]) -> bool {
    let name = line
        .iter()
        .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
        .count();
    name > 0 && line[name..].starts_with(b"=") && line.get(name + 1).is_some_and(|&byte| !is_space(byte))
}

/// Returns true for a scheme with parameters: `Digest username="…", …`, `AWS4-HMAC-SHA256 Credential=…, …`.
fn has_parameters(line: &[u8]) -> bool {
    let scheme = line.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'-').count();
    scheme >= 4 && line[scheme..].starts_with(b" ") && is_pair(line[scheme..].trim_ascii_start())
}

fn is_cookie_header(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"cookie") || name.eq_ignore_ascii_case(b"set-cookie")
}

fn is_quote(byte: u8) -> bool {
    matches!(byte, b'"' | b'\'' | b'`')
}

fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace()
}

/// Removes white space at both ends of a range.
fn trim(range: Range<usize>, text: &[u8]) -> Range<usize> {
    let value = &text[range.clone()];
    let start = range.start + (value.len() - value.trim_ascii_start().len());
    start..start + value.trim_ascii().len()
}

/// Returns true if a text ends with `end` in any case.
pub(super) fn ends_with_ignore_case(text: &[u8], end: &[u8]) -> bool {
    text.len().checked_sub(end.len()).is_some_and(|from| text[from..].eq_ignore_ascii_case(end))
}
