//! Why a run cannot go on.

use session::RunId;
use store::{RunStatus, StoreError};
use wire::dialect::EncodeError;

/// What keeps a loop from being run at all. What keeps a run from being *finished* is its status.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The journal failed; the run is as it was before.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Something cannot be said in the provider's dialect.
    #[error("the request cannot be encoded")]
    Encode(#[source] EncodeError),
    /// A run that is over, and nothing new was said.
    #[error("the run `{run}` is {}: there is nothing to go on with", status.words())]
    Finished {
        /// The run.
        run: RunId,
        /// How it ended.
        status: RunStatus,
    },
    /// A run of another kind than can be resumed by itself.
    #[error("the run `{run}` belongs to the run `{root}`, and goes on with that one")]
    NotMain {
        /// The run.
        run: RunId,
        /// The one that can be resumed.
        root: RunId,
    },
    /// What the journal says of a run cannot be read.
    #[error("the settings of the run `{run}` cannot be read")]
    Settings {
        /// The run.
        run: RunId,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// The provider that is configured now speaks another language than the run.
    #[error("the run `{run}` was begun in {began}, and the provider that is configured now speaks {speaks}")]
    DialectMismatch {
        /// The run.
        run: RunId,
        /// What it was begun in.
        began: wire::dialect::Dialect,
        /// What is configured.
        speaks: wire::dialect::Dialect,
    },
    /// A budget needs a price.
    #[error("nobody knows what `{0}` costs, so a budget cannot be kept")]
    UnknownPrice(String),
    /// What the journal has of a request does not give the request that was sent.
    #[error("the request of step {step} cannot be put together again as it was sent")]
    RequestMismatch {
        /// Which step.
        step: u32,
    },
    /// The model was asked for a summary and gave none.
    #[error("the conversation is too long to go on with, and the model gave no summary of it")]
    NoSummary,
    /// Its loop runs in this process already.
    #[error("the run `{0}` is at work in this process already")]
    AlreadyRunning(RunId),
    /// A run that has not had a turn.
    #[error("the run `{0}` has had no turn yet: there is nothing to fork")]
    NoForkPoint(RunId),
    /// A fork of which nothing was kept.
    #[error("nothing that was said in the fork `{0}` was kept: there is nothing to go on with")]
    TranscriptNotKept(RunId),
    /// A fork that would not share its parent's cache.
    #[error("{0}")]
    CacheLost(String),
    /// Its task broke.
    #[error("the run's own work broke; that is a bug in offshoot")]
    TaskPanicked,
    /// A tool's task vanished.
    #[error("a tool call was lost")]
    ToolTaskLost,
}
