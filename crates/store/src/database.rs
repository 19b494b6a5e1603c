//! One SQLite database: its writer and its reading connections.

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::migrate::{STEPS, migrate};
use crate::pool::Pool;
use crate::writer::Writer;
use crate::{Options, StoreError, damage, index, open};

/// One database.
pub(crate) struct Database {
    pub(crate) path: PathBuf,
    options: Options,
    writer: Writer,
    pub(crate) all: Pool,
    pub(crate) main: Pool,
    #[cfg(feature = "faults")]
    room: std::sync::atomic::AtomicI64,
}

impl Database {
    /// Opens the file, creates it if it is missing, and migrates it with these steps.
    pub(crate) fn open(path: &Path, options: Options, steps: &[&str]) -> Result<Self, StoreError> {
        damage::check_files(path)?;
        if !path.exists() {
            open::create_filled(path, |new| {
                let mut conn = open::open_writer(new, options)?;
                migrate(&mut conn, new, steps)
            })?;
        }
        open::create_file(path)?;
        let mut conn = open::open_writer(path, options)?;
        migrate(&mut conn, path, steps)?;
        let path = path.to_owned();
        Ok(Self {
            writer: Writer::start(conn, path.clone(), index::update_batch)?,
            all: Pool::new(path.clone(), options, open::open_reader),
            main: Pool::new(path.clone(), options, open::open_main_reader),
            options,
            path,
            #[cfg(feature = "faults")]
            room: i64::MAX.into(),
        })
    }

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

    /// Brings the search index up to date.
    pub(crate) fn index_all(&self) -> Result<(), StoreError> {
        if self.all.read(|conn| Ok(index::is_outdated(conn)?))? {
            // While another process holds the lock, the search uses what is already in the index.
            match index::update_all(&self.path, self.options) {
                Err(StoreError::Locked { .. }) => {}
                followed => followed?,
            }
        }
        Ok(())
    }

    /// Simulates a disk with room for this many more writes.
    #[cfg(feature = "faults")]
    pub(crate) fn room_for(&self, writes: u32) {
        self.room.store(writes.into(), std::sync::atomic::Ordering::Relaxed);
    }
}
