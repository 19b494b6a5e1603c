//! `cargo xtask check`: what needs no test to be wrong.

use anyhow::Result;

use crate::command::{cargo, run};
use crate::deny;

/// Formatting, then lints on every target, then the dependencies.
pub(crate) fn run_all() -> Result<()> {
    run(&mut cargo(["fmt", "--all", "--check"]))?;
    run(&mut cargo(["clippy", "--workspace", "--all-targets", "--quiet", "--", "--deny", "warnings"]))?;
    deny::check()
}
