//! Installs the harnesses that tests use, in each tested version, from npm.
//!
//! Tests find them in the cache, where `offshoot capture` also installs them.

use anyhow::{Context, Result};

use crate::cache;

/// MCP servers of others, for the tests of our own agent.
const MCP_SERVERS: [&str; 2] =
    ["@modelcontextprotocol/server-filesystem", "@modelcontextprotocol/server-everything"];
/// Version of the MCP servers. `crates/cli/tests/mcp.rs` uses the same.
const MCP_VERSION: &str = "2026.8.31";

/// Installs each harness in each tested version, with the programs it needs, unless installed.
pub(crate) fn provide_all() -> Result<()> {
    let cache = cache::folder()?;
    let tell = |what: &str| eprintln!("{what}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        for kind in harness::list() {
            for version in kind.versions() {
                let release = harness::release(&*kind, Some(version), None)?;
                let installed = harness::install(&*kind, &release, &cache, &tell).await;
                installed.with_context(|| format!("cannot install {} {version}", kind.name()))?;
            }
        }
        harness::install_ripgrep(&cache, &tell).await.context("cannot install ripgrep for OpenCode")?;
        for server in MCP_SERVERS {
            let installed =
                harness::install_tool(&cache, (server, MCP_VERSION), "dist/index.js", &tell).await;
            installed.with_context(|| format!("cannot install the MCP server `{server}`"))?;
        }
        Ok(())
    })
}
