//! Conversations that become too long.

use expect_test::expect;

use super::*;

fn room(dialect: Dialect) -> Room {
    let mut room = Room::speaking(dialect);
    room.limits.compact_at = 1000;
    room
}

#[tokio::test(start_paused = true)]
async fn unfinished_steps_stay_unchanged_after_a_summary() {
    let story = r#"
        > a long story
        < echo{"say":"old"}
        < I go on. + echo{"say":"kept"} + peek{"n":7} | in=2000
        < it was about old things
        < done
    "#;
    let rooms = DIALECTS.map(room);
    check_all(
        &rooms,
        story,
        expect![[r#"
        prompt: a long story
        reply: a=echo{"say":"old"}
        results: a gives old
        reply: I go on. + b=echo{"say":"kept"} + c=peek{"n":7}
        results: b gives kept + c gives peek 7
        summary: it was about old things
        carried: I go on. + b=echo{"say":"kept"} + c=peek{"n":7}
        carried: b gives kept + c gives peek 7
        reply: done
        = completed: done
    "#]],
    )
    .await;
    for room in rooms {
        // The surroundings, the summary, the last reply and its results: no more than that.
        let last = String::from_utf8(room.model.asked().pop().expect("asked")).expect("text");
        assert!(last.contains("Today is") && last.contains("it was about old things"), "{last}");
        assert!(last.contains("kept") && !last.contains("a long story"), "{last}");
        let carried = room.store.run(&room.run()).context().expect("context");
        let all = room.store.run(&room.run()).messages().expect("messages");
        assert_eq!(carried[1].bytes, all[3].bytes, "the reply");
        assert_eq!(carried[2].bytes, all[4].bytes, "its results");
    }
}

#[tokio::test(start_paused = true)]
async fn a_second_summary_replaces_the_first() {
    let story = r#"
        > begin
        < echo{"say":"0"}
        < echo{"say":"1"} | in=2000
        < first summary
        < echo{"say":"2"}
        < echo{"say":"3"} | in=2000
        < second summary
        < done
    "#;
    let rooms = DIALECTS.map(room);
    check_all(
        &rooms,
        story,
        expect![[r#"
        prompt: begin
        reply: a=echo{"say":"0"}
        results: a gives 0
        reply: b=echo{"say":"1"}
        results: b gives 1
        summary: first summary
        carried: b=echo{"say":"1"}
        carried: b gives 1
        reply: c=echo{"say":"2"}
        results: c gives 2
        reply: d=echo{"say":"3"}
        results: d gives 3
        summary: second summary
        carried: d=echo{"say":"3"}
        carried: d gives 3
        reply: done
        = completed: done
    "#]],
    )
    .await;
    for room in rooms {
        let last = String::from_utf8(room.model.asked().pop().expect("asked")).expect("text");
        assert!(last.contains("second summary") && !last.contains("first summary"), "{last}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_question_to_a_full_conversation_is_summed_up_first() {
    check_in(
        &room(Dialect::AnthropicMessages),
        "> a\n< b | in=2000\n> c\n< summary\n< d",
        expect![[r#"
        prompt: a
        reply: b
        = completed: b
        prompt: c
        summary: summary
        carried: c
        reply: d
        = completed: d
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_was_cut_stays_before_the_words_that_say_so() {
    let story = r#"
        > tell
        < echo{"say":"x"}
        < once upon | in=2000 stop=max_tokens
        < a tale is told
        < a time
    "#;
    check_in(
        &room(Dialect::AnthropicMessages),
        story,
        expect![[r#"
        prompt: tell
        reply: a=echo{"say":"x"}
        results: a gives x
        reply: once upon
        kernel: GO_ON
        summary: a tale is told
        carried: once upon
        carried: GO_ON
        reply: a time
        = completed: once upona time
    "#]],
    )
    .await;
    let full = story.replace("stop=max_tokens", "stop=context");
    let told = room(Dialect::AnthropicMessages).play(&full).await;
    assert!(told.contains("carried: once upon\ncarried: GO_ON"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn a_missing_summary_is_an_error_and_is_requested_again() {
    let story = r#"
        > begin
        < echo{"say":"0"}
        < echo{"say":"1"} | in=2000
        < nothing
        < nothing
        >>
        < a summary this time
        < done
    "#;
    let room = room(Dialect::AnthropicMessages);
    check_in(
        &room,
        story,
        expect![[r#"
        prompt: begin
        reply: a=echo{"say":"0"}
        results: a gives 0
        reply: b=echo{"say":"1"}
        results: b gives 1
        ! the conversation is too long, and the model returned no summary
        summary: a summary this time
        carried: b=echo{"say":"1"}
        carried: b gives 1
        reply: done
        = completed: done
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_no_summary() {
    let story = r#"
        > begin
        < echo{"say":"0"}
        < echo{"say":"1"} | in=2000
        < I will not | stop=refusal
        < I will not | stop=refusal
        >>
        < a summary this time
        < done
    "#;
    let told = room(Dialect::AnthropicMessages).play(story).await;
    assert!(told.contains("returned no summary") && !told.contains("summary: I will not"), "{told}");
    assert!(told.ends_with("= completed: done\n"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn a_summary_that_failed_is_still_due() {
    let story = r#"
        > begin
        < echo{"say":"0"}
        < echo{"say":"1"} | in=2000
        < ! 401
        >>
        < the summary
        < done
    "#;
    check_in(
        &room(Dialect::AnthropicMessages),
        story,
        expect![[r#"
        prompt: begin
        reply: a=echo{"say":"0"}
        results: a gives 0
        reply: b=echo{"say":"1"}
        results: b gives 1
        = failed: nothing (the provider says 401)
        summary: the summary
        carried: b=echo{"say":"1"}
        carried: b gives 1
        reply: done
        = completed: done
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_pause_during_a_summary_is_resumable() {
    let room = room(Dialect::AnthropicMessages);
    let stop_handle = room.stop_handle();
    room.model.when_waited_for(move || stop_handle.request(StopRequest::Pause));
    room.play("> begin\n< echo{\"say\":\"0\"}\n< I begin. + echo{\"say\":\"1\"} | in=2000\n< ...").await;
    check_in(
        &room,
        "> and mind the gap\n< the summary\n< done",
        expect![[r#"
        prompt: and mind the gap
        summary: the summary
        carried: I begin. + b=echo{"say":"1"}
        carried: b gives 1
        carried: and mind the gap
        reply: done
        = completed: done
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_last_words_are_known_across_a_summary() {
    let story = r#"
        > begin
        < echo{"say":"0"}
        < I begin. + echo{"say":"1"} | in=2000
        < the summary
        < ! 401
        >>
        < nothing
    "#;
    check_in(
        &room(Dialect::AnthropicMessages),
        story,
        expect![[r#"
        prompt: begin
        reply: a=echo{"say":"0"}
        results: a gives 0
        reply: I begin. + b=echo{"say":"1"}
        results: b gives 1
        summary: the summary
        carried: I begin. + b=echo{"say":"1"}
        carried: b gives 1
        = failed: I begin. (the provider says 401)
        reply: (no answer)
        = completed: I begin.
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_context_without_reported_tokens_is_measured_in_bytes() {
    let long = "word ".repeat(2000);
    let story = format!(
        r#"
        > begin
        < echo{{"say":"old"}} | in=0 out=0
        < {long} + echo{{"say":"kept"}} | in=0 out=0
        < it was long | in=0 out=0
        < done | in=0 out=0
    "#
    );
    let rooms = DIALECTS.map(|dialect| {
        let mut room = room(dialect);
        room.limits.compact_at = 2500;
        room
    });
    for room in &rooms {
        room.play(&story).await;
        let origins = room.store.run(&room.run()).messages().expect("messages");
        let summaries = origins.iter().filter(|message| message.origin == store::Origin::Summary).count();
        assert_eq!(summaries, 1, "one, and not another for what it has left");
    }
}

#[tokio::test(start_paused = true)]
async fn a_rejected_long_prompt_is_summarized_without_unfinished_steps() {
    let story = r#"
        > begin
        < echo{"say":"old"}
        < I go on. + echo{"say":"kept"}
        < ! 413
        < it was about old things
        < done
    "#;
    let rooms = DIALECTS.map(Room::speaking);
    check_all(
        &rooms,
        story,
        expect![[r#"
        prompt: begin
        reply: a=echo{"say":"old"}
        results: a gives old
        reply: I go on. + b=echo{"say":"kept"}
        results: b gives kept
        summary: it was about old things
        carried: I go on. + b=echo{"say":"kept"}
        carried: b gives kept
        reply: done
        = completed: done
    "#]],
    )
    .await;
    for room in rooms {
        let asked = room.model.asked();
        let summed_up = String::from_utf8_lossy(&asked[3]);
        assert!(summed_up.contains("old") && !summed_up.contains("kept"), "{summed_up}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_too_long_summary_request_is_repeated_without_unfinished_steps() {
    let story = r#"
        > begin
        < echo{"say":"old"}
        < echo{"say":"kept"} | in=2000
        < ! 413
        < it was about old things
        < done
    "#;
    check_in(
        &room(Dialect::AnthropicMessages),
        story,
        expect![[r#"
        prompt: begin
        reply: a=echo{"say":"old"}
        results: a gives old
        reply: b=echo{"say":"kept"}
        results: b gives kept
        summary: it was about old things
        carried: b=echo{"say":"kept"}
        carried: b gives kept
        reply: done
        = completed: done
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_no_summary_can_shorten_fails_and_is_resumable() {
    let story = r#"
        > begin
        < echo{"say":"old"}
        < echo{"say":"kept"}
        < ! 413
        < it was about old things
        < ! 413
        >>
        < done
    "#;
    check_in(
        &Room::new(),
        story,
        expect![[r#"
        prompt: begin
        reply: a=echo{"say":"old"}
        results: a gives old
        reply: b=echo{"say":"kept"}
        results: b gives kept
        summary: it was about old things
        carried: b=echo{"say":"kept"}
        carried: b gives kept
        = failed: nothing (the provider says 413)
        reply: done
        = completed: done
    "#]],
    )
    .await;
    let story = r#"
        > begin
        < echo{"say":"old"}
        < echo{"say":"kept"}
        < ! 413
        < ! 413
        > short, please
        < ! 413
        < ! 413
    "#;
    check_in(
        &Room::new(),
        story,
        expect![[r#"
        prompt: begin
        reply: a=echo{"say":"old"}
        results: a gives old
        reply: b=echo{"say":"kept"}
        results: b gives kept
        = failed: nothing (the provider says 413)
        prompt: short, please
        = failed: nothing (the provider says 413)
    "#]],
    )
    .await;
    check_in(
        &Room::new(),
        "> begin\n< ! 413",
        expect![[r#"
        prompt: begin
        = failed: nothing (the provider says 413)
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_during_a_shorter_summary_is_resumable() {
    let room = Room::new();
    let stop_handle = room.stop_handle();
    room.model.when_waited_for(move || stop_handle.request(StopRequest::Pause));
    room.play("> begin\n< echo{\"say\":\"0\"}\n< echo{\"say\":\"1\"}\n< ! 413\n< ...").await;
    check_in(
        &room,
        ">>\n< the summary\n< done",
        expect![[r#"
        summary: the summary
        carried: b=echo{"say":"1"}
        carried: b gives 1
        reply: done
        = completed: done
    "#]],
    )
    .await;
    let asked = room.model.asked();
    assert_eq!(asked[3], asked[4], "the question that was written down");
}

#[tokio::test(start_paused = true)]
async fn messages_after_a_summary_are_never_lost() {
    let room = Room::new();
    room.play("> begin\n< well").await;
    let stop_handle = room.stop_handle();
    room.model.when_waited_for(move || stop_handle.request(StopRequest::Pause));
    // A question alone is in flight, the summary is asked for without it, and before it comes another one is asked.
    room.play("> the first\n< ! 413\n< ...").await;
    check_in(
        &room,
        "> the second\n< the summary\n< done",
        expect![[r#"
        prompt: the second
        summary: the summary
        carried: the first
        carried: the second
        reply: done
        = completed: done
    "#]],
    )
    .await;
    let last = String::from_utf8(room.model.asked().pop().expect("asked")).expect("text");
    assert!(last.contains("the first") && last.contains("the second"), "{last}");
}

#[tokio::test(start_paused = true)]
async fn a_summary_that_breaks_off_is_none() {
    let story = r#"
        > begin
        < echo{"say":"0"}
        < echo{"say":"1"} | in=2000
        < it was abo | stop=max_tokens
        < it was about to | stop=pause
    "#;
    let told = room(Dialect::AnthropicMessages).play(story).await;
    assert!(told.ends_with("the model returned no summary\n"), "{told}");
}

/// A text before a call is not a summary, and the call is not made.
#[tokio::test(start_paused = true)]
async fn a_model_that_makes_calls_instead_of_a_summary_is_asked_once_more() {
    let story = r#"
        > begin
        < echo{"say":"0"}
        < echo{"say":"1"} | in=2000
        < I look first. + echo{"say":"2"}
        < it was about echoes
        < done
    "#;
    let told = room(Dialect::AnthropicMessages).play(story).await;
    assert!(told.contains("\nsummary: it was about echoes\n") && !told.contains("look first"), "{told}");
    assert!(told.ends_with("= completed: done\n"), "{told}");
}
