//! Searching what was said to and by main agents.
//!
//! The index is derived from the messages and follows them: when the writer has nothing else to do, and
//! before a search. So no step of a run waits for words to be taken apart.

use rusqlite::{Connection, TransactionBehavior, params};
use session::{RunId, ThreadId};

use super::columns;
use crate::{Hit, Store, StoreError, open};

/// How many messages are taken at once: others that want to write wait that long.
const BATCH: i64 = 200;

/// Lets the index follow by some messages; says whether there may be more.
pub(crate) fn catch_up(conn: &Connection) -> rusqlite::Result<bool> {
    if !behind(conn)? {
        return Ok(false);
    }
    let step = rusqlite::Transaction::new_unchecked(conn, TransactionBehavior::Immediate)?;
    let upto: i64 = step
        .prepare_cached(
            "SELECT coalesce(max(id), 0) FROM (SELECT id FROM main_messages
             WHERE id > (SELECT upto FROM message_search_state) ORDER BY id LIMIT ?1)",
        )?
        .query_row([BATCH], |row| row.get(0))?;
    step.prepare_cached(
        "INSERT INTO message_search (rowid, text) SELECT id, text FROM main_messages
         WHERE id > (SELECT upto FROM message_search_state) AND id <= ?1 AND text IS NOT NULL",
    )?
    .execute([upto])?;
    step.prepare_cached("UPDATE message_search_state SET upto = max(upto, ?1)")?.execute([upto])?;
    step.commit()?;
    Ok(true)
}

fn behind(conn: &Connection) -> rusqlite::Result<bool> {
    conn.prepare_cached(
        "SELECT 1 FROM main_messages WHERE id > (SELECT upto FROM message_search_state) LIMIT 1",
    )?
    .exists([])
}

/// Lets the index follow to the end, by a connection of its own, since those that read cannot.
pub(super) fn follow(store: &Store) -> Result<(), StoreError> {
    if !store.read_main(|conn| Ok(behind(conn)?))? {
        return Ok(());
    }
    let conn = open::writing(store.path(), store.options())?;
    while catch_up(&conn).map_err(|error| StoreError::from_sqlite(store.path(), error))? {}
    Ok(())
}

pub(super) fn find(conn: &Connection, query: &str, limit: i64) -> Result<Vec<Hit>, StoreError> {
    let Some(query) = quoted(query) else { return Ok(Vec::new()) };
    let mut find = conn.prepare_cached(
        "SELECT m.thread, t.title, m.run, m.seq, m.role, m.created_at,
             snippet(message_search, 0, '[', ']', '…', 16)
         FROM message_search JOIN main_messages m ON m.id = message_search.rowid JOIN threads t ON t.id = m.thread
         WHERE message_search MATCH ?1 ORDER BY bm25(message_search), m.id DESC LIMIT ?2",
    )?;
    let found = find.query_map(params![query, limit], |row| {
        Ok(Hit {
            thread: ThreadId::new(columns::text(row, 0)?),
            title: row.get(1)?,
            run: RunId::new(columns::text(row, 2)?),
            seq: row.get(3)?,
            role: columns::role(row, 4)?,
            at: row.get(5)?,
            snippet: row.get(6)?,
        })
    })?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// Each word as a string of the query language, so that nothing in it is an operator; the last one may be
/// the beginning of a word. `None` when there is nothing to look for.
fn quoted(query: &str) -> Option<String> {
    let words: Vec<String> = query
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| word.chars().any(char::is_alphanumeric))
        .map(|word| format!("\"{}\"", word.replace('"', "\"\"")))
        .collect();
    (!words.is_empty()).then(|| format!("{}*", words.join(" ")))
}
