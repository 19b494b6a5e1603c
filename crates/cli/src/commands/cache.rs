//! `offshoot cache`: what the provider's prompt cache should have done, and why it did not.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, UNIX_EPOCH};

use cache::{Around, Ask, Explained, Finding, Shown};
use parity::ScenarioFolder;
use recording::source::Source;
use report::CacheOf;
use session::model::TABLE_OF;
use session::{RequestId, RunId};
use store::{Filter, ModelCall, Run, RunKind, Store};

use super::{Format, open, print};
use crate::failure::{Kind, OrFail};
use crate::journal;
use crate::progress::Progress;

/// Explain what the prompt cache should have done, and every miss
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
something; 2 you can fix it; 3 the journal or the disk failed.")]
pub(crate) struct Arguments {
    /// The recording's folder, a folder of dumps, or a run with all below it; the beginning of its id is enough
    #[arg(value_name = "RECORDING|RUN")]
    what: String,
    /// Fail on what keeps prompts from being cached: new breaks, dead markers, volatile text, cold forks
    #[arg(long)]
    lint: bool,
    /// The recording whose breaks are accepted; without it that of golden.json, and without that every break is new
    #[arg(long, value_name = "DIR", requires = "lint")]
    golden: Option<PathBuf>,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// What is told, wherever it comes from.
pub(crate) struct Told {
    pub(crate) explained: Explained,
    pub(crate) shown: HashMap<RequestId, Shown>,
    volatile: Vec<Finding>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let path = Path::new(&arguments.what);
    // Ids of runs have no slash, and a folder that is there is what was meant.
    let told = match path.exists() || arguments.what.contains('/') {
        true => of_recording(&open(path)?),
        false => of_run(&arguments.what)?,
    };
    let of = CacheOf { explained: &told.explained, shown: &told.shown, prices_of: TABLE_OF };
    if !arguments.lint {
        print(&match arguments.format {
            Format::Text => report::cache_text(&of, super::width()),
            Format::Json => format!("{}\n", report::harmless_json(&report::cache_json(&of))),
        });
        return Ok(ExitCode::SUCCESS);
    }
    let golden = accepted(arguments, path)?.unwrap_or_default();
    let mut findings = cache::lint(&golden, &told.explained);
    findings.extend(told.volatile);
    print(&match arguments.format {
        Format::Text => report::lint_text(&findings, super::width()),
        Format::Json => {
            format!("{}\n", report::harmless_json(&report::lint_json(report::cache_json(&of), &findings)))
        }
    });
    Ok(ExitCode::from(if findings.is_empty() { 0 } else { Kind::Verdict as u8 }))
}

fn of_recording(source: &Source) -> Told {
    let progress = Progress::of("going through every request");
    let cached = parity::cached(source);
    drop(progress);
    for problem in &cached.ordered.problems {
        eprintln!("warning: {}: {}", report::plain(&problem.what), report::plain(&problem.why));
    }
    let volatile = parity::volatile(&cached.explained, &parity::around(source), parity::bodies(source));
    Told { explained: cached.explained, shown: cached.shown, volatile }
}

/// The golden whose breaks are accepted, explained.
fn accepted(arguments: &Arguments, path: &Path) -> anyhow::Result<Option<Explained>> {
    let found = match &arguments.golden {
        Some(golden) => Some(golden.clone()),
        None if !path.exists() => None,
        None => match ScenarioFolder::around(path, None).or_fail(Kind::Outside)? {
            Some((folder, _)) if folder.golden().or_fail(Kind::Usage)?.is_some() => {
                let hint = || "name it: `--golden DIR`".to_owned();
                Some(folder.accepted().or_fail_with(Kind::Usage, hint)?)
            }
            _ => None,
        },
    };
    found.map(|golden| Ok(parity::cached(&open(&golden)?).explained)).transpose()
}

fn of_run(beginning: &str) -> anyhow::Result<Told> {
    let store = journal::open()?;
    let root = super::run_or_folder(&store, beginning)?;
    explained(&store, &root)
}

/// What the cache made of a run and of all below it. What others of its tree had written it could read, so all of them
/// are looked at.
pub(crate) fn explained(store: &Store, run: &RunId) -> anyhow::Result<Told> {
    // A question beside a run is a tree of its own, and read what that run had written.
    let mut root = run.clone();
    while let Some(parent) = store.run(&root).row().or_fail(Kind::Outside)?.parent {
        root = parent;
    }
    let tree = |of: &RunId| {
        store.runs(&Filter { below: Some(of.clone()), ..Filter::default() }).or_fail(Kind::Outside)
    };
    let mut asks = Vec::new();
    let mut calls = HashMap::new();
    let mut around = Around::default();
    for summary in tree(&root)? {
        let row = store.run(&summary.id).row().or_fail(Kind::Outside)?;
        of_one(store, &row, &mut asks, &mut calls, &mut around)?;
    }
    let mut explained = cache::explain(asks);
    if root != *run {
        let own: HashSet<String> = tree(run)?.iter().map(|summary| summary.id.to_string()).collect();
        explained.keep(|lane| own.contains(lane));
    }
    let body = |id: &RequestId| {
        let (run, call): &(RunId, ModelCall) = calls.get(id)?;
        agent::request_bytes(store, run, call).ok()
    };
    let shown = parity::shown(&explained, body);
    let volatile = parity::volatile(&explained, &around, body);
    Ok(Told { explained, shown, volatile })
}

/// The model calls of one run; its lane is its id.
fn of_one(
    store: &Store,
    row: &Run,
    asks: &mut Vec<Ask>,
    calls: &mut HashMap<RequestId, (RunId, ModelCall)>,
    around: &mut Around,
) -> anyhow::Result<()> {
    let settings = agent::Settings::from_bytes(&row.settings).or_fail(Kind::Outside)?;
    let micros = |at: store::Millis| u64::try_from(at.0).unwrap_or_default().saturating_mul(1_000);
    let day = recording::iso(UNIX_EPOCH + Duration::from_micros(micros(row.created_at)));
    around.day = Some(day.chars().take(10).collect());
    around.folders.push(settings.workspace.clone());
    for call in store.run(&row.id).model_calls().or_fail(Kind::Outside)? {
        // Nothing is left of a fork that keeps no transcript.
        let Ok(body) = agent::request_bytes(store, &row.id, &call) else { continue };
        let Some(prompt) = cache::Prompt::decode(settings.dialect(), &body) else { continue };
        let id = RequestId::new(format!("call-{}", call.id));
        asks.push(Ask {
            id: id.clone(),
            lane: row.id.to_string(),
            fork_of: row.parent.as_ref().filter(|_| row.kind == RunKind::Fork).map(ToString::to_string),
            turn: call.step,
            at_us: micros(call.asked_at),
            begun_us: call.first_byte_at.map(micros),
            prompt,
            reported: Some(call.usage).filter(|usage| usage.input_total() > 0),
        });
        calls.insert(id, (row.id.clone(), call));
    }
    Ok(())
}
