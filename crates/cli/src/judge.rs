//! Who compares a candidate with its golden for `offshoot review`.

use std::path::Path;

use parity::{ScenarioFolder, Verdict};

use crate::failure::{Kind, OrFail};

/// Compares two recordings of one scenario; the scenario's folder has the rules.
pub(crate) trait Judge {
    /// What comes out of it.
    fn judge(&self, folder: &ScenarioFolder, golden: &Path, candidate: &Path) -> anyhow::Result<Verdict>;
}

/// The judge of this build: the one place where the comparing is plugged in.
pub(crate) fn judge() -> impl Judge {
    Nobody
}

struct Nobody;

impl Judge for Nobody {
    fn judge(&self, _: &ScenarioFolder, _: &Path, _: &Path) -> anyhow::Result<Verdict> {
        Err(anyhow::anyhow!("this version cannot compare recordings yet")).or_fail_with(Kind::Usage, || {
            "`offshoot review --list` names what waits, `offshoot review --all` accepts it unseen".to_owned()
        })
    }
}
