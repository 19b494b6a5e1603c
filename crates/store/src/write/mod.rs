//! The writes: each one is a whole transaction, named for what happens, back when it is on the disk.

mod asking;
mod back;
mod calls;
mod jobs;
mod lease;
mod messages;
mod notes;
mod processes;
mod runs;
pub(crate) mod spent;
mod tasks;

use rusqlite::{Connection, OptionalExtension};
use session::{RunId, ThreadId};

use crate::{RunKind, RunStatus, StoreError};

/// What most writes need to know of their run.
struct Standing {
    thread: ThreadId,
    kind: RunKind,
    root: RunId,
    status: RunStatus,
    /// The run above it in its tree.
    above: Option<RunId>,
}

fn standing(conn: &Connection, run: &RunId) -> Result<Standing, StoreError> {
    let mut find = conn.prepare_cached(
        "SELECT thread, kind, root, status, CASE WHEN root = id THEN NULL ELSE parent END FROM runs WHERE id = ?1",
    )?;
    let found = find.query_row([run.as_str()], |row| {
        Ok(Standing {
            thread: ThreadId::new(row.get::<_, String>(0)?),
            kind: row.get(1)?,
            root: RunId::new(row.get::<_, String>(2)?),
            status: row.get(3)?,
            above: row.get::<_, Option<String>>(4)?.map(RunId::new),
        })
    });
    found.optional()?.ok_or_else(|| StoreError::NoRun(run.clone()))
}

/// Refuses a new step of a run that is over or is to stop, in the transaction that would start it: so nothing
/// starts behind a cancel that was committed.
fn may_go_on(conn: &Connection, run: &RunId) -> Result<Standing, StoreError> {
    let standing = standing(conn, run)?;
    if !standing.status.is_live() {
        return Err(StoreError::Over { run: run.clone(), status: standing.status });
    }
    if crate::read::cancel_requested(conn, run, standing.above.clone())? {
        return Err(StoreError::CancelRequested(run.clone()));
    }
    Ok(standing)
}

/// A count as SQLite keeps it. A provider may write any number; this many can be added up without overflow.
fn count(n: u64) -> i64 {
    i64::try_from(n.min(1 << 40)).unwrap_or(i64::MAX)
}
