//! Passwords in statements of SQL.

use std::ops::Range;

use super::examples::is_placeholder_text;
use super::names::{self, Family};
use super::runs::{ShapeMatch, run};

const RULE: &str = "shape:sql";
const SHORTEST: usize = 4;
/// The searched length of a statement.
const LONGEST: usize = 1024;

/// Finds the password after words such as `IDENTIFIED BY` or `PASSWORD FOR`.
pub(super) fn find_password(text: &[u8], at: usize) -> Vec<ShapeMatch> {
    let end = statement_end(text, at);
    let words = &text[at..end];
    let is_identified = words[..words.len().min(10)].eq_ignore_ascii_case(b"identified");
    let quote = words.iter().position(|byte| matches!(byte, b'\'' | b'"'));
    let secret = match quote {
        // The procedure has the name of the login before the password.
        Some(_) if text[at] == b's' || text[at] == b'S' => strings(text, at..end).nth(1),
        Some(quote) => string(text, at + quote),
        None if is_identified => {
            let start = at + words.iter().rposition(|byte| *byte == b' ').map_or(0, |space| space + 1);
            Some(run(&text[..end], start, |byte| byte > b' ' && byte != b';' && byte != b'\\'))
        }
        None => None,
    };
    // `password 'x'` is a clause of a statement about an account only.
    let is_clause = text[at] != b'p' && text[at] != b'P' || is_about_account(&text[..at]);
    Vec::from_iter(secret.filter(|secret| is_clause && is_password(&text[secret.clone()])).map(found))
}

/// Finds the values of columns with secret names: `INSERT INTO users (name, password) VALUES ('me', '…')`.
pub(super) fn find_inserted(text: &[u8], at: usize) -> Vec<ShapeMatch> {
    let end = statement_end(text, at);
    let open = memchr::memchr(b'(', &text[at..end]).map(|open| at + open + 1);
    let Some(columns) = open.and_then(|open| Some(open..open + memchr::memchr(b')', &text[open..end])?))
    else {
        return Vec::new();
    };
    let is_secret = |column: &[u8]| {
        let name = column.trim_ascii();
        matches!(names::family(name), Some(Family::Password | Family::Secret | Family::Token | Family::Key))
    };
    let secrets: Vec<bool> = text[columns.clone()].split(|byte| *byte == b',').map(is_secret).collect();
    if !secrets.contains(&true) {
        return Vec::new();
    }
    let mut secret_values = Vec::new();
    let mut row = columns.end + 1;
    while let Some(open) = memchr::memchr(b'(', &text[row..end]) {
        let mut value = row + open + 1;
        for is_secret in &secrets {
            value = run(text, value, |byte| byte == b' ' || byte == b',').end;
            let item = match text.get(value) {
                Some(b'\'' | b'"') => string(text, value).unwrap_or(value..value),
                _ => run(&text[..end], value, |byte| byte != b',' && byte != b')'),
            };
            let is_string = item.start > value;
            if *is_secret && is_string && is_password(&text[item.clone()]) {
                secret_values.push(found(item.clone()));
            }
            value = item.end + usize::from(is_string);
        }
        row = value.min(end);
    }
    secret_values
}

fn found(range: Range<usize>) -> ShapeMatch {
    ShapeMatch::new(RULE, range)
}

/// Returns the end of a statement, which ends with its line at the latest.
fn statement_end(text: &[u8], at: usize) -> usize {
    run(&text[..text.len().min(at + LONGEST)], at, |byte| byte != b'\n' && byte != b';').end
}

/// Returns the content of the string in quotes at `at`.
fn string(text: &[u8], at: usize) -> Option<Range<usize>> {
    let quote = *text.get(at)?;
    let inside = run(text, at + 1, |byte| byte != quote && byte != b'\n' && byte != b'\\');
    (text.get(inside.end).is_some_and(|&byte| byte == quote || byte == b'\\')).then_some(inside)
}

fn strings(text: &[u8], range: Range<usize>) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut at = range.start;
    std::iter::from_fn(move || {
        let quote = text[at..range.end].iter().position(|byte| matches!(byte, b'\'' | b'"'))?;
        let inside = string(text, at + quote)?;
        at = (inside.end + 1).min(range.end);
        Some(inside)
    })
}

/// Returns true if a statement begins with the words of an account.
fn is_about_account(before: &[u8]) -> bool {
    let near = &before[before.len().saturating_sub(200)..];
    let line =
        near.rsplit(|byte| matches!(byte, b'\n' | b';')).next().unwrap_or_default().to_ascii_lowercase();
    ["create user", "alter user", "create role", "alter role", "create login", "alter login", "set "]
        .iter()
        .any(|words| memchr::memmem::find(&line, words.as_bytes()).is_some())
}

fn is_password(value: &[u8]) -> bool {
    value.len() >= SHORTEST && !is_placeholder_text(value) && !value.iter().any(u8::is_ascii_whitespace)
}
