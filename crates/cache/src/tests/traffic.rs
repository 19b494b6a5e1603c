//! The usage of real providers, from the folder in `OFFSHOOT_TRAFFIC_DIR`. It is not part of the repository.

use std::path::Path;

use wire::dialect::{Dialect, accumulate};
use wire::json::Document;

use super::*;
use crate::Confidence;

/// Returns the exchanges of a file, two seconds apart; `None` with a message if the folder is not set.
#[expect(clippy::print_stderr, reason = "a skipped check must be visible")]
fn observed(file: &str) -> Option<Vec<ObservedRequest>> {
    let Some(folder) = std::env::var_os("OFFSHOOT_TRAFFIC_DIR") else {
        eprintln!("NOT CHECKED: `OFFSHOOT_TRAFFIC_DIR` is not set, so no real usage was compared");
        return None;
    };
    let bytes = std::fs::read(Path::new(&folder).join(file)).expect("`OFFSHOOT_TRAFFIC_DIR` has the file");
    let document = Document::parse(&bytes).expect("a recording is JSON");
    let list = document.root().get("interactions").expect("a recording has interactions");
    let mut observed = Vec::new();
    for (n, item) in list.items().enumerate() {
        let text =
            |pointer: &str| item.pointer(pointer).and_then(|v| v.as_str()).expect("a string").into_owned();
        let (url, body, answer) = (text("/request/url"), text("/request/body"), text("/response/body"));
        let dialect = Dialect::detect(&url, body.as_bytes()).expect("a known dialect");
        let whole = accumulate(dialect, answer.as_bytes()).body.expect("it began");
        let reply = dialect.decode_reply(&whole).expect("JSON").into_reply().expect("a reply").reply;
        let prompt = CachePrompt::read(&url, body.as_bytes()).expect("it asks a model");
        observed.push(ObservedRequest {
            reported: Some(reply.usage),
            ..of_prompt(n as u32 + 1, n as u64 * 2, prompt)
        });
    }
    Some(observed)
}

fn parts(usage: &Usage) -> [u64; 4] {
    [usage.cache_read, usage.cache_write_5m, usage.cache_write_1h, usage.input]
}

#[test]
fn anthropic_writes_then_reads_to_the_token() {
    let file = "anthropic-messages-cache-writes-then-reads-cache-control-on-identical-second-call.json";
    let Some(observed) = observed(file) else { return };
    let explained = explain(observed);
    let predicted: Vec<_> = explained.requests.iter().map(|request| parts(&request.predicted)).collect();
    assert_eq!(predicted, [[0, 5_752, 0, 9], [5_752, 0, 0, 9]]);
    let confidence: Vec<Confidence> = explained.requests.iter().map(|request| request.confidence).collect();
    assert_eq!(confidence, [Confidence::Calibrated, Confidence::Exact]);
}

/// The second request is predicted from the usage of the first one alone.
#[test]
fn the_first_usage_predicts_anthropic_reads_exactly() {
    let file = "anthropic-messages-cache-writes-then-reads-cache-control-on-identical-second-call.json";
    let Some(mut observed) = observed(file) else { return };
    observed[1].reported = None;
    let explained = explain(observed);
    assert_eq!(explained.requests[1].predicted.cache_read, 5_752);
}

/// Prompts below the minimum are neither written nor read, as the usage shows.
#[test]
fn anthropic_keeps_nothing_short() {
    for file in [
        "anthropic-messages-claude-opus-4-7-drives-a-tool-loop.json",
        "anthropic-messages-streams-tool-call.json",
    ] {
        for request in observed(file).map(explain).iter().flat_map(|explained| &explained.requests) {
            assert_eq!(request.confidence, Confidence::Calibrated, "{file} {:?}", request.predicted);
        }
    }
}

/// The documented steps of 128 tokens would give 4,736 of 4,765; the usage says 4,608, one step less.
#[test]
fn openai_reads_within_a_step() {
    let file = "openai-responses-cache-reports-cached-tokens-on-identical-second-call.json";
    let Some(observed) = observed(file) else { return };
    let explained = explain(observed);
    let requests = &explained.requests;
    assert_eq!(parts(&requests[0].predicted), [0, 0, 0, 4_765]);
    assert_eq!(requests[0].confidence, Confidence::Calibrated);
    assert_eq!(parts(&requests[1].predicted), [4_736, 0, 0, 29]);
    assert_eq!(requests[1].reported.map(|usage| usage.cache_read), Some(4_608));
    assert_eq!(requests[1].confidence.to_string(), "within 2.7 %");
}

/// For short prompts, nothing is read and nothing is predicted.
#[test]
fn short_prompts_are_never_read() {
    for file in [
        "openai-chat-drives-a-tool-loop-end-to-end.json",
        "openai-chat-streams-text.json",
        "openai-compatible-chat-deepseek-streams-text.json",
        "openai-compatible-chat-groq-streams-tool-call.json",
        "openai-compatible-chat-openrouter-gpt-5-5-drives-a-tool-loop.json",
        "openai-responses-gpt-5-5-streams-tool-call.json",
        "openai-responses-openai-responses-gpt-5-5-reasoning-continuation.json",
    ] {
        for request in observed(file).map(explain).iter().flat_map(|explained| &explained.requests) {
            assert_eq!(request.confidence, Confidence::Calibrated, "{file} {:?}", request.predicted);
        }
    }
}

/// Numbers of a script are not a provider's, even if one of them is plausible.
#[test]
fn made_up_usage_is_not_believed() {
    let short = Body::new().says(user(&long("hi ", 200), ""));
    let body = Body::new().system(&long("be good ", 2_000), MARK).says(user("hi", ""));
    let said = |n: u32, body: &Body, input: u64| ObservedRequest {
        reported: Some(Usage { input, ..Usage::default() }),
        ..ask(n, u64::from(n) * 10, body)
    };
    let explained = explain(vec![said(1, &body, 100), said(2, &body, 110), said(3, &short, 100)]);
    assert!(
        explained.requests.iter().all(|request| request.confidence == Confidence::Unchecked),
        "nothing is said of a cache"
    );
    assert_eq!(explained.requests[1].predicted.cache_read, 2_000, "four bytes a token");
    let cached = |n: u32| ObservedRequest {
        reported: Some(Usage { input: 10, cache_read: 100, ..Usage::default() }),
        ..said(n, &body, 0)
    };
    let explained = explain(vec![cached(1), said(2, &body, 110), cached(3)]);
    let confidence: Vec<Confidence> = explained.requests.iter().map(|request| request.confidence).collect();
    assert_eq!(confidence, [Confidence::Contradicted, Confidence::Unchecked, Confidence::Contradicted]);
}
