//! cargo-deny, which judges our dependencies by `deny.toml`: licences, duplicates, sources.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::cache;
use crate::command::{cargo, output, run, workspace_root};

const VERSION: &str = "0.20.2";

/// Judges the whole dependency graph.
///
/// Security advisories are not asked for: their database is a Git repository, and a check that needs
/// more than the package registries would fail where only those can be reached.
pub(crate) fn check() -> Result<()> {
    run(Command::new(provide()?).args(["check", "licenses", "bans", "sources"]).current_dir(workspace_root()))
}

/// The pinned cargo-deny, built once into the cache.
///
/// Unoptimized it builds in a fraction of the time, and judging takes a few seconds either way.
fn provide() -> Result<PathBuf> {
    let folder = cache::folder()?.join("tools/cargo-deny").join(VERSION);
    cache::provide(&folder, "bin/cargo-deny", |root| {
        eprintln!("installing cargo-deny {VERSION}, once; about two minutes");
        // Its own target folder: ours would keep hundreds of megabytes that nobody needs again.
        let target = tempfile::tempdir().context("could not create a temporary folder")?;
        output(
            cargo(["install", "cargo-deny", "--locked", "--debug", "--version", VERSION, "--root"])
                .arg(root)
                .env("CARGO_TARGET_DIR", target.path())
                .env("CARGO_PROFILE_DEV_DEBUG", "0"),
        )?;
        Ok(())
    })
}
