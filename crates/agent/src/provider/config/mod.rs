//! The configured providers: built-in, from the environment, and from `offshoot.toml`.
//!
//! The environment is a lookup function. For the built-in providers, its base URL overrides a file's. A key
//! variable or key file that a file names overrides the built-in ones.

mod choose;
mod file;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use session::model::Tier;
use thiserror::Error;
use wire::dialect::Dialect;

use super::attempt::ProviderClient;
use super::endpoint::{EndpointError, endpoint};
use super::network::ConnectionPool;
use super::response::ResponseLimits;
use super::secret::{ApiKey, KeyHeader, Secret};

/// Looks up an environment variable.
pub type EnvLookup = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// The configured providers.
#[derive(Clone)]
pub struct ProviderConfig {
    entries: BTreeMap<String, Entry>,
    env: EnvLookup,
    network: ConnectionPool,
    limits: ResponseLimits,
}

impl fmt::Debug for ProviderConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config").field("entries", &self.entries).finish_non_exhaustive()
    }
}

/// The description of one provider.
#[derive(Clone, Debug)]
struct Entry {
    dialect: Dialect,
    base_url: String,
    /// Variables that may hold the key, and the header for each. The first variable that is set counts.
    key_env: Vec<(String, KeyHeader)>,
    key_file: Option<PathBuf>,
    /// The variable that may hold another base URL.
    base_env: Option<&'static str>,
    headers: HeaderMap,
    models: BTreeMap<Tier, String>,
    /// Maximum time without a byte, if it is not the default.
    idle: Option<Duration>,
}

/// A mistake in the configuration of providers, or in the choice of a model.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// A mistake in a file.
    #[error("`{}`, line {line}: {why}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The message.
        why: String,
        /// The expected content.
        hint: Option<String>,
    },
    /// A setting of a project that needs the user's acceptance.
    #[error("`{}`, line {line}: {why}", file.display())]
    NotAccepted {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The setting.
        why: String,
    },
    /// A base URL that cannot be used.
    #[error("cannot use the base URL of provider `{provider}`")]
    BaseUrl {
        /// The provider.
        provider: String,
        /// Advice.
        hint: String,
        /// The reason.
        #[source]
        source: EndpointError,
    },
    /// No key is available.
    #[error("no key for provider `{provider}`")]
    NoKey {
        /// The provider.
        provider: String,
        /// Advice.
        hint: String,
    },
    /// No provider is known for the model.
    #[error("no provider is known for the model `{model}`")]
    NoProvider {
        /// The model.
        model: String,
        /// Advice.
        hint: String,
    },
    /// No provider has this name.
    #[error("no provider `{provider}`")]
    UnknownProvider {
        /// The name.
        provider: String,
        /// Advice.
        hint: String,
    },
    /// A provider without a model for a tier.
    #[error("provider `{provider}` has no model for the tier `{tier}`")]
    NoTier {
        /// The provider.
        provider: String,
        /// The tier.
        tier: Tier,
    },
}

impl ConfigError {
    /// Returns advice for the user.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoKey { hint, .. }
            | Self::NoProvider { hint, .. }
            | Self::UnknownProvider { hint, .. }
            | Self::BaseUrl { hint, .. } => Some(hint.clone()),
            Self::NoTier { provider, tier } => {
                Some(format!("add `models = {{ {tier} = \"…\" }}` to `[providers.{provider}]`"))
            }
            Self::NotAccepted { .. } => Some(
                "read the file; if you want what it says: `offshoot agents accept offshoot.toml`".to_owned(),
            ),
            Self::File { hint, .. } => hint.clone(),
        }
    }
}

impl ProviderConfig {
    /// Returns the built-in providers, `anthropic` and `openai`.
    pub fn new(env: EnvLookup) -> Self {
        let keys =
            |list: &[(&str, KeyHeader)]| list.iter().map(|(name, how)| ((*name).to_owned(), *how)).collect();
        let anthropic = Entry {
            dialect: Dialect::AnthropicMessages,
            base_url: "https://api.anthropic.com".to_owned(),
            // If a token and a key are set, the token counts, as in Claude Code.
            key_env: keys(&[
                ("ANTHROPIC_AUTH_TOKEN", KeyHeader::Bearer),
                ("ANTHROPIC_API_KEY", KeyHeader::ApiKey),
            ]),
            key_file: None,
            base_env: Some("ANTHROPIC_BASE_URL"),
            headers: HeaderMap::new(),
            models: BTreeMap::new(),
            idle: None,
        };
        let openai = Entry {
            dialect: Dialect::OpenAiResponses,
            base_url: "https://api.openai.com/v1".to_owned(),
            key_env: keys(&[("OPENAI_API_KEY", KeyHeader::Bearer)]),
            base_env: Some("OPENAI_BASE_URL"),
            ..anthropic.clone()
        };
        let entries = [("anthropic".to_owned(), anthropic), ("openai".to_owned(), openai)].into();
        Self { entries, env, network: ConnectionPool::new(), limits: ResponseLimits::default() }
    }

    /// Sets the limits of all providers.
    pub fn with_limits(self, limits: ResponseLimits) -> Self {
        Self { limits, ..self }
    }

    /// Adds the `[providers]` of a file. A later file overrides an earlier one. Other tables are ignored.
    pub fn read(&mut self, text: &str, file: &Path) -> Result<(), ConfigError> {
        file::read(&mut self.entries, text, file, &self.env)
    }

    fn var(&self, name: &str) -> Option<String> {
        (self.env)(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    }

    fn key(&self, entry: &Entry) -> Option<(ApiKey, KeyHeader)> {
        let set = entry.key_env.iter().find_map(|(name, how)| Some((name, self.var(name)?, *how)));
        let by_dialect = key_header(entry.dialect);
        match (set, &entry.key_file) {
            (_, Some(file)) => Some((ApiKey::File(file.clone()), by_dialect)),
            (Some((from, value, how)), None) => {
                Some((ApiKey::Known { secret: Secret::new(value), from: from.clone() }, how))
            }
            // No key is configured: the server needs none.
            (None, None) if entry.key_env.is_empty() => Some((ApiKey::None, by_dialect)),
            (None, None) => None,
        }
    }

    /// Returns the client of a provider.
    fn provider(&self, name: &str, entry: &Entry) -> Result<ProviderClient, ConfigError> {
        let from_env = entry.base_env.and_then(|name| Some((name, self.var(name)?)));
        let base = from_env.as_ref().map_or(entry.base_url.as_str(), |(_, base)| base);
        let endpoint = endpoint(base, entry.dialect).map_err(|source| {
            let hint = match &from_env {
                Some((variable, _)) => format!("export {variable}=https://example.com"),
                None => format!("set `base_url` in `[providers.{name}]`, as in `https://example.com/v1`"),
            };
            ConfigError::BaseUrl { provider: name.to_owned(), hint, source }
        })?;
        let (key, key_header) = self.key(entry).ok_or_else(|| {
            let variables: Vec<String> =
                entry.key_env.iter().rev().map(|(name, _)| format!("`{name}`")).collect();
            ConfigError::NoKey { provider: name.to_owned(), hint: set_one_of(&variables) }
        })?;
        Ok(ProviderClient {
            name: name.to_owned(),
            dialect: entry.dialect,
            endpoint,
            headers: entry.headers.clone(),
            key,
            key_header,
            limits: ResponseLimits { idle: entry.idle.unwrap_or(self.limits.idle), ..self.limits },
            network: self.network.clone(),
        })
    }
}

/// Returns advice for a missing key.
fn set_one_of(variables: &[String]) -> String {
    format!(
        "set {}, or use a script in the model's place: `offshoot run --script FILE …`",
        variables.join(" or ")
    )
}

/// Returns the default header for a key.
fn key_header(dialect: Dialect) -> KeyHeader {
    match dialect {
        Dialect::AnthropicMessages => KeyHeader::ApiKey,
        Dialect::OpenAiChat | Dialect::OpenAiResponses => KeyHeader::Bearer,
    }
}
