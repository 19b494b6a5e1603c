//! The workspace and the exports: their changes, and the files to copy into the recording.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::path::Path;

use recording::{FileImport, WorkspaceChanges};

use crate::adapter::Export;
use crate::error::HarnessError;
use crate::sandbox::below;

/// Folders with installed packages or notes of oh-my-opencode, which are not part of the task.
const LEFT_OUT: &[&str] = &["node_modules", ".omo", ".sisyphus"];

/// The workspace at the start of the harness.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Snapshot(BTreeMap<String, u64>);

impl Snapshot {
    pub(super) fn of(workspace: &Path) -> Result<Self, HarnessError> {
        let files = files(workspace).map_err(HarnessError::io("read", workspace))?;
        let hashed = files.into_iter().map(|file| {
            let mut hasher = DefaultHasher::new();
            fs::read(&file.path)?.hash(&mut hasher);
            Ok((file.name, hasher.finish()))
        });
        hashed.collect::<io::Result<_>>().map(Self).map_err(HarnessError::io("read", workspace))
    }

    /// Compares the workspace with its current state.
    pub(super) fn compare(&self, workspace: &Path) -> Result<WorkspaceChanges, HarnessError> {
        let now = Self::of(workspace)?;
        let names = |from: &Self, test: &dyn Fn(&String, &u64) -> bool| {
            from.0.iter().filter(|(name, hash)| test(name, hash)).map(|(name, _)| name.clone()).collect()
        };
        Ok(WorkspaceChanges {
            added: names(&now, &|name, _| !self.0.contains_key(name)),
            changed: names(&now, &|name, hash| self.0.get(name).is_some_and(|before| before != hash)),
            removed: names(self, &|name, _| !now.0.contains_key(name)),
        })
    }
}

/// Lists the files to copy, with their names in the recording.
pub(super) fn incoming(workspace: &Path, exports: &[Export]) -> io::Result<Vec<FileImport>> {
    let mut incoming = files(workspace)?;
    incoming.iter_mut().for_each(|file| file.name = format!("workspace/{}", file.name));
    incoming.extend(
        exports
            .iter()
            .map(|export| FileImport { name: format!("exports/{}", export.name), path: export.path.clone() }),
    );
    Ok(incoming)
}

/// Lists the files of a workspace by their names. Links are not followed.
fn files(workspace: &Path) -> io::Result<Vec<FileImport>> {
    let inside = below(workspace)?.into_iter().filter_map(|path| {
        let name = path.strip_prefix(workspace).ok()?;
        let left_out = name.components().any(|part| LEFT_OUT.iter().any(|out| part.as_os_str() == *out));
        let is_file = path.symlink_metadata().is_ok_and(|found| found.is_file());
        let name = name.display().to_string();
        (is_file && !left_out).then_some(FileImport { name, path })
    });
    Ok(inside.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_named() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let put = |name: &str, text: &str| fs::write(place.path().join(name), text).expect("written");
        put("same", "1");
        put("edited", "1");
        put("gone", "1");
        let before = Snapshot::of(place.path()).expect("a snapshot");
        put("edited", "2");
        put("new", "1");
        fs::remove_file(place.path().join("gone")).expect("it was there");
        fs::create_dir(place.path().join("node_modules")).expect("a folder");
        put("node_modules/p", "1");
        let changes = before.compare(place.path()).expect("compared");
        let expected = WorkspaceChanges {
            added: vec!["new".into()],
            changed: vec!["edited".into()],
            removed: vec!["gone".into()],
        };
        assert_eq!(changes, expected);
    }
}
