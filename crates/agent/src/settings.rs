//! What a run was started with, as far as resuming it needs to know.

use serde::{Deserialize, Serialize};
use wire::dialect::Dialect;

use crate::error::RunError;
use crate::permission::List;

/// The format that is written here.
const FORMAT: u32 = 1;

/// A run's own settings. They are stored with it, so that it goes on as it began, whatever the configuration says then.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSettings {
    format: u32,
    dialect: Spoken,
    /// How many replies it may have before its last one.
    pub max_steps: u32,
    /// What it may cost.
    pub max_budget_microusd: Option<i64>,
    /// From how many tokens on older messages are replaced by a summary.
    pub compact_at: u64,
    /// What opens the conversation; repeated behind a summary.
    pub context: String,
    /// The folder it works in.
    pub workspace: String,
    /// The output limit, for what a call may cost at most.
    pub max_tokens: u64,
    /// How many tokens it may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_budget_tokens: Option<u64>,
    /// What its answer must be, as a JSON schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<serde_json::Value>,
    /// What else is said of a fork.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<ForkSettings>,
    /// What its agent is told beside what every agent is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// The only tools that it has; all of them where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// What its agent's description asks about and forbids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<(List, String)>,
}

/// The dialect, as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Spoken {
    Anthropic,
    OpenaiChat,
    OpenaiResponses,
}

impl RunSettings {
    /// The settings of a new run.
    pub(crate) fn new(dialect: Dialect, limits: &RunLimits, context: String, workspace: String) -> Self {
        let dialect = match dialect {
            Dialect::AnthropicMessages => Spoken::Anthropic,
            Dialect::OpenAiChat => Spoken::OpenaiChat,
            Dialect::OpenAiResponses => Spoken::OpenaiResponses,
        };
        Self {
            format: FORMAT,
            dialect,
            max_steps: limits.max_steps,
            max_budget_microusd: limits.max_budget_microusd,
            compact_at: limits.compact_at,
            context,
            workspace,
            max_tokens: limits.max_tokens,
            max_budget_tokens: limits.max_budget_tokens,
            output_schema: None,
            fork: None,
            instructions: None,
            tools: None,
            rules: Vec::new(),
        }
    }

    /// The dialect that the stored messages are written in.
    pub fn dialect(&self) -> Dialect {
        match self.dialect {
            Spoken::Anthropic => Dialect::AnthropicMessages,
            Spoken::OpenaiChat => Dialect::OpenAiChat,
            Spoken::OpenaiResponses => Dialect::OpenAiResponses,
        }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers, words and strings are always JSON")
    }

    /// The settings of a run.
    pub(crate) fn of(row: &store::Run) -> Result<Self, RunError> {
        Self::from_bytes(&row.settings).map_err(|source| RunError::Settings { run: row.id.clone(), source })
    }

    /// The settings as they were stored.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(bytes)
    }
}

/// The settings that only a fork has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ForkSettings {
    pub(crate) reminder: Option<String>,
    pub(crate) max_output_tokens: Option<u64>,
    #[serde(rename = "writes_cache")]
    pub(crate) write_cache: bool,
    #[serde(rename = "keeps_transcript")]
    pub(crate) keep_transcript: bool,
    pub(crate) always_ask: bool,
    pub(crate) allow: Vec<String>,
}

/// How far a run may go.
#[derive(Clone, Debug, PartialEq)]
pub struct RunLimits {
    /// How many replies before the last one.
    pub max_steps: u32,
    /// What it may cost.
    pub max_budget_microusd: Option<i64>,
    /// How many tokens it may use.
    pub max_budget_tokens: Option<u64>,
    /// From how many tokens on older messages are replaced by a summary.
    pub compact_at: u64,
    /// The output limit of one reply.
    pub max_tokens: u64,
}

impl RunLimits {
    /// How many replies a main agent may have.
    pub const MAIN_STEPS: u32 = 100;
    /// How many a sub-agent may have.
    pub const SUB_STEPS: u32 = 50;

    /// The usual limits for a model: older messages go when four fifths of its context are full.
    pub fn of(model: &str) -> Self {
        let known = session::model::Model::find(model);
        let context = known.map_or(UNKNOWN_CONTEXT, |model| model.context);
        let max_tokens = known.map_or(UNKNOWN_OUTPUT, |model| model.max_output);
        Self {
            max_steps: Self::MAIN_STEPS,
            max_budget_microusd: None,
            max_budget_tokens: None,
            compact_at: context / 5 * 4,
            max_tokens,
        }
    }
}

/// What even small models can take.
const UNKNOWN_CONTEXT: u64 = 128_000;
const UNKNOWN_OUTPUT: u64 = 8_192;
