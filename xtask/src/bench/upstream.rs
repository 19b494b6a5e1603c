//! The upstream of all targets: answers each POST with the same stream, as fast as possible.
//!
//! It runs in a process of its own, so that its CPU time is not counted for the client. With a gap, its events come slowly and
//! unevenly, as those of a model.

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

/// Response of the upstream.
#[derive(Args)]
pub(crate) struct UpstreamArgs {
    /// Number of events of the response
    #[arg(long, default_value_t = Traffic::PROXY.events)]
    events: usize,
    /// Average time between two events in microseconds
    #[arg(long, default_value_t = 0)]
    gap: u64,
}

impl UpstreamArgs {
    /// Returns the time before an event: between half and one and a half of the average.
    fn pause(&self, number: usize) -> Duration {
        Duration::from_micros(self.gap * (5 + number as u64 * 7 % 11) / 10)
    }
}

/// Listens on a free port, prints its address as the first line, and serves until it is killed.
pub(crate) fn serve(args: UpstreamArgs) -> Result<()> {
    super::on_runtime(async {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("cannot listen on loopback")?;
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

/// Returns the writes of the body with the pause before each: one chunk per event, and the end.
fn chunks(args: &UpstreamArgs) -> Vec<(Vec<u8>, Duration)> {
    let framed = |event: String| format!("{:x}\r\n{event}\r\n", event.len()).into_bytes();
    let events = Traffic { events: args.events, ..Traffic::PROXY }.events();
    let pieces = events.into_iter().map(framed).enumerate().map(|(at, event)| (event, args.pause(at)));
    pieces.chain([(b"0\r\n\r\n".to_vec(), Duration::ZERO)]).collect()
}

/// Answers requests until the client leaves.
async fn answer_all(connection: TcpStream, chunks: &[(Vec<u8>, Duration)]) -> io::Result<()> {
    connection.set_nodelay(true)?;
    let mut stream = BufReader::with_capacity(128 * 1024, connection);
    while let Some(length) = read_head(&mut stream).await? {
        tokio::io::copy_buf(&mut (&mut stream).take(length), &mut tokio::io::sink()).await?;
        stream.write_all(HEAD).await?;
        // A provider sends events one by one. Joined writes would save all targets most of their work.
        for (chunk, pause) in chunks {
            if !pause.is_zero() {
                tokio::time::sleep(*pause).await;
            }
            stream.write_all(chunk).await?;
        }
    }
    Ok(())
}

/// Reads the head of a request. Returns the length of the body, or `None` if the client has left.
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
