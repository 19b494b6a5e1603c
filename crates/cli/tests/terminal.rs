//! What people who sit at a terminal are given: completions and manual pages, a first scenario, progress.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

mod common;

use std::io::Write as _;
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
    assert!(said.stderr.contains("`man -M share offshoot`"), "{said:?}");
    for page in ["offshoot", "offshoot-capture", "offshoot-agents-accept", "offshoot-demo"] {
        let text = env.read(&format!("share/man1/{page}.1"));
        assert!(text.contains(".SH NAME") && text.contains("offshoot"), "{page}: {text}");
    }
    assert!(env.read("share/man1/offshoot-verify.1").contains("offshoot verify rec again \\-\\-level E4"));
    assert!(env.run(&["man"]).stdout.contains(".TH offshoot 1"));
    env.write("file", "");
    let refused = env.run(&["man", "--out", "file/x"]);
    assert!(refused.code == Some(3) && refused.stderr.contains("hint: "), "{refused:?}");
}

#[test]
fn the_first_scenario_runs_offline_and_again() {
    let env = TestEnv::new();
    let said = env.run(&["init"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let next = said.stderr.lines().last().unwrap().strip_prefix("now try: offshoot ").unwrap();
    for name in ["offshoot.toml", "scenarios/first/scenario.yaml", "scenarios/first/script.yaml"] {
        assert!(said.stderr.contains(&format!("wrote {name}")) && env.path(name).is_file(), "{said:?}");
    }
    let offshoot = |arguments: &[&str]| {
        let mut command = env.offshoot(arguments);
        command.env("OFFSHOOT_SLOTS_DIR", env.path("slots"));
        common::Said::of(command.output().unwrap())
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

    // Somebody's own words are never written over, and what is missing is made.
    env.write("scenarios/first/script.yaml", "mine");
    std::fs::remove_file(env.path("scenarios/first/workspace/README.md")).unwrap();
    let said = env.run(&["init"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.stderr.contains("wrote scenarios/first/workspace/README.md"), "{said:?}");
    assert!(said.stderr.contains("scenarios/first/script.yaml is there already"), "{said:?}");
    assert_eq!(env.read("scenarios/first/script.yaml"), "mine");
    let said = env.run(&["init"]);
    assert!(said.code == Some(2) && said.stderr.contains("hint: cat offshoot.toml"), "{said:?}");
}
