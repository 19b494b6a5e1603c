//! Comparison of a run with its golden, for `offshoot review`.

use std::path::Path;

use parity::{Level, Verdict};

use crate::recordings::{open, rules};

/// Compares two recordings of one scenario. Tests replace it.
pub(crate) trait Judge {
    /// Compares a candidate with its golden under the rules beside the golden.
    fn judge(&self, golden: &Path, candidate: &Path) -> anyhow::Result<Verdict>;
}

/// Compares recordings with [`parity::verify`] at the default level.
pub(crate) struct RecordingJudge;

impl Judge for RecordingJudge {
    fn judge(&self, golden: &Path, candidate: &Path) -> anyhow::Result<Verdict> {
        let rules = rules(golden, None)?;
        Ok(parity::verify(&open(golden)?, &open(candidate)?, &rules, Level::E3))
    }
}
