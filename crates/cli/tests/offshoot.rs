//! Our own kernel as a harness: recorded like any other, and replayed to the byte.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

mod common;

use common::TestEnv;
use serde_json::Value;

/// Captures a scenario, checks it, replays the recording, and verifies that every byte is equal.
fn same_again(scenario: &str, lanes: usize) -> Value {
    let env = TestEnv::new();
    let offshoot = |arguments: &[&str]| {
        let mut command = env.offshoot(arguments);
        command.env("OFFSHOOT_SLOTS_DIR", env.path("slots"));
        common::CommandOutput::of(command.output().unwrap())
    };
    let scenarios = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/");
    let said =
        offshoot(&["capture", "offshoot", "--scenario", &format!("{scenarios}{scenario}"), "--out", "rec"]);
    assert_eq!(said.code, Some(0), "{scenario}: {said:?}");
    let check = offshoot(&["check", "rec"]);
    assert_eq!(check.code, Some(0), "{scenario}: {}", check.stdout);
    let shown = env.show("rec");
    assert_eq!(shown["lanes"].as_array().unwrap().len(), lanes, "{scenario}: {shown}");
    let said = offshoot(&["replay", "rec", "--out", "again", "--order", "recorded"]);
    assert_eq!(said.code, Some(0), "{scenario}: {said:?}");
    let main = shown["lanes"][0]["session"].as_str().unwrap_or_default().to_owned();
    for lane in shown["lanes"].as_array().unwrap() {
        assert_eq!(lane["session"], main.as_str(), "{scenario}: {lane}");
        let agent = lane["agent"].as_str().unwrap_or_default();
        assert_eq!(lane["id"] == "main", agent == main, "{scenario}: {lane}");
        let export = if agent == main { String::new() } else { format!(".{agent}") };
        let export = env.read(&format!("rec/exports/offshoot_export{export}.json"));
        let export: Value = serde_json::from_str(&export).unwrap();
        assert_eq!(export["run"]["run"], agent, "{scenario}");
    }
    let verdict = offshoot(&["verify", "rec", "again", "--level", "E4"]);
    assert_eq!(verdict.code, Some(0), "{scenario}: {}", verdict.stdout);
    shown
}

#[test]
fn a_single_agent() {
    same_again("single-agent-20-reads", 1);
}

#[test]
fn sub_agents_side_by_side() {
    let shown = same_again("parallel-subagents", 3);
    let subs: Vec<&Value> = shown["lanes"].as_array().unwrap()[1..].iter().collect();
    assert!(subs.iter().all(|lane| lane["kind"] == "sub" && lane["parent"] == "main"), "{shown}");
    let mut spawned: Vec<&str> = subs.iter().filter_map(|lane| lane["spawned_by"].as_str()).collect();
    spawned.sort_unstable();
    assert_eq!(spawned, ["toolu_grep", "toolu_scan"]);
}

#[test]
fn requested_jobs_are_delivered() {
    same_again("async-subagents", 3);
}

#[test]
fn jobs_that_wake_their_parent() {
    same_again("wakeup", 3);
}

#[test]
fn a_job_that_is_cancelled() {
    same_again("cancel", 2);
}

#[test]
fn a_write_that_is_denied() {
    same_again("denied-write", 2);
}

#[test]
fn a_job_that_does_not_exist() {
    same_again("unknown-job", 1);
}

#[test]
fn impossible_requests_are_refused_before_any_write() {
    let env = TestEnv::new();
    env.write("script.yaml", "format: 1\nlanes:\n  - { lane: all, match: { any: true }, turns: [ { reply: [ { text: Hello. } ] } ] }\n");
    let said = env.run(&["proxy", "--script", "script.yaml", "--out", "rec", "--", "true"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    for (arguments, error) in [
        (&["run", "--allow", "zz(", "hello"][..], "--allow: `zz(` does not end"),
        (&["capture", "offshoot", "--scenario", "wakeup", "--model", ""], "the model has no name"),
        (&["capture", "claude-code", "--scenario", "wakeup", "--live"], "ANTHROPIC_API_KEY is not set"),
        (&["capture", "offshoot", "--scenario", "wakeup", "--out", "/proc/x"], "/proc/x"),
        (&["report", "rec", "--out", "/proc/x"], "cannot write `/proc/x`"),
        (&["man", "--out", "/etc/passwd"], "cannot write to `/etc/passwd`"),
        (&["demo", "--dir", "/proc/x"], "cannot create `/proc/x`"),
        (&["search", ""], "no word to search for"),
    ] {
        let said = env.run(arguments);
        assert_eq!(said.code, Some(2), "{arguments:?}: {said:?}");
        assert!(said.stderr.contains(error) && said.stderr.contains("hint: "), "{arguments:?}: {said:?}");
    }
    assert!(!env.path("goldens").exists() && !env.path("home").exists(), "nothing was installed or written");
}
