//! Logins in command lines and files: `curl -u user:password`, and `.netrc`.
//!
//! A value ends at a backslash in both, so that escaped and unescaped texts have the same result.

use std::ops::Range;

use super::examples::is_placeholder_text;
use super::runs::{ShapeMatch, before, is_mixed, run};

const SHORTEST: usize = 4;
/// The searched length of a command.
pub(super) const LONGEST: usize = 2048;

/// Finds the passwords in a command line of curl.
pub(super) fn find_curl_passwords(text: &[u8], at: usize) -> Vec<ShapeMatch> {
    let start = at + "curl".len();
    let is_command = !before(text, at)
        .is_some_and(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        && text.get(start).is_some_and(|&byte| is_gap(byte));
    if !is_command {
        return Vec::new();
    }
    let end = start + command_end(&text[start..text.len().min(start + LONGEST)]);
    let mut found = Vec::new();
    let mut from = start;
    while let Some(more) = memchr::memchr(b'-', &text[from..end]) {
        let dash = from + more;
        from = dash + 1;
        if is_gap(text[dash - 1]) && is_cookie_option(&text[dash..end]) {
            let cookies = value(
                &text[..end],
                dash + run(text, dash, |byte| byte.is_ascii_alphabetic() || byte == b'-').len(),
            );
            found.extend(
                cookie_values(text, &cookies).map(|range| ShapeMatch::new("shape:curl-cookie", range)),
            );
            from = cookies.end.max(from);
        }
        if is_gap(text[dash - 1])
            && let Some(value) = user_option(&text[..end], dash)
        {
            found.extend(password(text, &value).map(|range| ShapeMatch::new("shape:curl-user", range)));
            from = value.end;
        }
    }
    found
}

/// Returns the end of the command: the end of its line, unless the next line continues with options, or the start
/// of another command.
pub(super) fn command_end(rest: &[u8]) -> usize {
    let ends = |at: usize| match rest[at] {
        b'\n' => {
            let next = rest[at + 1..].trim_ascii_start();
            let goes_on = rest[..at].trim_ascii_end().ends_with(b"\\");
            !(goes_on || next.starts_with(b"-") || next.starts_with(b"\"-") || next.starts_with(b"'-"))
        }
        b'|' | b';' => rest[at - 1] == b' ' || rest.get(at + 1).is_none_or(|&byte| byte == b' '),
        b'&' => rest[at - 1] == b' ' && rest.get(at + 1) == Some(&b'&'),
        b'}' => rest[at - 1] == b'"',
        _ => false,
    };
    (1..rest.len()).find(|&at| ends(at)).unwrap_or(rest.len())
}

fn is_cookie_option(option: &[u8]) -> bool {
    option.starts_with(b"-b ") || option.starts_with(b"--cookie ") || option.starts_with(b"--cookie=")
}

/// Returns the random values of `name=value; name=value`.
fn cookie_values<'t>(text: &'t [u8], cookies: &Range<usize>) -> impl Iterator<Item = Range<usize>> + use<'t> {
    let mut at = cookies.start;
    text[cookies.clone()].split(|byte| *byte == b';').filter_map(move |cookie| {
        let from = at;
        at += cookie.len() + 1;
        let sign = memchr::memchr(b'=', cookie)?;
        let value = &cookie[sign + 1..];
        (value.len() >= 16 && is_mixed(value)).then_some(from + sign + 1..from + cookie.len())
    })
}

/// Returns the value of the option at `dash`, if its value is a user with a password.
fn user_option(text: &[u8], dash: usize) -> Option<Range<usize>> {
    let name = run(text, dash, |byte| byte.is_ascii_alphabetic() || byte == b'-');
    const LONG: &[&[u8]] = &[b"--user", b"--proxy-user", b"--cert", b"-E"];
    let long = LONG.contains(&&text[name.clone()]);
    let letters = &text[name.start + 1..name.end];
    let short =
        letters.iter().all(u8::is_ascii_alphabetic) && letters.ends_with(b"u") | letters.ends_with(b"U");
    let apart = text.get(name.end).is_some_and(|&byte| is_gap(byte) || (long && byte == b'='));
    if (long || short) && apart {
        return Some(value(text, name.end));
    }
    // `-uuser:password`
    let glued = matches!(letters, [b'u' | b'U', ..]) && text.get(name.end) == Some(&b':');
    glued.then(|| word(text, name.start + 2))
}

/// Returns the value after an option's name: a word, or a string in quotes.
pub(super) fn value(text: &[u8], from: usize) -> Range<usize> {
    let gap = run(text, from, |byte| is_gap(byte) || matches!(byte, b'=' | b',' | b'\\'));
    match before(text, gap.end) {
        Some(quote @ (b'"' | b'\'')) => {
            run(text, gap.end, |byte| byte != quote && byte != b'\\' && byte != b'\n')
        }
        _ => word(text, gap.end),
    }
}

pub(super) fn word(text: &[u8], from: usize) -> Range<usize> {
    run(text, from, |byte| byte > b' ' && !matches!(byte, b'"' | b'\'' | b'`' | b'\\'))
}

/// Returns the password of `user:password`, or a token in place of the user.
pub(super) fn password(text: &[u8], login: &Range<usize>) -> Option<Range<usize>> {
    let colon = login.start + memchr::memchr(b':', &text[login.clone()])?;
    let (user, password) = (&text[login.start..colon], &text[colon + 1..login.end]);
    let opens = |byte: u8| user.iter().filter(|&&other| other == byte).count();
    if opens(b'{') > opens(b'}') {
        return None; // `${USER:-me}`
    }
    if password.is_empty() {
        return (user.len() >= 16 && is_mixed(user) && !is_placeholder_text(user))
            .then_some(login.start..colon);
    }
    let group = [user, password].iter().all(|name| name.iter().all(u8::is_ascii_digit));
    let secret = password.len() >= SHORTEST && !group && !is_placeholder_text(password);
    secret.then_some(colon + 1..login.end)
}

/// Returns true for a byte between the words of a command, also in a list of strings.
pub(super) fn is_gap(byte: u8) -> bool {
    byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'')
}

/// Finds the password of one machine in a `.netrc`.
pub(super) fn find_netrc_password(text: &[u8], at: usize) -> Vec<ShapeMatch> {
    if before(text, at).is_some_and(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
        return Vec::new();
    }
    let mut words = NetrcWords { text, at: at + "machine".len() };
    let Some(host) = words.next_word() else { return Vec::new() };
    let host = &text[host];
    // Prose also mentions machines, but without an address.
    let sure = host == b"localhost" || host.iter().any(|byte| byte.is_ascii_digit() || b".-:".contains(byte));
    while let Some(key) = words.next_key() {
        let Some(value) = words.next_word() else { break };
        match &text[key] {
            b"login" | b"account" => {}
            b"password" => {
                let password = &text[value.clone()];
                let secret = password.len() >= SHORTEST
                    && !is_placeholder_text(password)
                    && (sure || is_mixed(password));
                return Vec::from_iter(secret.then(|| ShapeMatch::new("shape:netrc", value)));
            }
            _ => break,
        }
    }
    Vec::new()
}

struct NetrcWords<'t> {
    text: &'t [u8],
    at: usize,
}

impl NetrcWords<'_> {
    /// Returns the next word or quoted string, which must follow a space.
    fn next_word(&mut self) -> Option<Range<usize>> {
        let gap = run(self.text, self.at, |byte| byte.is_ascii_whitespace());
        let start = gap.end + run(self.text, gap.end, |byte| byte == b'\\').len();
        let found = match self.text.get(start) {
            Some(b'"') => run(self.text, start + 1, |byte| !matches!(byte, b'"' | b'\\' | b'\n')),
            _ => word(self.text, gap.end),
        };
        self.at = found.end;
        (!gap.is_empty() && !found.is_empty()).then_some(found)
    }

    /// Returns the next word, without the line number of a tool that shows files.
    fn next_key(&mut self) -> Option<Range<usize>> {
        let found = self.next_word()?;
        let digits = run(&self.text[..found.end], found.start, |byte| byte.is_ascii_digit());
        let mark = run(&self.text[..found.end], digits.end, |byte| "→|:".as_bytes().contains(&byte));
        match mark.end {
            _ if digits.is_empty() => Some(found),
            end if end == found.end => self.next_word(),
            end => Some(end..found.end),
        }
    }
}
