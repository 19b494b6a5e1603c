//! `offshoot search`: what was said in our own conversations.

use std::process::ExitCode;

use super::Format;
use crate::failure::{Kind, OrFail};
use crate::journal;
use crate::terminal::print;

/// Search what you and main agents said, the best match first
#[derive(clap::Args)]
#[command(after_help = "Example:
  offshoot search 'parser bug' --limit 5

All words must occur, each as the beginning of one. What sub-agents said is
not searched: `offshoot show RUN` shows it.")]
pub(crate) struct Arguments {
    /// The words
    #[arg(required = true, value_name = "WORD")]
    words: Vec<String>,
    /// How many places to show
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    if arguments.words.iter().all(|word| word.trim().is_empty()) {
        return Err(anyhow::anyhow!("there is no word to search for")).or_fail_with(Kind::Usage, || {
            "give one that was said, as in `offshoot search parser`".to_owned()
        });
    }
    let store = journal::open()?;
    let hits =
        store.main().search(&arguments.words.join(" "), arguments.limit as usize).or_fail(Kind::Outside)?;
    print(&match arguments.format {
        Format::Text => report::search_text(&hits, crate::terminal::width()),
        Format::Json => format!("{}\n", report::harmless_json(&report::search_json(&hits))),
    });
    Ok(ExitCode::SUCCESS)
}
