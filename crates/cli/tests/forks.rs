//! `offshoot run --fork-of` as its users meet it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

#[path = "forks/agents.rs"]
mod agents;
mod common;
#[path = "forks/options.rs"]
mod options;
#[path = "forks/side_work.rs"]
mod side_work;

use std::os::unix::process::ExitStatusExt as _;

use common::provider::Provider;
use common::{CommandOutput, TestEnv};
use serde_json::Value;

const LINES: &[(&str, &[&str])] = &[
    ("Do it.", &["toolu_1=read{\"path\":\"given.txt\"}", "Done."]),
    ("Which files?", &["toolu_2=list{}", "given.txt alone."]),
    ("And then?", &["Nothing."]),
    ("Change it.", &[r#"toolu_4=edit{"path":"given.txt","old":"given","new":"taken"}"#, "Tried."]),
];

struct World {
    env: TestEnv,
    provider: Provider,
}

impl World {
    fn new() -> Self {
        let env = TestEnv::in_memory();
        std::fs::create_dir_all(env.path("w")).unwrap();
        env.write("w/given.txt", "given\n");
        Self { env, provider: Provider::start(LINES, |_| true) }
    }

    fn offshoot(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = self.env.offshoot(arguments);
        command
            .current_dir(self.env.path("w"))
            .env("ANTHROPIC_BASE_URL", format!("http://{}", self.provider.addr))
            .env("ANTHROPIC_API_KEY", "sk-test-0123456789");
        command
    }

    fn run(&self, arguments: &[&str]) -> CommandOutput {
        CommandOutput::of(self.offshoot(arguments).output().unwrap())
    }

    fn show(&self, run: &str) -> Value {
        serde_json::from_str(&self.run(&["show", run, "--format", "json"]).stdout).unwrap()
    }

    fn runs(&self) -> Vec<Value> {
        let ps: Value = serde_json::from_str(&self.run(&["ps", "--format", "json"]).stdout).unwrap();
        ps["runs"].as_array().unwrap().clone()
    }

    fn main(&self) -> String {
        let runs = self.runs();
        let main = runs.iter().find(|run| run["kind"] == "main").unwrap();
        main["run"].as_str().unwrap().to_owned()
    }
}

#[test]
fn a_side_question_leaves_the_run_as_it_is() {
    let world = World::new();
    assert_eq!(world.run(&["run", "--model", "sonnet", "Do it."]).code, Some(0));
    let main = world.main();
    let before = world.show(&main);
    let said = world.run(&["run", "--fork-of", &main[..12], "Which files?"]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), "given.txt alone.\n"), "{said:?}");
    let after = world.show(&main);
    for part in ["messages", "tool_calls", "model_calls"] {
        assert_eq!(before[part], after[part], "{part}");
    }
    assert_eq!(after["run"]["status"], "completed");
    let fork = world.runs().into_iter().find(|run| run["kind"] == "fork").unwrap();
    assert_eq!(fork["parent"], main.as_str());
    let shown = world.show(fork["run"].as_str().unwrap());
    assert_eq!(shown["fork"]["ended"]["label"], "side question");
    assert_eq!(shown["fork"]["of"], main.as_str());
    assert_eq!(shown["messages"].as_array().unwrap().len(), 4, "its own: {shown}");
    // A fork can be gone on with, and forked.
    let id = fork["run"].as_str().unwrap();
    let said = world.run(&["run", "--resume", id, "And then?"]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), "Nothing.\n"), "{said:?}");
    let said = world.run(&["run", "--fork-of", id, "And then?"]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), "Nothing.\n"), "{said:?}");
    // The user's own conversation is the main one's.
    assert!(!world.run(&["search", "Nothing"]).stdout.contains("Nothing"));
}

/// The same command on a disk that has room for what SQLite needs to read a journal, and for nothing that it writes.
fn without_room(command: &std::process::Command) -> std::process::Command {
    let mut limited = std::process::Command::new("sh");
    // Who writes too much is not ended for it, and gets an error.
    let script = r#"trap '' XFSZ; ulimit -f 64; exec "$0" "$@""#;
    limited.args(["-c", script]).arg(command.get_program()).args(command.get_args());
    limited.current_dir(command.get_current_dir().unwrap()).env_clear();
    limited.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    limited.stdin(std::process::Stdio::null());
    limited
}

#[test]
fn a_side_question_is_answered_where_the_journal_cannot_be_written() {
    let world = World::new();
    assert_eq!(world.run(&["run", "--model", "sonnet", "Do it."]).code, Some(0));
    let main = world.main();
    let ask =
        |json: &[&str]| world.offshoot(&[&["run", "--fork-of", &main], json, &["Which files?"]].concat());
    let said = CommandOutput::of(without_room(&ask(&[])).output().unwrap());
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), "given.txt alone.\n"), "{said:?}");
    let warning = "warning: cannot store the transcript of the fork: the disk failed under the journal";
    assert!(said.stderr.contains(warning), "{said:?}");
    assert!(!said.stderr.contains("\nrun "), "there is none to go on with: {said:?}");
    assert_eq!(world.runs().len(), 1);

    let said = CommandOutput::of(without_room(&ask(&["--json"])).output().unwrap());
    assert!(said.code == Some(0) && said.stderr.contains(warning), "{said:?}");
    let unkept = events(&said);
    let lost = unkept.iter().find(|event| event["type"] == "transcript_lost").unwrap();
    assert!(lost["error"].as_str().unwrap().starts_with("the disk failed under the journal"), "{lost}");
    let kept = events(&CommandOutput::of(ask(&["--json"]).output().unwrap()));
    let types = |events: &[Value]| -> Vec<String> {
        let types = events.iter().map(|event| event["type"].as_str().unwrap().to_owned());
        types.filter(|kind| kind != "transcript_lost").collect()
    };
    assert_eq!(types(&unkept), types(&kept), "nothing else is told");
    let ended = |events: &[Value]| {
        let ended: Vec<&Value> = events.iter().filter(|event| event["type"] == "fork_ended").collect();
        assert_eq!(ended.len(), 1, "{ended:?}");
        ["outcome", "messages", "input", "output", "cache_read"].map(|name| ended[0][name].clone())
    };
    assert_eq!(ended(&unkept), ended(&kept));
    assert_eq!(ended(&unkept)[0], "completed");
    assert_eq!(world.runs().len(), 2, "the one that there was room for");

    // Any other run is on the disk before it begins, or does not.
    let command = world.offshoot(&["run", "--model", "sonnet", "Do it."]);
    let said = CommandOutput::of(without_room(&command).output().unwrap());
    assert_eq!(said.code, Some(3), "{said:?}");
    assert!(said.stderr.contains("the disk failed under the journal"), "{said:?}");
}

fn events(said: &CommandOutput) -> Vec<Value> {
    said.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn an_impossible_fork_is_reported() {
    let world = World::new();
    let said = world.run(&["run", "--fork-of", "nobody", "Which files?"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains("no run `nobody`"), "{said:?}");
    let mut killed = world.offshoot(&["run", "--model", "sonnet", "Do it."]);
    let killed = killed.env("OFFSHOOT_CRASH", "ask.intent.after:1").output().unwrap();
    assert_eq!(killed.status.signal(), Some(9));
    let main = world.main();
    let said = world.run(&["run", "--fork-of", &main, "Which files?"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains("has no turn to fork") && said.stderr.contains("--resume"), "{said:?}");
    assert_eq!(world.runs().len(), 1, "nothing was begun");
    let said = world.run(&["run", "--fork-of", &main]);
    assert_eq!(said.code, Some(2), "{said:?}");
}

#[test]
fn killed_round_its_start_it_is_there_or_not() {
    for (point, runs) in [("fork.start.before:1", 1), ("fork.start.after:1", 2)] {
        let world = World::new();
        assert_eq!(world.run(&["run", "--model", "sonnet", "Do it."]).code, Some(0));
        let main = world.main();
        let mut killed = world.offshoot(&["run", "--fork-of", &main, "Which files?"]);
        assert_eq!(killed.env("OFFSHOOT_CRASH", point).output().unwrap().status.signal(), Some(9));
        let all = world.runs();
        assert_eq!(all.len(), runs, "{point}");
        let Some(fork) = all.iter().find(|run| run["kind"] == "fork") else { continue };
        let said = world.run(&["run", "--resume", fork["run"].as_str().unwrap()]);
        assert_eq!((said.code, said.stdout.as_str()), (Some(0), "given.txt alone.\n"), "{said:?}");
    }
}

/// A script whose main agent reads a megabyte and then asks ten forks of itself.
fn ten_forks() -> String {
    let reads: String = (0..30)
        .map(|n| {
            format!("          - call: {{ tool: read, id: toolu_r{n}, input: {{ path: big-{n}.txt }} }}\n")
        })
        .collect();
    let fork = |n: usize| format!("{{ prompt: \"Question {n}?\", fork: true }}");
    let forks: String = (0..10)
        .map(|n| {
            format!("          - call: {{ tool: spawn_sub_agent, id: toolu_f{n}, input: {} }}\n", fork(n))
        })
        .collect();
    format!(
        "format: 1\nlanes:\n  - lane: main\n    match: {{ any: true }}\n    turns:\n      - reply:\n{reads}      - reply:\n{forks}\
         \x20     - reply: [ {{ text: \"Answered.\" }} ]\n        repeat: 20\n"
    )
}

/// Usage of the ten forks and of their parent. A crash ends the first of two processes, whose script has no cache.
fn played(crash: Option<&str>) -> (Vec<Value>, u64) {
    let env = TestEnv::in_memory();
    env.write("script.yaml", &ten_forks());
    std::fs::create_dir_all(env.path("w")).unwrap();
    for n in 0..30 {
        let words: String = (0..9_000).map(|word| format!("word{}\n", word * 7 + n)).collect();
        env.write(&format!("w/big-{n}.txt"), &words);
    }
    let play = |arguments: &[&str], crash: Option<&str>| {
        let cache: &[&str] = if crash.is_some() { &[] } else { &["--cache-sim"] };
        let common = [&["run", "--script", "../script.yaml", "--json"], cache].concat();
        let mut command = env.offshoot(&[&common, arguments].concat());
        command.current_dir(env.path("w")).env("OFFSHOOT_CRASH", crash.unwrap_or_default());
        command.output().unwrap()
    };
    let mut output = play(&["Read all."], crash);
    if crash.is_some() {
        assert_eq!(output.status.signal(), Some(9), "{:?}", CommandOutput::of(output));
        let ps: Value = serde_json::from_str(&env.run(&["ps", "--format", "json"]).stdout).unwrap();
        output = play(&["--resume", ps["runs"][0]["run"].as_str().unwrap()], None);
    }
    let said = CommandOutput::of(output);
    assert_eq!(said.code, Some(0), "{said:?}");
    let events: Vec<Value> = said.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let forks: Vec<Value> = events.iter().filter(|event| event["type"] == "fork_ended").cloned().collect();
    assert_eq!(forks.len(), 10, "{said:?}");
    let main = events[0]["run"].as_str().unwrap();
    let explained = env.run(&["cache", main, "--format", "json"]);
    let explained: Value = serde_json::from_str(&explained.stdout).unwrap();
    let of_main = explained["requests"].as_array().unwrap().iter().filter(|it| it["lane"] == main);
    let computed = &of_main.clone().nth(1).unwrap()["predicted"];
    let sent = ["input", "read", "write_5m"].iter().map(|name| tokens(computed, name)).sum();
    assert!(sent > 200_000, "{sent}");
    (forks, sent)
}

fn tokens(event: &Value, name: &str) -> u64 {
    event[name].as_u64().unwrap_or_else(|| panic!("{name}: {event}"))
}

#[test]
fn ten_forks_read_the_cache_of_their_parent() {
    let (forks, parent) = played(None);
    for fork in &forks {
        let read = tokens(fork, "cache_read");
        assert!(read as f64 >= 0.998 * parent as f64, "{read} of {parent}: {fork}");
        assert!(fork["hit_rate"].as_f64().unwrap() > 0.99, "{fork}");
        // The reply, a sentence for each of ten calls, and its own question.
        assert!(tokens(fork, "cache_write_5m") < 1000, "{fork}");
    }
}

#[test]
fn ten_forks_of_an_expired_prefix_write_it_once() {
    // The first process has no cache, and in the second the forks are the first to ask.
    let (forks, parent) = played(Some("call.intent.after:2"));
    let (wrote, read): (Vec<&Value>, Vec<&Value>) =
        forks.iter().partition(|fork| tokens(fork, "cache_write_5m") > parent / 2);
    assert_eq!((wrote.len(), read.len()), (1, 9), "{forks:?}");
    for fork in read {
        assert!(tokens(fork, "cache_read") as f64 >= 0.998 * parent as f64, "{fork}");
    }
}

/// A run with a sub-agent and two forks, one of them a skill's.
const FAMILY: &str = r#"
format: 1
lanes:
  - lane: asked
    match: { text_contains: "What does given.txt say?" }
    turns:
      - reply: [ { call: { tool: read, id: toolu_q, input: { path: given.txt } } } ]
      - reply: [ { text: "It says given." } ]
  - lane: fork
    match: { text_contains: "<fork>" }
    turns:
      - reply: [ { call: { tool: read, id: toolu_r, input: { path: given.txt } } } ]
      - reply: [ { text: "It says: \"given\"." } ]
  - lane: sub
    match: { tools_exclude: manage_tasks }
    turns:
      - reply: [ { call: { tool: read, id: toolu_s, input: { path: given.txt } } } ]
      - reply: [ { text: "given, says the sub-agent" } ]
  - lane: main
    match: { any: true }
    turns:
      - reply: [ { call: { tool: read, id: toolu_0, input: { path: given.txt } } } ]
      - reply:
          - call: { tool: skill, id: toolu_a, input: { name: look, arguments: given.txt } }
          - call: { tool: read, id: toolu_b, input: { path: given.txt } }
      - reply: [ { call: { tool: spawn_sub_agent, id: toolu_c, input: { prompt: "What does given.txt say?", fork: true } } } ]
      - reply: [ { call: { tool: spawn_sub_agent, id: toolu_d, input: { prompt: "Read given.txt." } } } ]
      - reply: [ { text: "Done." } ]
"#;

const LOOK: &str = "---\ndescription: looks\ncontext: fork\n---\nLook at $ARGUMENTS.\n";

/// The lanes of a recording as `id kind parent by`.
fn lanes(env: &TestEnv, recording: &str) -> Vec<String> {
    let shown = env.show(recording);
    let word = |lane: &Value, name: &str| lane[name].as_str().unwrap_or("-").to_owned();
    let line = |lane: &Value| ["id", "kind", "parent", "spawned_by"].map(|name| word(lane, name)).join(" ");
    shown["lanes"].as_array().unwrap().iter().map(line).collect()
}

#[test]
fn a_recorded_skill_fork_is_shown_checked_and_replayed() {
    let env = TestEnv::new();
    env.write(
        "scenario/scenario.yaml",
        "format: 1\nintent: A skill is followed by a fork.\nbase: ../base\nprompt: Look at the file.\n\
         model: claude-sonnet-5\nmodels: { offshoot: sonnet }\ntimeout_s: 60\nread_only: true\n",
    );
    env.write("scenario/script.offshoot.yaml", FAMILY);
    env.write("base/workspace/given.txt", "given\n");
    env.write("base/harness/offshoot/.offshoot/skills/look/SKILL.md", LOOK);
    let offshoot = |arguments: &[&str]| {
        let mut command = env.offshoot(arguments);
        CommandOutput::of(command.env("OFFSHOOT_SLOTS_DIR", env.path("slots")).output().unwrap())
    };
    let holds = |arguments: &[&str]| {
        let said = offshoot(arguments);
        assert_eq!(said.code, Some(0), "{arguments:?}: {said:?}");
        said.stdout
    };
    holds(&["capture", "offshoot", "--scenario", "scenario", "--out", "rec"]);
    let found =
        ["main main - -", "fork-1 fork main toolu_a", "fork-2 fork main toolu_c", "sub-1 sub main toolu_d"];
    assert_eq!(lanes(&env, "rec"), found);
    holds(&["check", "rec"]);
    assert_eq!(holds(&["cache", "rec", "--lint"]), "nothing found\n");
    holds(&["replay", "rec", "--out", "again", "--order", "recorded"]);
    assert_eq!(lanes(&env, "again"), found);
    holds(&["verify", "rec", "again", "--level", "E4"]);
}

/// Plays the family, killed there and taken up again; what every request used, and the folder.
fn family(crash: Option<&str>) -> (Vec<Value>, TestEnv, String) {
    let env = TestEnv::in_memory();
    env.write("script.yaml", FAMILY);
    env.write("w/given.txt", "given\n");
    env.write("home/.config/offshoot/skills/look/SKILL.md", LOOK);
    let run = |arguments: &[&str], crash: &str| {
        let common = ["run", "--script", "../script.yaml", "--cache-sim"];
        let mut command = env.offshoot(&[&common, arguments].concat());
        command.env("OFFSHOOT_CRASH", crash).env("OFFSHOOT_RUN_ID", "1m7g00000000");
        command.current_dir(env.path("w")).output().unwrap()
    };
    let mut output = run(&["Look at the file."], crash.unwrap_or_default());
    if crash.is_some() {
        assert_eq!(output.status.signal(), Some(9), "{:?}", CommandOutput::of(output));
        output = run(&["--resume", "1m7g00000000"], "");
    }
    let said = CommandOutput::of(output);
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), "Done.\n"), "{said:?}");
    let explained = env.run(&["cache", "1m7g00000000", "--format", "json"]);
    let explained: Value = serde_json::from_str(&explained.stdout).unwrap();
    let mut used: Vec<Value> = Vec::new();
    for request in explained["requests"].as_array().unwrap() {
        used.push(serde_json::json!([request["lane"], request["turn"], request["reported"]]));
    }
    used.sort_by_key(Value::to_string);
    (used, env, "1m7g00000000".to_owned())
}

#[test]
fn our_own_runs_pass_the_lint() {
    let (_, env, run) = family(None);
    let said = env.run(&["cache", &run, "--lint"]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), "nothing found\n"), "{said:?}");
    // The message names the folder, after the text that all folders share.
    let request = env.run(&["show", &run, "--format", "json"]).stdout;
    assert!(request.contains("Workspace: "), "{request}");
}

#[test]
fn a_killed_and_resumed_run_uses_as_many_tokens_as_an_undisturbed_one() {
    let (undisturbed, ..) = family(None);
    assert!(undisturbed.len() == 11 && undisturbed.iter().all(|it| !it[2].is_null()), "{undisturbed:?}");
    for crash in ["ask.commit.after:1", "call.intent.after:2", "ask.commit.after:4", "ask.intent.after:8"] {
        let (killed, ..) = family(Some(crash));
        assert_eq!(killed, undisturbed, "{crash}");
    }
}

#[test]
fn a_side_question_reads_the_cache_of_its_parent_from_another_process() {
    let (_, env, run) = family(None);
    let mut command = env.offshoot(&[
        "run",
        "--script",
        "../script.yaml",
        "--cache-sim",
        "--json",
        "--fork-of",
        &run,
        "Why?",
    ]);
    let said = CommandOutput::of(command.current_dir(env.path("w")).output().unwrap());
    assert_eq!(said.code, Some(0), "{said:?}");
    let events = said.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let ended = events.into_iter().find(|event| event["type"] == "fork_ended").unwrap();
    assert!(ended["hit_rate"].as_f64().unwrap() > 0.9, "{ended}");
}

#[test]
fn denials_of_a_fork_hold_after_a_resume() {
    let world = World::new();
    assert_eq!(world.run(&["run", "--model", "sonnet", "Do it."]).code, Some(0));
    let main = world.main();
    let mut killed = world.offshoot(&["run", "--fork-of", &main, "--deny", "list", "Which files?"]);
    assert_eq!(killed.env("OFFSHOOT_CRASH", "fork.start.after:1").output().unwrap().status.signal(), Some(9));
    let fork = world.runs().into_iter().find(|run| run["kind"] == "fork").unwrap();
    let fork = fork["run"].as_str().unwrap();
    assert_eq!(world.run(&["run", "--resume", fork]).code, Some(0));
    let shown = world.show(fork).to_string();
    assert!(shown.contains("the rule `list` denies it"), "{shown}");
    // The rule applies to no other run.
    assert_eq!(world.run(&["run", "--fork-of", &main, "Which files?"]).code, Some(0));
    let other = world.runs().into_iter().find(|run| run["kind"] == "fork" && run["run"] != fork).unwrap();
    let shown = world.show(other["run"].as_str().unwrap()).to_string();
    assert!(!shown.contains("denies it"), "{shown}");
}

#[test]
fn a_run_in_its_first_turn_cannot_be_forked_yet() {
    let env = TestEnv::in_memory();
    let slow = r#"
format: 1
lanes:
  - lane: never
    match: { model: nobody }
    turns: [ { reply: [ { text: "?" } ] } ]
  - lane: main
    match: { any: true }
    turns:
      - wait_for: [ { lane: never, finished: true, timeout_ms: 50000 } ]
        reply: [ { text: "At last." } ]
"#;
    env.write("script.yaml", slow);
    let mut command = env.offshoot(&["run", "--script", "script.yaml", "--json", "Wait."]);
    let mut running =
        command.env("OFFSHOOT_RUN_ID", "1m7g00000000").stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    let stdout = running.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut first).unwrap();
    let said = env.run(&["run", "--script", "script.yaml", "--fork-of", "1m7g00000000", "And?"]);
    running.kill().unwrap();
    running.wait().unwrap();
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(
        said.stderr.contains("wait until its first turn has ended") && !said.stderr.contains("--resume"),
        "{said:?}"
    );
    // The process of the run is gone.
    let said = env.run(&["run", "--script", "script.yaml", "--fork-of", "1m7g00000000", "And?"]);
    assert!(said.code == Some(2) && said.stderr.contains("--resume 1m7g00000000"), "{said:?}");
}

#[test]
fn a_child_is_resumed_by_its_root() {
    let (_, env, run) = family(None);
    let ps: Value = serde_json::from_str(&env.run(&["ps", "--format", "json"]).stdout).unwrap();
    let sub = ps["runs"].as_array().unwrap().iter().find(|run| run["kind"] == "sub").unwrap();
    let said =
        env.run(&["run", "--script", "script.yaml", "--resume", sub["run"].as_str().unwrap(), "Go on."]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains(&format!("is part of run `{run}`")), "{said:?}");
    assert!(said.stderr.contains(&format!("hint: offshoot run --resume {run}")), "{said:?}");
}
