//! The queue to the disk: bounded, and never waited for.
//!
//! One thread empties it. What does not fit, or what the disk refuses, becomes a [`Loss`]; a record
//! whose body does not fit is written without it.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::disk::Disk;
use crate::folder;
use crate::log;
use crate::loss::Loss;

/// Bytes that may wait for a disk that does nothing.
pub(crate) const LIMIT: usize = 16 << 20;
/// Bytes that may wait for a disk that is at work and only late.
const LIMIT_AT_WORK: usize = 64 << 20;
/// A disk that is at work is late when this many bytes wait for it.
const LATE: usize = 8 << 20;
/// A disk that has written nothing for so long is not at work.
const AT_WORK: Duration = Duration::from_millis(500);
/// Room on top of it for what is small and says what happened: heads and endings.
const HEADROOM: usize = 2 << 20;
const SMALL: usize = 16 << 10;

/// Whose bytes they are, for the list of losses.
#[derive(Clone, Debug)]
pub(crate) struct Owner {
    pub(crate) id: Option<String>,
    pub(crate) what: &'static str,
}

impl Owner {
    pub(crate) fn loss(&self, bytes: u64, reason: &str) -> Loss {
        Loss { request_id: self.id.clone(), what: self.what.to_owned(), bytes, reason: reason.to_owned() }
    }

    /// As in `r000007 request body: why`.
    pub(crate) fn describe(&self, why: &str) -> String {
        format!("{} {}: {why}", self.id.as_deref().unwrap_or("command"), self.what)
    }
}

#[derive(Debug)]
pub(crate) enum Op {
    /// A record for the log. Where the file that it `needs` did not get to the disk, it is written as
    /// one whose body is lost. `ends` where it is the last one of its exchange.
    Log { owner: Owner, record: Vec<u8>, needs: Option<String>, ends: bool },
    /// A whole file.
    File { owner: Owner, name: String, bytes: Vec<u8> },
    /// More of an unfinished file.
    Part { owner: Owner, name: String, bytes: Vec<u8> },
    /// An unfinished file is whole, with so many bytes.
    Finish { owner: Owner, name: String, to: String, bytes: u64 },
}

impl Op {
    fn owner(&self) -> &Owner {
        match self {
            Self::Log { owner, .. }
            | Self::File { owner, .. }
            | Self::Part { owner, .. }
            | Self::Finish { owner, .. } => owner,
        }
    }

    fn size(&self) -> usize {
        match self {
            Self::Log { record, .. } => record.len(),
            Self::File { bytes, .. } | Self::Part { bytes, .. } => bytes.len(),
            Self::Finish { .. } => 0,
        }
    }
}

#[derive(Debug, Default)]
struct State {
    ops: VecDeque<Op>,
    /// Bytes in `ops` and in what the disk thread is writing right now.
    waiting: usize,
    /// What the disk's thread has in its hands: whose, and how many bytes.
    writing: Option<(Owner, u64)>,
    /// When the disk last took something.
    took_at: Option<Instant>,
    /// Since when the disk has had something to do and has taken nothing.
    busy_since: Option<Instant>,
    /// The disk's thread waits to be woken.
    idle: bool,
    closed: bool,
    finished: bool,
    losses: Vec<Loss>,
    /// Files that are not there, or not whole, and where in `losses` they are named.
    broken: HashMap<String, usize>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    shared: Arc<(Mutex<State>, Condvar)>,
    /// The disk is at work and more waits for it than should.
    late: Arc<AtomicBool>,
    kept: Arc<Kept>,
}

/// How many exchanges have ended on the disk, in the order in which they ended.
#[derive(Debug, Default)]
struct Kept {
    count: AtomicU64,
    more: Notify,
}

impl Queue {
    /// Starts the thread that empties the queue.
    pub(crate) fn start(disk: Box<dyn Disk>) -> std::io::Result<Self> {
        let queue = Self::default();
        let emptying = queue.clone();
        std::thread::Builder::new().name("disk".into()).spawn(move || emptying.run(disk))?;
        Ok(queue)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.0.lock().expect("no thread panics while it holds the queue")
    }

    /// Puts `op` into the queue, or names what is lost. Never waits for the disk.
    pub(crate) fn push(&self, op: Op) {
        let mut state = self.state();
        let size = op.size();
        let limit = if state.is_at_work() { LIMIT_AT_WORK } else { LIMIT };
        let headroom = if size <= SMALL { HEADROOM } else { 0 };
        if state.waiting + size <= limit + headroom {
            state.waiting += size;
            self.late.store(state.waiting > LATE, Ordering::Relaxed);
            state.ops.push_back(op);
            if std::mem::take(&mut state.idle) {
                state.busy_since = Some(Instant::now());
                self.shared.1.notify_all();
            }
            return;
        }
        let reason = format!("the disk was too slow: {} MiB were waiting for it", limit >> 20);
        if let Some(bare) = state.lose(op, &reason) {
            state.waiting += bare.size();
            state.ops.push_back(bare);
        }
    }

    /// Whether the disk is at work and cannot keep up.
    pub(crate) fn is_late(&self) -> bool {
        self.late.load(Ordering::Relaxed) && self.state().is_at_work()
    }

    /// Waits until so many exchanges have ended on the disk, or could not be kept. Never waits for a
    /// disk that stands still, and for none longer than [`AT_WORK`].
    pub(crate) async fn has_kept(&self, count: u64) {
        let has_kept = || self.kept.count.load(Ordering::Acquire) >= count;
        if has_kept() || self.state().stands_still() {
            return;
        }
        let keeping = async {
            loop {
                let more = self.kept.more.notified();
                if has_kept() {
                    return;
                }
                more.await;
            }
        };
        let _ = tokio::time::timeout(AT_WORK, keeping).await; // late is late: the traffic goes on
    }

    /// Names a loss that happened before the queue.
    pub(crate) fn lose(&self, loss: Loss) {
        self.state().losses.push(loss);
    }

    /// What has been lost so far.
    pub(crate) fn losses(&self) -> Vec<Loss> {
        self.state().losses.clone()
    }

    /// Waits until everything is written, at most until `deadline`; what is still waiting then is
    /// lost by name.
    pub(crate) fn close(&self, deadline: Duration) {
        let until = Instant::now() + deadline;
        let mut state = self.state();
        state.closed = true;
        self.shared.1.notify_all();
        while !state.finished {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let reason = "the disk did not take it in time";
                if let Some((owner, bytes)) = state.writing.take() {
                    state.losses.push(owner.loss(bytes, reason));
                }
                for op in std::mem::take(&mut state.ops) {
                    state.lose(op, reason);
                }
                return;
            }
            state = self.shared.1.wait_timeout(state, left).expect("no thread panics with the queue").0;
        }
    }

    fn run(self, mut disk: Box<dyn Disk>) {
        let mut state = self.state();
        loop {
            while state.ops.is_empty() && !state.closed {
                state.idle = true;
                state.busy_since = None;
                state = self.shared.1.wait(state).expect("no thread panics while it holds the queue");
            }
            let Some(op) = state.ops.pop_front() else {
                state.finished = true;
                self.shared.1.notify_all();
                return;
            };
            let size = op.size();
            let ends = matches!(op, Op::Log { ends: true, .. });
            state.writing = Some((op.owner().clone(), size as u64));
            drop(state);
            self.write_one(op, disk.as_mut());
            if ends {
                self.kept.count.fetch_add(1, Ordering::Release);
                self.kept.more.notify_waiters();
            }
            state = self.state();
            state.writing = None;
            state.waiting -= size;
            let now = Instant::now();
            (state.took_at, state.busy_since) = (Some(now), Some(now));
            self.late.store(state.waiting > LATE, Ordering::Relaxed);
        }
    }

    fn write_one(&self, op: Op, disk: &mut dyn Disk) {
        let written = match &op {
            Op::Log { needs: Some(file), .. } if self.state().broken.contains_key(file) => {
                Err(std::io::Error::other("a part of it could not be kept"))
            }
            Op::Log { record, .. } => disk.append(folder::LOG, record),
            Op::File { name, bytes, .. } => disk.write(name, bytes),
            Op::Part { name, bytes, .. } if self.state().loses_more(name, bytes.len() as u64) => Ok(()),
            Op::Part { name, bytes, .. } => disk.append(name, bytes),
            Op::Finish { name, bytes, .. } if self.state().breaks(name, *bytes) => {
                // Its first part may be what was lost: then there is no file.
                let _ = disk.remove(name);
                Ok(())
            }
            Op::Finish { name, to, .. } => disk.rename(name, to),
        };
        let Err(error) = written else { return };
        let bare = self.state().lose(op, &error.to_string());
        if let Some(bare @ Op::Log { .. }) = bare
            && let Op::Log { record, .. } = &bare
            && let Err(error) = disk.append(folder::LOG, record)
        {
            self.state().lose(bare, &error.to_string());
        }
    }
}

impl State {
    fn is_at_work(&self) -> bool {
        self.took_at.is_some_and(|took| took.elapsed() < AT_WORK)
    }

    /// Whether the disk has something to do and does nothing.
    fn stands_still(&self) -> bool {
        self.busy_since.is_some_and(|since| since.elapsed() >= AT_WORK)
    }

    /// Whether a file is broken; if so, these bytes of it are lost too.
    fn loses_more(&mut self, name: &str, bytes: u64) -> bool {
        let Some(&named) = self.broken.get(name) else { return false };
        self.losses[named].bytes += bytes;
        true
    }

    /// Whether a file that is to be whole is broken; if so, all of its bytes are lost.
    fn breaks(&mut self, name: &str, bytes: u64) -> bool {
        let Some(&named) = self.broken.get(name) else { return false };
        self.losses[named].bytes = bytes;
        true
    }

    /// Names what is lost with `op`; gives back the record without its body, where that is left.
    fn lose(&mut self, op: Op, reason: &str) -> Option<Op> {
        let bytes = op.size() as u64;
        let (owner, bare) = match op {
            Op::Log { owner, record, needs: Some(file), ends } => {
                let bare = log::without_body(&record);
                let bare = bare.map(|record| Op::Log { owner: owner.clone(), record, needs: None, ends });
                // A file that is broken was named when it broke.
                if self.broken.contains_key(&file) {
                    return bare;
                }
                (owner, bare)
            }
            Op::Log { owner, .. } => (Owner { what: "record of it", ..owner }, None),
            Op::File { owner, name, .. } | Op::Part { owner, name, .. } | Op::Finish { owner, name, .. } => {
                // However many of its parts are lost, it is one thing that is lost.
                if self.loses_more(&name, bytes) {
                    return None;
                }
                self.broken.insert(name, self.losses.len());
                (owner, None)
            }
        };
        self.losses.push(owner.loss(bytes, reason));
        bare
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    struct Full;

    impl Disk for Full {
        fn append(&mut self, _: &str, _: &[u8]) -> io::Result<()> {
            Err(io::ErrorKind::StorageFull.into())
        }

        fn write(&mut self, _: &str, _: &[u8]) -> io::Result<()> {
            Err(io::ErrorKind::StorageFull.into())
        }

        fn rename(&mut self, _: &str, _: &str) -> io::Result<()> {
            Ok(())
        }

        fn remove(&mut self, _: &str) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn every_byte_of_an_output_that_breaks_is_counted_in_one_loss() {
        let queue = Queue::start(Box::new(Full)).expect("a thread");
        for _ in 0..3 {
            let owner = Owner { id: None, what: "stdout.txt" };
            queue.push(Op::Part { owner, name: "stdout.txt".into(), bytes: vec![0; 10] });
        }
        queue.close(Duration::from_secs(30));
        let lost: Vec<_> = queue.losses().into_iter().map(|loss| (loss.what, loss.bytes)).collect();
        assert_eq!(lost, [("stdout.txt".to_owned(), 30)]);
    }
}
