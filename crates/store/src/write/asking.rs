//! Model calls: the question before it is asked, each attempt, the whole answer.

use rusqlite::{Connection, OptionalExtension, params};
use session::{RunId, Usage};

use super::messages::{append_one, last_seq};
use super::spent::{self, Spent};
use super::{Standing, calls, count, jobs, may_go_on, runs, standing};
use crate::{
    Answered, Head, Limit, Millis, ModelCallId, NewAttempt, NewModelCall, RunKind, RunStatus, Seq, Store,
    StoreError,
};

impl Store {
    /// Writes down a question to a model before it is asked, with what is said to it first, and sets aside
    /// what it may cost.
    ///
    /// Refused with [`StoreError::CancelRequested`] when the run or one above it is to stop, with
    /// [`StoreError::OverBudget`] when it could use more than one of them may, and as a whole with
    /// [`StoreError::AlreadyDelivered`] when something does not wait for this run any more.
    pub async fn ask(&self, call: NewModelCall) -> Result<ModelCallId, StoreError> {
        self.write(move |conn| {
            let standing = may_go_on(conn, &call.run)?;
            // All of them are looked at before anything is written: who is refused has nothing to undo.
            let mut new = Vec::new();
            for limit in &call.within {
                let known = spent::kept(conn, &limit.run)?;
                let spent = known.map_or_else(|| spent::added_up(conn, &limit.run), Ok)?;
                fits(spent, limit, &call)?;
                new.extend(known.is_none().then_some((&limit.run, spent)));
            }
            for (run, spent) in new {
                spent::keep(conn, run, spent)?;
            }
            let last = match &call.results {
                Some(results) => {
                    let seq = append_one(conn, &call.run, standing.kind, results, None)?;
                    jobs::delivered(conn, &call.run, &call.delivers, seq)?;
                    seq
                }
                None if call.delivers.is_empty() => last_seq(conn, &call.run)?,
                None => return Err(StoreError::Misuse("what waits is delivered by a message")),
            };
            if standing.kind == RunKind::Main {
                runs::touch_thread(conn, &standing.thread, call.at)?;
            }
            insert(conn, &call, standing, last)
        })
        .await
    }

    /// Keeps an attempt that brought no reply; the question stays open.
    pub async fn attempt_failed(&self, call: ModelCallId, attempt: NewAttempt) -> Result<(), StoreError> {
        self.write(move |conn| {
            open_call(conn, call)?;
            insert_attempt(conn, call, &attempt)
        })
        .await
    }

    /// Keeps a whole reply: the attempt that brought it, its message, and the tool calls it plans.
    ///
    /// Returns the number of its message; [`CallKey`](crate::CallKey)s are made of it.
    pub async fn answered(
        &self,
        call: ModelCallId,
        attempt: NewAttempt,
        answer: Answered,
    ) -> Result<Option<Seq>, StoreError> {
        self.write(move |conn| {
            let run = open_call(conn, call)?;
            let Standing { kind, status, above, .. } = standing(conn, &run)?;
            insert_attempt(conn, call, &attempt)?;
            let freed = freed(conn, status, call)?;
            settle(conn, call, &attempt, &answer)?;
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

    /// Gives a question up; what was set aside for it is free again.
    pub async fn asking_failed(
        &self,
        call: ModelCallId,
        at: Millis,
        error: impl Into<String>,
    ) -> Result<(), StoreError> {
        let error = error.into();
        self.write(move |conn| {
            let run = open_call(conn, call)?;
            let Standing { status, above, .. } = standing(conn, &run)?;
            spent::change_from(conn, &run, above, freed(conn, status, call)?)?;
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
    standing: Standing,
    last: Seq,
) -> Result<ModelCallId, StoreError> {
    keep_head(conn, &call.head)?;
    let mut insert = conn.prepare_cached(
        "INSERT INTO model_calls (run, kind, step, purpose, head, from_seq, to_seq, marks, request_sha256,
             request_len, model, provider, status, reserved_microusd, asked_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, 'asked', ?13, ?14)",
    )?;
    insert.execute(params![
        call.run.as_str(),
        standing.kind,
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
    let mut aside = Spent { aside_microusd: call.reserved_microusd, ..Spent::default() };
    if call.within.iter().any(|limit| limit.tokens.is_some()) {
        aside.aside_tokens = count(call.reserved_tokens);
        let mut insert =
            conn.prepare_cached("INSERT INTO reserved_tokens (model_call, tokens) VALUES (?1, ?2)")?;
        insert.execute(params![id, aside.aside_tokens])?;
    }
    spent::change_from(conn, &call.run, standing.above, aside)?;
    Ok(ModelCallId(id))
}

/// Refuses a question that could use more than is left: what is set aside for others counts as used.
fn fits(spent: Spent, limit: &Limit, call: &NewModelCall) -> Result<(), StoreError> {
    let Spent { used_microusd, used_tokens, aside_microusd, aside_tokens } = spent;
    let checks = [
        ("microusd", limit.microusd, used_microusd, aside_microusd, call.reserved_microusd),
        ("tokens", limit.tokens.map(count), used_tokens, aside_tokens, count(call.reserved_tokens)),
    ];
    for (unit, most, used, reserved, wanted) in checks {
        let Some(most) = most else { continue };
        if used.saturating_add(reserved).saturating_add(wanted) > most {
            return Err(StoreError::OverBudget { limit: limit.clone(), unit, used, reserved, wanted, most });
        }
    }
    Ok(())
}

/// What was set aside for a question is free again; what was broken off had set nothing aside.
fn freed(conn: &Connection, status: RunStatus, call: ModelCallId) -> Result<Spent, StoreError> {
    if status.is_live() { Ok(-spent::aside(conn, call)?) } else { Ok(Spent::default()) }
}

fn keep_head(conn: &Connection, head: &Head) -> Result<(), StoreError> {
    // Looked for first: it is long, nearly always there, and binding its bytes would copy them.
    if !conn.prepare_cached("SELECT 1 FROM heads WHERE hash = ?1")?.exists([head.hash()])? {
        let mut insert = conn.prepare_cached("INSERT INTO heads (hash, bytes) VALUES (?1, ?2)")?;
        insert.execute(params![head.hash(), head.bytes()])?;
    }
    Ok(())
}

/// The run of a call that has no end yet.
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

fn settle(
    conn: &Connection,
    call: ModelCallId,
    attempt: &NewAttempt,
    answer: &Answered,
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
