//! Search in the messages of main runs.

use rusqlite::{Connection, params};
use session::{RunId, ThreadId};

use super::columns;
use crate::{SearchHit, StoreError};

pub(super) fn find(conn: &Connection, query: &str, limit: i64) -> Result<Vec<SearchHit>, StoreError> {
    let Some(query) = quoted(query) else { return Ok(Vec::new()) };
    let mut find = conn.prepare_cached(
        "SELECT m.thread, t.title, m.run, m.seq, m.role, m.created_at,
             snippet(message_search, 0, '[', ']', '…', 16)
         FROM message_search JOIN main_messages m ON m.id = message_search.rowid JOIN threads t ON t.id = m.thread
         WHERE message_search MATCH ?1 AND m.origin <> 'summary' ORDER BY bm25(message_search), m.id DESC LIMIT ?2",
    )?;
    let found = find.query_map(params![query, limit], |row| {
        Ok(SearchHit {
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

/// Quotes each word, so that the query contains no operators, and lets it match the start of a word. Returns
/// `None` if there is no word.
fn quoted(query: &str) -> Option<String> {
    let words: Vec<String> = query
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| word.chars().any(char::is_alphanumeric))
        .map(|word| format!("\"{}\"*", word.replace('"', "\"\"")))
        .collect();
    (!words.is_empty()).then(|| words.join(" "))
}
