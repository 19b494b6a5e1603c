//! Unusable databases: the errors they cause.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use super::*;

/// Creates a store, uses it and closes it. Returns its path.
async fn used() -> (TempDir, PathBuf) {
    let Room { store, folder } = room();
    store.start_run(main_run("m", "start"), ME).await.expect("started");
    for n in 0..200 {
        let text = format!("{n} {}", "words ".repeat(100));
        store.append(&run_id("m"), vec![prompt(&text)]).await.expect("appended");
    }
    drop(store);
    let path = folder.path().join("store.db");
    (folder, path)
}

fn refused(path: &Path) -> StoreError {
    open(path).expect_err("refused")
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("there").mode() & 0o777
}

#[tokio::test]
async fn only_its_owner_may_read_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("data/offshoot/store.db");
    let store = open(&path).expect("a store");
    store.start_run(main_run("m", "start"), ME).await.expect("started");
    assert_eq!(mode(&folder.path().join("data")), 0o700);
    assert_eq!(mode(&folder.path().join("data/offshoot")), 0o700);
    for name in ["store.db", "store.db-wal", "store.db-shm"] {
        assert_eq!(mode(&path.with_file_name(name)), 0o600, "{name}");
    }
    drop(store);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("opened up");
    let _again = open(&path).expect("a store");
    assert_eq!(mode(&path), 0o600);
}

#[tokio::test]
async fn a_deleted_or_replaced_journal_accepts_no_writes() {
    for replaced in [false, true] {
        let Room { store, folder } = room();
        store.start_run(main_run("m", "start"), ME).await.expect("started");
        let path = folder.path().join("store.db");
        for name in ["store.db", "store.db-wal", "store.db-shm"] {
            fs::remove_file(folder.path().join(name)).expect("deleted");
        }
        if replaced {
            fs::write(&path, "").expect("another one");
        }
        let lost = store.append(&run_id("m"), vec![prompt("more")]).await.expect_err("it is not there");
        assert!(matches!(&lost, StoreError::Removed { path: at } if *at == path), "{lost}");
    }
}

#[tokio::test]
async fn a_journal_without_a_version_is_reported_in_one_line() {
    let (_folder, path) = used().await;
    let raw = rusqlite::Connection::open(&path).expect("opens");
    raw.pragma_update(None, "user_version", 0).expect("changed");
    drop(raw);
    let error = refused(&path);
    assert!(matches!(&error, StoreError::NoVersion { path: at } if *at == path), "{error:?}");
    assert!(!error.to_string().contains("CREATE"), "{error}");
}

#[tokio::test]
async fn it_writes_as_it_promises() {
    let room = room();
    let pragma = |name: &'static str| {
        room.store.write(move |conn| {
            let text = conn.pragma_query_value(None, name, |row| row.get::<_, rusqlite::types::Value>(0))?;
            Ok(format!("{text:?}"))
        })
    };
    assert_eq!(pragma("journal_mode").await.expect("read"), r#"Text("wal")"#);
    assert_eq!(pragma("synchronous").await.expect("read"), "Integer(2)");
    assert_eq!(pragma("foreign_keys").await.expect("read"), "Integer(1)");
    let refused = room.store.read_all(|conn| Ok(conn.execute("DELETE FROM threads", [])?));
    assert!(matches!(refused, Err(StoreError::ReadOnly { .. })), "{refused:?}");
}

#[tokio::test]
async fn a_spoilt_header_is_no_database() {
    let (_folder, path) = used().await;
    let mut bytes = fs::read(&path).expect("read");
    bytes[..16].copy_from_slice(b"something else!!");
    fs::write(&path, &bytes).expect("written");
    let error = refused(&path);
    assert!(matches!(error, StoreError::NotADatabase { .. }), "{error:?}");
    assert_eq!(fs::read(&path).expect("read"), bytes, "it was not touched");
}

#[tokio::test]
async fn a_file_of_text_or_a_folder_is_no_database() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("notes.txt");
    fs::write(&path, "buy milk\n".repeat(100)).expect("written");
    assert!(matches!(refused(&path), StoreError::NotADatabase { .. }));
    assert!(matches!(refused(folder.path()), StoreError::NotADatabase { .. }));
}

#[tokio::test]
async fn a_truncated_journal_is_reported_as_damaged() {
    let (_folder, path) = used().await;
    let length = fs::metadata(&path).expect("there").len();
    for left in [length - 4096, length / 2, 8192, 4096] {
        let file = fs::OpenOptions::new().write(true).open(&path).expect("opened");
        file.set_len(left).expect("cut");
        let error = refused(&path);
        assert!(matches!(error, StoreError::Corrupt { .. }), "{left} of {length}: {error:?}");
        assert!(error.to_string().contains("is damaged"), "{error}");
    }
    fs::write(&path, b"SQLite format 3\0").expect("cut");
    assert!(matches!(refused(&path), StoreError::NotADatabase { .. } | StoreError::Corrupt { .. }));
}

/// Creates a journal with a log of several transactions, as a killed process leaves it. Returns copies of both files.
async fn killed() -> (TempDir, PathBuf, Vec<u8>) {
    let room = room();
    room.store.start_run(main_run("m", "start"), ME).await.expect("started");
    for n in 0..4 {
        room.store.append(&run_id("m"), vec![prompt(&format!("more {n}"))]).await.expect("appended");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.db");
    std::fs::copy(room.path(), &path).expect("copied");
    let log = std::fs::read(format!("{}-wal", room.path().display())).expect("a log");
    (folder, path, log)
}

#[tokio::test]
async fn a_log_that_is_damaged_before_its_end_is_reported_and_left_unchanged() {
    let (_folder, path, log) = killed().await;
    let log_path = format!("{}-wal", path.display());
    let frames = (log.len() - 32) / (24 + 4096);
    assert!(frames > 3, "{frames}");
    for at in [5, 32 + 8, 32 + 24 + 100, 32 + (frames / 2) * (24 + 4096) + 200] {
        let mut damaged = log.clone();
        damaged[at] ^= 1;
        std::fs::write(&log_path, &damaged).expect("written");
        let error = refused(&path);
        assert!(matches!(error, StoreError::LogDamaged { .. }), "{at}: {error:?}");
        assert_eq!(std::fs::read(&log_path).expect("there"), damaged, "{at}");
    }
    // A torn end was never committed.
    for end in [log.len() - 1, log.len() - 3000, 32] {
        std::fs::write(&log_path, &log[..end]).expect("written");
        drop(open(&path).unwrap_or_else(|error| panic!("{end}: {error}")));
        assert!(!std::fs::exists(&log_path).expect("looked"), "{end}: the rest was used");
        std::fs::write(&log_path, &log).expect("written");
        std::fs::remove_file(format!("{}-shm", path.display())).ok();
    }
}

#[tokio::test]
async fn a_log_that_lost_committed_frames_is_reported_and_left_unchanged() {
    let room = room();
    room.store.start_run(main_run("m", "start"), ME).await.expect("started");
    for n in 0..4 {
        room.store.append(&run_id("m"), vec![prompt(&format!("more {n}"))]).await.expect("appended");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.db");
    let beside = |path: &std::path::Path, ending: &str| format!("{}{ending}", path.display());
    let copy =
        |ending: &str| std::fs::copy(beside(&room.path(), ending), beside(&path, ending)).expect("copied");
    let log = std::fs::read(beside(&room.path(), "-wal")).expect("a log");
    for length in [Some(0), Some(32), Some(log.len() / 2), Some(log.len() - 1), None] {
        for ending in ["", "-wal", "-shm"] {
            copy(ending);
        }
        let log_path = beside(&path, "-wal");
        match length {
            Some(length) => std::fs::write(&log_path, &log[..length]).expect("cut"),
            None => std::fs::remove_file(&log_path).expect("removed"),
        }
        let error = refused(&path);
        assert!(matches!(error, StoreError::LogDamaged { .. }), "{length:?}: {error:?}");
        let left = std::fs::read(&log_path).ok().map(|log| log.len());
        assert_eq!(left, length);
    }
    for ending in ["", "-wal", "-shm"] {
        copy(ending);
    }
    drop(open(&path).expect("nothing is lost"));
}

#[tokio::test]
async fn a_journal_that_lost_its_content_is_reported_and_left_unchanged() {
    let (_folder, path) = used().await;
    std::fs::write(&path, "").expect("cut");
    assert!(matches!(refused(&path), StoreError::Emptied { .. }));
    assert_eq!(std::fs::metadata(&path).expect("there").len(), 0);
    let (_folder, path, log) = killed().await;
    std::fs::write(format!("{}-wal", path.display()), &log).expect("written");
    std::fs::remove_file(&path).expect("removed");
    assert!(matches!(refused(&path), StoreError::Emptied { .. }));
    assert!(!path.exists());
}

#[tokio::test]
async fn damage_in_the_middle_is_found_by_reading_and_by_the_check() {
    let (_folder, path) = used().await;
    let mut bytes = fs::read(&path).expect("read");
    let middle = bytes.len() / 2 / 4096 * 4096;
    bytes[middle..middle + 8 * 4096].fill(0xaa);
    fs::write(&path, &bytes).expect("written");
    let store = open(&path).expect("its first page is good");
    let read = store.run(&run_id("m")).messages();
    assert!(matches!(read, Err(StoreError::Corrupt { .. })), "{read:?}");
    let health = store.check();
    assert!(!matches!(&health, Ok(health) if health.problems.is_empty()), "{health:?}");
}

#[tokio::test]
async fn a_newer_version_and_another_program_are_refused_untouched() {
    let (_folder, path) = used().await;
    let raw = rusqlite::Connection::open(&path).expect("opened");
    raw.pragma_update(None, "user_version", 99).expect("changed");
    drop(raw);
    let error = refused(&path);
    assert!(matches!(error, StoreError::Newer { found: 99, known: 6, .. }), "{error:?}");
    assert!(error.to_string().contains("version 99"), "{error}");

    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.db");
    let raw = rusqlite::Connection::open(&path).expect("opened");
    raw.execute_batch("CREATE TABLE recipes (name TEXT)").expect("made");
    drop(raw);
    assert!(matches!(refused(&path), StoreError::NotOurs { .. }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_locked_database_is_reported_and_works_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.db");
    let store = Store::open(&path, Options { busy_timeout: Duration::from_millis(50) }).expect("a store");
    store.start_run(main_run("m", "start"), ME).await.expect("started");
    let other = rusqlite::Connection::open(&path).expect("opened");
    other.execute_batch("BEGIN EXCLUSIVE").expect("locked");
    let error = store.append(&run_id("m"), vec![prompt("early")]).await.expect_err("locked");
    assert!(matches!(error, StoreError::Locked { .. }), "{error:?}");
    assert_eq!(store.said("m"), ["start"], "reading goes on");
    other.execute_batch("ROLLBACK").expect("unlocked");
    store.append(&run_id("m"), vec![prompt("late")]).await.expect("works again");
    assert_eq!(store.said("m"), ["start", "late"]);

    // An exclusive lock blocks readers, too, so a second process would see the same.
    drop(store);
    other.pragma_update(None, "locking_mode", "exclusive").expect("set");
    other.execute_batch("BEGIN EXCLUSIVE; UPDATE threads SET title = 'mine'; COMMIT").expect("locked");
    let error = Store::open(&path, Options { busy_timeout: Duration::from_millis(50) }).expect_err("locked");
    assert!(matches!(error, StoreError::Locked { .. }), "{error:?}");
    drop(other);
    assert_eq!(open(&path).expect("opens again").said("m"), ["start", "late"]);
}
