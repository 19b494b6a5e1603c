//! Private keys in PEM, also as tools show them: with line numbers or quotes, as comments, as lines of a program or
//! a list, and truncated at either end.

use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

use super::runs::{LONGEST, ShapeMatch, before, is_mixed, run};

const RULE: &str = "shape:private-key";
/// The minimum width of a line of a key, except the last one.
const WIDE: usize = 40;
/// The maximum width of what a tool writes before a line.
const LONGEST_GUTTER: usize = 256;

/// Finds the key that starts at `at`, up to its end or as far as it is complete.
pub(super) fn find_from_begin(text: &[u8], at: usize) -> Vec<ShapeMatch> {
    let Some(mark) = mark(text, at + "-----BEGIN".len()) else { return Vec::new() };
    let near = &text[mark.end..text.len().min(mark.end + LONGEST)];
    let end = memchr::memmem::find(near, b"-----END").filter(|&found| holds_key(&near[..found]));
    let end = match end {
        Some(found) => {
            let label = mark.end + found + "-----END".len();
            Some(run(text, run(text, label, is_label).end, |byte| byte == b'-').end)
        }
        None => unfinished_length(near).map(|len| mark.end + len),
    };
    end.map(|end| ShapeMatch::new(RULE, at..end)).into_iter().collect()
}

/// Finds a key in base64, as in a kubeconfig, in one line or several.
pub(super) fn find_encoded(text: &[u8], at: usize) -> Vec<ShapeMatch> {
    let first = run(text, at, is_base64);
    let head = &text[at..first.end.min(at + 64)];
    let head = STANDARD_NO_PAD.decode(&head[..head.len() / 4 * 4]).unwrap_or_default();
    let is_key = memchr::memmem::find(&head, b"PRIVATE KEY").is_some();
    if !is_key || before(text, at).is_some_and(is_base64) {
        return Vec::new();
    }
    let mut line = first;
    loop {
        let gap = run(text, line.end, |byte| byte.is_ascii_whitespace());
        let next = run(text, gap.end, is_base64);
        let ends =
            text.get(next.end).is_none_or(|byte| byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\''));
        if gap.is_empty() || next.len() < 4 || line.len() < WIDE || next.len() > line.len() || !ends {
            return vec![ShapeMatch::new(RULE, at..line.end)];
        }
        line = next;
    }
}

/// Finds the private lines of a key of PuTTY.
pub(super) fn find_putty_key(text: &[u8], at: usize) -> Vec<ShapeMatch> {
    let count = run(text, at + "Private-Lines:".len(), |byte| byte.is_ascii_digit() || byte == b' ');
    find_lines(text, count.end)
}

/// Finds a key between `---- BEGIN SSH2 … ----` and its end.
pub(super) fn find_ssh2_key(text: &[u8], at: usize) -> Vec<ShapeMatch> {
    let label = run(text, at + "---- BEGIN".len(), is_label);
    if memchr::memmem::find(&text[label.clone()], b"PRIVATE").is_none() {
        return Vec::new();
    }
    let near = &text[label.end..text.len().min(label.end + LONGEST)];
    let end = memchr::memmem::find(near, b"---- END").unwrap_or(near.len());
    Vec::from_iter(holds_key(&near[..end]).then(|| ShapeMatch::new(RULE, at..label.end + end)))
}

/// Finds a secret key of minisign or signify, which is the line after its comment.
pub(super) fn find_signing_key(text: &[u8], at: usize) -> Vec<ShapeMatch> {
    find_lines(text, at + "secret key".len())
}

/// Finds the lines of base64 after the line end at `at`.
fn find_lines(text: &[u8], at: usize) -> Vec<ShapeMatch> {
    let start = run(text, at, |byte| byte.is_ascii_whitespace()).end;
    let mut end = start;
    loop {
        let line = run(text, run(text, end, |byte| byte.is_ascii_whitespace()).end, is_base64);
        // The next field has a name.
        if line.len() < 4 || text.get(line.end).is_some_and(|&byte| matches!(byte, b':' | b'-')) {
            break;
        }
        end = line.end;
    }
    let is_key = end - start >= 32 && is_mixed(&text[start..end]);
    Vec::from_iter(is_key.then(|| ShapeMatch::new(RULE, start..end)))
}

/// The private members of a JSON web key.
const PRIVATE_MEMBERS: &[&str] = &["d", "p", "q", "dp", "dq", "qi", "k"];

/// Finds the private members of the JSON web key around `at`.
pub(super) fn find_json_web_key(text: &[u8], at: usize) -> Vec<ShapeMatch> {
    const NEAR: usize = 4096;
    let near = at.saturating_sub(NEAR);
    let start = near + memchr::memrchr(b'{', &text[near..at]).unwrap_or(0);
    let end = at
        + memchr::memchr(b'}', &text[at..text.len().min(at + NEAR)])
            .unwrap_or(text.len().min(at + NEAR) - at);
    let mut found = Vec::new();
    for quote in memchr::memchr_iter(b'"', &text[start..end]).map(|quote| start + quote) {
        let name = run(text, quote + 1, |byte| byte.is_ascii_lowercase());
        let is_private = PRIVATE_MEMBERS.iter().any(|member| member.as_bytes() == &text[name.clone()]);
        let between = run(text, name.end, |byte| matches!(byte, b'"' | b':' | b' ' | b'\n'));
        let value = run(text, between.end, |byte| is_base64(byte) || matches!(byte, b'-' | b'_'));
        if is_private && text[between].contains(&b':') && value.len() >= 20 && value.end <= end {
            found.push(ShapeMatch::new(RULE, value));
        }
    }
    found
}

/// Finds the key that ends at `at` and has no beginning.
pub(super) fn find_from_end(text: &[u8], at: usize) -> Vec<ShapeMatch> {
    let Some(mark) = mark(text, at + "-----END".len()) else { return Vec::new() };
    let mut start = None;
    let mut wide = false;
    let mut line = at;
    while let Some(newline) = memchr::memrchr(b'\n', &text[line.saturating_sub(LONGEST_GUTTER)..line]) {
        let end = line.saturating_sub(LONGEST_GUTTER) + newline;
        let Some(base64) = last_run(&text[..end]) else { break };
        if base64.len() < WIDE && start.is_some() {
            break;
        }
        wide |= base64.len() >= WIDE && is_mixed(&text[base64.clone()]);
        start = Some(base64.start);
        line = base64.start;
    }
    start.filter(|_| wide).map(|start| ShapeMatch::new(RULE, start..mark.end)).into_iter().collect()
}

/// Returns the rest of a `-----BEGIN` or `-----END` mark, if its label is that of a private key.
fn mark(text: &[u8], from: usize) -> Option<Range<usize>> {
    let label = run(text, from, is_label);
    let dashes = run(text, label.end, |byte| byte == b'-');
    let words = &text[label];
    let private = words.ends_with(b"PRIVATE KEY") || words.ends_with(b"PRIVATE KEY BLOCK");
    (private && dashes.len() >= 5).then_some(from..dashes.end)
}

fn is_label(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b' '
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

/// Returns true if there is a key between the marks, and not only text about one. Anything between the lines is a
/// way to show them, except braces: they mean that the lines are in different events or objects.
fn holds_key(between: &[u8]) -> bool {
    let foreign = memchr::memchr2(b'{', b'}', between).is_some()
        || memchr::memmem::find(between, b"-----BEGIN").is_some();
    !foreign && between.split(|&byte| !is_base64(byte)).any(|word| word.len() >= 24 && is_mixed(word))
}

/// Returns the base64 at the end of a line, ignoring the quotes and commas of a program.
fn last_run(line: &[u8]) -> Option<Range<usize>> {
    let glue = |byte: &&u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b'"' | b'\'' | b',' | b'\\' | b'+');
    let end = line.len() - line.iter().rev().take(16).take_while(glue).count();
    let len = line[..end].iter().rev().take(LONGEST).take_while(|byte| is_base64(**byte)).count();
    (len >= 4).then_some(end - len..end)
}

/// Returns the length of a key without end: words of base64 and what may separate them, but not the sentence after
/// it.
fn unfinished_length(rest: &[u8]) -> Option<usize> {
    let is_quote = |byte: u8| matches!(byte, b'"' | b'\'' | b'`');
    let ends = |byte: &u8| byte.is_ascii_whitespace() || *byte == b'\\' || *byte == b'|' || is_quote(*byte);
    let mut end = None;
    let mut at = 0;
    let mut quoted = false;
    for word in rest.split_inclusive(ends) {
        let from = at;
        at += word.len();
        let last = word.last().copied().unwrap_or(b' ');
        let word = if ends(&last) { &word[..word.len() - 1] } else { word };
        // The prefix of a file's name and line number: `key.pem:2:MII…`, `key.pem-2-MII…`, `2→MII…`.
        let skip = word.iter().rposition(|byte| matches!(byte, b':' | b'-') || !byte.is_ascii());
        let skip = skip.filter(|skip| skip + 1 < word.len()).map_or(0, |skip| skip + 1);
        let base64 = &word[skip..];
        let glue = !word.iter().any(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'{' | b'}'));
        let long = base64.iter().all(|byte| is_base64(*byte)) && base64.len() >= if quoted { 32 } else { 16 };
        let header = word.ends_with(b":") || word.contains(&b',');
        let number = word.ends_with(b"=") || word.iter().any(u8::is_ascii_digit);
        let last_line = end.is_some() && word.len() >= 4 && word.iter().any(u8::is_ascii_uppercase);
        if long || (!quoted && (header || number || last_line) && word.iter().all(|byte| is_in_key(*byte))) {
            end = Some(from + word.len());
            quoted = false;
        } else if !glue {
            break;
        }
        quoted |= is_quote(last);
    }
    end
}

/// Returns true for a byte in a line of a key or of its headers.
fn is_in_key(byte: u8) -> bool {
    is_base64(byte) || matches!(byte, b':' | b',' | b'-')
}
