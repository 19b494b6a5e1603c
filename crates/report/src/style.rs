//! Styles of text on a terminal, and the filter that lets no other escape sequence through.
//!
//! Renderers mark text with [`Tone::paint`]. [`terminal_text`] is the last step before a terminal or a pipe: it keeps or
//! drops these styles, and escapes every other control character. Text from a file can at worst change its own colour.

use std::sync::LazyLock;

use anstyle::{AnsiColor, Style};

use crate::text::readable;

/// Meaning of a piece of text, shown as a style.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Success, or a value that was added.
    Good,
    /// A failure, or a value that was removed.
    Bad,
    /// Something to look at.
    Warning,
    /// Something under way, or a command to try.
    Hint,
    /// Something of little interest.
    Faint,
    /// A heading.
    Strong,
    /// Emphasised words.
    Emphasis,
    /// Code within prose.
    Code,
}

impl Tone {
    const ALL: [Tone; 8] = [
        Tone::Good,
        Tone::Bad,
        Tone::Warning,
        Tone::Hint,
        Tone::Faint,
        Tone::Strong,
        Tone::Emphasis,
        Tone::Code,
    ];

    fn style(self) -> Style {
        match self {
            Tone::Good => AnsiColor::Green.on_default(),
            Tone::Bad => AnsiColor::Red.on_default(),
            Tone::Warning => AnsiColor::Yellow.on_default(),
            Tone::Hint => AnsiColor::Cyan.on_default(),
            Tone::Faint => Style::new().dimmed(),
            Tone::Strong => Style::new().bold(),
            Tone::Emphasis => Style::new().italic(),
            Tone::Code => AnsiColor::Magenta.on_default(),
        }
    }

    /// Surrounds a text with the style. The caller has escaped text from elsewhere.
    pub fn paint(self, text: &str) -> String {
        let style = self.style();
        if text.is_empty() { String::new() } else { format!("{style}{text}{style:#}") }
    }
}

/// The escape sequences of all styles, and the one that ends them.
static SEQUENCES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let begin = Tone::ALL.map(|tone| tone.style().render().to_string());
    begin.into_iter().chain([RESET.to_owned()]).collect()
});

pub(crate) const RESET: &str = "\u{1b}[0m";

/// Length of the style that a text begins with; 0 if it begins with anything else.
pub(crate) fn style_length(text: &str) -> usize {
    let begins = |sequence: &&String| text.starts_with(sequence.as_str());
    SEQUENCES.iter().find(begins).map_or(0, String::len)
}

/// Makes a text safe to print: keeps or drops the styles of [`Tone`], and escapes all other control characters but line
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
