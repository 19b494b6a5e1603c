//! What the provider's prompt cache would have done, and why.
//!
//! Start at [`explain`] for requests that were made, and at [`Simulator`] for one that is being made. A request's
//! bytes become a [`CachePrompt`], by the [`CacheRules`] of its provider; times and usage come in as arguments. Nothing here
//! opens a file, reads a clock or asks a provider.

mod byte_diff;
mod compare;
mod confidence;
mod dates;
mod digest;
mod divergence;
mod explain;
mod explanation;
mod lint;
mod misses;
mod prompt;
mod prompt_builder;
mod reason;
pub mod rules;
mod simulator;
mod tokens;
mod totals;
mod unread_markers;
mod volatile;

pub use byte_diff::{ByteDiff, byte_diff};
pub use compare::{CacheBreak, ChangedPrompt, changed_prompts, group_digits, new_breaks};
pub use confidence::Confidence;
pub use explain::explain;
pub use explanation::{AvoidedMiss, CacheMiss, CacheReport, Explanation, LaneOpening, ObservedRequest};
pub use lint::{LintFinding, LintRule, lint};
pub use prompt::{CacheMarker, CachePrompt, DeferredTool, PromptBlock, PromptBlockKind, Section};
pub use reason::Reason;
pub use rules::CacheRules;
pub use simulator::{SimulatedRequest, Simulator};
pub use tokens::{TokenModel, TokenScale};
pub use totals::CacheTotals;
pub use unread_markers::UnreadMarker;
pub use volatile::{RecordingContext, find_volatile};

#[cfg(test)]
mod tests;
