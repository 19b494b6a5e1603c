//! Sessions in the formats of two harnesses, in our own words, each for an older and a newer version.

use std::fmt::Write as _;
use std::fs;

use expect_test::{Expect, expect};
use recording::normalize::{Envelope, SessionLane};
use serde_json::{Value, json};

use super::*;

fn check(source: ImportSource, files: Vec<(&str, String)>, expected: Expect) {
    let piece = |(name, text): (&str, String)| SourceFile { name: name.to_owned(), bytes: text.into_bytes() };
    let files: Vec<SourceFile> = files.into_iter().map(piece).collect();
    let imported = source.read(&files);
    let mut text = rendered(&imported.envelope);
    for skipped in &imported.skipped {
        writeln!(text, "skipped {} {} ({})", skipped.count, skipped.what, skipped.first).expect("a string");
    }
    expected.assert_eq(&text);
}

fn rendered(envelope: &Envelope) -> String {
    let mut text = String::new();
    for lane in envelope.lanes.iter().chain(&envelope.side) {
        render(lane, 0, &mut text);
    }
    text
}

fn render(lane: &SessionLane, depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    let or = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
    let spawned = lane.spawned_by.as_ref().map_or("-", |call| call.as_str());
    let (parent, kind, session, agent) =
        (or(&lane.parent), or(&lane.agent_type), or(&lane.session), or(&lane.agent));
    write!(text, "{indent}{} of {parent} by {spawned}: {kind}, {session}/{agent}", lane.id)
        .expect("a string");
    if let Some(job) = &lane.job {
        let how = if job.background { "background" } else { "foreground" };
        let notices: Vec<u32> = job.notices.iter().map(|notice| notice.turn).collect();
        write!(text, ", {how} {:?}->{:?} {notices:?}", job.acknowledged, job.delivered).expect("a string");
    }
    writeln!(text, ", {}+{} tokens", lane.usage.input_total(), lane.usage.output).expect("a string");
    for turn in &lane.turns {
        let results: Vec<String> = turn
            .results
            .iter()
            .map(|result| {
                format!("{}{}{:?}", result.call, if result.is_error { "!" } else { "=" }, result.text)
            })
            .collect();
        let injected: Vec<&str> = turn.injected.iter().map(|said| said.text.as_str()).collect();
        let marks = if turn.marks.is_empty() { String::new() } else { format!(" {:?}", turn.marks) };
        let message = or(&turn.message);
        writeln!(
            text,
            "{indent}  {}/{} {message}{marks} {injected:?} [{}] -> {:?} {:?}",
            turn.turn,
            turn.seq,
            results.join(", "),
            turn.text.as_deref().unwrap_or_default(),
            turn.stop
        )
        .expect("a string");
        for call in &turn.calls {
            writeln!(text, "{indent}    {} {}", call.name, call.id).expect("a string");
            call.started.iter().for_each(|child| render(child, depth + 3, text));
        }
    }
}

/// A transcript record. `at` is in seconds; `agent` is empty for the main agent.
fn record(kind: &str, agent: &str, uuid: &str, at: u32, more: Value) -> String {
    let mut record = json!({ "type": kind, "sessionId": "session-1", "uuid": uuid,
        "timestamp": format!("2026-01-01T00:00:{at:02}.000Z"), "isSidechain": !agent.is_empty() });
    let fields = record.as_object_mut().expect("an object");
    if !agent.is_empty() {
        fields.insert("agentId".into(), agent.into());
    }
    fields.extend(more.as_object().expect("an object").clone());
    format!("{record}\n")
}

fn user(agent: &str, uuid: &str, at: u32, content: Value) -> String {
    record("user", agent, uuid, at, json!({ "message": { "role": "user", "content": content } }))
}

/// A part of the reply `id`. Each part repeats the usage.
fn reply(agent: &str, uuid: &str, at: u32, id: &str, block: Value, stop: Option<&str>) -> String {
    let message = json!({ "type": "message", "role": "assistant", "id": id, "model": "a-model", "content": [block],
        "stop_reason": stop, "usage": { "input_tokens": 10, "output_tokens": 3 } });
    record("assistant", agent, uuid, at, json!({ "message": message }))
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn call(id: &str, name: &str, input: Value) -> Value {
    json!({ "type": "tool_use", "id": id, "name": name, "input": input })
}

fn result(call: &str, text: &str) -> Value {
    json!([{ "type": "tool_result", "tool_use_id": call, "content": [{ "type": "text", "text": text }] }])
}

#[test]
fn agents_in_a_folder_name_their_calls() {
    let launch =
        |prompt: &str| json!({ "prompt": prompt, "subagent_type": "scout", "run_in_background": true });
    let main = [
        user("", "u1", 1, json!("Send two scouts.")),
        record(
            "attachment",
            "",
            "u2",
            1,
            json!({ "rendered": [{ "content": "It is Tuesday." }], "renderedRole": "system" }),
        ),
        reply("", "a1", 2, "reply-1", json!({ "type": "thinking", "thinking": "two" }), None),
        reply("", "a2", 2, "reply-1", call("call-1", "Agent", launch("Go north.")), Some("tool_use")),
        // Tools start before the reply has ended, so a result may come between its parts.
        user("", "u3", 3, result("call-1", "gone, id scout-north1")),
        reply("", "a3", 3, "reply-1", call("call-2", "Agent", launch("Go south.")), Some("tool_use")),
        user("", "u4", 4, result("call-2", "gone, id scout-south2")),
        record("queue-operation", "", "u5", 9, json!({ "content": "scout-north1 is back" })),
        reply("", "a4", 5, "reply-2", text("They are on their way."), Some("end_turn")),
        user("", "u6", 9, json!("scout-north1 is back: snow")),
        record("of-tomorrow", "", "u7", 9, json!({})),
        "{\"cut o\n".to_owned(),
        reply("", "a5", 10, "reply-3", text("North there is snow."), Some("end_turn")),
    ];
    let north = [
        user("scout-north1", "n1", 4, json!("Go north.")),
        reply(
            "scout-north1",
            "n2",
            5,
            "reply-n1",
            call("call-n", "Agent", json!({ "prompt": "Look up." })),
            Some("tool_use"),
        ),
        user("scout-north1", "n3", 7, result("call-n", "clouds")),
        reply("scout-north1", "n4", 8, "reply-n2", text("snow"), Some("end_turn")),
    ];
    let south = [
        user("scout-south2", "s1", 4, json!("Go south.")),
        reply("scout-south2", "s2", 6, "reply-s1", call("call-s", "Look", json!({})), Some("tool_use")),
        user("scout-south2", "s3", 7, result("call-s", "sand")),
    ];
    let up = [
        user("scout-up3", "p1", 6, json!("Look up.")),
        reply("scout-up3", "p2", 6, "reply-p1", text("clouds"), Some("end_turn")),
    ];
    let meta = |call: &str, parent: Option<&str>| {
        json!({ "agentType": "scout", "toolUseId": call, "parentAgentId": parent }).to_string()
    };
    check(
        ImportSource::ClaudeTranscript,
        vec![
            ("p/session-1.jsonl", main.concat()),
            ("p/session-1/subagents/agent-scout-north1.jsonl", north.concat()),
            ("p/session-1/subagents/agent-scout-north1.meta.json", meta("call-1", None)),
            ("p/session-1/subagents/agent-scout-south2.jsonl", south.concat()),
            ("p/session-1/subagents/agent-scout-south2.meta.json", meta("call-2", None)),
            ("p/session-1/subagents/agent-scout-up3.jsonl", up.concat()),
            ("p/session-1/subagents/agent-scout-up3.meta.json", meta("call-n", Some("scout-north1"))),
        ],
        expect![[r#"
            main of - by -: -, session-1/-, 30+9 tokens
              1/1 a1 ["Send two scouts.", "It is Tuesday."] [] -> "" Some(ToolUse)
                Agent call-1
                  sub-1 of main by call-1: scout, session-1/scout-north1, background Some(2)->Some(3) [3], 20+6 tokens
                    1/3 n2 ["Go north."] [] -> "" Some(ToolUse)
                      Agent call-n
                        sub-3 of sub-1 by call-n: scout, session-1/scout-up3, foreground Some(2)->Some(2) [], 10+3 tokens
                          1/5 p2 ["Look up."] [] -> "clouds" Some(EndTurn)
                    2/6 n4 [] [call-n="clouds"] -> "snow" Some(EndTurn)
                Agent call-2
                  sub-2 of main by call-2: scout, session-1/scout-south2, background Some(2)->None [], 10+3 tokens
                    1/4 s2 ["Go south."] [] -> "" Some(ToolUse)
                      Look call-s
              2/2 a4 [] [call-1="gone, id scout-north1", call-2="gone, id scout-south2"] -> "They are on their way." Some(EndTurn)
              3/7 a5 ["scout-north1 is back: snow"] [] -> "North there is snow." Some(EndTurn)
            skipped 1 lines that are not JSON (p/session-1.jsonl:12)
            skipped 1 records of type `of-tomorrow` (p/session-1.jsonl:11)
            skipped 1 results that no reply followed (p/session-1/subagents/agent-scout-south2.jsonl:3)
        "#]],
    );
}

#[test]
fn agents_beside_the_session_are_found_by_prompt_and_id() {
    let launch = |prompt: &str| json!({ "prompt": prompt, "subagent_type": "scout" });
    let started = |mut record: Value, agent: &str| {
        record["toolUseResult"] = json!({ "agentId": agent });
        format!("{record}\n")
    };
    let parsed = |record: String| serde_json::from_str::<Value>(&record).expect("JSON");
    let main = [
        user("", "u1", 1, json!("Send three scouts.")),
        reply("", "a1", 2, "reply-1", call("call-1", "Task", launch("Go north.")), None),
        reply("", "a2", 2, "reply-1", call("call-2", "Task", launch("Go north.")), None),
        reply("", "a3", 2, "reply-1", call("call-3", "Task", launch("Go south.")), Some("tool_use")),
        started(parsed(user("", "u2", 8, result("call-3", "sand"))), "c333333"),
        user("", "u3", 8, result("call-1", "snow, said b222222")),
        user("", "u4", 8, result("call-2", "snow, said a111111")),
        // A harness may report a provider failure as a message of the model.
        record(
            "assistant",
            "",
            "a4",
            9,
            json!({ "message": { "type": "message", "role": "assistant", "id": "x",
            "model": "<synthetic>", "content": [text("The provider failed.")], "usage": {} } }),
        ),
        record(
            "user",
            "",
            "u5",
            9,
            json!({ "isCompactSummary": true, "message": { "role": "user", "content": "So far: snow." } }),
        ),
        reply("", "a5", 10, "reply-2", text("Snow and sand."), Some("end_turn")),
        reply("", "a5", 10, "reply-2", text("Snow and sand."), Some("end_turn")),
    ];
    let scout = |agent: &str, at: u32, prompt: &str, says: &str| {
        let turns = [
            user(agent, &format!("{agent}1"), at, json!(prompt)),
            reply(agent, &format!("{agent}2"), at + 1, &format!("reply-{agent}"), text(says), None),
        ];
        turns.concat()
    };
    check(
        ImportSource::ClaudeTranscript,
        vec![
            ("p/agent-a111111.jsonl", scout("a111111", 3, "Go north.", "snow")),
            ("p/agent-b222222.jsonl", scout("b222222", 4, "Go north.", "snow")),
            ("p/agent-c333333.jsonl", scout("c333333", 5, "You are asked: Go south.", "sand")),
            ("p/agent-d444444.jsonl", scout("d444444", 0, "Are you there?", "yes")),
            ("p/session-1.jsonl", main.concat()),
        ],
        expect![[r#"
            main of - by -: -, session-1/-, 20+6 tokens
              1/2 a1 ["Send three scouts."] [] -> "" Some(ToolUse)
                Task call-1
                  sub-2 of main by call-1: scout, session-1/b222222, foreground Some(2)->Some(2) [], 10+3 tokens
                    1/4 b2222222 ["Go north."] [] -> "snow" None
                Task call-2
                  sub-1 of main by call-2: scout, session-1/a111111, foreground Some(2)->Some(2) [], 10+3 tokens
                    1/3 a1111112 ["Go north."] [] -> "snow" None
                Task call-3
                  sub-3 of main by call-3: scout, session-1/c333333, foreground Some(2)->Some(2) [], 10+3 tokens
                    1/5 c3333332 ["You are asked: Go south."] [] -> "sand" None
              2/6 a5 [Compaction] ["So far: snow."] [call-3="sand", call-1="snow, said b222222", call-2="snow, said a111111"] -> "Snow and sand." Some(EndTurn)
            side-1 of - by -: -, session-1/d444444, 10+3 tokens
              1/1 d4444442 ["Are you there?"] [] -> "yes" None
            skipped 1 duplicate records (p/session-1.jsonl:11)
            skipped 1 replies that no model wrote (p/session-1.jsonl:8)
        "#]],
    );
}

#[test]
fn agents_without_an_id_are_side_chains() {
    let side = |kind: &str, uuid: &str, parent: Option<&str>, at: u32, message: Value| {
        let more = json!({ "isSidechain": true, "parentUuid": parent, "message": message });
        record(kind, "", uuid, at, more)
    };
    let says = |id: &str, text: &str| {
        json!({ "type": "message", "role": "assistant", "id": id, "model": "a-model", "content": [{ "type": "text", "text": text }],
            "stop_reason": "end_turn", "usage": { "input_tokens": 1, "output_tokens": 1 } })
    };
    let main = [
        user("", "u1", 1, json!("Send a scout.")),
        reply("", "a1", 2, "reply-1", call("call-1", "Task", json!({ "prompt": "Go." })), Some("tool_use")),
        side("user", "s1", None, 3, json!({ "role": "user", "content": "Go." })),
        side("assistant", "s2", Some("s1"), 4, says("reply-s", "went")),
        user("", "u2", 5, result("call-1", "went")),
        reply("", "a2", 6, "reply-2", text("It went."), Some("end_turn")),
    ];
    check(
        ImportSource::ClaudeTranscript,
        vec![("session-1.jsonl", main.concat())],
        expect![[r#"
        main of - by -: -, session-1/-, 20+6 tokens
          1/1 a1 ["Send a scout."] [] -> "" Some(ToolUse)
            Task call-1
              sub-1 of main by call-1: -, session-1/s1, foreground Some(2)->Some(2) [], 1+1 tokens
                1/2 s2 ["Go."] [] -> "went" Some(EndTurn)
          2/3 a2 [] [call-1="went"] -> "It went." Some(EndTurn)
    "#]],
    );
}

/// An export. `messages` are `(id, role, created, parts)`.
fn export(id: &str, parent: Option<&str>, messages: &[(&str, &str, u32, Value)]) -> String {
    let message = |(id, role, created, parts): &(&str, &str, u32, Value)| {
        json!({ "info": { "id": id, "role": role, "time": { "created": created }, "modelID": "a-model", "agent": "scout" },
            "parts": parts })
    };
    let messages: Vec<Value> = messages.iter().map(message).collect();
    json!({ "info": { "id": id, "parentID": parent, "time": { "created": 1 } }, "messages": messages })
        .to_string()
}

fn tool(call: &str, name: &str, state: Value) -> Value {
    json!({ "type": "tool", "callID": call, "tool": name, "state": state })
}

fn finish(reason: &str, tokens: Value) -> Value {
    json!({ "type": "step-finish", "reason": reason, "tokens": tokens })
}

#[test]
fn sessions_are_children_of_the_calls_that_name_them() {
    let done = |output: &str, child: &str, end: u32| {
        json!({ "status": "completed", "input": { "prompt": "Go.", "subagent_type": "scout" }, "output": output,
            "metadata": { "sessionId": child }, "time": { "start": 11, "end": end } })
    };
    let tokens = json!({ "input": 10, "output": 3, "reasoning": 2, "cache": { "read": 4, "write": 5 } });
    let main = export(
        "ses_main",
        None,
        &[
            ("msg_1", "user", 5, json!([text("Send scouts.")])),
            (
                "msg_2",
                "assistant",
                10,
                json!([
                    { "type": "step-start" },
                    { "type": "reasoning", "text": "two" },
                    text("They go."),
                    tool("call-1", "task", done("snow", "ses_north", 30)),
                    tool("call-2", "task", done("sent", "ses_south", 12)),
                    tool("call-3", "task", done("lost", "ses_gone", 13)),
                    finish("tool-calls", tokens.clone()),
                ]),
            ),
            (
                "msg_3",
                "assistant",
                31,
                json!([
                    { "type": "step-start" },
                    tool("call-4", "look", json!({ "status": "error", "input": {}, "error": "It is dark.", "time": { "end": 32 } })),
                    tool("call-5", "look", json!({ "status": "running", "input": {} })),
                    finish("tool-calls", tokens.clone()),
                ]),
            ),
            (
                "msg_4",
                "user",
                40,
                json!([{ "type": "text", "text": "ses_south is back", "synthetic": true }, { "type": "hologram" }]),
            ),
            (
                "msg_5",
                "assistant",
                41,
                json!([{ "type": "step-start" }, text("All are back."), finish("stop", tokens.clone())]),
            ),
            ("msg_6", "assistant", 42, json!([])),
        ],
    );
    let child = |id: &str, created: u32, says: &str| {
        let said = json!([{ "type": "step-start" }, text(says), finish("stop", tokens.clone())]);
        let messages = [
            (format!("{id}_1"), "user", created, json!([text("Go.")])),
            (format!("{id}_2"), "assistant", created + 1, said),
        ];
        let messages: Vec<_> =
            messages.iter().map(|(id, role, at, parts)| (id.as_str(), *role, *at, parts.clone())).collect();
        export(id, Some("ses_main"), &messages)
    };
    check(
        ImportSource::OpencodeExport,
        vec![
            ("a.json", child("ses_north", 20, "snow")),
            ("b.json", child("ses_south", 15, "sand")),
            ("main.json", main),
        ],
        expect![[r#"
            main of - by -: -, ses_main/-, 57+9 tokens
              1/1 msg_2 ["Send scouts."] [] -> "They go." Some(ToolUse)
                task call-1
                  sub-2 of main by call-1: scout, ses_north/-, foreground Some(2)->Some(2) [], 19+3 tokens
                    1/3 ses_north_2 ["Go."] [] -> "snow" Some(EndTurn)
                task call-2
                  sub-1 of main by call-2: scout, ses_south/-, background Some(2)->None [3], 19+3 tokens
                    1/2 ses_south_2 ["Go."] [] -> "sand" Some(EndTurn)
                task call-3
              2/4 msg_3 [] [call-1="snow", call-2="sent", call-3="lost"] -> "" Some(ToolUse)
                look call-4
                look call-5
              3/5 msg_5 ["ses_south is back"] [call-4!"It is dark."] -> "All are back." Some(EndTurn)
            skipped 1 calls that have no result (main.json: call-5)
            skipped 1 parts of type `hologram` (main.json)
            skipped 1 replies that never came (main.json)
            skipped 1 sessions that a call started but no file contains (main.json: ses_gone)
        "#]],
    );
}

#[test]
fn each_step_of_a_message_is_a_turn() {
    let tokens = |total: u32| json!({ "input": 10, "output": 3, "reasoning": 2, "total": total, "cache": { "read": 0, "write": 0 } });
    let look = |call: &str, end: u32| {
        tool(call, "look", json!({ "input": {}, "output": "seen", "time": { "end": end } }))
    };
    let main = export(
        "ses_main",
        None,
        &[
            (
                "msg_1",
                "user",
                5,
                json!([text("Look twice."), { "type": "text", "text": "not sent", "ignored": true }]),
            ),
            (
                "msg_2",
                "assistant",
                10,
                json!([
                    { "type": "step-start" }, look("call-1", 20), finish("tool-calls", tokens(15)),
                    { "type": "patch" },
                    { "type": "step-start" }, look("call-2", 30), finish("tool-calls", tokens(13)),
                    { "type": "step-start" }, text("Seen"), text("twice."), finish("length", tokens(15)),
                ]),
            ),
        ],
    );
    check(
        ImportSource::OpencodeExport,
        vec![("main.json", main)],
        expect![[r#"
        main of - by -: -, ses_main/-, 30+13 tokens
          1/1 msg_2 ["Look twice."] [] -> "" Some(ToolUse)
            look call-1
          2/2 msg_2 [] [call-1="seen"] -> "" Some(ToolUse)
            look call-2
          3/3 msg_2 [] [call-2="seen"] -> "Seen\ntwice." Some(MaxTokens)
    "#]],
    );
}

#[test]
fn a_transcript_brings_its_own_agents_along() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let put = |name: &str, text: String| {
        let path = place.path().join(name);
        fs::create_dir_all(path.parent().expect("inside")).expect("a folder");
        fs::write(&path, text).expect("a file");
        path
    };
    let said = |agent: &str, uuid: &str| {
        [user(agent, &format!("{uuid}1"), 1, json!("Go.")), reply(agent, uuid, 2, uuid, text("gone"), None)]
            .concat()
    };
    let main = put("session-1.jsonl", said("", "m"));
    put("agent-beside1.jsonl", said("beside1", "b"));
    put("session-1/subagents/agent-below22.jsonl", said("below22", "c"));
    put("session-1/subagents/agent-below22.meta.json", json!({ "agentType": "scout" }).to_string());
    put("agent-other33.jsonl", said("other33", "d").replace("session-1", "session-2"));
    put("exports/elsewhere.jsonl", said("", "e"));
    let imported = import(ImportSource::ClaudeTranscript, &[&main]).expect("a session");
    assert_eq!(imported.envelope.agents().len() + imported.envelope.side.len(), 3);
    assert_eq!(imported.skipped, []);
    let of_a_recording = import(ImportSource::ClaudeTranscript, &[place.path()]).expect("its exports");
    assert_eq!(of_a_recording.envelope.agents().len(), 1);
    assert_eq!(from_exports(place.path()), Some(of_a_recording.envelope));
    assert!(import(ImportSource::OpencodeExport, &[place.path()]).is_err());
    assert_eq!(from_exports(&place.path().join("session-1")), None);
}
