//! The provider against servers of our own, on loopback and in memory.

mod config;
mod cuts;
mod refusals;
mod replies;
mod requests;
mod stalls;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::HeaderMap;
use session::{Block, CallId, Reply, StopReason, ToolCall, Usage};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use wire::dialect::Dialect;

use super::*;

const DIALECTS: [Dialect; 3] = [Dialect::AnthropicMessages, Dialect::OpenAiChat, Dialect::OpenAiResponses];

/// A value that must turn up nowhere but in the header that carries it.
const CANARY: &str = "sk-canary-0123456789";

/// Thinking, a text with letters of every length, and two calls.
fn reply() -> Reply {
    let call = |id: &str, input: &str| {
        Block::ToolCall(ToolCall {
            id: CallId::new(id),
            name: "read".to_owned(),
            input: input.to_owned(),
            server: false,
        })
    };
    Reply {
        id: "reply_1".to_owned(),
        model: "model-1".to_owned(),
        blocks: vec![
            Block::Thinking { text: "größer als 7?".to_owned(), signature: Some("c2VhbA==".to_owned()) },
            Block::Text { text: "Ich lese \"beide\" – 日本 😀\n".to_owned() },
            call("call_1", "{\"path\":\"ä.txt\"}"),
            call("call_2", "{\"path\":\"b.txt\",\"lines\":[1,2]}"),
        ],
        stop: Some(StopReason::ToolUse),
        usage: Usage { input: 10, output: 20, cache_read: 30, ..Usage::default() },
    }
}

/// The events of a reply, each with its bytes.
fn events(dialect: Dialect, reply: &Reply) -> Vec<Vec<u8>> {
    dialect.encode_stream(reply, 7).expect("every dialect can say this")
}

/// The head of an answer; it has no length, so the body ends with the connection.
pub(crate) fn head(status: &str, headers: &str) -> String {
    format!("HTTP/1.1 {status} Whatever\r\nconnection: close\r\n{headers}\r\n")
}

/// A good answer that is a stream.
pub(crate) fn stream(body: &[u8]) -> Vec<u8> {
    [head("200", "content-type: text/event-stream\r\n").as_bytes(), body].concat()
}

/// A server that gives the next answer to each connection, byte for byte, and then closes it.
pub(crate) struct Server {
    address: SocketAddr,
    /// The requests as they came.
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub(crate) async fn answering(answers: Vec<Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let address = listener.local_addr().expect("bound");
        let requests = Arc::new(Mutex::new(Vec::new()));
        let kept = requests.clone();
        tokio::spawn(async move {
            for answer in answers {
                let Ok((mut socket, _)) = listener.accept().await else { return };
                let request = read_request(&mut socket).await;
                kept.lock().expect("lock is not poisoned").push(request);
                // A client that has had enough may have gone.
                let _ = socket.write_all(&answer).await;
                let _ = socket.shutdown().await;
            }
        });
        Self { address, requests }
    }

    /// A server that gives every connection this much of an answer, and then says nothing for as long as what is
    /// handed back with it lives.
    pub(crate) async fn falling_silent(answer: Vec<u8>) -> (Self, tokio::task::JoinSet<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let address = listener.local_addr().expect("bound");
        let mut open = tokio::task::JoinSet::new();
        open.spawn(async move {
            let mut sockets = Vec::new();
            while let Ok((mut socket, _)) = listener.accept().await {
                read_request(&mut socket).await;
                let _ = socket.write_all(&answer).await;
                sockets.push(socket);
            }
        });
        (Self { address, requests: Arc::default() }, open)
    }

    pub(crate) fn provider(&self, dialect: Dialect) -> ProviderClient {
        ProviderClient {
            name: "test".to_owned(),
            dialect,
            endpoint: endpoint(&format!("http://{}", self.address), dialect).expect("an address"),
            headers: HeaderMap::new(),
            key: ApiKey::Known { secret: Secret::new(CANARY), from: "TEST_KEY".to_owned() },
            key_header: KeyHeader::ApiKey,
            limits: ResponseLimits::default(),
            network: ConnectionPool::new(),
        }
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("lock is not poisoned").clone()
    }
}

/// Reads one request with a body of a known length.
async fn read_request(socket: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.map_or(0, |length| length.parse().expect("a number"));
            if body.len() >= length {
                return text;
            }
        }
        let mut buffer = [0; 4096];
        match socket.read(&mut buffer).await {
            Ok(0) | Err(_) => return text,
            Ok(read) => bytes.extend_from_slice(&buffer[..read]),
        }
    }
}

/// One attempt against one answer.
async fn attempt(dialect: Dialect, answer: Vec<u8>) -> HttpAttempt {
    let server = Server::answering(vec![answer]).await;
    let attempt = server.provider(dialect).attempt(Bytes::from_static(b"{}"), &mut |_| {}).await;
    no_canary(&attempt);
    attempt
}

fn no_canary(attempt: &HttpAttempt) {
    let bytes = String::from_utf8_lossy(&attempt.bytes);
    let hint = attempt.outcome.as_ref().err().map(|failure| format!("{failure} {:?}", failure.hint));
    let shown = format!("{attempt:?} {attempt:#?} {hint:?} {bytes}");
    assert!(!shown.contains("canary"), "{shown}");
}

fn failure(attempt: &HttpAttempt) -> &ProviderFailure {
    attempt.outcome.as_ref().expect_err("no reply can come of this")
}

fn whole(attempt: &HttpAttempt) -> &Reply {
    &attempt.outcome.as_ref().expect("a whole reply").answer.reply
}
