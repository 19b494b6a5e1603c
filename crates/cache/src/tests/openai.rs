//! OpenAI's two caches.

use expect_test::expect;

use super::*;

fn responses(model: &str, parts: &[&str], more: &str) -> Prompt {
    let items: Vec<String> = parts
        .iter()
        .map(|said| format!(r#"{{"role":"user","content":[{{"type":"input_text","text":"{said}"}}]}}"#))
        .collect();
    let body = format!(r#"{{"model":"{model}","input":[{}]{more}}}"#, items.join(","));
    Prompt::read("http://x/v1/responses", body.as_bytes()).expect("it asks a model")
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
            // The same for 1,500 tokens, then something else in the middle of a text.
            of_prompt(3, 20, responses("gpt-5.5", &[half.as_str(), "one"], "")),
        ],
        expect![[r#"
            r000001 0+0+0+2001 cold
            r000002 1920+0+0+83
            r000003 1408+0+0+593 messages_changed block 12 /input/0/content/0 missed 512
        "#]],
    );
}

/// Instructions are the first messages here, and are instructions all the same.
#[test]
fn a_changed_system_message_is_a_changed_system() {
    let chat = |n: u32, role: &str, system: &str, said: &str| {
        let message = |role: &str, said: &str| format!(r#"{{"role":"{role}","content":"{said}"}}"#);
        let messages = [message(role, system), message("user", said)].join(",");
        let body = format!(r#"{{"model":"gpt-5.5","messages":[{messages}]}}"#);
        let prompt = Prompt::read("http://x/v1/chat/completions", body.as_bytes()).expect("it asks a model");
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
            r000004 0+0+0+2000 unmarked
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
