//! The journal in memory that a fork uses when the disk cannot be written. It starts as a copy of the rows
//! that the fork needs.
//!
//! The failed write is repeated in memory, so callers notice nothing and nothing is done twice. Only forks
//! have such a journal: the steps of other runs must be on the disk before they are taken.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use rusqlite::Connection;
use session::RunId;
use tokio::sync::RwLock;

use crate::database::Database;
use crate::{StoreError, copy};

/// The fallback of a fork's journal.
pub(crate) struct MemoryFallback {
    run: RunId,
    /// The run that it forks from.
    of: RunId,
    /// Writers hold it for reading; a move between disk and memory holds it for writing. So no write is under
    /// way during a move.
    writing: RwLock<()>,
    /// The database in memory and the error that made it necessary, if the journal is in memory.
    moved: Mutex<Option<(Arc<Database>, StoreError)>>,
}

impl MemoryFallback {
    /// Creates the fallback of the fork `run` of the run `of`. The journal is on the disk at first.
    pub(crate) fn new(run: RunId, of: RunId) -> Self {
        Self { run, of, writing: RwLock::default(), moved: Mutex::default() }
    }

    /// Returns whether this is the fallback of `run`.
    pub(crate) fn is_of(&self, run: &RunId) -> bool {
        self.run == *run
    }

    /// Returns the error that made the journal move to memory, or `None` if it is on the disk.
    pub(crate) fn reason(&self) -> Option<StoreError> {
        self.moved().as_ref().map(|(_, why)| why.clone())
    }

    /// Writes the journal from memory to the disk in one transaction.
    pub(crate) async fn back_to_disk(&self, disk: &Database) -> Result<(), StoreError> {
        let _alone = self.writing.write().await;
        let Some(memory) = self.memory() else { return Ok(()) };
        let run = self.run.clone();
        let rows = memory.all.read(|conn| copy::fork_rows(conn, &run))?;
        disk.write(move |conn| rows.write_back(conn, &run)).await?;
        *self.moved() = None;
        Ok(())
    }

    /// Writes to the disk. If that fails, writes in memory, now and from then on.
    pub(crate) async fn write<T, F>(&self, disk: &Database, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let work = Arc::new(Mutex::new(work));
        let retryable = || {
            let work = Arc::clone(&work);
            move |conn: &Connection| work.lock().expect("lock is not poisoned")(conn)
        };
        let why = {
            let _writing = self.writing.read().await;
            if let Some(memory) = self.memory() {
                return memory.write(retryable()).await;
            }
            match disk.write(retryable()).await {
                Err(error) if error.is_unwritable() => error,
                written => return written,
            }
        };
        self.move_to_memory(disk, why).await?.write(retryable()).await
    }

    /// Returns the database in memory if the journal is there.
    pub(crate) fn memory(&self) -> Option<Arc<Database>> {
        self.moved().as_ref().map(|(memory, _)| Arc::clone(memory))
    }

    /// Moves the journal to memory, with the rows of the fork and of the runs that it forks from.
    async fn move_to_memory(&self, disk: &Database, why: StoreError) -> Result<Arc<Database>, StoreError> {
        let _alone = self.writing.write().await;
        if let Some(memory) = self.memory() {
            return Ok(memory);
        }
        let copied =
            disk.all.read(|from| Database::in_memory(name(), |to| copy::copy(from, to, &self.run, &self.of)));
        // The error of the disk explains more than that of the copy.
        let memory = Arc::new(copied.map_err(|_| why.clone())?);
        *self.moved() = Some((Arc::clone(&memory), why));
        Ok(memory)
    }

    fn moved(&self) -> MutexGuard<'_, Option<(Arc<Database>, StoreError)>> {
        self.moved.lock().expect("lock is not poisoned")
    }
}

/// Returns a name that is unique in this process. All connections of one store use it to find the same
/// database.
fn name() -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("file:/fork-{}?vfs=memdb", NEXT.fetch_add(1, Ordering::Relaxed)).into()
}
