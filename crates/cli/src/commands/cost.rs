//! `offshoot cost`: what our own runs cost.

use std::process::ExitCode;

use store::Filter;

use super::Format;
use crate::failure::{Kind, OrFail};
use crate::journal;
use crate::terminal::print;

/// Sum up what our own runs used and cost, by model
#[derive(clap::Args)]
#[command(after_help = "Examples:
  offshoot cost
  offshoot cost 1m7g0c8g --format json")]
pub(crate) struct Arguments {
    /// Only this run and those below it; the beginning of its id is enough
    run: Option<String>,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let store = journal::open()?;
    let below = arguments.run.as_deref().map(|run| journal::find(&store, run)).transpose()?;
    let runs = store.runs(&Filter { below, ..Filter::default() }).or_fail(Kind::Outside)?;
    let prices_of = session::model::TABLE_MONTH;
    print(&match arguments.format {
        Format::Text => report::cost_text(&runs, prices_of, crate::terminal::width()),
        Format::Json => format!("{}\n", report::harmless_json(&report::cost_json(&runs, prices_of))),
    });
    Ok(ExitCode::SUCCESS)
}
