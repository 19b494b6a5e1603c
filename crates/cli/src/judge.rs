//! Who compares a candidate with its golden for `offshoot review`.

use std::path::Path;

use parity::{Level, Rules, ScenarioFolder, Verdict};

use crate::commands::open;
use crate::failure::{Kind, OrFail};

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
        let hint = || "`docs/verify.md` shows what a `parity.toml` holds".to_owned();
        let rules = Rules::find(golden, None).or_fail_with(Kind::Usage, hint)?;
        Ok(parity::verify(&open(golden)?, &open(candidate)?, &rules, Level::E3))
    }
}
