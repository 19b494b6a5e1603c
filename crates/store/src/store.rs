//! The store itself: one writer, some readers, one file.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;
use session::{RunId, TaskId};

use crate::migrate::{STEPS, migrate};
use crate::pool::Pool;
use crate::read::{Filter, MainReads, RunReads, overview};
use crate::spare::Spare;
use crate::writer::Writer;
use crate::{Options, RunSummary, StoreError, TaskAttempt, index, open};

/// The journal. Clones share one writer; the last one to go waits until everything is written.
#[derive(Clone)]
pub struct Store {
    pub(crate) inner: Arc<Inner>,
    /// Where a fork's journal goes on when this one cannot be written.
    pub(crate) spare: Option<Arc<Spare>>,
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

/// What a look at the whole database brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The version of SQLite.
    pub sqlite: &'static str,
    /// The version of the journal.
    pub version: u32,
    /// What SQLite found wrong; empty when all is well.
    pub problems: Vec<String>,
}

impl Store {
    /// Opens the journal, and makes it, its folder included, where there is none.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self, StoreError> {
        Self::open_with_steps(path.as_ref(), options, STEPS)
    }

    pub(crate) fn open_with_steps(path: &Path, options: Options, steps: &[&str]) -> Result<Self, StoreError> {
        open::make_file(path)?;
        let mut conn = open::writing(path, options)?;
        migrate(&mut conn, path, steps)?;
        let path = path.to_owned();
        let inner = Inner {
            writer: Writer::start(conn, path.clone(), index::follow_some)?,
            all: Pool::new(path.clone(), options, open::reading),
            main: Pool::new(path.clone(), options, open::reading_main),
            options,
            path,
            #[cfg(feature = "faults")]
            room: i64::MAX.into(),
        };
        Ok(Self { inner: Arc::new(inner), spare: None })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// What the user and the main agent see: main runs, and nothing of any other.
    pub fn main(&self) -> MainReads<'_> {
        MainReads::new(self)
    }

    /// One run, whichever it is, and all of it.
    pub fn run(&self, run: &RunId) -> RunReads<'_> {
        RunReads::new(self, run.clone())
    }

    /// All runs, where they stand and what they used, newest first; nothing they said.
    pub fn runs(&self, filter: &Filter) -> Result<Vec<RunSummary>, StoreError> {
        self.read_all(|conn| overview::runs(conn, filter))
    }

    /// What the earlier runs at a task answered, oldest first.
    pub fn attempts_at(&self, task: &TaskId) -> Result<Vec<TaskAttempt>, StoreError> {
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

    /// Whether a run, or one above it, was asked to stop.
    pub fn cancel_requested(&self, run: &RunId) -> Result<bool, StoreError> {
        self.run(run).cancel_requested()
    }

    /// Reads the whole file and says what is wrong with it.
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
        match &self.spare {
            None => self.inner.write(work).await,
            Some(spare) => spare.write(&self.inner, work).await,
        }
    }

    /// There is room on the disk for so many more writes, and then none until this is called again.
    #[cfg(feature = "faults")]
    pub fn room_for(&self, writes: u32) {
        self.inner.room.store(writes.into(), std::sync::atomic::Ordering::Relaxed);
    }

    pub(crate) fn read_all<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match self.spare.as_ref().and_then(|spare| spare.memory()) {
            None => self.inner.all.read(read),
            Some(memory) => memory.all.read(read),
        }
    }

    // What the user sees is on the disk: no fork's journal has it.
    pub(crate) fn read_main<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.inner.main.read(read)
    }

    /// Lets the search index follow to the last message.
    pub(crate) fn index_all(&self) -> Result<(), StoreError> {
        if self.inner.all.read(|conn| Ok(index::is_behind(conn)?))? {
            // While somebody else writes, what is in the index already is searched.
            match index::follow_all(self.path(), self.inner.options) {
                Err(StoreError::Locked { .. }) => {}
                followed => followed?,
            }
        }
        Ok(())
    }
}

impl Inner {
    /// A database in memory, with these rows; its name is its own.
    pub(crate) fn in_memory(
        name: PathBuf,
        fill: impl FnOnce(&Connection) -> Result<(), StoreError>,
    ) -> Result<Self, StoreError> {
        // Nobody holds it for long, however little patience there is with the disk.
        let options = Options::default();
        let mut conn = open::writing_memory(&name, options)?;
        migrate(&mut conn, &name, STEPS)?;
        fill(&conn)?;
        Ok(Self {
            writer: Writer::start(conn, name.clone(), |_| Ok(false))?,
            all: Pool::new(name.clone(), options, open::reading_memory),
            main: Pool::new(name.clone(), options, open::reading_memory),
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
