//! Entries of inboxes: added once for each call that sends one, and delivered once.

use rusqlite::{Connection, OptionalExtension, params};
use session::RunId;

use crate::{InboxId, NewInboxEntry, Seq, StoreError};

/// Marks inbox entries as delivered by a message, so that each is delivered once.
pub(super) fn delivered(
    conn: &Connection,
    run: &RunId,
    entries: &[InboxId],
    seq: Seq,
) -> Result<(), StoreError> {
    let mut mark = conn.prepare_cached(
        "UPDATE inbox SET delivered_seq = ?3
         WHERE id = ?1 AND run = ?2 AND delivered_seq IS NULL AND consumed_at IS NULL",
    )?;
    for entry in entries {
        if mark.execute(params![entry, run.as_str(), seq])? == 0 {
            return Err(StoreError::AlreadyDelivered(*entry));
        }
    }
    Ok(())
}

/// Returns whether a message waits for a run.
pub(super) fn has_message(conn: &Connection, run: &RunId) -> Result<bool, StoreError> {
    let mut find = conn.prepare_cached(
        "SELECT 1 FROM inbox
         WHERE run = ?1 AND kind = 'message' AND delivered_seq IS NULL AND consumed_at IS NULL",
    )?;
    Ok(find.exists([run.as_str()])?)
}

/// Returns the entry that the sending call has added before.
pub(super) fn sent(conn: &Connection, entry: &NewInboxEntry) -> Result<Option<InboxId>, StoreError> {
    let Some(call) = &entry.sent_by else { return Ok(None) };
    let mut find = conn.prepare_cached("SELECT id FROM inbox WHERE sent_by = ?1")?;
    Ok(find.query_row([call.to_string()], |row| row.get(0)).optional()?)
}

/// Adds an entry.
pub(super) fn put(
    conn: &Connection,
    entry: &NewInboxEntry,
    job: Option<&RunId>,
) -> Result<InboxId, StoreError> {
    let mut insert = conn.prepare_cached(
        "INSERT INTO inbox (run, kind, job, created_at, body, sent_by) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    let NewInboxEntry { run, kind, sent_by, body, at } = entry;
    let sent_by = sent_by.as_ref().map(ToString::to_string);
    insert.execute(params![run.as_str(), kind, job.map(RunId::as_str), at, body, sent_by])?;
    Ok(InboxId(conn.last_insert_rowid()))
}
