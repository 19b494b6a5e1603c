//! The settings of a run, stored with it so that it is resumed as it was started.

use serde::{Deserialize, Serialize};
use wire::dialect::Dialect;

use crate::error::RunError;
use crate::permission::RuleList;

/// The format version.
const FORMAT: u32 = 1;

/// A run's own settings. A resumed run uses them whatever the configuration says then.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSettings {
    format: u32,
    dialect: StoredDialect,
    /// Maximum number of model turns before the last one.
    pub max_steps: u32,
    /// Maximum cost.
    pub max_budget_microusd: Option<i64>,
    /// Number of tokens from which older messages are replaced by a summary.
    pub compact_at: u64,
    /// The context. It is repeated before a summary.
    pub context: String,
    /// The workspace.
    pub workspace: String,
    /// The output limit of a reply.
    pub max_tokens: u64,
    /// Maximum number of tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_budget_tokens: Option<u64>,
    /// JSON schema of its answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<serde_json::Value>,
    /// The settings of a fork.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<ForkSettings>,
    /// The agent's instructions, beside those of every agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// The names of its tools. `None` is all tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// The rules of its agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<(RuleList, String)>,
    /// The user's rules about calls that need a question, as the command line had them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ask: Vec<String>,
}

/// The stored name of a dialect.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum StoredDialect {
    Anthropic,
    OpenaiChat,
    OpenaiResponses,
}

impl RunSettings {
    /// Creates the settings of a new run.
    pub(crate) fn new(dialect: Dialect, limits: &RunLimits, context: String, workspace: String) -> Self {
        let dialect = match dialect {
            Dialect::AnthropicMessages => StoredDialect::Anthropic,
            Dialect::OpenAiChat => StoredDialect::OpenaiChat,
            Dialect::OpenAiResponses => StoredDialect::OpenaiResponses,
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
            ask: Vec::new(),
        }
    }

    /// Returns the dialect of the stored messages.
    pub fn dialect(&self) -> Dialect {
        match self.dialect {
            StoredDialect::Anthropic => Dialect::AnthropicMessages,
            StoredDialect::OpenaiChat => Dialect::OpenAiChat,
            StoredDialect::OpenaiResponses => Dialect::OpenAiResponses,
        }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers and strings are always JSON")
    }

    /// Reads the settings of a run.
    pub(crate) fn of(row: &store::Run) -> Result<Self, RunError> {
        Self::from_bytes(&row.settings).map_err(|source| RunError::Settings { run: row.id.clone(), source })
    }

    /// Reads stored settings.
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
    /// Its agent, if that is not its parent's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) agent: Option<ForkAgent>,
}

/// The agent of a fork, as its settings store it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ForkAgent {
    /// True if the conversation is the main agent's.
    pub(crate) is_main: bool,
    /// The parts of the request head that differ from the parent's, in the order of the cached prefix. Empty if the fork
    /// shares the whole prompt cache.
    pub(crate) differs: Vec<String>,
}

/// The limits of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunLimits {
    /// Maximum number of model turns before the last one.
    pub max_steps: u32,
    /// Maximum cost.
    pub max_budget_microusd: Option<i64>,
    /// Maximum number of tokens.
    pub max_budget_tokens: Option<u64>,
    /// Number of tokens from which older messages are replaced by a summary.
    pub compact_at: u64,
    /// The output limit of a reply.
    pub max_tokens: u64,
}

impl RunLimits {
    /// Default step limit of a main agent.
    pub const MAIN_STEPS: u32 = 100;
    /// Step limit of a sub-agent.
    pub const SUB_STEPS: u32 = 50;

    /// Returns the default limits for a model. A summary is due when four fifths of its context are full.
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

/// Limits of small models.
const UNKNOWN_CONTEXT: u64 = 128_000;
const UNKNOWN_OUTPUT: u64 = 8_192;
