//! Opens the recordings and finds the runs that commands name.

use std::path::{Path, PathBuf};

use clap::builder::{PathBufValueParser, TypedValueParser};
use parity::{GOLDEN_FILE, GoldenError, ParityRules, ScenarioFolder};
use recording::source::Source;
use recording::{LogError, OpenError};
use session::RunId;
use store::Store;

use crate::failure::{ExitKind, OrFail, classify};
use crate::journal;
use crate::progress::Progress;

/// Finds a run by the name that was given instead of a folder.
pub(crate) fn run_or_folder(store: &Store, beginning: &str) -> anyhow::Result<RunId> {
    journal::find_run(store, beginning).map_err(|error| {
        let hint = "give the folder of a recording, or a run: `offshoot ps` lists them".to_owned();
        classify(ExitKind::Usage, Some(hint), anyhow::anyhow!("no folder `{beginning}`; {error}"))
    })
}

/// Parses the folder of a recording. The folder of a golden means its accepted run, and a scenario's folder of captures
/// the newest one.
pub(crate) fn recording_at() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|typed| resolve_golden(&typed))
}

/// Returns the accepted run of a golden, the newest capture of a scenario, or the folder itself.
fn resolve_golden(dir: &Path) -> Result<PathBuf, GoldenError> {
    if dir.join(GOLDEN_FILE).is_file() {
        return ScenarioFolder::new(dir).accepted_run();
    }
    let Some(run) = newest_capture(dir) else { return Ok(dir.to_owned()) };
    status!("newest run: `{}`", run.display());
    Ok(run)
}

/// Returns the newest recording in a folder that is none itself. Captures are named by their time.
fn newest_capture(dir: &Path) -> Option<PathBuf> {
    let entries: Vec<_> = std::fs::read_dir(dir).ok()?.flatten().collect();
    let is_part = |entry: &std::fs::DirEntry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        ["recording.json", "exchanges.log", "provider_dumps"].contains(&&*name)
            || name.ends_with("_request.json")
            || name.ends_with("_response.json")
    };
    if entries.iter().any(is_part) {
        return None;
    }
    let runs = entries.iter().map(std::fs::DirEntry::path);
    runs.filter(|run| run.join("recording.json").is_file()).max()
}

/// Parses the folder of a recording, or the id of a run.
pub(crate) fn recording_or_run(typed: &str) -> Result<String, String> {
    let at = resolve_golden(Path::new(typed)).map_err(|error| error.to_string())?;
    if at == Path::new(typed) {
        return Ok(typed.to_owned());
    }
    at.into_os_string().into_string().map_err(|at| format!("`{}` is not UTF-8", at.display()))
}

/// Parses the name of a harness, which becomes the name of a folder when its recording is accepted.
pub(crate) fn harness_name(typed: &str) -> Result<String, String> {
    match parity::is_folder_name(typed) {
        true => Ok(typed.to_owned()),
        false => Err("give a name without `/` and without a leading dot".to_owned()),
    }
}

/// Parses the name of a header.
pub(crate) fn header_name(typed: &str) -> Result<String, String> {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    match !typed.is_empty() && typed.chars().all(is_token) {
        true => Ok(typed.to_ascii_lowercase()),
        false => Err("give the name of a header, as in `x-conversation-id`".to_owned()),
    }
}

/// Opens a recording or a folder of dumps, and shows progress.
pub(crate) fn open(dir: &Path) -> anyhow::Result<Source> {
    let _progress = Progress::step(&format!("reading `{}`", dir.display()));
    open_quietly(dir)
}

/// Opens a recording or a folder of dumps without showing progress.
pub(crate) fn open_quietly(dir: &Path) -> anyhow::Result<Source> {
    Source::open(dir).map_err(|error| classify(ExitKind::Usage, hint(&error), error.into()))
}

/// Lists the files that changed since the recording was sealed.
pub(crate) fn damage(source: &Source) -> anyhow::Result<Vec<String>> {
    let damage = source.recording().map(|recording| recording.damage()).transpose();
    Ok(damage.or_fail(ExitKind::Outside)?.unwrap_or_default())
}

/// Loads the exclusions and masks of a golden: from the given file, or from the one beside the golden.
pub(crate) fn rules(golden: &Path, named: Option<&Path>) -> anyhow::Result<ParityRules> {
    let hint = || "see `docs/reference/verify.md` for the format of `parity.toml`".to_owned();
    ParityRules::find(golden, named).or_fail_with(ExitKind::Usage, hint)
}

fn hint(error: &OpenError) -> Option<String> {
    Some(match error {
        OpenError::Missing { .. } | OpenError::NotAFolder { .. } | OpenError::NotARecording { .. } => {
            "give the folder that `--out` named, or a folder of dumps".to_owned()
        }
        OpenError::Newer { .. } | OpenError::Log { source: LogError::Newer { .. }, .. } => {
            "install the version of offshoot that wrote it, or a newer version".to_owned()
        }
        OpenError::Manifest { path, .. } => format!(
            "restore it from a copy; after `mv {0} {0}.bad` the recording opens as unsealed",
            path.display()
        ),
        OpenError::Damaged { .. } | OpenError::Log { .. } | OpenError::TooLong { .. } => {
            "restore the recording from a copy, or give its folder `provider_dumps/` alone".to_owned()
        }
        OpenError::Gone { path } => format!(
            "restore it from a copy; `git check-ignore -v {}` tells if git ignores it",
            path.display()
        ),
        OpenError::Outside { path } | OpenError::NotAFile { path } => {
            format!("offshoot reads no file outside of a recording; see `ls -l {}`", path.display())
        }
        OpenError::Io { .. } => return None,
    })
}
