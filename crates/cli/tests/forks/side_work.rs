//! Side work as its users meet it.

use serde_json::Value;

use super::events;
use crate::common::{CommandOutput, TestEnv};

const SCRIPT: &str = r#"
format: 1
lanes:
  - lane: summary
    match: { text_contains: "Sum up the last turn" }
    turns: [ { reply: [ { text: "It was done." } ], repeat: 9 } ]
  - lane: suggestion
    match: { text_contains: "Write what the user will most likely ask for next" }
    turns: [ { reply: [ { text: "And now the tests" } ], repeat: 9 } ]
  - lane: notes
    match: { text_contains: "Write notes that help" }
    turns: [ { reply: [ { text: "Goal: it." } ], repeat: 9 } ]
  - lane: supervisor
    match: { text_contains: "Is it going in circles?" }
    turns: [ { reply: [ { text: "OK" } ], repeat: 9 } ]
  - lane: main
    match: { any: true }
    turns:
      - reply: [ { call: { tool: list, id: toolu_1, input: {} } } ]
      - reply: [ { text: "Done." } ]
      - reply: [ { text: "Done again." } ]
"#;

struct World(TestEnv);

impl World {
    fn new(settings: &str) -> Self {
        let env = TestEnv::in_memory();
        env.write("script.yaml", SCRIPT);
        env.write("w/given.txt", "given\n");
        env.write("home/.config/offshoot/offshoot.toml", settings);
        Self(env)
    }

    fn run(&self, arguments: &[&str]) -> CommandOutput {
        let mut command = self.0.offshoot(arguments);
        CommandOutput::of(command.current_dir(self.0.path("w")).output().unwrap())
    }

    fn agent(&self, arguments: &[&str]) -> CommandOutput {
        self.run(&[&["run", "--script", "../script.yaml"], arguments].concat())
    }
}

const ALL: &str = "[side_work]\nturn_summary = true\nprompt_suggestion = true\nsession_memory = true\n\
                   supervisor = \"Is it going in circles?\"\nevery = 1\n";

#[test]
fn it_comes_after_the_answer_with_its_own_events_and_costs() {
    let world = World::new(ALL);
    let said = world.agent(&["--json", "Do it."]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let events = events(&said);
    let at = |kind: &str, label: &str| {
        let found = events
            .iter()
            .position(|event| event["type"] == kind && (label.is_empty() || event["label"] == label));
        found.unwrap_or_else(|| panic!("{kind} {label}: {said:?}"))
    };
    for (label, text) in [
        ("turn_summary", "It was done."),
        ("prompt_suggestion", "And now the tests"),
        ("session_memory", "Goal: it."),
    ] {
        assert!(at("side_work", label) > at("run_finished", ""), "{label}");
        assert_eq!(events[at("side_work", label)]["text"], text);
        assert_eq!(events[at("fork_ended", label)]["source"], "side_work");
    }
    assert_eq!(events[at("side_work", "supervisor")]["reminder"], false);
    let main = events[0]["run"].as_str().unwrap();
    assert!(events.iter().filter(|event| event["type"] == "run_started").all(|event| event["run"] == main));
    let cost: Value = serde_json::from_str(&world.run(&["cost", "--format", "json"]).stdout).unwrap();
    let labels: Vec<&str> =
        cost["side_work"].as_array().unwrap().iter().map(|line| line["label"].as_str().unwrap()).collect();
    assert_eq!(labels, ["prompt_suggestion", "session_memory", "supervisor", "turn_summary"]);
    assert!(world.run(&["cost"]).stdout.contains("of which supervisor"));
    // The next turn knows the notes, and the conversation has nothing of the rest.
    let said = world.agent(&["--resume", main, "Go on."]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), "Done again.\n"), "{said:?}");
    for line in
        ["turn summary: It was done.", "prompt suggestion: And now the tests", "session memory: Goal: it."]
    {
        assert!(said.stderr.contains(line), "{line}: {said:?}");
    }
    let shown = world.run(&["show", main, "--format", "json"]).stdout;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert!(!shown["messages"].to_string().contains("It was done."));
}

#[test]
fn no_hook_is_asked_about_it() {
    let hook = |event: &str| {
        format!(
            "[[hooks.{event}]]\ncommand = \"echo {event} >> log; grep -q 'active\\\":true' || {{ echo more >&2; exit 2; }}\"\n"
        )
    };
    let world = World::new(&format!("{ALL}{}{}", hook("SubagentStop"), hook("Stop")));
    let said = world.agent(&["--json", "Do it."]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(events(&said).iter().any(|event| event["type"] == "side_work"), "{said:?}");
    let log = std::fs::read_to_string(world.0.path("home/.config/offshoot/log")).unwrap();
    assert_eq!(log, "Stop\nStop\n");
}

#[test]
fn nothing_is_asked_by_default_and_a_flag_asks_for_one_run() {
    let world = World::new("");
    let said = world.agent(&["--json", "Do it."]);
    assert!(said.code == Some(0) && !said.stdout.contains("side_work"), "{said:?}");
    let said = world.agent(&["--json", "--supervise", "Is it going in circles?", "--every", "1", "Do it."]);
    let all = events(&said);
    let found: Vec<&Value> = all.iter().filter(|event| event["type"] == "side_work").collect();
    assert_eq!((found.len(), &found[0]["label"], &found[0]["text"]), (1, &"supervisor".into(), &"OK".into()));
}

#[test]
fn wrong_options_and_settings_are_usage_errors() {
    let world = World::new("");
    for (flags, why) in [
        (&["--every", "3"][..], "--supervise"),
        (&["--supervise", " "], "--supervise: the question is empty"),
        (&["--supervise", "x", "--every", "0"], "--every"),
        (&["--supervise", "x", "--fork-of", "m"], "--fork-of"),
    ] {
        let said = world.agent(&[flags, &["Do it."]].concat());
        assert!(said.code == Some(2) && said.stderr.contains(why), "{flags:?}: {said:?}");
    }
    for (settings, why) in [
        ("turn_summary = 1", "expected a boolean"),
        ("summary = true", "summary"),
        ("supervisor = \"\"", "the question of the supervisor is empty"),
        ("supervisor = 3", "`supervisor` must be true, false or a question"),
        ("every = 3", "`every` has no effect without `supervisor`"),
        ("supervisor = true\nevery = 0", "`every` must be at least 1"),
    ] {
        let world = World::new(&format!("[side_work]\n{settings}\n"));
        let said = world.agent(&["Do it."]);
        assert!(said.code == Some(2) && said.stderr.contains(why), "{settings}: {said:?}");
    }
    // A project cannot spend the user's money.
    world.0.write("w/offshoot.toml", "[side_work]\nturn_summary = true\n");
    let said = world.agent(&["Do it."]);
    assert!(said.code == Some(2) && said.stderr.contains("a project cannot set side work"), "{said:?}");
}
