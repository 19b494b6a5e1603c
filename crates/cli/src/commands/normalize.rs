//! `offshoot normalize`: every turn of a recording in order.

use std::path::PathBuf;
use std::process::ExitCode;

use recording::normalize::{NormalizeError, Normalized, normalize};
use recording::source::Source;
use serde_json::json;

use super::Format;
use crate::failure::{Kind, OrFail};
use crate::progress::Progress;
use crate::recordings::open;
use crate::terminal::counted;
use crate::terminal::print;

/// Order the exchanges of a recording into lanes and turns
///
/// They are written to `normalized/` in its folder. What the recording's `exports/` say adds the harness's own session, agent and message ids.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  offshoot normalize rec
  offshoot normalize folder-of-dumps --format json")]
pub(crate) struct Arguments {
    /// The recording's folder, or a folder of `*_request.json` and `*_response.json`
    recording: PathBuf,
    /// How to print what was done
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let normalized = normalized(&open(&arguments.recording)?)?;
    let ordered = &normalized.ordered;
    let turns: usize = ordered.lanes.lanes.iter().map(|lane| lane.turns.len()).sum();
    let (exchanges, lanes) = (ordered.exchanges.len(), ordered.lanes.lanes.len());
    let place = arguments.recording.join("normalized");
    print(&match arguments.format {
        Format::Text => {
            let problems = ordered.problems.iter().map(|problem| {
                format!("{}: {}\n", report::plain(&problem.what), report::plain(&problem.why))
            });
            let problems: String = problems.collect();
            let [turns, exchanges, lanes] = [(turns, "turn"), (exchanges, "exchange"), (lanes, "lane")]
                .map(|(n, one)| counted(n as u64, one));
            format!("{problems}{turns} of {exchanges} in {lanes}: `{}`\n", place.display())
        }
        Format::Json => {
            let done = json!({
                "format": 1, "exchanges": exchanges, "turns": turns, "lanes": lanes,
                "problems": ordered.problems, "folder": place,
            });
            format!("{}\n", report::harmless_json(&done))
        }
    });
    Ok(ExitCode::SUCCESS)
}

/// Writes `normalized/` anew.
pub(crate) fn normalized(source: &Source) -> anyhow::Result<Normalized> {
    let _shown = Progress::of("ordering and writing");
    let exported = harness::import::from_exports(source.dir());
    let normalized = normalize(source, exported.as_ref());
    let in_the_way = matches!(&normalized, Err(NormalizeError::InTheWay { .. }));
    match in_the_way {
        true => normalized.or_fail_with(Kind::Usage, || {
            format!("look into `{}/normalized` and move it away", source.dir().display())
        }),
        false => normalized.or_fail(Kind::Outside),
    }
}
