//! `offshoot cache`: what the provider's prompt cache should have done, and why it did not.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, UNIX_EPOCH};

use cache::{Around, Ask, Explained, Finding, Shown};
use parity::{Accepted, ScenarioFolder};
use recording::source::Source;
use report::{CacheOf, LeftOut};
use session::model::TABLE_OF;
use session::{RequestId, RunId};
use store::{Filter, ModelCall, Run, RunKind, Store};

use super::{Format, open, print};
use crate::failure::{Kind, OrFail, marked};
use crate::journal;
use crate::progress::Progress;

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
    #[arg(value_name = "RECORDING|RUN", value_parser = super::recording_or_run)]
    what: String,
    /// Fail on what keeps prompts from being cached: new breaks, dead markers, volatile text, cold forks
    #[arg(long)]
    lint: bool,
    /// The recording whose breaks are accepted; without it that of golden.json, and without that every break is new
    #[arg(long, value_name = "DIR", requires = "lint", value_parser = super::recording_at())]
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
    pub(crate) left_out: LeftOut,
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
        prices_of: TABLE_OF,
        left_out: told.left_out,
    };
    if !arguments.lint {
        print(&match arguments.format {
            Format::Text => report::cache_text(&of, super::width()),
            Format::Json => format!("{}\n", report::harmless_json(&report::cache_json(&of))),
        });
        return Ok(ExitCode::SUCCESS);
    }
    let golden = match &source {
        Some(source) => accepted(arguments, path, source)?,
        None => None,
    };
    let (golden, lacking) = golden.map(|it| (it.explained, it.lacking)).unwrap_or_default();
    let mut findings = cache::lint(&golden, &told.explained);
    findings.extend(lacking.into_iter().map(Finding::lacking));
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
    Told { explained: cached.explained, shown: cached.shown, volatile, left_out: LeftOut::default() }
}

/// A run's lanes go by the ids of its runs, which no other tree of runs has.
fn no_golden() -> anyhow::Error {
    let hint = "leave out `--golden`, or record the run: `offshoot proxy --out DIR -- offshoot run …`";
    let error = anyhow::anyhow!("a run of the journal cannot be laid beside a golden: its lanes are its own");
    marked(Kind::Usage, Some(hint.to_owned()), error)
}

/// The golden whose breaks are accepted, explained.
fn accepted(arguments: &Arguments, path: &Path, candidate: &Source) -> anyhow::Result<Option<Accepted>> {
    let found = match &arguments.golden {
        Some(golden) => Some(golden.clone()),
        None => match ScenarioFolder::around(path, None).or_fail(Kind::Outside)? {
            Some((folder, _)) if folder.golden().or_fail(Kind::Usage)?.is_some() => {
                let hint = || "name it: `--golden DIR`".to_owned();
                Some(folder.accepted().or_fail_with(Kind::Usage, hint)?)
            }
            _ => None,
        },
    };
    found.map(|golden| Ok(parity::accepted(&open(&golden)?, candidate))).transpose()
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
    let own: HashSet<String> = tree(run)?.iter().map(|summary| summary.id.to_string()).collect();
    let mut left_out = LeftOut::default();
    for summary in tree(&root)? {
        let row = store.run(&summary.id).row().or_fail(Kind::Outside)?;
        let lost = of_one(store, &row, &mut asks, &mut calls, &mut around)?;
        for call in lost.iter().filter(|_| own.contains(row.id.as_str())) {
            left_out.requests += 1;
            left_out.usage += call.usage;
        }
    }
    let mut explained = cache::explain(asks);
    if root != *run {
        explained.keep(|lane| own.contains(lane));
    }
    let body = |id: &RequestId| {
        let (run, call): &(RunId, ModelCall) = calls.get(id)?;
        agent::request_bytes(store, run, call).ok()
    };
    let shown = parity::shown(&explained, body);
    let volatile = parity::volatile(&explained, &around, body);
    Ok(Told { explained, shown, volatile, left_out })
}

/// The model calls of one run; its lane is its id. Returns those that were answered and of which nothing else is left.
fn of_one(
    store: &Store,
    row: &Run,
    asks: &mut Vec<Ask>,
    calls: &mut HashMap<RequestId, (RunId, ModelCall)>,
    around: &mut Around,
) -> anyhow::Result<Vec<ModelCall>> {
    let mut lost = Vec::new();
    let settings = agent::Settings::from_bytes(&row.settings).or_fail(Kind::Outside)?;
    let micros = |at: store::Millis| u64::try_from(at.0).unwrap_or_default().saturating_mul(1_000);
    let day = recording::iso(UNIX_EPOCH + Duration::from_micros(micros(row.created_at)));
    around.day = Some(day.chars().take(10).collect());
    around.folders.push(settings.workspace.clone());
    let mut from = None;
    for call in store.run(&row.id).model_calls().or_fail(Kind::Outside)? {
        // Nothing is left of a fork that keeps no transcript, but what it cost.
        let Ok(body) = agent::request_bytes(store, &row.id, &call) else {
            lost.extend((call.usage.input_total() > 0).then_some(call));
            continue;
        };
        let Some(prompt) = cache::Prompt::decode(settings.dialect(), &body) else { continue };
        let id = RequestId::new(format!("call-{}", call.id));
        asks.push(Ask {
            id: id.clone(),
            lane: row.id.to_string(),
            fork_of: row.parent.as_ref().filter(|_| row.kind == RunKind::Fork).map(ToString::to_string),
            turn: call.step,
            at_us: micros(call.asked_at),
            begun_us: call.first_byte_at.map(micros),
            // A summary takes the place of the first messages.
            begins_anew: from.replace(call.from).is_some_and(|before| before < call.from),
            prompt,
            reported: Some(call.usage).filter(|usage| usage.input_total() > 0),
        });
        calls.insert(id, (row.id.clone(), call));
    }
    Ok(lost)
}
