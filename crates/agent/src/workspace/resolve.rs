//! From a path to an open file, without ever leaving the workspace.
//!
//! [`beneath`] is the only call that opens anything by a name that somebody else chose. What the functions
//! round it do with links is a convenience: they only find another path to give to it.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, statat};
use rustix::io::Errno;

use super::protected::{self, OF_GIT, Protected, REPOSITORY};
use super::{Stuck, Workspace, WorkspaceError, shown};

/// How files are opened. A pipe must not block us, a terminal must not become ours.
pub(super) const FILE: OFlags =
    OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// How folders are opened.
pub(super) const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::DIRECTORY);

/// How something is opened only to know where it is.
pub(super) const PLACE: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// As many links in one path as Linux itself follows.
const MAX_LINKS: usize = 40;

/// Opens `path` below `folder` or not at all: one step of the kernel, which nobody can come between.
#[cfg(target_os = "linux")]
pub(super) fn beneath(folder: impl AsFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    use rustix::fs::ResolveFlags;
    // Each try met a rename somewhere that might have fooled a `..`; nobody renames that often by accident.
    const TRIES: usize = 128;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    for _ in 0..TRIES {
        match rustix::fs::openat2(&folder, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            opened => return opened,
        }
    }
    Err(Errno::AGAIN)
}

/// Elsewhere nothing does that in one step, and two steps are a race.
#[cfg(not(target_os = "linux"))]
pub(super) fn beneath(_: impl AsFd, _: &Path, _: OFlags) -> Result<OwnedFd, Errno> {
    Err(Errno::NOSYS)
}

impl Workspace {
    /// A path as seen from the root. Absolute ones below the root are welcome, since models like them.
    pub(crate) fn relative(&self, path: &Path) -> Result<PathBuf, WorkspaceError> {
        self.check()?;
        let bad = |why| Err(WorkspaceError::BadPath { path: shown(path), why });
        let bytes = path.as_os_str().as_bytes();
        if bytes.is_empty() {
            return bad("is empty");
        }
        if bytes.contains(&0) {
            return bad("holds a NUL byte");
        }
        if !path.is_absolute() {
            return Ok(path.to_path_buf());
        }
        self.below(path).ok_or_else(|| self.explain(Errno::XDEV, "open", path))
    }

    /// What is left of an absolute path after the root, by either of its names.
    fn below(&self, path: &Path) -> Option<PathBuf> {
        let rest = path.strip_prefix(&self.canonical).or_else(|_| path.strip_prefix(&self.given)).ok()?;
        let mut rest = or_dot(rest).to_path_buf();
        if means_folder(path) {
            rest.push("");
        }
        Some(rest)
    }

    /// Opens what a path below the root leads to.
    pub(super) fn reach(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        match beneath(&self.root, or_dot(path), flags) {
            // The kernel refuses absolute links, also those that stay inside.
            Err(Errno::XDEV) => {
                let flags = if means_folder(path) { flags | OFlags::DIRECTORY } else { flags };
                beneath(&self.root, or_dot(&self.without_links(path)?), flags)
            }
            opened => opened,
        }
    }

    /// Where a write to `path` goes: the folder, made where it is missing, and the name in it, which is no link.
    pub(super) fn target(&self, path: &Path) -> Result<(OwnedFd, OsString), Stuck> {
        let mut path = path.to_path_buf();
        for _ in 0..MAX_LINKS {
            let (parent, name) = split(&path).ok_or(Errno::ISDIR)?;
            let folder = self.make(parent)?;
            match link(&folder, name)? {
                None => {
                    self.allowed(&folder, name)?;
                    return Ok((folder, name.to_owned()));
                }
                Some(to) => path = self.follow(parent, &to)?,
            }
        }
        Err(Errno::LOOP.into())
    }

    /// Opens a folder, and makes it and those above it where they are missing.
    fn make(&self, path: &Path) -> Result<OwnedFd, Stuck> {
        match self.reach(path, FOLDER) {
            Err(Errno::NOENT) => {}
            opened => return Ok(opened?),
        }
        // `new/..` is not a folder that one could make.
        let (above, name) = split(path).ok_or(Errno::NOENT)?;
        let above = self.make(above)?;
        self.allowed(&above, name)?;
        match rustix::fs::mkdirat(&above, name, Mode::from_raw_mode(0o777)) {
            Ok(()) => rustix::fs::fsync(&above)?,
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        Ok(self.reach(path, FOLDER)?)
    }

    /// Whether something may be written under that name of a folder.
    fn allowed(&self, folder: &OwnedFd, name: &OsStr) -> Result<(), Stuck> {
        let place = self.place(folder)?.join(name);
        let by = protected::place(&place).or_else(|| self.repository(&place));
        by.map_or(Ok(()), |by| Err(Stuck::Protected(by)))
    }

    /// Whether a place, without links, lies in what git takes for a repository, or would make a folder one.
    fn repository(&self, place: &Path) -> Option<&'static Protected> {
        let mut above = PathBuf::new();
        for part in place.components().map(Component::as_os_str) {
            let is_there =
                |name: &str| statat(&self.root, above.join(name), AtFlags::SYMLINK_NOFOLLOW).is_ok();
            let has = |name: &str| part.eq_ignore_ascii_case(name) || is_there(name);
            let whole = !above.as_os_str().is_empty() || protected::is_one_of(part, OF_GIT);
            if whole && protected::is_repository(has) {
                return Some(&REPOSITORY);
            }
            above.push(part);
        }
        None
    }

    /// What a path is protected by, by a name in it or in those that its links lead to.
    pub(super) fn protected_on_the_way(&self, path: &Path) -> Option<&'static Protected> {
        let mut path = path.to_path_buf();
        for _ in 0..MAX_LINKS {
            if let Some(by) = protected::place(&path) {
                return Some(by);
            }
            path = self.without_first_link(&path).ok()??;
        }
        None
    }

    /// The same place by a path that has no links in it, if it lies inside.
    fn without_links(&self, path: &Path) -> Result<PathBuf, Errno> {
        let mut path = path.to_path_buf();
        for _ in 0..MAX_LINKS {
            match self.without_first_link(&path)? {
                Some(shorter) => path = shorter,
                None => return Ok(path),
            }
        }
        Err(Errno::LOOP)
    }

    fn without_first_link(&self, path: &Path) -> Result<Option<PathBuf>, Errno> {
        let mut above = PathBuf::new();
        let mut parts = path.components();
        while let Some(part) = parts.next() {
            if let Component::Normal(name) = part {
                let folder = beneath(&self.root, or_dot(&above), FOLDER)?;
                if let Some(to) = link(&folder, name)? {
                    // Extended, not joined: an empty rest would leave a slash behind, and only folders have that.
                    let mut shorter = self.follow(&above, &to)?;
                    shorter.extend(parts);
                    return Ok(Some(shorter));
                }
            }
            above.push(part);
        }
        Ok(None)
    }

    /// Where a link in the folder `above` leads.
    fn follow(&self, above: &Path, to: &Path) -> Result<PathBuf, Errno> {
        if to.is_absolute() { self.below(to).ok_or(Errno::XDEV) } else { Ok(above.join(to)) }
    }
}

/// What a link says, and nothing for whatever is no link.
fn link(folder: &OwnedFd, name: &OsStr) -> Result<Option<PathBuf>, Errno> {
    match rustix::fs::readlinkat(folder, name, Vec::new()) {
        Ok(to) => Ok(Some(OsString::from_vec(to.into_bytes()).into())),
        Err(Errno::INVAL | Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

fn split(path: &Path) -> Option<(&Path, &OsStr)> {
    Some((path.parent()?, path.file_name()?))
}

/// `Path` loses a last slash on most ways, and with it what it says.
pub(super) fn means_folder(path: &Path) -> bool {
    let bytes = path.as_os_str().as_bytes();
    bytes.ends_with(b"/") || bytes.ends_with(b"/.")
}

/// The root is `.` to the kernel, and empty to `Path`.
pub(super) fn or_dot(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}
