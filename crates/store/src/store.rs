//! The store: one writer, several readers, one file.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;
use session::{RunId, TaskId};

use crate::fallback::MemoryFallback;
use crate::migrate::{STEPS, migrate};
use crate::pool::Pool;
use crate::read::{Filter, MainReads, RunReads, overview};
use crate::writer::Writer;
use crate::{Options, RunSummary, StoreError, TaskAttempt, index, open};

/// The journal. Clones share one writer. Dropping the last clone waits until everything is written.
#[derive(Clone)]
pub struct Store {
    pub(crate) inner: Arc<Inner>,
    /// The journal in memory that a fork falls back to when this one cannot be written.
    pub(crate) fallback: Option<Arc<MemoryFallback>>,
}

/// One database.
pub(crate) struct Inner {
    path: PathBuf,
    options: Options,
    writer: Writer,
    pub(crate) all: Pool,
    main: Pool,
    #[cfg(feature = "faults")]
    room: std::sync::atomic::AtomicI64,
}

/// Result of a check of the whole database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The version of SQLite.
    pub sqlite: &'static str,
    /// The version of the journal.
    pub version: u32,
    /// The problems that SQLite found; empty if there are none.
    pub problems: Vec<String>,
}

impl Store {
    /// Opens the journal. Creates it and its folder if they are missing.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self, StoreError> {
        Self::open_with_steps(path.as_ref(), options, STEPS)
    }

    pub(crate) fn open_with_steps(path: &Path, options: Options, steps: &[&str]) -> Result<Self, StoreError> {
        open::create_file(path)?;
        let mut conn = open::open_writer(path, options)?;
        migrate(&mut conn, path, steps)?;
        let path = path.to_owned();
        let inner = Inner {
            writer: Writer::start(conn, path.clone(), index::update_batch)?,
            all: Pool::new(path.clone(), options, open::open_reader),
            main: Pool::new(path.clone(), options, open::open_main_reader),
            options,
            path,
            #[cfg(feature = "faults")]
            room: i64::MAX.into(),
        };
        Ok(Self { inner: Arc::new(inner), fallback: None })
    }

    /// The path of the database.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Reads of what the user and the main agent may see: main runs only.
    pub fn main(&self) -> MainReads<'_> {
        MainReads::new(self)
    }

    /// Reads of one run of any kind: everything it left.
    pub fn run(&self, run: &RunId) -> RunReads<'_> {
        RunReads::new(self, run.clone())
    }

    /// Lists runs with their status and usage, newest first, without any text of theirs.
    pub fn runs(&self, filter: &Filter) -> Result<Vec<RunSummary>, StoreError> {
        self.read_all(|conn| overview::runs(conn, filter))
    }

    /// The final texts of earlier runs for a task, oldest first.
    pub fn task_attempts(&self, task: &TaskId) -> Result<Vec<TaskAttempt>, StoreError> {
        self.read_all(|conn| {
            let mut find = conn.prepare_cached(
                "SELECT id, status, error, final_text FROM runs WHERE task = ?1 AND final_text IS NOT NULL
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
        })
    }

    /// Returns whether a run, or one above it, was asked to stop.
    pub fn cancel_requested(&self, run: &RunId) -> Result<bool, StoreError> {
        self.run(run).cancel_requested()
    }

    /// Reads the whole file and reports damage.
    pub fn check(&self) -> Result<Health, StoreError> {
        self.read_all(|conn| {
            let version = conn.pragma_query_value(None, "user_version", |row| row.get(0))?;
            let mut check = conn.prepare("PRAGMA quick_check(20)")?;
            let found = check.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
            let problems = found.into_iter().filter(|line| line != "ok").collect();
            Ok(Health { sqlite: rusqlite::version(), version, problems })
        })
    }

    pub(crate) async fn write<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        match &self.fallback {
            None => self.inner.write(work).await,
            Some(fallback) => fallback.write(&self.inner, work).await,
        }
    }

    /// Simulates a disk with room for this many more writes. The limit stays until the next call of this
    /// function.
    #[cfg(feature = "faults")]
    pub fn room_for(&self, writes: u32) {
        self.inner.room.store(writes.into(), std::sync::atomic::Ordering::Relaxed);
    }

    pub(crate) fn read_all<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match self.fallback.as_ref().and_then(|fallback| fallback.memory()) {
            None => self.inner.all.read(read),
            Some(memory) => memory.all.read(read),
        }
    }

    // The user's view is always read from the disk: no fork's journal contains it.
    pub(crate) fn read_main<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.inner.main.read(read)
    }

    /// Brings the search index up to date.
    pub(crate) fn index_all(&self) -> Result<(), StoreError> {
        if self.inner.all.read(|conn| Ok(index::is_outdated(conn)?))? {
            // While another process holds the lock, the search uses what is already in the index.
            match index::update_all(self.path(), self.inner.options) {
                Err(StoreError::Locked { .. }) => {}
                followed => followed?,
            }
        }
        Ok(())
    }
}

impl Inner {
    /// Creates a database in memory under a unique name and fills it.
    pub(crate) fn in_memory(
        name: PathBuf,
        fill: impl FnOnce(&Connection) -> Result<(), StoreError>,
    ) -> Result<Self, StoreError> {
        // The default timeout, whatever the disk's is: no one holds a database in memory for long.
        let options = Options::default();
        let mut conn = open::open_memory_writer(&name, options)?;
        migrate(&mut conn, &name, STEPS)?;
        fill(&conn)?;
        Ok(Self {
            writer: Writer::start(conn, name.clone(), |_| Ok(false))?,
            all: Pool::new(name.clone(), options, open::open_memory_reader),
            main: Pool::new(name.clone(), options, open::open_memory_reader),
            options,
            path: name,
            #[cfg(feature = "faults")]
            room: i64::MAX.into(),
        })
    }

    pub(crate) async fn write<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        #[cfg(feature = "faults")]
        if self.room.fetch_sub(1, std::sync::atomic::Ordering::Relaxed) <= 0 {
            return Err(StoreError::Full { path: self.path.clone() });
        }
        self.writer.write(work).await
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("path", &self.inner.path).finish_non_exhaustive()
    }
}
