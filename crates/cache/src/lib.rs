//! Model of a provider's prompt cache: predicts hits and explains misses.
//!
//! Start at [`explain`] for past requests, and at [`Simulator`] for a live one. A request's bytes become a
//! [`CachePrompt`] by the [`CacheRules`] of its provider. Times and usage are arguments. Nothing here opens a
//! file, reads a clock or asks a provider.

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
mod observed;
mod prompt;
mod prompt_builder;
mod reason;
mod report;
pub mod rules;
mod section;
mod simulator;
mod tokens;
mod totals;
mod unread_markers;
mod volatile;

pub use byte_diff::{ByteDiff, byte_diff};
pub use compare::{CacheBreak, ChangedPrompt, changed_prompts, group_digits, new_breaks};
pub use confidence::Confidence;
pub use explain::explain;
pub use explanation::{AvoidedMiss, CacheMiss, Explanation};
pub use lint::{LintFinding, LintRule, lint};
pub use observed::ObservedRequest;
pub use prompt::{CacheMarker, CachePrompt, DeferredTool, PromptBlock, PromptBlockKind};
pub use reason::Reason;
pub use report::CacheReport;
pub use report::LaneOpening;
pub use rules::CacheRules;
pub use section::Section;
pub use simulator::{SimulatedRequest, Simulator};
pub use tokens::{TokenModel, TokenScale};
pub use totals::CacheTotals;
pub use unread_markers::UnreadMarker;
pub use volatile::{RecordingContext, find_volatile};

#[cfg(test)]
mod tests;
