//! Small words: sizes, times, and text from elsewhere that must not move the cursor.

use std::fmt::Write as _;

use session::Usage;

use crate::style::{RESET, style_length};

/// A text from elsewhere on one line: control characters and such that turn the direction of writing are shown by
/// their number, never sent to the terminal.
pub fn plain(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    let mut gap = false;
    for c in text.chars() {
        match c {
            ' ' | '\n' | '\r' | '\t' => gap = !line.is_empty(),
            c => {
                if std::mem::take(&mut gap) {
                    line.push(' ');
                }
                push(&mut line, c, is_harmless(c));
            }
        }
    }
    line
}

/// A text from elsewhere with its spaces: what could move the cursor or turn the direction of writing is shown by its
/// number.
pub fn visible(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        push(&mut line, c, is_harmless(c));
    }
    line
}

/// A text of many lines from elsewhere, to be read on a terminal: line ends and tabs stay, and what joins the letters or
/// parts of an emoji around it.
pub fn readable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let (mut before, mut rest) = (None, text.chars().peekable());
    while let Some(c) = rest.next() {
        let behind = rest.peek().copied();
        let stays = match c {
            '\n' | '\t' => true,
            '\r' => behind == Some('\n'),
            // At the edge of a piece nobody knows what it joins.
            '\u{200c}' | '\u{200d}' => [before, behind].into_iter().flatten().all(is_joined),
            c => is_harmless(c),
        };
        push(&mut shown, c, stays);
        before = Some(c);
    }
    shown
}

/// A letter of a script that joins letters, or an emoji.
fn is_joined(c: char) -> bool {
    !c.is_ascii() && !c.is_whitespace() && is_harmless(c)
}

fn push(line: &mut String, c: char, is_shown: bool) {
    match is_shown {
        true => line.push(c),
        false => write!(line, "\\u{{{:x}}}", u32::from(c)).expect("a string takes everything"),
    }
}

/// JSON on one line, in ASCII escapes where a terminal would do something else than show it.
pub fn harmless_json(value: &impl serde::Serialize) -> String {
    let written = serde_json::to_string(value).expect("it has only string keys");
    let mut line = String::new();
    // All of these can only stand inside of a string, where JSON has a way to write them.
    for c in written.chars() {
        match is_harmless(c) {
            true => line.push(c),
            false => {
                let mut pair = [0; 2];
                for unit in c.encode_utf16(&mut pair) {
                    write!(line, "\\u{unit:04x}").expect("a string takes everything");
                }
            }
        }
    }
    line
}

pub(crate) fn is_harmless(c: char) -> bool {
    !c.is_control() && !session::is_invisible(c)
}

/// Cuts a line to a width, and marks the cut.
pub fn fit(line: &str, width: usize) -> String {
    if columns(line) <= width {
        return line.to_owned();
    }
    let kept = &line[..byte(line, width.saturating_sub(1))];
    let reset = if kept.contains('\u{1b}') { RESET } else { "" };
    format!("{}…{reset}", kept.trim_end())
}

/// Counts the characters of a text without its styles.
pub fn columns(text: &str) -> usize {
    if text.contains('\u{1b}') { characters(text).count() } else { text.chars().count() }
}

/// Iterates over the characters of a text without its styles. Returns the byte that each begins at, with its styles.
fn characters(text: &str) -> impl Iterator<Item = usize> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let begin = at;
        while text[at..].starts_with('\u{1b}') && style_length(&text[at..]) > 0 {
            at += style_length(&text[at..]);
        }
        at += text[at..].chars().next()?.len_utf8();
        Some(begin)
    })
}

/// As much of a value as a usual screen has on a line.
pub(crate) const USUAL_WIDTH: usize = 80;
/// Under itself goes on what has so much room there, and no word that has not.
const MIN_ROOM: usize = 20;
/// How far from the edge goes on what has not.
const EDGE_INDENT: usize = 5;

/// A line with a value of any length, its last part from `last` on: a narrow screen has as much of it as a usual one.
pub(crate) fn shown_value(line: &str, last: usize, width: usize) -> String {
    wrap(&fit(line, width.max(USUAL_WIDTH)), last, width)
}

/// A line that is never cut. Where it does not fit its last part, from `last` on, goes on under itself; below the line,
/// where it has no room there.
pub(crate) fn wrap(line: &str, last: usize, width: usize) -> String {
    if columns(line) <= width {
        return line.to_owned();
    }
    let (head, mut rest) = line.split_at(byte(line, last));
    let longest = rest.split(' ').map(columns).max().unwrap_or_default();
    let has_room = last + MIN_ROOM.max(longest.min(width.saturating_sub(EDGE_INDENT))) <= width;
    let indent = if has_room { last } else { last.min(EDGE_INDENT) };
    let room = width.saturating_sub(indent).max(1);
    let mut is_below = !has_room && !head.trim().is_empty();
    let mut out = match has_room {
        true => head.to_owned(),
        false if is_below => head.trim_end().to_owned(),
        false => " ".repeat(indent),
    };
    while !rest.is_empty() {
        let piece = first(rest, room);
        if is_below {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent));
        }
        out.push_str(piece.trim_end());
        rest = rest[piece.len()..].trim_start();
        is_below = true;
    }
    out
}

/// As much of the beginning of a text as fits, in whole words where there is one.
fn first(text: &str, room: usize) -> &str {
    let end = byte(text, room);
    match text[end..].starts_with(' ') || end == text.len() {
        true => &text[..end],
        false => text[..end].rfind(' ').map_or(&text[..end], |space| &text[..=space]),
    }
}

/// Finds the byte that a character begins at, by its number. Text before it keeps the ends of its styles.
fn byte(text: &str, at: usize) -> usize {
    let mut byte = characters(text).nth(at).unwrap_or(text.len());
    while text[byte..].starts_with(RESET) {
        byte += RESET.len();
    }
    byte
}

/// As in `1.2 s`.
pub fn duration(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..1_000_000 => format!("{:.0} ms", us as f64 / 1e3),
        _ => format!("{:.1} s", us as f64 / 1e6),
    }
}

/// As in `1.2k+30` for what went in and what came out, with the part that was cached.
pub fn tokens(usage: &Usage) -> String {
    let cached = match usage.cache_read {
        0 => String::new(),
        read => format!(" ({} cached)", short(read)),
    };
    format!("{} in{cached}, {} out", short(usage.input_total()), short(usage.output))
}

/// As in `1.2k`.
pub(crate) fn short(count: u64) -> String {
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => format!("{:.1}k", count as f64 / 1e3),
        _ => format!("{:.1}M", count as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_stays_text() {
        assert_eq!(plain("a\u{1b}[2J\n  b\u{202e}c\u{7}"), "a\\u{1b}[2J b\\u{202e}c\\u{7}");
        assert_eq!(visible("a\u{e0041}\u{ad}\u{2061}b"), "a\\u{e0041}\\u{ad}\\u{2061}b");
        assert_eq!(visible("a\u{2800}\u{1d173}\u{1bca0}b"), "a\\u{2800}\\u{1d173}\\u{1bca0}b");
        assert_eq!(fit("abcdef", 4), "abc…");
        assert_eq!(fit("abcd", 4), "abcd");
        assert_eq!(
            (duration(12), duration(12_300), duration(2_340_000)),
            ("12 µs".into(), "12 ms".into(), "2.3 s".into())
        );
    }

    #[test]
    fn what_does_not_fit_a_narrow_screen_goes_on_below() {
        let line = "yes  prompt  one word behind  another, as it is";
        assert_eq!(wrap(line, 13, 33), "yes  prompt  one word behind\n             another, as it is");
        assert_eq!(wrap(line, 13, 32), "yes  prompt\n     one word behind  another,\n     as it is");
        assert_eq!(wrap(line, 13, 80), line);
        assert_eq!(wrap("  /a/pointer/without/a/space", 2, 22), "  /a/pointer/without/a\n  /space");
        assert_eq!(wrap("at the very beginning of /a/pointer/in/one/piece", 25, 45).lines().count(), 2);
        assert_eq!(
            wrap("         /a/pointer/without/a/space", 9, 24),
            "     /a/pointer/without/\n     a/space"
        );
        assert_eq!(wrap("äöü äöü", 0, 1), "ä\nö\nü\nä\nö\nü");
        assert_eq!(wrap("äöü", 9, 0), "äöü");
        assert_eq!(wrap(line, 13, USUAL_WIDTH), line);
        assert_eq!(wrap(&"word ".repeat(20), 0, USUAL_WIDTH).lines().count(), 2);
        assert_eq!(shown_value(&"x".repeat(9_000), 0, 40).chars().count(), 81);
    }

    #[test]
    fn what_is_read_keeps_its_tabs_line_ends_and_joiners() {
        for harmless in
            ["all:\n\tcc -o x\r\n", "👨\u{200d}👩\u{200d}👧", "می\u{200c}خواهم", "❤\u{fe0f}", "e\u{301}"]
        {
            assert_eq!(readable(harmless), harmless);
        }
        let hostile = "a\rb\u{1b}[2J\u{200d}\u{200d} x\u{200c}y\u{202e}";
        assert_eq!(readable(hostile), "a\\u{d}b\\u{1b}[2J\\u{200d}\\u{200d} x\\u{200c}y\\u{202e}");
    }

    #[test]
    fn json_for_a_terminal_is_the_same_json() {
        let value = serde_json::json!({ "a\u{202e}": "\u{9b}31m \u{1b} é \u{feff} \u{1f600} \u{e0041}" });
        let line = harmless_json(&value);
        assert_eq!(line, r#"{"a\u202e":"\u009b31m \u001b é \ufeff 😀 \udb40\udc41"}"#);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&line).expect("JSON"), value);
    }
}
