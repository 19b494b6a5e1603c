//! Turns: how a reply ends one, and what is made of it.

use expect_test::expect;
use wire::dialect::Dialect;

use super::model::Says;
use super::*;

#[tokio::test(start_paused = true)]
async fn a_plain_answer_is_the_end() {
    check(
        "> hi\n< hello",
        expect![[r#"
        prompt: hi
        reply: hello
        = completed: hello
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn tools_are_called_until_nothing_is_left_to_call() {
    let story = r#"
        > look at both
        < (both at once) + I look. + echo{"say":"one"} + echo{"say":"two"}
        < echo{"say":"three"}
        < That is all.
    "#;
    check(
        story,
        expect![[r#"
        prompt: look at both
        reply: I look. + a=echo{"say":"one"} + b=echo{"say":"two"}
        results: a gives one + b gives two
        reply: c=echo{"say":"three"}
        results: c gives three
        reply: That is all.
        = completed: That is all.
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_reply_cut_at_the_output_limit_is_continued() {
    check(
        "> tell\n< once upon | stop=max_tokens\n< a time",
        expect![[r#"
        prompt: tell
        reply: once upon
        kernel: GO_ON
        reply: a time
        = completed: once upona time
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_paused_turn_continues_without_a_new_message() {
    check_in(
        &Room::new(),
        "> search\n< looking | stop=pause\n< found",
        expect![[r#"
        prompt: search
        reply: looking
        reply: found
        = completed: looking
        found
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_paused_turn_continues_even_after_a_failure() {
    let story = "> search\n< looking | stop=pause\n< ! 400\n>>\n< found";
    check_in(
        &Room::new(),
        story,
        expect![[r#"
        prompt: search
        reply: looking
        = failed: looking (the provider says 400)
        reply: found
        = completed: looking
        found
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_run_accepts_another_prompt() {
    let story = "> harm\n< I will not | stop=refusal\n>>\n> help\n< gladly";
    check_in(
        &Room::new(),
        story,
        expect![[r#"
        prompt: harm
        reply: I will not
        = failed: I will not (the model refused to answer)
        = failed: I will not (the model refused to answer)
        prompt: help
        reply: gladly
        = completed: gladly
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn calls_of_a_refusal_are_not_made() {
    let room = Room::new();
    check_in(
        &room,
        "> harm\n< count{} | stop=refusal\n> help\n< gladly",
        expect![[r#"
        prompt: harm
        reply: a=count{}
        = failed: nothing (the model refused to answer)
        results: a gives NO_RESULT
        prompt: help
        reply: gladly
        = completed: gladly
    "#]],
    )
    .await;
    assert_eq!(room.state.count.load(std::sync::atomic::Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn a_filtered_reply_is_a_failure() {
    let room = Room::speaking(Dialect::OpenAiChat);
    check_in(
        &room,
        "> harm\n< well | stop=filter",
        expect![[r#"
        prompt: harm
        reply: well
        = failed: well (the model refused to answer)
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_reply_with_nothing_in_it_is_an_end_without_words() {
    let story = "> hi\n< nothing\n> are you there?\n< yes";
    check(
        story,
        expect![[r#"
        prompt: hi
        reply: (no answer)
        = completed: nothing
        prompt: are you there?
        reply: yes
        = completed: yes
    "#]],
    )
    .await;
    let room = Room::new();
    room.play("> hi\n< nothing").await;
    assert_eq!(room.store.run(&room.run()).row().expect("a row").final_text, None);
}

#[tokio::test(start_paused = true)]
async fn the_final_text_is_the_last_reply_text() {
    let story = r#"
        > count
        < I count. + count{}
        < nothing
    "#;
    check(
        story,
        expect![[r#"
        prompt: count
        reply: I count. + a=count{}
        results: a gives 1
        reply: (no answer)
        = completed: I count.
    "#]],
    )
    .await;
    // The same, where the loop that ends the run is not the one that heard the words.
    let room = Room::new();
    let stop_handle = room.stop_handle();
    room.model.when_waited_for(move || stop_handle.request(StopRequest::Pause));
    check_in(
        &room,
        "> count\n< I count. + count{}\n< ...\n>>\n< nothing",
        expect![[r#"
        prompt: count
        reply: I count. + a=count{}
        results: a gives 1
        = paused: I count.
        reply: (no answer)
        = completed: I count.
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn unknown_parts_of_a_reply_are_sent_back_unchanged() {
    let replies = [
        (
            Dialect::AnthropicMessages,
            r#"{"id":"x","model":"m","content":[{"type":"novel","n":1e3},{"type":"tool_use","id":"a","name":"echo","input":{ "say" : "\u00e9"},"odd":[]}],"stop_reason":"tool_use","usage":{}}"#,
            vec![r#"{"type":"novel","n":1e3}"#, r#""input":{ "say" : "\u00e9"},"odd":[]}"#],
        ),
        (
            Dialect::OpenAiChat,
            r#"{"choices":[{"message":{"role":"assistant","content":[{"type":"novel","n":1e3}],"reasoning_details":[{"type":"odd"}],"tool_calls":[{"id":"a","type":"function","function":{"name":"echo","arguments":"{ \"say\":\"x\"}"},"more":1e3}]},"finish_reason":"tool_calls"}]}"#,
            vec![r#"[{"type":"novel","n":1e3}]"#, r#"[{"type":"odd"}]"#, r#""more":1e3"#],
        ),
        (
            Dialect::OpenAiResponses,
            r#"{"status":"completed","output":[{"type":"novel","n":1e3},{"type":"function_call","call_id":"a","name":"echo","arguments":"{ }","more":1e3}]}"#,
            vec![r#"{"type":"novel","n":1e3}"#, r#""arguments":"{ }","more":1e3}"#],
        ),
    ];
    for (dialect, body, kept) in replies {
        let room = Room::speaking(dialect);
        room.model.says(Says::Body(body.to_owned()));
        let told = room.play("> look\n< done").await;
        assert!(told.ends_with("= completed: done\n"), "{dialect}: {told}");
        let second = String::from_utf8(room.model.asked()[1].clone()).expect("text");
        for kept in kept {
            assert!(second.contains(kept), "{dialect}: {kept} is not in {second}");
        }
    }
}
