//! Leases, and the steps that a cancellation prevents.

use super::*;

const OTHER: Lease = Lease { pid: 8, start: u64::MAX };

async fn started() -> Room {
    let room = room();
    room.store.start_run(main_run("m", "start"), ME).await.expect("started");
    room
}

fn row(store: &Store, run: &str) -> Run {
    store.run(&run_id(run)).row().expect("a row")
}

#[tokio::test]
async fn a_live_writer_keeps_others_out_and_a_dead_one_does_not() {
    let room = started().await;
    assert_eq!(row(&room.store, "m").writer, Some(ME));
    let refused = room.store.take_lease(&run_id("m"), OTHER, NOW, |_| true).await;
    assert!(matches!(refused, Err(StoreError::Held { holder: ME, .. })), "{refused:?}");
    let taken = room.store.take_lease(&run_id("m"), OTHER, NOW, |holder| holder != ME).await;
    assert_eq!(taken.expect("its holder is dead"), RunStatus::Running);
    assert_eq!(row(&room.store, "m").writer, Some(OTHER));
    room.store.take_lease(&run_id("m"), OTHER, NOW, |_| true).await.expect("one's own can be taken again");
}

#[tokio::test]
async fn the_lease_is_the_whole_trees() {
    let room = started().await;
    let store = &room.store;
    let stranger = store.start_run(child_run("s", "m", "m", RunKind::Sub), OTHER).await;
    assert!(matches!(stranger, Err(StoreError::Held { .. })), "{stranger:?}");
    store.start_run(child_run("s", "m", "m", RunKind::Sub), ME).await.expect("started");
    assert_eq!(row(store, "s").root, run_id("m"));
    let refused = store.take_lease(&run_id("s"), OTHER, NOW, |_| true).await;
    assert!(matches!(refused, Err(StoreError::Held { .. })), "{refused:?}");
    store.end_run(&run_id("m"), ending(RunStatus::Completed, "bye")).await.expect("ended");
    assert_eq!(row(store, "m").writer, Some(ME), "a child is still at work");
    store.end_run(&run_id("s"), ending(RunStatus::Paused, "")).await.expect("paused");
    assert_eq!(row(store, "m").writer, None);
    store.take_lease(&run_id("s"), OTHER, NOW, |_| true).await.expect("free");
    assert_eq!(row(store, "m").writer, Some(OTHER));
    assert_eq!(row(store, "m").status, RunStatus::Completed, "only the child is taken up");
}

#[tokio::test]
async fn a_run_below_another_is_of_its_thread_and_of_its_kind() {
    let room = started().await;
    let store = &room.store;
    store.start_run(main_run("n", "start"), ME).await.expect("started");
    let wrong = [
        child_run("s", "m", "n", RunKind::Sub),
        child_run("s", "m", "m", RunKind::Main),
        NewRun { kind: RunKind::Sub, ..main_run("s", "start") },
        NewRun { background: true, ..main_run("s", "start") },
    ];
    for run in wrong {
        let refused = store.start_run(run, ME).await;
        assert!(matches!(refused, Err(StoreError::Misuse(_))), "{refused:?}");
    }
    let orphan = store.start_run(child_run("s", "nobody", "m", RunKind::Sub), ME).await;
    assert!(matches!(orphan, Err(StoreError::NoRun(_))), "{orphan:?}");
    let homeless = store.start_run(child_run("s", "m", "nowhere", RunKind::Sub), ME).await;
    assert!(matches!(homeless, Err(StoreError::NoThread(_))), "{homeless:?}");
}

#[tokio::test]
async fn an_ended_run_gives_no_lease() {
    for status in RunStatus::ALL.iter().copied().filter(|status| !status.is_live()) {
        let room = started().await;
        let error = Some("because".to_owned());
        let end = RunEnd { error, ..ending(status, "bye") };
        room.store.end_run(&run_id("m"), end).await.expect("ended");
        let ended = row(&room.store, "m");
        assert_eq!((ended.status, ended.writer, ended.ended_at), (status, None, Some(NOW)));
        assert_eq!(ended.final_text.or(ended.partial_text).as_deref(), Some("bye"));
        let step = room.store.begin_model_call(question("m")).await;
        assert!(matches!(step, Err(StoreError::Over { .. })), "{status}: {step:?}");
        let taken = room.store.take_lease(&run_id("m"), OTHER, NOW, |_| true).await;
        let again = room.store.end_run(&run_id("m"), ending(RunStatus::Failed, "")).await;
        if status.is_final() {
            assert!(matches!(taken, Err(StoreError::Over { .. })), "{status}: {taken:?}");
            assert!(matches!(again, Err(StoreError::Over { .. })), "{status}: {again:?}");
        } else {
            assert_eq!(taken.expect("resumable"), status);
            again.expect("it can end otherwise");
        }
    }
}

#[tokio::test]
async fn taking_up_makes_it_run_again() {
    let room = started().await;
    room.store.park(&run_id("m"), NOW).await.expect("parked");
    assert_eq!(row(&room.store, "m").status, RunStatus::Waiting);
    room.store.wake(&run_id("m"), NOW).await.expect("woken");
    let end = RunEnd { error: Some("529".to_owned()), ..ending(RunStatus::Stalled, "") };
    room.store.end_run(&run_id("m"), end).await.expect("ended");
    room.store.take_lease(&run_id("m"), OTHER, Millis(2_000), |_| true).await.expect("taken");
    let run = row(&room.store, "m");
    assert_eq!((run.status, run.error, run.ended_at), (RunStatus::Running, None, None));
    assert_eq!((run.created_at, run.started_at, run.writer), (NOW, Millis(2_000), Some(OTHER)));
}

#[tokio::test]
async fn behind_a_cancel_no_step_starts_in_the_tree() {
    let room = started().await;
    let store = &room.store;
    store.start_run(child_run("s", "m", "m", RunKind::Sub), ME).await.expect("started");
    store.start_run(child_run("t", "m", "m", RunKind::Sub), ME).await.expect("started");
    let seq = store.turn("s", "go", &["read"]).await;
    let asked = store.begin_model_call(question("s")).await.expect("asked");
    store.request_cancel(&run_id("t"), RunStatus::CancelledByUser, NOW).await.expect("cancelled");
    assert!(!store.cancel_requested(&run_id("s")).expect("read"), "a cancel never goes up or sideways");
    assert!(!store.cancel_requested(&run_id("m")).expect("read"));
    store.request_cancel(&run_id("m"), RunStatus::CancelledByUser, NOW).await.expect("cancelled");
    store.request_cancel(&run_id("m"), RunStatus::CancelledByUser, NOW).await.expect("twice is once");
    assert_eq!(store.run(&run_id("m")).inbox().expect("inbox").len(), 1);
    assert!(store.cancel_requested(&run_id("s")).expect("read"));

    let refused = [
        store.begin_model_call(question("s")).await.map(|_| ()),
        store.start_calls(&run_id("s"), &[key("s", seq, 0)], NOW).await,
        store.start_run(child_run("u", "s", "m", RunKind::Sub), ME).await,
    ];
    for refused in refused {
        assert!(matches!(refused, Err(StoreError::CancelRequested(_))), "{refused:?}");
    }
    // Steps that had started may still be stored.
    store.finish_model_call(asked, attempt("raw"), answer("done", &[])).await.expect("kept");
    store.finish_call(finished(key("s", seq, 0), "not run")).await.expect("kept");
    store.end_run(&run_id("s"), ending(RunStatus::CancelledByParent, "")).await.expect("ended");
    store.end_run(&run_id("m"), ending(RunStatus::CancelledByUser, "")).await.expect("ended");
    let late = store.request_cancel(&run_id("m"), RunStatus::CancelledByUser, NOW).await;
    assert!(matches!(late, Err(StoreError::Over { .. })), "{late:?}");
}
