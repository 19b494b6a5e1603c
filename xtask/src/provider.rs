//! A provider on loopback whose replies come from a function. It has no state of its own, so that an interrupted run finds it
//! unchanged.

use std::io::{self, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use session::{Block, CallId, Reply, StopReason, ToolCall, Usage};
use wire::dialect::Dialect;

/// Returns the reply to the body of a request.
type ReplyFn = dyn Fn(&[u8]) -> Reply + Send + Sync;

/// A provider that runs until this process ends.
pub(crate) struct Provider {
    pub(crate) address: SocketAddr,
}

/// ReplyPace of a reply.
#[derive(Clone, Copy)]
pub(crate) enum ReplyPace {
    /// In one write.
    Whole,
    /// One event per write, with this time between them.
    Events(Duration),
}

impl Provider {
    pub(crate) fn start(
        pace: ReplyPace,
        answer: impl Fn(&[u8]) -> Reply + Send + Sync + 'static,
    ) -> Result<Provider> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot listen on loopback")?;
        let address = listener.local_addr()?;
        let answer: Arc<ReplyFn> = Arc::new(answer);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let answer = Arc::clone(&answer);
                // A client that is killed breaks its connection, which is no error.
                thread::spawn(move || serve(&stream, pace, &*answer).ok());
            }
        });
        Ok(Provider { address })
    }
}

/// Answers requests until the connection closes.
fn serve(stream: &TcpStream, pace: ReplyPace, answer: &ReplyFn) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    while let Some(body) = request(&mut reader)? {
        let reply = answer(&body);
        let (chunk, gap) = match pace {
            ReplyPace::Whole => (4096, Duration::ZERO),
            ReplyPace::Events(gap) => (8, gap),
        };
        let events = Dialect::AnthropicMessages.encode_stream(&reply, chunk).map_err(io::Error::other)?;
        let mut out = stream;
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        let mut written = head.as_bytes().to_vec();
        for event in events {
            write!(written, "{:x}\r\n", event.len())?;
            written.extend_from_slice(&event);
            written.extend_from_slice(b"\r\n");
            if !gap.is_zero() {
                out.write_all(&std::mem::take(&mut written))?;
                thread::sleep(gap);
            }
        }
        written.extend_from_slice(b"0\r\n\r\n");
        out.write_all(&written)?;
    }
    Ok(())
}

/// Reads the body of the next request; `None` at the end of the connection.
fn request(reader: &mut impl io::BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let line = line.trim().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().map_err(io::Error::other)?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Some(body))
}

/// Creates a reply from blocks.
pub(crate) fn reply(id: String, blocks: Vec<Block>, usage: Usage) -> Reply {
    let calls = blocks.iter().any(|block| matches!(block, Block::ToolCall(_)));
    let stop = Some(if calls { StopReason::ToolUse } else { StopReason::EndTurn });
    Reply { id, model: "claude-sonnet-5".to_owned(), blocks, stop, usage }
}

pub(crate) fn text(text: &str) -> Block {
    Block::Text { text: text.to_owned() }
}

pub(crate) fn call(id: &str, name: &str, input: &str) -> Block {
    let (id, name, input) = (CallId::new(id), name.to_owned(), input.to_owned());
    Block::ToolCall(ToolCall { id, name, input, server: false })
}
