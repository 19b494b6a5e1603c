//! `offshoot cost`: sums up the cost of our own runs.

use std::process::ExitCode;

use store::Filter;

use super::Format;
use crate::failure::{ExitKind, OrFail};
use crate::journal;
use crate::terminal::print_text;

/// Sum up the tokens and cost of our own runs, by model
#[derive(clap::Args)]
#[command(after_help = "Examples:
  offshoot cost
  offshoot cost 1m7g0c8g --format json")]
pub(crate) struct Args {
    /// Only this run and its descendants; the beginning of the id is enough
    run: Option<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let store = journal::open()?;
    let root = args.run.as_deref().map(|run| journal::find_run(&store, run)).transpose()?;
    let mut runs = store.runs(&Filter { below: root, ..Filter::default() }).or_fail(ExitKind::Outside)?;
    runs.iter_mut().for_each(journal::mark_interrupted);
    let prices_of = session::model::TABLE_MONTH;
    print_text(&match args.format {
        Format::Text => report::cost_text(&runs, prices_of, crate::terminal::width()),
        Format::Json => format!("{}\n", report::harmless_json(&report::cost_json(&runs, prices_of))),
    });
    Ok(ExitCode::SUCCESS)
}
