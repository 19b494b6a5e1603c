//! Whether a recording is complete; later, whether two agree.
//!
//! Start at [`check`]: evidence in, an answer for each criterion out. Only [`Evidence::gather`]
//! reads files.

mod check;
mod evidence;

pub use check::{Answer, Check, Criterion, check};
pub use evidence::{Evidence, EvidenceError, Expects, Scenario, StandIn};
