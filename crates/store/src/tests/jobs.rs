//! Jobs and the inbox: a wake-up is neither lost nor delivered twice.

use session::TaskId;

use super::*;

async fn with_job() -> Room {
    let room = room();
    room.store.start_run(main_run("m", "start"), ME).await.expect("started");
    room.store.turn("m", "go", &["spawn", "job_output"]).await;
    room.store.start_run(job_run("j", "m"), ME).await.expect("started");
    room
}

async fn finish(store: &Store) -> Result<InboxId, StoreError> {
    let done = ending(RunStatus::Completed, "found it");
    store.finish_job_and_notify_parent(&run_id("j"), done, b"found it".to_vec()).await
}

fn waiting(store: &Store) -> Vec<InboxEntry> {
    store.run(&run_id("m")).inbox().expect("inbox")
}

/// Delivers waiting entries as the next model call does.
async fn deliver(
    store: &Store,
    run: &str,
    entries: &[InboxId],
    text: &str,
) -> Result<ModelCallId, StoreError> {
    let results = Some(message(Role::User, Origin::Inbox, text));
    store.begin_model_call(NewModelCall { results, delivers: entries.to_vec(), ..question(run) }).await
}

#[tokio::test]
async fn a_jobs_end_and_the_news_of_it_are_one() {
    let room = with_job().await;
    let jobs = room.store.run(&run_id("m")).jobs().expect("jobs");
    assert_eq!((jobs[0].status, jobs[0].ended_at), (RunStatus::Running, None));
    for status in [RunStatus::Completed, RunStatus::Failed, RunStatus::Stalled, RunStatus::StepCap] {
        let alone = room.store.end_run(&run_id("j"), ending(status, "")).await;
        assert!(matches!(alone, Err(StoreError::OwesResult(_))), "{status}: {alone:?}");
    }
    let id = finish(&room.store).await.expect("finished");
    let found = waiting(&room.reopened());
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].id, found[0].kind, &found[0].job), (id, InboxKind::Job, &Some(run_id("j"))));
    assert_eq!(found[0].body, b"found it");
    let jobs = room.store.run(&run_id("m")).jobs().expect("jobs");
    assert_eq!((jobs[0].status, jobs[0].ended_at), (RunStatus::Completed, Some(NOW)));
    assert!(matches!(finish(&room.store).await, Err(StoreError::NoJob(_))), "it ends once");
    assert_eq!(waiting(&room.store).len(), 1);
}

#[tokio::test]
async fn waiting_entries_are_delivered_once() {
    let room = with_job().await;
    let id = finish(&room.store).await.expect("finished");
    let other = NewInboxEntry {
        run: run_id("m"),
        kind: InboxKind::Message,
        sent_by: None,
        body: b"hello".to_vec(),
        at: NOW,
    };
    let said = room.store.send(other).await.expect("sent");
    deliver(&room.store, "m", &[id], "job is done").await.expect("delivered");
    let twice = deliver(&room.store, "m", &[said, id], "again").await;
    assert!(matches!(twice, Err(StoreError::AlreadyDelivered(which)) if which == id), "{twice:?}");
    assert_eq!(room.store.said("m"), ["start", "go", "job is done"], "refused as a whole");
    assert_eq!(waiting(&room.store).iter().map(|entry| entry.id).collect::<Vec<_>>(), [said]);
    room.store.start_run(job_run("k", "m"), ME).await.expect("started");
    let foreign = deliver(&room.store, "k", &[said], "not mine").await;
    assert!(matches!(foreign, Err(StoreError::AlreadyDelivered(_))), "{foreign:?}");
}

#[tokio::test]
async fn a_fetched_result_is_not_delivered_again() {
    let room = with_job().await;
    let id = finish(&room.store).await.expect("finished");
    let call = key("m", Seq(2), 1);
    let fetched = finished(call.clone(), "found it");
    assert!(room.store.consume_job(&run_id("j"), fetched.clone()).await.expect("consumed"));
    assert!(waiting(&room.store).is_empty());
    let late = deliver(&room.store, "m", &[id], "late").await;
    assert!(matches!(late, Err(StoreError::AlreadyDelivered(_))), "{late:?}");
    let again = room.store.consume_job(&run_id("j"), fetched).await;
    assert!(matches!(&again, Err(StoreError::AlreadyFinished(which)) if *which == call), "{again:?}");
}

#[tokio::test]
async fn a_result_that_was_delivered_may_still_be_fetched() {
    let room = with_job().await;
    let id = finish(&room.store).await.expect("finished");
    deliver(&room.store, "m", &[id], "job is done").await.expect("delivered");
    let fetched = finished(key("m", Seq(2), 1), "found it");
    assert!(!room.store.consume_job(&run_id("j"), fetched).await.expect("kept"));
    let calls = room.store.run(&run_id("m")).tool_calls().expect("calls");
    assert_eq!(calls[1].status, CallStatus::Done);
    let nobodys = finished(key("j", Seq(1), 0), "");
    let foreign = room.store.consume_job(&run_id("j"), nobodys).await;
    assert!(matches!(foreign, Err(StoreError::NoJob(_))), "only its parent fetches it: {foreign:?}");
}

#[tokio::test]
async fn a_paused_job_still_owes_its_result() {
    let room = with_job().await;
    room.store.end_run(&run_id("j"), ending(RunStatus::Paused, "")).await.expect("paused");
    assert!(waiting(&room.store).is_empty());
    assert_eq!(room.store.run(&run_id("m")).jobs().expect("jobs")[0].ended_at, None);
    room.store.take_lease(&run_id("j"), ME, NOW, |_| true).await.expect("taken up");
    finish(&room.store).await.expect("finished");
    assert_eq!(waiting(&room.store).len(), 1);
}

#[tokio::test]
async fn an_unawaited_run_becomes_a_job() {
    let room = room();
    room.store.start_run(main_run("m", "start"), ME).await.expect("started");
    room.store.start_run(child_run("s", "m", "m", RunKind::Sub), ME).await.expect("started");
    assert_eq!(room.store.run(&run_id("m")).children().expect("children")[0].owes, None);
    for _ in 0..2 {
        room.store.promote_to_job(&run_id("s"), NOW).await.expect("made");
    }
    assert_eq!(room.store.run(&run_id("m")).children().expect("children")[0].owes, Some(true));
    let done = ending(RunStatus::Completed, "found it");
    room.store.finish_job_and_notify_parent(&run_id("s"), done, b"found it".to_vec()).await.expect("ends");
    assert_eq!(room.store.run(&run_id("m")).children().expect("children")[0].owes, Some(false));
    assert!(room.store.run(&run_id("m")).has_waiting_input().expect("read"));
}

#[tokio::test]
async fn the_source_of_a_stop_request_is_stored() {
    let room = with_job().await;
    let cancelled = |run: &str| room.store.run(&run_id(run)).cancel_status().expect("read");
    assert_eq!((cancelled("m"), cancelled("j")), (None, None));
    room.store.request_cancel(&run_id("j"), RunStatus::CancelledByParent, NOW).await.expect("asked");
    assert_eq!((cancelled("m"), cancelled("j")), (None, Some(RunStatus::CancelledByParent)));
    assert_eq!(room.store.run(&run_id("m")).runs_to_cancel().expect("read"), [run_id("j")]);
    assert!(!room.store.run(&run_id("m")).has_waiting_input().expect("read"), "a cancel is no news");
}

#[tokio::test]
async fn an_idle_tree_ends_in_one_commit() {
    let room = with_job().await;
    room.store.start_run(child_run("g", "j", "m", RunKind::Sub), ME).await.expect("started");
    let news = |run: &RunId, ending: &RunEnd| format!("{run} {}", ending.status).into_bytes();
    let ended =
        room.store.end_tree(&run_id("j"), CancelScope::Tree, NOW, [].into(), news).await.expect("ended");
    assert_eq!(ended, [run_id("g"), run_id("j")], "from below");
    let status = |run: &str| room.store.run(&run_id(run)).row().expect("a row").status;
    assert_eq!(
        ["m", "j", "g"].map(status),
        [RunStatus::Running, RunStatus::CancelledByUser, RunStatus::CancelledByUser]
    );
    assert_eq!(waiting(&room.store)[0].body, b"j cancelled_by_user");
    assert!(
        room.store
            .end_tree(&run_id("j"), CancelScope::Tree, NOW, [].into(), news)
            .await
            .expect("nothing left")
            .is_empty()
    );
}

#[tokio::test]
async fn an_answer_is_the_tasks_result_and_a_failure_leaves_it() {
    let room = room();
    room.store.start_run(main_run("m", "start"), ME).await.expect("started");
    let task = NewTask {
        id: TaskId::new("t"),
        thread: thread_id("m"),
        subject: "look".into(),
        description: String::new(),
        at: NOW,
    };
    room.store.create_task(task).await.expect("planned");
    for (run, status, text) in [
        ("a", RunStatus::Completed, "first"),
        ("b", RunStatus::Failed, "half"),
        ("c", RunStatus::CancelledByParent, "less"),
    ] {
        let run_of = NewRun { task: Some(TaskId::new("t")), ..child_run(run, "m", "m", RunKind::Sub) };
        room.store.start_run(run_of, ME).await.expect("started");
        room.store.end_run(&run_id(run), ending(status, text)).await.expect("ended");
        let tasks = room.store.main().tasks(&thread_id("m")).expect("tasks");
        assert_eq!((tasks[0].status, tasks[0].result.as_deref()), (TaskStatus::Pending, Some("first")));
    }
    let attempts = room.store.task_attempts(&TaskId::new("t")).expect("attempts");
    let texts: Vec<&str> =
        attempts.iter().map(|attempt| attempt.final_text.as_deref().unwrap_or_default()).collect();
    assert_eq!(texts, ["first", "", ""]);
}

#[tokio::test]
async fn a_child_inherits_known_files_and_forgets_its_own_copy() {
    let room = room();
    room.store.start_run(main_run("m", "start"), ME).await.expect("started");
    let seq = room.store.turn("m", "go", &["read"]).await;
    let file = |text: &[u8]| SeenFile { path: "a.txt".into(), sha256: Digest::of(text) };
    let read = FinishedCall { seen: vec![file(b"a")], ..finished(key("m", seq, 0), "a") };
    room.store.finish_call(read).await.expect("finished");
    room.store.start_run(child_run("s", "m", "m", RunKind::Sub), ME).await.expect("started");
    let seq = room.store.turn("s", "go", &["write"]).await;
    let written = FinishedCall { seen: vec![file(b"b")], ..finished(key("s", seq, 0), "b") };
    room.store.finish_call(written).await.expect("finished");
    let known = |run: &str| room.store.run(&run_id(run)).seen_files().expect("files");
    assert_eq!((known("m"), known("s")), (vec![file(b"a")], vec![file(b"b")]));
}

#[tokio::test]
async fn a_reservation_counts_until_it_is_settled() {
    let room = with_job().await;
    let within = |microusd, tokens| vec![Limit { run: run_id("m"), microusd, tokens }];
    // The turn of the main run has cost 100 of them.
    let open = NewModelCall { within: within(Some(1000), None), ..question("j") };
    let call = room.store.begin_model_call(open.clone()).await.expect("500 fit");
    let second = room.store.begin_model_call(open.clone()).await;
    assert!(
        matches!(
            second,
            Err(StoreError::OverBudget { used: 100, reserved: 500, wanted: 500, most: 1000, .. })
        ),
        "{second:?}"
    );
    room.store.finish_model_call(call, attempt("raw"), answer("found", &[])).await.expect("answered");
    room.store.begin_model_call(open).await.expect("it cost 100 only");

    let open = NewModelCall { within: within(None, Some(60)), reserved_tokens: 20, ..question("j") };
    let call = room.store.begin_model_call(open.clone()).await.expect("36 are used, and 20 fit");
    let second = room.store.begin_model_call(open.clone()).await;
    assert!(
        matches!(second, Err(StoreError::OverBudget { unit: "tokens", used: 36, reserved: 20, .. })),
        "{second:?}"
    );
    room.store.fail_model_call(call, NOW, "given up").await.expect("free again");
    room.store.begin_model_call(open).await.expect("20 fit again");
}
