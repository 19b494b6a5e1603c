//! `offshoot cache`: what the provider's prompt cache should have done, and why it did not.

use std::path::Path;
use std::process::ExitCode;

use parity::Cached;
use report::CacheOf;
use session::model::TABLE_OF;

use super::{Format, open, print};

/// Explain what the provider's prompt cache should have read and written, and every miss
///
/// Everything is computed from the bytes, the cache markers, the times and the dated rules of the provider; beside it
/// stands what the usage says. docs/cache.md has the rules, and how far they can be trusted.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  offshoot cache rec
  offshoot cache rec --format json
  offshoot cache rec --lint --golden goldens/claude-code/2.1.325/wakeup/runs/RUN
  offshoot cache 1m7g0c8g

Exit codes: 0 it was explained, and --lint found nothing; 1 --lint found
something; 2 you can fix it.")]
pub(crate) struct Arguments {
    /// The recording's folder, a folder of dumps, or a run with all below it; the beginning of its id is enough
    #[arg(value_name = "RECORDING|RUN")]
    what: String,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let source = open(Path::new(&arguments.what))?;
    let cached = parity::cached(&source);
    tell_problems(&cached);
    let of = CacheOf { explained: &cached.explained, shown: &cached.shown, prices_of: TABLE_OF };
    print(&match arguments.format {
        Format::Text => report::cache_text(&of, super::width()),
        Format::Json => format!("{}\n", report::cache_json(&of)),
    });
    Ok(ExitCode::SUCCESS)
}

fn tell_problems(cached: &Cached) {
    for problem in &cached.problems {
        eprintln!("warning: {}: {}", problem.what, problem.why);
    }
}
