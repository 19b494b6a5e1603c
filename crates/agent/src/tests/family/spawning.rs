//! One sub-agent after the other, and several at once.

use serde_json::json;
use store::{RunKind, TaskStatus};

use super::*;

const ONE: &[(&str, &[&str])] = &[
    ("Do it.", &[r#"spawn_sub_agent{"prompt":"Look."}"#, "It was found."]),
    ("Look.", &["It is in a.txt."]),
];

#[tokio::test]
async fn its_answer_and_its_id_come_back() {
    let stage = Stage::new(ONE);
    let ended = stage.run("Do it.").await;
    assert_eq!((ended.status, ended.final_text.as_deref()), (RunStatus::Completed, Some("It was found.")));
    assert_eq!(stage.results("m"), [r#"{"run_id":"m-2-0","final_text":"It is in a.txt."}"#]);
    let row = stage.row("m-2-0");
    assert_eq!((row.kind, row.depth, row.parent), (RunKind::Sub, 1, Some(RunId::new("m"))));
    assert_eq!(row.spawned_by.expect("a call").as_str(), "Do_it..0.0");
    assert_eq!((row.chain.as_str(), row.agent.as_str()), ("m-2-0", "general-purpose"));
    assert_eq!(row.final_text.as_deref(), Some("It is in a.txt."));
}

#[tokio::test]
async fn a_sub_agent_gets_its_task_and_no_conversation() {
    let mut stage = Stage::new(&[
        (
            "Do it.",
            &[
                r#"spawn_sub_agent{"prompt":"Look."} + spawn_sub_agent{"prompt":"Ask.","agent":"asker","model":"haiku"}"#,
                "Done.",
            ],
        ),
        ("Look.", &["Seen."]),
        ("Ask.", &["Asked."]),
    ]);
    stage.agents = vec![Agent { name: "asker".into(), prompt: "You ask.".into(), ..Agent::default() }];
    stage.run("Do it.").await;
    let (look, ask) = (&stage.sent("m-2-0")[0], &stage.sent("m-2-1")[0]);
    let system = look["system"].as_array().expect("system");
    assert_eq!(system[0]["text"], prompts::SUB);
    assert_eq!(system[0]["cache_control"]["type"], "ephemeral");
    assert_eq!(system[1].get("cache_control"), None, "the marker stands right behind what all are told");
    assert_eq!(ask["system"][0], system[0], "the same bytes for all");
    assert_eq!(ask["system"][1]["text"], "You ask.");
    assert_eq!(ask["model"], "claude-haiku-4-5");
    let names: Vec<&str> =
        look["tools"].as_array().expect("tools").iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert!(names.contains(&"read") && names.contains(&"bash") && names.contains(&"memory"), "{names:?}");
    for without in ["spawn_sub_agent", "job_output", "job_cancel", "manage_tasks"] {
        assert!(!names.contains(&without), "{without}");
    }
    let first = look["messages"][0].to_string();
    assert!(first.contains("Today is Thursday, 2026-01-01 (UTC).") && first.contains("sandbox"), "{first}");
    assert!(!first.contains("Do it."), "{first}");
}

#[tokio::test]
async fn an_answer_is_kept_with_the_task_and_judged_by_main() {
    let stage = Stage::new(&[
        (
            "Plan.",
            &[
                r#"manage_tasks{"create":[{"subject":"find it","description":"in the files"}]}"#,
                r#"manage_tasks{"update":[{"id":"m.2.0.1","status":"in_progress"}]}"#,
                r#"spawn_sub_agent{"prompt":"First.","task_id":"m.2.0.1"}"#,
                r#"spawn_sub_agent{"prompt":"Second.","task_id":"m.2.0.1"}"#,
                r#"spawn_sub_agent{"prompt":"Third.","task_id":"m.2.0.1"}"#,
                "Done.",
            ],
        ),
        ("First.", &["Half of it."]),
        ("Second.", &["I begin. + echo{\"say\":\"x\"}", "!400 no"]),
        ("Third.", &["All of it."]),
    ]);
    stage.run("Plan.").await;
    let thread = stage.row("m").thread;
    let tasks = stage.store().main().tasks(&thread).expect("tasks");
    assert_eq!((tasks[0].status, tasks[0].result.as_deref()), (TaskStatus::InProgress, Some("All of it.")));
    assert_eq!(stage.row("m-6-0").task, Some(tasks[0].id.clone()));
    let first = stage.said_to("m-6-0");
    assert!(first.contains("<task>\\nm.2.0.1 (in_progress): find it\\nin the files\\n</task>"), "{first}");
    let told = |prompt: &str| stage.said_to(prompt);
    assert!(!told("m-6-0").contains("prior_attempts"));
    let third = told("m-10-0");
    let attempts = r#"<prior_attempts>\n<attempt run_id=\"m-6-0\" status=\"completed\">\nHalf of it.\n</attempt>\n<attempt run_id=\"m-8-0\" status=\"failed\">\nerror: "#;
    assert!(third.contains(attempts), "{third}");
    assert!(!third.contains("I begin."), "narration is no answer: {third}");
    assert_eq!(stage.result("m", 3)["status"], "failed");
}

#[tokio::test]
async fn a_long_attempt_is_cut_and_a_task_is_not_needed() {
    let stage = Stage::new(&[
        (
            "Plan.",
            &[
                r#"manage_tasks{"create":[{"subject":"s"}]} + spawn_sub_agent{"prompt":"Long.","task_id":"m.2.0.1"}"#,
                r#"spawn_sub_agent{"prompt":"Again.","task_id":"m.2.0.1"} + spawn_sub_agent{"prompt":"Free."}"#,
                "Done.",
            ],
        ),
        ("Long.", &[&"x".repeat(2000)]),
        ("Again.", &["ok"]),
        ("Free.", &["ok"]),
    ]);
    stage.run("Plan.").await;
    let again = stage.said_to("m-4-0");
    assert!(again.contains(&format!("{}…", "x".repeat(500))) && !again.contains(&"x".repeat(501)));
    let free = stage.said_to("m-4-1");
    assert!(!free.contains("<task>"), "{free}");
    assert_eq!(stage.row("m-4-1").task, None);
}

#[tokio::test]
async fn several_in_one_message_work_at_the_same_time() {
    // Both meet: neither could go on alone.
    let stage = Stage::new(&[
        ("Do it.", &[r#"spawn_sub_agent{"prompt":"One."} + spawn_sub_agent{"prompt":"Two."}"#, "Done."]),
        ("One.", &["meet{}", "One met."]),
        ("Two.", &["meet{}", "Two met."]),
    ]);
    stage.run("Do it.").await;
    assert_eq!(stage.result("m", 0), json!({ "run_id": "m-2-0", "final_text": "One met." }));
    assert_eq!(stage.result("m", 1), json!({ "run_id": "m-2-1", "final_text": "Two met." }));
}

#[tokio::test]
async fn an_invalid_spawn_names_the_valid_values() {
    let calls = [
        (r#"{"prompt":" "}"#, "`prompt` is empty"),
        (r#"{"prompt":"x","agent":"nobody"}"#, "no agent `nobody`; available: general-purpose"),
        (r#"{"prompt":"x","task_id":"9.9.9"}"#, "this conversation has no task `9.9.9`; there are no tasks"),
        (r#"{"prompt":"x","task_id":"tother/1.1.1"}"#, "this conversation has no task `tother/1.1.1`"),
        (r#"{"prompt":"x","model":"opus"}"#, "has no model of the tier `opus`"),
        (r#"{"prompt":"x","output_schema":{"type":"nothing"}}"#, "`output_schema`: it is not a JSON schema"),
    ];
    let all: Vec<String> = calls.iter().map(|(input, _)| format!("spawn_sub_agent{input}")).collect();
    let all = all.join(" + ");
    let stage = Stage::new(&[("Do it.", &[&all, "Done."])]);
    let ended = stage.run("Do it.").await;
    assert_eq!(ended.status, RunStatus::Completed);
    for (result, (input, said)) in stage.results("m").iter().zip(calls) {
        assert!(result.contains(said), "{input}: {result}");
    }
    assert_eq!(stage.runs().len(), 1, "nobody was started");
}

#[tokio::test]
async fn messages_of_sub_agents_are_not_messages_of_the_user() {
    let stage = Stage::new(&[
        ("Do it.", &[r#"spawn_sub_agent{"prompt":"kestrel look"}"#, "Done."]),
        ("kestrel look", &["kestrel thinks + echo{\"say\":\"kestrel\"}", "kestrel found."]),
    ]);
    stage.run("Do it.").await;
    let main = stage.store().main();
    assert!(main.search("kestrel", 9).expect("searched").is_empty());
    let thread = stage.row("m").thread;
    let texts: Vec<_> =
        main.history(&thread).expect("history").into_iter().filter_map(|m| m.message.text).collect();
    assert_eq!(texts, ["Do it.", "Done."]);
    assert!(main.threads(9).expect("threads").iter().all(|thread| !thread.title.contains("kestrel")));
}

#[tokio::test]
async fn a_model_of_another_provider_is_refused() {
    let call = r#"spawn_sub_agent{"prompt":"x","agent":"other"}"#;
    let mut stage = Stage::new(&[("Do it.", &[call, "Done."])]);
    let (name, model) = ("other".to_owned(), Some("openai/gpt-5".to_owned()));
    stage.agents = vec![Agent { name, model, ..Agent::default() }];
    let provider = "script:anthropic".to_owned();
    let start = StartRequest { id: Some(RunId::new("m")), provider, ..stage.room.start_of("Do it.") };
    let run = stage.kernel().start(start).await.expect("started");
    stage.go(&run).await;
    assert!(stage.results("m")[0].contains("has no model `"), "{:?}", stage.results("m"));
}

#[tokio::test]
async fn each_agent_gets_the_instructions_of_a_folder_itself() {
    let read = r#"read{"path":"src/a.txt"}"#;
    let calls = format!(r#"spawn_sub_agent{{"prompt":"Look."}} + {read}"#);
    let stage = Stage::new(&[("Do it.", &[read, &calls, "Done."]), ("Look.", &[read, "Seen."])]);
    let folder = stage.room.folder.path().join("w/src");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("AGENTS.md"), "outer rules").expect("written");
    std::fs::write(folder.join("a.txt"), "a").expect("written");
    stage.run("Do it.").await;
    for run in ["m", "m-4-0"] {
        assert_eq!(stage.said_to(run).matches("outer rules").count(), 1, "{run}: {}", stage.said_to(run));
        assert_eq!(stage.store().run(&RunId::new(run)).folder_notes().expect("notes").len(), 1);
    }
}
