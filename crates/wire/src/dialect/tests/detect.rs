use super::*;

#[test]
fn the_path_decides() {
    for (path, dialect) in [
        ("/v1/messages?beta=true", Some(Dialect::AnthropicMessages)),
        ("/v1/messages/count_tokens", Some(Dialect::AnthropicMessages)),
        ("https://host/api/anthropic/messages/", Some(Dialect::AnthropicMessages)),
        ("/openai/deployments/gpt/chat/completions?api-version=1", Some(Dialect::OpenAiChat)),
        ("/v1/responses", Some(Dialect::OpenAiResponses)),
        ("/v1/embeddings", None),
        ("/api/event_logging/batch", None),
    ] {
        assert_eq!(Dialect::detect(path, br#"{"model":"m"}"#), dialect, "{path}");
    }
}

#[test]
fn otherwise_the_body_decides() {
    for (body, dialect) in [
        (
            r#"{"messages":[{"role":"user","content":"x"}],"system":"s","max_tokens":1}"#,
            Some(Dialect::AnthropicMessages),
        ),
        (r#"{"messages":[],"tools":[{"name":"a","input_schema":{}}]}"#, Some(Dialect::AnthropicMessages)),
        (
            r#"{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t"}]}]}"#,
            Some(Dialect::AnthropicMessages),
        ),
        (r#"{"messages":[{"role":"system","content":"x"}]}"#, Some(Dialect::OpenAiChat)),
        (
            r#"{"messages":[],"tools":[{"type":"function","function":{"name":"a"}}]}"#,
            Some(Dialect::OpenAiChat),
        ),
        (r#"{"input":[{"role":"user","content":"x"}]}"#, Some(Dialect::OpenAiResponses)),
        (r#"{"input":"x","instructions":"y"}"#, Some(Dialect::OpenAiResponses)),
        (r#"{"input":"embed me","model":"e"}"#, None),
        (r#"{"input":["embed","us"],"model":"e"}"#, None),
        ("not json", None),
        ("[]", None),
    ] {
        assert_eq!(Dialect::detect("/x", body.as_bytes()), dialect, "{body}");
    }
}

#[test]
fn errors_have_a_usual_kind() {
    assert_eq!(Dialect::AnthropicMessages.error_kind(529), "overloaded_error");
    assert_eq!(Dialect::OpenAiChat.error_kind(503), "server_error");
}
