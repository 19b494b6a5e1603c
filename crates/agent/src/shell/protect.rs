//! Protected places of a workspace, before, during and after a command.
//!
//! What is there is mounted so that it cannot be written. What is not there cannot be held like that: where a command
//! makes it, it gets another name as soon as we [see](super::watch) it, and at the latest when the command is over. Under
//! that name nobody runs or believes it. The same goes for a link that leads to something else than before.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::ReadDir;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use rustix::fs::{Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::io::Errno;

use crate::workspace::places::{self, Place, Places};
use crate::workspace::protected::{LED_TO, PART, REPOSITORY};
use crate::workspace::{shown, twins};

/// What is added to the name of a place that a command has made.
const DISARMED: &str = "not-trusted";

/// The protected places of a workspace at one moment.
#[derive(Debug)]
pub(crate) struct Guard {
    workspace: PathBuf,
    /// All that there are, under whichever names, with what they lead to.
    known: BTreeMap<Identity, End>,
    /// Folders that could not be looked into; their modes are none of our business.
    closed: BTreeSet<Identity>,
    /// What is to be held: where they are, links resolved.
    pub(crate) places: Vec<PathBuf>,
    /// Links, and what settings lead to: what they stand for may change where nobody looks for a name.
    leads: Vec<Place>,
    /// All folders.
    pub(super) folders: Vec<PathBuf>,
}

/// A place that a command has made, or led elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Disarmed {
    pub(crate) made: PathBuf,
    /// Its name now; nothing where it could not be changed, or where nobody could look.
    pub(crate) to: Option<PathBuf>,
}

/// What a command has made so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Made(Arc<Mutex<Vec<Disarmed>>>);

impl Made {
    /// Adds to it; says how many there are.
    pub(super) fn add(&self, made: impl IntoIterator<Item = Disarmed>) -> usize {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend(made);
        all.len()
    }

    /// Those behind the first so many.
    pub(super) fn since(&self, told: usize) -> Vec<Disarmed> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(told..).unwrap_or_default().to_vec()
    }
}

impl Disarmed {
    pub(crate) fn in_words(&self, workspace: &Path) -> String {
        let name = |path: &Path| shown(path.strip_prefix(workspace).unwrap_or(path));
        match &self.to {
            Some(to) => format!(
                "`{}` is protected, and was not there before or led elsewhere: it is `{}` now",
                name(&self.made),
                name(to)
            ),
            None => format!(
                "`{}` may hold something that is protected and was not there before, and could not be looked at or \
                 renamed: tell the user not to trust it",
                name(&self.made)
            ),
        }
    }
}

/// A file, whatever its name: device and number, and what tells it from a later one with the same number.
type Identity = (u64, u64, u32, Option<SystemTime>, Option<PathBuf>);

/// What a link leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    /// It is none.
    Itself,
    /// Something in the workspace, whatever its name.
    Inside(Option<Identity>),
    /// Something that no command can change.
    Outside(Option<PathBuf>),
}

impl Guard {
    /// Looks for them.
    pub(crate) fn look(workspace: &Path) -> Self {
        let found = Places::find(workspace, |_| true, |folder| std::fs::read_dir(folder));
        let known =
            found.all.iter().filter_map(|place| Some((identity(&place.path)?, end(workspace, place))));
        let places: BTreeSet<PathBuf> = found
            .all
            .iter()
            .flat_map(|place| places::real(workspace, place))
            .filter(|path| path.exists())
            .collect();
        let within = |place: &PathBuf| place.ancestors().skip(1).any(|above| places.contains(above));
        let held: Vec<PathBuf> = places.iter().filter(|place| !within(place)).cloned().collect();
        let twins = twins::beside(&held, &found.folders);
        let twins = twins.into_iter().filter(|twin| !places.contains(twin) && !within(twin));
        let leads = found.all.iter().filter(|place| place.by == &LED_TO || place.path.is_symlink());
        Self {
            workspace: workspace.to_owned(),
            leads: leads.cloned().collect(),
            known: known.collect(),
            closed: found.unseen.iter().filter_map(|folder| identity(folder)).collect(),
            places: held.iter().cloned().chain(twins).collect(),
            folders: found.folders,
        }
    }

    /// Takes away what was made since, in whichever folder.
    pub(crate) fn disarm(&self) -> Vec<Disarmed> {
        self.disarm_below(&self.workspace).0
    }

    /// The same in one folder and below it, with the folders that were looked through.
    pub(super) fn disarm_below(&self, folder: &Path) -> (Vec<Disarmed>, Vec<PathBuf>) {
        let open = |folder: &Path| self.open(folder);
        let found = Places::below(&self.workspace, folder, |place| self.trusts(place), open);
        (self.take_away(&found), found.folders)
    }

    /// The same in one folder alone.
    pub(super) fn disarm_in(&self, only: &Path) -> Vec<Disarmed> {
        let open = |folder: &Path| match folder == only {
            true => self.open(folder),
            false => Err(io::ErrorKind::NotFound.into()),
        };
        self.take_away(&Places::below(&self.workspace, only, |place| self.trusts(place), open))
    }

    /// Takes away what leads to something else than before.
    pub(super) fn disarm_leads(&self) -> Vec<Disarmed> {
        self.take_away(&Places { all: self.leads.clone(), ..Places::default() })
    }

    pub(super) fn workspace(&self) -> &Path {
        &self.workspace
    }

    fn take_away(&self, found: &Places) -> Vec<Disarmed> {
        let blind = found.unseen.iter().filter(|folder| !self.is_closed(folder));
        let mut all: Vec<Disarmed> =
            blind.map(|folder| Disarmed { made: folder.clone(), to: None }).collect();
        let made: Vec<&Place> =
            found.all.iter().filter(|place| identity(&place.path).is_some() && !self.trusts(place)).collect();
        // A root that is no repository any more has no parts of one.
        let root = made.iter().any(|place| place.path == self.workspace);
        // What is inside first, while it has its name.
        for place in made.iter().rev().filter(|place| !(root && place.by == &PART)) {
            // A repository is none without its head.
            let path = if place.by == &REPOSITORY { place.path.join("HEAD") } else { place.path.clone() };
            all.extend(disarm(&self.workspace, &path));
        }
        all
    }

    /// Whether a place was there before, and leads where it led.
    fn trusts(&self, place: &Place) -> bool {
        let known = identity(&place.path).and_then(|found| self.known.get(&found));
        known.is_some_and(|led| *led == end(&self.workspace, place))
    }

    fn is_closed(&self, folder: &Path) -> bool {
        identity(folder).is_some_and(|found| self.closed.contains(&found))
    }

    /// Opens a folder, also one that a command has closed since.
    fn open(&self, folder: &Path) -> io::Result<ReadDir> {
        match std::fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !self.is_closed(folder) => {
                unlock(&at(&self.workspace, folder)?)?;
                std::fs::read_dir(folder)
            }
            opened => opened,
        }
    }
}

fn identity(place: &Path) -> Option<Identity> {
    const KIND: u32 = 0o170_000;
    let found = std::fs::symlink_metadata(place).ok()?;
    Some((found.dev(), found.ino(), found.mode() & KIND, found.created().ok(), place.read_link().ok()))
}

fn end(workspace: &Path, place: &Place) -> End {
    if !place.path.is_symlink() {
        return End::Itself;
    }
    match places::end(&place.path) {
        Some(end) if end.starts_with(workspace) => End::Inside(identity(&end)),
        outside => End::Outside(outside),
    }
}

/// A folder of the workspace, opened without following anything: another command may be at work, and put a link in its
/// place.
fn at(workspace: &Path, folder: &Path) -> Result<OwnedFd, Errno> {
    let below = folder.strip_prefix(workspace).map_err(|_| Errno::XDEV)?;
    let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::PATH;
    let root = rustix::fs::open(workspace, flags, Mode::empty())?;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    rustix::fs::openat2(&root, below, flags, Mode::empty(), resolve)
}

/// Lets us into a folder of ours.
fn unlock(folder: &OwnedFd) -> Result<(), Errno> {
    let mode = rustix::fs::fstat(folder)?.st_mode;
    let open = format!("/proc/self/fd/{}", folder.as_raw_fd());
    rustix::fs::chmod(open, Mode::from_raw_mode(mode) | Mode::RWXU)
}

/// Gives a place another name; nothing where it is gone already.
fn disarm(workspace: &Path, place: &Path) -> Option<Disarmed> {
    let (folder, name) = (place.parent()?, place.file_name()?);
    let to = match rename(workspace, folder, name) {
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return None,
        to => to.ok().map(|to| folder.join(to)),
    };
    Some(Disarmed { made: place.to_owned(), to })
}

fn rename(workspace: &Path, folder: &Path, name: &OsStr) -> Result<String, Errno> {
    let at = at(workspace, folder)?;
    let (mut number, mut locked) = (1, true);
    loop {
        let to = match number {
            1 => format!("{}.{DISARMED}", name.to_string_lossy()),
            2..100 => format!("{}.{DISARMED}-{number}", name.to_string_lossy()),
            // Somebody has taken all of these, or the name is too long for more.
            100..200 => format!("{DISARMED}-{:016x}", fastrand::u64(..)),
            _ => return Err(Errno::EXIST),
        };
        // Not over anything that is there.
        match rustix::fs::renameat_with(&at, name, &at, &to, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(to),
            Err(Errno::EXIST) => number += 1,
            Err(Errno::NAMETOOLONG) if number < 100 => number = 100,
            Err(Errno::ACCESS) if locked => {
                unlock(&at)?;
                locked = false;
            }
            Err(errno) => return Err(errno),
        }
    }
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
        assert_eq!(guard.places, [root.join(".git"), root.join("sub/.envrc")]);
        for made in
            [".envrc", ".Husky/pre-commit", "a/b/.git/config", "a/.vscode/tasks.json", ".envrc.not-trusted"]
        {
            std::fs::create_dir_all(yard.root.join(made).parent().expect("below")).expect("a folder");
            std::fs::write(yard.root.join(made), "new").expect("written");
        }
        let mut disarmed: Vec<PathBuf> = guard.disarm().into_iter().filter_map(|made| made.to).collect();
        disarmed.sort();
        let names =
            [".Husky.not-trusted", ".envrc.not-trusted-2", "a/.vscode.not-trusted", "a/b/.git.not-trusted"];
        assert_eq!(disarmed, names.map(|name| yard.root.join(name)));
        assert!(yard.root.join(".git/config").exists() && yard.root.join("sub/.envrc").exists());
        assert_eq!(guard.disarm(), []);
    }

    /// A file has as many names as somebody gave it, and is held under all of them.
    #[test]
    fn another_name_of_what_is_protected_is_held_too() {
        let yard = Yard::new(&[
            (".git/config", "old"),
            (".git/HEAD", "x"),
            (".git/objects/ab/cd", "o"),
            (".envrc", "x"),
            ("a/b/", ""),
        ]);
        let root = yard.root.canonicalize().expect("it is there");
        for (from, to) in
            [(".git/config", "a/settings"), (".envrc", "a/b/env"), (".git/objects/ab/cd", "a/o")]
        {
            std::fs::hard_link(root.join(from), root.join(to)).expect("a link");
        }
        let held = [".envrc", ".git", "a/b/env", "a/settings"].map(|place| root.join(place));
        let mut places = Guard::look(&root).places;
        places.sort();
        assert_eq!(places, held);
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
        assert_eq!(names(&root, &guard.disarm()), [".git -> .git.not-trusted"]);
        assert!(root.join("moved/.git/config").exists());
    }

    #[test]
    fn a_link_that_takes_a_folders_place_leads_nobody_out() {
        let yard = Yard::new(&[("sub/.git/config", "new"), ("link -> ../outside", "")]);
        std::fs::create_dir(yard.outside.join(".git")).expect("somebody's own");
        let root = yard.root.canonicalize().expect("it is there");
        assert_eq!(disarm(&root, &root.join("link/.git")), None);
        assert!(yard.outside.join(".git").exists());
        let made = disarm(&root, &root.join("sub/.git")).expect("it is there");
        assert_eq!(made.to, Some(root.join("sub/.git.not-trusted")));
    }

    /// What got which name, as seen from the root.
    fn names(root: &Path, disarmed: &[Disarmed]) -> Vec<String> {
        let name = |path: &Path| path.strip_prefix(root).expect("inside").display().to_string();
        let line = |made: &Disarmed| match &made.to {
            Some(to) => format!("{} -> {}", name(&made.made), name(to)),
            None => format!("{} stays", name(&made.made)),
        };
        let mut names: Vec<String> = disarmed.iter().map(line).collect();
        names.sort();
        names
    }

    /// Each: what is there, what a command does, and what becomes of it.
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
            // What leads elsewhere.
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
            // What is hidden, or has no name left to get.
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
            let yard = Yard::new(files);
            let root = yard.root.canonicalize().expect("it is there");
            let guard = Guard::look(&root);
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
        let yard = Yard::new(&[]);
        let root = yard.root.canonicalize().expect("it is there");
        let guard = Guard::look(&root);
        for number in 1..=200 {
            let number = if number == 1 { String::new() } else { format!("-{number}") };
            std::fs::write(root.join(format!(".envrc.not-trusted{number}")), "").expect("written");
        }
        std::fs::write(root.join(".envrc"), "evil").expect("written");
        assert!(guard.disarm()[0].to.is_some() && !root.join(".envrc").exists());
    }

    /// What leads to a protected place is held together with it.
    #[test]
    fn what_is_there_is_held_with_all_it_leads_to() {
        let yard = Yard::new(&[
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
        let root = yard.root.canonicalize().expect("it is there");
        let held = [".bare", ".git", "env.sh", "more", "own.cfg", "tools/hooks"].map(|name| root.join(name));
        assert_eq!(Guard::look(&root).places, held);
        let bare =
            Yard::new(&[("HEAD", ""), ("objects/", ""), ("refs/", ""), ("config", ""), ("src/a.c", "")]);
        let root = bare.root.canonicalize().expect("it is there");
        let held = ["HEAD", "config", "objects", "refs"].map(|name| root.join(name));
        assert_eq!(Guard::look(&root).places, held);
    }
}
