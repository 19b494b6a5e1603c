//! A fork's journal when the disk cannot be written: it moves to memory and comes back.

use std::fmt::Write as _;

use rusqlite::Connection;

use super::*;
use crate::write::spent::{computed, stored};

const FORK: &str = "f";
/// Number of steps in [`step`].
const STEPS: usize = 8;

/// A parent with a turn and a limit, and a connection that can block all writers.
async fn forkable() -> (Room, Connection) {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options { busy_timeout: Duration::from_millis(1) };
    let store = Store::open(folder.path().join("store.db"), options).expect("a store");
    let room = Room { store, folder };
    room.store.start_run(main_run("m", "start"), ME).await.expect("started");
    let asked = NewModelCall { within: vec![limit()], ..question("m") };
    let call = room.store.begin_model_call(asked).await.expect("asked");
    room.store.finish_model_call(call, attempt("hi"), answer("hi", &[])).await.expect("answered");
    let other = Connection::open(room.path()).expect("opened");
    (room, other)
}

fn limit() -> Limit {
    Limit { run: run_id("m"), microusd: Some(10_000), tokens: None }
}

fn fork() -> NewRun {
    let fork = NewFork {
        of: run_id("m"),
        head: question("m").head.hash(),
        from: Seq::FIRST,
        to: Seq(2),
        alone: false,
        knows_files: true,
        label: "side".to_owned(),
        source: "test".to_owned(),
    };
    NewRun { fork: Some(fork), background: true, ..child_run(FORK, "m", "m", RunKind::Fork) }
}

/// The writes of a fork's loop, in order.
async fn step(store: &Store, n: usize) -> Result<(), StoreError> {
    let calls = || store.run(&run_id(FORK)).model_calls().expect("calls");
    let open = || calls().last().expect("a question").id;
    let ask = |step| NewModelCall { step, within: vec![limit()], reserved_tokens: 9, ..question(FORK) };
    match n {
        0 => store.start_run(fork(), ME).await,
        1 => store.begin_model_call(ask(1)).await.map(drop),
        2 => store.record_failed_attempt(open(), NewAttempt { status: Some(529), ..attempt("busy") }).await,
        3 => store.finish_model_call(open(), attempt("look"), answer("look", &["put"])).await.map(drop),
        4 => store.start_calls(&run_id(FORK), &[key(FORK, Seq(4), 0)], NOW).await,
        5 => store.finish_call(finished(key(FORK, Seq(4), 0), "done")).await,
        6 => {
            let results = Some(message(Role::User, Origin::Results, "done"));
            store.begin_model_call(NewModelCall { results, ..ask(2) }).await.map(drop)?;
            store.finish_model_call(open(), attempt("yes"), answer("yes", &[])).await.map(drop)
        }
        _ => {
            let fork = Some(ForkEnd { event: r#"{"outcome":"completed"}"#.to_owned(), forget: None });
            let ending = RunEnd { fork, ..ending(RunStatus::Completed, "yes") };
            store.finish_job_and_notify_parent(&run_id(FORK), ending, b"news".to_vec()).await.map(drop)
        }
    }
}

/// Everything that is stored of the fork or sent to its parent, without the numbers of its model calls.
fn everything(store: &Store) -> String {
    let reads = store.run(&run_id(FORK));
    let mut text = String::new();
    let mut line = |what: &dyn std::fmt::Debug| writeln!(text, "{what:?}").expect("a string takes all");
    line(&reads.row().expect("a row"));
    line(&reads.fork().expect("read"));
    for mut message in reads.messages().expect("messages") {
        message.model_call = message.model_call.map(|_| ModelCallId(0));
        line(&message);
    }
    for mut call in reads.model_calls().expect("calls") {
        line(&reads.attempts(call.id).expect("attempts"));
        call.id = ModelCallId(0);
        line(&call);
    }
    line(&reads.tool_calls().expect("calls"));
    line(&reads.totals().expect("totals"));
    line(&store.run(&run_id("m")).jobs().expect("jobs"));
    let waiting = store.run(&run_id("m")).first_in_inbox(10).expect("inbox");
    line(&waiting.into_iter().map(|entry| entry.body).collect::<Vec<_>>());
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn whenever_the_disk_fails_nothing_is_missed_and_all_comes_back() {
    let (undisturbed, _other) = forkable().await;
    for n in 0..STEPS {
        step(&undisturbed.store, n).await.expect("written");
    }
    for fails_at in 0..STEPS {
        let (room, other) = forkable().await;
        let store = room.store.for_fork(&run_id(FORK), &run_id("m"));
        for n in 0..fails_at {
            step(&store, n).await.expect("written");
        }
        assert!(store.in_memory().is_none());
        other.execute_batch("BEGIN IMMEDIATE").expect("locked");
        for n in fails_at..STEPS {
            step(&store, n).await.unwrap_or_else(|error| panic!("{fails_at}, {n}: {error}"));
        }
        assert!(matches!(store.in_memory(), Some(StoreError::Locked { .. })), "{fails_at}");
        assert_eq!(everything(&store), everything(&undisturbed.store), "{fails_at}, in memory");
        let others = room.store.append(&run_id("m"), vec![prompt("now")]).await;
        assert!(matches!(others, Err(StoreError::Locked { .. })), "only forks go on: {others:?}");
        let back = store.back_to_disk().await;
        assert!(matches!(back, Err(StoreError::Locked { .. })), "{fails_at}: {back:?}");
        assert!(store.in_memory().is_some(), "nothing is lost by trying");

        other.execute_batch("ROLLBACK").expect("unlocked");
        // Another run makes a model call meanwhile.
        room.store.turn("m", "more", &[]).await;
        store.back_to_disk().await.unwrap_or_else(|error| panic!("{fails_at}: {error}"));
        assert!(store.in_memory().is_none());
        assert_eq!(everything(&room.reopened()), everything(&undisturbed.store), "{fails_at}, on the disk");
        let sums =
            room.store.read_all(|conn| Ok((stored(conn, &run_id("m"))?, computed(conn, &run_id("m"))?)));
        let (stored, sum) = sums.expect("read");
        assert_eq!(stored, Some(sum), "{fails_at}");
        assert!(room.store.check().expect("checked").problems.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_in_memory_fork_does_not_wait_for_reservations() {
    let (room, other) = forkable().await;
    let store = room.store.for_fork(&run_id(FORK), &run_id("m"));
    let all = NewModelCall { within: vec![limit()], reserved_microusd: 9_000, ..question("m") };
    room.store.begin_model_call(all).await.expect("asked");
    step(&store, 0).await.expect("started");
    let asked = || NewModelCall { within: vec![limit()], reserved_microusd: 2_000, ..question(FORK) };
    let over = store.begin_model_call(asked()).await;
    assert!(matches!(over, Err(StoreError::OverBudget { .. })), "{over:?}");
    other.execute_batch("BEGIN IMMEDIATE").expect("locked");
    store
        .begin_model_call(asked())
        .await
        .expect("nobody gives back in memory what was set aside on the disk");
    let over = store.begin_model_call(NewModelCall { reserved_microusd: 9_000, ..asked() }).await;
    assert!(matches!(over, Err(StoreError::OverBudget { .. })), "its own counts: {over:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_beside_each_other_move_together() {
    let (room, other) = forkable().await;
    let store = room.store.for_fork(&run_id(FORK), &run_id("m"));
    step(&store, 0).await.expect("started");
    other.execute_batch("BEGIN IMMEDIATE").expect("locked");
    let mut writers = tokio::task::JoinSet::new();
    for n in 0..50 {
        let store = store.clone();
        writers.spawn(async move { store.append(&run_id(FORK), vec![prompt(&n.to_string())]).await });
    }
    while let Some(written) = writers.join_next().await {
        written.expect("joined").expect("appended");
    }
    assert_eq!(store.said(FORK).len(), 51);
    assert_eq!(room.store.said(FORK).len(), 1, "the disk is as it was");
}
