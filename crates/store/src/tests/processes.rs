//! Several processes: killed, concurrent, and read-only ones. Each is this test binary with an environment
//! variable that selects the other role of one test.

use std::process::{Command, Stdio};

use super::*;

const PART: &str = "OFFSHOOT_STORE_TEST_PART";

/// Returns the path of the store if this process plays the other role.
fn my_part() -> Option<PathBuf> {
    std::env::var_os(PART).map(PathBuf::from)
}

/// Starts the other process for the test with this name.
fn other(test: &str, path: &std::path::Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this binary"));
    let name = format!("tests::processes::{test}");
    command.args([&name, "--exact", "--nocapture"]).env(PART, path);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[tokio::test]
async fn acknowledged_writes_survive_the_process() {
    if let Some(path) = my_part() {
        let store = open(&path).expect("a store");
        store.start_run(main_run("m", "start"), ME).await.expect("started");
        let seq = store.turn("m", "hello", &["read"]).await;
        store.start_calls(&run_id("m"), &[key("m", seq, 0)], NOW).await.expect("started");
        store.finish_call(finished(key("m", seq, 0), "contents")).await.expect("finished");
        std::process::abort();
    }
    for _ in 0..5 {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("store.db");
        let ended = other("acknowledged_writes_survive_the_process", &path).output().expect("ran");
        assert!(!ended.status.success(), "it was to be killed");
        let store = open(&path).expect("opens");
        let journal = store.run(&run_id("m")).snapshot().expect("a journal");
        assert_eq!(store.said("m"), ["start", "hello"]);
        assert_eq!(journal.calls[0].status, CallStatus::Done);
        assert_eq!(journal.last_call.expect("asked").status, ModelCallStatus::Answered);
        assert_eq!(journal.run.writer, Some(ME));
        assert!(store.check().expect("checked").problems.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_process_reads_and_cancels_while_this_one_writes() {
    if let Some(path) = my_part() {
        let store = open(&path).expect("a store");
        assert!(!store.said("m").is_empty());
        store.request_cancel(&run_id("m"), RunStatus::CancelledByUser, NOW).await.expect("asked to stop");
        return;
    }
    let room = room();
    room.store.start_run(main_run("m", "start"), ME).await.expect("started");
    let mut canceller = other("another_process_reads_and_cancels_while_this_one_writes", &room.path())
        .spawn()
        .expect("started");
    let mut appended = 1;
    while !room.store.cancel_requested(&run_id("m")).expect("read") {
        room.store.append(&run_id("m"), vec![prompt("more")]).await.expect("appended");
        appended += 1;
        assert!(appended < 100_000, "the cancel never came");
    }
    assert!(canceller.wait().expect("ended").success());
    assert_eq!(room.store.said("m").len(), appended, "nothing was lost beside it");
    let refused = room.store.begin_model_call(question("m")).await;
    assert!(matches!(refused, Err(StoreError::CancelRequested(_))), "{refused:?}");
}

/// As root every path is writable, so the test ends early.
#[tokio::test]
async fn a_read_only_journal_is_reported() {
    use std::os::unix::fs::{PermissionsExt, chown};
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65534;

    if let Some(path) = my_part() {
        if std::fs::write(path.with_file_name("probe"), "").is_err() {
            let error = open(&path).expect_err("its side files cannot be made");
            assert!(matches!(error, StoreError::ReadOnly { .. }), "{error:?}");
            let error = open(&path.with_file_name("fresh.db")).expect_err("refused");
            assert!(matches!(error, StoreError::Create { .. }), "{error:?}");
        } else {
            let store = open(&path).expect("it can be read");
            assert_eq!(store.said("m"), ["start"]);
            let error = store.append(&run_id("m"), vec![prompt("more")]).await.expect_err("refused");
            assert!(matches!(error, StoreError::ReadOnly { .. }), "{error:?}");
            assert!(error.to_string().contains("cannot write the journal"), "{error}");
        }
        return;
    }
    let Room { store, folder } = room();
    store.start_run(main_run("m", "start"), ME).await.expect("started");
    drop(store);
    let path = folder.path().join("store.db");
    let mut player = other("a_read_only_journal_is_reported", &path);
    if chown(&path, Some(NOBODY), Some(NOBODY)).is_ok() {
        chown(folder.path(), Some(NOBODY), Some(NOBODY)).expect("handed over");
        player.uid(NOBODY).gid(NOBODY);
    }
    for (file, inside) in [(0o600, 0o500), (0o400, 0o700)] {
        std::fs::set_permissions(&path, PermissionsExt::from_mode(file)).expect("set");
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(inside)).expect("set");
        let ended = player.output().expect("ran");
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    }
    assert_eq!(open(&path).expect("opens again").said("m"), ["start"]);
}
