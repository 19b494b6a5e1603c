//! Who compares a candidate with its golden for `offshoot review`.

use std::path::Path;

use parity::{Level, ScenarioFolder, Verdict};

use crate::recordings::{open, rules};

/// Compares two recordings of one scenario; the scenario's folder has the rules.
pub(crate) trait Judge {
    /// What comes out of it.
    fn judge(&self, folder: &ScenarioFolder, golden: &Path, candidate: &Path) -> anyhow::Result<Verdict>;
}

/// The judge of this build: the one place where the comparing is plugged in.
pub(crate) fn judge() -> impl Judge {
    Parity
}

struct Parity;

impl Judge for Parity {
    fn judge(&self, _: &ScenarioFolder, golden: &Path, candidate: &Path) -> anyhow::Result<Verdict> {
        let rules = rules(golden, None)?;
        Ok(parity::verify(&open(golden)?, &open(candidate)?, &rules, Level::E3))
    }
}
