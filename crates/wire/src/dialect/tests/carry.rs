//! Requests as concatenations, and replies inside of later requests.

use expect_test::{Expect, expect};
use session::{Block, CallId, Message, Reply, Role, StopReason, ToolCall, ToolResult, Usage};

use super::*;

const ALL: [Dialect; 3] = [Dialect::AnthropicMessages, Dialect::OpenAiChat, Dialect::OpenAiResponses];

fn text(text: &str) -> Block {
    Block::Text { text: text.to_owned() }
}

fn conversation() -> Vec<Message> {
    let call =
        |id: &str| ToolCall { id: CallId::new(id), name: "read".into(), input: "{}".into(), server: false };
    let result = |id: &str| {
        let blocks = vec![text("its text")];
        Block::ToolResult(ToolResult { call: CallId::new(id), blocks, is_error: false, server: false })
    };
    vec![
        Message { role: Role::User, blocks: vec![text("look"), text("twice")] },
        Message {
            role: Role::Assistant,
            blocks: vec![text("I do"), Block::ToolCall(call("a")), Block::ToolCall(call("b"))],
        },
        Message { role: Role::User, blocks: vec![result("a"), result("b"), text("and?")] },
    ]
}

fn draft(messages: &[Message]) -> Draft {
    Draft {
        model: "m".into(),
        max_tokens: Some(9),
        system: vec![text("be brief").into()],
        messages: messages.iter().cloned().map(Element::Value).collect(),
        ..Draft::default()
    }
}

#[test]
fn head_and_messages_form_the_request() {
    for dialect in ALL {
        for draft in [draft(&conversation()), Draft { system: Vec::new(), ..draft(&conversation()) }] {
            let head = dialect.encode_head(&draft).expect("encodable");
            let messages: Vec<String> =
                conversation().iter().map(|m| dialect.encode_message(m).expect("encodable")).collect();
            let joined = join_request(&head, messages.iter().map(String::as_str));
            // In Chat Completions, messages of a conversation are simpler than the dialect allows.
            let plain = |message: Message| match dialect {
                Dialect::OpenAiChat => crate::dialect::chat::plain::message(&message),
                _ => message,
            };
            let messages = conversation().into_iter().map(plain).map(Element::Value).collect();
            let whole = dialect.encode_request(&Draft { messages, ..draft }).expect("encodable");
            assert_eq!(String::from_utf8_lossy(&joined), String::from_utf8_lossy(&whole), "{dialect}");
        }
    }
}

fn carried(dialect: Dialect, body: &str, expected: Expect) {
    let answer = dialect.decode_reply(body.as_bytes()).expect("JSON").into_reply().expect("an answer");
    expected.assert_eq(&dialect.carry(body.as_bytes(), &answer.reply).expect("encodable"));
}

#[test]
fn unknown_blocks_keep_their_bytes_in_later_requests() {
    carried(
        Dialect::AnthropicMessages,
        r#"{"id":"x","content":[ {"type":"novel","n":1e3}, {"type":"text","text":"a\u00e9","citations":[]}]}"#,
        expect![[
            r#"{"role":"assistant","content":[{"type":"novel","n":1e3},{"type":"text","text":"a\u00e9","citations":[]}]}"#
        ]],
    );
    carried(
        Dialect::OpenAiResponses,
        r#"{"output":[{"type":"reasoning","id":"rs_1","encrypted_content":"e"},{"type":"novel","n":1e3}]}"#,
        expect![[r#"{"type":"reasoning","id":"rs_1","encrypted_content":"e"},{"type":"novel","n":1e3}"#]],
    );
    carried(
        Dialect::OpenAiChat,
        r#"{"choices":[{"message":{"role":"assistant","content":"a","refusal":null,"annotations":[]},"finish_reason":"stop"}]}"#,
        expect![[r#"{"role":"assistant","content":"a"}"#]],
    );
}

#[test]
fn a_chat_reply_keeps_its_bytes_in_later_requests() {
    carried(
        Dialect::OpenAiChat,
        r#"{"choices":[{"message":{"content":[{"type":"novel","n":1e3}],"reasoning_details":[{"type":"odd","x":"\u00e9"}],
            "tool_calls":[{"id":"a","type":"function","extra_content":{"s":1},"function":{"name":"f","arguments":"{ }"}}]}}]}"#,
        expect![[
            r#"{"role":"assistant","content":[{"type":"novel","n":1e3}],"reasoning_details":[{"type":"odd","x":"\u00e9"}],"tool_calls":[{"id":"a","type":"function","extra_content":{"s":1},"function":{"name":"f","arguments":"{ }"}}]}"#
        ]],
    );
    carried(
        Dialect::OpenAiChat,
        r#"{"choices":[{"message":{"content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]}}]}"#,
        expect![[
            r#"{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]}"#
        ]],
    );
    carried(
        Dialect::OpenAiChat,
        r#"{"choices":[{"message":{"content":null,"reasoning_content":"hm"}}]}"#,
        expect![[r#"{"role":"assistant","content":"(no answer)","reasoning_content":"hm"}"#]],
    );
}

#[test]
fn an_empty_reply_becomes_a_message_with_text() {
    carried(
        Dialect::AnthropicMessages,
        r#"{"content":[{"type":"thinking","thinking":"x"},{"type":"text","text":""},{"type":"text","text":"y"}]}"#,
        expect![[
            r#"{"role":"assistant","content":[{"type":"thinking","thinking":"x"},{"type":"text","text":"y"}]}"#
        ]],
    );
    carried(
        Dialect::AnthropicMessages,
        r#"{"content":[],"stop_reason":"end_turn"}"#,
        expect![[r#"{"role":"assistant","content":[{"type":"text","text":"(no answer)"}]}"#]],
    );
    carried(
        Dialect::AnthropicMessages,
        r#"{"content":[{"type":"text","text":""}],"stop_reason":"end_turn"}"#,
        expect![[r#"{"role":"assistant","content":[{"type":"text","text":"(no answer)"}]}"#]],
    );
}

#[test]
fn a_truncated_input_leaves_no_extra_member() {
    carried(
        Dialect::AnthropicMessages,
        r#"{"content":[{"type":"tool_use","id":"a","name":"read","input":{},"partial_json":"{\"pa"}]}"#,
        expect![[
            r#"{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"read","input":{}}]}"#
        ]],
    );
}

#[test]
fn the_last_block_that_can_carry_a_marker_gets_it() {
    let dialect = Dialect::AnthropicMessages;
    let message =
        r#"{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"thinking","thinking":"b"}]}"#;
    expect![[r#"{"role":"assistant","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},{"type":"thinking","thinking":"b"}]}"#]]
        .assert_eq(&dialect.mark(message, None));
    let only_thought = r#"{"role":"assistant","content":[{"type":"thinking","thinking":"b"}]}"#;
    assert_eq!(dialect.mark(only_thought, None), only_thought);
    assert_eq!(Dialect::OpenAiChat.mark(message, None), message);
    assert!(dialect.mark(message, Some("1h")).contains(r#""ttl":"1h""#));
}

#[test]
fn a_marker_changes_only_the_decoded_marker() {
    let dialect = Dialect::AnthropicMessages;
    let reply = Reply {
        id: "i".into(),
        model: "m".into(),
        blocks: vec![text("x")],
        stop: Some(StopReason::EndTurn),
        usage: Usage::default(),
    };
    let body = dialect.encode_reply(&reply).expect("encodable");
    let carried = dialect.carry(&body, &reply).expect("encodable");
    let head = dialect.encode_head(&draft(&[])).expect("encodable");
    let decode = |message: &str| {
        dialect.decode_request(&join_request(&head, [message])).expect("a request").messages[0].message()
    };
    assert_eq!(decode(&carried), decode(&dialect.mark(&carried, None)));
}

#[test]
fn chat_messages_have_one_text_and_images_after_results() {
    let image =
        Block::Image(session::ImageSource::Base64 { media_type: "image/png".into(), data: "AA==".into() });
    let result = |id: &str, blocks: Vec<Block>| {
        Block::ToolResult(session::ToolResult {
            call: session::CallId::new(id),
            blocks,
            is_error: false,
            server: false,
        })
    };
    let dialect = Dialect::OpenAiChat;
    let said = |blocks: Vec<Block>| {
        dialect.encode_message(&Message { role: Role::User, blocks }).expect("encodable")
    };
    assert_eq!(said(vec![text("here"), text("go")]), r#"{"role":"user","content":"here\n\ngo"}"#);
    let results = vec![
        result("a", vec![image.clone(), text("8 by 8")]),
        result("b", vec![text("fine")]),
        text("and now?"),
    ];
    expect![[r#"
        {"role":"tool","tool_call_id":"a","content":"8 by 8\n\n(the picture follows)"},
        {"role":"tool","tool_call_id":"b","content":"fine"},
        {"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}},{"type":"text","text":"and now?"}]}
    "#]]
    .assert_eq(&(said(results).replace("},{\"role\"", "},\n{\"role\"") + "\n"));
    let draft = Draft { system: vec![text("be brief").into(), text("be kind").into()], ..draft(&[]) };
    let head = String::from_utf8(dialect.encode_head(&draft).expect("encodable")).expect("UTF-8");
    assert!(head.ends_with(r#""messages":[{"role":"system","content":"be brief\n\nbe kind"}"#), "{head}");
}

/// Providers reject a blank message, and a message that ends with thinking.
#[test]
fn an_empty_reply_has_a_text() {
    let blank = r#"{"content":[{"type":"text","text":"\n\n"},{"type":"tool_use","id":"a","name":"list","input":{}}]}"#;
    carried(
        Dialect::AnthropicMessages,
        blank,
        expect![[
            r#"{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"list","input":{}}]}"#
        ]],
    );
    carried(
        Dialect::AnthropicMessages,
        r#"{"content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":" "}]}"#,
        expect![[
            r#"{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"(no answer)"}]}"#
        ]],
    );
    carried(
        Dialect::AnthropicMessages,
        r#"{"content":[{"type":"text","text":" "}]}"#,
        expect![[r#"{"role":"assistant","content":[{"type":"text","text":"(no answer)"}]}"#]],
    );
}
