//! A pool of reading connections.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};

use rusqlite::Connection;

use crate::{Options, StoreError};

/// Maximum number of idle connections.
const MAX_IDLE: usize = 4;

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

    /// Runs `read` in one read transaction, so that all its statements see the same state.
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
        if idle.len() < MAX_IDLE {
            idle.push(conn);
        }
        found
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().expect("lock is not poisoned")
    }
}
