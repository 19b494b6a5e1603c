//! Files that have several names. What is closed under one of them is closed under all, since it is the same file.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::Workspace;

/// A file, whatever its name: device and number.
type Identity = (u64, u64);

/// The closed files of a workspace that may have another name. They are looked for once, when the first file turns up that
/// has several: most workspaces have none.
pub(crate) struct Twins<'w> {
    workspace: &'w Workspace,
    closed: OnceCell<HashMap<Identity, String>>,
}

impl<'w> Twins<'w> {
    pub(crate) fn of(workspace: &'w Workspace) -> Self {
        Self { workspace, closed: OnceCell::new() }
    }

    /// Why a file is not to be read, since one of its other names is closed.
    pub(crate) fn why_closed(&self, file: &File) -> Option<&str> {
        let found = file.metadata().ok().filter(|found| found.is_file() && found.nlink() > 1)?;
        if !self.workspace.closes_some() {
            return None;
        }
        let closed = self.closed.get_or_init(|| closed(self.workspace));
        closed.get(&(found.dev(), found.ino())).map(String::as_str)
    }
}

fn closed(workspace: &Workspace) -> HashMap<Identity, String> {
    let mut closed = HashMap::new();
    for (path, identity) in twins_below(vec![workspace.path().to_owned()], |_| true) {
        let place = path.strip_prefix(workspace.path()).unwrap_or(&path);
        if let Some(why) = workspace.why_closed(place, false) {
            closed.insert(identity, why);
        }
    }
    closed
}

/// The files below some folders, or these files themselves, that have several names. No link is followed.
fn twins_below(
    mut left: Vec<PathBuf>,
    enters: impl Fn(&Path) -> bool,
) -> impl Iterator<Item = (PathBuf, Identity)> {
    std::iter::from_fn(move || {
        while let Some(path) = left.pop() {
            let Ok(found) = std::fs::symlink_metadata(&path) else { continue };
            if found.is_dir() && enters(&path) {
                let inside = std::fs::read_dir(&path).into_iter().flatten().filter_map(Result::ok);
                left.extend(inside.map(|entry| entry.path()));
            } else if found.is_file() && found.nlink() > 1 {
                return Some((path, (found.dev(), found.ino())));
            }
        }
        None
    })
}

/// The other names that files in protected places have elsewhere, in one of these folders. What git keeps as objects is
/// left out: it is many, nobody runs it, and copies of a repository share it.
pub(crate) fn beside(protected: &[PathBuf], folders: &[PathBuf]) -> Vec<PathBuf> {
    let is_store = |folder: &Path| folder.ends_with("objects") && folder.with_file_name("HEAD").exists();
    let held = twins_below(protected.to_vec(), |folder| !is_store(folder));
    let held: HashSet<Identity> = held.map(|(_, identity)| identity).collect();
    if held.is_empty() {
        return Vec::new();
    }
    let is_held = |path: &Path| {
        let found = std::fs::symlink_metadata(path);
        found.is_ok_and(|found| found.is_file() && held.contains(&(found.dev(), found.ino())))
    };
    let entries = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten();
    entries.filter_map(Result::ok).map(|entry| entry.path()).filter(|path| is_held(path)).collect()
}
