//! Both of OpenAI's caches.

use expect_test::expect;

use super::*;

fn responses(model: &str, parts: &[&str], more: &str) -> CachePrompt {
    let items: Vec<String> = parts
        .iter()
        .map(|said| format!(r#"{{"role":"user","content":[{{"type":"input_text","text":"{said}"}}]}}"#))
        .collect();
    let body = format!(r#"{{"model":"{model}","input":[{}]{more}}}"#, items.join(","));
    CachePrompt::read("http://x/v1/responses", body.as_bytes()).expect("it asks a model")
}

#[test]
fn up_to_gpt_5_5_prefixes_are_kept_in_steps() {
    let opening = long("be good ", 2_000);
    let said = [opening.as_str(), "one"];
    let more = [opening.as_str(), "one", "two"];
    let half = format!("{}{}", &opening[..6_000], long("be bad ", 500));
    check(
        vec![
            of_prompt(1, 0, responses("gpt-5.5", &said, "")),
            of_prompt(2, 10, responses("gpt-5.5", &more, "")),
            // The same for 1,500 tokens, then another text in the middle.
            of_prompt(3, 20, responses("gpt-5.5", &[half.as_str(), "one"], "")),
        ],
        expect![[r#"
            r000001 0+0+0+2001 cold
            r000002 1920+0+0+83
            r000003 1408+0+0+593 messages_changed block 12 /input/0/content/0 missed 512
        "#]],
    );
}

/// Instructions that are sent as first messages are still instructions.
#[test]
fn a_changed_system_message_is_a_changed_system() {
    let chat = |n: u32, role: &str, system: &str, said: &str| {
        let message = |role: &str, said: &str| format!(r#"{{"role":"{role}","content":"{said}"}}"#);
        let messages = [message(role, system), message("user", said)].join(",");
        let body = format!(r#"{{"model":"gpt-5.5","messages":[{messages}]}}"#);
        let prompt =
            CachePrompt::read("http://x/v1/chat/completions", body.as_bytes()).expect("it asks a model");
        of_prompt(n, u64::from(n) * 10, prompt)
    };
    let (good, bad) = (long("be good ", 2_000), long("be bad ", 2_000));
    let long_said = long("go on ", 2_000);
    for role in ["system", "developer"] {
        check(
            vec![chat(1, role, &good, "hi"), chat(2, role, &bad, &long_said), chat(3, role, &bad, &good)],
            expect![[r#"
                r000001 0+0+0+2001 cold
                r000002 0+0+0+4000 system_changed block 1 /messages/0/content missed 1920
                r000003 1920+0+0+2080 messages_changed block 17 /messages/1/content missed 2048
            "#]],
        );
    }
}

#[test]
fn another_key_is_routed_elsewhere_and_a_short_prompt_is_not_kept() {
    let opening = long("be good ", 2_000);
    let short = long("be good ", 1_000);
    check(
        vec![
            of_prompt(1, 0, responses("gpt-5.5", &[&opening], r#","prompt_cache_key":"a""#)),
            of_prompt(2, 10, responses("gpt-5.5", &[&opening], r#","prompt_cache_key":"b""#)),
            of_prompt(3, 20, responses("gpt-5.5", &[&short], "")),
            of_prompt(4, 30, responses("gpt-5.5", &[&short], "")),
        ],
        expect![[r#"
            r000001 0+0+0+2000 cold
            r000002 0+0+0+2000 tools_changed block 1 /prompt_cache_key missed 1920
            r000003 0+0+0+1000 below_minimum
            r000004 0+0+0+1000 below_minimum
        "#]],
    );
}

/// Another key in every request makes all lanes cold: the key is the reason.
#[test]
fn a_conversation_under_ever_new_keys_is_seen() {
    let (opening, other) = (long("be good ", 2_000), long("be bad ", 2_000));
    let routed = |n: u32, model: &str, parts: &[&str]| {
        let key = format!(r#","prompt_cache_key":"k{n}""#);
        ObservedRequest {
            lane: format!("main-{n}"),
            ..of_prompt(n, u64::from(n) * 10, responses(model, parts, &key))
        }
    };
    let story = |model: &'static str| {
        explain(vec![
            routed(1, model, &[&opening]),
            routed(2, model, &[&opening, "go on"]),
            routed(3, model, &[&other]),
            // Too late for either key.
            ObservedRequest {
                at_us: 9_000 * SECOND,
                begun_us: Some(9_001 * SECOND),
                ..routed(4, model, &[&opening])
            },
        ])
    };
    expect![[r#"
        r000001 0+0+0+2000 cold
        r000002 0+0+0+2002 tools_changed block 1 /prompt_cache_key missed 1920
        r000003 0+0+0+2000 cold
        r000004 0+0+0+2000 cold
    "#]]
    .assert_eq(&render(&story("gpt-5.5")));
    expect![[r#"
        r000001 0+2000+0+0 cold
        r000002 0+2002+0+0 tools_changed block 1 /prompt_cache_key missed 2000
        r000003 0+2000+0+0 cold
        r000004 0+2000+0+0 cold
    "#]]
    .assert_eq(&render(&story("gpt-5.6-sol")));
    let explained = story("gpt-5.5");
    assert_eq!(explained.requests[1].after.as_ref(), Some(&explained.requests[0].id));
    let findings = crate::lint(&CacheReport::default(), &explained);
    let found: Vec<_> = findings.iter().map(|it| (it.rule.name(), it.pointer.as_str())).collect();
    assert_eq!(found, [("new_break", "/prompt_cache_key")]);
}

/// A request that names the reply it continues does not contain its prefix, so no break can be found.
#[test]
fn a_history_that_is_not_in_the_request_is_no_break() {
    let opening = long("be good ", 2_000);
    for named in [r#","previous_response_id":"resp_1""#, r#","conversation":{"id":"conv_1"}"#] {
        for model in ["gpt-5.5", "gpt-5.6-sol"] {
            let tail = || responses(model, &["and now?"], named);
            let usage = Usage { input: 90, cache_read: 8_000, ..Usage::default() };
            let explained = explain(vec![
                of_prompt(1, 0, responses(model, &[&opening], r#","previous_response_id":null"#)),
                ObservedRequest { reported: Some(usage), ..of_prompt(2, 10, tail()) },
                of_prompt(3, 20, tail()),
                of_prompt(4, 30, responses(model, &[&opening], "")),
            ]);
            let said: Vec<_> =
                explained.requests.iter().map(|it| (it.reason, it.predicted.cache_read)).collect();
            let elsewhere = Some(crate::Reason::HistoryElsewhere);
            let whole = if model == "gpt-5.5" { 1_920 } else { 2_000 };
            let cold = Some(crate::Reason::Cold);
            assert_eq!(said, [(cold, 0), (elsewhere, 8_000), (elsewhere, 0), (None, whole)], "{model}");
            assert_eq!(
                (explained.total.missed, crate::lint(&CacheReport::default(), &explained)),
                (0, vec![])
            );
        }
    }
}

#[test]
fn from_gpt_5_6_on_messages_end_in_markers_of_the_provider() {
    let opening = long("be good ", 2_000);
    let explicit = r#","prompt_cache_options":{"mode":"explicit"}"#;
    check(
        vec![
            of_prompt(1, 0, responses("gpt-5.6-sol", &[&opening], "")),
            of_prompt(2, 10, responses("gpt-5.6-sol", &[&opening, &long("one ", 100)], "")),
            of_prompt(3, 20, responses("gpt-5.6-sol", &[&opening, &long("two ", 100)], "")),
            of_prompt(4, 30, responses("gpt-5.6-sol", &[&opening], explicit)),
        ],
        expect![[r#"
            r000001 0+2000+0+0 cold
            r000002 2000+100+0+0
            r000003 2000+100+0+0 messages_changed block 2 /input/1/content/0 missed 100
            r000004 0+0+0+2000 unmarked block 2 /input/1/content/0 missed 2000
        "#]],
    );
}

#[test]
fn half_an_hour_lasts_half_an_hour() {
    let opening = long("be good ", 2_000);
    let of = |n, second| of_prompt(n, second, responses("gpt-5.6", &[&opening], ""));
    check(
        vec![of(1, 0), of(2, 1_799), of(3, 3_599)],
        expect![[r#"
            r000001 0+2000+0+0 cold
            r000002 2000+0+0+0
            r000003 0+2000+0+0 expired block 1 /input/0/content/0 missed 2000
        "#]],
    );
}

/// A text is the default format of an answer.
#[test]
fn the_usual_format_is_no_setting() {
    let opening = long("be good ", 2_000);
    for (usual, other) in [
        (r#","text":{"format":{"type":"text"}}"#, r#","text":{"format":{"type":"json_object"}}"#),
        (r#","response_format":{"type":"text"}"#, r#","response_format":{"type":"json_object"}"#),
    ] {
        let reason = |more: &str| {
            let observed = [(1, ""), (2, more)].map(|(n, more)| {
                of_prompt(n, u64::from(n) * 10, responses("gpt-5.5", &[opening.as_str()], more))
            });
            explain(observed.to_vec()).requests[1].reason
        };
        assert_eq!(reason(usual), None, "{usual}");
        assert_eq!(reason(other), Some(crate::Reason::SystemChanged), "{other}");
    }
}
