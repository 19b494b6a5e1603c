//! `offshoot export`, as other tools get it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

mod common;

use common::*;

const SCRIPT: &str = "
format: 1
lanes:
  - lane: all
    match: { any: true }
    turns:
      - reply: [ { call: { tool: look, id: call_1, input: { at: '<b>all</b>' } } } ]
      - reply: [ { text: 'It is </script> empty.' } ]
";

/// Two turns, the second with binary data after its text, and a key that must not be exported.
fn recorded() -> TestEnv {
    let env = TestEnv::new();
    env.write("script.yaml", SCRIPT);
    let proxy = Proxy::start(&env, &["proxy", "--script", "script.yaml", "--out", "rec"]);
    let key = format!(
        "X-Api-Key: {}\r\nCookie: session=abcdefgh1234\r\n",
        ["sk", "ant", &"Qv7".repeat(12)].join("-")
    );
    let tools = r#""tools":[{"name":"look","input_schema":{}}]"#;
    let first = format!(r#"{{"model":"m",{tools},"messages":[{{"role":"user","content":"Look."}}]}}"#);
    let second = format!(
        r#"{{"model":"m",{tools},"messages":[{{"role":"user","content":"Look."}},{{"role":"assistant","content":[{{"type":"tool_use","id":"call_1","name":"look","input":{{}}}}]}},{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"call_1","content":"nothing"}}]}}]}}"#
    );
    for body in [&first, &second] {
        let answer = ask(proxy.addr, &post("/v1/messages?beta=true", &key, body));
        assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
    }
    assert_eq!(proxy.interrupt().code, Some(0));
    env
}

#[test]
fn a_dash_is_standard_output() {
    let env = recorded();
    let without = env.run(&["export", "rec", "--format", "har"]);
    let with = env.run(&["export", "rec", "--format", "har", "--out", "-"]);
    assert_eq!((with.code, with.stdout.len()), (Some(0), without.stdout.len()));
    assert!(with.stdout.starts_with('{') && !env.path("-").exists());
}

#[test]
fn a_har_file_has_every_exchange_in_order_and_no_secret() {
    let env = recorded();
    let said = env.run(&["export", "rec", "--format", "har"]);
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{said:?}");
    assert!(!said.stdout.contains("Qv7Qv7") && !said.stdout.contains("abcdefgh1234"), "{}", said.stdout);
    let har: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    let entries = har["log"]["entries"].as_array().unwrap();
    let place = |it: &serde_json::Value| {
        format!("{} {} {} {} {}", it["_requestId"], it["_lane"], it["_turn"], it["_seq"], it["_ending"])
    };
    let places: Vec<String> = entries.iter().map(place).collect();
    assert_eq!(places, [r#""r000001" "main" 1 1 "complete""#, r#""r000002" "main" 2 2 "complete""#]);
    for it in entries {
        let part = |name: &str| it["timings"][name].as_f64().unwrap();
        let sum = part("send") + part("wait") + part("receive");
        assert!((it["time"].as_f64().unwrap() - sum).abs() < 1e-6 && sum > 0.0, "{it}");
        assert_eq!(it["request"]["queryString"][0]["name"], "beta");
    }
    assert!(entries[0]["startedDateTime"].as_str() < entries[1]["startedDateTime"].as_str());
    let sent = entries[1]["request"]["postData"]["text"].as_str().unwrap();
    let dump: serde_json::Value =
        serde_json::from_str(&env.read("rec/provider_dumps/r000002_request.json")).unwrap();
    assert_eq!(dump["body"]["text"], sent, "byte for byte");
}

#[test]
fn an_exported_session_equals_that_of_normalize() {
    let env = recorded();
    assert_eq!(env.run(&["normalize", "rec"]).code, Some(0));
    let said = env.run(&["export", "rec", "--format", "session"]);
    assert_eq!(said.stdout, env.read("rec/normalized/replay_session.json"));
    assert!(said.stdout.contains("It is </script> empty."));
}

#[test]
fn a_page_is_self_contained() {
    let env = recorded();
    let said = env.run(&["export", "rec", "--format", "html", "--out", "page.html"]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), ""), "{said:?}");
    let page = env.read("page.html");
    assert!(page.contains("default-src 'none'"), "{page}");
    assert!(page.contains("It is \\u003c/script> empty."), "{page}");
    assert!(!page.contains("http-equiv=\"refresh\"") && !page.contains(" src="), "{page}");
    let said = env.run(&["report", "rec", "--out", "report.html"]);
    assert_eq!((said.code, env.read("report.html") == page), (Some(0), true), "the same page");
}

#[test]
fn nothing_is_written_where_it_should_not_be() {
    let env = recorded();
    let before = files(&env.path("rec")).len();
    for (out, error) in [
        ("rec/page.html", "error: `rec/page.html` is inside the recording, which must not change\n"),
        ("rec", "error: `rec` is a folder\n"),
        ("nowhere/page.html", "error: no folder `nowhere`\n"),
    ] {
        let said = env.run(&["export", "rec", "--format", "html", "--out", out]);
        assert_eq!(said.code, Some(2), "{said:?}");
        assert!(said.stderr.starts_with(error) && said.stderr.contains("\nhint: "), "{said:?}");
    }
    assert_eq!(files(&env.path("rec")).len(), before);
    let said = env.run(&["export", "rec", "--format", "html", "--out", "/proc/nobody"]);
    assert_eq!(said.code, Some(2), "{said:?}");
}

#[test]
fn a_changed_recording_is_exported_with_a_warning() {
    let env = recorded();
    let path = env.path("rec/provider_dumps/r000001_request.json");
    let dump = std::fs::read_to_string(&path).unwrap().replace("Look.", "Luck.");
    std::fs::write(path, dump).unwrap();
    let said = env.run(&["export", "rec", "--format", "har"]);
    assert_eq!(said.code, Some(0));
    assert!(said.stdout.contains("Luck."));
    assert_eq!(
        said.stderr,
        "warning: changed since it was sealed: `provider_dumps/r000001_request.json` was changed\n"
    );
}
