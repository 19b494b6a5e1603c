//! `offshoot cache`: what the provider's prompt cache should have done, and why it did not.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cache::Finding;
use parity::{GoldenCache, ScenarioFolder};
use recording::source::Source;
use report::{CacheOf, LeftOut};
use session::model::TABLE_MONTH;

use super::Format;
use crate::failure::{Kind, OrFail, marked};
use crate::journal;
use crate::progress::Progress;
use crate::recordings::open;
use crate::run_cache::{CacheExplanation, explain_run};
use crate::terminal::print;

/// Explain what the prompt cache should have done, and every miss
///
/// Everything is computed from the bytes, the cache markers, the times and the dated rules of the provider; beside it
/// stands what the usage says. docs/guide/cache.md has the rules, and how far they can be trusted.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  offshoot cache rec
  offshoot cache rec --format json
  offshoot cache rec --lint --golden goldens/claude-code/2.1.325/wakeup/runs/RUN
  offshoot cache 1m7g0c8g

Exit codes: 0 it was explained, and --lint found nothing; 1 --lint found
something; 2 you can fix it; 3 the journal or the disk failed.")]
pub(crate) struct Arguments {
    /// The recording's folder, a folder of dumps, or a run with all below it; the beginning of its id is enough
    #[arg(value_name = "RECORDING|RUN", value_parser = crate::recordings::recording_or_run)]
    what: String,
    /// Fail on what keeps prompts from being cached: new breaks, dead markers, volatile text, cold forks
    #[arg(long)]
    lint: bool,
    /// The recording whose breaks are accepted; without it that of golden.json, and without that every break is new
    #[arg(long, value_name = "DIR", requires = "lint", value_parser = crate::recordings::recording_at())]
    golden: Option<PathBuf>,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let path = Path::new(&arguments.what);
    // Ids of runs have no slash, and a folder that is there is what was meant.
    let source = match path.exists() || arguments.what.contains('/') {
        true => Some(open(path)?),
        false => None,
    };
    let told = match &source {
        Some(source) => of_recording(source),
        None if arguments.golden.is_some() => return Err(no_golden()),
        None => of_run(&arguments.what)?,
    };
    let of = CacheOf {
        explained: &told.explained,
        shown: &told.shown,
        prices_of: TABLE_MONTH,
        left_out: told.left_out,
    };
    if !arguments.lint {
        print(&match arguments.format {
            Format::Text => report::cache_text(&of, crate::terminal::width()),
            Format::Json => format!("{}\n", report::harmless_json(&report::cache_json(&of))),
        });
        return Ok(ExitCode::SUCCESS);
    }
    let golden = match &source {
        Some(source) => accepted(arguments, path, source)?,
        None => None,
    };
    let (golden, lacking) = golden.map(|it| (it.explained, it.missing_lanes)).unwrap_or_default();
    let mut findings = cache::lint(&golden, &told.explained);
    findings.extend(lacking.into_iter().map(Finding::lacking));
    findings.extend(told.volatile);
    print(&match arguments.format {
        Format::Text => report::lint_text(&findings, crate::terminal::width()),
        Format::Json => {
            format!("{}\n", report::harmless_json(&report::lint_json(report::cache_json(&of), &findings)))
        }
    });
    Ok(ExitCode::from(if findings.is_empty() { 0 } else { Kind::Verdict as u8 }))
}

fn of_recording(source: &Source) -> CacheExplanation {
    let progress = Progress::of("going through every request");
    let cached = parity::analyze_cache(source);
    drop(progress);
    for problem in &cached.ordered.problems {
        eprintln!("warning: {}: {}", report::plain(&problem.what), report::plain(&problem.why));
    }
    let volatile = parity::find_volatile_text(
        &cached.explained,
        &parity::recording_context(source),
        parity::read_bodies(source),
    );
    CacheExplanation {
        explained: cached.explained,
        shown: cached.changed_bytes,
        volatile,
        left_out: LeftOut::default(),
    }
}

/// A run's lanes go by the ids of its runs, which no other tree of runs has.
fn no_golden() -> anyhow::Error {
    let hint = "leave out `--golden`, or record the run: `offshoot proxy --out DIR -- offshoot run …`";
    let error = anyhow::anyhow!("a run of the journal cannot be laid beside a golden: its lanes are its own");
    marked(Kind::Usage, Some(hint.to_owned()), error)
}

/// The golden whose breaks are accepted, explained.
fn accepted(arguments: &Arguments, path: &Path, candidate: &Source) -> anyhow::Result<Option<GoldenCache>> {
    let found = match &arguments.golden {
        Some(golden) => Some(golden.clone()),
        None => match ScenarioFolder::containing(path, None).or_fail(Kind::Outside)? {
            Some((folder, _)) if folder.golden().or_fail(Kind::Usage)?.is_some() => {
                let hint = || "name it: `--golden DIR`".to_owned();
                Some(folder.accepted_run().or_fail_with(Kind::Usage, hint)?)
            }
            _ => None,
        },
    };
    found.map(|golden| Ok(parity::golden_cache(&open(&golden)?, candidate))).transpose()
}

fn of_run(beginning: &str) -> anyhow::Result<CacheExplanation> {
    let store = journal::open()?;
    let root = crate::recordings::run_or_folder(&store, beginning)?;
    explain_run(&store, &root)
}
