//! MCP servers: other people's tools, over a program's pipes or HTTP.
//!
//! Start at [`Servers::start`]. Whatever a server does, only its own tools suffer: it has a deadline, a limit to what it
//! may say, an environment with nothing in it, and a process group that ends with the run.

mod child;
mod config;
mod connection;
mod ground;
mod http;
mod lines;
mod listing;
mod message;
mod meter;
mod server;
#[cfg(test)]
mod tests;
mod tool;

use std::sync::Arc;
use std::time::Duration;

use crate::Tool;
use crate::provider::ConnectionPool;
pub(crate) use child::sweep;
pub use config::ServerConfig;
pub(crate) use config::{Tables, confused, read};
pub use ground::Ground;
pub(crate) use listing::tool_pattern;
use server::Server;
use tool::McpTool;

/// The most that a server may say until it is asked again.
const MOST: usize = 16 << 20;

/// How long a server may take to start and to say what it can.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many times as long one may take whose program may have to be fetched first.
const FETCHING: u32 = 12;

/// The servers of a run.
#[derive(Default)]
pub struct Servers {
    running: Vec<Arc<Server>>,
    tools: Vec<McpTool>,
    /// What the user should know: servers that are not there, tools that are left out.
    pub complaints: Vec<String>,
}

impl Servers {
    /// Starts them all at once, on that ground, and waits until each has answered or given up. Their order is that of
    /// their names, whoever is ready first.
    pub async fn start(configs: &[ServerConfig], ground: &Ground) -> Self {
        if !configs.is_empty() {
            sweep();
        }
        Self::start_within(PATIENCE, configs, ground).await
    }

    async fn start_within(patience: Duration, configs: &[ServerConfig], ground: &Ground) -> Self {
        let network = ConnectionPool::new();
        let starting: Vec<_> = configs
            .iter()
            .map(|config| {
                // In a set each, since what is in one ends with it, should nobody wait any more.
                let mut start = tokio::task::JoinSet::new();
                let patience = config.start.unwrap_or_else(|| match config.fetches() {
                    true => patience * FETCHING,
                    false => patience,
                });
                start.spawn(Server::start(config.clone(), ground.clone(), network.clone(), patience));
                (config, start)
            })
            .collect();
        let mut servers = Self::default();
        for (config, mut start) in starting {
            match start.join_next().await {
                Some(Ok(Ok((server, listed)))) => servers.add(server, &listed),
                Some(Ok(Err(why))) => servers.complain(config, &format!("is not there: {why}")),
                _ => servers.complain(config, "broke while it was started; that is a bug"),
            }
        }
        servers
    }

    fn add(&mut self, server: Arc<Server>, listed: &[serde_json::Value]) {
        let config = &server.config;
        let (offered, left_out) = listing::offered(&config.name, listed, config.tools.as_deref());
        for why in left_out {
            self.complain(config, &why);
        }
        self.tools
            .extend(offered.into_iter().map(|offered| McpTool { server: Arc::clone(&server), offered }));
        self.running.push(server);
    }

    fn complain(&mut self, config: &ServerConfig, why: &str) {
        tracing::warn!(server = config.name, why, "an MCP server");
        self.complaints.push(format!("MCP server `{}`: {why}", config.name));
    }

    /// All tools: first those that are given, then the servers' by name. A name that is taken stays whose it was.
    pub fn beside(&mut self, mut given: Vec<Box<dyn Tool>>) -> Vec<Box<dyn Tool>> {
        let mut tools = std::mem::take(&mut self.tools);
        tools.sort_by(|a, b| a.offered.name.cmp(&b.offered.name));
        for tool in tools {
            if given.iter().any(|taken| taken.name() == tool.name()) {
                let why =
                    format!("the tool `{}` is left out: there is a `{}`", tool.offered.own_name, tool.name());
                self.complain(&tool.server.config.clone(), &why);
            } else {
                given.push(Box::new(tool));
            }
        }
        given
    }

    /// Ends them all, and whatever they have started.
    pub async fn stop(&self) {
        let mut stopping = tokio::task::JoinSet::new();
        for server in &self.running {
            let server = Arc::clone(server);
            stopping.spawn(async move { server.stop().await });
        }
        stopping.join_all().await;
    }
}
