//! Goldens: which run of a scenario a person accepted, and which runs wait to be looked at.
//!
//! ```text
//! goldens/<harness>/<version>/<scenario>/golden.json       names the accepted run, and those before it
//!                                       /parity.toml       rules for comparing
//!                                       /runs/<run>/       recordings
//! ```
//!
//! Start at [`ScenarioFolder`]. A recording is never changed here: accepting one is writing `golden.json`, whole or not
//! at all.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use recording::{Recording, SealState, iso, sha256};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::verify::RULES_FORMAT;

/// The version that is written.
pub const GOLDEN_FORMAT: u32 = 1;
/// The file that names the accepted run.
pub const GOLDEN_FILE: &str = "golden.json";
/// The file with the rules for comparing.
const RULES: &str = "parity.toml";
const RUNS: &str = "runs";
const MANIFEST: &str = "recording.json";

/// `golden.json`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Golden {
    /// Version of the file.
    pub format: u32,
    /// The accepted run, a folder in `runs/`.
    pub run: String,
    /// When it was accepted.
    pub accepted_at: String,
    /// SHA-256 of its `recording.json`, which has the digests of all its files.
    pub sha256: String,
    /// The runs that were accepted before, oldest first.
    pub earlier: Vec<EarlierGolden>,
    /// The runs that somebody looked at and did not want.
    pub rejected: Vec<RejectedRun>,
}

/// A run that was the golden.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EarlierGolden {
    /// The run.
    pub run: String,
    /// When it was accepted.
    pub accepted_at: String,
    /// When another one was.
    pub until: String,
    /// SHA-256 of its `recording.json`.
    pub sha256: String,
}

/// A run that was looked at and not wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RejectedRun {
    /// The run.
    pub run: String,
    /// When that was said.
    pub at: String,
}

/// What cannot be done with a golden.
#[derive(Debug, Error)]
pub enum GoldenError {
    /// The file is not one of ours.
    #[error("`{}` is not what it should be: {why}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// It was written by a newer version.
    #[error("`{}` was written by a newer version of offshoot (format {format})", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        format: u32,
    },
    /// It has no golden.
    #[error("`{}` has no golden", dir.display())]
    NoGolden {
        /// The scenario's folder.
        dir: PathBuf,
    },
    /// The golden is not what was accepted.
    #[error("`{}` is not the recording that was accepted", run.display())]
    Changed {
        /// Its folder.
        run: PathBuf,
    },
    /// A file cannot be read or written.
    #[error("cannot {what} `{}`", path.display())]
    Io {
        /// As in `write`.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// The folder of one scenario of one version of a harness.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScenarioFolder {
    dir: PathBuf,
}

/// Runs that are newer than the golden and that nobody has decided on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingRuns {
    /// Those that can be accepted, oldest first.
    pub runs: Vec<String>,
    /// Those that cannot, and why.
    pub skipped: Vec<(String, String)>,
}

impl ScenarioFolder {
    /// The folder of that path.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    /// The folder that a recording of this name lies in, and its run, where it lies in one: `…/SCENARIO/runs/RUN`.
    pub fn containing(recording: &Path, scenario: Option<&str>) -> io::Result<Option<(Self, String)>> {
        let real = recording.canonicalize()?;
        let name = |path: &Path| path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
        let Some(runs) = real.parent().filter(|runs| name(runs).as_deref() == Some(RUNS)) else {
            return Ok(None);
        };
        let Some(dir) = runs.parent().filter(|dir| dir.ancestors().nth(3).is_some()) else { return Ok(None) };
        let is_its = scenario.is_none_or(|scenario| name(dir).as_deref() == Some(scenario));
        // The path as it was given is shorter to read, where it says enough.
        let given = recording.parent().and_then(Path::parent).filter(|given| !given.as_os_str().is_empty());
        let shown = given.filter(|given| given.canonicalize().is_ok_and(|given| given == dir)).unwrap_or(dir);
        Ok(name(&real).filter(|_| is_its).map(|run| (Self::new(shown), run)))
    }

    /// Every scenario below a folder that has a golden, sorted.
    pub fn list_accepted(goldens: &Path) -> Result<Vec<Self>, GoldenError> {
        let mut all = Self::below(goldens)?;
        all.retain(|folder| folder.dir.join(GOLDEN_FILE).exists());
        Ok(all)
    }

    /// Every scenario below a folder that has recordings and no golden, sorted, with its newest run that can be one.
    pub fn list_unaccepted(goldens: &Path) -> Result<Vec<(Self, String)>, GoldenError> {
        let mut found = Vec::new();
        for folder in
            Self::below(goldens)?.into_iter().filter(|folder| !folder.dir.join(GOLDEN_FILE).exists())
        {
            let runs = folders(&folder.dir.join(RUNS))?;
            let name =
                |run: &Path| run.file_name()?.to_str().filter(|name| is_folder_name(name)).map(str::to_owned);
            let began = runs.iter().filter_map(|run| Some((started(run).ok()?, name(run)?)));
            if let Some((_, newest)) = began.max() {
                found.push((folder, newest));
            }
        }
        Ok(found)
    }

    fn below(goldens: &Path) -> Result<Vec<Self>, GoldenError> {
        let mut level = vec![goldens.to_owned()];
        for _ in 0..3 {
            let mut deeper = Vec::new();
            for dir in &level {
                deeper.extend(folders(dir)?);
            }
            level = deeper;
        }
        level.sort();
        Ok(level.into_iter().map(Self::new).collect())
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where its rules are, whether there are any or not.
    pub fn rules_file(&self) -> PathBuf {
        self.dir.join(RULES)
    }

    /// Where a run is.
    pub fn run_dir(&self, run: &str) -> PathBuf {
        self.dir.join(RUNS).join(run)
    }

    /// What `golden.json` says; `None` where there is none.
    pub fn golden(&self) -> Result<Option<Golden>, GoldenError> {
        let path = self.dir.join(GOLDEN_FILE);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(GoldenError::Io { what: "read", path, source }),
        };
        read(&bytes, path).map(Some)
    }

    /// Makes a run the golden; the one before is kept.
    pub fn accept(&self, run: &str, at: SystemTime) -> Result<Golden, GoldenError> {
        let path = self.run_dir(run).join(MANIFEST);
        let manifest = fs::read(&path).map_err(|source| GoldenError::Io { what: "read", path, source })?;
        let golden = accepted(self.golden()?, run, &sha256(&manifest), &iso(at));
        self.write(&golden)?;
        Ok(golden)
    }

    /// The folder of the golden; an error where it is not the recording that was accepted.
    pub fn accepted_run(&self) -> Result<PathBuf, GoldenError> {
        let golden = self.golden()?.ok_or_else(|| GoldenError::NoGolden { dir: self.dir.clone() })?;
        let run = self.run_dir(&golden.run);
        let path = run.join(MANIFEST);
        let manifest = fs::read(&path);
        match manifest.map_err(|source| GoldenError::Io { what: "read", path, source })? {
            manifest if sha256(&manifest) == golden.sha256 => Ok(run),
            _ => Err(GoldenError::Changed { run }),
        }
    }

    /// Copies a recording here as a run of that name, or of one like it where that is taken; returns the name. One that
    /// is here already is not copied again.
    ///
    /// Links are not copied: no recording of ours has any.
    pub fn import(&self, recording: &Path, name: &str) -> Result<String, GoldenError> {
        let names = std::iter::once(name.to_owned()).chain((2..).map(|n| format!("{name}-{n}")));
        let manifest = fs::read(recording.join(MANIFEST)).ok();
        let is_it =
            |run: &str| manifest.is_some() && fs::read(self.run_dir(run).join(MANIFEST)).ok() == manifest;
        let mut fitting = names.filter(|run| !self.run_dir(run).exists() || is_it(run));
        let run = fitting.next().expect("there are names without end");
        if self.run_dir(&run).exists() {
            return Ok(run);
        }
        let beside = self.run_dir(&format!(".{run}.new"));
        let failed = |source| GoldenError::Io { what: "write", path: beside.clone(), source };
        if beside.exists() {
            fs::remove_dir_all(&beside).map_err(failed)?;
        }
        let copied = copy(recording, &beside).and_then(|()| fs::rename(&beside, self.run_dir(&run)));
        if copied.is_err() {
            let _ = fs::remove_dir_all(&beside); // the error that matters is the one we return
        }
        copied.map(|()| run).map_err(failed)
    }

    /// Notes that a run is not wanted.
    pub fn reject(&self, run: &str, at: SystemTime) -> Result<Golden, GoldenError> {
        let mut golden = self.golden()?.ok_or_else(|| GoldenError::NoGolden { dir: self.dir.clone() })?;
        golden.rejected.retain(|rejected| rejected.run != run);
        golden.rejected.push(RejectedRun { run: run.to_owned(), at: iso(at) });
        self.write(&golden)?;
        Ok(golden)
    }

    /// The runs that wait to be looked at: those that began after the golden did, and that were neither accepted nor
    /// rejected.
    pub fn pending(&self) -> Result<PendingRuns, GoldenError> {
        let golden = self.golden()?.ok_or_else(|| GoldenError::NoGolden { dir: self.dir.clone() })?;
        let since = started(&self.run_dir(&golden.run)).unwrap_or_default();
        let mut found = Vec::new();
        let mut pending = PendingRuns::default();
        for dir in folders(&self.dir.join(RUNS))? {
            let Some(run) = dir.file_name().and_then(|name| name.to_str()) else { continue };
            if golden.is_decided(run) || run.starts_with('.') {
                continue;
            }
            match started(&dir) {
                Ok(began) if began > since => found.push((began, run.to_owned())),
                Ok(_) => {}
                Err(why) => pending.skipped.push((run.to_owned(), why)),
            }
        }
        found.sort();
        pending.skipped.sort();
        pending.runs = found.into_iter().map(|(_, run)| run).collect();
        Ok(pending)
    }

    /// Adds a rule to `parity.toml`; what stands there stays as it is.
    pub fn add_rule(&self, rule: &str) -> Result<(), GoldenError> {
        let path = self.rules_file();
        let before = match fs::read_to_string(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(GoldenError::Io { what: "read", path, source: error });
            }
            before => before.unwrap_or_default(),
        };
        let before = match before.trim_end() {
            "" => format!("format = {RULES_FORMAT}"),
            before => before.to_owned(),
        };
        let text = format!("{before}\n\n{}\n", rule.trim());
        replace(&path, text.as_bytes()).map_err(|source| GoldenError::Io { what: "write", path, source })
    }

    fn write(&self, golden: &Golden) -> Result<(), GoldenError> {
        let path = self.dir.join(GOLDEN_FILE);
        let mut json = serde_json::to_vec_pretty(golden).expect("it has only string keys");
        json.push(b'\n');
        replace(&path, &json).map_err(|source| GoldenError::Io { what: "write", path, source })
    }
}

impl Golden {
    fn is_decided(&self, run: &str) -> bool {
        self.run == run
            || self.earlier.iter().any(|earlier| earlier.run == run)
            || self.rejected.iter().any(|rejected| rejected.run == run)
    }
}

/// A mask that somebody gave a reason for, ready for `parity.toml`.
pub fn set_reason(mask: &str, reason: &str) -> String {
    let reason = format!("reason = {}", toml_string(reason));
    let is_reason = |line: &str| line.split('=').next().is_some_and(|name| name.trim() == "reason");
    let lines = mask.trim().lines();
    match lines.clone().any(is_reason) {
        true => lines.map(|line| if is_reason(line) { &reason } else { line }).collect::<Vec<_>>().join("\n"),
        false => format!("{}\n{reason}", mask.trim()),
    }
}

fn toml_string(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out + "\""
}

fn accepted(before: Option<Golden>, run: &str, sha256: &str, at: &str) -> Golden {
    let mut golden = before.unwrap_or_else(|| Golden {
        format: GOLDEN_FORMAT,
        run: String::new(),
        accepted_at: String::new(),
        sha256: String::new(),
        earlier: Vec::new(),
        rejected: Vec::new(),
    });
    golden.rejected.retain(|rejected| rejected.run != run);
    if golden.run == run && golden.sha256 == sha256 {
        return golden; // it is the golden already, since then
    }
    if !golden.run.is_empty() {
        golden.earlier.push(EarlierGolden {
            run: golden.run,
            accepted_at: golden.accepted_at,
            until: at.to_owned(),
            sha256: golden.sha256,
        });
    }
    Golden { run: run.to_owned(), accepted_at: at.to_owned(), sha256: sha256.to_owned(), ..golden }
}

fn read(bytes: &[u8], path: PathBuf) -> Result<Golden, GoldenError> {
    #[derive(Deserialize)]
    struct Versioned {
        format: u32,
    }
    let malformed = |path: PathBuf, why: &dyn ToString| GoldenError::Malformed { path, why: why.to_string() };
    match serde_json::from_slice::<Versioned>(bytes) {
        Err(error) => return Err(malformed(path, &error)),
        Ok(Versioned { format }) if format > GOLDEN_FORMAT => {
            return Err(GoldenError::Newer { path, format });
        }
        Ok(_) => {}
    }
    let golden: Golden = match serde_json::from_slice(bytes) {
        Ok(golden) => golden,
        Err(error) => return Err(malformed(path, &error)),
    };
    if is_folder_name(&golden.run) {
        Ok(golden)
    } else {
        Err(malformed(path, &"its run is not a folder in `runs/`"))
    }
}

/// A name that is a folder in another and nothing else.
pub fn is_folder_name(name: &str) -> bool {
    let odd = |c: char| c == '/' || c == '\\' || c.is_control();
    !name.is_empty() && name.len() <= 200 && !name.starts_with('.') && !name.contains(odd)
}

/// When a run began; else why it can be nobody's golden.
fn started(run: &Path) -> Result<String, String> {
    let recording = Recording::open(run).map_err(|error| error.to_string())?;
    match (recording.state(), recording.manifest()) {
        (SealState::Unsealed { because }, _) => Err(format!("it is not sealed: {because}")),
        (SealState::Sealed, Some(manifest)) => Ok(manifest.started_at.clone()),
        (SealState::Sealed, None) => Err("it has no manifest".to_owned()),
    }
}

fn folders(dir: &Path) -> Result<Vec<PathBuf>, GoldenError> {
    let failed = |source| GoldenError::Io { what: "read", path: dir.to_owned(), source };
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(failed(source)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        if entry.file_type().map_err(failed)?.is_dir() {
            found.push(entry.path());
        }
    }
    Ok(found)
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    fs::set_permissions(to, fs::metadata(from)?.permissions())?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, to) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            copy(&entry.path(), &to)?;
        } else if kind.is_file() {
            fs::copy(entry.path(), &to)?;
            File::open(&to)?.sync_all()?;
        }
    }
    File::open(to)?.sync_all()
}

/// Written beside and renamed over: there is always one whole file, also after a crash.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = dir.join(format!(".{name}.{}", std::process::id()));
    let written = (|| {
        let mut file = File::create(&beside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&beside, path)?;
        File::open(dir)?.sync_all()
    })();
    if written.is_err() {
        let _ = fs::remove_file(&beside); // the error that matters is the one we return
    }
    written
}

#[cfg(test)]
mod tests;
