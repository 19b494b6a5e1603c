//! `offshoot ps`: our own runs.

use std::process::ExitCode;

use store::Filter;

use super::Format;
use crate::failure::{Kind, OrFail};
use crate::journal;
use crate::terminal::print;

/// How many roots are listed without `--all`, and how many ended brothers below each.
const USUAL: u32 = 30;
const BROTHERS: usize = 10;

/// List our own runs: where they stand, and what they cost
///
/// A run whose process is gone is shown as `interrupted`; `offshoot run --resume RUN` goes on with it.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  offshoot ps
  offshoot ps --live")]
pub(crate) struct Arguments {
    /// Only the runs that are at work
    #[arg(long)]
    live: bool,
    /// All runs, not only the newest 30 with those below them
    #[arg(long)]
    all: bool,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let store = journal::open()?;
    let roots = (!arguments.all && !arguments.live).then_some(USUAL);
    let filter = Filter { live: arguments.live, roots, ..Filter::default() };
    let mut runs = store.runs(&filter).or_fail(Kind::Outside)?;
    runs.iter_mut().for_each(journal::as_it_is);
    if arguments.live {
        runs.retain(|run| run.status.is_live());
    }
    print(&match arguments.format {
        Format::Text if runs.is_empty() && arguments.live => "no run is at work\n".to_owned(),
        Format::Text => {
            let brothers = if arguments.all { usize::MAX } else { BROTHERS };
            report::ps_text(&runs, journal::now(), crate::terminal::width(), brothers)
        }
        Format::Json => format!("{}\n", report::harmless_json(&report::ps_json(&runs))),
    });
    Ok(ExitCode::SUCCESS)
}
