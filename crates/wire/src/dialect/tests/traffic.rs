//! The traffic of real providers, from the folder in `OFFSHOOT_TRAFFIC_DIR`. It is not part of the repository.

use session::Usage;

use super::*;
use crate::json::{Value, ValueKind};

/// One request and its response.
struct Interaction {
    name: String,
    url: String,
    request: String,
    response: String,
}

/// Returns all exchanges in the folder; `None` with a message if the folder is not set.
#[expect(clippy::print_stderr, reason = "a skipped check must be visible")]
fn interactions() -> Option<Vec<Interaction>> {
    let Some(folder) = std::env::var_os("OFFSHOOT_TRAFFIC_DIR") else {
        eprintln!("NOT CHECKED: `OFFSHOOT_TRAFFIC_DIR` is not set, so no real provider traffic was decoded");
        return None;
    };
    let entries = std::fs::read_dir(folder).expect("`OFFSHOOT_TRAFFIC_DIR` is a readable folder");
    let mut all = Vec::new();
    for path in entries.map(|entry| entry.expect("a readable folder").path()) {
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let bytes = std::fs::read(&path).expect("a readable file");
        let document = Document::parse(&bytes).expect("a recording is JSON");
        let list = document.root().get("interactions").expect("a recording has interactions");
        for (index, item) in list.items().enumerate() {
            let text = |pointer: &str| {
                item.pointer(pointer).and_then(|v| v.as_str()).expect("a string").into_owned()
            };
            all.push(Interaction {
                name: format!("{} #{index}", path.file_stem().expect("a name").to_string_lossy()),
                url: text("/request/url"),
                request: text("/request/body"),
                response: text("/response/body"),
            });
        }
    }
    assert!(!all.is_empty(), "the folder is there, but holds nothing");
    Some(all)
}

#[test]
fn real_requests_have_no_unknown_values() {
    for Interaction { name, url, request, .. } in interactions().unwrap_or_default() {
        let dialect = Dialect::detect(&url, request.as_bytes()).expect("a known dialect");
        assert_eq!(
            Dialect::detect("/somewhere/else", request.as_bytes()),
            Some(dialect),
            "{name}: by its shape"
        );
        let prompt = dialect.decode_request(request.as_bytes()).expect("a request decodes");
        assert_eq!(prompt.unknown, [], "{name}");
        assert!(prompt.model.is_some() && prompt.stream && prompt.max_tokens.is_some(), "{name}");
        assert!(prompt.conversation().iter().any(|message| !message.parts.is_empty()), "{name}");
        places_hold(&prompt, &request);
    }
}

#[test]
fn real_streams_have_no_unknown_values_and_correct_totals() {
    for Interaction { name, url, response, .. } in interactions().unwrap_or_default() {
        let dialect = Dialect::detect(&url, b"").expect("a known dialect");
        let whole = accumulate(dialect, response.as_bytes());
        assert_eq!((&whole.unknown, &whole.end), (&Vec::new(), &StreamEnd::Complete), "{name}");
        let body = whole.body.as_ref().expect("it began");
        let answer = dialect.decode_reply(body).expect("JSON").into_reply().expect("a reply");
        assert_eq!(answer.unknown, [], "{name}");
        assert!(answer.reply.stop.is_some() && !answer.reply.blocks.is_empty(), "{name}");
        assert!(answer.reply.usage.output > 0, "{name}");
        pieces_add_up(&name, dialect, &whole, &response);
        usage_adds_up(&name, &answer.reply.usage, body);
    }
}

#[test]
fn real_streams_do_not_depend_on_the_split() {
    for Interaction { url, response, .. } in interactions().unwrap_or_default() {
        let dialect = Dialect::detect(&url, b"").expect("a known dialect");
        let whole = accumulate(dialect, response.as_bytes());
        for step in [1, 2, 3, 7, 64, 1000] {
            let mut decoder = crate::sse::SseDecoder::new();
            let mut accumulator = Accumulator::new(dialect);
            for bytes in response.as_bytes().chunks(step) {
                feed(&mut accumulator, &decoder.push(bytes));
            }
            assert_eq!(accumulator.finish(), whole);
        }
    }
}

/// A Responses stream repeats its content. Without its last event the items must have the same content.
#[test]
fn the_streamed_response_equals_the_completed_one() {
    for Interaction { name, url, response, .. } in interactions().unwrap_or_default() {
        let dialect = Dialect::detect(&url, b"").expect("a known dialect");
        if dialect != Dialect::OpenAiResponses {
            continue;
        }
        let last = response.rfind("event: response.completed").expect("a completed stream");
        let (whole, cut) =
            (accumulate(dialect, response.as_bytes()), accumulate(dialect, &response.as_bytes()[..last]));
        assert_eq!(cut.end, StreamEnd::Early);
        let blocks = |accumulated: AccumulatedStream| -> Vec<Block> {
            let body = accumulated.body.expect("it began");
            let blocks =
                dialect.decode_reply(&body).expect("JSON").into_reply().expect("a reply").reply.blocks;
            blocks.into_iter().map(unsealed).collect()
        };
        assert_eq!(blocks(cut), blocks(whole), "{name}");
    }
}

/// Removes the seals: the provider seals the same reasoning differently each time.
fn unsealed(block: Block) -> Block {
    match block {
        Block::RedactedThinking { .. } => Block::RedactedThinking { data: String::new() },
        Block::Thinking { text, .. } => Block::Thinking { text, signature: None },
        other => other,
    }
}

/// Asserts that the fragments of a string form the string.
fn pieces_add_up(name: &str, dialect: Dialect, whole: &AccumulatedStream, stream: &str) {
    let body = whole.body.as_ref().expect("it began");
    let document = Document::parse(body).expect("accumulated JSON");
    let mut pointers: Vec<&str> = whole.fragments.iter().map(|piece| piece.pointer.as_str()).collect();
    pointers.dedup();
    for pointer in pointers {
        let pieces = whole.fragments.iter().filter(|piece| piece.pointer == pointer);
        let joined: String = pieces.map(|piece| &stream[piece.stream.clone()]).collect();
        let value = document.root().pointer(pointer).expect("pieces lead to a value");
        let expected = match value.kind() {
            ValueKind::String => value.raw().trim_matches('"').to_owned(),
            _ => {
                assert_eq!(dialect, Dialect::AnthropicMessages, "{name}: only its inputs are no strings");
                let input = crate::json::quote(value.raw());
                input[1..input.len() - 1].to_owned()
            }
        };
        assert_eq!(joined, expected, "{name} {pointer}");
    }
}

/// Asserts that the disjoint parts add up to the provider's totals.
fn usage_adds_up(name: &str, usage: &Usage, body: &[u8]) {
    let document = Document::parse(body).expect("accumulated JSON");
    let raw = document.root().get("usage").expect("usage");
    let number = |name: &str| raw.get(name).and_then(|value: Value<'_, '_>| value.as_u64());
    match number("total_tokens") {
        Some(total) => assert_eq!(usage.input_total() + usage.output, total, "{name}"),
        None => {
            let parts = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"];
            let input: u64 = parts.iter().filter_map(|part| number(part)).sum();
            assert_eq!(usage.input_total(), input, "{name}");
            let split = raw.get("cache_creation").expect("the split is always there");
            let of = |name: &str| split.get(name).and_then(|value| value.as_u64());
            assert_eq!(Some(usage.cache_write_5m), of("ephemeral_5m_input_tokens"), "{name}");
            assert_eq!(Some(usage.cache_write_1h), of("ephemeral_1h_input_tokens"), "{name}");
        }
    }
    assert!(usage.reasoning <= usage.output, "{name}");
}
