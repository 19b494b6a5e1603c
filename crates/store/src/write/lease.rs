//! Who writes a tree of runs: one process at a time, until nothing of the tree is at work.

use rusqlite::{Connection, params};
use session::RunId;

use super::runs::holder;
use super::{spent, standing};
use crate::{Lease, Millis, RunStatus, Store, StoreError};

impl Store {
    /// Takes up a run: its tree is this process's to write, and its status is `running` again. Returns the
    /// status it had.
    ///
    /// Refused with [`StoreError::Held`] while another process writes the tree, as far as `alive` knows, and
    /// with [`StoreError::Over`] when nothing can follow. Whoever holds the lease may take it again.
    /// `alive` is asked on the writer's thread and should answer at once.
    pub async fn take_lease(
        &self,
        run: &RunId,
        lease: Lease,
        at: Millis,
        alive: impl Fn(Lease) -> bool + Send + 'static,
    ) -> Result<RunStatus, StoreError> {
        self.take_up(run, lease, at, alive, RunStatus::is_final).await
    }

    /// Takes up a run of which something more is wanted, also where it had said everything.
    pub async fn reopen(
        &self,
        run: &RunId,
        lease: Lease,
        at: Millis,
        alive: impl Fn(Lease) -> bool + Send + 'static,
    ) -> Result<RunStatus, StoreError> {
        let over = |status: RunStatus| status.is_final() && status != RunStatus::Completed;
        self.take_up(run, lease, at, alive, over).await
    }

    async fn take_up(
        &self,
        run: &RunId,
        lease: Lease,
        at: Millis,
        alive: impl Fn(Lease) -> bool + Send + 'static,
        over: impl Fn(RunStatus) -> bool + Send + 'static,
    ) -> Result<RunStatus, StoreError> {
        let run = run.clone();
        self.write(move |conn| {
            let found = standing(conn, &run)?;
            if over(found.status) {
                return Err(StoreError::Over { run: run.clone(), status: found.status });
            }
            let other = holder(conn, &found.root)?.filter(|holder| *holder != lease);
            if let Some(holder) = other.filter(|holder| alive(*holder)) {
                return Err(StoreError::Held { run: found.root, holder });
            }
            hold(conn, &found.root, lease)?;
            let mut update = conn.prepare_cached(
                "UPDATE runs SET status = 'running', error = NULL, started_at = ?2, ended_at = NULL, updated_at = ?2
                 WHERE id = ?1",
            )?;
            update.execute(params![run.as_str(), at])?;
            if !found.status.is_live() {
                spent::change(conn, &run, spent::all_aside(conn, &run)?)?;
            }
            if found.status == RunStatus::Completed {
                // Who wanted it to stop came too late; what is said now is something else.
                let mut late = conn.prepare_cached(
                    "UPDATE inbox SET consumed_at = ?2
                     WHERE run = ?1 AND kind = 'cancel' AND delivered_seq IS NULL AND consumed_at IS NULL",
                )?;
                late.execute(params![run.as_str(), at])?;
            }
            Ok(found.status)
        })
        .await
    }
}

fn hold(conn: &Connection, root: &RunId, lease: Lease) -> Result<(), StoreError> {
    let mut update =
        conn.prepare_cached("UPDATE runs SET writer_pid = ?2, writer_start = ?3 WHERE id = ?1")?;
    update.execute(params![root.as_str(), lease.pid, lease.start.cast_signed()])?;
    Ok(())
}

/// Only the holder of a tree adds a run to it.
pub(super) fn check_held(conn: &Connection, root: &RunId, lease: Lease) -> Result<(), StoreError> {
    match holder(conn, root)? {
        Some(holder) if holder == lease => Ok(()),
        Some(holder) => Err(StoreError::Held { run: root.clone(), holder }),
        None => Err(StoreError::Misuse("a run below another one is started by whoever holds the tree")),
    }
}

/// The lease goes when no run of the tree is at work; a job may outlive its parent's loop.
pub(super) fn give_back(conn: &Connection, root: &RunId) -> Result<(), StoreError> {
    let mut update = conn.prepare_cached(
        "UPDATE runs SET writer_pid = NULL, writer_start = NULL
         WHERE id = ?1 AND writer_pid IS NOT NULL AND NOT EXISTS
             (SELECT 1 FROM runs WHERE root = ?1 AND status IN ('running', 'waiting'))",
    )?;
    update.execute([root.as_str()])?;
    Ok(())
}
