//! `offshoot check`: whether a recording shows what it should.

use std::path::PathBuf;
use std::process::ExitCode;

use parity::{CheckReport, CriterionAnswer, Evidence};
use recording::source::Source;

use super::Format;
use crate::failure::{ExitKind, OrFail};
use crate::progress::Progress;
use crate::recordings::open;
use crate::terminal::print_text;

/// Check that a recording is complete and shows what it should
#[derive(clap::Args)]
#[command(after_help = "Examples:
  offshoot check rec
  offshoot check rec --format json

Exit codes: 0 every criterion holds or does not apply; 1 one does not hold;
2 you can fix it.")]
pub(crate) struct Args {
    /// The recording's folder
    #[arg(value_parser = crate::recordings::recording_at())]
    recording: PathBuf,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(crate) fn run(arguments: &Args) -> anyhow::Result<ExitCode> {
    let check = checked(&open(&arguments.recording)?)?;
    print_text(&match arguments.format {
        Format::Text => report::check_text(&check, crate::terminal::width()),
        Format::Json => format!("{}\n", report::harmless_json(&check)),
    });
    Ok(ExitCode::from(if check.ok { 0 } else { ExitKind::Verdict as u8 }))
}

/// Judges a recording.
pub(crate) fn checked(source: &Source) -> anyhow::Result<CheckReport> {
    let _progress = Progress::step("checking");
    // Whatever cannot be read was opened before: what is wrong now is what it says.
    Ok(parity::check_recording(&Evidence::gather(source).or_fail(ExitKind::Usage)?))
}

/// The criteria that do not hold, in one line.
pub(crate) fn failures(check: &CheckReport) -> String {
    let failed = check.criteria.iter().filter(|criterion| criterion.answer == CriterionAnswer::No);
    failed
        .map(|criterion| format!("{} ({})", criterion.name, criterion.reason))
        .collect::<Vec<_>>()
        .join("; ")
}
