//! Open folders and their entries.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, OFlags, fstat, statat};
use rustix::io::Errno;

use super::replace::DRAFT;
use super::resolve::{FILE, FOLDER, open_beneath};

/// An open folder. Entries are opened by their names in it and never through a link, so a walk from folder to
/// folder cannot be redirected.
#[derive(Debug)]
pub(crate) struct OpenFolder(OwnedFd);

/// Entries of a folder.
#[derive(Debug)]
pub(crate) struct Entries {
    /// Sorted by the bytes of their names.
    pub(crate) list: Vec<FolderEntry>,
    /// True if the folder has more entries than were read.
    pub(crate) is_truncated: bool,
}

/// One entry of a folder.
#[derive(Debug)]
pub(crate) struct FolderEntry {
    pub(crate) name: OsString,
    pub(crate) kind: EntryKind,
}

/// Type of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryKind {
    File,
    Folder,
    Link,
    /// A pipe, a socket, or a device.
    Other,
}

impl OpenFolder {
    pub(super) fn new(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// Lists up to `limit` entries, without the drafts of files that are being written.
    pub(crate) fn entries(&self, limit: usize) -> Result<Entries, Errno> {
        let mut list = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." || name.ends_with(DRAFT) {
                continue;
            }
            if list.len() == limit {
                list.sort_by(|a: &FolderEntry, b| a.name.cmp(&b.name));
                return Ok(Entries { list, is_truncated: true });
            }
            let name = OsStr::from_bytes(name).to_owned();
            let kind = match entry.file_type() {
                // Some file systems do not report the type.
                FileType::Unknown => match statat(&self.0, &name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                    Err(_) => continue,
                },
                known => known,
            };
            list.push(FolderEntry { name, kind: EntryKind::of(kind) });
        }
        list.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Entries { list, is_truncated: false })
    }

    /// Opens a folder in it.
    pub(crate) fn open_folder(&self, name: &OsStr) -> Result<Self, Errno> {
        open_beneath(&self.0, Path::new(name), FOLDER | OFlags::NOFOLLOW).map(Self)
    }

    /// Opens a file in it.
    pub(crate) fn open_file(&self, name: &OsStr) -> Result<File, Errno> {
        let file = open_beneath(&self.0, Path::new(name), FILE | OFlags::NOFOLLOW)?;
        match FileType::from_raw_mode(fstat(&file)?.st_mode) {
            FileType::RegularFile => Ok(file.into()),
            _ => Err(Errno::NXIO),
        }
    }

    /// Returns the length of a file in it, in bytes.
    pub(crate) fn file_size(&self, name: &OsStr) -> Result<u64, Errno> {
        let stat = statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(u64::try_from(stat.st_size).unwrap_or(0))
    }

    /// Returns the target of a link in it.
    pub(crate) fn link_target(&self, name: &OsStr) -> Result<PathBuf, Errno> {
        let to = rustix::fs::readlinkat(&self.0, name, Vec::new())?;
        Ok(OsString::from_vec(to.into_bytes()).into())
    }
}

/// Opens a file in an open folder. Returns `None` if nothing has that name.
pub(super) fn open_file_at(folder: &OwnedFd, name: &OsStr) -> Result<Option<File>, Errno> {
    let stat = match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(None),
        stat => stat?,
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {
            Ok(Some(open_beneath(folder, Path::new(name), FILE | OFlags::NOFOLLOW)?.into()))
        }
        FileType::Directory => Err(Errno::ISDIR),
        _ => Err(Errno::NXIO),
    }
}

impl EntryKind {
    fn of(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Folder,
            FileType::Symlink => Self::Link,
            _ => Self::Other,
        }
    }
}
