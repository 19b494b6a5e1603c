//! Explains the prompt cache of our own runs from the journal.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, UNIX_EPOCH};

use cache::{ByteDiff, CacheReport, LintFinding, ObservedRequest, RecordingContext};
use report::UnexplainedRequests;
use session::{RequestId, RunId};
use store::{Filter, ModelCall, Run, RunKind, Store};

use crate::failure::{ExitKind, OrFail};

/// The cache explanation of a recording or a run, with the texts it shows.
pub(crate) struct CacheExplanation {
    pub(crate) explained: CacheReport,
    pub(crate) shown: HashMap<RequestId, ByteDiff>,
    pub(crate) volatile: Vec<LintFinding>,
    pub(crate) left_out: UnexplainedRequests,
}

/// Explains the prompt cache of a run and its descendants. The whole tree is read, because its runs share a cache.
pub(crate) fn explain_run(store: &Store, run: &RunId) -> anyhow::Result<CacheExplanation> {
    // A side question has a tree of its own, and reads the cache of its parent's tree.
    let mut root = run.clone();
    while let Some(parent) = store.run(&root).row().or_fail(ExitKind::Outside)?.parent {
        root = parent;
    }
    let tree = |of: &RunId| {
        store.runs(&Filter { below: Some(of.clone()), ..Filter::default() }).or_fail(ExitKind::Outside)
    };
    let mut asks = Vec::new();
    let mut calls = HashMap::new();
    let mut around = RecordingContext::default();
    let own: HashSet<String> = tree(run)?.iter().map(|summary| summary.id.to_string()).collect();
    let mut left_out = UnexplainedRequests::default();
    for summary in tree(&root)? {
        let row = store.run(&summary.id).row().or_fail(ExitKind::Outside)?;
        let unexplained = explain_one(store, &row, &mut asks, &mut calls, &mut around)?;
        for call in unexplained.iter().filter(|_| own.contains(row.id.as_str())) {
            left_out.requests += 1;
            left_out.usage += call.usage;
        }
    }
    let mut explained = cache::explain(asks);
    if root != *run {
        explained.retain_lanes(|lane| own.contains(lane));
    }
    let body = |id: &RequestId| {
        let (run, call): &(RunId, ModelCall) = calls.get(id)?;
        agent::rebuild_request(store, run, call).ok()
    };
    let shown = parity::changed_bytes(&explained, body);
    let volatile = parity::find_volatile_text(&explained, &around, body);
    Ok(CacheExplanation { explained, shown, volatile, left_out })
}

/// Collects the model calls of one run, with its id as the lane. Returns answered calls without a stored request.
fn explain_one(
    store: &Store,
    row: &Run,
    asks: &mut Vec<ObservedRequest>,
    calls: &mut HashMap<RequestId, (RunId, ModelCall)>,
    around: &mut RecordingContext,
) -> anyhow::Result<Vec<ModelCall>> {
    let mut unexplained = Vec::new();
    let settings = agent::RunSettings::from_bytes(&row.settings).or_fail(ExitKind::Outside)?;
    let micros = |at: store::Millis| u64::try_from(at.0).unwrap_or_default().saturating_mul(1_000);
    let day = recording::iso(UNIX_EPOCH + Duration::from_micros(micros(row.created_at)));
    around.day = Some(day.chars().take(10).collect());
    around.folders.push(settings.workspace.clone());
    let mut from = None;
    for call in store.run(&row.id).model_calls().or_fail(ExitKind::Outside)? {
        // A fork without a transcript has only its usage.
        let Ok(body) = agent::rebuild_request(store, &row.id, &call) else {
            unexplained.extend((call.usage.input_total() > 0).then_some(call));
            continue;
        };
        let Some(prompt) = cache::CachePrompt::decode(settings.dialect(), &body) else { continue };
        let id = RequestId::new(format!("call-{}", call.id));
        asks.push(ObservedRequest {
            id: id.clone(),
            lane: row.id.to_string(),
            fork_of: row.parent.as_ref().filter(|_| row.kind == RunKind::Fork).map(ToString::to_string),
            turn: call.step,
            at_us: micros(call.asked_at),
            begun_us: call.first_byte_at.map(micros),
            // A summary replaces the first messages.
            is_compacted: from.replace(call.from).is_some_and(|before| before < call.from),
            prompt,
            reported: Some(call.usage).filter(|usage| usage.input_total() > 0),
        });
        calls.insert(id, (row.id.clone(), call));
    }
    Ok(unexplained)
}
