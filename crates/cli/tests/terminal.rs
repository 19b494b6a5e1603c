//! Features for people at a terminal: completions, manual pages, a first scenario, progress, and colour.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

mod common;

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

use common::TestEnv;

#[test]
fn a_shell_completes_commands_and_options() {
    let env = TestEnv::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let said = env.run(&["completions", shell]);
        assert_eq!(said.code, Some(0), "{shell}: {said:?}");
        for word in ["capture", "cache-sim", "max-budget-usd"] {
            assert!(said.stdout.contains(word), "{shell} does not know `{word}`");
        }
    }
    assert_eq!(env.run(&["completions", "cmd.exe"]).code, Some(2));
    // In a real shell: what it offers behind `offshoot verify --le`.
    let ask = "
        COMP_WORDS=(offshoot verify --le); COMP_CWORD=2
        _offshoot offshoot --le verify; echo ${COMPREPLY[*]}";
    let script = env.run(&["completions", "bash"]).stdout + ask;
    let mut bash = Command::new("bash").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    bash.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    assert_eq!(String::from_utf8(bash.wait_with_output().unwrap().stdout).unwrap().trim(), "--level");
}

#[test]
fn every_command_has_a_manual_page() {
    let env = TestEnv::new();
    let said = env.run(&["man", "--out", "share/man1"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.stderr.contains("`man -l share/man1/offshoot.1`"), "{said:?}");
    for page in ["offshoot", "offshoot-capture", "offshoot-agents-accept", "offshoot-demo"] {
        let text = env.read(&format!("share/man1/{page}.1"));
        assert!(text.contains(".SH NAME") && text.contains("offshoot"), "{page}: {text}");
    }
    assert!(env.read("share/man1/offshoot-verify.1").contains("offshoot verify rec again \\-\\-level E4"));
    assert!(env.run(&["man"]).stdout.contains(".TH offshoot 1"));
    env.write("file", "");
    let refused = env.run(&["man", "--out", "file/x"]);
    assert!(refused.code == Some(2) && refused.stderr.contains("hint: "), "{refused:?}");
}

#[test]
fn the_first_scenario_runs_offline_and_again() {
    let env = TestEnv::new();
    let said = env.run(&["init"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let next = said.stderr.lines().last().unwrap().strip_prefix("hint: offshoot ").unwrap();
    for name in ["offshoot.toml", "scenarios/first/scenario.yaml", "scenarios/first/script.yaml"] {
        assert!(said.stderr.contains(&format!("wrote {name}")) && env.path(name).is_file(), "{said:?}");
    }
    let offshoot = |arguments: &[&str]| {
        let mut command = env.offshoot(arguments);
        command.env("OFFSHOOT_SLOTS_DIR", env.path("slots"));
        common::CommandOutput::of(command.output().unwrap())
    };
    let captured = offshoot(&next.split(' ').collect::<Vec<_>>());
    assert_eq!(captured.code, Some(0), "{captured:?}");
    let recording = captured.stdout.trim();
    let shown = env.show(recording);
    assert_eq!(shown["lanes"][0]["turns"].as_array().unwrap().len(), 2, "{shown}");
    assert!(env.read(&format!("{recording}/stdout.jsonl")).contains("what a garden needs"));
    assert_eq!(offshoot(&["check", recording]).code, Some(0));
    assert_eq!(offshoot(&["replay", recording, "--out", "again"]).code, Some(0));
    assert_eq!(offshoot(&["verify", recording, "again", "--level", "E4"]).code, Some(0));

    // Files of the user are never replaced, and missing files are created.
    env.write("scenarios/first/script.yaml", "mine");
    std::fs::remove_file(env.path("scenarios/first/workspace/README.md")).unwrap();
    let said = env.run(&["init"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.stderr.contains("wrote scenarios/first/workspace/README.md"), "{said:?}");
    assert!(said.stderr.contains("kept scenarios/first/script.yaml"), "{said:?}");
    assert_eq!(env.read("scenarios/first/script.yaml"), "mine");
    let said = env.run(&["init"]);
    assert!(said.code == Some(2) && said.stderr.contains("hint: cat offshoot.toml"), "{said:?}");
}

/// The commands of a step of the workflow in docs/guide/ci.md.
fn step(name: &str) -> String {
    let guide = include_str!("../../../docs/guide/ci.md");
    let step = guide.split_once(&format!("- name: {name}\n        run: |\n")).unwrap().1;
    let lines = step.lines().take_while(|line| line.starts_with("          "));
    lines.map(|line| format!("{}\n", line.trim())).collect()
}

#[test]
fn the_workflow_of_the_guide_passes_equal_and_fails_different_runs() {
    let env = TestEnv::new();
    assert_eq!(env.run(&["init"]).code, Some(0));
    let slots = env.path("slots");
    let offshoot = |arguments: &[&str]| {
        let said = common::CommandOutput::of(
            env.offshoot(arguments).env("OFFSHOOT_SLOTS_DIR", &slots).output().unwrap(),
        );
        assert_eq!(said.code, Some(0), "{said:?}");
        said.stdout.trim().to_owned()
    };
    let recording = offshoot(&["capture", "offshoot", "--scenario", "first"]);
    offshoot(&["accept", &recording]);
    let (scenario, _) = recording.rsplit_once('/').unwrap();
    let golden = &scenario.replacen("recordings/", "goldens/", 1);
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_offshoot")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let bash = |script: &str| {
        let script = script.replace("${{ matrix.golden }}", golden);
        let mut command = Command::new("bash");
        command
            .args(["-e", "-c", &script])
            .current_dir(env.path("."))
            .env("PATH", &path)
            .env("HOME", env.path("home"))
            .env("OFFSHOOT_SLOTS_DIR", &slots);
        common::CommandOutput::of(command.output().unwrap())
    };
    let replayed = bash(&step("Replay the golden"));
    assert_eq!(replayed.code, Some(0), "{replayed:?}");
    let verified = bash(&step("Verify"));
    assert_eq!(verified.code, Some(0), "{verified:?}");
    assert!(env.read("verdict.xml").contains("failures=\"0\"") && env.path("report.html").is_file());

    std::fs::remove_dir_all(env.path("candidate")).unwrap();
    let other = "Read README.md, and say in two sentences what this project is for.";
    offshoot(&["capture", "offshoot", "--scenario", "first", "--prompt", other, "--out", "candidate"]);
    let verified = bash(&step("Verify"));
    assert_eq!(verified.code, Some(1), "{verified:?}");
    assert!(env.read("verdict.xml").contains("<failure message=\"1 difference\">"));
}

/// Runs a command on a terminal of 80 columns, and returns everything that the terminal receives.
fn on_terminal(command: &mut Command) -> String {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let size = rustix::termios::Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(&ours, size).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let theirs = std::fs::OpenOptions::new().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    let mut ours = std::fs::File::from(ours);
    let reader = std::thread::spawn(move || {
        let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
        // A closed terminal is reported as an error, not as an end.
        while let Ok(read @ 1..) = ours.read(&mut buffer) {
            bytes.extend_from_slice(&buffer[..read]);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    });
    command.env("TERM", "xterm").stdout(theirs.try_clone().unwrap()).stderr(theirs);
    command.status().unwrap();
    command.stdout(Stdio::null()).stderr(Stdio::null()); // closes our copies
    reader.join().unwrap()
}

/// Captures a scenario whose model delays its reply for a second.
fn slow_capture(env: &TestEnv, out: &str) -> Command {
    let mut command = env.offshoot(&["capture", "offshoot", "--scenario", "first", "--out", out]);
    command.env("OFFSHOOT_SLOTS_DIR", env.path("slots"));
    command
}

#[test]
fn long_work_is_shown_on_a_terminal_and_nowhere_else() {
    let env = TestEnv::new();
    assert_eq!(env.run(&["init"]).code, Some(0));
    let script = env.read("scenarios/first/script.yaml");
    let slow = script.replacen("    turns:\n", "    pace: { first_ms: 1000 }\n    turns:\n", 1);
    env.write("scenarios/first/script.yaml", &slow);
    let seen = on_terminal(&mut slow_capture(&env, "one"));
    assert!(seen.contains(" … 1 s"), "{seen:?}");
    let said = common::CommandOutput::of(slow_capture(&env, "two").output().unwrap());
    assert!(said.stderr.contains("two") && !said.stderr.contains(" … "), "{said:?}");
}

const MARKDOWN: &str = "format: 1
lanes:
  - lane: all
    match: { any: true }
    turns: [ { repeat: 9, reply: [ { text: \"# Plan\\n\\nUse **bold** and `code`.\\n- \\e[2Jone\" } ] } ]
";

#[test]
fn a_terminal_is_coloured_and_a_pipe_is_not() {
    let env = TestEnv::new();
    env.write("script.yaml", MARKDOWN);
    let run = |arguments: &[&str]| {
        env.offshoot(&[&["run", "--script", "script.yaml", "Hello."], arguments].concat())
    };
    let seen = on_terminal(&mut run(&[]));
    let rendered = "\u{1b}[1mPlan\u{1b}[0m\r\n\r\nUse \u{1b}[1mbold\u{1b}[0m and \u{1b}[35mcode\u{1b}[0m.\r\n• \\u{1b}[2Jone";
    assert!(seen.contains(rendered), "{seen:?}");
    for plain in [&mut run(&["--color", "never"]), run(&[]).env("NO_COLOR", "1")] {
        let seen = on_terminal(plain);
        assert!(
            seen.contains("# Plan\r\n\r\nUse **bold** and `code`.") && !seen.contains('\u{1b}'),
            "{seen:?}"
        );
    }
    let said = common::CommandOutput::of(run(&[]).output().unwrap());
    assert_eq!(
        said.stdout, "# Plan\n\nUse **bold** and `code`.\n- \u{1b}[2Jone\n",
        "a pipe gets the reply unchanged"
    );
    assert!(!said.stderr.contains('\u{1b}'), "{said:?}");

    let seen = on_terminal(&mut env.offshoot(&["ps"]));
    assert!(
        seen.contains("\u{1b}[1mRUN\u{1b}[0m") && seen.contains("\u{1b}[32mcompleted\u{1b}[0m"),
        "{seen:?}"
    );
    let seen = on_terminal(&mut env.offshoot(&["show", "nowhere"]));
    assert!(
        seen.starts_with("\u{1b}[31merror: \u{1b}[0m") && seen.contains("\u{1b}[36mhint: \u{1b}[0m"),
        "{seen:?}"
    );
    assert!(!env.run(&["ps"]).stdout.contains('\u{1b}'));
    assert!(env.run(&["ps", "--color", "always"]).stdout.contains("\u{1b}[32mcompleted"));
}

const TEAM: &str = r#"
format: 1
lanes:
  - lane: count
    match: { prompt_contains: "Count the seeds" }
    turns:
      - pace: { first_ms: 600 }
        reply: [ { call: { tool: grep, id: toolu_g, input: { pattern: "seed", path: "." } } } ]
      - pace: { first_ms: 600 }
        reply: [ { text: "Seven." } ]
  - lane: main
    match: { tools_include: spawn_sub_agent }
    turns:
      - reply: [ { call: { tool: manage_tasks, id: toolu_t, input: { create: [ { subject: "Count" }, { subject: "Water" } ] } } } ]
      - capture: { task: { result_of: toolu_t, regex: '(\S+) pending' } }
        reply: [ { call: { tool: manage_tasks, id: toolu_u, input: { update: [ { id: "${task}", status: in_progress } ] } } } ]
      - reply: [ { call: { tool: spawn_sub_agent, id: toolu_c, input: { prompt: "Count the seeds in the north bed." } } } ]
      - capture: { task: { result_of: toolu_t, regex: '(\S+) pending' } }
        reply: [ { call: { tool: manage_tasks, id: toolu_v, input: { update: [ { id: "${task}", status: complete } ] } } } ]
      - reply: [ { text: "All done." } ]
"#;

#[test]
fn sub_agents_tasks_and_calls_are_words_on_a_terminal() {
    let env = TestEnv::new();
    env.write("script.yaml", TEAM);
    let seen = on_terminal(&mut env.offshoot(&["run", "--script", "script.yaml", "Go."]));
    for words in [
        "manage_tasks: plan Count, plan Water",
        "spawn_sub_agent: Count the seeds in the north bed.",
        "“Count the seeds in the n",
        "tasks: 0 of 2 complete",
        "▸ Count",
        "tasks: 1 of 2 complete",
    ] {
        assert!(seen.contains(words), "{words}: {seen:?}");
    }
    assert!(!seen.contains("{\""), "no JSON: {seen:?}");
    let end = seen.lines().find(|line| line.contains("✓") && line.contains("general-purpose")).unwrap();
    assert!(end.contains("…-6-0 “Count the seeds"), "{end:?}");
}

#[test]
fn a_wrong_name_suggests_the_right_one() {
    let env = TestEnv::new();
    for (arguments, suggestion) in [
        (&["verfy"][..], "hint: offshoot verify --help"),
        (&["capture", "claude-cod", "--scenario", "wakeup"], "a similar value exists: 'claude-code'"),
        (&["record"], "hint: offshoot record --help"),
        (&["replay", ".", "--fault", "lane=main:cut"], "lane=LANE,turn=N[,attempt=N|all][,event=N]:KIND"),
    ] {
        let said = env.run(arguments);
        assert!(said.code == Some(2) && said.stderr.contains(suggestion), "{arguments:?}: {said:?}");
    }
}
