//! A recording as a server on loopback.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use wire::dialect::{Dialect, ProviderError};

use super::conductor::Conductor;
use super::find::Nowhere;
use super::readings::Readings;
use super::report::ReplayReport;
use super::response::{End, Reply};
use super::stage::{Stage, Ticket};
use super::tape::RecordedTraffic;
use super::{Order, Pace, ReplaySettings, score};
use crate::serve::{Client, Request, accept, http};

/// How long a response that never ended is held.
const HOLD: Duration = Duration::from_secs(60);

/// A running replay; it ends when this is dropped, and its connections with it.
#[derive(Debug)]
pub struct ReplayServer {
    addr: SocketAddr,
    shared: Arc<Shared>,
    pid: watch::Sender<Option<u32>>,
    serving: JoinHandle<()>,
    conducting: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    readings: Readings,
    stage: Stage,
    conductor: Arc<Conductor>,
    pace: Pace,
}

impl ReplayServer {
    /// Begins to serve.
    pub fn start(
        tape: Arc<RecordedTraffic>,
        settings: &ReplaySettings,
        listener: TcpListener,
    ) -> io::Result<Self> {
        let addr = listener.local_addr()?;
        let steps = match settings.order {
            Order::Free => Vec::new(),
            Order::Recorded => score::recorded(&tape),
            Order::Seed(seed) => score::seeded(&tape, seed),
        };
        let (pid, told) = watch::channel(None);
        let (conductor, conducting) = Conductor::start(&tape, steps, told, settings.settle);
        let stage = Stage::new(tape, settings);
        let shared =
            Arc::new(Shared { readings: Readings::default(), stage, conductor, pace: settings.pace });
        let serving = tokio::spawn({
            let shared = shared.clone();
            accept(listener, move |tcp| serve(tcp, shared.clone()))
        });
        Ok(Self { addr, shared, pid, serving, conducting })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The harness's process, or one above it: it is looked at to see whether the harness is at rest.
    pub fn watch_process(&self, pid: u32) {
        self.pid.send_replace(Some(pid));
    }

    /// How it went so far.
    pub fn report(&self) -> ReplayReport {
        ReplayReport { waits: self.shared.conductor.waits(), ..self.shared.stage.report() }
    }
}

impl Drop for ReplayServer {
    fn drop(&mut self) {
        self.serving.abort();
        self.conducting.abort();
    }
}

async fn serve(tcp: TcpStream, shared: Arc<Shared>) {
    let mut client = Client::new(tcp);
    loop {
        let request = match client.next().await {
            Ok(Some(request)) => request,
            Ok(None) => return,
            Err(error) => return tracing::debug!("a connection to the replay ended: {error}"),
        };
        match shared.answer(&mut client, &request).await {
            Ok(Connection::Stays) if !request.is_last => {}
            Ok(Connection::Resets) => return client.reset(),
            Ok(_) => return,
            Err(error) => return tracing::debug!("a connection to the replay ended: {error}"),
        }
    }
}

/// What becomes of a connection behind a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Connection {
    Stays,
    Closes,
    Resets,
}

impl Shared {
    async fn answer(&self, client: &mut Client, request: &Request) -> io::Result<Connection> {
        let begun = Instant::now();
        let is_question = request.method == "POST" && !request.path().ends_with("/count_tokens");
        let dialect = Dialect::detect(&request.target, &request.body).filter(|_| is_question);
        let prompt = dialect.and_then(|dialect| self.readings.read(dialect, &request.body));
        let Some(prompt) = prompt else {
            let Some(reply) = self.stage.other(request) else {
                let nowhere = Nowhere { why: "nothing like it was recorded".to_owned(), nearest: None };
                let is_side = request.method != "POST";
                return self.refuse(client, request, dialect, nowhere, is_side).await;
            };
            let head_only = request.method == "HEAD";
            return self.send(client, &reply, None, begun, head_only).await;
        };
        let ticket = self.stage.arrive(&prompt, request, |take| self.conductor.arrived(take));
        let ticket = match ticket {
            Ok(ticket) => ticket,
            Err(nowhere) => return self.refuse(client, request, dialect, nowhere, false).await,
        };
        let sent = self.send(client, &ticket.reply, Some(&ticket), begun, false).await;
        if sent.is_err() {
            self.stage.left(&ticket);
            if ticket.is_ordered {
                self.conductor.gone(ticket.take);
            }
        }
        sent
    }

    /// An error in the provider's shape, which no client should ask twice about.
    async fn refuse(
        &self,
        client: &mut Client,
        request: &Request,
        dialect: Option<Dialect>,
        nowhere: Nowhere,
        is_side: bool,
    ) -> io::Result<Connection> {
        let words = self.stage.miss(request, nowhere, is_side);
        let dialect = dialect.unwrap_or(Dialect::AnthropicMessages);
        // Claude Code asks six more times after a 400, and once after a 500 that says not to.
        let status = if dialect == Dialect::AnthropicMessages { 500 } else { 400 };
        let error = ProviderError::new(dialect.error_kind(status), words);
        let body = dialect.encode_error(&error);
        client.write(&http::json(status, "x-should-retry: false\r\n", &body)).await?;
        Ok(Connection::Stays)
    }

    async fn send(
        &self,
        client: &mut Client,
        reply: &Reply,
        ticket: Option<&Ticket>,
        begun: Instant,
        head_only: bool,
    ) -> io::Result<Connection> {
        let Some(status) = reply.status else {
            return self.end(client, reply.end, ticket).await;
        };
        let ordered = ticket.filter(|ticket| ticket.is_ordered);
        let mut waiting = reply.head(status);
        if head_only {
            client.write(&waiting).await?;
            return Ok(Connection::Stays);
        }
        let count = reply.pieces.len();
        for (at, piece) in reply.pieces.iter().enumerate() {
            let is_last = at + 1 == count;
            let due = match self.pace {
                Pace::Recorded => Duration::from_micros(piece.us),
                Pace::Instant => Duration::ZERO,
            };
            // Without a pace, whatever may go out goes out together; the last part always by itself, so that what
            // comes before has arrived when it does.
            let may_go = ordered.is_none_or(|ticket| self.conductor.allowed(ticket.take) > piece.part);
            let pauses = piece.delay > Duration::ZERO || self.pace == Pace::Recorded;
            if at > 0 && !waiting.is_empty() && (pauses || !may_go) {
                client.write(&waiting).await?;
                waiting.clear();
                if let Some(ticket) = ordered {
                    self.conductor.sent(ticket.take, piece.part, false);
                }
            }
            if let Some(ticket) = ordered {
                tokio::select! {
                    () = self.conductor.allow(ticket.take, piece.part) => {}
                    error = client.gone() => return Err(error),
                }
            }
            let since = begun.elapsed();
            client.wait(due.saturating_sub(since) + piece.delay).await?;
            if let Some(ticket) = ticket.filter(|_| at == 0) {
                self.stage.begins(ticket);
            }
            match reply.is_chunked() {
                // An empty chunk would be the end.
                true if piece.bytes.is_empty() => {}
                true => http::push_chunk(&mut waiting, &piece.bytes),
                false => waiting.extend_from_slice(&piece.bytes),
            }
            if is_last && reply.end == End::Clean && reply.is_chunked() {
                waiting.extend_from_slice(http::LAST_CHUNK);
            }
        }
        if count == 0 && reply.end == End::Clean && reply.is_chunked() {
            waiting.extend_from_slice(http::LAST_CHUNK);
        }
        client.write(&waiting).await?;
        self.end(client, reply.end, ticket).await
    }

    /// The end of a response.
    async fn end(&self, client: &mut Client, end: End, ticket: Option<&Ticket>) -> io::Result<Connection> {
        if let Some(ticket) = ticket.filter(|ticket| ticket.is_ordered) {
            let parts = self.stage.tape.takes[ticket.take].response.parts.len();
            self.conductor.sent(ticket.take, parts, true);
        }
        match end {
            End::Clean => Ok(Connection::Stays),
            End::Cut => Ok(Connection::Closes),
            End::Reset => Ok(Connection::Resets),
            End::Hold => {
                tokio::select! {
                    _ = client.gone() => {}
                    () = tokio::time::sleep(HOLD) => {}
                }
                Ok(Connection::Closes)
            }
        }
    }
}
