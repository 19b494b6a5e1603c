//! Runs cargo-deny, which checks dependencies by `deny.toml`: licences, duplicates, sources.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::cache;
use crate::command::{cargo, output, run, workspace_root};

const VERSION: &str = "0.20.2";

/// Checks the whole dependency graph.
///
/// Security advisories are not checked: their database is a Git repository, and only package registries are used.
pub(crate) fn check() -> Result<()> {
    run(Command::new(provide()?).args(["check", "licenses", "bans", "sources"]).current_dir(workspace_root()))
}

/// Returns the pinned cargo-deny, which is built once into the cache.
///
/// A debug build takes a fraction of the time, and the check takes a few seconds either way.
fn provide() -> Result<PathBuf> {
    let folder = cache::folder()?.join("tools/cargo-deny").join(VERSION);
    cache::provide(&folder, "bin/cargo-deny", |root| {
        eprintln!("installing cargo-deny {VERSION} once; this takes about two minutes");
        // A target folder of its own, because ours would keep hundreds of unused megabytes.
        let target = tempfile::tempdir().context("cannot create a temporary folder")?;
        output(
            cargo(["install", "cargo-deny", "--locked", "--debug", "--version", VERSION, "--root"])
                .arg(root)
                .env("CARGO_TARGET_DIR", target.path())
                .env("CARGO_PROFILE_DEV_DEBUG", "0"),
        )?;
        Ok(())
    })
}
