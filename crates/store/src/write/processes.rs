//! Processes that run in the background for a run tree and end with its root.

use rusqlite::params;
use session::RunId;

use super::state;
use crate::{Lease, Millis, Store, StoreError};

impl Store {
    /// Records a process of the tree of `run`.
    pub async fn record_process(&self, run: &RunId, process: Lease, at: Millis) -> Result<(), StoreError> {
        let run = run.clone();
        self.write(move |conn| {
            let root = state(conn, &run)?.root;
            let mut insert = conn.prepare_cached(
                "INSERT INTO processes (root, pid, start, started_at) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT DO NOTHING",
            )?;
            insert.execute(params![root.as_str(), process.pid, process.start.cast_signed(), at])?;
            Ok(())
        })
        .await
    }

    /// Removes the record of a process that has ended.
    pub async fn remove_process(&self, run: &RunId, process: Lease) -> Result<(), StoreError> {
        let run = run.clone();
        self.write(move |conn| {
            let root = state(conn, &run)?.root;
            let mut delete =
                conn.prepare_cached("DELETE FROM processes WHERE root = ?1 AND pid = ?2 AND start = ?3")?;
            delete.execute(params![root.as_str(), process.pid, process.start.cast_signed()])?;
            Ok(())
        })
        .await
    }
}
