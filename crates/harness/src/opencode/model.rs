//! Models as `PROVIDER/MODEL`, in OpenCode's notation.

use serde_json::{Value, json};

use crate::adapter::Endpoints;
use crate::error::HarnessError;

/// The API of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// `anthropic/…`: Anthropic Messages.
    Anthropic,
    /// `openai/…`: OpenAI Responses.
    OpenAi,
    /// `compatible/…`: OpenAI Chat Completions, as most other providers offer it.
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
    /// Parses `PROVIDER/MODEL`.
    pub(super) fn of(name: &str) -> Result<Self, HarnessError> {
        let wrong = || {
            HarnessError::usage(
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

    /// Returns `PROVIDER/MODEL`.
    pub(super) fn name(&self) -> String {
        format!("{}/{}", self.provider, self.id)
    }

    /// The AI SDK package that calls it, and the variable of its key.
    fn package(&self) -> (&'static str, &'static str) {
        match self.dialect {
            Dialect::Anthropic => ("@ai-sdk/anthropic", "ANTHROPIC_API_KEY"),
            Dialect::OpenAi => ("@ai-sdk/openai", "OPENAI_API_KEY"),
            Dialect::Compatible => ("@ai-sdk/openai-compatible", "OPENAI_API_KEY"),
        }
    }

    /// The provider's section of `opencode.json`.
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
        match self.dialect {
            // An empty object keeps OpenCode's data of a known model and defines an unknown one.
            Dialect::Anthropic | Dialect::OpenAi => json!({ "options": options, "models": { &self.id: {} } }),
            Dialect::Compatible => json!({
                "npm": self.package().0,
                "name": "Chat Completions",
                "options": options,
                "models": { &self.id: { "name": &self.id, "tool_call": true, "limit": LIMIT.json() } },
            }),
        }
    }

    /// A model list with only this model, for versions without a built-in list.
    pub(super) fn list(&self) -> Value {
        let (npm, variable) = self.package();
        let model = json!({
            "id": &self.id,
            "name": &self.id,
            "release_date": "2025-01-01",
            "attachment": false,
            "reasoning": false,
            "temperature": true,
            "tool_call": true,
            "limit": LIMIT.json(),
            "cost": { "input": 0, "output": 0 },
            "options": {},
        });
        let provider = json!({
            "id": &self.provider,
            "name": &self.provider,
            "env": [variable],
            "npm": npm,
            "models": { &self.id: model },
        });
        json!({ &self.provider: provider })
    }
}

/// Default limits for models without known ones.
struct Limit {
    context: u32,
    output: u32,
}

const LIMIT: Limit = Limit { context: 200_000, output: 16_000 };

impl Limit {
    fn json(&self) -> Value {
        json!({ "context": self.context, "output": self.output })
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
