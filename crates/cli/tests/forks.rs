//! `offshoot run --fork-of` as its users meet it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

mod common;

use std::os::unix::process::ExitStatusExt as _;

use common::provider::Provider;
use common::{Said, TestEnv};
use serde_json::Value;

const LINES: &[(&str, &[&str])] = &[
    ("Do it.", &["toolu_1=read{\"path\":\"given.txt\"}", "Done."]),
    ("Which files?", &["toolu_2=list{}", "given.txt alone."]),
    ("And then?", &["Nothing."]),
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

    fn run(&self, arguments: &[&str]) -> Said {
        Said::of(self.offshoot(arguments).output().unwrap())
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

#[test]
fn what_cannot_be_forked_is_said() {
    let world = World::new();
    let said = world.run(&["run", "--fork-of", "nobody", "Which files?"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains("there is no run `nobody`"), "{said:?}");
    let mut killed = world.offshoot(&["run", "--model", "sonnet", "Do it."]);
    let killed = killed.env("OFFSHOOT_CRASH", "ask.intent.after:1").output().unwrap();
    assert_eq!(killed.status.signal(), Some(9));
    let main = world.main();
    let said = world.run(&["run", "--fork-of", &main, "Which files?"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains("there is nothing to fork") && said.stderr.contains("--resume"), "{said:?}");
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

/// What the ten forks used, and what their parent had sent when it asked for them.
fn played(crash: Option<&str>) -> (Vec<Value>, u64) {
    let env = TestEnv::in_memory();
    env.write("script.yaml", &ten_forks());
    std::fs::create_dir_all(env.path("w")).unwrap();
    for n in 0..30 {
        let words: String = (0..9_000).map(|word| format!("word{}\n", word * 7 + n)).collect();
        env.write(&format!("w/big-{n}.txt"), &words);
    }
    let play = |arguments: &[&str], crash: &str| {
        let common = ["--script", "../script.yaml", "--cache-sim", "--json"];
        let mut command = env.offshoot(&[&["run"], &common[..], arguments].concat());
        command.current_dir(env.path("w")).env("OFFSHOOT_CRASH", crash).output().unwrap()
    };
    let mut output = play(&["Read all."], crash.unwrap_or_default());
    if crash.is_some() {
        assert_eq!(output.status.signal(), Some(9), "{:?}", Said::of(output));
        let ps: Value = serde_json::from_str(&env.run(&["ps", "--format", "json"]).stdout).unwrap();
        output = play(&["--resume", ps["runs"][0]["run"].as_str().unwrap()], "");
    }
    let said = Said::of(output);
    assert_eq!(said.code, Some(0), "{said:?}");
    let events: Vec<Value> = said.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let forks: Vec<Value> = events.iter().filter(|event| event["type"] == "fork_ended").cloned().collect();
    assert_eq!(forks.len(), 10, "{said:?}");
    let main = events[0]["run"].as_str().unwrap();
    let shown: Value = serde_json::from_str(&env.run(&["show", main, "--format", "json"]).stdout).unwrap();
    let usage = &shown["model_calls"][1]["usage"];
    let sent = ["input", "cache_read", "cache_write_5m"].iter().map(|name| tokens(usage, name)).sum();
    assert!(sent > 200_000, "{sent}");
    (forks, sent)
}

fn tokens(event: &Value, name: &str) -> u64 {
    event[name].as_u64().unwrap_or_else(|| panic!("{name}: {event}"))
}

#[test]
fn ten_forks_read_what_their_parent_wrote() {
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
fn ten_forks_of_a_parent_that_no_cache_knows_any_more_write_it_once() {
    // The second process finds an empty cache, and the forks are the first to ask.
    let (forks, parent) = played(Some("call.intent.after:2"));
    let (wrote, read): (Vec<&Value>, Vec<&Value>) =
        forks.iter().partition(|fork| tokens(fork, "cache_write_5m") > parent / 2);
    assert_eq!((wrote.len(), read.len()), (1, 9), "{forks:?}");
    for fork in read {
        assert!(tokens(fork, "cache_read") as f64 >= 0.998 * parent as f64, "{fork}");
    }
}
