//! MCP client: tools of other programs, over pipes or HTTP.
//!
//! Start at [`ToolServers::start`]. A misbehaving server harms only its own tools: it has time limits, a limit
//! on its output, an environment without our variables, and a process group that ends with the run.

mod config;
mod connection;
mod http;
mod launch;
mod lines;
mod listing;
mod message;
mod meter;
mod process;
mod program;
mod server;
#[cfg(test)]
mod tests;
mod tool;

use std::sync::Arc;
use std::time::Duration;

use crate::Tool;
use crate::provider::ConnectionPool;
pub use config::ServerConfig;
pub(crate) use config::{ServerTables, ambiguous_names, read_servers};
pub use launch::ServerPaths;
pub(crate) use process::end_leftover_servers;
use server::ToolServer;
use tool::McpTool;

/// Maximum output of a server between two requests.
const MAX_OUTPUT: usize = 16 << 20;

/// Time limit for a server to start and to list its tools.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// Factor for the time limit if the program may have to be downloaded first.
const FETCH_FACTOR: u32 = 12;

/// The tool servers of a run.
#[derive(Default)]
pub struct ToolServers {
    running: Vec<Arc<ToolServer>>,
    tools: Vec<McpTool>,
    /// Messages for the user: servers that did not start, tools that are left out.
    pub warnings: Vec<String>,
}

impl ToolServers {
    /// Starts all servers at once, and waits until each has answered or failed. They are ordered by name.
    pub async fn start(configs: &[ServerConfig], paths: &ServerPaths) -> Self {
        if !configs.is_empty() {
            end_leftover_servers();
        }
        Self::start_within(START_TIMEOUT, configs, paths).await
    }

    async fn start_within(start_timeout: Duration, configs: &[ServerConfig], paths: &ServerPaths) -> Self {
        let network = ConnectionPool::new();
        let starting: Vec<_> = configs
            .iter()
            .map(|config| {
                // One set each: if the caller is cancelled, dropping the set ends the task in it.
                let mut start = tokio::task::JoinSet::new();
                let start_timeout = config.start.unwrap_or_else(|| match config.fetches_program() {
                    true => start_timeout * FETCH_FACTOR,
                    false => start_timeout,
                });
                start.spawn(ToolServer::start(config.clone(), paths.clone(), network.clone(), start_timeout));
                (config, start)
            })
            .collect();
        let mut servers = Self::default();
        for (config, mut start) in starting {
            match start.join_next().await {
                Some(Ok(Ok((server, listed)))) => servers.add(server, &listed),
                Some(Ok(Err(why))) => servers.warn(config, &format!("did not start: {why}")),
                _ => servers.warn(config, "crashed while it started; this is a bug"),
            }
        }
        servers
    }

    fn add(&mut self, server: Arc<ToolServer>, listed: &[serde_json::Value]) {
        let config = &server.config;
        let (offered, left_out) = listing::offered_tools(&config.name, listed, config.tools.as_deref());
        for why in left_out {
            self.warn(config, &why);
        }
        self.tools
            .extend(offered.into_iter().map(|offered| McpTool { server: Arc::clone(&server), offered }));
        self.running.push(server);
    }

    fn warn(&mut self, config: &ServerConfig, why: &str) {
        tracing::warn!(server = config.name, why, "an MCP server");
        self.warnings.push(format!("MCP server `{}`: {why}", config.name));
    }

    /// Appends the servers' tools, sorted by name, to the given tools. A tool whose name is taken is left out.
    pub fn add_to(&mut self, mut given: Vec<Box<dyn Tool>>) -> Vec<Box<dyn Tool>> {
        let mut tools = std::mem::take(&mut self.tools);
        tools.sort_by(|a, b| a.offered.name.cmp(&b.offered.name));
        for tool in tools {
            if given.iter().any(|taken| taken.name() == tool.name()) {
                let why = format!(
                    "the tool `{}` is left out: another tool is called `{}`",
                    tool.offered.own_name,
                    tool.name()
                );
                self.warn(&tool.server.config.clone(), &why);
            } else {
                given.push(Box::new(tool));
            }
        }
        given
    }

    /// Ends all servers with all their processes.
    pub async fn stop(&self) {
        let mut stopping = tokio::task::JoinSet::new();
        for server in &self.running {
            let server = Arc::clone(server);
            stopping.spawn(async move { server.stop().await });
        }
        stopping.join_all().await;
    }
}
