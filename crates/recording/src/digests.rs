//! Names and digests of all files of a recording.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::body::hex;
use crate::file_names;

/// Returns the names of all files of a recording, sorted.
pub(crate) fn files(dir: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(dir.join(&folder))? {
            let entry = entry?;
            let name = folder.join(entry.file_name());
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(name);
            } else if kind.is_file() {
                names.push(name.to_string_lossy().into_owned());
            }
        }
    }
    names.sort();
    Ok(names)
}

/// Returns the SHA-256 of every file except the manifest and derived files.
pub(crate) fn digests(dir: &Path) -> io::Result<BTreeMap<String, String>> {
    let derived = format!("{}/", file_names::NORMALIZED);
    let mut digests = BTreeMap::new();
    for name in files(dir)? {
        if name != file_names::MANIFEST && !name.starts_with(&derived) {
            let mut hasher = Sha256::new();
            io::copy(&mut File::open(dir.join(&name))?, &mut hasher)?;
            digests.insert(name, hex(hasher.finalize()));
        }
    }
    Ok(digests)
}
