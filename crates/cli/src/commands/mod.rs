//! One file per command.

pub(crate) mod capture;
pub(crate) mod check;
pub(crate) mod doctor;
pub(crate) mod import;
pub(crate) mod normalize;
pub(crate) mod proxy;
pub(crate) mod replay;
pub(crate) mod show;
pub(crate) mod verify;

use std::io::{IsTerminal as _, Write as _};
use std::path::Path;

use recording::source::Source;

use crate::failure::{Kind, OrFail};

/// Columns where nobody says how many there are.
const USUAL_WIDTH: usize = 80;

/// How a command prints its data.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// For people
    Text,
    /// For programs: stable and versioned
    Json,
}

/// Opens a recording or a folder of dumps.
pub(crate) fn open(dir: &Path) -> anyhow::Result<Source> {
    let hint =
        || "give the folder of a recording, the one that `--out` named, or a folder of dumps".to_owned();
    Source::open(dir).or_fail_with(Kind::Usage, hint)
}

/// Prints data. A reader that has seen enough, as `head` has, is no failure.
pub(crate) fn print(text: &str) {
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}

/// The terminal's width; in a pipe nothing is cut off.
pub(crate) fn width() -> usize {
    match std::io::stdout().is_terminal() {
        true => terminal_size::terminal_size().map_or(USUAL_WIDTH, |(width, _)| width.0.into()),
        false => usize::MAX,
    }
}
