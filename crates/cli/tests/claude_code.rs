//! The real Claude Code, offline, on the shipped scenarios.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

mod common;

use std::path::PathBuf;

use common::lanes::{lanes_are_true, without_headers};
use common::*;
use harness::HarnessAdapter;

const OLD: &str = "2.0.76";
const NEW: &str = "2.1.325";

const MAIN_AND_ONE: &[&str] = &["main", "repo-scanner"];
const ALL: &[&str] = &["grep-summarizer", "main", "repo-scanner"];

fn claude_code() -> Box<dyn HarnessAdapter> {
    harness::find("claude-code").unwrap()
}

/// Captures a scenario with a canary in the environment; the check must hold and every lane be true, also where no
/// header says who is asking.
fn capture(scenario: &str, version: &str, agents: &[&str]) -> (TestEnv, PathBuf) {
    let env = TestEnv::new();
    let recording = record(&env, scenario, version, "rec");
    lanes_are_true(&env, "rec", agents);
    without_headers(&recording, &env.path("bare"));
    lanes_are_true(&env, "bare", agents);
    replays(&env, "rec", "again");
    (env, recording)
}

fn record(env: &TestEnv, scenario: &str, version: &str, out: &str) -> PathBuf {
    let prefix = cache_dir().join("harness/claude-code").join(version);
    let there = claude_code().program(&prefix).is_ok();
    assert!(there, "Claude Code {version} is not in the cache: `cargo xtask test` installs it");
    let canary = CANARY;
    let said = CommandOutput::of(
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

#[test]
fn async_subagents_old() {
    let (_env, recording) = capture("async-subagents", OLD, ALL);
    assert!(recording.join("exports/transcripts").read_dir().unwrap().count() > 2, "one for each agent");
}

#[test]
fn async_subagents_new() {
    let (env, recording) = capture("async-subagents", NEW, ALL);
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
    capture("parallel-subagents", OLD, ALL);
}

#[test]
fn parallel_subagents_new() {
    capture("parallel-subagents", NEW, ALL);
}

/// Markers move with every request, and messages that lose theirs collapse to strings: neither breaks the prefix.
#[test]
fn wakeup() {
    let (env, _recording) = capture("wakeup", NEW, ALL);
    assert_eq!(cache_breaks(&cached(&env, "rec")), []);
}

/// A tool search puts a tool among the others in the middle of a lane. It is deferred, which by the provider's word
/// keeps the prefix whole; the change is named, with what it costs where that word does not hold.
#[test]
fn cancel() {
    let (env, _recording) = capture("cancel", NEW, MAIN_AND_ONE);
    let cached = cached(&env, "rec");
    let breaks = cache_breaks(&cached);
    assert_eq!(breaks.len(), 1, "{breaks:?}");
    assert!(breaks[0].0 == "tools_changed" && breaks[0].1.starts_with("/tools/"), "{breaks:?}");
    let requests = cached["requests"].as_array().unwrap();
    let stake = requests.iter().map(|it| &it["at_stake"]).find(|stake| !stake.is_null()).unwrap();
    assert!(
        stake["tokens"].as_u64().unwrap() > 5_000 && stake["cost_usd"].as_f64().unwrap() > 0.0,
        "{stake}"
    );
}

#[test]
fn unknown_job() {
    capture("unknown-job", NEW, &["main"]);
}

#[test]
fn denied_write() {
    let (_env, recording) = capture("denied-write", NEW, MAIN_AND_ONE);
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
        assert_eq!(cache_breaks(&cached(&env, "rec")), [], "{version}: twenty-one requests, one prefix");
        for (n, (one, other)) in first.iter().zip(&second).enumerate() {
            assert!(without_device(one) == without_device(other), "{version}: request {n} differs");
        }
    }
}

/// Claude Code creates a new device id in every HOME.
fn without_device(body: &str) -> String {
    let (head, rest) = body.split_once(r#""metadata":"#).unwrap();
    let (_, tail) = rest.split_once('}').unwrap();
    format!("{head}{tail}")
}
