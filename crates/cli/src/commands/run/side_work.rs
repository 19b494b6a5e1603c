//! Side work of a run: options, start, and the wait at the end.

use std::sync::Arc;

use agent::{AgentSupervisor, Kernel, SideWork, SideWorker};
use session::RunId;
use store::{RunKind, RunStatus};

use crate::failure::{ExitKind, OrFail};
use crate::signals::Signals;

/// Options of side work. The other kinds are settings.
#[derive(clap::Args)]
pub(super) struct SideWorkArgs {
    /// Ask a fork about the agent's work at intervals, and remind the agent if it says so
    #[arg(long, value_name = "QUESTION", conflicts_with = "fork_of")]
    supervise: Option<String>,
    /// Number of model turns between two questions of --supervise [default: 10]
    #[arg(long, value_name = "N", requires = "supervise", value_parser = clap::value_parser!(u32).range(1..))]
    every: Option<u32>,
}

impl SideWorkArgs {
    /// Checks the question.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        if self.supervise.as_ref().is_some_and(|question| question.trim().is_empty()) {
            let hint = || "--supervise 'Is it going in circles?'".to_owned();
            return Err(anyhow::anyhow!("--supervise: the question is empty"))
                .or_fail_with(ExitKind::Usage, hint);
        }
        Ok(())
    }

    /// Returns the side work of the settings and of the command line.
    fn plan(&self, settings: &SideWork) -> SideWork {
        let supervisor = self.supervise.as_ref().map(|question| AgentSupervisor {
            question: question.clone(),
            every: self.every.unwrap_or(AgentSupervisor::EVERY),
        });
        SideWork { supervisor: supervisor.or_else(|| settings.supervisor.clone()), ..settings.clone() }
    }
}

/// Attaches side work to a main run. A fork has none.
pub(super) fn attach(
    args: &SideWorkArgs,
    settings: &SideWork,
    kernel: Kernel,
    run: &RunId,
) -> (Kernel, Option<Arc<SideWorker>>) {
    let plan = args.plan(settings);
    let is_main = kernel.store.run(run).row().is_ok_and(|row| row.kind == RunKind::Main);
    if plan.is_empty() || !is_main {
        return (kernel, None);
    }
    let (kernel, worker) = plan.attach(kernel, run);
    (kernel, Some(worker))
}

/// Waits for side work after the end of the run. A signal ends the wait.
pub(super) async fn finish(worker: &SideWorker, status: Option<RunStatus>, signals: &mut Signals) {
    let wait = worker.finish(status);
    tokio::pin!(wait);
    loop {
        tokio::select! {
            () = &mut wait => return,
            _ = signals.next() => worker.cancel(),
        }
    }
}
