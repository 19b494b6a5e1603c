//! A real bash runs random lines that pass a rule: none of them may run the denied program.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::random_lines::{Random, line};
use super::{bash, rules};

/// Number of lines, if `OFFSHOOT_SHELL_LINES` does not say otherwise.
const LINES: u64 = 6_000;

/// Programs that the lines use, and bash itself.
const PROGRAMS: &[&str] = &[
    "awk", "base64", "bash", "cat", "chmod", "cp", "env", "find", "flock", "git", "ls", "make", "nice",
    "nohup", "perl", "printf", "python3", "rev", "sed", "setsid", "sh", "sleep", "split", "stdbuf", "tar",
    "tee", "timeout", "tr", "xargs",
];

/// Result of a line.
struct Outcome {
    /// It ran the denied program.
    ran_denied: bool,
    /// It ended without an error.
    is_success: bool,
}

/// A folder in which lines run.
struct Yard {
    folder: TempDir,
    programs: PathBuf,
}

impl Yard {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let programs = folder.path().join("programs");
        fs::create_dir(&programs).expect("a folder");
        let path = std::env::var_os("PATH").expect("a path");
        for program in PROGRAMS {
            let found =
                std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file());
            if let Some(file) = found {
                symlink(file, programs.join(program)).expect("a link");
            }
        }
        let denied = format!("#!/bin/sh\n: > '{}'\n", folder.path().join("ran").display());
        let file = programs.join("zapper");
        fs::write(&file, denied).expect("a program");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("a program that runs");
        Self { folder, programs }
    }

    /// Runs a line.
    fn run(&self, line: &str) -> Outcome {
        let work = self.folder.path().join("work");
        let _ = fs::remove_dir_all(&work);
        fs::create_dir_all(work.join("bin")).expect("a folder");
        fs::write(work.join("q2"), "x\n").expect("a file");
        for place in ["zapper", "bin/zapper"] {
            symlink(self.programs.join("zapper"), work.join(place)).expect("a link");
        }
        let ran = self.folder.path().join("ran");
        let _ = fs::remove_file(&ran);
        let mut bash = Command::new("timeout");
        bash.args(["-k", "1", "5", "bash", "-c", line]).current_dir(&work).env_clear();
        bash.env("PATH", format!("{}:/usr/bin:/bin", self.programs.display())).env("HOME", &work);
        bash.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let is_success = bash.status().expect("bash runs").success();
        Outcome { ran_denied: Path::exists(&ran), is_success }
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

#[test]
fn no_random_line_that_passes_runs_the_denied_program() {
    let (lines, seed) = (number("OFFSHOOT_SHELL_LINES", LINES), number("OFFSHOOT_SHELL_SEED", 22));
    let rules = rules(&[], &[], &["bash(zapper*)"]);
    let (yard, mut random) = (Yard::new(), Random(seed));
    let lines: Vec<String> = (0..lines).map(|_| line(&mut random)).collect();
    // Lines that run nothing would prove nothing.
    let effective = lines.iter().take(100).filter(|line| yard.run(line).ran_denied).count();
    assert!(effective >= 30, "{effective} of 100 lines run the program");
    let passed: Vec<&String> = lines.iter().filter(|line| bash(&rules, line) == "allow").collect();
    let outcomes: Vec<Outcome> = passed.iter().map(|line| yard.run(line)).collect();
    let wrong = passed.iter().zip(&outcomes).filter(|(_, outcome)| outcome.ran_denied).map(|(line, _)| line);
    let wrong: Vec<&&String> = wrong.collect();
    assert!(wrong.is_empty(), "{} lines: {wrong:#?}", wrong.len());
    // With few lines that pass, or few that run to their end, the test would prove nothing either.
    let succeeded = outcomes.iter().filter(|outcome| outcome.is_success).count();
    let counts = format!("{} of {} lines pass, {succeeded} succeed", passed.len(), lines.len());
    assert!(passed.len() * 30 >= lines.len() && succeeded * 75 >= lines.len(), "{counts}");
}
