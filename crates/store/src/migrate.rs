//! Migrates an older journal to the newest version, in one transaction.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;

use crate::StoreError;

/// The application id of our databases: `ofsh`.
const APPLICATION: i64 = 0x6f66_7368;

/// The migration steps: the step at index n leads to version n + 1.
pub(crate) const STEPS: &[&str] = &[
    include_str!("schema_v1.sql"),
    include_str!("schema_v2.sql"),
    include_str!("schema_v3.sql"),
    include_str!("schema_v4.sql"),
    include_str!("schema_v5.sql"),
    include_str!("schema_v6.sql"),
];

/// Migrates the database to the newest version and keeps a copy of the old one.
pub(crate) fn migrate(conn: &mut Connection, path: &Path, steps: &[&str]) -> Result<(), StoreError> {
    let named = |error| StoreError::from_sqlite(path, error);
    let found = version(conn, path, steps).map_err(|error| error.named(path))?;
    if found == steps.len() {
        return Ok(());
    }
    if found > 0 {
        keep_copy(conn, path, found)?;
    }
    // A step that rebuilds a table must not trigger cascading deletes. References are checked at the end.
    conn.pragma_update(None, "foreign_keys", false).map_err(named)?;
    let stepped = step_through(conn, path, steps);
    conn.pragma_update(None, "foreign_keys", true).map_err(named)?;
    stepped
}

/// Returns the version of the database. Fails if it is not ours or too new.
fn version(conn: &Connection, path: &Path, steps: &[&str]) -> Result<usize, StoreError> {
    let version: i64 = conn.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let application: i64 = conn.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let tables: i64 = conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let empty = version == 0 && application == 0 && tables == 0;
    if !empty && application != APPLICATION {
        return Err(StoreError::NotOurs { path: path.to_owned() });
    }
    if !empty && version == 0 {
        return Err(StoreError::NoVersion { path: path.to_owned() });
    }
    usize::try_from(version).ok().filter(|version| *version <= steps.len()).ok_or_else(|| StoreError::Newer {
        path: path.to_owned(),
        found: version,
        known: number(steps.len()),
    })
}

fn step_through(conn: &mut Connection, path: &Path, steps: &[&str]) -> Result<(), StoreError> {
    let named = |error| StoreError::from_sqlite(path, error);
    let transaction =
        conn.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).map_err(named)?;
    // Another process may have migrated it meanwhile.
    let found = version(&transaction, path, steps).map_err(|error| error.named(path))?;
    for (done, step) in steps.iter().enumerate().skip(found) {
        let to = number(done + 1);
        let failed = |source| StoreError::Migrate { path: path.to_owned(), to, source: Arc::new(source) };
        transaction.execute_batch(step).map_err(failed)?;
        transaction.pragma_update(None, "user_version", to).map_err(failed)?;
        transaction.pragma_update(None, "application_id", APPLICATION).map_err(failed)?;
    }
    let dangling = transaction.prepare("PRAGMA foreign_key_check").and_then(|mut check| check.exists([]));
    if dangling.map_err(named)? {
        return Err(StoreError::Misuse("a step to a newer version of the journal left dangling references"));
    }
    transaction.commit().map_err(named)
}

/// Writes a complete copy to the disk before anything is changed.
fn keep_copy(conn: &Connection, path: &Path, version: usize) -> Result<(), StoreError> {
    let (copy, file) = new_copy(path, version)?;
    let name = copy.to_string_lossy();
    let written = conn
        .execute("VACUUM INTO ?1", [name.as_ref()])
        .map_err(|error| StoreError::from_sqlite(&copy, error))
        .and_then(|_| {
            file.sync_all()
                .map_err(|source| StoreError::Create { path: copy.clone(), source: Arc::new(source) })
        });
    if written.is_err() {
        // An incomplete copy must not be mistaken for a complete one.
        let _ = std::fs::remove_file(&copy);
    }
    written
}

/// Creates a private, empty file for the copy. Never overwrites a copy.
fn new_copy(path: &Path, version: usize) -> Result<(PathBuf, File), StoreError> {
    let mut n = 1;
    loop {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".v{version}-backup"));
        if n > 1 {
            name.push(format!("-{n}"));
        }
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&name) {
            Ok(file) => return Ok((name.into(), file)),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => n += 1,
            Err(source) => return Err(StoreError::Create { path: name.into(), source: Arc::new(source) }),
        }
    }
}

fn number(version: usize) -> i64 {
    i64::try_from(version).unwrap_or(i64::MAX)
}
