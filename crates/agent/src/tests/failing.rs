//! Providers that fail: how often they are asked again, what is kept of it, and that it can go on.

use std::time::Duration;

use expect_test::expect;
use tokio::time::Instant;

use super::*;

#[tokio::test(start_paused = true)]
async fn temporary_failures_are_retried() {
    let room = Room::new();
    let story = "> hi\n< ! 429\n< ! 529\n< ! 500\n< ! cut\n< ! no_connection\n< hello";
    check_in(
        &room,
        story,
        expect![[r#"
        prompt: hi
        reply: hello
        = completed: hello
    "#]],
    )
    .await;
    assert_eq!(room.attempts(), ["answered: rate_limited overloaded refused cut no_connection complete"]);
    // Always the same bytes, and all that came back is kept.
    let asked = room.model.asked();
    assert!(asked.iter().all(|body| *body == asked[0]));
    let reads = room.store.run(&room.run());
    let attempts = reads.attempts(reads.model_calls().expect("calls")[0].id).expect("attempts");
    assert_eq!(attempts.iter().map(|attempt| attempt.n).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
    assert_eq!(attempts[0].response, b"the provider says 429");
    assert!(attempts[5].response.starts_with(b"event: message_start"));
}

#[tokio::test(start_paused = true)]
async fn the_retry_delay_of_the_provider_is_used() {
    let room = Room::new();
    let begin = Instant::now();
    room.play("> hi\n< ! 429 after=120\n< hello").await;
    assert!(begin.elapsed() >= Duration::from_secs(120), "{:?}", begin.elapsed());
    let reads = room.store.run(&room.run());
    let attempts = reads.attempts(reads.model_calls().expect("calls")[0].id).expect("attempts");
    assert_eq!(attempts[0].retry_after_ms, Some(120_000));
    // More than we are ready to wait.
    let room = Room::new();
    check_in(
        &room,
        "> hi\n< ! 429 after=3600\n>>\n< hello",
        expect![[r#"
            prompt: hi
            = stalled: nothing (the provider says 429 after=3600; the provider asks for a pause of 60 min; the maximum is 5 min)
            reply: hello
            = completed: hello
        "#]],
    )
    .await;
    assert_eq!(room.attempts(), ["failed: rate_limited", "answered: complete"]);
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_provider_is_given_up_and_tried_on_resume() {
    let story = format!("> hi\n{}>>\n< hello", "< ! 529\n".repeat(8));
    let room = Room::new();
    check_in(
        &room,
        &story,
        expect![[r#"
            prompt: hi
            = stalled: nothing (the provider says 529; it failed 8 times)
            reply: hello
            = completed: hello
        "#]],
    )
    .await;
    let overloaded = ["overloaded"; 8].join(" ");
    assert_eq!(room.attempts(), [format!("failed: {overloaded}"), "answered: complete".to_owned()]);
    assert_eq!(room.model.asked().len(), 9);
}

#[tokio::test(start_paused = true)]
async fn a_revoked_key_is_reported_at_once() {
    let room = Room::new();
    room.model.shall_say(r#"echo{"say":"x"}"#);
    room.model.shall_say("! 401");
    let kernel = room.kernel();
    let run = kernel.start(room.start_of("hi")).await.expect("started");
    *room.run.lock().expect("lock is not poisoned") = Some(run.clone());
    let ended = kernel.run(&run, &ResumeOverrides::default(), &StopHandle::new()).await.expect("ended");
    assert_eq!(ended.status, RunStatus::Failed);
    assert_eq!(ended.failure.expect("a failure").hint.as_deref(), Some("set the key"));
    check_in(
        &room,
        ">>\n< done",
        expect![[r#"
        reply: done
        = completed: done
    "#]],
    )
    .await;
    assert_eq!(room.attempts(), ["answered: complete", "failed: unauthorized", "answered: complete"]);
}

#[tokio::test(start_paused = true)]
async fn a_conversation_that_the_provider_finds_too_long_is_a_clear_failure() {
    check(
        "> hi\n< ! 400 context_length_exceeded\n>>\n< ! 400 context_length_exceeded",
        expect![[r#"
        prompt: hi
        = failed: nothing (the provider says 400 context_length_exceeded)
        = failed: nothing (the provider says 400 context_length_exceeded)
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_failure_leaves_nothing_that_looks_like_a_reply() {
    let room = Room::new();
    room.play(&format!("> hi\n{}", "< ! cut\n".repeat(8))).await;
    expect![[r#"
        prompt: hi
    "#]]
    .assert_eq(&room.transcript());
    assert_eq!(room.status(), RunStatus::Stalled);
}
