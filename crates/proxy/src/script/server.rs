//! The scripted model as a server on loopback.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use wire::dialect::{Dialect, ProviderError};

use super::Script;
use crate::exchange::{Buffer, fill};
use crate::h1::{BodyDecoder, RequestHead};

/// Characters in one event of a streamed text.
const CHUNK: usize = 24;

/// A running scripted model; it ends when this is dropped.
#[derive(Debug)]
pub struct ScriptedModel {
    addr: SocketAddr,
    serving: JoinHandle<()>,
}

impl ScriptedModel {
    /// Begins to serve on any free port of loopback.
    pub async fn start(script: Script) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let addr = listener.local_addr()?;
        let script = Arc::new(script);
        let serving = tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let script = script.clone();
                tokio::spawn(async move {
                    if let Err(error) = serve(tcp, &script).await {
                        tracing::debug!("a connection to the scripted model ended: {error}");
                    }
                });
            }
        });
        Ok(Self { addr, serving })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Drop for ScriptedModel {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(mut tcp: TcpStream, script: &Script) -> io::Result<()> {
    tcp.set_nodelay(true)?;
    let mut buffer = Buffer::new();
    loop {
        let (head, length) = loop {
            match RequestHead::parse(&buffer).map_err(io::Error::other)? {
                Some(parsed) => break parsed,
                None if fill(&mut tcp, &mut buffer).await? == 0 => return Ok(()),
                None => {}
            }
        };
        let _ = buffer.split_to(length);
        if head.head.has_token("expect", "100-continue") {
            tcp.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        let mut decoder = BodyDecoder::new(head.framing);
        let mut body = Vec::new();
        while !decoder.is_done() {
            if buffer.is_empty() && fill(&mut tcp, &mut buffer).await? == 0 {
                return Ok(());
            }
            let taken =
                decoder.push(&buffer, &mut |part| body.extend_from_slice(part)).map_err(io::Error::other)?;
            let _ = buffer.split_to(taken);
        }
        tcp.write_all(&respond(script, &head, &body)).await?;
        if head.head.closes() {
            return Ok(());
        }
    }
}

/// The whole response to a request.
fn respond(script: &Script, head: &RequestHead, body: &[u8]) -> Vec<u8> {
    let target = head.target();
    if head.method != "POST" {
        return json(404, br#"{"error":{"message":"the scripted model answers POST requests only"}}"#);
    }
    let Some(dialect) = Dialect::of(&target, body) else {
        return json(404, br#"{"error":{"message":"the scripted model does not know this dialect"}}"#);
    };
    let refuse = |message: String| {
        tracing::warn!("the scripted model cannot answer {target}: {message}");
        let error = ProviderError::new(dialect.error_kind(400), format!("scripted model: {message}"));
        json(400, &dialect.encode_error(&error))
    };
    if target.split('?').next().is_some_and(|path| path.ends_with("/count_tokens")) {
        // Four bytes a token is as good as any guess here.
        return json(200, format!(r#"{{"input_tokens":{}}}"#, body.len() / 4).as_bytes());
    }
    let prompt = match dialect.decode_request(body) {
        Ok(prompt) => prompt,
        Err(error) => return refuse(error.to_string()),
    };
    let reply = match script.answer(&prompt) {
        Ok(reply) => reply,
        Err(message) => return refuse(message),
    };
    let encoded = match prompt.stream {
        true => dialect.encode_stream(&reply, CHUNK).map(|events| stream(&events)),
        false => dialect.encode_reply(&reply).map(|body| json(200, &body)),
    };
    encoded.unwrap_or_else(|error| refuse(error.to_string()))
}

fn json(status: u16, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status} Scripted\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// One chunk per event, as providers send them.
fn stream(events: &[Vec<u8>]) -> Vec<u8> {
    let mut wire =
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    for event in events {
        wire.extend_from_slice(format!("{:x}\r\n", event.len()).as_bytes());
        wire.extend_from_slice(event);
        wire.extend_from_slice(b"\r\n");
    }
    wire.extend_from_slice(b"0\r\n\r\n");
    wire
}
