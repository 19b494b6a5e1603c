//! `offshoot demo`: what it shows is what happened, and it can fail.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

mod common;

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};

use common::{CommandOutput, TestEnv};
use serde_json::Value;

/// A script that does what a person would who types what was printed.
fn typed(env: &TestEnv, lines: &str) -> CommandOutput {
    let mut command = Command::new("bash");
    command
        .args(["-ec", &format!("cd offshoot-demo/workspace && . ../env\n{lines}")])
        .current_dir(env.path("."))
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", env.path("home"))
        .stdin(Stdio::null());
    CommandOutput::of(command.output().unwrap())
}

/// Returns the commands that a step printed.
fn commands(printed: &str, step: &str) -> String {
    let step = printed.split_once(step).unwrap().1;
    let mut typed = String::new();
    let mut goes_on = false;
    for line in step.lines().take_while(|line| !line.contains("/6  ")) {
        if let Some(command) = line.strip_prefix("  $ ").or(goes_on.then_some(line)) {
            typed += &format!("{command}\n");
            goes_on = command.ends_with('\\');
        }
    }
    typed
}

#[test]
fn the_demo_shows_all_steps_and_prints_working_commands() {
    let env = TestEnv::in_memory();
    let said = env.run(&["demo"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    for step in [
        "1/6  Run agents",
        "2/6  Kill the same run in the middle, and resume it",
        "kill -9 $!\n\nThe process is gone (SIGKILL), with 3 active agents",
        "demo-4-0  interrupted",
        "✓ byte-equal to the run of step 1:\n  5 agents, 31 messages, 10 calls, 7 files",
        "replayed 15 of 15 recorded exchanges",
        "PASS  byte-equal (E4; required E4)",
        "verified: byte-equal (E4)",
        "PASS  byte-equal (E4); the resumed run equals the undisturbed run",
        "confidence: exact",
        "demo-6-0  completed",
        "The report: offshoot-demo/report.html",
    ] {
        assert!(said.stdout.contains(step), "{step}: {}", said.stdout);
    }
    assert!(!said.stdout.contains('\u{1b}') && !said.stderr.contains('\u{1b}'), "plain in a pipe: {said:?}");
    let page = env.read("offshoot-demo/report.html");
    assert!(page.starts_with("<!doctype html>") || page.starts_with("<!DOCTYPE html>"), "{}", &page[..80]);
    // Two waits for background agents, one for a foreground one, one fork.
    assert!(
        said.stderr.contains("· waiting for 2 jobs") && said.stderr.contains("✓ fork demo-6-0"),
        "{said:?}"
    );

    // Compares the journal after the kill with what a resumed process finds.
    let again = typed(&env, &commands(&said.stdout, "1/6"));
    assert_eq!(again.code, Some(0), "{again:?}");
    assert!(again.stdout.contains("Four lamps, two TODOs and one wick"), "{again:?}");
    let again = typed(&env, &commands(&said.stdout, "3/6"));
    assert_eq!(again.code, Some(0), "{again:?}");
    assert!(again.stdout.contains("PASS  byte-equal (E4;"), "{again:?}");
    let shown = typed(&env, "offshoot ps --format json");
    let ps: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(ps["runs"].as_array().unwrap().len(), 5, "{shown:?}");
    assert!(said.stdout.lines().filter(|line| line.starts_with("  ")).all(|line| line.chars().count() <= 80));

    // Another demo takes the place of the first, and of nothing else.
    env.write("offshoot-demo/mine.txt", "from before");
    let refused = env.run(&["demo"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("`offshoot-demo/mine.txt` was not made by a demo"), "{refused:?}");
    assert!(refused.stderr.contains("hint: offshoot demo --dir offshoot-demo-2"), "{refused:?}");
    std::fs::remove_file(env.path("offshoot-demo/mine.txt")).unwrap();
    assert_eq!(env.run(&["demo"]).code, Some(0));
    std::fs::create_dir(env.path("own")).unwrap();
    env.write("own/mine.txt", "not a demo's");
    let refused = env.run(&["demo", "--dir", "own"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("hint: offshoot demo --dir own-2"), "{refused:?}");
    assert_eq!(env.read("own/mine.txt"), "not a demo's");
}

/// Runs a demo and changes something between the kill and the resume, as a fault of ours or of the disk would.
fn meddled(env: &TestEnv, meddle: impl FnOnce()) -> CommandOutput {
    let mut command = env.offshoot(&["demo"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = child.stderr.take().unwrap();
    let errors = std::thread::spawn(move || {
        let mut text = String::new();
        stderr.read_to_string(&mut text).unwrap();
        text
    });
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let (mut stdout, mut meddle) = (String::new(), Some(meddle));
    while out.read_line(&mut stdout).unwrap() > 0 {
        // The run waits for a model that thinks for a minute; only then it is killed.
        if stdout.contains("slow.yaml")
            && let Some(meddle) = meddle.take()
        {
            meddle();
        }
    }
    let code = child.wait().unwrap().code();
    CommandOutput { code, stdout, stderr: errors.join().unwrap() }
}

#[test]
fn a_diverging_run_fails_the_demo() {
    let env = TestEnv::in_memory();
    let script = env.path("offshoot-demo/script.yaml");
    let said = meddled(&env, || {
        let text = std::fs::read_to_string(&script).unwrap();
        std::fs::write(&script, text.replace("Four lamps, two TODOs", "Five lamps, no TODOs")).unwrap();
    });
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.stdout.contains("The process is gone (SIGKILL)"), "{said:?}");
    let error = "error: the resumed run differs from the undisturbed run: message";
    assert!(said.stderr.contains(error) && said.stderr.contains("Five lamps, no TODOs"), "{said:?}");
    assert!(said.stdout.contains("PASS  byte-equal (E4;"), "the replay is another matter: {said:?}");
    assert!(!said.stdout.contains("resumed = undisturbed"), "{said:?}");
}

#[test]
fn a_file_that_changes_under_it_fails_it_twice() {
    let env = TestEnv::in_memory();
    // The agents read this file before they are killed, and again in the replay.
    let said = meddled(&env, || {
        let journal = env.path("offshoot-demo/killed/store.db");
        while !reads_are_over(&journal) {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        env.write("offshoot-demo/workspace/notes/monday.txt", "All is well.\n");
    });
    assert_eq!(said.code, Some(1), "{said:?}");
    let file =
        "error: the resumed run differs from the undisturbed run: file `notes/monday.txt` has other content";
    assert!(said.stderr.contains(file), "{said:?}");
    assert!(said.stderr.contains("error: the replay is not byte-equal (E4)"), "{said:?}");
}

/// Returns `true` if the agent that reads the notes has read them.
fn reads_are_over(journal: &std::path::Path) -> bool {
    if !journal.exists() {
        return false;
    }
    let Ok(store) = store::Store::open(journal, store::Options::default()) else { return false };
    let calls = store.run(&session::RunId::new("demo-2-0")).tool_calls().unwrap_or_default();
    calls.len() == 2 && calls.iter().all(|call| call.ended_at.is_some())
}
