//! A server during a run. A lost connection is replaced at the next call.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{CallToolResult, JsonObject};
use serde_json::Value;
use tokio::sync::Mutex;

use super::config::ServerConfig;
use super::connection::{ConnectionError, McpConnection};
use super::launch::ServerPaths;
use crate::provider::ConnectionPool;

pub(super) struct ToolServer {
    pub(super) config: ServerConfig,
    paths: ServerPaths,
    network: ConnectionPool,
    /// Time limit to start and to list the tools.
    start_timeout: Duration,
    connection: Mutex<Option<Arc<McpConnection>>>,
}

/// Reason why a call has no result, in words for the model.
#[derive(Debug)]
pub(super) enum CallError {
    /// The call had no effect.
    NotDone(String),
    /// The call may have had an effect.
    Unknown(String),
}

impl ToolServer {
    /// Starts a server and lists its tools.
    pub(super) async fn start(
        config: ServerConfig,
        paths: ServerPaths,
        network: ConnectionPool,
        start_timeout: Duration,
    ) -> Result<(Arc<Self>, Vec<Value>), String> {
        let open = async {
            let connection = McpConnection::open(&config, &paths, &network).await?;
            let tools = connection.tools().await?;
            Ok((connection, tools))
        };
        let (connection, tools) = within(start_timeout, open).await?;
        let connection = Mutex::new(Some(Arc::new(connection)));
        Ok((Arc::new(Self { config, paths, network, start_timeout, connection }), tools))
    }

    /// Calls a tool.
    pub(super) async fn call(&self, tool: &str, arguments: JsonObject) -> Result<CallToolResult, CallError> {
        let name = &self.config.name;
        let connection = self.connection().await.map_err(|why| {
            CallError::NotDone(format!(
                "the server `{name}` has ended and could not be restarted: {why}; continue without its tools"
            ))
        })?;
        match tokio::time::timeout(self.config.timeout, connection.call(tool, arguments)).await {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(ConnectionError::Refused(why))) => {
                Err(CallError::NotDone(format!("the server `{name}` refused the call: {why}")))
            }
            Ok(Err(ConnectionError::Unreadable(why))) => Err(CallError::Unknown(format!(
                "the server `{name}` accepted the call, but its answer is unreadable: {why}. The call may or may not \
                 have had an effect: check before you call again"
            ))),
            Ok(Err(ConnectionError::Disconnected(why))) => {
                tracing::warn!(server = name, why, "an MCP server was lost");
                Err(CallError::Unknown(format!(
                    "the connection to the server `{name}` was lost during the call: {why}. The call may or may not have had \
                     an effect: check before you call again; the server will be restarted then"
                )))
            }
            Err(_) => {
                connection.mark_late();
                let seconds = self.config.timeout.as_secs();
                Err(CallError::Unknown(format!(
                    "the server `{name}` did not answer within {seconds} s, and the call was cancelled. \
                     The call may or may not have had an effect: check before you call again"
                )))
            }
        }
    }

    /// Returns the connection. Replaces a lost one, with one try for each call.
    async fn connection(&self) -> Result<Arc<McpConnection>, String> {
        let mut held = self.connection.lock().await;
        if let Some(connection) = held.as_ref()
            && connection.is_alive().await
        {
            return Ok(Arc::clone(connection));
        }
        *held = None; // ends the rest of the old process first
        tracing::info!(server = self.config.name, "an MCP server is started again");
        let open = McpConnection::open(&self.config, &self.paths, &self.network);
        let fresh = Arc::new(within(self.start_timeout, open).await?);
        *held = Some(Arc::clone(&fresh));
        Ok(fresh)
    }

    /// Ends the server. Pending calls get no answer.
    pub(super) async fn stop(&self) {
        if let Some(connection) = self.connection.lock().await.take().and_then(Arc::into_inner) {
            connection.close().await;
        }
    }
}

async fn within<T>(
    start_timeout: Duration,
    work: impl Future<Output = Result<T, String>>,
) -> Result<T, String> {
    let late = || {
        let seconds = start_timeout.as_secs();
        Err(format!("it was not ready within {seconds} s; a larger `start_timeout_s` gives it more time"))
    };
    tokio::time::timeout(start_timeout, work).await.unwrap_or_else(|_| late())
}
