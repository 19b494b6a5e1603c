//! An open folder, and what is in it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, OFlags, fstat, statat};
use rustix::io::Errno;

use super::replace::DRAFT;
use super::resolve::{FILE, FOLDER, beneath};

/// An open folder. Its entries are opened by their names in it and never through a link, so whoever walks down
/// from folder to folder cannot be led away.
#[derive(Debug)]
pub(crate) struct Folder(OwnedFd);

/// What is in a folder.
#[derive(Debug)]
pub(crate) struct Entries {
    /// In the order of their names' bytes.
    pub(crate) list: Vec<Entry>,
    /// There are more, which were not looked at.
    pub(crate) more: bool,
}

/// A name in a folder.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: OsString,
    pub(crate) kind: Kind,
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Folder,
    Link,
    /// A pipe, a socket, a device.
    Other,
}

impl Folder {
    pub(super) fn new(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// What is in it, up to `limit` entries, without the drafts of files that are being written.
    pub(crate) fn entries(&self, limit: usize) -> Result<Entries, Errno> {
        let mut list = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." || name.ends_with(DRAFT) {
                continue;
            }
            if list.len() == limit {
                list.sort_by(|a: &Entry, b| a.name.cmp(&b.name));
                return Ok(Entries { list, more: true });
            }
            let name = OsStr::from_bytes(name).to_owned();
            let kind = match entry.file_type() {
                // Some file systems do not say.
                FileType::Unknown => match statat(&self.0, &name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                    Err(_) => continue,
                },
                known => known,
            };
            list.push(Entry { name, kind: Kind::of(kind) });
        }
        list.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Entries { list, more: false })
    }

    /// Opens a folder in it.
    pub(crate) fn folder(&self, name: &OsStr) -> Result<Self, Errno> {
        beneath(&self.0, Path::new(name), FOLDER | OFlags::NOFOLLOW).map(Self)
    }

    /// Opens a file in it.
    pub(crate) fn file(&self, name: &OsStr) -> Result<File, Errno> {
        let file = beneath(&self.0, Path::new(name), FILE | OFlags::NOFOLLOW)?;
        match FileType::from_raw_mode(fstat(&file)?.st_mode) {
            FileType::RegularFile => Ok(file.into()),
            _ => Err(Errno::NXIO),
        }
    }

    /// The length of a file in it, in bytes.
    pub(crate) fn size(&self, name: &OsStr) -> Result<u64, Errno> {
        let stat = statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(u64::try_from(stat.st_size).unwrap_or(0))
    }

    /// What a link in it says.
    pub(crate) fn link(&self, name: &OsStr) -> Result<PathBuf, Errno> {
        let to = rustix::fs::readlinkat(&self.0, name, Vec::new())?;
        Ok(OsString::from_vec(to.into_bytes()).into())
    }
}

/// Opens a file of an open folder; nothing where nothing is.
pub(super) fn file(folder: &OwnedFd, name: &OsStr) -> Result<Option<File>, Errno> {
    let stat = match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(None),
        stat => stat?,
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(Some(beneath(folder, Path::new(name), FILE | OFlags::NOFOLLOW)?.into())),
        FileType::Directory => Err(Errno::ISDIR),
        _ => Err(Errno::NXIO),
    }
}

impl Kind {
    fn of(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Folder,
            FileType::Symlink => Self::Link,
            _ => Self::Other,
        }
    }
}
