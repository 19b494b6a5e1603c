//! The writer: many callers, one commit, and isolation of failures.

use std::sync::mpsc;

use super::*;

/// Keeps the writer busy until the sender is dropped. Writes meanwhile wait in one group.
async fn hold_writer(store: &Store) -> mpsc::Sender<()> {
    let (release, held) = mpsc::channel::<()>();
    let (begun, beginning) = mpsc::channel();
    let work = store.write(move |_| {
        let _ = begun.send(());
        let _ = held.recv();
        Ok(())
    });
    queue(&mut Box::pin(work)).await;
    tokio::task::block_in_place(|| beginning.recv()).expect("the writer took it");
    release
}

/// Polls a write once, which queues it. The writer is busy, so it cannot be ready.
async fn queue<F: Future>(work: &mut std::pin::Pin<Box<F>>) {
    let pending =
        std::future::poll_fn(|cx| std::task::Poll::Ready(work.as_mut().poll(cx).is_pending())).await;
    assert!(pending, "the writer was not held");
}

/// Starts a write and returns when it is in the writer's queue.
async fn queued<T: Send + 'static>(
    work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
) -> tokio::task::JoinHandle<Result<T, StoreError>> {
    let mut work = Box::pin(work);
    queue(&mut work).await;
    tokio::spawn(work)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_keeps_its_order_and_isolates_a_failing_member() {
    let room = room();
    room.store.start_run(main_run("m", "start"), ME).await.expect("started");
    let release = hold_writer(&room.store).await;
    let mut waiting = Vec::new();
    for n in 0..50 {
        let store = room.store.clone();
        let run = if n == 20 { "nobody" } else { "m" };
        waiting.push(
            queued(async move { store.append(&run_id(run), vec![prompt(&format!("{n}"))]).await }).await,
        );
    }
    drop(release);
    for (n, answer) in waiting.into_iter().enumerate() {
        let answer = answer.await.expect("joined");
        match n {
            20 => assert!(matches!(answer, Err(StoreError::NoRun(_))), "{answer:?}"),
            _ => assert_eq!(answer.expect("appended").len(), 1),
        }
    }
    let expected: Vec<String> = std::iter::once("start".to_owned())
        .chain((0..50).filter(|n| *n != 20).map(|n| n.to_string()))
        .collect();
    assert_eq!(room.store.said("m"), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_member_leaves_nothing_behind() {
    let room = room();
    room.store.start_run(main_run("m", "start"), ME).await.expect("started");
    // The second message of the same transaction is refused, so the first must not remain.
    let taken = NewRun { messages: vec![prompt("never")], ..main_run("m", "x") };
    let taken = NewRun {
        thread: RunThread::New(NewThread {
            id: thread_id("other"),
            title: String::new(),
            workspace: String::new(),
        }),
        ..taken
    };
    let refused = room.store.start_run(taken, ME).await;
    assert!(matches!(refused, Err(StoreError::Exists { what: "run", .. })), "{refused:?}");
    assert_eq!(room.store.main().threads(10).expect("threads").len(), 1);
    assert_eq!(room.store.said("m"), ["start"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_fails_after_it_wrote_costs_the_others_nothing() {
    let room = room();
    room.store.start_run(main_run("m", "start"), ME).await.expect("started");
    let release = hold_writer(&room.store).await;
    let append = |text: &'static str| {
        let store = room.store.clone();
        async move { store.append(&run_id("m"), vec![prompt(text)]).await }
    };
    let before = queued(append("before")).await;
    let store = room.store.clone();
    let guilty = queued(async move {
        store
            .write(|conn| -> Result<(), StoreError> {
                conn.execute("DELETE FROM messages", [])?;
                Err(StoreError::Misuse("second thoughts"))
            })
            .await
    })
    .await;
    let after = queued(append("after")).await;
    drop(release);
    assert_eq!(before.await.expect("joined").expect("appended"), [Seq(2)]);
    assert!(matches!(guilty.await.expect("joined"), Err(StoreError::Misuse("second thoughts"))));
    assert_eq!(after.await.expect("joined").expect("appended"), [Seq(3)]);
    assert_eq!(room.store.said("m"), ["start", "before", "after"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_writes_are_committed_together() {
    let room = room();
    room.store.start_run(main_run("m", "start"), ME).await.expect("started");
    let release = hold_writer(&room.store).await;
    let mut waiting = Vec::new();
    for n in 0..10 {
        let store = room.store.clone();
        waiting.push(
            queued(async move { store.append(&run_id("m"), vec![prompt(&format!("{n}"))]).await }).await,
        );
    }
    // The last member reads from outside: nothing of the group is visible before the commit.
    let (store, reader) = (room.store.clone(), room.store.clone());
    let seen = queued(async move { store.write(move |_| Ok(reader.said("m").len())).await }).await;
    drop(release);
    assert_eq!(seen.await.expect("joined").expect("seen"), 1);
    for answer in waiting {
        answer.await.expect("joined").expect("appended");
    }
    assert_eq!(room.store.said("m").len(), 11);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_fails_is_everybodys_error_and_nobodys_end() {
    let room = room();
    room.store.start_run(main_run("m", "start"), ME).await.expect("started");
    let release = hold_writer(&room.store).await;
    let store = room.store.clone();
    let innocent = queued(async move { store.append(&run_id("m"), vec![prompt("lost")]).await }).await;
    let store = room.store.clone();
    let guilty = queued(async move {
        store
            .write(|conn| {
                // Checked only by the commit.
                conn.execute_batch(
                    "PRAGMA defer_foreign_keys = ON;
                     INSERT INTO jobs (run, parent, created_at) VALUES ('ghost', 'ghost', 0);",
                )?;
                Ok(())
            })
            .await
    })
    .await;
    drop(release);
    assert!(matches!(innocent.await.expect("joined"), Err(StoreError::Sqlite(_))));
    assert!(matches!(guilty.await.expect("joined"), Err(StoreError::Sqlite(_))));
    assert_eq!(room.store.said("m"), ["start"]);
    room.store.append(&run_id("m"), vec![prompt("kept")]).await.expect("the writer goes on");
    assert_eq!(room.store.said("m"), ["start", "kept"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_closed_store_commits_waiting_writes() {
    let room = room();
    room.store.start_run(main_run("m", "start"), ME).await.expect("started");
    let release = hold_writer(&room.store).await;
    // No one waits for the answer, and the store is dropped while the writer is busy.
    queue(&mut Box::pin(room.store.append(&run_id("m"), vec![prompt("last")]))).await;
    let Room { store, folder } = room;
    let going = std::thread::spawn(move || drop(store));
    drop(release);
    going.join().expect("gone");
    let again = open(&folder.path().join("store.db")).expect("opens");
    assert_eq!(again.said("m"), ["start", "last"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_reported_and_nothing_is_lost() {
    let room = room();
    room.store.start_run(main_run("m", "start"), ME).await.expect("started");
    let limit = |pages: i64| {
        room.store.write(move |conn| {
            let pages = if pages == 0 {
                conn.pragma_query_value(None, "page_count", |row| row.get::<_, i64>(0))? + 2
            } else {
                pages
            };
            Ok(conn.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))?)
        })
    };
    limit(0).await.expect("limited");
    let big = || prompt(&"x".repeat(100_000));
    let release = hold_writer(&room.store).await;
    let mut waiting = Vec::new();
    for message in [prompt("before"), big(), prompt("after")] {
        let store = room.store.clone();
        waiting.push(queued(async move { store.append(&run_id("m"), vec![message]).await }).await);
    }
    drop(release);
    let mut said = vec!["start".to_owned()];
    for (answer, text) in waiting.into_iter().zip(["before", "big", "after"]) {
        match answer.await.expect("joined") {
            Ok(_) => said.push(text.to_owned()),
            Err(error) => assert!(matches!(error, StoreError::Full { .. }), "{error:?}"),
        }
    }
    assert!(!said.contains(&"big".to_owned()));
    // Acknowledged writes are there, refused ones are not, and writing works again when there is room.
    assert_eq!(room.store.said("m"), said);
    let full = room.store.append(&run_id("m"), vec![big()]).await.expect_err("still full");
    assert!(full.to_string().contains("the disk is full"), "{full}");
    limit(1_000_000).await.expect("room again");
    room.store.append(&run_id("m"), vec![big()]).await.expect("works again");
    assert_eq!(room.reopened().said("m").len(), said.len() + 1);
    assert!(room.store.check().expect("checked").problems.is_empty());
}

/// A member that is rolled back with its group gives the same result when it runs again.
#[tokio::test(flavor = "multi_thread")]
async fn a_tree_that_ends_beside_a_failing_member_keeps_its_last_words() {
    let room = room();
    room.store.start_run(main_run("m", "start"), ME).await.expect("started");
    let release = hold_writer(&room.store).await;
    let store = room.store.clone();
    let left = FinalRecord { partial_text: Some("so far".to_owned()), ..FinalRecord::default() };
    let ends = queued(async move {
        store
            .end_tree(&run_id("m"), CancelScope::Tree, NOW, [(run_id("m"), left)].into(), |_, _| Vec::new())
            .await
    })
    .await;
    let store = room.store.clone();
    // This member fails after it has written, so the whole group is rolled back.
    let work = |conn: &rusqlite::Connection| {
        conn.execute("UPDATE runs SET final_text = 'never'", [])?;
        Err::<(), _>(StoreError::Misuse("it fails"))
    };
    let fails = queued(async move { store.write(work).await }).await;
    drop(release);
    assert_eq!(ends.await.expect("joined").expect("ended"), [run_id("m")]);
    fails.await.expect("joined").expect_err("it fails");
    let row = room.store.run(&run_id("m")).row().expect("a row");
    assert_eq!((row.final_text, row.partial_text.as_deref()), (None, Some("so far")));
}
