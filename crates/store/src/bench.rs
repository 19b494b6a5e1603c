//! What the writer is measured against.

use std::path::{Path, PathBuf};
use std::sync::mpsc;

use rusqlite::{Connection, params};
use tokio::sync::oneshot;

use crate::{Options, StoreError, open};

/// SQLite alone, as durable as the journal: a database of its own, one table, one thread, and nobody who waits.
///
/// Opening it and letting it go take time too, as they do with a [`Store`](crate::Store); whoever measures reads the
/// clock in between.
#[derive(Debug)]
pub struct Raw {
    conn: Connection,
    path: PathBuf,
}

impl Raw {
    /// Makes the database.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        open::make_file(path)?;
        let conn = open::writing(path, Options::default())?;
        let raw = Self { conn, path: path.to_owned() };
        raw.named(raw.conn.execute_batch(
            "CREATE TABLE IF NOT EXISTS rows (id INTEGER PRIMARY KEY, at INTEGER, bytes BLOB) STRICT",
        ))?;
        Ok(raw)
    }

    /// Writes rows the way SQLite alone does it best: each of `groups` is one commit of rows with these bytes, and
    /// all of them are written `times` over.
    pub fn write(&self, times: u32, groups: &[Vec<&[u8]>]) -> Result<(), StoreError> {
        self.named(self.write_all(times, groups))
    }

    fn write_all(&self, times: u32, groups: &[Vec<&[u8]>]) -> rusqlite::Result<()> {
        let mut begin = self.conn.prepare_cached("BEGIN IMMEDIATE")?;
        let mut insert = self.conn.prepare_cached("INSERT INTO rows (at, bytes) VALUES (?1, ?2)")?;
        let mut commit = self.conn.prepare_cached("COMMIT")?;
        for at in 0..times {
            for rows in groups {
                begin.execute([])?;
                for bytes in rows {
                    insert.execute(params![at, bytes])?;
                }
                commit.execute([])?;
            }
        }
        Ok(())
    }

    fn named<T>(&self, done: rusqlite::Result<T>) -> Result<T, StoreError> {
        done.map_err(|error| StoreError::from_sqlite(&self.path, error))
    }
}

/// Group commit at its simplest, over SQLite alone: whoever has rows hands them to one thread and waits, and the
/// thread writes all that wait in one commit.
#[derive(Debug)]
pub struct RawGroups {
    waiting: mpsc::Sender<(Vec<Vec<u8>>, oneshot::Sender<()>)>,
}

impl RawGroups {
    /// Makes the database and starts the thread, which ends with this.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let raw = Raw::open(path)?;
        let (waiting, handed_over) = mpsc::channel::<(Vec<Vec<u8>>, oneshot::Sender<()>)>();
        std::thread::spawn(move || {
            while let Ok(first) = handed_over.recv() {
                let group: Vec<_> = std::iter::once(first).chain(handed_over.try_iter()).collect();
                let rows = group.iter().flat_map(|(rows, _)| rows.iter().map(Vec::as_slice)).collect();
                if raw.write(1, &[rows]).is_err() {
                    return; // nobody is answered, and that is an error for each of them
                }
                for (_, answer) in group {
                    let _ = answer.send(());
                }
            }
        });
        Ok(Self { waiting })
    }

    /// Writes rows, and comes back when they are on the disk.
    pub async fn commit(&self, rows: Vec<Vec<u8>>) -> Result<(), StoreError> {
        let (answer, answered) = oneshot::channel();
        self.waiting.send((rows, answer)).map_err(|_| StoreError::WriterGone)?;
        answered.await.map_err(|_| StoreError::WriterGone)
    }
}
