//! Serves a recording on a socket.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use wire::dialect::{Dialect, ProviderError};

use super::matcher::NoMatch;
use super::plan::OrderPlan;
use super::prompts::PromptCache;
use super::reply::{LiveReply, ReplyEnd, ReplyPiece};
use super::report::ReplayReport;
use super::responder::{PreparedReply, Responder};
use super::scheduler::ReplyScheduler;
use super::settings::{Pace, ReplaySettings};
use super::traffic::RecordedTraffic;
use crate::serve::{Client, Request, accept, http};

/// Time for which a connection stays open after a reply that has no end.
const STALL: Duration = Duration::from_secs(60);

/// A running replay. Dropping it ends it and its connections.
#[derive(Debug)]
pub struct ReplayServer {
    addr: SocketAddr,
    shared: Arc<SharedReplay>,
    pid: watch::Sender<Option<u32>>,
    serving: JoinHandle<()>,
    scheduling: JoinHandle<()>,
}

#[derive(Debug)]
struct SharedReplay {
    traffic: Arc<RecordedTraffic>,
    prompts: PromptCache,
    responder: Responder,
    scheduler: Arc<ReplyScheduler>,
    pace: Pace,
}

impl ReplayServer {
    /// Starts to serve a recording.
    pub fn start(
        traffic: Arc<RecordedTraffic>,
        settings: &ReplaySettings,
        listener: TcpListener,
    ) -> io::Result<Self> {
        let addr = listener.local_addr()?;
        let plan = OrderPlan::new(&traffic, settings.order);
        let (pid, pid_receiver) = watch::channel(None);
        let (scheduler, scheduling) = ReplyScheduler::start(&traffic, plan, pid_receiver, settings.settle);
        let shared = Arc::new(SharedReplay {
            prompts: PromptCache::default(),
            responder: Responder::new(traffic.clone(), settings),
            traffic,
            scheduler,
            pace: settings.pace,
        });
        let serving = tokio::spawn({
            let shared = shared.clone();
            accept(listener, move |tcp| serve(tcp, shared.clone()))
        });
        Ok(Self { addr, shared, pid, serving, scheduling })
    }

    /// Returns the address that it listens on.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Sets the harness's process, or one above it. It is observed to see whether the harness is idle.
    pub fn watch_process(&self, pid: u32) {
        self.pid.send_replace(Some(pid));
    }

    /// Returns the report so far.
    pub fn report(&self) -> ReplayReport {
        ReplayReport { waits: self.shared.scheduler.waits(), ..self.shared.responder.report() }
    }
}

impl Drop for ReplayServer {
    fn drop(&mut self) {
        self.serving.abort();
        self.scheduling.abort();
    }
}

async fn serve(tcp: TcpStream, shared: Arc<SharedReplay>) {
    let mut client = Client::new(tcp);
    loop {
        let request = match client.next().await {
            Ok(Some(request)) => request,
            Ok(None) => return,
            Err(error) => return tracing::debug!("a connection to the replay ended: {error}"),
        };
        match shared.answer(&mut client, &request).await {
            Ok(AfterReply::Keep) if !request.is_last => {}
            Ok(AfterReply::Reset) => return client.reset(),
            Ok(_) => return,
            Err(error) => return tracing::debug!("a connection to the replay ended: {error}"),
        }
    }
}

/// State of a connection after a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AfterReply {
    Keep,
    Close,
    Reset,
}

impl SharedReplay {
    async fn answer(&self, client: &mut Client, request: &Request) -> io::Result<AfterReply> {
        let begun = Instant::now();
        let may_ask_model = request.method == "POST" && !request.path().ends_with("/count_tokens");
        let dialect = Dialect::detect(&request.target, &request.body).filter(|_| may_ask_model);
        let prompt = dialect.and_then(|dialect| self.prompts.decode(dialect, &request.body));
        let Some(prompt) = prompt else {
            return self.answer_side_request(client, request, dialect, begun).await;
        };
        let arrived = |exchange| self.scheduler.mark_arrived(exchange);
        let prepared = match self.responder.prepare(&prompt, request, arrived) {
            Ok(prepared) => prepared,
            Err(no_match) => return self.refuse(client, request, dialect, no_match, false).await,
        };
        let sent = self.send(client, &prepared.reply, Some(&prepared), begun).await;
        if sent.is_err() {
            self.responder.mark_abandoned(&prepared);
            if prepared.is_ordered {
                self.scheduler.mark_abandoned(prepared.exchange);
            }
        }
        sent
    }

    async fn answer_side_request(
        &self,
        client: &mut Client,
        request: &Request,
        dialect: Option<Dialect>,
        begun: Instant,
    ) -> io::Result<AfterReply> {
        let Some(reply) = self.responder.answer_side_request(request) else {
            let no_match = NoMatch { why: "no similar request was recorded".to_owned(), nearest: None };
            let is_side = request.method != "POST";
            return self.refuse(client, request, dialect, no_match, is_side).await;
        };
        match (request.method.as_str(), reply.status) {
            ("HEAD", Some(status)) => {
                client.write(&reply.head(status)).await?;
                Ok(AfterReply::Keep)
            }
            _ => self.send(client, &reply, None, begun).await,
        }
    }

    /// Sends an error in the provider's format that clients do not retry.
    async fn refuse(
        &self,
        client: &mut Client,
        request: &Request,
        dialect: Option<Dialect>,
        no_match: NoMatch,
        is_side: bool,
    ) -> io::Result<AfterReply> {
        let message = self.responder.miss(request, no_match, is_side);
        let dialect = dialect.unwrap_or(Dialect::AnthropicMessages);
        // Claude Code retries a 400 six times, and a 500 with `x-should-retry: false` once.
        let status = if dialect == Dialect::AnthropicMessages { 500 } else { 400 };
        let error = ProviderError::new(dialect.error_kind(status), message);
        let body = dialect.encode_error(&error);
        client.write(&http::json(status, "x-should-retry: false\r\n", &body)).await?;
        Ok(AfterReply::Keep)
    }

    async fn send(
        &self,
        client: &mut Client,
        reply: &LiveReply,
        prepared: Option<&PreparedReply>,
        begun: Instant,
    ) -> io::Result<AfterReply> {
        let Some(status) = reply.status else {
            return self.finish(client, reply.end, prepared).await;
        };
        let ordered = prepared.filter(|prepared| prepared.is_ordered).map(|prepared| prepared.exchange);
        // A piece leaves when the plan allows it, its recorded time has come, and its fault delay is over. The head leaves
        // with the first piece. Without a pace, pieces that are allowed together leave in one write.
        let mut pending = reply.head(status);
        for (at, piece) in reply.pieces.iter().enumerate() {
            let may_send = ordered.is_none_or(|exchange| self.scheduler.may_send(exchange, piece.part));
            let pauses = piece.delay > Duration::ZERO || self.pace == Pace::Recorded;
            if at > 0 && !pending.is_empty() && (pauses || !may_send) {
                client.write(&pending).await?;
                pending.clear();
                if let Some(exchange) = ordered {
                    self.scheduler.mark_sent(exchange, piece.part, false);
                }
            }
            if let Some(exchange) = ordered {
                tokio::select! {
                    () = self.scheduler.wait_for_turn(exchange, piece.part) => {}
                    error = client.gone() => return Err(error),
                }
            }
            client.wait(self.remaining(piece, begun)).await?;
            if let Some(prepared) = prepared.filter(|_| at == 0) {
                self.responder.mark_begun(prepared);
            }
            match reply.is_chunked() {
                true if piece.bytes.is_empty() => {} // an empty chunk would end the body
                true => http::push_chunk(&mut pending, &piece.bytes),
                false => pending.extend_from_slice(&piece.bytes),
            }
        }
        if reply.end == ReplyEnd::Complete && reply.is_chunked() {
            pending.extend_from_slice(http::LAST_CHUNK);
        }
        client.write(&pending).await?;
        self.finish(client, reply.end, prepared).await
    }

    /// Returns the time until a piece is due.
    fn remaining(&self, piece: &ReplyPiece, begun: Instant) -> Duration {
        let due = match self.pace {
            Pace::Recorded => Duration::from_micros(piece.us),
            Pace::Instant => Duration::ZERO,
        };
        due.saturating_sub(begun.elapsed()) + piece.delay
    }

    /// Ends a reply.
    async fn finish(
        &self,
        client: &mut Client,
        end: ReplyEnd,
        prepared: Option<&PreparedReply>,
    ) -> io::Result<AfterReply> {
        if let Some(prepared) = prepared.filter(|prepared| prepared.is_ordered) {
            let parts = self.traffic[prepared.exchange].response.parts.len();
            self.scheduler.mark_sent(prepared.exchange, parts, true);
        }
        match end {
            ReplyEnd::Complete => Ok(AfterReply::Keep),
            ReplyEnd::Cut => Ok(AfterReply::Close),
            ReplyEnd::Reset => Ok(AfterReply::Reset),
            ReplyEnd::Stall => {
                tokio::select! {
                    _ = client.gone() => {}
                    () = tokio::time::sleep(STALL) => {}
                }
                Ok(AfterReply::Close)
            }
        }
    }
}
