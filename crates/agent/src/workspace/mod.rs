//! The files that a run may touch, and the one way to reach them.
//!
//! Start at [`Workspace`]. Whatever opens, lists or writes a file for a model goes through here; nothing else
//! in this crate turns a path from a model into a file. One thing is deliberately absent: there is no check
//! of a path before its use, because a path that was harmless a moment ago may be a link now: the kernel
//! resolves and opens in one step, or refuses. A hard link is a file as good as any: what is closed under one name is
//! looked for under its others, and what is written is a new file.

mod error;
mod folder;
mod git;
pub(crate) mod places;
pub(crate) mod protected;
mod replace;
mod resolve;
#[cfg(test)]
mod tests;
pub(crate) mod twins;

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::FileType;
use rustix::io::Errno;

use crate::permission::{Judgement, Rules};
pub use error::WorkspaceError;
pub(crate) use error::shown;
pub(crate) use folder::{Entries, Folder, Kind};
use places::Places;
pub use protected::{PROTECTED, Protected};
use twins::Twins;

/// The folder that a run works in. Nothing outside of it can be reached through it: neither by `..`, nor by a
/// symlink, nor by one that somebody puts there at the wrong moment.
///
/// It holds the folder itself, not its name, so a workspace that is moved stays the same one.
#[derive(Clone, Debug)]
pub struct Workspace {
    root: Arc<OwnedFd>,
    /// As the user said it, made absolute: models repeat what they were told.
    given: PathBuf,
    canonical: PathBuf,
    /// Folders in it that no tool reaches, as seen from the root.
    closed: Vec<PathBuf>,
    /// What is forbidden, by the place that a file really has: by the user, and in a run by its agent's description.
    rules: Vec<Arc<Rules>>,
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
        Ok(Self { root: Arc::new(fd), given, canonical, closed: Vec::new(), rules: Vec::new() })
    }

    /// Keeps all tools out of these folders, where they lie in it: the journal, and the settings that say where keys go.
    pub fn without(mut self, folders: &[PathBuf]) -> Self {
        let inside = |folder: &PathBuf| {
            let place = folder.canonicalize().or_else(|_| std::path::absolute(folder)).ok()?;
            place.strip_prefix(&self.canonical).ok().map(Path::to_path_buf)
        };
        // A workspace that lies in one of them is what the user chose.
        self.closed =
            folders.iter().filter_map(inside).filter(|place| place.components().count() > 0).collect();
        self
    }

    /// Lets rules say which files are not to be read and not to be written.
    pub fn ruled_by(mut self, rules: Arc<Rules>) -> Self {
        self.rules.push(rules);
        self
    }

    /// Why a place is closed to a tool that would read it, or write it.
    pub(crate) fn why_closed(&self, place: &Path, writing: bool) -> Option<String> {
        if self.closed.iter().any(|closed| place.starts_with(closed)) {
            return Some("offshoot keeps its journal or its settings there".to_owned());
        }
        self.rules.iter().find_map(|rules| rules.why_closed(place, writing))
    }

    /// Whether some places in it may be closed to whoever reads.
    pub(crate) fn closes_some(&self) -> bool {
        !self.closed.is_empty() || self.rules.iter().any(|rules| rules.close_some())
    }

    /// Whether whoever walks through folders leaves that place out.
    pub(crate) fn is_left_out(&self, place: &Path) -> bool {
        self.closed.iter().any(|closed| place.starts_with(closed))
            || self.rules.iter().any(|rules| rules.keeps_from_walks(place))
    }

    /// What is to become of a call; the strictest of its rules counts.
    pub(crate) fn judge(&self, tool: &str, input: &serde_json::Value) -> Judgement {
        let judged = self.rules.iter().map(|rules| rules.judge(tool, input, self));
        judged.fold(Judgement::Allow, Judgement::and)
    }

    fn open_to(&self, place: &Path, path: &Path, writing: bool) -> Result<(), WorkspaceError> {
        match self.why_closed(place, writing) {
            Some(why) => Err(WorkspaceError::Closed { path: shown(path), why }),
            None => Ok(()),
        }
    }

    /// Where a path leads, as seen from the root: links are followed as far as anything is there.
    pub(crate) fn resolved(&self, path: &Path) -> Result<PathBuf, WorkspaceError> {
        let relative = self.relative(path)?;
        for there in relative.ancestors() {
            let Ok(fd) = self.reach(resolve::or_dot(there), resolve::PLACE) else { continue };
            let place = self.place(&fd).map_err(|errno| self.explain(errno, "find", path))?;
            let rest = relative.strip_prefix(there).unwrap_or(Path::new(""));
            if rest.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
                return Ok(place.join(rest));
            }
        }
        Err(self.explain(Errno::NOENT, "find", path))
    }

    /// Where in the workspace a path may lead for others, who take `..` away before they follow links, or come from
    /// elsewhere.
    pub(crate) fn guesses(&self, path: &Path) -> Vec<PathBuf> {
        let mut plain = PathBuf::new();
        for part in self.canonical.join(path).components() {
            match part {
                Component::ParentDir => drop(plain.pop()),
                part => plain.push(part),
            }
        }
        let real = really(&plain);
        let below = |path: &Path| {
            let roots = [&self.canonical, &self.given];
            roots.iter().find_map(|root| path.strip_prefix(root).ok().map(Path::to_path_buf))
        };
        [below(&plain), real.and_then(|real| below(&real))].into_iter().flatten().collect()
    }

    /// Where it is, without links.
    pub fn path(&self) -> &Path {
        &self.canonical
    }

    /// The bytes of a file, at most `limit` of them: a longer file is refused, not cut.
    pub fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>, WorkspaceError> {
        self.find(path, limit).map(|found| found.bytes)
    }

    /// A file's bytes, as [`read`](Self::read) has them, and where it really is.
    pub(crate) fn find(&self, path: &Path, limit: u64) -> Result<Found, WorkspaceError> {
        let file = self.file(path)?;
        let place = self.place(&file).map_err(|errno| self.explain(errno, "find", path))?;
        Ok(Found { place, bytes: whole(file, path, limit)? })
    }

    /// Puts a file there, whole or not at all, with the folders it needs. A file that was there keeps its mode;
    /// where there was a link to another file of the workspace, that one is written.
    ///
    /// [Protected](PROTECTED) places are refused, whatever leads to them. A file that has another name there keeps
    /// what it has under that name: what is written is a new file.
    pub fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), WorkspaceError> {
        self.change(path, 0, |_, _| Ok(bytes.to_vec())).map(drop)
    }

    /// Puts a file in the place of another one, made from what is there now: `make` is given the place and the
    /// bytes, or nothing where nothing is. With `limit` 0 nobody looks. Returns what is there now.
    pub(crate) fn change<E: From<WorkspaceError>>(
        &self,
        path: &Path,
        limit: u64,
        make: impl FnOnce(&Path, Option<&[u8]>) -> Result<Vec<u8>, E>,
    ) -> Result<Found, E> {
        let relative = self.relative(path)?;
        if resolve::means_folder(path) {
            let why = "ends like a folder's, where a file's is needed";
            return Err(WorkspaceError::BadPath { path: shown(path), why }.into());
        }
        let failed = |errno| self.explain(errno, "write", path);
        let refused = |by: &Protected| WorkspaceError::Protected { path: shown(path), why: by.why };
        let led = self.led().map_err(failed)?;
        // Before folders are made for nothing. What counts is asked when the folder is open.
        if let Some(by) = self.protected_on_the_way(&relative) {
            return Err(refused(by).into());
        }
        if let Ok(place) = self.resolved(path) {
            led(&place).map_or(Ok(()), |by| Err(refused(by)))?;
            self.open_to(&place, path, true)?;
        }
        // From here on the file is known by its folder and its name, whatever links led to it.
        let (folder, name) = self.target(&relative).map_err(|stuck| match stuck {
            Stuck::Errno(errno) => failed(errno),
            Stuck::Protected(by) => refused(by),
        })?;
        let place = self.place(&folder).map_err(failed)?.join(&name);
        led(&place).map_or(Ok(()), |by| Err(refused(by)))?;
        self.open_to(&place, path, true)?;
        let before = match limit {
            0 => None,
            _ => folder::file(&folder, &name)
                .map_err(failed)?
                .map(|file| whole(file, path, limit))
                .transpose()?,
        };
        let bytes = make(&place, before.as_deref())?;
        if before.as_deref() != Some(&bytes[..]) {
            replace::replace(&folder, &name, &bytes).map_err(failed)?;
        }
        Ok(Found { place, bytes })
    }

    /// Looks at what protected places lead to, and tells for a place what it is protected by.
    fn led(&self) -> Result<impl Fn(&Path) -> Option<&'static Protected>, Errno> {
        let root = absolute(&self.root)?;
        let places = Places::find(&root, |_| true, |folder| std::fs::read_dir(folder));
        Ok(move |place: &Path| places.protect(&root, &root.join(place)))
    }

    /// Where an open file or folder is, as seen from the root.
    pub(super) fn place(&self, fd: impl AsFd) -> Result<PathBuf, Errno> {
        // The root is asked as well: it may have been moved.
        let (place, root) = (absolute(fd)?, absolute(&self.root)?);
        place.strip_prefix(root).map(Path::to_path_buf).map_err(|_| Errno::XDEV)
    }

    /// Opens a file for reading.
    pub(crate) fn file(&self, path: &Path) -> Result<File, WorkspaceError> {
        let relative = self.relative(path)?;
        let file = self
            .reach(&relative, resolve::FILE)
            .map(File::from)
            .map_err(|errno| self.explain(errno, "open", path))?;
        let stat = rustix::fs::fstat(&file).map_err(|errno| self.explain(errno, "open", path))?;
        let place = self.place(&file).map_err(|errno| self.explain(errno, "find", path))?;
        self.open_to(&place, path, false)?;
        if let Some(why) = Twins::of(self).why_closed(&file) {
            let why = format!("it is another name of a file that is: {why}");
            return Err(WorkspaceError::Closed { path: shown(path), why });
        }
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
        let place = self.place(&folder).map_err(|errno| self.explain(errno, "find", path))?;
        self.open_to(&place, path, false)?;
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

    /// Whether its name still means the folder that we hold, or nothing: commands go by the name, and must not work
    /// elsewhere than we do.
    pub(crate) fn check(&self) -> Result<(), WorkspaceError> {
        let named = rustix::fs::stat(&self.canonical);
        let held = rustix::fs::fstat(&self.root);
        match (named, held) {
            (Ok(named), Ok(held)) if (named.st_dev, named.st_ino) != (held.st_dev, held.st_ino) => {
                let kind = if self.is_gone() { WorkspaceError::Gone } else { WorkspaceError::Replaced };
                Err(kind(shown(&self.canonical)))
            }
            _ => Ok(()),
        }
    }

    /// A folder that was deleted while we hold it has no name left anywhere.
    fn is_gone(&self) -> bool {
        rustix::fs::fstat(&self.root).is_ok_and(|stat| stat.st_nlink == 0)
    }
}

/// Where a path leads, as far as anything is there.
fn really(path: &Path) -> Option<PathBuf> {
    path.ancestors().find_map(|there| {
        let rest = path.strip_prefix(there).ok()?;
        there.canonicalize().ok().map(|real| real.join(rest))
    })
}

/// Where an open file or folder is now.
fn absolute(fd: impl AsFd) -> Result<PathBuf, Errno> {
    let link = format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd());
    std::fs::read_link(link).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

/// A file that was found, or made.
#[derive(Debug)]
pub(crate) struct Found {
    /// Where it is, as seen from the root and without links.
    pub(crate) place: PathBuf,
    pub(crate) bytes: Vec<u8>,
}

/// All bytes of an open file.
fn whole(file: File, path: &Path, limit: u64) -> Result<Vec<u8>, WorkspaceError> {
    let mut bytes = Vec::new();
    // The length is what was read, not what the system says: it may grow meanwhile.
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(|error| io_failed(path, error))?;
    match bytes.len() as u64 > limit {
        true => Err(WorkspaceError::TooLarge { path: shown(path), limit }),
        false => Ok(bytes),
    }
}

fn io_failed(path: &Path, source: std::io::Error) -> WorkspaceError {
    WorkspaceError::Io { doing: "read", path: shown(path), source }
}

/// Why there is no way to where a file shall be.
#[derive(Debug)]
pub(super) enum Stuck {
    Errno(Errno),
    Protected(&'static Protected),
}

impl From<Errno> for Stuck {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}
