//! Whether a recording is complete, and whether two agree.
//!
//! Start at [`check`]: evidence in, an answer for each criterion out; and at [`compare`]: two recordings in, a
//! [`Verdict`] out. [`disagreements`] compares a session as its harness tells it with the one on the wire. Only
//! [`Evidence::gather`], [`verify`] and [`Rules::find`] read files.

mod agreement;
mod cached;
mod check;
mod evidence;
mod golden;
mod verdict;
mod verify;

pub use agreement::{Disagreement, disagreements};
pub use cached::{Cached, around, bodies, cached, shown, volatile};
pub use check::{Answer, Check, Criterion, check};
pub use evidence::{Evidence, EvidenceError, Scenario};
pub use golden::{
    Earlier, GOLDEN, GOLDEN_FORMAT, Golden, GoldenError, Pending, Rejected, ScenarioFolder, is_name,
    with_reason,
};
pub use verdict::{
    CacheChange, Counts, Difference, LaneVerdict, Level, MaskUse, Outcome, Race, RuleUse, Surface,
    SurfaceVerdict, VERDICT_FORMAT, Verdict,
};
pub use verify::{
    Accepted, Facts, RULES_FILE, RULES_FORMAT, Requests, Rules, RulesError, Side, accepted, compare, verify,
};

#[cfg(test)]
mod tests;
