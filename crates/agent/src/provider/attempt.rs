//! One HTTP request to a provider and its result.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use session::RunId;
use tokio::time::timeout;
use wire::dialect::{DecodedResponse, Dialect};
use wire::encoding::{self, CodingError};

use super::failure::{FailureKind, ProviderFailure, RetryAdvice, plain};
use super::network::ConnectionPool;
use super::protocol::Event;
use super::reading::{End, Reading};
use super::receive::{Received, chain, receive, stalled};
use super::redactor::StreamRedactor;
use super::response::{AttemptEvent, CompleteReply, ResponseLimits};
use super::secret::{ApiKey, KeyHeader, Secret};
use super::status::{refused, retry_after};

/// A provider of models, reached over HTTP.
#[derive(Clone, Debug)]
pub struct ProviderClient {
    /// Its name in the configuration.
    pub name: String,
    /// Its dialect.
    pub dialect: Dialect,
    /// The request address; see [`endpoint`](super::endpoint).
    pub endpoint: Uri,
    /// Extra headers, which replace our own. Secret values are marked as sensitive where they are read.
    pub headers: HeaderMap,
    /// The source of its key.
    pub key: ApiKey,
    /// The header that carries the key.
    pub key_header: KeyHeader,
    /// Timeouts and size limits.
    pub limits: ResponseLimits,
    /// Its connections.
    pub network: ConnectionPool,
}

/// Run that sends a request. Its ids are headers, so that a recording shows which agent sent what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestSender {
    /// The main run of the tree.
    pub root: RunId,
    /// The run itself.
    pub run: RunId,
}

/// Replaces a body that held our key in pieces, which cannot be separated from the text around them.
const IN_PIECES: &[u8] = b"(not kept: it held our key in pieces)";

/// Header with the id of the main run.
const SESSION_HEADER: &str = "x-offshoot-session";
/// Header with the id of the run.
const AGENT_HEADER: &str = "x-offshoot-agent";

/// Limits for the body of a refusal, which is only quoted.
const REFUSAL: ResponseLimits =
    ResponseLimits { idle: Duration::from_secs(10), news: Duration::from_secs(10), max_bytes: 1 << 20 };

/// One request and its result.
#[derive(Clone, Debug)]
pub struct HttpAttempt {
    /// The status, if a response began.
    pub status: Option<u16>,
    /// The response headers.
    pub headers: HeaderMap,
    /// The delay that the provider asked for.
    pub retry_after: Option<Duration>,
    /// The body as far as it arrived. If a refusal quotes our key, the key is starred out.
    pub bytes: Vec<u8>,
    /// Time at which the request was sent.
    pub started: SystemTime,
    /// Time of the first byte of the body.
    pub first_byte: Option<SystemTime>,
    /// Time of the end.
    pub ended: SystemTime,
    /// The reply, or the failure.
    pub outcome: Result<CompleteReply, ProviderFailure>,
}

impl ProviderClient {
    /// Checks that the key is available and can be sent, before work begins that needs it.
    pub async fn check_key(&self) -> Result<(), ProviderFailure> {
        match self.key.read().await? {
            Some(secret) => self.key_header.of(&secret, &self.key).map(drop),
            None => Ok(()),
        }
    }

    /// Sends one request and reads its response. It never retries. Dropping the future closes the connection.
    pub async fn attempt(&self, body: Bytes, on: &mut (dyn FnMut(AttemptEvent<'_>) + Send)) -> HttpAttempt {
        self.attempt_for(body, None, on).await
    }

    /// Sends one request of a run.
    pub async fn attempt_for(
        &self,
        body: Bytes,
        sender: Option<&RequestSender>,
        on: &mut (dyn FnMut(AttemptEvent<'_>) + Send),
    ) -> HttpAttempt {
        let mut attempt = HttpAttempt {
            status: None,
            headers: HeaderMap::new(),
            retry_after: None,
            bytes: Vec::new(),
            started: SystemTime::now(),
            first_byte: None,
            ended: SystemTime::UNIX_EPOCH,
            outcome: Err(ProviderFailure::garbage("empty response")),
        };
        let secret = match self.key.read().await {
            Ok(secret) => secret,
            Err(failure) => {
                attempt.outcome = Err(failure);
                attempt.ended = SystemTime::now();
                return attempt;
            }
        };
        let secrets: Vec<Secret> = secret.iter().cloned().chain(secrets_in(&self.headers)).collect();
        let mut redactor = StreamRedactor::new(&secrets);
        let mut redacted = |seen: AttemptEvent<'_>| redactor.push(seen, on);
        let outcome = match self.request(body, secret.as_ref(), sender) {
            Ok(request) => self.ask(request, &mut attempt, &mut redacted).await,
            Err(failure) => Err(failure),
        };
        redactor.finish(on);
        attempt.ended = SystemTime::now();
        attempt.outcome = outcome.map_err(|failure| self.advised(failure));
        for secret in &secrets {
            self.hide(secret, &mut attempt);
        }
        attempt
    }

    /// Stars our key out of a refusal or a response that quotes it.
    fn hide(&self, secret: &Secret, attempt: &mut HttpAttempt) {
        match &mut attempt.outcome {
            Err(failure) => {
                failure.message = secret.hidden_in(&failure.message);
                self.hide_in(secret, &mut attempt.bytes);
            }
            Ok(whole) if secret.is_in(&whole.body) => {
                match secret.is_in(&attempt.bytes) {
                    true => self.hide_in(secret, &mut attempt.bytes),
                    false => attempt.bytes = IN_PIECES.to_vec(),
                }
                secret.hide_in(&mut whole.body);
                if let Ok(DecodedResponse::Reply(answer)) = self.dialect.decode_reply(&whole.body) {
                    whole.answer = answer;
                }
            }
            Ok(_) => {}
        }
    }

    /// Stars our key out of a partial body whose reader stopped.
    pub(crate) fn hide_key(&self, bytes: &mut Vec<u8>) {
        for secret in self.key.resolved().into_iter().chain(secrets_in(&self.headers)) {
            self.hide_in(&secret, bytes);
        }
    }

    /// Stars a secret out of a body that may be cut anywhere.
    fn hide_in(&self, secret: &Secret, bytes: &mut Vec<u8>) {
        secret.hide_in(bytes);
        let mut said = String::new();
        Reading::new(self.dialect).push(bytes, &mut |seen| {
            if let AttemptEvent::Delta { text, .. } = seen {
                said.push_str(text);
            }
        });
        if secret.is_in(said.as_bytes()) {
            *bytes = IN_PIECES.to_vec();
        }
    }

    async fn ask(
        &self,
        request: Request<Full<Bytes>>,
        attempt: &mut HttpAttempt,
        on: &mut (dyn FnMut(AttemptEvent<'_>) + Send),
    ) -> Result<CompleteReply, ProviderFailure> {
        let client = self.network.client(self.endpoint.scheme_str() == Some("https"))?;
        let response = timeout(self.limits.idle, client.request(request)).await;
        let response = response.map_err(|_| stalled("nothing", self.limits.idle))?.map_err(|error| {
            let host = self.endpoint.authority().map(|host| host.as_str()).unwrap_or_default();
            if error.is_connect() && self.is_here() && is_refused(&error) {
                let message = format!("cannot connect to `{host}`: nothing listens there");
                return ProviderFailure::new(FailureKind::Connect, message, RetryAdvice::No)
                    .hinted(format!("start the server, or change the base URL of `{}`", self.name));
            }
            if error.is_connect() {
                let message = format!("cannot connect to `{host}`: {}", chain(&error));
                return ProviderFailure::new(FailureKind::Connect, message, RetryAdvice::Yes);
            }
            let message = format!("`{host}` closed the connection without an answer: {}", chain(&error));
            ProviderFailure::new(FailureKind::Cut, message, RetryAdvice::Yes)
        })?;
        attempt.status = Some(response.status().as_u16());
        attempt.headers = response.headers().clone();
        attempt.retry_after = retry_after(response.headers(), SystemTime::now());
        on(AttemptEvent::Head(response.status(), response.headers()));
        let mut received = Received::default();
        let outcome = self.read(response, &mut received, on).await;
        (attempt.bytes, attempt.first_byte) = (received.bytes, received.first_byte);
        outcome
    }

    fn request(
        &self,
        body: Bytes,
        secret: Option<&Secret>,
        sender: Option<&RequestSender>,
    ) -> Result<Request<Full<Bytes>>, ProviderFailure> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = http::Method::POST;
        *request.uri_mut() = self.endpoint.clone();
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream, application/json"));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("offshoot/", env!("CARGO_PKG_VERSION"))));
        if self.dialect == Dialect::AnthropicMessages {
            let version = HeaderName::from_static("anthropic-version");
            headers.insert(version, HeaderValue::from_static("2023-06-01"));
        }
        if let Some(RequestSender { root, run }) = sender {
            for (name, id) in [(SESSION_HEADER, root), (AGENT_HEADER, run)] {
                // An id that is no header value comes from a journal that was changed by hand.
                if let Ok(value) = HeaderValue::from_str(id.as_str()) {
                    headers.insert(HeaderName::from_static(name), value);
                }
            }
        }
        if let Some(secret) = secret {
            let (name, value) = self.key_header.of(secret, &self.key)?;
            headers.insert(name, value);
        }
        headers.extend(self.headers.clone());
        Ok(request)
    }

    async fn read(
        &self,
        response: Response<Incoming>,
        received: &mut Received,
        on: &mut (dyn FnMut(AttemptEvent<'_>) + Send),
    ) -> Result<CompleteReply, ProviderFailure> {
        let (head, body) = response.into_parts();
        if !head.status.is_success() {
            // A refusal stays a refusal, even if its body cannot be read.
            let limits = self.limits.at_most(REFUSAL);
            let _ = receive(body, &limits, received, on, |_, _| Event::News).await;
            let now = SystemTime::now();
            return Err(refused(self.dialect, head.status, &head.headers, &received.bytes, now));
        }
        expected_type(&head.headers)?;
        let coding = coding(&head.headers)?;
        let mut reading = Reading::new(self.dialect);
        let Some(coding) = coding else {
            let end = receive(body, &self.limits, received, on, |bytes, on| reading.push(bytes, on)).await?;
            return reading.finish(&received.bytes, &end);
        };
        let end = receive(body, &self.limits, received, on, |_, _| Event::News).await?;
        let decoded = decoded(&coding, &received.bytes, &end, self.limits.max_bytes)?;
        reading.push(&decoded, on);
        reading.finish(&decoded, &end)
    }

    /// Returns whether the address is on this machine. If nothing listens there, a retry does not help.
    fn is_here(&self) -> bool {
        let host = self.endpoint.host().unwrap_or_default().trim_matches(['[', ']']);
        host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    /// Adds hints that need the provider's settings.
    fn advised(&self, failure: ProviderFailure) -> ProviderFailure {
        match failure.kind {
            FailureKind::Auth if failure.hint.is_none() => failure.hinted(self.key.advice()),
            FailureKind::Connect if failure.hint.is_none() => {
                failure.hinted(format!("check the network and the base URL of `{}`", self.name))
            }
            _ => failure,
        }
    }
}

/// Returns whether the connection was refused at once.
fn is_refused(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        let refused = error.downcast_ref::<std::io::Error>();
        if refused.is_some_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused) {
            return true;
        }
        next = error.source();
    }
    false
}

/// Last words of the names of headers that are not secret.
const OPEN: &[&str] = &["agent", "beta", "project", "organization", "referer", "title", "type", "version"];

/// Returns the credentials among the configured headers, without their scheme.
fn secrets_in(headers: &HeaderMap) -> impl Iterator<Item = Secret> {
    let is_open = |name: &HeaderName| OPEN.iter().any(|word| name.as_str().ends_with(word));
    let said = headers.iter().filter(move |(name, _)| !is_open(name));
    said.filter_map(|(_, value)| Some(Secret::new(value.to_str().ok()?.rsplit(' ').next()?)))
}

/// Checks the content type: a web page or picture is no response. Without a type, the first byte decides.
fn expected_type(headers: &HeaderMap) -> Result<(), ProviderFailure> {
    let Some(kind) = headers.get(CONTENT_TYPE) else { return Ok(()) };
    let kind = String::from_utf8_lossy(kind.as_bytes()).to_ascii_lowercase();
    let essence = kind.split(';').next().unwrap_or_default().trim();
    if essence.is_empty() || essence.contains("event-stream") || essence.contains("json") {
        return Ok(());
    }
    // A web page stays one when the request is repeated. Other content may change.
    let retry = if essence == "text/html" { RetryAdvice::No } else { RetryAdvice::Yes };
    let message = format!("the provider answered with `{}`, not with a reply", plain(essence));
    let failure = ProviderFailure::new(FailureKind::Garbage, message, retry);
    Err(failure.hinted("check the base URL: a page may have answered in the provider's place"))
}

/// Returns the content coding, although none was requested.
fn coding(headers: &HeaderMap) -> Result<Option<String>, ProviderFailure> {
    let Some(coding) = headers.get(CONTENT_ENCODING) else { return Ok(None) };
    let coding = coding.to_str().map_err(|_| ProviderFailure::garbage("the content coding is not a word"))?;
    let codings =
        encoding::codings(coding).map_err(|error| ProviderFailure::garbage(plain(&error.to_string())))?;
    let coded = codings.iter().any(|coding| *coding != encoding::Coding::Identity);
    Ok(coded.then(|| coding.to_owned()))
}

fn decoded(coding: &str, bytes: &[u8], end: &End, limit: usize) -> Result<Vec<u8>, ProviderFailure> {
    encoding::decode(coding, bytes, limit).map_err(|error| {
        let message = error.to_string();
        match (error, end) {
            (CodingError::TooLong { .. }, _) => {
                ProviderFailure::new(FailureKind::TooLarge, message, RetryAdvice::No)
            }
            (CodingError::Cut(_), _) | (_, End::Broke(_)) => {
                ProviderFailure::new(FailureKind::Cut, message, RetryAdvice::Yes)
            }
            (CodingError::Unknown(_) | CodingError::Broken(_), _) => ProviderFailure::garbage(message),
        }
    })
}
