//! Runs: start, wait, end, deletion.

use rusqlite::{Connection, params};
use session::{RunId, TaskId, ThreadId};

use super::ending::{end, touch_thread};
use super::lease::check_held;
use super::messages::append_all;
use super::{check_can_continue, spent, state};
use crate::{
    Lease, Millis, NewFork, NewRun, NewThread, RunEnd, RunKind, RunStatus, RunThread, Seq, Store, StoreError,
};

impl Store {
    /// Stores a run's row, its conversation if it is new, and its first messages, before the run starts.
    ///
    /// A root takes the lease for its tree. Other runs are started by the holder of the lease and inherit the
    /// known files of their parent.
    pub async fn start_run(&self, run: NewRun, lease: Lease) -> Result<(), StoreError> {
        self.write(move |conn| {
            if (run.kind == RunKind::Main) != run.parent.is_none() {
                return Err(StoreError::Misuse("a main run has no parent, and every other run has one"));
            }
            if run.background && run.parent.is_none() {
                return Err(StoreError::Misuse("a job has a parent"));
            }
            let thread = thread_of(conn, &run)?;
            let root = root_of(conn, &run, &thread, lease)?;
            if let Some(task) = &run.task {
                check_task(conn, task, &thread)?;
            }
            insert(conn, &run, &thread, &root, lease)?;
            if run.background {
                super::jobs::insert(conn, &run)?;
            }
            if let Some(fork) = &run.fork {
                insert_fork(conn, &run.id, fork)?;
            }
            let knows = run.fork.as_ref().is_none_or(|fork| fork.knows_files);
            if let Some(parent) = run.parent.as_ref().filter(|_| knows) {
                copy_known_files(conn, &run.id, parent)?;
            }
            append_all(conn, &run.id, run.kind, &run.messages)?;
            touch_thread(conn, &thread, run.at)
        })
        .await
    }

    /// Marks a run whose loop waits for its jobs.
    pub async fn park(&self, run: &RunId, at: Millis) -> Result<(), StoreError> {
        self.set_live(run, RunStatus::Waiting, at).await
    }

    /// Marks a run whose loop continues.
    pub async fn wake(&self, run: &RunId, at: Millis) -> Result<(), StoreError> {
        self.set_live(run, RunStatus::Running, at).await
    }

    /// Ends a run or pauses it. Releases the lease if no run of the tree is live any more.
    ///
    /// A job owes its parent a result, so it ends with
    /// [`finish_job_and_notify_parent`](Self::finish_job_and_notify_parent); here it can only be paused or
    /// interrupted. A run that has ended cannot end again ([`StoreError::Over`]), and one with a message in its
    /// inbox is not completed ([`StoreError::HasMessage`]).
    pub async fn end_run(&self, run: &RunId, ending: RunEnd) -> Result<(), StoreError> {
        let run = run.clone();
        self.write(move |conn| {
            let to_be_continued = matches!(ending.status, RunStatus::Paused | RunStatus::Interrupted);
            if !to_be_continued && super::jobs::parent_owed(conn, &run)?.is_some() {
                return Err(StoreError::OwesResult(run.clone()));
            }
            end(conn, &run, &ending)
        })
        .await
    }

    /// Deletes a run, all runs below it, and all their data. The caller makes sure that none of them is live.
    pub async fn delete_run(&self, run: &RunId) -> Result<(), StoreError> {
        let run = run.clone();
        self.write(move |conn| {
            state(conn, &run)?;
            spent::subtract(conn, &run)?;
            conn.prepare_cached("DELETE FROM runs WHERE id = ?1")?.execute([run.as_str()])?;
            delete_unused_heads(conn)
        })
        .await
    }

    /// Deletes a conversation and everything in it.
    pub async fn delete_thread(&self, thread: &ThreadId) -> Result<(), StoreError> {
        let thread = thread.clone();
        self.write(move |conn| {
            let mut delete = conn.prepare_cached("DELETE FROM threads WHERE id = ?1")?;
            match delete.execute([thread.as_str()])? {
                0 => Err(StoreError::NoThread(thread.clone())),
                _ => delete_unused_heads(conn),
            }
        })
        .await
    }

    /// Renames a conversation.
    pub async fn rename_thread(&self, thread: &ThreadId, title: impl Into<String>) -> Result<(), StoreError> {
        let (thread, title) = (thread.clone(), title.into());
        self.write(move |conn| {
            let mut update = conn.prepare_cached("UPDATE threads SET title = ?2 WHERE id = ?1")?;
            match update.execute(params![thread.as_str(), title])? {
                0 => Err(StoreError::NoThread(thread.clone())),
                _ => Ok(()),
            }
        })
        .await
    }

    async fn set_live(&self, run: &RunId, status: RunStatus, at: Millis) -> Result<(), StoreError> {
        let run = run.clone();
        self.write(move |conn| {
            let now = state(conn, &run)?.status;
            if !now.is_live() {
                return Err(StoreError::Over { run: run.clone(), status: now });
            }
            let mut update =
                conn.prepare_cached("UPDATE runs SET status = ?2, updated_at = ?3 WHERE id = ?1")?;
            update.execute(params![run.as_str(), status, at])?;
            Ok(())
        })
        .await
    }
}

fn thread_of(conn: &Connection, run: &NewRun) -> Result<ThreadId, StoreError> {
    match &run.thread {
        RunThread::New(NewThread { id, title, workspace }) => {
            let mut insert = conn.prepare_cached(
                "INSERT INTO threads (id, title, workspace, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?4)
                 ON CONFLICT (id) DO NOTHING",
            )?;
            match insert.execute(params![id.as_str(), title, workspace, run.at])? {
                0 => Err(StoreError::Exists { what: "thread", id: id.to_string() }),
                _ => Ok(id.clone()),
            }
        }
        RunThread::Existing(id) => {
            let mut find = conn.prepare_cached("SELECT 1 FROM threads WHERE id = ?1")?;
            let exists = find.exists([id.as_str()])?;
            exists.then(|| id.clone()).ok_or_else(|| StoreError::NoThread(id.clone()))
        }
    }
}

/// Returns whether the run is a fork with its own run tree.
fn is_alone(run: &NewRun) -> bool {
    run.fork.as_ref().is_some_and(|fork| fork.alone)
}

fn insert_fork(conn: &Connection, run: &RunId, fork: &NewFork) -> Result<(), StoreError> {
    let mut insert = conn.prepare_cached(
        "INSERT INTO forks (run, of_run, head, from_seq, to_seq, label, source) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?;
    let NewFork { of, head, from, to, label, source, .. } = fork;
    insert.execute(params![run.as_str(), of.as_str(), head, from, to, label, source])?;
    Ok(())
}

fn root_of(conn: &Connection, run: &NewRun, thread: &ThreadId, lease: Lease) -> Result<RunId, StoreError> {
    let Some(parent) = &run.parent else { return Ok(run.id.clone()) };
    if is_alone(run) {
        return match state(conn, parent)?.thread == *thread {
            true => Ok(run.id.clone()),
            false => Err(StoreError::Misuse("a run belongs to its parent's thread")),
        };
    }
    let above = check_can_continue(conn, parent)?;
    if above.thread != *thread {
        return Err(StoreError::Misuse("a run belongs to its parent's thread"));
    }
    check_held(conn, &above.root, lease)?;
    Ok(above.root)
}

fn check_task(conn: &Connection, task: &TaskId, thread: &ThreadId) -> Result<(), StoreError> {
    let mut find = conn.prepare_cached("SELECT 1 FROM tasks WHERE id = ?1 AND thread = ?2")?;
    let exists = find.exists([task.as_str(), thread.as_str()])?;
    exists.then_some(()).ok_or_else(|| StoreError::NoTask(task.clone()))
}

fn insert(
    conn: &Connection,
    run: &NewRun,
    thread: &ThreadId,
    root: &RunId,
    lease: Lease,
) -> Result<(), StoreError> {
    let lease = (run.parent.is_none() || is_alone(run)).then_some(lease);
    let mut insert = conn.prepare_cached(
        "INSERT INTO runs (id, thread, kind, root, parent, task, spawned_by, agent, model, provider, status, chain,
             depth, context_from, created_at, started_at, writer_pid, writer_start, updated_at, settings)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 'running', ?11, ?12, ?13, ?14, ?14, ?15, ?16, ?14, ?17)
         ON CONFLICT (id) DO NOTHING",
    )?;
    let done = insert.execute(params![
        run.id.as_str(),
        thread.as_str(),
        run.kind,
        root.as_str(),
        run.parent.as_ref().map(RunId::as_str),
        run.task.as_ref().map(TaskId::as_str),
        run.spawned_by.as_ref().map(session::CallId::as_str),
        run.agent,
        run.model,
        run.provider,
        run.chain,
        run.depth,
        run.fork.as_ref().map_or(Seq::FIRST, |fork| fork.from),
        run.at,
        lease.map(|lease| lease.pid),
        lease.map(|lease| lease.start.cast_signed()),
        run.settings,
    ])?;
    if done == 0 { Err(StoreError::Exists { what: "run", id: run.id.to_string() }) } else { Ok(()) }
}

fn copy_known_files(conn: &Connection, run: &RunId, parent: &RunId) -> Result<(), StoreError> {
    let mut copy = conn.prepare_cached(
        "INSERT INTO seen_files (run, path, sha256) SELECT ?1, path, sha256 FROM seen_files WHERE run = ?2",
    )?;
    copy.execute([run.as_str(), parent.as_str()])?;
    Ok(())
}

/// Deletes unused heads. Heads are shared, so they stay until the last call that used them is deleted.
fn delete_unused_heads(conn: &Connection) -> Result<(), StoreError> {
    conn.execute("DELETE FROM heads WHERE hash NOT IN (SELECT head FROM model_calls)", [])?;
    Ok(())
}
