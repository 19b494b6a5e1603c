//! The search index, which is derived from the messages.
//!
//! It is updated when the writer is idle and before each search. So no step of a run waits for tokenizing,
//! and the next process catches up after a kill.

use std::path::Path;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::{Options, StoreError, open};

/// Number of messages in one update. Writers wait that long.
const BATCH: i64 = 64;

/// Adds some messages to the index. Returns whether there may be more.
pub(crate) fn update_batch(conn: &Connection) -> rusqlite::Result<bool> {
    if !is_outdated(conn)? {
        return Ok(false);
    }
    let step = Transaction::new_unchecked(conn, TransactionBehavior::Immediate)?;
    let from: i64 = step.query_row("SELECT upto FROM message_search_state", [], |row| row.get(0))?;
    let upto: i64 = step
        .prepare_cached(
            "SELECT coalesce(max(id), ?1) FROM (SELECT id FROM messages WHERE id > ?1 ORDER BY id LIMIT ?2)",
        )?
        .query_row([from, BATCH], |row| row.get(0))?;
    step.prepare_cached(
        "INSERT INTO message_search (rowid, text) SELECT id, text FROM main_messages
         WHERE id > ?1 AND id <= ?2 AND text IS NOT NULL",
    )?
    .execute([from, upto])?;
    step.prepare_cached("UPDATE message_search_state SET upto = ?1")?.execute([upto])?;
    step.commit()?;
    Ok(true)
}

/// Brings the index up to date on its own connection.
pub(crate) fn update_all(path: &Path, options: Options) -> Result<(), StoreError> {
    let conn = open::open_writer(path, options)?;
    while update_batch(&conn).map_err(|error| StoreError::from_sqlite(path, error))? {}
    Ok(())
}

/// Returns whether there are messages that the index has not seen.
pub(crate) fn is_outdated(conn: &Connection) -> rusqlite::Result<bool> {
    let mut find = conn.prepare_cached(
        "SELECT coalesce((SELECT max(id) FROM messages), 0) > (SELECT upto FROM message_search_state)",
    )?;
    find.query_row([], |row| row.get(0))
}
