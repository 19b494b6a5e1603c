//! Errors of runs.

use session::RunId;
use store::{RunStatus, StoreError};
use wire::dialect::EncodeError;

/// Errors that keep a loop from running. A run that ends without an answer is not an error: its status says why.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The journal failed. The run is unchanged.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A request cannot be encoded in the provider's dialect.
    #[error("cannot encode the request")]
    Encode(#[source] EncodeError),
    /// The run has ended, and there is no new prompt.
    #[error("run `{run}` is {} and has nothing to continue", status.words())]
    Finished {
        /// The run.
        run: RunId,
        /// Its status.
        status: RunStatus,
    },
    /// A run that is not resumed by itself.
    #[error("run `{run}` is part of run `{root}`; resume that one")]
    NotMain {
        /// The run.
        run: RunId,
        /// The run to resume.
        root: RunId,
    },
    /// The stored settings of a run are not readable.
    #[error("cannot read the settings of run `{run}`")]
    Settings {
        /// The run.
        run: RunId,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
    /// The configured provider has another dialect than the run.
    #[error("run `{run}` uses the dialect {run_dialect}, but the provider uses {provider_dialect}")]
    DialectMismatch {
        /// The run.
        run: RunId,
        /// The dialect of the run.
        run_dialect: wire::dialect::Dialect,
        /// The dialect of the provider.
        provider_dialect: wire::dialect::Dialect,
    },
    /// A budget needs a price.
    #[error("no price known for model `{0}`; cannot enforce the budget")]
    UnknownPrice(String),
    /// A request that was rebuilt from the journal differs from the one that was sent.
    #[error("cannot rebuild the request of step {step} as it was sent")]
    RequestMismatch {
        /// The step.
        step: u32,
    },
    /// The model was asked for a summary and gave none.
    #[error("the conversation is too long, and the model returned no summary")]
    NoSummary,
    /// Its loop runs in this process already.
    #[error("run `{0}` is already running in this process")]
    AlreadyRunning(RunId),
    /// The run has no turn.
    #[error("run `{0}` has no turn to fork")]
    NoForkPoint(RunId),
    /// The fork's transcript was not kept.
    #[error("the transcript of fork `{0}` was not kept, so it cannot be resumed")]
    TranscriptNotKept(RunId),
    /// A fork that would not share its parent's cache.
    #[error("{0}")]
    CacheLost(String),
    /// A fork that cannot be as requested.
    #[error("{0}")]
    ForkRefused(String),
    /// Its task panicked.
    #[error("the run crashed; this is a bug in offshoot")]
    TaskPanicked,
    /// The task of a tool call vanished.
    #[error("a tool call was lost")]
    ToolTaskLost,
}
