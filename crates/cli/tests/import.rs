//! `offshoot import`, on its own and against what was on the wire of the real programs.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

mod common;

use std::path::{Path, PathBuf};

use common::*;
use harness::import::{ImportSource, from_exports, import};
use recording::normalize::{Envelope, envelope};
use recording::source::Source;

const TRANSCRIPT: &str = r#"{"type":"user","sessionId":"s","uuid":"u1","timestamp":"2026-01-01T00:00:00.000Z","message":{"role":"user","content":"Look."}}
{"type":"assistant","sessionId":"s","uuid":"u2","timestamp":"2026-01-01T00:00:01.000Z","message":{"type":"message","role":"assistant","id":"m1","model":"m","content":[{"type":"text","text":"Nothing there."}],"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":2}}}
{"type":"of-tomorrow","sessionId":"s"}
"#;

#[test]
fn an_import_writes_a_session_and_reports_it() {
    let env = TestEnv::new();
    env.write("s.jsonl", TRANSCRIPT);
    let said = env.run(&["import", "claude-transcript", "s.jsonl", "--out", "out"]);
    assert_eq!(
        said.stdout,
        "skipped records of type `of-tomorrow`: 1, first in s.jsonl:3\n\
         1 turn in 1 lane: `out/replay_session.json`\n"
    );
    let session: Envelope = serde_json::from_str(&env.read("out/replay_session.json")).unwrap();
    assert_eq!(session.source, "claude-transcript");
    assert_eq!(session.lanes[0].final_text.as_deref(), Some("Nothing there."));
    let said = env.run(&["import", "claude-transcript", ".", "--out", "json", "--format", "json"]);
    let said: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!((&said["format"], &said["lanes"], &said["turns"]), (&1.into(), &1.into(), &1.into()));
    assert_eq!(said["skipped"][0]["count"], 1);
}

const CONVERSATION: &str = r#"{"type":"user","sessionId":"s","uuid":"u1","timestamp":"2026-01-01T00:00:00.000Z","message":{"role":"user","content":"Look at it."}}
{"type":"assistant","sessionId":"s","uuid":"u2","timestamp":"2026-01-01T00:00:01.000Z","message":{"type":"message","role":"assistant","id":"m1","model":"claude-haiku-4-5","content":[{"type":"tool_use","id":"toolu_1","name":"Read","input":{"path":"a"}}],"stop_reason":"tool_use","usage":{"input_tokens":3,"output_tokens":2}}}
{"type":"user","sessionId":"s","uuid":"u3","timestamp":"2026-01-01T00:00:02.000Z","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"nothing"}]}}
{"type":"assistant","sessionId":"s","uuid":"u4","timestamp":"2026-01-01T00:00:03.000Z","message":{"type":"message","role":"assistant","id":"m2","model":"claude-haiku-4-5","content":[{"type":"text","text":"Nothing there."}],"stop_reason":"end_turn","usage":{"input_tokens":0,"output_tokens":0}}}
"#;

#[test]
fn an_import_is_shown_compared_exported_and_replayed() {
    let env = TestEnv::new();
    env.write("s.jsonl", CONVERSATION);
    env.write("t.jsonl", &CONVERSATION.replace(r#""content":"nothing""#, r#""content":"a file""#));
    for (transcript, out) in [("s.jsonl", "one"), ("s.jsonl", "same"), ("t.jsonl", "other")] {
        let said = env.run(&["import", "claude-transcript", transcript, "--out", out]);
        assert_eq!(said.code, Some(0), "{said:?}");
    }
    let shown = env.run(&["show", "one"]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    assert!(
        shown.stdout.starts_with("imported from `claude-transcript`, 2 exchanges, 1 lane\n"),
        "{shown:?}"
    );
    for part in ["user: Look at it.", "→ Read toolu_1", "\"Nothing there.\"", "headers, times and the bytes"]
    {
        assert!(shown.stdout.contains(part), "{part}: {}", shown.stdout);
    }
    assert!(shown.stdout.contains("the usage of 1 of 2 turns is unknown"), "{}", shown.stdout);
    let exchange = &env.show("one")["exchanges"][0];
    assert!(exchange["took_us"].is_null() && exchange["status"].is_null(), "{exchange}");

    assert_eq!(env.run(&["report", "one", "--out", "one.html"]).code, Some(0));
    assert_eq!(env.run(&["export", "one", "--format", "har", "--out", "one.har"]).code, Some(0));
    let same = env.run(&["verify", "one", "same"]);
    assert_eq!(same.code, Some(0), "{same:?}");
    let bytes = env.run(&["verify", "one", "same", "--level", "E4"]);
    assert!(bytes.stdout.starts_with("INCONCLUSIVE"), "{bytes:?}");
    let other = env.run(&["verify", "one", "other"]);
    assert_eq!(other.code, Some(1), "{other:?}");

    let replay = Proxy::start(&env, &["replay", "one", "--listen", "127.0.0.1:0"]);
    let body = r#"{"model":"m","system":"Anything.","stream":true,"messages":[{"role":"user","content":"Look at it."}]}"#;
    let answer = String::from_utf8(ask(replay.addr, &post("/v1/messages", "", body))).unwrap();
    assert!(answer.contains("toolu_1") && answer.contains("text/event-stream"), "{answer}");
    let body = r#"{"model":"m","system":"Anything.","stream":true,"messages":[{"role":"user","content":"Look at it."},{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"Read","input":{"path":"a"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"nothing"}]}]}"#;
    let answer = String::from_utf8(ask(replay.addr, &post("/v1/messages", "", body))).unwrap();
    assert!(answer.contains("Nothing there."), "{answer}");
    let said = replay.interrupt();
    assert!(said.stderr.contains("replayed 2 of 2 recorded exchanges"), "{said:?}");
}

#[test]
fn secrets_stay_behind() {
    let env = TestEnv::new();
    let key = ["sk", "ant", "api03", &"Qv7".repeat(12)].join("-");
    env.write("s.jsonl", &TRANSCRIPT.replace("Look.", &format!("Look, with {key}.")));
    assert_eq!(env.run(&["import", "claude-transcript", "s.jsonl", "--out", "out"]).code, Some(0));
    let session = env.read("out/replay_session.json");
    assert!(!session.contains(&key), "{session}");
    let session: Envelope = serde_json::from_str(&session).unwrap();
    assert!(session.lanes[0].turns[0].injected[0].text.starts_with("Look, with offshoot-redacted-"));
}

#[test]
fn invalid_imports_are_named() {
    let env = TestEnv::new();
    env.write("s.jsonl", TRANSCRIPT);
    env.write("bad.json", "{\"info\": {},\n  oh}");
    env.write("other.json", "{}");
    std::fs::create_dir(env.path("empty")).unwrap();
    for (arguments, error) in [
        (["opencode-export", "nowhere.json", "out"], "error: there is no `nowhere.json`\n"),
        (["opencode-export", "empty", "out"], "error: `empty` does not contain an export of OpenCode\n"),
        (["opencode-export", "other.json", "out"], "error: `other.json` is not an export of OpenCode\n"),
        (
            ["opencode-export", "bad.json", "out"],
            "error: `bad.json` is not JSON: key must be a string at line 2 column 3\n",
        ),
        (
            ["claude-transcript", "other.json", "out"],
            "error: `other.json` is not a transcript of Claude Code\n",
        ),
        (["claude-transcript", "s.jsonl", "."], "error: `.` exists and is not an empty folder\n"),
    ] {
        let [source, path, out] = arguments;
        let said = env.run(&["import", source, path, "--out", out]);
        assert_eq!(said.code, Some(2), "{said:?}");
        assert!(said.stderr.starts_with(error), "{said:?}");
        assert!(said.stderr.contains("\nhint: "), "{said:?}");
        assert_eq!(said.stdout, "");
    }
    let said = env.run(&["import", "claude-transcript", "s.jsonl", "--out", "/proc/nobody/may"]);
    assert_eq!(said.code, Some(3), "{said:?}");
}

/// Two agents, each with a call of its own; what is asked of them depends on how they are launched.
fn scenario(env: &TestEnv, background: bool) {
    let agent = |prompt: &str, id: &str, word: &str| {
        format!(
            "  - lane: {id}
    match: {{ prompt_contains: {prompt:?}, tools_include: [Grep] }}
    turns:
      - reply:
          - text: \"[{id}] looking\"
          - call: {{ tool: Grep, id: toolu_{id}_look, input: {{ pattern: {word:?} }} }}
        usage: {{ input: 50, output: 7 }}
      - reply: [ {{ text: \"[{id}] {word} was looked for\" }} ]
        usage: {{ input: 60, output: 8 }}
"
        )
    };
    let launch = |prompt: &str, id: &str| {
        format!(
            "          - call: {{ tool: [Agent, Task], id: toolu_{id}, input: {{ description: {id}, prompt: {prompt:?}, \
             subagent_type: word-finder, run_in_background: {background} }} }}\n"
        )
    };
    let (first, second) = ("Look for the word anchor.", "Look for the word harbour.");
    let script = format!(
        "format: 1
lanes:
{}{}  - lane: main
    match: {{ tools_include: [Task, Agent] }}
    turns:
      - reply:
          - text: \"[main] asking both\"
{}{}        usage: {{ input: 100, output: 20, cache_read: 5, cache_write: 6 }}
      - reply:
          - call: {{ tool: Bash, id: toolu_wait, input: {{ command: \"sleep 3\", description: wait }} }}
        usage: {{ input: 110, output: 21 }}
      - reply: [ {{ text: \"[main] both have looked\" }} ]
        usage: {{ input: 120, output: 22 }}
      - reply: [ {{ text: \"[main] told once more\" }} ]
      - reply: [ {{ text: \"[main] told twice more\" }} ]
  - lane: side
    match: {{ any: true }}
    turns: [ {{ reply: [ {{ text: ready }} ] }} ]
",
        agent(first, "one", "anchor"),
        agent(second, "two", "harbour"),
        launch(first, "one"),
        launch(second, "two"),
    );
    let agents = "scenario/workspace/.claude/agents";
    std::fs::create_dir_all(env.path(agents)).unwrap();
    let agent =
        "---\nname: word-finder\ndescription: Finds a word\ntools: Read, Glob, Grep\n---\nYou find words.\n";
    env.write(&format!("{agents}/word-finder.md"), agent);
    env.write("scenario/workspace/log.txt", "The anchor is down in the harbour.\n");
    env.write("scenario/script.yaml", &script);
    let text =
        "format: 1\nintent: Two agents look for a word each.\nprompt: Ask both agents.\nmodel: haiku\n";
    env.write("scenario/scenario.yaml", text);
}

fn cache() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("OFFSHOOT_CACHE_DIR")
        .or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("offshoot")))
        .unwrap_or_else(|| set("HOME").unwrap().join(".cache/offshoot"))
}

fn on_the_wire(recording: &Path) -> Envelope {
    let source = Source::open(recording).unwrap();
    envelope(&source, &source.order())
}

/// Captures Claude Code, and compares what it wrote down with what it sent.
fn claude_code_agrees(version: &str, background: bool) {
    let env = TestEnv::new();
    scenario(&env, background);
    let installed = cache().join("harness/claude-code").join(version);
    assert!(installed.exists(), "Claude Code {version} is not in the cache: `cargo xtask test` installs it");
    let mut command = env.offshoot(&["capture", "claude-code", "--harness-version", version]);
    command.args(["--scenario", "./scenario", "--out", "rec"]).env("OFFSHOOT_CACHE_DIR", cache());
    let said = CommandOutput::of(command.output().unwrap());
    let recording = env.path("rec");
    assert!(recording.join("exports").is_dir(), "{said:?}");

    let told = import(ImportSource::ClaudeTranscript, &[&recording]).unwrap();
    let wire = on_the_wire(&recording);
    assert_eq!(parity::find_disagreements(&told.envelope, &wire), [], "{said:?}");
    let agents = told.envelope.agents();
    let mut lanes: Vec<_> = agents.iter().map(|lane| (lane.id.as_str(), lane.turns.len() >= 2)).collect();
    // Agents are listed as they began, and of two in the background either may be first.
    lanes.sort();
    assert_eq!(lanes, [("main", true), ("sub-1", true), ("sub-2", true)]);
    for lane in &agents[1..] {
        assert_eq!(lane.parent.as_deref(), Some("main"));
        assert_eq!(lane.agent_type.as_deref(), Some("word-finder"));
        assert_eq!(lane.job.as_ref().unwrap().background, background, "{lane:?}");
    }
    let unknown: Vec<_> = told.skipped.iter().filter(|skipped| skipped.what.contains("type")).collect();
    assert!(unknown.is_empty(), "{unknown:?}");

    // A changed session is a disagreement.
    let mut otherwise = told.envelope.clone();
    otherwise.lanes[0].turns[0].calls[0].started[0].final_text = Some("something else".into());
    let found = parity::find_disagreements(&otherwise, &wire);
    assert_eq!(found.iter().map(|found| found.fact.as_str()).collect::<Vec<_>>(), ["final text"]);

    // `normalize` brings the ids along that the wire does not have.
    assert_eq!(from_exports(&recording).as_ref(), Some(&told.envelope));
    assert_eq!(env.run(&["normalize", "rec"]).code, Some(0));
    let joined: Envelope = serde_json::from_str(&env.read("rec/normalized/replay_session.json")).unwrap();
    for lane in joined.agents() {
        assert!(lane.session.is_some(), "{lane:?}");
        assert_eq!(lane.agent.is_some(), lane.id != "main", "{lane:?}");
        assert!(lane.turns.iter().all(|turn| turn.message.is_some()), "{lane:?}");
    }
}

#[test]
fn version_2_0_76_in_the_foreground() {
    claude_code_agrees("2.0.76", false);
}

#[test]
fn version_2_0_76_in_the_background() {
    claude_code_agrees("2.0.76", true);
}

#[test]
fn version_2_1_325_in_the_foreground() {
    claude_code_agrees("2.1.325", false);
}

#[test]
fn version_2_1_325_in_the_background() {
    claude_code_agrees("2.1.325", true);
}
