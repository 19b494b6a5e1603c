//! The load: keep-alive connections that send the same request again and again and look at every answer.

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

/// Nothing we measure takes so long for one call unless it hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// The call that all clients make.
pub(super) struct Call {
    pub(super) request: Vec<u8>,
    /// What every answer must be, to the byte; without it, any answer will do.
    pub(super) expected: Option<Vec<u8>>,
}

/// What the clients saw of a target.
pub(super) struct Load {
    /// From the first request of the first client to the last byte of the last.
    pub(super) elapsed: Duration,
    pub(super) answers: Vec<Answer>,
}

/// What a client saw of one answer.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    /// From the first byte of the request to the first of the response's body.
    pub(super) first_byte: Duration,
    /// From the first byte of the request to the last of the response.
    pub(super) whole: Duration,
    /// The body, by its hash.
    pub(super) body: u64,
}

impl Load {
    /// The bodies that came, by their hashes.
    pub(super) fn bodies(&self) -> BTreeSet<u64> {
        self.answers.iter().map(|answer| answer.body).collect()
    }

    /// A time of every answer, in milliseconds.
    pub(super) fn milliseconds(&self, time: impl Fn(&Answer) -> Duration) -> Vec<f64> {
        self.answers.iter().map(|answer| time(answer).as_secs_f64() * 1e3).collect()
    }
}

/// Makes `call` so many times to `address` over so many connections.
///
/// Each connection is opened and used once before the clock starts; `started` is called just then.
pub(super) async fn run(
    address: SocketAddr,
    call: Call,
    connections: usize,
    requests: u32,
    started: impl FnOnce(),
) -> Result<Load> {
    let task = Arc::new(Task { call, left: AtomicI64::new(i64::from(requests)) });
    let mut warm = Vec::new();
    for _ in 0..connections {
        let mut client = Client::connect(address).await?;
        client.call(&task.call).await?;
        warm.push(client);
    }
    started();
    let start = Instant::now();
    let mut clients: JoinSet<_> = warm.into_iter().map(|client| client.work_off(Arc::clone(&task))).collect();
    let mut answers = Vec::new();
    while let Some(client) = clients.join_next().await {
        answers.extend(client.context("a client was lost")??);
    }
    Ok(Load { elapsed: start.elapsed(), answers })
}

/// For every read that brought some of a body: when it came, and how much of the body had come by then.
pub(super) type Reads = Vec<(Duration, usize)>;

/// Makes one call over a connection of its own.
pub(super) async fn once(address: SocketAddr, call: &Call) -> Result<Reads> {
    let mut client = Client::connect(address).await?;
    let mut reads = Vec::new();
    client.call_watched(call, |time, seen| reads.push((time, seen))).await?;
    Ok(reads)
}

/// The call, and how often it is still to be made.
struct Task {
    call: Call,
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

    /// Makes calls until none is left.
    async fn work_off(mut self, task: Arc<Task>) -> Result<Vec<Answer>> {
        let mut answers = Vec::new();
        while task.left.fetch_sub(1, Ordering::Relaxed) > 0 {
            answers.push(self.call(&task.call).await?);
        }
        Ok(answers)
    }

    async fn call(&mut self, call: &Call) -> Result<Answer> {
        self.call_watched(call, |_, _| {}).await
    }

    async fn call_watched(&mut self, call: &Call, watch: impl FnMut(Duration, usize)) -> Result<Answer> {
        timeout(PATIENCE, self.call_without_limit(call, watch))
            .await
            .with_context(|| format!("no whole response within {} s", PATIENCE.as_secs()))?
    }

    /// Makes one call; the body must be the expected one, to the byte.
    async fn call_without_limit(
        &mut self,
        call: &Call,
        mut watch: impl FnMut(Duration, usize),
    ) -> Result<Answer> {
        let start = Instant::now();
        self.connection.write_all(&call.request).await.context("could not send a request")?;
        let (mut first_byte, mut seen, mut hasher) = (None, 0, DefaultHasher::new());
        let (mut body, mut arrived) = self.read_head().await?;
        while !body.is_done() {
            if arrived.is_empty() {
                let read =
                    self.connection.read(&mut self.buffer).await.context("could not read a response")?;
                ensure!(read > 0, "the response ended after {seen} bytes of its body");
                arrived = 0..read;
            }
            first_byte.get_or_insert_with(|| start.elapsed());
            let before = seen;
            body.push(&self.buffer[arrived], |data| {
                let fits = call.expected.as_ref().is_none_or(|expected| expected[seen..].starts_with(data));
                ensure!(fits, "the response differs near byte {seen}");
                hasher.write(data);
                seen += data.len();
                Ok(())
            })?;
            if seen > before {
                watch(start.elapsed(), seen);
            }
            arrived = 0..0;
        }
        let whole = call.expected.as_ref().map_or(seen, Vec::len);
        ensure!(seen == whole, "the response holds {seen} of {whole} bytes");
        let first_byte = first_byte.context("a response without a body")?;
        Ok(Answer { first_byte, whole: start.elapsed(), body: hasher.finish() })
    }

    /// Reads a response's head; what was read of the body lies in the returned range of the buffer.
    async fn read_head(&mut self) -> Result<(Body, Range<usize>)> {
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
        Ok((Body::behind(&head)?, end..read))
    }
}
