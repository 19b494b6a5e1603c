//! Bounded queue to the disk. The recorder never waits for it.
//!
//! One thread empties the queue. Whatever does not fit or cannot be written becomes a [`Loss`]. A record whose
//! body does not fit is written without it.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use session::RequestId;

use crate::disk::Disk;
use crate::file_names;
use crate::log;
use crate::loss::Loss;
use crate::stored_count::StoredCount;
use crate::wakeup::{ThreadState, WakeUp, WorkQueue};

/// Maximum size of the queue while the disk is stuck.
pub(crate) const LIMIT: usize = 16 << 20;
/// Maximum size of the queue while the disk is working but slow.
const LIMIT_AT_WORK: usize = 64 << 20;
/// Size of the queue from which a working disk counts as late.
const LATE: usize = 8 << 20;
/// Time without a write after which the disk counts as stuck.
const AT_WORK: Duration = Duration::from_millis(500);
/// Additional space for small records, which say what happened: heads and ends.
const HEADROOM: usize = 2 << 20;
const SMALL: usize = 16 << 10;
/// Approximate size of one write to the log.
const GROUP: usize = 1 << 20;

/// Source of queued bytes, for the list of losses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DataSource {
    /// Number of the exchange.
    pub(crate) n: Option<u64>,
    pub(crate) what: &'static str,
}

impl DataSource {
    /// Returns the exchange's id, such as `r000007`.
    pub(crate) fn id(self) -> Option<String> {
        self.n.map(|n| RequestId::nth(n).to_string())
    }

    pub(crate) fn loss(self, bytes: u64, reason: &str) -> Loss {
        Loss { request_id: self.id(), what: self.what.to_owned(), bytes, reason: reason.to_owned() }
    }

    /// Formats a reason, as in `r000007 request body: reason`.
    pub(crate) fn describe(self, why: &str) -> String {
        format!("{} {}: {why}", self.id().as_deref().unwrap_or("command"), self.what)
    }
}

#[derive(Debug)]
pub(crate) enum DiskOp {
    /// Record for the log. If the file in `needs` is not on the disk, the record is written with a lost body.
    /// `ends` marks the last record of an exchange.
    Log { owner: DataSource, record: Vec<u8>, needs: Option<String>, ends: bool },
    /// Complete file.
    File { owner: DataSource, name: String, bytes: Vec<u8> },
    /// Next part of an unfinished file.
    Part { owner: DataSource, name: String, bytes: Vec<u8> },
    /// Marks an unfinished file of `bytes` bytes as complete.
    Finish { owner: DataSource, name: String, to: String, bytes: u64 },
}

impl DiskOp {
    fn size(&self) -> usize {
        match self {
            Self::Log { record, .. } => record.len(),
            Self::File { bytes, .. } | Self::Part { bytes, .. } => bytes.len(),
            Self::Finish { .. } => 0,
        }
    }

    /// Returns the bytes of a record.
    fn record(&self) -> Option<&[u8]> {
        match self {
            Self::Log { record, .. } => Some(record),
            _ => None,
        }
    }

    /// Returns whether this is the last record of an exchange.
    fn ends(&self) -> bool {
        matches!(self, Self::Log { ends: true, .. })
    }

    /// Returns whether the disk thread should wake up: an exchange's end is waited for, and parts of a file
    /// have more parts to follow. Heads and requests can wait a moment.
    fn is_urgent(&self) -> bool {
        self.ends() || matches!(self, Self::Part { .. } | Self::Finish { .. })
    }
}

#[derive(Debug, Default)]
struct State {
    /// Waiting operations. Those being written are at the front, in the order of writing.
    ops: VecDeque<Arc<DiskOp>>,
    /// Bytes in `ops`.
    waiting: usize,
    /// Time of the last successful write.
    took_at: Option<Instant>,
    /// Start of the current period without a write although there is work.
    busy_since: Option<Instant>,
    rest: ThreadState,
    closed: bool,
    finished: bool,
    losses: Vec<Loss>,
    /// Missing or incomplete files, with their index in `losses`.
    broken: HashMap<String, usize>,
}

impl WorkQueue for State {
    fn has_work(&self) -> bool {
        self.closed || !self.ops.is_empty()
    }

    fn rest(&mut self) -> &mut ThreadState {
        &mut self.rest
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct DiskQueue {
    shared: Arc<Shared>,
    /// True if the disk works but more than [`LATE`] bytes wait.
    late: Arc<AtomicBool>,
    kept: Arc<StoredCount>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Announces new operations.
    wakeup: WakeUp,
    /// Announces that everything is written.
    finished: Condvar,
}

impl DiskQueue {
    /// Starts the thread that empties the queue.
    pub(crate) fn start(disk: Box<dyn Disk>) -> std::io::Result<Self> {
        let queue = Self::default();
        let emptying = queue.clone();
        std::thread::Builder::new().name("disk".into()).spawn(move || emptying.run(disk))?;
        Ok(queue)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().expect("lock is not poisoned")
    }

    /// Queues `ops`, or counts them as lost. Never waits for the disk.
    pub(crate) fn push(&self, ops: impl IntoIterator<Item = DiskOp>) {
        let mut state = self.state();
        let (mut urgent, mut given_up) = (false, 0);
        for op in ops {
            urgent |= op.is_urgent();
            let ends = op.ends();
            given_up += u64::from(!state.enqueue(op) && ends);
        }
        // An end that is lost counts, too, so that no task waits for it.
        self.kept.add(given_up);
        self.late.store(state.waiting > LATE, Ordering::Relaxed);
        self.shared.wakeup.ring(&mut state.rest, urgent);
    }

    /// Returns whether the disk works but cannot keep up.
    pub(crate) fn is_late(&self) -> bool {
        self.late.load(Ordering::Relaxed) && self.state().is_at_work()
    }

    /// Waits until `count` exchanges have ended on the disk or were lost. Does not wait for a stuck disk, and
    /// at most [`AT_WORK`] for any disk.
    pub(crate) async fn wait_until_stored(&self, count: u64) {
        if self.state().is_stalled() {
            return;
        }
        let Some(turn) = self.kept.turn(count) else { return };
        let _ = tokio::time::timeout(AT_WORK, turn).await; // after the timeout, the traffic continues
    }

    /// Counts a loss that happened before the queue.
    pub(crate) fn lose(&self, loss: Loss) {
        self.state().losses.push(loss);
    }

    /// Returns the losses so far.
    pub(crate) fn losses(&self) -> Vec<Loss> {
        self.state().losses.clone()
    }

    /// Waits until everything is written or `deadline` has passed. Whatever is still queued then becomes a
    /// loss.
    pub(crate) fn close(&self, deadline: Duration) {
        let mut state = self.state();
        state.closed = true;
        self.shared.wakeup.ring(&mut state.rest, true);
        let waited = self.shared.finished.wait_timeout_while(state, deadline, |state| !state.finished);
        let mut state = waited.expect("lock is not poisoned").0;
        for op in std::mem::take(&mut state.ops) {
            state.lose(&op, "the disk did not take it in time");
        }
    }

    fn run(self, mut disk: Box<dyn Disk>) {
        loop {
            let mut state = self.state();
            if state.ops.is_empty() {
                state.busy_since = None;
                state = self.shared.wakeup.wait(state);
            }
            state.busy_since.get_or_insert_with(Instant::now);
            let group = state.next_group();
            drop(state);
            if group.is_empty() {
                break;
            }
            self.write(&group, disk.as_mut());
        }
        self.state().finished = true;
        self.shared.finished.notify_all();
    }

    /// Writes a group: first its files, then the records that depend on them, in one append.
    fn write(&self, group: &[Arc<DiskOp>], disk: &mut dyn Disk) {
        let (files, records) = group.split_at(group.partition_point(|op| op.record().is_none()));
        for file in files {
            self.write_one(file, disk);
            if !self.mark_written(1) {
                return; // closed after the deadline, and everything queued is lost
            }
        }
        self.write_records(records, disk);
        self.kept.add(records.iter().filter(|record| record.ends()).count() as u64);
        self.mark_written(records.len());
    }

    /// Removes the first `count` operations, which are written or lost. Returns whether operations remain.
    fn mark_written(&self, count: usize) -> bool {
        let mut state = self.state();
        let count = count.min(state.ops.len());
        state.waiting -= state.ops.drain(..count).map(|op| op.size()).sum::<usize>();
        let now = Instant::now();
        (state.took_at, state.busy_since) = (Some(now), Some(now));
        self.late.store(state.waiting > LATE, Ordering::Relaxed);
        !state.ops.is_empty()
    }

    fn write_records(&self, records: &[Arc<DiskOp>], disk: &mut dyn Disk) {
        if records.len() > 1 && self.state().broken.is_empty() {
            let joined: Vec<&[u8]> = records.iter().filter_map(|record| record.record()).collect();
            if disk.append(file_names::LOG, &joined.concat()).is_ok() {
                return;
            }
        }
        // Written one by one: a record may have lost its file, and some may still fit on the disk.
        records.iter().for_each(|record| self.write_one(record, disk));
    }

    fn write_one(&self, op: &DiskOp, disk: &mut dyn Disk) {
        let written = match op {
            DiskOp::Log { needs: Some(file), .. } if self.state().broken.contains_key(file) => {
                Err(std::io::Error::other("a part of it could not be kept"))
            }
            DiskOp::Log { record, .. } => disk.append(file_names::LOG, record),
            DiskOp::File { name, bytes, .. } => disk.write(name, bytes),
            DiskOp::Part { name, bytes, .. } if self.state().add_loss(name, bytes.len() as u64) => Ok(()),
            DiskOp::Part { name, bytes, .. } => disk.append(name, bytes),
            DiskOp::Finish { name, bytes, .. } if self.state().breaks(name, *bytes) => {
                // If its first part was lost, there is no file to remove.
                let _ = disk.remove(name);
                Ok(())
            }
            DiskOp::Finish { name, to, .. } => disk.rename(name, to),
        };
        let Err(error) = written else { return };
        let bare = self.state().lose(op, &error.to_string());
        if let Some(bare @ DiskOp::Log { .. }) = bare
            && let DiskOp::Log { record, .. } = &bare
            && let Err(error) = disk.append(file_names::LOG, record)
        {
            self.state().lose(&bare, &error.to_string());
        }
    }
}

impl State {
    /// Queues an operation, with or without its body. Returns whether it was queued.
    fn enqueue(&mut self, op: DiskOp) -> bool {
        let limit = if self.is_at_work() { LIMIT_AT_WORK } else { LIMIT };
        let mut next = Some(op);
        // Without its body, an operation may still fit.
        while let Some(op) = next.take() {
            let size = op.size();
            let headroom = if size <= SMALL { HEADROOM } else { 0 };
            if self.waiting + size <= limit + headroom {
                self.waiting += size;
                self.ops.push_back(Arc::new(op));
                return true;
            }
            let reason = format!("the disk was too slow: {} MiB were waiting for it", limit >> 20);
            next = self.lose(&op, &reason);
        }
        false
    }

    /// Returns the operations to write next, files before records. They stay at the front until they are
    /// written.
    fn next_group(&mut self) -> Vec<Arc<DiskOp>> {
        let mut bytes = 0;
        let fits = |op: &&Arc<DiskOp>| {
            let fits = bytes < GROUP;
            bytes += op.size();
            fits
        };
        let length = self.ops.iter().take_while(fits).count();
        let group = &mut self.ops.make_contiguous()[..length];
        group.sort_by_key(|op| op.record().is_some());
        group.to_vec()
    }

    fn is_at_work(&self) -> bool {
        self.took_at.is_some_and(|took| took.elapsed() < AT_WORK)
    }

    /// Returns whether the disk has work and does nothing.
    fn is_stalled(&self) -> bool {
        self.busy_since.is_some_and(|since| since.elapsed() >= AT_WORK)
    }

    /// Counts more lost bytes of a broken file. Returns whether the file is broken.
    fn add_loss(&mut self, name: &str, bytes: u64) -> bool {
        let Some(&named) = self.broken.get(name) else { return false };
        self.losses[named].bytes += bytes;
        true
    }

    /// Counts all bytes of a file as lost if it is broken. Returns whether it is.
    fn breaks(&mut self, name: &str, bytes: u64) -> bool {
        let Some(&named) = self.broken.get(name) else { return false };
        self.losses[named].bytes = bytes;
        true
    }

    /// Counts the loss of `op`. Returns its record without the body, if possible.
    fn lose(&mut self, op: &DiskOp, reason: &str) -> Option<DiskOp> {
        let bytes = op.size() as u64;
        let (owner, bare) = match op {
            DiskOp::Log { owner, record, needs: Some(file), ends } => {
                let bare = log::without_body(record);
                let bare = bare.map(|record| DiskOp::Log { owner: *owner, record, needs: None, ends: *ends });
                // A broken file is already in the list.
                if self.broken.contains_key(file) {
                    return bare;
                }
                (*owner, bare)
            }
            DiskOp::Log { owner, .. } => (DataSource { what: "record of it", ..*owner }, None),
            DiskOp::File { owner, name, .. }
            | DiskOp::Part { owner, name, .. }
            | DiskOp::Finish { owner, name, .. } => {
                // Lost parts of one file are one loss.
                if self.add_loss(name, bytes) {
                    return None;
                }
                self.broken.insert(name.clone(), self.losses.len());
                (*owner, None)
            }
        };
        self.losses.push(owner.loss(bytes, reason));
        bare
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::mpsc::{self, Receiver, Sender};

    use expect_test::{Expect, expect};

    use super::*;

    /// Disk that reports each call, waits for permission to do it, and has limited space.
    struct ControlledDisk {
        calls: Sender<String>,
        may: Receiver<()>,
        room: usize,
    }

    impl ControlledDisk {
        fn call(&mut self, call: &str, name: &str, bytes: &[u8]) -> io::Result<()> {
            let left = self.room.checked_sub(bytes.len());
            self.room = left.unwrap_or(self.room);
            let end = if left.is_some() { "" } else { ": full" };
            let bytes = String::from_utf8_lossy(bytes);
            self.calls.send(format!("{call} {name} {bytes}{end}")).expect("somebody listens");
            self.may.recv().expect("somebody lets it go on");
            left.map(drop).ok_or(io::ErrorKind::StorageFull.into())
        }
    }

    impl Disk for ControlledDisk {
        fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
            self.call("append", name, bytes)
        }

        fn write(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
            self.call("write", name, bytes)
        }

        fn rename(&mut self, _: &str, to: &str) -> io::Result<()> {
            self.call("rename", to, b"")
        }

        fn remove(&mut self, name: &str) -> io::Result<()> {
            self.call("remove", name, b"")
        }
    }

    /// Returns a queue to such a disk, the reports of the disk, and the sender of permissions.
    fn queue(room: usize) -> (DiskQueue, Receiver<String>, Sender<()>) {
        let (calls, told) = mpsc::channel();
        let (go_on, may) = mpsc::channel();
        (DiskQueue::start(Box::new(ControlledDisk { calls, may, room })).expect("a thread"), told, go_on)
    }

    fn head(n: u64) -> DiskOp {
        let owner = DataSource { n: Some(n), what: "request head" };
        DiskOp::Log { owner, record: format!("head {n};").into(), needs: None, ends: false }
    }

    fn file(n: u64) -> DiskOp {
        let owner = DataSource { n: Some(n), what: "request body" };
        DiskOp::File { owner, name: format!("file {n}"), bytes: "-".repeat(8).into() }
    }

    fn record(n: u64) -> DiskOp {
        let owner = DataSource { n: Some(n), what: "request body" };
        DiskOp::Log {
            owner,
            record: format!("record {n};").into(),
            needs: Some(format!("file {n}")),
            ends: true,
        }
    }

    /// Checks the calls and losses for operations that arrived while the disk was busy.
    fn check(room: usize, ops: impl IntoIterator<Item = DiskOp>, expected: Expect) {
        let (queue, told, go_on) = queue(room);
        queue.push([DiskOp::Part {
            owner: DataSource { n: None, what: "out" },
            name: "out".into(),
            bytes: vec![],
        }]);
        told.recv().expect("the disk has it in its hands");
        queue.push(ops);
        (0..20).for_each(|_| go_on.send(()).expect("the disk listens"));
        queue.close(Duration::from_secs(30));
        let lost = queue.losses().into_iter().map(|loss| format!("lost {loss}"));
        let said: Vec<String> = told.try_iter().chain(lost).collect();
        expected.assert_eq(&said.join("\n"));
    }

    #[test]
    fn records_go_into_the_log_together_behind_their_files() {
        check(
            usize::MAX,
            [head(1), head(2), file(1), record(1), head(3), file(2), record(2)],
            expect![[r#"
                write file 1 --------
                write file 2 --------
                append exchanges.log head 1;head 2;record 1;head 3;record 2;"#]],
        );
    }

    #[test]
    fn of_records_that_do_not_fit_together_each_is_kept_or_lost_by_itself() {
        check(
            24,
            [head(1), head(2), head(3), head(4)],
            expect![[r#"
                append exchanges.log head 1;head 2;head 3;head 4;: full
                append exchanges.log head 1;
                append exchanges.log head 2;
                append exchanges.log head 3;
                append exchanges.log head 4;: full
                lost r000004: record of it (7 bytes): no storage space"#]],
        );
    }

    #[test]
    fn a_body_that_the_disk_does_not_take_in_time_is_one_loss() {
        let (queue, _told, _go_on) = queue(usize::MAX);
        queue.push([file(1), record(1)]);
        queue.close(Duration::ZERO);
        let lost: Vec<String> = queue.losses().iter().map(Loss::to_string).collect();
        assert_eq!(lost, ["r000001: request body (8 bytes): the disk did not take it in time"]);
    }

    /// A record that loses its body still needs space.
    #[test]
    fn the_queue_for_a_blocked_disk_is_bounded() {
        const MANY: u64 = 25_000;
        let (queue, told, _go_on) = queue(usize::MAX);
        queue.push([head(0)]);
        told.recv().expect("the disk has it in its hands");
        let reads = (0..20).map(|n| wire::SocketRead { seq: n, offset: n, us: n }).collect();
        let ended = log::encode(log::LogRecord::ExchangeEnd(log::ExchangeEndRecord {
            seq: 1,
            us: 1,
            id: "r000001".into(),
            ending: wire::Ending::Complete,
            error: None,
            body: log::StoredBody::lost(),
            trailers: Vec::new(),
            reads,
        }));
        for n in 1..=MANY {
            let owner = DataSource { n: Some(n), what: "response body" };
            let (name, bytes) = (format!("file {n}"), vec![0; 64 << 10]);
            let needs = Some(name.clone());
            queue.push([
                DiskOp::File { owner, name, bytes },
                DiskOp::Log { owner, record: ended.clone(), needs, ends: true },
            ]);
        }
        let waiting = queue.state().waiting;
        assert!((LIMIT..=LIMIT + HEADROOM).contains(&waiting), "{waiting}");
        let written = queue.state().ops.iter().filter(|op| op.ends()).count() as u64;
        assert!(written < MANY, "some ends do not even fit without their bodies");
        queue.kept.add(written);
        assert!(queue.kept.turn(MANY).is_none(), "and nobody waits for those");
        let named = |n: u64| {
            queue.losses().iter().any(|loss| loss.request_id == DataSource { n: Some(n), what: "" }.id())
        };
        assert!(named(MANY) && !named(1), "what did not fit is named");
    }

    /// A head does not wake a dozing thread, and nothing else follows.
    #[test]
    fn a_head_alone_gets_to_the_disk() {
        let (queue, told, go_on) = queue(usize::MAX);
        for n in 1..=3 {
            while n > 1 && queue.state().rest == ThreadState::Working {
                std::thread::yield_now(); // until it has written the previous head
            }
            queue.push([head(n)]);
            let asked = told.recv_timeout(Duration::from_secs(30)).expect("the disk was asked");
            assert_eq!(asked, format!("append exchanges.log head {n};"));
            go_on.send(()).expect("the disk listens");
        }
    }

    #[test]
    fn every_byte_of_an_output_that_breaks_is_counted_in_one_loss() {
        let part = || {
            let owner = DataSource { n: None, what: "stdout.txt" };
            DiskOp::Part { owner, name: "stdout.txt".into(), bytes: b"0123456789".into() }
        };
        check(
            9,
            [part(), part(), part()],
            expect![[r#"
                append stdout.txt 0123456789: full
                lost command: stdout.txt (30 bytes): no storage space"#]],
        );
    }
}
