//! Search for protected places in a workspace, and for what they refer to.
//!
//! The search visits every folder, because a limit would leave places unprotected. It reads names only, and
//! follows no links.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};

use super::git;
use super::protected::{
    self, GIT_TARGET, PROGRAM_NAMES, ProtectedName, REPOSITORY, REPOSITORY_NAMES, REPOSITORY_PART,
};
use super::resolve::{MAX_LINKS, resolve_existing};

/// A protected place. No folder above it is a link, but it may be a link itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProtectedPlace {
    pub(crate) path: PathBuf,
    pub(crate) by: &'static ProtectedName,
}

/// Protected places of a workspace, those nearest to the root first.
#[derive(Debug, Default)]
pub(crate) struct ProtectedPlaces {
    pub(crate) list: Vec<ProtectedPlace>,
    /// Folders that were listed.
    pub(crate) folders: Vec<PathBuf>,
    /// Folders that could not be listed.
    pub(crate) unreadable: Vec<PathBuf>,
}

impl ProtectedPlaces {
    /// Searches the whole workspace. Enters protected places only if they are not `trusted`.
    pub(crate) fn find(
        root: &Path,
        trusted: impl Fn(&ProtectedPlace) -> bool,
        open: impl Fn(&Path) -> io::Result<std::fs::ReadDir>,
    ) -> Self {
        Self::below(root, root, trusted, open)
    }

    /// Searches one folder of a workspace, and everything below it.
    pub(crate) fn below(
        root: &Path,
        from: &Path,
        trusted: impl Fn(&ProtectedPlace) -> bool,
        open: impl Fn(&Path) -> io::Result<std::fs::ReadDir>,
    ) -> Self {
        let mut found = Self::default();
        let mut folders = VecDeque::from([from.to_owned()]);
        while let Some(folder) = folders.pop_front() {
            match open(&folder) {
                Ok(entries) => {
                    let here = FolderScan::of(root, &folder, entries);
                    let whole = here.places.iter().find(|place| place.path == folder);
                    if whole.is_none_or(|place| folder == root || !trusted(place)) {
                        let inside = here.places.iter().filter(|place| place.path != folder);
                        let inside = inside.filter(|place| !trusted(place) && is_folder(&place.path));
                        folders.extend(inside.map(|place| place.path.clone()));
                        folders.extend(here.folders);
                    }
                    found.list.extend(here.places);
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(_) => found.unreadable.push(folder.clone()),
            }
            found.folders.push(folder);
        }
        let led = found.list.iter().flat_map(|place| git_targets(root, place)).collect::<Vec<_>>();
        found.list.extend(led);
        found
    }

    /// Returns what protects a file: one of these places is the file, is above it, or refers to it.
    pub(super) fn protect(&self, root: &Path, file: &Path) -> Option<&'static ProtectedName> {
        let mut held = self
            .list
            .iter()
            .flat_map(|place| real_paths(root, place).into_iter().map(move |path| (path, place.by)));
        held.find(|(path, _)| file.starts_with(path)).map(|(_, by)| by)
    }
}

/// Protected places and folders in one folder.
struct FolderScan {
    places: Vec<ProtectedPlace>,
    folders: Vec<PathBuf>,
}

impl FolderScan {
    fn of(root: &Path, folder: &Path, entries: std::fs::ReadDir) -> Self {
        let (mut here, mut git) = (Self { places: Vec::new(), folders: Vec::new() }, Vec::new());
        for entry in entries.filter_map(Result::ok) {
            let name = entry.file_name();
            if let Some(by) = protected::protected_name(&name) {
                here.places.push(ProtectedPlace { path: entry.path(), by });
            } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                here.folders.push(entry.path());
            }
            if protected::is_one_of(&name, REPOSITORY_NAMES) {
                git.push(name);
            }
        }
        if protected::is_repository(|name| git.iter().any(|there| there.eq_ignore_ascii_case(name))) {
            here.places.push(ProtectedPlace { path: folder.to_owned(), by: &REPOSITORY });
            // The root cannot be protected as a whole, so its parts are protected one by one.
            let runs = git.iter().filter(|name| folder == root && protected::is_one_of(name, PROGRAM_NAMES));
            here.places
                .extend(runs.map(|name| ProtectedPlace { path: folder.join(name), by: &REPOSITORY_PART }));
        }
        here
    }
}

/// Lists the places in the workspace that a repository's settings refer to, whether they exist or not.
fn git_targets(root: &Path, place: &ProtectedPlace) -> Vec<ProtectedPlace> {
    let is_git = place.by.name == ".git" || place.by == &REPOSITORY;
    let leads = if is_git { git::referenced_paths(&place.path) } else { Vec::new() };
    let paths = leads.iter().filter_map(|lead| {
        let path = resolve_existing(lead.parent()?)?.join(lead.file_name()?);
        (path.starts_with(root) && path != root).then_some(path)
    });
    paths.map(|path| ProtectedPlace { path, by: &GIT_TARGET }).collect()
}

/// Returns the paths in the workspace that a place is or refers to, whether they exist or not. Paths outside
/// cannot be written anyway.
pub(crate) fn real_paths(root: &Path, place: &ProtectedPlace) -> Vec<PathBuf> {
    if place.path == root {
        let names = std::fs::read_dir(root).into_iter().flatten().filter_map(Result::ok);
        let names = names.filter(|entry| protected::is_one_of(&entry.file_name(), REPOSITORY_NAMES));
        return names.map(|entry| entry.path()).collect();
    }
    let end = link_end(&place.path).filter(|end| end.starts_with(root) && end != root);
    end.into_iter().collect()
}

/// Follows the links at the end of a path, as far as something exists.
pub(crate) fn link_end(path: &Path) -> Option<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        match path.read_link() {
            Ok(to) => path = path.parent()?.join(to),
            Err(_) => return resolve_existing(&path),
        }
    }
    None
}

fn is_folder(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}
