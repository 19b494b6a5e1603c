//! Errors of the journal.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::ErrorCode;
use session::{RunId, TaskId, ThreadId};

use crate::{CallKey, InboxId, Lease, Limit, ModelCallId, RunStatus};

/// An error of a read or write.
///
/// It implements `Clone` because a failed commit is reported to every caller in its group.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The linked SQLite has a known bug.
    #[error("SQLite {found} may corrupt a journal; {wanted} or newer is needed")]
    SqliteTooOld {
        /// The linked version.
        found: &'static str,
        /// The oldest version without the bug.
        wanted: &'static str,
    },
    /// The folder or file could not be created or made private.
    #[error("cannot prepare `{path}` for the journal")]
    Create {
        /// The folder or file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: Arc<std::io::Error>,
    },
    /// A newer offshoot wrote the journal.
    #[error(
        "the journal `{path}` has version {found}, this offshoot reads up to {known}: use a newer offshoot"
    )]
    Newer {
        /// The path of the database.
        path: PathBuf,
        /// The version found.
        found: i64,
        /// The newest version that this program knows.
        known: i64,
    },
    /// The database belongs to another program.
    #[error("`{path}` is another program's database: choose another path for the journal")]
    NotOurs {
        /// The path of the database.
        path: PathBuf,
    },
    /// The file is not a database.
    #[error("`{path}` is not a database: move it away to create a new journal")]
    NotADatabase {
        /// The file.
        path: PathBuf,
    },
    /// A migration step failed. The database is unchanged.
    #[error("cannot migrate the journal `{path}` to version {to}; it is unchanged")]
    Migrate {
        /// The path of the database.
        path: PathBuf,
        /// The version that the failed step leads to.
        to: i64,
        /// The cause.
        #[source]
        source: Arc<rusqlite::Error>,
    },
    /// The database is damaged.
    #[error("the journal `{path}` is damaged: move it away, or restore a backup from its folder")]
    Corrupt {
        /// The path of the database.
        path: PathBuf,
        /// The error that SQLite reported.
        #[source]
        source: Arc<rusqlite::Error>,
    },
    /// The database has no content, although a log or an earlier process says that it had.
    #[error("the journal `{path}` is empty: data may be missing")]
    Emptied {
        /// The path of the database.
        path: PathBuf,
    },
    /// The log is damaged before its end, cut or missing, so SQLite would drop committed transactions.
    #[error("the log `{path}-wal` of the journal is damaged, cut or gone: data may be missing")]
    LogDamaged {
        /// The path of the database.
        path: PathBuf,
    },
    /// The journal has lost its version number.
    #[error("the journal `{path}` has no version number: move it away, or restore a backup from its folder")]
    NoVersion {
        /// The path of the database.
        path: PathBuf,
    },
    /// The file was deleted, moved or replaced while it was open.
    #[error(
        "the journal `{path}` was deleted, moved or replaced while it was in use: later changes are lost"
    )]
    Removed {
        /// The path of the database.
        path: PathBuf,
    },
    /// Another process holds the lock.
    #[error("the journal `{path}` is locked by another process: end that process, or try again")]
    Locked {
        /// The path of the database.
        path: PathBuf,
    },
    /// The disk is full.
    #[error("the disk is full, nothing was written to the journal `{path}`: free some space and try again")]
    Full {
        /// The path of the database.
        path: PathBuf,
    },
    /// The file or its folder is read-only.
    #[error("cannot write the journal `{path}`: change its permissions or those of its folder")]
    ReadOnly {
        /// The path of the database.
        path: PathBuf,
    },
    /// The disk reported an error.
    #[error("the disk failed under the journal `{path}`")]
    Disk {
        /// The path of the database.
        path: PathBuf,
        /// The error that SQLite reported.
        #[source]
        source: Arc<rusqlite::Error>,
    },
    /// SQLite refused a statement, which is a bug here.
    #[error("SQLite refused a statement of the journal")]
    Sqlite(#[source] Arc<rusqlite::Error>),
    /// A stored value could not be decoded.
    #[error("cannot decode a {what} in the journal")]
    Row {
        /// The kind of value.
        what: &'static str,
        /// The cause.
        #[source]
        source: Arc<serde_json::Error>,
    },
    /// The writer's thread could not start or has ended.
    #[error("the journal's writer has ended")]
    WriterGone,
    /// The run does not exist.
    #[error("no run `{0}`")]
    NoRun(RunId),
    /// The conversation does not exist.
    #[error("no thread `{0}`")]
    NoThread(ThreadId),
    /// The task does not exist in this conversation.
    #[error("no task `{0}` in this thread")]
    NoTask(TaskId),
    /// The tool call does not exist.
    #[error("no tool call `{0}`")]
    NoCall(CallKey),
    /// The model call does not exist.
    #[error("no model call {0}")]
    NoModelCall(ModelCallId),
    /// The id is already in use.
    #[error("{what} `{id}` already exists")]
    Exists {
        /// The kind of the id.
        what: &'static str,
        /// The id.
        id: String,
    },
    /// The tool call already has its result.
    #[error("the tool call `{0}` already has a result")]
    AlreadyFinished(CallKey),
    /// The model call already has its end.
    #[error("the model call {0} has already ended")]
    AlreadyAnswered(ModelCallId),
    /// The inbox entry was already taken.
    #[error("the inbox entry {0} is not waiting for this run")]
    AlreadyDelivered(InboxId),
    /// The run is not a job, or its result was delivered.
    #[error("`{0}` is not a job, or its result was delivered")]
    NoJob(RunId),
    /// A job cannot end without its result, because its parent would never wake up.
    #[error("job `{0}` has not delivered its result")]
    OwesResult(RunId),
    /// Another process writes the run tree.
    #[error("the run `{run}` is in use by process {}", holder.pid)]
    Held {
        /// The root of the tree.
        run: RunId,
        /// The process that holds the lease.
        holder: Lease,
    },
    /// The run has ended and cannot continue.
    #[error("the run `{run}` has ended: {}", status.words())]
    Over {
        /// The run.
        run: RunId,
        /// Its final status.
        status: RunStatus,
    },
    /// The run has not ended, so it cannot be continued.
    #[error("the run `{run}` has not ended: {}", status.words())]
    AtWork {
        /// The run.
        run: RunId,
        /// Its status.
        status: RunStatus,
    },
    /// A message waits for the run, so it is not completed.
    #[error("a message waits for the run `{0}`")]
    HasMessage(RunId),
    /// The run, or one above it, was asked to stop, so no new step may start.
    #[error("the run `{0}` was asked to stop")]
    CancelRequested(RunId),
    /// A model call could exceed a budget.
    #[error("the run `{}` has used {used} of {most} {unit}, and this call could use {wanted} more", limit.run)]
    OverBudget {
        /// The exceeded limit.
        limit: Limit,
        /// The unit: `microusd` or `tokens`.
        unit: &'static str,
        /// The amount used.
        used: i64,
        /// The amount reserved for open calls.
        reserved: i64,
        /// The amount that this call could use.
        wanted: i64,
        /// The limit's amount.
        most: i64,
    },
    /// The caller's arguments contradict each other.
    #[error("{0}")]
    Misuse(&'static str),
}

impl From<rusqlite::Error> for StoreError {
    fn from(source: rusqlite::Error) -> Self {
        Self::Sqlite(Arc::new(source))
    }
}

impl StoreError {
    /// Returns whether the journal cannot be written at the moment, for any reason.
    pub(crate) fn is_unwritable(&self) -> bool {
        matches!(self, Self::Full { .. } | Self::Locked { .. } | Self::ReadOnly { .. } | Self::Disk { .. })
    }

    /// Replaces an unnamed SQLite error by the variant that names the problem.
    pub(crate) fn named(self, path: &Path) -> Self {
        match self {
            Self::Sqlite(source) => Self::from_shared(path, source),
            other => other,
        }
    }

    /// Converts an SQLite error to the variant that names the problem.
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
