//! Recorder: receives wire events and writes a recording.

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

use crate::assembler::{AssembledRecording, Assembler};
use crate::disk::Disk;
use crate::disk_queue::DiskQueue;
use crate::dump::Surroundings;
use crate::event::{Moment, OutputStream, WireEvent};
use crate::event_queue::EventQueue;
use crate::file_names;
use crate::loss::Loss;
use crate::manifest::{Counts, MANIFEST_FORMAT, Manifest};
use crate::time::iso;

/// Maximum number of unsearched bytes. Beyond it, [`Recorder::wait_for_room`] makes the traffic wait for the
/// processor, never for the disk.
const UNSEARCHED: usize = 8 << 20;
/// Delay of each read while the disk is late.
const PACE: Duration = Duration::from_millis(2);
/// Size of the space that is reserved for the manifest in case the disk gets full.
const RESERVE: usize = 256 << 10;

/// Options of a new recording.
#[derive(Clone, Debug)]
pub struct RecordingOptions {
    /// Folder of the recording.
    pub dir: PathBuf,
    /// Start time.
    pub started_at: SystemTime,
    /// First manifest: command, listen addresses, upstreams.
    pub manifest: Manifest,
}

/// Error when creating a recording.
#[derive(Debug, Error)]
pub enum CreateError {
    /// The folder is not empty.
    #[error("the folder `{}` is not empty", dir.display())]
    NotEmpty {
        /// Folder.
        dir: PathBuf,
    },
    /// The folder cannot be created or written.
    #[error("cannot write a recording to `{}`", dir.display())]
    Io {
        /// Folder.
        dir: PathBuf,
        /// Cause.
        #[source]
        source: std::io::Error,
    },
}

/// Writes one recording. Clones share it.
#[derive(Clone, Debug)]
pub struct Recorder {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    clock: Instant,
    /// Next sequence number. Numbers of log records are taken under the queue's lock, so that the log is in
    /// order.
    next_seq: AtomicU64,
    events: Arc<EventQueue>,
    unsearched: Arc<SearchBacklog>,
    queue: DiskQueue,
    /// True if open exchanges are cut by the recorder, not by the harness.
    shutting_down: AtomicBool,
    assembly: Mutex<Option<JoinHandle<AssembledRecording>>>,
}

#[derive(Debug, Default)]
struct SearchBacklog {
    bytes: AtomicUsize,
    less: Notify,
}

/// Result of a finished recorder, to be sealed.
#[derive(Debug)]
pub struct FinishedRecording {
    /// Redactor with everything that it learned.
    pub redactor: Redactor,
    /// Numbers of exchanges.
    pub counts: Counts,
    /// List of everything that could not be kept.
    pub losses: Vec<Loss>,
    /// Bodies, files, and parts of them that could not be searched for secrets, with reasons.
    pub unsearched: Vec<String>,
    /// True if the redactor learned a secret after something had been written.
    pub learned_late: bool,
}

impl Recorder {
    /// Creates the folder and starts recording. `make_disk` gets the folder. The text in `options` is redacted.
    pub fn create(
        options: &mut RecordingOptions,
        mut redactor: Redactor,
        make_disk: impl FnOnce(&Path) -> Box<dyn Disk>,
    ) -> Result<Self, CreateError> {
        options.manifest.redact(&mut redactor);
        let failed = |source| CreateError::Io { dir: options.dir.clone(), source };
        make_folder(options).map_err(failed).and_then(|empty| {
            if empty { Ok(()) } else { Err(CreateError::NotEmpty { dir: options.dir.clone() }) }
        })?;
        let queue = DiskQueue::start(make_disk(&options.dir)).map_err(failed)?;
        let event_queue = Arc::new(EventQueue::default());
        let unsearched = Arc::new(SearchBacklog::default());
        let surroundings = Surroundings {
            started_at: options.started_at,
            workspace: options.manifest.command.as_ref().map(|command| command.cwd.clone()),
            session_header: options.manifest.session_header.clone(),
        };
        let mut assembly = Assembler::new(redactor, queue.clone(), surroundings);
        let (searched, coming) = (unsearched.clone(), event_queue.clone());
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
                events: event_queue,
                unsearched,
                queue,
                shutting_down: AtomicBool::new(false),
                assembly,
            }),
        })
    }

    /// Records output of the command.
    pub fn record_output(&self, output: OutputStream, bytes: Vec<u8>) {
        self.send(WireEvent::Output { output, bytes });
    }

    /// Records a loss that has nothing to do with the disk.
    pub fn record_loss(&self, what: &str, reason: &str) {
        self.shared.queue.lose(Loss {
            request_id: None,
            what: what.to_owned(),
            bytes: 0,
            reason: reason.to_owned(),
        });
    }

    /// Marks exchanges that are dropped from now on as cut by the recorder.
    pub fn begin_shutdown(&self) {
        self.shared.shutting_down.store(true, Ordering::Relaxed);
    }

    /// Waits like [`Recorder::wait_for_room`], but blocks the thread.
    pub fn block_until_room(&self) {
        while !self.shared.unsearched.has_room() {
            std::thread::sleep(PACE);
        }
    }

    /// Returns the losses so far.
    pub fn losses(&self) -> Vec<Loss> {
        self.shared.queue.losses()
    }

    /// Waits until there is room for more data. Returns at once unless the processor is behind.
    ///
    /// While the disk works but is late, it waits two milliseconds longer. Otherwise the writing thread could starve on
    /// a busy machine and bytes would be lost. It does not wait for a stuck disk.
    pub async fn wait_for_room(&self) {
        if self.shared.queue.is_late() {
            tokio::time::sleep(PACE).await;
        }
        while !self.shared.unsearched.has_room() {
            let less = self.shared.unsearched.less.notified();
            if self.shared.unsearched.has_room() {
                return; // the notification came before `notified`
            }
            less.await;
        }
    }

    /// Waits until the first `ended` exchanges to end are on the disk; see [`ExchangeTap::wait_until_stored`](crate::ExchangeTap::wait_until_stored).
    pub(crate) async fn wait_until_stored(&self, ended: u64) {
        self.shared.queue.wait_until_stored(ended).await;
    }

    /// Finishes within `deadline`: searches and writes everything. Returns `None` if it was finished before.
    pub fn finish(&self, deadline: Duration) -> Option<FinishedRecording> {
        self.shared.events.close();
        let thread = self.shared.assembly.lock().expect("lock is not poisoned").take()?;
        let AssembledRecording { redactor, counts, unsearched, learned_late } = thread.join().ok()?;
        self.shared.queue.close(deadline);
        Some(FinishedRecording {
            redactor,
            counts,
            losses: self.shared.queue.losses(),
            unsearched,
            learned_late,
        })
    }

    /// Queues the first event of an exchange, which `make` builds from the exchange's number and the time.
    pub(crate) fn send_first(&self, make: impl FnOnce(u64, Moment) -> WireEvent) -> u64 {
        self.shared.events.begin(|n| make(n, self.moment()))
    }

    /// Queues an event without a log record.
    pub(crate) fn send(&self, event: WireEvent) {
        self.shared.unsearched.grow(event.size());
        self.shared.events.put(|| event);
    }

    /// Queues an event with a log record. Returns the number of exchanges that have ended.
    pub(crate) fn send_record(&self, make: impl FnOnce(Moment) -> WireEvent) -> u64 {
        self.shared.events.put(|| {
            let event = make(self.moment());
            self.shared.unsearched.grow(event.size());
            event
        })
    }

    /// Returns the next sequence number and the time.
    pub(crate) fn moment(&self) -> Moment {
        let us = self.shared.clock.elapsed().as_micros() as u64;
        Moment { seq: self.shared.next_seq.fetch_add(1, Ordering::Relaxed), us }
    }

    /// Returns whether open exchanges are cut by the recorder.
    pub(crate) fn is_shutting_down(&self) -> bool {
        self.shared.shutting_down.load(Ordering::Relaxed)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.events.close(); // no other handle exists that could add events
    }
}

impl SearchBacklog {
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

/// Creates the folder with a first manifest. Returns `false` if the folder is not empty.
fn make_folder(options: &RecordingOptions) -> std::io::Result<bool> {
    let dir = &options.dir;
    std::fs::create_dir_all(dir)?;
    if std::fs::read_dir(dir)?.next().is_some() {
        return Ok(false);
    }
    // The conversation is private. Some disks do not support permissions, so an error is ignored.
    let _ = std::fs::set_permissions(dir, Permissions::from_mode(0o700));
    std::fs::create_dir(dir.join(file_names::DUMPS))?;
    std::fs::create_dir(dir.join(file_names::BLOBS))?;
    let manifest = Manifest {
        format: MANIFEST_FORMAT,
        offshoot: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: iso(options.started_at),
        unsealed_because: Some("the recorder did not finish it".to_owned()),
        ..options.manifest.clone()
    };
    std::fs::write(dir.join(file_names::MANIFEST), manifest.to_json())?;
    std::fs::write(dir.join(file_names::RESERVE), vec![0; RESERVE])?;
    Ok(true)
}
