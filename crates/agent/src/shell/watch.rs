//! Looks at a workspace while a command runs, so that what it must not make keeps its name for a moment only.
//!
//! All folders are watched, new ones as they appear. Where the system has no more watches to give, everything is looked
//! through again and again. What is missed here is found when the command is over.

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

use super::{Cut, Disarmed, Guard, Made};
use crate::workspace::protected::{self, RUN_BY_GIT};

/// After how many protected places that it made a command is ended: it would win the race some day.
pub(crate) const TOO_MANY: usize = 20;
/// After how many events it is time to act on them.
const AT_ONCE: usize = 4_096;
/// What a folder has that git takes for a repository.
const PARTS: &[&str] = &["head", "objects", "refs", "commondir"];
/// How often everything is looked through where nothing can be watched, and how much longer that pause is than the look.
const PAUSE: Duration = Duration::from_millis(100);
const TIMES: u32 = 10;

/// A thread that looks until this is dropped.
pub(super) struct Watch {
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Begins to look; before the command does, nothing is missed. Nothing where the system has no means for it.
    pub(super) fn begin(guard: Arc<Guard>, command: Cut, made: Made) -> Option<Self> {
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).ok()?);
        let mut eye = Eye::new(guard, command, made);
        let told = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("watch".to_owned());
        let thread = thread.spawn(move || eye.look_until(&told)).ok();
        Some(Self { stop, thread })
    }

    /// Ends it, and waits until it has.
    pub(super) fn end(mut self) {
        let thread = self.thread.take();
        drop(self);
        let _ = thread.map(JoinHandle::join); // one that broke has seen what it has seen
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = rustix::io::write(&*self.stop, &1_u64.to_ne_bytes()); // it takes any number
    }
}

struct Eye {
    guard: Arc<Guard>,
    command: Cut,
    /// Nothing where the system has no more of them.
    inotify: Option<OwnedFd>,
    folders: HashMap<i32, PathBuf>,
    watched: HashSet<PathBuf>,
    /// Some folders are not watched.
    is_blind: bool,
    made: Made,
}

impl Eye {
    fn new(guard: Arc<Guard>, command: Cut, made: Made) -> Self {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok();
        let (is_blind, folders) = (inotify.is_none(), guard.folders.clone());
        let (map, watched) = (HashMap::new(), HashSet::new());
        let mut eye = Self { guard, command, inotify, folders: map, watched, is_blind, made };
        for folder in folders {
            eye.watch(folder);
        }
        eye
    }

    fn look_until(&mut self, stop: &OwnedFd) {
        let mut pause = PAUSE;
        loop {
            let wait = self.is_blind.then(|| Timespec::try_from(pause).expect("a few seconds"));
            let mut waiting = vec![PollFd::new(stop, PollFlags::IN)];
            waiting.extend(self.inotify.iter().map(|inotify| PollFd::new(inotify, PollFlags::IN)));
            let _ = poll(&mut waiting, wait.as_ref()); // an interrupted wait is a short one
            if !waiting[0].revents().is_empty() {
                return;
            }
            let began = Instant::now();
            if self.is_blind {
                self.found(self.guard.disarm());
                pause = PAUSE.max(began.elapsed() * TIMES);
            }
            for sight in self.sights() {
                self.look_at(sight);
            }
            self.found(self.guard.disarm_leads());
        }
    }

    fn found(&mut self, made: Vec<Disarmed>) {
        // What could not be changed is met again at the end.
        if self.made.add(made.into_iter().filter(|made| made.to.is_some())) >= TOO_MANY {
            self.command.cut();
        }
    }

    /// Watches a folder; false where it is watched already.
    fn watch(&mut self, folder: PathBuf) -> bool {
        let Some(inotify) = self.inotify.as_ref().filter(|_| !self.watched.contains(&folder)) else {
            return false;
        };
        let what = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR | WatchFlags::DONT_FOLLOW;
        match inotify::add_watch(inotify, &folder, what) {
            Ok(number) => {
                self.watched.insert(folder.clone());
                // A folder that was moved has the number that it had.
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

    /// What has happened since.
    fn sights(&mut self) -> HashSet<Sight> {
        let mut seen = HashSet::new();
        let Some(inotify) = &self.inotify else { return seen };
        let mut buffer = [MaybeUninit::uninit(); 16 << 10];
        let mut reader = inotify::Reader::new(inotify, &mut buffer);
        for _ in 0..AT_ONCE {
            let Ok(event) = reader.next() else { break };
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                seen.insert(Sight::Below(self.guard.workspace().to_owned()));
            } else if event.events().contains(ReadFlags::IGNORED) {
                let gone = self.folders.remove(&event.wd());
                gone.map(|folder| self.watched.remove(&folder));
            } else if let (Some(folder), Some(name)) = (self.folders.get(&event.wd()), event.file_name()) {
                let name = OsStr::from_bytes(name.to_bytes());
                if self.guard.concerns(folder, name) {
                    seen.insert(Sight::In(folder.clone()));
                }
                if event.events().contains(ReadFlags::ISDIR) {
                    seen.insert(Sight::Below(folder.join(name)));
                }
            }
        }
        seen
    }

    fn look_at(&mut self, sight: Sight) {
        match sight {
            Sight::In(folder) => self.found(self.guard.disarm_in(&folder)),
            // Until there is no folder in it that is not watched: what was made in one before that was not seen.
            Sight::Below(folder) => loop {
                let (made, folders) = self.guard.disarm_below(&folder);
                self.found(made);
                let new = folders.into_iter().filter(|folder| self.watch(folder.clone())).count();
                if new == 0 {
                    return;
                }
            },
        }
    }
}

/// Where to look.
#[derive(PartialEq, Eq, Hash)]
enum Sight {
    In(PathBuf),
    Below(PathBuf),
}

impl Guard {
    /// Whether a new name in a folder may make something protected.
    fn concerns(&self, folder: &Path, name: &OsStr) -> bool {
        protected::name(name).is_some()
            || protected::is_one_of(name, PARTS)
            || (folder == self.workspace() && protected::is_one_of(name, RUN_BY_GIT))
    }
}
