//! What can go wrong with the journal, and what can be done about it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::ErrorCode;
use session::{RunId, TaskId, ThreadId};

use crate::{CallKey, InboxId, Lease, Limit, ModelCallId, RunStatus};

/// Why something was not kept or not read.
///
/// It can be cloned: when a commit fails, everybody whose work was in it is told the same.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// SQLite itself has a known bug.
    #[error("SQLite {found} may corrupt a journal; {wanted} or newer is needed")]
    SqliteTooOld {
        /// The version that is linked.
        found: &'static str,
        /// The oldest that is good.
        wanted: &'static str,
    },
    /// The folder or the file cannot be made, or not be made private.
    #[error("`{path}` cannot be made ready for the journal")]
    Create {
        /// The folder or file.
        path: PathBuf,
        /// Why.
        #[source]
        source: Arc<std::io::Error>,
    },
    /// A newer offshoot wrote it.
    #[error(
        "the journal `{path}` has version {found}, and this offshoot knows up to {known}: use the newer one"
    )]
    Newer {
        /// The database.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The newest known here.
        known: i64,
    },
    /// A database, but another program's.
    #[error("`{path}` is another program's database: name another place for the journal")]
    NotOurs {
        /// The database.
        path: PathBuf,
    },
    /// No database at all.
    #[error("`{path}` is not a database: move it away, and a new journal will be made")]
    NotADatabase {
        /// The file.
        path: PathBuf,
    },
    /// A step to a newer version failed; everything is as it was before.
    #[error("the journal `{path}` could not be brought to version {to} and is unchanged")]
    Migrate {
        /// The database.
        path: PathBuf,
        /// The step that failed.
        to: i64,
        /// Why.
        #[source]
        source: Arc<rusqlite::Error>,
    },
    /// The database is damaged.
    #[error("the journal `{path}` is damaged: move it away, or bring back a copy that was kept beside it")]
    Corrupt {
        /// The database.
        path: PathBuf,
        /// What SQLite says.
        #[source]
        source: Arc<rusqlite::Error>,
    },
    /// It is ours, and its version is gone.
    #[error(
        "the journal `{path}` does not say which version it has: move it away, or bring back a copy that was kept beside it"
    )]
    NoVersion {
        /// The database.
        path: PathBuf,
    },
    /// Its file is not where it was.
    #[error(
        "the journal `{path}` was deleted, moved or replaced while it was in use: what was not kept until then is lost"
    )]
    Removed {
        /// The database.
        path: PathBuf,
    },
    /// Somebody else holds it.
    #[error("the journal `{path}` is locked by another process: end that one, or try again")]
    Locked {
        /// The database.
        path: PathBuf,
    },
    /// The disk is full.
    #[error("the disk is full, nothing was written to the journal `{path}`: make room and try again")]
    Full {
        /// The database.
        path: PathBuf,
    },
    /// It may not be written.
    #[error("the journal `{path}` cannot be written: change its permissions or those of its folder")]
    ReadOnly {
        /// The database.
        path: PathBuf,
    },
    /// The disk failed.
    #[error("the disk failed under the journal `{path}`")]
    Disk {
        /// The database.
        path: PathBuf,
        /// What SQLite says.
        #[source]
        source: Arc<rusqlite::Error>,
    },
    /// SQLite refuses for a reason that is ours.
    #[error("the journal refused a statement")]
    Sqlite(#[source] Arc<rusqlite::Error>),
    /// A row says what it never should.
    #[error("the journal has a {what} that cannot be read")]
    Row {
        /// Which kind of value.
        what: &'static str,
        /// Why.
        #[source]
        source: Arc<serde_json::Error>,
    },
    /// The writer's thread cannot be started, or is gone.
    #[error("the journal's writer is gone")]
    WriterGone,
    /// There is no such run.
    #[error("no run `{0}`")]
    NoRun(RunId),
    /// There is no such conversation.
    #[error("no thread `{0}`")]
    NoThread(ThreadId),
    /// There is no such task in the conversation.
    #[error("no task `{0}` in this thread")]
    NoTask(TaskId),
    /// There is no such tool call.
    #[error("no tool call `{0}`")]
    NoCall(CallKey),
    /// There is no such model call.
    #[error("no model call {0}")]
    NoModelCall(ModelCallId),
    /// The id is taken.
    #[error("there is a {what} `{id}` already")]
    Exists {
        /// Whose id.
        what: &'static str,
        /// The id.
        id: String,
    },
    /// A tool call has at most one result.
    #[error("the tool call `{0}` has its result already")]
    AlreadyFinished(CallKey),
    /// A model call has at most one end.
    #[error("the model call {0} has ended already")]
    AlreadyAnswered(ModelCallId),
    /// What waits in an inbox is taken out once.
    #[error("the inbox entry {0} is not waiting for this run")]
    AlreadyDelivered(InboxId),
    /// A job gives its result once.
    #[error("the job `{0}` has given its result already, or is none")]
    NoJob(RunId),
    /// A job's end without its parent being told would be a lost wake-up.
    #[error("the run `{0}` is a job and owes its parent a result")]
    OwesResult(RunId),
    /// Another process writes that tree.
    #[error("the run `{run}` is being written by process {}", holder.pid)]
    Held {
        /// The root of the tree.
        run: RunId,
        /// Who holds it.
        holder: Lease,
    },
    /// Nothing can follow.
    #[error("the run `{run}` is over: {}", status.words())]
    Over {
        /// The run.
        run: RunId,
        /// How it ended.
        status: RunStatus,
    },
    /// Somebody asked for it to stop, so no new step may start.
    #[error("the run `{0}` is asked to stop")]
    CancelRequested(RunId),
    /// A question could use more than a run may.
    #[error("the run `{}` has used {used} of {most} {unit}, and this could use {wanted} more", limit.run)]
    OverBudget {
        /// Whose limit it is.
        limit: Limit,
        /// What is counted: `microusd` or `tokens`.
        unit: &'static str,
        /// What was used.
        used: i64,
        /// What is set aside for questions that are open.
        reserved: i64,
        /// What this one could use.
        wanted: i64,
        /// What may be used.
        most: i64,
    },
    /// The caller's own values contradict each other.
    #[error("{0}")]
    Misuse(&'static str),
}

impl From<rusqlite::Error> for StoreError {
    fn from(source: rusqlite::Error) -> Self {
        Self::Sqlite(Arc::new(source))
    }
}

impl StoreError {
    /// Whether it says that nothing can be written at the moment, whatever it is.
    pub(crate) fn is_unwritable(&self) -> bool {
        matches!(self, Self::Full { .. } | Self::Locked { .. } | Self::ReadOnly { .. } | Self::Disk { .. })
    }

    /// Gives an error of SQLite that came up on the way its own name.
    pub(crate) fn named(self, path: &Path) -> Self {
        match self {
            Self::Sqlite(source) => Self::from_shared(path, source),
            other => other,
        }
    }

    /// Gives SQLite's answer the name that says what can be done.
    pub(crate) fn from_sqlite(path: &Path, source: rusqlite::Error) -> Self {
        Self::from_shared(path, Arc::new(source))
    }

    fn from_shared(path: &Path, source: Arc<rusqlite::Error>) -> Self {
        let path = path.to_owned();
        match source.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt) => Self::Corrupt { path, source },
            Some(ErrorCode::NotADatabase) => Self::NotADatabase { path },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Locked { path },
            Some(ErrorCode::DiskFull) => Self::Full { path },
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                Self::ReadOnly { path }
            }
            Some(ErrorCode::SystemIoFailure) => Self::Disk { path, source },
            _ => Self::Sqlite(source),
        }
    }
}
