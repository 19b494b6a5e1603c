//! The files of a folder in memory.

use std::collections::BTreeMap;
use std::collections::btree_map::Iter;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Files by their names in a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files(BTreeMap<String, FixtureFile>);

/// A file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixtureFile {
    /// Its content.
    pub bytes: Vec<u8>,
    /// True if it is executable.
    pub executable: bool,
}

impl<const N: usize> From<[(String, FixtureFile); N]> for Files {
    fn from(files: [(String, FixtureFile); N]) -> Self {
        Self(BTreeMap::from(files))
    }
}

impl FromIterator<(String, FixtureFile)> for Files {
    fn from_iter<T: IntoIterator<Item = (String, FixtureFile)>>(files: T) -> Self {
        Self(files.into_iter().collect())
    }
}

impl Files {
    /// Reads a folder. Links to files are followed. Links to folders are not, because they may form cycles.
    pub(crate) fn read(folder: &Path) -> io::Result<Self> {
        let mut files = BTreeMap::new();
        let mut folders = vec![String::new()];
        while let Some(inside) = folders.pop() {
            for entry in fs::read_dir(folder.join(&inside))? {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy().into_owned();
                let name = if inside.is_empty() { name } else { format!("{inside}/{name}") };
                if entry.file_type()?.is_dir() {
                    folders.push(name);
                } else if let Ok(found) = fs::metadata(entry.path())
                    && found.is_file()
                {
                    let executable = found.permissions().mode() & 0o111 != 0;
                    files.insert(name, FixtureFile { bytes: fs::read(entry.path())?, executable });
                }
            }
        }
        Ok(Self(files))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&FixtureFile> {
        self.0.get(name)
    }

    pub(crate) fn iter(&self) -> Iter<'_, String, FixtureFile> {
        self.0.iter()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the files below a subfolder, with names relative to it.
    pub(crate) fn below(&self, folder: &str) -> Self {
        let inside = |name: &str| name.strip_prefix(folder)?.strip_prefix('/').map(str::to_owned);
        self.0.iter().filter_map(|(name, file)| Some((inside(name)?, file.clone()))).collect()
    }

    /// Adds files and replaces those with the same name.
    pub(crate) fn overlay(&mut self, others: Self) {
        self.0.extend(others.0);
    }
}
