//! `offshoot verify`, from the outside.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

mod common;

use common::TestEnv;
use serde_json::json;

/// A folder of dumps: one request and its answer.
fn record(env: &TestEnv, name: &str, prompt: &str) {
    let body = json!({"model": "tern-3", "max_tokens": 64, "system": "Be brief.",
        "tools": [{"name": "Read", "description": "Reads.", "input_schema": {"type": "object"}}],
        "messages": [{"role": "user", "content": prompt}]});
    let reply = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "tern-3",
        "content": [{"type": "text", "text": "Yes."}], "stop_reason": "end_turn",
        "usage": {"input_tokens": 1, "output_tokens": 1}});
    let dump = |phase: &str, body: &serde_json::Value| {
        json!({"request_id": "r000001", "timestamp": "2026-11-15T12:00:00Z", "phase": phase, "method": "POST",
            "targetUrl": "http://127.0.0.1:1/v1/messages", "status": 200, "headers": [], "body": {"text": body.to_string()}})
        .to_string()
    };
    std::fs::create_dir_all(env.path(name)).unwrap();
    env.write(&format!("{name}/r000001_request.json"), &dump("request", &body));
    env.write(&format!("{name}/r000001_response.json"), &dump("response", &reply));
}

#[test]
fn a_verdict_is_an_exit_code_and_data() {
    let env = TestEnv::new();
    record(&env, "golden", "Is it so?");
    record(&env, "same", "Is it so?");
    record(&env, "other", "Was it so?");
    let same = env.run(&["verify", "golden", "same", "--level", "E4"]);
    assert_eq!((same.code, same.stderr.as_str()), (Some(0), ""), "{same:?}");
    assert!(same.stdout.starts_with("PASS  byte-equal (E4; required E4)\n"), "{same:?}");
    let other = env.run(&["verify", "golden", "other", "--format", "json"]);
    let verdict: serde_json::Value = serde_json::from_str(&other.stdout).unwrap();
    assert_eq!(other.code, Some(1));
    assert_eq!((&verdict["level"], &verdict["wanted"]), (&json!("E2"), &json!("E3")));
    let difference = &verdict["differences"][0];
    assert_eq!(difference["pointer"], "/messages/0/content");
    // What was suggested, pasted.
    env.write("rules.toml", &format!("format = 1\n{}", difference["mask"].as_str().unwrap()));
    let covered = env.run(&["verify", "golden", "other", "--rules", "rules.toml"]);
    assert_eq!(covered.code, Some(0), "{covered:?}");
    env.write(
        "golden/parity.toml",
        "format = 1\n[[exclude]]\nsurface = \"tools\"\npointer = \"/tools/9\"\nreason = \"old\"\n",
    );
    let stale = env.run(&["verify", "golden", "same"]);
    assert_eq!(stale.code, Some(1));
    assert!(stale.stdout.contains("STALE"), "{stale:?}");
}

#[test]
fn a_terminal_shows_recordings_escaped() {
    let env = TestEnv::new();
    record(&env, "golden", "Is it so?");
    record(&env, "hostile", "\u{9b}2J \u{202e}Is it so?");
    let verify: &[&str] = &["verify", "golden", "hostile"];
    for more in [&[][..], &["--format", "json"], &["--format", "junit"]] {
        let told = env.run(&[verify, more].concat());
        assert_eq!(told.code, Some(1), "{told:?}");
        assert!(!told.stdout.contains(['\u{9b}', '\u{202e}']), "{told:?}");
    }
}

#[test]
fn usage_errors_have_a_hint() {
    let env = TestEnv::new();
    record(&env, "golden", "Is it so?");
    env.write("rules.toml", "format = 1\n[[masks]]\n");
    for arguments in
        [&["verify", "golden", "nowhere"][..], &["verify", "golden", "golden", "--rules", "rules.toml"]]
    {
        let said = env.run(arguments);
        assert_eq!((said.code, said.stdout.as_str()), (Some(2), ""), "{said:?}");
        assert!(said.stderr.contains("hint:"), "{said:?}");
    }
    assert!(env.run(&["verify", "golden", "golden", "--level", "E9"]).code == Some(2));
}
