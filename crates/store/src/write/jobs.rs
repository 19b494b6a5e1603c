//! Jobs and the inbox: a result is owed until it is written, and what waits is taken out once.

use rusqlite::{Connection, OptionalExtension, params};
use session::{CallId, RunId};

use super::messages::append_one;
use super::{calls, runs, standing};
use crate::{
    Ending, FinishedCall, InboxId, InboxKind, Millis, NewInbox, NewMessage, NewRun, Seq, Store, StoreError,
};

impl Store {
    /// Ends a job's run and puts the news into its parent's inbox, in one commit: no wake-up is lost.
    pub async fn finish_job_and_notify_parent(
        &self,
        job: &RunId,
        ending: Ending,
        body: Vec<u8>,
    ) -> Result<InboxId, StoreError> {
        let job = job.clone();
        self.write(move |conn| {
            let parent = parent_owed(conn, &job)?.ok_or_else(|| StoreError::NoJob(job.clone()))?;
            runs::end(conn, &job, &ending)?;
            let mut update = conn.prepare_cached("UPDATE jobs SET ended_at = ?2 WHERE run = ?1")?;
            update.execute(params![job.as_str(), ending.at])?;
            put(
                conn,
                &NewInbox { run: parent, kind: InboxKind::Job, body: body.clone(), at: ending.at },
                Some(&job),
            )
        })
        .await
    }

    /// Puts something into a run's inbox; any process may.
    pub async fn send(&self, entry: NewInbox) -> Result<InboxId, StoreError> {
        self.write(move |conn| {
            standing(conn, &entry.run)?;
            put(conn, &entry, None)
        })
        .await
    }

    /// Asks a run, and with it all below it, to stop; any process may. Asking twice is asking once.
    ///
    /// From this commit on no step starts in the tree.
    pub async fn request_cancel(&self, run: &RunId, at: Millis) -> Result<(), StoreError> {
        let run = run.clone();
        self.write(move |conn| {
            let status = standing(conn, &run)?.status;
            if status.is_final() {
                return Err(StoreError::Over { run: run.clone(), status });
            }
            let mut find = conn.prepare_cached(
                "SELECT 1 FROM inbox
                 WHERE run = ?1 AND kind = 'cancel' AND delivered_seq IS NULL AND consumed_at IS NULL",
            )?;
            if !find.exists([run.as_str()])? {
                put(
                    conn,
                    &NewInbox { run: run.clone(), kind: InboxKind::Cancel, body: Vec::new(), at },
                    None,
                )?;
            }
            Ok(())
        })
        .await
    }

    /// Says to a run what waited in its inbox: the message and the marks are one commit.
    ///
    /// Refused as a whole with [`StoreError::AlreadyDelivered`] when one of the entries does not wait for this
    /// run any more.
    pub async fn deliver(
        &self,
        run: &RunId,
        entries: &[InboxId],
        message: NewMessage,
    ) -> Result<Seq, StoreError> {
        let run = run.clone();
        let entries = entries.to_vec();
        self.write(move |conn| {
            let kind = standing(conn, &run)?.kind;
            let seq = append_one(conn, &run, kind, &message, None)?;
            let mut mark = conn.prepare_cached(
                "UPDATE inbox SET delivered_seq = ?3
                 WHERE id = ?1 AND run = ?2 AND delivered_seq IS NULL AND consumed_at IS NULL",
            )?;
            for entry in &entries {
                if mark.execute(params![entry, run.as_str(), seq])? == 0 {
                    return Err(StoreError::AlreadyDelivered(*entry));
                }
            }
            Ok(seq)
        })
        .await
    }

    /// Keeps the result of a call that fetched a job's result, and takes the news of it out of the caller's
    /// inbox in the same commit: who fetched it is not told again. Says whether the news still waited.
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

/// The run that a job still owes its result; `None` for a run that owes nothing.
pub(super) fn parent_owed(conn: &Connection, job: &RunId) -> Result<Option<RunId>, StoreError> {
    Ok(parent_of(conn, job)?.and_then(|(parent, owed)| owed.then_some(parent)))
}

fn parent_of(conn: &Connection, job: &RunId) -> Result<Option<(RunId, bool)>, StoreError> {
    let mut find = conn.prepare_cached("SELECT parent, ended_at IS NULL FROM jobs WHERE run = ?1")?;
    let found = find.query_row([job.as_str()], |row| Ok((RunId::new(row.get::<_, String>(0)?), row.get(1)?)));
    Ok(found.optional()?)
}

fn put(conn: &Connection, entry: &NewInbox, job: Option<&RunId>) -> Result<InboxId, StoreError> {
    let mut insert = conn
        .prepare_cached("INSERT INTO inbox (run, kind, job, created_at, body) VALUES (?1, ?2, ?3, ?4, ?5)")?;
    insert.execute(params![entry.run.as_str(), entry.kind, job.map(RunId::as_str), entry.at, entry.body])?;
    Ok(InboxId(conn.last_insert_rowid()))
}
