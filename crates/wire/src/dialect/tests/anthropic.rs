use expect_test::{Expect, expect};

use super::*;

fn request(body: &str, expected: Expect) {
    check_request(Dialect::AnthropicMessages, body, expected);
}

fn reply(body: &str, expected: Expect) {
    check_reply(Dialect::AnthropicMessages, body, expected);
}

fn stream(events: &[&str], expected: Expect) {
    let kind = |json: &str| {
        Document::parse(json.as_bytes()).expect("JSON").root().str_at("type").expect("typed").into_owned()
    };
    let stream: String = events.iter().map(|json| event(&kind(json), json)).collect();
    check_stream(Dialect::AnthropicMessages, &stream, expected);
}

#[test]
fn strings_blocks_and_roles() {
    request(
        r#"{"model":"m","messages":[{"role":"user","content":"hi"},
            {"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"sig"},{"type":"redacted_thinking","data":"xx"},{"type":"text","text":"yes","citations":null}]},
            {"content":"a \u00e9 note","output_config":{"effort":"low"},"role":"system"}],
            "system":"be brief","max_tokens":10,"stream":true,"temperature":1e0,"metadata":{"user_id":"u"},"thinking":{"type":"adaptive"}}"#,
        expect![[r#"
            model Some("m"), stream true, max Some(10)
            system Text { text: "be brief" } said at /system
            User /messages/0
              Text { text: "hi" } said at /messages/0/content
            Assistant /messages/1
              Thinking { text: "hm", signature: Some("sig") } said at /messages/1/content/0/thinking
              RedactedThinking { data: "xx" } said at /messages/1/content/1/data
              Text { text: "yes" } said at /messages/1/content/2/text
            System /messages/2
              Text { text: "a é note" } said at /messages/2/content
              + output_config: {"effort":"low"}
            setting temperature: 1e0
            setting metadata: {"user_id":"u"}
            setting thinking: {"type":"adaptive"}
        "#]],
    );
}

#[test]
fn calls_and_results_are_decoded_with_their_content() {
    request(
        r#"{"messages":[{"role":"assistant","content":[
              {"type":"tool_use","id":"toolu_1","name":"Read","input":{ "path" : "a" }},
              {"type":"server_tool_use","id":"srv_1","name":"web_search","input":{"query":"q"}},
              {"type":"web_search_tool_result","tool_use_id":"srv_1","content":[{"type":"web_search_result","url":"u","title":"t","encrypted_content":"e"}]},
              {"type":"server_tool_use","id":"srv_2","name":"tool_search_tool_regex","input":{"pattern":"x"}},
              {"type":"tool_search_tool_result","tool_use_id":"srv_2","content":{"type":"tool_search_tool_search_result","tool_references":[{"type":"tool_reference","tool_name":"Later"}]}},
              {"type":"web_fetch_tool_result","tool_use_id":"srv_3","content":{"type":"web_fetch_tool_result_error","error_code":"unavailable"}}]},
            {"role":"user","content":[
              {"type":"tool_result","tool_use_id":"toolu_1","content":"plain"},
              {"type":"tool_result","tool_use_id":"toolu_2","is_error":true,"content":[{"type":"text","text":"no"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=="}}]},
              {"type":"tool_result","tool_use_id":"toolu_3"},
              {"type":"tool_result","tool_use_id":"toolu_4","content":[{"type":"tool_reference","tool_name":"SendMessage"}]},
              {"type":"image","source":{"type":"url","url":"https://x/y.png"}},{"type":"image","source":{"type":"file","file_id":"file_1"}},
              {"type":"document","title":"T","source":{"type":"text","media_type":"text/plain","data":"d"}},
              {"type":"search_result","source":"s","title":"t","content":[]},{"type":"container_upload","file_id":"f"}]}]}"#,
        expect![[r#"
            model None, stream false, max None
            Assistant /messages/0
              ToolCall toolu_1 Read { "path" : "a" } server=false said at /messages/0/content/0/input
              ToolCall srv_1 web_search {"query":"q"} server=true said at /messages/0/content/1/input
              ToolResult of srv_1 error=false server=true said at /messages/0/content/2/content
                Unknown { kind: "web_search_result" } said at -
              ToolCall srv_2 tool_search_tool_regex {"pattern":"x"} server=true said at /messages/0/content/3/input
              ToolResult of srv_2 error=false server=true said at /messages/0/content/4/content
                ToolReference { name: "Later" } said at /messages/0/content/4/content/tool_references/0/tool_name
              ToolResult of srv_3 error=true server=true said at /messages/0/content/5/content
                Unknown { kind: "web_fetch_tool_result_error" } said at -
            User /messages/1
              ToolResult of toolu_1 error=false server=false said at /messages/1/content/0/content
                Text { text: "plain" } said at /messages/1/content/0/content
              ToolResult of toolu_2 error=true server=false said at /messages/1/content/1/content
                Text { text: "no" } said at /messages/1/content/1/content/0/text
                Image(Base64 { media_type: "image/png", data: "AA==" }) said at /messages/1/content/1/content/1/source
              ToolResult of toolu_3 error=false server=false said at -
              ToolResult of toolu_4 error=false server=false said at /messages/1/content/3/content
                ToolReference { name: "SendMessage" } said at /messages/1/content/3/content/0/tool_name
              Image(Url { url: "https://x/y.png" }) said at /messages/1/content/4/source
              Image(File { id: "file_1" }) said at /messages/1/content/5/source
              Document { name: Some("T") } said at /messages/1/content/6/source
              Unknown { kind: "search_result" } said at /messages/1/content/7/content
              Unknown { kind: "container_upload" } said at -
        "#]],
    );
}

#[test]
fn tools_and_markers() {
    request(
        r#"{"cache_control":{"type":"ephemeral"},
            "tools":[{"name":"A","description":"does a","input_schema":{"type":"object"}},
              {"name":"B","input_schema":{},"defer_loading":true,"cache_control":{"type":"ephemeral","ttl":"1h"}},
              {"type":"custom","name":"C","input_schema":{}},{"type":"web_search_20250305","name":"web_search"},{"type":"mcp_toolset","mcp_server_name":"srv"}],
            "system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}],
            "messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","cache_control":{"type":"ephemeral"},
              "content":[{"type":"text","text":"x","cache_control":{"ttl":"5m","type":"ephemeral"}}]}]},
              {"role":"assistant","content":[{"type":"tool_use","id":"i","name":"n","input":{"cache_control":{"type":"ephemeral"}}}]}]}"#,
        expect![[r#"
            model None, stream false, max None
            tool A custom Function {"type":"object"}
            tool B custom Function {} deferred *
            tool C custom Function {}
            tool web_search web_search_20250305 Provider -
            tool srv mcp_toolset Provider -
            system Text { text: "s" } said at /system/0/text *
            User /messages/0
              ToolResult of t error=false server=false said at /messages/0/content/0/content *
                Text { text: "x" } said at /messages/0/content/0/content/0/text *
            Assistant /messages/1
              ToolCall i n {"cache_control":{"type":"ephemeral"}} server=false said at /messages/1/content/0/input
            setting cache_control: {"type":"ephemeral"}
            marker /cache_control None
            marker /tools/1/cache_control Some("1h")
            marker /system/0/cache_control None
            marker /messages/0/content/0/cache_control None
            marker /messages/0/content/0/content/0/cache_control Some("5m")
        "#]],
    );
}

/// A marker with the value `null` marks nothing.
#[test]
fn a_marker_of_null_is_unset() {
    request(
        r#"{"cache_control":null,"messages":[{"role":"user","content":[{"type":"text","text":"x","cache_control":null},
              {"type":"text","text":"y","prompt_cache_breakpoint":null,"cache_control":{"type":"ephemeral"}}]}]}"#,
        expect![[r#"
            model None, stream false, max None
            User /messages/0
              Text { text: "x" } said at /messages/0/content/0/text *
              Text { text: "y" } said at /messages/0/content/1/text *
            setting cache_control: null
            marker /cache_control None unset
            marker /messages/0/content/0/cache_control None unset
            marker /messages/0/content/1/cache_control None
        "#]],
    );
}

#[test]
fn unknown_values_are_reported_and_kept() {
    request(
        r#"{"messages":[{"role":"oracle","content":[{"type":"hologram","x":1},{"type":"image","source":{"type":"thought"}},{"type":"tool_result","tool_use_id":"t","content":[{"type":"smell"}]}]}],"tools":[{"type":"teleport_2099","name":"t"}]}"#,
        expect![[r#"
            model None, stream false, max None
            tool t teleport_2099 Provider -
            User /messages/0
              Unknown { kind: "hologram" } said at -
              Unknown { kind: "image" } said at /messages/0/content/1/source
              ToolResult of t error=false server=false said at /messages/0/content/2/content
                Unknown { kind: "smell" } said at -
            `/messages/0/role`: unknown role `oracle`
            `/messages/0/content/0`: unknown block type `hologram`
            `/messages/0/content/1/source`: unknown image source `thought`
            `/messages/0/content/2/content/0`: unknown block type `smell` in a tool result
            `/tools/0`: unknown tool type `teleport_2099`
        "#]],
    );
    reply(
        r#"{"id":"m","type":"message","role":"assistant","model":"x","content":[{"type":"hologram"}],"stop_reason":"bored","usage":{"input_tokens":1,"output_tokens":1}}"#,
        expect![[r#"
            m x Some(Other("bored"))
              Unknown { kind: "hologram" } said at -
            Usage { input: 1, output: 1, cache_read: 0, cache_write_5m: 0, cache_write_1h: 0, reasoning: 0 }
            `/content/0`: unknown block type `hologram`
            `/stop_reason`: unknown stop reason `bored`
        "#]],
    );
}

#[test]
fn replies_usage_and_errors() {
    reply(
        r#"{"id":"msg_1","type":"message","role":"assistant","model":"claude","content":[{"type":"text","text":"hi"},{"type":"tool_use","id":"t","name":"Read","input":{"a":1e3},"caller":{"type":"direct"}}],
          "stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":5,"cache_creation_input_tokens":30,"cache_read_input_tokens":7,"cache_creation":{"ephemeral_5m_input_tokens":10,"ephemeral_1h_input_tokens":20},"output_tokens":9}}"#,
        expect![[r#"
            msg_1 claude Some(ToolUse)
              Text { text: "hi" } said at /content/0/text
              ToolCall t Read {"a":1e3} server=false said at /content/1/input
            Usage { input: 5, output: 9, cache_read: 7, cache_write_5m: 10, cache_write_1h: 20, reasoning: 0 }
        "#]],
    );
    reply(
        r#"{"id":"msg_1","content":[],"model":"claude","stop_reason":"model_context_window_exceeded","usage":{"input_tokens":5,"cache_creation_input_tokens":30,"output_tokens":9}}"#,
        expect![[r#"
            msg_1 claude Some(ContextWindow)
            Usage { input: 5, output: 9, cache_read: 0, cache_write_5m: 30, cache_write_1h: 0, reasoning: 0 }
        "#]],
    );
    reply(
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_1"}"#,
        expect![[r#"
            Error(ProviderError { kind: "overloaded_error", code: None, message: "Overloaded" })
        "#]],
    );
    reply(
        r#"{"input_tokens":12}"#,
        expect![[r#"
        Other
    "#]],
    );
}

#[test]
fn a_stream_becomes_its_message() {
    stream(
        &[
            r#"{"type":"message_start","message":{"model":"claude","id":"msg_1","type":"message","role":"assistant","content":[],"stop_reason":null,"stop_sequence":null,"new_field":{"kept" : 1e3},"usage":{"input_tokens":5,"cache_creation_input_tokens":30,"cache_creation":{"ephemeral_5m_input_tokens":30,"ephemeral_1h_input_tokens":0},"output_tokens":1,"service_tier":"standard"}}    }"#,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
            r#"{"type": "ping"}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"so \ud83d"}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"\ude00"}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}"#,
            r#"{"type":"content_block_stop","index":0}"#,
            r#"{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}"#,
            r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"caf\u00e9 \/"}}"#,
            r#"{"type":"content_block_delta","index":1,"delta":{"type":"citations_delta","citation":{"type":"char_location","cited_text":"x"}}}"#,
            r#"{"type":"content_block_stop","index":1}"#,
            r#"{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_1","name":"Read","input":{},"caller":{"type":"direct"}}}"#,
            r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":""}}"#,
            r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"n\": 1"}}"#,
            r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"e3}"}}"#,
            r#"{"type":"content_block_stop","index":2}"#,
            r#"{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"toolu_2","name":"List","input":{}}}"#,
            r#"{"type":"content_block_stop","index":3}"#,
            r#"{"type":"content_block_start","index":4,"content_block":{"type":"redacted_thinking", "data":"zzz"}}"#,
            r#"{"type":"content_block_stop","index":4}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null,"container":null},"usage":{"input_tokens":null,"cache_creation_input_tokens":30,"output_tokens":44},"context_management":{"applied_edits":[]}}"#,
            r#"{"type":"message_stop"}"#,
        ],
        expect![[r#"
            {"model":"claude","id":"msg_1","type":"message","role":"assistant","content":[{"type":"thinking","thinking":"so \ud83d\ude00","signature":"c2ln"},{"type":"text","text":"caf\u00e9 \/","citations":[{"type":"char_location","cited_text":"x"}]},{"type":"tool_use","id":"toolu_1","name":"Read","input":{"n": 1e3},"caller":{"type":"direct"}},{"type":"tool_use","id":"toolu_2","name":"List","input":{}},{"type":"redacted_thinking", "data":"zzz"}],"stop_reason":"tool_use","stop_sequence":null,"new_field":{"kept" : 1e3},"usage":{"input_tokens":5,"cache_creation_input_tokens":30,"cache_creation":{"ephemeral_5m_input_tokens":30,"ephemeral_1h_input_tokens":0},"output_tokens":44,"service_tier":"standard"},"context_management":{"applied_edits":[]},"container":null}
            msg_1 claude Some(ToolUse)
              Thinking { text: "so 😀", signature: Some("c2ln") } said at /content/0/thinking
              Text { text: "café /" } said at /content/1/text
              ToolCall toolu_1 Read {"n": 1e3} server=false said at /content/2/input
              ToolCall toolu_2 List {} server=false said at /content/3/input
              RedactedThinking { data: "zzz" } said at /content/4/data
            Usage { input: 5, output: 44, cache_read: 0, cache_write_5m: 30, cache_write_1h: 0, reasoning: 0 }
            /content/0/thinking <- event 3 "so \\ud83d"
            /content/0/thinking <- event 4 "\\ude00"
            /content/0/signature <- event 5 "c2ln"
            /content/1/text <- event 8 "caf\\u00e9 \\/"
            /content/2/input <- event 12 ""
            /content/2/input <- event 13 "{\\\"n\\\": 1"
            /content/2/input <- event 14 "e3}"
            Complete
        "#]],
    );
}

#[test]
fn a_truncated_stream_keeps_its_content() {
    stream(
        &[
            r#"{"type":"message_start","message":{"model":"claude","id":"msg_1","type":"message","role":"assistant","content":[],"stop_reason":null,"usage":{"input_tokens":5,"output_tokens":1}}}"#,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_1","name":"Read","input":{}}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"path\": \"sr"}}"#,
        ],
        expect![[r#"
            {"model":"claude","id":"msg_1","type":"message","role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"Read","input":{},"partial_json":"{\"path\": \"sr"}],"stop_reason":null,"usage":{"input_tokens":5,"output_tokens":1}}
            msg_1 claude None
              ToolCall toolu_1 Read {"path": "sr server=false said at /content/0/input
            Usage { input: 5, output: 1, cache_read: 0, cache_write_5m: 0, cache_write_1h: 0, reasoning: 0 }
            /content/0/input <- event 2 "{\\\"path\\\": \\\"sr"
            Early
        "#]],
    );
    stream(
        &[],
        expect![[r#"
        Early
    "#]],
    );
}

#[test]
fn errors_and_unknown_events_in_a_stream() {
    stream(
        &[
            r#"{"type":"message_start","message":{"model":"claude","id":"msg_1","type":"message","role":"assistant","content":[],"stop_reason":null,"usage":{"input_tokens":5,"output_tokens":1}}}"#,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"al"}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"most"}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"smell_delta","smell":"rose"}}"#,
            r#"{"type":"content_block_delta","index":7,"delta":{"type":"text_delta","text":"lost"}}"#,
            r#"{"type":"weather","rain":true}"#,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
        ],
        expect![[r#"
            {"model":"claude","id":"msg_1","type":"message","role":"assistant","content":[{"type":"text","text":"almost"}],"stop_reason":null,"usage":{"input_tokens":5,"output_tokens":1}}
            msg_1 claude None
              Text { text: "almost" } said at /content/0/text
            Usage { input: 5, output: 1, cache_read: 0, cache_write_5m: 0, cache_write_1h: 0, reasoning: 0 }
            /content/0/text <- event 2 "most"
            event 3 `/delta/type`: unknown delta type `smell_delta`
            event 4 `/index`: unknown block 7 without a start event
            event 5 `/type`: unknown event type `weather`
            Failed(ProviderError { kind: "overloaded_error", code: None, message: "Overloaded" })
        "#]],
    );
    stream(
        &[r#"{"type":"error","error":{"type":"api_error","message":"no"}}"#],
        expect![[r#"
            Failed(ProviderError { kind: "api_error", code: None, message: "no" })
        "#]],
    );
}
