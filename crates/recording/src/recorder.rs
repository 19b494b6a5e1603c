//! Writing a recording: whoever stands on the wire hands over what happens.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use redact::Redactor;
use thiserror::Error;
use tokio::sync::Notify;

use crate::assembly::{Assembled, Assembly, Event, Moment, RawHeader};
use crate::disk::Disk;
use crate::dump::Surroundings;
use crate::folder;
use crate::line::Line;
use crate::loss::Loss;
use crate::manifest::{Counts, MANIFEST_FORMAT, Manifest};
use crate::queue::Queue;
use crate::tap::ExchangeTap;
use crate::time::iso;

/// Bytes that may wait to be searched for secrets before [`ExchangeTap::room`] makes the wire wait
/// for the processor (never for the disk).
const UNSEARCHED: usize = 8 << 20;
/// How much longer a read takes while the disk is late.
const PACE: Duration = Duration::from_millis(2);
/// Kept free for the manifest of a recording whose disk is full.
const RESERVE: usize = 256 << 10;

/// What a new recording is told about itself.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The recording's own folder.
    pub dir: PathBuf,
    /// When it begins.
    pub started_at: SystemTime,
    /// The first words of the manifest: command, listen addresses, upstreams.
    pub manifest: Manifest,
}

/// A recording could not be begun.
#[derive(Debug, Error)]
pub enum CreateError {
    /// There is something in the folder.
    #[error("the folder `{}` is not empty", dir.display())]
    NotEmpty {
        /// The folder.
        dir: PathBuf,
    },
    /// The folder cannot be made or written.
    #[error("cannot write a recording to `{}`", dir.display())]
    Io {
        /// The folder.
        dir: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// The command's two outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Output {
    /// The file that keeps it.
    pub fn file(self) -> &'static str {
        match self {
            Self::Stdout => "stdout.txt",
            Self::Stderr => "stderr.txt",
        }
    }
}

/// Writes one recording. Clones write the same one.
#[derive(Clone, Debug)]
pub struct Recorder {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    clock: Instant,
    /// Numbers for what happens. Those of the log's records are taken while the line is held, so that
    /// the log is in order.
    next_seq: AtomicU64,
    line: Arc<Line>,
    unsearched: Arc<Unsearched>,
    queue: Queue,
    /// What is in flight is being cut, and not by the harness.
    cutting: AtomicBool,
    assembly: Mutex<Option<JoinHandle<Assembled>>>,
}

#[derive(Debug, Default)]
struct Unsearched {
    bytes: AtomicUsize,
    less: Notify,
}

/// What a finished recorder leaves for the sealing.
#[derive(Debug)]
pub struct Finished {
    /// With everything it learned.
    pub redactor: Redactor,
    /// How much was recorded.
    pub counts: Counts,
    /// What could not be kept.
    pub losses: Vec<Loss>,
    /// Bodies that could not be unpacked to be searched, and why.
    pub unsearched: Vec<String>,
    /// Something was learned after something had been written.
    pub learned_late: bool,
}

impl Recorder {
    /// Makes the folder and begins; `make_disk` is told the folder. What `settings` says is redacted.
    pub fn create(
        settings: &mut Settings,
        mut redactor: Redactor,
        make_disk: impl FnOnce(&Path) -> Box<dyn Disk>,
    ) -> Result<Self, CreateError> {
        settings.manifest.redact(&mut redactor);
        let failed = |source| CreateError::Io { dir: settings.dir.clone(), source };
        make_folder(settings).map_err(failed).and_then(|empty| {
            if empty { Ok(()) } else { Err(CreateError::NotEmpty { dir: settings.dir.clone() }) }
        })?;
        let queue = Queue::start(make_disk(&settings.dir)).map_err(failed)?;
        let line = Arc::new(Line::default());
        let unsearched = Arc::new(Unsearched::default());
        let surroundings = Surroundings {
            started_at: settings.started_at,
            workspace: settings.manifest.command.as_ref().map(|command| command.cwd.clone()),
        };
        let mut assembly = Assembly::new(redactor, queue.clone(), surroundings);
        let (searched, coming) = (unsearched.clone(), line.clone());
        let thread = std::thread::Builder::new().name("redact".into()).spawn(move || {
            while let Some(events) = coming.take() {
                for event in events {
                    let size = event.size();
                    assembly.take(event);
                    searched.shrink(size);
                }
            }
            assembly.finish()
        });
        let assembly = Mutex::new(Some(thread.map_err(failed)?));
        Ok(Self {
            shared: Arc::new(Shared {
                clock: Instant::now(),
                next_seq: AtomicU64::new(1),
                line,
                unsearched,
                queue,
                cutting: AtomicBool::new(false),
                assembly,
            }),
        })
    }

    /// A request's head arrived. `url` is where it goes.
    pub fn arrived(&self, method: &str, url: &str, headers: Vec<RawHeader>) -> ExchangeTap {
        let (method, url) = (method.to_owned(), url.to_owned());
        let arrived = |n| Event::Arrived { n, at: self.moment(), method, url, headers };
        ExchangeTap::new(self.clone(), self.shared.line.begin(arrived))
    }

    /// The command printed something.
    pub fn printed(&self, output: Output, bytes: Vec<u8>) {
        self.hand_over(Event::Printed { output, bytes });
    }

    /// Something of the exchange at hand will not be kept, whatever the disk does.
    pub fn lose(&self, what: &str, reason: &str) {
        self.shared.queue.lose(Loss {
            request_id: None,
            what: what.to_owned(),
            bytes: 0,
            reason: reason.to_owned(),
        });
    }

    /// From now on an exchange that is dropped was cut by us: its record says so.
    pub fn cut(&self) {
        self.shared.cutting.store(true, Ordering::Relaxed);
    }

    /// Like [`Recorder::room`], for a thread of its own.
    pub fn wait_for_room(&self) {
        while !self.shared.unsearched.has_room() {
            std::thread::sleep(PACE);
        }
    }

    /// What could not be kept so far.
    pub fn losses(&self) -> Vec<Loss> {
        self.shared.queue.losses()
    }

    /// Waits until there is room for more; ready at once unless the processor is behind.
    ///
    /// While the disk is at work but late, it takes [`PACE`] longer: on a machine where everybody wants
    /// the processor, the thread that writes would otherwise starve, and bytes be lost. A disk that
    /// does nothing is not waited for.
    pub async fn room(&self) {
        if self.shared.queue.is_late() {
            tokio::time::sleep(PACE).await;
        }
        while !self.shared.unsearched.has_room() {
            let less = self.shared.unsearched.less.notified();
            if self.shared.unsearched.has_room() {
                return; // it came to be before we listened
            }
            less.await;
        }
    }

    /// Waits until the exchanges that ended first, so many of them, are on the disk; see
    /// [`ExchangeTap::is_kept`].
    pub(crate) async fn has_kept(&self, ended: u64) {
        self.shared.queue.has_kept(ended).await;
    }

    /// Ends the recording's writing: what happened is searched and written, within `deadline`.
    /// `None` when it was finished before.
    pub fn finish(&self, deadline: Duration) -> Option<Finished> {
        self.shared.line.close();
        let thread = self.shared.assembly.lock().expect("nobody panics with it").take()?;
        let Assembled { redactor, counts, unsearched, learned_late } = thread.join().ok()?;
        self.shared.queue.close(deadline);
        Some(Finished { redactor, counts, losses: self.shared.queue.losses(), unsearched, learned_late })
    }

    /// Hands over something that has no place of its own in the log.
    pub(crate) fn hand_over(&self, event: Event) {
        self.shared.unsearched.grow(event.size());
        self.shared.line.put(|| event);
    }

    /// Hands over something that has its own place in the log; how many exchanges have ended with it.
    pub(crate) fn happened(&self, make: impl FnOnce(Moment) -> Event) -> u64 {
        self.shared.line.put(|| {
            let event = make(self.moment());
            self.shared.unsearched.grow(event.size());
            event
        })
    }

    /// The next place in the one order, and the time.
    pub(crate) fn moment(&self) -> Moment {
        let us = self.shared.clock.elapsed().as_micros() as u64;
        Moment { seq: self.shared.next_seq.fetch_add(1, Ordering::Relaxed), us }
    }

    /// What is in flight is being cut, and not by the harness.
    pub(crate) fn is_cutting(&self) -> bool {
        self.shared.cutting.load(Ordering::Relaxed)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.line.close(); // nobody is left who could hand over more
    }
}

impl Unsearched {
    fn grow(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::AcqRel);
    }

    fn shrink(&self, bytes: usize) {
        if bytes > 0 && self.bytes.fetch_sub(bytes, Ordering::AcqRel) >= UNSEARCHED {
            self.less.notify_waiters();
        }
    }

    fn has_room(&self) -> bool {
        self.bytes.load(Ordering::Acquire) < UNSEARCHED
    }
}

/// Makes the folder with the first manifest; `false` when there is something in it already.
fn make_folder(settings: &Settings) -> std::io::Result<bool> {
    let dir = &settings.dir;
    std::fs::create_dir_all(dir)?;
    if std::fs::read_dir(dir)?.next().is_some() {
        return Ok(false);
    }
    // What people and models said is nobody else's business. Not every disk can keep that to itself.
    let _ = std::fs::set_permissions(dir, Permissions::from_mode(0o700));
    std::fs::create_dir(dir.join(folder::DUMPS))?;
    std::fs::create_dir(dir.join(folder::BLOBS))?;
    let manifest = Manifest {
        format: MANIFEST_FORMAT,
        offshoot: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: iso(settings.started_at),
        unsealed_because: Some("the recorder has not ended it".to_owned()),
        ..settings.manifest.clone()
    };
    std::fs::write(dir.join(folder::MANIFEST), manifest.to_json())?;
    std::fs::write(dir.join(folder::RESERVE), vec![0; RESERVE])?;
    Ok(true)
}
