//! Formats sizes and times, and escapes foreign text for terminals.

use std::fmt::Write as _;

use session::Usage;

use crate::style::{RESET, style_length};

/// Returns foreign text as one line. Control characters and bidirectional overrides are replaced by their
/// code point, so that they never reach the terminal.
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

/// Escapes foreign text but keeps its spaces. Characters that could move the cursor or change the writing
/// direction are replaced by their code point.
pub fn visible(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        push(&mut line, c, is_harmless(c));
    }
    line
}

/// Escapes foreign text of several lines for a terminal. Line ends, tabs, and joiners within words or emoji
/// remain.
pub fn readable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let (mut before, mut rest) = (None, text.chars().peekable());
    while let Some(c) = rest.next() {
        let behind = rest.peek().copied();
        let stays = match c {
            '\n' | '\t' => true,
            '\r' => behind == Some('\n'),
            // At the edge of a text it is unknown what a joiner joins.
            '\u{200c}' | '\u{200d}' => [before, behind].into_iter().flatten().all(is_joined),
            c => is_harmless(c),
        };
        push(&mut shown, c, stays);
        before = Some(c);
    }
    shown
}

/// Returns whether `c` is a letter that may be joined, or an emoji.
fn is_joined(c: char) -> bool {
    !c.is_ascii() && !c.is_whitespace() && is_harmless(c)
}

fn push(line: &mut String, c: char, is_shown: bool) {
    match is_shown {
        true => line.push(c),
        false => write!(line, "\\u{{{:x}}}", u32::from(c)).expect("a string takes everything"),
    }
}

/// Serializes to one line of JSON, with ASCII escapes for characters that a terminal would interpret.
pub fn harmless_json(value: &impl serde::Serialize) -> String {
    let written = serde_json::to_string(value).expect("it has only string keys");
    let mut line = String::new();
    // These characters occur only inside strings, where JSON can escape them.
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

/// Maximum length of a value: the width of a usual terminal.
pub(crate) const USUAL_WIDTH: usize = 80;
/// Minimum width in which the last part of a line continues below itself, if no word is longer.
const MIN_ROOM: usize = 20;
/// Indentation of a last part that does not have this width.
const EDGE_INDENT: usize = 5;

/// Formats a line with a long value, which starts at `last`. A narrow terminal shows as much of it as a usual
/// one.
pub(crate) fn shown_value(line: &str, last: usize, width: usize) -> String {
    wrap(&fit(line, width.max(USUAL_WIDTH)), last, width)
}

/// Wraps a line without cutting it. The last part, from `last` on, continues below itself, or below the line
/// if there is too little room.
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

/// Returns the part of a text that fits, cut after a word if possible.
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

/// Formats a count with its noun, as in `3 exchanges`.
pub fn counted(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// Formats a duration, as in `1.2 s`.
pub fn duration(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..1_000_000 => format!("{:.0} ms", us as f64 / 1e3),
        _ => format!("{:.1} s", us as f64 / 1e6),
    }
}

/// Formats input and output tokens with the cached part, as in `1.2k in (1.0k cached), 30 out`.
pub fn tokens(usage: &Usage) -> String {
    let cached = match usage.cache_read {
        0 => String::new(),
        read => format!(" ({} cached)", short(read)),
    };
    format!("{} in{cached}, {} out", short(usage.input_total()), short(usage.output))
}

/// Formats a count, as in `1.2k`.
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
