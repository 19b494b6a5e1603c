//! Files that a run may use, and the only way to open them.
//!
//! Start at [`Workspace`]. Every tool that opens, lists or writes a file does it here; nothing else in this
//! crate turns a path from a model into a file. Paths are deliberately not checked before their use, because a
//! checked path can become a link a moment later. Instead, the kernel resolves and opens a path in one step, or
//! refuses. Hard links are no way around a rule: a denied file is denied under all its names, and a write
//! creates a new file.
//!
//! This module knows nothing of runs, tools or permission syntax. Rules come in as [`PathRules`].

mod error;
mod folder;
mod git;
mod hard_links;
mod places;
mod protected;
mod replace;
mod resolve;
#[cfg(test)]
mod tests;

use std::fmt::Debug;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::FileType;
use rustix::io::Errno;

pub use error::WorkspaceError;
pub(crate) use error::display_path;
pub(crate) use folder::{Entries, EntryKind, OpenFolder};
pub(crate) use hard_links::{DeniedHardLinks, other_names};
pub(crate) use places::{ProtectedPlace, ProtectedPlaces, link_end, real_paths};
use protected::ProtectedName;
pub(crate) use protected::{
    GIT_TARGET, PROGRAM_NAMES, REPOSITORY, REPOSITORY_PART, is_one_of, protected_name,
};
pub(crate) use resolve::{normalize, resolve_existing};

/// Rules for real paths in a workspace.
pub trait PathRules: Debug + Send + Sync {
    /// Returns why a place may not be read or written.
    fn denial_reason(&self, place: &Path, writing: bool) -> Option<String>;

    /// Returns true if reading may be denied somewhere.
    fn denies_any(&self) -> bool;

    /// Returns true if walks skip a place.
    fn is_excluded_from_walks(&self, place: &Path) -> bool;
}

/// The folder that a run works in. Nothing outside it can be reached through it: neither by `..`, nor by a
/// symlink, nor by a symlink that appears at the wrong moment.
///
/// It holds the open folder, not its name, so it stays the same workspace if it is moved.
#[derive(Clone, Debug)]
pub struct Workspace {
    root: Arc<OwnedFd>,
    /// Path as the user gave it, made absolute. Models repeat the path that they were given.
    given: PathBuf,
    canonical: PathBuf,
    /// Folders in the workspace that no tool may use, relative to the root.
    hidden: Vec<PathBuf>,
    /// Rules for real paths: the user's, and in a run those of its agent's definition.
    rules: Vec<Arc<dyn PathRules>>,
}

impl Workspace {
    /// Opens `root` as a workspace. Fails if the system cannot keep paths inside it.
    pub fn open(root: &Path) -> Result<Self, WorkspaceError> {
        let failed =
            |source| WorkspaceError::Io { doing: "open the workspace", path: display_path(root), source };
        let given = std::path::absolute(root).map_err(failed)?;
        let canonical = root.canonicalize().map_err(failed)?;
        let fd = rustix::fs::open(&canonical, resolve::FOLDER, rustix::fs::Mode::empty())
            .map_err(|errno| failed(errno.into()))?;
        // Tries once now, so that a system without `openat2` is detected before a run begins.
        resolve::open_beneath(&fd, Path::new("."), resolve::FOLDER).map_err(|errno| match errno {
            Errno::NOSYS | Errno::PERM => WorkspaceError::Unsupported,
            errno => failed(errno.into()),
        })?;
        Ok(Self { root: Arc::new(fd), given, canonical, hidden: Vec::new(), rules: Vec::new() })
    }

    /// Hides these folders from all tools if they are inside: the journal, and the settings that say where keys
    /// go.
    pub fn with_hidden(mut self, folders: &[PathBuf]) -> Self {
        let inside = |folder: &PathBuf| {
            let place = folder.canonicalize().or_else(|_| std::path::absolute(folder)).ok()?;
            place.strip_prefix(&self.canonical).ok().map(Path::to_path_buf)
        };
        // If the workspace itself is inside one of them, the user chose that.
        self.hidden =
            folders.iter().filter_map(inside).filter(|place| place.components().count() > 0).collect();
        self
    }

    /// Adds rules that say which files may not be read or written.
    pub fn with_rules(mut self, rules: Arc<impl PathRules + 'static>) -> Self {
        self.rules.push(rules);
        self
    }

    /// Returns why a tool may not read or write a place.
    pub(crate) fn denial_reason(&self, place: &Path, writing: bool) -> Option<String> {
        if self.hidden.iter().any(|closed| place.starts_with(closed)) {
            return Some("offshoot keeps its journal or its settings there".to_owned());
        }
        self.rules.iter().find_map(|rules| rules.denial_reason(place, writing))
    }

    /// Returns true if reading may be denied somewhere in the workspace.
    pub(crate) fn denies_any(&self) -> bool {
        !self.hidden.is_empty() || self.rules.iter().any(|rules| rules.denies_any())
    }

    /// Returns true if walks through folders skip a place.
    pub(crate) fn is_excluded_from_walks(&self, place: &Path) -> bool {
        self.hidden.iter().any(|closed| place.starts_with(closed))
            || self.rules.iter().any(|rules| rules.is_excluded_from_walks(place))
    }

    fn check_access(&self, place: &Path, path: &Path, writing: bool) -> Result<(), WorkspaceError> {
        match self.denial_reason(place, writing) {
            Some(why) => Err(WorkspaceError::Denied { path: display_path(path), why }),
            None => Ok(()),
        }
    }

    /// Resolves a path relative to the root. Links are followed as far as something exists.
    pub(crate) fn resolve(&self, path: &Path) -> Result<PathBuf, WorkspaceError> {
        let relative = self.relative(path)?;
        for there in relative.ancestors() {
            let Ok(fd) = self.open_below(resolve::or_dot(there), resolve::PATH_ONLY) else { continue };
            let place = self.place_of(&fd).map_err(|errno| self.explain(errno, "find", path))?;
            let rest = relative.strip_prefix(there).unwrap_or(Path::new(""));
            if rest.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
                return Ok(place.join(rest));
            }
        }
        Err(self.explain(Errno::NOENT, "find", path))
    }

    /// Lists the places in the workspace that other programs may reach by a path: they may remove `..` before
    /// they follow links, or start elsewhere.
    pub(crate) fn possible_targets(&self, path: &Path) -> Vec<PathBuf> {
        let plain = normalize(&self.canonical.join(path));
        let real = resolve_existing(&plain);
        let below = |path: &Path| {
            let roots = [&self.canonical, &self.given];
            roots.iter().find_map(|root| path.strip_prefix(root).ok().map(Path::to_path_buf))
        };
        [below(&plain), real.and_then(|real| below(&real))].into_iter().flatten().collect()
    }

    /// Returns the path without links.
    pub fn path(&self) -> &Path {
        &self.canonical
    }

    /// Reads a file of at most `limit` bytes. A longer file is refused, not cut.
    pub fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>, WorkspaceError> {
        self.read_file(path, limit).map(|found| found.bytes)
    }

    /// Reads a file like [`read`](Self::read), and returns its real place too.
    pub(crate) fn read_file(&self, path: &Path, limit: u64) -> Result<FileContent, WorkspaceError> {
        let file = self.open_file(path)?;
        let place = self.place_of(&file).map_err(|errno| self.explain(errno, "find", path))?;
        Ok(FileContent { place, bytes: read_whole(file, path, limit)? })
    }

    /// Writes a file atomically, and creates the folders it needs. An existing file keeps its mode. A link to
    /// another file of the workspace is followed.
    ///
    /// Protected places are refused, whatever leads to them. Another hard link of the file keeps its content,
    /// because a write creates a new file.
    pub fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), WorkspaceError> {
        self.update(path, 0, |_, _| Ok(bytes.to_vec())).map(drop)
    }

    /// Replaces a file with the result of `make`, which receives the place and the current bytes, or `None` if
    /// no file exists. With `limit` 0 the file is not read. Returns the new content.
    pub(crate) fn update<E: From<WorkspaceError>>(
        &self,
        path: &Path,
        limit: u64,
        make: impl FnOnce(&Path, Option<&[u8]>) -> Result<Vec<u8>, E>,
    ) -> Result<FileContent, E> {
        let relative = self.relative(path)?;
        if resolve::means_folder(path) {
            let why = "ends like a folder path, but a file path is needed";
            return Err(WorkspaceError::BadPath { path: display_path(path), why }.into());
        }
        let failed = |errno| self.explain(errno, "write", path);
        let refused =
            |by: &ProtectedName| WorkspaceError::Protected { path: display_path(path), why: by.why };
        let protected_by = self.protection_check().map_err(failed)?;
        // Checked early, so that no folders are created in vain. The decisive check uses the open folder.
        if let Some(by) = self.protected_on_the_way(&relative) {
            return Err(refused(by).into());
        }
        if let Ok(place) = self.resolve(path) {
            protected_by(&place).map_or(Ok(()), |by| Err(refused(by)))?;
            self.check_access(&place, path, true)?;
        }
        // From here on, the open folder and the name identify the file, whatever links led to it.
        let (folder, name) = self.write_target(&relative).map_err(|error| match error {
            TargetError::Errno(errno) => failed(errno),
            TargetError::Protected(by) => refused(by),
        })?;
        let place = self.place_of(&folder).map_err(failed)?.join(&name);
        protected_by(&place).map_or(Ok(()), |by| Err(refused(by)))?;
        self.check_access(&place, path, true)?;
        let before = match limit {
            0 => None,
            _ => folder::open_file_at(&folder, &name)
                .map_err(failed)?
                .map(|file| read_whole(file, path, limit))
                .transpose()?,
        };
        let bytes = make(&place, before.as_deref())?;
        if before.as_deref() != Some(&bytes[..]) {
            replace::replace(&folder, &name, &bytes).map_err(failed)?;
        }
        Ok(FileContent { place, bytes })
    }

    /// Scans for protected places, and returns a function that tells what protects a place.
    fn protection_check(&self) -> Result<impl Fn(&Path) -> Option<&'static ProtectedName>, Errno> {
        let root = fd_path(&self.root)?;
        let places = ProtectedPlaces::find(&root, |_| true, |folder| std::fs::read_dir(folder));
        Ok(move |place: &Path| places.protect(&root, &root.join(place)))
    }

    /// Returns the place of an open file or folder, relative to the root.
    pub(super) fn place_of(&self, fd: impl AsFd) -> Result<PathBuf, Errno> {
        // The root's path is read as well, since it may have been moved.
        let (place, root) = (fd_path(fd)?, fd_path(&self.root)?);
        place.strip_prefix(root).map(Path::to_path_buf).map_err(|_| Errno::XDEV)
    }

    /// Opens a file for reading.
    pub(crate) fn open_file(&self, path: &Path) -> Result<File, WorkspaceError> {
        let relative = self.relative(path)?;
        let file = self
            .open_below(&relative, resolve::FILE)
            .map(File::from)
            .map_err(|errno| self.explain(errno, "open", path))?;
        let stat = rustix::fs::fstat(&file).map_err(|errno| self.explain(errno, "open", path))?;
        let place = self.place_of(&file).map_err(|errno| self.explain(errno, "find", path))?;
        self.check_access(&place, path, false)?;
        if let Some(why) = DeniedHardLinks::new(self).denial_reason(&file) {
            let why = format!("it is another name of a closed file: {why}");
            return Err(WorkspaceError::Denied { path: display_path(path), why });
        }
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(file),
            FileType::Directory => Err(WorkspaceError::IsFolder(display_path(path))),
            _ => Err(WorkspaceError::NotFile(display_path(path))),
        }
    }

    /// Opens a folder for listing.
    pub(crate) fn open_folder(&self, path: &Path) -> Result<OpenFolder, WorkspaceError> {
        let relative = self.relative(path)?;
        let folder =
            self.open_below(&relative, resolve::FOLDER).map_err(|errno| self.explain(errno, "open", path))?;
        // An open folder that was deleted looks empty.
        if self.is_deleted() {
            return Err(WorkspaceError::Deleted(display_path(&self.canonical)));
        }
        let place = self.place_of(&folder).map_err(|errno| self.explain(errno, "find", path))?;
        self.check_access(&place, path, false)?;
        Ok(OpenFolder::new(folder))
    }

    /// Converts a system error about a path.
    pub(crate) fn explain(&self, errno: Errno, doing: &'static str, path: &Path) -> WorkspaceError {
        let path = display_path(path);
        match errno {
            Errno::NOENT if self.is_deleted() => WorkspaceError::Deleted(display_path(&self.canonical)),
            Errno::NOENT => WorkspaceError::Missing(path),
            Errno::XDEV => WorkspaceError::Outside { path, workspace: display_path(&self.canonical) },
            Errno::LOOP => WorkspaceError::LinkLoop(path),
            Errno::NOTDIR => WorkspaceError::NotFolder(path),
            Errno::ISDIR => WorkspaceError::IsFolder(path),
            Errno::NXIO => WorkspaceError::NotFile(path),
            Errno::BUSY => WorkspaceError::Busy(path),
            Errno::NAMETOOLONG => WorkspaceError::BadPath { path, why: "is too long" },
            Errno::NOSYS => WorkspaceError::Unsupported,
            errno => WorkspaceError::Io { doing, path, source: errno.into() },
        }
    }

    /// Checks that the workspace's name still leads to the open folder, or to nothing. Commands use the name,
    /// and must not work in another folder.
    pub(crate) fn check_root(&self) -> Result<(), WorkspaceError> {
        let named = rustix::fs::stat(&self.canonical);
        let held = rustix::fs::fstat(&self.root);
        match (named, held) {
            (Ok(named), Ok(held)) if (named.st_dev, named.st_ino) != (held.st_dev, held.st_ino) => {
                let kind = if self.is_deleted() { WorkspaceError::Deleted } else { WorkspaceError::Replaced };
                Err(kind(display_path(&self.canonical)))
            }
            _ => Ok(()),
        }
    }

    /// An open folder without any link was deleted.
    fn is_deleted(&self) -> bool {
        rustix::fs::fstat(&self.root).is_ok_and(|stat| stat.st_nlink == 0)
    }
}

/// Returns the current path of an open file or folder.
fn fd_path(fd: impl AsFd) -> Result<PathBuf, Errno> {
    let link = format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd());
    std::fs::read_link(link).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

/// Content of a file.
#[derive(Debug)]
pub(crate) struct FileContent {
    /// Path relative to the root, without links.
    pub(crate) place: PathBuf,
    pub(crate) bytes: Vec<u8>,
}

/// Reads all bytes of an open file.
fn read_whole(file: File, path: &Path, limit: u64) -> Result<Vec<u8>, WorkspaceError> {
    let mut bytes = Vec::new();
    // The reported size may be out of date, so the bytes are counted.
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(|error| io_failed(path, error))?;
    match bytes.len() as u64 > limit {
        true => Err(WorkspaceError::TooLarge { path: display_path(path), limit }),
        false => Ok(bytes),
    }
}

fn io_failed(path: &Path, source: std::io::Error) -> WorkspaceError {
    WorkspaceError::Io { doing: "read", path: display_path(path), source }
}

/// Reason why a file cannot be written.
#[derive(Debug)]
pub(super) enum TargetError {
    Errno(Errno),
    Protected(&'static ProtectedName),
}

impl From<Errno> for TargetError {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}
