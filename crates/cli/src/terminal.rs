//! Printing: data, text for people, messages, colour, and the width of the terminal.
//!
//! Text for people goes through [`print_text`] and [`message`]. Both escape control characters, and keep styles only where
//! they are wanted. Data for programs goes through [`print`] unchanged.

use std::io::{IsTerminal as _, Write as _};

use anstream::{AutoStream, ColorChoice};
use report::{Tone, terminal_text};

use crate::exit_kind::ExitKind;

/// Number of columns if the terminal does not report one.
pub(crate) const DEFAULT_WIDTH: usize = 80;

/// Value of `--color`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ColorMode {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    Always,
    Never,
}

impl ColorMode {
    /// Applies the mode to everything that is printed from now on.
    pub(crate) fn apply(self) {
        let choice = match self {
            ColorMode::Auto => ColorChoice::Auto,
            ColorMode::Always => ColorChoice::Always,
            ColorMode::Never => ColorChoice::Never,
        };
        choice.write_global();
    }

    /// Returns the variable that gives a child process the same mode.
    pub(crate) fn variable() -> Option<(&'static str, &'static str)> {
        match ColorChoice::global() {
            ColorChoice::Auto => None,
            ColorChoice::Never => Some(("NO_COLOR", "1")),
            ColorChoice::Always | ColorChoice::AlwaysAnsi => Some(("CLICOLOR_FORCE", "1")),
        }
    }
}

/// Returns `true` if standard output is coloured.
pub(crate) fn is_stdout_styled() -> bool {
    AutoStream::choice(&std::io::stdout()) != ColorChoice::Never
}

/// Returns `true` if standard error is coloured.
pub(crate) fn is_stderr_styled() -> bool {
    AutoStream::choice(&std::io::stderr()) != ColorChoice::Never
}

/// Prints data. Ends the process if the output cannot be written; a closed pipe (`head`) is no failure.
pub(crate) fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            drop(out);
            message(Some(Label::Error), &format!("cannot write the output: {error}"));
            std::process::exit(ExitKind::Outside as i32);
        }
        _ => {}
    }
}

/// Prints text for people to standard output.
pub(crate) fn print_text(text: &str) {
    print(&terminal_text(text, is_stdout_styled()));
}

/// First word of a message.
#[derive(Clone, Copy)]
pub(crate) enum Label {
    Error,
    Warning,
    Hint,
}

/// Prints a message to standard error. A closed standard error ends nothing.
pub(crate) fn message(label: Option<Label>, text: &str) {
    let label = match label {
        Some(Label::Error) => Tone::Bad.paint("error: "),
        Some(Label::Warning) => Tone::Warning.paint("warning: "),
        Some(Label::Hint) => Tone::Hint.paint("hint: "),
        None => String::new(),
    };
    let shown = terminal_text(&format!("{label}{text}"), is_stderr_styled());
    let _ = writeln!(std::io::stderr().lock(), "{shown}");
}

/// Returns the width of standard output; unlimited in a pipe.
pub(crate) fn width() -> usize {
    match std::io::stdout().is_terminal() {
        true => terminal_size::terminal_size().map_or(DEFAULT_WIDTH, |(width, _)| width.0.into()),
        false => usize::MAX,
    }
}

/// Returns the width of standard error.
pub(crate) fn stderr_width() -> usize {
    terminal_size::terminal_size_of(std::io::stderr()).map_or(DEFAULT_WIDTH, |(width, _)| width.0.into())
}
