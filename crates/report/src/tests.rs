//! A small session as text.

use expect_test::expect;
use recording::lanes::{Identity, LaneResponse, LaneTracker};
use recording::source::{ExchangeSummary, OrderedExchanges};
use serde_json::{Value, json};
use session::RequestId;
use wire::dialect::Dialect;

use crate::{FolderInfo, show_json, terminal_text};

/// A main agent, a sub-agent that it starts and polls, one failed attempt, and a title call.
fn ordered() -> OrderedExchanges {
    let mut tracker = LaneTracker::new();
    let mut exchanges = Vec::new();
    let spawn = json!({"type": "tool_use", "id": "spawn", "name": "Task",
        "input": {"prompt": "Look at all of it.", "subagent_type": "looker"}});
    let poll = json!({"type": "tool_use", "id": "poll", "name": "Output", "input": {"id": "job_4711"}});
    let result = |call: &str, text: &str| json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": call, "content": text}]});
    let said = |content: &Value| json!({"role": "assistant", "content": [content]});
    let text = |text: &str| json!({"type": "text", "text": text});
    let ask = json!({"role": "user", "content": "Do it."});
    let look = json!({"role": "user", "content": "Look at all of it."});
    let launched = [ask.clone(), said(&spawn), result("spawn", "started job_4711")];
    let steps = [
        (
            "r1",
            vec![],
            vec![json!({"role": "user", "content": "a title, please"})],
            text("A \u{1b}[31mtitle"),
        ),
        ("r2", vec!["Task"], vec![ask.clone()], Value::Null),
        ("r3", vec!["Task"], vec![ask.clone()], spawn.clone()),
        ("r4", vec!["Task"], launched.to_vec(), poll.clone()),
        ("r5", vec!["Read"], vec![look], text("It is empty.")),
        (
            "r6",
            vec!["Task"],
            [launched.to_vec(), vec![said(&poll), result("poll", "It is empty.")]].concat(),
            text("Nothing to do."),
        ),
    ];
    for (n, (id, tools, messages, content)) in steps.into_iter().enumerate() {
        let tools: Vec<Value> = tools.iter().map(|name| json!({"name": name, "input_schema": {}})).collect();
        let body = json!({"model": "m", "system": tools, "tools": tools, "messages": messages}).to_string();
        let prompt = Dialect::AnthropicMessages.decode_request(body.as_bytes()).expect("a request");
        let id = RequestId::new(id);
        tracker.add_request(&id, &prompt, &Identity::default());
        let failed = content.is_null();
        let stop = if content["type"] == "tool_use" { "tool_use" } else { "end_turn" };
        let reply = json!({"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [content],
            "stop_reason": stop, "usage": {"input_tokens": 1200, "output_tokens": 30, "cache_read_input_tokens": 300}});
        let heard = LaneResponse::decode(Dialect::AnthropicMessages, 200, reply.to_string().as_bytes());
        tracker.add_response(&id, &if failed { LaneResponse::default() } else { heard });
        exchanges.push(ExchangeSummary {
            id,
            method: "POST".into(),
            url: "http://x/v1/messages".into(),
            dialect: Some(Dialect::AnthropicMessages),
            model: Some("m".into()),
            status: Some(if failed { 529 } else { 200 }),
            ending: Some(wire::Ending::Complete),
            started_us: Some(1000 * n as u64),
            took_us: Some(2500),
            error: failed.then(|| "overloaded".into()),
        });
    }
    OrderedExchanges { lanes: tracker.finish(), exchanges, problems: Vec::new() }
}

fn show_text(ordered: &OrderedExchanges, about: &FolderInfo<'_>, width: usize) -> String {
    terminal_text(&crate::show_text(ordered, about, width), false)
}

#[test]
fn a_session_is_a_tree() {
    expect![[r#"
        a folder of dumps, 6 exchanges, 3 lanes
        main  3 turns, 4.5k in (900 cached), 90 out
        ├─ 1 r3  2 ms, 1.5k in (300 cached), 30 out, 2 attempts
        │  user: Do it.
        │  → Task spawn {"prompt":"Look at all of it.","subagent_type":"looker"}
        │    sub-1 looker  1 turn, 1.5k in (300 cached), 30 out, background, polled 1×
        │    └─ 1 r5  2 ms, 1.5k in (300 cached), 30 out
        │       user: Look at all of it.
        │       "It is empty."
        ├─ 2 r4  2 ms, 1.5k in (300 cached), 30 out, 1 result
        │  → Output poll {"id":"job_4711"}
        └─ 3 r6  2 ms, 1.5k in (300 cached), 30 out, 1 result
           "Nothing to do."
        side-1  1 turn, 1.5k in (300 cached), 30 out
        └─ 1 r1  2 ms, 1.5k in (300 cached), 30 out
           user: a title, please
           "A \u{1b}[31mtitle"
    "#]]
    .assert_eq(&show_text(&ordered(), &FolderInfo::default(), usize::MAX));
}

#[test]
fn a_narrow_terminal_cuts_lines_and_not_facts() {
    let text = show_text(&ordered(), &FolderInfo::default(), 40);
    assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
    assert_eq!(
        text.lines().count(),
        show_text(&ordered(), &FolderInfo::default(), usize::MAX).lines().count()
    );
}

#[test]
fn programs_get_the_promised_keys() {
    let shown = show_json(&ordered(), &FolderInfo::default());
    assert_eq!(shown["format"], 1);
    let sub =
        shown["lanes"].as_array().expect("lanes").iter().find(|lane| lane["kind"] == "sub").expect("a sub");
    assert_eq!((&sub["parent"], &sub["spawned_by"]), (&json!("main"), &json!("spawn")));
    let main = &shown["lanes"][1];
    assert_eq!(main["exchanges"], json!(["r2", "r3", "r4", "r6"]), "attempts included");
    let turn = &main["turns"][1];
    assert_eq!(turn["calls"], json!([{"id": "poll", "name": "Output"}]));
    assert_eq!((&turn["turn"], &turn["seq"], &turn["results"]), (&json!(2), &json!(3), &json!(["spawn"])));
    assert_eq!(turn["usage"]["cache_read"], 300);
}
