//! Processes that run for a tree of runs and are gone with its root.

use rusqlite::params;
use session::RunId;

use super::standing;
use crate::{Lease, Millis, Store, StoreError};

impl Store {
    /// Writes down that a process runs for the tree of `run`.
    pub async fn process_started(&self, run: &RunId, process: Lease, at: Millis) -> Result<(), StoreError> {
        let run = run.clone();
        self.write(move |conn| {
            let root = standing(conn, &run)?.root;
            let mut insert = conn.prepare_cached(
                "INSERT INTO processes (root, pid, start, started_at) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT DO NOTHING",
            )?;
            insert.execute(params![root.as_str(), process.pid, process.start.cast_signed(), at])?;
            Ok(())
        })
        .await
    }

    /// Writes down that a process of the tree of `run` is gone.
    pub async fn process_gone(&self, run: &RunId, process: Lease) -> Result<(), StoreError> {
        let run = run.clone();
        self.write(move |conn| {
            let root = standing(conn, &run)?.root;
            let mut delete =
                conn.prepare_cached("DELETE FROM processes WHERE root = ?1 AND pid = ?2 AND start = ?3")?;
            delete.execute(params![root.as_str(), process.pid, process.start.cast_signed()])?;
            Ok(())
        })
        .await
    }
}
