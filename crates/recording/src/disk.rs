//! File access of the recorder while a recording is being written. No other module writes files then.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Storage for a recording. Names are relative to the recording's folder.
///
/// Tests use a disk that blocks or is full.
pub trait Disk: Send {
    /// Appends bytes to a file, which is created if needed. After an error the file is unchanged.
    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()>;
    /// Writes a complete file. After an error it does not exist.
    fn write(&mut self, name: &str, bytes: &[u8]) -> io::Result<()>;
    /// Renames an appended file to its final name.
    fn rename(&mut self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&mut self, name: &str) -> io::Result<()>;
}

/// Folder on a real disk.
#[derive(Debug)]
pub struct FolderDisk {
    root: PathBuf,
    open: HashMap<String, (File, u64)>,
}

impl FolderDisk {
    /// Uses an existing folder.
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), open: HashMap::new() }
    }

    fn appended(&mut self, name: &str) -> io::Result<&mut (File, u64)> {
        if !self.open.contains_key(name) {
            let path = self.root.join(name);
            let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
            let length = file.metadata()?.len();
            self.open.insert(name.to_owned(), (file, length));
        }
        Ok(self.open.get_mut(name).expect("inserted above"))
    }
}

impl Disk for FolderDisk {
    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let (file, length) = self.appended(name)?;
        if let Err(error) = file.write_all(bytes) {
            file.set_len(*length)?; // a partial record would corrupt the next one
            return Err(error);
        }
        *length += bytes.len() as u64;
        Ok(())
    }

    fn write(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.root.join(name);
        let written = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&path)
            .and_then(|mut file| file.write_all(bytes));
        if written.is_err() {
            let _ = fs::remove_file(&path); // report the first error
        }
        written
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.open.remove(from);
        fs::rename(self.root.join(from), self.root.join(to))
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.open.remove(name);
        fs::remove_file(self.root.join(name))
    }
}
