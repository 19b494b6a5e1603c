//! Encoded requests and replies have the provider's format.

use expect_test::{Expect, expect};
use session::{Block, CallId, ImageSource, Message, Reply, Role, StopReason, ToolCall, ToolResult, Usage};

use super::*;

fn call(id: &str, name: &str, input: &str) -> Block {
    Block::ToolCall(ToolCall {
        id: CallId::new(id),
        name: name.to_owned(),
        input: input.to_owned(),
        server: false,
    })
}

fn text(text: &str) -> Block {
    Block::Text { text: text.to_owned() }
}

fn stream(dialect: Dialect, expected: Expect) {
    let reply = Reply {
        id: "id_1".to_owned(),
        model: "m".to_owned(),
        blocks: vec![
            Block::Thinking { text: "hm".to_owned(), signature: Some("sig".to_owned()) },
            text("Launching both."),
            call("call_1", "Agent", r#"{"prompt":"List."}"#),
        ],
        stop: Some(StopReason::ToolUse),
        usage: Usage { input: 100, output: 20, cache_read: 7, cache_write_5m: 3, ..Usage::default() },
    };
    let events = dialect.encode_stream(&reply, 9).expect("encodable");
    let cut = Reply { stop: None, ..reply };
    let without_end = dialect.encode_stream(&cut, 9).expect("encodable");
    assert!(events.starts_with(&without_end) && events.len() > without_end.len());
    expected.assert_eq(&String::from_utf8(events.concat()).expect("UTF-8"));
}

fn request(dialect: Dialect, expected: Expect) {
    let result = |call: &str, blocks| {
        Block::ToolResult(ToolResult { call: CallId::new(call), blocks, is_error: true, server: false })
    };
    let said = |role, blocks| Element::Value(Message { role, blocks });
    let mark = |on| DraftMarker { on, ttl: Some("1h".to_owned()) };
    let draft = Draft {
        model: "m".to_owned(),
        max_tokens: Some(9),
        stream: true,
        thinking: Some(ThinkingConfig::Adaptive { summarized: false }),
        effort: Some("high".to_owned()),
        extra: vec![("temperature".to_owned(), "1.0".to_owned())],
        tools: vec![
            ToolSpec {
                name: "Read".to_owned(),
                description: "reads".to_owned(),
                schema: r#"{"type":"object"}"#.to_owned(),
            }
            .into(),
            Element::Raw(r#"{ "raw" : 1e3 }"#.to_owned()),
        ],
        system: vec![text("be brief").into()],
        messages: vec![
            said(
                Role::User,
                vec![
                    text("look"),
                    Block::Image(ImageSource::Base64 {
                        media_type: "image/png".to_owned(),
                        data: "AA==".to_owned(),
                    }),
                ],
            ),
            said(Role::Assistant, vec![call("c1", "Read", r#"{ "path": "a"}"#)]),
            Element::Raw(r#"{"raw":"message"}"#.to_owned()),
            said(Role::User, vec![result("c1", vec![text("gone")]), text("go on")]),
        ],
        marks: vec![
            mark(MarkerTarget::Tool(0)),
            mark(MarkerTarget::System(0)),
            mark(MarkerTarget::Block { message: 3, block: 1 }),
        ],
    };
    let body = dialect.encode_request(&draft).expect("encodable");
    expected.assert_eq(&(String::from_utf8(body).expect("UTF-8") + "\n"));
}

#[test]
fn anthropic() {
    stream(
        Dialect::AnthropicMessages,
        expect![[r#"
        event: message_start
        data: {"type":"message_start","message":{"model":"m","id":"id_1","type":"message","role":"assistant","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":100,"cache_creation_input_tokens":3,"cache_read_input_tokens":7,"cache_creation":{"ephemeral_5m_input_tokens":3,"ephemeral_1h_input_tokens":0},"output_tokens":1,"service_tier":"standard"}}}

        event: content_block_start
        data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

        event: ping
        data: {"type":"ping"}

        event: content_block_delta
        data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}

        event: content_block_delta
        data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"sig"}}

        event: content_block_stop
        data: {"type":"content_block_stop","index":0}

        event: content_block_start
        data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}

        event: content_block_delta
        data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Launching"}}

        event: content_block_delta
        data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":" both."}}

        event: content_block_stop
        data: {"type":"content_block_stop","index":1}

        event: content_block_start
        data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"call_1","name":"Agent","input":{}}}

        event: content_block_delta
        data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":""}}

        event: content_block_delta
        data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"prompt\""}}

        event: content_block_delta
        data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":":\"List.\"}"}}

        event: content_block_stop
        data: {"type":"content_block_stop","index":2}

        event: message_delta
        data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"input_tokens":100,"cache_creation_input_tokens":3,"cache_read_input_tokens":7,"output_tokens":20}}

        event: message_stop
        data: {"type":"message_stop"}

    "#]],
    );
    request(
        Dialect::AnthropicMessages,
        expect![[r#"
        {"model":"m","max_tokens":9,"stream":true,"thinking":{"type":"adaptive"},"output_config":{"effort":"high"},"temperature":1.0,"tools":[{"name":"Read","description":"reads","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral","ttl":"1h"}},{ "raw" : 1e3 }],"system":[{"type":"text","text":"be brief","cache_control":{"type":"ephemeral","ttl":"1h"}}],"messages":[{"role":"user","content":[{"type":"text","text":"look"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=="}}]},{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"Read","input":{ "path": "a"}}]},{"raw":"message"},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"gone","is_error":true},{"type":"text","text":"go on","cache_control":{"type":"ephemeral","ttl":"1h"}}]}]}
    "#]],
    );
}

#[test]
fn chat() {
    stream(
        Dialect::OpenAiChat,
        expect![[r#"
        data: {"id":"id_1","object":"chat.completion.chunk","created":0,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}],"usage":null}

        data: {"id":"id_1","object":"chat.completion.chunk","created":0,"model":"m","choices":[{"index":0,"delta":{"reasoning_details":[{"type":"reasoning.text","text":"","signature":null,"index":0}]},"logprobs":null,"finish_reason":null}],"usage":null}

        data: {"id":"id_1","object":"chat.completion.chunk","created":0,"model":"m","choices":[{"index":0,"delta":{"reasoning_details":[{"type":"reasoning.text","text":"hm","index":0}]},"logprobs":null,"finish_reason":null}],"usage":null}

        data: {"id":"id_1","object":"chat.completion.chunk","created":0,"model":"m","choices":[{"index":0,"delta":{"reasoning_details":[{"type":"reasoning.text","signature":"sig","index":0}]},"logprobs":null,"finish_reason":null}],"usage":null}

        data: {"id":"id_1","object":"chat.completion.chunk","created":0,"model":"m","choices":[{"index":0,"delta":{"content":"Launching"},"logprobs":null,"finish_reason":null}],"usage":null}

        data: {"id":"id_1","object":"chat.completion.chunk","created":0,"model":"m","choices":[{"index":0,"delta":{"content":" both."},"logprobs":null,"finish_reason":null}],"usage":null}

        data: {"id":"id_1","object":"chat.completion.chunk","created":0,"model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"Agent","arguments":""}}]},"logprobs":null,"finish_reason":null}],"usage":null}

        data: {"id":"id_1","object":"chat.completion.chunk","created":0,"model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"prompt\""}}]},"logprobs":null,"finish_reason":null}],"usage":null}

        data: {"id":"id_1","object":"chat.completion.chunk","created":0,"model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":":\"List.\"}"}}]},"logprobs":null,"finish_reason":null}],"usage":null}

        data: {"id":"id_1","object":"chat.completion.chunk","created":0,"model":"m","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"tool_calls"}],"usage":null}

        data: {"id":"id_1","object":"chat.completion.chunk","created":0,"model":"m","choices":[],"usage":{"prompt_tokens":110,"completion_tokens":20,"total_tokens":130,"prompt_tokens_details":{"cached_tokens":7,"cache_write_tokens":3},"completion_tokens_details":{"reasoning_tokens":0}}}

        data: [DONE]

    "#]],
    );
    request(
        Dialect::OpenAiChat,
        expect![[r#"
        {"model":"m","max_completion_tokens":9,"stream":true,"stream_options":{"include_usage":true},"reasoning_effort":"high","temperature":1.0,"tools":[{"type":"function","function":{"name":"Read","description":"reads","parameters":{"type":"object"}},"cache_control":{"type":"ephemeral","ttl":"1h"}},{ "raw" : 1e3 }],"messages":[{"role":"system","content":[{"type":"text","text":"be brief","cache_control":{"type":"ephemeral","ttl":"1h"}}]},{"role":"user","content":[{"type":"text","text":"look"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}]},{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"Read","arguments":"{ \"path\": \"a\"}"}}]},{"raw":"message"},{"role":"tool","tool_call_id":"c1","content":"gone"},{"role":"user","content":[{"type":"text","text":"go on","cache_control":{"type":"ephemeral","ttl":"1h"}}]}]}
    "#]],
    );
}

#[test]
fn responses() {
    stream(
        Dialect::OpenAiResponses,
        expect![[r#"
        event: response.created
        data: {"type":"response.created","response":{"id":"id_1","object":"response","created_at":0,"status":"in_progress","error":null,"incomplete_details":null,"instructions":null,"model":"m","output":[],"parallel_tool_calls":true,"tool_choice":"auto","tools":[],"usage":null,"metadata":{}},"sequence_number":0}

        event: response.in_progress
        data: {"type":"response.in_progress","response":{"id":"id_1","object":"response","created_at":0,"status":"in_progress","error":null,"incomplete_details":null,"instructions":null,"model":"m","output":[],"parallel_tool_calls":true,"tool_choice":"auto","tools":[],"usage":null,"metadata":{}},"sequence_number":1}

        event: response.output_item.added
        data: {"type":"response.output_item.added","output_index":0,"item":{"id":"rs_id_1_0","type":"reasoning","summary":[],"encrypted_content":"sig"},"sequence_number":2}

        event: response.reasoning_summary_part.added
        data: {"type":"response.reasoning_summary_part.added","item_id":"rs_id_1_0","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":""},"sequence_number":3}

        event: response.reasoning_summary_text.delta
        data: {"type":"response.reasoning_summary_text.delta","item_id":"rs_id_1_0","output_index":0,"summary_index":0,"delta":"hm","sequence_number":4}

        event: response.reasoning_summary_text.done
        data: {"type":"response.reasoning_summary_text.done","item_id":"rs_id_1_0","output_index":0,"summary_index":0,"text":"hm","sequence_number":5}

        event: response.reasoning_summary_part.done
        data: {"type":"response.reasoning_summary_part.done","item_id":"rs_id_1_0","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":"hm"},"sequence_number":6}

        event: response.output_item.done
        data: {"type":"response.output_item.done","output_index":0,"item":{"id":"rs_id_1_0","type":"reasoning","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"sig"},"sequence_number":7}

        event: response.output_item.added
        data: {"type":"response.output_item.added","output_index":1,"item":{"id":"msg_id_1_1","type":"message","status":"in_progress","content":[],"role":"assistant"},"sequence_number":8}

        event: response.content_part.added
        data: {"type":"response.content_part.added","item_id":"msg_id_1_1","output_index":1,"content_index":0,"part":{"type":"output_text","annotations":[],"logprobs":[],"text":""},"sequence_number":9}

        event: response.output_text.delta
        data: {"type":"response.output_text.delta","item_id":"msg_id_1_1","output_index":1,"content_index":0,"delta":"Launching","sequence_number":10}

        event: response.output_text.delta
        data: {"type":"response.output_text.delta","item_id":"msg_id_1_1","output_index":1,"content_index":0,"delta":" both.","sequence_number":11}

        event: response.output_text.done
        data: {"type":"response.output_text.done","item_id":"msg_id_1_1","output_index":1,"content_index":0,"text":"Launching both.","sequence_number":12}

        event: response.content_part.done
        data: {"type":"response.content_part.done","item_id":"msg_id_1_1","output_index":1,"content_index":0,"part":{"type":"output_text","annotations":[],"logprobs":[],"text":"Launching both."},"sequence_number":13}

        event: response.output_item.done
        data: {"type":"response.output_item.done","output_index":1,"item":{"id":"msg_id_1_1","type":"message","status":"completed","content":[{"type":"output_text","annotations":[],"logprobs":[],"text":"Launching both."}],"role":"assistant"},"sequence_number":14}

        event: response.output_item.added
        data: {"type":"response.output_item.added","output_index":2,"item":{"id":"fc_id_1_2","type":"function_call","call_id":"call_1","name":"Agent","arguments":"","status":"in_progress"},"sequence_number":15}

        event: response.function_call_arguments.delta
        data: {"type":"response.function_call_arguments.delta","item_id":"fc_id_1_2","output_index":2,"delta":"{\"prompt\"","sequence_number":16}

        event: response.function_call_arguments.delta
        data: {"type":"response.function_call_arguments.delta","item_id":"fc_id_1_2","output_index":2,"delta":":\"List.\"}","sequence_number":17}

        event: response.function_call_arguments.done
        data: {"type":"response.function_call_arguments.done","item_id":"fc_id_1_2","output_index":2,"arguments":"{\"prompt\":\"List.\"}","sequence_number":18}

        event: response.output_item.done
        data: {"type":"response.output_item.done","output_index":2,"item":{"id":"fc_id_1_2","type":"function_call","call_id":"call_1","name":"Agent","arguments":"{\"prompt\":\"List.\"}","status":"completed"},"sequence_number":19}

        event: response.completed
        data: {"type":"response.completed","response":{"id":"id_1","object":"response","created_at":0,"status":"completed","error":null,"incomplete_details":null,"instructions":null,"model":"m","output":[{"id":"rs_id_1_0","type":"reasoning","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"sig"},{"id":"msg_id_1_1","type":"message","status":"completed","content":[{"type":"output_text","annotations":[],"logprobs":[],"text":"Launching both."}],"role":"assistant"},{"id":"fc_id_1_2","type":"function_call","call_id":"call_1","name":"Agent","arguments":"{\"prompt\":\"List.\"}","status":"completed"}],"parallel_tool_calls":true,"tool_choice":"auto","tools":[],"usage":{"input_tokens":110,"input_tokens_details":{"cached_tokens":7,"cache_write_tokens":3},"output_tokens":20,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":130},"metadata":{}},"sequence_number":20}

    "#]],
    );
    request(
        Dialect::OpenAiResponses,
        expect![[r#"
        {"model":"m","max_output_tokens":9,"stream":true,"reasoning":{"effort":"high","summary":"auto"},"temperature":1.0,"tools":[{"type":"function","name":"Read","description":"reads","parameters":{"type":"object"},"strict":false},{ "raw" : 1e3 }],"input":[{"role":"developer","content":[{"type":"input_text","text":"be brief","prompt_cache_breakpoint":{"mode":"explicit"}}]},{"role":"user","content":[{"type":"input_text","text":"look"},{"type":"input_image","image_url":"data:image/png;base64,AA=="}]},{"type":"function_call","call_id":"c1","name":"Read","arguments":"{ \"path\": \"a\"}"},{"raw":"message"},{"type":"function_call_output","call_id":"c1","output":"gone"},{"role":"user","content":[{"type":"input_text","text":"go on","prompt_cache_breakpoint":{"mode":"explicit"}}]}]}
    "#]],
    );
}

/// Custom tools take free text, and their results have a type of their own.
#[test]
fn custom_tools() {
    let messages = vec![
        Message { role: Role::Assistant, blocks: vec![call("c1", "sh", "ls -l")] }.into(),
        Message {
            role: Role::Tool,
            blocks: vec![Block::ToolResult(ToolResult {
                call: CallId::new("c1"),
                blocks: vec![text("a.txt")],
                is_error: false,
                server: false,
            })],
        }
        .into(),
    ];
    let draft = Draft { messages, ..Draft::default() };
    for (dialect, expected) in [
        (
            Dialect::OpenAiChat,
            expect![[
                r#"{"model":"","messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"custom","custom":{"name":"sh","input":"ls -l"}}]},{"role":"tool","tool_call_id":"c1","content":"a.txt"}]}"#
            ]],
        ),
        (
            Dialect::OpenAiResponses,
            expect![[
                r#"{"model":"","input":[{"type":"custom_tool_call","call_id":"c1","name":"sh","input":"ls -l"},{"type":"custom_tool_call_output","call_id":"c1","output":"a.txt"}]}"#
            ]],
        ),
    ] {
        let body = dialect.encode_request(&draft).expect("encodable");
        expected.assert_eq(&String::from_utf8(body).expect("UTF-8"));
    }
}
