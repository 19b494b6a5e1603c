//! One difference as people read it, to decide on.

use std::fmt::Write as _;

use parity::VerdictDifference;

use crate::diff::{Piece, pieces};
use crate::style::Tone;
use crate::text::{fit, plain, visible};

/// So much of what is the same is shown around a change.
const AROUND: usize = 60;
/// So much of a value is looked at.
const MOST: usize = 20_000;
/// So many lines of a value are shown.
const MOST_LINES: usize = 12;

/// What differs and where, then both values: whole where they are short, else only where they change.
pub fn difference_text(it: &VerdictDifference, width: usize) -> String {
    let holds = it.level.map_or("nothing holds".to_owned(), |level| format!("{level} holds"));
    let mut text = String::new();
    let mut line = |line: String| writeln!(text, "{}", fit(&line, width)).expect("a string takes everything");
    line(format!(
        "{} of {}, turn {}: {} ({holds})",
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
    format!("\"{}\"", plain(&value[..value.floor_char_boundary(MOST)]))
}

fn changes(old: &str, new: &str, line: &mut dyn FnMut(String)) {
    let cut = |value: &str| value[..value.floor_char_boundary(MOST)].to_owned();
    let (old, new) = (cut(old), cut(new));
    let pieces = pieces(&old, &new);
    let changed = pieces.iter().enumerate().filter(|(_, piece)| !matches!(piece, Piece::Same(_)));
    let mut count = 0;
    for (at, piece) in changed {
        count += 1;
        if count > MOST_LINES {
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
    if count > MOST_LINES {
        line(format!("  and {} more places", count - MOST_LINES));
    }
}

/// A text on one line, with a space wherever there was any.
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
    fn what_is_long_is_shown_where_it_changes() {
        let shown: String = verdict().differences.iter().map(|it| difference_text(it, 100)).collect();
        let shown = crate::terminal_text(&shown, false);
        expect![[r#"
            prompt of main, turn 1: a text differs (E2 holds)
              at /system/1/text
              - …u are a careful agent that reads before it writes. Today is [Monday]. You are a careful agent…
              + …u are a careful agent that reads before it writes. Today is [Sunday]. You are a careful agent…
            results of main, turn 2: </pre></script><script>alert(1)</script><img src=x onerror=alert(2)>\u{1b}…
              at /system/1/text
              - "</pre></script><script>alert(1)</script><img src=x onerror=alert(2)>\u{1b}[2J\u{202e}"'&]]>\u{…
              + nothing
            tools of sub-1, turn 1: a text differs (E3 holds)
              at /system/1/text
              - "1"
              + "1.0"
        "#]].assert_eq(&shown);
    }
}
