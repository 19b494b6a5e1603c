//! Jobs and the inbox: a job owes its result until it is stored, and each entry is delivered once.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, params};
use session::{CallId, RunId};

use super::inbox::{put, sent};
use super::lease::check_held;
use super::resumed::{keep_killed, resume};
use super::{RunState, calls, ending, state};
use crate::{
    CancelScope, FinalRecord, FinishedCall, InboxId, InboxKind, Lease, Millis, NewInboxEntry, NewRun, RunEnd,
    RunStatus, Store, StoreError,
};

impl Store {
    /// Ends a job's run and adds its result to the parent's inbox in one transaction, so that no wake-up is
    /// lost.
    pub async fn finish_job_and_notify_parent(
        &self,
        job: &RunId,
        ending: RunEnd,
        body: Vec<u8>,
    ) -> Result<InboxId, StoreError> {
        let job = job.clone();
        self.write(move |conn| {
            let parent = parent_owed(conn, &job)?.ok_or_else(|| StoreError::NoJob(job.clone()))?;
            finish(conn, &job, parent, &ending, body.clone())
        })
        .await
    }

    /// Turns a run into a job: its parent no longer waits for it, and it owes its result from now on.
    pub async fn promote_to_job(&self, run: &RunId, at: Millis) -> Result<(), StoreError> {
        let run = run.clone();
        self.write(move |conn| {
            let mut insert = conn.prepare_cached(
                "INSERT INTO jobs (run, parent, call, created_at)
                 SELECT id, parent, spawned_by, ?2 FROM runs WHERE id = ?1 AND parent IS NOT NULL
                 ON CONFLICT (run) DO UPDATE SET ended_at = NULL",
            )?;
            insert.execute(params![run.as_str(), at])?;
            Ok(())
        })
        .await
    }

    /// Ends a run without a live loop and all runs below it for the user in one transaction, or only those below.
    /// Returns the ended runs, the lowest first. `notice` creates the message to a job's parent;
    /// `final_records` has the texts and results to store for each run.
    pub async fn end_tree(
        &self,
        run: &RunId,
        scope: CancelScope,
        at: Millis,
        final_records: HashMap<RunId, FinalRecord>,
        notice: impl Fn(&RunId, &RunEnd) -> Vec<u8> + Send + 'static,
    ) -> Result<Vec<RunId>, StoreError> {
        let run = run.clone();
        self.write(move |conn| {
            let mut find = conn.prepare_cached(
                "WITH RECURSIVE below (id) AS (
                     SELECT ?1 UNION ALL
                     SELECT runs.id FROM below JOIN runs ON runs.parent = below.id AND runs.root <> runs.id
                 )
                 SELECT id FROM runs WHERE id IN (SELECT id FROM below) ORDER BY depth DESC, id",
            )?;
            let found = find.query_map([run.as_str()], |row| Ok(RunId::new(row.get::<_, String>(0)?)))?;
            let mut ended = Vec::new();
            for id in found.collect::<Result<Vec<_>, _>>()? {
                let status = state(conn, &id)?.status;
                let is_over = id != run && !status.is_live() && !status.is_paused();
                let is_left = id == run && scope == CancelScope::Descendants;
                if status.is_final() || is_over || is_left {
                    continue; // its outcome stays
                }
                let by_whom = RunStatus::CancelledByUser;
                let FinalRecord { partial_text, fork, results } =
                    final_records.get(&id).cloned().unwrap_or_default();
                for result in &results {
                    match calls::finish(conn, result, &calls::encode(result)?) {
                        Err(StoreError::AlreadyFinished(_)) => {} // its result stays
                        finished => finished?,
                    }
                }
                if status.is_live() {
                    keep_killed(conn, &id)?; // this run has no live loop
                }
                let (final_text, error) = (None, None);
                let ending =
                    RunEnd { status: by_whom, final_text, partial_text, error, misfits: false, fork, at };
                match parent_owed(conn, &id)? {
                    Some(parent) => finish(conn, &id, parent, &ending, notice(&id, &ending)).map(drop)?,
                    None => ending::end(conn, &id, &ending)?,
                }
                ended.push(id);
            }
            // The run itself had ended before and only had open jobs below it, so it can get a new prompt.
            let mut heard = conn.prepare_cached(
                "UPDATE inbox SET consumed_at = ?2
                 WHERE run = ?1 AND kind = 'cancel' AND delivered_seq IS NULL AND consumed_at IS NULL",
            )?;
            if scope == CancelScope::Tree && !ended.contains(&run) {
                heard.execute(params![run.as_str(), at])?;
            }
            Ok(ended)
        })
        .await
    }

    /// Adds a message to the inbox of a run that has not ended. Any process may do so.
    pub async fn send(&self, entry: NewInboxEntry) -> Result<InboxId, StoreError> {
        self.write(move |conn| {
            let RunState { status, root, .. } = state(conn, &entry.run)?;
            if let Some(sent) = sent(conn, &entry)? {
                return Ok(sent);
            }
            // Only a root can be resumed by itself.
            let can_continue =
                status.is_live() || status.is_paused() || (root == entry.run && !status.is_final());
            if entry.kind == InboxKind::Message && !can_continue {
                return Err(StoreError::Over { run: entry.run.clone(), status });
            }
            put(conn, &entry, None)
        })
        .await
    }

    /// Continues a run that has ended below another one: adds a message to its inbox, and sets it to `running`, in one
    /// transaction. In the background, it owes its parent a result again.
    ///
    /// Fails with [`StoreError::Over`] if it was cancelled, and with [`StoreError::AtWork`] if it has not ended. A call
    /// that is repeated changes nothing.
    pub async fn continue_run(
        &self,
        entry: NewInboxEntry,
        lease: Lease,
        background: bool,
    ) -> Result<(), StoreError> {
        self.write(move |conn| {
            let run = &entry.run;
            let found = state(conn, run)?;
            if sent(conn, &entry)?.is_some() {
                return Ok(());
            }
            let parent =
                found.above.clone().ok_or(StoreError::Misuse("only a run below another is continued"))?;
            super::check_can_continue(conn, &parent)?;
            check_held(conn, &found.root, lease)?;
            match found.status {
                status if status.is_live() || status.is_paused() => {
                    return Err(StoreError::AtWork { run: run.clone(), status });
                }
                status @ (RunStatus::CancelledByUser | RunStatus::CancelledByParent) => {
                    return Err(StoreError::Over { run: run.clone(), status });
                }
                _ => {}
            }
            resume(conn, run, &found, entry.at)?;
            put(conn, &entry, None)?;
            if background {
                let mut owe = conn.prepare_cached(
                    "INSERT INTO jobs (run, parent, call, created_at)
                     SELECT id, parent, spawned_by, ?2 FROM runs WHERE id = ?1
                     ON CONFLICT (run) DO UPDATE SET ended_at = NULL",
                )?;
                owe.execute(params![run.as_str(), entry.at])?;
            }
            Ok(())
        })
        .await
    }

    /// Asks a run and all runs below it to stop. Any process may do so; a second request changes nothing.
    /// `becomes` is the status that the run gets: [`RunStatus::CancelledByUser`] or
    /// [`RunStatus::CancelledByParent`].
    ///
    /// After this commit, no step starts in the tree.
    pub async fn request_cancel(
        &self,
        run: &RunId,
        becomes: RunStatus,
        at: Millis,
    ) -> Result<(), StoreError> {
        let run = run.clone();
        self.write(move |conn| {
            let RunState { status, root, .. } = state(conn, &run)?;
            let ended = root != run && !status.is_live() && !status.is_paused();
            let has_left = root == run && status == RunStatus::Completed && has_open_jobs(conn, &run)?;
            if (status.is_final() || ended) && !has_left {
                return Err(StoreError::Over { run: run.clone(), status });
            }
            let mut find = conn.prepare_cached(
                "SELECT 1 FROM inbox
                 WHERE run = ?1 AND kind = 'cancel' AND delivered_seq IS NULL AND consumed_at IS NULL",
            )?;
            if !find.exists([run.as_str()])? {
                let body = becomes.as_str().as_bytes().to_vec();
                let entry =
                    NewInboxEntry { run: run.clone(), kind: InboxKind::Cancel, sent_by: None, body, at };
                put(conn, &entry, None)?;
            }
            Ok(())
        })
        .await
    }

    /// Stores the result of a call that fetched a job's result, and takes the job's entry out of the caller's
    /// inbox in the same transaction, so that it is not delivered as well. Returns whether the entry still
    /// waited.
    pub async fn consume_job(&self, job: &RunId, fetched: FinishedCall) -> Result<bool, StoreError> {
        let job = job.clone();
        let result = calls::encode(&fetched)?;
        self.write(move |conn| {
            if parent_of(conn, &job)?.is_none_or(|(parent, _)| parent != fetched.key.run) {
                return Err(StoreError::NoJob(job.clone()));
            }
            calls::finish(conn, &fetched, &result)?;
            let mut mark = conn.prepare_cached(
                "UPDATE inbox SET consumed_at = ?2
                 WHERE job = ?1 AND delivered_seq IS NULL AND consumed_at IS NULL",
            )?;
            Ok(mark.execute(params![job.as_str(), fetched.at])? > 0)
        })
        .await
    }
}

fn finish(
    conn: &Connection,
    job: &RunId,
    parent: RunId,
    ending: &RunEnd,
    body: Vec<u8>,
) -> Result<InboxId, StoreError> {
    ending::end(conn, job, ending)?;
    let mut update = conn.prepare_cached("UPDATE jobs SET ended_at = ?2 WHERE run = ?1")?;
    update.execute(params![job.as_str(), ending.at])?;
    let entry = NewInboxEntry { run: parent, kind: InboxKind::Job, sent_by: None, body, at: ending.at };
    put(conn, &entry, Some(job))
}

pub(super) fn insert(conn: &Connection, run: &NewRun) -> Result<(), StoreError> {
    let mut insert =
        conn.prepare_cached("INSERT INTO jobs (run, parent, call, created_at) VALUES (?1, ?2, ?3, ?4)")?;
    insert.execute(params![
        run.id.as_str(),
        run.parent.as_ref().map(RunId::as_str),
        run.spawned_by.as_ref().map(CallId::as_str),
        run.at,
    ])?;
    Ok(())
}

/// Returns the run that a job owes its result; `None` for a run that owes nothing.
pub(super) fn parent_owed(conn: &Connection, job: &RunId) -> Result<Option<RunId>, StoreError> {
    Ok(parent_of(conn, job)?.and_then(|(parent, owed)| owed.then_some(parent)))
}

/// Returns whether a run below this one could still continue. The root may have ended before it.
fn has_open_jobs(conn: &Connection, root: &RunId) -> Result<bool, StoreError> {
    let mut find = conn.prepare_cached(
        "SELECT 1 FROM runs WHERE root = ?1 AND id <> ?1 AND status IN ('running', 'waiting', 'paused')",
    )?;
    Ok(find.exists([root.as_str()])?)
}

fn parent_of(conn: &Connection, job: &RunId) -> Result<Option<(RunId, bool)>, StoreError> {
    let mut find = conn.prepare_cached("SELECT parent, ended_at IS NULL FROM jobs WHERE run = ?1")?;
    let found = find.query_row([job.as_str()], |row| Ok((RunId::new(row.get::<_, String>(0)?), row.get(1)?)));
    Ok(found.optional()?)
}
