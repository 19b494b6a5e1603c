//! Writes. Each is one transaction, named after what happens, and returns when it is on the disk.

mod calls;
mod ending;
mod hooks;
mod inbox;
mod jobs;
mod lease;
mod messages;
mod model_calls;
mod notes;
mod processes;
mod resumed;
mod runs;
pub(crate) mod spent;
mod tasks;
mod write_back;

use rusqlite::{Connection, OptionalExtension};
use session::{RunId, ThreadId};

use crate::{RunKind, RunStatus, StoreError};

/// The columns of a run that most writes need.
struct RunState {
    thread: ThreadId,
    kind: RunKind,
    root: RunId,
    status: RunStatus,
    /// The next run above it in its tree.
    above: Option<RunId>,
}

fn state(conn: &Connection, run: &RunId) -> Result<RunState, StoreError> {
    let mut find = conn.prepare_cached(
        "SELECT thread, kind, root, status, CASE WHEN root = id THEN NULL ELSE parent END FROM runs WHERE id = ?1",
    )?;
    let found = find.query_row([run.as_str()], |row| {
        Ok(RunState {
            thread: ThreadId::new(row.get::<_, String>(0)?),
            kind: row.get(1)?,
            root: RunId::new(row.get::<_, String>(2)?),
            status: row.get(3)?,
            above: row.get::<_, Option<String>>(4)?.map(RunId::new),
        })
    });
    found.optional()?.ok_or_else(|| StoreError::NoRun(run.clone()))
}

/// Refuses a new step of a run that has ended or was asked to stop. The check is in the transaction of the
/// step, so no step starts after a committed cancellation.
fn check_can_continue(conn: &Connection, run: &RunId) -> Result<RunState, StoreError> {
    let state = state(conn, run)?;
    if !state.status.is_live() {
        return Err(StoreError::Over { run: run.clone(), status: state.status });
    }
    if crate::read::cancel_requested(conn, run, state.above.clone())? {
        return Err(StoreError::CancelRequested(run.clone()));
    }
    Ok(state)
}

/// Converts a count for SQLite. Providers may report any number; the limit allows sums without overflow.
fn count(n: u64) -> i64 {
    i64::try_from(n.min(1 << 40)).unwrap_or(i64::MAX)
}
