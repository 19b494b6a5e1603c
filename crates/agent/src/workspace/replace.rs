//! Atomic replacement of a file.
//!
//! The bytes go into a draft in the same folder, which is then renamed. The draft's name follows from the
//! file's name, and its writer holds a lock on it. So the draft of a killed process can be recognised, and a
//! repeated write leaves the folder as if nothing had happened.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::time::Duration;

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, fstat, statat, unlinkat};
use rustix::io::Errno;

/// Suffix of all drafts. Listings do not show them.
pub(super) const DRAFT: &[u8] = b".offshoot-draft";

/// Longest name that file systems accept.
const MAX_NAME: usize = 255;

/// Writes `bytes` to the file `name` of a folder.
pub(super) fn replace(folder: &OwnedFd, name: &OsStr, bytes: &[u8]) -> Result<(), Errno> {
    let before = match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Some(stat),
        Err(Errno::NOENT) => None,
        Err(errno) => return Err(errno),
    };
    if let Some(stat) = &before {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {}
            FileType::Directory => return Err(Errno::ISDIR),
            _ => return Err(Errno::NXIO),
        }
    }
    let mut draft = DraftFile::create(folder, name)?;
    if let Some(stat) = &before {
        // Set before the first byte is written, since others may not be allowed to read the file. Set-id bits
        // are dropped: they were granted for the old content, and the kernel also removes them on a write.
        let rights = Mode::from_raw_mode(stat.st_mode) & (Mode::RWXU | Mode::RWXG | Mode::RWXO);
        rustix::fs::fchmod(&draft.file, rights)?;
    }
    draft.file.write_all(bytes).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    draft.publish(name)
}

struct DraftFile<'a> {
    folder: &'a OwnedFd,
    name: OsString,
    /// Locked until it is closed.
    file: File,
    published: bool,
}

impl<'a> DraftFile<'a> {
    /// Creates the draft for the file `of`, once no other writer holds it.
    fn create(folder: &'a OwnedFd, of: &OsStr) -> Result<Self, Errno> {
        // About one second in all.
        const TRIES: usize = 200;
        const PAUSE: Duration = Duration::from_millis(5);
        let name = draft_name(of);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for _ in 0..TRIES {
            match rustix::fs::openat(folder, &name, flags, Mode::from_raw_mode(0o666)) {
                // Between its creation and its lock, a draft looks abandoned and may be removed by another
                // writer.
                Ok(fd) if lock_if_current(folder, &name, &fd) => {
                    return Ok(Self { folder, name, file: fd.into(), published: false });
                }
                Ok(_) => {}
                Err(Errno::EXIST) if remove_abandoned(folder, &name)? => {}
                Err(Errno::EXIST) => std::thread::sleep(PAUSE),
                Err(errno) => return Err(errno),
            }
        }
        Err(Errno::BUSY)
    }

    /// Renames the draft to the file, durably.
    fn publish(&mut self, name: &OsStr) -> Result<(), Errno> {
        rustix::fs::fsync(&self.file)?;
        rustix::fs::renameat(self.folder, &self.name, self.folder, name)?;
        self.published = true;
        rustix::fs::fsync(self.folder)
    }
}

impl Drop for DraftFile<'_> {
    fn drop(&mut self) {
        if !self.published {
            // The write has failed already, and the next write removes what is left.
            let _ = unlinkat(self.folder, &self.name, AtFlags::empty());
        }
    }
}

/// Removes an abandoned draft, or anything else with its name. Returns false if a writer holds it.
fn remove_abandoned(folder: &OwnedFd, name: &OsStr) -> Result<bool, Errno> {
    let flags = super::resolve::FILE | OFlags::NOFOLLOW;
    let left = rustix::fs::openat(folder, name, flags, Mode::empty());
    match &left {
        Ok(fd) if !lock_if_current(folder, name, fd) => return Ok(false),
        Err(Errno::NOENT) => return Ok(true),
        // Abandoned; or a link or socket, which no draft is. The lock is held until it is removed.
        Ok(_) | Err(_) => {}
    }
    match unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(errno) => Err(errno),
    }
}

/// Locks an open file, and returns true if the name still leads to it. While the lock is held, no other writer
/// that follows these rules gives the name to another file.
fn lock_if_current(folder: &OwnedFd, name: &OsStr, fd: impl AsFd) -> bool {
    rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive).is_ok()
        && match (fstat(&fd), statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)) {
            (Ok(open), Ok(named)) => (open.st_dev, open.st_ino) == (named.st_dev, named.st_ino),
            _ => false,
        }
}

/// Returns the name of a file's draft. Files whose long names begin alike share it, and wait for each other.
fn draft_name(of: &OsStr) -> OsString {
    let room = MAX_NAME - 1 - DRAFT.len();
    let of = of.as_bytes();
    OsString::from_vec([b".", &of[..of.len().min(room)], DRAFT].concat())
}
