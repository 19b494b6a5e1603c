//! The filter for text that goes to a terminal: no escape sequence passes but our own styles.
//!
//! Text from a file can at worst change its own colour.

use crate::style::style_length;
use crate::text::readable;

/// Makes a text safe to print: keeps or drops the styles of [`Tone`](crate::Tone), and escapes all other control characters but line
/// ends and tabs.
pub fn terminal_text(text: &str, is_styled: bool) -> String {
    let mut safe = String::with_capacity(text.len());
    let (mut begin, mut at) = (0, 0);
    while let Some(escape) = text[at..].find('\u{1b}') {
        at += escape;
        let length = style_length(&text[at..]);
        if length == 0 {
            at += 1;
            continue;
        }
        safe += &readable(&text[begin..at]);
        if is_styled {
            safe += &text[at..at + length];
        }
        at += length;
        begin = at;
    }
    safe + &readable(&text[begin..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::style::Tone;
    use crate::text::{columns, fit, wrap};

    #[test]
    fn only_our_own_styles_reach_a_terminal() {
        let text = format!("{} and\u{1b}[2J\t\u{9b}31m\n", Tone::Bad.paint("failed"));
        assert_eq!(terminal_text(&text, false), "failed and\\u{1b}[2J\t\\u{9b}31m\n");
        assert_eq!(terminal_text(&text, true), "\u{1b}[31mfailed\u{1b}[0m and\\u{1b}[2J\t\\u{9b}31m\n");
        assert_eq!(terminal_text("\u{1b}[31;5mx\u{1b}]0;t\u{7}", true), "\\u{1b}[31;5mx\\u{1b}]0;t\\u{7}");
        assert_eq!(Tone::Good.paint(""), "");
    }

    #[test]
    fn a_style_takes_no_room() {
        let text = format!("a {} c", Tone::Warning.paint("word"));
        assert_eq!(columns(&text), 8);
        assert_eq!(fit(&text, 8), text);
        assert_eq!(fit(&text, 5), "a \u{1b}[33mwo…\u{1b}[0m");
        let wrapped = wrap(&format!("{}  one two", Tone::Good.paint("yes")), 5, 8);
        assert_eq!(terminal_text(&wrapped, false), "yes\n     one\n     two");
        let wrapped = wrap(&format!("name  {}", Tone::Warning.paint("some words")), 6, 14);
        assert_eq!(terminal_text(&wrapped, false), "name\n     some\n     words");
    }
}
