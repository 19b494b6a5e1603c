//! End of a run: its row, its task, its fork, and the lease of its tree.

use rusqlite::{Connection, params};
use session::{RunId, ThreadId};

use super::lease::release_lease;
use super::{inbox, spent, state};
use crate::{ForkEnd, Millis, RunEnd, RunKind, RunStatus, StoreError};

pub(super) fn end(conn: &Connection, run: &RunId, ending: &RunEnd) -> Result<(), StoreError> {
    if ending.status.is_live() {
        return Err(StoreError::Misuse("an ended run is not at work"));
    }
    let before = state(conn, run)?;
    if before.status.is_final() {
        return Err(StoreError::Over { run: run.clone(), status: before.status });
    }
    if ending.status == RunStatus::Completed && inbox::has_message(conn, run)? {
        return Err(StoreError::HasMessage(run.clone()));
    }
    if before.status.is_live() {
        spent::change(conn, run, -spent::reservations(conn, run)?)?;
    }
    let mut update = conn.prepare_cached(
        "UPDATE runs SET status = ?2, final_text = ?3, partial_text = ?4, error = ?5, ended_at = ?6, updated_at = ?6
         WHERE id = ?1",
    )?;
    let RunEnd { status, final_text, partial_text, error, at, .. } = ending;
    update.execute(params![run.as_str(), status, final_text, partial_text, error, at])?;
    if ending.status != RunStatus::Paused {
        // No one waits for a reply any more, so the reservation is released.
        let mut close = conn.prepare_cached(
            "UPDATE model_calls SET status = 'failed', error = 'the run ended', ended_at = ?2
             WHERE run = ?1 AND status = 'asked'",
        )?;
        close.execute(params![run.as_str(), ending.at])?;
    }
    if let (RunStatus::Completed | RunStatus::StepCap, Some(answer)) = (ending.status, &ending.final_text)
        && !ending.misfits
    {
        answer_task(conn, run, answer, ending.at)?;
    }
    if let Some(fork) = &ending.fork {
        end_fork(conn, run, fork)?;
    }
    release_lease(conn, &before.root)?;
    if before.kind == RunKind::Main { touch_thread(conn, &before.thread, ending.at) } else { Ok(()) }
}

fn end_fork(conn: &Connection, run: &RunId, fork: &ForkEnd) -> Result<(), StoreError> {
    let mut update = conn.prepare_cached("UPDATE forks SET ended = ?2 WHERE run = ?1")?;
    update.execute(params![run.as_str(), fork.event])?;
    if let Some(settings) = &fork.forget {
        conn.prepare_cached("UPDATE runs SET settings = ?2 WHERE id = ?1")?
            .execute(params![run.as_str(), settings])?;
        for sql in [
            "DELETE FROM messages WHERE run = ?1",
            "UPDATE model_calls SET reply = NULL WHERE run = ?1",
            "UPDATE attempts SET response = x'', error = NULL WHERE model_call IN (SELECT id FROM model_calls WHERE run = ?1)",
            "UPDATE runs SET final_text = NULL, partial_text = NULL WHERE id = ?1",
            "DELETE FROM seen_files WHERE run = ?1",
            "DELETE FROM hook_answers WHERE run = ?1",
            "DELETE FROM folder_notes WHERE run = ?1",
        ] {
            conn.prepare_cached(sql)?.execute([run.as_str()])?;
        }
    }
    Ok(())
}

/// Stores the final text of the task's last run as its result. The main agent sets the task's status.
fn answer_task(conn: &Connection, run: &RunId, answer: &str, at: Millis) -> Result<(), StoreError> {
    let mut update = conn.prepare_cached(
        "UPDATE tasks SET result = ?2, updated_at = ?3 WHERE id = (SELECT task FROM runs WHERE id = ?1)",
    )?;
    update.execute(params![run.as_str(), answer, at])?;
    Ok(())
}

/// Updates the time of the last change. A clock that was set back does not make the conversation older.
pub(super) fn touch_thread(conn: &Connection, thread: &ThreadId, at: Millis) -> Result<(), StoreError> {
    let mut update =
        conn.prepare_cached("UPDATE threads SET updated_at = ?2 WHERE id = ?1 AND updated_at < ?2")?;
    update.execute(params![thread.as_str(), at])?;
    Ok(())
}
