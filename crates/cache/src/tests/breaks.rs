//! Reasons for cache breaks.

use expect_test::{Expect, expect};

use super::*;

fn base() -> Body {
    Body::new()
        .tool("Read", "")
        .tool("Write", MARK)
        .system(&long("be good ", 1_000), MARK)
        .says(user("hi", MARK))
}

/// Checks a request, and another one that should continue it.
fn then(next: &Body, expected: Expect) {
    let explained = explain(vec![ask(1, 0, &base()), ask(2, 10, next)]);
    let second: String = render(&explained).lines().nth(1).expect("two requests").to_owned();
    expected.assert_eq(&second);
}

#[test]
fn the_first_thing_that_changed_is_named() {
    let mut other = base();
    other.tools.insert(1, other.tools[0].replace("Read", "Search"));
    then(&other, expect!["r000002 0+2502+0+0 tools_changed block 2 /tools/1 missed 2001"]);

    let mut other = base();
    other.tools.swap(0, 1);
    then(&other, expect!["r000002 0+2001+0+0 tools_changed block 1 /tools/0 missed 2001"]);

    let mut other = base();
    other.system = vec![text(&long("be bad ", 1_000), MARK)];
    then(&other, expect!["r000002 1000+1001+0+0 system_changed block 3 /system/0 missed 1001"]);

    let mut other = base();
    other.messages = vec![user("ho", MARK)];
    then(&other, expect!["r000002 2000+1+0+0 messages_changed block 4 /messages/0/content/0 missed 1"]);

    let mut other = base();
    other.model = "claude-opus-4-8";
    then(&other, expect!["r000002 0+2001+0+0 model_changed block 1 /model missed 2001"]);
}

#[test]
fn settings_are_part_of_the_key_from_their_section_on() {
    then(
        &base().with(r#","tool_choice":{"type":"any"}"#),
        expect!["r000002 2000+1+0+0 messages_changed block 4 /tool_choice missed 1"],
    );
    then(
        &base().with(r#","thinking":{"type":"adaptive"}"#),
        expect!["r000002 2000+1+0+0 messages_changed block 4 /thinking missed 1"],
    );
    then(
        &base().with(r#","output_config":{"effort":"low"}"#),
        expect!["r000002 2000+1+0+0 messages_changed block 4 /output_config/effort missed 1"],
    );
    then(
        &base().with(r#","speed":"fast""#),
        expect!["r000002 1000+1001+0+0 system_changed block 3 /speed missed 1001"],
    );
    let mut search = base();
    search.tools.push(r#"{"type":"web_search_20250305","name":"web_search"}"#.to_owned());
    then(&search, expect!["r000002 1000+1001+0+0 system_changed block 3 /tools/2 missed 1001"]);
    let picture = r#"{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}]}"#;
    then(
        &base().says(picture.to_owned()),
        expect!["r000002 2000+1+0+21 messages_changed block 5 /messages/1/content/0 missed 1"],
    );
}

#[test]
fn fields_outside_the_cache_key_break_nothing() {
    let more =
        r#","max_tokens":5,"temperature":0.5,"metadata":{"user_id":"x"},"tool_choice":{"type":"auto"}"#;
    then(&base().with(more), expect!["r000002 2001+0+0+0"]);
    // A default value equals an absent one, in any spelling.
    let spaced = r#", "tool_choice": { "type": "auto" }, "thinking" : {"type" : "disabled"}"#;
    then(&base().with(spaced), expect!["r000002 2001+0+0+0"]);
    let usual = r#","tool_choice":{"type":"auto","disable_parallel_tool_use":false},"speed":"standard""#;
    then(&base().with(usual), expect!["r000002 2001+0+0+0"]);
    let set = |choice: &str| base().with(&format!(r#","tool_choice":{choice}"#));
    let (one, other) = (r#"{"type":"any"}"#, r#"{"type":"any","disable_parallel_tool_use":false}"#);
    let explained = explain(vec![ask(1, 0, &set(one)), ask(2, 10, &set(other))]);
    assert_eq!(explained.requests[1].reason, None, "it is so anyway");
    let (one, other) = (r#"{"type":"tool","name":"Read"}"#, r#"{ "name": "Read", "type": "tool" }"#);
    let explained = explain(vec![ask(1, 0, &set(one)), ask(2, 10, &set(other))]);
    assert_eq!(explained.requests[1].reason, None, "the same value");
}

/// A deferred tool is not in the prefix: the change is reported with its cost if that were not so.
#[test]
fn a_deferred_tool_is_named_and_costs_nothing() {
    let mut other = base();
    other.tools.insert(1, r#"{"name":"Stop","input_schema":{},"defer_loading":true}"#.to_owned());
    then(&other, expect!["r000002 2001+0+0+0 tools_changed block 1 /tools/1 missed 0"]);
    let explained = explain(vec![ask(1, 0, &base()), ask(2, 10, &other)]);
    let miss = explained.requests[1].miss.as_ref().expect("named");
    let stake = miss.at_stake.as_ref().expect("priced");
    assert_eq!((stake.tool.as_str(), stake.tokens), ("Stop", 2_001));
    // Opus 5: a read is $0.5 a million and a write is $6.25.
    let usd = stake.usd.expect("a price");
    assert!((usd - 2_001.0 * 5.75 / 1e6).abs() < 1e-9, "{usd}");
    let for_an_hour =
        |body: &Body| Body { system: vec![text(&long("be good ", 1_000), MARK_1H)], ..body.clone() };
    let explained = explain(vec![ask(1, 0, &for_an_hour(&base())), ask(2, 10, &for_an_hour(&other))]);
    let stake = explained.requests[1].miss.as_ref().and_then(|miss| miss.at_stake.as_ref());
    // For an hour it is $10: 2,000 tokens, and one for five minutes.
    let usd = stake.and_then(|stake| stake.usd).expect("a price");
    assert!((usd - (2_000.0 * 9.5 + 5.75) / 1e6).abs() < 1e-9, "{usd}");
}

/// Haiku and older models lose earlier thinking when the user speaks again; newer ones keep it.
#[test]
fn dropped_thinking_is_a_change() {
    let thought = r#"{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"tool_use","id":"t","name":"Read","input":{}}]}"#;
    let result = |mark: &str| {
        format!(
            r#"{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t","content":"seen"{mark}}}]}}"#
        )
    };
    let story = |model: &'static str| {
        let opening = Body { model, ..base() }.says(thought.to_owned());
        let in_loop = opening.clone().says(result(MARK));
        let spoken = opening.says(result("")).says(user("and now?", MARK));
        render(&explain(vec![ask(1, 0, &in_loop), ask(2, 10, &spoken)]))
    };
    expect![[r#"
        r000001 0+2041+0+0 cold
        r000002 2041+3+0+0
    "#]]
    .assert_eq(&story("claude-opus-5"));
    expect![[r#"
        r000001 0+2041+0+0 cold
        r000002 2001+30+0+0 messages_changed block 5 /messages/1/content/1 missed 30
    "#]]
    .assert_eq(&story("claude-haiku-5-5"));
}

/// The cost of a miss is the difference to the same request after a perfect prefix.
#[test]
fn a_miss_is_priced() {
    let mut other = base();
    other.system = vec![text(&long("be bad ", 1_000), MARK)];
    let explained = explain(vec![ask(1, 0, &base()), ask(2, 10, &other)]);
    let miss = explained.requests[1].miss.as_ref().expect("a miss");
    assert_eq!(miss.tokens, 1_001);
    let usd = miss.usd.expect("a price");
    assert!((usd - 1_001.0 * 5.75 / 1e6).abs() < 1e-9, "{usd}");
    assert_eq!(explained.total.missed, 1_001);
    let (paid, perfect) =
        (explained.total.predicted_usd.expect("known"), explained.total.perfect_usd.expect("known"));
    assert!((paid - perfect - usd).abs() < 1e-9);
}

#[test]
fn the_first_bytes_that_differ_are_shown() {
    let (one, other) = (base().system("Today is Monday", MARK), base().system("Today is Tuesday", MARK));
    let explained = explain(vec![ask(1, 0, &one), ask(2, 10, &other)]);
    let miss = explained.requests[1].miss.as_ref().expect("a miss");
    let shown =
        crate::byte_diff(miss, other.json().as_bytes(), one.json().as_bytes()).expect("both are there");
    assert_eq!(shown.pointer, "/system/1/text");
    assert!(
        shown.previous.contains("Today is Monday") && shown.current.contains("Today is Tuesday"),
        "{shown:?}"
    );
}

/// A setting has bytes like any block, and a picture has its own place.
#[test]
fn the_bytes_of_a_changed_setting_are_shown() {
    let picture = r#"{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}]}"#;
    let choice = |name: &str| base().with(&format!(r#","tool_choice":{{"type":"{name}"}}"#));
    let other = Body { model: "claude-opus-4-8", ..base() };
    let cases = [
        (base(), other, 1, "/model", "claude-opus-5", "claude-opus-4-8"),
        (choice("any"), choice("none"), 4, "/tool_choice/type", "any", "none"),
        (base(), choice("any"), 4, "/tool_choice", "nothing", "any"),
        (base(), base().says(picture.to_owned()), 5, "/messages/1/content/0", "nothing", r#""type":"image""#),
    ];
    for (one, other, block, pointer, before, now) in cases {
        let explained = explain(vec![ask(1, 0, &one), ask(2, 10, &other)]);
        let miss = explained.requests[1].miss.as_ref().expect("a miss");
        let shown = crate::byte_diff(miss, other.json().as_bytes(), one.json().as_bytes()).expect(pointer);
        assert_eq!((miss.block, shown.pointer.as_str()), (block, pointer));
        assert!(shown.previous.contains(before) && shown.current.contains(now), "{shown:?}");
    }
}
