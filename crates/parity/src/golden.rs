//! Goldens: the accepted run of a scenario, and the runs that are pending.
//!
//! ```text
//! goldens/<harness>/<version>/<scenario>/golden.json       names the accepted run and the earlier ones
//!                                       /parity.toml       rules for comparing
//!                                       /runs/<run>/       recordings
//! recordings/<harness>/<version>/<scenario>/<run>/         captures before one is accepted
//! ```
//!
//! Start at [`ScenarioFolder`]. Recordings are never changed here. Accepting one writes `golden.json` atomically.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use recording::{Recording, SealState, iso, sha256};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::verify::{RULES_FILE, RULES_FORMAT};

/// Version of `golden.json`.
pub const GOLDEN_FORMAT: u32 = 1;
/// Name of the file that names the accepted run.
pub const GOLDEN_FILE: &str = "golden.json";
/// Name of the default folder of captures.
pub const RECORDINGS: &str = "recordings";
/// Name of the default folder of goldens.
pub const GOLDENS: &str = "goldens";
const RUNS: &str = "runs";
const MANIFEST: &str = "recording.json";

/// The content of `golden.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Golden {
    /// Version of the file.
    pub format: u32,
    /// The accepted run: a folder in `runs/`.
    pub run: String,
    /// Time of the acceptance.
    pub accepted_at: String,
    /// SHA-256 of its `recording.json`, which contains the digests of all other files.
    pub sha256: String,
    /// The runs that were accepted earlier, oldest first.
    pub earlier: Vec<EarlierGolden>,
    /// The runs that were rejected.
    pub rejected: Vec<RejectedRun>,
}

/// A run that was the golden earlier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EarlierGolden {
    /// The run.
    pub run: String,
    /// Time of the acceptance.
    pub accepted_at: String,
    /// Time when another run replaced it.
    pub until: String,
    /// SHA-256 of its `recording.json`.
    pub sha256: String,
}

/// A run that was rejected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RejectedRun {
    /// The run.
    pub run: String,
    /// Time of the rejection.
    pub at: String,
}

/// An error about a golden.
#[derive(Debug, Error)]
pub enum GoldenError {
    /// The file is malformed.
    #[error("`{}` is malformed: {why}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The mistake.
        why: String,
    },
    /// A newer version of offshoot wrote the file.
    #[error("`{}` was written by a newer version of offshoot (format {format})", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Version of the file.
        format: u32,
    },
    /// The scenario has no golden.
    #[error("`{}` has no golden", dir.display())]
    NoGolden {
        /// Folder of the scenario.
        dir: PathBuf,
    },
    /// The golden was changed after it was accepted.
    #[error("`{}` is not the recording that was accepted", run.display())]
    Changed {
        /// Folder of the run.
        run: PathBuf,
    },
    /// A file cannot be read or written.
    #[error("cannot {action} `{}`", path.display())]
    Io {
        /// The operation, such as `write`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

/// The folder of one scenario of one version of a harness.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScenarioFolder {
    dir: PathBuf,
    /// Folder of the scenario's captures, if they are not in `runs/`.
    captures: Option<PathBuf>,
}

/// Runs that are newer than the golden, and neither accepted nor rejected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingRuns {
    /// Runs that can be accepted, oldest first.
    pub runs: Vec<String>,
    /// Runs that cannot be accepted, with the reasons.
    pub skipped: Vec<(String, String)>,
}

impl ScenarioFolder {
    /// Returns the folder with this path.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into(), captures: None }
    }

    /// Adds the folder with the captures of the scenario.
    #[must_use]
    pub fn with_captures(self, captures: impl Into<PathBuf>) -> Self {
        Self { captures: Some(captures.into()), ..self }
    }

    /// Returns the scenario folder below `goldens` of a recording at `recordings/HARNESS/VERSION/SCENARIO/RUN`.
    pub fn of_capture(recording: &Path) -> io::Result<Option<Self>> {
        let real = recording.canonicalize()?;
        let Some(captures) = real.parent() else { return Ok(None) };
        let Some(root) = captures.ancestors().nth(3) else { return Ok(None) };
        let (Some(around), Ok(inside)) = (root.parent(), captures.strip_prefix(root)) else {
            return Ok(None);
        };
        let is_root = root.file_name().is_some_and(|name| name == RECORDINGS);
        let dir = around.join(GOLDENS).join(inside);
        Ok(is_root.then(|| Self::new(dir).with_captures(captures)))
    }

    /// Returns the scenario folder of a recording at `…/SCENARIO/runs/RUN`, and the run.
    pub fn containing(recording: &Path, scenario: Option<&str>) -> io::Result<Option<(Self, String)>> {
        let real = recording.canonicalize()?;
        let name = |path: &Path| path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
        let Some(runs) = real.parent().filter(|runs| name(runs).as_deref() == Some(RUNS)) else {
            return Ok(None);
        };
        let Some(dir) = runs.parent().filter(|dir| dir.ancestors().nth(3).is_some()) else { return Ok(None) };
        let is_its = scenario.is_none_or(|scenario| name(dir).as_deref() == Some(scenario));
        // The path of the caller is shorter, if it leads to the same folder.
        let given = recording.parent().and_then(Path::parent).filter(|given| !given.as_os_str().is_empty());
        let shown = given.filter(|given| given.canonicalize().is_ok_and(|given| given == dir)).unwrap_or(dir);
        Ok(name(&real).filter(|_| is_its).map(|run| (Self::new(shown), run)))
    }

    /// Lists the scenarios that have a golden, sorted. Their captures are below `recordings`.
    pub fn list_accepted(goldens: &Path, recordings: &Path) -> Result<Vec<Self>, GoldenError> {
        let mut all = Self::below(goldens, recordings)?;
        all.retain(|folder| folder.dir.join(GOLDEN_FILE).exists());
        Ok(all)
    }

    /// Lists the scenarios that have recordings but no golden, sorted, each with its newest valid run.
    pub fn list_unaccepted(goldens: &Path, recordings: &Path) -> Result<Vec<(Self, String)>, GoldenError> {
        let mut found = Vec::new();
        for folder in Self::below(goldens, recordings)? {
            if folder.dir.join(GOLDEN_FILE).exists() {
                continue;
            }
            let runs = folder.run_folders()?;
            let name =
                |run: &Path| run.file_name()?.to_str().filter(|name| is_folder_name(name)).map(str::to_owned);
            let began = runs.iter().filter_map(|run| Some((started(run).ok()?, name(run)?)));
            if let Some((_, newest)) = began.max() {
                found.push((folder, newest));
            }
        }
        Ok(found)
    }

    fn below(goldens: &Path, recordings: &Path) -> Result<Vec<Self>, GoldenError> {
        let mut names = scenarios_below(goldens)?;
        names.extend(scenarios_below(recordings)?);
        names.sort();
        names.dedup();
        let folder = |name: PathBuf| Self::new(goldens.join(&name)).with_captures(recordings.join(&name));
        Ok(names.into_iter().map(folder).collect())
    }

    /// Returns the folders of all runs: those beside the golden, then captures.
    fn run_folders(&self) -> Result<Vec<PathBuf>, GoldenError> {
        let mut runs = folders(&self.dir.join(RUNS))?;
        if let Some(captures) = &self.captures {
            runs.extend(folders(captures)?);
        }
        Ok(runs)
    }

    /// Returns the path.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the path of the rules, which may not exist.
    pub fn rules_file(&self) -> PathBuf {
        self.dir.join(RULES_FILE)
    }

    /// Returns the path of a run: beside the golden, else among the captures.
    pub fn run_dir(&self, run: &str) -> PathBuf {
        let beside = self.kept_dir(run);
        let capture = self.captures.as_ref().map(|captures| captures.join(run));
        match capture.filter(|capture| !beside.exists() && capture.exists()) {
            Some(capture) => capture,
            None => beside,
        }
    }

    fn kept_dir(&self, run: &str) -> PathBuf {
        self.dir.join(RUNS).join(run)
    }

    /// Reads `golden.json`, if it exists.
    pub fn golden(&self) -> Result<Option<Golden>, GoldenError> {
        let path = self.dir.join(GOLDEN_FILE);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(GoldenError::Io { action: "read", path, source }),
        };
        read(&bytes, path).map(Some)
    }

    /// Makes a run the golden. The previous golden is kept. A capture is copied first.
    pub fn accept(&self, run: &str, at: SystemTime) -> Result<Golden, GoldenError> {
        let recorded = self.run_dir(run);
        if recorded != self.kept_dir(run) {
            self.import(&recorded, run)?;
        }
        let path = self.kept_dir(run).join(MANIFEST);
        let manifest = fs::read(&path).map_err(|source| GoldenError::Io { action: "read", path, source })?;
        let golden = accepted(self.golden()?, run, &sha256(&manifest), &iso(at));
        self.write(&golden)?;
        Ok(golden)
    }

    /// Returns the folder of the golden. Fails if it was changed after it was accepted.
    pub fn accepted_run(&self) -> Result<PathBuf, GoldenError> {
        let golden = self.golden()?.ok_or_else(|| GoldenError::NoGolden { dir: self.dir.clone() })?;
        let run = self.kept_dir(&golden.run);
        let path = run.join(MANIFEST);
        let manifest = fs::read(&path);
        match manifest.map_err(|source| GoldenError::Io { action: "read", path, source })? {
            manifest if sha256(&manifest) == golden.sha256 => Ok(run),
            _ => Err(GoldenError::Changed { run }),
        }
    }

    /// Copies a recording to a run of this name, or of a similar name if that one is taken. Returns the name. A recording
    /// that was copied before is not copied again.
    ///
    /// Links are not copied, because recordings contain none.
    pub fn import(&self, recording: &Path, name: &str) -> Result<String, GoldenError> {
        let names = std::iter::once(name.to_owned()).chain((2..).map(|n| format!("{name}-{n}")));
        let manifest = fs::read(recording.join(MANIFEST)).ok();
        let is_it =
            |run: &str| manifest.is_some() && fs::read(self.kept_dir(run).join(MANIFEST)).ok() == manifest;
        let mut fitting = names.filter(|run| !self.kept_dir(run).exists() || is_it(run));
        let run = fitting.next().expect("the names are unlimited");
        if self.kept_dir(&run).exists() {
            return Ok(run);
        }
        let beside = self.kept_dir(&format!(".{run}.new"));
        let failed = |source| GoldenError::Io { action: "write", path: beside.clone(), source };
        if beside.exists() {
            fs::remove_dir_all(&beside).map_err(failed)?;
        }
        let copied = copy(recording, &beside).and_then(|()| fs::rename(&beside, self.kept_dir(&run)));
        if copied.is_err() {
            let _ = fs::remove_dir_all(&beside); // the error that matters is the one we return
        }
        copied.map(|()| run).map_err(failed)
    }

    /// Rejects a run.
    pub fn reject(&self, run: &str, at: SystemTime) -> Result<Golden, GoldenError> {
        let mut golden = self.golden()?.ok_or_else(|| GoldenError::NoGolden { dir: self.dir.clone() })?;
        golden.rejected.retain(|rejected| rejected.run != run);
        golden.rejected.push(RejectedRun { run: run.to_owned(), at: iso(at) });
        self.write(&golden)?;
        Ok(golden)
    }

    /// Lists the pending runs: those that began after the golden, and were neither accepted nor rejected.
    pub fn pending(&self) -> Result<PendingRuns, GoldenError> {
        let golden = self.golden()?.ok_or_else(|| GoldenError::NoGolden { dir: self.dir.clone() })?;
        let since = started(&self.kept_dir(&golden.run)).unwrap_or_default();
        let mut found = Vec::new();
        let mut pending = PendingRuns::default();
        for dir in self.run_folders()? {
            let Some(run) = dir.file_name().and_then(|name| name.to_str()) else { continue };
            if golden.is_decided(run) || run.starts_with('.') || golden.was_accepted(&dir) {
                continue;
            }
            match started(&dir) {
                Ok(began) if began > since => found.push((began, run.to_owned())),
                Ok(_) => {}
                Err(why) => pending.skipped.push((run.to_owned(), why)),
            }
        }
        found.sort();
        found.dedup();
        pending.skipped.sort();
        pending.skipped.dedup();
        pending.runs = found.into_iter().map(|(_, run)| run).collect();
        Ok(pending)
    }

    /// Appends a rule to `parity.toml`.
    pub fn add_rule(&self, rule: &str) -> Result<(), GoldenError> {
        let path = self.rules_file();
        let before = match fs::read_to_string(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(GoldenError::Io { action: "read", path, source: error });
            }
            before => before.unwrap_or_default(),
        };
        let before = match before.trim_end() {
            "" => format!("format = {RULES_FORMAT}"),
            before => before.to_owned(),
        };
        let text = format!("{before}\n\n{}\n", rule.trim());
        replace(&path, text.as_bytes()).map_err(|source| GoldenError::Io { action: "write", path, source })
    }

    fn write(&self, golden: &Golden) -> Result<(), GoldenError> {
        let path = self.dir.join(GOLDEN_FILE);
        let mut json = serde_json::to_vec_pretty(golden).expect("it has only string keys");
        json.push(b'\n');
        replace(&path, &json).map_err(|source| GoldenError::Io { action: "write", path, source })
    }
}

impl Golden {
    /// Returns whether a recording is a copy of an accepted run, which may have another name.
    fn was_accepted(&self, dir: &Path) -> bool {
        let Ok(manifest) = fs::read(dir.join(MANIFEST)) else { return false };
        let digest = sha256(&manifest);
        self.sha256 == digest || self.earlier.iter().any(|earlier| earlier.sha256 == digest)
    }

    fn is_decided(&self, run: &str) -> bool {
        self.run == run
            || self.earlier.iter().any(|earlier| earlier.run == run)
            || self.rejected.iter().any(|rejected| rejected.run == run)
    }
}

/// Sets the reason of a suggested rule.
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
        return golden; // it keeps the time of its acceptance
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
    struct VersionedGolden {
        format: u32,
    }
    let malformed = |path: PathBuf, why: &dyn ToString| GoldenError::Malformed { path, why: why.to_string() };
    match serde_json::from_slice::<VersionedGolden>(bytes) {
        Err(error) => return Err(malformed(path, &error)),
        Ok(VersionedGolden { format }) if format > GOLDEN_FORMAT => {
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

/// Returns whether a name is a plain folder name.
pub fn is_folder_name(name: &str) -> bool {
    let odd = |c: char| c == '/' || c == '\\' || c.is_control();
    !name.is_empty() && name.len() <= 200 && !name.starts_with('.') && !name.contains(odd)
}

/// Returns the folders `HARNESS/VERSION/SCENARIO` below a folder, relative to it.
fn scenarios_below(root: &Path) -> Result<Vec<PathBuf>, GoldenError> {
    let mut level = vec![root.to_owned()];
    for _ in 0..3 {
        let mut deeper = Vec::new();
        for dir in &level {
            deeper.extend(folders(dir)?);
        }
        level = deeper;
    }
    Ok(level.into_iter().filter_map(|dir| dir.strip_prefix(root).ok().map(Path::to_owned)).collect())
}

/// Returns the start time of a run, or the reason why it cannot be a golden.
fn started(run: &Path) -> Result<String, String> {
    let recording = Recording::open(run).map_err(|error| error.to_string())?;
    match (recording.state(), recording.manifest()) {
        (SealState::Unsealed { because }, _) => Err(format!("it is not sealed: {because}")),
        (SealState::Sealed, Some(manifest)) => Ok(manifest.started_at.clone()),
        (SealState::Sealed, None) => Err("it has no manifest".to_owned()),
    }
}

fn folders(dir: &Path) -> Result<Vec<PathBuf>, GoldenError> {
    let failed = |source| GoldenError::Io { action: "read", path: dir.to_owned(), source };
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

/// Replaces a file by renaming a new one, so that a crash leaves one of the two whole.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = dir.join(format!(".{name}.{}", std::process::id()));
    let written = (|| {
        let mut file = File::create(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        File::open(dir)?.sync_all()
    })();
    if written.is_err() {
        let _ = fs::remove_file(&temporary); // the error that matters is the one we return
    }
    written
}

#[cfg(test)]
mod tests;
