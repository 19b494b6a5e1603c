//! `offshoot check`: checks the criteria of one recording.

use std::path::PathBuf;
use std::process::ExitCode;

use parity::{CheckReport, CriterionAnswer, Evidence};
use recording::source::Source;

use super::Format;
use crate::failure::{ExitKind, OrFail};
use crate::progress::Progress;
use crate::recordings::open;
use crate::terminal::print_text;

/// Check that a recording is complete and fulfils its scenario
#[derive(clap::Args)]
#[command(after_help = "Examples:
  offshoot check rec
  offshoot check rec --format json

Exit codes: 0 each criterion holds or does not apply; 1 one does not hold;
2 you can fix it.")]
pub(crate) struct Args {
    /// Folder of the recording
    #[arg(value_parser = crate::recordings::recording_at())]
    recording: PathBuf,
    /// Output format
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

/// Checks a recording.
pub(crate) fn checked(source: &Source) -> anyhow::Result<CheckReport> {
    let _progress = Progress::step("checking");
    // The recording could be opened, so a file that cannot be read now is one that the user can restore.
    Ok(parity::check_recording(&Evidence::gather(source).or_fail(ExitKind::Usage)?))
}

/// Returns the criteria that do not hold, in one line.
pub(crate) fn failures(check: &CheckReport) -> String {
    let failed = check.criteria.iter().filter(|criterion| criterion.answer == CriterionAnswer::No);
    failed
        .map(|criterion| format!("{} ({})", criterion.name, criterion.reason))
        .collect::<Vec<_>>()
        .join("; ")
}
