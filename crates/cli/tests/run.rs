//! `offshoot run` and what goes with it, as a user would.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

mod common;

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use common::{CANARY, CommandOutput, TestEnv};
use serde_json::Value;

const SCRIPT: &str = r#"
format: 1
lanes:
  - lane: main
    match: { tools_include: [get_time] }
    turns:
      - reply:
          - text: "I read it."
          - call: { tool: read, id: toolu_a, input: { path: "a.txt" } }
        usage: { input: 1000, output: 20 }
      - reply: [ { text: "It says alpha." } ]
        usage: { input: 1100, output: 20 }
      - reply: [ { text: "Still alpha." } ]
        usage: { input: 1200, output: 20 }
"#;

/// Slow enough to be met in the middle of its second reply.
fn slow() -> String {
    SCRIPT.replace(
        "      - reply: [ { text: \"It says alpha.\" } ]",
        "      - pace: { event_ms: 300 }\n        reply: [ { text: \"It says alpha.\" } ]",
    )
}

fn world(script: &str) -> TestEnv {
    let env = TestEnv::new();
    env.write("script.yaml", script);
    env.write("a.txt", "alpha\n");
    env
}

/// Runs with the script, in a pipe.
fn run(env: &TestEnv, arguments: &[&str]) -> CommandOutput {
    let arguments: Vec<&str> = [&["run", "--script", "script.yaml"], arguments].concat();
    env.run(&arguments)
}

fn lines(said: &CommandOutput) -> Vec<Value> {
    lines_of(&said.stdout)
}

fn lines_of(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn only_run(env: &TestEnv) -> Value {
    let said = env.run(&["ps", "--format", "json"]);
    let ps: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(ps["runs"].as_array().unwrap().len(), 1, "{ps}");
    ps["runs"][0].clone()
}

#[test]
fn a_pipe_gets_the_answer_and_nothing_else() {
    let env = world(SCRIPT);
    let said = run(&env, &["What does it say?"]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), "It says alpha.\n"), "{said:?}");
    assert!(said.stderr.contains("· read a.txt\n"), "{said:?}");
    let run = only_run(&env);
    assert_eq!((&run["status"], &run["kind"]), (&Value::from("completed"), &Value::from("main")));
    assert!(run["cost_usd"].as_f64().unwrap() > 0.0);
}

#[test]
fn without_a_key_it_says_what_to_set() {
    let env = world(SCRIPT);
    let said = env.run(&["run", "hello"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains("ANTHROPIC_API_KEY") && said.stderr.contains("--script"), "{said:?}");
    assert_eq!(env.run(&["ps"]).stdout, "no runs yet\n");
}

#[test]
fn nonsense_is_refused_in_words() {
    let env = world(SCRIPT);
    let cases: &[(&[&str], &str)] = &[
        (&["run"], "no prompt given"),
        (&["run", "--script", "script.yaml", "  "], "empty"),
        (&["run", "--script", "missing.yaml", "x"], "missing.yaml"),
        (&["run", "--script", "script.yaml", "--max-budget-usd=-1", "x"], "budget"),
        (&["run", "--script", "script.yaml", "--model", "mystery-1", "x"], "mystery-1"),
        (
            &[
                "run",
                "--script",
                "script.yaml",
                "--model",
                "anthropic/mystery-1",
                "--max-budget-usd",
                "1",
                "x",
            ],
            "no price known",
        ),
        (&["run", "--script", "script.yaml", "--resume", "zzz"], "zzz"),
        (&["run", "--script", "script.yaml", "--events", "all", "x"], "--json"),
        (&["cancel", "zzz"], "zzz"),
        (&["show", "zzz"], "zzz"),
        (&["cost", "zzz"], "zzz"),
    ];
    for (arguments, named) in cases {
        let said = env.run(arguments);
        assert_eq!(said.code, Some(2), "{arguments:?}: {said:?}");
        assert!(said.stderr.contains(named), "{arguments:?}: {said:?}");
    }
}

#[test]
fn events_are_ordered_and_the_last_has_the_outcome() {
    let env = world(SCRIPT);
    let said = run(&env, &["--json", "--events", "all", "What does it say?"]);
    let events = lines(&said);
    let seqs: Vec<u64> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=events.len() as u64).collect::<Vec<_>>());
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    let whole: Vec<&str> = kinds.iter().copied().filter(|kind| *kind != "provisional").collect();
    let expected = ["run_started", "message", "tool_started", "tool_finished", "message", "run_finished"];
    assert_eq!(whole, expected);
    assert!(kinds.contains(&"provisional"));
    let last = events.last().unwrap();
    assert_eq!(last["status"], "completed");
    assert_eq!(last["final_text"], "It says alpha.");
    assert_eq!(last["usage"]["input"], 2100);
    let main_only = run(&env, &["--json", "What does it say?"]);
    assert!(!main_only.stdout.contains("provisional"));
}

/// A plan of one task, a sub-agent that works on it and first answers with text, and a background sub-agent.
const FAMILY: &str = r#"
format: 1
lanes:
  - lane: count
    match: { prompt_contains: "Count" }
    turns:
      - reply: [ { text: "Seven." } ]
      - reply: [ { text: '{"n":7}' } ]
  - lane: job
    match: { prompt_contains: "Work beside" }
    turns:
      - wait_for: [ { lane: main, turn: 4 } ]
        reply: [ { text: "Worked." } ]
  - lane: main
    match: { tools_include: spawn_sub_agent }
    turns:
      - reply: [ { call: { tool: manage_tasks, id: toolu_t, input: { create: [ { subject: "How many are there?" } ] } } } ]
      - reply: [ { call: { tool: spawn_sub_agent, id: toolu_j, input: { prompt: "Work beside.", run_in_background: true } } } ]
      - capture: { task: { result_of: toolu_t, regex: '(\S+) pending' } }
        reply: [ { call: { tool: spawn_sub_agent, id: toolu_c, input: { prompt: "Count.", task_id: "${task}", output_schema: { type: object, required: [n] } } } } ]
      - reply: [ { text: "I wait." } ]
      - reply: [ { text: "All done." } ]
"#;

#[test]
fn a_run_tree_is_printed_and_shown() {
    let env = world(FAMILY);
    let said = run(&env, &["--json", "Go."]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let events = lines(&said);
    let root = events[0]["run"].as_str().unwrap().to_owned();
    let of = |kind: &str| events.iter().filter(|event| event["type"] == kind).collect::<Vec<_>>();
    let begun: Vec<_> =
        of("run_started").iter().map(|event| (event["call"].clone(), event["job"].clone())).collect();
    assert_eq!(
        begun,
        [(Value::Null, false.into()), ("toolu_j".into(), true.into()), ("toolu_c".into(), false.into())]
    );
    let woken = of("woken");
    assert_eq!(woken.len(), 1, "{events:?}");
    assert_eq!(woken[0]["run"], root.as_str());
    assert_eq!(woken[0]["jobs"], serde_json::json!([format!("{root}-4-0")]));

    let child = format!("{root}-6-0");
    let shown = env.run(&["show", &child]).stdout;
    for part in [
        &format!("\n  task {root}.2.0.1 How many are there?\n"),
        "\n  output schema {\"type\":\"object\",\"required\":[\"n\"]}\n",
        "\noffshoot\n  Your answer does not have the shape that was asked for: it is not JSON",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let json: Value = serde_json::from_str(&env.run(&["show", &child, "--format", "json"]).stdout).unwrap();
    assert_eq!(
        (json["run"]["task"].as_str(), json["run"]["output_schema"]["type"].as_str()),
        (Some(&*format!("{root}.2.0.1")), Some("object"))
    );
    let tasks = env.run(&["tasks"]).stdout;
    assert!(tasks.contains("How many are there?\n") && tasks.contains(" → {\"n\":7}\n"), "{tasks}");
    assert_eq!(
        env.run(&["search", "shape"]).stdout.matches("asked for").count(),
        0,
        "the kernel's words are nobody's"
    );

    let said = run(&env, &["--resume", &child]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains(&format!("hint: offshoot run --resume {root}\n")), "{said:?}");
}

#[test]
fn a_job_that_waits_for_a_place_is_reported() {
    // The job still speaks when the other one is begun.
    let slow = "pace: { first_ms: 700 }\n        wait_for: [ { lane: main, turn: 3 } ]";
    let env = world(&FAMILY.replace("wait_for: [ { lane: main, turn: 4 } ]", slow));
    std::fs::create_dir_all(env.path("home/.config/offshoot")).unwrap();
    env.write("home/.config/offshoot/offshoot.toml", "[sub_agents]\nat_once = 1\n");
    let said = run(&env, &["--json", "Go."]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let of_child: Vec<String> = lines(&said)
        .iter()
        .filter(|event| event["run"].as_str().is_some_and(|run| run.ends_with("-6-0")))
        .map(|event| event["type"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(of_child, ["run_queued", "run_started", "run_finished"], "{said:?}");
    env.write("home/.config/offshoot/offshoot.toml", "[sub_agents]\nat_once = 0\n");
    let said = run(&env, &["Go."]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(
        said.stderr.contains("line 2: `at_once` must be at least 1")
            && said.stderr.contains("hint: at_once = 16"),
        "{said:?}"
    );
}

#[test]
fn a_finished_run_resumes_only_with_a_prompt() {
    let env = world(SCRIPT);
    run(&env, &["What does it say?"]);
    let id = only_run(&env)["run"].as_str().unwrap().to_owned();
    let said = run(&env, &["--resume", &id[..10]]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains("completed") && said.stderr.contains("--resume"), "{said:?}");
    let said = run(&env, &["--resume", &id[..10], "And now?"]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), "Still alpha.\n"), "{said:?}");
    assert_eq!(only_run(&env)["run"], id.as_str());
    let shown = env.run(&["show", &id]);
    assert!(shown.stdout.contains("And now?") && shown.stdout.contains("✓ read"), "{shown:?}");
    let found = env.run(&["search", "alpha"]);
    assert!(found.stdout.contains("[alpha]"), "{found:?}");
    assert!(env.run(&["search", "\"unclosed AND ("]).code == Some(0));
    assert!(env.run(&["cost", &id]).stdout.contains("claude-sonnet"));
}

/// A background run, seen through its events.
struct Going {
    child: Child,
    events: BufReader<std::process::ChildStdout>,
}

impl Going {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let events = BufReader::new(child.stdout.take().unwrap());
        Self { child, events }
    }

    /// Reads events until there is one of that type, and gives it.
    fn until(&mut self, kind: &str, holds: impl Fn(&Value) -> bool) -> Value {
        loop {
            let mut line = String::new();
            assert!(self.events.read_line(&mut line).unwrap() > 0, "it ended before there was `{kind}`");
            let event: Value = serde_json::from_str(&line).unwrap();
            if event["type"] == kind && holds(&event) {
                return event;
            }
        }
    }

    /// Reads what it says beside the events until that was said.
    fn says(&mut self, words: &str) {
        let (mut said, mut byte) = (Vec::new(), [0]);
        let stderr = self.child.stderr.as_mut().unwrap();
        while !said.ends_with(words.as_bytes()) {
            assert!(std::io::Read::read(stderr, &mut byte).unwrap() > 0, "it never said `{words}`");
            said.push(byte[0]);
        }
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(self.child.id().to_string()).status();
        assert!(sent.unwrap().success());
    }

    fn end(mut self) -> (Option<i32>, String) {
        let mut stderr = String::new();
        std::io::Read::read_to_string(&mut self.child.stderr.take().unwrap(), &mut stderr).unwrap();
        (self.child.wait().unwrap().code(), stderr)
    }
}

fn start_slow(env: &TestEnv) -> Going {
    Going::start(env.offshoot(&[
        "run",
        "--script",
        "script.yaml",
        "--json",
        "--events",
        "all",
        "What does it say?",
    ]))
}

/// Words of the second reply are on their way.
fn in_second_reply(going: &mut Going) {
    going.until("tool_finished", |_| true);
    going.until("provisional", |_| true);
}

#[test]
fn one_interrupt_pauses_a_resumable_run() {
    let env = world(&slow());
    let mut going = start_slow(&env);
    in_second_reply(&mut going);
    going.signal("INT");
    let ended = going.until("run_finished", |_| true);
    assert_eq!(ended["status"], "paused");
    let (code, stderr) = going.end();
    let id = only_run(&env)["run"].as_str().unwrap().to_owned();
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains(&format!("offshoot run --resume {id}")), "{stderr}");
    let said = run(&env, &["--resume", &id]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), "It says alpha.\n"), "{said:?}");
    let shown: Value = serde_json::from_str(&env.run(&["show", &id, "--format", "json"]).stdout).unwrap();
    assert_eq!(
        shown["model_calls"].as_array().unwrap().len(),
        2,
        "what was asked before is not asked as another"
    );
    let attempts = &shown["model_calls"][1]["attempts"];
    assert_eq!((&attempts[0]["ending"], &attempts[1]["ending"]), (&"stopped".into(), &"complete".into()));
    assert!(attempts[0]["response"].as_str().unwrap().contains("message_start"), "what had come is kept");
}

#[test]
fn a_reader_that_lost_its_pipe_fetches_the_rest_also_after_a_kill() {
    use std::os::unix::fs::PermissionsExt as _;
    let env = world(&slow());
    let mut going = start_slow(&env);
    going.until("tool_finished", |_| true);
    let seen = going.until("provisional", |_| true);
    going.signal("KILL");
    going.end();
    let id = only_run(&env)["run"].as_str().unwrap().to_owned();
    let before = env.run(&["show", &id[..10], "--events"]);
    let known = lines(&before);
    let numbers = |events: &[Value]| events.iter().map(|it| it["seq"].as_u64().unwrap()).collect::<Vec<_>>();
    assert_eq!(numbers(&known), (1..=known.len() as u64).collect::<Vec<_>>(), "{before:?}");
    assert!(known.contains(&seen), "what was seen is kept: {seen}");
    // An incomplete line, which was never printed.
    let file = format!("data/events/{id}.jsonl");
    env.write(&file, &format!("{}{{\"seq\":99,\"ru", before.stdout));
    assert_eq!(env.run(&["show", &id, "--events"]).stdout, before.stdout);
    let said = run(&env, &["--resume", &id, "--json"]);
    let more = lines(&said);
    let from = known.len() as u64 + 1;
    assert_eq!(numbers(&more), (from..from + more.len() as u64).collect::<Vec<_>>(), "{said:?}");
    assert_eq!(more[0]["type"], "run_started");
    let all = env.run(&["show", &id, "--events"]).stdout;
    assert_eq!(all, format!("{}{}", before.stdout, said.stdout));
    let rest = env.run(&["show", &id, "--events", "--after", &seen["seq"].to_string()]).stdout;
    assert!(all.ends_with(&rest) && numbers(&lines_of(&rest))[0] == seen["seq"].as_u64().unwrap() + 1);
    for (path, mode) in [("data/events".to_owned(), 0o700), (file, 0o600)] {
        assert_eq!(env.path(&path).metadata().unwrap().permissions().mode() & 0o777, mode, "{path}");
    }
    // What could not be kept does not end a run, and is said.
    std::fs::remove_dir_all(env.path("data/events")).unwrap();
    env.write("data/events", "no folder");
    let said = run(&env, &["--json", "What does it say?"]);
    assert!(said.code == Some(0) && said.stderr.contains("cannot store further events"), "{said:?}");
    assert_eq!(numbers(&lines(&said)), (1..=lines(&said).len() as u64).collect::<Vec<_>>());
}

#[test]
fn printed_events_are_kept() {
    let env = world(SCRIPT);
    run(&env, &["What does it say?"]);
    let id = only_run(&env)["run"].as_str().unwrap().to_owned();
    let said = env.run(&["show", &id, "--events"]);
    assert!(said.code == Some(2) && said.stderr.contains("run --json"), "{said:?}");
    assert_eq!(env.run(&["show", &id, "--after", "3"]).code, Some(2));
    assert_eq!(env.run(&["show", ".", "--events"]).code, Some(2));
}

#[test]
fn interrupted_twice_it_ends_for_good() {
    let env = world(&slow().replace("event_ms: 300", "event_ms: 1000"));
    let mut going = start_slow(&env);
    in_second_reply(&mut going);
    going.signal("INT");
    going.says("Ctrl-C again");
    going.signal("INT");
    let ended = going.until("run_finished", |_| true);
    assert_eq!(ended["status"], "cancelled_by_user", "it has one end");
    let (code, stderr) = going.end();
    assert_eq!(code, Some(1), "{stderr}");
    assert_eq!(only_run(&env)["status"], "cancelled_by_user");
    let id = only_run(&env)["run"].as_str().unwrap().to_owned();
    let said = run(&env, &["--resume", &id, "Go on!"]);
    assert_eq!(said.code, Some(2), "{said:?}");
}

#[test]
fn cancelled_from_elsewhere_it_ends_at_once() {
    let env = world(&slow().replace("event_ms: 300", "event_ms: 60000"));
    let mut going = start_slow(&env);
    going.until("tool_finished", |_| true);
    let id = only_run(&env)["run"].as_str().unwrap().to_owned();
    assert_eq!(only_run(&env)["status"], "running");
    let held = run(&env, &["--resume", &id]);
    assert_eq!(held.code, Some(2), "{held:?}");
    assert!(held.stderr.contains("in use by process"), "{held:?}");
    let said = env.run(&["cancel", &id[..12]]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(going.until("run_finished", |_| true)["status"], "cancelled_by_user");
    going.end();
    assert_eq!(only_run(&env)["status"], "cancelled_by_user");
    assert_eq!(env.run(&["cancel", &id]).code, Some(2), "it is over");
}

#[test]
fn a_paused_run_without_a_process_is_cancelled() {
    let env = world(&slow());
    let mut going = start_slow(&env);
    in_second_reply(&mut going);
    going.signal("TERM");
    going.until("run_finished", |event| event["status"] == "paused");
    going.end();
    let id = only_run(&env)["run"].as_str().unwrap().to_owned();
    assert_eq!(env.run(&["cancel", &id]).code, Some(0));
    assert_eq!(only_run(&env)["status"], "cancelled_by_user");
}

#[test]
fn a_key_that_is_revoked_in_the_middle_loses_nothing() {
    let revoked = SCRIPT.replacen(
        "      - reply: [ { text: \"It says alpha.\" } ]",
        "      - error: { status: 401 }\n      - reply: [ { text: \"It says alpha.\" } ]",
        1,
    );
    let env = world(&revoked);
    let said = run(&env, &["What does it say?"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains("hint:"), "{said:?}");
    let row = only_run(&env);
    assert_eq!(row["status"], "failed");
    assert!(said.stderr.contains("add a reply to `script.yaml`"), "{said:?}");
    // The script continues after the error that it has sent.
    let said = run(&env, &["--resume", row["run"].as_str().unwrap()]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), "It says alpha.\n"), "{said:?}");
    let begins = "    turns:\n";
    let first = SCRIPT.replacen(begins, &format!("{begins}      - error: {{ status: 401 }}\n"), 1);
    let env = world(&first);
    let said = run(&env, &["What does it say?"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    let said = run(&env, &["--resume", only_run(&env)["run"].as_str().unwrap()]);
    assert_eq!((said.code, said.stdout.lines().last()), (Some(0), Some("It says alpha.")), "{said:?}");
}

#[test]
fn an_unusable_journal_is_reported_and_left_unchanged() {
    let env = world(SCRIPT);
    std::fs::create_dir_all(env.path("data")).unwrap();
    env.write(
        "data/store.db",
        "this is no database, whatever its name says, and it is long enough to be looked at",
    );
    let said = run(&env, &["What does it say?"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains("store.db") && said.stderr.contains("hint: for f in "), "{said:?}");
    assert!(env.read("data/store.db").starts_with("this is no database"));
}

#[test]
fn a_journal_that_lost_its_content_is_not_shown_as_empty() {
    let env = world(SCRIPT);
    assert_eq!(run(&env, &["What does it say?"]).code, Some(0));
    let sound = env.run(&["journal", "check"]);
    assert_eq!(sound.code, Some(0), "{sound:?}");
    assert!(sound.stdout.starts_with("PASS  "), "{sound:?}");
    env.write("data/store.db", "");
    for command in [&["ps"][..], &["journal", "check"]] {
        let said = env.run(command);
        assert_eq!((said.code, said.stdout.as_str()), (Some(3), ""), "{said:?}");
        assert!(said.stderr.contains("is empty: data may be missing"), "{said:?}");
    }
    assert!(env.run(&["ps"]).stderr.contains("hint: offshoot journal check"), "the command that checks it");
    assert_eq!(env.read("data/store.db"), "");
}

#[test]
fn a_wrong_file_is_not_offered_to_be_moved() {
    let env = world(SCRIPT);
    for (name, content) in [("notes.txt", "my notes, which are no journal"), ("empty", "")] {
        env.write(name, content);
        let said = env.run(&["journal", "check", "--journal", name]);
        assert_eq!(said.code, Some(2), "{said:?}");
        assert!(said.stderr.contains(&format!("`{name}` is not a journal")), "{said:?}");
        assert!(!said.stderr.contains("mv "), "{said:?}");
        assert_eq!(env.read(name), content);
    }
}

#[test]
fn a_deleted_workspace_is_reported_to_the_model_and_the_user() {
    let script = slow().replace(
        "text: \"It says alpha.\" }",
        "text: \"Again.\" }, { call: { tool: read, id: toolu_b, input: { path: \"a.txt\" } } }",
    );
    let env = world(&script);
    std::fs::create_dir_all(env.path("w")).unwrap();
    std::fs::copy(env.path("a.txt"), env.path("w/a.txt")).unwrap();
    let mut command =
        env.offshoot(&["run", "--script", "../script.yaml", "--json", "--events", "all", "Look."]);
    command.current_dir(env.path("w"));
    let mut going = Going::start(command);
    in_second_reply(&mut going);
    std::fs::remove_dir_all(env.path("w")).unwrap();
    let failed = going.until("tool_finished", |_| true);
    assert_eq!(failed["status"], "failed");
    assert!(failed["text"].as_str().unwrap().contains("was deleted"), "{failed}");
    assert_eq!(going.until("run_finished", |_| true)["status"], "completed");
    let (code, stderr) = going.end();
    assert_eq!(code, Some(0), "{stderr}");
    let id = only_run(&env)["run"].as_str().unwrap().to_owned();
    let said = run(&env, &["--resume", &id, "More."]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains("/w"), "{said:?}");
}

#[test]
fn a_recording_is_made_and_holds_no_key() {
    let env = world(SCRIPT);
    let model = common::Proxy::start(&env, &["proxy", "--script", "script.yaml", "--out", "outer"]);
    let said = CommandOutput::of(
        env.offshoot(&["run", "--record", "rec", "What does it say?"])
            .env("ANTHROPIC_BASE_URL", format!("http://{}", model.addr))
            .env("ANTHROPIC_API_KEY", format!("sk-ant-{CANARY}"))
            .env("OFFSHOOT_LOG", "info")
            .output()
            .unwrap(),
    );
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), "It says alpha.\n"), "{said:?}");
    assert!(
        said.stderr.contains("model call") && said.stderr.contains("tool call"),
        "one line for each: {said:?}"
    );
    model.interrupt();
    let lanes = env.show("rec");
    assert_eq!(lanes["lanes"][0]["turns"].as_array().unwrap().len(), 2);
    assert_eq!(env.run(&["check", "rec"]).code, Some(0));
    assert!(!said.stderr.contains(CANARY) && !said.stdout.contains(CANARY));
    for folder in ["rec", "data"] {
        let found =
            Command::new("grep").args(["-r", "-a", "-l", CANARY]).arg(env.path(folder)).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&found.stdout), "", "the key is in `{folder}`");
    }
}

#[test]
fn every_dialect_is_spoken() {
    for model in ["anthropic/claude-haiku-4-5", "openai/gpt-5.1", "local/qwen"] {
        let env = world(SCRIPT);
        std::fs::create_dir_all(env.path("home/.config/offshoot")).unwrap();
        env.write(
            "home/.config/offshoot/offshoot.toml",
            "[providers.local]\ndialect = \"openai-chat\"\nbase_url = \"http://127.0.0.1:9/v1\"\n",
        );
        let said = run(&env, &["--model", model, "--record", "rec", "What does it say?"]);
        assert_eq!((said.code, said.stdout.as_str()), (Some(0), "It says alpha.\n"), "{model}: {said:?}");
        assert_eq!(env.run(&["check", "rec"]).code, Some(0), "{model}");
    }
}

#[test]
fn our_own_agent_is_captured_and_replayed_like_any_other() {
    let env = TestEnv::new();
    let slots = env.path("slots");
    let offshoot = |arguments: &[&str]| {
        CommandOutput::of(env.offshoot(arguments).env("OFFSHOOT_SLOTS_DIR", &slots).output().unwrap())
    };
    let said = offshoot(&["capture", "offshoot", "--scenario", "single-agent-20-reads", "--out", "rec"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(env.run(&["check", "rec"]).code, Some(0), "{}", env.run(&["check", "rec"]).stdout);
    let lanes = env.show("rec");
    assert_eq!(lanes["lanes"][0]["turns"].as_array().unwrap().len(), 21);
    let said = offshoot(&["replay", "rec", "--out", "again", "--order", "recorded"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let verdict = env.run(&["verify", "rec", "again", "--format", "json"]);
    let verdict: Value = serde_json::from_str(&verdict.stdout).unwrap();
    for surface in verdict["surfaces"].as_array().unwrap() {
        let name = surface["surface"].as_str().unwrap();
        if !["jobs", "routing"].contains(&name) {
            assert_eq!(surface["level"], "E4", "{name}: our own requests are the same byte for byte");
        }
    }
}

#[test]
fn a_run_continues_when_stderr_cannot_be_written() {
    let env = world(SCRIPT);
    for log in ["off", "trace"] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut run = env.offshoot(&["run", "--script", "script.yaml", "hi"]);
        let said = run.env("OFFSHOOT_LOG", log).stderr(full).output().unwrap();
        assert_eq!(said.status.code(), Some(0), "{log}: {said:?}");
    }
}

/// The journal and the settings may lie in the workspace, as where one's home is the workspace.
#[test]
fn our_own_folders_are_closed_to_the_agent() {
    let script = r#"
format: 1
lanes:
  - lane: main
    match: { tools_include: [get_time] }
    turns:
      - reply:
          - call: { tool: write, id: toolu_a, input: { path: "data/store.db", content: "gone" } }
          - call: { tool: read, id: toolu_b, input: { path: "link/offshoot.toml" } }
          - call: { tool: grep, id: toolu_c, input: { pattern: "canary" } }
          - call: { tool: list, id: toolu_d, input: { path: "./w/../config" } }
      - reply: [ { text: "done" } ]
"#;
    let env = world(script);
    std::fs::create_dir_all(env.path("config")).unwrap();
    std::fs::create_dir_all(env.path("w")).unwrap();
    env.write("config/offshoot.toml", "# canary\n");
    std::os::unix::fs::symlink(env.path("config"), env.path("link")).unwrap();
    let mut command = env.offshoot(&["run", "--script", "script.yaml", "go"]);
    let said = CommandOutput::of(command.env("OFFSHOOT_CONFIG_DIR", env.path("config")).output().unwrap());
    assert_eq!(said.code, Some(0), "{said:?}");
    let run = only_run(&env);
    let shown = env.run(&["show", run["run"].as_str().unwrap(), "--format", "json"]);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    let results: Vec<String> =
        shown["tool_calls"].as_array().unwrap().iter().map(|call| call["result"].to_string()).collect();
    for at in [0, 1, 3] {
        assert!(results[at].contains("is closed to tools"), "{}", results[at]);
    }
    assert!(!results[2].contains("offshoot.toml"), "{}", results[2]);
}

#[test]
fn rules_hold_and_a_refusal_is_reported_to_model_and_user() {
    let script = SCRIPT.replace(
        "tool: read, id: toolu_a, input: { path: \"a.txt\" }",
        "tool: bash, id: toolu_a, input: { command: \"echo x > made\" }",
    );
    let env = world(&script);
    let said = run(&env, &["--deny", "bash(echo *)", "go"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(
        said.stderr.contains("✗ bash echo x > made\n  refused: the rule `bash(echo *)` denies it\n"),
        "{said:?}"
    );
    assert!(!env.path("made").exists());
    let said = run(&env, &["--record", "rec", "--deny", "bash(", "go"]);
    assert!(!env.path("rec").exists(), "nothing is begun with a rule that means nothing");
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains("--deny: `bash(` does not end with `)`"), "{said:?}");
}

/// A terminal, and the text on it.
struct Terminal(std::fs::File, String);

impl Terminal {
    fn open() -> (Self, std::fs::File) {
        use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
        let theirs = std::fs::File::options().read(true).write(true).open(name).unwrap();
        (Self(ours.into(), String::new()), theirs)
    }

    fn types(&mut self, text: &str) {
        std::io::Write::write_all(&mut self.0, text.as_bytes()).unwrap();
    }

    /// Reads until this text appears, or until the terminal is closed.
    fn reads(&mut self, words: &str) -> &str {
        let mut buffer = [0; 4096];
        while !self.1.contains(words) {
            match std::io::Read::read(&mut self.0, &mut buffer) {
                Ok(read @ 1..) => self.1 += &String::from_utf8_lossy(&buffer[..read]),
                _ => break,
            }
        }
        &self.1
    }
}

#[test]
fn input_typed_before_a_question_is_no_answer() {
    let env = world(SCRIPT);
    std::fs::create_dir_all(env.path("home/.config/offshoot")).unwrap();
    env.write("home/.config/offshoot/offshoot.toml", "[permissions]\nask = [\"read\"]\n");
    let (mut terminal, theirs) = Terminal::open();
    terminal.types("y\ny\n");
    let mut run = env.offshoot(&["run", "--script", "script.yaml", "What does it say?"]);
    run.stdin(theirs.try_clone().unwrap()).stdout(Stdio::null()).stderr(theirs);
    let mut child = run.spawn().unwrap();
    drop(run); // with our own ends of the terminal
    assert!(terminal.reads("allow? once, always or no:").contains("the rule `read` asks first"));
    terminal.types("n\n");
    let shown = terminal.reads("refused: ").to_owned() + terminal.reads("run ");
    assert!(shown.contains("the user said no"), "{shown}");
    child.wait().unwrap();
    assert_eq!(
        env.run(&["show", only_run(&env)["run"].as_str().unwrap(), "--format", "json"])
            .stdout
            .matches("\"denied\"")
            .count(),
        1
    );
}

/// Answers the questions of a run on a terminal, and returns what was shown.
fn answered(env: &TestEnv, folder: &str, arguments: &[&str], answers: &[&str]) -> String {
    answered_with(env, folder, arguments, answers, |run| run)
}

/// Answers the questions of a run that `configure` prepares.
fn answered_with(
    env: &TestEnv,
    folder: &str,
    arguments: &[&str],
    answers: &[&str],
    configure: impl FnOnce(Command) -> Command,
) -> String {
    std::fs::create_dir_all(env.path(folder)).unwrap();
    env.write(&format!("{folder}/a.txt"), "alpha\n");
    let (mut terminal, theirs) = Terminal::open();
    let script = env.path("script.yaml").display().to_string();
    let run = env.offshoot(&[&["run", "--script", &script], arguments, &["What does it say?"]].concat());
    let mut run = configure(run);
    run.current_dir(env.path(folder));
    run.stdin(theirs.try_clone().unwrap()).stdout(Stdio::null()).stderr(theirs);
    let mut child = run.spawn().unwrap();
    drop(run); // with our own ends of the terminal
    for answer in answers {
        terminal.reads("allow? ");
        terminal.types(answer);
    }
    let shown = terminal.reads("\r\nrun ").to_owned();
    child.wait().unwrap();
    shown
}

#[test]
fn what_is_always_allowed_is_written_to_the_user_s_own_settings_for_this_folder() {
    let env = world(SCRIPT);
    let settings = "home/.config/offshoot/offshoot.toml";
    std::fs::create_dir_all(env.path("home/.config/offshoot")).unwrap();
    env.write(settings, "# mine\nmodel = \"sonnet\"");
    let ask = ["--ask", "read"];
    let shown = answered(&env, "one", &ask, &["maybe\n", "always\n"]);
    let folder = env.path("one").canonicalize().unwrap();
    assert!(shown.contains("the rule `read` asks first") && shown.contains("  read(a.txt)"), "{shown}");
    assert!(shown.contains(settings) && shown.contains("added to your settings"), "{shown}");
    let expected = format!(
        "# mine\nmodel = \"sonnet\"\n\n[[workspace]]\npath = {:?}\nallow = [\"read(a.txt)\"]\n",
        folder.display().to_string()
    );
    assert_eq!(env.read(settings), expected);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "nothing is written into the project");
    let again = answered(&env, "one", &ask, &[]);
    assert!(!again.contains("allow?"), "{again}");
    let other = answered(&env, "two", &ask, &["once\n"]);
    assert!(other.contains("allow?"), "{other}");
    assert_eq!(env.read(settings), expected, "`once` writes nothing");
    let denied = answered(&env, "one", &["--ask", "read", "--deny", "read(a.txt)"], &[]);
    assert!(denied.contains("the rule `read(a.txt)` denies it"), "{denied}");
}

#[test]
fn what_is_always_allowed_is_never_written_into_the_project() {
    let env = world(SCRIPT);
    std::fs::create_dir_all(env.path("real")).unwrap();
    std::os::unix::fs::symlink("real", env.path("link")).unwrap();
    std::fs::create_dir_all(env.path("settings")).unwrap();
    std::os::unix::fs::symlink("../real/offshoot.toml", env.path("settings/offshoot.toml")).unwrap();
    for settings in ["real", "link", "settings"] {
        let shown = answered_with(&env, "real", &["--ask", "read"], &["always\n"], |mut run| {
            run.env("OFFSHOOT_CONFIG_DIR", env.path(settings));
            run
        });
        assert!(shown.contains("is the settings file of this project"), "{settings}: {shown}");
        assert!(!env.path("real/offshoot.toml").exists(), "{settings}: {shown}");
    }
}

#[test]
fn a_rule_that_asks_stays_with_the_run() {
    let env = world(SCRIPT);
    let said = run(&env, &["--ask", "read", "What does it say?"]);
    assert!(said.stderr.contains("no terminal to ask on"), "{said:?}");
    let said = run(&env, &["--ask", "read", "--allow", "read(a.txt)", "What does it say?"]);
    assert!(!said.stderr.contains("asks first"), "an allow is an exception: {said:?}");
    let bad = run(&env, &["--ask", "bash(", "Go."]);
    assert!(bad.code == Some(2) && bad.stderr.contains("--ask: `bash(` does not end with `)`"), "{bad:?}");
}

#[test]
fn the_user_s_time_zone_reaches_every_agent() {
    let env = world(FAMILY);
    let mut command = env.offshoot(&["run", "--script", "script.yaml", "Go."]);
    let said =
        CommandOutput::of(command.env("TZ", "Asia/Tokyo").env("OFFSHOOT_RUN_ID", "r").output().unwrap());
    assert_eq!(said.code, Some(0), "{said:?}");
    for agent in ["r", "r-4-0", "r-6-0"] {
        let shown = env.run(&["show", agent, "--format", "json"]).stdout;
        assert!(shown.contains("(Asia/Tokyo)."), "{agent}: {shown}");
    }
}

/// An unreachable address is reported at once, without retries.
#[test]
fn a_wrong_address_is_the_user_s_to_mend() {
    let env = world(SCRIPT);
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let page = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let page_at = page.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in page.incoming() {
            let mut stream = stream.unwrap();
            let _ = std::io::Read::read(&mut stream, &mut [0; 65536]);
            let answer = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello";
            let _ = std::io::Write::write_all(&mut stream, answer.as_bytes());
        }
    });
    for (address, words) in [(nobody, "nothing listens there"), (page_at, "check the base URL")] {
        let said = CommandOutput::of(
            env.offshoot(&["run", "--model", "anthropic/claude-sonnet-5", "hello"])
                .env("ANTHROPIC_API_KEY", CANARY)
                .env("ANTHROPIC_BASE_URL", format!("http://{address}"))
                .output()
                .unwrap(),
        );
        assert_eq!(said.code, Some(2), "{said:?}");
        assert!(said.stderr.contains(words) && said.stderr.contains("hint: "), "{said:?}");
        assert!(!said.stderr.contains("attempt 1 failed"), "{said:?}");
    }
}

#[test]
fn without_any_key_all_of_them_are_named() {
    let env = world(SCRIPT);
    let said = env.run(&["run", "hello"]);
    assert!(
        said.stderr.contains("`ANTHROPIC_API_KEY`") && said.stderr.contains("`OPENAI_API_KEY`"),
        "{said:?}"
    );
    let said = env.run(&["run", "--model", "openai/gpt-5-4", "hello"]);
    assert!(said.stderr.contains("`OPENAI_API_KEY`") && !said.stderr.contains("ANTHROPIC"), "{said:?}");
}

#[test]
fn doctor_tries_the_sandbox_and_cost_fits_a_terminal() {
    let env = world(SCRIPT);
    assert!(env.run(&["doctor"]).stdout.contains("Landlock and seccomp work"));
    run(&env, &["What does it say?"]);
    let cost = env.run(&["cost"]).stdout;
    assert!(cost.contains("(script)") && cost.lines().all(|line| line.chars().count() <= 80), "{cost}");
}

#[test]
fn replayed_and_scripted_runs_cost_nothing() {
    let env = TestEnv::new();
    env.write("script.yaml", "format: 1\nlanes:\n  - lane: main\n    match: { any: true }\n    turns:\n      - reply: [ { text: \"ok\" } ]\n        usage: { input: 1000, output: 10 }\n");
    let said = env.run(&["run", "--script", "script.yaml", "--record", "rec", "Say ok."]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let offshoot = env!("CARGO_BIN_EXE_offshoot");
    let said = env.run(&["replay", "rec", "--", offshoot, "run", "Say ok."]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let said =
        env.run(&["proxy", "--script", "script.yaml", "--out", "rec-2", "--", offshoot, "run", "Say ok."]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let cost: Value = serde_json::from_str(&env.run(&["cost", "--format", "json"]).stdout).unwrap();
    let lines = cost["models"].as_array().unwrap().iter();
    let told: Vec<(&str, &Value)> =
        lines.map(|it| (it["stand_in"].as_str().unwrap(), &it["calls"])).collect();
    assert_eq!(told, [("replay", &Value::from(1)), ("script", &Value::from(2))], "{cost}");
    assert!(cost["models"][0]["model"].as_str().unwrap().starts_with("claude-sonnet"), "{cost}");
    assert_eq!(
        (&cost["total"]["calls"], &cost["unpaid"]["calls"]),
        (&Value::from(0), &Value::from(3)),
        "{cost}"
    );
    let text = env.run(&["cost"]).stdout;
    assert!(text.contains("(replay)") && text.contains("not paid: "), "{text}");
    // What a recording has answered so far is not paid for without a word.
    let ps: Value = serde_json::from_str(&env.run(&["ps", "--format", "json"]).stdout).unwrap();
    let all = ps["runs"].as_array().unwrap().iter().map(|run| run["run"].as_str().unwrap());
    let hints: Vec<String> = all.map(|run| env.run(&["run", "--resume", run, "More."]).stderr).collect();
    assert!(hints.iter().any(|hint| hint.contains("was answered by a recording")), "{hints:?}");
    assert_eq!(hints.iter().filter(|hint| hint.contains("was answered by a script")).count(), 2, "{hints:?}");
}

/// Text of a model cannot control a terminal, also not as JSON.
#[test]
fn json_escapes_control_characters() {
    let env = TestEnv::new();
    let script = r#"
format: 1
lanes:
  - lane: main
    match: { any: true }
    turns:
      - reply:
          - call: { tool: manage_tasks, id: toolu_a, input: { create: [ { subject: "T\u202e\u009b31m" } ] } }
      - reply: [ { text: "final \u202e\u009b2J" } ]
"#;
    env.write("script.yaml", script);
    let ran = env.run(&["run", "--script", "script.yaml", "prompt \u{202e}\u{9b}2J"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let ps = env.run(&["ps", "--format", "json"]);
    let runs: serde_json::Value = serde_json::from_str(&ps.stdout).expect("it is JSON");
    let run = runs["runs"][0]["run"].as_str().expect("a run").to_owned();
    for arguments in [&["ps"][..], &["show", &run], &["search", "final"], &["tasks"], &["cost"]] {
        let said = env.run(&[arguments, &["--format", "json"]].concat());
        assert_eq!(said.code, Some(0), "{said:?}");
        let is_bad = |c: char| c == '\u{202e}' || (c.is_control() && c != '\n');
        assert!(!said.stdout.contains(is_bad), "{arguments:?}: {:?}", said.stdout);
        let is_told = matches!(arguments[0], "show" | "search" | "tasks");
        assert!(!is_told || said.stdout.contains("\\u202e\\u009b"), "{arguments:?}: {}", said.stdout);
    }
}

#[test]
fn an_answer_in_a_pipe_is_unchanged() {
    let env = TestEnv::new();
    let script = r#"
format: 1
lanes:
  - lane: main
    match: { any: true }
    turns:
      - reply: [ { text: "all:\n\tcc -o x\r\nمی\u200cخواهم 👨\u200d👩 \e[1m" } ]
"#;
    env.write("script.yaml", script);
    let said = run(&env, &["hi"]);
    let whole = "all:\n\tcc -o x\r\nمی\u{200c}خواهم 👨\u{200d}👩 \u{1b}[1m\n";
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), whole), "{said:?}");
    let id = only_run(&env)["run"].as_str().unwrap().to_owned();
    let shown = env.run(&["show", &id]).stdout;
    assert!(shown.contains("  \tcc -o x\n  می\u{200c}خواهم 👨\u{200d}👩 \\u{1b}[1m\n"), "{shown}");
}

#[test]
fn a_run_changes_its_provider_only_if_requested() {
    let env = world(SCRIPT);
    let model = common::Proxy::start(&env, &["proxy", "--script", "script.yaml", "--out", "outer"]);
    std::fs::create_dir_all(env.path("home/.config/offshoot")).unwrap();
    let settings = |name: &str| {
        let table = format!(
            "[providers.{name}]\ndialect = \"anthropic\"\nbase_url = \"http://{}\"\nmodels = {{ sonnet = \"m\" }}\n",
            model.addr
        );
        env.write("home/.config/offshoot/offshoot.toml", &table);
    };
    settings("p");
    let said = env.run(&["run", "--model", "p/m", "What does it say?"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let id = only_run(&env)["run"].as_str().unwrap().to_owned();
    settings("q");
    let refused = env.run(&["run", "--resume", &id, "And now?"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""), "{refused:?}");
    assert!(refused.stderr.contains("no provider `p`"), "{refused:?}");
    assert!(
        refused.stderr.contains(&format!("offshoot run --resume {id} --model PROVIDER/m")),
        "{refused:?}"
    );
    for other in ["m", "sonnet", "q/other"] {
        assert_eq!(env.run(&["run", "--resume", &id, "--model", other, "And?"]).code, Some(2), "{other}");
    }
    let said = env.run(&["run", "--resume", &id, "--model", "q/m", "And now?"]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), "Still alpha.\n"), "{said:?}");
    model.interrupt();
}

#[test]
fn a_journal_that_is_deleted_under_a_run_is_an_error() {
    let env = world(&slow());
    let mut going = start_slow(&env);
    in_second_reply(&mut going);
    for name in ["store.db", "store.db-wal", "store.db-shm"] {
        std::fs::remove_file(env.path("data").join(name)).unwrap();
    }
    let (code, stderr) = going.end();
    assert_eq!(code, Some(3), "{stderr}");
    assert!(stderr.contains("was deleted, moved or replaced while it was in use"), "{stderr}");
    assert!(!stderr.contains("nothing is lost"), "{stderr}");
}
