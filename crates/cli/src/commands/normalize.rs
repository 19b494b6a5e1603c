//! `offshoot normalize`: orders a recording into lanes and turns.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use recording::normalize::{NormalizeError, Normalized, default_folder, normalize_into};
use recording::source::Source;
use serde_json::json;

use super::Format;
use crate::failure::{ExitKind, OrFail};
use crate::progress::Progress;
use crate::recordings::open;
use crate::terminal::print_text;

/// Order the exchanges of a recording into lanes and turns
///
/// The result is written to `normalized/` in the folder of the recording, or to `--out`. If the recording has `exports/`, the result
/// includes the harness's own ids of sessions, agents and messages.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  offshoot normalize rec
  offshoot normalize folder-of-dumps --format json")]
pub(crate) struct Args {
    /// Folder of the recording, or of `*_request.json` and `*_response.json`
    recording: PathBuf,
    /// Folder for the result; may hold an earlier one
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Header in which the program sent the id of its conversation; see docs/reference/lanes.md
    #[arg(long, value_name = "NAME", value_parser = crate::recordings::header_name)]
    session_header: Option<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let source = open(&args.recording)?.with_session_header(args.session_header.clone());
    let folder = args.out.clone().unwrap_or_else(|| default_folder(&source));
    let normalized = write_normalized(&source, &folder)?;
    let ordered = &normalized.ordered;
    let turns: usize = ordered.lanes.lanes.iter().map(|lane| lane.turns.len()).sum();
    let (exchanges, lanes) = (ordered.exchanges.len(), ordered.lanes.lanes.len());
    print_text(&match args.format {
        Format::Text => {
            let problems = ordered.problems.iter().map(|problem| {
                format!("{}: {}\n", report::plain(&problem.what), report::plain(&problem.why))
            });
            let problems: String = problems.collect();
            let [turns, exchanges, lanes] = [(turns, "turn"), (exchanges, "exchange"), (lanes, "lane")]
                .map(|(n, one)| report::counted(n as u64, one));
            format!("{problems}{turns} of {exchanges} in {lanes}: `{}`\n", folder.display())
        }
        Format::Json => {
            let done = json!({
                "format": 1, "exchanges": exchanges, "turns": turns, "lanes": lanes,
                "problems": ordered.problems, "folder": folder,
            });
            format!("{}\n", report::harmless_json(&done))
        }
    });
    Ok(ExitCode::SUCCESS)
}

/// Writes or replaces the folder of normalized turns.
pub(crate) fn write_normalized(source: &Source, folder: &Path) -> anyhow::Result<Normalized> {
    let _progress = Progress::step("ordering the exchanges");
    let exported = harness::import::from_exports(source.dir());
    let normalized = normalize_into(source, exported.as_ref(), folder);
    let in_the_way = matches!(&normalized, Err(NormalizeError::InTheWay { .. }));
    match in_the_way {
        true => normalized.or_fail_with(ExitKind::Usage, || {
            "name a folder that is new, or empty, or was written by this command".to_owned()
        }),
        false => normalized.or_fail(ExitKind::Outside),
    }
}
