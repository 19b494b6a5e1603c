//! One connection to one server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ClientConfig, ClientRequest,
    Implementation, JsonObject, ListToolsRequest, PaginatedRequestParams, PingRequest, ProtocolVersion,
    ServerResult,
};
use rmcp::service::{ClientInitializeError, RoleClient, RunningService, ServiceError, ServiceExt as _};
use serde_json::Value;
use tokio::sync::Mutex;

use super::child::Child;
use super::config::{At, ServerConfig};
use super::ground::Ground;
use super::http::{Http, HttpError};
use super::lines::Lines;
use super::message;
use super::meter::Meter;
use crate::provider::ConnectionPool;

/// How long a closed connection may take to be gone.
const GOODBYE: Duration = Duration::from_secs(2);
/// How long a server that was late may take to say that it is there.
const PING: Duration = Duration::from_secs(2);
/// How many pages a list of tools may have.
const PAGES: usize = 50;

/// A server that has said hello.
pub(super) struct Connection {
    service: RunningService<RoleClient, ClientConfig>,
    child: Option<Mutex<Child>>,
    /// How much it may still say until it is asked something.
    meter: Arc<Meter>,
    is_lost: Arc<AtomicBool>,
    /// It has not answered in time, and nothing since.
    is_late: AtomicBool,
}

/// Why a call has no result.
#[derive(Debug)]
pub(super) enum Lost {
    /// The server said why not.
    Refused(String),
    /// The server took it, and gave no answer that can be read.
    Unread(String),
    /// The connection is gone.
    Gone(String),
}

impl Connection {
    /// Starts or finds the server and says hello. Dropped before that is done, nothing is left of it.
    pub(super) async fn open(
        config: &ServerConfig,
        ground: &Ground,
        network: &ConnectionPool,
    ) -> Result<Self, String> {
        let meter = Arc::new(Meter::new());
        let is_lost = Arc::new(AtomicBool::new(false));
        let ours = Implementation::new("offshoot", env!("CARGO_PKG_VERSION"));
        // No capabilities: a server can ask us for nothing.
        let hello = ClientConfig::new(ClientCapabilities::default(), ours);
        let (service, child) = match &config.at {
            At::Command { command, env, cwd } => {
                let stand = ground.stand(&config.name, command, env, cwd.as_deref())?;
                let (mut child, (stdout, stdin)) = Child::start(&stand, env, Arc::clone(&meter))
                    .map_err(|error| format!("`{}` cannot be started: {error}", command[0]))?;
                match hello.serve(Lines::new(stdout, stdin)).await {
                    Ok(service) => (service, Some(child)),
                    Err(error) => return Err(unheard(error, &mut child, &meter).await),
                }
            }
            At::Url { url, headers } => {
                let transport =
                    Http::new(url.clone(), headers.clone(), network.clone(), Arc::clone(&is_lost));
                (hello.serve(transport).await.map_err(greeting)?, None)
            }
        };
        let version = service.peer_info().map(|server| server.protocol_version.clone());
        if let Some(version) = version.filter(|version| !ProtocolVersion::KNOWN_VERSIONS.contains(version)) {
            return Err(unknown(version.as_str()));
        }
        Ok(Self { service, child: child.map(Mutex::new), meter, is_lost, is_late: AtomicBool::new(false) })
    }

    /// All tools that the server says it has, as it says so: whether they are any good is seen later, one by one.
    pub(super) async fn tools(&self) -> Result<Vec<Value>, String> {
        let mut tools = Vec::new();
        let mut cursor = None;
        for _ in 0..PAGES {
            self.meter.begin();
            let page = PaginatedRequestParams::default().with_cursor(cursor);
            let request = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(page));
            let answer = match self.service.send_request(request).await {
                Ok(answer) => answer,
                Err(error) => return Err(self.why(&error).await),
            };
            let mut page = match answer {
                ServerResult::ListToolsResult(page) => serde_json::to_value(page).unwrap_or_default(),
                // A page with one tool in it that is no tool.
                ServerResult::CustomResult(page) => page.0,
                _ => Value::Null,
            };
            let Some(listed) = page["tools"].as_array_mut() else {
                return Err("its list of tools cannot be read".to_owned());
            };
            tools.append(listed);
            match page["nextCursor"].as_str() {
                Some(next) => cursor = Some(next.to_owned()),
                None => return Ok(tools),
            }
        }
        Err(format!("its list of tools has more than {PAGES} pages"))
    }

    /// Calls a tool. Dropped, the server is told that nobody waits any more.
    pub(super) async fn call(&self, tool: &str, arguments: JsonObject) -> Result<CallToolResult, Lost> {
        self.meter.begin();
        let call = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let answer = self.service.call_tool_once(call).await;
        self.is_late.store(false, Ordering::Relaxed);
        match answer {
            Ok(CallToolResponse::Complete(result)) => Ok(result),
            Ok(_) => Err(refused("it wants to ask something before it answers, and nobody is there")),
            Err(ServiceError::McpError(error)) => {
                let why = error.message.to_string();
                Err(if message::is_unread(&error) { Lost::Unread(why) } else { Lost::Refused(why) })
            }
            Err(ServiceError::UnexpectedResponse) => {
                Err(Lost::Unread("its answer is no tool's result".to_owned()))
            }
            // Over HTTP, one answer that is none says nothing about the next.
            Err(ServiceError::TransportSend(error)) if self.child.is_none() && !self.is_closed() => {
                let refuses = error.error.downcast_ref().is_some_and(HttpError::refuses);
                let why = error.error.to_string();
                Err(if refuses { Lost::Refused(why) } else { Lost::Unread(why) })
            }
            Err(error) => Err(Lost::Gone(self.why(&error).await)),
        }
    }

    /// Notes that a call was not answered in time.
    pub(super) fn was_late(&self) {
        self.is_late.store(true, Ordering::Relaxed);
    }

    /// Whether it can be asked. One that was late must say that it is there: it may be slow, or it may be stuck.
    pub(super) async fn is_there(&self) -> bool {
        if self.is_closed() {
            return false;
        }
        if !self.is_late.load(Ordering::Relaxed) {
            return true;
        }
        let ping = ClientRequest::PingRequest(PingRequest::default());
        matches!(tokio::time::timeout(PING, self.service.send_request(ping)).await, Ok(Ok(_)))
    }

    /// Whether nothing can be asked any more.
    fn is_closed(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed) || self.service.is_transport_closed()
    }

    async fn why(&self, error: &ServiceError) -> String {
        if let Some(why) = self.meter.why() {
            return why;
        }
        match (error, &self.child) {
            (ServiceError::McpError(error), _) => error.message.to_string(),
            (ServiceError::TransportClosed | ServiceError::TransportSend(_), Some(child)) => {
                let mut child = child.lock().await;
                let how = match child.wait_a_moment().await {
                    Some(status) => format!("it ended, {status}"),
                    None => "it closed its output".to_owned(),
                };
                with_words(how, &child)
            }
            (ServiceError::TransportSend(error), None) => error.error.to_string(),
            (error, _) => error.to_string(),
        }
    }

    /// Says goodbye and waits until the server and whatever it has started are gone.
    pub(super) async fn close(mut self) {
        let _ = self.service.close_with_timeout(GOODBYE).await;
        if let Some(child) = self.child.take() {
            child.into_inner().end().await;
        }
    }
}

fn refused(why: &str) -> Lost {
    Lost::Refused(why.to_owned())
}

/// Another version may mean something else by the same words.
fn unknown(version: &str) -> String {
    let version: String = version.chars().filter(|c| !c.is_control()).take(40).collect();
    let known: Vec<&str> = ProtocolVersion::KNOWN_VERSIONS.iter().map(ProtocolVersion::as_str).collect();
    format!("it speaks version `{version}` of MCP; known are {}", known.join(", "))
}

/// Why a server that was started never said hello: its process tells more than its silence.
async fn unheard(error: ClientInitializeError, child: &mut Child, meter: &Meter) -> String {
    if let Some(why) = meter.why() {
        return why;
    }
    let is_silent = matches!(
        error,
        ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. }
    );
    match child.wait_a_moment().await {
        Some(status) if is_silent => with_words(format!("it ended before it said hello, {status}"), child),
        _ => greeting(error),
    }
}

fn with_words(what: String, child: &Child) -> String {
    match child.last_words() {
        Some(words) => format!("{what}: {words}"),
        None => what,
    }
}

fn greeting(error: ClientInitializeError) -> String {
    match error {
        ClientInitializeError::ConnectionClosed(_) => {
            "it closed the connection before it said hello".to_owned()
        }
        ClientInitializeError::TransportError { error, .. } => error.error.to_string(),
        ClientInitializeError::JsonRpcError(error) => error.message.into_owned(),
        ClientInitializeError::NoCompatibleProtocolVersion { server_supported, .. } => {
            unknown(&server_supported.iter().map(ProtocolVersion::as_str).collect::<Vec<_>>().join(", "))
        }
        // The others quote whatever the server sent.
        error => {
            tracing::debug!(%error, "the hello of an MCP server");
            "its answer to our hello cannot be read".to_owned()
        }
    }
}
