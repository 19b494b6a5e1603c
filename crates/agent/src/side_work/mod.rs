//! Side work: short forks of the main agent that sum up a turn, suggest the next prompt, keep notes, or watch the agent.
//!
//! Each is a side question of its own, so it reads its parent's prompt cache, and its failure or cancellation does not reach
//! the run. Start at [`SideWork::attach`]: it returns a kernel whose events start the forks.

mod job;
mod plan;
pub(crate) mod prompts;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use session::RunId;
use store::RunStatus;
use tokio::task::JoinSet;

pub(crate) use plan::SideWorkTable;
pub use plan::{AgentSupervisor, SideWork};

use crate::event::{EventKind, EventSink, RunEvent};
use crate::kernel::Kernel;
use crate::stop::{StopHandle, StopRequest};
use job::Job;
use plan::SideTask;

/// Name of the feature that starts the forks.
const SOURCE: &str = "side_work";

/// Maximum wait for side work after the end of a run.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// Maximum wait for forks that were cancelled.
const MAX_CANCEL: Duration = Duration::from_secs(2);

/// Starts side work at the events of a main run, and waits for it at the end.
pub struct SideWorker {
    /// The kernel of the forks. Its events go to the run's own sink.
    kernel: Kernel,
    plan: SideWork,
    run: RunId,
    stop_handle: StopHandle,
    jobs: Mutex<JoinSet<()>>,
}

impl SideWork {
    /// Returns a kernel that does this side work for a main run, and the handle to wait for it.
    pub fn attach(self, kernel: Kernel, run: &RunId) -> (Kernel, Arc<SideWorker>) {
        let worker = Arc::new(SideWorker {
            kernel: kernel.clone(),
            plan: self,
            run: run.clone(),
            stop_handle: StopHandle::new(),
            jobs: Mutex::default(),
        });
        (Kernel { events: worker.clone(), ..kernel }, worker)
    }
}

impl SideWorker {
    /// Waits for the forks after the end of the run, for a limited time. After a run that has not completed, they are
    /// cancelled at once.
    pub async fn finish(&self, status: Option<RunStatus>) {
        let mut jobs = std::mem::take(&mut *self.jobs());
        let wait = if status == Some(RunStatus::Completed) { MAX_WAIT } else { Duration::ZERO };
        if tokio::time::timeout(wait, join_all(&mut jobs)).await.is_err() {
            self.stop_handle.request(StopRequest::Cancel);
            let _ = tokio::time::timeout(MAX_CANCEL, join_all(&mut jobs)).await;
        }
        // Those that are left are dropped here, and end with the process.
    }

    /// Ends the wait of [`finish`](Self::finish).
    pub fn cancel(&self) {
        self.stop_handle.request(StopRequest::Cancel);
    }

    fn jobs(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.jobs.lock().expect("lock is not poisoned")
    }

    /// Starts tasks at the run's last turn. A turn that has such a fork already gets no second one.
    fn start(&self, tasks: Vec<SideTask>, event: &RunEvent) {
        if tasks.is_empty() {
            return;
        }
        let Ok(point) = self.kernel.fork_point(&self.run) else { return };
        let shares = u32::try_from(tasks.len()).unwrap_or(u32::MAX);
        for task in tasks {
            let job = Job {
                kernel: self.kernel.clone(),
                stop_handle: self.stop_handle.clone(),
                point: point.clone(),
                event: event.clone(),
                task,
                shares,
            };
            self.jobs().spawn(job.run());
        }
    }

    /// Continues the forks of the last turn that an earlier process left, and uses results that it had not used.
    fn recover(&self, event: &RunEvent) {
        let Ok(point) = self.kernel.fork_point(&self.run) else { return };
        let left = self.plan.all().into_iter().filter(|task| {
            let reads = self.kernel.store.run(&self.run);
            reads.fork_at(point.reply(), task.label(), SOURCE).is_ok_and(|fork| fork.is_some())
        });
        self.start(left.collect(), event);
    }
}

impl EventSink for SideWorker {
    fn emit(&self, event: &RunEvent) {
        self.kernel.events.emit(event);
        if event.run != self.run {
            return;
        }
        match &event.kind {
            EventKind::Started { prior: Some(_), .. } => self.recover(event),
            // The end of a turn has its own side work.
            EventKind::Message { step, calls, .. } if !calls.is_empty() => {
                self.start(self.plan.at_step(*step), event);
            }
            EventKind::Finished { status: RunStatus::Completed, .. } => {
                self.start(self.plan.after_turn(), event);
            }
            _ => {}
        }
    }
}

async fn join_all(jobs: &mut JoinSet<()>) {
    while jobs.join_next().await.is_some() {}
}
