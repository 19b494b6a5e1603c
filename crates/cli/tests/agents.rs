//! Agents, skills, commands and tasks, as a user meets them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

mod common;

use common::{CommandOutput, TestEnv};
use serde_json::Value;

const SCRIPT: &str = r#"
format: 1
lanes:
  - lane: main
    match: { any: true }
    turns:
      - reply:
          - call: { tool: manage_tasks, id: toolu_a, input: { create: [ { subject: "Look" }, { subject: "Tell" } ] } }
          - call: { tool: skill, id: toolu_b, input: { name: release, arguments: "1.0" } }
      - reply: [ { text: "Planned." } ]
"#;

const REVIEWER: &str = "---\nname: reviewer\ndescription: Looks at changes. Like so: at all of them\ntools: Read, Grep, \
                        TodoWrite, Skill, NotebookEdit\nmodel: opus\nmaxTurns: 3\ncolor: red\n---\n\nYou look at changes.\n";

fn world() -> TestEnv {
    let env = TestEnv::new();
    for (path, text) in [
        ("script.yaml", SCRIPT),
        (".claude/agents/reviewer.md", REVIEWER),
        (".claude/agents/broken.md", "---\ndescription: d\nmaxTurns: many\n---\nx\n"),
        (".opencode/agent/reviewer.md", "---\ndescription: Another one\n---\nx\n"),
        (".claude/skills/release/SKILL.md", "---\ndescription: How to release\n---\nTag $ARGUMENTS.\n"),
        (
            ".claude/commands/fix.md",
            "---\nargument-hint: [issue] [how]\nagent: reviewer\n---\nMend $1, please.\n",
        ),
        ("home/.config/offshoot/agents/mine.md", "---\ndescription: My own\n---\nYou are mine.\n"),
    ] {
        let file = env.path(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    env
}

fn accept_all(env: &TestEnv) -> CommandOutput {
    let files = [
        ".claude/agents/reviewer.md",
        ".opencode/agent/reviewer.md",
        ".claude/skills/release/SKILL.md",
        ".claude/commands/fix.md",
    ];
    env.run(&[&["agents", "accept"], &files[..]].concat())
}

/// The requests of the run that a recording holds.
fn requests(env: &TestEnv, recording: &str) -> Vec<Value> {
    let dumps = env.path(recording).join("provider_dumps");
    let mut files: Vec<_> = std::fs::read_dir(dumps).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.to_string_lossy().ends_with("_request.json"));
    files.sort();
    let read = |file| -> Value { serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap() };
    files
        .into_iter()
        .map(|file| serde_json::from_str(read(file)["body"]["text"].as_str().unwrap()).unwrap())
        .collect()
}

#[test]
fn check_lists_used_and_unused_definitions() {
    let env = world();
    let said = env.run(&["agents", "check"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert_eq!(
        said.stdout,
        "\
agents
  mine                 home/.config/offshoot/agents/mine.md
  general-purpose      built in
not used
  .claude/agents/broken.md:3
    `maxTurns` must be a whole number above 0, but is: \"many\"
  .claude/agents/reviewer.md
    not accepted; read it, then: offshoot agents accept .claude/agents/reviewer.md
    line 4, `tools` is not used: no tool `NotebookEdit`
    line 7, `color` is not used: agents have no colours
  .opencode/agent/reviewer.md
    not accepted; read it, then: offshoot agents accept .opencode/agent/reviewer.md
  .claude/skills/release/SKILL.md
    not accepted; read it, then: offshoot agents accept .claude/skills/release/SKILL.md
  .claude/commands/fix.md
    not accepted; read it, then: offshoot agents accept .claude/commands/fix.md
"
    );
    assert_eq!(accept_all(&env).code, Some(0));
    std::fs::remove_file(env.path(".claude/agents/broken.md")).unwrap();
    let said = env.run(&["agents", "check"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(
        said.stdout,
        "\
agents
  reviewer             .claude/agents/reviewer.md
    line 4, `tools` is not used: no tool `NotebookEdit`
    line 7, `color` is not used: agents have no colours
  mine                 home/.config/offshoot/agents/mine.md
  general-purpose      built in
skills
  release              .claude/skills/release/SKILL.md
commands
  fix                  .claude/commands/fix.md
not used
  .opencode/agent/reviewer.md
    .claude/agents/reviewer.md defines `reviewer`, too, and takes precedence
"
    );
    let json: Value =
        serde_json::from_str(&env.run(&["agents", "check", "--format", "json"]).stdout).unwrap();
    assert_eq!((&json["format"], &json["ok"]), (&Value::from(1), &Value::from(true)));
    assert_eq!(json["agents"][0]["tools"], serde_json::json!(["read", "grep", "manage_tasks", "skill"]));
    assert_eq!(json["files"][0]["unused"][1]["key"], "color");
    assert_eq!(json["files"][1]["state"], "hidden");
}

#[test]
fn an_agent_is_used_once_it_is_accepted_and_as_it_was_accepted() {
    let env = world();
    let run = |record: &str| {
        env.run(&["run", "--script", "script.yaml", "--record", record, "--agent", "reviewer", "Look."])
    };
    let said = run("r0");
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains("offshoot agents accept .claude/agents/reviewer.md"), "{said:?}");
    assert_eq!(accept_all(&env).code, Some(0));
    let said = run("r1");
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), "Planned.\n"), "{said:?}");
    let requests = requests(&env, "r1");
    assert_eq!(requests[0]["system"][1]["text"], "You look at changes.");
    assert!(requests[0]["model"].as_str().unwrap().contains("opus"), "{}", requests[0]["model"]);
    let tools: Vec<&str> =
        requests[0]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(tools, ["read", "grep", "manage_tasks", "skill"]);
    let first = requests[0]["messages"][0]["content"][0]["text"].as_str().unwrap();
    assert!(first.contains("- release: How to release"), "{first}");
    let results = requests[1]["messages"][2]["content"].to_string();
    assert!(results.contains("Tag 1.0.") && results.contains(".2.0.1 pending: Look"), "{results}");
    let ps: Value = serde_json::from_str(&env.run(&["ps", "--format", "json"]).stdout).unwrap();
    assert_eq!(ps["runs"][0]["agent"], "reviewer");
    // One letter more, and it is another file.
    std::fs::remove_file(env.path(".opencode/agent/reviewer.md")).unwrap();
    env.write(".claude/agents/reviewer.md", &format!("{REVIEWER}!"));
    let said = run("r2");
    assert_eq!(said.code, Some(2), "{said:?}");
    let said = env.run(&["run", "--script", "script.yaml", "--agent", "nobody", "Look."]);
    assert!(said.code == Some(2) && said.stderr.contains("mine, general-purpose"), "{said:?}");
}

#[test]
fn a_command_is_written_out_and_a_path_is_not_one() {
    let env = world();
    let run =
        |record: &str, prompt: &str| env.run(&["run", "--script", "script.yaml", "--record", record, prompt]);
    let said = run("r0", "/fix 17");
    assert!(said.code == Some(2) && said.stderr.contains("accept .claude/commands/fix.md"), "{said:?}");
    assert_eq!(accept_all(&env).code, Some(0));
    assert_eq!(run("r1", "/fix 17 soon").code, Some(0));
    let first = &requests(&env, "r1")[0];
    assert_eq!(first["messages"][0]["content"][1]["text"], "Mend 17, please.");
    assert_eq!(first["system"][1]["text"], "You look at changes.", "the command's agent");
    let said = run("r2", "/nothing 17");
    assert!(said.code == Some(2) && said.stderr.contains("/fix"), "{said:?}");
    assert_eq!(run("r3", "/tmp is full").code, Some(0));
    assert_eq!(requests(&env, "r3")[0]["messages"][0]["content"][1]["text"], "/tmp is full");
}

#[test]
fn only_valid_definitions_can_be_accepted() {
    let env = world();
    env.write("data-file.md", "x");
    for (file, why) in [
        ("data-file.md", "is not an agent"),
        ("missing.md", "is not an agent"),
        (".claude/agents", "hint: offshoot agents accept .claude/agents/*.md"),
        (".claude/agents/broken.md", "line 3"),
    ] {
        let said = env.run(&["agents", "accept", ".claude/agents/reviewer.md", file]);
        assert!(said.code == Some(2) && said.stderr.contains(why), "{file}: {said:?}");
    }
    assert!(!env.path("data/trust.json").exists(), "all or none");
    std::fs::create_dir_all(env.path("data")).unwrap();
    env.write("data/trust.json", "{");
    let said = env.run(&["agents", "check"]);
    assert!(said.code == Some(2) && said.stderr.contains("trust.json.bad"), "{said:?}");
}

#[test]
fn planned_tasks_are_listed() {
    let env = world();
    assert_eq!(env.run(&["tasks"]).stdout, "no tasks\n");
    assert_eq!(env.run(&["run", "--script", "script.yaml", "Plan."]).code, Some(0));
    let ps: Value = serde_json::from_str(&env.run(&["ps", "--format", "json"]).stdout).unwrap();
    let run = ps["runs"][0]["run"].as_str().unwrap();
    let expected =
        format!("t{run} Plan.\n  {run}.2.0.1 pending      Look\n  {run}.2.0.2 pending      Tell\n");
    for arguments in [&["tasks"][..], &["tasks", run], &["tasks", &format!("t{run}")]] {
        assert_eq!(env.run(arguments).stdout, expected, "{arguments:?}");
    }
    let json: Value = serde_json::from_str(&env.run(&["tasks", "--format", "json"]).stdout).unwrap();
    assert_eq!(json["threads"][0]["tasks"][1]["subject"], "Tell");
    let said = env.run(&["tasks", "zzz"]);
    assert!(said.code == Some(2) && said.stderr.contains("offshoot ps"), "{said:?}");
}

#[test]
fn settings_are_begun_and_never_replaced() {
    for (arguments, file) in
        [(&["init"][..], "offshoot.toml"), (&["init", "--user"], "home/.config/offshoot/offshoot.toml")]
    {
        let env = world();
        assert_eq!(env.run(arguments).code, Some(0));
        let said = env.run(arguments);
        assert!(said.code == Some(2) && said.stderr.contains("already"), "{said:?}");
        let run = || env.run(&["run", "--script", "script.yaml", "Plan."]);
        assert_eq!(run().code, Some(0));
        // Every setting in it is one.
        let text = env.read(file);
        let uncommented = |line: &str| match line.strip_prefix('#') {
            Some(setting) if !setting.starts_with(' ') => format!("{setting}\n"),
            _ => format!("{line}\n"),
        };
        env.write(file, &text.lines().map(uncommented).collect::<String>());
        let said = run();
        assert_eq!(said.code, Some(0), "{said:?}");
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    }
}

#[test]
fn a_project_s_settings_say_more_once_they_are_accepted_as_they_are() {
    let env = TestEnv::new();
    env.write("script.yaml", "format: 1\nlanes:\n  - lane: main\n    match: { any: true }\n    turns:\n      - reply: [ { text: \"hello\" } ]\n");
    env.write("offshoot.toml", "[permissions]\nallow = [\"bash(true)\"]\n");
    let run = || env.run(&["run", "--script", "script.yaml", "hi"]);
    let said = run();
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains("a project cannot allow anything"), "{said:?}");
    assert!(said.stderr.contains("offshoot agents accept offshoot.toml"), "{said:?}");
    let accepted = env.run(&["agents", "accept", "offshoot.toml"]);
    assert_eq!((accepted.code, accepted.stderr.as_str()), (Some(0), "accepted offshoot.toml\n"));
    assert_eq!(run().code, Some(0), "{:?}", run());
    // It was accepted for this project, and for no other that has a link to it.
    env.write("other/script.yaml", &std::fs::read_to_string(env.path("script.yaml")).unwrap());
    std::os::unix::fs::symlink("../offshoot.toml", env.path("other/offshoot.toml")).unwrap();
    let mut elsewhere = env.offshoot(&["run", "--script", "script.yaml", "hi"]);
    elsewhere.current_dir(env.path("other"));
    assert_eq!(elsewhere.output().unwrap().status.code(), Some(2), "it was accepted elsewhere");
    env.write("offshoot.toml", "[permissions]\nallow = [\"bash\"]\n");
    assert_eq!(run().code, Some(2), "it is another file now");
    env.write("offshoot.toml", "sandbox = \"off\"\n");
    env.run(&["agents", "accept", "offshoot.toml"]);
    let said = run();
    assert_eq!(said.code, Some(2), "a project never changes the sandbox: {said:?}");
    env.write("offshoot.toml", "[permissions]\ndeny = [\"bash\"]\n");
    assert_eq!(run().code, Some(0), "whoever forbids needs no leave");
}

#[test]
fn check_reports_settings_that_would_stop_a_run() {
    let env = TestEnv::new();
    env.write("offshoot.toml", "model = \"opus\"\n");
    assert_eq!(env.run(&["agents", "check"]).code, Some(0));
    env.write("offshoot.toml", "model = \"opus\"\n[mcp.x]\ncommand = [\"x\"]\n");
    let said = env.run(&["agents", "check"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    let settings = said.stdout.split_once("settings\n").unwrap().1;
    assert!(settings.contains("line 2: a project cannot set MCP servers"), "{said:?}");
    assert!(settings.contains("offshoot agents accept"), "{said:?}");
    let json: Value =
        serde_json::from_str(&env.run(&["agents", "check", "--format", "json"]).stdout).unwrap();
    assert_eq!(json["ok"], false);
    assert!(json["settings"].as_str().unwrap().contains("line 2"), "{json}");
    assert_eq!(env.run(&["agents", "accept", "offshoot.toml"]).code, Some(0));
    assert_eq!(env.run(&["agents", "check"]).code, Some(0));
    env.write("offshoot.toml", "modle = \"opus\"\n");
    let said = env.run(&["agents", "check"]);
    assert!(said.code == Some(1) && said.stdout.contains("modle"), "{said:?}");
}

/// Without a name the main agent runs. If the user has disabled it, the first available agent runs, or none.
#[test]
fn a_warning_names_the_agent_that_replaces_the_general_one() {
    let env = world();
    let general = "home/.config/offshoot/agents/general-purpose.md";
    env.write(general, "---\nname: general-purpose\ndescription: all\ndisable: true\n---\n");
    let go = |arguments: &[&str]| {
        env.run(&[&["run", "--script", "script.yaml", "--json"], arguments, &["Go."]].concat())
    };
    let said = go(&[]);
    assert!(
        said.stderr.contains("warning: `general-purpose` is switched off; using `mine` instead"),
        "{said:?}"
    );
    assert!(said.stdout.contains(r#""agent":"mine""#), "{said:?}");
    let said = go(&["--agent", "general-purpose"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    std::fs::remove_file(env.path("home/.config/offshoot/agents/mine.md")).unwrap();
    let said = go(&[]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains("no agent available: `general-purpose` is switched off"), "{said:?}");
    std::fs::remove_file(env.path(general)).unwrap();
    let said = go(&[]);
    assert!(said.stdout.contains(r#""agent":"main""#), "{said:?}");
}
