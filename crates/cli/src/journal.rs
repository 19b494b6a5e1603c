//! Opens the journal of our own runs, and finds runs in it.

use std::time::{SystemTime, UNIX_EPOCH};

use session::RunId;
use store::{Filter, Millis, Options, RunStatus, RunSummary, Store, StoreError};

use crate::failure::{ExitKind, OrFail};
use crate::paths;

/// Name of the journal in the data folder.
pub(crate) const FILE_NAME: &str = "store.db";

/// Opens the journal in the data folder.
pub(crate) fn open() -> anyhow::Result<Store> {
    let path = default_path()?;
    Store::open(&path, Options::default()).map_err(|error| {
        let hint = hint(&error, &path);
        crate::failure::classify(exit_kind(&error), hint, error.into())
    })
}

/// Returns the path of the journal in the data folder.
pub(crate) fn default_path() -> anyhow::Result<std::path::PathBuf> {
    let data = paths::data_dir().or_fail_with(ExitKind::Usage, || "export HOME=/home/you".into())?;
    Ok(data.join(FILE_NAME))
}

/// Returns a command that moves all files of a journal away. SQLite would apply the old log to a new journal.
pub(crate) fn move_away(path: &std::path::Path) -> String {
    let path = paths::shell_word(&path.display().to_string());
    format!("for f in {path} {path}-wal {path}-shm; do [ -e \"$f\" ] && mv \"$f\" \"$f.bad\"; done")
}

/// Chooses the exit code of a journal error.
pub(crate) fn exit_kind(error: &StoreError) -> ExitKind {
    match error {
        StoreError::Full { .. }
        | StoreError::Disk { .. }
        | StoreError::Locked { .. }
        | StoreError::Corrupt { .. }
        | StoreError::Removed { .. }
        | StoreError::Emptied { .. }
        | StoreError::LogDamaged { .. } => ExitKind::Outside,
        StoreError::Sqlite(_)
        | StoreError::Row { .. }
        | StoreError::WriterGone
        | StoreError::Misuse(_)
        | StoreError::SqliteTooOld { .. } => ExitKind::Bug,
        _ => ExitKind::Usage,
    }
}

/// Returns a command that helps with a journal error.
pub(crate) fn hint(error: &StoreError, path: &std::path::Path) -> Option<String> {
    let away = move_away(path);
    let path = paths::shell_word(&path.display().to_string());
    Some(match error {
        StoreError::NotADatabase { .. } | StoreError::Corrupt { .. } | StoreError::NoVersion { .. } => away,
        StoreError::Emptied { .. } | StoreError::LogDamaged { .. } => "offshoot journal check".to_owned(),
        StoreError::NotOurs { .. } => "set OFFSHOOT_DATA_DIR to another folder".to_owned(),
        StoreError::Removed { .. } => format!("ls -l {path}*"),
        StoreError::Locked { .. } => format!("fuser {path}"),
        StoreError::Full { .. } => format!("df -h {path}"),
        StoreError::ReadOnly { .. } | StoreError::Create { .. } => {
            format!("ls -ld {path}*, or set OFFSHOOT_DATA_DIR to a folder that you can write")
        }
        _ => return None,
    })
}

/// Finds the run whose id begins with `beginning`.
pub(crate) fn find_run(store: &Store, beginning: &str) -> anyhow::Result<RunId> {
    if beginning.is_empty() {
        let error = anyhow::anyhow!("the run id is empty");
        return Err(error).or_fail_with(ExitKind::Usage, || "offshoot ps".to_owned());
    }
    let runs = store.runs(&Filter::default()).or_fail(ExitKind::Outside)?;
    let matching: Vec<&RunSummary> =
        runs.iter().filter(|run| run.id.as_str().starts_with(beginning)).collect();
    let exact = matching.iter().find(|run| run.id.as_str() == beginning);
    let list = || "offshoot ps".to_owned();
    match (exact, matching.as_slice()) {
        (Some(run), _) => Ok(run.id.clone()),
        (None, [run]) => Ok(run.id.clone()),
        (None, []) => Err(anyhow::anyhow!("no run `{beginning}`")).or_fail_with(ExitKind::Usage, list),
        (None, several) => match common_root(several) {
            Some(root) => Ok(root.clone()),
            None => {
                let error = anyhow::anyhow!("{} runs begin with `{beginning}`", several.len());
                Err(error)
                    .or_fail_with(ExitKind::Usage, || format!("give more letters, as in `{}`", several[0].id))
            }
        },
    }
}

/// Returns the root of a tree if all the runs belong to it and it is one of them.
fn common_root<'a>(runs: &[&'a RunSummary]) -> Option<&'a RunId> {
    let root = &runs.first()?.root;
    let all = runs.iter().all(|run| run.root == *root);
    runs.iter().map(|run| &run.id).find(|id| all && *id == root)
}

/// Marks a run as interrupted if the process that was working on it is gone.
pub(crate) fn mark_interrupted(run: &mut RunSummary) {
    if run.status.is_live() && !run.writer.is_some_and(agent::is_lease_holder_alive) {
        run.status = RunStatus::Interrupted;
        // Its open requests may have cost something.
        for totals in [&mut run.own, &mut run.inclusive] {
            totals.unpriced += std::mem::take(&mut totals.open);
        }
    }
}

/// Returns the current time in the unit of the journal.
pub(crate) fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Runs asynchronous work that uses the journal.
pub(crate) fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().or_fail(ExitKind::Outside)?;
    runtime.block_on(work)
}
