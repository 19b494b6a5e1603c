//! The connections that read, kept for the next one who needs one.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use rusqlite::Connection;

use crate::{Options, StoreError};

/// How many are kept when nobody needs them.
const KEPT: usize = 4;

pub(crate) struct Pool {
    path: PathBuf,
    options: Options,
    open: fn(&std::path::Path, Options) -> rusqlite::Result<Connection>,
    idle: Mutex<Vec<Connection>>,
}

impl Pool {
    pub(crate) fn new(
        path: PathBuf,
        options: Options,
        open: fn(&std::path::Path, Options) -> rusqlite::Result<Connection>,
    ) -> Self {
        Self { path, options, open, idle: Mutex::default() }
    }

    /// Reads from one moment's state, however many statements that takes.
    pub(crate) fn read<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let named = |error: rusqlite::Error| StoreError::from_sqlite(&self.path, error);
        let idle = self.lock().pop();
        let conn = idle.map_or_else(|| (self.open)(&self.path, self.options), Ok).map_err(named)?;
        let moment = conn.unchecked_transaction().map_err(named)?;
        let found = read(&moment).map_err(|error| error.named(&self.path));
        moment.finish().map_err(named)?;
        let mut idle = self.lock();
        if idle.len() < KEPT {
            idle.push(conn);
        }
        found
    }

    // A reader that panicked took its connection with it; those that are here are good.
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
