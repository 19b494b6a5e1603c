//! What the writer is measured against.

use std::path::Path;

use rusqlite::params;

use crate::{Options, StoreError, open};

/// Writes rows the way SQLite alone does it best, and as durable as the journal: in a database of its own, one
/// table, one thread. Each of `groups` is one commit of rows with these bytes; all of them are written `times` over.
///
/// Whoever measures reads the clock before and after.
pub fn raw_group_commit(path: &Path, times: u32, groups: &[Vec<&[u8]>]) -> Result<(), StoreError> {
    open::make_file(path)?;
    let conn = open::writing(path, Options::default())?;
    let write = || -> rusqlite::Result<()> {
        conn.execute_batch(
            "CREATE TABLE IF NOT EXISTS rows (id INTEGER PRIMARY KEY, at INTEGER, bytes BLOB) STRICT",
        )?;
        let mut insert = conn.prepare("INSERT INTO rows (at, bytes) VALUES (?1, ?2)")?;
        for at in 0..times {
            for rows in groups {
                conn.execute_batch("BEGIN IMMEDIATE")?;
                for bytes in rows {
                    insert.execute(params![at, bytes])?;
                }
                conn.execute_batch("COMMIT")?;
            }
        }
        Ok(())
    };
    write().map_err(|error| StoreError::from_sqlite(path, error))
}
