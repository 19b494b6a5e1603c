//! The step cap and its grace turn.

use expect_test::expect;

use super::*;

fn room(steps: u32) -> Room {
    let mut room = Room::new();
    room.limits.max_steps = steps;
    room
}

#[tokio::test(start_paused = true)]
async fn at_the_cap_the_model_is_asked_for_a_last_answer() {
    let story = r#"
        > work
        < count{}
        < count{}
        < I came this far.
    "#;
    check_in(
        &room(2),
        story,
        expect![[r#"
        prompt: work
        reply: a=count{}
        results: a gives 1
        reply: b=count{}
        results: b gives 2 + GRACE
        reply: I came this far.
        = step_cap: I came this far. (the step limit was reached)
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn calls_of_the_grace_turn_are_not_made_until_there_are_more_steps() {
    let room = room(1);
    let story = r#"
        > work
        < count{}
        < one more + count{}
        >>
        >> | steps=4
        < that was it
    "#;
    check_in(
        &room,
        story,
        expect![[r#"
        prompt: work
        reply: a=count{}
        results: a gives 1 + GRACE
        reply: one more + b=count{}
        = step_cap: one more (the step limit was reached)
        = step_cap: one more (the step limit was reached)
        results: b gives 2
        reply: that was it
        = completed: that was it
    "#]],
    )
    .await;
    assert_eq!(room.state.count.load(std::sync::atomic::Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn a_message_at_the_step_cap_gets_an_answer() {
    let story = r#"
        > work
        < count{}
        < one more + count{}
        > what is missing?
        < nothing much
    "#;
    check_in(
        &room(1),
        story,
        expect![[r#"
        prompt: work
        reply: a=count{}
        results: a gives 1 + GRACE
        reply: one more + b=count{}
        = step_cap: one more (the step limit was reached)
        results: b gives NO_RESULT
        prompt: what is missing?
        reply: nothing much
        = completed: nothing much
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_is_always_cut_comes_to_an_end() {
    let story = "> tell\n< a | stop=max_tokens\n< b | stop=max_tokens\n< c | stop=max_tokens";
    check_in(
        &room(2),
        story,
        expect![[r#"
        prompt: tell
        reply: a
        kernel: GO_ON
        reply: b
        kernel: GO_ON + GRACE
        reply: c
        = step_cap: abc (the step limit was reached)
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_was_cut_and_gone_on_with_is_one() {
    let story = r#"
        > tell
        < Let me look. + count{}
        < First half, | stop=max_tokens
        < second half.
        > more
        < So
    "#;
    check(
        story,
        expect![[r#"
            prompt: tell
            reply: Let me look. + a=count{}
            results: a gives 1
            reply: First half,
            kernel: GO_ON
            reply: second half.
            = completed: First half,second half.
            prompt: more
            reply: So
            = completed: So
        "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_paused_is_one_answer_also_after_a_restart() {
    let room = Room::new();
    room.play("> tell\n< First. | stop=pause\n< Second, | stop=max_tokens\n< ! 400").await;
    check_in(
        &room,
        ">>\n< third.",
        expect![[r#"
            reply: third.
            = completed: First.
            Second,third.
        "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_end_is_not_gone_on_with_for_ever() {
    let room = room(100);
    let story = format!("> tell\n{}", "< a | stop=max_tokens\n".repeat(20));
    let told = room.play(&story).await;
    let end = "= failed: aaaaaaaaa (the answer reached the output limit 8 times in a row and is still incomplete)\n";
    assert!(told.ends_with(end), "{told}");
    assert_eq!(room.model.asked().len(), 9);
}

#[tokio::test(start_paused = true)]
async fn a_text_with_nothing_in_it_is_no_answer() {
    let room = Room::new();
    room.model.says(model::Says::Reply(session::Reply {
        id: "reply".to_owned(),
        model: "m".to_owned(),
        blocks: vec![Block::Text { text: " \n".to_owned() }],
        stop: Some(session::StopReason::EndTurn),
        usage: session::Usage { input: 1, ..session::Usage::default() },
    }));
    assert!(room.play("> tell").await.ends_with("= completed: nothing\n"));
}
