//! The real harnesses that tests drive, in pinned versions, from npm.
//!
//! Tests find them only in the cache, at `harness/<name>/<version>/<program>`; each is an npm prefix.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cache;
use crate::command::output;

/// The versions of Claude Code that we test with: the last that is JavaScript, and a native one.
pub(crate) const CLAUDE_CODE: [&str; 2] = ["2.0.76", "2.1.325"];

/// Installs Claude Code `version` unless it is there, and returns the program to start.
///
/// The program is a link named `claude` to whatever this version's program is, so nobody but us needs
/// to know how a version is packaged.
pub(crate) fn claude_code(version: &str) -> Result<PathBuf> {
    let folder = cache::folder()?.join("harness/claude-code").join(version);
    cache::provide(&folder, "claude", |prefix| {
        eprintln!("installing Claude Code {version}, once");
        output(
            Command::new("npm")
                .args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix"])
                .arg(prefix)
                .arg(format!("@anthropic-ai/claude-code@{version}")),
        )?;
        let program = claude_code_program(prefix)?;
        symlink(&program, prefix.join("claude")).context("could not link the program")?;
        let home = tempfile::tempdir().context("could not create a temporary folder")?;
        let said = output(Command::new(prefix.join("claude")).arg("--version").env("HOME", home.path()))?;
        ensure!(
            said.starts_with(version),
            "installed Claude Code {version}, but it says it is `{}`",
            said.trim()
        );
        Ok(())
    })
}

/// The program of an installation, relative to its prefix.
///
/// A native version's own package holds only a starter that an install script would replace. Its program
/// is in the package for the platform, of which npm takes the one that fits.
fn claude_code_program(prefix: &Path) -> Result<PathBuf> {
    let scope = Path::new("node_modules/@anthropic-ai");
    let packages = fs::read_dir(prefix.join(scope)).context("npm installed no package of Claude Code")?;
    let native = packages
        .filter_map(Result::ok)
        .filter(|package| package.file_name().to_string_lossy().starts_with("claude-code-"))
        .map(|package| scope.join(package.file_name()).join("claude"))
        .find(|program| prefix.join(program).is_file());
    let program = native.unwrap_or_else(|| scope.join("claude-code/cli.js"));
    ensure!(
        prefix.join(&program).is_file(),
        "Claude Code has neither a native program nor `cli.js` for this platform"
    );
    Ok(program)
}
