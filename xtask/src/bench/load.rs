//! The load: keep-alive connections that send the same request again and again and check every answer.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::chunked::Chunked;
use super::traffic;

/// Nothing we measure takes so long for one call unless it hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the clients saw of a target.
pub(super) struct Load {
    /// From the first request of the first client to the last byte of the last.
    pub(super) elapsed: Duration,
    /// For each request, the time from its first byte to the first byte of the response's body.
    pub(super) first_bytes: Vec<Duration>,
}

/// Sends `requests` requests to `address` over so many connections.
///
/// Each connection is opened and used once before the clock starts; `started` is called just then.
pub(super) async fn run(
    address: SocketAddr,
    connections: usize,
    requests: u32,
    started: impl FnOnce(),
) -> Result<Load> {
    let task = Arc::new(Task {
        request: traffic::request(address),
        response: traffic::events().concat().into_bytes(),
        left: AtomicI64::new(i64::from(requests)),
    });
    let mut warm = Vec::new();
    for _ in 0..connections {
        let mut client = Client::connect(address).await?;
        client.call(&task).await?;
        warm.push(client);
    }
    started();
    let start = Instant::now();
    let mut clients: JoinSet<_> = warm.into_iter().map(|client| client.work_off(Arc::clone(&task))).collect();
    let mut first_bytes = Vec::new();
    while let Some(client) = clients.join_next().await {
        first_bytes.extend(client.context("a client was lost")??);
    }
    Ok(Load { elapsed: start.elapsed(), first_bytes })
}

/// The call that all clients make, and how often it is still to be made.
struct Task {
    request: Vec<u8>,
    response: Vec<u8>,
    left: AtomicI64,
}

struct Client {
    connection: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    async fn connect(address: SocketAddr) -> Result<Client> {
        let connection =
            TcpStream::connect(address).await.with_context(|| format!("could not connect to {address}"))?;
        connection.set_nodelay(true)?;
        Ok(Client { connection, buffer: vec![0; 64 * 1024] })
    }

    /// Makes calls until none is left; returns the time to the first byte of each.
    async fn work_off(mut self, task: Arc<Task>) -> Result<Vec<Duration>> {
        let mut first_bytes = Vec::new();
        while task.left.fetch_sub(1, Ordering::Relaxed) > 0 {
            first_bytes.push(self.call(&task).await?);
        }
        Ok(first_bytes)
    }

    async fn call(&mut self, task: &Task) -> Result<Duration> {
        timeout(PATIENCE, self.call_without_limit(&task.request, &task.response))
            .await
            .with_context(|| format!("no whole response within {} s", PATIENCE.as_secs()))?
    }

    /// Makes one call and returns when the response's body began; the body must be `expected`, to the byte.
    async fn call_without_limit(&mut self, request: &[u8], expected: &[u8]) -> Result<Duration> {
        let start = Instant::now();
        self.connection.write_all(request).await.context("could not send a request")?;
        let (mut first_byte, mut seen, mut state) = (None, 0, Chunked::START);
        let mut arrived = self.read_head().await?;
        while state != Chunked::Done {
            if arrived.is_empty() {
                let read =
                    self.connection.read(&mut self.buffer).await.context("could not read a response")?;
                ensure!(read > 0, "the response ended after {seen} of {} bytes", expected.len());
                arrived = 0..read;
            }
            first_byte.get_or_insert_with(|| start.elapsed());
            state.push(&self.buffer[arrived], |data| {
                ensure!(expected[seen..].starts_with(data), "the response differs near byte {seen}");
                seen += data.len();
                Ok(())
            })?;
            arrived = 0..0;
        }
        ensure!(seen == expected.len(), "the response holds {seen} of {} bytes", expected.len());
        first_byte.context("a response without a body")
    }

    /// Reads a response's head; what was read of the body lies in the returned range of the buffer.
    async fn read_head(&mut self) -> Result<Range<usize>> {
        let mut read = 0;
        let end = loop {
            let now =
                self.connection.read(&mut self.buffer[read..]).await.context("could not read a response")?;
            ensure!(now > 0, "the connection was closed before a response came");
            read += now;
            if let Some(at) = self.buffer[..read].windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
        };
        let head = String::from_utf8_lossy(&self.buffer[..end]).to_ascii_lowercase();
        if !head.starts_with("http/1.1 200 ") || !head.contains("\r\ntransfer-encoding: chunked\r\n") {
            bail!("expected 200 and a chunked body, got:\n{head}");
        }
        Ok(end..read)
    }
}
