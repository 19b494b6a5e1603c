//! Runs that go on after a pause, a killed process, or their end.

use rusqlite::{Connection, params};
use session::RunId;

use super::{RunState, spent};
use crate::{Millis, RunStatus, StoreError};

/// Sets a run to `running`, with the record of its resumption. If its process was killed, its open requests are kept as
/// attempts without an end. A request to stop that came after its end is dropped: it did not mean the new prompt.
pub(super) fn resume(conn: &Connection, run: &RunId, found: &RunState, at: Millis) -> Result<(), StoreError> {
    if found.status.is_live() {
        keep_killed(conn, run)?;
    }
    let mut insert = conn.prepare_cached(
        "INSERT INTO resumptions (run, at, status) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
    )?;
    insert.execute(params![run.as_str(), at, found.status])?;
    let mut update = conn.prepare_cached(
        "UPDATE runs SET status = 'running', error = NULL, final_text = NULL, partial_text = NULL, started_at = ?2,
             ended_at = NULL, updated_at = ?2
         WHERE id = ?1",
    )?;
    update.execute(params![run.as_str(), at])?;
    if !found.status.is_live() {
        spent::change(conn, run, spent::reservations(conn, run)?)?;
    }
    let has_ended = !found.status.is_live() && !found.status.is_paused();
    if found.status == RunStatus::Completed || (has_ended && found.above.is_some()) {
        let mut late = conn.prepare_cached(
            "UPDATE inbox SET consumed_at = ?2
             WHERE run = ?1 AND kind = 'cancel' AND delivered_seq IS NULL AND consumed_at IS NULL",
        )?;
        late.execute(params![run.as_str(), at])?;
    }
    Ok(())
}

/// Keeps the open requests of a run whose process was killed, as attempts without an end. Each may have cost something.
pub(super) fn keep_killed(conn: &Connection, run: &RunId) -> Result<(), StoreError> {
    let mut insert = conn.prepare_cached(
        "INSERT INTO attempts (model_call, n, ending, started_at, response)
         SELECT id, 1 + coalesce((SELECT max(n) FROM attempts WHERE model_call = c.id), 0), 'killed',
             max(asked_at, coalesce((SELECT max(ended_at) FROM attempts WHERE model_call = c.id), 0),
                 coalesce((SELECT max(at) FROM resumptions WHERE run = c.run), 0)), x''
         FROM model_calls c WHERE run = ?1 AND status = 'asked'",
    )?;
    insert.execute([run.as_str()])?;
    Ok(())
}
