//! Opens the database: file mode, durability, and what a connection may read.

use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::StoreError;

/// The oldest SQLite that does not lose committed pages when a WAL is reset.
const OLDEST: (i32, &str) = (3_051_003, "3.51.3");

/// Options for opening a journal.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Time to wait for another process's lock before the journal is reported as locked.
    pub busy_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { busy_timeout: Duration::from_secs(10) }
    }
}

/// Creates the folder and the file if they are missing, readable by their owner only.
///
/// An existing database is never opened here: a process that closes a file loses all its locks on it,
/// including those that SQLite holds for another store of this process.
pub(crate) fn create_file(path: &Path) -> Result<(), StoreError> {
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
        // SQLite gives its other files the mode of the database file.
        if found.permissions().mode() & 0o077 != 0 {
            std::fs::set_permissions(path, Permissions::from_mode(0o600))
                .map_err(|error| failed(path, error))?;
        }
        return Ok(());
    }
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        // Another process created it first and may be using it.
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        made => made.map(|_| ()).map_err(|error| failed(path, error)),
    }
}

/// Creates a journal that is never seen empty: `fill` creates it under another name, which is then linked to `path`.
pub(crate) fn create_filled(
    path: &Path,
    fill: impl FnOnce(&Path) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mut new = path.as_os_str().to_owned();
    new.push(format!(".new-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
    let new = PathBuf::from(new);
    create_file(&new)?;
    let linked = fill(&new).and_then(|()| match std::fs::hard_link(&new, path) {
        // Another process created it first.
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        linked => {
            linked.map_err(|error| StoreError::Create { path: path.to_owned(), source: Arc::new(error) })
        }
    });
    let _ = std::fs::remove_file(&new); // the link stays
    linked
}

/// Opens the connection that writes.
pub(crate) fn open_writer(path: &Path, options: Options) -> Result<Connection, StoreError> {
    if rusqlite::version_number() < OLDEST.0 {
        return Err(StoreError::SqliteTooOld { found: rusqlite::version(), wanted: OLDEST.1 });
    }
    connect(path, options, FILE)
        .and_then(|conn| configure_writer(conn, options))
        .map_err(|error| StoreError::from_sqlite(path, error))
}

/// Opens the connection that writes to a database in memory. The database exists while a connection is open.
pub(crate) fn open_memory_writer(name: &Path, options: Options) -> Result<Connection, StoreError> {
    connect(name, options, MEMORY)
        .and_then(|conn| configure_writer(conn, options))
        .map_err(|error| StoreError::from_sqlite(name, error))
}

fn configure_writer(conn: Connection, options: Options) -> rusqlite::Result<Connection> {
    enable_wal(&conn, options.busy_timeout)?;
    conn.pragma_update(None, "synchronous", "full")?;
    conn.pragma_update(None, "foreign_keys", true)?;
    // In KiB: enough for a large group, whose pages would otherwise be evicted and read again.
    conn.pragma_update(None, "cache_size", -8192)?;
    // In pages: a step changes many of them, and most of them again soon.
    conn.pragma_update(None, "wal_autocheckpoint", 4000)?;
    // Overwrites the text of deleted runs in the file.
    conn.pragma_update(None, "secure_delete", "fast")?;
    Ok(conn)
}

/// Sets the journal mode. If two connections do so at once, SQLite refuses one without waiting.
fn enable_wal(conn: &Connection, busy_timeout: Duration) -> rusqlite::Result<()> {
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

/// Opens a connection that reads everything and writes nothing.
pub(crate) fn open_reader(path: &Path, options: Options) -> rusqlite::Result<Connection> {
    configure_reader(connect(path, options, FILE)?)
}

/// Opens a reading connection to a database in memory.
pub(crate) fn open_memory_reader(name: &Path, options: Options) -> rusqlite::Result<Connection> {
    configure_reader(connect(name, options, MEMORY)?)
}

fn configure_reader(conn: Connection) -> rusqlite::Result<Connection> {
    conn.pragma_update(None, "query_only", true)?;
    Ok(conn)
}

/// Opens a connection that reads only what the user may see. SQLite itself refuses a statement that names a
/// table with rows of all runs, except through a view that filters them.
pub(crate) fn open_main_reader(path: &Path, options: Options) -> rusqlite::Result<Connection> {
    let mut conn = open_reader(path, options)?;
    conn.authorizer(Some(main_only))?;
    Ok(conn)
}

/// The tables with rows of all runs.
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
    "hook_answers",
    "folder_notes",
    "resumptions",
];

fn main_only(asked: AuthContext<'_>) -> Authorization {
    let AuthAction::Read { table_name, .. } = asked.action else { return Authorization::Allow };
    let through_view = asked.accessor.is_some_and(|view| view.starts_with("main_"));
    if ALL_RUNS.contains(&table_name) && !through_view { Authorization::Deny } else { Authorization::Allow }
}

/// Without "create": the file exists already, with its mode.
const FILE: OpenFlags = OpenFlags::SQLITE_OPEN_READ_WRITE.union(OpenFlags::SQLITE_OPEN_NO_MUTEX);
/// A database in memory is created by its first connection and named by an address.
const MEMORY: OpenFlags = FILE.union(OpenFlags::SQLITE_OPEN_CREATE).union(OpenFlags::SQLITE_OPEN_URI);

fn connect(path: &Path, options: Options, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let conn = Connection::open_with_flags(path, flags)?;
    conn.busy_timeout(options.busy_timeout)?;
    conn.set_prepared_statement_cache_capacity(64);
    // Otherwise SQLite plans many statements again for each bound value.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(conn)
}
