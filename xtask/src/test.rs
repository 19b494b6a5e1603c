//! `cargo xtask test`: all checks and tests that must pass before a change lands.

use std::env;
use std::process::Command;

use anyhow::Result;

use crate::command::{cargo, output, run};
use crate::debian::{self, Program};
use crate::{check, harnesses};

/// Programs for tests that neither cargo nor npm installs.
const PROGRAMS: [Program; 3] = [
    Program { name: "node", package: "nodejs" },
    Program { name: "npm", package: "npm" },
    Program { name: "chromium", package: "chromium" },
];

/// The variable with the folder of real provider traffic, which is not part of the repository.
const TRAFFIC: &str = "OFFSHOOT_TRAFFIC_DIR";

/// Runs the checks, installs programs and harnesses, and runs all tests.
pub(crate) fn run_all() -> Result<()> {
    check::run_all()?;
    debian::provide(&PROGRAMS)?;
    harnesses::provide_all()?;
    run(&mut cargo(["test", "--workspace", "--doc"]))?;
    if output(&mut cargo(["nextest", "--version"])).is_ok() {
        run(&mut cargo(["nextest", "run", "--workspace"]))?;
    } else {
        eprintln!("cargo-nextest is not installed; using cargo test");
        run(&mut cargo(["test", "--workspace", "--all-targets", "--no-fail-fast"]))?;
    }
    // The output of passing tests is hidden, so skipped parts are named here.
    if output(Command::new("unshare").args(["--user", "--map-root-user", "--net", "true"])).is_err() {
        eprintln!("NOT CHECKED: this system allows no network namespace, so no capture was isolated in one");
    }
    if env::var_os(TRAFFIC).is_none() {
        eprintln!("NOT CHECKED: `{TRAFFIC}` is not set, so no real provider traffic was decoded");
    }
    Ok(())
}
