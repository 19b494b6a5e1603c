//! Providers: one HTTP client for every dialect, failures as data, and retry rules.
//!
//! Start at [`ProviderClient::attempt`], which sends one request and reads its response, and at [`ProviderConfig::choose`],
//! which finds the provider of a model. Nothing here sleeps between attempts, reads the environment or keeps
//! state: [`Backoff`] only decides what to do next. The loop stores that in the journal and does it.

mod attempt;
mod backoff;
mod check;
mod config;
mod deltas;
mod endpoint;
mod failure;
mod network;
mod protocol;
mod reading;
mod receive;
mod redactor;
mod response;
mod secret;
mod status;

#[cfg(test)]
pub(crate) mod tests;

use session::model::{self, AgentRole, Vendor};
use wire::dialect::{Dialect, Draft, ThinkingConfig};

pub use attempt::{HttpAttempt, ProviderClient, RequestSender};
pub use backoff::{Backoff, RetryBudget, RetryDecision};
pub use config::{ConfigError, EnvLookup, ProviderConfig};
pub use deltas::BlockKind;
pub use endpoint::{EndpointError, endpoint};
pub use failure::{FailureKind, ProviderFailure, RetryAdvice};
pub use network::ConnectionPool;
pub(crate) use receive::chain;
pub use response::{AttemptEvent, CompleteReply, ResponseLimits};
pub use secret::{ApiKey, KeyHeader, Secret};

/// Returns the vendor whose models a dialect was made for.
pub fn vendor(dialect: Dialect) -> Vendor {
    match dialect {
        Dialect::AnthropicMessages => Vendor::Anthropic,
        Dialect::OpenAiChat | Dialect::OpenAiResponses => Vendor::OpenAi,
    }
}

/// Sets thinking, effort and output limit for the draft's model. If `summarized`, adaptive thinking is sent with a request
/// for summaries.
pub fn apply_model_settings(draft: &mut Draft, dialect: Dialect, seat: AgentRole, summarized: bool) {
    let settings = model::settings_for(&draft.model, vendor(dialect), seat);
    draft.max_tokens = settings.max_tokens;
    draft.effort = settings.effort.map(|effort| effort.name().to_owned());
    draft.thinking = settings.thinking.map(|thinking| match thinking {
        model::Thinking::Adaptive => ThinkingConfig::Adaptive { summarized },
        model::Thinking::Off => ThinkingConfig::Off,
    });
}
