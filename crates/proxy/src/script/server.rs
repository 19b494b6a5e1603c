//! The scripted model as a server on loopback.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use std::time::SystemTime;

use recording::lanes::Heard;
use session::RequestId;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use wire::dialect::{Dialect, EncodeError, ProviderError};

use super::endpoint::Endpoint;
use super::format::Pace;
use super::play::{Line, Miss};
use super::stage::Stage;
use super::{Script, ScriptReport};
use crate::cache_sim::{self, CacheSim};
use crate::serve::{Client, Request, accept, http};

/// Characters in one event of a streamed text.
const CHUNK: usize = 24;

/// A running scripted model; it ends when this is dropped, and its connections with it.
#[derive(Debug)]
pub struct ScriptedModel {
    addr: SocketAddr,
    stage: Arc<Stage>,
    serving: JoinHandle<()>,
}

impl ScriptedModel {
    /// Begins to serve on any free port of loopback. `workspace` is what the script knows as
    /// `${workspace}`.
    pub async fn start(mut script: Script, workspace: &Path) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let addr = listener.local_addr()?;
        let known = script.cache.take();
        let cache = known.map(|known| Arc::new(CacheSim::that_knows(known, SystemTime::now())));
        let stage = Arc::new(Stage::new(script, workspace.display().to_string()));
        let serving = tokio::spawn({
            let stage = stage.clone();
            accept(listener, move |tcp| serve(tcp, stage.clone(), cache.clone()))
        });
        Ok(Self { addr, stage, serving })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Tells it of an agent that asked before it was there, so that whoever waits for that one does not wait in vain, and
    /// no error is made twice.
    pub fn restore(&self, dialect: Dialect, before: &PriorConversation<'_>) {
        self.stage.restore(dialect, before);
    }

    /// How the script went so far.
    pub fn report(&self) -> ScriptReport {
        self.stage.report()
    }
}

/// A conversation that another scripted model served before this one started.
#[derive(Clone, Copy, Debug)]
pub struct PriorConversation<'a> {
    /// Last answered request, or the first request if none was answered.
    pub last_request: &'a [u8],
    /// That request with its reply appended to the messages, and the raw bytes of the reply.
    pub answered: Option<(&'a [u8], &'a [u8])>,
    /// Number of error responses since then.
    pub failures: u32,
}

impl Drop for ScriptedModel {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(tcp: TcpStream, stage: Arc<Stage>, cache: Option<Arc<CacheSim>>) {
    if let Err(error) = connection(Client::new(tcp), &stage, cache.as_deref()).await {
        tracing::debug!("a connection to the scripted model ended: {error}");
    }
}

async fn connection(mut client: Client, stage: &Stage, cache: Option<&CacheSim>) -> io::Result<()> {
    while let Some(request) = client.next().await? {
        match Endpoint::of(&request, || stage.models()) {
            Endpoint::Other(response) => client.write(&response).await?,
            Endpoint::Model(dialect) => {
                Call { client: &mut client, stage, dialect, cache, asked: None }.answer(&request).await?
            }
        }
        if request.is_last {
            break;
        }
    }
    Ok(())
}

/// One request to the model.
struct Call<'c> {
    client: &'c mut Client,
    stage: &'c Stage,
    dialect: Dialect,
    cache: Option<&'c CacheSim>,
    /// What the cache made of the request.
    asked: Option<cache::Asked>,
}

impl Call<'_> {
    async fn answer(mut self, request: &Request) -> io::Result<()> {
        let prompt = match self.dialect.decode_request(&request.body) {
            Ok(prompt) => prompt,
            Err(error) => return self.refuse(None, &Miss(error.to_string())).await,
        };
        self.asked = self.cache.and_then(|cache| cache.ask(self.dialect, &request.body));
        let (id, ticket) = self.stage.arrive(&prompt, &request.headers, &request.body);
        let ticket = match ticket {
            Ok(ticket) => ticket,
            Err(miss) => return self.refuse(Some(&id), &miss).await,
        };
        let cue = tokio::select! {
            cue = self.stage.cue(&ticket, &prompt) => cue,
            error = self.client.gone() => {
                self.stage.answered(&id, &Heard::default());
                return Err(error);
            }
        };
        let (mut line, pace) = match cue {
            Ok(cue) => cue,
            Err(miss) => return self.refuse(Some(&id), &miss).await,
        };
        if let (Line::Reply(reply), Some(asked)) = (&mut line, &self.asked) {
            reply.usage = cache_sim::usage(asked, &reply.usage);
        }
        let body = match Body::of(self.dialect, &line, prompt.stream) {
            Ok(body) => body,
            Err(error) => return self.refuse(Some(&id), &Miss(error.to_string())).await,
        };
        self.send(&id, &body, pace).await?;
        self.stage.sent(&ticket, &line);
        Ok(())
    }

    /// An error in the provider's shape, which no client should ask twice about.
    async fn refuse(&mut self, id: Option<&RequestId>, miss: &Miss) -> io::Result<()> {
        self.stage.missed(miss);
        let error = ProviderError::new(self.dialect.error_kind(400), format!("scripted model: {}", miss.0));
        let body = self.dialect.encode_error(&error);
        if let Some(id) = id {
            self.stage.answered(id, &Heard::of(self.dialect, 400, &body));
        }
        self.client.write(&http::json(400, "x-should-retry: false\r\n", &body)).await
    }

    async fn send(&mut self, id: &RequestId, body: &Body, pace: Pace) -> io::Result<()> {
        let mut heard = Vec::new();
        let status = body.status();
        let done = self.send_parts(id, body, pace, &mut heard).await;
        if done.is_err() {
            self.stage.answered(id, &Heard::of(self.dialect, status, &heard));
        }
        done
    }

    /// The tracker learns of the reply before its last bytes leave: the next request may be here
    /// before this task runs again.
    async fn send_parts(
        &mut self,
        id: &RequestId,
        body: &Body,
        pace: Pace,
        heard: &mut Vec<u8>,
    ) -> io::Result<()> {
        self.client.wait(Duration::from_millis(pace.first_ms)).await?;
        if let (Some(cache), Some(asked)) = (self.cache, self.asked.as_ref().filter(|_| body.status() < 400))
        {
            cache.begin(asked);
        }
        let events = match body {
            Body::Json { status, headers, bytes } => {
                self.stage.answered(id, &Heard::of(self.dialect, *status, bytes));
                return self.client.write(&http::json(*status, headers, bytes)).await;
            }
            Body::Events(events) => events,
        };
        let mut waiting = http::stream();
        for (index, event) in events.iter().enumerate() {
            let is_last = index + 1 == events.len();
            // Without a pace, whatever comes before the last event leaves together.
            if is_last || pace.event_ms > 0 {
                self.client.write(&waiting).await?;
                waiting.clear();
                if index > 0 {
                    self.client.wait(Duration::from_millis(pace.event_ms)).await?;
                }
            }
            http::push_chunk(&mut waiting, event);
            heard.extend_from_slice(event);
        }
        self.stage.answered(id, &Heard::of(self.dialect, 200, heard));
        waiting.extend_from_slice(http::LAST_CHUNK);
        self.client.write(&waiting).await
    }
}

/// What is sent.
enum Body {
    Json { status: u16, headers: String, bytes: Vec<u8> },
    Events(Vec<Vec<u8>>),
}

impl Body {
    fn of(dialect: Dialect, line: &Line, stream: bool) -> Result<Self, EncodeError> {
        let headers = String::new();
        Ok(match line {
            Line::Reply(reply) if stream => Self::Events(dialect.encode_stream(reply, CHUNK)?),
            Line::Reply(reply) => Self::Json { status: 200, headers, bytes: dialect.encode_reply(reply)? },
            Line::Error { status, kind, message, retry_after } => {
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
