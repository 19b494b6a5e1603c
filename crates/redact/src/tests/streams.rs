//! Texts in fragments, as servers send them.

use super::*;

const SSE: &str = "text/event-stream";

fn event(data: serde_json::Value) -> String {
    format!("data: {data}\n\n")
}

fn secret() -> String {
    random(ALNUM, 20, 300)
}

/// Asserts that a learned secret, and one with a secret name, are redacted in a stream with two fragments.
#[track_caller]
fn check(what: &str, content_type: &str, stream: impl Fn(&str, &str) -> String) {
    let secret = secret();
    let (first, rest) = secret.split_at(9);
    let named = (format!("{{\"api_key\":\"{first}"), format!("{rest}\"}}"));
    for (what, known, first, rest) in
        [(what.to_owned(), true, first, rest), (format!("{what}, by its name"), false, &named.0, &named.1)]
    {
        let mut redactor = redactor();
        if known {
            redactor.learn("test", secret.as_bytes());
        }
        let text = stream(first, rest);
        let hints = BodyHints { content_type: Some(content_type), content_encoding: None };
        let out = redactor.redact_body("body", hints, text.as_bytes()).bytes.into_owned();
        let left = String::from_utf8_lossy(&out).into_owned();
        let gone = !left.contains(&secret[..9]) && !left.contains(&secret[9..16]);
        assert!(gone && left.contains("offshoot-redacted-"), "{what}: {left}");
        assert_valid(&what, text.as_bytes(), &out);
    }
}

fn call(call: serde_json::Value) -> String {
    event(serde_json::json!({"id": "c", "choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}))
}

#[test]
fn the_first_chunk_of_a_call_has_more_members() {
    check("chat function", SSE, |first, rest| {
        let name = serde_json::json!({"name": "Bash", "arguments": first});
        call(serde_json::json!({"index": 0, "id": "call_1", "type": "function", "function": name}))
            + &call(serde_json::json!({"index": 0, "function": {"arguments": rest}}))
    });
    check("chat custom", SSE, |first, rest| {
        call(serde_json::json!({"index": 0, "id": "c", "type": "custom", "custom": {"input": first}}))
            + &call(serde_json::json!({"index": 0, "custom": {"input": rest}}))
    });
}

#[test]
fn a_new_item_contains_the_first_fragment() {
    for (kind, member, family) in [
        ("function_call", "arguments", "function_call_arguments"),
        ("mcp_call", "arguments", "mcp_call_arguments"),
        ("custom_tool_call", "input", "custom_tool_call_input"),
        ("code_interpreter_call", "code", "code_interpreter_call_code"),
    ] {
        check(kind, SSE, |first, rest| {
            let added = "response.output_item.added";
            let item = serde_json::json!({"type": kind, "id": "i", "status": "in_progress", member: first});
            let delta = format!("response.{family}.delta");
            event(serde_json::json!({"type": added, "output_index": 0, "item": item}))
                + &event(serde_json::json!({"item_id": "i", "type": delta, "output_index": 0, "delta": rest}))
        });
    }
    for (kind, family, index) in [
        ("output_text", "output_text", "content_index"),
        ("reasoning_text", "reasoning_text", "content_index"),
        ("summary_text", "reasoning_summary_text", "summary_index"),
    ] {
        check(kind, SSE, |first, rest| {
            let added = "response.content_part.added";
            let part = serde_json::json!({"type": kind, "text": first});
            let delta = format!("response.{family}.delta");
            event(serde_json::json!({"type": added, "output_index": 1, index: 0, "part": part}))
                + &event(serde_json::json!({"type": delta, "output_index": 1, index: 0, "delta": rest}))
        });
    }
}

#[test]
fn a_stream_that_ends_inside_an_event() {
    let chunk =
        |text: &str| event(serde_json::json!({"choices": [{"index": 0, "delta": {"content": text}}]}));
    let ends = ["", " and", " a\\", " \\u00", " é\\ud83d\\u"];
    for end in ends {
        check("events", SSE, |first, rest| {
            let last = chunk(rest);
            let string = last.find("\"}}]}").expect("the end of the text");
            chunk(first) + &last[..string] + end
        });
        check("lines", "application/x-ndjson", |first, rest| {
            let line = |text: &str| serde_json::json!({"n": [{"a": 1}], "response": text}).to_string();
            let last = line(rest);
            line(first) + "\n" + last.strip_suffix("\"}").expect("the end of the text") + end
        });
        check("items", "application/json", |first, rest| {
            let item = |text: &str| serde_json::json!({"parts": [{"text": text}]}).to_string();
            let last = item(rest);
            format!("[{},\n{}{end}", item(first), last.strip_suffix("\"}]}").expect("the end of the text"))
        });
    }
    for end in ["\"", "\"}", "\"},", "\"},\"n\"", "\"},\"n\":", "\"},\"n\":tr", "\"}}],\"n\":-1"] {
        check(end, SSE, |first, rest| {
            let last = chunk(rest);
            chunk(first) + &last[..last.find("\"}}]}").expect("the end of the text")] + end
        });
    }
}

#[test]
fn records_after_a_separator() {
    for content_type in ["application/json-seq", "text/plain"] {
        check(content_type, content_type, |first, rest| {
            let record = |text: &str| format!("\x1e{}\n", serde_json::json!({"response": text}));
            record(first) + &record(rest)
        });
    }
}

/// Log probabilities repeat the tokens of a model, also as lists of bytes.
#[test]
fn log_probabilities_repeat_no_secret() {
    let secret = secret();
    let pieces: Vec<String> =
        secret.as_bytes().chunks(4).map(|piece| String::from_utf8_lossy(piece).into_owned()).collect();
    let token = |piece: &String| {
        let other = serde_json::json!({"token": "other", "logprob": -9.5, "bytes": [1, 2]});
        let mut token = serde_json::json!({"token": piece, "logprob": -0.1, "bytes": piece.as_bytes()});
        token["top_logprobs"] = serde_json::json!([token, other]);
        token
    };
    let tokens: Vec<serde_json::Value> = pieces.iter().map(token).collect();
    let chunk = |two: &[serde_json::Value]| {
        event(serde_json::json!({"choices": [{"index": 0, "delta": {}, "logprobs": {"content": two}}]}))
    };
    let said = |two: &[serde_json::Value]| {
        let delta = "response.output_text.delta";
        event(serde_json::json!({"type": delta, "output_index": 0, "delta": "", "logprobs": two}))
    };
    let gemini: Vec<_> = pieces
        .iter()
        .map(|piece| serde_json::json!({"token": piece, "tokenId": 7, "logProbability": -0.1}))
        .collect();
    let top: Vec<_> = gemini.iter().map(|token| serde_json::json!({"candidates": [token]})).collect();
    for body in [
        serde_json::json!({"choices": [{"message": {"content": "x"}, "logprobs": {"content": tokens}}]}).to_string(),
        tokens.chunks(2).map(chunk).collect(),
        tokens.chunks(2).map(said).collect(),
        serde_json::json!({"candidates": [{"logprobsResult": {"chosenCandidates": gemini, "topCandidates": top}}]})
            .to_string(),
        serde_json::json!({"choices": [{"text": "x", "logprobs": {"tokens": pieces, "token_logprobs": [-1]}}]})
            .to_string(),
    ] {
        let mut redactor = redactor();
        redactor.learn("test", secret.as_bytes());
        let out = redactor.redact_text("body", body.as_bytes()).bytes.into_owned();
        let left = String::from_utf8_lossy(&out).into_owned();
        assert!(left.contains("offshoot-redacted-"), "{left}");
        for piece in &pieces {
            assert!(!left.contains(piece.as_str()), "{piece} in {left}");
            let bytes = serde_json::json!(piece.as_bytes()).to_string();
            assert!(!left.contains(&bytes), "{bytes} in {left}");
        }
        assert!(!body.contains("other") || left.contains("[1,2]"), "{left}");
        assert_valid("tokens", body.as_bytes(), &out);
    }
}

/// A value that seems to continue after the data line of its event does not cover a secret in the next line.
#[test]
fn a_secret_after_an_unterminated_value() {
    let shaped = ["sk-", "ant-", &random(ALNUM, 24, 301)].concat();
    for text in [
        format!("data: \"api_key\": \",\n{shaped}"),
        format!("data: \"api_key\": \"abcdefgh\n{shaped}\n\n"),
        "data: \"api_key\": \"abcdefgh\nother\n\n".to_owned(),
    ] {
        let mut redactor = redactor();
        let once = redactor.redact_text("f", text.as_bytes()).bytes.into_owned();
        let left = String::from_utf8_lossy(&once).into_owned();
        assert!(!left.contains(&shaped) && !left.contains("abcdefgh"), "{left}");
        let twice = redactor.redact_text("f", &once).bytes.into_owned();
        assert_eq!(String::from_utf8_lossy(&twice), left);
    }
}
