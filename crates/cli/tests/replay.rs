//! `offshoot replay` for clients, for a command, and with mistakes.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

mod common;

use common::*;

const SCRIPT: &str = "
format: 1
lanes:
  - lane: main
    match: { any: true }
    turns:
      - reply: [ { text: Good day. }, { call: { tool: Look, id: toolu_look, input: { path: here }, unoffered: true } } ]
      - reply: [ { text: It is here. } ]
";

fn question(messages: &str) -> String {
    let tools = r#"[{"name":"Look","input_schema":{"type":"object"}}]"#;
    format!(r#"{{"model":"m","max_tokens":9,"tools":{tools},"messages":[{messages}]}}"#)
}

const HELLO: &str = r#"{"role":"user","content":"hello"}"#;
const LOOKED: &str = concat!(
    r#"{"role":"user","content":"hello"},"#,
    r#"{"role":"assistant","content":[{"type":"text","text":"Good day."},"#,
    r#"{"type":"tool_use","id":"toolu_look","name":"Look","input":{"path":"here"}}]},"#,
    r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_look","content":"a file"}]}"#
);

/// A recording of two turns in `rec`.
fn recorded() -> TestEnv {
    let env = TestEnv::new();
    env.write("script.yaml", SCRIPT);
    let proxy = Proxy::start(&env, &["proxy", "--script", "script.yaml", "--out", "rec"]);
    for messages in [HELLO, LOOKED] {
        ask(proxy.addr, &post("/v1/messages", "", &question(messages)));
    }
    let said = proxy.interrupt();
    assert_eq!(said.code, Some(0), "{said:?}");
    env
}

fn body(answer: &[u8]) -> String {
    let text = String::from_utf8_lossy(answer).into_owned();
    text.split_once("\r\n\r\n").unwrap().1.to_owned()
}

#[test]
fn changed_requests_get_the_recorded_bytes() {
    let env = recorded();
    let replay = Proxy::start(&env, &["replay", "rec", "--listen", "127.0.0.1:0"]);
    let dump = |id: &str| -> String {
        let dump: serde_json::Value =
            serde_json::from_str(&env.read(&format!("rec/provider_dumps/{id}_response.json"))).unwrap();
        dump["body"]["text"].as_str().unwrap().to_owned()
    };
    // Other words of the harness, another model and other tools do not matter.
    let changed = question(&LOOKED.replace("a file", "two files")).replace("\"m\"", "\"n\"");
    assert_eq!(body(&ask(replay.addr, &post("/v1/messages", "", &changed))), dump("r000002"));
    assert_eq!(body(&ask(replay.addr, &post("/v1/messages", "", &question(HELLO)))), dump("r000001"));
    let said = replay.interrupt();
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), ""), "{said:?}");
    assert!(said.stderr.contains("replayed 2 of 2 recorded exchanges"), "{said:?}");
}

#[test]
fn an_unrecorded_request_names_the_first_difference() {
    let env = recorded();
    let replay = Proxy::start(&env, &["replay", "rec", "--listen", "127.0.0.1:0"]);
    let unknown = question(&LOOKED.replace("toolu_look", "toolu_else"));
    let answer = String::from_utf8_lossy(&ask(replay.addr, &post("/v1/messages", "", &unknown))).into_owned();
    assert!(answer.starts_with("HTTP/1.1 500") && answer.contains("x-should-retry: false"), "{answer}");
    assert!(answer.contains("no recorded request has this history"), "{answer}");
    let said = replay.interrupt();
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.stderr.contains("nearest: turn 2 of lane `main` (r000002)"), "{said:?}");
    assert!(said.stderr.contains("/messages/1/content/1/id"), "{said:?}");
}

#[test]
fn a_replayed_recording_is_marked_and_equal() {
    let env = recorded();
    let replay = Proxy::start(&env, &["replay", "rec", "--listen", "127.0.0.1:0", "--out", "again"]);
    for messages in [HELLO, LOOKED] {
        ask(replay.addr, &post("/v1/messages", "", &question(messages)));
    }
    assert_eq!(replay.interrupt().code, Some(0));
    let manifest: serde_json::Value = serde_json::from_str(&env.read("again/recording.json")).unwrap();
    assert_eq!(manifest["replay"]["of"], "rec");
    let report: serde_json::Value = serde_json::from_str(&env.read("again/replay.json")).unwrap();
    assert_eq!((&report["format"], &report["served"]), (&1.into(), &2.into()));
    let verdict = env.run(&["verify", "rec", "again"]);
    assert_eq!(verdict.code, Some(0), "{verdict:?}");
    for (format, begins) in [("junit", "<?xml"), ("html", "<!doctype html>"), ("json", "{\"format\":1")] {
        let said = env.run(&["verify", "rec", "again", "--format", format]);
        assert_eq!(said.code, Some(0), "{format}");
        assert!(said.stdout.to_lowercase().starts_with(begins), "{format}: {}", &said.stdout[..40]);
    }
}

#[test]
fn a_command_is_led_here_and_its_exit_code_comes_first() {
    let env = recorded();
    let said = env.run(&["replay", "rec", "--", "sh", "-c", "test -n \"$ANTHROPIC_BASE_URL\" && exit 7"]);
    assert_eq!(said.code, Some(7), "{said:?}");
    let said = env.run(&["replay", "rec", "--", "true"]);
    assert_eq!(said.code, Some(1), "nobody asked for anything: {said:?}");
    assert!(said.stderr.contains("not requested: turn 1 of lane `main` (r000001)"), "{said:?}");
    assert!(!said.stderr.contains("changed since it was sealed"), "{said:?}");
    let dump = env.read("rec/provider_dumps/r000001_request.json");
    env.write("rec/provider_dumps/r000001_request.json", &format!("{dump} "));
    let said = env.run(&["replay", "rec", "--", "true"]);
    assert!(said.stderr.contains("warning: the recording changed since it was sealed: "), "{said:?}");
}

#[test]
fn an_unreplayable_recording_has_a_hint() {
    let env = recorded();
    for (arguments, error, hint) in [
        (&["replay", "nowhere"][..], "no folder `nowhere`", "give the folder that `--out` named"),
        (&["replay", "rec"], "does not name its harness", "offshoot replay rec -- COMMAND"),
        (
            &["replay", "rec", "--", "no-such-program"],
            "cannot find the command",
            "command -v no-such-program",
        ),
        (&["replay", "rec", "--listen", "1.2.3.4:80"], "is not a loopback address", "127.0.0.1"),
        (&["replay", "rec", "--fault", "lane=sub-9,turn=1:cut", "--", "true"], "no lane `sub-9`", "`main`"),
        (
            &["replay", "rec", "--fault", "lane=main,turn=9:cut", "--", "true"],
            "no turn 9",
            "use a turn from 1 to 2",
        ),
    ] {
        let said = env.run(arguments);
        assert_eq!(said.code, Some(2), "{arguments:?}: {said:?}");
        assert!(said.stderr.contains(error), "{arguments:?}: {said:?}");
        assert!(said.stderr.contains("hint: ") && said.stderr.contains(hint), "{arguments:?}: {said:?}");
    }
    std::fs::remove_file(env.path("rec/provider_dumps/r000002_response.json")).unwrap();
    let said = env.run(&["replay", "rec", "--out", "again", "--", "true"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(!env.path("again").exists(), "nothing is written");
}
