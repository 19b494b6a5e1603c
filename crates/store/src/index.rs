//! The search index: derived from the messages, and following them.
//!
//! It follows when the writer has nothing else to do, and before a search. So no step of a run waits for
//! words to be taken apart, and a process that was killed leaves nothing that the next one cannot catch up.

use std::path::Path;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::{Options, StoreError, open};

/// How many messages are taken at once: whoever wants to write waits that long.
const BATCH: i64 = 64;

/// Lets the index follow by some messages; says whether there may be more.
pub(crate) fn follow_some(conn: &Connection) -> rusqlite::Result<bool> {
    if !is_behind(conn)? {
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

/// Lets the index follow to the end, by a connection of its own.
pub(crate) fn follow_all(path: &Path, options: Options) -> Result<(), StoreError> {
    let conn = open::writing(path, options)?;
    while follow_some(&conn).map_err(|error| StoreError::from_sqlite(path, error))? {}
    Ok(())
}

/// Whether there are messages that the index has not seen.
pub(crate) fn is_behind(conn: &Connection) -> rusqlite::Result<bool> {
    let mut find = conn.prepare_cached(
        "SELECT coalesce((SELECT max(id) FROM messages), 0) > (SELECT upto FROM message_search_state)",
    )?;
    find.query_row([], |row| row.get(0))
}
