//! Mistakes in scripts are named with their place and what was expected.

use expect_test::{Expect, expect};

use super::parse;

/// Checks the error of each script, one per line.
fn check(scripts: &[&str], expect: Expect) {
    let mistake = |script: &&str| {
        let error = parse(script).expect_err(script);
        error.replace("`s.yaml` is not a script: ", "") + "\n"
    };
    expect.assert_eq(&scripts.iter().map(mistake).collect::<String>());
}

/// Checks a lane `main` that matches all requests, with these turns from line 6 on.
fn check_turns(turns: &[&str], expect: Expect) {
    let head = "format: 1\nlanes:\n  - lane: main\n    match: { any: true }\n    turns:\n";
    let scripts: Vec<String> = turns.iter().map(|turns| format!("{head}      - {turns}\n")).collect();
    check(&scripts.iter().map(String::as_str).collect::<Vec<_>>(), expect);
}

#[test]
fn the_file() {
    check(
        &[
            "format: 2\nlanes: []\n",
            "format: 1\nlanes: []\n",
            "format: 1\nlanes: [\n",
            "format: 1\nlanes:\n  - lane: a\n    turns: []\n",
            "format: 1\nlanes:\n  - lane: a\n    match: { any: true }\n    turns: []\n",
            "format: 1\nlanes:\n  - lane: a\n    colour: red\n",
        ],
        expect![[r#"
            unknown format 2, expected 1 at line 1, column 9
            `lanes` is empty, expected at least one lane, at line 2, column 8
            unclosed bracket '[' at line 2, column 8
            missing field `match` at line 4, column 5
            lane `a` has no turns, expected at least one, at line 5, column 12
            unknown field `colour`, expected one of lane, match, turns, stop_reason, pace at line 4, column 5
        "#]],
    );
}

#[test]
fn lanes() {
    let two = |first: &str, second: &str| {
        let lane = |lane: &str| {
            format!("  - lane: {}\n    turns: [ {{ reply: [] }} ]\n", lane.replace(" / ", "\n    "))
        };
        format!("format: 1\nlanes:\n{}{}", lane(first), lane(second))
    };
    let other = "b / match: { model: m }";
    let scripts = [
        two("a / match: { model: m }", "a / match: { any: true }"),
        two("a / match: { any: true }", other),
        two("a / match: {}", other),
        two("a / match: { any: false }", other),
        two("a / match: { no_tools: true, tools_include: x }", other),
        two("a / match: { tools_include: [] }", other),
        two("a / match: { tool_include: [x] }", other),
        two("a / match: { model: 5 }", other),
        two("'' / match: { model: m }", other),
    ];
    check(
        &scripts.each_ref().map(String::as_str),
        expect![[r#"
        lane `a` is defined twice, first in line 3, at line 6, column 11
        lane `b` is never reached: lane `a` before it matches all requests, at line 6, column 11
        lane `a` has an empty `match`; write `any: true` to match all requests, at line 4, column 12
        lane `a` has an empty `match`; write `any: true` to match all requests, at line 4, column 12
        lane `a` has both `tools_include` and `no_tools`, at line 4, column 12
        an empty list, expected at least one value at line 4, column 29
        unknown field `tool_include`, expected one of any, no_tools, tools_include, tools_exclude, system_contains, prompt_contains, text_contains, model at line 4, column 14
        invalid type: integer `5`, expected one value or a list; a text that looks like a number needs quotes at line 4, column 14
        a lane without a name, at line 3, column 11
    "#]],
    );
}

#[test]
fn turns_and_replies() {
    check_turns(
        &[
            "usage: { input: 1 }",
            "{ reply: [], error: { status: 529 } }",
            "error: { status: 200 }",
            "reply: [ { shout: hi } ]",
            "reply: [ { text: hi, extra: 1 } ]",
            "{ reply: [], stop_reason: tired }",
            "{ reply: [], repeat: 0 }",
            "{ reply: [], when: {} }",
            "reply: [ { call: { tool: [] } } ]",
            "reply: [ { call: { tool: x, inputs: {} } } ]",
            "reply: [ { call: [ { tool: x }, { tool: y, input: [ 1 ] } ] } ]",
            "{ reply: [], pace: { event: 2 } }",
        ],
        expect![[r#"
            turn 1 of lane `main` has neither `reply` nor `error`, expected one of them, at line 6, column 9
            turn 1 of lane `main` has both `reply` and `error`, expected one of them, at line 6, column 9
            status 200 is not an error, expected 400 to 599 at line 6, column 26
            unknown variant `shout`, expected one of text, thinking, call at line 6, column 20
            expected end of mapping after enum variant value at line 6, column 30
            unknown stop reason `tired`, expected one of `end_turn`, `tool_use`, `max_tokens`, `stop_sequence`, `pause_turn`, `refusal`, `content_filter`, `context_window` at line 6, column 35
            invalid value: integer `0`, expected a nonzero u32 at line 6, column 22
            an empty `when`, expected `results_contain`, `text_contains`, `messages_contain`, `tools_include` or `tools_exclude`, at line 6, column 28
            an empty list, expected at least one value at line 6, column 34
            unknown field `inputs`, expected one of tool, unoffered, id, input at line 6, column 37
            `input` must be a mapping, or a text for a tool with free text, at line 6, column 18
            unknown field `event`, expected one of first_ms, event_ms at line 6, column 30
        "#]],
    );
}

#[test]
fn values() {
    check_turns(
        &[
            "reply: [ { text: \"${HOME}\" } ]",
            "reply: [ { text: \"${a\" } ]",
            "reply: [ { call: { tool: x, input: { a: [ \"${b}\" ] } } } ]",
            "error: { status: 500, message: \"${b}\" }",
            "{ reply: [], capture: { a: { result_of: toolu_a, regex: x } } }",
            "{ reply: [], capture: { a: { in: results, regex: '(' } } }",
            "{ reply: [], capture: { a: { in: everywhere, regex: x } } }",
            "{ reply: [], capture: { a: { regex: x } } }",
            "{ reply: [], capture: { workspace: { in: system, regex: x } } }",
            "{ reply: [], capture: { 'a b': { in: system, regex: x } } }",
        ],
        expect![[r#"
            turn 1 of lane `main` uses `${HOME}`, which no turn captures; write `$${` for a plain `${`, at line 6, column 18
            `${` without its `}`; write `$${` for a plain `${` at line 6, column 26
            turn 1 of lane `main` uses `${b}`, which no turn captures; write `$${` for a plain `${`, at line 6, column 18
            turn 1 of lane `main` uses `${b}`, which no turn captures; write `$${` for a plain `${`, at line 6, column 9
            no turn before turn 1 of lane `main` makes a call with `id: toolu_a`, at line 6, column 36
            `(` is not a regular expression: unclosed group at line 6, column 58
            unknown variant `everywhere`, expected one of results, messages, system at line 6, column 42
            expected either `result_of` or `in` for `a`, at line 6, column 36
            cannot capture `workspace`: the name is built in, at line 6, column 44
            cannot capture `a b`: a name has only letters, digits, `_` and `-`, at line 6, column 40
        "#]],
    );
}

#[test]
fn waits() {
    let wait = |main: &str, sub: &str| {
        format!(
            "format: 1
lanes:
  - lane: main
    match: {{ tools_include: task }}
    turns:
      - reply: []
      - {{ wait_for: [ {{ {main} }} ], reply: [] }}
  - lane: sub
    match: {{ any: true }}
    turns:
      - {{ {sub}, reply: [] }}
      - reply: []
"
        )
    };
    let none = "usage: {}";
    let scripts = [
        wait("lane: subs, finished: true", none),
        wait("lane: sub", none),
        wait("lane: sub, finished: false", none),
        wait("lane: sub, finished: true, turn: 1", none),
        wait("lane: sub, turn: 3", none),
        wait("lane: main, finished: true", none),
        wait("lane: main, turn: 2", none),
        wait("lane: sub, finished: true", "wait_for: [ { lane: main, turn: 2 } ]"),
    ];
    check(
        &scripts.each_ref().map(String::as_str),
        expect![[r#"
        turn 2 of lane `main` waits for lane `subs`, expected one of `main`, `sub`, at line 7, column 23
        expected either `finished: true` or `turn` of lane `sub`, or only `count`, at line 7, column 23
        expected either `finished: true` or `turn` of lane `sub`, or only `count`, at line 7, column 23
        expected either `finished: true` or `turn` of lane `sub`, or only `count`, at line 7, column 23
        turn 2 of lane `main` waits for turn 3 of lane `sub`, which has 2, at line 7, column 23
        turn 2 of lane `main` waits for the end of its own lane, at line 7, column 23
        turn 2 of lane `main` waits for turn 2 of its own lane, expected an earlier one, at line 7, column 23
        turn 1 of lane `sub` waits for turn 2 of lane `main`, which waits for it, at line 11, column 23
    "#]],
    );
    for fine in [
        wait("lane: sub, finished: true", "wait_for: [ { lane: main, turn: 1 } ]"),
        wait("lane: main, turn: 1, count: 2", none),
        // The turn may be skipped, so the cycle is not certain.
        wait(
            "lane: sub, finished: true",
            "when: { text_contains: x }, wait_for: [ { lane: main, turn: 2 } ]",
        ),
    ] {
        parse(&fine).unwrap_or_else(|error| panic!("{error}\n{fine}"));
    }
}
