//! Protected places of a workspace, before and after a command.
//!
//! What is there is mounted so that it cannot be written. What is not there cannot be held like that: where a command
//! makes it, it gets another name when the command is over, under which nobody runs or believes it.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::workspace::protected;

/// How many names are looked at. Those nearest to the root come first.
const MOST: usize = 100_000;
/// What is added to the name of a place that a command has made.
const DISARMED: &str = "not-trusted";

/// The protected places of a workspace at one moment.
#[derive(Debug)]
pub(crate) struct Guard {
    workspace: PathBuf,
    /// All that there are.
    pub(crate) places: Vec<PathBuf>,
}

impl Guard {
    /// Looks for them.
    pub(crate) fn look(workspace: &Path) -> Self {
        Self { workspace: workspace.to_owned(), places: find(workspace) }
    }

    /// Takes away what was made since: each with its old and new name. Only `.git` counts in folders below; others
    /// are made there by all kinds of packages, and read by nobody.
    pub(crate) fn disarm(&self) -> Vec<(PathBuf, PathBuf)> {
        let made = find(&self.workspace).into_iter().filter(|place| !self.places.contains(place));
        let matters = made.filter(|place| {
            let known = place.file_name().and_then(protected::name);
            place.parent() == Some(&self.workspace) || known.is_some_and(|known| known.name == ".git")
        });
        matters.filter_map(|place| disarm(&place).map(|to| (place, to))).collect()
    }
}

fn disarm(place: &Path) -> Option<PathBuf> {
    let name = place.file_name()?.to_string_lossy().into_owned();
    (1..100).find_map(|n| {
        let number = if n == 1 { String::new() } else { format!("-{n}") };
        let to = place.with_file_name(format!("{name}.{DISARMED}{number}"));
        // Not over anything that is there.
        let (here, flags) = (rustix::fs::CWD, rustix::fs::RenameFlags::NOREPLACE);
        rustix::fs::renameat_with(here, place, here, &to, flags).ok().map(|()| to)
    })
}

/// All protected places, those nearest to the root first. Nothing is followed, and nothing in them is looked at.
fn find(workspace: &Path) -> Vec<PathBuf> {
    let (mut found, mut seen) = (Vec::new(), 0);
    let mut folders = VecDeque::from([workspace.to_owned()]);
    while let Some(folder) = folders.pop_front() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().filter_map(Result::ok) {
            seen += 1;
            if seen > MOST {
                return found;
            }
            if is_protected(&entry.file_name()) {
                found.push(entry.path());
            } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push_back(entry.path());
            }
        }
    }
    found
}

fn is_protected(name: &OsStr) -> bool {
    protected::name(name).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::testing::Yard;

    #[test]
    fn what_was_made_meanwhile_gets_another_name() {
        let yard = Yard::new(&[(".git/config", "old"), ("sub/.envrc", "old"), ("a/b/", "")]);
        let guard = Guard::look(&yard.root);
        assert_eq!(guard.places, [yard.root.join(".git"), yard.root.join("sub/.envrc")]);
        for made in
            [".envrc", ".Husky/pre-commit", "a/b/.git/config", "a/.vscode/tasks.json", ".envrc.not-trusted"]
        {
            std::fs::create_dir_all(yard.root.join(made).parent().expect("below")).expect("a folder");
            std::fs::write(yard.root.join(made), "new").expect("written");
        }
        let mut disarmed: Vec<PathBuf> = guard.disarm().into_iter().map(|(_, to)| to).collect();
        disarmed.sort();
        let names = [".Husky.not-trusted", ".envrc.not-trusted-2", "a/b/.git.not-trusted"];
        assert_eq!(disarmed, names.map(|name| yard.root.join(name)));
        assert!(yard.root.join(".git/config").exists() && yard.root.join("a/.vscode").exists());
        assert_eq!(guard.disarm(), []);
    }
}
