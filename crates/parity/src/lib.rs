//! Whether a recording is complete; later, whether two agree.
//!
//! Start at [`check`]: evidence in, an answer for each criterion out. [`disagreements`] compares a session as its
//! harness tells it with the one on the wire. Only [`Evidence::gather`] reads files.

mod agreement;
mod check;
mod evidence;

pub use agreement::{Disagreement, disagreements};
pub use check::{Answer, Check, Criterion, check};
pub use evidence::{Evidence, EvidenceError, Scenario};

#[cfg(test)]
mod tests;
