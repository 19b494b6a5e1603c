//! Leases: one process writes a run tree until no run of the tree is live.

use rusqlite::{Connection, OptionalExtension, params};
use session::RunId;

use super::resumed::resume;
use super::state;
use crate::{Lease, Millis, RunStatus, Store, StoreError};

impl Store {
    /// Takes the lease of a run's tree for this process and sets the run's status to `running`. Returns the
    /// status before.
    ///
    /// Fails with [`StoreError::Held`] while another process that `alive` accepts has the lease, and with
    /// [`StoreError::Over`] if the run cannot continue. The holder of a lease may take it again. `alive` runs
    /// on the writer's thread and must return quickly.
    pub async fn take_lease(
        &self,
        run: &RunId,
        lease: Lease,
        at: Millis,
        alive: impl Fn(Lease) -> bool + Send + 'static,
    ) -> Result<RunStatus, StoreError> {
        self.take_lease_unless(run, lease, at, alive, RunStatus::is_final).await
    }

    /// Takes the lease of a run that gets a new prompt, which may be a completed one.
    pub async fn reopen(
        &self,
        run: &RunId,
        lease: Lease,
        at: Millis,
        alive: impl Fn(Lease) -> bool + Send + 'static,
    ) -> Result<RunStatus, StoreError> {
        let over = |status: RunStatus| status.is_final() && status != RunStatus::Completed;
        self.take_lease_unless(run, lease, at, alive, over).await
    }

    async fn take_lease_unless(
        &self,
        run: &RunId,
        lease: Lease,
        at: Millis,
        alive: impl Fn(Lease) -> bool + Send + 'static,
        over: impl Fn(RunStatus) -> bool + Send + 'static,
    ) -> Result<RunStatus, StoreError> {
        let run = run.clone();
        self.write(move |conn| {
            let found = state(conn, &run)?;
            if over(found.status) {
                return Err(StoreError::Over { run: run.clone(), status: found.status });
            }
            let other = holder(conn, &found.root)?.filter(|holder| *holder != lease);
            if let Some(holder) = other.filter(|holder| alive(*holder)) {
                return Err(StoreError::Held { run: found.root, holder });
            }
            set_holder(conn, &found.root, lease)?;
            resume(conn, &run, &found, at)?;
            Ok(found.status)
        })
        .await
    }
}

/// Returns the holder of a tree's lease.
fn holder(conn: &Connection, root: &RunId) -> Result<Option<Lease>, StoreError> {
    let mut find = conn.prepare_cached("SELECT writer_pid, writer_start FROM runs WHERE id = ?1")?;
    let found = find.query_row([root.as_str()], |row| crate::read::lease(row, 0)).optional()?;
    found.ok_or_else(|| StoreError::NoRun(root.clone()))
}

fn set_holder(conn: &Connection, root: &RunId, lease: Lease) -> Result<(), StoreError> {
    let mut update =
        conn.prepare_cached("UPDATE runs SET writer_pid = ?2, writer_start = ?3 WHERE id = ?1")?;
    update.execute(params![root.as_str(), lease.pid, lease.start.cast_signed()])?;
    Ok(())
}

/// Refuses to add a run to a tree unless this process has its lease.
pub(super) fn check_held(conn: &Connection, root: &RunId, lease: Lease) -> Result<(), StoreError> {
    match holder(conn, root)? {
        Some(holder) if holder == lease => Ok(()),
        Some(holder) => Err(StoreError::Held { run: root.clone(), holder }),
        None => Err(StoreError::Misuse("a run below another one is started by the holder of its tree")),
    }
}

/// Releases the lease when no run of the tree is live. A job may outlive its parent's loop.
pub(super) fn release_lease(conn: &Connection, root: &RunId) -> Result<(), StoreError> {
    let mut update = conn.prepare_cached(
        "UPDATE runs SET writer_pid = NULL, writer_start = NULL
         WHERE id = ?1 AND writer_pid IS NOT NULL AND NOT EXISTS
             (SELECT 1 FROM runs WHERE root = ?1 AND status IN ('running', 'waiting'))",
    )?;
    update.execute([root.as_str()])?;
    Ok(())
}
