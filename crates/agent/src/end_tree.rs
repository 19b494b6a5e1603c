//! Ends runs that no process is at work on, and all runs below them.

use std::collections::HashMap;

use session::RunId;
use store::{CancelScope, Filter, FinalRecord, Millis, RunEnd, RunKind, RunStatus, Store, StoreError};

use crate::error::RunError;
use crate::event::{EventKind, ForkReport, RunEvent};
use crate::final_text::FinalText;
use crate::fork;
use crate::jobs;
use crate::kernel::Kernel;
use crate::mcp;
use crate::open_calls;
use crate::run::Run;
use crate::shell::{Processes, ShellConfig};

impl Kernel {
    /// Cancels a run that was paused here, and all runs below it. Emits their ends.
    pub async fn cancel(&self, id: &RunId) -> Result<(), RunError> {
        for (id, fork) in end_tree(&self.store, id, self.clock.millis()).await? {
            self.emit_end(&id, fork)?;
        }
        Ok(())
    }

    /// Emits the end of a run that was not at work.
    fn emit_end(&self, id: &RunId, fork: Option<ForkReport>) -> Result<(), RunError> {
        let (row, totals) = (self.store.run(id).row()?, self.store.run(id).totals()?);
        let above = row.parent.as_ref().map(|parent| self.store.run(parent).row()).transpose()?;
        let finished = EventKind::Finished {
            status: row.status,
            final_text: row.final_text,
            partial_text: row.partial_text,
            error: row.error,
            denied_calls: self.store.run(id).denied_calls()?,
            usage: totals.usage,
            cost_microusd: (totals.unpriced == 0).then_some(totals.cost_microusd),
        };
        let fork = fork.map(|report| EventKind::ForkEnded(Box::new(report)));
        for kind in fork.into_iter().chain([finished]) {
            self.events.emit(&RunEvent {
                run: id.clone(),
                parent: row.parent.clone(),
                chain: row.chain.as_str().into(),
                parent_chain: above.as_ref().map(|above| above.chain.as_str().into()),
                depth: row.depth,
                is_root: row.root == *id,
                kind,
            });
        }
        Ok(())
    }
}

/// Ends a run that no process is at work on, and all runs below it, for the user. With a whole tree it also ends the commands that the
/// tree has left. Returns the runs that were ended, the lowest first, with the reports of forks.
pub async fn end_tree(
    store: &Store,
    run: &RunId,
    at: Millis,
) -> Result<Vec<(RunId, Option<ForkReport>)>, StoreError> {
    let ended = end_runs(store, run, at, CancelScope::Tree).await?;
    let root = store.run(run).row()?.root;
    if root == *run {
        let processes = Processes::new(ShellConfig::default(), run, store);
        processes.end_leftovers().await?;
        processes.end_all().await;
        mcp::end_leftover_servers();
    }
    Ok(ended)
}

/// Ends the runs below a run: those that were paused with it before it was cancelled.
pub(crate) async fn end_below(run: &Run) -> Result<(), RunError> {
    let kernel = &run.kernel;
    for (id, fork) in
        end_runs(&kernel.store, run.id(), kernel.clock.millis(), CancelScope::Descendants).await?
    {
        kernel.emit_end(&id, fork)?;
    }
    Ok(())
}

async fn end_runs(
    store: &Store,
    run: &RunId,
    at: Millis,
    whom: CancelScope,
) -> Result<Vec<(RunId, Option<ForkReport>)>, StoreError> {
    let (mut agents, mut left, mut reports) = (HashMap::new(), HashMap::new(), HashMap::new());
    for run_row in store.runs(&Filter { below: Some(run.clone()), ..Filter::default() })? {
        let ms = u64::try_from(at.0 - run_row.created_at.0).unwrap_or_default();
        let partial_text = FinalText::of(&store.run(&run_row.id).messages()?).last().map(str::to_owned);
        let results = open_calls::abandoned(store, &run_row.id, at)?;
        let mut record = FinalRecord { partial_text, fork: None, results };
        if run_row.kind == RunKind::Fork
            && let Some((end, report)) =
                fork::report(store, &store.run(&run_row.id).row()?, RunStatus::CancelledByUser, ms)
        {
            record.fork = Some(end);
            reports.insert(run_row.id.clone(), report);
        }
        left.insert(run_row.id.clone(), record);
        agents.insert(run_row.id, run_row.agent);
    }
    let notice = move |run: &RunId, ending: &RunEnd| {
        jobs::end_notice(run, agents.get(run).map_or("", String::as_str), ending).into_bytes()
    };
    let ended = store.end_tree(run, whom, at, left, notice).await?;
    let ended = ended.into_iter().map(|id| {
        let report = reports.remove(&id);
        if let Some(report) = &report {
            report.log(&id);
        }
        (id, report)
    });
    Ok(ended.collect())
}
