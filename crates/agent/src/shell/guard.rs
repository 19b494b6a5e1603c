//! Protected places of a workspace before, during and after a command.
//!
//! Existing places are mounted read-only. Missing places cannot be mounted: if a command creates one, it is
//! renamed as soon as the [watcher](super::watcher) notices, and at the latest when the command has ended.
//! Under the new name nothing executes or trusts it. The same applies to a link whose target changes.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::ReadDir;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use rustix::fs::{Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::io::Errno;

use crate::workspace::{
    self, GIT_TARGET, ProtectedPlace, ProtectedPlaces, REPOSITORY, REPOSITORY_PART, display_path, real_paths,
};

/// Suffix for the name of a place that a command has created.
const DISARMED_SUFFIX: &str = "not-trusted";

/// The protected places of a workspace at one moment.
#[derive(Debug)]
pub(super) struct WorkspaceGuard {
    workspace: PathBuf,
    /// All existing places by identity, with the targets of links.
    known: BTreeMap<FileIdentity, LinkEnd>,
    /// Folders that could not be listed before the command. Their modes are left alone.
    unreadable: BTreeSet<FileIdentity>,
    /// Paths to mount read-only, with links resolved.
    pub(super) places: Vec<PathBuf>,
    /// Links, and paths that settings refer to. Their targets can change without any new name.
    indirect: Vec<ProtectedPlace>,
    /// All folders of the workspace.
    pub(super) folders: Vec<PathBuf>,
}

/// A protected place that a command has created or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DisarmedPlace {
    pub(crate) made: PathBuf,
    /// New name, or `None` if it could not be renamed or inspected.
    pub(crate) to: Option<PathBuf>,
}

/// Shared list of the places that a command has created so far.
#[derive(Clone, Debug, Default)]
pub(super) struct DisarmedList(Arc<Mutex<Vec<DisarmedPlace>>>);

impl DisarmedList {
    /// Adds places, and returns the new length.
    pub(super) fn add(&self, made: impl IntoIterator<Item = DisarmedPlace>) -> usize {
        let mut all = self.0.lock().expect("lock is not poisoned");
        all.extend(made);
        all.len()
    }

    /// Returns the places after the first `reported` ones.
    pub(super) fn since(&self, reported: usize) -> Vec<DisarmedPlace> {
        let all = self.0.lock().expect("lock is not poisoned");
        all.get(reported..).unwrap_or_default().to_vec()
    }
}

impl DisarmedPlace {
    pub(crate) fn describe(&self, workspace: &Path) -> String {
        let name = |path: &Path| display_path(path.strip_prefix(workspace).unwrap_or(path));
        match &self.to {
            Some(to) => format!(
                "`{}` is a protected place that was created or changed; it was renamed to `{}`",
                name(&self.made),
                name(to)
            ),
            None => format!(
                "`{}` may contain a new protected place that could not be inspected or \
                 renamed: tell the user not to trust it",
                name(&self.made)
            ),
        }
    }
}

/// Identity of a file, whatever its name: device and inode number, and what distinguishes it from a later file
/// with the same number.
type FileIdentity = (u64, u64, u32, Option<SystemTime>, Option<PathBuf>);

/// Target of a place that may be a link.
#[derive(Clone, Debug, PartialEq, Eq)]
enum LinkEnd {
    /// Not a link.
    Itself,
    /// A file in the workspace.
    Inside(Option<FileIdentity>),
    /// A path that no command can change.
    Outside(Option<PathBuf>),
}

impl WorkspaceGuard {
    /// Scans the workspace.
    pub(super) fn scan(workspace: &Path) -> Self {
        let found = ProtectedPlaces::find(workspace, |_| true, |folder| std::fs::read_dir(folder));
        let known =
            found.list.iter().filter_map(|place| Some((identity(&place.path)?, link_end(workspace, place))));
        let places: BTreeSet<PathBuf> = found
            .list
            .iter()
            .flat_map(|place| real_paths(workspace, place))
            .filter(|path| path.exists())
            .collect();
        let within = |place: &PathBuf| place.ancestors().skip(1).any(|above| places.contains(above));
        let held: Vec<PathBuf> = places.iter().filter(|place| !within(place)).cloned().collect();
        let links = workspace::other_names(&held, &found.folders);
        let links = links.into_iter().filter(|link| !places.contains(link) && !within(link));
        let leads = found.list.iter().filter(|place| place.by == &GIT_TARGET || place.path.is_symlink());
        Self {
            workspace: workspace.to_owned(),
            indirect: leads.cloned().collect(),
            known: known.collect(),
            unreadable: found.unreadable.iter().filter_map(|folder| identity(folder)).collect(),
            places: held.iter().cloned().chain(links).collect(),
            folders: found.folders,
        }
    }

    /// Renames all places that were created since the scan.
    pub(super) fn disarm(&self) -> Vec<DisarmedPlace> {
        self.disarm_below(&self.workspace).0
    }

    /// Like [`disarm`](Self::disarm), for one folder and everything below it. Returns the folders that were
    /// listed, too.
    pub(super) fn disarm_below(&self, folder: &Path) -> (Vec<DisarmedPlace>, Vec<PathBuf>) {
        let open = |folder: &Path| self.open(folder);
        let found = ProtectedPlaces::below(&self.workspace, folder, |place| self.is_unchanged(place), open);
        (self.disarm_found(&found), found.folders)
    }

    /// Like [`disarm`](Self::disarm), for one folder alone.
    pub(super) fn disarm_in(&self, only: &Path) -> Vec<DisarmedPlace> {
        let open = |folder: &Path| match folder == only {
            true => self.open(folder),
            false => Err(io::ErrorKind::NotFound.into()),
        };
        self.disarm_found(&ProtectedPlaces::below(
            &self.workspace,
            only,
            |place| self.is_unchanged(place),
            open,
        ))
    }

    /// Renames links and referenced paths whose targets have changed.
    pub(super) fn disarm_indirect(&self) -> Vec<DisarmedPlace> {
        self.disarm_found(&ProtectedPlaces { list: self.indirect.clone(), ..ProtectedPlaces::default() })
    }

    pub(super) fn workspace(&self) -> &Path {
        &self.workspace
    }

    fn disarm_found(&self, found: &ProtectedPlaces) -> Vec<DisarmedPlace> {
        let blind = found.unreadable.iter().filter(|folder| !self.was_unreadable(folder));
        let mut all: Vec<DisarmedPlace> =
            blind.map(|folder| DisarmedPlace { made: folder.clone(), to: None }).collect();
        let made: Vec<&ProtectedPlace> = found
            .list
            .iter()
            .filter(|place| identity(&place.path).is_some() && !self.is_unchanged(place))
            .collect();
        // If the root stops being a repository, its parts need no protection.
        let root = made.iter().any(|place| place.path == self.workspace);
        // Inner places first, while their paths are valid.
        for place in made.iter().rev().filter(|place| !(root && place.by == &REPOSITORY_PART)) {
            // Without its head, a folder is not a repository.
            let path = if place.by == &REPOSITORY { place.path.join("HEAD") } else { place.path.clone() };
            all.extend(disarm(&self.workspace, &path));
        }
        all
    }

    /// Returns true if a place existed before with the same target.
    fn is_unchanged(&self, place: &ProtectedPlace) -> bool {
        let known = identity(&place.path).and_then(|found| self.known.get(&found));
        known.is_some_and(|led| *led == link_end(&self.workspace, place))
    }

    fn was_unreadable(&self, folder: &Path) -> bool {
        identity(folder).is_some_and(|found| self.unreadable.contains(&found))
    }

    /// Lists a folder. Makes it accessible if the command has changed its mode.
    fn open(&self, folder: &Path) -> io::Result<ReadDir> {
        match std::fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !self.was_unreadable(folder) => {
                make_accessible(&open_in_workspace(&self.workspace, folder)?)?;
                std::fs::read_dir(folder)
            }
            opened => opened,
        }
    }
}

fn identity(place: &Path) -> Option<FileIdentity> {
    const KIND: u32 = 0o170_000;
    let found = std::fs::symlink_metadata(place).ok()?;
    Some((found.dev(), found.ino(), found.mode() & KIND, found.created().ok(), place.read_link().ok()))
}

fn link_end(workspace: &Path, place: &ProtectedPlace) -> LinkEnd {
    if !place.path.is_symlink() {
        return LinkEnd::Itself;
    }
    match workspace::link_end(&place.path) {
        Some(end) if end.starts_with(workspace) => LinkEnd::Inside(identity(&end)),
        outside => LinkEnd::Outside(outside),
    }
}

/// Opens a folder of the workspace without following links, since another command may replace it by a link.
fn open_in_workspace(workspace: &Path, folder: &Path) -> Result<OwnedFd, Errno> {
    let below = folder.strip_prefix(workspace).map_err(|_| Errno::XDEV)?;
    let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::PATH;
    let root = rustix::fs::open(workspace, flags, Mode::empty())?;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    rustix::fs::openat2(&root, below, flags, Mode::empty(), resolve)
}

/// Gives us all rights on a folder that we own.
fn make_accessible(folder: &OwnedFd) -> Result<(), Errno> {
    let mode = rustix::fs::fstat(folder)?.st_mode;
    let open = format!("/proc/self/fd/{}", folder.as_raw_fd());
    rustix::fs::chmod(open, Mode::from_raw_mode(mode) | Mode::RWXU)
}

/// Renames a place. Returns `None` if it does not exist any more.
fn disarm(workspace: &Path, place: &Path) -> Option<DisarmedPlace> {
    let (folder, name) = (place.parent()?, place.file_name()?);
    let to = match rename(workspace, folder, name) {
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return None,
        to => to.ok().map(|to| folder.join(to)),
    };
    Some(DisarmedPlace { made: place.to_owned(), to })
}

fn rename(workspace: &Path, folder: &Path, name: &OsStr) -> Result<String, Errno> {
    let at = open_in_workspace(workspace, folder)?;
    let (mut number, mut locked) = (1, true);
    loop {
        let to = match number {
            1 => format!("{}.{DISARMED_SUFFIX}", name.to_string_lossy()),
            2..100 => format!("{}.{DISARMED_SUFFIX}-{number}", name.to_string_lossy()),
            // All these names are taken, or the name is too long for a suffix.
            100..200 => format!("{DISARMED_SUFFIX}-{:016x}", fastrand::u64(..)),
            _ => return Err(Errno::EXIST),
        };
        // Never overwrites an existing file.
        match rustix::fs::renameat_with(&at, name, &at, &to, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(to),
            Err(Errno::EXIST) => number += 1,
            Err(Errno::NAMETOOLONG) if number < 100 => number = 100,
            Err(Errno::ACCESS) if locked => {
                make_accessible(&at)?;
                locked = false;
            }
            Err(errno) => return Err(errno),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestWorkspace;

    #[test]
    fn files_created_meanwhile_are_renamed() {
        let fixture = TestWorkspace::new(&[(".git/config", "old"), ("sub/.envrc", "old"), ("a/b/", "")]);
        let root = fixture.root.canonicalize().expect("it is there");
        let guard = WorkspaceGuard::scan(&root);
        assert_eq!(guard.places, [root.join(".git"), root.join("sub/.envrc")]);
        for made in
            [".envrc", ".Husky/pre-commit", "a/b/.git/config", "a/.vscode/tasks.json", ".envrc.not-trusted"]
        {
            std::fs::create_dir_all(fixture.root.join(made).parent().expect("below")).expect("a folder");
            std::fs::write(fixture.root.join(made), "new").expect("written");
        }
        let mut disarmed: Vec<PathBuf> = guard.disarm().into_iter().filter_map(|made| made.to).collect();
        disarmed.sort();
        let names =
            [".Husky.not-trusted", ".envrc.not-trusted-2", "a/.vscode.not-trusted", "a/b/.git.not-trusted"];
        assert_eq!(disarmed, names.map(|name| fixture.root.join(name)));
        assert!(fixture.root.join(".git/config").exists() && fixture.root.join("sub/.envrc").exists());
        assert_eq!(guard.disarm(), []);
    }

    /// A protected file is protected under all its hard links.
    #[test]
    fn a_hard_link_to_a_protected_file_is_protected() {
        let fixture = TestWorkspace::new(&[
            (".git/config", "old"),
            (".git/HEAD", "x"),
            (".git/objects/ab/cd", "o"),
            (".envrc", "x"),
            ("a/b/", ""),
        ]);
        let root = fixture.root.canonicalize().expect("it is there");
        for (from, to) in
            [(".git/config", "a/settings"), (".envrc", "a/b/env"), (".git/objects/ab/cd", "a/o")]
        {
            std::fs::hard_link(root.join(from), root.join(to)).expect("a link");
        }
        let held = [".envrc", ".git", "a/b/env", "a/settings"].map(|place| root.join(place));
        let mut places = WorkspaceGuard::scan(&root).places;
        places.sort();
        assert_eq!(places, held);
    }

    #[test]
    fn existing_protected_files_may_move_but_not_be_replaced() {
        let fixture = TestWorkspace::new(&[
            ("sub/.git/config", "old"),
            ("real/config", "old"),
            (".git -> real", ""),
            (".envrc -> missing", ""),
            (".vscode -> ../outside", ""),
        ]);
        let root = fixture.root.canonicalize().expect("it is there");
        let guard = WorkspaceGuard::scan(&root);
        assert_eq!(guard.places, [root.join("real"), root.join("sub/.git")]);
        std::fs::rename(root.join("sub"), root.join("moved")).expect("moved");
        std::fs::remove_file(root.join(".git")).expect("removed");
        std::fs::create_dir(root.join(".git")).expect("replaced");
        assert_eq!(names(&root, &guard.disarm()), [".git -> .git.not-trusted"]);
        assert!(root.join("moved/.git/config").exists());
    }

    #[test]
    fn nothing_behind_a_link_to_the_outside_is_renamed() {
        let fixture = TestWorkspace::new(&[("sub/.git/config", "new"), ("link -> ../outside", "")]);
        std::fs::create_dir(fixture.outside.join(".git")).expect("somebody's own");
        let root = fixture.root.canonicalize().expect("it is there");
        assert_eq!(disarm(&root, &root.join("link/.git")), None);
        assert!(fixture.outside.join(".git").exists());
        let made = disarm(&root, &root.join("sub/.git")).expect("it is there");
        assert_eq!(made.to, Some(root.join("sub/.git.not-trusted")));
    }

    /// Formats renames, relative to the root.
    fn names(root: &Path, disarmed: &[DisarmedPlace]) -> Vec<String> {
        let name = |path: &Path| path.strip_prefix(root).expect("inside").display().to_string();
        let line = |made: &DisarmedPlace| match &made.to {
            Some(to) => format!("{} -> {}", name(&made.made), name(to)),
            None => format!("{} stays", name(&made.made)),
        };
        let mut names: Vec<String> = disarmed.iter().map(line).collect();
        names.sort();
        names
    }

    /// Each case: existing files, a command, and the resulting renames.
    #[test]
    fn nothing_that_git_or_direnv_would_run_is_left_armed() {
        const REAL: &[(&str, &str)] = &[("tools/hooks/pre-commit", "good")];
        type Case<'a> = (&'a [(&'a str, &'a str)], &'a str, &'a [&'a str]);
        let bare = "mkdir -p objects refs/heads; echo ref: refs/heads/main > HEAD; echo evil > config";
        let cases: &[Case] = &[
            // A repository without `.git` around it.
            (&[], bare, &["HEAD -> HEAD.not-trusted"]),
            (&[("d/", "")], &format!("cd d; {bare}"), &["d/HEAD -> d/HEAD.not-trusted"]),
            (&[], &format!("{bare}; rm HEAD; ln -s refs/heads/x HEAD"), &["HEAD -> HEAD.not-trusted"]),
            (&[], &format!("{bare}; mv objects x; ln -s x objects"), &["HEAD -> HEAD.not-trusted"]),
            (
                &[],
                "mkdir d; echo ref: x > d/HEAD; echo ../x > d/commondir",
                &["d/HEAD -> d/HEAD.not-trusted"],
            ),
            (
                &[],
                &format!("mkdir .git; cd .git; {bare}"),
                &[".git -> .git.not-trusted", ".git/HEAD -> .git/HEAD.not-trusted"],
            ),
            (
                &[],
                &format!("mkdir a; cd a; {bare}; mkdir b; cd b; {bare}"),
                &["a/HEAD -> a/HEAD.not-trusted", "a/b/HEAD -> a/b/HEAD.not-trusted"],
            ),
            (&[("d/HEAD", ""), ("d/refs/", "")], "mkdir d/objects", &["d/HEAD -> d/HEAD.not-trusted"]),
            (&[("d/HEAD", ""), ("d/refs/", ""), ("d/objects/", "")], "echo x > d/new", &[]),
            (
                &[("HEAD", ""), ("refs/", ""), ("objects/", "")],
                "echo x > new; mkdir hooks",
                &["hooks -> hooks.not-trusted"],
            ),
            (&[], "mkdir objects refs", &[]),
            // References from settings.
            (
                &[(".git", "gitdir: ./.later")],
                "mkdir -p .later; echo evil > .later/config",
                &[".later -> .later.not-trusted"],
            ),
            (
                &[(".git/config", "[core]\n hooksPath = tools/hooks"), REAL[0]],
                "mv tools t2; mkdir -p tools/hooks; echo evil > tools/hooks/pre-commit",
                &["tools/hooks -> tools/hooks.not-trusted"],
            ),
            (
                &[(".git/config", "[core]\n hooksPath = tools/hooks")],
                "mkdir -p tools/hooks",
                &["tools/hooks -> tools/hooks.not-trusted"],
            ),
            (
                &[(".git/config", "[include]\n path = ../more.cfg")],
                "echo evil > more.cfg",
                &["more.cfg -> more.cfg.not-trusted"],
            ),
            // Links.
            (
                &[REAL[0], (".husky -> tools/hooks", "")],
                "mv tools t2; mkdir -p tools/hooks; echo evil > tools/hooks/pre-commit",
                &[".husky -> .husky.not-trusted"],
            ),
            (
                &[("a/real/g/config", ""), (".git -> a/real/g", "")],
                "mv a b; mkdir -p a/real/g",
                &[".git -> .git.not-trusted"],
            ),
            (&[(".envrc -> notes.txt", "")], "echo evil > notes.txt", &[".envrc -> .envrc.not-trusted"]),
            (
                &[(".envrc -> a", ""), ("a -> b", ""), ("b", "good"), ("c", "evil")],
                "ln -sfn c a",
                &[".envrc -> .envrc.not-trusted"],
            ),
            (
                &[(".envrc -> a", ""), ("a -> ../outside/secret.txt", "")],
                "ln -sfn ../outside a",
                &[".envrc -> .envrc.not-trusted"],
            ),
            (&[REAL[0], ("s/.husky -> ../tools/hooks", "")], "mv s t; touch x", &[]),
            (&[(".vscode -> ../outside", "")], "touch x", &[]),
            // Inaccessible folders, and folders with too many names.
            (
                &[],
                "mkdir -p d/e; echo evil > d/e/.envrc; chmod 111 d/e; chmod 0 d",
                &["d/e/.envrc -> d/e/.envrc.not-trusted"],
            ),
            (&[], "mkdir -p d; echo evil > d/.envrc; chmod 555 d", &["d/.envrc -> d/.envrc.not-trusted"]),
            (
                &[],
                "mkdir aa; cd aa; seq 100010 | xargs touch; cd ..; mkdir -p zz/yy; echo evil > zz/yy/.envrc",
                &["zz/yy/.envrc -> zz/yy/.envrc.not-trusted"],
            ),
        ];
        let mut wrong = Vec::new();
        for (files, command, left) in cases {
            let fixture = TestWorkspace::new(files);
            let root = fixture.root.canonicalize().expect("it is there");
            let guard = WorkspaceGuard::scan(&root);
            let ran = std::process::Command::new("sh").args(["-ec", command]).current_dir(&root).status();
            assert!(ran.expect("a shell").success(), "{command}");
            let disarmed = names(&root, &guard.disarm());
            if disarmed != *left || !guard.disarm().is_empty() {
                wrong.push(format!("{command}: {disarmed:?}"));
            }
        }
        assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    }

    #[test]
    fn a_place_gets_a_name_even_where_all_are_taken() {
        let fixture = TestWorkspace::new(&[]);
        let root = fixture.root.canonicalize().expect("it is there");
        let guard = WorkspaceGuard::scan(&root);
        for number in 1..=200 {
            let number = if number == 1 { String::new() } else { format!("-{number}") };
            std::fs::write(root.join(format!(".envrc.not-trusted{number}")), "").expect("written");
        }
        std::fs::write(root.join(".envrc"), "evil").expect("written");
        assert!(guard.disarm()[0].to.is_some() && !root.join(".envrc").exists());
    }

    /// Targets of a protected path are protected, too.
    #[test]
    fn existing_protected_paths_are_held_with_their_targets() {
        let fixture = TestWorkspace::new(&[
            (".git", "gitdir: ./.bare/worktrees/w"),
            (".bare/HEAD", "ref: refs/heads/main"),
            (".bare/objects/", ""),
            (".bare/refs/", ""),
            (".bare/config", "[core]\n hooksPath = tools/hooks\n[include]\n path = ../own.cfg"),
            (".bare/worktrees/w/commondir", "../.."),
            ("tools/hooks/pre-commit", ""),
            ("own.cfg", "[core] hooksPath = more"),
            ("more/", ""),
            ("env.sh", ""),
            ("sub/.envrc -> ../env.sh", ""),
        ]);
        let root = fixture.root.canonicalize().expect("it is there");
        let held = [".bare", ".git", "env.sh", "more", "own.cfg", "tools/hooks"].map(|name| root.join(name));
        assert_eq!(WorkspaceGuard::scan(&root).places, held);
        let bare = TestWorkspace::new(&[
            ("HEAD", ""),
            ("objects/", ""),
            ("refs/", ""),
            ("config", ""),
            ("src/a.c", ""),
        ]);
        let root = bare.root.canonicalize().expect("it is there");
        let held = ["HEAD", "config", "objects", "refs"].map(|name| root.join(name));
        assert_eq!(WorkspaceGuard::scan(&root).places, held);
    }
}
