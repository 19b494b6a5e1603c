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

use super::config::{ServerAddress, ServerConfig};
use super::http::{HttpError, HttpTransport};
use super::launch::ServerPaths;
use super::lines::LineTransport;
use super::message;
use super::meter::OutputMeter;
use super::process::ServerProcess;
use crate::provider::ConnectionPool;

/// Time limit for closing a connection.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Time limit for a late server to answer a ping.
const PING_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of pages in a list of tools.
const MAX_PAGES: usize = 50;

/// An initialised connection.
pub(super) struct McpConnection {
    service: RunningService<RoleClient, ClientConfig>,
    child: Option<Mutex<ServerProcess>>,
    /// Counts the server's output since the last request.
    meter: Arc<OutputMeter>,
    is_lost: Arc<AtomicBool>,
    /// True after a timeout, until the server answers again.
    is_late: AtomicBool,
}

/// Reason why a call has no result.
#[derive(Debug)]
pub(super) enum ConnectionError {
    /// The server refused the call.
    Refused(String),
    /// The server accepted the call, but its answer is unreadable.
    Unreadable(String),
    /// The connection is lost.
    Disconnected(String),
}

impl McpConnection {
    /// Starts or contacts the server, and initialises the connection. If this is cancelled, the started process
    /// is killed.
    pub(super) async fn open(
        config: &ServerConfig,
        paths: &ServerPaths,
        network: &ConnectionPool,
    ) -> Result<Self, String> {
        let meter = Arc::new(OutputMeter::new());
        let is_lost = Arc::new(AtomicBool::new(false));
        let ours = Implementation::new("offshoot", env!("CARGO_PKG_VERSION"));
        // No capabilities, so the server cannot send us requests.
        let hello = ClientConfig::new(ClientCapabilities::default(), ours);
        let (service, child) = match &config.address {
            ServerAddress::Command { command, env, cwd } => {
                let launch = paths.launch_command(&config.name, command, env, cwd.as_deref())?;
                let (mut child, (stdout, stdin)) = ServerProcess::start(&launch, env, Arc::clone(&meter))
                    .map_err(|error| format!("cannot start `{}`: {error}", command[0]))?;
                match hello.serve(LineTransport::new(stdout, stdin)).await {
                    Ok(service) => (service, Some(child)),
                    Err(error) => return Err(start_failure(error, &mut child, &meter).await),
                }
            }
            ServerAddress::Url { url, headers } => {
                let transport =
                    HttpTransport::new(url.clone(), headers.clone(), network.clone(), Arc::clone(&is_lost));
                (hello.serve(transport).await.map_err(handshake_failure)?, None)
            }
        };
        let version = service.peer_info().map(|server| server.protocol_version.clone());
        if let Some(version) = version.filter(|version| !ProtocolVersion::KNOWN_VERSIONS.contains(version)) {
            return Err(unknown_version(version.as_str()));
        }
        Ok(Self { service, child: child.map(Mutex::new), meter, is_lost, is_late: AtomicBool::new(false) })
    }

    /// Lists the server's tools, unvalidated. They are checked one by one later.
    pub(super) async fn tools(&self) -> Result<Vec<Value>, String> {
        let mut tools = Vec::new();
        let mut cursor = None;
        for _ in 0..MAX_PAGES {
            self.meter.reset();
            let page = PaginatedRequestParams::default().with_cursor(cursor);
            let request = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(page));
            let answer = match self.service.send_request(request).await {
                Ok(answer) => answer,
                Err(error) => return Err(self.failure(&error).await),
            };
            let mut page = match answer {
                ServerResult::ListToolsResult(page) => serde_json::to_value(page).unwrap_or_default(),
                // A page that contains an invalid tool.
                ServerResult::CustomResult(page) => page.0,
                _ => Value::Null,
            };
            let Some(listed) = page["tools"].as_array_mut() else {
                return Err("its tool list is unreadable".to_owned());
            };
            tools.append(listed);
            match page["nextCursor"].as_str() {
                Some(next) => cursor = Some(next.to_owned()),
                None => return Ok(tools),
            }
        }
        Err(format!("its list of tools has more than {MAX_PAGES} pages"))
    }

    /// Calls a tool. If this is cancelled, the server is notified.
    pub(super) async fn call(
        &self,
        tool: &str,
        arguments: JsonObject,
    ) -> Result<CallToolResult, ConnectionError> {
        self.meter.reset();
        let call = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let answer = self.service.call_tool_once(call).await;
        self.is_late.store(false, Ordering::Relaxed);
        match answer {
            Ok(CallToolResponse::Complete(result)) => Ok(result),
            Ok(_) => Err(refused("it asks a question before it answers, which is not supported")),
            Err(ServiceError::McpError(error)) => {
                let why = error.message.to_string();
                Err(if message::is_unreadable(&error) {
                    ConnectionError::Unreadable(why)
                } else {
                    ConnectionError::Refused(why)
                })
            }
            Err(ServiceError::UnexpectedResponse) => {
                Err(ConnectionError::Unreadable("its answer is not a tool result".to_owned()))
            }
            // Over HTTP, a failed answer does not affect the next request.
            Err(ServiceError::TransportSend(error)) if self.child.is_none() && !self.is_closed() => {
                let is_refusal = error.error.downcast_ref().is_some_and(HttpError::is_refusal);
                let why = error.error.to_string();
                Err(if is_refusal { ConnectionError::Refused(why) } else { ConnectionError::Unreadable(why) })
            }
            Err(error) => Err(ConnectionError::Disconnected(self.failure(&error).await)),
        }
    }

    /// Records that a call timed out.
    pub(super) fn mark_late(&self) {
        self.is_late.store(true, Ordering::Relaxed);
    }

    /// Returns true if the connection can be used. A server that was late must answer a ping first: it may be
    /// slow or stuck.
    pub(super) async fn is_alive(&self) -> bool {
        if self.is_closed() {
            return false;
        }
        if !self.is_late.load(Ordering::Relaxed) {
            return true;
        }
        let ping = ClientRequest::PingRequest(PingRequest::default());
        matches!(tokio::time::timeout(PING_TIMEOUT, self.service.send_request(ping)).await, Ok(Ok(_)))
    }

    /// Returns true if the connection is lost.
    fn is_closed(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed) || self.service.is_transport_closed()
    }

    async fn failure(&self, error: &ServiceError) -> String {
        if let Some(why) = self.meter.cut_off_reason() {
            return why;
        }
        match (error, &self.child) {
            (ServiceError::McpError(error), _) => error.message.to_string(),
            (ServiceError::TransportClosed | ServiceError::TransportSend(_), Some(child)) => {
                let mut child = child.lock().await;
                let how = match child.wait_briefly().await {
                    Some(status) => format!("it exited ({status})"),
                    None => "it closed its output".to_owned(),
                };
                with_last_line(how, &child)
            }
            (ServiceError::TransportSend(error), None) => error.error.to_string(),
            (error, _) => error.to_string(),
        }
    }

    /// Closes the connection, and waits until the server and all its processes are gone.
    pub(super) async fn close(mut self) {
        let _ = self.service.close_with_timeout(CLOSE_TIMEOUT).await;
        if let Some(child) = self.child.take() {
            child.into_inner().end().await;
        }
    }
}

fn refused(why: &str) -> ConnectionError {
    ConnectionError::Refused(why.to_owned())
}

/// Refuses unknown versions, since the same words may mean something else in them.
fn unknown_version(version: &str) -> String {
    let version: String = version.chars().filter(|c| !c.is_control()).take(40).collect();
    let known: Vec<&str> = ProtocolVersion::KNOWN_VERSIONS.iter().map(ProtocolVersion::as_str).collect();
    format!("it uses MCP version `{version}`; supported are {}", known.join(", "))
}

/// Explains why a started server was not initialised. Its exit status and last output say more than the closed
/// pipe.
async fn start_failure(
    error: ClientInitializeError,
    child: &mut ServerProcess,
    meter: &OutputMeter,
) -> String {
    if let Some(why) = meter.cut_off_reason() {
        return why;
    }
    let is_silent = matches!(
        error,
        ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. }
    );
    match child.wait_briefly().await {
        Some(status) if is_silent => {
            with_last_line(format!("it exited during initialization ({status})"), child)
        }
        _ => handshake_failure(error),
    }
}

fn with_last_line(what: String, child: &ServerProcess) -> String {
    match child.last_error_line() {
        Some(words) => format!("{what}: {words}"),
        None => what,
    }
}

fn handshake_failure(error: ClientInitializeError) -> String {
    match error {
        ClientInitializeError::ConnectionClosed(_) => {
            "it closed the connection during initialization".to_owned()
        }
        ClientInitializeError::TransportError { error, .. } => error.error.to_string(),
        ClientInitializeError::JsonRpcError(error) => error.message.into_owned(),
        ClientInitializeError::NoCompatibleProtocolVersion { server_supported, .. } => unknown_version(
            &server_supported.iter().map(ProtocolVersion::as_str).collect::<Vec<_>>().join(", "),
        ),
        // The remaining errors quote what the server sent.
        error => {
            tracing::debug!(%error, "invalid `initialize` answer of an MCP server");
            "its answer to `initialize` is unreadable".to_owned()
        }
    }
}
