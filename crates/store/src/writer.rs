//! The one thread that writes.
//!
//! Whoever has something to write hands over a whole transaction and waits. The thread takes all that wait
//! at the moment, runs them one after the other in one transaction of SQLite, commits once and answers all. So
//! the disk is waited for once per group, not once per caller.
//!
//! One that is refused has nearly always looked before it wrote, and there is nothing to undo. Where there is, the
//! whole group is undone and run again, each in a savepoint of its own: a savepoint keeps a copy of every page, which
//! nobody should pay for who does not need it. So a transaction may be run twice, and must come to the same.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::StoreError;

/// How many are taken into one commit at most: the first of them waits for the last.
const GROUP: usize = 512;
/// How long a group waits for those who were in the last one: they were answered together, and are likely to
/// be back at once. A caller who is alone never waits.
const GATHER: Duration = Duration::from_micros(300);
/// How long nothing comes before the writer looks for work of its own.
const IDLE: Duration = Duration::from_millis(200);

/// The way to the writer's thread. Dropping it waits until everything that was handed over is written.
pub(crate) struct Writer {
    jobs: Option<mpsc::Sender<Box<dyn Job>>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread. `idle` is called when nothing waits; it says whether there is more to do.
    pub(crate) fn start(
        conn: Connection,
        path: PathBuf,
        idle: fn(&Connection) -> rusqlite::Result<bool>,
    ) -> Result<Self, StoreError> {
        let (jobs, waiting) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || work(&Desk { file: identity(&path), conn, path }, &waiting, idle))
            .map_err(|_| StoreError::WriterGone)?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Runs `work` as one transaction and returns when it is on the disk. It may be run, undone, and run again.
    ///
    /// A caller that goes away while it waits does not undo it: it is written, or fails, all the same.
    pub(crate) async fn write<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let job = Box::new(Pending { work, outcome: None, answer });
        self.jobs.as_ref().ok_or(StoreError::WriterGone)?.send(job).map_err(|_| StoreError::WriterGone)?;
        answered.await.unwrap_or(Err(StoreError::WriterGone))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// One caller's transaction.
trait Job: Send {
    /// Does the work and keeps what came of it for the answer; an error is to be undone in the database.
    fn run(&mut self, desk: &Desk) -> Result<(), StoreError>;
    /// The group failed as a whole: that is the answer, whatever this one's own work had come to.
    fn fail(&mut self, error: &StoreError);
    /// Tells the caller.
    fn answer(self: Box<Self>);
}

struct Pending<T, F> {
    work: F,
    outcome: Option<Result<T, StoreError>>,
    answer: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> Job for Pending<T, F>
where
    T: Send,
    F: FnMut(&Connection) -> Result<T, StoreError> + Send,
{
    fn run(&mut self, desk: &Desk) -> Result<(), StoreError> {
        let outcome = (self.work)(&desk.conn).map_err(|error| error.named(&desk.path));
        let failed = outcome.as_ref().err().cloned();
        self.outcome = Some(outcome);
        failed.map_or(Ok(()), Err)
    }

    fn fail(&mut self, error: &StoreError) {
        // One that failed by itself keeps its own reason: it says more.
        if !matches!(self.outcome, Some(Err(_))) {
            self.outcome = Some(Err(error.clone()));
        }
    }

    fn answer(self: Box<Self>) {
        // Whoever stopped waiting does not need the answer.
        let _ = self.answer.send(self.outcome.unwrap_or(Err(StoreError::WriterGone)));
    }
}

struct Desk {
    conn: Connection,
    path: PathBuf,
    /// Which file had that path when it was opened; none where it is no file.
    file: Option<(u64, u64)>,
}

/// Device and inode.
fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

fn work(
    desk: &Desk,
    waiting: &mpsc::Receiver<Box<dyn Job>>,
    idle: fn(&Connection) -> rusqlite::Result<bool>,
) {
    let (mut more, mut last) = (true, 1);
    loop {
        let first = if more { waiting.recv_timeout(IDLE) } else { waiting.recv().map_err(Into::into) };
        match first {
            Ok(first) => {
                let group = gather(first, waiting, last);
                last = group.len();
                desk.commit(group);
                more = true;
            }
            // What is done here can be done again later, so a failure is no one's business.
            Err(mpsc::RecvTimeoutError::Timeout) => more = idle(&desk.conn).unwrap_or(false),
            Err(mpsc::RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// All that wait, and for a moment those who are expected.
fn gather(first: Box<dyn Job>, waiting: &mpsc::Receiver<Box<dyn Job>>, expected: usize) -> Vec<Box<dyn Job>> {
    let mut group = vec![first];
    group.extend(waiting.try_iter().take(GROUP - 1));
    let until = Instant::now() + GATHER;
    while group.len() < expected.min(GROUP) {
        match waiting.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(job) => group.push(job),
            Err(_) => break,
        }
    }
    group
}

impl Desk {
    /// Writes a group, in one transaction if all goes well, and answers all of it.
    fn commit(&self, mut group: Vec<Box<dyn Job>>) {
        let mut rest = &mut group[..];
        while !rest.is_empty() {
            rest = self.transact(rest);
        }
        group.into_iter().for_each(Job::answer);
    }

    /// One transaction. When it is lost in the middle, those it did not come to are handed back: they may
    /// still have a chance.
    fn transact<'a>(&self, group: &'a mut [Box<dyn Job>]) -> &'a mut [Box<dyn Job>] {
        // A deleted file that is still open takes everything, and nobody finds it afterwards.
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
                // A full disk, for one, makes SQLite give up the transaction by itself.
                if self.conn.is_autocommit() {
                    return lost(group, at, &error);
                }
                if self.conn.total_changes() != before {
                    self.rollback();
                    return self.transact_one_by_one(group);
                }
            }
        }
        self.finish(group)
    }

    /// The same, when one of them has something to undo.
    fn transact_one_by_one<'a>(&self, group: &'a mut [Box<dyn Job>]) -> &'a mut [Box<dyn Job>] {
        if let Err(error) = self.execute("BEGIN IMMEDIATE") {
            fail(group, &error);
            return &mut [];
        }
        for at in 0..group.len() {
            if let Err(error) = self.run(&mut *group[at]) {
                self.rollback();
                return lost(group, at, &error);
            }
        }
        self.finish(group)
    }

    fn finish<'a>(&self, group: &'a mut [Box<dyn Job>]) -> &'a mut [Box<dyn Job>] {
        if let Err(error) = self.execute("COMMIT") {
            self.rollback();
            fail(group, &error);
        }
        &mut []
    }

    /// Runs one, and undoes it if it fails; an error here means that the whole transaction is lost.
    fn run(&self, job: &mut dyn Job) -> Result<(), StoreError> {
        self.execute("SAVEPOINT one")?;
        if let Err(error) = job.run(self) {
            if self.conn.is_autocommit() {
                return Err(error);
            }
            self.execute("ROLLBACK TO one")?;
        }
        self.execute("RELEASE one")
    }

    fn rollback(&self) {
        // SQLite has done so itself after some errors.
        if !self.conn.is_autocommit() {
            let _ = self.execute("ROLLBACK");
        }
    }

    fn execute(&self, sql: &str) -> Result<(), StoreError> {
        let done = self.conn.prepare_cached(sql).and_then(|mut statement| statement.execute([]));
        done.map(|_| ()).map_err(|error| StoreError::from_sqlite(&self.path, error))
    }
}

fn fail(group: &mut [Box<dyn Job>], error: &StoreError) {
    group.iter_mut().for_each(|job| job.fail(error));
}

/// Those up to `at` went with the transaction; the others have not been tried.
fn lost<'a>(group: &'a mut [Box<dyn Job>], at: usize, error: &StoreError) -> &'a mut [Box<dyn Job>] {
    let (lost, untried) = group.split_at_mut(at + 1);
    fail(lost, error);
    untried
}
