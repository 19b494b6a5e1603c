//! The real Claude Code, offline, on the shipped scenarios.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

mod common;

use std::path::{Path, PathBuf};

use common::*;
use harness::Harness;
use wire::dialect::Dialect;

const OLD: &str = "2.0.76";
const NEW: &str = "2.1.325";

fn claude_code() -> Box<dyn Harness> {
    harness::find("claude-code").unwrap()
}

/// Captures a scenario with a canary in the environment; the check must hold and every lane be true.
fn capture(scenario: &str, version: &str) -> (TestEnv, PathBuf) {
    let env = TestEnv::new();
    let recording = record(&env, scenario, version, "rec");
    marks_are_true(&env, &recording);
    (env, recording)
}

fn record(env: &TestEnv, scenario: &str, version: &str, out: &str) -> PathBuf {
    let prefix = cache_dir().join("harness/claude-code").join(version);
    let there = claude_code().program(&prefix).is_ok();
    assert!(there, "Claude Code {version} is not in the cache: `cargo xtask test` installs it");
    let canary = "wX4jPq9TzR2bLm7";
    let said = Said::of(
        env.offshoot(&["capture", "claude-code", "--scenario", scenario, "--harness-version", version])
            .args(["--out", out, "--env", "SERVICE_PASSWORD"])
            .env("SERVICE_PASSWORD", canary)
            .env("OFFSHOOT_CACHE_DIR", cache_dir())
            .env("OFFSHOOT_SLOTS_DIR", env.path("slots"))
            .output()
            .unwrap(),
    );
    assert_eq!(said.code, Some(0), "{scenario} {version}: {said:?}");
    let recording = env.path(out);
    for (path, bytes) in files(&recording) {
        let there = bytes.windows(canary.len()).any(|window| window == canary.as_bytes());
        assert!(!there, "{} holds the canary", path.display());
    }
    recording
}

/// Each lane's replies carry the mark of one agent, and each agent has one lane (side calls aside).
fn marks_are_true(env: &TestEnv, recording: &Path) {
    let shown = env.show(recording.to_str().unwrap());
    let mut agents = Vec::new();
    for lane in shown["lanes"].as_array().unwrap() {
        let exchanges = lane["exchanges"].as_array().unwrap().iter().map(|id| id.as_str().unwrap());
        let mut marks: Vec<String> = exchanges.filter_map(|id| mark(recording, id)).collect();
        marks.dedup();
        assert!(marks.len() <= 1, "{} has {marks:?}", lane["id"]);
        if lane["kind"] != "side" {
            agents.extend(marks);
        }
    }
    let mut unique = agents.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), agents.len(), "one agent in two lanes: {agents:?}");
    assert!(agents.contains(&"main".to_owned()), "{agents:?}");
}

/// What stands in brackets at the beginning of a reply.
fn mark(recording: &Path, id: &str) -> Option<String> {
    let dump = std::fs::read(recording.join(format!("provider_dumps/{id}_response.json"))).unwrap();
    let body = recording::ResponseDump::read(&dump).unwrap().body.bytes().unwrap();
    let heard = recording::lanes::Heard::of(Dialect::AnthropicMessages, 200, &body);
    let text = heard.reply?.text()?;
    Some(text.strip_prefix('[')?.split_once(']')?.0.to_owned())
}

#[test]
fn async_subagents_old() {
    let (_env, recording) = capture("async-subagents", OLD);
    assert!(recording.join("exports/transcripts").read_dir().unwrap().count() > 2, "one for each agent");
}

#[test]
fn async_subagents_new() {
    let (env, recording) = capture("async-subagents", NEW);
    assert!(recording.join("stdout.jsonl").exists(), "what it printed is named by what it is");
    let shown = env.show("rec");
    let kinds: Vec<_> = shown["lanes"].as_array().unwrap().iter().map(|lane| &lane["kind"]).collect();
    assert_eq!(kinds, ["main", "sub", "sub"]);
    for exchange in recording::Recording::open(&recording).unwrap().exchanges() {
        let exchange = exchange.unwrap();
        assert_eq!(exchange.ending, wire::Ending::Complete, "{}", exchange.id);
    }
}

#[test]
fn parallel_subagents_old() {
    capture("parallel-subagents", OLD);
}

#[test]
fn parallel_subagents_new() {
    capture("parallel-subagents", NEW);
}

#[test]
fn wakeup() {
    capture("wakeup", NEW);
}

#[test]
fn cancel() {
    capture("cancel", NEW);
}

#[test]
fn unknown_job() {
    capture("unknown-job", NEW);
}

#[test]
fn denied_write() {
    let (_env, recording) = capture("denied-write", NEW);
    assert!(recording.join("workspace/README.md").exists());
    assert!(!recording.join("workspace/denied.txt").exists());
}

/// Pinned paths, port, session and fixture times leave nothing to chance where one agent works alone.
#[test]
fn single_agent_20_reads_twice_gives_the_same_bytes() {
    for version in [OLD, NEW] {
        let env = TestEnv::new();
        let bodies = |out: &str| {
            let recording =
                recording::Recording::open(&record(&env, "single-agent-20-reads", version, out)).unwrap();
            let exchanges: Vec<_> = recording.exchanges().map(Result::unwrap).collect();
            let body =
                |exchange: &wire::Exchange| recording.bytes_of(&exchange.request.body).unwrap().unwrap();
            let mut bodies: Vec<_> =
                exchanges.iter().map(body).map(|body| String::from_utf8(body).unwrap()).collect();
            bodies.retain(|body| body.contains(r#""name":"Read""#)); // warm-ups come in any order
            bodies
        };
        let (first, second) = (bodies("rec"), bodies("rec2"));
        assert_eq!(first.len(), 21);
        for (n, (one, other)) in first.iter().zip(&second).enumerate() {
            assert!(without_device(one) == without_device(other), "{version}: request {n} differs");
        }
    }
}

/// The device's id is made anew in every HOME.
fn without_device(body: &str) -> String {
    let (head, rest) = body.split_once(r#""metadata":"#).unwrap();
    let (_, tail) = rest.split_once('}').unwrap();
    format!("{head}{tail}")
}
