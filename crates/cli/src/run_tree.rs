//! Loads a run and its descendants from the journal, for `show` and for pages.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use report::{DeliveredJob, OneRun};
use session::RunId;
use store::{Filter, Store};

use crate::failure::{ExitKind, OrFail};
use crate::journal;

/// Loads a run and its descendants, oldest first.
pub(crate) fn load_run_tree(store: &Store, run: &RunId) -> anyhow::Result<Vec<OneRun>> {
    let tree =
        store.runs(&Filter { below: Some(run.clone()), ..Filter::default() }).or_fail(ExitKind::Outside)?;
    let mut runs = Vec::new();
    for mut summary in tree {
        journal::mark_interrupted(&mut summary);
        runs.push(load_run(store, summary).or_fail(ExitKind::Outside)?);
    }
    runs.reverse();
    Ok(runs)
}

/// Loads everything that the journal holds of one run.
fn load_run(store: &Store, summary: store::RunSummary) -> Result<OneRun, store::StoreError> {
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
    let delivered_jobs = reads.delivered()?.into_iter().filter_map(|(message, entry)| {
        let text = String::from_utf8_lossy(&entry.body).into_owned();
        Some(store.run(&entry.job?).row().map(|job| DeliveredJob { message, job, text }))
    });
    let delivered_jobs = delivered_jobs.collect::<Result<_, _>>()?;
    let run = reads.row()?;
    let settings = agent::RunSettings::from_bytes(&run.settings).ok();
    let tasks = run.task.as_ref().map(|_| store.main().tasks(&run.thread)).transpose()?.unwrap_or_default();
    let task = tasks.iter().find(|task| Some(&task.id) == run.task.as_ref());
    Ok(OneRun {
        task: task.map(|task| (agent::tasks::display_name(task), task.subject.clone())),
        output_schema: settings.as_ref().and_then(|settings| settings.output_schema.clone()),
        workspace: settings.map(|settings| settings.workspace).unwrap_or_default(),
        fork: reads.fork()?,
        heads: heads.into_iter().collect(),
        run,
        messages: reads.messages()?,
        tool_calls: reads.tool_calls()?,
        model_calls: calls,
        resumptions: reads.resumptions()?,
        delivered_jobs,
        summary,
    })
}
