//! Goes through the files below a folder, as `glob` and `grep` see them.
//!
//! Each folder is opened in the one above it and never through a link, so nobody can lead the walk away by putting
//! a link where a folder was. `.git` is left out and `.gitignore` is honoured, those above the start too; what is
//! ignored only on this machine (`.git/info/exclude`, the user's own list) is not, so that everybody sees the same.

use std::ffi::OsStr;
use std::io::Read as _;
use std::ops::ControlFlow;
use std::path::{Component, Path, PathBuf};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::io::Errno;

use super::Stop;
use crate::workspace::{Entries, Folder, Kind};
use crate::{Workspace, WorkspaceError};

/// How far a walk goes.
#[derive(Clone, Copy)]
struct Bounds {
    /// How many entries it looks at. Where a folder holds more than are left, which ones is up to the file system.
    entries: usize,
    /// How deep it goes. Each level holds a folder open.
    depth: usize,
}

const BOUNDS: Bounds = Bounds { entries: 200_000, depth: 64 };
/// A longer `.gitignore` was written by nobody, and would take long to understand.
const MAX_IGNORE: u64 = 256 << 10;

/// A file or a link that the walk came to.
pub(super) struct Found<'a> {
    /// Seen from the workspace.
    pub(super) path: &'a Path,
    /// Seen from where the walk began.
    pub(super) below: &'a Path,
    pub(super) folder: &'a Folder,
    pub(super) name: &'a OsStr,
    pub(super) kind: Kind,
}

/// What a walk left out.
pub(super) struct LeftOut {
    bounds: Bounds,
    too_many: bool,
    too_deep: usize,
    unreadable: usize,
}

impl LeftOut {
    /// A line for each thing the model should know.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.too_many {
            let entries = self.bounds.entries;
            notes.push(format!("[stopped after {entries} entries; choose a `path` to see the rest]"));
        }
        if self.too_deep > 0 {
            notes.push(format!(
                "[{} folders lie deeper than {} levels; not entered]",
                self.too_deep, self.bounds.depth
            ));
        }
        if self.unreadable > 0 {
            notes.push(format!("[{} folders or files could not be opened]", self.unreadable));
        }
        notes
    }
}

/// Goes through everything below `start`, a folder's entries in the order of their names.
pub(super) fn walk(
    workspace: &Workspace,
    start: &Path,
    stop: &Stop,
    visit: &mut dyn FnMut(&Found) -> ControlFlow<()>,
) -> Result<LeftOut, WorkspaceError> {
    walk_within(BOUNDS, workspace, start, stop, visit)
}

fn walk_within(
    bounds: Bounds,
    workspace: &Workspace,
    start: &Path,
    stop: &Stop,
    visit: &mut dyn FnMut(&Found) -> ControlFlow<()>,
) -> Result<LeftOut, WorkspaceError> {
    // As the paths in the answer begin: without `.` and doubled slashes.
    let path: PathBuf =
        workspace.relative(start)?.components().filter(|part| *part != Component::CurDir).collect();
    let folder = workspace.folder(start)?;
    let mut walk = Walk {
        workspace,
        place: workspace.resolved(start)?,
        ignores: ignores_above(workspace, &path),
        start: path.components().count(),
        path,
        entries: 0,
        left_out: LeftOut { bounds, too_many: false, too_deep: 0, unreadable: 0 },
        stop,
        visit,
    };
    // Only the start must be readable; below it, what is not is counted.
    let entries = folder.entries(bounds.entries).map_err(|errno| workspace.explain(errno, "list", start))?;
    let _ = walk.descend(&folder, &entries, 0);
    Ok(walk.left_out)
}

struct Walk<'a> {
    workspace: &'a Workspace,
    /// Where the walk really began.
    place: PathBuf,
    /// Those that hold here, each with the folder it lies in; the nearest last.
    ignores: Vec<(PathBuf, Gitignore)>,
    path: PathBuf,
    /// How many parts of the path come before what is below the start.
    start: usize,
    entries: usize,
    left_out: LeftOut,
    stop: &'a Stop,
    visit: &'a mut dyn FnMut(&Found) -> ControlFlow<()>,
}

impl Walk<'_> {
    fn descend(&mut self, folder: &Folder, entries: &Entries, depth: usize) -> ControlFlow<()> {
        self.entries += entries.list.len();
        let here = self.ignores.len();
        self.ignores.extend(ignore_in(folder).map(|ignore| (self.path.clone(), ignore)));
        for entry in &entries.list {
            if self.stop.is_asked() {
                return ControlFlow::Break(());
            }
            if entry.name == ".git" {
                continue;
            }
            self.path.push(&entry.name);
            if !self.is_ignored(entry.kind == Kind::Folder) && !self.is_closed() {
                self.enter(folder, &entry.name, entry.kind, depth)?;
            }
            self.path.pop();
        }
        self.ignores.truncate(here);
        if entries.more {
            self.left_out.too_many = true;
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    fn enter(&mut self, folder: &Folder, name: &OsStr, kind: Kind, depth: usize) -> ControlFlow<()> {
        match kind {
            Kind::Folder if depth == self.left_out.bounds.depth => self.left_out.too_deep += 1,
            Kind::Folder => match folder.folder(name).and_then(|inner| self.listed(inner)) {
                Ok((inner, entries)) => return self.descend(&inner, &entries, depth + 1),
                // Gone, or something else by now.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                Err(_) => self.left_out.unreadable += 1,
            },
            Kind::File | Kind::Link => {
                let below: PathBuf = self.path.components().skip(self.start).collect();
                return (self.visit)(&Found { path: &self.path, below: &below, folder, name, kind });
            }
            Kind::Other => {}
        }
        ControlFlow::Continue(())
    }

    fn is_closed(&self) -> bool {
        let below: PathBuf = self.path.components().skip(self.start).collect();
        self.workspace.is_left_out(&self.place.join(below))
    }

    fn listed(&self, folder: Folder) -> Result<(Folder, Entries), Errno> {
        let entries = folder.entries(self.left_out.bounds.entries - self.entries)?;
        Ok((folder, entries))
    }

    /// The nearest `.gitignore` that says anything of a path decides.
    fn is_ignored(&self, is_folder: bool) -> bool {
        for (base, ignore) in self.ignores.iter().rev() {
            let path = self.path.strip_prefix(base).expect("its folder is on the way here");
            match ignore.matched(path, is_folder) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => {}
            }
        }
        false
    }
}

/// Those of the folders above the start, which somebody named: it is walked through even if they ignore it.
fn ignores_above(workspace: &Workspace, start: &Path) -> Vec<(PathBuf, Gitignore)> {
    let mut above: Vec<&Path> = start.ancestors().skip(1).collect();
    above.reverse();
    let ignore = |path: &Path| {
        let here = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        Some((path.to_path_buf(), ignore_in(&workspace.folder(here).ok()?)?))
    };
    above.into_iter().filter_map(ignore).collect()
}

/// A folder's own `.gitignore`. Like Git, it takes no link for one, and skips lines that make no sense.
fn ignore_in(folder: &Folder) -> Option<Gitignore> {
    let file = folder.file(OsStr::new(".gitignore")).ok()?;
    let mut bytes = Vec::new();
    file.take(MAX_IGNORE + 1).read_to_end(&mut bytes).ok()?;
    if bytes.len() as u64 > MAX_IGNORE {
        return None;
    }
    let text = String::from_utf8_lossy(&bytes);
    let mut builder = GitignoreBuilder::new(".");
    for line in text.trim_start_matches('\u{feff}').lines() {
        let _ = builder.add_line(None, line);
    }
    builder.build().ok()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Weak};

    use expect_test::expect;

    use super::*;
    use crate::tools::testing::Yard;
    use crate::workspace::shown;

    fn walked(bounds: Bounds, stop: &Stop) -> String {
        let yard = Yard::new(&[("a/b/c/deep.txt", ""), ("a/x.txt", ""), ("b.txt", ""), ("c.txt", "")]);
        let mut seen = Vec::new();
        let left_out = walk_within(bounds, &yard.context.workspace, Path::new("."), stop, &mut |found| {
            seen.push(shown(found.path));
            ControlFlow::Continue(())
        })
        .expect("the workspace is there");
        seen.extend(left_out.notes());
        seen.join("\n")
    }

    #[test]
    fn a_walk_ends_at_its_bounds_and_says_so() {
        let waiting = Arc::new(());
        let stop = Stop(Arc::downgrade(&waiting));
        expect![[r#"
            a/b/c/deep.txt
            a/x.txt
            b.txt
            c.txt"#]]
        .assert_eq(&walked(BOUNDS, &stop));
        expect![[r#"
            a/x.txt
            b.txt
            c.txt
            [1 folders lie deeper than 1 levels; not entered]"#]]
        .assert_eq(&walked(Bounds { depth: 1, ..BOUNDS }, &stop));
        expect!["[stopped after 5 entries; choose a `path` to see the rest]"]
            .assert_eq(&walked(Bounds { entries: 5, ..BOUNDS }, &stop));
    }

    #[test]
    fn a_walk_that_nobody_waits_for_ends() {
        assert_eq!(walked(BOUNDS, &Stop(Weak::new())), "");
    }
}
