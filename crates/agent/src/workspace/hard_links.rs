//! Files with several names. A file that is denied under one name is denied under all of them.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::Workspace;

/// Identity of a file: device and inode number.
type InodeId = (u64, u64);

/// Denied files of a workspace that have another name. They are searched for once, when the first file with
/// several names appears. Most workspaces have none.
pub(crate) struct DeniedHardLinks<'w> {
    workspace: &'w Workspace,
    closed: OnceCell<HashMap<InodeId, String>>,
}

impl<'w> DeniedHardLinks<'w> {
    pub(crate) fn new(workspace: &'w Workspace) -> Self {
        Self { workspace, closed: OnceCell::new() }
    }

    /// Returns why a file may not be read because another of its names is denied.
    pub(crate) fn denial_reason(&self, file: &File) -> Option<&str> {
        let found = file.metadata().ok().filter(|found| found.is_file() && found.nlink() > 1)?;
        if !self.workspace.denies_any() {
            return None;
        }
        let closed = self.closed.get_or_init(|| denied_files(self.workspace));
        closed.get(&(found.dev(), found.ino())).map(String::as_str)
    }
}

fn denied_files(workspace: &Workspace) -> HashMap<InodeId, String> {
    let mut closed = HashMap::new();
    for (path, identity) in linked_files_below(vec![workspace.path().to_owned()], |_| true) {
        let place = path.strip_prefix(workspace.path()).unwrap_or(&path);
        if let Some(why) = workspace.denial_reason(place, false) {
            closed.insert(identity, why);
        }
    }
    closed
}

/// Iterates over files with several names in some folders, or over these paths themselves. Follows no links.
fn linked_files_below(
    mut left: Vec<PathBuf>,
    enters: impl Fn(&Path) -> bool,
) -> impl Iterator<Item = (PathBuf, InodeId)> {
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

/// Finds other names, in these folders, of files in protected places. Git's object store is left out: it is
/// large, nothing in it is executed, and copies of a repository share it.
pub(crate) fn other_names(protected: &[PathBuf], folders: &[PathBuf]) -> Vec<PathBuf> {
    let is_store = |folder: &Path| folder.ends_with("objects") && folder.with_file_name("HEAD").exists();
    let held = linked_files_below(protected.to_vec(), |folder| !is_store(folder));
    let held: HashSet<InodeId> = held.map(|(_, identity)| identity).collect();
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
