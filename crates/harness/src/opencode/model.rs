//! Models by `PROVIDER/MODEL`, as OpenCode itself names them.

use serde_json::{Value, json};

use crate::adapter::Endpoints;
use crate::error::HarnessError;

/// How a model is asked: each speaks another dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// `anthropic/…`: Anthropic Messages.
    Anthropic,
    /// `openai/…`: OpenAI Responses.
    OpenAi,
    /// `compatible/…`: OpenAI Chat Completions, as most other providers have it.
    Compatible,
}

/// A model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Model {
    pub(super) dialect: Dialect,
    pub(super) provider: String,
    pub(super) id: String,
}

impl Model {
    /// Reads `PROVIDER/MODEL`.
    pub(super) fn of(name: &str) -> Result<Self, HarnessError> {
        let wrong = || {
            HarnessError::you(
                format!("`{name}` is not a model that OpenCode can be recorded with"),
                "write `anthropic/MODEL`, `openai/MODEL` (the Responses API) or `compatible/MODEL` (Chat Completions)",
            )
        };
        let (provider, id) = name.split_once('/').filter(|(_, id)| !id.is_empty()).ok_or_else(wrong)?;
        let dialect = match provider {
            "anthropic" => Dialect::Anthropic,
            "openai" => Dialect::OpenAi,
            "compatible" => Dialect::Compatible,
            _ => return Err(wrong()),
        };
        Ok(Self { dialect, provider: provider.to_owned(), id: id.to_owned() })
    }

    /// `PROVIDER/MODEL`.
    pub(super) fn name(&self) -> String {
        format!("{}/{}", self.provider, self.id)
    }

    /// The provider's part of `opencode.json`.
    pub(super) fn provider_settings(&self, endpoints: &Endpoints) -> Value {
        let options = match self.dialect {
            Dialect::Anthropic => json!({
                "baseURL": format!("{}/v1", endpoints.anthropic),
                "apiKey": endpoints.anthropic_key,
            }),
            Dialect::OpenAi | Dialect::Compatible => {
                json!({ "baseURL": endpoints.openai, "apiKey": endpoints.openai_key })
            }
        };
        // An empty model keeps what OpenCode knows of it, and makes it exist where it knows nothing.
        let known = json!({});
        match self.dialect {
            Dialect::Anthropic | Dialect::OpenAi => {
                json!({ "options": options, "models": { &self.id: known } })
            }
            Dialect::Compatible => json!({
                "npm": "@ai-sdk/openai-compatible",
                "name": "Chat Completions",
                "options": options,
                "models": { &self.id: {
                    "name": &self.id,
                    "tool_call": true,
                    "limit": { "context": 200_000, "output": 16_000 },
                } },
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_names_its_provider() {
        let of = |name: &str| Model::of(name).map(|model| (model.dialect, model.id));
        assert_eq!(of("anthropic/claude-x").expect("known"), (Dialect::Anthropic, "claude-x".to_owned()));
        assert_eq!(
            of("compatible/vendor/model").expect("known"),
            (Dialect::Compatible, "vendor/model".to_owned())
        );
        for wrong in ["haiku", "openai/", "elsewhere/model", ""] {
            let error = of(wrong).expect_err(wrong);
            assert!(error.hint().expect("a hint").contains("compatible/MODEL"), "{error}");
        }
    }
}
