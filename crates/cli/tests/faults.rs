//! Each kind of fault, at the main agent and at a sub-agent, against the real harnesses: whatever they do about it, it
//! is recorded and shown, and offshoot ends in time.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

mod common;

use std::time::{Duration, Instant};

use common::*;
use serde_json::Value;

/// Maximum time for a harness to handle a fault, in seconds.
const DEADLINE: &str = "30";
/// Maximum time for the rest of a replay on a busy machine.
const AROUND: Duration = Duration::from_secs(90);

const FIRST: &[&str] = &["status=529,retry-after=1", "cut", "reset", "slow=20ms", "duplicate", "end"];
const SECOND: &[&str] = &["stall", "garbage", "half", "error=overloaded_error", "content-type=text/html"];

/// A recording with two sub-agents of the harness.
fn golden(harness: &str, version: &str) -> TestEnv {
    let env = TestEnv::new();
    let arguments = ["capture", harness, "--harness-version", version, "--scenario", "parallel-subagents"];
    let said = CommandOutput::of(real(&env, &arguments).args(["--out", "golden"]).output().unwrap());
    assert_eq!(said.code, Some(0), "{said:?}");
    env
}

fn real(env: &TestEnv, arguments: &[&str]) -> std::process::Command {
    let mut command = env.offshoot(arguments);
    command.env("OFFSHOOT_CACHE_DIR", cache_dir()).env("OFFSHOOT_SLOTS_DIR", env.path("slots"));
    command
}

fn survives(harness: &str, version: &str, kinds: &[&str]) -> Vec<Value> {
    let env = golden(harness, version);
    let mut reports = Vec::new();
    for (number, kind) in kinds.iter().enumerate() {
        let out = format!("again-{number}");
        let faults = ["main", "sub-1"].map(|lane| format!("lane={lane},turn=1,event=3:{kind}"));
        let arguments = ["replay", "golden", "--timeout", DEADLINE, "--out", &out];
        let begun = Instant::now();
        let said = real(&env, &arguments).args(faults.iter().flat_map(|fault| ["--fault", fault])).output();
        let said = CommandOutput::of(said.unwrap());
        assert!(begun.elapsed() < Duration::from_secs(30) + AROUND, "{kind} took too long: {said:?}");
        assert!(matches!(said.code, Some(0 | 1 | 3)), "{kind}: {said:?}");
        assert!(said.stderr.contains("was applied"), "{kind} is shown: {said:?}");
        let report: Value = serde_json::from_str(&env.read(&format!("{out}/replay.json"))).unwrap();
        assert!(report["faults"][0]["hits"].as_u64() > Some(0), "{kind} at main: {report}");
        let shown = env.show(&out);
        let is_main = |lane: &Value| lane["id"] == "main";
        assert!(shown["lanes"].as_array().unwrap().iter().any(is_main), "{kind} can be looked at: {shown}");
        reports.push(report);
    }
    reports
}

/// Returns `true` if the harness retried after the fault at `main`.
fn asked_again(report: &Value) -> bool {
    !report["faults"][0]["then"].as_array().unwrap().is_empty()
}

#[test]
fn claude_code_asks_again_where_an_answer_breaks_off() {
    let reports = survives("claude-code", "2.1.325", FIRST);
    let again: Vec<bool> = reports.iter().map(asked_again).collect();
    assert_eq!(again, [true, true, true, false, false, true], "{FIRST:?}");
    assert!(reports.iter().all(|report| report["faults"][1]["hits"] == 1), "the sub-agent too");
}

#[test]
fn claude_code_handles_malformed_replies() {
    let reports = survives("claude-code", "2.1.325", SECOND);
    assert!(!asked_again(&reports[0]), "it waits for a model that has stalled");
    assert!(asked_again(&reports[3]), "it falls back where the provider reports an error");
}

#[test]
fn opencode_asks_again_where_an_answer_breaks_off() {
    let reports = survives("opencode", "1.18.33", FIRST);
    assert!(asked_again(&reports[0]), "it waits as long as it was told to, and asks again");
}

#[test]
fn opencode_handles_malformed_replies() {
    let reports = survives("opencode", "1.18.33", SECOND);
    assert!(!asked_again(&reports[0]), "it waits for a model that has stalled");
}
