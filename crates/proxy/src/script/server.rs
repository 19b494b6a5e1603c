//! Serves a script on loopback.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use std::time::SystemTime;

use recording::lanes::LaneResponse;
use session::RequestId;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use wire::dialect::{Dialect, EncodeError, ProviderError};

use super::endpoint::Endpoint;
use super::format::ScriptPace;
use super::player::{ScriptMiss, ScriptedReply};
use super::shared::{PriorConversation, SharedScript};
use super::{Script, ScriptReport};
use crate::cache_sim::{self, CacheSim};
use crate::serve::{Client, Request, accept, http};

/// Characters in one event of a streamed text.
const CHUNK: usize = 24;

/// A running scripted model. Dropping it ends it and its connections.
#[derive(Debug)]
pub struct ScriptedModel {
    addr: SocketAddr,
    shared: Arc<SharedScript>,
    serving: JoinHandle<()>,
}

impl ScriptedModel {
    /// Starts to serve on a free port of loopback. `workspace` is the value of `${workspace}`.
    pub async fn start(mut script: Script, workspace: &Path) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let addr = listener.local_addr()?;
        let known = script.cache.take();
        let cache = known.map(|known| Arc::new(CacheSim::with_requests(known, SystemTime::now())));
        let shared = Arc::new(SharedScript::new(script, workspace.display().to_string()));
        let serving = tokio::spawn({
            let shared = shared.clone();
            accept(listener, move |tcp| serve(tcp, shared.clone(), cache.clone()))
        });
        Ok(Self { addr, shared, serving })
    }

    /// Returns the address that it listens on.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Adds a conversation that an earlier scripted model served, so that waits for its agent can end and no scripted error
    /// is repeated.
    pub fn restore(&self, dialect: Dialect, before: &PriorConversation<'_>) {
        self.shared.restore(dialect, before);
    }

    /// Returns the report so far.
    pub fn report(&self) -> ScriptReport {
        self.shared.report()
    }
}

impl Drop for ScriptedModel {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(tcp: TcpStream, shared: Arc<SharedScript>, cache: Option<Arc<CacheSim>>) {
    if let Err(error) = serve_connection(Client::new(tcp), &shared, cache.as_deref()).await {
        tracing::debug!("a connection to the scripted model ended: {error}");
    }
}

async fn serve_connection(
    mut client: Client,
    shared: &SharedScript,
    cache: Option<&CacheSim>,
) -> io::Result<()> {
    while let Some(request) = client.next().await? {
        match Endpoint::of(&request, || shared.models()) {
            Endpoint::Other(response) => client.write(&response).await?,
            Endpoint::Model(dialect) => {
                ModelRequest { client: &mut client, shared, dialect, cache, cached: None }
                    .answer(&request)
                    .await?
            }
        }
        if request.is_last {
            break;
        }
    }
    Ok(())
}

/// One request to the model.
struct ModelRequest<'c> {
    client: &'c mut Client,
    shared: &'c SharedScript,
    dialect: Dialect,
    cache: Option<&'c CacheSim>,
    /// The request in the simulated cache.
    cached: Option<cache::SimulatedRequest>,
}

impl ModelRequest<'_> {
    async fn answer(mut self, request: &Request) -> io::Result<()> {
        let prompt = match self.dialect.decode_request(&request.body) {
            Ok(prompt) => prompt,
            Err(error) => return self.refuse(None, &ScriptMiss(error.to_string())).await,
        };
        self.cached = self.cache.and_then(|cache| cache.ask(self.dialect, &request.body));
        let (id, claimed) = self.shared.claim(&prompt, &request.headers, &request.body);
        let turn = match claimed {
            Ok(turn) => turn,
            Err(miss) => return self.refuse(Some(&id), &miss).await,
        };
        let reply = tokio::select! {
            reply = self.shared.wait_for_reply(&turn, &prompt) => reply,
            error = self.client.gone() => {
                self.shared.answered(&id, &LaneResponse::default());
                return Err(error);
            }
        };
        let (mut reply, pace) = match reply {
            Ok(reply) => reply,
            Err(miss) => return self.refuse(Some(&id), &miss).await,
        };
        if let (ScriptedReply::Reply(reply), Some(cached)) = (&mut reply, &self.cached) {
            reply.usage = cache_sim::usage(cached, &reply.usage);
        }
        let body = match ResponseBody::new(self.dialect, &reply, prompt.stream) {
            Ok(body) => body,
            Err(error) => return self.refuse(Some(&id), &ScriptMiss(error.to_string())).await,
        };
        self.send(&id, &body, pace).await?;
        self.shared.mark_sent(&turn, &reply);
        Ok(())
    }

    /// Sends an error in the provider's format that clients do not retry.
    async fn refuse(&mut self, id: Option<&RequestId>, miss: &ScriptMiss) -> io::Result<()> {
        self.shared.add_miss(miss);
        let error = ProviderError::new(self.dialect.error_kind(400), format!("scripted model: {}", miss.0));
        let body = self.dialect.encode_error(&error);
        if let Some(id) = id {
            self.shared.answered(id, &LaneResponse::decode(self.dialect, 400, &body));
        }
        self.client.write(&http::json(400, "x-should-retry: false\r\n", &body)).await
    }

    async fn send(&mut self, id: &RequestId, body: &ResponseBody, pace: ScriptPace) -> io::Result<()> {
        let mut heard = Vec::new();
        let status = body.status();
        let done = self.send_parts(id, body, pace, &mut heard).await;
        if done.is_err() {
            self.shared.answered(id, &LaneResponse::decode(self.dialect, status, &heard));
        }
        done
    }

    /// Sends the reply. The tracker learns of it before its last bytes leave, because the next request may come before this
    /// task runs again.
    async fn send_parts(
        &mut self,
        id: &RequestId,
        body: &ResponseBody,
        pace: ScriptPace,
        heard: &mut Vec<u8>,
    ) -> io::Result<()> {
        self.client.wait(Duration::from_millis(pace.first_ms)).await?;
        let cached = self.cached.as_ref().filter(|_| body.status() < 400);
        if let (Some(cache), Some(cached)) = (self.cache, cached) {
            cache.begin(cached);
        }
        let events = match body {
            ResponseBody::Json { status, headers, bytes } => {
                self.shared.answered(id, &LaneResponse::decode(self.dialect, *status, bytes));
                return self.client.write(&http::json(*status, headers, bytes)).await;
            }
            ResponseBody::Events(events) => events,
        };
        let mut pending = http::stream();
        for (index, event) in events.iter().enumerate() {
            let is_last = index + 1 == events.len();
            // Without a pace, all events before the last one are sent together.
            if is_last || pace.event_ms > 0 {
                self.client.write(&pending).await?;
                pending.clear();
                if index > 0 {
                    self.client.wait(Duration::from_millis(pace.event_ms)).await?;
                }
            }
            http::push_chunk(&mut pending, event);
            heard.extend_from_slice(event);
        }
        self.shared.answered(id, &LaneResponse::decode(self.dialect, 200, heard));
        pending.extend_from_slice(http::LAST_CHUNK);
        self.client.write(&pending).await
    }
}

/// The body of a response.
enum ResponseBody {
    Json { status: u16, headers: String, bytes: Vec<u8> },
    Events(Vec<Vec<u8>>),
}

impl ResponseBody {
    fn new(dialect: Dialect, reply: &ScriptedReply, stream: bool) -> Result<Self, EncodeError> {
        let headers = String::new();
        Ok(match reply {
            ScriptedReply::Reply(reply) if stream => Self::Events(dialect.encode_stream(reply, CHUNK)?),
            ScriptedReply::Reply(reply) => {
                Self::Json { status: 200, headers, bytes: dialect.encode_reply(reply)? }
            }
            ScriptedReply::Error { status, kind, message, retry_after } => {
                let kind = kind.as_deref().unwrap_or_else(|| dialect.error_kind(*status));
                let bytes = dialect.encode_error(&ProviderError::new(kind, message));
                let headers = retry_after.map_or(headers, |seconds| format!("retry-after: {seconds}\r\n"));
                Self::Json { status: *status, headers, bytes }
            }
        })
    }

    fn status(&self) -> u16 {
        match self {
            Self::Json { status, .. } => *status,
            Self::Events(_) => 200,
        }
    }
}
