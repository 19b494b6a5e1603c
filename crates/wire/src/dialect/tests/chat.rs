use expect_test::{Expect, expect};

use super::*;

fn request(body: &str, expected: Expect) {
    check_request(Dialect::OpenAiChat, body, expected);
}

fn reply(body: &str, expected: Expect) {
    check_reply(Dialect::OpenAiChat, body, expected);
}

fn stream(events: &[&str], expected: Expect) {
    let stream: String = events.iter().map(|json| data(json)).collect();
    check_stream(Dialect::OpenAiChat, &stream, expected);
}

#[test]
fn roles_strings_and_parts() {
    request(
        r#"{"model":"m","messages":[{"role":"system","content":"s"},{"role":"developer","content":[{"type":"text","text":"d","cache_control":{"type":"ephemeral"}}]},
            {"role":"user","name":"ann","content":[{"type":"text","text":"look"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AA==","detail":"low"}},
              {"type":"input_audio","input_audio":{"data":"AA==","format":"wav"}},{"type":"file","file":{"filename":"a.pdf","file_data":"AA=="}},{"type":"video_url","video_url":{"url":"v"}}]},
            {"role":"assistant","content":null,"refusal":"no","reasoning_content":"hm","tool_calls":[{"id":"call_1","type":"function","function":{"name":"Read","arguments":"{\"a\": 1}"}},{"id":"call_2","type":"custom","custom":{"name":"sh","input":"ls -l"}}]},
            {"role":"tool","tool_call_id":"call_1","content":"ok"},{"role":"tool","tool_call_id":"call_2","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"cache_control":{"type":"ephemeral"}},
            {"role":"assistant","content":"","function_call":{"name":"old","arguments":"{}"}},{"role":"function","name":"old","content":"1"}],
            "tools":[{"type":"function","function":{"name":"Read","description":"reads","parameters":{"type":"object"}},"cache_control":{"type":"ephemeral"}},{"type":"custom","custom":{"name":"sh","format":{"type":"text"}}}],
            "stream":true,"stream_options":{"include_usage":true},"max_completion_tokens":7,"reasoning_effort":"low"}"#,
        expect![[r#"
            model Some("m"), stream true, max Some(7)
            tool Read function Function {"type":"object"} *
            tool sh custom Custom {"type":"text"}
            System /messages/0
              Text { text: "s" } said at /messages/0/content
            Developer /messages/1
              Text { text: "d" } said at /messages/1/content/0/text *
            User /messages/2
              Text { text: "look" } said at /messages/2/content/0/text
              Image(Url { url: "data:image/png;base64,AA==" }) said at /messages/2/content/1/image_url
              Unknown { kind: "input_audio" } said at /messages/2/content/2/input_audio
              Document { name: Some("a.pdf") } said at /messages/2/content/3/file
              Unknown { kind: "video_url" } said at /messages/2/content/4/video_url
              + name: "ann"
            Assistant /messages/3
              Thinking { text: "hm", signature: None } said at /messages/3/reasoning_content
              Refusal { text: "no" } said at /messages/3/refusal
              ToolCall call_1 Read {"a": 1} server=false said at /messages/3/tool_calls/0/function/arguments
              ToolCall call_2 sh ls -l server=false said at /messages/3/tool_calls/1/custom/input
            Tool /messages/4
              ToolResult of call_1 error=false server=false said at /messages/4/content
                Text { text: "ok" } said at /messages/4/content
            Tool /messages/5
              ToolResult of call_2 error=false server=false said at /messages/5/content *
                Text { text: "a" } said at /messages/5/content/0/text
                Text { text: "b" } said at /messages/5/content/1/text
              + cache_control: {"type":"ephemeral"}
            Assistant /messages/6
              ToolCall old old {} server=false said at /messages/6/function_call/arguments
            Tool /messages/7
              ToolResult of old error=false server=false said at /messages/7/content
                Text { text: "1" } said at /messages/7/content
              + name: "old"
            setting stream_options: {"include_usage":true}
            setting reasoning_effort: "low"
            marker /messages/1/content/0/cache_control None
            marker /messages/5/cache_control None
            marker /tools/0/cache_control None
        "#]],
    );
}

#[test]
fn reasoning_with_each_of_its_names() {
    request(
        r#"{"messages":[{"role":"assistant","content":"x","reasoning":"why"},
            {"role":"assistant","content":"x","reasoning":"same as below","reasoning_details":[{"type":"reasoning.text","text":"t","signature":"s","format":"f","index":0},{"type":"reasoning.summary","summary":"u"},{"type":"reasoning.encrypted","data":"e"}]},
            {"role":"assistant","content":"x","reasoning":null,"reasoning_details":[]}]}"#,
        expect![[r#"
            model None, stream false, max None
            Assistant /messages/0
              Thinking { text: "why", signature: None } said at /messages/0/reasoning
              Text { text: "x" } said at /messages/0/content
            Assistant /messages/1
              Thinking { text: "t", signature: Some("s") } said at /messages/1/reasoning_details/0/text
              Thinking { text: "u", signature: None } said at /messages/1/reasoning_details/1/summary
              RedactedThinking { data: "e" } said at /messages/1/reasoning_details/2/data
              Text { text: "x" } said at /messages/1/content
            Assistant /messages/2
              Text { text: "x" } said at /messages/2/content
        "#]],
    );
}

#[test]
fn unknown_values_are_reported_and_kept() {
    request(
        r#"{"messages":[{"role":"oracle","content":[{"type":"hologram"}]},{"role":"assistant","reasoning_details":[{"type":"reasoning.dream"}],"tool_calls":[{"type":"wish","id":"w"}]}],"tools":[{"type":"teleport"}]}"#,
        expect![[r#"
            model None, stream false, max None
            tool teleport teleport Provider -
            User /messages/0
              Unknown { kind: "hologram" } said at -
            Assistant /messages/1
              Unknown { kind: "reasoning.dream" } said at -
              ToolCall w   server=false said at -
            `/messages/0/role`: unknown role `oracle`
            `/messages/0/content/0`: unknown part type `hologram`
            `/messages/1/reasoning_details/0`: unknown reasoning type `reasoning.dream`
            `/messages/1/tool_calls/0`: unknown tool call type `wish`
            `/tools/0`: unknown tool type `teleport`
        "#]],
    );
    reply(
        r#"{"id":"c","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"bored"}]}"#,
        expect![[r#"
            c m Some(Other("bored"))
              Text { text: "x" } said at /choices/0/message/content
            Usage { input: 0, output: 0, cache_read: 0, cache_write_5m: 0, cache_write_1h: 0, reasoning: 0 }
            `/choices/0/finish_reason`: unknown stop reason `bored`
        "#]],
    );
}

#[test]
fn replies_usage_and_errors() {
    reply(
        r#"{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi","refusal":null,"annotations":[]},"finish_reason":"length"}],
          "usage":{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120,"prompt_tokens_details":{"cached_tokens":64,"cache_write_tokens":6},"completion_tokens_details":{"reasoning_tokens":5}}}"#,
        expect![[r#"
            c m Some(MaxTokens)
              Text { text: "hi" } said at /choices/0/message/content
            Usage { input: 30, output: 20, cache_read: 64, cache_write_5m: 6, cache_write_1h: 0, reasoning: 5 }
        "#]],
    );
    reply(
        r#"{"id":"c","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":null,"refusal":"I will not"},"finish_reason":"stop"}],"usage":{"prompt_tokens":14,"completion_tokens":2,"prompt_cache_hit_tokens":4}}"#,
        expect![[r#"
            c m Some(Refusal)
              Refusal { text: "I will not" } said at /choices/0/message/refusal
            Usage { input: 10, output: 2, cache_read: 4, cache_write_5m: 0, cache_write_1h: 0, reasoning: 0 }
        "#]],
    );
    reply(
        r#"{"error":{"message":"bad key","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}"#,
        expect![[r#"
            Error(ProviderError { kind: "invalid_request_error", code: Some("invalid_api_key"), message: "bad key" })
        "#]],
    );
    reply(
        r#"{"error":{"code":429,"message":"slow down","metadata":{}}}"#,
        expect![[r#"
            Error(ProviderError { kind: "429", code: None, message: "slow down" })
        "#]],
    );
    reply(
        r#"{"error":"just words"}"#,
        expect![[r#"
            Error(ProviderError { kind: "error", code: None, message: "just words" })
        "#]],
    );
}

#[test]
fn a_stream_becomes_its_message() {
    stream(
        &[
            r#"{"id":"c1","object":"chat.completion.chunk","created":5,"model":"m","x_odd":{"a" : 1e3},"choices":[{"index":0,"delta":{"role":"assistant","content":null,"refusal":null},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"zzz"}"#,
            r#"{"id":"c1","object":"chat.completion.chunk","created":5,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","reasoning":"so \ud83d","reasoning_details":[{"type":"reasoning.text","text":"so \ud83d","index":0,"format":"f"}]},"finish_reason":null}]}"#,
            r#"{"id":"c1","choices":[{"index":0,"delta":{"reasoning":"\ude00","reasoning_details":[{"type":"reasoning.text","text":"\ude00","index":0,"format":"f"}]}}]}"#,
            r#"{"id":"c1","choices":[{"index":0,"delta":{"content":"caf"},"logprobs":{"content":[{"token":"caf","logprob":-0.5e0}]}}]}"#,
            r#"{"id":"c1","choices":[{"index":0,"delta":{"content":"\u00e9"},"logprobs":{"content":[{"token":"é"}]}}]}"#,
            r#"{"id":"c1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"Read","arguments":""}}]}}]}"#,
            r#"{"id":"c1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\""}},{"index":1,"id":"call_2","type":"custom","custom":{"name":"sh","input":"ls"}}]}}]}"#,
            r#"{"id":"c1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"Read","arguments":":1e3}"}},{"index":1,"custom":{"input":" -l"}}]}}]}"#,
            r#"{"id":"c1","choices":[{"index":0,"delta":{"content":"","role":"assistant"},"finish_reason":"tool_calls","native_finish_reason":"completed"}]}"#,
            r#"{"id":"c1","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}"#,
            "[DONE]",
        ],
        expect![[r#"
            {"id":"c1","object":"chat.completion","created":5,"model":"m","x_odd":{"a" : 1e3},"choices":[{"index":0,"message":{"role":"assistant","content":"caf\u00e9","refusal":null,"reasoning":"so \ud83d\ude00","reasoning_details":[{"type":"reasoning.text","text":"so \ud83d\ude00","index":0,"format":"f"}],"tool_calls":[{"id":"call_1","type":"function","function":{"name":"Read","arguments":"{\"a\":1e3}"}},{"id":"call_2","type":"custom","custom":{"name":"sh","input":"ls -l"}}]},"logprobs":{"content":[{"token":"caf","logprob":-0.5e0},{"token":"é"}]},"finish_reason":"tool_calls","native_finish_reason":"completed"}],"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}
            c1 m Some(ToolUse)
              Thinking { text: "so 😀", signature: None } said at /choices/0/message/reasoning_details/0/text
              Text { text: "café" } said at /choices/0/message/content
              ToolCall call_1 Read {"a":1e3} server=false said at /choices/0/message/tool_calls/0/function/arguments
              ToolCall call_2 sh ls -l server=false said at /choices/0/message/tool_calls/1/custom/input
            Usage { input: 9, output: 3, cache_read: 0, cache_write_5m: 0, cache_write_1h: 0, reasoning: 0 }
            /choices/0/message/reasoning <- event 1 "so \\ud83d"
            /choices/0/message/reasoning_details/0/text <- event 1 "so \\ud83d"
            /choices/0/message/reasoning <- event 2 "\\ude00"
            /choices/0/message/reasoning_details/0/text <- event 2 "\\ude00"
            /choices/0/message/content <- event 3 "caf"
            /choices/0/message/content <- event 4 "\\u00e9"
            /choices/0/message/tool_calls/0/function/arguments <- event 5 ""
            /choices/0/message/tool_calls/0/function/arguments <- event 6 "{\\\"a\\\""
            /choices/0/message/tool_calls/1/custom/input <- event 6 "ls"
            /choices/0/message/tool_calls/0/function/arguments <- event 7 ":1e3}"
            /choices/0/message/tool_calls/1/custom/input <- event 7 " -l"
            /choices/0/message/content <- event 8 ""
            Complete
        "#]],
    );
}

#[test]
fn calls_stay_separate_with_any_numbering() {
    let call = |index: &str, id: &str, name: &str, arguments: &str| {
        let member = |name: &str, value: &str| format!(r#""{name}":"{value}","#);
        let id = if id.is_empty() { String::new() } else { member("id", id) };
        let name = if name.is_empty() { String::new() } else { member("name", name) };
        format!(
            r#"{{"choices":[{{"index":0,"delta":{{"tool_calls":[{{{index}{id}"function":{{{name}"arguments":"{arguments}"}}}}]}}}}]}}"#
        )
    };
    let first = r#""index":0,"#;
    let one = [("a", "list", "{"), ("a", "", "}"), ("b", "read", "{"), ("b", "", "}")];
    let silent = [("a", "list", "{"), ("", "", "}"), ("b", "read", "{"), ("", "", "}")];
    let other = [("a", "list", "{"), ("x", "", "}"), ("b", "read", "{"), ("y", "", "}")];
    for (pieces, index) in [(one, first), (silent, first), (other, first), (one, ""), (silent, "")] {
        let data =
            pieces.map(|(id, name, arguments)| format!("data: {}\n\n", call(index, id, name, arguments)));
        let body = accumulate(Dialect::OpenAiChat, data.concat().as_bytes()).body.expect("a body");
        let body = String::from_utf8(body).expect("UTF-8");
        let expected = r#""tool_calls":[{"id":"a","function":{"name":"list","arguments":"{}"}},{"id":"b","function":{"name":"read","arguments":"{}"}}]"#;
        assert!(body.contains(expected), "{pieces:?} with `{index}`: {body}");
    }
}

#[test]
fn reasoning_of_different_types_stays_separate() {
    let details = [
        r#"{"type":"reasoning.summary","summary":"think","format":"f","index":0}"#,
        r#"{"type":"reasoning.summary","summary":"ing","format":"f","index":0}"#,
        r#"{"type":"reasoning.encrypted","data":"gAAAA","id":"rs_1","format":"f","index":0}"#,
        r#"{"type":"reasoning.summary","summary":"!","index":0}"#,
    ];
    let event = |detail: &str| {
        format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"reasoning_details\":[{detail}]}}}}]}}\n\n")
    };
    let stream: String = details.into_iter().map(event).collect();
    let body = accumulate(Dialect::OpenAiChat, stream.as_bytes()).body.expect("a body");
    let body = String::from_utf8(body).expect("UTF-8");
    let summary = r#"{"type":"reasoning.summary","summary":"thinking!","format":"f","index":0}"#;
    let sealed = r#"{"type":"reasoning.encrypted","data":"gAAAA","id":"rs_1","format":"f","index":0}"#;
    assert!(body.contains(&format!("\"reasoning_details\":[{summary},{sealed}]")), "{body}");
}

#[test]
fn texts_and_parts_are_merged_into_parts() {
    let content = |deltas: &[&str]| {
        let data = deltas.iter().map(|delta| {
            format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":{delta}}}}}]}}\n\n")
        });
        let body = accumulate(Dialect::OpenAiChat, data.collect::<String>().as_bytes()).body.expect("a body");
        let body = String::from_utf8(body).expect("UTF-8");
        body.split_once("\"content\":").map(|(_, content)| content.to_owned()).expect("content")
    };
    let thinking = r#"[{"type":"thinking","thinking":"hm"}]"#;
    let both = content(&[thinking, r#""It ""#, r#""is.""#]);
    assert_eq!(both, r#"[{"type":"thinking","thinking":"hm"},{"type":"text","text":"It is."}]}}]}"#);
    let other = content(&[r#""It is.""#, thinking]);
    assert_eq!(other, r#"[{"type":"text","text":"It is."},{"type":"thinking","thinking":"hm"}]}}]}"#);
}

#[test]
fn null_does_not_remove_earlier_values() {
    stream(
        &[
            r#"{"id":"","object":"","model":"","choices":[],"prompt_filter_results":[]}"#,
            r#"{"id":"c1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":3}}"#,
            r#"{"id":"c1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":null},"finish_reason":null}],"usage":null}"#,
            "[DONE]",
        ],
        expect![[r#"
            {"id":"c1","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"content":"a"},"finish_reason":"stop"}],"prompt_filter_results":[],"usage":{"prompt_tokens":9,"completion_tokens":3}}
            c1 m Some(EndTurn)
              Text { text: "a" } said at /choices/0/message/content
            Usage { input: 9, output: 3, cache_read: 0, cache_write_5m: 0, cache_write_1h: 0, reasoning: 0 }
            /choices/0/message/content <- event 1 "a"
            Complete
        "#]],
    );
}

#[test]
fn several_choices_stay_separate() {
    stream(
        &[
            r#"{"id":"c1","object":"chat.completion.chunk","choices":[{"index":1,"delta":{"content":"B"}}]}"#,
            r#"{"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"A"}},{"index":1,"delta":{"content":"b"},"finish_reason":"stop"}]}"#,
        ],
        expect![[r#"
            {"id":"c1","object":"chat.completion","choices":[{"index":0,"message":{"content":"A"}},{"index":1,"message":{"content":"Bb"},"finish_reason":"stop"}]}
            c1  None
              Text { text: "A" } said at /choices/0/message/content
            Usage { input: 0, output: 0, cache_read: 0, cache_write_5m: 0, cache_write_1h: 0, reasoning: 0 }
            /choices/1/message/content <- event 0 "B"
            /choices/0/message/content <- event 1 "A"
            /choices/1/message/content <- event 1 "b"
            Early
        "#]],
    );
}

#[test]
fn errors_and_unknown_events_in_a_stream() {
    stream(
        &[
            r#"{"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"al","smell":"ro"}}]}"#,
            r#"{"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"smell":"se"}}]}"#,
            r#"{"weather":"rain"}"#,
            "not json",
            r#"{"error":{"message":"gone","type":"server_error","code":502}}"#,
        ],
        expect![[r#"
            {"id":"c1","object":"chat.completion","choices":[{"index":0,"message":{"content":"al","smell":"rose"}}]}
            c1  None
              Text { text: "al" } said at /choices/0/message/content
            Usage { input: 0, output: 0, cache_read: 0, cache_write_5m: 0, cache_write_1h: 0, reasoning: 0 }
            /choices/0/message/content <- event 0 "al"
            /choices/0/message/smell <- event 0 "ro"
            /choices/0/message/smell <- event 1 "se"
            event 0 `/choices/0/delta`: unknown delta `smell`
            event 1 `/choices/0/delta`: unknown delta `smell`
            event 2 ``: unknown event without choices
            event 3 ``: unknown data that is not a JSON object
            Failed(ProviderError { kind: "server_error", code: Some("502"), message: "gone" })
        "#]],
    );
    stream(
        &[
            r#"{"id":"c1","error":{"code":502,"message":"upstream"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}"#,
        ],
        expect![[r#"
            {"id":"c1","choices":[{"index":0,"message":{"content":""},"finish_reason":"error"}]}
            c1  Some(Other("error"))
            Usage { input: 0, output: 0, cache_read: 0, cache_write_5m: 0, cache_write_1h: 0, reasoning: 0 }
            /choices/0/message/content <- event 0 ""
            Failed(ProviderError { kind: "502", code: None, message: "upstream" })
        "#]],
    );
    stream(
        &[
            r#"{"id":"c1","choices":[{"index":0,"delta":{"content":"so f"}}]}"#,
            r#"{"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"error","error":{"code":"context_length_exceeded","type":"invalid_request_error","message":"too much"}}]}"#,
        ],
        expect![[r#"
            {"id":"c1","choices":[{"index":0,"message":{"content":"so f"},"finish_reason":"error","error":{"code":"context_length_exceeded","type":"invalid_request_error","message":"too much"}}]}
            Error(ProviderError { kind: "invalid_request_error", code: Some("context_length_exceeded"), message: "too much" })
            /choices/0/message/content <- event 0 "so f"
            Failed(ProviderError { kind: "invalid_request_error", code: Some("context_length_exceeded"), message: "too much" })
        "#]],
    );
}
