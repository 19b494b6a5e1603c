//! Tool calls: planned with the reply, started, finished once.

use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, params};
use session::RunId;

use super::{check_can_continue, hooks};
use crate::{
    CallKey, CallStatus, FinishedCall, Millis, NewToolCall, RunKind, SeenFile, Seq, Store, StoreError,
};

impl Store {
    /// Marks calls of one run as started. A call may start a second time; its retry policy decides, not the
    /// store.
    ///
    /// Fails with [`StoreError::CancelRequested`] if the run or one above it was asked to stop.
    pub async fn start_calls(&self, run: &RunId, calls: &[CallKey], at: Millis) -> Result<(), StoreError> {
        let run = run.clone();
        let calls = calls.to_vec();
        self.write(move |conn| {
            check_can_continue(conn, &run)?;
            if calls.iter().any(|key| key.run != run) {
                return Err(StoreError::Misuse("calls of one run are started together"));
            }
            calls.iter().try_for_each(|key| start(conn, key, at))
        })
        .await
    }

    /// Stores the result of a call. A second result fails with [`StoreError::AlreadyFinished`].
    pub async fn finish_call(&self, finished: FinishedCall) -> Result<(), StoreError> {
        let result = encode(&finished)?;
        self.write(move |conn| finish(conn, &finished, &result)).await
    }
}

pub(super) fn plan(
    conn: &Connection,
    run: &RunId,
    kind: RunKind,
    message: Seq,
    calls: &[NewToolCall],
) -> Result<(), StoreError> {
    let mut insert = conn.prepare_cached(
        "INSERT INTO tool_calls (run, kind, message_seq, position, call_id, name, policy, status, input)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'planned', ?8)",
    )?;
    for (position, call) in calls.iter().enumerate() {
        insert.execute(params![
            run.as_str(),
            kind,
            message,
            super::count(position as u64),
            call.call.as_str(),
            call.name,
            call.policy,
            call.input,
        ])?;
    }
    Ok(())
}

fn start(conn: &Connection, key: &CallKey, at: Millis) -> Result<(), StoreError> {
    let mut update = conn.prepare_cached(
        "UPDATE tool_calls SET status = 'running', started_at = ?4
         WHERE run = ?1 AND message_seq = ?2 AND position = ?3 AND status IN ('planned', 'running')",
    )?;
    match update.execute(params![key.run.as_str(), key.message, key.position, at])? {
        0 => Err(missing_or_finished(conn, key)?),
        _ => Ok(()),
    }
}

/// Encodes a result. Callers do so on their own thread, because other transactions wait for the writer's.
pub(super) fn encode(finished: &FinishedCall) -> Result<Vec<u8>, StoreError> {
    if finished.status.is_open() {
        return Err(StoreError::Misuse("a finished call is not an open one"));
    }
    serde_json::to_vec(&finished.result)
        .map_err(|source| StoreError::Row { what: "tool result", source: Arc::new(source) })
}

pub(super) fn finish(conn: &Connection, finished: &FinishedCall, result: &[u8]) -> Result<(), StoreError> {
    let FinishedCall { key, status, preview, at, .. } = finished;
    let mut update = conn.prepare_cached(
        "UPDATE tool_calls SET status = ?4, result = ?5, preview = ?6, ended_at = ?7
         WHERE run = ?1 AND message_seq = ?2 AND position = ?3 AND status IN ('planned', 'running')",
    )?;
    let done =
        update.execute(params![key.run.as_str(), key.message, key.position, status, result, preview, at])?;
    if done == 0 {
        return Err(missing_or_finished(conn, key)?);
    }
    finished.seen.iter().try_for_each(|file| upsert_known_file(conn, &key.run, file))?;
    finished.folders.iter().try_for_each(|note| hooks::insert_folder_note(conn, key, note))
}

fn upsert_known_file(conn: &Connection, run: &RunId, file: &SeenFile) -> Result<(), StoreError> {
    let mut upsert = conn.prepare_cached(
        "INSERT INTO seen_files (run, path, sha256) VALUES (?1, ?2, ?3)
         ON CONFLICT (run, path) DO UPDATE SET sha256 = excluded.sha256",
    )?;
    upsert.execute(params![run.as_str(), file.path.as_os_str().as_bytes(), file.sha256])?;
    Ok(())
}

fn missing_or_finished(conn: &Connection, key: &CallKey) -> Result<StoreError, StoreError> {
    let mut find = conn.prepare_cached(
        "SELECT status FROM tool_calls WHERE run = ?1 AND message_seq = ?2 AND position = ?3",
    )?;
    let found: Option<CallStatus> =
        find.query_row(params![key.run.as_str(), key.message, key.position], |row| row.get(0)).optional()?;
    Ok(match found {
        Some(_) => StoreError::AlreadyFinished(key.clone()),
        None => StoreError::NoCall(key.clone()),
    })
}
