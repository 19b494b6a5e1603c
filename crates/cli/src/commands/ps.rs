//! `offshoot ps`: lists our own runs.

use std::process::ExitCode;

use store::Filter;

use super::Format;
use crate::failure::{ExitKind, OrFail};
use crate::journal;
use crate::terminal::print_text;

/// Number of run trees that are listed without `--all`.
const MAX_TREES: u32 = 30;
/// Number of ended runs that are listed below one parent without `--all`.
const MAX_ENDED: usize = 10;

/// List runs of our own agents, with their status, tokens and cost
///
/// `interrupted` means that the process of the run is gone. To resume it: `offshoot run --resume RUN`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  offshoot ps
  offshoot ps --live")]
pub(crate) struct Args {
    /// List only active runs
    #[arg(long)]
    live: bool,
    /// List all runs, not only the newest 30 trees
    #[arg(long)]
    all: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let store = journal::open()?;
    let roots = (!args.all && !args.live).then_some(MAX_TREES);
    let filter = Filter { live: args.live, roots, ..Filter::default() };
    let mut runs = store.runs(&filter).or_fail(ExitKind::Outside)?;
    runs.iter_mut().for_each(journal::mark_interrupted);
    if args.live {
        runs.retain(|run| run.status.is_live());
    }
    print_text(&match args.format {
        Format::Text if runs.is_empty() && args.live => "no active runs\n".to_owned(),
        Format::Text => {
            let max_ended = if args.all { usize::MAX } else { MAX_ENDED };
            report::ps_text(&runs, journal::now(), crate::terminal::width(), max_ended)
        }
        Format::Json => format!("{}\n", report::harmless_json(&report::ps_json(&runs))),
    });
    Ok(ExitCode::SUCCESS)
}
