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
        = step_cap: I came this far. (the steps were used up)
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
        = step_cap: one more (the steps were used up)
        = step_cap: one more (the steps were used up)
        results: b gives 2
        reply: that was it
        = completed: that was it
    "#]],
    )
    .await;
    assert_eq!(room.state.count.load(std::sync::atomic::Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn who_says_something_at_the_cap_gets_an_answer() {
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
        = step_cap: one more (the steps were used up)
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
        = step_cap: c (the steps were used up)
    "#]],
    )
    .await;
}
