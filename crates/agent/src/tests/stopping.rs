//! Pauses and cancels: in the middle of everything, and what is left behind.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use expect_test::expect;
use store::{Millis, ModelCallStatus};

use super::*;

#[tokio::test(start_paused = true)]
async fn a_pause_during_a_model_call_is_resumable() {
    let room = Room::new();
    let stop_handle = room.stop_handle();
    room.model.when_waited_for(move || stop_handle.request(StopRequest::Pause));
    check_in(
        &room,
        "> hi\n< ...",
        expect![[r#"
        prompt: hi
        = paused: nothing
    "#]],
    )
    .await;
    assert_eq!(room.attempts(), ["asked: stopped"]);
    check_in(
        &room,
        ">>\n< hello",
        expect![[r#"
        reply: hello
        = completed: hello
    "#]],
    )
    .await;
    // The same question, asked exactly once more.
    let asked = room.model.asked();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0], asked[1]);
    assert_eq!(room.attempts(), ["answered: stopped complete"]);
}

#[tokio::test(start_paused = true)]
async fn paused_while_a_retry_is_waited_for() {
    let room = Room::new();
    // The provider wants five minutes; a pause is not that patient.
    room.model.shall_say("! 529 after=299");
    let kernel = room.kernel();
    let run = kernel.start(room.start_of("hi")).await.expect("started");
    *room.run.lock().expect("lock is not poisoned") = Some(run.clone());
    let stop_handle = room.stop_handle();
    let (more, asking) = (ResumeOverrides::default(), room.model.clone());
    let pause = async {
        while asking.asked().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        tokio::time::sleep(Duration::from_secs(30)).await;
        stop_handle.request(StopRequest::Pause);
    };
    let (ended, ()) = tokio::join!(kernel.run(&run, &more, &stop_handle), pause);
    assert_eq!(ended.expect("ended").status, RunStatus::Paused);
    assert_eq!(room.attempts(), ["asked: overloaded"]);
    *room.stop_handle.lock().expect("lock is not poisoned") = StopHandle::new();
    check_in(
        &room,
        ">>\n< hello",
        expect![[r#"
        reply: hello
        = completed: hello
    "#]],
    )
    .await;
    assert_eq!(room.attempts(), ["answered: overloaded complete"]);
}

#[tokio::test(start_paused = true)]
async fn paused_while_tools_run() {
    let room = Room::new();
    let stop_handle = room.stop_handle();
    room.state.when_slow(move || stop_handle.request(StopRequest::Pause));
    // The running call ends and is stored; the calls after it are not started.
    check_in(
        &room,
        r#"> work
        < slow{} + peek{"n":1} + count{}"#,
        expect![[r#"
            prompt: work
            reply: a=slow{} + b=peek{"n":1} + c=count{}
            = paused: nothing
        "#]],
    )
    .await;
    expect![[r#"
        a slow: done
        b peek: done
        c count: planned"#]]
    .assert_eq(&room.calls().join("\n"));
    check_in(
        &room,
        ">>\n< done",
        expect![[r#"
        results: a gives slowly done + b gives peek 1 + c gives 1
        reply: done
        = completed: done
    "#]],
    )
    .await;
    assert_eq!(room.state.count.load(Ordering::Relaxed), 1);
    assert_eq!(room.state.log(), ["peek begins 1", "peek ends 1"]);
}

#[tokio::test(start_paused = true)]
async fn paused_before_anything_is_done() {
    let room = Room::new();
    room.stop_handle().request(StopRequest::Pause);
    check_in(
        &room,
        "> hi",
        expect![[r#"
        prompt: hi
        = paused: nothing
    "#]],
    )
    .await;
    assert_eq!(room.model.asked().len(), 0);
    check_in(
        &room,
        ">>\n< hello",
        expect![[r#"
        reply: hello
        = completed: hello
    "#]],
    )
    .await;
}

#[tokio::test]
async fn cancelled_from_elsewhere_within_a_second() {
    let room = Room::new();
    let (entered, waited_for) = tokio::sync::oneshot::channel();
    let entered = Mutex::new(Some(entered));
    room.model.when_waited_for(move || {
        entered.lock().expect("lock is not poisoned").take().map(|entered| entered.send(()));
    });
    let other = open(&room.folder);
    let cancel = async {
        waited_for.await.expect("asked");
        other
            .request_cancel(&room.run(), store::RunStatus::CancelledByUser, Millis(0))
            .await
            .expect("cancelled");
        Instant::now()
    };
    let (told, at) = tokio::join!(room.play("> hi\n< ..."), cancel);
    assert!(at.elapsed() < Duration::from_secs(1), "{:?}", at.elapsed());
    expect![[r#"
        prompt: hi
        = cancelled_by_user: nothing
    "#]]
    .assert_eq(&told);
    check_in(
        &room,
        ">>\n> please",
        expect![[r#"
            ! run `RUN` is cancelled by user and has nothing to continue
            ! run `RUN` is cancelled by user and has nothing to continue
        "#]],
    )
    .await;
}

#[tokio::test]
async fn a_cancel_ends_a_tool_that_hangs_within_a_second() {
    let room = Room::new();
    let other = open(&room.folder);
    let cancel = async {
        room.state.entered.notified().await;
        other
            .request_cancel(&room.run(), store::RunStatus::CancelledByUser, Millis(0))
            .await
            .expect("cancelled");
        Instant::now()
    };
    let story = r#"> work
        < hang{} + echo{"say":"x"} + count{}"#;
    let (told, at) = tokio::join!(room.play(story), cancel);
    assert!(at.elapsed() < Duration::from_secs(1), "{:?}", at.elapsed());
    expect![[r#"
        prompt: work
        reply: a=hang{} + b=echo{"say":"x"} + c=count{}
        = cancelled_by_user: nothing
    "#]]
    .assert_eq(&told);
    expect![[r#"
        a hang: failed
        b echo: done
        c count: planned"#]]
    .assert_eq(&room.calls().join("\n"));
}

#[tokio::test]
async fn no_step_begins_behind_a_cancel() {
    // The next step would be a call, or a question; both are refused by the journal itself, before anybody has looked.
    for (story, left) in
        [("> work\n< told_to_end{} + count{}\n< never", 2), ("> work\n< told_to_end{}\n< never", 1)]
    {
        let room = Room::new();
        let told = room.play(story).await;
        assert!(told.ends_with("\n= cancelled_by_user: nothing\n"), "{told}");
        assert_eq!(room.state.count.load(Ordering::Relaxed), 0);
        assert_eq!(room.model.asked().len(), 1);
        let calls = room.calls();
        assert_eq!(calls.len(), left);
        assert!(calls.get(1).is_none_or(|call| call == "b count: planned"), "{calls:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_may_have_run() {
    let room = Room::new();
    let stop_handle = room.stop_handle();
    let cancel = async {
        room.state.entered.notified().await;
        stop_handle.request(StopRequest::Cancel);
    };
    let (told, ()) = tokio::join!(room.play("> work\n< hang_count{}"), cancel);
    assert!(told.ends_with("= cancelled_by_user: nothing\n"), "{told}");
    assert_eq!(room.calls(), ["a hang_count: may_have_run"]);
}

#[tokio::test(start_paused = true)]
async fn an_early_cancel_is_seen_before_the_first_model_call() {
    let room = Room::new();
    let stop_handle = room.stop_handle();
    room.model.when_waited_for(move || stop_handle.request(StopRequest::Pause));
    room.play("> hi\n< ...").await;
    room.store
        .request_cancel(&room.run(), store::RunStatus::CancelledByUser, Millis(0))
        .await
        .expect("cancelled");
    check_in(
        &room,
        ">>\n< hello",
        expect![[r#"
        = cancelled_by_user: nothing
    "#]],
    )
    .await;
    assert_eq!(room.model.asked().len(), 1, "the open question is not asked again");
    let calls = room.store.run(&room.run()).model_calls().expect("calls");
    assert_eq!(calls[0].status, ModelCallStatus::Failed);
}

#[tokio::test(start_paused = true)]
async fn a_late_cancel_does_not_end_a_later_prompt() {
    let room = Room::new();
    let (store, folder) = (room.store.clone(), &room.folder);
    room.play("> hi\n< hello").await;
    // It met the run while its last reply was written down.
    store
        .send(store::NewInboxEntry {
            run: room.run(),
            kind: store::InboxKind::Cancel,
            sent_by: None,
            body: Vec::new(),
            at: Millis(0),
        })
        .await
        .expect("sent");
    check_in(
        &room,
        "> more\n< of course",
        expect![[r#"
        prompt: more
        reply: of course
        = completed: of course
    "#]],
    )
    .await;
    assert!(!open(folder).cancel_requested(&room.run()).expect("read"));
}
