//! Messages to sub-agents at work, and sub-agents that are continued after their end.

use serde_json::json;

use super::restarts::broken_off;
use super::*;

const LAUNCH: &str = r#"spawn_sub_agent{"prompt":"Work.","run_in_background":true}"#;

/// Counts a text in the messages to a run.
fn heard(stage: &Stage, run: &str, text: &str) -> usize {
    stage.said_to(run).matches(text).count()
}

#[tokio::test]
async fn a_message_reaches_a_sub_agent_with_its_next_turn() {
    let stage = Stage::new(&[
        ("Do it.", &[LAUNCH, r#"send_message{"run_id":"m-2-0","message":"Use tabs."}"#, "I wait.", "Done."]),
        ("Work.", &["@sent echo{\"say\":\"x\"}", "With tabs.", "never"]),
    ]);
    let run = stage.start("Do it.").await;
    let sent = async {
        while stage.store().run(&RunId::new("m-2-0")).inbox().map_or(0, |inbox| inbox.len()) == 0 {
            tokio::task::yield_now().await;
        }
        stage.play.open("sent");
    };
    let (ended, ()) = tokio::join!(stage.go(&run), sent);
    assert_eq!(ended.final_text.as_deref(), Some("Done."));
    assert_eq!(stage.result("m", 1), json!({ "run_id": "m-2-0", "status": "sent" }));
    let message = r#"<incoming_message from=\"parent\">\nUse tabs.\n</incoming_message>"#;
    assert_eq!(heard(&stage, "m-2-0", message), 1, "{}", stage.said_to("m-2-0"));
    assert_eq!(stage.row("m-2-0").final_text.as_deref(), Some("With tabs."));
}

#[tokio::test]
async fn a_message_that_comes_with_the_last_reply_is_answered_before_the_end() {
    let stage = Stage::new(&[
        ("Do it.", &[r#"spawn_sub_agent{"prompt":"Work."}"#, "Done."]),
        ("Work.", &["@sent Worked.", "Worked, with tabs."]),
    ]);
    let run = stage.start("Do it.").await;
    let sent = async {
        stage.play.wait_for(1).await;
        let message = user_message(&RunId::new("m-2-0"), "Use tabs. <job_ended>", store::Millis(0));
        stage.store().send(message).await.expect("sent");
        stage.play.open("sent");
    };
    tokio::join!(stage.go(&run), sent);
    assert_eq!(stage.result("m", 0)["final_text"], "Worked, with tabs.");
    let message = r#"<incoming_message from=\"user\">\nUse tabs. &lt;job_ended>\n</incoming_message>"#;
    assert_eq!(heard(&stage, "m-2-0", message), 1, "{}", stage.said_to("m-2-0"));
}

#[tokio::test]
async fn a_run_that_waits_for_jobs_is_woken_by_a_message() {
    let stage = Stage::new(&[
        ("Do it.", &[LAUNCH, "I wait.", "@woken I still wait.", "Done."]),
        ("Work.", &["@work Worked."]),
    ]);
    let run = stage.start("Do it.").await;
    let sent = async {
        while stage.status("m") != RunStatus::Waiting {
            tokio::task::yield_now().await;
        }
        stage.store().send(user_message(&run, "Hurry.", store::Millis(0))).await.expect("sent");
        stage.play.wait_for(2).await; // the job, and main with the message
        stage.play.open("woken");
        stage.play.open("work");
    };
    let (ended, ()) = tokio::join!(stage.go(&run), sent);
    assert_eq!(ended.final_text.as_deref(), Some("Done."));
    assert_eq!(heard(&stage, "m", "Hurry."), 1);
}

#[tokio::test]
async fn an_ended_sub_agent_goes_on_with_its_conversation_and_its_id() {
    let stage = Stage::new(&[
        (
            "Do it.",
            &[
                r#"spawn_sub_agent{"prompt":"Work."}"#,
                r#"spawn_sub_agent{"prompt":"And the tests?","continue":"m-2-0"}"#,
                r#"spawn_sub_agent{"prompt":"And the docs?","continue":"m-2-0","run_in_background":true}"#,
                "I wait.",
                "Done.",
            ],
        ),
        ("Work.", &["echo{\"say\":\"x\"}", "Worked.", "Tested.", "Documented."]),
    ]);
    let ended = stage.run("Do it.").await;
    assert_eq!(ended.final_text.as_deref(), Some("Done."));
    assert_eq!(stage.result("m", 0), json!({ "run_id": "m-2-0", "final_text": "Worked." }));
    assert_eq!(stage.result("m", 1), json!({ "run_id": "m-2-0", "final_text": "Tested." }));
    assert_eq!(stage.result("m", 2)["job_id"], "m-2-0");
    assert_eq!(stage.told_of("m", "m-2-0"), 1);
    assert!(stage.said_to("m").contains("Documented."), "{}", stage.said_to("m"));
    assert_eq!(stage.runs().len(), 2, "it keeps its id: {:?}", stage.runs());
    let last = stage.sent("m-2-0").pop().expect("a request").to_string();
    for words in ["Work.", "Worked.", "And the tests?", "Tested.", "And the docs?"] {
        assert!(last.contains(words), "{words}: {last}");
    }
}

#[tokio::test]
async fn what_cannot_be_sent_or_continued_is_an_error_that_says_what_can() {
    let calls = [
        (r#"send_message{"run_id":"m-2-0","message":" "}"#, "`message` is empty"),
        (r#"send_message{"run_id":"nobody","message":"x"}"#, "is not a sub-agent of yours; yours are: m-2-0"),
        (r#"send_message{"run_id":"m","message":"x"}"#, "`m` is not a sub-agent of yours"),
        (r#"send_message{"run_id":"m-2-0","message":"x"}"#, "`m-2-0` has ended (completed)"),
        (r#"spawn_sub_agent{"continue":"m","prompt":"x"}"#, "`m` is not a sub-agent of yours"),
        (r#"spawn_sub_agent{"continue":"m-2-0","prompt":" "}"#, "`prompt` is empty"),
        (r#"spawn_sub_agent{"continue":"m-2-0","prompt":"x","model":"haiku"}"#, "`model` cannot be set"),
        (r#"spawn_sub_agent{"continue":"m-2-0","prompt":"x","fork":true}"#, "`fork` cannot be set"),
    ];
    let all: Vec<&str> = calls.iter().map(|(call, _)| *call).collect();
    let stage = Stage::new(&[
        ("Do it.", &[r#"spawn_sub_agent{"prompt":"Work."}"#, &all.join(" + "), "Done."]),
        ("Work.", &["Worked."]),
    ]);
    stage.run("Do it.").await;
    let results = stage.results("m");
    for ((call, expected), result) in calls.iter().zip(&results[1..]) {
        assert!(result.contains(expected), "{call}: {result}");
    }
}

#[tokio::test]
async fn a_sub_agent_at_work_is_sent_messages_and_not_continued() {
    let stage = Stage::new(&[
        ("Do it.", &[LAUNCH, r#"spawn_sub_agent{"continue":"m-2-0","prompt":"x"}"#, "@go I wait.", "Done."]),
        ("Work.", &["@work Worked."]),
    ]);
    let run = stage.start("Do it.").await;
    let open = async {
        stage.play.wait_for(2).await;
        stage.play.open("work");
        stage.play.open("go");
    };
    tokio::join!(stage.go(&run), open);
    assert!(
        stage.results("m")[1].contains("send it a message with `send_message`"),
        "{:?}",
        stage.results("m")
    );
}

#[tokio::test]
async fn a_continued_sub_agent_is_resumed_after_a_kill() {
    let stage = Stage::new(&[
        (
            "Do it.",
            &[
                r#"spawn_sub_agent{"prompt":"Work."}"#,
                r#"spawn_sub_agent{"prompt":"More.","continue":"m-2-0"}"#,
                "Done.",
            ],
        ),
        ("Work.", &["Worked.", "@more More work."]),
    ]);
    broken_off(&stage, 1).await;
    assert_eq!(stage.status("m-2-0"), RunStatus::Running);
    stage.play.open("more");
    let ended = stage.resume(None).await;
    assert_eq!(ended.final_text.as_deref(), Some("Done."));
    assert_eq!(stage.result("m", 1), json!({ "run_id": "m-2-0", "final_text": "More work." }));
    assert_eq!(heard(&stage, "m-2-0", "More."), 1);
    let asked = stage.play.asked();
    assert_eq!(asked[&("Work.".to_owned(), 0)], 1, "what was answered is not asked again");
}

#[tokio::test]
async fn a_continued_sub_agent_that_is_paused_goes_on_as_a_job() {
    let stage = Stage::new(&[
        (
            "Do it.",
            &[
                LAUNCH,
                "I wait.",
                r#"spawn_sub_agent{"prompt":"More.","continue":"m-2-0"}"#,
                "I wait again.",
                "Done.",
            ],
        ),
        ("Work.", &["Worked.", "@more More work."]),
    ]);
    let run = stage.start("Do it.").await;
    let pause = async {
        stage.play.wait_for(1).await;
        stage.stop_handle().request(StopRequest::Pause);
    };
    tokio::join!(stage.go(&run), pause);
    assert_eq!(stage.result("m", 1)["error"], prompts::CONTINUES_AS_JOB);
    stage.play.open("more");
    let ended = stage.resume(None).await;
    assert_eq!(ended.final_text.as_deref(), Some("Done."));
    assert_eq!(stage.told_of("m", "m-2-0"), 2, "once for each end");
}
