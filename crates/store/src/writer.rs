//! The thread that writes.
//!
//! A caller sends a whole transaction and waits. The thread takes all transactions that are waiting, runs
//! them in one
//! transaction of SQLite, commits once, and answers all callers. So the disk syncs once per group and not
//! once per caller.
//!
//! A transaction that is refused has almost always only read, so there is nothing to undo. If it has written,
//! the whole
//! group is rolled back and run again, each member in its own savepoint. Savepoints copy every changed page,
//! so they are
//! used only then. A transaction may therefore run twice and must give the same result.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::StoreError;

/// Maximum number of transactions in one commit: the first of them waits for the last.
const GROUP: usize = 512;
/// Time that a group waits for the callers of the group before. They were answered together and are likely to
/// return at once. A single caller never waits.
const GATHER: Duration = Duration::from_micros(300);
/// Idle time after which the writer does background work.
const IDLE: Duration = Duration::from_millis(200);

/// Handle of the writer's thread. Dropping it waits until all queued transactions are written.
pub(crate) struct Writer {
    queue: Option<mpsc::Sender<Box<dyn Transaction>>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread. `idle` runs when no transaction waits, and returns whether there is more to do.
    pub(crate) fn start(
        conn: Connection,
        path: PathBuf,
        idle: fn(&Connection) -> rusqlite::Result<bool>,
    ) -> Result<Self, StoreError> {
        let (queue, waiting) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || work(&WriterThread { file: identity(&path), conn, path }, &waiting, idle))
            .map_err(|_| StoreError::WriterGone)?;
        Ok(Self { queue: Some(queue), thread: Some(thread) })
    }

    /// Runs `work` as one transaction and returns when it is on the disk. `work` may be rolled back and run
    /// again.
    ///
    /// A dropped future does not cancel the transaction: it is still written or fails.
    pub(crate) async fn write<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let transaction = Box::new(PendingWrite { work, outcome: None, answer });
        self.queue
            .as_ref()
            .ok_or(StoreError::WriterGone)?
            .send(transaction)
            .map_err(|_| StoreError::WriterGone)?;
        answered.await.unwrap_or(Err(StoreError::WriterGone))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// One caller's transaction.
trait Transaction: Send {
    /// Runs the work and keeps its result for the answer. After an error, changes in the database must be
    /// undone.
    fn run(&mut self, writer: &WriterThread) -> Result<(), StoreError>;
    /// Replaces a successful result by the error of the group.
    fn fail(&mut self, error: &StoreError);
    /// Sends the result to the caller.
    fn answer(self: Box<Self>);
}

struct PendingWrite<T, F> {
    work: F,
    outcome: Option<Result<T, StoreError>>,
    answer: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> Transaction for PendingWrite<T, F>
where
    T: Send,
    F: FnMut(&Connection) -> Result<T, StoreError> + Send,
{
    fn run(&mut self, writer: &WriterThread) -> Result<(), StoreError> {
        let outcome = (self.work)(&writer.conn).map_err(|error| error.named(&writer.path));
        let failed = outcome.as_ref().err().cloned();
        self.outcome = Some(outcome);
        failed.map_or(Ok(()), Err)
    }

    fn fail(&mut self, error: &StoreError) {
        // A transaction that failed by itself keeps its own, more precise error.
        if !matches!(self.outcome, Some(Err(_))) {
            self.outcome = Some(Err(error.clone()));
        }
    }

    fn answer(self: Box<Self>) {
        // A caller that stopped waiting needs no answer.
        let _ = self.answer.send(self.outcome.unwrap_or(Err(StoreError::WriterGone)));
    }
}

struct WriterThread {
    conn: Connection,
    path: PathBuf,
    /// Device and inode of the path when it was opened; `None` for a database in memory.
    file: Option<(u64, u64)>,
}

/// Returns device and inode.
fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

fn work(
    writer: &WriterThread,
    waiting: &mpsc::Receiver<Box<dyn Transaction>>,
    idle: fn(&Connection) -> rusqlite::Result<bool>,
) {
    let (mut more, mut last) = (true, 1);
    loop {
        let first = if more { waiting.recv_timeout(IDLE) } else { waiting.recv().map_err(Into::into) };
        match first {
            Ok(first) => {
                let group = gather(first, waiting, last);
                last = group.len();
                writer.commit(group);
                more = true;
            }
            // Background work can be repeated later, so its errors are ignored.
            Err(mpsc::RecvTimeoutError::Timeout) => more = idle(&writer.conn).unwrap_or(false),
            Err(mpsc::RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Takes all waiting transactions, and waits briefly for the expected ones.
fn gather(
    first: Box<dyn Transaction>,
    waiting: &mpsc::Receiver<Box<dyn Transaction>>,
    expected: usize,
) -> Vec<Box<dyn Transaction>> {
    let mut group = vec![first];
    group.extend(waiting.try_iter().take(GROUP - 1));
    let until = Instant::now() + GATHER;
    while group.len() < expected.min(GROUP) {
        match waiting.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(transaction) => group.push(transaction),
            Err(_) => break,
        }
    }
    group
}

impl WriterThread {
    /// Writes a group, in one transaction if possible, and answers all callers.
    fn commit(&self, mut group: Vec<Box<dyn Transaction>>) {
        let mut rest = &mut group[..];
        while !rest.is_empty() {
            rest = self.transact(rest);
        }
        group.into_iter().for_each(Transaction::answer);
    }

    /// Runs one transaction. If it is lost halfway, returns the members that have not run, because they may
    /// still succeed.
    fn transact<'a>(&self, group: &'a mut [Box<dyn Transaction>]) -> &'a mut [Box<dyn Transaction>] {
        // A deleted file that is still open accepts writes that no one can read later.
        if self.file.is_some() && identity(&self.path) != self.file {
            fail(group, &StoreError::Removed { path: self.path.clone() });
            return &mut [];
        }
        if let Err(error) = self.execute("BEGIN IMMEDIATE") {
            fail(group, &error);
            return &mut [];
        }
        for at in 0..group.len() {
            let before = self.conn.total_changes();
            if let Err(error) = group[at].run(self) {
                // SQLite itself rolls back after some errors, such as a full disk.
                if self.conn.is_autocommit() {
                    return fail_lost(group, at, &error);
                }
                if self.conn.total_changes() != before {
                    self.rollback();
                    return self.transact_one_by_one(group);
                }
            }
        }
        self.finish(group)
    }

    /// Runs a group with a savepoint for each member, because one of them has to be undone.
    fn transact_one_by_one<'a>(
        &self,
        group: &'a mut [Box<dyn Transaction>],
    ) -> &'a mut [Box<dyn Transaction>] {
        if let Err(error) = self.execute("BEGIN IMMEDIATE") {
            fail(group, &error);
            return &mut [];
        }
        for at in 0..group.len() {
            if let Err(error) = self.run(&mut *group[at]) {
                self.rollback();
                return fail_lost(group, at, &error);
            }
        }
        self.finish(group)
    }

    fn finish<'a>(&self, group: &'a mut [Box<dyn Transaction>]) -> &'a mut [Box<dyn Transaction>] {
        if let Err(error) = self.execute("COMMIT") {
            self.rollback();
            fail(group, &error);
        }
        &mut []
    }

    /// Runs one member and undoes it if it fails. An error means that the whole transaction is lost.
    fn run(&self, transaction: &mut dyn Transaction) -> Result<(), StoreError> {
        self.execute("SAVEPOINT one")?;
        if let Err(error) = transaction.run(self) {
            if self.conn.is_autocommit() {
                return Err(error);
            }
            self.execute("ROLLBACK TO one")?;
        }
        self.execute("RELEASE one")
    }

    fn rollback(&self) {
        // SQLite has already rolled back after some errors.
        if !self.conn.is_autocommit() {
            let _ = self.execute("ROLLBACK");
        }
    }

    fn execute(&self, sql: &str) -> Result<(), StoreError> {
        let done = self.conn.prepare_cached(sql).and_then(|mut statement| statement.execute([]));
        done.map(|_| ()).map_err(|error| StoreError::from_sqlite(&self.path, error))
    }
}

fn fail(group: &mut [Box<dyn Transaction>], error: &StoreError) {
    group.iter_mut().for_each(|transaction| transaction.fail(error));
}

/// Fails the members up to `at`, which were lost with the transaction, and returns the rest.
fn fail_lost<'a>(
    group: &'a mut [Box<dyn Transaction>],
    at: usize,
    error: &StoreError,
) -> &'a mut [Box<dyn Transaction>] {
    let (lost, untried) = group.split_at_mut(at + 1);
    fail(lost, error);
    untried
}
