//! Tool calls: beside each other, in their turn, and whatever goes wrong in them.

use expect_test::expect;
use store::CallStatus;

use super::model::Says;
use super::*;
use crate::tools;

#[tokio::test(start_paused = true)]
async fn calls_that_change_nothing_run_at_the_same_time() {
    // Each waits for the other; one after the other they would wait until they are given up.
    check(
        r#"> meet
        < meet{"n":1} + meet{"n":2}
        < nice"#,
        expect![[r#"
            prompt: meet
            reply: a=meet{"n":1} + b=meet{"n":2}
            results: a gives met + b gives met
            reply: nice
            = completed: nice
        "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_changes_something_runs_alone_and_in_its_turn() {
    let room = Room::new();
    let story = r#"
        > work
        < peek{"n":1} + peek{"n":2} + put{"n":3} + peek{"n":4} + put{"n":5} + put{"n":6}
        < done
    "#;
    check_in(&room, story, expect![[r#"
        prompt: work
        reply: a=peek{"n":1} + b=peek{"n":2} + c=put{"n":3} + d=peek{"n":4} + e=put{"n":5} + f=put{"n":6}
        results: a gives peek 1 + b gives peek 2 + c gives put 3 + d gives peek 4 + e gives put 5 + f gives put 6
        reply: done
        = completed: done
    "#]]).await;
    expect![[r#"
        peek begins 1
        peek begins 2
        peek ends 2
        peek ends 1
        put begins 3
        put ends 3
        peek begins 4
        peek ends 4
        put begins 5
        put ends 5
        put begins 6
        put ends 6"#]]
    .assert_eq(&room.state.log().join("\n"));
}

#[tokio::test(start_paused = true)]
async fn every_failure_of_a_call_becomes_a_result() {
    let story = r#"
        > try
        < nonsense{"n":1} + fail{} + panic{} + echo{"say":"still here"}
        < I see
    "#;
    check(story, expect![[r#"
        prompt: try
        reply: a=nonsense{"n":1} + b=fail{} + c=panic{} + d=echo{"say":"still here"}
        results: a gives no tool `nonsense`; available: echo, fail, doubt, meet, peek, put, count, slow, hang, hang_put, hang_count, panic, huge, told_to_end + b gives it cannot be done + c gives `panic` crashed; this is a bug in the tool, not in your call + d gives still here
        reply: I see
        = completed: I see
    "#]]).await;
}

#[tokio::test(start_paused = true)]
async fn an_input_that_is_no_object_is_an_answer_too() {
    // Our own client rejects it; another client may not.
    let chat = r#"{"choices":[{"message":{"content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"echo","arguments":"{\"say\":"}}]},"finish_reason":"tool_calls"}]}"#;
    let room = Room::speaking(Dialect::OpenAiChat);
    room.model.says(Says::Body(chat.to_owned()));
    check_in(
        &room,
        "> try\n< I see",
        expect![[r#"
        prompt: try
        reply: a=echo{"say":
        results: a gives the input of `echo` is not JSON: EOF while parsing a value at line 1 column 7
        reply: I see
        = completed: I see
    "#]],
    )
    .await;
    let anthropic = r#"{"id":"x","model":"m","content":[{"type":"tool_use","id":"a","name":"echo","input":[1]}],"stop_reason":"tool_use","usage":{}}"#;
    let room = Room::new();
    room.model.says(Says::Body(anthropic.to_owned()));
    check_in(
        &room,
        "> try\n< I see",
        expect![[r#"
        prompt: try
        reply: a=echo[1]
        results: a gives the input of `echo` must be a JSON object
        reply: I see
        = completed: I see
    "#]],
    )
    .await;
}

#[tokio::test]
async fn a_workspace_that_is_gone_is_an_answer_too() {
    let room = Room::new();
    for answer in
        [r#"read{"path":"a.txt"} + list{} + write{"path":"b.txt","content":"b"}"#, "there is nothing"]
    {
        room.model.shall_say(answer);
    }
    let kernel = Kernel { tools: Arc::new(Toolbox::new(tools::builtin())), ..room.kernel() };
    std::fs::remove_dir_all(room.folder.path().join("w")).expect("removed");
    let run = kernel.start(room.start_of("look")).await.expect("started");
    *room.run.lock().expect("lock is not poisoned") = Some(run.clone());
    let ended = kernel.run(&run, &ResumeOverrides::default(), &StopHandle::new()).await.expect("ended");
    assert_eq!(ended.final_text.as_deref(), Some("there is nothing"));
    let calls = room.calls();
    assert!(calls[0].ends_with("failed") && calls[2].ends_with("failed"), "{calls:?}");
}

#[tokio::test]
async fn a_workspace_that_another_folder_replaced_is_not_worked_in() {
    let room = Room::new();
    let calls =
        r#"read{"path":"a.txt"} + list{} + write{"path":"b.txt","content":"b"} + bash{"command":"ls"}"#;
    [calls, "moved"].iter().for_each(|answer| room.model.shall_say(answer));
    let rules = Arc::new(PermissionRules::stored(&[(RuleList::Allow, "bash".to_owned())]));
    let kernel = Kernel { tools: Arc::new(Toolbox::new(tools::builtin())), rules, ..room.kernel() };
    let (here, there) = (room.folder.path().join("w"), room.folder.path().join("moved"));
    std::fs::rename(&here, &there).expect("moved");
    std::fs::create_dir(&here).expect("made");
    let run = kernel.start(room.start_of("look")).await.expect("started");
    kernel.run(&run, &ResumeOverrides::default(), &StopHandle::new()).await.expect("ended");
    let calls = room.store.run(&run).tool_calls().expect("calls");
    assert_eq!(calls.len(), 4);
    for call in calls {
        let told = format!("{:?}", call.result);
        assert!(told.contains("was moved, and another folder has its name"), "{}: {told}", call.name);
    }
    for folder in [here, there] {
        assert_eq!(std::fs::read_dir(folder).expect("there").count(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_never_ends_is_given_up() {
    check(
        "> wait\n< hang{}\n< enough",
        expect![[r#"
        prompt: wait
        reply: a=hang{}
        results: a gives `hang` was stopped: it took longer than 120 s
        reply: enough
        = completed: enough
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_long_result_is_kept_whole_and_shown_in_part() {
    for dialect in DIALECTS {
        let room = Room::speaking(dialect);
        room.play("> read\n< huge{\"bytes\":300000}\n< echo{}\n< long").await;
        let calls = room.store.run(&room.run()).tool_calls().expect("calls");
        let (result, preview) = (calls[0].result.as_ref().expect("a result"), calls[0].preview.as_deref());
        let [Block::Text { text }] = &result.blocks[..] else { panic!("{result:?}") };
        assert_eq!((text.len(), calls[0].status), (300_008, CallStatus::Done));
        let preview = preview.expect("too long");
        assert!(preview.starts_with("beginé") && preview.ends_with("éend") && preview.len() < 100_000);
        for request in &room.model.asked()[1..] {
            assert!(request.len() < 110_000, "{dialect}: {} bytes", request.len());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn many_calls_of_one_reply_keep_their_order() {
    let calls: Vec<String> = (0..24).map(|n| format!(r#"peek{{"n":{n}}}"#)).collect();
    let room = Room::new();
    let told = room.play(&format!("> all\n< {}\n< done", calls.join(" + "))).await;
    let results = told.lines().find(|line| line.starts_with("results")).expect("results");
    let numbers: Vec<&str> =
        results.split("peek ").skip(1).map(|n| n.split(' ').next().unwrap_or("")).collect();
    assert_eq!(numbers, (0..24).map(|n| n.to_string()).collect::<Vec<_>>());
    assert_eq!(room.state.log()[..24].iter().filter(|line| line.starts_with("peek begins")).count(), 24);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_outcome_is_reported_as_possibly_run() {
    let room = Room::new();
    let told = room.play("> work\n< doubt{}\n< done").await;
    assert!(told.contains("a gives nobody knows"), "{told}");
    assert_eq!(room.calls(), ["a doubt: may_have_run"]);
}
