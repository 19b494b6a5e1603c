//! Folders of dumps of offshoot and other tools, complete and broken: usable exchanges are ordered, problems
//! are reported.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use recording::normalize::normalize;
use recording::source::Source;
use serde_json::{Value, json};

/// Returns the requests of a main agent with one sub-agent, in order.
fn requests() -> Vec<Value> {
    let tools = json!([{"name": "Task", "input_schema": {"type": "object"}}]);
    let call = json!({"type": "tool_use", "id": "call_1", "name": "Task", "input": {"prompt": "Look at all of it."}});
    let asked = json!({"role": "user", "content": "Do the work, please."});
    let result = json!([{"type": "tool_result", "tool_use_id": "call_1", "content": "It is empty."}]);
    vec![
        json!({"model": "m", "system": "You lead.", "tools": tools, "messages": [asked]}),
        json!({"model": "m", "system": "You look.", "tools": [{"name": "Read", "input_schema": {}}],
            "messages": [{"role": "user", "content": "Look at all of it."}]}),
        json!({"model": "m", "system": "You lead.", "tools": tools,
            "messages": [asked, {"role": "assistant", "content": [call]}, {"role": "user", "content": result}]}),
    ]
}

fn reply(id: &str, content: &Value, stop: &str) -> Value {
    json!({"id": id, "type": "message", "role": "assistant", "model": "m", "content": content,
        "stop_reason": stop, "usage": {"input_tokens": 5, "output_tokens": 2}})
}

fn replies() -> Vec<Value> {
    let call = json!([{"type": "tool_use", "id": "call_1", "name": "Task", "input": {"prompt": "Look at all of it."}}]);
    let text = |text: &str| json!([{"type": "text", "text": text}]);
    vec![
        reply("m1", &call, "tool_use"),
        reply("m2", &text("It is empty."), "end_turn"),
        reply("m3", &text("Nothing to do."), "end_turn"),
    ]
}

/// Style in which a tool writes its dumps.
struct Style {
    body: fn(&Value) -> Value,
    headers: Value,
    timestamps: bool,
}

fn write(dir: &Path, style: &Style) {
    let all = requests().into_iter().zip(replies()).enumerate();
    for (n, (request, response)) in all {
        let id = format!("req{n}");
        let dump = |phase: &str, body: Value, second: usize| {
            let mut dump = json!({"request_id": id, "phase": phase, "method": "POST", "headers": style.headers,
                "targetUrl": "https://provider.test/v1/messages", "body": body, "extra": {"of": "theirs"}});
            if style.timestamps {
                dump["timestamp"] = json!(format!("2026-11-15T10:00:{second:02}.000Z"));
            }
            if phase == "response" {
                dump["status"] = json!(200);
            }
            dump.to_string()
        };
        fs::write(dir.join(format!("{id}_request.json")), dump("request", (style.body)(&request), 2 * n))
            .expect("writes");
        fs::write(
            dir.join(format!("{id}_response.json")),
            dump("response", (style.body)(&response), 2 * n + 1),
        )
        .expect("writes");
    }
}

fn styles() -> Vec<(&'static str, Style)> {
    let list = json!([{"name": "content-type", "value": "application/json"}]);
    let map = json!({"content-type": "application/json", "x-many": ["a", "b"]});
    let style = |body, headers: &Value, timestamps| Style { body, headers: headers.clone(), timestamps };
    vec![
        ("text", style(|body| json!({"text": body.to_string()}), &list, true)),
        ("json", style(|body| json!({"json": body}), &map, true)),
        ("a string", style(|body| json!(body.to_string()), &map, false)),
        ("an object", style(|body| body.clone(), &list, false)),
        ("no headers", style(|body| json!({"json": body}), &Value::Null, true)),
    ]
}

/// Returns lane ids with parents, and the requests of each.
fn lanes(source: &Source) -> Vec<String> {
    let ordered = source.order();
    let lane = |lane: &recording::lanes::Lane| {
        let requests: Vec<&str> = lane.requests().map(|request| request.as_str()).collect();
        format!("{} {} {}", lane.id, lane.parent.as_deref().unwrap_or("-"), requests.join(" "))
    };
    ordered.lanes.lanes.iter().map(lane).collect()
}

fn contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(dir).expect("a folder").map(|entry| entry.expect("an entry"));
    entries
        .map(|entry| {
            (entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path()).expect("a file"))
        })
        .collect()
}

#[test]
fn dumps_of_any_style_are_ordered_alike_and_again_the_same() {
    for (name, style) in styles() {
        let dir = tempfile::tempdir().expect("a folder");
        write(dir.path(), &style);
        let source = Source::open(dir.path()).expect(name);
        assert_eq!(lanes(&source), ["main - req0 req2", "sub-1 main req1"], "{name}");
        let normalized = normalize(&source, None).expect(name);
        let first = contents(&dir.path().join("normalized"));
        assert!(
            first.contains_key("turn_003_response.json") && first.contains_key("replay_session.json"),
            "{name}"
        );
        normalize(&Source::open(dir.path()).expect(name), None).expect(name);
        assert_eq!(
            first,
            contents(&dir.path().join("normalized")),
            "{name}: running it again changes nothing"
        );
        let main = &normalized.envelope.lanes[0];
        let sub = &main.turns[0].calls[0].started[0];
        assert_eq!(sub.final_text.as_deref(), Some("It is empty."), "{name}");
        assert_eq!(main.turns[1].results[0].text, "It is empty.", "{name}");
        let raw =
            normalized.ordered.problems.iter().filter(|problem| problem.why.contains("not raw")).count();
        assert_eq!(raw, if name == "an object" { 6 } else { 0 }, "{name}: {:?}", normalized.ordered.problems);
    }
}

#[test]
fn broken_dumps_are_reported_and_the_rest_is_ordered() {
    let dir = tempfile::tempdir().expect("a folder");
    let (_, style) = styles().remove(0);
    write(dir.path(), &style);
    let path = |name: &str| dir.path().join(name);
    fs::remove_file(path("req1_response.json")).expect("was there");
    fs::write(path("req2_response.json"), "{ not json").expect("writes");
    fs::write(path("req9_response.json"), r#"{"request_id":"req9","status":200,"body":{"text":"{}"}}"#)
        .expect("writes");
    fs::copy(path("req0_response.json"), path("req0-again_response.json")).expect("copies");
    fs::copy(path("req0_request.json"), path("req0-again_request.json")).expect("copies");
    fs::write(path("bad_request.json"), [0xff, 0xfe]).expect("writes");
    let excerpt = r#"{"request_id":"req8","timestamp":"2026-11-15T10:00:30Z","targetUrl":"https://provider.test/v1/messages",
        "bodyExcerpt":"{\"model\":\"m\",\"messages\":[{\"role\":"}"#;
    fs::write(path("req8_request.json"), excerpt).expect("writes");
    let source = Source::open(dir.path()).expect("opens");
    assert_eq!(lanes(&source), ["main - req0 req2", "sub-1 main req1", "side-1 - req8"]);
    let normalized = normalize(&source, None).expect("normalizes");
    let problems: Vec<String> = normalized
        .ordered
        .problems
        .iter()
        .map(|problem| format!("{}: {}", problem.what, problem.why))
        .collect();
    for expected in [
        "bad_request.json: it cannot be read",
        "req0-again_request.json: there is another request `req0`",
        "req0-again_response.json: there is another response to `req0`",
        "req9_response.json: its request is missing",
        "req2_response.json: it cannot be read",
        "req1: there is no response",
        "req8: its request is not raw: only a part of it was kept",
    ] {
        assert!(problems.iter().any(|problem| problem.starts_with(expected)), "{expected} in {problems:#?}");
    }
    assert!(path("normalized/turn_001_request.json").exists());
    assert!(
        !path("normalized/turn_002_response.json").exists(),
        "a response that is not there is not made up"
    );
}

#[test]
fn a_foreign_folder_is_not_replaced() {
    let dir = tempfile::tempdir().expect("a folder");
    let (_, style) = styles().remove(0);
    write(dir.path(), &style);
    fs::create_dir(dir.path().join("normalized")).expect("makes");
    fs::write(dir.path().join("normalized/mine.txt"), "mine").expect("writes");
    let error = normalize(&Source::open(dir.path()).expect("opens"), None).expect_err("in the way");
    assert!(error.to_string().contains("is not a folder of normalized turns"), "{error}");
    assert!(dir.path().join("normalized/mine.txt").exists());
}

#[test]
fn an_empty_folder_is_no_recording() {
    let dir = tempfile::tempdir().expect("a folder");
    assert!(Source::open(dir.path()).is_err());
}
