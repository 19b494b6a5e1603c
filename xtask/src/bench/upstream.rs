//! The provider behind every target: it answers each POST with the same stream, as fast as it can.
//!
//! It runs in a process of its own, so that its work is not counted as anybody else's. With a gap, it speaks
//! as slowly and unevenly as a model does.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::traffic::Traffic;

const HEAD: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n";

/// What it answers with, and how fast.
#[derive(Args)]
pub(crate) struct UpstreamArgs {
    /// Events of the response
    #[arg(long, default_value_t = Traffic::PROXY.events)]
    events: usize,
    /// The time between two events, on average, in microseconds
    #[arg(long, default_value_t = 0)]
    gap: u64,
}

impl UpstreamArgs {
    /// How long event `number` lets the client wait: between half and one and a half of the average.
    fn pause(&self, number: usize) -> Duration {
        Duration::from_micros(self.gap * (5 + number as u64 * 7 % 11) / 10)
    }
}

/// Listens on a free port, prints its address as the first line, and serves until it is killed.
pub(crate) fn serve(args: UpstreamArgs) -> Result<()> {
    super::on_runtime(async {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("could not listen on loopback")?;
        println!("{}", listener.local_addr()?);
        let chunks: Arc<[(Vec<u8>, Duration)]> = chunks(&args).into();
        loop {
            let (connection, chunks) = (listener.accept().await?.0, Arc::clone(&chunks));
            tokio::spawn(async move {
                if let Err(error) = answer_all(connection, &chunks).await {
                    eprintln!("bench upstream: {error}");
                }
            });
        }
    })
}

/// The body in pieces, one for each write: an event a chunk, and the end of the body; and the pause before each.
fn chunks(args: &UpstreamArgs) -> Vec<(Vec<u8>, Duration)> {
    let framed = |event: String| format!("{:x}\r\n{event}\r\n", event.len()).into_bytes();
    let events = Traffic { events: args.events, ..Traffic::PROXY }.events();
    let pieces = events.into_iter().map(framed).enumerate().map(|(at, event)| (event, args.pause(at)));
    pieces.chain([(b"0\r\n\r\n".to_vec(), Duration::ZERO)]).collect()
}

/// Answers one request after the other until the client leaves.
async fn answer_all(connection: TcpStream, chunks: &[(Vec<u8>, Duration)]) -> io::Result<()> {
    connection.set_nodelay(true)?;
    let mut stream = BufReader::with_capacity(128 * 1024, connection);
    while let Some(length) = read_head(&mut stream).await? {
        tokio::io::copy_buf(&mut (&mut stream).take(length), &mut tokio::io::sink()).await?;
        stream.write_all(HEAD).await?;
        // A provider sends an event when it has one. Joined writes would spare every target most of its work.
        for (chunk, pause) in chunks {
            if !pause.is_zero() {
                tokio::time::sleep(*pause).await;
            }
            stream.write_all(chunk).await?;
        }
    }
    Ok(())
}

/// Reads a request up to its body and returns the body's length; nothing if the client has left.
async fn read_head(stream: &mut BufReader<TcpStream>) -> io::Result<Option<u64>> {
    let mut length = None;
    let mut line = String::new();
    loop {
        line.clear();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(None);
        }
        match line.trim_end().split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.trim().parse().ok()
            }
            None if line == "\r\n" => break,
            _ => {}
        }
    }
    length.map(Some).ok_or_else(|| io::Error::other("a request without `Content-Length`"))
}
