use expect_test::{Expect, expect};

use super::*;

fn request(body: &str, expected: Expect) {
    check_request(Dialect::OpenAiResponses, body, expected);
}

fn reply(body: &str, expected: Expect) {
    check_reply(Dialect::OpenAiResponses, body, expected);
}

fn stream(events: &[&str], expected: Expect) {
    let kind = |json: &str| {
        Document::parse(json.as_bytes()).expect("JSON").root().str_at("type").expect("typed").into_owned()
    };
    let stream: String = events.iter().map(|json| event(&kind(json), json)).collect();
    check_stream(Dialect::OpenAiResponses, &stream, expected);
}

#[test]
fn a_string_is_a_user_message() {
    request(
        r#"{"model":"m","instructions":"be brief","input":"hi","store":false,"max_output_tokens":9}"#,
        expect![[r#"
            model Some("m"), stream false, max Some(9)
            system Text { text: "be brief" } said at /instructions
            User /input
              Text { text: "hi" } said at /input
            setting store: false
        "#]],
    );
}

#[test]
fn items_of_every_kind() {
    request(
        r#"{"input":[{"role":"developer","content":"d"},{"type":"message","role":"user","content":[{"type":"input_text","text":"look","prompt_cache_breakpoint":{"mode":"explicit"}},{"type":"input_image","image_url":"https://x"},{"type":"input_image","file_id":"file_1"},{"type":"input_file","filename":"a.pdf","file_data":"AA"}]},
            {"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"a"},{"type":"summary_text","text":"b"}],"encrypted_content":"enc"},{"type":"reasoning","summary":[],"encrypted_content":"only"},
            {"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"ok","annotations":[]},{"type":"refusal","refusal":"no"}]},
            {"type":"function_call","id":"fc_1","call_id":"call_1","name":"Read","arguments":"{\"a\":1e3}"},{"type":"function_call_output","call_id":"call_1","output":"plain"},
            {"type":"custom_tool_call","call_id":"call_2","name":"sh","input":"ls -l"},{"type":"custom_tool_call_output","call_id":"call_2","output":[{"type":"input_text","text":"a"},{"type":"input_image","image_url":"u"}]},
            {"type":"item_reference","id":"rs_9"},{"id":"msg_9"},
            {"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search","query":"q"}},{"type":"local_shell_call","call_id":"call_3","action":{"type":"exec","command":["ls"]}},{"type":"local_shell_call_output","id":"call_3","output":"{}"},
            {"type":"mcp_call","id":"mcp_1","name":"ask","arguments":"{}","server_label":"s","output":"done"},{"type":"compaction","encrypted_content":"c"}]}"#,
        expect![[r#"
            model None, stream false, max None
            Developer /input/0
              Text { text: "d" } said at /input/0/content
            User /input/1
              Text { text: "look" } said at /input/1/content/0/text *
              Image(Url { url: "https://x" }) said at /input/1/content/1/image_url
              Image(File { id: "file_1" }) said at -
              Document { name: Some("a.pdf") } said at /input/1/content/3/file_data
            Assistant /input/2
              Thinking { text: "a\n\nb", signature: Some("enc") } said at /input/2/summary
              + id: "rs_1"
              + encrypted_content: "enc"
            Assistant /input/3
              RedactedThinking { data: "only" } said at /input/3/encrypted_content
              + encrypted_content: "only"
            Assistant /input/4
              Text { text: "ok" } said at /input/4/content/0/text
              Refusal { text: "no" } said at /input/4/content/1/refusal
              + id: "msg_1"
              + status: "completed"
            Assistant /input/5
              ToolCall call_1 Read {"a":1e3} server=false said at /input/5/arguments
              + id: "fc_1"
            Tool /input/6
              ToolResult of call_1 error=false server=false said at /input/6/output
                Text { text: "plain" } said at /input/6/output
            Assistant /input/7
              ToolCall call_2 sh ls -l server=false said at /input/7/input
            Tool /input/8
              ToolResult of call_2 error=false server=false said at /input/8/output
                Text { text: "a" } said at /input/8/output/0/text
                Image(Url { url: "u" }) said at /input/8/output/1/image_url
            Assistant /input/9
              ItemReference { id: "rs_9" } said at /input/9/id
              + id: "rs_9"
            Assistant /input/10
              ItemReference { id: "msg_9" } said at /input/10/id
              + id: "msg_9"
            Assistant /input/11
              ToolCall ws_1 web_search {"type":"search","query":"q"} server=true said at /input/11/action
              + id: "ws_1"
              + status: "completed"
              + action: {"type":"search","query":"q"}
            Assistant /input/12
              ToolCall call_3 local_shell {"type":"exec","command":["ls"]} server=false said at /input/12/action
              + action: {"type":"exec","command":["ls"]}
            Tool /input/13
              ToolResult of call_3 error=false server=false said at /input/13/output
                Text { text: "{}" } said at /input/13/output
              + id: "call_3"
            Assistant /input/14
              ToolCall mcp_1 ask {} server=true said at /input/14/arguments
              + id: "mcp_1"
              + server_label: "s"
            Assistant /input/15
              Unknown { kind: "compaction" } said at -
              + encrypted_content: "c"
            marker /input/1/content/0/prompt_cache_breakpoint None
        "#]],
    );
}

#[test]
fn tools_in_the_list_and_inside_items() {
    request(
        r#"{"tools":[{"type":"function","name":"Read","description":"reads","parameters":{"type":"object"},"strict":true},{"type":"custom","name":"sh","format":{"type":"grammar"}},{"type":"web_search"},{"type":"mcp","server_label":"srv","server_url":"u"},
              {"type":"namespace","name":"crm","tools":[{"type":"function","name":"find","defer_loading":true,"parameters":{}}]},{"type":"tool_search"}],
            "input":[{"type":"mcp_list_tools","id":"l","server_label":"srv","tools":[{"name":"ask","input_schema":{"x":1}}]},
              {"type":"tool_search_call","call_id":"ts","execution":"server","arguments":{"paths":["crm"]}},{"type":"tool_search_output","call_id":"ts","execution":"server","tools":[{"type":"function","name":"later","parameters":{}}]},
              {"type":"additional_tools","role":"developer","tools":[{"type":"function","name":"extra","parameters":{}}]}]}"#,
        expect![[r#"
            model None, stream false, max None
            tool Read function Function {"type":"object"}
            tool sh custom Custom {"type":"grammar"}
            tool web_search web_search Provider -
            tool srv mcp Provider -
            tool crm namespace Provider -
            tool find function Function {} deferred
            tool tool_search tool_search Provider -
            tool ask  Provider {"x":1} in message 0
            tool later function Function {} in message 2
            tool extra function Function {} in message 3
            Assistant /input/0
              Unknown { kind: "mcp_list_tools" } said at -
              + id: "l"
              + server_label: "srv"
              + tools: [{"name":"ask","input_schema":{"x":1}}]
            Assistant /input/1
              ToolCall ts tool_search {"paths":["crm"]} server=true said at /input/1/arguments
              + execution: "server"
            Tool /input/2
              ToolResult of ts error=false server=true said at /input/2/tools
                ToolReference { name: "later" } said at /input/2/tools/0/name
              + execution: "server"
              + tools: [{"type":"function","name":"later","parameters":{}}]
            Developer /input/3
              Unknown { kind: "additional_tools" } said at -
              + tools: [{"type":"function","name":"extra","parameters":{}}]
        "#]],
    );
}

#[test]
fn unknown_values_are_reported_and_kept() {
    request(
        r#"{"input":[{"type":"hologram","x":1},{"role":"oracle","content":[{"type":"smell"}]},{"type":"reasoning","summary":[{"type":"dream","text":"z"}]}],"tools":[{"type":"teleport"}]}"#,
        expect![[r#"
            model None, stream false, max None
            tool teleport teleport Provider -
            User /input/0
              Unknown { kind: "hologram" } said at -
              + x: 1
            User /input/1
              Unknown { kind: "smell" } said at -
            Assistant /input/2
              Thinking { text: "z", signature: None } said at /input/2/summary/0/text
            `/tools/0`: unknown tool type `teleport`
            `/input/0`: unknown item type `hologram`
            `/input/1/role`: unknown role `oracle`
            `/input/1/content/0`: unknown part type `smell`
            `/input/2/summary/0`: unknown reasoning type `dream`
        "#]],
    );
    reply(
        r#"{"id":"r","model":"m","status":"pondering","output":[]}"#,
        expect![[r#"
        r m None
        Usage { input: 0, output: 0, cache_read: 0, cache_write_5m: 0, cache_write_1h: 0, reasoning: 0 }
        `/status`: unknown status `pondering`
    "#]],
    );
    reply(
        r#"{"id":"r","model":"m","status":"incomplete","incomplete_details":{"reason":"bored"},"output":[]}"#,
        expect![[r#"
            r m Some(Other("bored"))
            Usage { input: 0, output: 0, cache_read: 0, cache_write_5m: 0, cache_write_1h: 0, reasoning: 0 }
            `/incomplete_details/reason`: unknown stop reason `bored`
        "#]],
    );
}

#[test]
fn replies_usage_and_errors() {
    reply(
        r#"{"id":"resp_1","object":"response","status":"completed","error":null,"model":"m","output":[{"type":"reasoning","id":"rs","summary":[]},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"hi"}]},{"type":"function_call","call_id":"c","name":"Read","arguments":"{}"}],
          "usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":64,"cache_write_tokens":30},"output_tokens":20,"output_tokens_details":{"reasoning_tokens":12},"total_tokens":120}}"#,
        expect![[r#"
            resp_1 m Some(ToolUse)
              Thinking { text: "", signature: None } said at /output/0/summary
              Text { text: "hi" } said at /output/1/content/0/text
              ToolCall c Read {} server=false said at /output/2/arguments
            Usage { input: 6, output: 20, cache_read: 64, cache_write_5m: 30, cache_write_1h: 0, reasoning: 12 }
        "#]],
    );
    reply(
        r#"{"id":"r","model":"m","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[]}"#,
        expect![[r#"
            r m Some(MaxTokens)
            Usage { input: 0, output: 0, cache_read: 0, cache_write_5m: 0, cache_write_1h: 0, reasoning: 0 }
        "#]],
    );
    reply(
        r#"{"id":"r","model":"m","status":"completed","output":[{"type":"message","role":"assistant","content":[{"type":"refusal","refusal":"no"}]}]}"#,
        expect![[r#"
            r m Some(Refusal)
              Refusal { text: "no" } said at /output/0/content/0/refusal
            Usage { input: 0, output: 0, cache_read: 0, cache_write_5m: 0, cache_write_1h: 0, reasoning: 0 }
        "#]],
    );
    reply(
        r#"{"id":"r","model":"m","status":"failed","error":{"code":"server_error","message":"oops"},"output":[]}"#,
        expect![[r#"
            Error(ProviderError { kind: "server_error", code: None, message: "oops" })
        "#]],
    );
}

const CREATED: &str = r#"{"type":"response.created","response":{"id":"resp_1","object":"response","status":"in_progress","model":"m","output":[],"odd" : 1e3},"sequence_number":0}"#;
const ADDED: &str = r#"{"type":"response.output_item.added","output_index":0,"item":{"id":"msg_1","type":"message","status":"in_progress","content":[],"role":"assistant"}}"#;

#[test]
fn a_complete_stream_equals_its_last_response() {
    stream(
        &[
            CREATED,
            ADDED,
            r#"{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"hi"}"#,
            r#"{"type":"response.completed","response":{"id":"resp_1","status":"completed","model":"m","output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"hi"}]}],"usage":{"input_tokens":3,"output_tokens":1} }}"#,
        ],
        expect![[r#"
            {"id":"resp_1","status":"completed","model":"m","output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"hi"}]}],"usage":{"input_tokens":3,"output_tokens":1} }
            resp_1 m Some(EndTurn)
              Text { text: "hi" } said at /output/0/content/0/text
            Usage { input: 3, output: 1, cache_read: 0, cache_write_5m: 0, cache_write_1h: 0, reasoning: 0 }
            /output/0/content/0/text <- event 2 "hi"
            Complete
        "#]],
    );
}

#[test]
fn items_replace_a_missing_output() {
    stream(
        &[
            CREATED,
            ADDED,
            r#"{"type":"response.content_part.added","output_index":0,"content_index":0,"part":{"type":"output_text","annotations":[],"text":""}}"#,
            r#"{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"so \ud83d"}"#,
            r#"{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"\ude00"}"#,
            r#"{"type":"response.output_text.annotation.added","output_index":0,"content_index":0,"annotation_index":0,"annotation":{"type":"url_citation","url":"u"}}"#,
            r#"{"type":"response.output_item.added","output_index":1,"item":{"id":"fc","type":"function_call","call_id":"c","name":"Read","arguments":""}}"#,
            r#"{"type":"response.function_call_arguments.delta","output_index":1,"delta":"{\"a\":"}"#,
            r#"{"type":"response.function_call_arguments.delta","output_index":1,"delta":"1}"}"#,
            r#"{"type":"response.output_item.added","output_index":3,"item":{"id":"ctc","type":"custom_tool_call","call_id":"d","name":"sh","input":""}}"#,
            r#"{"type":"response.output_item.added","output_index":2,"item":{"id":"rs","type":"reasoning","summary":[]}}"#,
            r#"{"type":"response.reasoning_summary_part.added","output_index":2,"summary_index":0,"part":{"type":"summary_text","text":""}}"#,
            r#"{"type":"response.reasoning_summary_text.delta","output_index":2,"summary_index":0,"delta":"why"}"#,
            r#"{"type":"response.custom_tool_call_input.delta","output_index":3,"delta":"ls"}"#,
            r#"{"type":"response.custom_tool_call_input.done","output_index":3,"input":"ls -l"}"#,
            r#"{"type":"response.output_item.added","output_index":4,"item":{"id":"ws","type":"web_search_call","status":"in_progress"}}"#,
            r#"{"type":"response.web_search_call.searching","output_index":4,"item_id":"ws"}"#,
            r#"{"type":"response.output_item.done","output_index":4,"item":{"id":"ws","type":"web_search_call","status":"completed","action":{"type":"search","query":"q"}}}"#,
            r#"{"type":"response.output_item.added","output_index":5,"item":{"id":"m2","type":"message","status":"in_progress","content":[],"role":"assistant"}}"#,
            r#"{"type":"response.refusal.delta","output_index":5,"content_index":0,"delta":"no"}"#,
        ],
        expect![[r#"
            {"id":"resp_1","object":"response","status":"in_progress","model":"m","output":[{"id":"msg_1","type":"message","status":"in_progress","content":[{"type":"output_text","annotations":[{"type":"url_citation","url":"u"}],"text":"so \ud83d\ude00"}],"role":"assistant"},{"id":"fc","type":"function_call","call_id":"c","name":"Read","arguments":"{\"a\":1}"},{"id":"rs","type":"reasoning","summary":[{"type":"summary_text","text":"why"}]},{"id":"ctc","type":"custom_tool_call","call_id":"d","name":"sh","input":"ls -l"},{"id":"ws","type":"web_search_call","status":"completed","action":{"type":"search","query":"q"}},{"id":"m2","type":"message","status":"in_progress","content":[{"type":"refusal","refusal":"no"}],"role":"assistant"}],"odd" : 1e3}
            resp_1 m None
              Text { text: "so 😀" } said at /output/0/content/0/text
              ToolCall c Read {"a":1} server=false said at /output/1/arguments
              Thinking { text: "why", signature: None } said at /output/2/summary/0/text
              ToolCall d sh ls -l server=false said at /output/3/input
              ToolCall ws web_search {"type":"search","query":"q"} server=true said at /output/4/action
              Refusal { text: "no" } said at /output/5/content/0/refusal
            Usage { input: 0, output: 0, cache_read: 0, cache_write_5m: 0, cache_write_1h: 0, reasoning: 0 }
            /output/0/content/0/text <- event 3 "so \\ud83d"
            /output/0/content/0/text <- event 4 "\\ude00"
            /output/1/arguments <- event 7 "{\\\"a\\\":"
            /output/1/arguments <- event 8 "1}"
            /output/2/summary/0/text <- event 12 "why"
            /output/3/input <- event 13 "ls"
            /output/5/content/0/refusal <- event 19 "no"
            Early
        "#]],
    );
}

#[test]
fn errors_and_unknown_events_in_a_stream() {
    stream(
        &[
            CREATED,
            r#"{"type":"response.weather","rain":true}"#,
            r#"{"type":"response.output_text.delta","output_index":7,"content_index":0,"delta":"lost"}"#,
            r#"{"type":"error","code":"rate_limit_exceeded","message":"slow down","param":null,"sequence_number":3}"#,
        ],
        expect![[r#"
            {"id":"resp_1","object":"response","status":"in_progress","model":"m","output":[],"odd" : 1e3}
            resp_1 m None
            Usage { input: 0, output: 0, cache_read: 0, cache_write_5m: 0, cache_write_1h: 0, reasoning: 0 }
            event 1 `/type`: unknown event type `response.weather`
            event 2 `/output_index`: unknown item 7 that was not added
            Failed(ProviderError { kind: "rate_limit_exceeded", code: None, message: "slow down" })
        "#]],
    );
    stream(
        &[
            r#"{"type":"error","error":{"type":"invalid_request_error","code":"context_length_exceeded","message":"too much","param":"input"}}"#,
        ],
        expect![[r#"
            Failed(ProviderError { kind: "invalid_request_error", code: Some("context_length_exceeded"), message: "too much" })
        "#]],
    );
    stream(
        &[
            CREATED,
            r#"{"type":"response.failed","response":{"id":"resp_1","status":"failed","model":"m","output":[],"error":{"code":"server_error","message":"oops"}}}"#,
        ],
        expect![[r#"
            {"id":"resp_1","status":"failed","model":"m","output":[],"error":{"code":"server_error","message":"oops"}}
            Error(ProviderError { kind: "server_error", code: None, message: "oops" })
            Failed(ProviderError { kind: "server_error", code: None, message: "oops" })
        "#]],
    );
    stream(
        &[
            r#"{"type":"response.incomplete","response":{"id":"resp_1","status":"incomplete","model":"m","output":[],"incomplete_details":{"reason":"content_filter"}}}"#,
        ],
        expect![[r#"
            {"id":"resp_1","status":"incomplete","model":"m","output":[],"incomplete_details":{"reason":"content_filter"}}
            resp_1 m Some(ContentFilter)
            Usage { input: 0, output: 0, cache_read: 0, cache_write_5m: 0, cache_write_1h: 0, reasoning: 0 }
            Complete
        "#]],
    );
}

#[test]
fn deltas_extend_the_text_of_an_added_item() {
    let events = [
        r#"{"type":"response.created","response":{"id":"r","output":[]}}"#,
        r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","id":"fc","call_id":"c","name":"f","arguments":"{\"a\":"}}"#,
        r#"{"type":"response.function_call_arguments.delta","output_index":0,"item_id":"fc","delta":"1}"}"#,
    ];
    let stream: String = events.iter().map(|data| format!("data: {data}\n\n")).collect();
    let body = accumulate(Dialect::OpenAiResponses, stream.as_bytes()).body.expect("a body");
    let body = String::from_utf8(body).expect("UTF-8");
    assert!(body.contains(r#""arguments":"{\"a\":1}""#), "{body}");
}
