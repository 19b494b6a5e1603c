//! Requests on the wire, and the secrets that stay out of results.

use super::*;

async fn sent(make: impl FnOnce(&mut ProviderClient), dialect: Dialect) -> String {
    let server = Server::answering(vec![stream(b"")]).await;
    let mut provider = server.provider(dialect);
    make(&mut provider);
    let attempt = provider.attempt(Bytes::from_static(b"{\"model\":\"m\"}"), &mut |_| {}).await;
    no_canary(&attempt);
    assert!(!format!("{provider:?} {provider:#?}").contains("canary"));
    let request = server.requests().remove(0);
    request.replace(&server.address.to_string(), "HOST").replace("\r\n", "\n")
}

fn sorted(request: &str) -> String {
    let (head, body) = request.split_once("\n\n").expect("a head and a body");
    let mut lines: Vec<&str> = head.lines().collect();
    lines[1..].sort_unstable();
    format!("{}\n\n{body}\n", lines.join("\n"))
}

#[tokio::test]
async fn requests_look_as_each_provider_wants_them() {
    let anthropic = sent(|_| {}, Dialect::AnthropicMessages).await;
    expect_test::expect![[r#"
        POST /v1/messages HTTP/1.1
        accept-encoding: identity
        accept: text/event-stream, application/json
        anthropic-version: 2023-06-01
        content-length: 13
        content-type: application/json
        host: HOST
        user-agent: offshoot/0.1.0
        x-api-key: sk-canary-0123456789

        {"model":"m"}
    "#]]
    .assert_eq(&sorted(&anthropic));
    let chat = sent(|provider| provider.key_header = KeyHeader::Bearer, Dialect::OpenAiChat).await;
    assert!(chat.starts_with("POST /v1/chat/completions "), "{chat}");
    assert!(chat.contains("\nauthorization: Bearer sk-canary-0123456789\n"), "{chat}");
    assert!(!chat.contains("anthropic-version") && !chat.contains("x-api-key"), "{chat}");
    let bare = sent(|provider| provider.key = ApiKey::None, Dialect::OpenAiResponses).await;
    assert!(bare.starts_with("POST /v1/responses ") && !bare.contains("canary"), "{bare}");
}

#[tokio::test]
async fn headers_of_the_settings_go_over_our_own() {
    let request = sent(
        |provider| {
            provider.headers.insert("anthropic-version", "2099-01-01".parse().expect("a value"));
            provider.headers.insert("x-team", "kernel".parse().expect("a value"));
        },
        Dialect::AnthropicMessages,
    )
    .await;
    assert!(
        request.contains("\nanthropic-version: 2099-01-01\n") && !request.contains("2023-06-01"),
        "{request}"
    );
    assert!(request.contains("\nx-team: kernel\n"), "{request}");
}

#[tokio::test]
async fn a_key_file_is_read_for_every_request() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("key");
    let server = Server::answering(vec![stream(b""), stream(b"")]).await;
    let mut provider = server.provider(Dialect::AnthropicMessages);
    provider.key = ApiKey::File(path.clone());
    for key in ["first", "second"] {
        std::fs::write(&path, format!("{key}\n")).expect("a folder of our own");
        provider.attempt(Bytes::new(), &mut |_| {}).await;
        assert!(server.requests().last().expect("a request").contains(&format!("x-api-key: {key}\r\n")));
    }
    for (content, why) in [(Some(" \n"), "it is empty"), (None, "No such file")] {
        match content {
            Some(content) => std::fs::write(&path, content).expect("a folder of our own"),
            None => std::fs::remove_file(&path).expect("a folder of our own"),
        }
        let attempt = provider.attempt(Bytes::new(), &mut |_| {}).await;
        let failure = failure(&attempt);
        assert_eq!((failure.kind, failure.retry), (FailureKind::Auth, RetryAdvice::No));
        assert!(failure.message.contains(why) && failure.hint.is_some(), "{failure:?}");
    }
    assert_eq!(server.requests().len(), 2);
}

/// Dropping an attempt, before or after its answer began, closes the connection.
#[tokio::test]
async fn giving_up_closes_the_connection() {
    for begins in [false, true] {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let server = Server { address: listener.local_addr().expect("bound"), requests: Arc::default() };
        let provider = server.provider(Dialect::AnthropicMessages);
        let (told, mut seen) = tokio::sync::mpsc::unbounded_channel();
        let asking = tokio::spawn(async move {
            let mut tell = |_: AttemptEvent<'_>| told.send(()).expect("somebody listens");
            provider.attempt(Bytes::from_static(b"{}"), &mut tell).await
        });
        let (mut socket, _) = listener.accept().await.expect("a client");
        read_request(&mut socket).await;
        if begins {
            socket.write_all(&stream(b"data: {}")).await.expect("a client");
            seen.recv().await.expect("it is seen");
        }
        asking.abort();
        let mut rest = Vec::new();
        // A closed connection ends the read, with an error or without.
        let _ = socket.read_to_end(&mut rest).await;
        assert!(rest.is_empty());
    }
}

#[tokio::test]
async fn connections_are_used_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let server = Server { address: listener.local_addr().expect("bound"), requests: Arc::default() };
    let provider = server.provider(Dialect::AnthropicMessages);
    let body = events(Dialect::AnthropicMessages, &reply()).concat();
    let serving = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.expect("a client");
        for _ in 0..3 {
            read_request(&mut socket).await;
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n";
            let head = format!("{head}content-length: {}\r\n\r\n", body.len());
            socket.write_all(&[head.as_bytes(), &body].concat()).await.expect("a client");
        }
    });
    for _ in 0..3 {
        let attempt = provider.attempt(Bytes::from_static(b"{}"), &mut |_| {}).await;
        assert_eq!(whole(&attempt).calls().count(), 2);
    }
    serving.await.expect("all three came over one connection");
}

#[test]
fn a_draft_gets_the_features_of_its_model() {
    let settle = |model: &str, dialect, seat, summarized| {
        let mut draft = Draft { model: model.to_owned(), ..Draft::default() };
        apply_model_settings(&mut draft, dialect, seat, summarized);
        String::from_utf8(dialect.encode_request(&draft).expect("an empty request")).expect("UTF-8")
    };
    let settled = |model: &str, dialect, seat| settle(model, dialect, seat, true);
    let opus = settled("claude-opus-5", Dialect::AnthropicMessages, AgentRole::Main);
    assert!(
        opus.contains(
            r#""max_tokens":64000,"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"xhigh"}"#
        ),
        "{opus}"
    );
    let plain = settle("claude-opus-5", Dialect::AnthropicMessages, AgentRole::Main, false);
    assert!(plain.contains(r#""thinking":{"type":"adaptive"},"#), "{plain}");
    let none = settled("claude-sonnet-4-5", Dialect::AnthropicMessages, AgentRole::Main);
    assert!(!none.contains("thinking") && !none.contains("output_config"), "{none}");
    let sol = settled("gpt-5.6-sol", Dialect::OpenAiResponses, AgentRole::Sub);
    assert!(sol.contains(r#""reasoning":{"effort":"high"}"#) && !sol.contains("max_output_tokens"), "{sol}");
    let unknown = settled("mystery-1", Dialect::OpenAiChat, AgentRole::Main);
    assert_eq!(unknown, r#"{"model":"mystery-1","messages":[]}"#);
}

#[tokio::test]
async fn a_key_that_cannot_be_sent_is_found_before_anything_begins() {
    let server = Server::answering(Vec::new()).await;
    let mut provider = server.provider(Dialect::AnthropicMessages);
    assert!(provider.check_key().await.is_ok());
    provider.key =
        ApiKey::Known { secret: Secret::new(format!("{CANARY}\nmore")), from: "TEST_KEY".to_owned() };
    let failure = provider.check_key().await.expect_err("two lines");
    assert_eq!(failure.kind, FailureKind::Auth);
    assert!(!format!("{failure:?}").contains(CANARY));
}
