//! The real harnesses that tests drive, in every version that is tested, from npm.
//!
//! Tests find them only in the cache, where `offshoot capture` has them too.

use anyhow::{Context, Result};

use crate::cache;

/// MCP servers that nobody here wrote, for the tests of our own agent.
const MCP_SERVERS: [&str; 2] =
    ["@modelcontextprotocol/server-filesystem", "@modelcontextprotocol/server-everything"];
/// Their version; `crates/cli/tests/mcp.rs` looks for the same.
const MCP_VERSION: &str = "2026.8.31";

/// Installs every harness in every version that is tested, and what they need, unless it is there.
pub(crate) fn provide_all() -> Result<()> {
    let cache = cache::folder()?;
    let tell = |what: &str| eprintln!("{what}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        for kind in harness::list() {
            for version in kind.versions() {
                let release = harness::release(&*kind, Some(version), None)?;
                let installed = harness::install(&*kind, &release, &cache, &tell).await;
                installed.with_context(|| format!("{} {version} cannot be tested", kind.name()))?;
            }
        }
        harness::install_ripgrep(&cache, &tell).await.context("OpenCode needs ripgrep")?;
        for server in MCP_SERVERS {
            let installed =
                harness::install_tool(&cache, (server, MCP_VERSION), "dist/index.js", &tell).await;
            installed.with_context(|| format!("`{server}` is what MCP is tested with"))?;
        }
        Ok(())
    })
}
