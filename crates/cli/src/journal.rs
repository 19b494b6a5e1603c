//! The journal of our own runs, as commands open it.

use std::time::{SystemTime, UNIX_EPOCH};

use session::RunId;
use store::{Filter, Millis, Options, RunStatus, RunSummary, Store};

use crate::failure::{Kind, OrFail};
use crate::paths;

/// Opens the journal in the data folder.
pub(crate) fn open() -> anyhow::Result<Store> {
    let data = paths::data_dir().or_fail_with(Kind::Usage, || "export HOME=/home/you".into())?;
    let path = data.join("store.db");
    Store::open(&path, Options::default()).map_err(|error| {
        let hint = hint(&error, &path);
        crate::failure::marked(kind(&error), hint, error.into())
    })
}

/// Whose turn it is when the journal fails.
pub(crate) fn kind(error: &store::StoreError) -> Kind {
    use store::StoreError as Is;
    match error {
        Is::Full { .. } | Is::Disk { .. } | Is::Locked { .. } | Is::Corrupt { .. } | Is::Removed { .. } => {
            Kind::Outside
        }
        Is::Sqlite(_) | Is::Row { .. } | Is::WriterGone | Is::Misuse(_) | Is::SqliteTooOld { .. } => {
            Kind::Bug
        }
        _ => Kind::Usage,
    }
}

pub(crate) fn hint(error: &store::StoreError, path: &std::path::Path) -> Option<String> {
    use store::StoreError as Is;
    let path = path.display();
    Some(match error {
        Is::NotADatabase { .. } => format!("mv {path} {path}.bad"),
        // What belongs to it goes along: a new journal must not meet an old log.
        Is::Corrupt { .. } | Is::NoVersion { .. } => {
            format!("for f in {path} {path}-wal {path}-shm; do mv $f $f.bad; done")
        }
        Is::NotOurs { .. } => "set OFFSHOOT_DATA_DIR to another folder".to_owned(),
        Is::Removed { .. } => format!("ls -l {path}*"),
        Is::Locked { .. } => format!("fuser {path}"),
        Is::Full { .. } => format!("df -h {path}"),
        Is::ReadOnly { .. } | Is::Create { .. } => {
            format!("ls -ld {path}*, or set OFFSHOOT_DATA_DIR to a folder that you can write")
        }
        _ => return None,
    })
}

/// The run whose id begins like that.
pub(crate) fn find(store: &Store, beginning: &str) -> anyhow::Result<RunId> {
    if beginning.is_empty() {
        let error = anyhow::anyhow!("the id of a run is empty");
        return Err(error).or_fail_with(Kind::Usage, || "offshoot ps".to_owned());
    }
    let runs = store.runs(&Filter::default()).or_fail(Kind::Outside)?;
    let found: Vec<&RunSummary> = runs.iter().filter(|run| run.id.as_str().starts_with(beginning)).collect();
    let exact = found.iter().find(|run| run.id.as_str() == beginning);
    let list = || "offshoot ps".to_owned();
    match (exact, found.as_slice()) {
        (Some(run), _) => Ok(run.id.clone()),
        (None, [run]) => Ok(run.id.clone()),
        (None, []) => Err(anyhow::anyhow!("there is no run `{beginning}`")).or_fail_with(Kind::Usage, list),
        // A tree is meant by its top.
        (None, several) if top(several).is_some() => Ok(top(several).expect("there is one").clone()),
        (None, several) => {
            let error = anyhow::anyhow!("{} runs begin with `{beginning}`", several.len());
            Err(error).or_fail_with(Kind::Usage, || format!("give more of it, as in `{}`", several[0].id))
        }
    }
}

/// The run that all the others belong to.
fn top<'a>(runs: &[&'a RunSummary]) -> Option<&'a RunId> {
    let root = &runs.first()?.root;
    let all = runs.iter().all(|run| run.root == *root);
    runs.iter().map(|run| &run.id).find(|id| all && *id == root)
}

/// A run that is said to be at work in a process that is gone was interrupted.
pub(crate) fn as_it_is(run: &mut RunSummary) {
    if run.status.is_live() && !run.writer.is_some_and(agent::is_lease_holder_alive) {
        run.status = RunStatus::Interrupted;
    }
}

/// Now, as the journal counts.
pub(crate) fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Runs what waits for the journal.
pub(crate) fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().or_fail(Kind::Outside)?;
    runtime.block_on(work)
}
