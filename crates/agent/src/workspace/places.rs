//! The protected places that there are in a workspace, and what they lead to.
//!
//! Every folder is looked at, however many files there are: a limit would be a place to hide behind. Only names are
//! looked at, and nothing is followed.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};

use super::git;
use super::protected::{self, LED_TO, OF_GIT, PART, Protected, REPOSITORY, RUN_BY_GIT};

/// As many links in one path as Linux itself follows.
const MAX_LINKS: usize = 40;

/// A protected place. No folder on the way to it is a link; it may be one itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) path: PathBuf,
    pub(crate) by: &'static Protected,
}

/// What was found in a workspace, those nearest to the root first.
#[derive(Debug, Default)]
pub(crate) struct Places {
    pub(crate) all: Vec<Place>,
    /// The folders that were looked through.
    pub(crate) folders: Vec<PathBuf>,
    /// Folders that nobody could look into.
    pub(crate) unseen: Vec<PathBuf>,
}

impl Places {
    /// Looks for them. What is in one of them is looked at only where it is not `trusted`.
    pub(crate) fn find(
        root: &Path,
        trusted: impl Fn(&Place) -> bool,
        open: impl Fn(&Path) -> io::Result<std::fs::ReadDir>,
    ) -> Self {
        Self::below(root, root, trusted, open)
    }

    /// Looks for those in one folder of a workspace, and below it.
    pub(crate) fn below(
        root: &Path,
        from: &Path,
        trusted: impl Fn(&Place) -> bool,
        open: impl Fn(&Path) -> io::Result<std::fs::ReadDir>,
    ) -> Self {
        let mut found = Self::default();
        let mut folders = VecDeque::from([from.to_owned()]);
        while let Some(folder) = folders.pop_front() {
            match open(&folder) {
                Ok(entries) => {
                    let here = Here::of(root, &folder, entries);
                    let whole = here.places.iter().find(|place| place.path == folder);
                    if whole.is_none_or(|place| folder == root || !trusted(place)) {
                        let inside = here.places.iter().filter(|place| place.path != folder);
                        let inside = inside.filter(|place| !trusted(place) && is_folder(&place.path));
                        folders.extend(inside.map(|place| place.path.clone()));
                        folders.extend(here.folders);
                    }
                    found.all.extend(here.places);
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(_) => found.unseen.push(folder.clone()),
            }
            found.folders.push(folder);
        }
        let led = found.all.iter().flat_map(|place| led_to(root, place)).collect::<Vec<_>>();
        found.all.extend(led);
        found
    }

    /// What a file of the workspace is protected by, since one of these places is it, or leads to it.
    pub(super) fn protect(&self, root: &Path, file: &Path) -> Option<&'static Protected> {
        let mut held =
            self.all.iter().flat_map(|place| real(root, place).into_iter().map(move |path| (path, place.by)));
        held.find(|(path, _)| file.starts_with(path)).map(|(_, by)| by)
    }
}

/// What is in one folder.
struct Here {
    places: Vec<Place>,
    folders: Vec<PathBuf>,
}

impl Here {
    fn of(root: &Path, folder: &Path, entries: std::fs::ReadDir) -> Self {
        let (mut here, mut git) = (Self { places: Vec::new(), folders: Vec::new() }, Vec::new());
        for entry in entries.filter_map(Result::ok) {
            let name = entry.file_name();
            if let Some(by) = protected::name(&name) {
                here.places.push(Place { path: entry.path(), by });
            } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                here.folders.push(entry.path());
            }
            if protected::is_one_of(&name, OF_GIT) {
                git.push(name);
            }
        }
        if protected::is_repository(|name| git.iter().any(|there| there.eq_ignore_ascii_case(name))) {
            here.places.push(Place { path: folder.to_owned(), by: &REPOSITORY });
            // The root has to stay what it is, so its parts are protected one by one.
            let runs = git.iter().filter(|name| folder == root && protected::is_one_of(name, RUN_BY_GIT));
            here.places.extend(runs.map(|name| Place { path: folder.join(name), by: &PART }));
        }
        here
    }
}

/// What the settings of a repository lead to in the workspace, whether anything is there or not.
fn led_to(root: &Path, place: &Place) -> Vec<Place> {
    let is_git = place.by.name == ".git" || place.by == &REPOSITORY;
    let leads = if is_git { git::leads(&place.path) } else { Vec::new() };
    let paths = leads.iter().filter_map(|lead| {
        let path = as_far(lead.parent()?)?.join(lead.file_name()?);
        (path.starts_with(root) && path != root).then_some(path)
    });
    paths.map(|path| Place { path, by: &LED_TO }).collect()
}

/// The files and folders in the workspace that a place is, or that it leads to, whether they are there or not. What
/// lies outside cannot be written anyway.
pub(crate) fn real(root: &Path, place: &Place) -> Vec<PathBuf> {
    if place.path == root {
        let names = std::fs::read_dir(root).into_iter().flatten().filter_map(Result::ok);
        let names = names.filter(|entry| protected::is_one_of(&entry.file_name(), OF_GIT));
        return names.map(|entry| entry.path()).collect();
    }
    let end = end(&place.path).filter(|end| end.starts_with(root) && end != root);
    end.into_iter().collect()
}

/// Where the links at the end of a path lead, as far as anything is there.
pub(crate) fn end(path: &Path) -> Option<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        match path.read_link() {
            Ok(to) => path = path.parent()?.join(to),
            Err(_) => return as_far(&path),
        }
    }
    None
}

/// The same path without links, of which the last parts may be missing.
fn as_far(path: &Path) -> Option<PathBuf> {
    let (there, real) = path.ancestors().find_map(|there| Some((there, there.canonicalize().ok()?)))?;
    let rest = path.strip_prefix(there).ok()?;
    Some(if rest.as_os_str().is_empty() { real } else { real.join(rest) })
}

fn is_folder(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}
