//! The load generator: persistent connections that send the same request repeatedly and check each response.
//!
//! `docs/design/less-code.md` explains why it is not a library or another program.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hasher as _};
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::body::Body;

/// Timeout of one call.
const PATIENCE: Duration = Duration::from_secs(30);

/// The request of all clients.
pub(super) struct LoadCall {
    pub(super) request: Vec<u8>,
    /// Required bytes of each response body; without it, each body is accepted.
    pub(super) expected: Option<Vec<u8>>,
}

/// The responses of a target.
pub(super) struct LoadResult {
    /// Time from the first request to the last byte.
    pub(super) elapsed: Duration,
    pub(super) responses: Vec<ResponseTiming>,
}

/// Times of one response.
#[derive(Clone, Debug)]
pub(super) struct ResponseTiming {
    /// Time from the first byte of the request to the first byte of the response body.
    pub(super) first_byte: Duration,
    /// Time from the first byte of the request to the last byte of the response.
    pub(super) total: Duration,
    /// Hash of the body.
    pub(super) body: u64,
}

impl LoadResult {
    /// Returns the hashes of the different bodies.
    pub(super) fn bodies(&self) -> BTreeSet<u64> {
        self.responses.iter().map(|response| response.body).collect()
    }

    /// Returns a time of each response in milliseconds.
    pub(super) fn milliseconds(&self, time: impl Fn(&ResponseTiming) -> Duration) -> Vec<f64> {
        self.responses.iter().map(|response| time(response).as_secs_f64() * 1e3).collect()
    }
}

/// Sends `call` to `address`, `requests` times over `connections` connections.
///
/// Each connection is opened and used once before the measurement starts. Then `on_start` is called.
pub(super) async fn run(
    address: SocketAddr,
    call: LoadCall,
    connections: usize,
    requests: u32,
    on_start: impl FnOnce(),
) -> Result<LoadResult> {
    let task = Arc::new(LoadTask { call, remaining: AtomicI64::new(i64::from(requests)) });
    let mut warm = Vec::new();
    for _ in 0..connections {
        let mut client = LoadClient::connect(address).await?;
        client.call(&task.call).await?;
        warm.push(client);
    }
    on_start();
    let start = Instant::now();
    let mut clients: JoinSet<_> = warm.into_iter().map(|client| client.send_all(Arc::clone(&task))).collect();
    let mut responses = Vec::new();
    while let Some(client) = clients.join_next().await {
        responses.extend(client.context("a client panicked")??);
    }
    Ok(LoadResult { elapsed: start.elapsed(), responses })
}

/// For each read of a body: its time, and the number of body bytes so far.
pub(super) type Reads = Vec<(Duration, usize)>;

/// Sends one request over a connection of its own.
pub(super) async fn once(address: SocketAddr, call: &LoadCall) -> Result<Reads> {
    let mut client = LoadClient::connect(address).await?;
    let mut reads = Vec::new();
    client.call_watched(call, |time, seen| reads.push((time, seen))).await?;
    Ok(reads)
}

/// The request, and the number of remaining ones.
struct LoadTask {
    call: LoadCall,
    remaining: AtomicI64,
}

struct LoadClient {
    connection: TcpStream,
    buffer: Vec<u8>,
}

impl LoadClient {
    async fn connect(address: SocketAddr) -> Result<LoadClient> {
        let connection =
            TcpStream::connect(address).await.with_context(|| format!("cannot connect to {address}"))?;
        connection.set_nodelay(true)?;
        Ok(LoadClient { connection, buffer: vec![0; 64 * 1024] })
    }

    /// Sends requests until none remains.
    async fn send_all(mut self, task: Arc<LoadTask>) -> Result<Vec<ResponseTiming>> {
        let mut responses = Vec::new();
        while task.remaining.fetch_sub(1, Ordering::Relaxed) > 0 {
            responses.push(self.call(&task.call).await?);
        }
        Ok(responses)
    }

    async fn call(&mut self, call: &LoadCall) -> Result<ResponseTiming> {
        self.call_watched(call, |_, _| {}).await
    }

    async fn call_watched(
        &mut self,
        call: &LoadCall,
        watch: impl FnMut(Duration, usize),
    ) -> Result<ResponseTiming> {
        timeout(PATIENCE, self.call_without_limit(call, watch))
            .await
            .with_context(|| format!("no complete response within {} s", PATIENCE.as_secs()))?
    }

    /// Sends one request, and checks that the body is the expected one.
    async fn call_without_limit(
        &mut self,
        call: &LoadCall,
        mut watch: impl FnMut(Duration, usize),
    ) -> Result<ResponseTiming> {
        let start = Instant::now();
        self.connection.write_all(&call.request).await.context("cannot send a request")?;
        let (mut first_byte, mut seen, mut hasher) = (None, 0, DefaultHasher::new());
        let (mut body, mut arrived) = self.read_head().await?;
        while !body.is_done() {
            if arrived.is_empty() {
                let read = self.connection.read(&mut self.buffer).await.context("cannot read a response")?;
                ensure!(read > 0, "the response ended after {seen} bytes of its body");
                arrived = 0..read;
            }
            first_byte.get_or_insert_with(|| start.elapsed());
            let before = seen;
            body.push(&self.buffer[arrived], |data| {
                let is_expected =
                    call.expected.as_ref().is_none_or(|expected| expected[seen..].starts_with(data));
                ensure!(is_expected, "the response differs near byte {seen}");
                hasher.write(data);
                seen += data.len();
                Ok(())
            })?;
            if seen > before {
                watch(start.elapsed(), seen);
            }
            arrived = 0..0;
        }
        let length = call.expected.as_ref().map_or(seen, Vec::len);
        ensure!(seen == length, "the response has {seen} of {length} bytes");
        let first_byte = first_byte.context("the response has no body")?;
        Ok(ResponseTiming { first_byte, total: start.elapsed(), body: hasher.finish() })
    }

    /// Reads the head of a response. Returns the range of the buffer that has the first bytes of the body.
    async fn read_head(&mut self) -> Result<(Body, Range<usize>)> {
        let mut read = 0;
        let end = loop {
            let now =
                self.connection.read(&mut self.buffer[read..]).await.context("cannot read a response")?;
            ensure!(now > 0, "the connection closed before the response");
            read += now;
            if let Some(at) = self.buffer[..read].windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
        };
        let head = String::from_utf8_lossy(&self.buffer[..end]).to_ascii_lowercase();
        Ok((Body::after_head(&head)?, end..read))
    }
}
