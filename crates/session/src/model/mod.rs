//! Models: their limits, abilities and prices, in a table that states its date.
//!
//! Start at [`Model::find`], and at [`settings_for`] for the settings of a request. A model that rejects a setting does
//! not get it. An unknown Claude model gets those of the newest ones; any other unknown model gets none.

mod price;
mod table;

use std::fmt;

pub use price::{Price, price};

/// The month of the table's limits and list prices. Providers change them without notice.
pub const TABLE_MONTH: &str = "2026-11";

/// One family of models.
#[derive(Debug, PartialEq)]
pub struct Model {
    /// The part of a model's id that identifies the family, in lower case, with `-` for every `.`.
    pub family: &'static str,
    /// The vendor.
    pub vendor: Vendor,
    /// The tier, if the vendor has tiers.
    pub tier: Option<Tier>,
    /// The control that a request has over thinking.
    pub thinking: ThinkingControl,
    /// The accepted levels of effort, in ascending order. Empty if the model accepts none.
    pub efforts: &'static [Effort],
    /// The shortest prefix that the prompt cache stores, in tokens.
    pub cache_minimum: u64,
    /// The size of the context window, in tokens.
    pub context: u64,
    /// The maximum length of one reply, in tokens.
    pub max_output: u64,
    /// True if the model accepts images.
    pub images: bool,
    /// The price.
    pub price: Price,
}

/// A vendor of models.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Vendor {
    /// Anthropic, or another provider that uses its dialect.
    Anthropic,
    /// OpenAI, or another provider that uses one of its dialects.
    OpenAi,
}

/// A class of models by purpose. Each vendor has one model for each tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tier {
    /// The most capable model.
    Opus,
    /// The model for most work.
    Sonnet,
    /// The fastest and cheapest model.
    Haiku,
}

impl Tier {
    /// All tiers, the most capable first.
    pub const ALL: [Self; 3] = [Self::Opus, Self::Sonnet, Self::Haiku];

    /// Returns the tier with the given name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tier| tier.name() == name)
    }

    /// Returns the name that people write.
    pub fn name(self) -> &'static str {
        match self {
            Self::Opus => "opus",
            Self::Sonnet => "sonnet",
            Self::Haiku => "haiku",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The control that a request has over a model's thinking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThinkingControl {
    /// No control, apart from the effort. Also for models that do not think.
    EffortOnly,
    /// Thinks only if the request gives a token budget.
    Budget,
    /// Thinks adaptively if the request enables it.
    OptIn,
    /// Thinks adaptively unless the request disables it.
    OptOut,
    /// Always thinks adaptively.
    Always,
}

impl ThinkingControl {
    /// Returns true if a request may enable adaptive thinking.
    pub fn accepts_adaptive(self) -> bool {
        matches!(self, Self::OptIn | Self::OptOut | Self::Always)
    }
}

/// The effort that a model spends on a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the providers' words, as they stand")]
pub enum Effort {
    Low,
    Medium,
    High,
    XHigh,
    Max,
}

impl Effort {
    /// Returns the providers' term.
    pub fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::XHigh => "xhigh",
            Self::Max => "max",
        }
    }
}

/// The kind of agent that sends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AgentRole {
    /// The main agent.
    Main,
    /// A sub-agent.
    Sub,
}

/// The settings of a request that control the reply. A `None` is not sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelSettings {
    /// The thinking mode.
    pub thinking: Option<Thinking>,
    /// The effort.
    pub effort: Option<Effort>,
    /// The output limit, in tokens.
    pub max_tokens: Option<u64>,
}

/// The thinking mode of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thinking {
    /// The model decides how much it thinks.
    Adaptive,
    /// The model does not think.
    Off,
}

impl Model {
    /// Finds the family of a model by a part of its id. The id may have a provider before that part and a date
    /// after it.
    pub fn find(id: &str) -> Option<&'static Self> {
        let id = id.to_ascii_lowercase().replace('.', "-");
        table::MODELS.iter().find(|model| contains_name(&id, model.family))
    }

    /// Returns false for a family without a number, which is for models that are newer than the table.
    pub fn is_exact(&self) -> bool {
        self.family.contains(|c: char| c.is_ascii_digit())
    }

    /// Returns the highest accepted effort that does not exceed `wanted`.
    pub fn effort(&self, wanted: Effort) -> Option<Effort> {
        self.efforts.iter().copied().filter(|effort| *effort <= wanted).max()
    }
}

/// Returns true if an id contains a family name as a word of its own.
///
/// A digit after the name makes it another name: `gpt-5-2025-08-07` is not GPT 5.2. Before a name as short as `o3`
/// only a provider is allowed: `my-o3-distill` is another model.
fn contains_name(id: &str, part: &str) -> bool {
    let is_short = part.starts_with(['o']) && part[1..].starts_with(|c: char| c.is_ascii_digit());
    id.match_indices(part).any(|(at, _)| {
        let (before, behind) = (&id[..at], &id[at + part.len()..]);
        !before.ends_with(|c: char| c.is_ascii_alphanumeric() || is_short && c == '-')
            && !behind.starts_with(|c: char| c.is_ascii_digit())
    })
}

/// Returns true if a model accepts images. An unknown model gets none: if it does not accept images, it refuses
/// every later request of the conversation, too.
pub fn accepts_images(id: &str) -> bool {
    Model::find(id).is_some_and(|model| model.images)
}

/// Returns true if a model is known to reason. Other models refuse a request for their reasoning.
pub fn is_reasoning_model(id: &str) -> bool {
    let is_codex = || contains_name(&id.to_ascii_lowercase(), "codex");
    Model::find(id).map_or_else(is_codex, |model| !model.efforts.is_empty())
}

/// Returns the vendor's model for a tier.
pub fn model_for_tier(vendor: Vendor, tier: Tier) -> &'static str {
    match (vendor, tier) {
        (Vendor::Anthropic, Tier::Opus) => "claude-opus-5-5",
        (Vendor::Anthropic, Tier::Sonnet) => "claude-sonnet-5-5",
        (Vendor::Anthropic, Tier::Haiku) => "claude-haiku-5-5",
        (Vendor::OpenAi, Tier::Opus) => "gpt-5.6-sol",
        (Vendor::OpenAi, Tier::Sonnet) => "gpt-5.6-terra",
        (Vendor::OpenAi, Tier::Haiku) => "gpt-5.6-luna",
    }
}

/// Output limits that fit a long file and the thinking before it. A higher limit would only reserve more of a
/// budget.
const MAX_TOKENS: [(AgentRole, u64); 2] = [(AgentRole::Main, 64_000), (AgentRole::Sub, 32_000)];

/// An output limit that every model with Anthropic's dialect accepts.
const MAX_TOKENS_OF_UNKNOWN: u64 = 8_192;

/// Returns the settings of a request to a model, as far as the model supports them: effort `xhigh` for the main
/// agent and `high` for a sub-agent, adaptive thinking, and no thinking on Haiku. An output limit is set if the
/// dialect requires one. An unknown Claude model is assumed to think adaptively, as all new ones do.
pub fn settings_for(id: &str, dialect_of: Vendor, role: AgentRole) -> ModelSettings {
    let must_limit = dialect_of == Vendor::Anthropic;
    let Some(model) = Model::find(id) else {
        let is_claude = must_limit && contains_name(&id.to_ascii_lowercase(), "claude");
        return ModelSettings {
            thinking: is_claude.then_some(Thinking::Adaptive),
            effort: is_claude.then_some(Effort::High),
            max_tokens: must_limit.then_some(MAX_TOKENS_OF_UNKNOWN),
        };
    };
    let quick = model.tier == Some(Tier::Haiku);
    // A provider that translates between the dialects of two vendors may not support these settings.
    let native = model.vendor == dialect_of;
    let thinking = match model.thinking {
        ThinkingControl::OptOut if native && quick => Some(Thinking::Off),
        thinking if thinking.accepts_adaptive() && native && !quick => Some(Thinking::Adaptive),
        _ => None,
    };
    let wanted = match role {
        // The provider refuses a higher effort if thinking is off.
        AgentRole::Main if thinking == Some(Thinking::Off) => Effort::High,
        AgentRole::Main => Effort::XHigh,
        AgentRole::Sub => Effort::High,
    };
    let limit = MAX_TOKENS.iter().find(|(known, _)| *known == role).map(|(_, limit)| *limit);
    ModelSettings {
        thinking,
        effort: model.effort(wanted).filter(|_| native),
        max_tokens: limit.filter(|_| must_limit).map(|limit| limit.min(model.max_output)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_found_by_the_longest_matching_name() {
        let cases = [
            ("claude-opus-5-5", Some("opus-5-5")),
            ("anthropic/claude-opus-4.8", Some("opus-4-8")),
            ("us.anthropic.claude-opus-4-6-v1:0", Some("opus-4-6")),
            ("claude-opus-4-20250514", Some("opus-4")),
            ("claude-opus-4-1-20250805", Some("opus-4-1")),
            ("Claude-Sonnet-4-20250514", Some("sonnet-4")),
            ("claude-3-5-haiku-latest", Some("3-5-haiku")),
            ("claude-opus-7", Some("opus")),
            ("gpt-5-2025-08-07", Some("gpt-5")),
            ("gpt-5.2-2025-12-11", Some("gpt-5-2")),
            ("openai/gpt-5.6", Some("gpt-5-6")),
            ("o3", Some("o3")),
            ("openai/o3-2025-04-16", Some("o3")),
            ("o3-pro", Some("o3-pro")),
            ("my-o3-distill", None),
            ("gpt-5-chat-latest", Some("gpt-5-chat")),
            ("gpt-5.2-chat-latest", Some("gpt-5-2-chat")),
            ("proto3", None),
            ("octopus", None),
            ("mystery-1", None),
        ];
        for (id, family) in cases {
            assert_eq!(Model::find(id).map(|model| model.family), family, "{id}");
        }
    }

    #[test]
    fn every_family_is_reachable_and_valid() {
        for model in table::MODELS {
            assert_eq!(
                Model::find(model.family).map(|m| m.family),
                Some(model.family),
                "hidden by an earlier"
            );
            assert!(model.efforts.is_sorted(), "{}", model.family);
            assert!(model.max_output < model.context, "{}", model.family);
        }
    }

    #[test]
    fn tiers_are_models_of_the_table() {
        for vendor in [Vendor::Anthropic, Vendor::OpenAi] {
            for wanted in Tier::ALL {
                let model = Model::find(model_for_tier(vendor, wanted)).expect("known");
                assert_eq!((model.vendor, model.tier), (vendor, Some(wanted)));
                assert_eq!(Tier::named(wanted.name()), Some(wanted));
            }
        }
    }

    #[test]
    fn the_cache_minimums_are_those_of_the_providers() {
        let cases = [
            (512, "claude-opus-5 claude-fable-5 claude-mythos-5"),
            (1024, "claude-opus-4-8 claude-opus-4-1 claude-opus-4 claude-sonnet-5 claude-sonnet-4-6"),
            (1024, "claude-sonnet-4-5 claude-sonnet-4 gpt-5.5"),
            (2048, "claude-opus-4-7 claude-3-5-haiku"),
            (4096, "claude-opus-4-6 claude-opus-4-5 claude-haiku-4-5"),
        ];
        for (minimum, ids) in cases {
            for id in ids.split(' ') {
                assert_eq!(Model::find(id).expect("known").cache_minimum, minimum, "{id}");
            }
        }
    }

    #[test]
    fn reasoning_models_are_known_by_family() {
        for id in
            ["gpt-5", "gpt-5.9-next", "gpt-5.3-codex", "o1", "openai/o3-mini", "o4-mini", "codex-mini-latest"]
        {
            assert!(is_reasoning_model(id), "{id}");
        }
        for id in
            ["gpt-4-turbo", "gpt-4", "chatgpt-4o-latest", "gpt-3.5-turbo", "gpt-5-chat-latest", "mystery-1"]
        {
            assert!(!is_reasoning_model(id), "{id}");
        }
    }

    #[test]
    fn unsupported_settings_are_not_sent() {
        let case = |id: &str, vendor, role| {
            let ModelSettings { thinking, effort, max_tokens } = settings_for(id, vendor, role);
            (thinking, effort.map(Effort::name), max_tokens)
        };
        use AgentRole::{Main, Sub};
        use Thinking::{Adaptive, Off};
        use Vendor::{Anthropic, OpenAi};
        assert_eq!(case("claude-opus-5", Anthropic, Main), (Some(Adaptive), Some("xhigh"), Some(64_000)));
        assert_eq!(case("claude-opus-5", Anthropic, Sub), (Some(Adaptive), Some("high"), Some(32_000)));
        assert_eq!(case("claude-opus-4-6", Anthropic, Main), (Some(Adaptive), Some("high"), Some(64_000)));
        assert_eq!(case("claude-opus-4-5", Anthropic, Main), (None, Some("high"), Some(64_000)));
        assert_eq!(case("claude-sonnet-4-5", Anthropic, Main), (None, None, Some(64_000)));
        assert_eq!(case("claude-haiku-4-5", Anthropic, Main), (None, None, Some(64_000)));
        assert_eq!(case("claude-haiku-5-5", Anthropic, Main), (Some(Off), Some("high"), Some(64_000)));
        assert_eq!(case("claude-3-5-haiku-latest", Anthropic, Sub), (None, None, Some(8_192)));
        assert_eq!(case("gpt-5.6-sol", OpenAi, Main), (None, Some("xhigh"), None));
        assert_eq!(case("gpt-5.1", OpenAi, Main), (None, Some("high"), None));
        assert_eq!(case("gpt-4.1", OpenAi, Main), (None, None, None));
        assert_eq!(case("gpt-5.2-chat-latest", OpenAi, Main), (None, None, None));
        assert!(
            accepts_images("claude-opus-5") && !accepts_images("o3-mini") && !accepts_images("mystery-1")
        );
        assert_eq!(case("anthropic/claude-opus-5", OpenAi, Main), (None, None, None));
        assert_eq!(case("gpt-5.6-sol", Anthropic, Sub), (None, None, Some(32_000)));
        assert_eq!(case("mystery-1", Anthropic, Main), (None, None, Some(8_192)));
        assert_eq!(case("mystery-1", OpenAi, Sub), (None, None, None));
        // Newer than the table: as the newest models that it knows.
        assert_eq!(case("claude-opus-9", Anthropic, Main), (Some(Adaptive), Some("high"), Some(32_000)));
        assert_eq!(case("claude-chorus-1", Anthropic, Sub), (Some(Adaptive), Some("high"), Some(8_192)));
        assert_eq!(case("claude-chorus-1", OpenAi, Main), (None, None, None));
        assert_eq!(case("claude-haiku-9", Anthropic, Main), (None, None, Some(8_192)));
        assert_eq!(case("claude-3-opus-20240229", Anthropic, Main), (None, None, Some(4_096)));
    }
}
