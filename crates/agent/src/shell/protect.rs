//! Protected places of a workspace, before and after a command.
//!
//! What is there is mounted so that it cannot be written. What is not there cannot be held like that: where a command
//! makes it, it gets another name when the command is over, under which nobody runs or believes it.

use std::collections::{BTreeSet, VecDeque};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{Mode, OFlags, RenameFlags, ResolveFlags};

use crate::workspace::protected;

/// How many names are looked at below the root, those nearest to it first.
const MOST: usize = 100_000;
/// What is added to the name of a place that a command has made.
const DISARMED: &str = "not-trusted";

/// The protected places of a workspace at one moment.
#[derive(Debug)]
pub(crate) struct Guard {
    workspace: PathBuf,
    /// All that there are, under whichever names.
    known: BTreeSet<Identity>,
    /// Where they are, links resolved.
    pub(crate) places: Vec<PathBuf>,
}

/// A file, whatever its name: device and number, and what tells it from a later one with the same number.
type Identity = (u64, u64, u32, Option<SystemTime>, Option<PathBuf>);

impl Guard {
    /// Looks for them.
    pub(crate) fn look(workspace: &Path) -> Self {
        let found = find(workspace);
        let known = found.iter().filter_map(|place| identity(place)).collect();
        // Where a link leads out of the workspace, nothing can be written anyway.
        let inside = found.iter().filter_map(|place| place.canonicalize().ok());
        let places = inside.filter(|place| place.starts_with(workspace) && place != workspace).collect();
        Self { workspace: workspace.to_owned(), known, places }
    }

    /// Takes away what was made since, in whichever folder: each with its old and new name.
    pub(crate) fn disarm(&self) -> Vec<(PathBuf, PathBuf)> {
        let made = find(&self.workspace).into_iter();
        let made = made.filter(|place| identity(place).is_some_and(|found| !self.known.contains(&found)));
        made.filter_map(|place| disarm(&self.workspace, &place).map(|to| (place, to))).collect()
    }
}

fn identity(place: &Path) -> Option<Identity> {
    const KIND: u32 = 0o170_000;
    let found = std::fs::symlink_metadata(place).ok()?;
    Some((found.dev(), found.ino(), found.mode() & KIND, found.created().ok(), place.read_link().ok()))
}

/// In a folder that is opened without following anything: another command may be at work, and put a link in its place.
fn disarm(workspace: &Path, place: &Path) -> Option<PathBuf> {
    let (folder, name) = (place.parent()?, place.file_name()?);
    let below = folder.strip_prefix(workspace).ok()?;
    let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
    let root = rustix::fs::open(workspace, flags, Mode::empty()).ok()?;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let at = rustix::fs::openat2(&root, below, flags, Mode::empty(), resolve).ok()?;
    (1..100).find_map(|n| {
        let number = if n == 1 { String::new() } else { format!("-{n}") };
        let to = format!("{}.{DISARMED}{number}", name.to_string_lossy());
        // Not over anything that is there.
        let renamed = rustix::fs::renameat_with(&at, name, &at, &to, RenameFlags::NOREPLACE);
        renamed.ok().map(|()| folder.join(to))
    })
}

/// All protected places, those nearest to the root first. Nothing is followed, and nothing in them is looked at.
fn find(workspace: &Path) -> Vec<PathBuf> {
    let (mut found, mut seen) = (Vec::new(), 0);
    let mut folders = VecDeque::from([workspace.to_owned()]);
    while let Some(folder) = folders.pop_front() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().filter_map(Result::ok) {
            // All of the root: nobody hides a name there behind many others.
            seen += usize::from(folder != workspace);
            if seen > MOST {
                return found;
            }
            if protected::name(&entry.file_name()).is_some() {
                found.push(entry.path());
            } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push_back(entry.path());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::testing::Yard;

    #[test]
    fn what_was_made_meanwhile_gets_another_name() {
        let yard = Yard::new(&[(".git/config", "old"), ("sub/.envrc", "old"), ("a/b/", "")]);
        let root = yard.root.canonicalize().expect("it is there");
        let guard = Guard::look(&root);
        assert_eq!(guard.places, [yard.root.join(".git"), yard.root.join("sub/.envrc")]);
        for made in
            [".envrc", ".Husky/pre-commit", "a/b/.git/config", "a/.vscode/tasks.json", ".envrc.not-trusted"]
        {
            std::fs::create_dir_all(yard.root.join(made).parent().expect("below")).expect("a folder");
            std::fs::write(yard.root.join(made), "new").expect("written");
        }
        let mut disarmed: Vec<PathBuf> = guard.disarm().into_iter().map(|(_, to)| to).collect();
        disarmed.sort();
        let names =
            [".Husky.not-trusted", ".envrc.not-trusted-2", "a/.vscode.not-trusted", "a/b/.git.not-trusted"];
        assert_eq!(disarmed, names.map(|name| yard.root.join(name)));
        assert!(yard.root.join(".git/config").exists() && yard.root.join("sub/.envrc").exists());
        assert_eq!(guard.disarm(), []);
    }

    #[test]
    fn what_was_there_may_move_and_not_be_replaced() {
        let yard = Yard::new(&[
            ("sub/.git/config", "old"),
            ("real/config", "old"),
            (".git -> real", ""),
            (".envrc -> missing", ""),
            (".vscode -> ../outside", ""),
        ]);
        let root = yard.root.canonicalize().expect("it is there");
        let guard = Guard::look(&root);
        assert_eq!(guard.places, [root.join("real"), root.join("sub/.git")]);
        std::fs::rename(root.join("sub"), root.join("moved")).expect("moved");
        std::fs::remove_file(root.join(".git")).expect("removed");
        std::fs::create_dir(root.join(".git")).expect("replaced");
        assert_eq!(guard.disarm(), [(root.join(".git"), root.join(".git.not-trusted"))]);
        assert!(root.join("moved/.git/config").exists());
    }

    #[test]
    fn a_link_that_takes_a_folders_place_leads_nobody_out() {
        let yard = Yard::new(&[("sub/.git/config", "new"), ("link -> ../outside", "")]);
        std::fs::create_dir(yard.outside.join(".git")).expect("somebody's own");
        let root = yard.root.canonicalize().expect("it is there");
        assert_eq!(disarm(&root, &root.join("link/.git")), None);
        assert!(yard.outside.join(".git").exists());
        assert_eq!(disarm(&root, &root.join("sub/.git")), Some(root.join("sub/.git.not-trusted")));
    }
}
