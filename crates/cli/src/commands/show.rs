//! `offshoot show`: the lanes of a recording, turn by turn, or what a run of our own did.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;
use std::process::ExitCode;

use recording::source::Source;
use report::{About, OneRun, Told};
use session::RunId;
use store::{Filter, Store};

use super::{Format, damage, open, print};
use crate::events;
use crate::failure::{Kind, OrFail};
use crate::journal;

/// Show the lanes of a recording, or what a run of our own did
///
/// Turn by turn: calls, results, tokens and time.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  offshoot show goldens/claude-code/2.1.325/wakeup/runs/20261115-101500
  offshoot show 1m7g0c8g
  offshoot show 1m7g0c8g --events --after 120")]
pub(crate) struct Arguments {
    /// The recording's folder, a folder of dumps, or a run; the beginning of its id is enough
    #[arg(value_name = "RECORDING|RUN", value_parser = super::recording_or_run)]
    what: String,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Print the events of a run instead, line by line as `offshoot run --json` printed them
    #[arg(long, conflicts_with = "format")]
    events: bool,
    /// Only those behind this number
    #[arg(long, value_name = "SEQ", default_value_t = 0, requires = "events")]
    after: u64,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let path = Path::new(&arguments.what);
    // Ids of runs have no slash, and a folder that is there is what was meant.
    if !path.exists() && !arguments.what.contains('/') {
        let store = journal::open()?;
        let run = super::run_or_folder(&store, &arguments.what)?;
        return match arguments.events {
            true => show_events(&store, &run, arguments.after),
            false => show_run(&store, &run, arguments.format),
        };
    }
    if arguments.events {
        let error = anyhow::anyhow!("`{}` is a folder, and events are kept of runs", arguments.what);
        return Err(error).or_fail_with(Kind::Usage, || "offshoot ps".to_owned());
    }
    let source = open(path)?;
    let damage = damage(&source)?;
    let about = About { recording: source.recording(), damage: &damage };
    print(&shown(&source, &about, arguments.format));
    Ok(ExitCode::from(if damage.is_empty() { 0 } else { Kind::Verdict as u8 }))
}

fn show_run(store: &Store, run: &RunId, format: Format) -> anyhow::Result<ExitCode> {
    let runs = below(store, run)?;
    let Some(first) = runs.iter().find(|one| one.run.id == *run) else {
        return Err(anyhow::anyhow!("the run `{run}` was deleted just now")).or_fail(Kind::Usage);
    };
    print(&match format {
        Format::Text => report::run_text(first, super::width()),
        Format::Json => format!("{}\n", report::harmless_json(&report::run_json(first, &runs))),
    });
    Ok(ExitCode::SUCCESS)
}

/// A run and everything below it, oldest first: the run itself, then what it started.
pub(crate) fn below(store: &Store, run: &RunId) -> anyhow::Result<Vec<OneRun>> {
    let tree =
        store.runs(&Filter { below: Some(run.clone()), ..Filter::default() }).or_fail(Kind::Outside)?;
    let mut runs = Vec::new();
    for mut summary in tree {
        journal::as_it_is(&mut summary);
        runs.push(one(store, summary).or_fail(Kind::Outside)?);
    }
    runs.reverse();
    Ok(runs)
}

fn show_events(store: &Store, run: &RunId, after: u64) -> anyhow::Result<ExitCode> {
    let root = store.run(run).row().or_fail(Kind::Outside)?.root;
    let Some(lines) = events::read(&root, run, after).or_fail(Kind::Outside)? else {
        let error = anyhow::anyhow!("no events were kept of the run `{run}`");
        return Err(error).or_fail_with(Kind::Usage, || {
            format!("they are kept of what `offshoot run --json` prints; what happened is in `offshoot show {run}`")
        });
    };
    print(&lines);
    Ok(ExitCode::SUCCESS)
}

fn one(store: &Store, summary: store::RunSummary) -> Result<OneRun, store::StoreError> {
    let reads = store.run(&summary.id);
    let mut calls = Vec::new();
    let mut heads = BTreeMap::new();
    for call in reads.model_calls()? {
        if let Entry::Vacant(unseen) = heads.entry(call.head.to_string()) {
            unseen.insert(reads.head(call.head)?.unwrap_or_default());
        }
        let attempts = reads.attempts(call.id)?;
        calls.push((call, attempts));
    }
    let told = reads.told()?.into_iter().filter_map(|(message, entry)| {
        let text = String::from_utf8_lossy(&entry.body).into_owned();
        Some(store.run(&entry.job?).row().map(|job| Told { message, job, text }))
    });
    let told = told.collect::<Result<_, _>>()?;
    let run = reads.row()?;
    let settings = agent::Settings::from_bytes(&run.settings).ok();
    let tasks = run.task.as_ref().map(|_| store.main().tasks(&run.thread)).transpose()?.unwrap_or_default();
    let task = tasks.iter().find(|task| Some(&task.id) == run.task.as_ref());
    Ok(OneRun {
        task: task.map(|task| (agent::tasks::name(task).to_owned(), task.subject.clone())),
        output_schema: settings.as_ref().and_then(|settings| settings.output_schema.clone()),
        workspace: settings.map(|settings| settings.workspace).unwrap_or_default(),
        fork: reads.fork()?,
        heads: heads.into_iter().collect(),
        run,
        messages: reads.messages()?,
        tool_calls: reads.tool_calls()?,
        model_calls: calls,
        told,
        summary,
    })
}

fn shown(source: &Source, about: &About<'_>, format: Format) -> String {
    let ordered = source.order();
    match format {
        Format::Text => report::show_text(&ordered, about, super::width()),
        Format::Json => format!("{}\n", report::harmless_json(&report::show_json(&ordered, about))),
    }
}
