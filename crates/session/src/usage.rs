//! What a model call consumed.

use serde::{Deserialize, Serialize};

/// Tokens of one model call, in disjoint parts: nothing is counted under two names.
///
/// Providers disagree on whether cached tokens are included in the input; the dialects translate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Input tokens that were neither read from nor written to the prompt cache.
    pub input: u64,
    /// Output tokens, reasoning included.
    pub output: u64,
    /// Input tokens read from the prompt cache.
    pub cache_read: u64,
    /// Input tokens written to the prompt cache for five minutes, or for the provider's only term.
    pub cache_write_5m: u64,
    /// Input tokens written to the prompt cache for an hour.
    pub cache_write_1h: u64,
    /// The part of `output` that was reasoning, where the provider says so.
    pub reasoning: u64,
}

impl Usage {
    /// All input tokens, however they were billed.
    pub fn input_total(&self) -> u64 {
        let cached = self.cache_read.saturating_add(self.cache_write_5m).saturating_add(self.cache_write_1h);
        self.input.saturating_add(cached)
    }

    /// Whether the provider said what was used: no request is without input.
    pub fn is_reported(&self) -> bool {
        self.input_total() > 0
    }

    /// The part of what was sent that a cache had; nothing where nothing was sent.
    pub fn hit_rate(&self) -> Option<f64> {
        let all = self.input_total();
        (all > 0).then(|| self.cache_read as f64 / all as f64)
    }
}

impl std::ops::AddAssign for Usage {
    /// A provider may write any number; a sum that is too large stays at the largest.
    fn add_assign(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write_5m = self.cache_write_5m.saturating_add(other.cache_write_5m);
        self.cache_write_1h = self.cache_write_1h.saturating_add(other.cache_write_1h);
        self.reasoning = self.reasoning.saturating_add(other.reasoning);
    }
}
