//! Walk through the files below a folder, for `glob` and `grep`.
//!
//! Each folder is opened in its parent and never through a link, so replacing a folder by a link cannot
//! redirect the walk. `.git` is skipped. `.gitignore` files are honoured, including those above the start.
//! Ignore rules of this machine alone (`.git/info/exclude`, the user's own list) are not, so that everyone gets
//! the same result.

use std::ffi::OsStr;
use std::io::Read as _;
use std::ops::ControlFlow;
use std::path::{Component, Path, PathBuf};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::io::Errno;

use super::CancelFlag;
use crate::workspace::{Entries, EntryKind, OpenFolder};
use crate::{Workspace, WorkspaceError};

/// Limits of a walk.
#[derive(Clone, Copy)]
struct WalkLimits {
    /// Maximum number of entries. In a folder with more entries, the file system decides which ones are seen.
    entries: usize,
    /// Maximum depth. Each level holds a folder open.
    depth: usize,
}

const WALK_LIMITS: WalkLimits = WalkLimits { entries: 200_000, depth: 64 };
/// Maximum size of a `.gitignore`. A longer one is generated, and slow to compile.
const MAX_IGNORE: u64 = 256 << 10;

/// A file or link that the walk visits.
pub(super) struct WalkEntry<'a> {
    /// Path relative to the workspace.
    pub(super) path: &'a Path,
    /// Path relative to the start of the walk.
    pub(super) below: &'a Path,
    pub(super) folder: &'a OpenFolder,
    pub(super) name: &'a OsStr,
    pub(super) kind: EntryKind,
}

/// Counts of what a walk left out.
pub(super) struct WalkOmissions {
    limits: WalkLimits,
    too_many: bool,
    too_deep: usize,
    unreadable: usize,
}

impl WalkOmissions {
    /// Returns one line for each kind of omission.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.too_many {
            let entries = self.limits.entries;
            notes.push(format!("[stopped after {entries} entries; choose a `path` to see the rest]"));
        }
        if self.too_deep > 0 {
            notes.push(format!(
                "[{} folders lie deeper than {} levels; not entered]",
                self.too_deep, self.limits.depth
            ));
        }
        if self.unreadable > 0 {
            notes.push(format!("[{} folders or files could not be opened]", self.unreadable));
        }
        notes
    }
}

/// Visits everything below `start`. Entries of a folder are visited in the order of their names.
pub(super) fn walk(
    workspace: &Workspace,
    start: &Path,
    stop: &CancelFlag,
    visit: &mut dyn FnMut(&WalkEntry) -> ControlFlow<()>,
) -> Result<WalkOmissions, WorkspaceError> {
    walk_within(WALK_LIMITS, workspace, start, stop, visit)
}

fn walk_within(
    limits: WalkLimits,
    workspace: &Workspace,
    start: &Path,
    stop: &CancelFlag,
    visit: &mut dyn FnMut(&WalkEntry) -> ControlFlow<()>,
) -> Result<WalkOmissions, WorkspaceError> {
    // Paths in the answer begin like this: without `.` and doubled slashes.
    let path: PathBuf =
        workspace.relative(start)?.components().filter(|part| *part != Component::CurDir).collect();
    let folder = workspace.open_folder(start)?;
    let mut walk = Walker {
        workspace,
        place: workspace.resolve(start)?,
        ignores: ignores_above(workspace, &path),
        start: path.components().count(),
        path,
        entries: 0,
        omissions: WalkOmissions { limits, too_many: false, too_deep: 0, unreadable: 0 },
        stop,
        visit,
    };
    // Only the start must be readable. Unreadable folders below are counted.
    let entries = folder.entries(limits.entries).map_err(|errno| workspace.explain(errno, "list", start))?;
    let _ = walk.descend(&folder, &entries, 0);
    Ok(walk.omissions)
}

struct Walker<'a> {
    workspace: &'a Workspace,
    /// Real place of the start.
    place: PathBuf,
    /// Active ignore files with their folders, the nearest last.
    ignores: Vec<(PathBuf, Gitignore)>,
    path: PathBuf,
    /// Number of components in the start's path.
    start: usize,
    entries: usize,
    omissions: WalkOmissions,
    stop: &'a CancelFlag,
    visit: &'a mut dyn FnMut(&WalkEntry) -> ControlFlow<()>,
}

impl Walker<'_> {
    fn descend(&mut self, folder: &OpenFolder, entries: &Entries, depth: usize) -> ControlFlow<()> {
        self.entries += entries.list.len();
        let here = self.ignores.len();
        self.ignores.extend(ignore_in(folder).map(|ignore| (self.path.clone(), ignore)));
        for entry in &entries.list {
            if self.stop.is_cancelled() {
                return ControlFlow::Break(());
            }
            if entry.name == ".git" {
                continue;
            }
            self.path.push(&entry.name);
            if !self.is_ignored(entry.kind == EntryKind::Folder) && !self.is_excluded() {
                self.enter(folder, &entry.name, entry.kind, depth)?;
            }
            self.path.pop();
        }
        self.ignores.truncate(here);
        if entries.is_truncated {
            self.omissions.too_many = true;
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    fn enter(&mut self, folder: &OpenFolder, name: &OsStr, kind: EntryKind, depth: usize) -> ControlFlow<()> {
        match kind {
            EntryKind::Folder if depth == self.omissions.limits.depth => self.omissions.too_deep += 1,
            EntryKind::Folder => match folder.open_folder(name).and_then(|inner| self.list(inner)) {
                Ok((inner, entries)) => return self.descend(&inner, &entries, depth + 1),
                // Removed or replaced meanwhile.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                Err(_) => self.omissions.unreadable += 1,
            },
            EntryKind::File | EntryKind::Link => {
                let below: PathBuf = self.path.components().skip(self.start).collect();
                return (self.visit)(&WalkEntry { path: &self.path, below: &below, folder, name, kind });
            }
            EntryKind::Other => {}
        }
        ControlFlow::Continue(())
    }

    fn is_excluded(&self) -> bool {
        let below: PathBuf = self.path.components().skip(self.start).collect();
        self.workspace.is_excluded_from_walks(&self.place.join(below))
    }

    fn list(&self, folder: OpenFolder) -> Result<(OpenFolder, Entries), Errno> {
        let entries = folder.entries(self.omissions.limits.entries - self.entries)?;
        Ok((folder, entries))
    }

    /// Returns true if the nearest `.gitignore` that matches ignores the current path.
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

/// Reads the ignore files above the start. The start itself is walked even if they ignore it, because the
/// caller named it.
fn ignores_above(workspace: &Workspace, start: &Path) -> Vec<(PathBuf, Gitignore)> {
    let mut above: Vec<&Path> = start.ancestors().skip(1).collect();
    above.reverse();
    let ignore = |path: &Path| {
        let here = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        Some((path.to_path_buf(), ignore_in(&workspace.open_folder(here).ok()?)?))
    };
    above.into_iter().filter_map(ignore).collect()
}

/// Reads the `.gitignore` of a folder. Like git, it follows no link and skips invalid lines.
fn ignore_in(folder: &OpenFolder) -> Option<Gitignore> {
    let file = folder.open_file(OsStr::new(".gitignore")).ok()?;
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
    use crate::testing::TestWorkspace;
    use crate::workspace::display_path;

    fn walked(limits: WalkLimits, stop: &CancelFlag) -> String {
        let fixture =
            TestWorkspace::new(&[("a/b/c/deep.txt", ""), ("a/x.txt", ""), ("b.txt", ""), ("c.txt", "")]);
        let mut seen = Vec::new();
        let omissions = walk_within(limits, &fixture.context.workspace, Path::new("."), stop, &mut |found| {
            seen.push(display_path(found.path));
            ControlFlow::Continue(())
        })
        .expect("the workspace is there");
        seen.extend(omissions.notes());
        seen.join("\n")
    }

    #[test]
    fn a_walk_stops_at_its_limits_and_reports_them() {
        let waiting = Arc::new(());
        let stop = CancelFlag(Arc::downgrade(&waiting));
        expect![[r#"
            a/b/c/deep.txt
            a/x.txt
            b.txt
            c.txt"#]]
        .assert_eq(&walked(WALK_LIMITS, &stop));
        expect![[r#"
            a/x.txt
            b.txt
            c.txt
            [1 folders lie deeper than 1 levels; not entered]"#]]
        .assert_eq(&walked(WalkLimits { depth: 1, ..WALK_LIMITS }, &stop));
        expect!["[stopped after 5 entries; choose a `path` to see the rest]"]
            .assert_eq(&walked(WalkLimits { entries: 5, ..WALK_LIMITS }, &stop));
    }

    #[test]
    fn an_abandoned_walk_ends() {
        assert_eq!(walked(WALK_LIMITS, &CancelFlag(Weak::new())), "");
    }
}
