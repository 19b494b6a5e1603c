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
