//! Opening the database: who may read it, how it writes, and whether it is ours.

use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::StoreError;

/// The oldest SQLite that does not lose committed pages when a WAL is reset.
const OLDEST: (i32, &str) = (3_051_003, "3.51.3");

/// How a journal is opened.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How long to wait for another process that writes, before saying that the journal is locked.
    pub busy_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { busy_timeout: Duration::from_secs(10) }
    }
}

/// Makes folder and file, readable by their owner alone, where they are missing.
///
/// A database that is there is looked at and never opened here: a process that closes a file loses all its
/// locks on it, also those that SQLite holds for another store in this process.
pub(crate) fn make_file(path: &Path) -> Result<(), StoreError> {
    let failed = |path: &Path, source| StoreError::Create { path: path.to_owned(), source: Arc::new(source) };
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|error| failed(folder, error))?;
    }
    if let Ok(found) = std::fs::metadata(path) {
        if !found.is_file() {
            return Err(StoreError::NotADatabase { path: path.to_owned() });
        }
        // SQLite gives its side files the database's mode, so this one file decides for all.
        if found.permissions().mode() & 0o077 != 0 {
            std::fs::set_permissions(path, Permissions::from_mode(0o600))
                .map_err(|error| failed(path, error))?;
        }
        return Ok(());
    }
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        // Another one was faster, and may be using it.
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        made => made.map(|_| ()).map_err(|error| failed(path, error)),
    }
}

/// The connection that writes.
pub(crate) fn writing(path: &Path, options: Options) -> Result<Connection, StoreError> {
    if rusqlite::version_number() < OLDEST.0 {
        return Err(StoreError::SqliteTooOld { found: rusqlite::version(), wanted: OLDEST.1 });
    }
    connect(path, options, FILE)
        .and_then(|conn| for_writing(conn, options))
        .map_err(|error| StoreError::from_sqlite(path, error))
}

/// The connection that writes to a database in memory; it is there as long as somebody has it open.
pub(crate) fn writing_memory(name: &Path, options: Options) -> Result<Connection, StoreError> {
    connect(name, options, MEMORY)
        .and_then(|conn| for_writing(conn, options))
        .map_err(|error| StoreError::from_sqlite(name, error))
}

fn for_writing(conn: Connection, options: Options) -> rusqlite::Result<Connection> {
    keep_a_log(&conn, options.busy_timeout)?;
    conn.pragma_update(None, "synchronous", "full")?;
    conn.pragma_update(None, "foreign_keys", true)?;
    // In KiB: enough for a large group, whose pages would otherwise come and go.
    conn.pragma_update(None, "cache_size", -8192)?;
    // In pages: a step changes many of them, and most of them again soon.
    conn.pragma_update(None, "wal_autocheckpoint", 4000)?;
    // The text of a deleted run is gone from the file, too.
    conn.pragma_update(None, "secure_delete", "fast")?;
    Ok(conn)
}

/// Sets the journal's mode; of two that do so at once SQLite sends one away without waiting.
fn keep_a_log(conn: &Connection, busy_timeout: Duration) -> rusqlite::Result<()> {
    let began = Instant::now();
    loop {
        match conn.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(())) {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && began.elapsed() < busy_timeout =>
            {
                std::thread::sleep(Duration::from_millis(1));
            }
            done => return done,
        }
    }
}

/// A connection that reads everything and writes nothing.
pub(crate) fn reading(path: &Path, options: Options) -> rusqlite::Result<Connection> {
    for_reading(connect(path, options, FILE)?)
}

/// The same, of a database in memory.
pub(crate) fn reading_memory(name: &Path, options: Options) -> rusqlite::Result<Connection> {
    for_reading(connect(name, options, MEMORY)?)
}

fn for_reading(conn: Connection) -> rusqlite::Result<Connection> {
    conn.pragma_update(None, "query_only", true)?;
    Ok(conn)
}

/// A connection that sees only what the user may see: SQLite itself refuses a statement that names a table
/// with the rows of all runs, unless it goes through a view that leaves the others out.
pub(crate) fn reading_main(path: &Path, options: Options) -> rusqlite::Result<Connection> {
    let mut conn = reading(path, options)?;
    conn.authorizer(Some(main_only))?;
    Ok(conn)
}

/// The tables that hold rows of all runs.
pub(crate) const ALL_RUNS: &[&str] = &[
    "runs",
    "messages",
    "tool_calls",
    "model_calls",
    "attempts",
    "heads",
    "jobs",
    "inbox",
    "seen_files",
    "processes",
    "reserved_tokens",
    "forks",
    "spent",
];

fn main_only(asked: AuthContext<'_>) -> Authorization {
    let AuthAction::Read { table_name, .. } = asked.action else { return Authorization::Allow };
    let through_view = asked.accessor.is_some_and(|view| view.starts_with("main_"));
    if ALL_RUNS.contains(&table_name) && !through_view { Authorization::Deny } else { Authorization::Allow }
}

/// Not "create": whoever opens has made the file, with its mode.
const FILE: OpenFlags = OpenFlags::SQLITE_OPEN_READ_WRITE.union(OpenFlags::SQLITE_OPEN_NO_MUTEX);
/// What is in memory is made by whoever comes first, and named by an address.
const MEMORY: OpenFlags = FILE.union(OpenFlags::SQLITE_OPEN_CREATE).union(OpenFlags::SQLITE_OPEN_URI);

fn connect(path: &Path, options: Options, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let conn = Connection::open_with_flags(path, flags)?;
    conn.busy_timeout(options.busy_timeout)?;
    conn.set_prepared_statement_cache_capacity(64);
    // Without this, SQLite plans many a statement anew for each value that is bound to it.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(conn)
}
