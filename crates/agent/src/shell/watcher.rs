//! Watches a workspace while a command runs, so that protected places it creates are renamed at once.
//!
//! All folders are watched, new ones as they appear. If the system has no more watches, the whole workspace is
//! scanned again and again. Whatever is missed here is found when the command has ended.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

use super::{DisarmedList, DisarmedPlace, KillSwitch, WorkspaceGuard};
use crate::workspace::{PROGRAM_NAMES, is_one_of, protected_name};

/// Number of created protected places after which a command is ended. With more tries it would win the race
/// some day.
pub(crate) const MAX_DISARMED: usize = 20;
/// Number of events to read before acting on them.
const MAX_EVENTS: usize = 4_096;
/// Names in a folder that git takes for a repository.
const REPOSITORY_SIGNS: &[&str] = &["head", "objects", "refs", "commondir"];
/// Minimum pause between scans if not all folders can be watched. The pause is at least `PAUSE_FACTOR` times as
/// long as a scan.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_FACTOR: u32 = 10;

/// A watching thread. It stops when this is dropped.
pub(super) struct WorkspaceWatcher {
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl WorkspaceWatcher {
    /// Starts to watch. Called before the command starts, so nothing is missed. Returns `None` if the system
    /// does not support it.
    pub(super) fn start(guard: Arc<WorkspaceGuard>, command: KillSwitch, made: DisarmedList) -> Option<Self> {
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).ok()?);
        let mut watcher = WatcherThread::new(guard, command, made);
        let stop_reader = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("watch".to_owned());
        let thread = thread.spawn(move || watcher.run_until(&stop_reader)).ok();
        Some(Self { stop, thread })
    }

    /// Stops the thread and waits for it.
    pub(super) fn stop(mut self) {
        let thread = self.thread.take();
        drop(self);
        let _ = thread.map(JoinHandle::join); // a panic in it loses nothing that it has recorded
    }
}

impl Drop for WorkspaceWatcher {
    fn drop(&mut self) {
        let _ = rustix::io::write(&*self.stop, &1_u64.to_ne_bytes()); // any number wakes it
    }
}

struct WatcherThread {
    guard: Arc<WorkspaceGuard>,
    command: KillSwitch,
    /// `None` if the system has no more instances.
    inotify: Option<OwnedFd>,
    folders: HashMap<i32, PathBuf>,
    watched: HashSet<PathBuf>,
    /// True if some folders are not watched.
    is_blind: bool,
    made: DisarmedList,
}

impl WatcherThread {
    fn new(guard: Arc<WorkspaceGuard>, command: KillSwitch, made: DisarmedList) -> Self {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok();
        let (is_blind, folders) = (inotify.is_none(), guard.folders.clone());
        let (map, watched) = (HashMap::new(), HashSet::new());
        let mut watcher = Self { guard, command, inotify, folders: map, watched, is_blind, made };
        for folder in folders {
            watcher.watch(folder);
        }
        watcher
    }

    fn run_until(&mut self, stop: &OwnedFd) {
        let mut pause = PAUSE;
        loop {
            let wait = self.is_blind.then(|| Timespec::try_from(pause).expect("a few seconds"));
            let mut waiting = vec![PollFd::new(stop, PollFlags::IN)];
            waiting.extend(self.inotify.iter().map(|inotify| PollFd::new(inotify, PollFlags::IN)));
            let _ = poll(&mut waiting, wait.as_ref()); // an interrupted wait is only shorter
            if !waiting[0].revents().is_empty() {
                return;
            }
            let began = Instant::now();
            if self.is_blind {
                self.record(self.guard.disarm());
                pause = PAUSE.max(began.elapsed() * PAUSE_FACTOR);
            }
            for target in self.read_events() {
                self.scan(target);
            }
            self.record(self.guard.disarm_indirect());
        }
    }

    fn record(&mut self, made: Vec<DisarmedPlace>) {
        // Failed renames are tried again at the end.
        if self.made.add(made.into_iter().filter(|made| made.to.is_some())) >= MAX_DISARMED {
            self.command.kill();
        }
    }

    /// Watches a folder. Returns false if it is watched already.
    fn watch(&mut self, folder: PathBuf) -> bool {
        let Some(inotify) = self.inotify.as_ref().filter(|_| !self.watched.contains(&folder)) else {
            return false;
        };
        let what = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR | WatchFlags::DONT_FOLLOW;
        match inotify::add_watch(inotify, &folder, what) {
            Ok(number) => {
                self.watched.insert(folder.clone());
                // A folder that was moved keeps its watch number.
                if let Some(before) = self.folders.insert(number, folder) {
                    self.watched.remove(&before);
                }
                true
            }
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => false,
            Err(_) => {
                self.is_blind = true;
                false
            }
        }
    }

    /// Reads pending events.
    fn read_events(&mut self) -> HashSet<ScanTarget> {
        let mut seen = HashSet::new();
        let Some(inotify) = &self.inotify else { return seen };
        let mut buffer = [MaybeUninit::uninit(); 16 << 10];
        let mut reader = inotify::Reader::new(inotify, &mut buffer);
        for _ in 0..MAX_EVENTS {
            let Ok(event) = reader.next() else { break };
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                seen.insert(ScanTarget::Below(self.guard.workspace().to_owned()));
            } else if event.events().contains(ReadFlags::IGNORED) {
                let gone = self.folders.remove(&event.wd());
                gone.map(|folder| self.watched.remove(&folder));
            } else if let (Some(folder), Some(name)) = (self.folders.get(&event.wd()), event.file_name()) {
                let name = OsStr::from_bytes(name.to_bytes());
                if self.guard.concerns(folder, name) {
                    seen.insert(ScanTarget::In(folder.clone()));
                }
                if event.events().contains(ReadFlags::ISDIR) {
                    seen.insert(ScanTarget::Below(folder.join(name)));
                }
            }
        }
        seen
    }

    fn scan(&mut self, target: ScanTarget) {
        match target {
            ScanTarget::In(folder) => self.record(self.guard.disarm_in(&folder)),
            // Repeats until no unwatched folder is left: events in a folder before its watch are lost.
            ScanTarget::Below(folder) => loop {
                let (made, folders) = self.guard.disarm_below(&folder);
                self.record(made);
                let new = folders.into_iter().filter(|folder| self.watch(folder.clone())).count();
                if new == 0 {
                    return;
                }
            },
        }
    }
}

/// Part of the workspace to scan.
#[derive(PartialEq, Eq, Hash)]
enum ScanTarget {
    In(PathBuf),
    Below(PathBuf),
}

impl WorkspaceGuard {
    /// Returns true if a new name in a folder may create a protected place.
    fn concerns(&self, folder: &Path, name: &OsStr) -> bool {
        protected_name(name).is_some()
            || is_one_of(name, REPOSITORY_SIGNS)
            || (folder == self.workspace() && is_one_of(name, PROGRAM_NAMES))
    }
}
