//! Rules of each provider's cache, as a dated table by model family.
//!
//! Start at [`CacheRules::of`]. Minimum lengths and prices are in `session`, whose table is dated, too.

mod table;

use session::model::{Model, Vendor};
use wire::dialect::Dialect;

use crate::section::Section;

/// Minimum length if the model is unknown.
const USUAL_MINIMUM: u64 = 1_024;

/// Key that does not reach the model. It selects the machine, and with it the cache entries.
pub(crate) const ROUTE: &str = "/prompt_cache_key";

/// Rules of one provider's cache for some models.
#[derive(Debug, PartialEq)]
pub struct CacheRules {
    /// Name, such as `Anthropic`.
    pub name: &'static str,
    /// Vendor of the models.
    pub vendor: Vendor,
    /// Model families as in `session`. An empty list means all families without a row.
    pub families: &'static [&'static str],
    /// Month of the documentation.
    pub documented: &'static str,
    /// Policy for writing, reading and expiry.
    pub storage: StoragePolicy,
    /// Members of the body that are part of the key, and the first section that they affect.
    pub keys: &'static [(&'static str, Section)],
    /// Placement of deferred tools' definitions.
    pub deferred: DeferredPlacement,
    /// Policy for earlier thinking when the user speaks again.
    pub thinking: ThinkingPolicy,
}

/// Policy for storing prefixes.
#[derive(Debug, PartialEq)]
pub enum StoragePolicy {
    /// Stores the complete prefix up to each marked block.
    Marked {
        /// Maximum number of markers per request. The latest ones count.
        slots: usize,
        /// Lookup of earlier writes.
        reads: LookupPolicy,
        /// Behaviour without a marker.
        unmarked: UnmarkedPolicy,
        /// Lifetime after a read in seconds: by default, and for markers with `1h`.
        terms: (u64, u64),
    },
    /// Stores every prefix in steps of tokens, without a charge.
    Steps {
        /// Tokens per step.
        step: u64,
        /// Lifetime after a read in seconds: by default, and with `prompt_cache_retention`.
        terms: (u64, u64),
    },
}

/// Lookup of earlier writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupPolicy {
    /// At each marker and at some positions before it.
    LookBack {
        /// Number of positions, including the marker's own.
        positions: usize,
        /// True if consecutive tool calls are one position, and consecutive tool results, too.
        runs_are_one: bool,
    },
    /// Only at the latest markers.
    Markers {
        /// Number of markers.
        latest: usize,
    },
}

/// Behaviour without a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnmarkedPolicy {
    /// Nothing is written or read.
    Nothing,
    /// The provider puts a marker after each message, unless `prompt_cache_options.mode` is `explicit`.
    Implicit,
}

/// Placement of a deferred tool's definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeferredPlacement {
    /// Among the other tools.
    Inside,
    /// Outside the prefix: it comes with the result of the search that finds it.
    Outside,
}

/// Policy for earlier thinking when the user speaks again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThinkingPolicy {
    /// It is kept.
    Kept,
    /// It is removed, which changes the prefix after it.
    Dropped,
}

impl CacheRules {
    /// Returns the rules for a model in a dialect. An unknown model with Anthropic's dialect is assumed to
    /// cache like Anthropic's.
    pub fn of(model: &str, dialect: Dialect) -> &'static Self {
        let known = Model::find(model);
        let spoken = match dialect {
            Dialect::AnthropicMessages => Vendor::Anthropic,
            Dialect::OpenAiChat | Dialect::OpenAiResponses => Vendor::OpenAi,
        };
        let vendor = known.map_or(spoken, |model| model.vendor);
        let family = known.map_or("", |model| model.family);
        let rows = || table::RULES.iter().filter(|rules| rules.vendor == vendor);
        rows()
            .find(|rules| rules.families.contains(&family))
            .or_else(|| rows().find(|rules| rules.families.is_empty()))
            .expect("each vendor has a row for all other families")
    }

    /// Returns all rows.
    pub fn table() -> &'static [Self] {
        table::RULES
    }

    /// Returns the minimum length of a cached prefix in tokens.
    pub fn minimum(model: &str) -> u64 {
        Model::find(model).map_or(USUAL_MINIMUM, |model| model.cache_minimum)
    }

    /// Returns the lifetime of an entry in microseconds.
    pub(crate) fn term(&self, is_long: bool) -> u64 {
        let (usual, long) = match self.storage {
            StoragePolicy::Marked { terms, .. } | StoragePolicy::Steps { terms, .. } => terms,
        };
        (if is_long { long } else { usual }) * 1_000_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_model_has_the_row_of_its_family() {
        let name = |model: &str, dialect| {
            let rules = CacheRules::of(model, dialect);
            (rules.name, rules.thinking == ThinkingPolicy::Dropped)
        };
        let anthropic = Dialect::AnthropicMessages;
        assert_eq!(name("claude-opus-5", anthropic), ("Anthropic", false));
        assert_eq!(name("claude-haiku-5-5", anthropic), ("Anthropic, thinking dropped", true));
        assert_eq!(name("claude-sonnet-4-5-20250929", anthropic), ("Anthropic, thinking dropped", true));
        assert_eq!(name("mystery-1", anthropic), ("Anthropic", false));
        assert_eq!(name("gpt-5.5", Dialect::OpenAiResponses), ("OpenAI, automatic", false));
        assert_eq!(name("gpt-5.6-luna", Dialect::OpenAiResponses), ("OpenAI, by markers", false));
        assert_eq!(name("anthropic/claude-opus-5", Dialect::OpenAiChat), ("Anthropic", false), "by a router");
        assert_eq!(name("mystery-1", Dialect::OpenAiChat), ("OpenAI, automatic", false));
    }

    #[test]
    fn every_family_that_a_row_names_is_one() {
        for family in CacheRules::table().iter().flat_map(|rules| rules.families) {
            let model = Model::find(family).map(|model| model.family);
            assert_eq!(model, Some(*family), "`session` has no such family");
        }
    }
}
