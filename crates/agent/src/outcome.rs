//! The outcome of a run.

use session::RunId;
use store::RunStatus;

use crate::provider::ProviderFailure;

/// The end of a loop. A paused run can be resumed.
#[derive(Clone, Debug, PartialEq)]
pub struct RunOutcome {
    /// The run.
    pub run: RunId,
    /// Its status.
    pub status: RunStatus,
    /// Its answer.
    pub final_text: Option<String>,
    /// Its last text, if it has no answer.
    pub partial_text: Option<String>,
    /// The reason for a status other than `completed`.
    pub error: Option<String>,
    /// The provider's failure, if that ended the loop.
    pub failure: Option<ProviderFailure>,
}

impl RunOutcome {
    /// Returns the outcome of a run that ended earlier.
    pub(crate) fn of(row: store::Run) -> Self {
        let store::Run { id, status, final_text, partial_text, error, .. } = row;
        Self { run: id, status, final_text, partial_text, error, failure: None }
    }
}

/// Returns whether a run with this status can continue.
pub(crate) fn is_unfinished(status: RunStatus) -> bool {
    status.is_live() || status.is_paused()
}
