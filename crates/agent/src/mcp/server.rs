//! A server over the whole run: its connection, and a new one where that is lost.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{CallToolResult, JsonObject};
use serde_json::Value;
use tokio::sync::Mutex;

use super::config::ServerConfig;
use super::connection::{Connection, Lost};
use super::ground::Ground;
use crate::provider::ConnectionPool;

pub(super) struct Server {
    pub(super) config: ServerConfig,
    ground: Ground,
    network: ConnectionPool,
    /// How long it may take to start and to say what it can.
    patience: Duration,
    connection: Mutex<Option<Arc<Connection>>>,
}

/// Why a call has no result, in words for the model.
#[derive(Debug)]
pub(super) enum Failed {
    /// It was not done.
    NotDone(String),
    /// It may have been done.
    Unknown(String),
}

impl Server {
    /// Starts a server and asks for its tools.
    pub(super) async fn start(
        config: ServerConfig,
        ground: Ground,
        network: ConnectionPool,
        patience: Duration,
    ) -> Result<(Arc<Self>, Vec<Value>), String> {
        let open = async {
            let connection = Connection::open(&config, &ground, &network).await?;
            let tools = connection.tools().await?;
            Ok((connection, tools))
        };
        let (connection, tools) = in_time(patience, open).await?;
        let connection = Mutex::new(Some(Arc::new(connection)));
        Ok((Arc::new(Self { config, ground, network, patience, connection }), tools))
    }

    /// Calls a tool.
    pub(super) async fn call(&self, tool: &str, arguments: JsonObject) -> Result<CallToolResult, Failed> {
        let name = &self.config.name;
        let connection = self.connection().await.map_err(|why| {
            Failed::NotDone(format!(
                "the server `{name}` is gone, and could not be started again: {why}; do without its tools"
            ))
        })?;
        match tokio::time::timeout(self.config.timeout, connection.call(tool, arguments)).await {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(Lost::Refused(why))) => {
                Err(Failed::NotDone(format!("the server `{name}` refused the call: {why}")))
            }
            Ok(Err(Lost::Unread(why))) => Err(Failed::Unknown(format!(
                "the server `{name}` took the call and gave no answer that can be read: {why}. The call may have had its \
                 effect, or not: look before you call again"
            ))),
            Ok(Err(Lost::Gone(why))) => {
                tracing::warn!(server = name, why, "an MCP server was lost");
                Err(Failed::Unknown(format!(
                    "the server `{name}` was lost while it worked: {why}. The call may have had its effect, or not: \
                     look before you call again; the server will be started anew then"
                )))
            }
            Err(_) => {
                connection.was_late();
                let seconds = self.config.timeout.as_secs();
                Err(Failed::Unknown(format!(
                    "the server `{name}` gave no answer within {seconds} s, and was told that nobody waits any more. \
                     The call may have had its effect, or not: look before you call again"
                )))
            }
        }
    }

    /// The connection; a new one where it is lost. That is tried once for each call.
    async fn connection(&self) -> Result<Arc<Connection>, String> {
        let mut held = self.connection.lock().await;
        if let Some(connection) = held.as_ref()
            && connection.is_there().await
        {
            return Ok(Arc::clone(connection));
        }
        *held = None; // what is left of the old process goes first
        tracing::info!(server = self.config.name, "an MCP server is started again");
        let open = Connection::open(&self.config, &self.ground, &self.network);
        let fresh = Arc::new(in_time(self.patience, open).await?);
        *held = Some(Arc::clone(&fresh));
        Ok(fresh)
    }

    /// Ends it. Whoever still waits for an answer gets none.
    pub(super) async fn stop(&self) {
        if let Some(connection) = self.connection.lock().await.take().and_then(Arc::into_inner) {
            connection.close().await;
        }
    }
}

async fn in_time<T>(patience: Duration, work: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let late = || {
        let seconds = patience.as_secs();
        Err(format!("it was not ready within {seconds} s; `start_timeout_s` lets it take longer"))
    };
    tokio::time::timeout(patience, work).await.unwrap_or_else(|_| late())
}
