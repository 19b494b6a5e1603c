//! Opening the recordings and runs that commands name.

use std::path::{Path, PathBuf};

use clap::builder::{PathBufValueParser, TypedValueParser};
use parity::{GOLDEN_FILE, GoldenError, ParityRules, ScenarioFolder};
use recording::source::Source;
use recording::{LogError, OpenError};
use session::RunId;
use store::Store;

use crate::failure::{Kind, OrFail, marked};
use crate::journal;
use crate::progress::Progress;

/// The run that was meant where a folder might have been.
pub(crate) fn run_or_folder(store: &Store, beginning: &str) -> anyhow::Result<RunId> {
    journal::find(store, beginning).map_err(|error| {
        let hint = "give a recording's folder, or a run: `offshoot ps` lists them".to_owned();
        marked(Kind::Usage, Some(hint), anyhow::anyhow!("there is no folder `{beginning}`, and {error}"))
    })
}

/// Reads the folder of a recording as it was typed.
pub(crate) fn recording_at() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|typed| accepted_in(&typed))
}

/// The run that was accepted, where it is the folder of a golden; else the folder itself.
fn accepted_in(dir: &Path) -> Result<PathBuf, GoldenError> {
    if dir.join(GOLDEN_FILE).is_file() { ScenarioFolder::new(dir).accepted_run() } else { Ok(dir.to_owned()) }
}

/// The same where it may be the id of a run, too.
pub(crate) fn recording_or_run(typed: &str) -> Result<String, String> {
    let at = accepted_in(Path::new(typed)).map_err(|error| error.to_string())?;
    if at == Path::new(typed) {
        return Ok(typed.to_owned());
    }
    at.into_os_string().into_string().map_err(|at| format!("`{}` is not UTF-8", at.display()))
}

/// Opens a recording or a folder of dumps, and says so where that takes its time.
pub(crate) fn open(dir: &Path) -> anyhow::Result<Source> {
    let _shown = Progress::of(&format!("reading `{}`", dir.display()));
    open_unseen(dir)
}

/// Opens a recording or a folder of dumps.
pub(crate) fn open_unseen(dir: &Path) -> anyhow::Result<Source> {
    Source::open(dir).map_err(|error| marked(Kind::Usage, hint(&error), error.into()))
}

/// What of a recording is not as it was when it was sealed.
pub(crate) fn damage(source: &Source) -> anyhow::Result<Vec<String>> {
    let damage = source.recording().map(|recording| recording.damage()).transpose();
    Ok(damage.or_fail(Kind::Outside)?.unwrap_or_default())
}

/// The exclusions and masks that hold for a golden: those in the file that was named, or those beside it.
pub(crate) fn rules(golden: &Path, named: Option<&Path>) -> anyhow::Result<ParityRules> {
    let hint = || "`docs/guide/verify.md` shows what a `parity.toml` holds".to_owned();
    ParityRules::find(golden, named).or_fail_with(Kind::Usage, hint)
}

fn hint(error: &OpenError) -> Option<String> {
    Some(match error {
        OpenError::Missing { .. } | OpenError::NotAFolder { .. } | OpenError::NotARecording { .. } => {
            "give the folder of a recording, the one that `--out` named, or a folder of dumps".to_owned()
        }
        OpenError::Newer { .. } | OpenError::Log { source: LogError::Newer { .. }, .. } => {
            "install the version of offshoot that wrote it, or a newer one".to_owned()
        }
        OpenError::Manifest { path, .. } => format!(
            "bring it back from a copy; `mv {0} {0}.bad` opens the recording as one that was never sealed",
            path.display()
        ),
        OpenError::Damaged { .. } | OpenError::Log { .. } | OpenError::TooLong { .. } => {
            "bring the recording back from a copy; its `provider_dumps/` can still be given by itself"
                .to_owned()
        }
        OpenError::Gone { path } => format!(
            "bring it back from a copy; `git check-ignore -v {}` says whether git was told to leave it out",
            path.display()
        ),
        OpenError::Outside { path } | OpenError::NotAFile { path } => {
            format!("nothing outside of a recording is read; look at it first: `ls -l {}`", path.display())
        }
        OpenError::Io { .. } => return None,
    })
}
