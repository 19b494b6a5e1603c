//! The files that a run may touch, and the one way to reach them.
//!
//! Start at [`Workspace`]. Whatever opens, lists or writes a file for a model goes through here; nothing else
//! in this crate turns a path from a model into a file. Two things are deliberately absent. There is no check
//! of a path before its use, because a path that was harmless a moment ago may be a link now: the kernel
//! resolves and opens in one step, or refuses. And hard links are not told from files, because they are files.

mod error;
mod folder;
mod replace;
mod resolve;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use rustix::io::Errno;

pub use error::WorkspaceError;
pub(crate) use error::shown;
pub(crate) use folder::{Entries, Folder, Kind};

/// The folder that a run works in. Nothing outside of it can be reached through it: neither by `..`, nor by a
/// symlink, nor by one that somebody puts there at the wrong moment.
///
/// It holds the folder itself, not its name, so a workspace that is moved stays the same one.
#[derive(Debug)]
pub struct Workspace {
    root: OwnedFd,
    /// As the user said it, made absolute: models repeat what they were told.
    given: PathBuf,
    canonical: PathBuf,
}

impl Workspace {
    /// Takes `root` for the workspace. Fails where the system cannot keep paths inside of it.
    pub fn open(root: &Path) -> Result<Self, WorkspaceError> {
        let failed = |source| WorkspaceError::Io { doing: "open the workspace", path: shown(root), source };
        let given = std::path::absolute(root).map_err(failed)?;
        let canonical = root.canonicalize().map_err(failed)?;
        let fd = rustix::fs::open(&canonical, resolve::FOLDER, rustix::fs::Mode::empty())
            .map_err(|errno| failed(errno.into()))?;
        // One try now, so that a system without `openat2` is found out before a run begins.
        resolve::beneath(&fd, Path::new("."), resolve::FOLDER).map_err(|errno| match errno {
            Errno::NOSYS | Errno::PERM => WorkspaceError::Unsupported,
            errno => failed(errno.into()),
        })?;
        Ok(Self { root: fd, given, canonical })
    }

    /// Where it is, without links.
    pub fn path(&self) -> &Path {
        &self.canonical
    }

    /// The bytes of a file, at most `limit` of them: a longer file is refused, not cut.
    pub fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>, WorkspaceError> {
        let mut bytes = Vec::new();
        // The length is what was read, not what the system says: it may grow meanwhile.
        self.file(path)?
            .take(limit.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(|source| WorkspaceError::Io { doing: "read", path: shown(path), source })?;
        if bytes.len() as u64 > limit {
            return Err(WorkspaceError::TooLarge { path: shown(path), limit });
        }
        Ok(bytes)
    }

    /// Puts a file there, whole or not at all, with the folders it needs. A file that was there keeps its mode;
    /// where there was a link to another file of the workspace, that one is written.
    pub fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), WorkspaceError> {
        let relative = self.relative(path)?;
        if resolve::means_folder(path) {
            let why = "ends like a folder's, where a file's is needed";
            return Err(WorkspaceError::BadPath { path: shown(path), why });
        }
        // The file is known here by its folder and its name, whatever links led to it: the place for a rule
        // that protects some of them.
        self.target(&relative)
            .and_then(|(folder, name)| replace::replace(&folder, &name, bytes))
            .map_err(|errno| self.explain(errno, "write", path))
    }

    /// Opens a file for reading.
    pub(crate) fn file(&self, path: &Path) -> Result<File, WorkspaceError> {
        let relative = self.relative(path)?;
        let file = self
            .reach(&relative, resolve::FILE)
            .map(File::from)
            .map_err(|errno| self.explain(errno, "open", path))?;
        let stat = rustix::fs::fstat(&file).map_err(|errno| self.explain(errno, "open", path))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(file),
            FileType::Directory => Err(WorkspaceError::IsFolder(shown(path))),
            _ => Err(WorkspaceError::NoFile(shown(path))),
        }
    }

    /// Opens a folder for looking through it.
    pub(crate) fn folder(&self, path: &Path) -> Result<Folder, WorkspaceError> {
        let relative = self.relative(path)?;
        let folder =
            self.reach(&relative, resolve::FOLDER).map_err(|errno| self.explain(errno, "open", path))?;
        // A deleted folder that is still open looks empty.
        if self.is_gone() {
            return Err(WorkspaceError::Gone(shown(&self.canonical)));
        }
        Ok(Folder::new(folder))
    }

    /// Says in words what went wrong with a path.
    pub(crate) fn explain(&self, errno: Errno, doing: &'static str, path: &Path) -> WorkspaceError {
        let path = shown(path);
        match errno {
            Errno::NOENT if self.is_gone() => WorkspaceError::Gone(shown(&self.canonical)),
            Errno::NOENT => WorkspaceError::Missing(path),
            Errno::XDEV => WorkspaceError::Outside { path, workspace: shown(&self.canonical) },
            Errno::LOOP => WorkspaceError::Links(path),
            Errno::NOTDIR => WorkspaceError::NoFolder(path),
            Errno::ISDIR => WorkspaceError::IsFolder(path),
            Errno::NXIO => WorkspaceError::NoFile(path),
            Errno::BUSY => WorkspaceError::Busy(path),
            Errno::NAMETOOLONG => WorkspaceError::BadPath { path, why: "is too long" },
            Errno::NOSYS => WorkspaceError::Unsupported,
            errno => WorkspaceError::Io { doing, path, source: errno.into() },
        }
    }

    /// A folder that was deleted while we hold it has no name left anywhere.
    fn is_gone(&self) -> bool {
        rustix::fs::fstat(&self.root).is_ok_and(|stat| stat.st_nlink == 0)
    }
}
