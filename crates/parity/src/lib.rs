//! Whether a recording is complete; later, whether two agree.
//!
//! Start at [`check`]: evidence in, an answer for each criterion out. [`disagreements`] compares a session as its
//! harness tells it with the one on the wire. Only [`Evidence::gather`] reads files.

mod agreement;
mod check;
mod evidence;
mod golden;
mod verdict;

pub use agreement::{Disagreement, disagreements};
pub use check::{Answer, Check, Criterion, check};
pub use evidence::{Evidence, EvidenceError, Scenario};
pub use golden::{
    Earlier, GOLDEN_FORMAT, Golden, GoldenError, Pending, Rejected, ScenarioFolder, is_name, with_reason,
};
pub use verdict::{
    Counts, Difference, LaneVerdict, Level, MaskUse, Outcome, RuleUse, Surface, SurfaceVerdict,
    VERDICT_FORMAT, Verdict,
};

#[cfg(test)]
mod tests;
