//! Token usage of a model call.

use serde::{Deserialize, Serialize};

/// Tokens of one model call. The parts are disjoint: no token is counted in two of them.
///
/// Providers disagree on whether cached tokens are a part of the input. The dialects in `wire` convert their
/// counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Input tokens that were neither read from nor written to the prompt cache.
    pub input: u64,
    /// Output tokens, reasoning included.
    pub output: u64,
    /// Input tokens read from the prompt cache.
    pub cache_read: u64,
    /// Input tokens written to the prompt cache for five minutes, or for the provider's only lifetime.
    pub cache_write_5m: u64,
    /// Input tokens written to the prompt cache for an hour.
    pub cache_write_1h: u64,
    /// The part of `output` that was reasoning, if the provider reports it.
    pub reasoning: u64,
}

impl Usage {
    /// Returns the number of all input tokens, whatever their price.
    pub fn input_total(&self) -> u64 {
        let cached = self.cache_read.saturating_add(self.cache_write_5m).saturating_add(self.cache_write_1h);
        self.input.saturating_add(cached)
    }

    /// Returns true if the provider reported the usage. Every request has input tokens.
    pub fn is_reported(&self) -> bool {
        self.input_total() > 0
    }

    /// Returns the share of the input that was read from the cache, or `None` if there was no input.
    pub fn hit_rate(&self) -> Option<f64> {
        let all = self.input_total();
        (all > 0).then(|| self.cache_read as f64 / all as f64)
    }
}

impl std::ops::AddAssign for Usage {
    /// Adds with saturation, because a provider may report any number.
    fn add_assign(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write_5m = self.cache_write_5m.saturating_add(other.cache_write_5m);
        self.cache_write_1h = self.cache_write_1h.saturating_add(other.cache_write_1h);
        self.reasoning = self.reasoning.saturating_add(other.reasoning);
    }
}
