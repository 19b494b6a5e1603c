//! Where a fork's journal goes on when the disk cannot be written: in memory, in a database that begins as a copy of what
//! the fork needs of the one on the disk.
//!
//! The write that failed is made there instead, so whoever writes notices nothing, and nothing is done twice. Only forks
//! have one: what any other run does must be on the disk before it is done.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use session::RunId;
use tokio::sync::RwLock;

use crate::store::Inner;
use crate::{Store, StoreError, copy};

/// A fork's journal beside the one on the disk.
pub(crate) struct Spare {
    run: RunId,
    /// The run that it is a fork of.
    of: RunId,
    /// Held by whoever writes, and alone by who moves: then nothing is on its way to the place that is left.
    writing: RwLock<()>,
    /// Where it is now, where that is not on the disk, and why.
    moved: Mutex<Option<(Arc<Inner>, StoreError)>>,
}

impl Store {
    /// The journal for a fork and whoever runs it. When the disk is full, locked, failing or not to be written, it
    /// goes on in memory; what is read through this one is then read there, but for what the user sees.
    pub fn for_fork(&self, run: &RunId, of: &RunId) -> Self {
        if self.spare.as_ref().is_some_and(|spare| spare.run == *run) {
            return self.clone();
        }
        let (run, of) = (run.clone(), of.clone());
        let spare = Spare { run, of, writing: RwLock::default(), moved: Mutex::default() };
        Self { inner: Arc::clone(&self.inner), spare: Some(Arc::new(spare)) }
    }

    /// The journal on the disk, for what must be there or nowhere.
    pub fn on_disk(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), spare: None }
    }

    /// Why a fork's journal is in memory; nothing where it is on the disk.
    pub fn in_memory(&self) -> Option<StoreError> {
        let moved = self.spare.as_ref()?.moved();
        moved.as_ref().map(|(_, why)| why.clone())
    }

    /// Writes a fork's journal that is in memory to the disk, all of it or nothing. Then it is there, as if it had never
    /// been elsewhere.
    pub async fn back_to_disk(&self) -> Result<(), StoreError> {
        let Some(spare) = &self.spare else { return Ok(()) };
        let _alone = spare.writing.write().await;
        let Some(memory) = spare.memory() else { return Ok(()) };
        let run = spare.run.clone();
        let rows = memory.all.read(|conn| copy::taken(conn, &run))?;
        self.inner.write(move |conn| rows.put_back(conn, &run)).await?;
        *spare.moved() = None;
        Ok(())
    }
}

impl Spare {
    /// Writes to the disk, or in memory when that fails, and from then on.
    pub(crate) async fn write<T, F>(&self, disk: &Inner, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let work = Arc::new(Mutex::new(work));
        let again = || {
            let work = Arc::clone(&work);
            move |conn: &Connection| work.lock().unwrap_or_else(PoisonError::into_inner)(conn)
        };
        let why = {
            let _writing = self.writing.read().await;
            if let Some(memory) = self.memory() {
                return memory.write(again()).await;
            }
            match disk.write(again()).await {
                Err(error) if error.is_unwritable() => error,
                written => return written,
            }
        };
        self.leave(disk, why).await?.write(again()).await
    }

    /// Where it is in memory.
    pub(crate) fn memory(&self) -> Option<Arc<Inner>> {
        self.moved().as_ref().map(|(memory, _)| Arc::clone(memory))
    }

    /// Leaves the disk; what it has of the fork, and of those it goes back to, comes along.
    async fn leave(&self, disk: &Inner, why: StoreError) -> Result<Arc<Inner>, StoreError> {
        let _alone = self.writing.write().await;
        if let Some(memory) = self.memory() {
            return Ok(memory);
        }
        let copied =
            disk.all.read(|from| Inner::in_memory(name(), |to| copy::copy(from, to, &self.run, &self.of)));
        // Where not even that is possible, the disk's own answer says more.
        let memory = Arc::new(copied.map_err(|_| why.clone())?);
        *self.moved() = Some((Arc::clone(&memory), why));
        Ok(memory)
    }

    fn moved(&self) -> std::sync::MutexGuard<'_, Option<(Arc<Inner>, StoreError)>> {
        self.moved.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A name that no other database in this process has. The connections of one store find the same by it.
fn name() -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("file:/fork-{}?vfs=memdb", NEXT.fetch_add(1, Ordering::Relaxed)).into()
}
