//! Installs programs from Debian packages.

use std::process::Command;

use anyhow::{Result, bail};

use crate::command::{find, output, run};

/// A program and its Debian package.
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) package: &'static str,
}

/// Installs missing programs as root. Otherwise the error has the command to type.
pub(crate) fn provide(programs: &[Program]) -> Result<()> {
    let missing: Vec<&Program> = programs.iter().filter(|program| find(program.name).is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.iter().map(|program| format!("`{}`", program.name)).collect::<Vec<_>>().join(", ");
    let packages: Vec<&str> = missing.iter().map(|program| program.package).collect();
    if output(Command::new("id").arg("-u"))?.trim() != "0" {
        bail!("{names} not installed\nhint: sudo apt-get install {}", packages.join(" "));
    }
    eprintln!("{names} not installed; installing with apt-get");
    run(Command::new("apt-get").args(["update", "--quiet"]))?;
    run(Command::new("apt-get")
        .args(["install", "--quiet", "--yes", "--no-install-recommends"])
        .args(packages)
        .env("DEBIAN_FRONTEND", "noninteractive"))
}
