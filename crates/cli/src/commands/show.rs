//! `offshoot show`: the lanes of a recording, turn by turn.

use std::path::PathBuf;
use std::process::ExitCode;

use recording::source::Source;
use report::About;

use super::{Format, open, print};
use crate::failure::{Kind, OrFail};

/// Show the lanes of a recording: each turn with its calls, results, tokens and time
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The recording's folder, or a folder of dumps
    recording: PathBuf,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let source = open(&arguments.recording)?;
    let damage = source.recording().map(|recording| recording.damage()).transpose().or_fail(Kind::Outside)?;
    let damage = damage.unwrap_or_default();
    let about = About { recording: source.recording(), damage: &damage };
    print(&shown(&source, &about, arguments.format));
    Ok(ExitCode::from(if damage.is_empty() { 0 } else { Kind::Verdict as u8 }))
}

fn shown(source: &Source, about: &About<'_>, format: Format) -> String {
    let ordered = source.order();
    match format {
        Format::Text => report::show_text(&ordered, about, super::width()),
        Format::Json => format!("{}\n", report::show_json(&ordered, about)),
    }
}
