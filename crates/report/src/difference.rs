//! One difference for people who decide on it.

use std::fmt::Write as _;

use parity::VerdictDifference;

use crate::diff::{Piece, pieces};
use crate::style::Tone;
use crate::text::{fit, plain, visible};

/// Bytes of common text that are shown around a change.
const AROUND: usize = 60;
/// Bytes of a value that are compared.
const MAX_VALUE: usize = 20_000;
/// Changes of a value that are shown.
const MAX_CHANGES: usize = 12;

/// Renders the description and the place of a difference, then both values. Long values are shown around their changes.
pub fn difference_text(it: &VerdictDifference, width: usize) -> String {
    let level = crate::verdict::remaining_level(it.level);
    let mut text = String::new();
    let mut line = |line: String| writeln!(text, "{}", fit(&line, width)).expect("a string takes everything");
    line(format!(
        "{} of {}, turn {}: {} ({level})",
        it.surface.name(),
        plain(&it.lane),
        it.turn,
        plain(&it.description)
    ));
    line(format!("  at {}", plain(&it.pointer)));
    match (&it.golden, &it.candidate) {
        (Some(old), Some(new)) if old.len().max(new.len()) > width.min(200) => changes(old, new, &mut line),
        (golden, candidate) => {
            let value = |value: &Option<String>| value.as_deref().map_or("nothing".to_owned(), quoted);
            line(Tone::Bad.paint(&format!("  - {}", value(golden))));
            line(Tone::Good.paint(&format!("  + {}", value(candidate))));
        }
    }
    text
}

fn quoted(value: &str) -> String {
    format!("\"{}\"", plain(&value[..value.floor_char_boundary(MAX_VALUE)]))
}

fn changes(old: &str, new: &str, line: &mut dyn FnMut(String)) {
    let cut = |value: &str| value[..value.floor_char_boundary(MAX_VALUE)].to_owned();
    let (old, new) = (cut(old), cut(new));
    let pieces = pieces(&old, &new);
    let changed = pieces.iter().enumerate().filter(|(_, piece)| !matches!(piece, Piece::Same(_)));
    let mut count = 0;
    for (at, piece) in changed {
        count += 1;
        if count > MAX_CHANGES {
            continue;
        }
        let same = |piece: &&Piece<'_>| matches!(piece, Piece::Same(_));
        let before = around(pieces[..at].iter().rev().find(same));
        let after = around(pieces[at..].iter().find(same));
        let before = &before[before.ceil_char_boundary(before.len().saturating_sub(AROUND))..];
        let after = &after[..after.floor_char_boundary(AROUND)];
        let (sign, tone, text) = match piece {
            Piece::Gone(text) => ('-', Tone::Bad, text),
            Piece::New(text) => ('+', Tone::Good, text),
            Piece::Same(_) => continue,
        };
        let text = tone.paint(&format!("[{}]", flat(text)));
        line(format!("  {} …{}{text}{}…", tone.paint(&sign.to_string()), flat(before), flat(after)));
    }
    if count > MAX_CHANGES {
        line(format!("  and {} more places", count - MAX_CHANGES));
    }
}

/// Returns a text on one line, with its spaces.
fn flat(text: &str) -> String {
    let lines: Vec<&str> = text.split(char::is_whitespace).collect();
    visible(&lines.join(" "))
}

fn around<'t>(piece: Option<&Piece<'t>>) -> &'t str {
    match piece {
        Some(Piece::Same(text)) => text,
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::sample::verdict;

    #[test]
    fn long_values_are_shown_around_their_changes() {
        let shown: String = verdict().differences.iter().map(|it| difference_text(it, 100)).collect();
        let shown = crate::terminal_text(&shown, false);
        expect![[r#"
            prompt of main, turn 1: a text differs (E2: same structure)
              at /system/1/text
              - …u are a careful agent that reads before it writes. Today is [Monday]. You are a careful agent…
              + …u are a careful agent that reads before it writes. Today is [Sunday]. You are a careful agent…
            results of main, turn 2: </pre></script><script>alert(1)</script><img src=x onerror=alert(2)>\u{1b}…
              at /system/1/text
              - "</pre></script><script>alert(1)</script><img src=x onerror=alert(2)>\u{1b}[2J\u{202e}"'&]]>\u{…
              + nothing
            tools of sub-1, turn 1: a text differs (E3: equal after masks)
              at /system/1/text
              - "1"
              + "1.0"
        "#]].assert_eq(&shown);
    }
}
