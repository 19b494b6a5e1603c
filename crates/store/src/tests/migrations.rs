//! Migrations of databases with rows in every table.

use std::path::Path;

use super::*;
use crate::migrate::STEPS;

/// A step that rebuilds a referenced table, as later steps may have to.
const TO_V7: &str = "
    CREATE TABLE threads_v7 (id TEXT PRIMARY KEY, title TEXT NOT NULL, workspace TEXT NOT NULL,
        created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, pinned INTEGER NOT NULL) STRICT;
    INSERT INTO threads_v7 SELECT *, 0 FROM threads;
    DROP TABLE threads;
    ALTER TABLE threads_v7 RENAME TO threads;";

async fn populated() -> (TempDir, PathBuf) {
    populated_by(STEPS).await
}

/// Creates a journal as the version with these steps left it.
async fn populated_by(steps: &[&str]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.db");
    drop(Store::open_with_steps(&path, Options::default(), steps).expect("a store"));
    // Inserted with SQL, because today's writes need tables that this version lacks.
    let old = rusqlite::Connection::open(&path).expect("opens");
    old.execute_batch(
        "INSERT INTO threads VALUES ('m', 'about m', '/w', 1, 1);
         INSERT INTO runs (id, thread, kind, root, agent, model, provider, status, chain, depth, context_from, created_at,
             started_at, updated_at, settings)
         VALUES ('m', 'm', 'main', 'm', 'main', 'opus', 'scripted', 'running', 'c', 0, 1, 1, 1, 1, x'7b7d');
         INSERT INTO runs (id, thread, kind, root, parent, agent, model, provider, status, chain, depth, context_from,
             created_at, started_at, updated_at, settings)
         VALUES ('s', 'm', 'sub', 'm', 'm', 'scan', 'opus', 'scripted', 'running', 'd', 1, 1, 1, 1, 1, x'7b7d');
         INSERT INTO heads VALUES (zeroblob(32), x'7b7d');
         INSERT INTO model_calls (run, kind, step, purpose, head, from_seq, to_seq, marks, request_sha256, request_len,
             model, provider, status, reserved_microusd, asked_at)
         VALUES ('m', 'main', 1, 'turn', zeroblob(32), 1, 1, '', zeroblob(32), 7, 'opus', 'scripted', 'answered', 0, 1);
         INSERT INTO messages (run, kind, seq, role, origin, created_at, text, bytes)
         VALUES ('m', 'main', 1, 'user', 'prompt', 1, 'needle', x'7b7d'),
             ('m', 'main', 2, 'assistant', 'reply', 1, 'hello', x'7b7d'),
             ('s', 'sub', 1, 'assistant', 'reply', 1, 'found', x'7b7d');
         INSERT INTO tool_calls (run, kind, message_seq, position, call_id, name, policy, status, input)
         VALUES ('m', 'main', 2, 0, 'call', 'read', 'pure', 'planned', x'7b7d');",
    )
    .expect("rows");
    drop(old);
    (folder, path)
}

fn with_steps(path: &Path, more: &[&'static str]) -> Result<Store, StoreError> {
    let steps: Vec<&str> = STEPS.iter().chain(more).copied().collect();
    Store::open_with_steps(path, Options::default(), &steps)
}

fn backups(folder: &TempDir) -> Vec<String> {
    let names = std::fs::read_dir(folder.path()).expect("a folder").filter_map(Result::ok);
    let mut names: Vec<String> = names.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.retain(|name| name.contains("backup"));
    names.sort();
    names
}

fn said(store: &Store) -> Vec<Vec<String>> {
    vec![store.said("m"), store.said("s")]
}

#[tokio::test]
async fn a_step_keeps_every_row_and_a_copy() {
    let (folder, path) = populated().await;
    let before = said(&open(&path).expect("opens"));
    let store = with_steps(&path, &[TO_V7]).expect("migrated");
    assert_eq!(said(&store), before);
    assert_eq!(
        store.check().expect("checked"),
        Health { sqlite: rusqlite::version(), version: 7, problems: vec![] }
    );
    assert_eq!(store.main().search("needle", 9).expect("searched").len(), 1);
    store.delete_thread(&thread_id("m")).await.expect("the new table still cascades");
    assert!(matches!(store.run(&run_id("s")).row(), Err(StoreError::NoRun(_))));
    drop(store);

    assert_eq!(backups(&folder), ["store.db.v6-backup"]);
    let copy = folder.path().join("store.db.v6-backup");
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&copy).expect("there"));
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(said(&open(&copy).expect("the copy is a whole journal")), before);

    let error = open(&path).expect_err("an older offshoot");
    assert!(matches!(error, StoreError::Newer { found: 7, known: 6, .. }), "{error:?}");
    with_steps(&path, &[TO_V7]).expect("nothing left to do");
    assert_eq!(backups(&folder).len(), 1);
}

#[tokio::test]
async fn an_old_version_becomes_the_newest_with_every_row_and_a_copy() {
    let (folder, path) = populated_by(&STEPS[..1]).await;
    let old = Store::open_with_steps(&path, Options::default(), &STEPS[..1]).expect("an older offshoot's");
    let before = said(&old);
    drop(old);

    let store = open(&path).expect("migrated");
    assert_eq!(said(&store), before);
    assert_eq!(store.check().expect("checked").version, 6);
    let known = store.run(&run_id("m"));
    assert_eq!((known.seen_files().expect("files"), known.processes().expect("processes")), (vec![], vec![]));
    let seq = store.turn("m", "again", &["read"]).await;
    let file = SeenFile { path: "a.txt".into(), sha256: Digest::of(b"a") };
    let read = FinishedCall { seen: vec![file.clone()], ..finished(key("m", seq, 0), "a") };
    store.finish_call(read).await.expect("finished");
    assert_eq!(known.seen_files().expect("files"), [file]);

    assert_eq!(backups(&folder), ["store.db.v1-backup"]);
    let copy =
        Store::open_with_steps(&folder.path().join("store.db.v1-backup"), Options::default(), &STEPS[..1]);
    assert_eq!(said(&copy.expect("a whole journal of version 1")), before);
}

#[tokio::test]
async fn a_tree_of_an_older_version_is_counted_whole() {
    let (_folder, path) = populated_by(&STEPS[..3]).await;
    let old = rusqlite::Connection::open(&path).expect("opens");
    old.execute_batch(
        "UPDATE model_calls SET input = 10, output = 5, cache_read = 3, cost_microusd = 100;
         INSERT INTO model_calls (run, kind, step, purpose, head, from_seq, to_seq, marks, request_sha256, request_len,
             model, provider, status, reserved_microusd, asked_at)
         VALUES ('s', 'sub', 1, 'turn', zeroblob(32), 1, 1, '', zeroblob(32), 7, 'opus', 'scripted', 'asked', 500, 1);
         INSERT INTO reserved_tokens SELECT max(id), 20 FROM model_calls;",
    )
    .expect("rows");
    drop(old);
    let store = open(&path).expect("migrated");
    let within = vec![Limit { run: run_id("m"), microusd: None, tokens: Some(50) }];
    let wants = |tokens| NewModelCall { within: within.clone(), reserved_tokens: tokens, ..question("m") };
    let refused = store.begin_model_call(wants(13)).await;
    assert!(
        matches!(refused, Err(StoreError::OverBudget { used: 18, reserved: 20, wanted: 13, .. })),
        "{refused:?}"
    );
    store.begin_model_call(wants(12)).await.expect("the rest of it");
}

#[tokio::test]
async fn a_step_that_fails_changes_nothing() {
    let (folder, path) = populated().await;
    let before = said(&open(&path).expect("opens"));
    let broken =
        "UPDATE threads SET title = 'half'; DROP TABLE message_search; INSERT INTO nowhere VALUES (1);";
    for steps in [&[broken][..], &[TO_V7, broken]] {
        let error = with_steps(&path, steps).expect_err("fails");
        assert!(matches!(error, StoreError::Migrate { .. }), "{error:?}");
        let store = open(&path).expect("the old version opens");
        assert_eq!(said(&store), before);
        assert_eq!(store.main().threads(1).expect("threads")[0].title, "about m");
        assert_eq!(store.main().search("needle", 9).expect("searched").len(), 1);
    }
    let dangling = "PRAGMA defer_foreign_keys = ON; DELETE FROM threads;";
    assert!(matches!(with_steps(&path, &[dangling]), Err(StoreError::Misuse(_))));
    assert_eq!(said(&open(&path).expect("opens")), before);
    assert_eq!(
        backups(&folder),
        ["store.db.v6-backup", "store.db.v6-backup-2", "store.db.v6-backup-3"],
        "no copy is overwritten"
    );
}

#[test]
fn many_that_open_at_once_migrate_once_and_all_get_in() {
    for _ in 0..20 {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("store.db");
        std::thread::scope(|scope| {
            let openers: Vec<_> = (0..8).map(|_| scope.spawn(|| open(&path).map(drop))).collect();
            for opener in openers {
                opener.join().expect("joined").expect("opened");
            }
        });
        assert_eq!(open(&path).expect("opens").check().expect("checked").version, 6);
    }
}
