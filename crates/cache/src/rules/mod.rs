//! Each provider's rules, as data: one dated row for each family of models that has its own.
//!
//! Start at [`CacheRules::of`]. Shortest prefixes and prices are `session`'s, whose table is dated too.

mod table;

use session::model::{Model, Vendor};
use wire::dialect::Dialect;

use crate::prompt::Section;

/// Where nobody says how long a prefix must be.
const USUAL_MINIMUM: u64 = 1_024;

/// A key that says nothing to the model: it decides which machine is asked, and so what is there to be read.
pub(crate) const ROUTE: &str = "/prompt_cache_key";

/// What one provider's cache does with the prompts of some models.
#[derive(Debug, PartialEq)]
pub struct CacheRules {
    /// As in `Anthropic`.
    pub name: &'static str,
    /// Whose models.
    pub vendor: Vendor,
    /// The families it is for, as `session`'s table has them; all that no other row names where there is none.
    pub families: &'static [&'static str],
    /// The month of the documentation that says so.
    pub documented: &'static str,
    /// What is written, when it is read again, and for how long.
    pub keeps: StoragePolicy,
    /// Members of the body that are part of the key, and from which section on.
    pub keys: &'static [(&'static str, Section)],
    /// Whether the definition of a tool that is deferred stands in the prefix.
    pub deferred: DeferredPlacement,
    /// What becomes of earlier thinking when the user speaks again.
    pub thinking: ThinkingPolicy,
}

/// What is kept of a prompt.
#[derive(Debug, PartialEq)]
pub enum StoragePolicy {
    /// The prefix up to each marked block, whole or not at all.
    Marked {
        /// How many markers of a request are written; the latest count.
        slots: usize,
        /// Where earlier writes are looked for.
        reads: LookupPolicy,
        /// What happens without a marker.
        unmarked: UnmarkedPolicy,
        /// How long an entry lives since it was last read, in seconds: usually, and where a marker says `1h`.
        terms: (u64, u64),
    },
    /// Every prefix, in steps of so many tokens; nothing is charged for it.
    Steps {
        /// Tokens in a step.
        step: u64,
        /// How long an entry lives since it was last read, in seconds: usually, and with `prompt_cache_retention`.
        terms: (u64, u64),
    },
}

/// Where a marked request looks for what was written before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupPolicy {
    /// At each marker, and at so many positions before it, the marker's own included.
    LookBack {
        /// How many.
        positions: usize,
        /// Whether tool calls in a row are one position, and tool results in a row.
        runs_are_one: bool,
    },
    /// At so many of the latest markers, and nowhere else.
    Markers {
        /// How many.
        latest: usize,
    },
}

/// What happens to a request without a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnmarkedPolicy {
    /// Nothing is written or read.
    Nothing,
    /// The provider puts a marker behind each message, unless `prompt_cache_options.mode` is `explicit`.
    Implicit,
}

/// Where the definition of a deferred tool stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeferredPlacement {
    /// Among the tools, as any other.
    Inside,
    /// Not in the prefix: it comes with the result of the search that finds it.
    Outside,
}

/// What becomes of earlier thinking when the user speaks again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThinkingPolicy {
    /// It stays.
    Kept,
    /// It is taken out, so that everything behind it is another prefix.
    Dropped,
}

impl CacheRules {
    /// The rules for a model that is asked in some dialect. Whoever speaks Anthropic's dialect is taken to cache as
    /// Anthropic does, unless the model is known to be another vendor's.
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

    /// All rows.
    pub fn all() -> &'static [Self] {
        table::RULES
    }

    /// The shortest prefix that is kept of a model's prompts, in tokens.
    pub fn minimum(model: &str) -> u64 {
        Model::find(model).map_or(USUAL_MINIMUM, |model| model.cache_minimum)
    }

    /// How long an entry lives, in microseconds.
    pub(crate) fn term(&self, is_long: bool) -> u64 {
        let (usual, long) = match self.keeps {
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
        for family in CacheRules::all().iter().flat_map(|rules| rules.families) {
            let model = Model::find(family).map(|model| model.family);
            assert_eq!(model, Some(*family), "`session` has no such family");
        }
    }
}
