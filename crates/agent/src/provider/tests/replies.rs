//! Good statuses, and what may hide behind them.

use wire::dialect::ProviderError;

use super::*;

#[tokio::test]
async fn a_whole_stream_is_a_reply_and_is_shown_while_it_comes() {
    for dialect in DIALECTS {
        let body = events(dialect, &reply()).concat();
        let server = Server::answering(vec![stream(&body)]).await;
        let (mut text, mut thinking, mut input, mut raw, mut firsts) =
            (String::new(), String::new(), String::new(), Vec::new(), 0);
        let mut see = |seen: AttemptEvent<'_>| match seen {
            AttemptEvent::Head(status, headers) => {
                assert_eq!(
                    (status.as_u16(), headers["content-type"].as_bytes()),
                    (200, &b"text/event-stream"[..])
                );
            }
            AttemptEvent::FirstByte => firsts += 1,
            AttemptEvent::Bytes(bytes) => raw.extend_from_slice(bytes),
            AttemptEvent::Delta { block: BlockKind::Text, text: piece } => text += piece,
            AttemptEvent::Delta { block: BlockKind::Thinking, text: piece } => thinking += piece,
            AttemptEvent::Delta { block: BlockKind::Input, text: piece } => input += piece,
        };
        let attempt = server.provider(dialect).attempt(Bytes::from_static(b"{}"), &mut see).await;
        assert_eq!((&raw, &attempt.bytes, firsts), (&body, &body, 1));
        assert_eq!(text, "Ich lese \"beide\" – 日本 😀\n", "{dialect}");
        assert_eq!(thinking, "größer als 7?", "{dialect}");
        assert_eq!(input, "{\"path\":\"ä.txt\"}{\"path\":\"b.txt\",\"lines\":[1,2]}", "{dialect}");
        let got = whole(&attempt);
        assert_eq!(got.calls().collect::<Vec<_>>(), reply().calls().collect::<Vec<_>>());
        assert_eq!((got.text(), &got.stop, got.usage), (reply().text(), &reply().stop, reply().usage));
        assert!(attempt.started <= attempt.ended && attempt.first_byte <= Some(attempt.ended));
        no_canary(&attempt);
    }
}

#[tokio::test]
async fn a_reply_that_is_not_streamed_is_taken_as_it_is() {
    for dialect in DIALECTS {
        let body = dialect.encode_reply(&reply()).expect("every dialect can say this");
        for kind in ["content-type: application/json\r\n", "content-type: text/event-stream\r\n", ""] {
            let attempt = attempt(dialect, [head("200", kind).as_bytes(), b"\n ", &body].concat()).await;
            assert_eq!(whole(&attempt).calls().count(), 2, "{dialect} {kind}");
        }
    }
}

#[tokio::test]
async fn an_error_behind_a_good_status_is_an_error() {
    for dialect in DIALECTS {
        let error = |kind: &str| ProviderError::new(kind, "sorry");
        for (kind, retry) in
            [("overloaded_error", RetryAdvice::Yes), ("invalid_request_error", RetryAdvice::No)]
        {
            let body = dialect.encode_error(&error(kind));
            let json = [head("200", "content-type: application/json\r\n").as_bytes(), &body].concat();
            let events = events(dialect, &reply());
            let half =
                [events[..events.len() / 2].concat(), dialect.encode_stream_error(&error(kind))].concat();
            let first = dialect.encode_stream_error(&error(kind));
            for answer in [json, stream(&half), stream(&first)] {
                let attempt = attempt(dialect, answer).await;
                let failure = failure(&attempt);
                assert_eq!(
                    (failure.kind, failure.retry),
                    (FailureKind::StreamError, retry),
                    "{dialect}: {failure}"
                );
                assert!(failure.message.contains("sorry") && failure.message.contains(kind), "{failure}");
            }
        }
    }
}

#[tokio::test]
async fn invalid_replies_are_garbage() {
    let json = "content-type: application/json\r\n";
    let sse = "content-type: text/event-stream\r\n";
    let cases: &[(&str, &[u8])] = &[
        ("content-type: text/html\r\n", b"<html>Sign in</html>"),
        ("content-type: application/octet-stream\r\n", b"\0\x01\x02"),
        ("content-encoding: frobnicate\r\n", b"{}"),
        ("content-encoding: gzip\r\ncontent-type: application/json\r\n", b"not gzip at all"),
        (json, b"{}"),
        (json, b"[]"),
        (json, b"{\"content\":"),
        (json, b"<html>"),
        (json, b"{\"input_tokens\":7}"),
        (sse, b"<html>hello</html>"),
        (sse, b"data: {\"type\":\n\n"),
        (sse, b"data: 7\n\n"),
        (sse, b"data: \"text\"\n\n"),
        (sse, b"data: \xff\n\n"),
        (sse, b"\xef\xbb\xbfhello\n\n"),
        ("", b"hello"),
    ];
    for (headers, body) in cases {
        for dialect in DIALECTS {
            let attempt = attempt(dialect, [head("200", headers).as_bytes(), body].concat()).await;
            let failure = failure(&attempt);
            let what = String::from_utf8_lossy(body);
            // A page says that the address is wrong, and says so again.
            let retry = if headers.contains("html") { RetryAdvice::No } else { RetryAdvice::Yes };
            assert_eq!(
                (failure.kind, failure.retry),
                (FailureKind::Garbage, retry),
                "{dialect} {what}: {failure}"
            );
        }
    }
    for dialect in DIALECTS {
        assert_eq!(failure(&attempt(dialect, stream(b"")).await).kind, FailureKind::Cut);
    }
}

/// Every value of the right reply turned into another type, one at a time: it is noticed, or it was no part
/// of what the model said.
#[test]
fn values_of_the_wrong_type_never_make_another_reply() {
    for dialect in DIALECTS {
        let body = dialect.encode_reply(&reply()).expect("every dialect can say this");
        let right = check::decode(dialect, body.clone()).expect("the right reply").answer.reply;
        let document = wire::json::Document::parse(&body).expect("JSON");
        for value in document.root().walk() {
            let pointer = document.pointer_at(value.span().start);
            let others = ["7", "[]", "{}", "\"x\"", "true"];
            for other in others.into_iter().filter(|other| other.as_bytes()[0] != value.raw().as_bytes()[0]) {
                let mut edits = wire::json::Edits::default();
                edits.add(value.replaced_by(other));
                let broken = edits.apply(&body).expect("one edit overlaps nothing");
                let Ok(whole) = check::decode(dialect, broken) else { continue };
                let got = whole.answer.reply;
                let what = format!("{dialect}: {pointer} as {other}");
                // The content of an input is not checked.
                if !pointer.contains("/input/") {
                    assert_eq!(got.calls().collect::<Vec<_>>(), right.calls().collect::<Vec<_>>(), "{what}");
                }
                if !pointer.ends_with("/message/content") {
                    assert_eq!(got.text(), right.text(), "{what}");
                }
            }
        }
    }
}

#[tokio::test]
async fn events_of_the_wrong_type_are_garbage() {
    let cases: &[(Dialect, &str, &str)] = &[
        (Dialect::AnthropicMessages, "\"text\":\"Ich les\"", "\"text\":5"),
        (Dialect::AnthropicMessages, "\"partial_json\":\"{\\\"path\\\"\"", "\"partial_json\":{}"),
        (Dialect::AnthropicMessages, "\"index\":1,\"delta\"", "\"index\":\"1\",\"delta\""),
        (Dialect::AnthropicMessages, "\"index\":1,\"delta\"", "\"index\":9,\"delta\""),
        (Dialect::AnthropicMessages, "\"type\":\"text_delta\"", "\"type\":\"hologram_delta\""),
        (Dialect::AnthropicMessages, "\"type\":\"text_delta\",", ""),
        (
            Dialect::AnthropicMessages,
            "\"type\":\"input_json_delta\",\"partial_json\"",
            "\"type\":\"text_delta\",\"text\"",
        ),
        (Dialect::AnthropicMessages, "\"stop_reason\":\"tool_use\"", "\"stop_reason\":5"),
        (Dialect::AnthropicMessages, "\"stop_reason\":\"tool_use\"", "\"stop_reason\":null"),
        (Dialect::AnthropicMessages, "\"id\":\"call_2\"", "\"id\":\"call_1\""),
        (Dialect::AnthropicMessages, "\"id\":\"call_2\"", "\"id\":\"\""),
        (Dialect::OpenAiChat, "\"content\":\"Ich les\"", "\"content\":5"),
        (Dialect::OpenAiChat, "\"arguments\":\"{\\\"path\\\"\"", "\"arguments\":{}"),
        (Dialect::OpenAiChat, "\"finish_reason\":\"tool_calls\"", "\"finish_reason\":5"),
        (Dialect::OpenAiChat, "\"finish_reason\":\"tool_calls\"", "\"finish_reason\":null"),
        (Dialect::OpenAiChat, "\"choices\":[{", "\"choices\":{\"a\":{"),
        (Dialect::OpenAiResponses, "\"delta\":\"Ich les\"", "\"delta\":5"),
        (
            Dialect::OpenAiResponses,
            "\"status\":\"completed\",\"error\"",
            "\"status\":\"in_progress\",\"error\"",
        ),
    ];
    for (dialect, right, wrong) in cases {
        let body = String::from_utf8(events(*dialect, &reply()).concat()).expect("UTF-8");
        assert!(body.contains(right), "{dialect}: {right} in {body}");
        let attempt = attempt(*dialect, stream(body.replace(right, wrong).as_bytes())).await;
        assert_eq!(
            failure(&attempt).kind,
            FailureKind::Garbage,
            "{dialect} {wrong}: {:?}",
            failure(&attempt)
        );
    }
}

#[tokio::test]
async fn a_call_cut_by_the_output_limit_is_neither_run_nor_retried() {
    let mut cut = reply();
    cut.stop = Some(StopReason::MaxTokens);
    let body = String::from_utf8(events(Dialect::AnthropicMessages, &cut).concat()).expect("UTF-8");
    // The model's last words fall away, and the provider closes everything properly.
    let body = body.replacen("\"partial_json\":\"1,2]}\"", "\"partial_json\":\"\"", 1).replacen(
        "\"partial_json\":\"]}\"",
        "\"partial_json\":\"\"",
        1,
    );
    let attempt = attempt(Dialect::AnthropicMessages, stream(body.as_bytes())).await;
    assert_eq!(
        (failure(&attempt).kind, failure(&attempt).retry),
        (FailureKind::OutputLimit, RetryAdvice::No)
    );
}

#[tokio::test]
async fn a_call_that_lost_all_of_its_input_to_the_output_limit_is_not_run() {
    for dialect in DIALECTS {
        for (input, stop, is_run) in [
            ("", StopReason::MaxTokens, false),
            ("{}", StopReason::MaxTokens, false),
            ("{}", StopReason::ToolUse, true),
        ] {
            let call = ToolCall {
                id: CallId::new("call_1"),
                name: "list".to_owned(),
                input: input.to_owned(),
                server: false,
            };
            let last = Reply { blocks: vec![Block::ToolCall(call)], stop: Some(stop), ..reply() };
            let attempt = attempt(dialect, stream(&events(dialect, &last).concat())).await;
            let kind = attempt.outcome.as_ref().err().map(|failure| failure.kind);
            assert_eq!(kind, (!is_run).then_some(FailureKind::OutputLimit), "{dialect}: {input}");
        }
    }
}

/// Servers leave the output out at the end, and others leave out that an item was added; not both.
#[tokio::test]
async fn a_piece_of_an_item_that_never_was_is_no_reply() {
    let said = |output: &str| {
        let data = [
            r#"{"type":"response.created","response":{"id":"r","status":"in_progress","output":[]}}"#,
            r#"{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"lost"}"#,
            &format!(
                r#"{{"type":"response.completed","response":{{"id":"r","status":"completed","output":[{output}]}}}}"#
            ),
        ];
        data.map(|data| format!("data: {data}\n\n")).concat()
    };
    let bare = attempt(Dialect::OpenAiResponses, stream(said("").as_bytes())).await;
    assert_eq!(failure(&bare).kind, FailureKind::Garbage, "{bare:?}");
    let told = r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"lost"}]}"#;
    let told = attempt(Dialect::OpenAiResponses, stream(said(told).as_bytes())).await;
    assert_eq!(whole(&told).text().as_deref(), Some("lost"));
}

#[tokio::test]
async fn a_block_that_never_ends_is_no_reply() {
    let body = String::from_utf8(events(Dialect::AnthropicMessages, &reply()).concat()).expect("UTF-8");
    let at = body.find("event: content_block_stop").expect("a block ends");
    let end = at + body[at..].find("\n\n").expect("an event ends") + 2;
    let open = format!("{}{}", &body[..at], &body[end..]);
    let attempt = attempt(Dialect::AnthropicMessages, stream(open.as_bytes())).await;
    assert_eq!(failure(&attempt).kind, FailureKind::Garbage, "{attempt:?}");
}

#[tokio::test]
async fn our_key_in_a_reply_is_starred_out_also_where_it_comes_in_pieces() {
    for dialect in DIALECTS {
        let said = Reply { blocks: vec![Block::Text { text: format!("it is {CANARY}, no?") }], ..reply() };
        let attempt = attempt(dialect, stream(&events(dialect, &said).concat())).await;
        assert_eq!(whole(&attempt).text().as_deref(), Some("it is ********************, no?"), "{dialect}");
        let kept = String::from_utf8_lossy(&attempt.bytes);
        assert!(!kept.contains("canary") && !kept.contains("0123456"), "{kept}");
    }
    let server = Server::answering(Vec::new()).await;
    let mut dropped = format!("data: {CANARY}").into_bytes();
    server.provider(Dialect::AnthropicMessages).hide_key(&mut dropped);
    assert_eq!(String::from_utf8(dropped).expect("UTF-8"), "data: ********************");
    for dialect in DIALECTS {
        let said = Reply { blocks: vec![Block::Text { text: format!("it is {CANARY}, no?") }], ..reply() };
        let mut dropped = events(dialect, &said).concat();
        dropped.truncate(dropped.len() - 40);
        server.provider(dialect).hide_key(&mut dropped);
        assert_eq!(String::from_utf8_lossy(&dropped), "(not kept: it held our key in pieces)", "{dialect}");
    }
}

#[tokio::test]
async fn our_key_is_starred_out_of_streamed_text() {
    use base64::Engine;
    let encoded = base64::engine::general_purpose::STANDARD.encode(format!("Bearer {CANARY}"));
    for dialect in DIALECTS {
        for width in [1, 7, 1000] {
            let text = format!("it is {CANARY}, no? {encoded}");
            let said = Reply { blocks: vec![Block::Text { text }], ..reply() };
            let body = dialect.encode_stream(&said, width).expect("encodes").concat();
            let server = Server::answering(vec![stream(&body)]).await;
            let mut shown = String::new();
            let mut on = |seen: AttemptEvent<'_>| {
                if let AttemptEvent::Delta { text, .. } = seen {
                    shown.push_str(text);
                }
            };
            let attempt = server.provider(dialect).attempt(Bytes::new(), &mut on).await;
            assert_eq!(Some(shown.clone()), whole(&attempt).text(), "{dialect}, {width}");
            assert!(shown.starts_with("it is ********************, no? QmVhcmVyI"), "{shown}");
            assert!(shown.ends_with('*') || shown.ends_with('='), "{shown}");
        }
    }
}

#[tokio::test]
async fn stopping_for_tools_without_a_call_or_with_nothing_to_say_passes() {
    for dialect in DIALECTS {
        for stop in [StopReason::EndTurn, StopReason::ToolUse] {
            let bare = Reply { blocks: Vec::new(), stop: Some(stop), ..reply() };
            let attempt = attempt(dialect, stream(&events(dialect, &bare).concat())).await;
            assert!(whole(&attempt).blocks.is_empty());
        }
    }
}

#[tokio::test]
async fn an_answer_that_is_too_large_is_not_kept() {
    let body = events(Dialect::OpenAiChat, &reply()).concat();
    let server = Server::answering(vec![stream(&body)]).await;
    let mut provider = server.provider(Dialect::OpenAiChat);
    provider.limits.max_bytes = body.len() - 1;
    let attempt = provider.attempt(Bytes::new(), &mut |_| {}).await;
    assert_eq!((failure(&attempt).kind, failure(&attempt).retry), (FailureKind::TooLarge, RetryAdvice::No));
    assert!(attempt.bytes.len() < body.len());
}

#[tokio::test]
async fn an_unrequested_content_coding_is_decoded() {
    let body = events(Dialect::OpenAiResponses, &reply()).concat();
    for coding in ["gzip", "deflate", "br", "zstd", "identity"] {
        let packed = wire::encoding::encode(coding, &body).expect("a known coding");
        let headers = format!("content-type: text/event-stream\r\ncontent-encoding: {coding}\r\n");
        let answer = |packed: &[u8]| [head("200", &headers).as_bytes(), packed].concat();
        let kept = attempt(Dialect::OpenAiResponses, answer(&packed)).await;
        assert_eq!(whole(&kept).calls().count(), 2, "{coding}");
        assert_eq!(kept.bytes, packed);
        let cut = attempt(Dialect::OpenAiResponses, answer(&packed[..packed.len() / 2])).await;
        assert!(matches!(failure(&cut).kind, FailureKind::Cut | FailureKind::Garbage), "{coding}");
    }
}
