//! Column lists and the conversion of rows to values.

use std::sync::Arc;

use rusqlite::Row;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ValueRef};
use session::{CallId, Role, RunId, TaskId, ThreadId, Usage};

use crate::{CallKey, Lease, ModelCall, Run, StoreError, StoredMessage, StoredToolCall, UsageTotals};

type Read<T> = rusqlite::Result<T>;

pub(super) const RUN: &str = "id, thread, kind, root, parent, task, spawned_by, agent, model, provider, status, chain,
    depth, context_from, created_at, started_at, ended_at, writer_pid, writer_start, updated_at, settings, error,
    final_text, partial_text";

/// Number of columns in [`RUN`].
pub(super) const RUN_COLUMNS: usize = 24;

pub(super) fn run(row: &Row<'_>) -> Read<Run> {
    Ok(Run {
        id: RunId::new(text(row, 0)?),
        thread: ThreadId::new(text(row, 1)?),
        kind: row.get(2)?,
        root: RunId::new(text(row, 3)?),
        parent: row.get::<_, Option<String>>(4)?.map(RunId::new),
        task: row.get::<_, Option<String>>(5)?.map(TaskId::new),
        spawned_by: row.get::<_, Option<String>>(6)?.map(CallId::new),
        agent: row.get(7)?,
        model: row.get(8)?,
        provider: row.get(9)?,
        status: row.get(10)?,
        chain: row.get(11)?,
        depth: row.get(12)?,
        context_from: row.get(13)?,
        created_at: row.get(14)?,
        started_at: row.get(15)?,
        ended_at: row.get(16)?,
        writer: lease(row, 17)?,
        updated_at: row.get(19)?,
        settings: row.get(20)?,
        error: row.get(21)?,
        final_text: row.get(22)?,
        partial_text: row.get(23)?,
    })
}

/// Reads the lease in two columns, the first of them at `at`.
pub(crate) fn lease(row: &Row<'_>, at: usize) -> Read<Option<Lease>> {
    let pid: Option<u32> = row.get(at)?;
    let start: Option<i64> = row.get(at + 1)?;
    Ok(pid.zip(start).map(|(pid, start)| Lease { pid, start: start.cast_unsigned() }))
}

pub(super) const MESSAGE: &str = "seq, role, origin, model_call, created_at, text, bytes";

pub(super) fn message(row: &Row<'_>, at: usize) -> Read<StoredMessage> {
    Ok(StoredMessage {
        seq: row.get(at)?,
        role: role(row, at + 1)?,
        origin: row.get(at + 2)?,
        model_call: row.get(at + 3)?,
        at: row.get(at + 4)?,
        text: row.get(at + 5)?,
        bytes: row.get(at + 6)?,
    })
}

pub(super) const TOOL_CALL: &str =
    "run, message_seq, position, call_id, name, policy, status, started_at, ended_at,
    input, preview, result";

pub(super) fn tool_call(row: &Row<'_>) -> Result<StoredToolCall, StoreError> {
    let unread = |source| StoreError::Row { what: "tool result", source: Arc::new(source) };
    let result: Option<Vec<u8>> = row.get(11)?;
    Ok(StoredToolCall {
        key: CallKey { run: RunId::new(text(row, 0)?), message: row.get(1)?, position: row.get(2)? },
        call: CallId::new(text(row, 3)?),
        name: row.get(4)?,
        policy: row.get(5)?,
        status: row.get(6)?,
        started_at: row.get(7)?,
        ended_at: row.get(8)?,
        input: row.get(9)?,
        preview: row.get(10)?,
        result: result.map(|json| serde_json::from_slice(&json)).transpose().map_err(unread)?,
    })
}

pub(super) const MODEL_CALL: &str = "id, run, step, purpose, head, from_seq, to_seq, marks, request_sha256,
    request_len, model, provider, status, input, output, cache_read, cache_write_5m, cache_write_1h, reasoning,
    cost_microusd, reserved_microusd, asked_at, first_byte_at, ended_at, error, reply";

pub(super) fn model_call(row: &Row<'_>) -> Read<ModelCall> {
    Ok(ModelCall {
        id: row.get(0)?,
        run: RunId::new(text(row, 1)?),
        step: row.get(2)?,
        purpose: row.get(3)?,
        head: row.get(4)?,
        from: row.get(5)?,
        to: row.get(6)?,
        marks: row.get(7)?,
        request_sha256: row.get(8)?,
        request_len: count(row, 9)?,
        model: row.get(10)?,
        provider: row.get(11)?,
        status: row.get(12)?,
        usage: usage(row, 13)?,
        cost_microusd: row.get(19)?,
        reserved_microusd: row.get(20)?,
        asked_at: row.get(21)?,
        first_byte_at: row.get(22)?,
        ended_at: row.get(23)?,
        error: row.get(24)?,
        reply: row.get(25)?,
    })
}

/// Sums over model calls, in the order in which [`totals`] reads them. `without_end` counts the attempts of a call without
/// an end, and `is_live` says whether its run is live.
pub(super) fn totals_sql(without_end: &str, is_live: &str) -> String {
    format!(
        "count(*), coalesce(sum((status = 'answered' AND cost_microusd IS NULL) + {without_end}), 0),
         coalesce(sum(input), 0), coalesce(sum(output), 0), coalesce(sum(cache_read), 0),
         coalesce(sum(cache_write_5m), 0), coalesce(sum(cache_write_1h), 0), coalesce(sum(reasoning), 0),
         coalesce(sum(cost_microusd), 0), coalesce(sum(CASE status WHEN 'asked' THEN reserved_microusd END), 0),
         coalesce(sum(status = 'asked' AND {is_live}), 0)"
    )
}

pub(super) fn totals(row: &Row<'_>, at: usize) -> Read<UsageTotals> {
    Ok(UsageTotals {
        calls: count(row, at)?,
        unpriced: count(row, at + 1)?,
        usage: usage(row, at + 2)?,
        cost_microusd: row.get(at + 8)?,
        reserved_microusd: row.get(at + 9)?,
        open: count(row, at + 10)?,
    })
}

fn usage(row: &Row<'_>, at: usize) -> Read<Usage> {
    Ok(Usage {
        input: count(row, at)?,
        output: count(row, at + 1)?,
        cache_read: count(row, at + 2)?,
        cache_write_5m: count(row, at + 3)?,
        cache_write_1h: count(row, at + 4)?,
        reasoning: count(row, at + 5)?,
    })
}

pub(super) fn count(row: &Row<'_>, at: usize) -> Read<u64> {
    Ok(row.get::<_, i64>(at)?.max(0).cast_unsigned())
}

pub(super) fn text(row: &Row<'_>, at: usize) -> Read<String> {
    row.get(at)
}

pub(super) fn role(row: &Row<'_>, at: usize) -> Read<Role> {
    struct Word(Role);
    impl FromSql for Word {
        fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
            Ok(Self(match value.as_str()? {
                "system" => Role::System,
                "developer" => Role::Developer,
                "user" => Role::User,
                "assistant" => Role::Assistant,
                "tool" => Role::Tool,
                _ => return Err(FromSqlError::InvalidType),
            }))
        }
    }
    Ok(row.get::<_, Word>(at)?.0)
}
