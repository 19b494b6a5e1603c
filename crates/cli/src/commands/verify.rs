//! `offshoot verify`: compares a candidate with a golden.

use std::path::PathBuf;
use std::process::ExitCode;

use parity::{Level, VerdictOutcome};

use crate::failure::ExitKind;
use crate::progress::Progress;
use crate::recordings::{damage, open_quietly, rules};
use crate::terminal::{print, print_text};
use crate::{output, page};

/// Compare two recordings of one scenario, surface by surface
///
/// docs/reference/verify.md describes the surfaces and levels.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  offshoot verify goldens/claude-code/2.1.325/wakeup rec
  offshoot verify rec again --level E4
  offshoot verify rec again --format junit > verdict.xml
  offshoot verify rec again --format html > verdict.html

Exit codes: 0 the required level holds; 1 it does not, or the recordings cannot
be compared; 2 you can fix it.")]
pub(crate) struct Args {
    /// Accepted recording
    #[arg(value_parser = crate::recordings::recording_at())]
    golden: PathBuf,
    /// Recording to compare with it
    #[arg(value_parser = crate::recordings::recording_at())]
    candidate: PathBuf,
    /// Required level: E0 (same outcome) to E4 (byte-equal)
    #[arg(long, value_name = "LEVEL", default_value_t = Level::E3)]
    level: Level,
    /// Exclusions and masks [default: parity.toml beside the golden]
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t = VerdictFormat::Text)]
    format: VerdictFormat,
}

/// Output format of a verdict.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum VerdictFormat {
    /// For people
    Text,
    /// For programs: stable and versioned
    Json,
    /// For continuous integration
    Junit,
    /// One page for a browser
    Html,
}

pub(crate) fn run(arguments: &Args) -> anyhow::Result<ExitCode> {
    let progress = Progress::step("reading both recordings");
    // Opening reads a whole recording, so both are opened at the same time.
    let (golden, candidate) = std::thread::scope(|scope| {
        let candidate = scope.spawn(|| open_quietly(&arguments.candidate));
        (open_quietly(&arguments.golden), candidate.join().expect("opening a recording does not panic"))
    });
    let (golden, candidate) = (golden?, candidate?);
    let rules = rules(&arguments.golden, arguments.rules.as_deref())?;
    progress.set_step("comparing");
    let verdict = parity::verify(&golden, &candidate, &rules, arguments.level);
    drop(progress);
    match arguments.format {
        VerdictFormat::Text => print_text(&report::verdict_text(&verdict, crate::terminal::width())),
        VerdictFormat::Junit => print(&report::junit(&verdict)),
        VerdictFormat::Json => print(&format!("{}\n", report::harmless_json(&verdict))),
        VerdictFormat::Html => {
            let page = page::VerdictPage {
                verdict: &verdict,
                both: Some((&golden, &candidate)),
                damage: &damage(&candidate)?,
            };
            output::print(|out| page.write(out))?;
        }
    }
    Ok(ExitCode::from(if verdict.outcome == VerdictOutcome::Match { 0 } else { ExitKind::Verdict as u8 }))
}
