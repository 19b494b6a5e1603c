//! `cargo xtask test`: everything that must hold before a change lands.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::command::{cargo, output, run};
use crate::debian::{self, Program};
use crate::{check, harnesses};

/// What tests start that neither cargo nor npm brings.
const PROGRAMS: [Program; 3] = [
    Program { name: "node", package: "nodejs" },
    Program { name: "npm", package: "npm" },
    Program { name: "chromium", package: "chromium" },
];

/// Real providers' answers, beside the project where it has them; they are not ours to include.
const TRAFFIC: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data/provider-traffic");

/// The checks, then the harnesses that tests drive, then the examples in the docs, then all tests.
pub(crate) fn run_all() -> Result<()> {
    check::run_all()?;
    debian::provide(&PROGRAMS)?;
    harnesses::provide_all()?;
    run(&mut cargo(["test", "--workspace", "--doc"]))?;
    if output(&mut cargo(["nextest", "--version"])).is_ok() {
        run(&mut cargo(["nextest", "run", "--workspace"]))?;
    } else {
        eprintln!("cargo-nextest is not installed: the same tests run under cargo test");
        run(&mut cargo(["test", "--workspace", "--all-targets", "--no-fail-fast"]))?;
    }
    // A test that passes prints nothing, so what it could not look at is said here.
    if output(Command::new("unshare").args(["--user", "--map-root-user", "--net", "true"])).is_err() {
        eprintln!("NOT CHECKED: this system allows no network namespace, so no capture was sealed in one");
    }
    if !Path::new(TRAFFIC).is_dir() {
        eprintln!("NOT CHECKED: `{TRAFFIC}` is not there, so no real provider traffic was decoded");
    }
    Ok(())
}
