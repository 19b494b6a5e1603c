//! The store: one writer, several readers, one file.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use session::RunId;

use crate::database::Database;
use crate::fallback::MemoryFallback;
use crate::migrate::STEPS;
use crate::{Options, StoreError};

/// The journal. Clones share one writer. Dropping the last clone waits until everything is written.
#[derive(Clone)]
pub struct Store {
    pub(crate) database: Arc<Database>,
    /// The journal in memory that a fork falls back to when this one cannot be written.
    pub(crate) fallback: Option<Arc<MemoryFallback>>,
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
        Ok(Self { database: Arc::new(Database::open(path, options, steps)?), fallback: None })
    }

    /// The path of the database.
    pub fn path(&self) -> &Path {
        &self.database.path
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
            None => self.database.write(work).await,
            Some(fallback) => fallback.write(&self.database, work).await,
        }
    }

    /// Simulates a disk with room for this many more writes. The limit stays until the next call of this
    /// function.
    #[cfg(feature = "faults")]
    pub fn room_for(&self, writes: u32) {
        self.database.room_for(writes);
    }

    pub(crate) fn read_all<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match self.fallback.as_ref().and_then(|fallback| fallback.memory()) {
            None => self.database.all.read(read),
            Some(memory) => memory.all.read(read),
        }
    }

    // The user's view is always read from the disk: no fork's journal contains it.
    pub(crate) fn read_main<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.database.main.read(read)
    }

    /// Brings the search index up to date.
    pub(crate) fn index_all(&self) -> Result<(), StoreError> {
        self.database.index_all()
    }

    /// Returns the journal for a fork and the runs below it. When the disk is full, locked, failing or
    /// read-only, this journal continues in memory. Its reads then come from memory, except for the user's
    /// view.
    pub fn for_fork(&self, run: &RunId, of: &RunId) -> Self {
        if self.fallback.as_ref().is_some_and(|fallback| fallback.is_of(run)) {
            return self.clone();
        }
        let fallback = MemoryFallback::new(run.clone(), of.clone());
        Self { database: Arc::clone(&self.database), fallback: Some(Arc::new(fallback)) }
    }

    /// Returns the journal on the disk only, without a fallback to memory.
    pub fn on_disk(&self) -> Self {
        Self { database: Arc::clone(&self.database), fallback: None }
    }

    /// Returns the error that made a fork's journal move to memory, or `None` if it is on the disk.
    pub fn in_memory(&self) -> Option<StoreError> {
        self.fallback.as_ref()?.reason()
    }

    /// Writes a fork's journal from memory to the disk in one transaction. It is then used from the disk
    /// again.
    pub async fn back_to_disk(&self) -> Result<(), StoreError> {
        match &self.fallback {
            Some(fallback) => fallback.back_to_disk(&self.database).await,
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("path", &self.database.path).finish_non_exhaustive()
    }
}
