//! Model calls: the start, each attempt, and the end.

use rusqlite::{Connection, OptionalExtension, params};
use session::{RunId, Usage};

use super::messages::{append_one, last_seq};
use super::spent::{self, Spent};
use super::{RunState, calls, check_can_continue, count, ending, inbox, state};
use crate::{
    Head, Limit, Millis, ModelCallId, NewAttempt, NewModelCall, NewReply, RunKind, RunStatus, Seq, Store,
    StoreError,
};

impl Store {
    /// Stores a model call before its request is sent. Appends `results`, marks the delivered inbox entries,
    /// and reserves the cost, all in one transaction.
    ///
    /// Fails with [`StoreError::CancelRequested`] if the run or one above it was asked to stop, with
    /// [`StoreError::OverBudget`] if the call could exceed a limit, and with [`StoreError::AlreadyDelivered`]
    /// if an inbox entry no longer waits for this run.
    pub async fn begin_model_call(&self, call: NewModelCall) -> Result<ModelCallId, StoreError> {
        self.write(move |conn| {
            let state = check_can_continue(conn, &call.run)?;
            // All limits are checked before the first write, so that a refusal has nothing to undo.
            let mut new = Vec::new();
            for limit in &call.within {
                let known = spent::stored(conn, &limit.run)?;
                let spent = known.map_or_else(|| spent::computed(conn, &limit.run), Ok)?;
                check_limit(spent, limit, &call)?;
                new.extend(known.is_none().then_some((&limit.run, spent)));
            }
            for (run, spent) in new {
                spent::insert(conn, run, spent)?;
            }
            let last = match &call.results {
                Some(results) => {
                    let seq = append_one(conn, &call.run, state.kind, results, None)?;
                    inbox::delivered(conn, &call.run, &call.delivers, seq)?;
                    seq
                }
                None if call.delivers.is_empty() => last_seq(conn, &call.run)?,
                None => return Err(StoreError::Misuse("what waits is delivered by a message")),
            };
            if state.kind == RunKind::Main {
                ending::touch_thread(conn, &state.thread, call.at)?;
            }
            insert(conn, &call, state, last)
        })
        .await
    }

    /// Stores an attempt without a complete reply. The call stays open.
    pub async fn record_failed_attempt(
        &self,
        call: ModelCallId,
        attempt: NewAttempt,
    ) -> Result<(), StoreError> {
        self.write(move |conn| {
            open_call(conn, call)?;
            insert_attempt(conn, call, &attempt)
        })
        .await
    }

    /// Stores a complete reply: its attempt, its message, and the tool calls in it.
    ///
    /// Returns the number of the message, which is part of each [`CallKey`](crate::CallKey).
    pub async fn finish_model_call(
        &self,
        call: ModelCallId,
        attempt: NewAttempt,
        answer: NewReply,
    ) -> Result<Option<Seq>, StoreError> {
        self.write(move |conn| {
            let run = open_call(conn, call)?;
            let RunState { kind, status, above, .. } = state(conn, &run)?;
            insert_attempt(conn, call, &attempt)?;
            let freed = released_reservation(conn, status, call)?;
            store_reply(conn, call, &attempt, &answer)?;
            let used = spent::used(conn, call, answer.cost_microusd, &answer.usage)?;
            spent::change_from(conn, &run, above, used + freed)?;
            let Some(message) = &answer.message else {
                return if answer.calls.is_empty() {
                    Ok(None)
                } else {
                    Err(StoreError::Misuse("tool calls need the message that asks for them"))
                };
            };
            let seq = append_one(conn, &run, kind, message, Some(call))?;
            calls::plan(conn, &run, kind, seq, &answer.calls)?;
            Ok(Some(seq))
        })
        .await
    }

    /// Gives a call up and releases its reservation.
    pub async fn fail_model_call(
        &self,
        call: ModelCallId,
        at: Millis,
        error: impl Into<String>,
    ) -> Result<(), StoreError> {
        let error = error.into();
        self.write(move |conn| {
            let run = open_call(conn, call)?;
            let RunState { status, above, .. } = state(conn, &run)?;
            spent::change_from(conn, &run, above, released_reservation(conn, status, call)?)?;
            let mut update = conn.prepare_cached(
                "UPDATE model_calls SET status = 'failed', error = ?2, ended_at = ?3 WHERE id = ?1",
            )?;
            update.execute(params![call, error, at])?;
            Ok(())
        })
        .await
    }
}

fn insert(
    conn: &Connection,
    call: &NewModelCall,
    state: RunState,
    last: Seq,
) -> Result<ModelCallId, StoreError> {
    store_head(conn, &call.head)?;
    let mut insert = conn.prepare_cached(
        "INSERT INTO model_calls (run, kind, step, purpose, head, from_seq, to_seq, marks, request_sha256,
             request_len, model, provider, status, reserved_microusd, asked_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, 'asked', ?13, ?14)",
    )?;
    insert.execute(params![
        call.run.as_str(),
        state.kind,
        call.step,
        call.purpose,
        call.head.hash(),
        call.from,
        call.to.unwrap_or(last),
        call.marks,
        call.request_sha256,
        count(call.request_len),
        call.model,
        call.provider,
        call.reserved_microusd,
        call.at,
    ])?;
    let id = conn.last_insert_rowid();
    let mut reserved = Spent { reserved_microusd: call.reserved_microusd, ..Spent::default() };
    if call.within.iter().any(|limit| limit.tokens.is_some()) {
        reserved.reserved_tokens = count(call.reserved_tokens);
        let mut insert =
            conn.prepare_cached("INSERT INTO reserved_tokens (model_call, tokens) VALUES (?1, ?2)")?;
        insert.execute(params![id, reserved.reserved_tokens])?;
    }
    spent::change_from(conn, &call.run, state.above, reserved)?;
    Ok(ModelCallId(id))
}

/// Refuses a call that could exceed what is left of a limit. Reservations count as used.
fn check_limit(spent: Spent, limit: &Limit, call: &NewModelCall) -> Result<(), StoreError> {
    let Spent { used_microusd, used_tokens, reserved_microusd, reserved_tokens } = spent;
    let checks = [
        ("microusd", limit.microusd, used_microusd, reserved_microusd, call.reserved_microusd),
        ("tokens", limit.tokens.map(count), used_tokens, reserved_tokens, count(call.reserved_tokens)),
    ];
    for (unit, most, used, reserved, wanted) in checks {
        let Some(most) = most else { continue };
        if used.saturating_add(reserved).saturating_add(wanted) > most {
            return Err(StoreError::OverBudget { limit: limit.clone(), unit, used, reserved, wanted, most });
        }
    }
    Ok(())
}

/// Returns what releasing a reservation changes. The reservations of a run that is not live are released
/// already.
fn released_reservation(
    conn: &Connection,
    status: RunStatus,
    call: ModelCallId,
) -> Result<Spent, StoreError> {
    if status.is_live() { Ok(-spent::reservation(conn, call)?) } else { Ok(Spent::default()) }
}

fn store_head(conn: &Connection, head: &Head) -> Result<(), StoreError> {
    // Checked first: a head is long and almost always stored, and binding its bytes would copy them.
    if !conn.prepare_cached("SELECT 1 FROM heads WHERE hash = ?1")?.exists([head.hash()])? {
        let mut insert = conn.prepare_cached("INSERT INTO heads (hash, bytes) VALUES (?1, ?2)")?;
        insert.execute(params![head.hash(), head.bytes()])?;
    }
    Ok(())
}

/// Returns the run of a call that has not ended.
fn open_call(conn: &Connection, call: ModelCallId) -> Result<RunId, StoreError> {
    let mut find = conn.prepare_cached("SELECT run, status = 'asked' FROM model_calls WHERE id = ?1")?;
    let found = find.query_row([call], |row| Ok((row.get::<_, String>(0)?, row.get(1)?))).optional()?;
    match found {
        None => Err(StoreError::NoModelCall(call)),
        Some((_, false)) => Err(StoreError::AlreadyAnswered(call)),
        Some((run, true)) => Ok(RunId::new(run)),
    }
}

fn insert_attempt(conn: &Connection, call: ModelCallId, attempt: &NewAttempt) -> Result<(), StoreError> {
    let mut insert = conn.prepare_cached(
        "INSERT INTO attempts (model_call, n, status, ending, error, retry_after_ms, started_at, first_byte_at,
             ended_at, response)
         VALUES (?1, 1 + coalesce((SELECT n FROM attempts WHERE model_call = ?1 ORDER BY n DESC LIMIT 1), 0),
             ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?;
    insert.execute(params![
        call,
        attempt.status,
        attempt.ending,
        attempt.error,
        attempt.retry_after_ms,
        attempt.started_at,
        attempt.first_byte_at,
        attempt.ended_at,
        attempt.response,
    ])?;
    Ok(())
}

fn store_reply(
    conn: &Connection,
    call: ModelCallId,
    attempt: &NewAttempt,
    answer: &NewReply,
) -> Result<(), StoreError> {
    let Usage { input, output, cache_read, cache_write_5m, cache_write_1h, reasoning } = answer.usage;
    let mut update = conn.prepare_cached(
        "UPDATE model_calls SET status = 'answered', input = ?2, output = ?3, cache_read = ?4, cache_write_5m = ?5,
             cache_write_1h = ?6, reasoning = ?7, cost_microusd = ?8, first_byte_at = ?9, ended_at = ?10, reply = ?11
         WHERE id = ?1",
    )?;
    update.execute(params![
        call,
        count(input),
        count(output),
        count(cache_read),
        count(cache_write_5m),
        count(cache_write_1h),
        count(reasoning),
        answer.cost_microusd,
        attempt.first_byte_at,
        attempt.ended_at,
        answer.reply,
    ])?;
    Ok(())
}
