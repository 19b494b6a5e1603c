//! Opens paths without ever leaving the workspace.
//!
//! [`open_beneath`] is the only call that opens a path of untrusted origin. The functions around it handle
//! links only to compute another path for it.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, statat};
use rustix::io::Errno;

use super::protected::{self, ProtectedName, REPOSITORY, REPOSITORY_NAMES};
use super::{TargetError, Workspace, WorkspaceError, display_path};

/// Flags to open a file. A pipe must not block us, and a terminal must not become our controlling terminal.
pub(super) const FILE: OFlags =
    OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Flags to open a folder.
pub(super) const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::DIRECTORY);

/// Flags to open something only to learn its path.
pub(super) const PATH_ONLY: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// Maximum number of links in one path, the same as Linux's.
pub(super) const MAX_LINKS: usize = 40;

/// Opens `path` below `folder`, or fails. It is a single system call, so no other process can interfere.
#[cfg(target_os = "linux")]
pub(super) fn open_beneath(folder: impl AsFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    use rustix::fs::ResolveFlags;
    // Each failed try met a concurrent rename that might have misled a `..`. So many are no accident.
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

/// Other systems cannot do this in one step, and two steps would be a race.
#[cfg(not(target_os = "linux"))]
pub(super) fn open_beneath(_: impl AsFd, _: &Path, _: OFlags) -> Result<OwnedFd, Errno> {
    Err(Errno::NOSYS)
}

impl Workspace {
    /// Returns a path relative to the root. Absolute paths below the root are accepted, since models use them.
    pub(crate) fn relative(&self, path: &Path) -> Result<PathBuf, WorkspaceError> {
        self.check_root()?;
        let bad = |why| Err(WorkspaceError::BadPath { path: display_path(path), why });
        let bytes = path.as_os_str().as_bytes();
        if bytes.is_empty() {
            return bad("is empty");
        }
        if bytes.contains(&0) {
            return bad("contains a NUL byte");
        }
        if !path.is_absolute() {
            return Ok(path.to_path_buf());
        }
        self.below(path).ok_or_else(|| self.explain(Errno::XDEV, "open", path))
    }

    /// Strips the root, by either of its names, from an absolute path.
    fn below(&self, path: &Path) -> Option<PathBuf> {
        let rest = path.strip_prefix(&self.canonical).or_else(|_| path.strip_prefix(&self.given)).ok()?;
        let mut rest = or_dot(rest).to_path_buf();
        if means_folder(path) {
            rest.push("");
        }
        Some(rest)
    }

    /// Opens a path below the root.
    pub(super) fn open_below(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        match open_beneath(&self.root, or_dot(path), flags) {
            // The kernel refuses absolute links, even those that stay inside.
            Err(Errno::XDEV) => {
                let flags = if means_folder(path) { flags | OFlags::DIRECTORY } else { flags };
                open_beneath(&self.root, or_dot(&self.without_links(path)?), flags)
            }
            opened => opened,
        }
    }

    /// Resolves a path for a write: the open parent folder, created if missing, and a name in it that is not a
    /// link.
    pub(super) fn write_target(&self, path: &Path) -> Result<(OwnedFd, OsString), TargetError> {
        let mut path = path.to_path_buf();
        for _ in 0..MAX_LINKS {
            let (parent, name) = split(&path).ok_or(Errno::ISDIR)?;
            let folder = self.create_folder(parent)?;
            match read_link(&folder, name)? {
                None => {
                    self.check_writable(&folder, name)?;
                    return Ok((folder, name.to_owned()));
                }
                Some(to) => path = self.follow(parent, &to)?,
            }
        }
        Err(Errno::LOOP.into())
    }

    /// Opens a folder. Creates it and its parents if they are missing.
    fn create_folder(&self, path: &Path) -> Result<OwnedFd, TargetError> {
        match self.open_below(path, FOLDER) {
            Err(Errno::NOENT) => {}
            opened => return Ok(opened?),
        }
        // `new/..` cannot be created.
        let (above, name) = split(path).ok_or(Errno::NOENT)?;
        let above = self.create_folder(above)?;
        self.check_writable(&above, name)?;
        match rustix::fs::mkdirat(&above, name, Mode::from_raw_mode(0o777)) {
            Ok(()) => rustix::fs::fsync(&above)?,
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        Ok(self.open_below(path, FOLDER)?)
    }

    /// Fails if a name in a folder is protected.
    fn check_writable(&self, folder: &OwnedFd, name: &OsStr) -> Result<(), TargetError> {
        let place = self.place_of(folder)?.join(name);
        let by = protected::protected_in(&place).or_else(|| self.repository_around(&place));
        by.map_or(Ok(()), |by| Err(TargetError::Protected(by)))
    }

    /// Returns the protection of a place without links that is inside a git repository, or would make a folder
    /// one.
    fn repository_around(&self, place: &Path) -> Option<&'static ProtectedName> {
        let mut above = PathBuf::new();
        for part in place.components().map(Component::as_os_str) {
            let is_there =
                |name: &str| statat(&self.root, above.join(name), AtFlags::SYMLINK_NOFOLLOW).is_ok();
            let has = |name: &str| part.eq_ignore_ascii_case(name) || is_there(name);
            let whole = !above.as_os_str().is_empty() || protected::is_one_of(part, REPOSITORY_NAMES);
            if whole && protected::is_repository(has) {
                return Some(&REPOSITORY);
            }
            above.push(part);
        }
        None
    }

    /// Returns the protection of a path, by a name in it or in the targets of its links.
    pub(super) fn protected_on_the_way(&self, path: &Path) -> Option<&'static ProtectedName> {
        let mut path = path.to_path_buf();
        for _ in 0..MAX_LINKS {
            if let Some(by) = protected::protected_in(&path) {
                return Some(by);
            }
            path = self.without_first_link(&path).ok()??;
        }
        None
    }

    /// Replaces all links in a path by their targets, if it stays inside.
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
                let folder = open_beneath(&self.root, or_dot(&above), FOLDER)?;
                if let Some(to) = read_link(&folder, name)? {
                    // Extended, not joined: joining an empty rest would leave a trailing slash, which only
                    // folders may have.
                    let mut shorter = self.follow(&above, &to)?;
                    shorter.extend(parts);
                    return Ok(Some(shorter));
                }
            }
            above.push(part);
        }
        Ok(None)
    }

    /// Resolves the target of a link in the folder `above`.
    fn follow(&self, above: &Path, to: &Path) -> Result<PathBuf, Errno> {
        if to.is_absolute() { self.below(to).ok_or(Errno::XDEV) } else { Ok(above.join(to)) }
    }
}

/// Returns the target of a link, or `None` if the name is not a link.
fn read_link(folder: &OwnedFd, name: &OsStr) -> Result<Option<PathBuf>, Errno> {
    match rustix::fs::readlinkat(folder, name, Vec::new()) {
        Ok(to) => Ok(Some(OsString::from_vec(to.into_bytes()).into())),
        Err(Errno::INVAL | Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

fn split(path: &Path) -> Option<(&Path, &OsStr)> {
    Some((path.parent()?, path.file_name()?))
}

/// Returns true if a path ends with a slash or `/.`. Most methods of `Path` drop that.
pub(super) fn means_folder(path: &Path) -> bool {
    let bytes = path.as_os_str().as_bytes();
    bytes.ends_with(b"/") || bytes.ends_with(b"/.")
}

/// Removes `.` and `..` from a path without looking at links.
pub(crate) fn normalize(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}

/// Resolves links as far as something exists. The last parts of the path may be missing.
pub(crate) fn resolve_existing(path: &Path) -> Option<PathBuf> {
    let (there, real) = path.ancestors().find_map(|there| Some((there, there.canonicalize().ok()?)))?;
    let rest = path.strip_prefix(there).ok()?;
    // Joining an empty rest would leave a trailing slash.
    Some(if rest.as_os_str().is_empty() { real } else { real.join(rest) })
}

/// Replaces the empty path, which means the root, by `.` for the kernel.
pub(super) fn or_dot(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}
