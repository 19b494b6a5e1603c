//! `cargo xtask check`: formatting, lints, licences, duplicate dependencies.

use anyhow::Result;

use crate::command::{cargo, run};
use crate::deny;

/// Checks formatting, then lints of all targets, then dependencies.
pub(crate) fn run_all() -> Result<()> {
    run(&mut cargo(["fmt", "--all", "--check"]))?;
    run(&mut cargo(["clippy", "--workspace", "--all-targets", "--quiet", "--", "--deny", "warnings"]))?;
    deny::check()
}
