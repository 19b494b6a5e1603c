//! Laws of every dialect: encoding and decoding returns the same value.

use proptest::prelude::*;
use proptest::sample::subsequence;
use session::{Block, CallId, ImageSource, Message, Reply, Role, StopReason, ToolCall, ToolResult, Usage};

use super::*;

const DIALECTS: [Dialect; 3] = [Dialect::AnthropicMessages, Dialect::OpenAiChat, Dialect::OpenAiResponses];

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~]{1,12}",
        "[\u{0}-\u{1f}\"\\\\/é\u{1f600}\u{2028}a]{1,12}",
        any::<String>().prop_map(|s| s + ".")
    ]
}

fn input() -> impl Strategy<Value = String> {
    let pretty = text().prop_map(|value| format!("{{\n  \"k\" : {} }}", crate::json::quote(&value)));
    prop_oneof![Just("{}".to_owned()), Just(r#"{"n":1e3,"s":"\u00e9\/"}"#.to_owned()), pretty]
}

fn call() -> impl Strategy<Value = Block> {
    ("[a-z]{1,8}", "[A-Za-z_]{1,8}", input()).prop_map(|(id, name, input)| {
        Block::ToolCall(ToolCall { id: CallId::new(id), name, input, server: false })
    })
}

fn thought() -> impl Strategy<Value = Block> {
    prop_oneof![
        (text(), prop::option::of("[a-zA-Z0-9+/=]{1,20}"))
            .prop_map(|(text, signature)| Block::Thinking { text, signature }),
        "[a-z]{1,9}".prop_map(|data| Block::RedactedThinking { data }),
    ]
}

fn words() -> impl Strategy<Value = Block> {
    text().prop_map(|text| Block::Text { text })
}

fn image() -> impl Strategy<Value = Block> {
    "[a-z]{1,8}".prop_map(|name| Block::Image(ImageSource::Url { url: format!("https://x/{name}.png") }))
}

fn result() -> impl Strategy<Value = Block> {
    let blocks = prop::collection::vec(prop_oneof![3 => words(), 1 => image()], 0..3);
    ("[a-z]{1,8}", blocks).prop_map(|(call, blocks)| {
        Block::ToolResult(ToolResult { call: CallId::new(call), blocks, is_error: false, server: false })
    })
}

fn usage() -> impl Strategy<Value = Usage> {
    (0u64..9999, 1u64..9999, 0u64..9999, 0u64..9999, 0u64..9999).prop_map(
        |(input, output, read, write, hour)| Usage {
            input,
            output,
            cache_read: read,
            cache_write_5m: write,
            cache_write_1h: hour,
            reasoning: output / 2,
        },
    )
}

/// Generates replies that the dialect encodes without loss.
fn reply(dialect: Dialect) -> impl Strategy<Value = Reply> {
    let body = (
        prop::collection::vec(thought(), 0..3),
        prop::collection::vec(words(), 0..3),
        prop::option::of(text().prop_map(|text| Block::Refusal { text })),
        prop::collection::vec(call(), 0..3),
    );
    let early = prop::sample::select(vec![StopReason::MaxTokens, StopReason::Other("odd".to_owned())]);
    (body, usage(), prop::option::weighted(0.2, early), any::<prop::sample::Index>()).prop_map(
        move |((thoughts, mut texts, refusal, calls), mut usage, early, turn)| {
            let refusal = refusal.filter(|_| dialect != Dialect::AnthropicMessages && calls.is_empty());
            if dialect == Dialect::OpenAiChat {
                texts.truncate(1); // a message has one string
            }
            if dialect != Dialect::AnthropicMessages {
                usage.cache_write_1h = 0;
            }
            let stop = match (calls.is_empty(), &refusal) {
                (false, _) => StopReason::ToolUse,
                (true, Some(_)) => StopReason::Refusal,
                (true, None) => StopReason::EndTurn,
            };
            let mut blocks: Vec<Block> = [thoughts, texts, refusal.into_iter().collect(), calls].concat();
            if dialect != Dialect::OpenAiChat && !blocks.is_empty() {
                let turn = turn.index(blocks.len());
                blocks.rotate_left(turn); // the other dialects accept any order
            }
            let (id, model) = ("id_1".to_owned(), "model-é".to_owned());
            Reply { id, model, blocks, stop: Some(early.unwrap_or(stop)), usage }
        },
    )
}

fn any_reply() -> impl Strategy<Value = (Dialect, Reply)> {
    prop::sample::select(DIALECTS.to_vec()).prop_flat_map(|dialect| (Just(dialect), reply(dialect)))
}

fn decoded(dialect: Dialect, body: &[u8]) -> DecodedReply {
    dialect.decode_reply(body).expect("we wrote JSON").into_reply().expect("we wrote a reply")
}

/// Generates conversations that the dialect encodes without loss.
fn draft(dialect: Dialect) -> impl Strategy<Value = Draft> {
    let user = prop::collection::vec(prop_oneof![3 => words(), 1 => image()], 1..3);
    let user = user.prop_map(|blocks| Message { role: Role::User, blocks });
    let note = words().prop_map(|block| Message { role: Role::System, blocks: vec![block] });
    let results = result().prop_map(move |block| {
        let role = if dialect == Dialect::AnthropicMessages { Role::User } else { Role::Tool };
        Message { role, blocks: vec![block] }
    });
    let assistant = reply(dialect).prop_map(|reply| Message { role: Role::Assistant, blocks: reply.blocks });
    let assistant = assistant.prop_filter("a message says something", |message| !message.blocks.is_empty());
    let message = prop_oneof![user, note, results, assistant].prop_map(Element::Value);
    let system = prop::collection::vec(words().prop_map(Element::Value), 0..3);
    let tool = ("[A-Z][a-z]{1,8}", text()).prop_map(|(name, description)| {
        Element::Value(ToolSpec {
            name,
            description,
            schema: r#"{"type":"object","properties":{ }}"#.to_owned(),
        })
    });
    let tools = prop::collection::vec(tool, 0..4);
    let limits = (prop::option::of(1u64..99999), any::<bool>());
    (system, tools, prop::collection::vec(message, 0..5), limits).prop_map(
        |(system, tools, messages, limits)| Draft {
            model: "m".to_owned(),
            max_tokens: limits.0,
            stream: limits.1,
            thinking: Some(ThinkingConfig::Adaptive { summarized: false }),
            effort: Some("high".to_owned()),
            extra: vec![("metadata".to_owned(), r#"{"user_id": "u"}"#.to_owned())],
            tools,
            system,
            messages,
            marks: Vec::new(),
        },
    )
}

fn any_draft() -> impl Strategy<Value = (Dialect, Draft)> {
    prop::sample::select(DIALECTS.to_vec()).prop_flat_map(|dialect| (Just(dialect), draft(dialect)))
}

fn made<T: Clone>(elements: &[Element<T>]) -> Vec<T> {
    let made = elements.iter().map(|element| match element {
        Element::Value(value) => value.clone(),
        Element::Raw(_) => unreachable!("the strategy makes none"),
    });
    made.collect()
}

/// Lists authors and blocks. Dialects group blocks into messages in different ways.
fn flat(messages: impl IntoIterator<Item = Message>) -> Vec<(Role, Block)> {
    messages.into_iter().flat_map(|m| m.blocks.into_iter().map(move |block| (m.role, block))).collect()
}

proptest! {
    #[test]
    fn encoding_and_decoding_returns_the_reply((dialect, reply) in any_reply()) {
        let body = dialect.encode_reply(&reply).expect("encodable");
        let answer = decoded(dialect, &body);
        prop_assert_eq!(&answer.reply, &reply);
        prop_assert!(answer.unknown.len() <= 1, "only the odd stop reason: {:?}", answer.unknown);
    }

    #[test]
    fn a_stream_becomes_the_body_without_streaming((dialect, reply) in any_reply(), chunk in 1usize..9, cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6)) {
        let stream = dialect.encode_stream(&reply, chunk).expect("encodable").concat();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        cuts.sort_unstable();
        cuts.push(stream.len());
        let mut decoder = crate::sse::SseDecoder::new();
        let mut accumulator = Accumulator::new(dialect);
        let mut from = 0;
        for cut in cuts {
            feed(&mut accumulator, &decoder.push(&stream[from..cut]));
            from = cut;
        }
        let whole = accumulator.finish();
        prop_assert_eq!(&whole.unknown, &[]);
        prop_assert_eq!(&whole.end, &StreamEnd::Complete);
        let body = String::from_utf8(whole.body.expect("it began")).expect("UTF-8");
        prop_assert_eq!(&body, &String::from_utf8(dialect.encode_reply(&reply).expect("encodable")).expect("UTF-8"));
        prop_assert_eq!(decoded(dialect, body.as_bytes()).reply, reply);
    }

    #[test]
    fn a_truncated_stream_is_a_prefix((dialect, reply) in any_reply(), chunk in 1usize..9, keep in any::<prop::sample::Index>()) {
        let events = dialect.encode_stream(&reply, chunk).expect("encodable");
        let cut = accumulate(dialect, &events[..keep.index(events.len())].concat());
        prop_assert_eq!(&cut.unknown, &[]);
        prop_assert_eq!(&cut.end, &StreamEnd::Early);
        let Some(body) = cut.body else { return Ok(()) };
        let answer = decoded(dialect, &body);
        prop_assert!(answer.reply.blocks.len() <= reply.blocks.len());
        for (came, whole) in answer.reply.blocks.iter().zip(&reply.blocks) {
            if let (Block::Text { text: came }, Block::Text { text: whole }) = (came, whole) {
                prop_assert!(whole.starts_with(came));
            }
            if let (Block::ToolCall(came), Block::ToolCall(whole)) = (came, whole) {
                prop_assert!(came.input == "{}" || whole.input.starts_with(&came.input), "{} of {}", came.input, whole.input);
            }
        }
    }

    #[test]
    fn encoding_and_decoding_returns_the_draft((dialect, draft) in any_draft()) {
        let body = String::from_utf8(dialect.encode_request(&draft).expect("encodable")).expect("UTF-8");
        let prompt = dialect.decode_request(body.as_bytes()).expect("we wrote JSON");
        places_hold(&prompt, &body);
        prop_assert_eq!(&prompt.unknown, &[]);
        prop_assert_eq!((prompt.model.as_deref(), prompt.stream, prompt.max_tokens), (Some("m"), draft.stream, draft.max_tokens));
        let system = made(&draft.system);
        let leading = if dialect == Dialect::AnthropicMessages { 0 } else { usize::from(!system.is_empty()) };
        let blocks: Vec<Block> = match leading {
            0 => prompt.system.iter().map(|part| part.block.clone()).collect(),
            _ => prompt.messages[0].message().blocks,
        };
        prop_assert_eq!(blocks, system);
        prop_assert_eq!(flat(prompt.messages[leading..].iter().map(PromptMessage::message)), flat(made(&draft.messages)));
        let tools = made(&draft.tools);
        prop_assert_eq!(prompt.tools.len(), tools.len());
        for (decoded, tool) in prompt.tools.iter().zip(&tools) {
            prop_assert_eq!((&decoded.name, decoded.description.as_ref()), (&tool.name, Some(&tool.description)));
            prop_assert_eq!(&body[decoded.schema.clone().expect("a schema").span], &tool.schema);
        }
        let metadata = prompt.setting("metadata").expect("extra members stay");
        prop_assert_eq!(&body[metadata.span.clone()], &draft.extra[0].1);
    }

    #[test]
    fn a_longer_conversation_starts_with_the_same_bytes((dialect, draft) in any_draft(), more in words()) {
        let shorter = dialect.encode_request(&draft).expect("encodable");
        let mut longer = draft;
        longer.messages.push(Message { role: Role::User, blocks: vec![more] }.into());
        let longer = dialect.encode_request(&longer).expect("encodable");
        prop_assert!(longer.starts_with(&shorter[..shorter.len() - 2])); // except the closing `]}`
    }

    #[test]
    fn markers_can_be_set_and_removed((dialect, draft) in any_draft(), picks in subsequence((0..20usize).collect::<Vec<_>>(), 0..4)) {
        let places = draft.messages.iter().enumerate().flat_map(|(message, element)| match element {
            Element::Value(made) => made.blocks.iter().enumerate().filter(|(_, b)| matches!(b, Block::Text { .. })).map(move |(block, _)| MarkerTarget::Block { message, block }).collect::<Vec<_>>(),
            Element::Raw(_) => Vec::new(),
        });
        let places: Vec<MarkerTarget> = places.chain((0..draft.system.len()).map(MarkerTarget::System)).collect();
        let marks: Vec<DraftMarker> = picks.iter().filter_map(|pick| places.get(*pick)).map(|on| DraftMarker { on: *on, ttl: Some("1h".to_owned()) }).collect();
        let marked = dialect.encode_request(&Draft { marks: marks.clone(), ..draft.clone() }).expect("encodable");
        let prompt = dialect.decode_request(&marked).expect("we wrote JSON");
        prop_assert_eq!(prompt.markers.len(), marks.len());
        let mut edits = crate::json::Edits::default();
        prompt.remove_markers(&marked, &mut edits);
        let unmarked = edits.apply(&marked).expect("apart");
        let never_marked = dialect.encode_request(&draft).expect("encodable");
        if dialect == Dialect::OpenAiChat {
            // A message without marker may be a string. It keeps its list of parts when it loses its marker.
            let messages = |body: &[u8]| {
                let prompt = dialect.decode_request(body).expect("we wrote JSON");
                prompt.messages.iter().map(PromptMessage::message).collect::<Vec<_>>()
            };
            prop_assert_eq!(messages(&unmarked), messages(&never_marked));
        } else {
            prop_assert_eq!(unmarked, never_marked);
        }
    }

    #[test]
    fn no_json_makes_a_decoder_panic(body in r#"\{("(messages|input|output|content|choices|message|tools|usage|type|role|delta|system|instructions)":([\[{]){0,2}("text"|1|null|true)?[\]}]{0,2},?){0,6}\}"#) {
        for dialect in DIALECTS {
            let _ = dialect.decode_request(body.as_bytes());
            let _ = dialect.decode_reply(body.as_bytes());
            let _ = accumulate(dialect, data(&body).as_bytes());
        }
    }
}

#[test]
fn encoded_errors_can_be_decoded() {
    let error = ProviderError::new("overloaded_error", "try \"later\"");
    for dialect in DIALECTS {
        assert_eq!(
            dialect.decode_reply(&dialect.encode_error(&error)),
            Ok(DecodedResponse::Error(error.clone()))
        );
        assert_eq!(
            accumulate(dialect, &dialect.encode_stream_error(&error)).end,
            StreamEnd::Failed(error.clone())
        );
    }
}

#[test]
fn unsupported_blocks_are_errors_with_a_name() {
    let reply = |block| Reply {
        id: String::new(),
        model: String::new(),
        blocks: vec![block],
        stop: None,
        usage: Usage::default(),
    };
    let told =
        |dialect: Dialect, block| dialect.encode_reply(&reply(block)).expect_err("refused").to_string();
    let unknown = || Block::Unknown { kind: "hologram".to_owned() };
    assert_eq!(
        told(Dialect::AnthropicMessages, unknown()),
        "Anthropic Messages does not support an unknown block without its bytes in a reply"
    );
    assert_eq!(
        told(Dialect::OpenAiChat, unknown()),
        "OpenAI Chat Completions does not support an unknown block without its bytes in a reply"
    );
    assert_eq!(
        told(Dialect::OpenAiResponses, unknown()),
        "OpenAI Responses does not support an unknown block without its bytes in a reply"
    );
    let call = ToolCall {
        id: CallId::new("c1"),
        name: "n".to_owned(),
        input: "free text".to_owned(),
        server: false,
    };
    assert_eq!(
        told(Dialect::AnthropicMessages, Block::ToolCall(call)),
        "the input of call `c1` is not a JSON object"
    );
}
