//! Edits of the usage leave all other bytes unchanged.

use session::{Block, Reply, StopReason, Usage};

use super::*;

const DIALECTS: [Dialect; 3] = [Dialect::AnthropicMessages, Dialect::OpenAiChat, Dialect::OpenAiResponses];

fn reply(usage: Usage) -> Reply {
    Reply {
        id: "id".into(),
        model: "m".into(),
        blocks: vec![Block::Text { text: "the \"usage\" of 7".into() }],
        stop: Some(StopReason::EndTurn),
        usage,
    }
}

#[test]
fn the_usage_of_a_response_is_replaced() {
    let old = Usage { input: 7, output: 5, reasoning: 2, ..Usage::default() };
    for dialect in DIALECTS {
        let hour = if dialect == Dialect::AnthropicMessages { 11 } else { 0 };
        let new = Usage { input: 90_001, cache_read: 1_000, cache_write_5m: 30, cache_write_1h: hour, ..old };
        let whole = dialect.encode_reply(&reply(old)).expect("encodes");
        let told = dialect.set_usage(&whole, false, &new).apply(&whole).expect("no two overlap");
        let answer = dialect.decode_reply(&told).expect("JSON").into_reply().expect("a reply");
        assert_eq!(answer.reply.usage, new, "{dialect}");
        let stream = dialect.encode_stream(&reply(old), 4).expect("encodes").concat();
        let told = dialect.set_usage(&stream, true, &new).apply(&stream).expect("no two overlap");
        let whole = accumulate(dialect, &told);
        assert_eq!(whole.end, StreamEnd::Complete, "{dialect}");
        let answer = dialect
            .decode_reply(&whole.body.expect("it began"))
            .expect("JSON")
            .into_reply()
            .expect("a reply");
        assert_eq!((answer.reply.usage, answer.reply.blocks), (new, reply(old).blocks), "{dialect}");
    }
}

#[test]
fn counts_are_read_in_any_spelling() {
    let used = |dialect: Dialect, count: &str| {
        let whole = dialect.encode_reply(&reply(Usage { input: 77, output: 5, ..Usage::default() }));
        let told =
            String::from_utf8(whole.expect("encodes")).expect("text").replace(":77", &format!(":{count}"));
        dialect.decode_reply(told.as_bytes()).expect("JSON").into_reply().expect("a reply").reply.usage.input
    };
    for dialect in DIALECTS {
        let told =
            ["1500", "1.5e3", "1500.0", r#""1500""#, "-3", r#""some""#, "null"].map(|n| used(dialect, n));
        assert_eq!(told, [1500, 1500, 1500, 1500, 0, 0, 0], "{dialect}");
        assert_eq!(used(dialect, "1e300"), u64::MAX, "{dialect}");
    }
}

#[test]
fn an_equal_usage_changes_nothing() {
    let usage = Usage { input: 7, output: 5, cache_read: 3, ..Usage::default() };
    for dialect in DIALECTS {
        let whole = dialect.encode_reply(&reply(usage)).expect("encodes");
        assert_eq!(dialect.set_usage(&whole, false, &usage).apply(&whole).expect("no two overlap"), whole);
        let error = dialect.encode_error(&ProviderError::new("overloaded_error", "busy"));
        assert!(dialect.set_usage(&error, false, &usage).is_empty());
        assert!(dialect.set_usage(b"usage", false, &usage).is_empty());
    }
}
