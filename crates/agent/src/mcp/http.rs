//! Transport to a server elsewhere, over streamable HTTP: each message is a POST, and its answer is one message
//! or a stream.
//!
//! Only answers are received. No stream is opened for messages that the server might send by itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
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

use super::{MAX_OUTPUT, message};
use crate::provider::ConnectionPool;

const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";
/// Time limit for ending the session.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Reason why a message failed or got no answer.
#[derive(Debug, Error)]
pub(super) enum HttpError {
    #[error("cannot reach it: {0}")]
    Unreachable(String),
    #[error("it answered {0}{1}")]
    Refused(StatusCode, String),
    #[error("it answered {0} without a content type")]
    Empty(StatusCode),
    #[error("its answer has content type {0:?}, not JSON or an event stream")]
    ContentType(String),
    #[error("its answer was interrupted: {0}")]
    Interrupted(String),
    #[error("its answer has more than {MAX_OUTPUT} bytes")]
    TooLong,
    #[error("its answer is not a valid message: {0}")]
    NotMessage(#[from] serde_json::Error),
}

impl HttpError {
    /// Returns true if the server says that it has done nothing.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused(status, _) if status.is_client_error())
    }
}

/// Transport to one server.
pub(super) struct HttpTransport {
    sender: HttpSender,
    received: mpsc::Receiver<ServerJsonRpcMessage>,
    /// Streams that are being read. They end with the transport.
    readers: Arc<Mutex<JoinSet<()>>>,
}

/// Everything that is needed to send a message.
#[derive(Clone)]
struct HttpSender {
    network: ConnectionPool,
    url: Uri,
    headers: HeaderMap,
    /// Headers to send along: the session that the server began, and the protocol version.
    session_headers: Arc<Mutex<HeaderMap>>,
    forward: mpsc::Sender<ServerJsonRpcMessage>,
    /// Set when the server has forgotten our session or is unreachable.
    is_lost: Arc<AtomicBool>,
}

impl HttpTransport {
    pub(super) fn new(
        url: Uri,
        headers: HeaderMap,
        network: ConnectionPool,
        is_lost: Arc<AtomicBool>,
    ) -> Self {
        let (forward, received) = mpsc::channel(64);
        let sender = HttpSender { network, url, headers, session_headers: Arc::default(), forward, is_lost };
        Self { sender, received, readers: Arc::default() }
    }
}

impl Transport<RoleClient> for HttpTransport {
    type Error = HttpError;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), HttpError>> + Send + 'static {
        let (sender, readers) = (self.sender.clone(), Arc::clone(&self.readers));
        async move {
            let sent = sender.send(message, &readers).await;
            if matches!(sent, Err(HttpError::Unreachable(_) | HttpError::Refused(StatusCode::NOT_FOUND, _))) {
                sender.is_lost.store(true, Ordering::Relaxed);
            }
            sent
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        self.received.recv().await
    }

    async fn close(&mut self) -> Result<(), HttpError> {
        self.readers.lock().expect("lock is not poisoned").abort_all();
        if self.sender.session_headers().contains_key(SESSION) {
            let _ =
                tokio::time::timeout(CLOSE_TIMEOUT, self.sender.request(Method::DELETE, Bytes::new())).await;
        }
        Ok(())
    }
}

impl HttpSender {
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
        let response = self.request(Method::POST, body.into()).await?;
        if let Some(session) = response.headers().get(SESSION) {
            self.set_session_header(SESSION, session.clone());
        }
        let status = response.status();
        if !status.is_success() {
            let words = read_body(response).await.unwrap_or_default();
            let words: String = String::from_utf8_lossy(&words).chars().take(200).collect();
            return Err(HttpError::Refused(status, format!(": {}", words.trim())));
        }
        let Some(asked) = asked else { return Ok(()) };
        let kind =
            response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        match kind.split(';').next().unwrap_or_default().trim() {
            "application/json" => {
                let message = message::read(&read_body(response).await?)?;
                self.forward(message).await;
                Ok(())
            }
            "text/event-stream" => {
                let mut readers = readers.lock().expect("lock is not poisoned");
                while readers.try_join_next().is_some() {}
                readers.spawn(self.clone().read_stream(response, asked));
                Ok(())
            }
            "" => Err(HttpError::Empty(status)),
            other => Err(HttpError::ContentType(other.to_owned())),
        }
    }

    async fn request(&self, method: Method, body: Bytes) -> Result<Response<Incoming>, HttpError> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = self.url.clone();
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("offshoot/", env!("CARGO_PKG_VERSION"))));
        headers.extend(self.headers.clone());
        headers.extend(self.session_headers());
        let client = self.network.client(self.url.scheme_str() == Some("https"));
        let client = client.map_err(|failure| HttpError::Unreachable(failure.message))?;
        client.request(request).await.map_err(|error| HttpError::Unreachable(crate::provider::chain(&error)))
    }

    /// Reads a stream of events until the answer arrives. A stream that ends without it counts as an unreadable
    /// answer.
    async fn read_stream(self, response: Response<Incoming>, asked: RequestId) {
        let why = match self.read_until_answer(response, &asked).await {
            Ok(true) => return,
            Ok(false) => "the stream ended without an answer".to_owned(),
            Err(error) => error.to_string(),
        };
        self.forward(message::unreadable_answer(asked, why)).await;
    }

    async fn read_until_answer(
        &self,
        response: Response<Incoming>,
        asked: &RequestId,
    ) -> Result<bool, HttpError> {
        let mut body = response.into_body();
        let mut decoder = SseDecoder::new();
        let mut seen = 0;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| HttpError::Interrupted(error.to_string()))?;
            let Ok(data) = frame.into_data() else { continue };
            seen += data.len();
            if seen > MAX_OUTPUT {
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
                self.forward(message).await;
                if answers {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Passes a message on. The first one sets the protocol version.
    async fn forward(&self, message: ServerJsonRpcMessage) {
        if let JsonRpcMessage::Response(response) = &message
            && let ServerResult::InitializeResult(begun) = &response.result
            && let Ok(version) = HeaderValue::from_str(begun.protocol_version.as_str())
        {
            self.set_session_header(VERSION, version);
        }
        let _ = self.forward.send(message).await; // the transport may be closed
    }

    fn set_session_header(&self, name: &'static str, value: HeaderValue) {
        self.session_headers.lock().expect("lock is not poisoned").insert(name, value);
    }

    fn session_headers(&self) -> HeaderMap {
        self.session_headers.lock().expect("lock is not poisoned").clone()
    }
}

async fn read_body(response: Response<Incoming>) -> Result<Vec<u8>, HttpError> {
    let mut body = response.into_body();
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| HttpError::Interrupted(error.to_string()))?;
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > MAX_OUTPUT {
            return Err(HttpError::TooLong);
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}
