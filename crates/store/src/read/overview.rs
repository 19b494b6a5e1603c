//! The list of all runs with status and usage, without their text, and the answers of a task's runs.

use rusqlite::{Connection, Row, ToSql};
use session::{RunId, TaskId, ThreadId};

use super::columns;
use crate::{RunSummary, StoreError, TaskAttempt, UsageTotals};

/// Selects the runs to list. The default is all runs.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only runs of this conversation.
    pub thread: Option<ThreadId>,
    /// Only this run and the runs below it.
    pub below: Option<RunId>,
    /// Only live runs.
    pub live: bool,
    /// Maximum number of runs.
    pub limit: Option<u32>,
    /// Only runs of this many conversations, the newest ones. A fork with its own run tree belongs to its
    /// conversation.
    pub roots: Option<u32>,
}

pub(crate) fn runs(conn: &Connection, filter: &Filter) -> Result<Vec<RunSummary>, StoreError> {
    // Two conditions, because one that fits both cases would scan all runs for each run below `below`.
    let which = match (&filter.below, filter.roots) {
        (Some(_), _) => "r.id IN (SELECT id FROM below)",
        (None, Some(_)) => {
            "r.thread IN (SELECT thread FROM runs WHERE parent IS NULL ORDER BY created_at DESC, rowid DESC LIMIT ?5)"
        }
        (None, None) => "?2 IS NULL",
    };
    let sql = format!(
        "WITH RECURSIVE below (id) AS (
             SELECT id FROM runs WHERE id = ?2
             UNION ALL SELECT runs.id FROM below JOIN runs ON runs.parent = below.id
         )
         SELECT r.id, r.thread, r.kind, r.root, r.parent, EXISTS (SELECT 1 FROM jobs WHERE run = r.id), r.agent,
             r.model, r.provider, r.status, root.writer_pid, root.writer_start, r.created_at, r.ended_at, t.title,
             (SELECT label FROM forks WHERE run = r.id AND source = 'side_work')
         FROM runs r JOIN runs root ON root.id = r.root JOIN threads t ON t.id = r.thread
         WHERE (?1 IS NULL OR r.thread = ?1) AND {which} AND (?3 = 0 OR r.status IN ('running', 'waiting'))
         ORDER BY r.created_at DESC, r.rowid DESC LIMIT ?4"
    );
    let mut find = conn.prepare_cached(&sql)?;
    let thread = filter.thread.as_ref().map(ThreadId::as_str);
    let below = filter.below.as_ref().map(RunId::as_str);
    let limit = filter.limit.map_or(-1, i64::from);
    // Parameters that the statement does not name must not be bound.
    let named: &[&dyn ToSql] = &[&thread, &below, &filter.live, &limit, &filter.roots];
    let named = &named[..find.parameter_count()];
    let found = find.query_map(named, |row| summary(conn, row))?;
    Ok(found.collect::<Result<_, _>>()?)
}

fn summary(conn: &Connection, row: &Row<'_>) -> rusqlite::Result<RunSummary> {
    let id = RunId::new(columns::text(row, 0)?);
    Ok(RunSummary {
        thread: ThreadId::new(columns::text(row, 1)?),
        kind: row.get(2)?,
        root: RunId::new(columns::text(row, 3)?),
        parent: row.get::<_, Option<String>>(4)?.map(RunId::new),
        job: row.get(5)?,
        agent: row.get(6)?,
        model: row.get(7)?,
        provider: row.get(8)?,
        status: row.get(9)?,
        writer: columns::lease(row, 10)?,
        created_at: row.get(12)?,
        ended_at: row.get(13)?,
        title: row.get(14)?,
        side_work: row.get(15)?,
        own: own(conn, &id)?,
        inclusive: inclusive(conn, &id)?,
        id,
    })
}

/// The sums over model calls of all runs.
fn totals_sql() -> String {
    columns::totals_sql(
        "(SELECT count(*) FROM attempts WHERE model_call = model_calls.id AND ended_at IS NULL)",
        "EXISTS (SELECT 1 FROM runs WHERE id = model_calls.run AND status IN ('running', 'waiting'))",
    )
}

/// Usage of the run alone. Inherited messages are no model calls of a fork, so nothing is counted twice.
fn own(conn: &Connection, run: &RunId) -> rusqlite::Result<UsageTotals> {
    let sql = format!("SELECT {} FROM model_calls WHERE run = ?1", totals_sql());
    conn.prepare_cached(&sql)?.query_row([run.as_str()], |row| columns::totals(row, 0))
}

/// Usage of a run and all runs below it.
pub(crate) fn inclusive(conn: &Connection, run: &RunId) -> rusqlite::Result<UsageTotals> {
    let sql = format!(
        "WITH RECURSIVE below (id) AS (
             SELECT ?1 UNION ALL SELECT runs.id FROM below JOIN runs ON runs.parent = below.id
         )
         SELECT {} FROM model_calls WHERE run IN (SELECT id FROM below)",
        totals_sql()
    );
    conn.prepare_cached(&sql)?.query_row([run.as_str()], |row| columns::totals(row, 0))
}

/// Returns the runs for a task that have ended, oldest first.
pub(super) fn task_attempts(conn: &Connection, task: &TaskId) -> Result<Vec<TaskAttempt>, StoreError> {
    let mut find = conn.prepare_cached(
        "SELECT id, status, error, final_text FROM runs WHERE task = ?1
             AND status NOT IN ('running', 'waiting', 'paused', 'interrupted')
         ORDER BY created_at, rowid",
    )?;
    let found = find.query_map([task.as_str()], |row| {
        Ok(TaskAttempt {
            run: RunId::new(row.get::<_, String>(0)?),
            status: row.get(1)?,
            error: row.get(2)?,
            final_text: row.get(3)?,
        })
    })?;
    Ok(found.collect::<Result<_, _>>()?)
}
