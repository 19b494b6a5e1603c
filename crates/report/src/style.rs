//! Styles of text on a terminal.
//!
//! Renderers mark text with [`Tone::paint`]. [`terminal_text`](crate::terminal_text) is the last step before a terminal or a
//! pipe: it keeps or drops these styles, and escapes every other control character.

use std::sync::LazyLock;

use anstyle::{AnsiColor, Style};

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
