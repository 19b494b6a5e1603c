//! Runs that are taken up again, with and without something new to say.

use std::sync::atomic::Ordering;

use expect_test::expect;
use store::Origin;

use super::*;

/// Plays a story until a tool hangs, and drops the loop there, as if the process had been killed.
async fn killed_in_a_tool(room: &Room, story: &str) {
    tokio::select! {
        told = room.play(story) => panic!("it was to hang: {told}"),
        () = room.state.entered.notified() => {}
    }
    assert_eq!(room.status(), RunStatus::Running, "nobody was there to end it");
}

const BROKEN: &str = r#"
    > work
    < echo{"say":"kept"} + hang_count{} + put{"n":1} + count{}
"#;

#[tokio::test(start_paused = true)]
async fn an_ended_run_accepts_another_prompt() {
    check(
        "> hi\n< hello\n> and now?\n< echo{\"say\":\"x\"}\n< bye",
        expect![[r#"
        prompt: hi
        reply: hello
        = completed: hello
        prompt: and now?
        reply: a=echo{"say":"x"}
        results: a gives x
        reply: bye
        = completed: bye
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_had_ended_needs_something_new() {
    check(
        "> hi\n< hello\n>>",
        expect![[r#"
        prompt: hi
        reply: hello
        = completed: hello
        ! run `RUN` is completed and has nothing to continue
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_run_resumes_with_or_without_a_prompt() {
    check(
        "> hi\n< ! 401\n>>\n< hello",
        expect![[r#"
        prompt: hi
        = failed: nothing (the provider says 401)
        reply: hello
        = completed: hello
    "#]],
    )
    .await;
    check(
        "> hi\n< ! 401\n> are you there?\n< yes",
        expect![[r#"
        prompt: hi
        = failed: nothing (the provider says 401)
        prompt: are you there?
        reply: yes
        = completed: yes
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn calls_that_were_broken_off_are_made_again_where_that_is_harmless() {
    let room = Room::new();
    killed_in_a_tool(&room, BROKEN).await;
    check_in(
        &room,
        ">>\n< I see",
        expect![[r#"
        results: a gives kept + b gives MAY_HAVE_RUN + c gives put 1 + d gives 2
        reply: I see
        = completed: I see
    "#]],
    )
    .await;
    expect![[r#"
        a echo: done
        b hang_count: may_have_run
        c put: done
        d count: done"#]]
    .assert_eq(&room.calls().join("\n"));
    assert_eq!(room.state.count.load(Ordering::Relaxed), 2, "begun once, and the other one counted");
}

#[tokio::test(start_paused = true)]
async fn interrupted_calls_get_results_before_a_new_prompt() {
    let rooms = DIALECTS.map(Room::speaking);
    for room in &rooms {
        killed_in_a_tool(room, BROKEN).await;
    }
    check_all(
        &rooms,
        "> never mind\n< as you wish",
        expect![[r#"
        results: a gives kept + b gives MAY_HAVE_RUN + c gives NO_RESULT + d gives NO_RESULT
        prompt: never mind
        reply: as you wish
        = completed: as you wish
    "#]],
    )
    .await;
    expect![[r#"
        a echo: done
        b hang_count: may_have_run
        c put: failed
        d count: failed"#]]
    .assert_eq(&rooms[0].calls().join("\n"));
    assert_eq!(rooms[0].state.count.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_started_call_is_never_reported_as_not_made() {
    let room = Room::new();
    killed_in_a_tool(&room, "> work\n< hang_put{}").await;
    check_in(
        &room,
        "> never mind\n< as you wish",
        expect![[r#"
        results: a gives MAY_HAVE_RUN
        prompt: never mind
        reply: as you wish
        = completed: as you wish
    "#]],
    )
    .await;
    let room = Room::new();
    killed_in_a_tool(&room, "> work\n< hang{}").await;
    check_in(
        &room,
        "> never mind\n< as you wish",
        expect![[r#"
        results: a gives NO_RESULT
        prompt: never mind
        reply: as you wish
        = completed: as you wish
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_open_question_is_replaced_by_a_new_prompt() {
    let rooms = DIALECTS.map(Room::speaking);
    for room in &rooms {
        let stop_handle = room.stop_handle();
        room.model.when_waited_for(move || stop_handle.request(StopRequest::Pause));
        room.play("> hi\n< ...").await;
    }
    check_all(
        &rooms,
        "> wait, first this\n< fine",
        expect![[r#"
        prompt: wait, first this
        reply: fine
        = completed: fine
    "#]],
    )
    .await;
    for room in rooms {
        assert_eq!(room.attempts(), ["failed: stopped", "answered: complete"]);
        let totals = room.store.runs(&store::Filter::default()).expect("runs")[0].own;
        assert_eq!(totals.reserved_microusd, 0, "nothing stays set aside");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_resumes_only_in_its_own_dialect() {
    let room = Room::new();
    room.play("> hi\n< ! 401").await;
    let other = Kernel { model: Arc::new(Fake::new(Dialect::OpenAiChat)), ..room.kernel() };
    let refused = other.resume(&room.run(), None).await;
    assert!(matches!(refused, Err(RunError::DialectMismatch { .. })), "{refused:?}");
    assert_eq!(room.status(), RunStatus::Failed, "it is as it was");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_dropped_anywhere_ends_alike() {
    let story = r#"
        > work
        < echo{"say":"one"} + put{"n":1}
        < peek{"n":2} + echo{"say":"two"}
        < done
    "#;
    let undisturbed = Room::new();
    undisturbed.play(story).await;
    // A loop that is dropped after so many times that it was looked at, wherever that is.
    for patience in (0..40).chain([50, 70, 100, 150]) {
        let room = undisturbed.again();
        for line in story.lines().map(str::trim).filter(|line| line.starts_with('<')) {
            room.model.shall_say(line[1..].trim());
        }
        let kernel = room.kernel();
        let run = kernel.start(room.start_of("work")).await.expect("started");
        *room.run.lock().expect("lock is not poisoned") = Some(run.clone());
        let (stop_handle, more) = (StopHandle::new(), ResumeOverrides::default());
        let mut work = Box::pin(kernel.run(&run, &more, &stop_handle));
        let mut looks = 0;
        let ended = std::future::poll_fn(|cx| {
            looks += 1;
            match work.as_mut().poll(cx) {
                std::task::Poll::Ready(ended) => std::task::Poll::Ready(Some(ended)),
                std::task::Poll::Pending if looks > patience => std::task::Poll::Ready(None),
                std::task::Poll::Pending => std::task::Poll::Pending,
            }
        });
        let ended = ended.await;
        drop(work);
        // The writer completes what it was given even if the caller is gone; this write comes after it.
        room.store.append(&run, Vec::new()).await.expect("nothing is appended");
        if ended.is_none() && room.status() != RunStatus::Completed {
            // A reply that was heard and not written down is said again.
            let reads = room.store.run(&run);
            let replies =
                reads.messages().expect("messages").into_iter().filter(|m| m.origin == Origin::Reply);
            let replies = replies.count();
            room.model.forgets(reads.tool_calls().expect("calls").len());
            let answers: Vec<&str> =
                story.lines().map(str::trim).filter(|line| line.starts_with('<')).collect();
            room.play(&format!(">>\n{}", answers[replies..].join("\n"))).await;
        }
        assert_eq!(room.transcript(), undisturbed.transcript(), "dropped after {patience}");
        assert_eq!(room.status(), RunStatus::Completed);
    }
}
