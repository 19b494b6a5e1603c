//! `offshoot search`: searches the conversations of our own runs.

use std::process::ExitCode;

use super::Format;
use crate::failure::{ExitKind, OrFail};
use crate::journal;
use crate::terminal::print_text;

/// Search your conversations with main agents, best match first
#[derive(clap::Args)]
#[command(after_help = "Examples:
  offshoot search 'parser bug' --limit 5
  offshoot search '\"exact words\" parser'

Any word may match, also the beginning of one; more words rank higher. Words in
double quotes match as a phrase. Messages of sub-agents are not searched; see
`offshoot show RUN`.")]
pub(crate) struct Args {
    /// Words to search for
    #[arg(required = true, value_name = "WORD")]
    words: Vec<String>,
    /// Maximum number of matches
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.words.iter().all(|word| word.trim().is_empty()) {
        return Err(anyhow::anyhow!("no word to search for"))
            .or_fail_with(ExitKind::Usage, || "offshoot search parser".to_owned());
    }
    let store = journal::open()?;
    let hits = store.main().search(&args.words.join(" "), args.limit as usize).or_fail(ExitKind::Outside)?;
    print_text(&match args.format {
        Format::Text => report::search_text(&hits, crate::terminal::width()),
        Format::Json => format!("{}\n", report::harmless_json(&report::search_json(&hits))),
    });
    Ok(ExitCode::SUCCESS)
}
