//! `offshoot accept`: makes a recording the golden of its scenario.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::SystemTime;

use parity::{GoldenError, ScenarioFolder, is_folder_name};
use recording::{HarnessInfo, Manifest, SealState};

use crate::failure::{ExitKind, OrFail, classify};
use crate::recordings::open;
use crate::terminal::print;

/// Make a recording the golden of its scenario
///
/// The recording is copied to goldens/HARNESS/VERSION/SCENARIO/runs, and golden.json beside runs/ names it. A recording that
/// is there already stays in place. The previous golden is kept.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  offshoot accept recordings/opencode/1.0.185/wakeup/20261115T100000Z
  offshoot accept /tmp/recording --goldens tests/goldens")]
pub(crate) struct Args {
    /// Folder of the recording
    #[arg(value_parser = crate::recordings::recording_at())]
    recording: PathBuf,
    /// Folder of the goldens
    #[arg(long, value_name = "DIR", default_value = "goldens")]
    goldens: PathBuf,
}

pub(crate) fn run(arguments: &Args) -> anyhow::Result<ExitCode> {
    let manifest = sealed(&arguments.recording)?;
    let scenario = manifest.harness.as_ref().map(|harness| harness.scenario.as_str());
    let around = ScenarioFolder::containing(&arguments.recording, scenario).or_fail(ExitKind::Outside)?;
    let (folder, run) = match around {
        Some(found) => found,
        None => {
            let folder = folder_of(&arguments.goldens, manifest.harness.as_ref())?;
            folder.golden().map_err(explain)?; // fails before the copy
            let run = folder.import(&arguments.recording, &run_name(&manifest)).map_err(explain)?;
            sealed(&folder.run_dir(&run))?; // the copy becomes the golden
            (folder, run)
        }
    };
    print(&accept(&folder, &run)?);
    Ok(ExitCode::SUCCESS)
}

/// Makes a run the golden. Returns the message about it.
pub(crate) fn accept(folder: &ScenarioFolder, run: &str) -> anyhow::Result<String> {
    let before = folder.golden().map_err(explain)?;
    folder.accept(run, SystemTime::now()).map_err(explain)?;
    warn_of_ignored(folder, run);
    let path = folder.run_dir(run);
    Ok(match before {
        Some(before) if before.run == run => format!("`{}` is the golden\n", path.display()),
        Some(before) => {
            format!("`{}` is the golden now; the previous golden `{}` is kept\n", path.display(), before.run)
        }
        None => format!("`{}` is the first golden\n", path.display()),
    })
}

/// Warns of files that git ignores, because a golden should be committed. Without git there is no warning.
fn warn_of_ignored(folder: &ScenarioFolder, run: &str) {
    let files =
        [parity::GOLDEN_FILE.to_owned()].into_iter().chain(files_below(folder.dir(), &format!("runs/{run}")));
    let ignored = ignored_by_git(folder.dir(), files.collect());
    let Some(first) = ignored.first() else { return };
    let which = match ignored.len() {
        1 => "a file of this golden, which".to_owned(),
        n => format!("{n} files of this golden, which"),
    };
    let more = if ignored.len() > 1 { " and others" } else { "" };
    warning!("git ignores {which} will be missing in a clone: `{}`{more}", report::visible(first));
    hint!("git add --force {}", folder.dir().display());
}

/// Returns all files in a folder of `dir`, by their paths from `dir`.
fn files_below(dir: &Path, inside: &str) -> Vec<String> {
    let mut files = Vec::new();
    let mut open = vec![inside.to_owned()];
    while let Some(inside) = open.pop() {
        for entry in std::fs::read_dir(dir.join(&inside)).into_iter().flatten().flatten() {
            let name = format!("{inside}/{}", entry.file_name().to_string_lossy());
            match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                true => open.push(name),
                false => files.push(name),
            }
        }
    }
    files.sort();
    files
}

/// Returns the files that `git add` would leave out.
fn ignored_by_git(dir: &Path, files: Vec<String>) -> Vec<String> {
    let started = Command::new("git")
        .arg("-C")
        .arg(dir)
        .args(["check-ignore", "-z", "--stdin"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut git) = started else { return Vec::new() };
    let stdin = git.stdin.take();
    // Another thread writes, because git answers before it has read everything.
    let writing = std::thread::spawn(move || {
        let text: String = files.iter().map(|file| format!("{file}\0")).collect();
        stdin.map(|mut stdin| stdin.write_all(text.as_bytes()))
    });
    let said = git.wait_with_output().map(|output| output.stdout).unwrap_or_default();
    let _ = writing.join(); // git may close its input early
    String::from_utf8_lossy(&said).split_terminator('\0').map(str::to_owned).collect()
}

/// Returns the manifest of a sealed, unchanged recording.
pub(crate) fn sealed(dir: &Path) -> anyhow::Result<Manifest> {
    let source = open(dir)?;
    let refuse = |what: String, hint: &str| {
        Err(classify(ExitKind::Usage, Some(hint.to_owned()), anyhow::anyhow!(what)))
    };
    let shown = dir.display();
    let Some(recording) = source.recording() else {
        let what = format!("`{shown}` is a folder of dumps; a golden must be a sealed recording");
        return refuse(what, "record it with `offshoot capture` or `offshoot proxy`");
    };
    if let SealState::Unsealed { because } = recording.state() {
        return refuse(format!("`{shown}` is not sealed: {because}"), "record it again, to its end");
    }
    let damage = recording.damage().or_fail(ExitKind::Usage)?;
    if let Some(first) = damage.first() {
        let what = format!("`{shown}` was changed after it was sealed: {first}");
        return refuse(what, &format!("offshoot show {shown}"));
    }
    match recording.manifest() {
        Some(Manifest { replay: Some(replay), .. }) if !replay.faults.is_empty() => refuse(
            format!("`{shown}` is a replay with faults: {}", replay.faults.join(", ")),
            "accept a capture, or a replay without `--fault`",
        ),
        Some(manifest) => Ok(manifest.clone()),
        None => refuse(format!("`{shown}` has no manifest"), "record it again, to its end"),
    }
}

/// Returns the folder of a scenario.
fn folder_of(goldens: &Path, harness: Option<&HarnessInfo>) -> anyhow::Result<ScenarioFolder> {
    let Some(harness) = harness.filter(|harness| !harness.scenario.is_empty()) else {
        let error = anyhow::anyhow!("the recording belongs to no scenario");
        return Err(error).or_fail_with(ExitKind::Usage, || {
            let runs = goldens.join("HARNESS/VERSION/SCENARIO/runs");
            format!("move it to `{}`, and accept it there", runs.display())
        });
    };
    let version = harness.version.as_deref().unwrap_or("none");
    let version = match &harness.host {
        Some(host) => format!("{}_{}__{}_{version}", host.name, host.version, harness.name),
        None => version.to_owned(),
    };
    for name in [&harness.name, &version, &harness.scenario] {
        if !is_folder_name(name) {
            let error =
                anyhow::anyhow!("`{}` in the manifest cannot be the name of a folder", name.escape_debug());
            return Err(error)
                .or_fail_with(ExitKind::Usage, || "record it again with `offshoot capture`".to_owned());
        }
    }
    Ok(ScenarioFolder::new(goldens.join(&harness.name).join(version).join(&harness.scenario)))
}

/// Returns the name of a run as `capture` does: its start time, so that names sort.
fn run_name(manifest: &Manifest) -> String {
    let name: String = manifest.started_at.chars().filter(char::is_ascii_alphanumeric).take(40).collect();
    if name.is_empty() { "run".to_owned() } else { name }
}

/// Adds the exit code and a hint to an error.
pub(crate) fn explain(error: GoldenError) -> anyhow::Error {
    let (kind, hint) = match &error {
        GoldenError::Malformed { path, .. } => {
            (ExitKind::Usage, Some(format!("git checkout {}", path.display())))
        }
        GoldenError::Newer { .. } => (
            ExitKind::Usage,
            Some("install the version of offshoot that wrote it, or a newer one".to_owned()),
        ),
        GoldenError::NoGolden { .. } => (ExitKind::Usage, Some("offshoot accept RECORDING".to_owned())),
        GoldenError::Changed { .. } => (
            ExitKind::Usage,
            Some("restore it from a copy, or accept another: offshoot accept RECORDING".into()),
        ),
        GoldenError::Io { .. } => (ExitKind::Outside, None),
    };
    classify(kind, hint, error.into())
}
