//! Writes and reads of markers.

use expect_test::expect;

use super::*;

/// Builds a conversation of exchanges of 100 tokens after 2,000 tokens of instructions, with a marker on its
/// newest message.
fn growing(turns: usize) -> Body {
    let mut body = Body::new().tool("Read", "").system(&long("be good ", 1_500), MARK);
    for turn in 0..turns {
        let said = long(&format!("question {turn} "), 100);
        if turn + 1 == turns {
            return body.says(user(&said, MARK));
        }
        // Harnesses send a previously marked message as a plain string.
        body = body.says(format!(r#"{{"role":"user","content":"{said}"}}"#));
        body = body.says(assistant(&long(&format!("answer {turn} "), 100)));
    }
    body
}

#[test]
fn a_marker_that_moves_breaks_nothing() {
    check(
        (1..=4).map(|turn| ask(turn, u64::from(turn) * 10, &growing(turn as usize))).collect(),
        expect![[r#"
            r000001 0+2100+0+0 cold
            r000002 2100+200+0+0
            r000003 2300+200+0+0
            r000004 2500+200+0+0
        "#]],
    );
}

#[test]
fn below_the_minimum_nothing_is_kept() {
    let short = Body::new().system(&long("be good ", 400), MARK).says(user("hi", MARK));
    check(
        vec![ask(1, 0, &short), ask(2, 10, &short)],
        expect![[r#"
            r000001 0+0+0+401 below_minimum
            r000002 0+0+0+401 below_minimum
        "#]],
    );
}

#[test]
fn without_a_marker_nothing_is_kept_unless_all_is() {
    let plain = Body::new().system(&long("be good ", 2_000), "").says(user("hi", ""));
    let automatic = plain.clone().with(MARK);
    check(
        vec![ask(1, 0, &plain), ask(2, 10, &plain), ask(3, 20, &automatic), ask(4, 30, &automatic)],
        expect![[r#"
            r000001 0+0+0+2001 unmarked
            r000002 0+0+0+2001 unmarked
            r000003 0+2001+0+0 cold
            r000004 2001+0+0+0
        "#]],
    );
}

/// One hour for the instructions, five minutes for the conversation, and an unmarked tail.
#[test]
fn terms_are_billed_apart() {
    let opening = Body::new().system(&long("be good ", 1_000), MARK_1H);
    let first = opening.clone().says(user(&long("one ", 300), MARK)).says(user(&long("tail ", 50), ""));
    let other = opening.says(user(&long("two ", 300), MARK));
    check(
        vec![ask(1, 0, &first), ask(2, 10, &first), ask(3, 20, &other)],
        expect![[r#"
            r000001 0+300+1000+50 cold
            r000002 1300+0+0+50
            r000003 1000+300+0+0 messages_changed block 2 /messages/0/content/0 missed 300
        "#]],
    );
}

/// A write at block 15 is not found from a marker at block 35, although the content is equal.
#[test]
fn a_look_back_finds_writes_and_not_content() {
    let blocks = |count: usize| {
        let mut body = Body::new().system(&long("be good ", 1_000), "");
        for n in 1..count {
            let mark = if n + 1 == count { MARK } else { "" };
            body = body.says(user(&long(&format!("line {n} "), 10), mark));
        }
        body
    };
    check(
        vec![ask(1, 0, &blocks(15)), ask(2, 10, &blocks(34)), ask(3, 20, &blocks(54))],
        expect![[r#"
            r000001 0+1140+0+0 cold
            r000002 1140+190+0+0
            r000003 0+1530+0+0 beyond_look_back block 34 /messages/32/content/0 missed 1330
        "#]],
    );
}

/// Twenty consecutive calls and twenty results are two positions.
#[test]
fn calls_in_a_row_are_one_position() {
    let call = |n: usize| format!(r#"{{"type":"tool_use","id":"t{n}","name":"Read","input":{{}}}}"#);
    let result = |n: usize| format!(r#"{{"type":"tool_result","tool_use_id":"t{n}","content":"seen"}}"#);
    let first = Body::new().system(&long("be good ", 1_000), "").says(user("go", MARK));
    let calls: Vec<String> = (0..20).map(call).collect();
    let results: Vec<String> = (0..20).map(result).collect();
    let second = Body::new()
        .system(&long("be good ", 1_000), "")
        .says(user("go", ""))
        .says(format!(r#"{{"role":"assistant","content":[{}]}}"#, calls.join(",")))
        .says(format!(r#"{{"role":"user","content":[{}]}}"#, results.join(",")))
        .says(user("on", MARK));
    let explained = explain(vec![ask(1, 0, &first), ask(2, 10, &second)]);
    assert_eq!(explained.requests[1].predicted.cache_read, 1_001, "{}", render(&explained));
}

/// Only the latest four of five markers are written.
#[test]
fn the_fifth_marker_is_one_too_many() {
    let mut body = Body::new();
    for n in 0..5 {
        body = body.system(&long(&format!("part {n} "), 1_000), MARK);
    }
    let only_first = Body::new().system(&long("part 0 ", 1_000), MARK).says(user("hi", ""));
    check(
        vec![ask(1, 0, &body), ask(2, 10, &only_first)],
        expect![[r#"
            r000001 0+5000+0+0 cold
            r000002 0+1000+0+1 system_changed block 2 /system/1 missed 1000
        "#]],
    );
}

/// A marker of `null` has no effect and cannot be lost.
#[test]
fn a_null_marker_is_no_marker() {
    let unset = r#","cache_control":null"#;
    let body = |turns: usize| {
        let opening = Body::new().tool("Read", unset).system(&long("be good ", 1_500), MARK).with(unset);
        (1..=turns).fold(opening, |body, turn| {
            body.says(user(&long("go on ", 100), if turn == turns { MARK } else { unset }))
        })
    };
    check(
        (1..=3).map(|turn| ask(turn, u64::from(turn) * 10, &body(turn as usize))).collect(),
        expect![[r#"
            r000001 0+2100+0+0 cold
            r000002 2100+100+0+0
            r000003 2200+100+0+0
        "#]],
    );
    assert_eq!(body(2).prompt().marker_count, 2);
}

/// Routers also accept a marker beside the text of a message.
#[test]
fn a_marker_beside_the_words_of_a_chat_message_breaks_nothing() {
    let chat = |turns: usize, role: &str, unmarked: &str| {
        let mut messages = vec![format!(r#"{{"role":"system","content":"{}""#, long("be good ", 2_000))];
        for turn in 1..=turns {
            messages.push(format!(r#"{{"role":"user","content":"question {turn}""#));
            messages.push(format!(
                r#"{{"role":"assistant","content":"so","tool_calls":[{{"id":"c{turn}","type":"function","function":{{"name":"x","arguments":"{{}}"}}}}]"#
            ));
            messages.push(format!(r#"{{"role":"tool","tool_call_id":"c{turn}","content":"seen {turn}""#));
        }
        let of_role = format!(r#"{{"role":"{role}""#);
        let last = messages.iter().rposition(|message| message.starts_with(&of_role));
        let close = |(n, message): (usize, &String)| {
            format!("{message}{}}}", if Some(n) == last { MARK } else { unmarked })
        };
        let messages: Vec<String> = messages.iter().enumerate().map(close).collect();
        let body = format!(r#"{{"model":"anthropic/claude-opus-5","messages":[{}]}}"#, messages.join(","));
        let prompt =
            CachePrompt::read("http://x/v1/chat/completions", body.as_bytes()).expect("it asks a model");
        of_prompt(turns as u32, turns as u64 * 10, prompt)
    };
    for role in ["user", "assistant", "tool"] {
        for unmarked in ["", r#","cache_control":null"#] {
            let explained = explain((1..=4).map(|turns| chat(turns, role, unmarked)).collect());
            let reasons: Vec<_> = explained.requests[1..].iter().map(|request| request.reason).collect();
            assert_eq!(reasons, [None; 3], "{role}{unmarked}\n{}", render(&explained));
        }
    }
}

/// A result without its marker may become a string, like a message.
#[test]
fn a_result_that_collapses_to_a_string_is_the_same() {
    let result = |content: &str| {
        format!(
            r#"{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t","content":{content}}}]}}"#
        )
    };
    let said = long("seen ", 200);
    let before = Body::new().system(&long("be good ", 1_000), "").says(user("go", ""));
    let call = r#"{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"Read","input":{}}]}"#;
    let with = |content: &str| before.clone().says(call.to_owned()).says(result(content));
    let marked = with(&format!("[{}]", text(&said, MARK)));
    let plain = with(&format!(r#""{said}""#)).says(assistant("ok")).says(user("on", MARK));
    let explained = explain(vec![ask(1, 0, &marked), ask(2, 10, &plain)]);
    assert_eq!(explained.requests[1].reason, None, "{}", render(&explained));
    assert_eq!(explained.requests[1].predicted.cache_read, explained.requests[0].predicted.cache_write_5m);
    let other = with(&format!(r#""{said}!""#)).says(user("on", MARK));
    let explained = explain(vec![ask(1, 0, &marked), ask(2, 10, &other)]);
    assert_eq!(explained.requests[1].reason, Some(crate::Reason::MessagesChanged));
}

/// A written prefix that is not marked again is missed, at a cost, until something is marked again.
#[test]
fn lost_markers_are_a_miss() {
    let bare = |turn: usize| {
        let mut body = growing(turn);
        body.system = vec![text(&long("be good ", 1_500), "")];
        body.messages.iter_mut().for_each(|message| *message = message.replace(MARK, ""));
        body
    };
    let at = |turn: usize, body: Body| ask(turn as u32, turn as u64 * 10, &body);
    let lost = vec![at(1, growing(1)), at(2, growing(2)), at(3, bare(3)), at(4, bare(4))];
    let explained = explain(lost.clone());
    expect![[r#"
        r000001 0+2100+0+0 cold
        r000002 2100+200+0+0
        r000003 0+0+0+2500 unmarked block 5 /messages/2/content missed 2300
        r000004 0+0+0+2700 unmarked block 5 /messages/2/content missed 2300
    "#]]
    .assert_eq(&render(&explained));
    let usd = explained.requests[2].miss.as_ref().and_then(|miss| miss.usd).expect("a price");
    // Opus 5: a read is $0.5 a million, and sent tokens are $5.
    assert!((usd - 2_300.0 * 4.5 / 1e6).abs() < 1e-9, "{usd}");
    let findings = crate::lint(&CacheReport::default(), &explained);
    let found: Vec<_> = findings.iter().map(|it| (it.rule.name(), it.what.as_str())).collect();
    assert_eq!(
        found,
        [(
            "new_break",
            "unmarked: leaves out a marker at block 5 (`/messages/2/content`), +2,300 tokens a turn, in 2 turns"
        )]
    );
    // Only the last of two markers is lost.
    let system_only = |turn: usize| {
        let mut body = growing(turn);
        body.messages.iter_mut().for_each(|message| *message = message.replace(MARK, ""));
        body
    };
    check(
        vec![at(1, growing(1)), at(2, growing(2)), at(3, system_only(3)), at(4, growing(4))],
        expect![[r#"
            r000001 0+2100+0+0 cold
            r000002 2100+200+0+0
            r000003 2000+0+0+500 unmarked block 5 /messages/2/content missed 300
            r000004 2300+400+0+0
        "#]],
    );
}
