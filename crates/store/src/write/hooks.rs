//! Answers of hooks, and the instructions of folders that come with the result of a call.

use std::os::unix::ffi::OsStrExt as _;

use rusqlite::{Connection, params};

use crate::{CallKey, FolderText, NewHookAnswer, Store, StoreError};

/// The position of an answer that belongs to no call.
pub(crate) const END_OF_TURN: i64 = -1;

impl Store {
    /// Stores the answer of the hooks of an event, once, and the new input of its call in the same transaction.
    pub async fn record_hook_answer(&self, answer: NewHookAnswer) -> Result<(), StoreError> {
        self.write(move |conn| record(conn, &answer)).await
    }
}

fn record(conn: &Connection, answer: &NewHookAnswer) -> Result<(), StoreError> {
    let NewHookAnswer { run, message, position, event, answer, input, at } = answer;
    let mut insert = conn.prepare_cached(
        "INSERT INTO hook_answers (run, message_seq, position, event, at, answer) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    let place = position.map_or(END_OF_TURN, i64::from);
    insert.execute(params![run.as_str(), message, place, event, at, answer])?;
    let (Some(input), Some(position)) = (input, position) else { return Ok(()) };
    let mut update = conn.prepare_cached(
        "UPDATE tool_calls SET input = ?4
         WHERE run = ?1 AND message_seq = ?2 AND position = ?3 AND status = 'planned'",
    )?;
    match update.execute(params![run.as_str(), message, position, input])? {
        0 => Err(StoreError::Misuse("hooks change the input of a call before it starts")),
        _ => Ok(()),
    }
}

pub(super) fn insert_folder_note(
    conn: &Connection,
    call: &CallKey,
    note: &FolderText,
) -> Result<(), StoreError> {
    // Two calls of one message may have read files of one folder at the same time.
    let mut insert = conn.prepare_cached(
        "INSERT INTO folder_notes (run, folder, message_seq, position, text) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT DO NOTHING",
    )?;
    let folder = note.folder.as_os_str().as_bytes();
    insert.execute(params![call.run.as_str(), folder, call.message, call.position, note.text])?;
    Ok(())
}
