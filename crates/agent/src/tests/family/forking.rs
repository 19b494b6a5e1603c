//! Forks: they share every byte with their parent, at every turn and after every restart.

use serde_json::json;
use store::{CallStatus, RunKind};
use tokio::sync::watch;

use super::*;
use crate::future::BoxFuture;

const TWO: &[(&str, &[&str])] = &[
    (
        "Do it.",
        &[
            "echo{\"say\":\"before\"}",
            "put{\"n\":1} + spawn_sub_agent{\"prompt\":\"One?\",\"fork\":true} + spawn_sub_agent{\"prompt\":\"Two?\",\"fork\":true} + count{}",
            "Done.",
        ],
    ),
    ("One?", &["echo{\"say\":\"mine\"}", "One."]),
    ("Two?", &["Two."]),
];

#[tokio::test]
async fn forks_begin_with_the_bytes_of_their_parent() {
    let stage = Stage::new(TWO);
    let ended = stage.run("Do it.").await;
    assert_eq!(ended.final_text.as_deref(), Some("Done."));
    assert_eq!(stage.result("m", 2), json!({ "run_id": "m-4-1", "final_text": "One." }));
    assert_eq!(stage.row("m-4-1").kind, RunKind::Fork);
    stage.shares();
    let told = |run: &str| stage.said_to(run).lines().next().expect("a message").to_owned();
    let (one, two) = (told("m-4-1"), told("m-4-2"));
    assert_eq!(one.replace("One?", "Two?"), two, "all but what they are asked");
    assert!(one.contains("put 1"), "a result that was there stays: {one}");
    assert_eq!(one.matches(prompts::NO_RESULT).count(), 3, "{one}");
    let first: Value = stage.sent("m-4-1").remove(0);
    let last: Value = stage.sent("m").remove(1);
    assert_eq!((&first["tools"], &first["model"]), (&last["tools"], &last["model"]), "schemas stay");
}

#[tokio::test]
async fn the_marker_of_the_parent_stays_and_moving_ones_move() {
    let stage = Stage::new(TWO);
    stage.run("Do it.").await;
    let marked = |body: &Value| -> Vec<usize> {
        let messages = body["messages"].as_array().expect("messages").iter().enumerate();
        messages
            .filter(|(_, message)| message.to_string().contains("cache_control"))
            .map(|(n, _)| n)
            .collect()
    };
    let parent = marked(&stage.sent("m")[1]);
    let fork = stage.sent("m-4-1");
    assert_eq!(parent, [0, 2]);
    assert_eq!(
        marked(&fork[0]),
        [2, 4],
        "where its parent wrote, and the end of what all of its forks are told"
    );
    assert_eq!(marked(&fork[1]), [4, 7], "what the first one read, until something of its own is kept");
    // Without results to tell, what they share ends with the reply.
    let stage = Stage::new(&[("Do it.", &["It is done."]), ("And?", &["Yes."])]);
    stage.run("Do it.").await;
    let fork = ForkRequest::new("And?", "side", "test");
    let side =
        stage.kernel().fork(&RunId::new("m"), &fork, &StopHandle::new()).await.expect("forked").ended.run;
    assert_eq!(marked(&stage.sent(side.as_str())[0]), [0, 1]);
}

#[tokio::test]
async fn a_fork_may_begin_with_messages_of_its_own() {
    let stage = Stage::new(&[("Do it.", &["Done."]), ("And?", &["Yes."])]);
    let run = stage.start("Do it.").await;
    stage.go(&run).await;
    let said = |role, text: &str| session::Message { role, blocks: vec![crate::prompts::text_block(text)] };
    let messages =
        vec![said(session::Role::User, "Here is a page."), said(session::Role::Assistant, "I have read it.")];
    let fork = ForkRequest { messages, ..ForkRequest::new("And?", "side", "test") };
    let forked = stage.kernel().fork(&run, &fork, &StopHandle::new()).await.expect("forked");
    assert_eq!(forked.ended.final_text.as_deref(), Some("Yes."));
    let sent = stage.sent(forked.ended.run.as_str()).remove(0);
    let texts: Vec<&str> = sent["messages"].as_array().expect("messages")[2..]
        .iter()
        .filter_map(|message| message["content"][0]["text"].as_str())
        .collect();
    assert_eq!(texts[..2], ["Here is a page.", "I have read it."]);
    assert!(texts[2].contains("And?"), "{texts:?}");
    stage.shares();
}

/// However much it begins with, its second request finds what the first one read: no marker looks back further than twenty
/// blocks.
#[tokio::test]
async fn the_shared_prefix_stays_marked_until_the_fork_has_its_own() {
    let said = |role, text: &str| session::Message { role, blocks: vec![crate::prompts::text_block(text)] };
    let pair = |n: usize| {
        let (page, read) = (format!("Page {n}."), format!("I have read {n}."));
        [said(session::Role::User, &page), said(session::Role::Assistant, &read)]
    };
    let fork = ForkRequest { messages: (0..10).flat_map(pair).collect(), ..and() };
    let (stage, forked) = side(&["echo{\"say\":\"y\"}", "echo{\"say\":\"z\"}", "More."], fork).await;
    let marked = |body: &Value| -> Vec<usize> {
        let messages = body["messages"].as_array().expect("messages").iter().enumerate();
        messages.filter(|(_, it)| it.to_string().contains("cache_control")).map(|(n, _)| n).collect()
    };
    let sent: Vec<_> = stage.sent(forked.expect("forked").ended.run.as_str()).iter().map(marked).collect();
    assert_eq!(sent, [vec![2, 3], vec![3, 26], vec![26, 28]]);
    stage.shares();
}

#[tokio::test]
async fn a_fork_without_text_has_no_final_text() {
    let stage = Stage::new(&[
        ("Do it.", &["I think so. + spawn_sub_agent{\"prompt\":\"Try.\",\"fork\":true}", "Done."]),
        ("Try.", &["nothing"]),
    ]);
    stage.run("Do it.").await;
    assert_eq!(stage.row("m-2-0").final_text, None);
    assert!(!stage.result("m", 0).to_string().contains("I think so."), "{}", stage.result("m", 0));
}

#[tokio::test]
async fn tools_of_the_parent_are_refused_in_a_fork() {
    let stage = Stage::new(&[
        ("Do it.", &["spawn_sub_agent{\"prompt\":\"Try.\",\"fork\":true}", "Done."]),
        (
            "Try.",
            &[
                "spawn_sub_agent{\"prompt\":\"x\"} + job_output{\"job_id\":\"x\"} + job_cancel{\"job_id\":\"x\"} + manage_tasks{} + echo{\"say\":\"ok\"}",
                "Tried.",
            ],
        ),
    ]);
    stage.run("Do it.").await;
    let calls = stage.store().run(&RunId::new("m-2-0")).tool_calls().expect("calls");
    let statuses: Vec<CallStatus> = calls.iter().map(|call| call.status).collect();
    assert_eq!(statuses[..4], [CallStatus::Denied; 4]);
    assert_eq!(statuses[4], CallStatus::Done);
    assert!(stage.results("m-2-0")[0].contains("cannot plan or start sub-agents"));
}

#[tokio::test]
async fn a_fork_with_another_model_or_agent_is_an_error() {
    let stage = Stage::new(&[(
        "Do it.",
        &[
            "spawn_sub_agent{\"prompt\":\"x\",\"fork\":true,\"model\":\"haiku\"} + spawn_sub_agent{\"prompt\":\"x\",\"fork\":true,\"agent\":\"a\"}",
            "Done.",
        ],
    )]);
    stage.run("Do it.").await;
    for (result, name) in stage.results("m").iter().zip(["model", "agent"]) {
        assert!(result.contains(&format!("`{name}` cannot be set")), "{result}");
    }
}

#[tokio::test]
async fn a_side_question_leaves_the_run_as_it_is() {
    let stage = Stage::new(&[("Do it.", &["echo{\"say\":\"x\"}", "Done."]), ("And?", &["Nothing more."])]);
    let run = stage.start("Do it.").await;
    let error = stage.kernel().start_fork(&run, &ForkRequest::new("And?", "side", "test")).await;
    let error = error.map(|(run, _)| run);
    assert!(matches!(error, Err(RunError::NoForkPoint(_))), "before its first turn: {error:?}");
    stage.go(&run).await;
    let before = (stage.row("m"), stage.said_to("m"), stage.store().run(&run).model_calls().expect("calls"));
    let forked = stage
        .kernel()
        .fork(&run, &ForkRequest::new("And?", "side", "test"), &StopHandle::new())
        .await
        .expect("forked");
    assert_eq!(forked.ended.final_text.as_deref(), Some("Nothing more."));
    assert_eq!((forked.messages.len(), forked.usage.input), (2, 100));
    let after = (stage.row("m"), stage.said_to("m"), stage.store().run(&run).model_calls().expect("calls"));
    assert_eq!(before, after);
    stage.shares();
    let texts: Vec<_> = stage.store().main().history(&stage.row("m").thread).expect("history");
    assert!(texts.iter().all(|message| message.run == run), "it is not the user's conversation");
    let again = stage.kernel().resume(&forked.ended.run, Some("And?")).await;
    assert!(again.is_ok(), "it can be gone on with: {again:?}");
}

#[tokio::test]
async fn forks_of_forks_share_all_the_way_up() {
    let stage = Stage::new(&[
        ("Do it.", &["echo{\"say\":\"x\"}", "Done."]),
        ("And?", &["echo{\"say\":\"y\"}", "More."]),
        ("Then?", &["All."]),
    ]);
    let run = stage.start("Do it.").await;
    stage.go(&run).await;
    let kernel = stage.kernel();
    let one = kernel
        .fork(&run, &ForkRequest::new("And?", "one", "test"), &StopHandle::new())
        .await
        .expect("forked");
    let two = kernel
        .fork(&one.ended.run, &ForkRequest::new("Then?", "two", "test"), &StopHandle::new())
        .await
        .expect("forked");
    assert_eq!(two.ended.final_text.as_deref(), Some("All."));
    assert_eq!(two.messages.len(), 2, "its own");
    stage.shares();
    let sent = stage.sent(two.ended.run.as_str());
    assert!(sent[0].to_string().contains("Do it.") && sent[0].to_string().contains("And?"));
}

#[tokio::test]
async fn an_interrupted_fork_resumes_with_the_same_bytes() {
    let stage = Stage::new(&[
        ("Do it.", &["spawn_sub_agent{\"prompt\":\"One?\",\"fork\":true}", "I wait.", "Done."]),
        ("One?", &["echo{\"say\":\"1\"}", "@later echo{\"say\":\"2\"}", "One."]),
    ]);
    let run = stage.start("Do it.").await;
    let pause = async {
        stage.play.wait_for(1).await;
        stage.stop_handle().request(StopRequest::Pause);
    };
    tokio::join!(stage.go(&run), pause);
    assert_eq!(stage.status("m-2-0"), RunStatus::Paused);
    stage.play.open("later");
    assert_eq!(stage.resume(None).await.status, RunStatus::Completed);
    assert_eq!(stage.told_of("m", "m-2-0"), 1);
    stage.shares();
}

/// Keeps the ends of forks.
struct Ends(Mutex<Vec<ForkReport>>);

impl EventSink for Ends {
    fn emit(&self, event: &RunEvent) {
        if let EventKind::ForkEnded(ended) = &event.kind {
            self.0.lock().expect("lock is not poisoned").push((**ended).clone());
        }
    }
}

#[tokio::test]
async fn each_ends_with_one_event_also_when_it_fails() {
    for (says, outcome) in [(&["One."][..], "completed"), (&["!400 no"], "failed")] {
        let mut stage = Stage::new(&[
            ("Do it.", &["spawn_sub_agent{\"prompt\":\"One?\",\"fork\":true}", "Done."]),
            ("One?", says),
        ]);
        let ends = Arc::new(Ends(Mutex::default()));
        stage.events = ends.clone();
        stage.run("Do it.").await;
        let told = ends.0.lock().expect("lock is not poisoned").clone();
        let [ended] = &told[..] else { panic!("one event: {told:?}") };
        assert_eq!(
            (ended.label.as_str(), ended.source.as_str(), ended.outcome),
            ("fork", "spawn_sub_agent", outcome)
        );
        assert_eq!(
            (ended.chain.as_str(), ended.parent_chain.as_deref(), ended.depth),
            ("m-2-0", Some("m"), 1)
        );
        let kept = stage.store().run(&RunId::new("m-2-0")).fork().expect("read").expect("a fork").ended;
        let kept: Value = serde_json::from_str(&kept.expect("kept")).expect("JSON");
        assert_eq!(kept["outcome"], outcome);
    }
    let usage = session::Usage {
        input: 10,
        cache_read: 900,
        cache_write_5m: 80,
        cache_write_1h: 10,
        ..Default::default()
    };
    assert_eq!(usage.hit_rate(), Some(0.9));
}

/// The service tier comes from the answered requests.
#[tokio::test]
async fn a_failure_at_the_end_forgets_no_service_tier() {
    let (stage, forked) = side(&["echo{\"say\":\"y\"}", "!400 no"], and()).await;
    let run = forked.expect("forked").ended.run;
    let kept = stage.store().run(&run).fork().expect("read").expect("a fork").ended.expect("kept");
    let kept: Value = serde_json::from_str(&kept).expect("JSON");
    assert_eq!((&kept["outcome"], &kept["service_tier"]), (&json!("failed"), &json!("standard")));
}

/// A summary replaces the fork's prompt and repeats its last messages: the prompt is repeated, and the messages count once.
#[tokio::test]
async fn a_fork_that_is_summed_up_is_a_fork_all_the_same() {
    let mut stage =
        Stage::new(&[("Do it.", &["Done."]), ("And?", &["echo{\"say\":\"y\"} | in=900", "It was so."])]);
    stage.room.limits.compact_at = 500;
    let run = stage.start("Do it.").await;
    stage.go(&run).await;
    let forked = stage.kernel().fork(&run, &and(), &StopHandle::new()).await.expect("forked");
    assert_eq!(forked.ended.final_text.as_deref(), Some("It was so."));
    let last = stage.sent(forked.ended.run.as_str()).pop().expect("a request");
    assert!(last["messages"][0].to_string().contains("<fork>"), "{last}");
    let kept = stage.store().run(&forked.ended.run).fork().expect("read").expect("a fork").ended;
    let kept: Value = serde_json::from_str(&kept.expect("kept")).expect("JSON");
    // Its prompt, its reply, the result, the summary, and its last text.
    assert_eq!((kept["messages"].as_u64(), forked.messages.len()), (Some(5), 5));
}

/// A run with one turn, and a fork of it.
async fn side(says: &[&str], fork: ForkRequest) -> (Stage, Result<ForkOutcome, RunError>) {
    let stage = Stage::new(&[("Do it.", &["echo{\"say\":\"x\"}", "Done."]), ("And?", says)]);
    let run = stage.start("Do it.").await;
    stage.go(&run).await;
    let forked = stage.kernel().fork(&run, &fork, &StopHandle::new()).await;
    (stage, forked)
}

fn and() -> ForkRequest {
    ForkRequest::new("And?", "side", "test")
}

#[tokio::test]
async fn a_fork_without_transcript_stores_only_its_cost() {
    let says = &["kestrel + echo{\"say\":\"kestrel\"}", "kestrel."];
    let (stage, forked) = side(says, ForkRequest { keep_transcript: false, ..and() }).await;
    let forked = forked.expect("forked");
    assert_eq!((forked.ended.final_text.as_deref(), forked.messages.len()), (Some("kestrel."), 4));
    assert_eq!(forked.usage.input, 200);
    let reads = stage.store().run(&forked.ended.run);
    assert!(reads.messages().expect("messages").is_empty() && reads.tool_calls().expect("calls").is_empty());
    assert_eq!(reads.row().expect("a row").final_text, None);
    assert!(reads.fork().expect("read").expect("a fork").ended.is_some());
    let calls = reads.model_calls().expect("calls");
    assert!(calls.len() == 2 && calls.iter().all(|call| call.reply.is_none()));
    assert!(calls.iter().all(|call| reads.attempts(call.id).expect("attempts")[0].response.is_empty()));
    let again = stage.kernel().resume(&forked.ended.run, Some("And?")).await;
    assert!(matches!(again, Err(RunError::TranscriptNotKept(_))), "{again:?}");
}

#[tokio::test]
async fn a_fork_with_write_cache_off_writes_nothing_into_the_cache() {
    let (stage, forked) =
        side(&["echo{\"say\":\"y\"}", "More."], ForkRequest { write_cache: false, ..and() }).await;
    for body in stage.sent(forked.expect("forked").ended.run.as_str()) {
        let own = &body["messages"].as_array().expect("messages")[4..];
        assert!(own.iter().all(|message| !message.to_string().contains("cache_control")), "{body}");
        assert!(body["messages"].to_string().contains("cache_control"), "what its parent wrote is read");
    }
    stage.shares();
}

#[tokio::test]
async fn a_reminder_is_added_at_every_turn_and_at_the_end() {
    let fork = ForkRequest { reminder: Some("Be brief.".to_owned()), ..and() };
    let (stage, forked) = side(&["echo{\"say\":\"y\"}", "echo{\"say\":\"z\"}", "More."], fork).await;
    let forked = forked.expect("forked");
    let said: Vec<&session::Message> =
        forked.messages.iter().filter(|message| message.role != session::Role::Assistant).collect();
    assert_eq!(said.len(), 3);
    for message in said {
        assert_eq!(message.blocks.last(), Some(&session::Block::Text { text: "Be brief.".to_owned() }));
    }
    stage.shares();
}

#[tokio::test]
async fn turns_are_limited_with_one_more_to_answer() {
    let says = &["echo{\"say\":\"1\"}", "echo{\"say\":\"2\"}", "As far as I came."];
    let (_, forked) = side(says, ForkRequest { max_turns: Some(2), ..and() }).await;
    let ended = forked.expect("forked").ended;
    assert_eq!((ended.status, ended.final_text.as_deref()), (RunStatus::StepCap, Some("As far as I came.")));
}

#[test]
fn a_limit_that_changes_how_it_thinks_is_refused_unless_the_cache_is_given_up() {
    use wire::dialect::Dialect::{AnthropicMessages, OpenAiChat, OpenAiResponses};
    let thinks =
        br#"{"model":"m","max_tokens":32000,"thinking":{"type":"enabled","budget_tokens":8000},"messages":["#;
    let capped = |most, gives_up| head::with_output_limit(AnthropicMessages, thinks, most, gives_up);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    assert_eq!(
        text(capped(9000, false).expect("thinking stays")),
        r#"{"model":"m","max_tokens":9000,"thinking":{"type":"enabled","budget_tokens":8000},"messages":["#
    );
    let why = capped(8000, false).expect_err("it would think less");
    assert!(why.contains("thinking budget of 8000 tokens") && why.contains("cache"), "{why}");
    assert!(text(capped(8000, true).expect("given up")).contains(r#""budget_tokens":4000"#));
    assert_eq!(
        text(capped(2000, true).expect("nobody thinks with less than 1024")),
        r#"{"model":"m","max_tokens":2000,"thinking":{"type":"disabled"},"messages":["#
    );
    let unlimited = head::with_output_limit(OpenAiResponses, br#"{"model":"m","input":["#, 100, false);
    assert_eq!(
        text(unlimited.expect("a limit is added")),
        r#"{"max_output_tokens":100,"model":"m","input":["#
    );
    for (dialect, head) in [
        (AnthropicMessages, r#"{"model":"m","max_tokens":32000,"thinking":{"type":"adaptive"},"messages":["#),
        (OpenAiChat, r#"{"model":"m","max_completion_tokens":32000,"messages":["#),
        (OpenAiResponses, r#"{"model":"m","max_output_tokens":32000,"input":["#),
    ] {
        let capped = head::with_output_limit(dialect, head.as_bytes(), 100, false)
            .expect("it has no budget of its own");
        assert_eq!(text(capped), head.replace("32000", "100"));
    }
}

#[tokio::test]
async fn an_output_limit_changes_only_itself() {
    let (stage, forked) = side(&["More."], ForkRequest { max_output_tokens: Some(77), ..and() }).await;
    let body =
        String::from_utf8(stage.bodies(forked.expect("forked").ended.run.as_str()).remove(0)).expect("text");
    let parent = String::from_utf8(stage.bodies("m").remove(1)).expect("text");
    let limit = |body: &str| serde_json::from_str::<Value>(body).expect("JSON")["max_tokens"].clone();
    assert_eq!(limit(&body), 77);
    let before = parent.split(r#""messages""#).next().expect("a head");
    assert!(body.starts_with(&before.replace(&format!("{}", limit(&parent)), "77")), "{body}");
}

/// Says no to one tool, and keeps what it was asked.
struct No(Mutex<Vec<String>>);

impl Approver for No {
    fn ask<'a>(&'a self, question: &'a PermissionQuestion) -> BoxFuture<'a, PermissionAnswer> {
        self.0.lock().expect("lock is not poisoned").push(question.tool.clone());
        Box::pin(std::future::ready(PermissionAnswer::No("not this".to_owned())))
    }
}

#[tokio::test]
async fn a_fork_with_always_ask_asks_its_own_asker() {
    let asked = Arc::new(No(Mutex::default()));
    let fork = ForkRequest {
        permissions: ForkPermissions {
            asker: Some(asked.clone()),
            always_ask: true,
            ..ForkPermissions::default()
        },
        ..and()
    };
    let (stage, forked) = side(&["echo{\"say\":\"y\"}", "More."], fork).await;
    assert_eq!(*asked.0.lock().expect("lock is not poisoned"), ["echo"], "also what a rule allows");
    let run = forked.expect("forked").ended.run;
    assert!(stage.results(run.as_str())[0].contains("not this"));
}

#[tokio::test]
async fn tools_allowed_by_a_skill_need_no_question_and_denials_hold() {
    let mut stage = Stage::new(&[
        ("Do it.", &["skill{\"name\":\"look\",\"arguments\":\"here\"}", "count{}", "Done."]),
        ("Look here.", &["echo{\"say\":\"y\"} + put{\"n\":1} + peek{\"n\":2}", "Looked."]),
    ]);
    let mut project = crate::PermissionRules::default();
    project.add(RuleList::Ask, "echo").expect("a rule");
    stage.rules.extend(project.into_project_rules());
    stage.rules.add(RuleList::Ask, "put").expect("a rule");
    stage.rules.add(RuleList::Deny, "peek").expect("a rule");
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir_all(folder.path().join("user/skills/look")).expect("a folder");
    let text =
        "---\ndescription: looks\ncontext: fork\nallowed-tools: echo, put, peek\n---\nLook $ARGUMENTS.";
    std::fs::write(folder.path().join("user/skills/look/SKILL.md"), text).expect("a file");
    let places = definition::DefinitionFolders { project: folder.path(), user: &folder.path().join("user") };
    let known: Vec<String> = stage.kernel().tools.names().map(str::to_owned).collect();
    let skills = definition::Definitions::load(places, &definition::Trust::default(), &known).skills;
    let run = stage.start("Do it.").await;
    let kernel = Kernel { skills: skills.into(), ..stage.kernel() };
    kernel.run(&run, &ResumeOverrides::default(), &StopHandle::new()).await.expect("it runs");
    assert_eq!(stage.result("m", 0)["final_text"], "Looked.");
    let results = stage.results("m-2-0");
    assert_eq!(results[0], "y");
    assert!(
        results[1].contains("no terminal to ask on") && results[2].contains("`peek` denies it"),
        "{results:?}"
    );
    let fork = stage.store().run(&RunId::new("m-2-0")).fork().expect("read").expect("a fork");
    assert_eq!((fork.label.as_str(), fork.source.as_str()), ("look", "skill"));
    assert_eq!(stage.results("m")[1], "1", "what its fork was left is not what main is left");
}

/// Judges these calls of a fork: without a question, and with one that has no answer.
fn is_ruled_like_its_parent(results: &[String]) {
    assert_eq!(results[0], "y", "{results:?}");
    assert!(results[1].contains("no terminal to ask on"), "{results:?}");
}

#[tokio::test]
async fn a_fork_inherits_the_allowed_calls_of_its_parent() {
    let both = "echo{\"say\":\"y\"} + put{\"n\":1}";
    let mut stage = Stage::new(&[
        ("Do it.", &[both, "spawn_sub_agent{\"prompt\":\"Try.\",\"fork\":true}", "Done."]),
        ("Try.", &[both, "Tried."]),
        ("And?", &[both, "So."]),
        ("And then?", &[both, "Well."]),
    ]);
    let rule = |list, tool: &str| (list, tool.to_owned());
    stage.room.own_rules =
        vec![rule(RuleList::Ask, "echo"), rule(RuleList::Ask, "put"), rule(RuleList::Allow, "echo")];
    stage.run("Do it.").await;
    is_ruled_like_its_parent(&stage.results("m"));
    is_ruled_like_its_parent(&stage.results("m-4-0"));
    let side =
        stage.kernel().fork(&RunId::new("m"), &and(), &StopHandle::new()).await.expect("forked").ended.run;
    is_ruled_like_its_parent(&stage.results(side.as_str()));
    let next = ForkRequest::new("And then?", "side", "test");
    let of_fork = stage.kernel().fork(&side, &next, &StopHandle::new()).await.expect("forked").ended.run;
    is_ruled_like_its_parent(&stage.results(of_fork.as_str()));
}

/// A question of the parent's rules holds for its children, even if their files allow the call.
#[tokio::test]
async fn an_exception_below_is_none_above() {
    let mut stage = Stage::new(&[
        ("Do it.", &[r#"spawn_sub_agent{"prompt":"Work.","agent":"worker"}"#, "Done."]),
        ("Work.", &["Worked."]),
        ("And?", &[r#"bash{"command":"echo hello"}"#, "So."]),
    ]);
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir_all(folder.path().join("user/agents")).expect("a folder");
    let text =
        "---\ndescription: works\npermission:\n  bash:\n    \"*\": ask\n    \"echo*\": allow\n---\nWork.";
    std::fs::write(folder.path().join("user/agents/worker.md"), text).expect("a file");
    let places = definition::DefinitionFolders { project: folder.path(), user: &folder.path().join("user") };
    let tools: Vec<String> = crate::tools::builtin().iter().map(|tool| tool.name().to_owned()).collect();
    stage.agents = definition::Definitions::load(places, &definition::Trust::default(), &tools).agents;
    stage.room.own_rules = vec![(RuleList::Ask, "bash".to_owned())];
    stage.run("Do it.").await;
    let rules = RunSettings::from_bytes(&stage.row("m-2-0").settings).expect("settings").rules;
    assert!(rules.iter().any(|(list, _)| *list == RuleList::Allow), "{rules:?}");
    let worker = RunId::new("m-2-0");
    let side = stage.kernel().fork(&worker, &and(), &StopHandle::new()).await.expect("forked").ended.run;
    let results = stage.results(side.as_str());
    assert!(results[0].contains("no terminal to ask on"), "{results:?}");
}

/// A skill that a fork follows.
fn look() -> Arc<[Skill]> {
    let (name, body) = ("look".to_owned(), "Look again.".to_owned());
    Arc::from([Skill { name, body, in_fork: true, ..Skill::default() }])
}

#[tokio::test]
async fn a_fork_that_cannot_fork_follows_a_skill_itself() {
    let stage = Stage::new(&[
        ("Do it.", &["skill{\"name\":\"look\"}", "Done."]),
        ("Look again.", &["skill{\"name\":\"look\"}", "Looked."]),
    ]);
    let run = stage.start("Do it.").await;
    let kernel = Kernel { skills: look(), ..stage.kernel() };
    kernel.run(&run, &ResumeOverrides::default(), &StopHandle::new()).await.expect("it runs");
    assert_eq!(stage.results("m-2-0"), ["Look again."], "its text, and no fork of a fork");
    assert_eq!(stage.runs().len(), 2);
}

#[tokio::test]
async fn an_interrupted_skill_is_reported_when_its_fork_ends() {
    skill_broken_off(None).await;
    // A skill starts forks whether or not its agent may start others itself.
    skill_broken_off(Some(vec!["skill".to_owned()])).await;
}

async fn skill_broken_off(tools: Option<Vec<String>>) {
    let stage = Stage::new(&[
        ("Do it.", &["skill{\"name\":\"look\"}", "Something else.", "Looked, too."]),
        ("Look again.", &["@later Looked."]),
    ]);
    let start = StartRequest { id: Some(RunId::new("m")), tools, ..stage.room.start_of("Do it.") };
    let run = stage.kernel().start(start).await.expect("started");
    let kernel = Kernel { skills: look(), ..stage.kernel() };
    let (stop_handle, more) = (StopHandle::new(), ResumeOverrides::default());
    let pause = async {
        stage.play.wait_for(1).await;
        stop_handle.request(StopRequest::Pause);
    };
    let (_, ()) = tokio::join!(kernel.run(&run, &more, &stop_handle), pause);
    assert_eq!(stage.result("m", 0)["error"], prompts::CONTINUES_AS_JOB);
    stage.play.open("later");
    kernel.resume(&run, Some("Do something else.")).await.expect("it can be taken up");
    kernel.run(&run, &more, &StopHandle::new()).await.expect("it runs");
    assert_eq!(stage.told_of("m", "m-2-0"), 1);
}

#[tokio::test]
async fn every_message_of_its_own_is_heard() {
    let (heard, seen) = watch::channel(Vec::new());
    let on_message: Arc<MessageListener> = Arc::new(move |message: &session::Message| {
        heard.send_modify(|all: &mut Vec<session::Role>| all.push(message.role));
    });
    let (_, forked) =
        side(&["echo{\"say\":\"y\"}", "More."], ForkRequest { on_message: Some(on_message), ..and() }).await;
    forked.expect("forked");
    use session::Role::{Assistant, User};
    assert_eq!(*seen.borrow(), [User, Assistant, User, Assistant]);
}

#[tokio::test]
async fn the_others_go_when_the_answer_to_the_first_has_begun() {
    let fork = |prompt: &str| format!("spawn_sub_agent{{\"prompt\":\"{prompt}\",\"fork\":true}}");
    let three = [fork("One?"), fork("One?"), fork("One?")].join(" + ");
    let stage = Stage::new(&[("Do it.", &[&three, "Done."]), ("One?", &["@first One."])]);
    let run = stage.start("Do it.").await;
    let first = async {
        stage.play.wait_for(1).await;
        // All three are written down, and only one of them is asked.
        let asked =
            |run: &str| stage.store().run(&RunId::new(run)).model_calls().map_or(0, |calls| calls.len());
        while (0..3).any(|n| asked(&format!("m-2-{n}")) == 0) {
            tokio::task::yield_now().await;
        }
        let asked = stage.play.asked()[&("One?".to_owned(), 0)];
        stage.play.open("first");
        asked
    };
    let (_, asked) = tokio::join!(stage.go(&run), first);
    assert_eq!(asked, 1, "the others wait");
    assert_eq!(stage.play.asked()[&("One?".to_owned(), 0)], 3);
}

#[tokio::test]
async fn another_one_leads_where_the_first_has_failed() {
    let fork = |prompt: &str| format!("spawn_sub_agent{{\"prompt\":\"{prompt}\",\"fork\":true}}");
    let three = [fork("One?"), fork("Two?"), fork("Three?")].join(" + ");
    let stage = Stage::new(&[
        ("Do it.", &[&three, "Done."]),
        ("One?", &["@One? !400 no"]),
        ("Two?", &["@Two? !400 no"]),
        ("Three?", &["@Three? !400 no"]),
    ]);
    let run = stage.start("Do it.").await;
    let each = async {
        let mut asked = Vec::new();
        for turn in 1..=3 {
            let here = stage.play.wait_for(turn).await;
            let is_asked = |n: usize| {
                let calls = stage.store().run(&RunId::new(format!("m-2-{n}"))).model_calls();
                calls.is_ok_and(|calls| !calls.is_empty())
            };
            while !(0..3).all(is_asked) {
                tokio::task::yield_now().await;
            }
            asked.push(stage.play.asked().keys().filter(|(who, _)| who.ends_with('?')).count());
            stage.play.open(&here[turn - 1]);
        }
        asked
    };
    let (ended, asked) = tokio::join!(stage.go(&run), each);
    assert_eq!(asked, [1, 2, 3], "the others wait until one of them leads");
    assert_eq!(ended.final_text.as_deref(), Some("Done."));
}

#[tokio::test]
async fn side_questions_of_one_process_wait_for_the_first_too() {
    let stage = Stage::new(&[("Do it.", &["Done."]), ("And?", &["@first So."])]);
    let run = stage.start("Do it.").await;
    stage.go(&run).await;
    let (kernel, stop_handle) = (stage.kernel(), StopHandle::new());
    let first = async {
        stage.play.wait_for(1).await;
        let is_asked =
            |run: &str| !stage.store().run(&RunId::new(run)).model_calls().expect("calls").is_empty();
        while stage.runs().iter().filter(|(run, _)| is_asked(run)).count() < 3 {
            tokio::task::yield_now().await;
        }
        let asked = stage.play.asked()[&("And?".to_owned(), 0)];
        stage.play.open("first");
        asked
    };
    let (fork, other) = (and(), and());
    let both = async {
        tokio::join!(kernel.fork(&run, &fork, &stop_handle), kernel.fork(&run, &other, &stop_handle))
    };
    let (_, asked) = tokio::join!(both, first);
    assert_eq!((asked, stage.play.asked()[&("And?".to_owned(), 0)]), (1, 2));
}

#[tokio::test]
async fn it_begins_as_full_as_its_parent_is_and_no_fuller() {
    let mut stage = Stage::new(&[("Do it.", &["echo{\"say\":\"x\"}", "Done."]), ("And?", &["So."])]);
    stage.room.limits.compact_at = 500; // tokens; by their length alone the messages would have more
    let run = stage.start("Do it.").await;
    stage.go(&run).await;
    let forked = stage.kernel().fork(&run, &and(), &StopHandle::new()).await.expect("forked");
    assert_eq!(forked.ended.final_text.as_deref(), Some("So."));
    stage.shares();
}

#[tokio::test]
async fn a_side_question_pays_for_itself() {
    let mut stage =
        Stage::new(&[("Do it.", &["Done."]), ("And?", &["So. | in=95000"]), ("Go on.", &["Gone on."])]);
    stage.room.limits.max_budget_tokens = Some(100_000);
    let run = stage.start("Do it.").await;
    stage.go(&run).await;
    stage.kernel().fork(&run, &and(), &StopHandle::new()).await.expect("forked");
    let ended = stage.resume(Some("Go on.")).await;
    assert_eq!((ended.status, ended.final_text.as_deref()), (RunStatus::Completed, Some("Gone on.")));
}

#[tokio::test]
async fn a_pause_is_no_end() {
    let mut stage = Stage::new(&[("Do it.", &["Done."]), ("And?", &["echo{\"say\":\"y\"}", "@later So."])]);
    let ends = Arc::new(Ends(Mutex::default()));
    stage.events = ends.clone();
    let run = stage.start("Do it.").await;
    stage.go(&run).await;
    let fork = ForkRequest { reminder: Some("Be brief.".to_owned()), ..and() };
    let (kernel, stop_handle, more) = (stage.kernel(), StopHandle::new(), ResumeOverrides::default());
    let (id, _) = kernel.start_fork(&run, &fork).await.expect("a fork");
    let pause = async {
        stage.play.wait_for(1).await;
        stop_handle.request(StopRequest::Pause);
    };
    let (ended, ()) = tokio::join!(kernel.run(&id, &more, &stop_handle), pause);
    assert_eq!(ended.expect("it stops").status, RunStatus::Paused);
    assert_eq!(ends.0.lock().expect("lock is not poisoned").len(), 0, "it goes on");
    stage.play.open("later");
    kernel.resume(&id, None).await.expect("it can be taken up");
    kernel.run(&id, &more, &StopHandle::new()).await.expect("it runs");
    assert_eq!(ends.0.lock().expect("lock is not poisoned").len(), 1);
    // What is said to it later ends as everything that is said to it.
    kernel.resume(&id, Some("And?")).await.expect("it can be gone on with");
    let said = stage.said_to(id.as_str());
    assert!(
        said.lines().last().is_some_and(|last| last.contains("And?") && last.contains("Be brief.")),
        "{said}"
    );
}

#[tokio::test]
async fn a_fork_ended_from_outside_leaves_no_transcript() {
    let stage =
        Stage::new(&[("Do it.", &["Done."]), ("And?", &["kestrel. + echo{\"say\":\"y\"}", "@never So."])]);
    let run = stage.start("Do it.").await;
    stage.go(&run).await;
    let reminder = Some("kestrel".to_owned());
    let kernel = stage.kernel();
    let fork = ForkRequest { keep_transcript: false, reminder, ..and() };
    let (id, _) = kernel.start_fork(&run, &fork).await.expect("a fork");
    let (more, stop_handle) = (ResumeOverrides::default(), StopHandle::new());
    tokio::select! {
        _ = kernel.run(&id, &more, &stop_handle) => panic!("it was to be broken off"),
        _ = stage.play.wait_for(1) => {}
    }
    end_tree(stage.store(), &id, store::Millis(0)).await.expect("ended");
    let reads = stage.store().run(&id);
    let ended: Value =
        serde_json::from_str(&reads.fork().expect("read").expect("a fork").ended.expect("an end"))
            .expect("JSON");
    assert_eq!(ended["outcome"], "cancelled_by_user");
    assert!(reads.messages().expect("messages").is_empty() && reads.tool_calls().expect("calls").is_empty());
    let settings = String::from_utf8(reads.row().expect("a row").settings).expect("text");
    assert!(!settings.contains("kestrel"), "{settings}");
}

/// Lines of a random main agent and its forks. One of the forks waits at a gate in the middle.
fn random(rng: &mut fastrand::Rng) -> Vec<(String, Vec<String>)> {
    let some = |rng: &mut fastrand::Rng| match rng.u8(..5) {
        4 => format!("~It may be {}. + echo{{\"say\":\"so\"}}", rng.u32(..)),
        0 => format!("echo{{\"say\":\"{}\"}}", rng.u32(..)),
        1 => format!("put{{\"n\":{}}}", rng.u8(..)),
        2 => format!("words + echo{{\"say\":\"a\"}} + peek{{\"n\":{}}}", rng.u8(..)),
        _ => format!("huge{{\"bytes\":{}}}", if rng.u8(..8) == 0 { 200_000 } else { 10 }),
    };
    let mut main: Vec<String> = (0..rng.usize(1..4)).map(|_| some(rng)).collect();
    let mut all = Vec::new();
    let mut spawns = vec![some(rng)];
    for n in 0..rng.usize(1..4) {
        let background = rng.bool();
        spawns.push(format!(
            "spawn_sub_agent{{\"prompt\":\"Fork {n}?\",\"fork\":true,\"run_in_background\":{background}}}"
        ));
        let mut says: Vec<String> = (0..rng.usize(1..4)).map(|_| some(rng)).collect();
        if n == 0 {
            let at = rng.usize(..says.len());
            says[at] = format!("@gate {}", says[at]);
        }
        says.push(format!("Fork {n} says so."));
        all.push((format!("Fork {n}?"), says));
    }
    rng.shuffle(&mut spawns);
    main.push(spawns.join(" + "));
    main.extend((0..rng.usize(..2)).map(|_| some(rng)));
    main.extend((0..12).map(|n| format!("I have said {n}.")));
    all.push(("Do it.".to_owned(), main));
    all.push(("Beside it?".to_owned(), vec![some(rng), "It is so.".to_owned()]));
    all.push(("And beside that?".to_owned(), vec![some(rng), "Even so.".to_owned()]));
    all
}

#[tokio::test]
async fn interrupted_forks_share_the_prefix_of_their_parent() {
    let (mut forks, mut turns) = (0, 0);
    for seed in 0..200 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut stage = Stage::new(&[]);
        stage.play = Arc::new(Play::of(random(&mut rng)));
        if seed % 2 == 0 {
            // Its process is gone in the middle.
            super::restarts::broken_off(&stage, 1).await;
        } else {
            let run = stage.start("Do it.").await;
            let pause = async {
                stage.play.wait_for(1).await;
                stage.stop_handle().request(StopRequest::Pause);
            };
            tokio::join!(stage.go(&run), pause);
        }
        stage.shares();
        stage.play.open("gate");
        let ended = stage.resume(None).await;
        assert_eq!(ended.status, RunStatus::Completed, "seed {seed}: {:?}", ended.error);
        stage.shares();
        // Forks of a fork, as another process starts them.
        let (runs, kernel, stop_handle) = (stage.runs(), stage.kernel(), StopHandle::new());
        let of = RunId::new(runs[rng.usize(1..runs.len())].0.as_str());
        let beside = kernel
            .fork(&of, &ForkRequest::new("Beside it?", "side", "test"), &stop_handle)
            .await
            .expect("forked");
        let that = ForkRequest::new("And beside that?", "side", "test");
        kernel.fork(&beside.ended.run, &that, &stop_handle).await.expect("forked");
        stage.shares();
        for (run, status) in stage.runs().into_iter().filter(|(run, _)| run != "m") {
            assert_eq!(status, RunStatus::Completed, "seed {seed}: {run}");
            forks += 1;
            turns += stage.bodies(&run).len();
        }
    }
    assert!(forks >= 200 && turns > 2 * forks, "{forks} forks with {turns} turns");
}
