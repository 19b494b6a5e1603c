//! Runs that go on: after a killed process, after a pause, and after their end, with a message.

use session::TaskId;

use super::*;

const LATER: Millis = Millis(2_000);

fn from_call(run: &str, position: u32) -> NewInboxEntry {
    let sent_by = Some(key("m", Seq(2), position));
    NewInboxEntry { run: run_id(run), kind: InboxKind::Message, sent_by, body: b"go on".to_vec(), at: LATER }
}

/// A main run with a sub-agent that works on a task.
async fn with_sub_agent() -> Room {
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
    let sub = NewRun { task: Some(TaskId::new("t")), ..child_run("s", "m", "m", RunKind::Sub) };
    room.store.start_run(sub, ME).await.expect("started");
    room
}

#[tokio::test]
async fn a_request_that_was_open_at_a_kill_is_an_attempt_without_an_end_and_of_unknown_cost() {
    let room = with_sub_agent().await;
    let call = room.store.begin_model_call(question("s")).await.expect("asked");
    let attempts = || {
        let attempts = room.store.run(&run_id("s")).attempts(call).expect("attempts");
        attempts.iter().map(|it| (it.n, it.ending.clone(), it.ended_at)).collect::<Vec<_>>()
    };
    let unpriced = |run: &str| {
        let totals = room.store.run(&run_id(run)).totals().expect("totals");
        (totals.unpriced, totals.open)
    };
    assert_eq!(attempts(), [(1, "open".to_owned(), None)]);
    assert_eq!(unpriced("m"), (0, 1));
    // Another process resumes it.
    room.store
        .take_lease(&run_id("s"), Lease { pid: 8, start: 80 }, LATER, |_| false)
        .await
        .expect("resumed");
    assert_eq!(attempts()[0], (1, "killed".to_owned(), None));
    room.store.finish_model_call(call, attempt("yes"), answer("yes", &[])).await.expect("answered");
    assert_eq!(attempts(), [(1, "killed".to_owned(), None), (2, "complete".to_owned(), Some(NOW))]);
    assert_eq!((unpriced("s"), unpriced("m")), ((1, 0), (1, 0)));
    let resumed = room.store.run(&run_id("s")).resumptions().expect("resumptions");
    assert_eq!(resumed, [Resumption { at: LATER, status: RunStatus::Running }]);
}

#[tokio::test]
async fn a_pause_leaves_no_attempt_without_an_end() {
    let room = with_sub_agent().await;
    let call = room.store.begin_model_call(question("s")).await.expect("asked");
    room.store.record_failed_attempt(call, attempt("stopped")).await.expect("kept");
    room.store.end_run(&run_id("s"), ending(RunStatus::Paused, "so far")).await.expect("paused");
    room.store.take_lease(&run_id("s"), ME, LATER, |_| false).await.expect("resumed");
    room.store.end_run(&run_id("s"), ending(RunStatus::Paused, "so far")).await.expect("paused");
    let attempts = room.store.run(&run_id("s")).attempts(call).expect("attempts");
    assert!(attempts.len() == 1 && attempts[0].ended_at.is_some(), "{attempts:?}");
    assert_eq!(room.store.run(&run_id("s")).totals().expect("totals").unpriced, 0);
}

#[tokio::test]
async fn a_killed_run_that_is_cancelled_keeps_its_open_request() {
    let room = with_sub_agent().await;
    let call = room.store.begin_model_call(question("s")).await.expect("asked");
    let notice = |_: &RunId, _: &RunEnd| Vec::new();
    room.store.end_tree(&run_id("m"), CancelScope::Tree, LATER, [].into(), notice).await.expect("ended");
    let attempts = room.store.run(&run_id("s")).attempts(call).expect("attempts");
    assert_eq!((attempts.len(), attempts[0].ending.as_str(), attempts[0].ended_at), (1, "killed", None));
    assert_eq!(room.store.run(&run_id("m")).totals().expect("totals").unpriced, 1);
}

#[tokio::test]
async fn only_ended_runs_are_attempts_at_a_task_and_only_completed_ones_have_an_answer() {
    for status in RunStatus::ALL.iter().copied().filter(|status| !status.is_live()) {
        let room = with_sub_agent().await;
        let attempts = || room.store.task_attempts(&TaskId::new("t")).expect("attempts");
        assert_eq!(attempts(), []);
        let ending = RunEnd { error: Some("why".to_owned()), ..ending(status, "text") };
        room.store.end_run(&run_id("s"), ending).await.expect("ended");
        let row = room.store.run(&run_id("s")).row().expect("a row");
        let is_answer = matches!(status, RunStatus::Completed | RunStatus::StepCap);
        assert_eq!(
            (row.final_text.is_some(), row.partial_text.is_some()),
            (is_answer, !is_answer),
            "{status}"
        );
        let listed: Vec<_> = attempts().into_iter().map(|it| (it.status, it.error, it.final_text)).collect();
        let answer = is_answer.then(|| "text".to_owned());
        let expected = (!status.is_paused()).then(|| (status, Some("why".to_owned()), answer));
        assert_eq!(listed, Vec::from_iter(expected), "{status}");
        if status.is_paused() {
            room.store.take_lease(&run_id("s"), ME, LATER, |_| false).await.expect("resumed");
            let row = room.store.run(&run_id("s")).row().expect("a row");
            assert_eq!((row.final_text, row.partial_text), (None, None), "{status}");
        }
    }
}

#[tokio::test]
async fn a_message_is_sent_once_and_keeps_its_run_from_completing() {
    let room = with_sub_agent().await;
    let sent = room.store.send(from_call("s", 0)).await.expect("sent");
    assert_eq!(room.store.send(from_call("s", 0)).await.expect("repeated"), sent);
    assert!(room.store.run(&run_id("m")).tree_has_message().expect("read"));
    assert_eq!(room.store.run(&run_id("s")).inbox().expect("inbox").len(), 1);
    let early = room.store.end_run(&run_id("s"), ending(RunStatus::Completed, "done")).await;
    assert!(matches!(early, Err(StoreError::HasMessage(_))), "{early:?}");
    let results = Some(message(Role::User, Origin::Inbox, "go on"));
    let delivery = NewModelCall { results, delivers: vec![sent], ..question("s") };
    room.store.begin_model_call(delivery).await.expect("delivered");
    assert!(!room.store.run(&run_id("m")).tree_has_message().expect("read"));
    room.store.end_run(&run_id("s"), ending(RunStatus::Completed, "done")).await.expect("ended");
    let late = room.store.send(from_call("s", 1)).await;
    assert!(matches!(late, Err(StoreError::Over { .. })), "{late:?}");
    room.store.send(from_call("s", 0)).await.expect("a repeated call finds what it sent");
}

#[tokio::test]
async fn an_ended_run_is_continued_once_by_a_call() {
    let room = with_sub_agent().await;
    let go_on = |position| room.store.continue_run(from_call("s", position), ME, true);
    let early = go_on(0).await;
    assert!(matches!(early, Err(StoreError::AtWork { .. })), "{early:?}");
    room.store.end_run(&run_id("s"), ending(RunStatus::Completed, "done")).await.expect("ended");
    for _ in 0..2 {
        go_on(0).await.expect("continued");
        let row = room.store.run(&run_id("s")).row().expect("a row");
        assert_eq!((row.status, row.final_text, row.ended_at), (RunStatus::Running, None, None));
        assert_eq!(room.store.run(&run_id("s")).inbox().expect("inbox").len(), 1);
        assert_eq!(room.store.run(&run_id("m")).job_owes_result(&run_id("s")).expect("read"), Some(true));
    }
    let entry = room.store.run(&run_id("s")).inbox().expect("inbox")[0].id;
    let results = Some(message(Role::User, Origin::Inbox, "go on"));
    let delivery = NewModelCall { results, delivers: vec![entry], ..question("s") };
    room.store.begin_model_call(delivery).await.expect("delivered");
    let done = ending(RunStatus::Completed, "more");
    room.store.finish_job_and_notify_parent(&run_id("s"), done.clone(), b"1".to_vec()).await.expect("ended");
    go_on(0).await.expect("the same call continues nothing twice");
    assert_eq!(room.store.run(&run_id("s")).row().expect("a row").status, RunStatus::Completed);
    go_on(1).await.expect("another call continues it again");
    let foreign = room.store.continue_run(from_call("m", 2), ME, false).await;
    assert!(matches!(foreign, Err(StoreError::Misuse(_))), "{foreign:?}");
}
