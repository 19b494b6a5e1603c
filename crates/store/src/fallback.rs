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

use crate::store::Inner;
use crate::{Store, StoreError, copy};

/// The fallback of a fork's journal.
pub(crate) struct MemoryFallback {
    run: RunId,
    /// The run that it forks from.
    of: RunId,
    /// Writers hold it for reading; a move between disk and memory holds it for writing. So no write is under
    /// way during a move.
    writing: RwLock<()>,
    /// The database in memory and the error that made it necessary, if the journal is in memory.
    moved: Mutex<Option<(Arc<Inner>, StoreError)>>,
}

impl Store {
    /// Returns the journal for a fork and the runs below it. When the disk is full, locked, failing or
    /// read-only, this journal continues in memory. Its reads then come from memory, except for the user's
    /// view.
    pub fn for_fork(&self, run: &RunId, of: &RunId) -> Self {
        if self.fallback.as_ref().is_some_and(|fallback| fallback.run == *run) {
            return self.clone();
        }
        let (run, of) = (run.clone(), of.clone());
        let fallback = MemoryFallback { run, of, writing: RwLock::default(), moved: Mutex::default() };
        Self { inner: Arc::clone(&self.inner), fallback: Some(Arc::new(fallback)) }
    }

    /// Returns the journal on the disk only, without a fallback to memory.
    pub fn on_disk(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), fallback: None }
    }

    /// Returns the error that made a fork's journal move to memory, or `None` if it is on the disk.
    pub fn in_memory(&self) -> Option<StoreError> {
        let moved = self.fallback.as_ref()?.moved();
        moved.as_ref().map(|(_, why)| why.clone())
    }

    /// Writes a fork's journal from memory to the disk in one transaction. It is then used from the disk
    /// again.
    pub async fn back_to_disk(&self) -> Result<(), StoreError> {
        let Some(fallback) = &self.fallback else { return Ok(()) };
        let _alone = fallback.writing.write().await;
        let Some(memory) = fallback.memory() else { return Ok(()) };
        let run = fallback.run.clone();
        let rows = memory.all.read(|conn| copy::fork_rows(conn, &run))?;
        self.inner.write(move |conn| rows.write_back(conn, &run)).await?;
        *fallback.moved() = None;
        Ok(())
    }
}

impl MemoryFallback {
    /// Writes to the disk. If that fails, writes in memory, now and from then on.
    pub(crate) async fn write<T, F>(&self, disk: &Inner, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let work = Arc::new(Mutex::new(work));
        let retryable = || {
            let work = Arc::clone(&work);
            move |conn: &Connection| work.lock().expect("a write that panicked is not run again")(conn)
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
    pub(crate) fn memory(&self) -> Option<Arc<Inner>> {
        self.moved().as_ref().map(|(memory, _)| Arc::clone(memory))
    }

    /// Moves the journal to memory, with the rows of the fork and of the runs that it forks from.
    async fn move_to_memory(&self, disk: &Inner, why: StoreError) -> Result<Arc<Inner>, StoreError> {
        let _alone = self.writing.write().await;
        if let Some(memory) = self.memory() {
            return Ok(memory);
        }
        let copied =
            disk.all.read(|from| Inner::in_memory(name(), |to| copy::copy(from, to, &self.run, &self.of)));
        // The error of the disk explains more than that of the copy.
        let memory = Arc::new(copied.map_err(|_| why.clone())?);
        *self.moved() = Some((Arc::clone(&memory), why));
        Ok(memory)
    }

    fn moved(&self) -> MutexGuard<'_, Option<(Arc<Inner>, StoreError)>> {
        self.moved.lock().expect("only assignments happen under this lock")
    }
}

/// Returns a name that is unique in this process. All connections of one store use it to find the same
/// database.
fn name() -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("file:/fork-{}?vfs=memdb", NEXT.fetch_add(1, Ordering::Relaxed)).into()
}
