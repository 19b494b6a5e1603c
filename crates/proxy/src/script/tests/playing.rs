//! Requests at given positions, and the replies of the script.

use std::fmt::Write as _;

use expect_test::{Expect, expect};
use recording::lanes::Position;
use serde_json::json;
use session::Block;
use wire::dialect::{Dialect, Prompt};

use super::super::player::{ClaimedTurn, ScriptPlayer, ScriptedReply};
use super::parse;

/// Plays one request per line: `LANE.TURN`, with `/ATTEMPT` from the second on, then its parts divided by `|`. A reply counts
/// as sent at once, unless `~` precedes the line. `sent LANE.TURN` sends it later, and `again LANE.TURN` checks a request
/// again that had to wait.
fn check(script: &str, requests: &str, expect: Expect) {
    let mut player =
        ScriptPlayer::new(parse(script).unwrap_or_else(|error| panic!("{error}")), "/work".to_owned());
    let mut waiting: Vec<(String, ClaimedTurn, Prompt)> = Vec::new();
    let mut unsent: Vec<(String, ClaimedTurn, ScriptedReply)> = Vec::new();
    let mut out = String::new();
    for request in requests.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(place) = request.strip_prefix("sent ") {
            let at = unsent.iter().position(|(known, ..)| known == place).expect(request);
            let (_, ticket, line) = unsent.remove(at);
            player.mark_sent(&ticket, &line);
            continue;
        }
        let (place, ticket, prompt, holds) = match request.strip_prefix("again ") {
            Some(place) => {
                let at = waiting.iter().position(|(known, ..)| known == place).expect(request);
                let (place, ticket, prompt) = waiting.remove(at);
                (place, Ok(ticket), prompt, false)
            }
            None => {
                let request = Request::parse(request);
                let taken = player.claim(&request.prompt, request.position, request.continues);
                (request.place, taken, request.prompt, request.holds)
            }
        };
        let ticket = match ticket {
            Ok(ticket) => ticket,
            Err(miss) => {
                writeln!(out, "{place}  miss: {}", miss.0).expect("a string");
                continue;
            }
        };
        if let Some(wait) = player.unmet_waits(&ticket).first() {
            writeln!(out, "{place}  waits; {}", player.timeout_miss(&ticket, wait).0).expect("a string");
            waiting.push((place, ticket, prompt));
            continue;
        }
        match player.reply(&ticket, &prompt) {
            Ok(line) => {
                writeln!(out, "{place}  {}", rendered(&line)).expect("a string");
                if holds {
                    unsent.push((place, ticket, line));
                } else {
                    player.mark_sent(&ticket, &line);
                }
            }
            Err(miss) => writeln!(out, "{place}  miss: {}", miss.0).expect("a string"),
        }
    }
    for unused in player.unused() {
        writeln!(out, "unused: {} {}", unused.lane, unused.turn).expect("a string");
    }
    expect.assert_eq(&out);
}

struct Request {
    place: String,
    holds: bool,
    position: Position,
    continues: Option<String>,
    prompt: Prompt,
}

impl Request {
    fn parse(line: &str) -> Self {
        let mut parts = line.split('|').map(str::trim);
        let place = parts.next().unwrap_or_default();
        let (place, holds) = place.strip_prefix('~').map_or((place, false), |place| (place, true));
        let (spot, attempt) = place.split_once('/').unwrap_or((place, "1"));
        let (lane, turn) = spot.split_once('.').expect(line);
        let number = |text: &str| text.parse::<u32>().expect(line);
        let position = Position {
            lane: number(lane) as usize,
            turn: number(turn),
            attempt: number(attempt),
            is_new: turn == "1" && attempt == "1",
            from: None,
        };
        let mut body = json!({"model": "m", "tools": []});
        let (mut user, mut context, mut newest, mut continues) = ("go", None, Vec::new(), None);
        for part in parts {
            let (what, rest) = part.split_once(' ').unwrap_or((part, ""));
            match what {
                "tools" => {
                    body["tools"] =
                        rest.split(' ').map(|name| json!({"name": name, "input_schema": {}})).collect();
                }
                "system" | "model" => body[what] = rest.into(),
                "user" => user = rest,
                "context" => context = Some(format!("<context>\n{rest}\n</context>")),
                "text" => newest.push(json!({"type": "text", "text": rest})),
                "after" => continues = Some(rest.to_owned()),
                "result" => {
                    let (id, text) = rest.split_once(' ').expect(line);
                    newest.push(json!({"type": "tool_result", "tool_use_id": id, "content": text}));
                }
                other => panic!("{other} in {line}"),
            }
        }
        let texts = context.iter().map(String::as_str).chain([user]);
        let texts: Vec<_> = texts.map(|text| json!({"type": "text", "text": text})).collect();
        let mut messages = vec![json!({"role": "user", "content": texts})];
        if !newest.is_empty() {
            messages.push(json!({"role": "assistant", "content": "before"}));
            messages.push(json!({"role": "user", "content": newest}));
        }
        body["messages"] = messages.into();
        let prompt = Dialect::AnthropicMessages.decode_request(body.to_string().as_bytes()).expect(line);
        Self { place: place.to_owned(), holds, position, continues, prompt }
    }
}

fn rendered(line: &ScriptedReply) -> String {
    let reply = match line {
        ScriptedReply::Error { status, kind, message, retry_after } => {
            return format!("error {status} {kind:?} {message:?} {retry_after:?}");
        }
        ScriptedReply::Reply(reply) => reply,
    };
    let said = reply.blocks.iter().map(|block| match block {
        Block::Text { text } => format!("{text:?}"),
        Block::Thinking { text, .. } => format!("({text})"),
        Block::ToolCall(call) => format!("{}#{}{}", call.name, call.id, call.input),
        other => format!("{other:?}"),
    });
    let stop = reply.stop.as_ref().map(|stop| format!("{stop:?}")).unwrap_or_default();
    format!("{}: {} [{stop}]", reply.id, said.collect::<Vec<_>>().join(" "))
}

/// Returns a script with these lanes.
fn script(lanes: &str) -> String {
    format!("format: 1\nlanes:\n{lanes}")
}

/// Returns a script with a lane `main` that matches all requests, with these turns.
fn main_lane(turns: &str) -> String {
    script(&format!("  - lane: main\n    match: {{ any: true }}\n    turns:\n{turns}"))
}

#[test]
fn a_lane_is_found_once_and_kept() {
    let lanes = "
  - { lane: tools, match: { tools_include: [Agent, task] }, turns: [ { reply: [ { text: a } ] }, { reply: [ { text: b } ] } ] }
  - { lane: system, match: { system_contains: scan, model: m }, turns: [ { reply: [ { text: c } ] } ] }
  - { lane: prompt, match: { prompt_contains: [list, count] }, turns: [ { reply: [ { text: d } ] } ] }
  - { lane: fork, match: { text_contains: fork }, turns: [ { reply: [ { text: e } ] } ] }
  - { lane: not, match: { tools_exclude: Read, model: [m, n] }, turns: [ { reply: [ { text: f } ] } ] }
  - { lane: side, match: { no_tools: true }, turns: [ { reply: [ { text: g } ] } ] }
";
    check(
        &script(lanes),
        "
        0.1 | tools Read task
        1.1 | tools Read | system you scan
        2.1 | tools Read | user count them
        3.1 | tools Read | text you are a fork
        4.1 | tools Write
        5.1 | tools Read | model o
        6.1 | model o
        0.2 | tools Write | user list
        ",
        expect![[r#"
            0.1  msg_tools_1: "a" [EndTurn]
            1.1  msg_system_1: "c" [EndTurn]
            2.1  msg_prompt_1: "d" [EndTurn]
            3.1  msg_fork_1: "e" [EndTurn]
            4.1  msg_not_1: "f" [EndTurn]
            5.1  miss: no lane of the script matches this request; its lanes are `tools`, `system`, `prompt`, `fork`, `not`, `side`
            6.1  msg_side_1: "g" [EndTurn]
            0.2  msg_tools_2: "b" [EndTurn]
        "#]],
    );
}

#[test]
fn a_prompt_is_what_the_user_says_and_not_the_context_before_it() {
    let lanes = "
  - { lane: first, match: { prompt_contains: first errand }, turns: [ { reply: [ { text: a } ] } ] }
  - { lane: second, match: { text_contains: second errand }, turns: [ { reply: [ { text: b } ] } ] }
  - { lane: other, match: { any: true }, turns: [ { reply: [ { text: c } ] } ] }
";
    check(
        &script(lanes),
        "
        0.1 | context - the first errand | user the second errand
        1.1 | context - the second errand | user the first errand
        2.1 | context - the first errand | user a third
        3.1 | user <context> first errand </context>
        ",
        expect![[r#"
            0.1  msg_second_1: "b" [EndTurn]
            1.1  msg_first_1: "a" [EndTurn]
            2.1  msg_other_1: "c" [EndTurn]
            3.1  msg_first-2_1: "a" [EndTurn]
        "#]],
    );
}

#[test]
fn a_turn_may_depend_on_the_whole_conversation_and_on_tools_that_are_missing() {
    let turns = "
      - { when: { tools_exclude: Stop }, reply: [ { text: no stop } ] }
      - { when: { messages_contain: [never, started], tools_include: Stop }, reply: [ { text: started } ] }
      - { reply: [ { text: other } ] }
";
    check(
        &main_lane(turns),
        "
        0.1 | tools Stop | user it was started | result t1 fine
        1.1 | tools Stop | result t1 fine
        2.1 | tools Read
        ",
        expect![[r#"
            0.1  msg_main_1: "started" [EndTurn]
            1.1  msg_main-2_1: "other" [EndTurn]
            2.1  msg_main-3_1: "no stop" [EndTurn]
        "#]],
    );
}

#[test]
fn a_turn_may_wait_for_an_agent_to_ask() {
    let lanes = "
  - { lane: main, match: { tools_include: Agent }, turns: [ { wait_for: [ { lane: sub, count: 1 } ], reply: [ { text: a } ] } ] }
  - { lane: sub, match: { any: true }, turns: [ { wait_for: [ { lane: main, turn: 1 } ], reply: [ { text: b } ] } ] }
";
    check(
        &script(lanes),
        "
        0.1 | tools Agent
        1.1 | tools Read
        again 0.1
        again 1.1
        ",
        expect![[r#"
            0.1  waits; turn 1 of lane `main` waited 30000 ms for the first request of lane `sub`; 0 of 1 agents started
            1.1  waits; turn 1 of lane `sub` waited 30000 ms for turn 1 of lane `main`
            0.1  msg_main_1: "a" [EndTurn]
            1.1  msg_sub_1: "b" [EndTurn]
        "#]],
    );
}

#[test]
fn turns_come_one_after_the_other_and_attempts_get_the_same() {
    let turns = "
      - reply: [ { thinking: hm }, { text: one }, { call: { tool: [ls, List], input: { b: 1, a: x } } } ]
      - { reply: [ { text: two } ], stop_reason: max_tokens }
";
    check(
        &main_lane(turns),
        "
        0.1 | tools List
        0.1/2 | tools List
        0.2
        0.2/2
        0.3
        0.3/2
        ",
        expect![[r#"
            0.1  msg_main_1: (hm) "one" List#toolu_main_1_2{"b":1,"a":"x"} [ToolUse]
            0.1/2  msg_main_1: (hm) "one" List#toolu_main_1_2{"b":1,"a":"x"} [ToolUse]
            0.2  msg_main_2: "two" [MaxTokens]
            0.2/2  msg_main_2: "two" [MaxTokens]
            0.3  miss: lane `main` has no turn for its request 3: all 2 turns of the script are used
            0.3/2  miss: lane `main` has no turn for its request 3: all 2 turns of the script are used
        "#]],
    );
}

#[test]
fn an_unoffered_call_may_be_made() {
    let turns = "
      - reply: [ { call: { tool: [Write, write], id: a, unoffered: true, input: { path: p } } } ]
      - reply: [ { call: [ { tool: Write, unoffered: true }, { tool: Edit } ] } ]
";
    check(
        &main_lane(turns),
        "
        0.1 | tools Read write
        1.1 | tools Read
        1.2 | tools Edit
        ",
        expect![[r#"
            0.1  msg_main_1: write#a{"path":"p"} [ToolUse]
            1.1  msg_main-2_1: Write#a-2{"path":"p"} [ToolUse]
            1.2  msg_main-2_2: Edit#toolu_main-2_2_0{} [ToolUse]
        "#]],
    );
}

#[test]
fn a_tool_that_is_not_offered_is_named_and_an_attempt_may_offer_it() {
    let turns = "
      - reply:
          - call: [ { tool: [Agent, Task], id: a, input: { prompt: p } }, { tool: background_task, input: { agent: p } } ]
      - reply: [ { call: { tool: free, input: \"*** begin\" } } ]
";
    check(
        &main_lane(turns),
        "
        0.1 | tools Read Write
        0.1/2
        0.1/3 | tools background_task
        1.1 | tools Task background_task
        1.2 | tools free
        ",
        expect![[r#"
            0.1  miss: turn 1 of lane `main` calls `Agent` or `Task` or `background_task`; the request offers `Read`, `Write`
            0.1/2  miss: turn 1 of lane `main` calls `Agent` or `Task` or `background_task`; the request offers no tool
            0.1/3  msg_main_1: background_task#toolu_main_1_0{"agent":"p"} [ToolUse]
            1.1  msg_main-2_1: Task#a-2{"prompt":"p"} [ToolUse]
            1.2  msg_main-2_2: free#toolu_main-2_2_0*** begin [ToolUse]
        "#]],
    );
}

#[test]
fn when_skips_and_repeat_ends() {
    let turns = "
      - reply: [ { text: start } ]
      - { when: { results_contain: running }, repeat: 2, reply: [ { text: poll }, { call: { tool: out, id: p } } ] }
      - { when: { text_contains: [woken, awake] }, reply: [ { text: hello } ] }
      - { when: { tools_include: more }, reply: [ { text: more } ] }
      - { when: { results_contain: done }, reply: [ { text: end } ] }
";
    check(
        &main_lane(turns),
        "
        0.1
        0.2 | tools out | result x still running
        0.3 | tools out | result p running
        0.4 | tools out | result p-2 running
        0.4/2 | tools out | result p-2 all done
        0.5
        1.1
        1.2 | text you are awake
        1.3 | tools more
        2.1
        2.2 | result x done
        ",
        expect![[r#"
            0.1  msg_main_1: "start" [EndTurn]
            0.2  msg_main_2: "poll" out#p{} [ToolUse]
            0.3  msg_main_3: "poll" out#p-2{} [ToolUse]
            0.4  miss: lane `main` has no turn for its request 4: the script has no turn from 3 on whose `when` holds
            0.4/2  msg_main_4: "end" [EndTurn]
            0.5  miss: lane `main` has no turn for its request 5: all 5 turns of the script are used
            1.1  msg_main-2_1: "start" [EndTurn]
            1.2  msg_main-2_2: "hello" [EndTurn]
            1.3  msg_main-2_3: "more" [EndTurn]
            2.1  msg_main-3_1: "start" [EndTurn]
            2.2  msg_main-3_2: "end" [EndTurn]
        "#]],
    );
}

#[test]
fn values_are_captured_and_filled_in() {
    let lanes = r#"
  - lane: main
    match: { tools_include: Agent }
    turns:
      - reply: [ { call: { tool: Agent, id: a, input: { cwd: "${workspace}" } } } ]
      - capture:
          agent: { result_of: a, regex: 'agentId: (\w+)' }
          day: { in: system, regex: '\d{4}' }
          note: { in: messages, regex: 'note (\w+)' }
        reply: [ { text: "${agent} ${day} ${note} $${x}" }, { call: { tool: Agent, input: { list: [ "<${agent}>", 1 ] } } } ]
  - lane: sub
    match: { any: true }
    turns:
      - reply: [ { text: "${lane} ${turn} knows ${agent}" } ]
"#;
    check(
        &script(lanes),
        "
        9.1
        0.1 | tools Agent
        1.1 | tools Agent
        0.2 | tools Agent | system in 2026 | result a agentId: a77 | text note this
        1.2 | tools Agent | system in 2027 | result a-2 agentId: a88 | result a agentId: a00 | text note that
        2.1
        3.1 | tools Agent
        3.2 | tools Agent | system in 2028 | result a-3 failed | text note it
        4.1 | tools Agent
        4.2 | tools Agent | result a-4 agentId: a99
        ",
        expect![[r#"
            9.1  miss: turn 1 of lane `sub` uses `${agent}`, which has no value yet
            0.1  msg_main_1: Agent#a{"cwd":"/work"} [ToolUse]
            1.1  msg_main-2_1: Agent#a-2{"cwd":"/work"} [ToolUse]
            0.2  msg_main_2: "a77 2026 this ${x}" Agent#toolu_main_2_1{"list":["<a77>",1]} [ToolUse]
            1.2  msg_main-2_2: "a88 2027 that ${x}" Agent#toolu_main-2_2_1{"list":["<a88>",1]} [ToolUse]
            2.1  msg_sub-2_1: "sub-2 1 knows a88" [EndTurn]
            3.1  msg_main-3_1: Agent#a-3{"cwd":"/work"} [ToolUse]
            3.2  miss: turn 2 of lane `main-3` uses `${agent}`, which has no value: turn 2 of lane `main-3` found no `agentId: (\w+)` in the result of `a`
            4.1  msg_main-4_1: Agent#a-4{"cwd":"/work"} [ToolUse]
            4.2  miss: turn 2 of lane `main-4` uses `${day}`, which has no value: turn 2 of lane `main-4` found no `\d{4}` in the request's system
        "#]],
    );
}

#[test]
fn an_agent_waits_for_all_on_a_lane() {
    let lanes = "
  - lane: main
    match: { tools_include: Agent }
    turns:
      - { wait_for: [ { lane: sub, finished: true, count: 2, timeout_ms: 70 } ], reply: [ { text: both } ] }
  - lane: early
    match: { system_contains: early }
    turns:
      - { wait_for: [ { lane: sub, turn: 1 } ], reply: [ { text: early } ] }
  - lane: sub
    match: { any: true }
    turns:
      - reply: [ { call: { tool: ls } } ]
      - reply: [ { text: listed } ]
      - { when: { text_contains: more }, reply: [ { text: more } ] }
";
    check(
        &script(lanes),
        "
        0.1 | tools Agent
        1.1 | system early
        2.1 | tools ls
        again 1.1
        again 0.1
        2.2
        again 0.1
        ~3.1 | tools ls
        again 0.1
        3.2
        again 0.1
        2.3 | text more
        ",
        expect![[r#"
            0.1  waits; turn 1 of lane `main` waited 70 ms for the end of lane `sub`; 0 of 2 agents started
            1.1  waits; turn 1 of lane `early` waited 30000 ms for turn 1 of lane `sub`; 0 of 1 agents started
            2.1  msg_sub_1: ls#toolu_sub_1_0{} [ToolUse]
            1.1  msg_early_1: "early" [EndTurn]
            0.1  waits; turn 1 of lane `main` waited 70 ms for the end of lane `sub`; 1 of 2 agents started
            2.2  msg_sub_2: "listed" [EndTurn]
            0.1  waits; turn 1 of lane `main` waited 70 ms for the end of lane `sub`; 1 of 2 agents started
            3.1  msg_sub-2_1: ls#toolu_sub-2_1_0{} [ToolUse]
            0.1  waits; turn 1 of lane `main` waited 70 ms for the end of lane `sub`
            3.2  msg_sub-2_2: "listed" [EndTurn]
            0.1  msg_main_1: "both" [EndTurn]
            2.3  msg_sub_3: "more" [EndTurn]
        "#]],
    );
    check(
        &script(lanes),
        "
        0.1 | tools Agent
        2.1 | tools ls
        3.1 | tools ls
        2.2
        ~3.2
        again 0.1
        0.1/2 | tools Agent
        sent 3.2
        again 0.1
        again 0.1/2
        ",
        expect![[r#"
            0.1  waits; turn 1 of lane `main` waited 70 ms for the end of lane `sub`; 0 of 2 agents started
            2.1  msg_sub_1: ls#toolu_sub_1_0{} [ToolUse]
            3.1  msg_sub-2_1: ls#toolu_sub-2_1_0{} [ToolUse]
            2.2  msg_sub_2: "listed" [EndTurn]
            3.2  msg_sub-2_2: "listed" [EndTurn]
            0.1  waits; turn 1 of lane `main` waited 70 ms for the end of lane `sub`
            0.1/2  waits; turn 1 of lane `main` waited 70 ms for the end of lane `sub`
            0.1  msg_main_1: "both" [EndTurn]
            0.1/2  msg_main_1: "both" [EndTurn]
            unused: early 1
            unused: sub 3
        "#]],
    );
}

#[test]
fn errors_are_sent_once_and_the_next_attempt_continues() {
    let turns = "
      - { error: { status: 529, retry_after: 0 }, repeat: 2 }
      - error: { status: 400, kind: odd_error, message: \"no ${lane}\" }
      - reply: [ { text: at last } ]
";
    check(
        &main_lane(turns),
        "0.1\n0.1/2\n0.1/3\n0.1/4\n0.1/5\n0.2",
        expect![[r#"
            0.1  error 529 None "error scripted by turn 1 of lane `main`" Some(0)
            0.1/2  error 529 None "error scripted by turn 1 of lane `main`" Some(0)
            0.1/3  error 400 Some("odd_error") "no main" None
            0.1/4  msg_main_4: "at last" [EndTurn]
            0.1/5  msg_main_4: "at last" [EndTurn]
            0.2  miss: lane `main` has no turn for its request 5: all 3 turns of the script are used
        "#]],
    );
}

#[test]
fn a_request_that_names_the_reply_it_continues_is_of_its_lane() {
    let lanes = "
  - lane: main
    match: { any: true }
    turns: [ { reply: [ { text: one } ] }, { reply: [ { text: two } ] }, { reply: [ { text: three } ] } ]
";
    check(
        &script(lanes),
        "
        0.1
        1.1
        2.1 | after msg_main_1
        3.1 | after msg_main_1
        4.1 | after msg_main-2_1
        5.1 | after msg_main_2
        6.1 | after msg_of_another_day
        ",
        expect![[r#"
            0.1  msg_main_1: "one" [EndTurn]
            1.1  msg_main-2_1: "one" [EndTurn]
            2.1  msg_main_2: "two" [EndTurn]
            3.1  msg_main_2: "two" [EndTurn]
            4.1  msg_main-2_2: "two" [EndTurn]
            5.1  msg_main_3: "three" [EndTurn]
            6.1  miss: the request continues `msg_of_another_day`, which is not a reply of this script
        "#]],
    );
}
