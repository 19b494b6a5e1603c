//! `offshoot cache`: explains the hits and misses of the provider's prompt cache.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cache::LintFinding;
use parity::{GoldenCache, ScenarioFolder};
use recording::source::Source;
use report::{CacheView, UnexplainedRequests};
use session::model::TABLE_MONTH;

use super::Format;
use crate::failure::{ExitKind, OrFail, classify};
use crate::journal;
use crate::progress::Progress;
use crate::recordings::open;
use crate::run_cache::{CacheExplanation, explain_run};
use crate::terminal::print_text;

/// Explain the prompt cache, and the reason of every miss
///
/// The prediction is computed from the bytes, the cache markers, the times and the dated rules of the provider, and shown
/// beside the reported usage. docs/reference/cache.md has the rules and their limits.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  offshoot cache rec
  offshoot cache rec --format json
  offshoot cache rec --lint --golden goldens/claude-code/2.1.325/wakeup
  offshoot cache 1m7g0c8g

Exit codes: 0 success; 1 --lint found a problem; 2 you can fix it; 3 the journal
or the disk failed.")]
pub(crate) struct Args {
    /// Folder of a recording or of dumps, or a run with its descendants; the beginning of an id is enough
    #[arg(value_name = "RECORDING|RUN", value_parser = crate::recordings::recording_or_run)]
    what: String,
    /// Fail on new cache breaks, dead markers, volatile text, and cold forks
    #[arg(long)]
    lint: bool,
    /// Recording with the accepted breaks [default: the run of golden.json, if there is one]
    #[arg(long, value_name = "DIR", requires = "lint", value_parser = crate::recordings::recording_at())]
    golden: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let path = Path::new(&args.what);
    // Run ids have no slash. An existing folder takes precedence.
    let source = match path.exists() || args.what.contains('/') {
        true => Some(open(path)?),
        false => None,
    };
    let explanation = match &source {
        Some(source) => explain_recording(source),
        None if args.golden.is_some() => return Err(golden_of_run()),
        None => explain_journal_run(&args.what)?,
    };
    let of = CacheView {
        explained: &explanation.explained,
        shown: &explanation.shown,
        prices_of: TABLE_MONTH,
        left_out: explanation.left_out,
    };
    if !args.lint {
        print_text(&match args.format {
            Format::Text => report::cache_text(&of, crate::terminal::width()),
            Format::Json => format!("{}\n", report::harmless_json(&report::cache_json(&of))),
        });
        return Ok(ExitCode::SUCCESS);
    }
    let golden = match &source {
        Some(source) => golden_cache(args, path, source)?,
        None => None,
    };
    let (golden, missing) = golden.map(|it| (it.explained, it.missing_lanes)).unwrap_or_default();
    let mut findings = cache::lint(&golden, &explanation.explained);
    findings.extend(missing.into_iter().map(LintFinding::missing_lane));
    findings.extend(explanation.volatile);
    print_text(&match args.format {
        Format::Text => report::lint_text(&findings, crate::terminal::width()),
        Format::Json => {
            format!("{}\n", report::harmless_json(&report::lint_json(report::cache_json(&of), &findings)))
        }
    });
    Ok(ExitCode::from(if findings.is_empty() { 0 } else { ExitKind::Verdict as u8 }))
}

fn explain_recording(source: &Source) -> CacheExplanation {
    let progress = Progress::step("reading all requests");
    let cached = parity::analyze_cache(source);
    drop(progress);
    for problem in &cached.ordered.problems {
        warning!("{}: {}", report::plain(&problem.what), report::plain(&problem.why));
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
        left_out: UnexplainedRequests::default(),
    }
}

/// Explains why a run has no golden: its lanes are named by run ids, which no other tree has.
fn golden_of_run() -> anyhow::Error {
    let hint = "omit `--golden`, or record the run: `offshoot record --out DIR -- offshoot run …`";
    let error = anyhow::anyhow!(
        "a run of the journal cannot be compared with a golden, because its lanes have other names"
    );
    classify(ExitKind::Usage, Some(hint.to_owned()), error)
}

/// Explains the golden, the breaks of which are accepted.
fn golden_cache(args: &Args, path: &Path, candidate: &Source) -> anyhow::Result<Option<GoldenCache>> {
    let golden = match &args.golden {
        Some(golden) => Some(golden.clone()),
        None => match scenario_folder(path)? {
            Some(folder) if folder.golden().or_fail(ExitKind::Usage)?.is_some() => {
                let hint = || "--golden DIR".to_owned();
                Some(folder.accepted_run().or_fail_with(ExitKind::Usage, hint)?)
            }
            _ => None,
        },
    };
    golden.map(|golden| Ok(parity::golden_cache(&open(&golden)?, candidate))).transpose()
}

/// Returns the scenario folder of a run beside a golden, or of a capture.
fn scenario_folder(path: &Path) -> anyhow::Result<Option<ScenarioFolder>> {
    Ok(match ScenarioFolder::containing(path, None).or_fail(ExitKind::Outside)? {
        Some((folder, _)) => Some(folder),
        None => ScenarioFolder::of_capture(path).or_fail(ExitKind::Outside)?,
    })
}

fn explain_journal_run(beginning: &str) -> anyhow::Result<CacheExplanation> {
    let store = journal::open()?;
    let root = crate::recordings::run_or_folder(&store, beginning)?;
    explain_run(&store, &root)
}
