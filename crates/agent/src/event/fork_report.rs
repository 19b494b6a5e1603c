//! The report of a fork that ended.

use serde::Serialize;
use session::RunId;

/// The usage and the outcome of a fork that ended. Stored in the journal and emitted once.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ForkReport {
    /// Name shown to people.
    pub label: String,
    /// Name of the feature that started the fork.
    pub source: String,
    /// Status of the run.
    pub outcome: &'static str,
    /// Duration.
    pub duration_ms: u64,
    /// Number of messages that the fork added to its parent's: results, prompts and replies.
    pub messages: u64,
    /// Input tokens that were not in the cache.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Input tokens that were read from the cache.
    pub cache_read: u64,
    /// Tokens that were written to the cache: the sum of the next two.
    pub cache_write: u64,
    /// Tokens that were written to the cache for five minutes.
    pub cache_write_5m: u64,
    /// Tokens that were written to the cache for an hour.
    pub cache_write_1h: u64,
    /// Service tier that the provider reported.
    pub service_tier: Option<String>,
    /// Share of the input that was read from the cache.
    pub hit_rate: Option<f64>,
    /// Parts of the request that the fork's agent changes, so that the fork shares less of the prompt cache: `tools`,
    /// `instructions`.
    pub differs: Vec<String>,
    /// Chain of the fork.
    pub chain: String,
    /// Chain of the run that the fork started from.
    pub parent_chain: Option<String>,
    /// Distance from the root.
    pub depth: u32,
}

impl ForkReport {
    /// Logs the report as one line.
    pub(crate) fn log(&self, run: &RunId) {
        tracing::info!(%run, event = %serde_json::to_string(self).unwrap_or_default(), "fork ended");
    }
}
