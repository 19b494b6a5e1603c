//! `offshoot cache` and `--cache-sim`, as a user would.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

mod common;

use common::*;
use serde_json::Value;

const SCRIPT: &str = r#"
format: 1
lanes:
  - lane: any
    match: { any: true }
    turns:
      - repeat: 100
        reply: [ { text: "ok" } ]
        usage: { input: 7, output: 5 }
"#;

const MARK: &str = r#","cache_control":{"type":"ephemeral"}"#;

/// A request whose conversation has so many turns; the newest message is marked, and the instructions are 8,000 bytes.
fn body(system: &str, turns: usize) -> String {
    let rules = "Keep the cutting wet. ".repeat(364);
    let mut messages = Vec::new();
    for turn in 1..=turns {
        let mark = if turn == turns { MARK } else { "" };
        messages.push(format!(
            r#"{{"role":"user","content":[{{"type":"text","text":"question {turn}"{mark}}}]}}"#
        ));
        if turn < turns {
            messages.push(r#"{"role":"assistant","content":"ok"}"#.to_owned());
        }
    }
    format!(
        r#"{{"model":"claude-opus-5","max_tokens":9,"system":[{{"type":"text","text":"{system}{rules}"{MARK}}}],"messages":[{}]}}"#,
        messages.join(",")
    )
}

/// Records what a scripted model says to these requests, one after the other.
fn record(env: &TestEnv, out: &str, more: &[&str], bodies: &[String]) {
    let answers = record_turns(env, out, more, SCRIPT, bodies);
    assert!(answers.iter().all(|answer| answer.starts_with("HTTP/1.1 200")), "{answers:?}");
}

fn record_turns(env: &TestEnv, out: &str, more: &[&str], script: &str, bodies: &[String]) -> Vec<String> {
    env.write("script.yaml", script);
    let arguments = [&["proxy", "--script", "script.yaml", "--out", out], more].concat();
    let proxy = Proxy::start(env, &arguments);
    let asked = |body: &String| String::from_utf8(ask(proxy.addr, &post("/v1/messages", "", body))).unwrap();
    let answers = bodies.iter().map(asked).collect();
    let said = proxy.interrupt();
    assert_eq!(said.code, Some(0), "{said:?}");
    answers
}

fn json(env: &TestEnv, arguments: &[&str]) -> (Option<i32>, Value) {
    let said = env.run(&[&["cache"], arguments, &["--format", "json"]].concat());
    let json = serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said:?}"));
    (said.code, json)
}

fn turns(count: usize) -> Vec<String> {
    (1..=count).map(|turn| body("", turn)).collect()
}

/// An agent that changes a word in every request writes the whole prefix every time.
fn broken(count: usize) -> Vec<String> {
    (1..=count).map(|turn| body(&format!("It is minute {turn}. "), turn)).collect()
}

#[test]
fn a_simulated_cache_is_explained_exactly() {
    let env = TestEnv::new();
    record(&env, "rec", &["--cache-sim"], &turns(3));
    let (code, json) = json(&env, &["rec"]);
    assert_eq!((code, &json["format"]), (Some(0), &Value::from(1)));
    let requests = json["requests"].as_array().unwrap();
    let reads: Vec<u64> = requests.iter().map(|it| it["predicted"]["read"].as_u64().unwrap()).collect();
    assert!(reads[0] == 0 && reads[1] > 2_000 && reads[2] > reads[1], "{reads:?}");
    for (turn, request) in requests.iter().enumerate() {
        assert_eq!(request["predicted"], request["reported"]);
        assert_eq!(request["sure"], if turn == 0 { "calibrated" } else { "exact" });
    }
    let reasons: Vec<&Value> = requests.iter().map(|it| &it["reason"]).collect();
    assert_eq!(reasons, [&Value::from("cold"), &Value::Null, &Value::Null], "a moving marker is harmless");
    assert_eq!(json["totals"]["missed"], 0);
    assert_eq!(json["totals"]["predicted_usd"], json["totals"]["perfect_usd"]);
}

#[test]
fn a_break_is_named_shown_and_priced() {
    let env = TestEnv::new();
    record(&env, "rec", &[], &broken(2));
    let said = env.run(&["cache", "rec"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    text_is(
        &said.stdout,
        "
        LANE     TURN REQUEST   READ  WRITE  INPUT    USAGE R+W WHY NOT MORE
        main        1 r000001      0   2.0k      0          0+0 cold
        main        2 r000002      0   2.0k      0          0+0 system_changed
             +2,010 tokens, $0.0116, against r000001
             block 1 at /system/0/text
             was …It is minute 1. Keep the cutting wet. Keep the cutting wet. …
             now …It is minute 2. Keep the cutting wet. Keep the cutting wet. …

        LANE     REQUESTS   READ  WRITE  INPUT MISSED  INPUT $  USAGE $ PERFECT $
        main            2      0   4.0k      0   2.0k   0.0251   0.0001    0.0136

        confidence: without a usage in 2 requests
        rules: Anthropic (2026-08)
        list prices of 2026-11
        ",
    );
    assert!(said.stdout.lines().all(|line| line.chars().count() <= 80), "eighty columns:\n{}", said.stdout);
}

/// The first try fails and costs nothing; what the second writes the provider has lost when the third asks for it.
#[test]
fn failures_and_unexplained_usage_are_shown() {
    let script = r#"
format: 1
lanes:
  - lane: any
    match: { any: true }
    turns:
      - error: { status: 529 }
      - reply: [ { text: "ok" } ]
        usage: { input: 0, output: 5, cache_write: 2010 }
      - reply: [ { text: "ok" } ]
        usage: { input: 0, output: 5, cache_write: 2020 }
"#;
    let env = TestEnv::new();
    let answers = record_turns(&env, "rec", &[], script, &[body("", 1), body("", 1), body("", 2)]);
    assert!(answers[0].starts_with("HTTP/1.1 529"), "{answers:?}");
    text_is(
        &env.run(&["cache", "rec"]).stdout,
        "
        LANE     TURN REQUEST   READ  WRITE  INPUT    USAGE R+W WHY NOT MORE
        main        1 r000001      0      0      0            - unanswered
        main        1 r000002      0   2.0k      0       0+2.0k cold
        main        2 r000003   2.0k     10      0       0+2.0k unavailable
             +2,010 tokens, $0.0116, against r000002
             block 2 at /messages/0/content/0

        LANE     REQUESTS   READ  WRITE  INPUT MISSED  INPUT $  USAGE $ PERFECT $
        main            2   2.0k   2.0k      0   2.0k   0.0136   0.0252    0.0136

        confidence: calibrated in 1 request, contradicted by the usage in 1
        rules: Anthropic (2026-08)
        list prices of 2026-11
        ",
    );
}

/// The text as it should be, indented by eight.
fn text_is(text: &str, expected: &str) {
    let lines = expected.trim_matches(['\n', ' ']).lines();
    let expected: Vec<&str> = lines.map(|line| line.strip_prefix("        ").unwrap_or(line)).collect();
    assert_eq!(text.trim_end(), expected.join("\n"));
}

#[test]
fn a_lint_fails_on_misses_that_the_golden_lacks() {
    let env = TestEnv::new();
    record(&env, "still", &[], &turns(3));
    record(&env, "broken", &[], &broken(3));
    assert_eq!(env.run(&["cache", "still", "--lint"]).code, Some(0));
    let (code, found) = json(&env, &["broken", "--lint", "--golden", "still"]);
    assert_eq!((code, &found["ok"]), (Some(1), &Value::from(false)));
    let findings = found["findings"].as_array().unwrap();
    let told: Vec<_> = findings.iter().map(|it| (&it["rule"], &it["pointer"])).collect();
    let dead = (&"dead_marker".into(), &"/system/0/cache_control".into());
    assert_eq!(told, [(&"new_break".into(), &"/system/0".into()), dead], "{findings:?}");
    let said = env.run(&["cache", "broken", "--lint"]);
    assert_eq!(said.code, Some(1), "without a golden every break is new: {said:?}");
    let said = env.run(&["cache", "broken", "--lint", "--golden", "broken"]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), "nothing found\n"));
}

/// Dumps of requests and of what was answered to them, ten seconds apart.
fn dump(env: &TestEnv, folder: &str, asked: &[(String, &str)]) {
    for (n, (body, reply)) in asked.iter().enumerate() {
        let id = format!("r{:06}", n + 1);
        let at = |second: usize| format!("2026-11-16T09:{:02}:{:02}.000000Z", n / 6, n % 6 * 10 + second);
        let said = serde_json::json!({
            "request_id": id, "timestamp": at(0), "method": "POST", "targetUrl": "https://x/v1/messages",
            "headers": [], "body": { "text": body },
        });
        let reply = format!(
            r#"{{"id":"msg_{n}","type":"message","role":"assistant","model":"claude-opus-5","content":[{reply}],"stop_reason":"end_turn","usage":{{"input_tokens":0,"output_tokens":1}}}}"#
        );
        let answer = serde_json::json!({
            "request_id": id, "timestamp": at(1), "status": 200,
            "headers": [["content-type", "application/json"]], "firstByteUs": 500_000, "endUs": 1_000_000,
            "ending": "complete", "body": { "text": reply },
        });
        env.write(&format!("{folder}/{id}_request.json"), &said.to_string());
        env.write(&format!("{folder}/{id}_response.json"), &answer.to_string());
    }
}

/// Starts two agents from one reply. The prompt of `alpha` differs from turn to turn.
fn brothers(order: [&str; 2]) -> Vec<(String, &'static str)> {
    let text = |said: &str| format!(r#"{{"type":"text","text":"{said}"{MARK}}}"#);
    let asking = |tool: &str, system: &str, messages: &str| {
        format!(
            r#"{{"model":"claude-opus-5","max_tokens":9,"tools":[{{"name":"{tool}","input_schema":{{}}}}],"system":[{}],"messages":[{messages}]}}"#,
            text(&format!("{system}{}", "Keep the cutting wet. ".repeat(364)))
        )
    };
    const CALLS: &str = r#"{"type":"tool_use","id":"toolu_a","name":"Agent","input":{"prompt":"Do the alpha job now please."}},{"type":"tool_use","id":"toolu_b","name":"Agent","input":{"prompt":"Do the beta job now please."}}"#;
    let started = format!(r#"{{"role":"user","content":[{}]}}"#, text("start both"));
    let mut asked = vec![(asking("Agent", "", &started), CALLS)];
    for turn in 1..=2 {
        for name in order {
            let system = if name == "alpha" { format!("It is minute {turn}. ") } else { "Wait. ".to_owned() };
            let job = text(&format!("Do the {name} job now please."));
            let mut messages = format!(r#"{{"role":"user","content":[{job}]}}"#);
            let call = if name == "alpha" { LOOK[0] } else { LOOK[1] };
            if turn == 2 {
                let id = if name == "alpha" { "toolu_c" } else { "toolu_d" };
                messages += &format!(
                    r#",{{"role":"assistant","content":[{call}]}},{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"{id}","content":"seen"}}]}}"#
                );
            }
            let reply = if turn == 1 { call } else { r#"{"type":"text","text":"done"}"# };
            asked.push((asking("look", &system, &messages), reply));
        }
    }
    asked
}

const LOOK: [&str; 2] = [
    r#"{"type":"tool_use","id":"toolu_c","name":"look","input":{}}"#,
    r#"{"type":"tool_use","id":"toolu_d","name":"look","input":{}}"#,
];

/// Agents are numbered by who asked first, and that is another one from run to run.
#[test]
fn a_golden_is_compared_lane_by_lane() {
    let env = TestEnv::new();
    let (one, other) = (brothers(["alpha", "beta"]), brothers(["beta", "alpha"]));
    dump(&env, "golden", &one);
    dump(&env, "turned", &other);
    dump(&env, "alone", &one[..1]);
    let (_, found) = json(&env, &["turned", "--lint"]);
    assert_eq!(
        (&found["findings"][0]["rule"], &found["findings"][0]["lane"]),
        (&"new_break".into(), &"sub-2".into())
    );
    let said = env.run(&["cache", "turned", "--lint", "--golden", "golden"]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), "nothing found\n"), "{said:?}");
    let (code, found) = json(&env, &["alone", "--lint", "--golden", "golden"]);
    let lanes = found["findings"].as_array().unwrap().iter().map(|it| (&it["rule"], &it["lane"]));
    let lacking = ["sub-1", "sub-2"].map(Value::from);
    let unseen = Value::from("unseen");
    assert_eq!(lanes.collect::<Vec<_>>(), [(&unseen, &lacking[0]), (&unseen, &lacking[1])]);
    assert_eq!(code, Some(1));
}

/// A summary starts a new prefix on purpose.
#[test]
fn a_compaction_is_named_and_passes() {
    let env = TestEnv::new();
    let of = |said: &str| {
        let text = format!("{said}{}", "And so on. ".repeat(400));
        let opening = body("", 1).replace("question 1", &text);
        opening.replace(r#""max_tokens":9"#, r#""max_tokens":9,"tools":[{"name":"look","input_schema":{}}]"#)
    };
    let reply = r#"{"type":"text","text":"The cutting is wet and stands in the sun today."}"#;
    let summary = "Up to now: the cutting is wet and stands in the sun today. ";
    dump(&env, "rec", &[(of("How is it? "), reply), (of(summary), reply)]);
    let (code, told) = json(&env, &["rec", "--lint"]);
    let requests: Vec<_> =
        told["requests"].as_array().unwrap().iter().map(|it| (&it["turn"], &it["reason"])).collect();
    assert_eq!(requests, [(&1.into(), &"cold".into()), (&2.into(), &"compacted".into())], "{told}");
    assert_eq!((code, &told["totals"]["missed"]), (Some(0), &0.into()), "{told}");
}

#[test]
fn a_lint_finds_values_that_change_daily() {
    let env = TestEnv::new();
    record(&env, "rec", &[], &[body("Session 6f9619ff-8b86-d011-b42d-00cf4fc964ff. ", 1)]);
    let said = env.run(&["cache", "rec", "--lint"]);
    assert_eq!(said.code, Some(1));
    assert!(said.stdout.starts_with("volatile     main at /system/0\n"), "{}", said.stdout);
}

/// Two questions behind one answer, both of which go on: one of them is a fork, and reads what came before.
#[test]
fn a_fork_is_measured_by_its_parent() {
    let fork = |system: &str| body(system, 2).replace("question 2", "another question");
    let env = TestEnv::new();
    let shared = [body("", 1), body("", 2), fork(""), body("", 3)];
    record(&env, "shared", &["--cache-sim"], &shared);
    let (code, found) = json(&env, &["shared", "--lint"]);
    assert_eq!((code, &found["findings"]), (Some(0), &Value::Array(Vec::new())));
    let request = &found["requests"][2];
    assert_eq!((&request["lane"], &request["after"]), (&"fork-1".into(), &"r000001".into()), "{request}");
    assert_eq!(request["predicted"]["read"], found["requests"][0]["predicted"]["write_5m"]);
    record(&env, "cold", &["--cache-sim"], &[body("", 1), body("", 2), fork("Be kind. "), body("", 3)]);
    let (code, found) = json(&env, &["cold", "--lint"]);
    let rules: Vec<&Value> = found["findings"].as_array().unwrap().iter().map(|it| &it["rule"]).collect();
    assert_eq!(code, Some(1));
    assert_eq!(
        (rules.contains(&&"cold_fork".into()), &found["requests"][2]["reason"]),
        (true, &"system_changed".into())
    );
}

#[test]
fn verify_prices_a_change_of_the_prompt() {
    let env = TestEnv::new();
    record(&env, "golden", &[], &turns(3));
    record(&env, "candidate", &[], &broken(3));
    let said = env.run(&["verify", "golden", "candidate"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    let told = "cache, main: this breaks the prefix at block 1 (`/system/0`), +2,012 tokens a turn";
    assert!(said.stdout.contains(told), "{}", said.stdout);
    let json = env.run(&["verify", "golden", "candidate", "--format", "json"]);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["cache"][0]["reason"], "system_changed", "{json}");
    assert_eq!(json["cache"].as_array().unwrap().len(), 1, "{json}");
    let other: Vec<String> = (1..=3).map(|turn| body("Be kind. ", turn)).collect();
    record(&env, "other", &[], &other);
    let said = env.run(&["verify", "golden", "other"]);
    let told = "cache, main: another prompt from block 1 (`/system/0`) on, 2,008 tokens are written once";
    assert!(said.stdout.contains(told), "{}", said.stdout);
    let same = env.run(&["verify", "golden", "golden", "--format", "json"]);
    let same: Value = serde_json::from_str(&same.stdout).unwrap();
    assert_eq!(same["cache"], Value::Array(Vec::new()));
}

/// The recorded usage says that nothing was cached; the simulated one that all was.
#[test]
fn a_replay_reports_its_simulated_cache() {
    let env = TestEnv::new();
    record(&env, "rec", &[], &turns(2));
    for (more, reads) in [(&[][..], 0), (&["--cache-sim"], 2_000)] {
        let arguments = [&["replay", "rec", "--listen", "127.0.0.1:0"], more].concat();
        let player = Proxy::start(&env, &arguments);
        let read: Vec<u64> = turns(2).iter().map(|body| cache_read(player.addr, body)).collect();
        assert_eq!(read[0], 0);
        assert!(read[1] >= reads && (reads > 0 || read[1] == 0), "{more:?}: {read:?}");
        let said = player.interrupt();
        assert_eq!(said.code, Some(0), "{said:?}");
    }
}

fn cache_read(addr: std::net::SocketAddr, body: &str) -> u64 {
    let answer = String::from_utf8(ask(addr, &post("/v1/messages", "", body))).unwrap();
    let (_, answer) = answer.split_once("\r\n\r\n").unwrap();
    let answer: Value = serde_json::from_str(answer).unwrap_or_else(|error| panic!("{error}: {answer}"));
    answer["usage"]["cache_read_input_tokens"].as_u64().unwrap()
}

/// A run of our own: its markers, on simulated usage, and the cost of it.
#[test]
fn a_run_is_explained_from_the_journal() {
    let env = TestEnv::new();
    env.write("a.txt", "alpha\n");
    env.write(
        "run.yaml",
        r#"
format: 1
lanes:
  - lane: main
    match: { tools_include: [get_time] }
    turns:
      - reply: [ { call: { tool: read, id: toolu_a, input: { path: "a.txt" } } } ]
      - reply: [ { call: { tool: read, id: toolu_b, input: { path: "a.txt" } } } ]
      - reply: [ { text: "It says alpha." } ]
"#,
    );
    let said = env.run(&["run", "--script", "run.yaml", "--cache-sim", "--model", "opus", "Read a.txt"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let ps: Value = serde_json::from_str(&env.run(&["ps", "--format", "json"]).stdout).unwrap();
    let run = ps["runs"][0]["run"].as_str().unwrap();
    assert!(ps["runs"][0]["usage"]["cache_read"].as_u64().unwrap() > 0, "{ps}");
    let (code, explained) = json(&env, &[run]);
    assert_eq!(code, Some(0));
    let requests = explained["requests"].as_array().unwrap();
    assert_eq!(requests.len(), 3);
    for (turn, request) in requests.iter().enumerate() {
        assert_eq!(request["lane"], run);
        assert_eq!(request["predicted"], request["reported"], "turn {turn}");
        let wanted = if turn == 0 { Value::from("cold") } else { Value::Null };
        assert_eq!(request["reason"], wanted, "our own prefix never breaks");
    }
}

/// Our own agent passes its lint, also after a conversation was replaced by a summary.
#[test]
fn a_run_that_was_compacted_passes() {
    let env = TestEnv::new();
    env.write("a.txt", &"alpha beta gamma\n".repeat(300));
    env.write(
        "run.yaml",
        r#"
format: 1
lanes:
  - lane: main
    match: { any: true }
    turns:
      - reply: [ { call: { tool: read, id: toolu_a, input: { path: "a.txt" } } } ]
      - reply: [ { call: { tool: read, id: toolu_b, input: { path: "a.txt" } } } ]
        usage: { input: 5000000, output: 5 }
      - reply: [ { text: "It was about alpha." } ]
      - reply: [ { text: "It says alpha." } ]
"#,
    );
    let said = env.run(&["run", "--script", "run.yaml", "--model", "opus", "Read a.txt"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let run = said.stderr.lines().rev().find_map(|line| line.strip_prefix("run ")).unwrap().trim();
    let (code, told) = json(&env, &[run, "--lint"]);
    let reasons: Vec<&Value> = told["requests"].as_array().unwrap().iter().map(|it| &it["reason"]).collect();
    assert_eq!(reasons, [&"cold".into(), &Value::Null, &Value::Null, &"compacted".into()], "{told}");
    assert_eq!(code, Some(0), "{}", told["findings"]);
}

#[test]
fn mistakes_are_reported_with_a_hint() {
    let env = TestEnv::new();
    for arguments in [&["cache", "nowhere"][..], &["cache", "./nowhere"]] {
        let said = env.run(arguments);
        assert_eq!(said.code, Some(2), "{said:?}");
        assert!(said.stderr.contains("hint: ") && said.stdout.is_empty(), "{said:?}");
    }
    let said = env.run(&["cache", "x", "--golden", "y"]);
    assert_eq!(said.code, Some(2), "a golden is for --lint: {said:?}");
    let said = env.run(&["cache", "1m7g0c8g", "--lint", "--golden", "y"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(
        said.stderr.contains("cannot be compared with a golden") && said.stderr.contains("hint: "),
        "{said:?}"
    );
    let said = env.run(&["proxy", "--upstream", "http://127.0.0.1:1", "--cache-sim", "--out", "rec"]);
    assert_eq!(said.code, Some(2), "a real provider has its own cache: {said:?}");
}

/// A fork without a transcript leaves nothing but its usage; so does one whose words are no longer those that were sent.
#[test]
fn requests_with_usage_only_are_shown() {
    let env = TestEnv::new();
    env.write("run.yaml", SCRIPT);
    let run = |more: &[&str]| env.run(&[&["run", "--script", "run.yaml", "--cache-sim"], more].concat());
    let said = run(&["Is it?"]);
    let main =
        said.stderr.lines().rev().find_map(|line| line.strip_prefix("run ")).unwrap().trim().to_owned();
    assert_eq!(run(&["--fork-of", &main, "Is it still so?"]).code, Some(0));
    assert_eq!(json(&env, &[&main]).1["left_out"]["requests"], 0);
    let mut folders = vec![env.path(".")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            match entry.is_dir() {
                true => folders.push(entry),
                false => forget(&entry, b"Is it still so?"),
            }
        }
    }
    let told = json(&env, &[&main]).1;
    assert_eq!(told["requests"].as_array().unwrap().len(), 1, "{told}");
    assert_eq!(told["left_out"]["requests"], 1, "{told}");
    assert!(told["left_out"]["reported"]["read"].as_u64().unwrap() > 1_000, "{told}");
    let text = env.run(&["cache", &main]).stdout;
    assert!(text.contains("not in the sums: 1 request known only by usage"), "{text}");
}

/// Puts other words into a file, wherever it has these.
fn forget(path: &std::path::Path, words: &[u8]) {
    let mut bytes = std::fs::read(path).unwrap();
    let places: Vec<usize> =
        bytes.windows(words.len()).enumerate().filter(|(_, it)| *it == words).map(|(at, _)| at).collect();
    for at in &places {
        bytes[*at..at + words.len()].fill(b'x');
    }
    if !places.is_empty() {
        std::fs::write(path, bytes).unwrap();
    }
}

#[test]
fn the_cache_reads_of_a_fork_are_found_by_its_own_id() {
    let env = TestEnv::new();
    let script = "format: 1\nlanes:\n  - lane: all\n    match: { any: true }\n    turns:\n      - reply: [ { text: 'Yes.' } ]\n      - reply: [ { text: 'Still.' } ]\n";
    env.write("run.yaml", script);
    let run = |more: &[&str]| env.run(&[&["run", "--script", "run.yaml", "--cache-sim"], more].concat());
    let said = run(&["Is it?"]);
    let id = |said: &CommandOutput| {
        said.stderr.lines().rev().find_map(|line| line.strip_prefix("run ")).unwrap().trim().to_owned()
    };
    let main = id(&said);
    let said = run(&["--fork-of", &main, "Is it still?"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let fork = id(&said);
    let requests = |run: &str| -> Vec<serde_json::Value> {
        let said = env.run(&["cache", run, "--format", "json"]);
        let told: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
        told["requests"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|it| it["lane"] == fork.as_str())
            .cloned()
            .collect()
    };
    let own = requests(&fork);
    assert_eq!(own, requests(&main), "the same, whoever is asked about");
    assert!(own[0]["predicted"]["read"].as_u64().unwrap() > 1_000 && own[0]["sure"] == "exact", "{own:?}");
}
