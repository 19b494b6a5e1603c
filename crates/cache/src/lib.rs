//! What the provider's prompt cache would have done, and why.
//!
//! Start at [`explain`] for requests that were made, and at [`Simulator`] for one that is being made. A request's
//! bytes become a [`Prompt`], by the [`Rules`] of its provider; times and usage come in as arguments. Nothing here
//! opens a file, reads a clock or asks a provider.

mod building;
mod bytes;
mod compare;
mod digest;
mod explain;
mod explanation;
mod judge;
mod lint;
mod place;
mod prompt;
mod reason;
pub mod rules;
mod simulator;
mod sure;
mod tokens;
mod totals;
mod unread;
mod volatile;
mod when;

pub use bytes::{Shown, first_bytes};
pub use compare::{Broken, Changed, broken, changed, grouped};
pub use explain::explain;
pub use explanation::{Ask, AtStake, Explained, Explanation, Miss, Opening};
pub use lint::{Finding, Rule, lint};
pub use prompt::{Aside, Block, Kind, Mark, Prompt, Section};
pub use reason::Reason;
pub use rules::Rules;
pub use simulator::{Asked, Simulator};
pub use sure::Sure;
pub use tokens::{Scale, Tokens};
pub use totals::Totals;
pub use unread::Unread;
pub use volatile::{Around, volatile};

#[cfg(test)]
mod tests;
