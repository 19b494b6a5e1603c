//! Printing to standard output, and the width of the terminal.

use std::io::{IsTerminal as _, Write as _};

use crate::failure::Kind;

/// Number of columns if the terminal does not report one.
pub(crate) const DEFAULT_WIDTH: usize = 80;

/// Prints data. Ends the process if the output cannot be written; a closed pipe (`head`) is no failure.
pub(crate) fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            eprintln!("error: cannot write the output: {error}");
            std::process::exit(Kind::Outside as i32);
        }
        _ => {}
    }
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

/// Formats a count with its noun, as in `3 exchanges`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}
