//! A server that runs elsewhere, over streamable HTTP: each message is a POST, and its answer one message or a stream.
//!
//! Only what is asked is heard: no stream is opened for what a server might say by itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, RequestId, ServerJsonRpcMessage, ServerResult};
use rmcp::service::RoleClient;
use rmcp::transport::Transport;
use thiserror::Error;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use wire::sse::SseDecoder;

use super::{MOST, message};
use crate::provider::ConnectionPool;

const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";
/// How long saying goodbye may take.
const GOODBYE: Duration = Duration::from_secs(1);

/// Why a message was not taken, or got no answer.
#[derive(Debug, Error)]
pub(super) enum HttpError {
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    #[error("it answered {0}{1}")]
    Refused(StatusCode, String),
    #[error("it answered {0}, and nothing else")]
    Nothing(StatusCode),
    #[error("its answer is {0:?}, and neither JSON nor a stream of events")]
    Type(String),
    #[error("its answer broke off: {0}")]
    Broken(String),
    #[error("its answer has more than {MOST} bytes")]
    TooLong,
    #[error("its answer is no message: {0}")]
    NoMessage(#[from] serde_json::Error),
}

impl HttpError {
    /// Whether the server says that it has done nothing.
    pub(super) fn refuses(&self) -> bool {
        matches!(self, Self::Refused(status, _) if status.is_client_error())
    }
}

/// Speaks to one server.
pub(super) struct Http {
    line: Line,
    heard: mpsc::Receiver<ServerJsonRpcMessage>,
    /// Streams that are being read; they end with us.
    readers: Arc<Mutex<JoinSet<()>>>,
}

/// What it takes to send a message.
#[derive(Clone)]
struct Line {
    network: ConnectionPool,
    url: Uri,
    headers: HeaderMap,
    /// What the server told us to send along: its session, and the protocol's version.
    told: Arc<Mutex<HeaderMap>>,
    hear: mpsc::Sender<ServerJsonRpcMessage>,
    /// Set when the server does not know us any more.
    is_lost: Arc<AtomicBool>,
}

impl Http {
    pub(super) fn new(
        url: Uri,
        headers: HeaderMap,
        network: ConnectionPool,
        is_lost: Arc<AtomicBool>,
    ) -> Self {
        let (hear, heard) = mpsc::channel(64);
        let line = Line { network, url, headers, told: Arc::default(), hear, is_lost };
        Self { line, heard, readers: Arc::default() }
    }
}

impl Transport<RoleClient> for Http {
    type Error = HttpError;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), HttpError>> + Send + 'static {
        let (line, readers) = (self.line.clone(), Arc::clone(&self.readers));
        async move {
            let sent = line.send(message, &readers).await;
            if matches!(sent, Err(HttpError::Unreachable(_) | HttpError::Refused(StatusCode::NOT_FOUND, _))) {
                line.is_lost.store(true, Ordering::Relaxed);
            }
            sent
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        self.heard.recv().await
    }

    async fn close(&mut self) -> Result<(), HttpError> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
        if self.line.told().contains_key(SESSION) {
            let _ = tokio::time::timeout(GOODBYE, self.line.ask(Method::DELETE, Bytes::new())).await;
        }
        Ok(())
    }
}

impl Line {
    async fn send(
        &self,
        message: ClientJsonRpcMessage,
        readers: &Mutex<JoinSet<()>>,
    ) -> Result<(), HttpError> {
        let asked = match &message {
            JsonRpcMessage::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        let body = serde_json::to_vec(&message)?;
        let response = self.ask(Method::POST, body.into()).await?;
        if let Some(session) = response.headers().get(SESSION) {
            self.tell(SESSION, session.clone());
        }
        let status = response.status();
        if !status.is_success() {
            let words = read(response).await.unwrap_or_default();
            let words: String = String::from_utf8_lossy(&words).chars().take(200).collect();
            return Err(HttpError::Refused(status, format!(": {}", words.trim())));
        }
        let Some(asked) = asked else { return Ok(()) };
        let kind =
            response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        match kind.split(';').next().unwrap_or_default().trim() {
            "application/json" => {
                let message = message::read(&read(response).await?)?;
                self.hear(message).await;
                Ok(())
            }
            "text/event-stream" => {
                let mut readers = readers.lock().unwrap_or_else(PoisonError::into_inner);
                while readers.try_join_next().is_some() {}
                readers.spawn(self.clone().listen(response, asked));
                Ok(())
            }
            "" => Err(HttpError::Nothing(status)),
            other => Err(HttpError::Type(other.to_owned())),
        }
    }

    async fn ask(&self, method: Method, body: Bytes) -> Result<Response<Incoming>, HttpError> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = self.url.clone();
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("offshoot/", env!("CARGO_PKG_VERSION"))));
        headers.extend(self.headers.clone());
        headers.extend(self.told());
        let client = self.network.client(self.url.scheme_str() == Some("https"));
        let client = client.map_err(|failure| HttpError::Unreachable(failure.message))?;
        client.request(request).await.map_err(|error| HttpError::Unreachable(crate::provider::chain(&error)))
    }

    /// Reads a stream of events until it has the answer. One that ends without it is an answer too.
    async fn listen(self, response: Response<Incoming>, asked: RequestId) {
        let why = match self.listen_for(response, &asked).await {
            Ok(true) => return,
            Ok(false) => "its answer ended before it was there".to_owned(),
            Err(error) => error.to_string(),
        };
        self.hear(message::unread(asked, why)).await;
    }

    async fn listen_for(&self, response: Response<Incoming>, asked: &RequestId) -> Result<bool, HttpError> {
        let mut body = response.into_body();
        let mut decoder = SseDecoder::new();
        let mut seen = 0;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| HttpError::Broken(error.to_string()))?;
            let Ok(data) = frame.into_data() else { continue };
            seen += data.len();
            if seen > MOST {
                return Err(HttpError::TooLong);
            }
            for event in decoder.push(&data) {
                if event.data.trim().is_empty() {
                    continue;
                }
                let message = message::read(event.data.as_bytes())?;
                let answers = match &message {
                    JsonRpcMessage::Response(response) => response.id == *asked,
                    JsonRpcMessage::Error(error) => error.id.as_ref() == Some(asked),
                    _ => false,
                };
                self.hear(message).await;
                if answers {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Passes a message on. The first one says which version of the protocol is spoken from now on.
    async fn hear(&self, message: ServerJsonRpcMessage) {
        if let JsonRpcMessage::Response(response) = &message
            && let ServerResult::InitializeResult(begun) = &response.result
            && let Ok(version) = HeaderValue::from_str(begun.protocol_version.as_str())
        {
            self.tell(VERSION, version);
        }
        let _ = self.hear.send(message).await; // nobody listens any more
    }

    fn tell(&self, name: &'static str, value: HeaderValue) {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).insert(name, value);
    }

    fn told(&self) -> HeaderMap {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn read(response: Response<Incoming>) -> Result<Vec<u8>, HttpError> {
    let mut body = response.into_body();
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| HttpError::Broken(error.to_string()))?;
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > MOST {
            return Err(HttpError::TooLong);
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}
