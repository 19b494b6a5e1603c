//! Reads: the user's, those of one run, and the list of all runs.

mod columns;
mod main;
pub(crate) mod overview;
mod run;
mod search;

pub(crate) use columns::lease;
pub use main::MainReads;
pub use overview::Filter;
pub(crate) use overview::inclusive;
pub use run::RunReads;
pub(crate) use run::{above, cancel_requested};

use session::{RunId, TaskId};

use crate::{RunSummary, Store, StoreError, TaskAttempt};

impl Store {
    /// Returns the reads of what the user and the main agent may see: main runs only.
    pub fn main(&self) -> MainReads<'_> {
        MainReads::new(self)
    }

    /// Returns the reads of one run of any kind: everything it left.
    pub fn run(&self, run: &RunId) -> RunReads<'_> {
        RunReads::new(self, run.clone())
    }

    /// Lists runs with their status and usage, newest first, without any text of theirs.
    pub fn runs(&self, filter: &Filter) -> Result<Vec<RunSummary>, StoreError> {
        self.read_all(|conn| overview::runs(conn, filter))
    }

    /// Returns the final texts of earlier runs for a task, oldest first.
    pub fn task_attempts(&self, task: &TaskId) -> Result<Vec<TaskAttempt>, StoreError> {
        self.read_all(|conn| overview::task_attempts(conn, task))
    }

    /// Returns whether a run, or one above it, was asked to stop.
    pub fn cancel_requested(&self, run: &RunId) -> Result<bool, StoreError> {
        self.run(run).cancel_requested()
    }
}
