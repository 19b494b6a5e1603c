//! Checks one recording, and compares two.
//!
//! Start at [`check_recording`], which answers each criterion of a recording, and at [`compare`], which compares two
//! recordings and returns a [`Verdict`]. [`find_disagreements`] compares an exported session with the wire. Only
//! [`Evidence::gather`], [`verify`], [`ParityRules::find`] and [`ScenarioFolder`] read files.

mod agreement;
mod cached;
mod check;
mod evidence;
mod golden;
mod surface;
mod verdict;
mod verify;

pub use agreement::{Disagreement, find_disagreements};
pub use cached::{
    RecordingCache, analyze_cache, changed_bytes, find_volatile_text, read_bodies, recording_context,
};
pub use check::{CheckReport, Criterion, CriterionAnswer, check_recording};
pub use evidence::{Evidence, EvidenceError, RecordedScenario};
pub use golden::{
    EarlierGolden, GOLDEN_FILE, GOLDEN_FORMAT, GOLDENS, Golden, GoldenError, PendingRuns, RECORDINGS,
    RejectedRun, ScenarioFolder, is_folder_name, set_reason,
};
pub use surface::Surface;
pub use verdict::{
    CacheChange, LaneVerdict, Level, MaskUse, Race, RuleUse, SurfaceVerdict, Tolerances, UnitCounts,
    VERDICT_FORMAT, Verdict, VerdictDifference, VerdictFileError, VerdictOutcome,
};
pub use verify::{
    ComparedRecording, GoldenCache, ParityRules, ParityRulesError, RULES_FILE, RULES_FORMAT, RecordingFacts,
    RequestSource, compare, golden_cache, verify,
};

#[cfg(test)]
mod tests;
