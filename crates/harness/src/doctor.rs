//! What this machine lacks to capture a harness, and the command that brings it.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::Serialize;

use crate::adapter::Harness;
use crate::capture::Places;
use crate::install::{on_path, release};
use crate::warden;

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What.
    pub name: String,
    /// It is there.
    pub ok: bool,
    /// Captures fail without it.
    pub needed: bool,
    /// What was found: a version, a folder.
    pub found: Option<String>,
    /// What it is for.
    pub why: String,
    /// The command that brings it, where it is missing.
    pub fix: Option<String>,
}

/// A program that we or the harnesses start.
struct Program {
    name: &'static str,
    package: &'static str,
    needed: bool,
    why: &'static str,
}

const PROGRAMS: &[Program] = &[
    Program { name: "node", package: "nodejs", needed: true, why: "runs npm, and harnesses in JavaScript" },
    Program { name: "npm", package: "npm", needed: true, why: "installs harnesses" },
    Program { name: "git", package: "git", needed: false, why: "harnesses look at repositories with it" },
    Program { name: "tar", package: "tar", needed: false, why: "harnesses unpack their own tools with it" },
];

/// Looks at everything.
pub fn doctor(places: &Places, harnesses: &[Box<dyn Harness>]) -> Vec<Finding> {
    let manager = PackageManager::of_this_machine();
    let mut findings: Vec<Finding> = PROGRAMS.iter().map(|program| look_for(program, &manager)).collect();
    findings.push(ripgrep(places, &manager));
    findings.push(network());
    let folders = [
        ("data folder", &places.data, "keeps the redaction key"),
        ("cache folder", &places.cache, "keeps installed harnesses"),
        ("slots", &places.slots, "hold what harnesses see while they are recorded"),
    ];
    findings.extend(folders.into_iter().map(|(name, folder, why)| writable(name, folder, why)));
    findings.extend(harnesses.iter().filter_map(|harness| installed(&**harness, places)));
    findings
}

fn look_for(program: &Program, manager: &PackageManager) -> Finding {
    let found = on_path(program.name).map(|path| version(&path));
    Finding {
        name: program.name.to_owned(),
        ok: found.is_some(),
        needed: program.needed,
        fix: found.is_none().then(|| manager.install(program.package)),
        found,
        why: program.why.to_owned(),
    }
}

/// The first line that a program says of its version, without its name.
fn version(program: &Path) -> String {
    let said = Command::new(program).arg("--version").stdin(Stdio::null()).output();
    let said = said.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let first = said.lines().next().unwrap_or_default().trim();
    if first.is_empty() { program.display().to_string() } else { first.to_owned() }
}

/// Ours comes from npm by itself, so a machine without one lacks nothing.
fn ripgrep(places: &Places, manager: &PackageManager) -> Finding {
    let cached = crate::install::ripgrep_in_cache(&places.cache);
    let found = cached.or_else(|| on_path("rg")).map(|path| version(&path));
    Finding {
        name: "rg".to_owned(),
        ok: found.is_some(),
        needed: false,
        fix: found.is_none().then(|| manager.install("ripgrep")),
        found,
        why: "harnesses search with it; without, it comes from npm with the first capture".to_owned(),
    }
}

/// Whether a harness can be put into a network of its own: tried, not guessed.
fn network() -> Finding {
    let tried = warden::try_seal();
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
    Finding {
        name: "network namespaces".to_owned(),
        ok: tried.is_ok(),
        needed: false,
        found: tried.err(),
        why: "show every call that goes round the proxy".to_owned(),
        fix: fix.map(str::to_owned),
    }
}

fn writable(name: &str, folder: &Path, why: &str) -> Finding {
    let probe = folder.join(".doctor");
    let tried = fs::create_dir_all(folder)
        .and_then(|()| fs::write(&probe, ""))
        .and_then(|()| fs::remove_file(&probe));
    Finding {
        name: name.to_owned(),
        ok: tried.is_ok(),
        needed: true,
        found: Some(folder.display().to_string()),
        why: why.to_owned(),
        fix: tried.err().map(|_| format!("sudo chown -R \"$USER\" '{}'", folder.display())),
    }
}

/// Which versions of a harness are in the cache; those that are not are installed when they are needed.
fn installed(harness: &dyn Harness, places: &Places) -> Option<Finding> {
    let newest = harness.versions().last()?;
    let wanted = release(harness, Some(newest), None).ok()?;
    harness.install(&wanted).ok()??; // what nobody installs is not missing
    let wanted = wanted.folder();
    let folder = places.cache.join("harness").join(harness.name());
    let there = fs::read_dir(&folder).into_iter().flatten().filter_map(Result::ok);
    let mut versions: Vec<String> = there
        .filter(|entry| harness.program(&entry.path()).is_ok())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    versions.sort();
    let ok = versions.contains(&wanted);
    Some(Finding {
        name: harness.name().to_owned(),
        ok,
        needed: false,
        found: (!versions.is_empty()).then(|| versions.join(", ")),
        why: format!("its first capture installs {wanted}"),
        fix: (!ok).then(|| format!("offshoot capture {} --scenario single-agent-20-reads", harness.name())),
    })
}

/// How this machine installs packages.
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
