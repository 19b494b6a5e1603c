//! Where the value of a name stands: `"name": "value"`, `NAME=value`, `name: value` and their kin.
//!
//! All of it works on plain text (see [`Plain`]), where JSON looks the same at every depth; which
//! quotes belong together is told by the number of backslashes before them.

mod around;
mod pairs;

use std::cell::Cell;
use std::ops::Range;

use super::looks::is_path;
use super::names::{self, Family};
use super::plain::Plain;
use super::search::is_name;
use super::shapes::{LONGEST, mixed};
use super::values::is_word;
use super::{examples, looks, placeholder};

/// A value that stands under a secret name.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Assigned {
    /// The secret itself, without its quotes and without `Bearer `.
    pub(super) range: Range<usize>,
    /// A bare number in JSON, and one quote of the same depth: what takes its place needs quotes.
    pub(super) quote: Option<Range<usize>>,
    /// Its end was seen: it is a whole value and no piece of one.
    pub(super) whole: bool,
}

/// How sure it is that a value is meant, and no prose or code.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sure {
    /// The form leaves no doubt: any value goes.
    Yes,
    /// Only what looks like a secret goes.
    ByLooks,
}

/// Whether something may be assigned to the name that ends at `end`: a cheap look ahead.
pub(super) fn may_follow(text: &[u8], end: usize) -> bool {
    let behind = text[end..].iter().take(8).find(|byte| !matches!(byte, b' ' | b'\t'));
    behind.is_some_and(|byte| leads_to_value(*byte))
}

/// Whether the value of the name that begins at `start` may stand behind a space: that of an option, of an
/// element with attributes, or of a variable where a shell or a recipe sets it.
pub(super) fn may_stand_apart(text: &[u8], start: usize) -> bool {
    text[start..].starts_with(b"--") || text[..start].ends_with(b"<") || is_set(&text[..start])
}

/// Words before a variable that set it to the word behind it.
const SETS: &[&str] = &["ENV ", "setenv ", "set -x ", "set -gx ", "set -Ux "];

fn is_set(before: &[u8]) -> bool {
    before.ends_with(b" ") && SETS.iter().any(|set| before.ends_with(set.as_bytes()))
}

/// Whether a name may go on with `byte`, or end with it and still have a value.
pub(super) fn goes_on(byte: u8) -> bool {
    is_name(byte) || matches!(byte, b' ' | b'\t') || leads_to_value(byte)
}

fn leads_to_value(byte: u8) -> bool {
    matches!(byte, b':' | b'=' | b'"' | b'\'' | b'`' | b']' | b'>' | b'\r' | b'\n')
}

/// Where lines and parts of forms end. Found once and not again by every name before it: one line with
/// a hundred thousand names in it would be gone through as often.
#[derive(Debug, Default)]
pub(super) struct Ends {
    line: Cell<Option<(usize, usize)>>,
    part: Cell<Option<(usize, usize)>>,
}

impl Ends {
    /// What `search` finds from `at` on, if it was not found from before that.
    fn find(known: &Cell<Option<(usize, usize)>>, at: usize, search: impl FnOnce() -> usize) -> usize {
        if let Some((_, end)) = known.get().filter(|(from, end)| (*from..=*end).contains(&at)) {
            return end;
        }
        let end = search();
        known.set(Some((at, end)));
        end
    }
}

/// The values assigned to the name at `name`.
pub(super) fn values(
    text: &Plain<'_>,
    name: &Range<usize>,
    family: Family,
    form: bool,
    ends: &Ends,
) -> Vec<Assigned> {
    let password = family == Family::Password;
    let mut cursor = Cursor { text, bytes: text.bytes(), at: name.end, family, password, ends };
    let found = cursor.assigned(name, form);
    found.into_iter().filter(|found| !found.range.is_empty()).collect()
}

/// Whether a value that surely stands under a secret name is a secret.
pub(super) fn is_secret(name: &[u8], family: Family, value: &[u8]) -> bool {
    let text = Plain::of_escaped(b"");
    let password = names::is_password(name);
    let cursor = Cursor { text: &text, bytes: value, at: 0, family, password, ends: &Ends::default() };
    cursor.checked(0..value.len(), Sure::Yes, true).is_some()
}

struct Cursor<'t> {
    text: &'t Plain<'t>,
    bytes: &'t [u8],
    at: usize,
    family: Family,
    /// A password is meant: it may be nearly a word.
    password: bool,
    ends: &'t Ends,
}

impl Cursor<'_> {
    fn assigned(&mut self, name: &Range<usize>, form: bool) -> Vec<Assigned> {
        let before = name.start.checked_sub(1).map(|at| self.bytes[at]);
        let quoted = before.is_some_and(is_quote) && self.peek() == before;
        if quoted {
            self.at += 1;
            if let Some(found) = self.in_a_pair(name) {
                return found;
            }
        }
        if !quoted && let Some(end) = self.in_tag(name) {
            return self.bare(Sure::ByLooks, |byte| byte == end);
        }
        if self.peek() == Some(b']') {
            self.at += 1;
        }
        let parameter =
            !quoted && (matches!(before, Some(b'?' | b'&' | b';' | b'#')) || (form && name.start == 0));
        if parameter && self.peek() == Some(b'=') {
            self.at += 1;
            self.password |= names::is_password(&self.bytes[name.clone()]);
            return self.bare(Sure::Yes, |byte| matches!(byte, b'&' | b'#' | b';'));
        }
        let close = self.at;
        self.spaces(quoted);
        let before = &self.bytes[..name.start];
        let apart = !quoted && self.at > close && (before.ends_with(b"--") || is_set(before));
        match self.peek() {
            Some(b':') if self.bytes.get(self.at + 1) != Some(&b':') => self.at += 1,
            Some(b'=') => {}
            Some(byte) if apart && is_quote(byte) => {
                return Vec::from_iter(self.string(false, Sure::ByLooks));
            }
            _ if apart => return self.bare(Sure::ByLooks, |_| false),
            _ => return self.listed(),
        }
        let colon = self.bytes[self.at - 1] == b':';
        let equals = self.peek() == Some(b'=');
        while matches!(self.peek(), Some(b'=' | b'>')) {
            self.at += 1;
        }
        let tight = equals && close + 1 == self.at && !self.peek().is_some_and(is_space);
        let shouted = !self.bytes[name.clone()].iter().any(u8::is_ascii_lowercase);
        self.password |= tight && shouted && names::is_password(&self.bytes[name.clone()]);
        self.spaces(quoted);
        if !quoted
            && colon
            && matches!(self.family, Family::Cookie | Family::Authorization)
            && !self.at_quote()
        {
            return self.header_line(name);
        }
        if !quoted && colon {
            self.typed();
            self.marked();
            if matches!(self.peek(), Some(b'\n' | b'\r')) {
                return self.listed();
            }
        }
        let sure = if quoted || (tight && shouted) { Sure::Yes } else { Sure::ByLooks };
        self.value(quoted, sure, name)
    }

    fn value(&mut self, quoted: bool, sure: Sure, name: &Range<usize>) -> Vec<Assigned> {
        self.colour();
        self.string_prefix();
        if !quoted {
            self.wrapped();
        }
        match self.peek() {
            Some(byte) if is_quote(byte) => self.string(quoted, sure).into_iter().collect(),
            Some(b'[') if quoted => self.array(),
            Some(b'{') if quoted => self.object(),
            Some(b'-' | b'0'..=b'9') if quoted => self.number(name),
            Some(_) if quoted => Vec::new(), // a word of JSON, or an expression
            Some(_) if sure == Sure::Yes => self.bare(Sure::Yes, |_| false),
            Some(_) => self.bare(Sure::ByLooks, |byte| {
                matches!(byte, b',' | b';' | b')' | b'}' | b']' | b'<' | b'>' | b'|' | b'&')
            }),
            None => Vec::new(),
        }
    }

    /// `Authorization: …` and `Cookie: …`: up to the end of the line.
    fn header_line(&mut self, name: &Range<usize>) -> Vec<Assigned> {
        let ends = |byte: u8| matches!(byte, b'\n' | b'\r' | b'"' | b'\'' | b'`');
        let rest = &self.bytes[self.at..];
        let end = Ends::find(&self.ends.line, self.at, || {
            self.at + rest.iter().position(|&byte| ends(byte)).unwrap_or(rest.len())
        });
        let line = self.at..end;
        let value = &self.bytes[line.clone()];
        let token_end = |byte: u8| ends(byte) || is_space(byte) || byte == b',';
        let several = value.len() >= SHORTEST_LINE;
        let cookies = several && is_cookie_header(&self.bytes[name.clone()]) && is_pair(value);
        let found = match self.family {
            Family::Cookie if cookies => self.checked(line, Sure::Yes, true),
            Family::Cookie => None,
            _ => match scheme(value).or_else(|| any_scheme(value).filter(|_| !has_parameters(value))) {
                Some(skip) => {
                    self.at += skip;
                    self.checked(self.at..self.until(LONGEST, token_end), Sure::ByLooks, true)
                }
                None if several && has_parameters(value) => self.checked(line, Sure::Yes, true),
                None => {
                    self.checked(line.start..self.until(LONGEST_LOOKED_AT, token_end), Sure::ByLooks, true)
                }
            },
        };
        found.into_iter().collect()
    }

    /// A string in quotes. In code, unlike in JSON, it ends with its line.
    fn string(&mut self, json: bool, sure: Sure) -> Option<Assigned> {
        let (inside, whole) = self.quoted(json, self.bytes.len())?;
        self.checked(inside, sure, whole)
    }

    /// The inside of a string, which ends at `limit` at the latest, and whether its end was seen.
    fn quoted(&mut self, json: bool, limit: usize) -> Option<(Range<usize>, bool)> {
        let quote = self.peek()?;
        let depth = self.text.backslashes(self.at);
        let start = self.at + 1;
        let mut end = start;
        let mut whole = false;
        while let Some(&byte) = self.bytes[..limit].get(end) {
            if byte == quote {
                let more = self.text.backslashes(end);
                whole = more % (2 * (depth + 1)) == depth;
                // Fewer backslashes: the string around this one ends, so this one was cut off.
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

    /// An object under a secret name: what it calls its value goes, and what looks like a secret.
    fn object(&mut self) -> Vec<Assigned> {
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
            // Fewer backslashes: the string around the object ends, so the object was cut off.
            let backslashes = self.text.backslashes(self.at);
            if backslashes < *level.get_or_insert(backslashes) {
                break;
            }
            let Some((inside, whole)) = self.quoted(true, limit) else { break };
            self.spaces(true);
            if self.peek() == Some(b':') {
                member = Some(inside);
            } else if let Some(member) = member.take() {
                let sure = names::in_object(&self.bytes[member]);
                let sure = sure.map(|sure| if sure { Sure::Yes } else { Sure::ByLooks });
                found.extend(sure.and_then(|sure| self.checked(inside, sure, whole)));
            }
        }
        found
    }

    fn array(&mut self) -> Vec<Assigned> {
        let mut found = Vec::new();
        self.at += 1;
        self.spaces(true);
        while self.at_quote() {
            let before = self.at;
            found.extend(self.string(true, Sure::Yes));
            self.spaces(true);
            if self.peek() == Some(b',') {
                self.at += 1;
                self.spaces(true);
            }
            if self.at == before {
                break;
            }
        }
        found
    }

    fn number(&mut self, name: &Range<usize>) -> Vec<Assigned> {
        let start = self.at;
        let end = self.until(LONGEST, |byte| {
            !(byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E'))
        });
        let quote = name.end..name.end + 1;
        if end - start < SHORTEST_NUMBER {
            return Vec::new();
        }
        vec![Assigned { range: start..end, quote: Some(quote), whole: end < self.bytes.len() }]
    }

    fn bare(&mut self, sure: Sure, stop: impl Fn(u8) -> bool) -> Vec<Assigned> {
        let start = self.at;
        if begins_reference(&self.bytes[start..]) {
            return Vec::new(); // wherever it ends
        }
        let most = if sure == Sure::Yes { LONGEST } else { LONGEST_LOOKED_AT };
        let mut end = self.until(most, |byte| byte <= b' ' || is_quote(byte) || stop(byte));
        // What ends the sentence or the command is no part of the value.
        let value = &self.bytes[start..end];
        let stops = value.iter().rev().take_while(|byte| **byte == b'.').count();
        if value.ends_with(b";") || value.ends_with(b",") || (sure == Sure::ByLooks && stops == 1) {
            end -= 1;
        }
        self.checked(start..end, sure, true).into_iter().collect()
    }

    /// The secret in a value, if it is one.
    fn checked(&self, range: Range<usize>, sure: Sure, whole: bool) -> Option<Assigned> {
        let mut range = range.trim(self.bytes);
        if let Some(skip) = scheme(&self.bytes[range.clone()]) {
            range.start += skip;
        }
        let value = &self.bytes[range.clone()];
        let harmless = placeholder::is(value)
            || value.len() < SHORTEST_VALUE
            || is_word(value)
            || is_reference(value)
            || examples::is_aws(value)
            || (self.family == Family::Credential && is_path(value))
            || (self.family == Family::Cookie && !value.contains(&b'=') && !mixed(value));
        let sure = sure == Sure::Yes && self.family != Family::Weak;
        let looks = || looks::random(value) || (self.password && self.looks_like_password(&range));
        let secret = !harmless && (sure || looks());
        secret.then_some(Assigned { range, quote: None, whole })
    }

    fn looks_like_password(&self, range: &Range<usize>) -> bool {
        let value = &self.bytes[range.clone()];
        let last =
            self.bytes.get(range.end).is_none_or(|&byte| is_quote(byte) || matches!(byte, b'\r' | b'\n'));
        looks::passphrase(value) || looks::nearly_a_word(value, last)
    }

    /// Where the first byte is that `stop` holds for, `most` bytes away at most.
    fn until(&self, most: usize, stop: impl Fn(u8) -> bool) -> usize {
        let rest = &self.bytes[self.at.min(self.bytes.len())..];
        let rest = &rest[..rest.len().min(most)];
        self.at + rest.iter().position(|&byte| stop(byte)).unwrap_or(rest.len())
    }

    fn spaces(&mut self, lines: bool) {
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

/// What is a secret only by its looks is no longer.
const LONGEST_LOOKED_AT: usize = 8 << 10;
/// An object under a secret name is looked through so far.
const LONGEST_OBJECT: usize = 4 << 10;

/// Schemes that stand before a credential and are no part of it.
const SCHEMES: &[&str] = &["bearer ", "basic ", "token ", "apikey ", "api-key ", "key "];

/// How long the scheme is that a credential begins with.
pub(super) fn scheme(value: &[u8]) -> Option<usize> {
    let is = |scheme: &&&str| {
        value.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme.as_bytes()))
    };
    let scheme = SCHEMES.iter().find(is)?.len();
    Some(scheme + value[scheme..].iter().take_while(|byte| **byte == b' ').count())
}

/// How long the scheme is, whatever its name, that stands before the credential in a header.
pub(super) fn any_scheme(value: &[u8]) -> Option<usize> {
    let name = value.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'-').count();
    let colon = usize::from(value[name..].starts_with(b":"));
    let gap = value[name + colon..].iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    let credential = name + colon + gap;
    let is_name = name > 0 && !looks::random(&value[..name]);
    (is_name && gap > 0 && credential < value.len()).then_some(credential)
}

/// A parameter of a credential: its name, and its value without quotes.
pub(super) fn parameter(part: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr(b'=', part).filter(|_| is_pair(part))?;
    let value = &part[at + 1..];
    // What ends in signs of equality is base64.
    let padding = value.iter().all(|byte| *byte == b'=');
    (!padding).then(|| (&part[..at], unquoted(value)))
}

/// A value without the quotes around it.
pub(super) fn unquoted(value: &[u8]) -> &[u8] {
    let inner = value.trim_ascii();
    inner.strip_prefix(b"\"").and_then(|inner| inner.strip_suffix(b"\"")).unwrap_or(inner)
}

/// Whether a value only says where the secret is: `$TOKEN`, `${{ secrets.X }}`, `<your key>`.
pub(super) fn is_reference(value: &[u8]) -> bool {
    let name = |rest: &[u8]| {
        !rest.is_empty()
            && rest.iter().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_')
    };
    begins_reference(value)
        || (value.starts_with(b"<") && value.ends_with(b">"))
        || value.strip_prefix(b"$").is_some_and(name)
        || value.strip_prefix(b"%").and_then(|rest| rest.strip_suffix(b"%")).is_some_and(name)
        || value.ends_with(b"(")
        || value.iter().all(|byte| matches!(byte, b'*' | b'x' | b'X' | b'.' | b'-' | b'_'))
}

fn begins_reference(value: &[u8]) -> bool {
    let begins = [
        "${",
        "$(",
        "{{",
        "{env:",
        "{file:",
        "process.env",
        "os.environ",
        "os.getenv",
        "env.",
        "secrets.",
        "op://",
    ];
    begins.iter().any(|begin| value.starts_with(begin.as_bytes()))
}

/// Whether a line begins with `name=value`, without a space around the sign.
fn is_pair(line: &[u8]) -> bool {
    let name = line
        .iter()
        .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
        .count();
    name > 0 && line[name..].starts_with(b"=") && line.get(name + 1).is_some_and(|&byte| !is_space(byte))
}

/// `Digest username="…", …`, `AWS4-HMAC-SHA256 Credential=…, …`: a scheme and its parameters.
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

trait Trim {
    fn trim(self, text: &[u8]) -> Self;
}

impl Trim for Range<usize> {
    /// Without the white space at both ends.
    fn trim(self, text: &[u8]) -> Self {
        let value = &text[self.clone()];
        let start = self.start + (value.len() - value.trim_ascii_start().len());
        start..start + value.trim_ascii().len()
    }
}

trait Tail {
    fn to_ascii_lowercase_tail(&self, len: usize) -> Vec<u8>;
}

impl Tail for [u8] {
    /// Its last bytes in lower case.
    fn to_ascii_lowercase_tail(&self, len: usize) -> Vec<u8> {
        self[self.len().saturating_sub(len)..].to_ascii_lowercase()
    }
}
