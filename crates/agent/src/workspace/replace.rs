//! Puts a file in another's place, whole or not at all.
//!
//! The bytes go into a draft beside the file, which then takes its name. A draft's name follows from the file's
//! and its writer holds a lock on it: so a draft that a killed process left is known as such, and the same write,
//! done again, leaves the folder as if nothing had happened.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::time::Duration;

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, fstat, statat, unlinkat};
use rustix::io::Errno;

/// Ends the name of every draft; no listing shows them.
pub(super) const DRAFT: &[u8] = b".offshoot-draft";

/// The longest name that file systems take.
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
    let mut draft = Draft::begin(folder, name)?;
    if let Some(stat) = &before {
        // Before the first byte, since the file may be one that others must not read. Not its set-id bits: they
        // vouch for what was in it, and the system takes them from a file that is written to as well.
        let rights = Mode::from_raw_mode(stat.st_mode) & (Mode::RWXU | Mode::RWXG | Mode::RWXO);
        rustix::fs::fchmod(&draft.file, rights)?;
    }
    draft.file.write_all(bytes).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    draft.publish(name)
}

struct Draft<'a> {
    folder: &'a OwnedFd,
    name: OsString,
    /// Locked until it is closed.
    file: File,
    published: bool,
}

impl<'a> Draft<'a> {
    /// Starts a draft for the file `of`, when nobody else is at it.
    fn begin(folder: &'a OwnedFd, of: &OsStr) -> Result<Self, Errno> {
        // Together about a second.
        const TRIES: usize = 200;
        const PAUSE: Duration = Duration::from_millis(5);
        let name = draft_name(of);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for _ in 0..TRIES {
            match rustix::fs::openat(folder, &name, flags, Mode::from_raw_mode(0o666)) {
                // Between its making and its lock it looks left behind, and somebody may have taken it away.
                Ok(fd) if is_ours(folder, &name, &fd) => {
                    return Ok(Self { folder, name, file: fd.into(), published: false });
                }
                Ok(_) => {}
                Err(Errno::EXIST) if clear(folder, &name)? => {}
                Err(Errno::EXIST) => std::thread::sleep(PAUSE),
                Err(errno) => return Err(errno),
            }
        }
        Err(Errno::BUSY)
    }

    /// Makes it the file, for good.
    fn publish(&mut self, name: &OsStr) -> Result<(), Errno> {
        rustix::fs::fsync(&self.file)?;
        rustix::fs::renameat(self.folder, &self.name, self.folder, name)?;
        self.published = true;
        rustix::fs::fsync(self.folder)
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if !self.published {
            // The write has failed already, and the next one clears what is left.
            let _ = unlinkat(self.folder, &self.name, AtFlags::empty());
        }
    }
}

/// Takes away a draft that nobody works on, or whatever else bears its name. False where somebody does.
fn clear(folder: &OwnedFd, name: &OsStr) -> Result<bool, Errno> {
    let flags = super::resolve::FILE | OFlags::NOFOLLOW;
    let left = rustix::fs::openat(folder, name, flags, Mode::empty());
    match &left {
        Ok(fd) if !is_ours(folder, name, fd) => return Ok(false),
        Err(Errno::NOENT) => return Ok(true),
        // Left behind; or a link or a socket, which no draft is. The lock is held until it is gone.
        Ok(_) | Err(_) => {}
    }
    match unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(errno) => Err(errno),
    }
}

/// Locks an open file, and tells whether it is still the one of that name. While it is, and is locked, nobody who
/// keeps to these rules gives the name to another.
fn is_ours(folder: &OwnedFd, name: &OsStr, fd: impl AsFd) -> bool {
    rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive).is_ok()
        && match (fstat(&fd), statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)) {
            (Ok(open), Ok(named)) => (open.st_dev, open.st_ino) == (named.st_dev, named.st_ino),
            _ => false,
        }
}

/// Two files whose long names begin alike share a draft's name, and wait for each other.
fn draft_name(of: &OsStr) -> OsString {
    let room = MAX_NAME - 1 - DRAFT.len();
    let of = of.as_bytes();
    OsString::from_vec([b".", &of[..of.len().min(room)], DRAFT].concat())
}
