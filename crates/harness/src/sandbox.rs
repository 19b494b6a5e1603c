//! Folders at stable paths, for one run at a time.
//!
//! Paths end up in a harness's prompts, so two runs should see the same ones. Concurrent runs must not share
//! them. So there are numbered slots, each with a lock.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::error::HarnessError;
use crate::scenario::Files;

/// Maximum number of captures at once.
const SLOTS: usize = 100;
/// Modification time of the oldest fixture file. Each file is a minute newer than the one before, because some
/// tools sort by time.
const FIXTURES_FROM: Duration = Duration::from_secs(1_577_880_000); // 2020-01-01 12:00 UTC

/// The folders of a harness during a capture. They are emptied when the next run takes the slot.
#[derive(Debug)]
pub struct Sandbox {
    root: PathBuf,
    slot: usize,
    lock: File,
}

impl Sandbox {
    /// Takes the first free slot below `folder` and empties it.
    pub(crate) fn take(folder: &Path) -> Result<Self, HarnessError> {
        create_private(folder)?;
        for slot in 0..SLOTS {
            let path = folder.join(format!("{slot:02}.lock"));
            let lock = File::options().create(true).append(true).open(&path);
            let lock = lock.map_err(HarnessError::io("write", &path))?;
            if lock.try_lock().is_ok() {
                let sandbox = Self { root: folder.join(format!("{slot:02}")), slot, lock };
                sandbox.empty()?;
                return Ok(sandbox);
            }
        }
        Err(HarnessError::outside(
            format!("all {SLOTS} slots below `{}` are taken", folder.display()),
            "wait for a capture to end",
        ))
    }

    fn empty(&self) -> Result<(), HarnessError> {
        let root = &self.root;
        match remove(root) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(HarnessError::io("empty", root)(error));
            }
            _ => {}
        }
        for folder in [self.home(), self.workspace(), self.tmp(), self.scratch(), self.bin()] {
            fs::create_dir_all(&folder).map_err(HarnessError::io("make", &folder))?;
        }
        Ok(())
    }

    /// The lock of the slot, held while any process of this run may be alive.
    pub(crate) fn lock(&self) -> &File {
        &self.lock
    }

    /// The slot's number.
    pub(crate) fn slot(&self) -> usize {
        self.slot
    }

    /// The harness's HOME.
    pub fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// The working folder, filled with the scenario's fixture.
    pub fn workspace(&self) -> PathBuf {
        self.root.join("workspace")
    }

    /// The folder for temporary files.
    pub fn tmp(&self) -> PathBuf {
        self.root.join("tmp")
    }

    /// A folder that the harness does not see, for files that we create from its data, such as exports.
    pub fn scratch(&self) -> PathBuf {
        self.root.join("scratch")
    }

    /// A folder with programs that come first on the PATH.
    pub(crate) fn bin(&self) -> PathBuf {
        self.root.join("bin")
    }

    /// `XDG_CONFIG_HOME`, below HOME.
    pub fn config(&self) -> PathBuf {
        self.home().join(".config")
    }

    /// `XDG_DATA_HOME`, below HOME.
    pub fn data(&self) -> PathBuf {
        self.home().join(".local/share")
    }

    /// Returns the complete environment of a program here, before a launch adds to it.
    pub fn env(&self) -> BTreeMap<String, String> {
        let text = |path: &Path| path.display().to_string();
        let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/local/bin:/usr/bin:/bin".to_owned());
        BTreeMap::from([
            ("PATH".to_owned(), format!("{}:{path}", text(&self.bin()))),
            ("HOME".to_owned(), text(&self.home())),
            ("XDG_CONFIG_HOME".to_owned(), text(&self.config())),
            ("XDG_DATA_HOME".to_owned(), text(&self.data())),
            ("XDG_CACHE_HOME".to_owned(), text(&self.home().join(".cache"))),
            ("XDG_STATE_HOME".to_owned(), text(&self.home().join(".local/state"))),
            ("XDG_RUNTIME_DIR".to_owned(), text(&self.tmp())),
            ("TMPDIR".to_owned(), text(&self.tmp())),
            // A Git repository above the slots must not be visible.
            ("GIT_CEILING_DIRECTORIES".to_owned(), text(&self.root)),
            ("LANG".to_owned(), "C.UTF-8".to_owned()),
            ("SHELL".to_owned(), "/bin/sh".to_owned()),
            ("TERM".to_owned(), "dumb".to_owned()),
            ("TZ".to_owned(), TIME_ZONE.to_owned()),
            ("USER".to_owned(), "offshoot".to_owned()),
        ])
    }

    /// Writes a fixture into the workspace.
    pub(crate) fn fill(&self, files: &Files) -> Result<(), HarnessError> {
        for (name, file) in files.iter() {
            let path = self.workspace().join(name);
            let failed = || HarnessError::io("write", &path);
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder).map_err(failed())?;
            }
            fs::write(&path, &file.bytes).map_err(failed())?;
            let mode = if file.executable { 0o755 } else { 0o644 };
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).map_err(failed())?;
        }
        Ok(())
    }

    /// Sets fixed times for all files in the workspace, in another order than that of their paths.
    pub(crate) fn settle_times(&self) -> Result<(), HarnessError> {
        let workspace = self.workspace();
        let mut paths = by_age(below(&workspace).map_err(HarnessError::io("read", &workspace))?);
        paths.push(workspace);
        for (place, path) in paths.iter().enumerate() {
            let time = SystemTime::UNIX_EPOCH + FIXTURES_FROM + Duration::from_secs(60 * place as u64);
            // Files that cannot be opened, such as sockets, keep their times.
            let _ = File::open(path).and_then(|file| file.set_modified(time));
        }
        Ok(())
    }

    /// Puts a `rg` first on the PATH that runs the real one with its output sorted by path.
    pub(crate) fn sort_ripgrep(&self, ripgrep: &Path) -> Result<(), HarnessError> {
        let path = self.bin().join("rg");
        let script = format!("#!/bin/sh\nexec '{}' --sort=path \"$@\"\n", ripgrep.display());
        fs::write(&path, script)
            .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o755)))
            .map_err(HarnessError::io("write", &path))
    }
}

/// The time zone that harnesses see.
pub(crate) const TIME_ZONE: &str = "UTC";

/// Creates a private folder, or checks that an existing one belongs to this user.
fn create_private(folder: &Path) -> Result<(), HarnessError> {
    let failed = || HarnessError::io("make", folder);
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed())?;
    let found = fs::symlink_metadata(folder).map_err(failed())?;
    let ours = found.is_dir() && found.uid() == rustix::process::geteuid().as_raw();
    if ours {
        return Ok(());
    }
    Err(HarnessError::usage(
        format!("`{}` belongs to another user", folder.display()),
        "export OFFSHOOT_SLOTS_DIR=/var/tmp/offshoot-slots",
    ))
}

/// Lists everything below a folder, sorted. Links are not followed.
pub(crate) fn below(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            }
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// Returns sorted paths from the oldest to the newest. Names read backwards give an order that has nothing to do with that
/// of the paths. Where the files of a folder still follow it, or follow it backwards, two of them change places. So a tool
/// that sorts by time shows it.
fn by_age(sorted: Vec<PathBuf>) -> Vec<PathBuf> {
    let backwards = |path: &PathBuf| path.as_os_str().as_encoded_bytes().iter().rev().copied().collect();
    let mut aged = sorted.clone();
    aged.sort_by_cached_key(|path| -> Vec<u8> { backwards(path) });
    let folders: BTreeSet<_> = sorted.iter().filter_map(|path| path.parent()).collect();
    for folder in folders {
        let places: Vec<usize> = (0..aged.len()).filter(|at| aged[*at].parent() == Some(folder)).collect();
        let rises = |two: &[usize]| aged[two[0]] < aged[two[1]];
        let rising = places.windows(2).filter(|two| rises(two)).count();
        let is_sorted = rising + 1 == places.len();
        let is_reversed = rising == 0 && places.len() > 2;
        if places.len() > 1 && (is_sorted || is_reversed) {
            aged.swap(places[0], places[1]);
        }
    }
    aged
}

/// Removes a folder even if it contains folders without write permission.
fn remove(folder: &Path) -> io::Result<()> {
    let Err(error) = fs::remove_dir_all(folder) else { return Ok(()) };
    if error.kind() != io::ErrorKind::PermissionDenied {
        return Err(error);
    }
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700))?;
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    fs::remove_dir_all(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::FixtureFile;

    #[test]
    fn runs_side_by_side_have_their_own_slots_and_later_ones_the_first() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let first = Sandbox::take(place.path()).expect("a slot");
        let second = Sandbox::take(place.path()).expect("another slot");
        assert_ne!(first.home(), second.home());
        let path = first.workspace();
        fs::write(path.join("left"), "").expect("written");
        drop(first);
        let again = Sandbox::take(place.path()).expect("the first slot");
        assert_eq!(again.workspace(), path);
        assert!(!path.join("left").exists(), "a slot begins empty");
    }

    #[test]
    fn fixtures_have_fixed_times_of_their_own() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let sandbox = Sandbox::take(place.path()).expect("a slot");
        let file = |text: &str| FixtureFile { bytes: text.into(), executable: false };
        let files = Files::from([("b.txt".to_owned(), file("b")), ("a/c.txt".to_owned(), file("c"))]);
        sandbox.fill(&files).expect("filled");
        sandbox.settle_times().expect("settled");
        let time = |name: &str| {
            let found = fs::metadata(sandbox.workspace().join(name)).expect("there");
            found.modified().expect("a time").duration_since(SystemTime::UNIX_EPOCH).expect("after 1970")
        };
        let minutes = |name: &str| (time(name) - FIXTURES_FROM).as_secs() / 60;
        assert_eq!([minutes("b.txt"), minutes("a"), minutes("a/c.txt"), minutes(".")], [0, 1, 2, 3]);
    }

    #[test]
    fn times_follow_no_order_of_paths_in_any_folder() {
        for names in [
            "src/tide.py src/timetable.py",
            "a b",
            "a b c",
            "a.txt b.txt c.txt d.txt",
            "1a 2b 3c 4d",
            "4a 3b 2c 1d",
            "docs/a docs/b notes/day-01 notes/day-02 notes/day-10 notes/day-11 README.md",
        ] {
            let mut paths: Vec<PathBuf> = names.split(' ').map(PathBuf::from).collect();
            paths.sort();
            let aged = by_age(paths.clone());
            assert_eq!(aged.iter().collect::<BTreeSet<_>>(), paths.iter().collect::<BTreeSet<_>>());
            for folder in paths.iter().map(|path| path.parent()) {
                let inside: Vec<&PathBuf> = aged.iter().filter(|path| path.parent() == folder).collect();
                assert!(inside.len() < 2 || !inside.is_sorted(), "{names}: {inside:?}");
                assert!(inside.len() < 3 || !inside.iter().rev().is_sorted(), "{names}: {inside:?}");
            }
        }
    }
}
