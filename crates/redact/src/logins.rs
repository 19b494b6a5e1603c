//! Logins in code, in files of programs, and in sentences: a user and a password side by side.

use std::ops::Range;

use super::examples::is_placeholder_text;
use super::looks;
use super::runs::{ShapeMatch, before, is_mixed, run};

const RULE: &str = "shape:login";
const SHORTEST: usize = 4;
/// The searched length of a call or a line.
const LONGEST: usize = 512;

fn found(range: Range<usize>) -> ShapeMatch {
    ShapeMatch::new(RULE, range)
}

/// Returns true for a value that looks like a password.
fn is_password(value: &[u8]) -> bool {
    let looks = looks::is_random(value) || looks::is_word_with_digits(value, true) || looks::is_leet(value);
    looks && !is_placeholder_text(value)
}

/// Finds the second string of a call: `BasicAuth("user", "password")`, `auth=('user', 'password')`.
pub(super) fn find_in_call(text: &[u8], at: usize) -> Vec<ShapeMatch> {
    let open = at + memchr::memchr(b'(', &text[at..]).unwrap_or(0) + 1;
    let Some(user) = string(text, open) else { return Vec::new() };
    let comma = run(text, user.end + 1, |byte| matches!(byte, b' ' | b',' | b'\\'));
    let is_second = text[comma.clone()].contains(&b',');
    let password =
        string(text, comma.end).filter(|password| is_second && is_password(&text[password.clone()]));
    Vec::from_iter(password.map(found))
}

/// Returns the content of the string in quotes at `at`.
fn string(text: &[u8], at: usize) -> Option<Range<usize>> {
    let quote = *text.get(at).filter(|byte| matches!(byte, b'\'' | b'"'))?;
    let near = &text[..text.len().min(at + LONGEST)];
    let inside = run(near, at + 1, |byte| byte != quote && byte != b'\n' && byte != b'\\');
    near.get(inside.end).is_some_and(|&byte| byte == quote || byte == b'\\').then_some(inside)
}

/// Finds the password in `user NAME password WORD`, as in files of `fetchmail` and routers.
pub(super) fn find_after_user(text: &[u8], at: usize) -> Vec<ShapeMatch> {
    let is_word = |byte: &&u8| **byte > b' ';
    let user = text[..at].iter().rev().take(64).take_while(is_word).count();
    let rest = text[..at - user].trim_ascii_end();
    let key = &rest[rest.len() - rest.iter().rev().take(16).take_while(is_word).count()..];
    let key = key.strip_prefix(b"\"").unwrap_or(key);
    let is_login = [&b"user"[..], b"username", b"login", b"connect"].contains(&key);
    let start = at + " password ".len();
    // A digit before the password names its coding.
    let skip =
        usize::from(text.get(start).is_some_and(u8::is_ascii_digit) && text.get(start + 1) == Some(&b' '))
            * 2;
    let password = run(text, start + skip, |byte| byte > b' ' && !matches!(byte, b'"' | b'\'' | b'\\'));
    let is_secret = is_login && is_mixed(&text[password.clone()]) && is_password(&text[password.clone()]);
    Vec::from_iter(is_secret.then(|| found(password)))
}

/// Finds the last field of a line of `.pgpass`: `host:port:database:user:password`.
pub(super) fn find_pgpass(text: &[u8], at: usize) -> Vec<ShapeMatch> {
    let is_part = |byte: u8| byte > b' ' && !matches!(byte, b'"' | b'\\');
    let start = at - text[..at].iter().rev().take(LONGEST).take_while(|byte| is_part(**byte)).count();
    let line = run(text, start, is_part);
    let mut fields = text[line.clone()].split(|byte| *byte == b':');
    let password = fields.nth(4).unwrap_or_default();
    let is_line = fields.next().is_none() && password.len() >= SHORTEST && !is_placeholder_text(password);
    Vec::from_iter(is_line.then(|| found(line.end - password.len()..line.end)))
}

/// Finds the password of `jdbc:oracle:thin:user/password@host`.
pub(super) fn find_oracle(text: &[u8], at: usize) -> Vec<ShapeMatch> {
    let login =
        run(text, at + ":thin:".len(), |byte| byte > b' ' && !matches!(byte, b'@' | b'"' | b'\'' | b'\\'));
    let slash = memchr::memchr(b'/', &text[login.clone()]).filter(|_| text.get(login.end) == Some(&b'@'));
    let password = slash.map(|slash| login.start + slash + 1..login.end);
    let is_secret =
        |range: &Range<usize>| range.len() >= SHORTEST && !is_placeholder_text(&text[range.clone()]);
    Vec::from_iter(password.filter(is_secret).map(found))
}

/// Finds the value in a line of a Netscape cookie file, which has seven fields.
pub(super) fn find_stored_cookie(text: &[u8], at: usize) -> Vec<ShapeMatch> {
    let is_line = |byte: u8| !matches!(byte, b'\n' | b'\r' | b'"');
    let start = at - text[..at].iter().rev().take(LONGEST).take_while(|byte| is_line(**byte)).count();
    let line = run(text, start, is_line);
    let fields: Vec<&[u8]> = text[line.clone()].split(|byte| *byte == b'\t').collect();
    let [_, _, _, _, expires, _, value] = fields[..] else { return Vec::new() };
    let is_cookie = expires.iter().all(u8::is_ascii_digit) && value.len() >= 16 && is_mixed(value);
    Vec::from_iter(is_cookie.then(|| found(line.end - value.len()..line.end)))
}

/// Finds the value that a workflow hides in its output: `::add-mask::value`.
pub(super) fn find_masked(text: &[u8], at: usize) -> Vec<ShapeMatch> {
    let value =
        run(text, at + "::add-mask::".len(), |byte| byte > b' ' && !matches!(byte, b'"' | b'\'' | b'\\'));
    let is_secret = value.len() >= SHORTEST && !is_placeholder_text(&text[value.clone()]);
    Vec::from_iter(is_secret.then(|| found(value)))
}

/// Finds all values of a secret of Kubernetes in YAML.
pub(super) fn find_kubernetes_secret(text: &[u8], at: usize) -> Vec<ShapeMatch> {
    const NEAR: usize = 8 << 10;
    let near = at.saturating_sub(NEAR);
    let start = memchr::memmem::rfind(&text[near..at], b"\n---").map_or(near, |mark| near + mark + 1);
    let behind = &text[at..text.len().min(at + NEAR)];
    let end = at + memchr::memmem::find(behind, b"\n---").unwrap_or(behind.len());
    if before(text, at).is_some_and(|byte| !matches!(byte, b'\n' | b' ' | b'"')) {
        return Vec::new();
    }
    let mut secrets = Vec::new();
    let mut inside = None;
    let mut line_start = start;
    for line in text[start..end].split(|byte| *byte == b'\n') {
        let indent = line.iter().take_while(|byte| **byte == b' ').count();
        let content = line[indent..].trim_ascii_end();
        if content == b"data:" || content == b"stringData:" {
            inside = Some(indent);
        } else if inside.is_some_and(|outer| indent <= outer && !content.is_empty()) {
            inside = None;
        } else if inside.is_some()
            && let Some(colon) = memchr::memmem::find(content, b": ")
        {
            let value = content[colon + 2..].trim_ascii();
            let first = line_start
                + indent
                + colon
                + 2
                + usize::from(value.starts_with(b"\"") || value.starts_with(b"'"));
            let length = value.len() - 2 * usize::from(value.ends_with(b"\"") || value.ends_with(b"'"));
            if length >= SHORTEST && !is_placeholder_text(value) {
                secrets.push(found(first..first + length));
            }
        }
        line_start += line.len() + 1;
    }
    secrets
}
