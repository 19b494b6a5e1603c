//! The real OpenCode and oh-my-opencode, offline, on the shipped scenarios: every version and provider once, every
//! scenario once for each of the two. `cargo xtask soak capture` does them all.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

mod common;

use std::path::PathBuf;

use common::lanes::{lanes_are_true, without_headers};
use common::*;

const OLD: (&str, &str) = ("opencode", "1.0.185");
const NEW: (&str, &str) = ("opencode", "1.18.33");
const PLUGIN_OLD: (&str, &str) = ("oh-my-opencode", "2.14.0");
const PLUGIN_NEW: (&str, &str) = ("oh-my-opencode", "4.19.4");

const ANTHROPIC: &str = "anthropic/claude-haiku-4-5";
const RESPONSES: &str = "openai/gpt-5";
const CHAT: &str = "compatible/scripted";

const MAIN: &[&str] = &["main"];
const MAIN_AND_ONE: &[&str] = &["main", "repo-scanner"];
const ALL: &[&str] = &["grep-summarizer", "main", "repo-scanner"];
/// The agents of oh-my-opencode, of which one starts another one.
const ALL_AND_ONE: &[&str] = &["explore of repo-scanner", "grep-summarizer", "main", "repo-scanner"];

/// Captures a scenario; the check must hold, every lane be true, and exports be there for each session.
fn capture(harness: (&str, &str), model: &str, scenario: &str, agents: &[&str]) -> (TestEnv, PathBuf) {
    let env = TestEnv::new();
    let said = try_capture(&env, harness, &["--model", model, "--scenario", scenario]);
    assert_eq!(said.code, Some(0), "{harness:?} {model} {scenario}: {said:?}");
    let recording = env.path("rec");
    lanes_are_true(&env, "rec", agents);
    without_headers(&recording, &env.path("bare"));
    lanes_are_true(&env, "bare", agents);
    let exports = recording.join("exports");
    assert!(exports.join("opencode_export.json").exists());
    assert_eq!(exports.read_dir().unwrap().count(), agents.len(), "one for each session");
    replays(&env, "rec", "again");
    (env, recording)
}

fn try_capture(env: &TestEnv, (name, version): (&str, &str), arguments: &[&str]) -> CommandOutput {
    let kind = harness::find(name).unwrap();
    let release = harness::release(&*kind, Some(version), None).unwrap();
    let there = kind.program(&cache_dir().join("harness").join(name).join(release.folder())).is_ok();
    assert!(there, "{name} {version} is not in the cache: `cargo xtask test` installs it");
    let mut command = env.offshoot(&["capture", name, "--harness-version", version, "--out", "rec"]);
    command
        .args(arguments)
        .env("OFFSHOOT_CACHE_DIR", cache_dir())
        .env("OFFSHOOT_SLOTS_DIR", env.path("slots"));
    CommandOutput::of(command.output().unwrap())
}

#[test]
fn a_task_that_may_not_write_old_anthropic() {
    let (_env, recording) = capture(OLD, ANTHROPIC, "denied-write", MAIN_AND_ONE);
    assert!(!recording.join("workspace/denied.txt").exists());
}

#[test]
fn parallel_tasks_old_responses() {
    capture(OLD, RESPONSES, "parallel-subagents", ALL);
}

#[test]
fn an_unknown_task_old_chat() {
    capture(OLD, CHAT, "unknown-job", MAIN_AND_ONE);
}

#[test]
fn background_tasks_new_anthropic() {
    capture(NEW, ANTHROPIC, "async-subagents", ALL);
}

#[test]
fn wakeups_new_responses() {
    let (env, _recording) = capture(NEW, RESPONSES, "wakeup", ALL);
    let shown = env.show("rec");
    let main = shown["lanes"].as_array().unwrap().iter().find(|lane| lane["kind"] == "main").unwrap();
    assert_eq!(main["turns"].as_array().unwrap().len(), 4, "main was woken twice");
}

#[test]
fn an_aborted_task_new_chat() {
    capture(NEW, CHAT, "cancel", ALL);
}

#[test]
fn twenty_reads_new_anthropic() {
    let (env, _recording) = capture(NEW, ANTHROPIC, "single-agent-20-reads", MAIN);
    let cached = cached(&env, "rec");
    assert_eq!(cache_breaks(&cached), [], "markers on the last two messages move, and break nothing");
    assert!(cached["totals"]["predicted"]["read"].as_u64().unwrap() > 50_000, "{}", cached["totals"]);
}

#[test]
fn plugin_parallel_tasks_old_anthropic() {
    capture(PLUGIN_OLD, ANTHROPIC, "parallel-subagents", ALL_AND_ONE);
}

#[test]
fn plugin_cancel_old_responses() {
    capture(PLUGIN_OLD, RESPONSES, "cancel", ALL);
}

#[test]
fn plugin_unknown_job_old_chat() {
    capture(PLUGIN_OLD, CHAT, "unknown-job", MAIN);
}

#[test]
fn plugin_background_tasks_old_anthropic() {
    capture(PLUGIN_OLD, ANTHROPIC, "async-subagents", ALL);
}

#[test]
fn plugin_wakeups_new_anthropic() {
    capture(PLUGIN_NEW, ANTHROPIC, "wakeup", ALL);
}

#[test]
fn plugin_denied_write_new_responses() {
    let (_env, recording) = capture(PLUGIN_NEW, RESPONSES, "denied-write", MAIN_AND_ONE);
    assert!(!recording.join("workspace/denied.txt").exists());
}

#[test]
fn plugin_twenty_reads_new_chat() {
    capture(PLUGIN_NEW, CHAT, "single-agent-20-reads", MAIN);
}

#[test]
fn a_model_without_provider_is_an_error_before_anything_runs() {
    let env = TestEnv::new();
    let said = try_capture(&env, NEW, &["--scenario", "cancel", "--model", "haiku"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains("compatible/MODEL"), "{said:?}");
}
