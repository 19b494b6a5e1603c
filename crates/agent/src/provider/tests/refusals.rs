//! Statuses other than good ones.

use std::time::Duration;

use expect_test::expect;
use wire::dialect::ProviderError;

use super::*;

async fn refused(dialect: Dialect, status: &str, headers: &str, kind: &str, message: &str) -> HttpAttempt {
    let body = dialect.encode_error(&ProviderError::new(kind, message));
    let headers = format!("content-type: application/json\r\n{headers}");
    attempt(dialect, [head(status, &headers).into_bytes(), body].concat()).await
}

#[tokio::test]
async fn every_status_has_its_meaning() {
    let mut table = String::new();
    for status in [400, 401, 402, 403, 404, 408, 409, 413, 418, 422, 429, 500, 502, 503, 504, 529, 599] {
        for dialect in DIALECTS {
            let attempt = refused(dialect, &status.to_string(), "", "some_error", "because").await;
            let failure = failure(&attempt);
            assert_eq!(attempt.status, Some(status));
            let expected = format!("the provider answered {status}: because (`some_error`)");
            assert_eq!(failure.message, expected);
            let line = format!("{status} {:?} {:?}\n", failure.kind, failure.retry);
            if !table.ends_with(&line) {
                table += &line;
            }
        }
    }
    expect![[r#"
        400 Status(400) No
        401 Auth No
        402 Status(402) No
        403 Auth No
        404 NotFound No
        408 Status(408) Yes
        409 Status(409) Yes
        413 RequestTooLarge No
        418 Status(418) No
        422 Status(422) No
        429 RateLimited Yes
        500 Status(500) Yes
        502 Status(502) Yes
        503 Overloaded Yes
        504 Status(504) Yes
        529 Overloaded Yes
        599 Status(599) Yes
    "#]]
    .assert_eq(&table);
}

#[tokio::test]
async fn the_provider_decides_about_retries_and_their_delay() {
    let ask = |headers: &'static str| {
        refused(Dialect::AnthropicMessages, "429", headers, "rate_limit_error", "slowly")
    };
    let attempt = ask("retry-after: 7\r\n").await;
    assert_eq!(attempt.retry_after, Some(Duration::from_secs(7)));
    assert_eq!(failure(&attempt).retry, RetryAdvice::After(Duration::from_secs(7)));
    let attempt = ask("retry-after-ms: 250\r\nretry-after: 1\r\n").await;
    assert_eq!(failure(&attempt).retry, RetryAdvice::After(Duration::from_millis(250)));
    let attempt = ask("retry-after: 7\r\nx-should-retry: false\r\n").await;
    assert_eq!(failure(&attempt).retry, RetryAdvice::No);
    let attempt = ask("retry-after: never\r\n").await;
    assert_eq!((attempt.retry_after, failure(&attempt).retry), (None, RetryAdvice::Yes));
    let empty =
        refused(Dialect::OpenAiChat, "429", "retry-after: 7\r\n", "insufficient_quota", "pay first").await;
    assert_eq!(failure(&empty).retry, RetryAdvice::No);
    // A refusal for a minute mentions where to buy more.
    let words = "rate limit reached; to get more visit https://platform.example/account/billing";
    let busy = refused(Dialect::OpenAiChat, "429", "retry-after: 1\r\n", "rate_limit_exceeded", words).await;
    assert_eq!(failure(&busy).retry, RetryAdvice::After(Duration::from_secs(1)));
    assert_eq!(failure(&busy).hint, None);
    let miss =
        refused(Dialect::AnthropicMessages, "500", "x-should-retry: false\r\n", "api_error", "a miss").await;
    assert_eq!(failure(&miss).retry, RetryAdvice::No);
}

#[tokio::test]
async fn redirects_are_not_followed() {
    for status in ["301", "302", "307", "308"] {
        let location = "location: https://elsewhere.example/v1/messages?token=canary\r\n";
        let server = Server::answering(vec![head(status, location).into_bytes(), stream(b"")]).await;
        let mut attempt =
            server.provider(Dialect::AnthropicMessages).attempt(Bytes::new(), &mut |_| {}).await;
        assert_eq!(
            (failure(&attempt).kind, failure(&attempt).retry),
            (FailureKind::Redirect, RetryAdvice::No)
        );
        assert!(failure(&attempt).message.contains("`https://elsewhere.example/v1/messages`"));
        assert_eq!(server.requests().len(), 1);
        attempt.headers.clear(); // they are the server's own words
        no_canary(&attempt);
    }
}

#[tokio::test]
async fn a_refused_key_is_not_shown_but_its_variable_is() {
    let echo = format!("incorrect API key provided: {CANARY}");
    for dialect in DIALECTS {
        let attempt = refused(dialect, "401", "", "invalid_api_key", &echo).await;
        let failure = failure(&attempt);
        assert_eq!(
            failure.message,
            "the provider answered 401: incorrect API key provided: *** (`invalid_api_key`)"
        );
        assert_eq!(failure.hint.as_deref(), Some("set `TEST_KEY` to a key that the provider accepts"));
        assert!(attempt.bytes.windows(5).any(|window| window == b"*****"));
    }
    let page = [head("403", "content-type: text/html\r\n").as_bytes(), CANARY.as_bytes()].concat();
    assert_eq!(failure(&attempt(Dialect::OpenAiChat, page).await).kind, FailureKind::Auth);
}

/// Keys may be in headers that the settings name, and `ollama` is a key too.
#[tokio::test]
async fn secrets_in_headers_are_hidden_and_ordinary_words_are_not() {
    let body = br#"{"error":{"type":"authentication_error","message":"bad hdr-canary-1234, beta context-1m-2025, ollama"}}"#;
    let server = Server::answering(vec![[head("401", "").as_bytes(), body].concat()]).await;
    let mut provider = server.provider(Dialect::AnthropicMessages);
    provider.key = ApiKey::Known { secret: Secret::new("ollama"), from: "TEST_KEY".to_owned() };
    provider.headers.insert("x-gate", "Token hdr-canary-1234".parse().expect("a value"));
    provider.headers.insert("anthropic-beta", "context-1m-2025".parse().expect("a value"));
    let attempt = provider.attempt(Bytes::new(), &mut |_| {}).await;
    let kept = String::from_utf8_lossy(&attempt.bytes).into_owned();
    assert!(kept.contains("bad ***************, beta context-1m-2025, ollama"), "{kept}");
    assert!(failure(&attempt).message.contains("bad ***, beta context-1m-2025, ollama"), "{attempt:?}");
}

#[tokio::test]
async fn a_key_that_is_refused_behind_a_good_status_is_the_user_s_to_mend() {
    let event = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"authentication_error\",\"message\":\"no\"}}\n\n";
    let attempt = attempt(Dialect::AnthropicMessages, stream(event.as_bytes())).await;
    assert_eq!((failure(&attempt).kind, failure(&attempt).retry), (FailureKind::Auth, RetryAdvice::No));
}

#[tokio::test]
async fn a_refusal_in_no_shape_at_all_is_still_understood() {
    for body in [&b""[..], b"upstream sent too big header\x1b[2J", b"{\"detail\":\"Not found\"}", b"\xff\xfe"]
    {
        let answer = [head("502", "").as_bytes(), body].concat();
        let attempt = attempt(Dialect::AnthropicMessages, answer).await;
        let failure = failure(&attempt);
        assert_eq!(failure.kind, FailureKind::Status(502));
        assert!(!failure.message.contains('\x1b'), "{failure}");
    }
}

#[tokio::test]
async fn a_refused_connection_is_an_error_with_the_address() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let address = listener.local_addr().expect("bound");
    drop(listener);
    let server = Server { address, requests: Arc::default() };
    let attempt = server.provider(Dialect::OpenAiChat).attempt(Bytes::new(), &mut |_| {}).await;
    no_canary(&attempt);
    let failure = failure(&attempt);
    // A retry does not help if nothing listens on this machine.
    assert_eq!((failure.kind, failure.retry, attempt.status), (FailureKind::Connect, RetryAdvice::No, None));
    assert_eq!(failure.message, format!("cannot connect to `{address}`: nothing listens there"));
    assert!(failure.hint.as_ref().is_some_and(|hint| hint.contains("base URL")), "{failure:?}");
    // Accepted, and closed without a word.
    let server = Server::answering(vec![Vec::new()]).await;
    let attempt = server.provider(Dialect::OpenAiChat).attempt(Bytes::new(), &mut |_| {}).await;
    assert_eq!(attempt.outcome.expect_err("no answer").kind, FailureKind::Cut);
}

#[tokio::test]
async fn a_server_that_does_not_speak_tls_is_no_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let server = Server { address: listener.local_addr().expect("bound"), requests: Arc::default() };
    let serving = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.expect("a client");
        socket.write_all(head("400", "").as_bytes()).await.expect("a client");
        let mut heard = Vec::new();
        // The client hangs up, with an error or without.
        let _ = socket.read_to_end(&mut heard).await;
        heard
    });
    let mut provider = server.provider(Dialect::AnthropicMessages);
    provider.endpoint =
        endpoint(&format!("https://{}", server.address), provider.dialect).expect("an address");
    let attempt = provider.attempt(Bytes::from_static(b"{}"), &mut |_| {}).await;
    no_canary(&attempt);
    assert_eq!(failure(&attempt).kind, FailureKind::Connect);
    let heard = serving.await.expect("it heard something");
    assert!(!String::from_utf8_lossy(&heard).contains("canary"));
}
