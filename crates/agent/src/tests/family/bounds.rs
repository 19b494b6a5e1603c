//! Limits of a run tree: growth, budgets and permissions.

use store::Filter;

use super::*;
use crate::future::BoxFuture;

fn jobs(count: usize) -> String {
    let launch = r#"spawn_sub_agent{"prompt":"Work.","run_in_background":true}"#;
    vec![launch; count].join(" + ")
}

#[tokio::test]
async fn runs_over_the_limit_wait_for_a_slot() {
    for (at_once, requests) in [(1, 16), (3, 16), (16, 2)] {
        let mut stage = Stage::new(&[
            (
                "Do it.",
                &[&jobs(7), r#"spawn_sub_agent{"prompt":"Work."}"#, "1", "2", "3", "4", "5", "6", "7", "8"],
            ),
            ("Work.", &["echo{\"say\":\"x\"}", "Worked."]),
        ]);
        (stage.tree_limits.max_running, stage.tree_limits.max_requests) = (at_once, requests);
        assert_eq!(stage.run("Do it.").await.status, RunStatus::Completed);
        for n in 0..7 {
            assert_eq!(stage.told_of("m", &format!("m-2-{n}")), 1);
        }
        // Main itself is one more than those at work.
        assert!(stage.play.most_at_once() <= requests.min(at_once + 1), "{}", stage.play.most_at_once());
    }
}

#[tokio::test]
async fn a_waiting_agent_frees_its_place_for_others() {
    let mut stage = Stage::new(&[
        ("Do it.", &[r#"spawn_sub_agent{"prompt":"Lead."} + spawn_sub_agent{"prompt":"Lead."}"#, "Done."]),
        ("Lead.", &[r#"spawn_sub_agent{"prompt":"Work."}"#, &jobs(1), "I wait.", "Led."]),
        ("Work.", &["Worked."]),
    ]);
    (stage.tree_limits.max_running, stage.tree_limits.max_depth) = (1, 2);
    stage.run("Do it.").await;
    let led = stage.result("m", 0);
    assert!(led["final_text"] == "Led." || led["final_text"] == "I wait.", "its job may be faster: {led}");
    assert_eq!(stage.runs().len(), 7);
}

#[tokio::test]
async fn too_many_and_too_deep_are_errors() {
    let mut stage = Stage::new(&[("Do it.", &[&jobs(3), "I wait.", "1", "2"]), ("Work.", &["Worked."])]);
    stage.tree_limits.max_children = 2;
    stage.run("Do it.").await;
    let refused = stage.results("m").iter().filter(|result| result.contains("the limit of")).count();
    assert_eq!((refused, stage.runs().len()), (1, 3), "{:?}", stage.results("m"));
    assert!(stage.results("m")[2].contains("the limit of"), "the last: {:?}", stage.results("m"));
    let stage = Stage::new(&[
        ("Do it.", &[r#"spawn_sub_agent{"prompt":"Lead."}"#, "Done."]),
        ("Lead.", &[r#"spawn_sub_agent{"prompt":"Work."}"#, "Alone."]),
    ]);
    stage.run("Do it.").await;
    assert!(stage.results("m-2-0")[0].contains("no tool `spawn_sub_agent`"), "{:?}", stage.results("m-2-0"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_calls_of_a_message_get_the_free_slots() {
    let bad = r#"spawn_sub_agent{"prompt":"Work.","agent":"nobody"}"#;
    let twenty = format!("{} + {bad} + {}", jobs(4), jobs(15));
    let mut main = vec![twenty];
    main.extend((0..9).map(|n| format!("I wait {n}.")));
    for _ in 0..5 {
        let mut stage = Stage::new(&[]);
        let work = ("Work.".to_owned(), vec!["Worked.".to_owned()]);
        stage.play = Arc::new(play::Play::of(vec![("Do it.".to_owned(), main.clone()), work]));
        stage.tree_limits.max_children = 8;
        stage.run("Do it.").await;
        let refused =
            stage.results("m").iter().map(|result| result.contains("the limit of")).collect::<Vec<_>>();
        // The invalid call does not count.
        assert_eq!(refused, (0..20).map(|n| n > 8).collect::<Vec<_>>(), "{:?}", stage.results("m"));
    }
}

#[tokio::test]
async fn a_no_above_is_a_no_below() {
    let mut stage = Stage::new(&[
        ("Do it.", &[r#"spawn_sub_agent{"prompt":"Work.","agent":"loud"}"#, "Done."]),
        ("Work.", &["echo{\"say\":\"a\"} + peek{\"n\":1} + put{\"n\":2} + count{}", "Worked."]),
    ]);
    // The kernel forbids one, main's own agent another, and the sub-agent's a third; what it allows itself is no right.
    stage.rules.add(RuleList::Deny, "echo").expect("a rule");
    stage.room.own_rules = vec![(RuleList::Deny, "peek".to_owned())];
    let mut loud = Agent { name: "loud".into(), prompt: "Be loud.".into(), ..Agent::default() };
    loud.rules = vec![
        definition::ToolRule { tool: "put".into(), pattern: None, answer: RuleList::Ask },
        definition::ToolRule { tool: "echo".into(), pattern: None, answer: RuleList::Allow },
    ];
    stage.agents = vec![loud];
    stage.run("Do it.").await;
    let results = stage.results("m-2-0");
    for (n, by) in [(0, "`echo`"), (1, "`peek`"), (2, "no terminal to ask on")] {
        assert!(results[n].contains("denied") && results[n].contains(by), "{by}: {results:?}");
    }
    assert_eq!(results[3], "1");
}

#[tokio::test]
async fn a_definition_only_takes_tools_away() {
    let mut stage = Stage::new(&[
        ("Do it.", &[r#"spawn_sub_agent{"prompt":"Work.","agent":"reader"}"#, "Done."]),
        ("Work.", &["Worked."]),
    ]);
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir_all(folder.path().join("user/agents")).expect("a folder");
    let text = "---\ndescription: reads\ntools: read, manage_tasks\n---\nRead.";
    std::fs::write(folder.path().join("user/agents/reader.md"), text).expect("a file");
    let places = definition::DefinitionFolders { project: folder.path(), user: &folder.path().join("user") };
    let tools: Vec<String> = crate::tools::builtin().iter().map(|tool| tool.name().to_owned()).collect();
    stage.agents = definition::Definitions::load(places, &definition::Trust::default(), &tools).agents;
    stage.run("Do it.").await;
    let settings = RunSettings::from_bytes(&stage.row("m-2-0").settings).expect("settings");
    assert_eq!(settings.tools, Some(vec!["read".to_owned()]), "planning stays main's own");
}

#[tokio::test]
async fn a_child_gets_at_most_the_remaining_budget_of_its_parent() {
    let reads =
        r#"read{"path":"a.txt"} + read{"path":"secrets/b.txt"} + read{"path":"c.txt"} + list{"path":"."}"#;
    let spawns = r#"spawn_sub_agent{"prompt":"Work.","agent":"reader"}"#;
    let mut stage = Stage::new(&[
        ("Do it.", &[r#"skill{"name":"look"}"#, spawns, "Done."]),
        ("Work.", &[reads, "Worked."]),
    ]);
    let at = |name: &str| stage.room.folder.path().join("w").join(name);
    std::fs::create_dir(at("secrets")).expect("made");
    for name in ["a.txt", "secrets/b.txt", "c.txt"] {
        std::fs::write(at(name), "x").expect("written");
    }
    // The skill that main has read leaves no `list`, and the sub-agent's own file leaves some files.
    let found = defined(&[
        LOOK,
        (
            "agents/reader.md",
            "---\ndescription: reads\ntools: Read(a.txt), Read(secrets/**), LS\npermissions: {deny: [Read(secrets)]}\n---\nRead.",
        ),
    ]);
    stage.agents = found.agents;
    let run = stage.start("Do it.").await;
    let kernel = Kernel { skills: found.skills.into(), ..stage.kernel() };
    kernel.run(&run, &ResumeOverrides::default(), &StopHandle::new()).await.expect("it runs");
    let results = stage.results("m-4-0");
    assert!(results[0].contains("1\tx"), "{results:?}");
    for (n, by) in [(1, "`read(secrets)` denies"), (2, "only `Read(a.txt)`"), (3, "only `Read(a.txt)`")] {
        assert!(results[n].contains("denied") && results[n].contains(by), "{by}: {results:?}");
    }
}

/// A skill that leaves no `list`.
const LOOK: (&str, &str) = ("skills/look/SKILL.md", "---\nallowed-tools: Task, Read\n---\nLook.");

/// Loads the definitions in these files of the user.
fn defined(files: &[(&str, &str)]) -> definition::Definitions {
    let folder = tempfile::tempdir().expect("a folder");
    for (file, text) in files {
        let file = folder.path().join(file);
        std::fs::create_dir_all(file.parent().expect("below")).expect("a folder");
        std::fs::write(file, text).expect("a file");
    }
    let places = definition::DefinitionFolders { project: &folder.path().join("none"), user: folder.path() };
    let tools: Vec<String> = crate::tools::builtin().iter().map(|tool| tool.name().to_owned()).collect();
    definition::Definitions::load(places, &definition::Trust::default(), &tools)
}

#[tokio::test]
async fn a_narrowed_permission_applies_to_descendants() {
    let list = r#"list{"path":"."}"#;
    let stage = Stage::new(&[
        ("Do it.", &[&jobs(1), r#"@listed skill{"name":"look"}"#, "I wait.", "Done."]),
        ("Work.", &[list, &format!("@narrowed {list}"), "Worked."]),
    ]);
    let run = stage.start("Do it.").await;
    let kernel = Kernel { skills: defined(&[LOOK]).skills.into(), ..stage.kernel() };
    let answered = |run: &'static str, n: usize| {
        let stage = &stage;
        async move {
            while stage.results(run).get(n).is_none_or(String::is_empty) {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
        }
    };
    let narrows = async {
        while stage.runs().len() < 2 {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        answered("m-2-0", 0).await;
        stage.play.open("listed");
        answered("m", 1).await;
        stage.play.open("narrowed");
    };
    let (more, stop_handle) = (ResumeOverrides::default(), StopHandle::new());
    let (ended, ()) = tokio::join!(kernel.run(&run, &more, &stop_handle), narrows);
    ended.expect("it runs");
    let results = stage.results("m-2-0");
    assert!(!results[0].contains("denied"), "before: {results:?}");
    assert!(
        results[1].contains("denied") && results[1].contains("the skill `look` allows only"),
        "{results:?}"
    );
}

/// Says yes, and keeps who asked.
struct Yes(Mutex<Vec<String>>);

impl Approver for Yes {
    fn ask<'a>(&'a self, question: &'a PermissionQuestion) -> BoxFuture<'a, PermissionAnswer> {
        self.0.lock().expect("lock is not poisoned").push(format!("{}: {}", question.agent, question.tool));
        Box::pin(std::future::ready(PermissionAnswer::Yes))
    }
}

#[tokio::test]
async fn a_question_names_the_agent_that_asks() {
    let mut stage = Stage::new(&[
        ("Do it.", &["echo{\"say\":\"a\"} + spawn_sub_agent{\"prompt\":\"Work.\"}", "Done."]),
        ("Work.", &["echo{\"say\":\"b\"}", "Worked."]),
    ]);
    stage.rules.add(RuleList::Ask, "echo").expect("a rule");
    let yes = Arc::new(Yes(Mutex::default()));
    stage.asker = yes.clone();
    stage.run("Do it.").await;
    assert_eq!(
        *yes.0.lock().expect("lock is not poisoned"),
        ["main: echo", "general-purpose (sub-agent m-2-1): echo"]
    );
    assert_eq!(stage.results("m-2-1"), ["b"]);
}

#[tokio::test]
async fn a_budget_is_the_trees() {
    let mut stage = Stage::new(&[
        ("Do it.", &[r#"spawn_sub_agent{"prompt":"Work."}"#, "echo{\"say\":\"x\"}", "Done."]),
        ("Work.", &["echo{\"say\":\"x\"} | in=95000", "Worked."]),
    ]);
    stage.room.limits.max_budget_tokens = Some(100_000);
    stage.room.limits.max_tokens = 1000;
    let ended = stage.run("Do it.").await;
    assert_eq!(stage.status("m-2-0"), RunStatus::Budget);
    assert_eq!(stage.result("m", 0)["status"], "budget");
    let error = stage.result("m", 0)["error"].as_str().map(str::to_owned).unwrap_or_default();
    assert!(error.contains("of 100000 tokens are spent in all"), "{error}");
    assert_eq!(
        ended.status,
        RunStatus::Budget,
        "more was used than anybody could expect: main has none left either"
    );
    let runs = stage.store().runs(&Filter::default()).expect("runs");
    let main = runs.iter().find(|run| run.id.as_str() == "m").expect("main");
    assert!(main.inclusive.usage.input == 95_100 && main.own.usage.input == 100, "{main:?}");
}

/// Tokens that a request of main's or of a sub-agent's is taken for here, at most.
const REQUEST: u64 = 12_000;

#[tokio::test]
async fn a_sub_agent_leaves_tokens_for_the_answers_of_the_agents_above() {
    let mut work = vec!["echo{\"say\":\"x\"} | in=9000"; 30];
    work.push("Worked.");
    let mut stage = Stage::new(&[
        ("Do it.", &[r#"spawn_sub_agent{"prompt":"Work."}"#, "Not all of it."]),
        ("Work.", &work),
    ]);
    stage.room.limits.max_budget_tokens = Some(100_000);
    let ended = stage.run("Do it.").await;
    assert_eq!(stage.status("m-2-0"), RunStatus::Budget);
    let error = stage.result("m", 0)["error"].as_str().map(str::to_owned).unwrap_or_default();
    assert!(
        error.contains("of 100000 tokens are spent in all")
            && error.contains("are reserved for the agents above"),
        "{error}"
    );
    assert_eq!((ended.status, ended.final_text.as_deref()), (RunStatus::Completed, Some("Not all of it.")));
    let spent = stage.store().run(&RunId::new("m")).totals().expect("totals").usage.input_total();
    assert!((100_000 - 3 * REQUEST..100_000).contains(&spent), "{spent}");
}

#[tokio::test]
async fn the_output_limit_fits_the_remaining_budget() {
    let mut lines = vec!["echo{\"say\":\"x\"} | in=9000"; 30];
    lines.push("Done.");
    let mut stage = Stage::new(&[("Do it.", &lines)]);
    stage.room.limits.max_budget_tokens = Some(100_000);
    stage.room.limits.max_tokens = 64_000;
    let ended = stage.run("Do it.").await;
    assert_eq!(ended.status, RunStatus::Budget);
    let calls = stage.store().run(&RunId::new("m")).model_calls().expect("calls");
    let spent: u64 = calls.iter().map(|call| call.usage.input_total()).sum();
    assert!(spent > 100_000 - 2 * REQUEST, "it stops where hardly anything is left: {spent}");
    let longest = |body: &Value| body["max_tokens"].as_u64().expect("a limit");
    let sent = stage.sent("m");
    assert!(longest(&sent[0]) > 20_000, "{}", longest(&sent[0]));
    let last = longest(sent.last().expect("requests"));
    assert!((256..20_000).contains(&last), "{last}");
    // With more to spend, answers may be long again.
    let more = ResumeOverrides { max_budget_tokens: Some(300_000), ..ResumeOverrides::default() };
    stage.kernel().resume(&RunId::new("m"), None).await.expect("it can be taken up");
    stage.kernel().run(&RunId::new("m"), &more, &StopHandle::new()).await.expect("it runs");
    assert_eq!(longest(&stage.sent("m")[calls.len()]), longest(&sent[0]));
}

#[tokio::test]
async fn a_run_waits_for_reservations_of_others() {
    let four = jobs(4);
    let mut stage = Stage::new(&[("Do it.", &[&four, "1", "2", "3", "4", "5"]), ("Work.", &["Worked."])]);
    // Each could use more than a third of it, and uses next to nothing.
    stage.room.limits.max_budget_tokens = Some(60_000);
    stage.tree_limits.max_budget_tokens = Some(50_000);
    let ended = stage.run("Do it.").await;
    assert_eq!(ended.status, RunStatus::Completed, "{:?}", ended.error);
    for n in 0..4 {
        assert_eq!(stage.status(&format!("m-2-{n}")), RunStatus::Completed);
    }
}

#[tokio::test]
async fn runs_wait_in_order_for_reservations_of_others() {
    const JOBS: usize = 200;
    let mut main = vec![jobs(JOBS)];
    main.extend((0..=JOBS).map(|n| format!("I wait {n}.")));
    let mut stage = Stage::new(&[]);
    let work = ("Work.".to_owned(), vec!["@all Worked. | in=1".to_owned()]);
    stage.play = Arc::new(play::Play::of(vec![("Do it.".to_owned(), main), work]));
    // A few fit at the same time.
    stage.room.limits.max_budget_tokens = Some(120_000);
    stage.tree_limits.max_budget_tokens = Some(50_000);
    stage.tree_limits.max_running = JOBS; // what they wait for is not a place
    let put_off = || crate::model_call::PUT_OFF.with(std::cell::Cell::get);
    let run = stage.start("Do it.").await;
    let open = async {
        while put_off() < JOBS * 8 / 10 {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        stage.play.open("all");
    };
    let both = async { tokio::join!(stage.go(&run), open) };
    let (ended, ()) = tokio::time::timeout(PATIENCE, both).await.expect("nobody waits for ever");
    assert_eq!(ended.status, RunStatus::Completed, "{:?}", ended.error);
    assert!(stage.runs().iter().all(|(_, status)| *status == RunStatus::Completed), "{:?}", stage.runs());
    assert!(put_off() < JOBS * 4, "{} for {JOBS} jobs", put_off());
}

/// Longer than anything here takes.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(20);

#[tokio::test]
async fn an_ended_job_frees_its_reservation() {
    let mut stage = Stage::new(&[
        ("Do it.", &[&jobs(1), r#"job_cancel{"job_id":"m-2-0"}"#, "echo{\"say\":\"x\"}", "Done."]),
        ("Work.", &["@never Worked."]),
    ]);
    // Both fit together once, and never again while the job's part is set aside.
    stage.room.limits.max_budget_tokens = Some(60_000);
    stage.tree_limits.max_budget_tokens = Some(45_000);
    let ended = tokio::time::timeout(PATIENCE, stage.run("Do it.")).await.expect("it does not wait for ever");
    assert_eq!(ended.status, RunStatus::Completed, "{:?}", ended.error);
}

#[tokio::test]
async fn runs_with_a_shared_budget_work_at_the_same_time() {
    let mut stage = Stage::new(&[
        ("Do it.", &[&jobs(4).replace(",\"run_in_background\":true", ""), "Done."]),
        ("Work.", &["@four Worked."]),
    ]);
    stage.room.limits.max_budget_tokens = Some(200_000);
    let run = stage.start("Do it.").await;
    let four = async {
        stage.play.wait_for(4).await;
        stage.play.open("four");
    };
    let both = async { tokio::join!(stage.go(&run), four) };
    let (ended, ()) =
        tokio::time::timeout(PATIENCE, both).await.expect("all four are asked before one is answered");
    assert_eq!(ended.status, RunStatus::Completed, "{:?}", ended.error);
}

#[tokio::test]
async fn an_agent_in_the_background_is_denied_what_needs_a_question_and_others_are_not() {
    for asks in [false, true] {
        let mut stage = Stage::new(&[
            (
                "Do it.",
                &[
                    r#"spawn_sub_agent{"prompt":"Work.","run_in_background":true} + spawn_sub_agent{"prompt":"Wait."}"#,
                    "echo{\"say\":\"m\"}",
                    "I wait.",
                    "Done.",
                ],
            ),
            ("Work.", &["echo{\"say\":\"b\"} + echo{\"say\":\"c\"}", "@end Worked."]),
            ("Wait.", &["echo{\"say\":\"w\"}", "Waited."]),
        ]);
        stage.rules.add(RuleList::Ask, "echo").expect("a rule");
        stage.tree_limits.ask_for_background = asks;
        let yes = Arc::new(Yes(Mutex::default()));
        stage.asker = yes.clone();
        let run = stage.start("Do it.").await;
        let end = async {
            stage.play.wait_for(1).await;
            stage.play.open("end");
        };
        tokio::join!(stage.go(&run), end);
        let mut asked = yes.0.lock().expect("lock is not poisoned").clone();
        asked.sort();
        let background = "general-purpose (sub-agent m-2-0): echo";
        let foreground = ["general-purpose (sub-agent m-2-1): echo", "main: echo"];
        let expected = if asks { vec![background, background] } else { vec![] };
        assert_eq!(asked, [expected, foreground.to_vec()].concat());
        let denied = |run: &str| stage.store().run(&RunId::new(run)).denied_calls().expect("read");
        assert_eq!((denied("m"), denied("m-2-0"), denied("m-2-1")), (0, if asks { 0 } else { 2 }, 0));
        let results = stage.results("m-2-0");
        let is_explained = results[0].contains("the rule `echo` asks first, and an agent in the background");
        assert_eq!(is_explained, !asks, "{results:?}");
    }
}

/// Allows for good, and keeps the rules.
struct Always(Mutex<Vec<Vec<String>>>);

impl Approver for Always {
    fn ask<'a>(&'a self, question: &'a PermissionQuestion) -> BoxFuture<'a, PermissionAnswer> {
        self.0.lock().expect("lock is not poisoned").push(question.always.clone());
        Box::pin(std::future::ready(PermissionAnswer::Always))
    }
}

#[tokio::test]
async fn what_is_allowed_for_good_is_asked_once_in_the_whole_tree() {
    let bash = |command: &str| format!("bash{{\"command\":\"{command}\"}}");
    let one = bash("true one");
    let twice = format!("{one} + {one} + {}", bash("true two"));
    let deny = format!("{} + {}", bash("false"), bash("true $(x)"));
    let mut stage = Stage::new(&[
        ("Do it.", &[&twice, "spawn_sub_agent{\"prompt\":\"Work.\"}", &deny, "Done."]),
        ("Work.", &[&one, "Worked."]),
    ]);
    stage.room.own_rules = vec![(RuleList::Ask, "bash".to_owned())];
    stage.rules.add(RuleList::Deny, "bash(false)").expect("a rule");
    let always = Arc::new(Always(Mutex::default()));
    stage.asker = always.clone();
    stage.run("Do it.").await;
    let rule = |rule: &str| vec![rule.to_owned()];
    assert_eq!(
        *always.0.lock().expect("lock is not poisoned"),
        [rule("bash(true one)"), rule("bash(true two)"), Vec::new()],
        "a line that is not known word by word can only be allowed once"
    );
    let denied = stage.results("m").into_iter().filter(|result| result.contains("denies it")).count();
    assert_eq!(denied, 1, "a deny always wins");
}
