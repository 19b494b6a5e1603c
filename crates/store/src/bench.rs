//! Baselines for the benchmark of the writer.

use std::path::{Path, PathBuf};
use std::sync::mpsc;

use rusqlite::{Connection, params};
use tokio::sync::oneshot;

use crate::{Options, StoreError, open};

/// SQLite alone with the journal's durability settings: its own database, one table, one thread, no waiting
/// callers.
///
/// Opening and closing take time, as they do for a [`Store`](crate::Store). Benchmarks exclude them.
#[derive(Debug)]
pub struct PlainSqlite {
    conn: Connection,
    path: PathBuf,
}

impl PlainSqlite {
    /// Creates the database.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        open::create_file(path)?;
        let conn = open::open_writer(path, Options::default())?;
        let database = Self { conn, path: path.to_owned() };
        database.named(database.conn.execute_batch(
            "CREATE TABLE IF NOT EXISTS rows (id INTEGER PRIMARY KEY, at INTEGER, bytes BLOB) STRICT",
        ))?;
        Ok(database)
    }

    /// Writes rows in the fastest way that SQLite has: each of `groups` is one commit, and all of them are
    /// written `times` times.
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

/// A minimal group commit over SQLite: callers send their rows to one thread, which writes all waiting rows in one
/// commit.
#[derive(Debug)]
pub struct PlainGroups {
    waiting: mpsc::Sender<(Vec<Vec<u8>>, oneshot::Sender<()>)>,
}

impl PlainGroups {
    /// Creates the database and starts the thread, which ends when this value is dropped.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let database = PlainSqlite::open(path)?;
        let (waiting, handed_over) = mpsc::channel::<(Vec<Vec<u8>>, oneshot::Sender<()>)>();
        std::thread::spawn(move || {
            while let Ok(first) = handed_over.recv() {
                let group: Vec<_> = std::iter::once(first).chain(handed_over.try_iter()).collect();
                let rows = group.iter().flat_map(|(rows, _)| rows.iter().map(Vec::as_slice)).collect();
                if database.write(1, &[rows]).is_err() {
                    return; // unanswered callers get an error
                }
                for (_, answer) in group {
                    let _ = answer.send(());
                }
            }
        });
        Ok(Self { waiting })
    }

    /// Writes rows and returns when they are on the disk.
    pub async fn commit(&self, rows: Vec<Vec<u8>>) -> Result<(), StoreError> {
        let (answer, answered) = oneshot::channel();
        self.waiting.send((rows, answer)).map_err(|_| StoreError::WriterGone)?;
        answered.await.map_err(|_| StoreError::WriterGone)
    }
}
