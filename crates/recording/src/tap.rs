//! The recorder's end of one exchange.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use wire::{Ending, SocketRead};

use crate::assembly::{Event, Moment, Part, RawHeader};
use crate::recorder::Recorder;

/// A body is handed over in parts of about this size, and at its end: to wake the searching thread
/// for each piece of a stream costs more than the piece, and it can do nothing with it anyway.
const PART: usize = 64 << 10;
/// Room for the first bytes of a part: most streams are no longer.
const FIRST: usize = 48 << 10;
/// Room behind the first bytes: a body that is read nearly at once mostly has a little left.
const REST: usize = 4 << 10;

/// The recorder's end of one exchange. Dropped before its end, it means that the harness left.
#[derive(Debug)]
pub struct ExchangeTap {
    recorder: Recorder,
    n: u64,
    ended: AtomicBool,
    /// How many exchanges have ended up to this one, once it has.
    ended_as: AtomicU64,
    request: Mutex<Gathered>,
    response: Mutex<Gathered>,
}

/// What has come of a body and was not handed over yet.
#[derive(Debug, Default)]
struct Gathered {
    part: Part,
    /// How many bytes came in all.
    came: u64,
}

impl Gathered {
    fn push(&mut self, bytes: &[u8]) {
        if self.part.bytes.capacity() == 0 {
            self.part.bytes.reserve(FIRST.max(bytes.len() + REST));
        }
        self.part.bytes.extend_from_slice(bytes);
        self.came += bytes.len() as u64;
    }

    fn is_enough(&self) -> bool {
        self.part.bytes.len() >= PART
    }

    fn take(&mut self) -> Part {
        std::mem::take(&mut self.part)
    }
}

impl ExchangeTap {
    pub(crate) fn new(recorder: Recorder, n: u64) -> Self {
        Self {
            recorder,
            n,
            ended: AtomicBool::new(false),
            ended_as: AtomicU64::new(0),
            request: Mutex::default(),
            response: Mutex::default(),
        }
    }

    /// The exchange's id.
    pub fn id(&self) -> session::RequestId {
        session::RequestId::nth(self.n)
    }

    /// The recorder, to wait for room.
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// More of the request's body: all that `read` gives to its argument. Never waits.
    pub fn request_data<T>(&self, read: impl FnOnce(&mut dyn FnMut(&[u8])) -> T) -> T {
        let mut request = locked(&self.request);
        let said = read(&mut |bytes| request.push(bytes));
        if request.is_enough() {
            self.recorder.hand_over(Event::RequestData { n: self.n, part: request.take() });
        }
        said
    }

    /// The request's body is over: all of it came, or the harness stopped in the middle.
    pub fn request_ended(&self, whole: bool, trailers: Vec<RawHeader>) {
        let rest = locked(&self.request).take();
        self.recorder.happened(|at| Event::Asked { n: self.n, at, rest, whole, trailers });
    }

    /// The response's head arrived.
    pub fn answered(&self, status: u16, headers: Vec<RawHeader>) {
        self.recorder.happened(|at| Event::Answered { n: self.n, at, status, headers });
    }

    /// More of the response's body, from one read of the socket: all that `read` gives to its
    /// argument. Never waits.
    pub fn response_data<T>(&self, read: impl FnOnce(&mut dyn FnMut(&[u8])) -> T) -> T {
        let mut response = locked(&self.response);
        let offset = response.came;
        let said = read(&mut |bytes| response.push(bytes));
        if response.came > offset {
            let Moment { seq, us } = self.recorder.moment();
            response.part.reads.push(SocketRead { seq, offset, us });
        }
        if response.is_enough() {
            self.recorder.hand_over(Event::ResponseData { n: self.n, part: response.take() });
        }
        said
    }

    /// The exchange is over. Told before the harness can know it; see [`ExchangeTap::is_kept`].
    pub fn ended(&self, ending: Ending, error: Option<String>, trailers: Vec<RawHeader>) {
        if self.ended.swap(true, Ordering::Relaxed) {
            return;
        }
        let part = locked(&self.request).take();
        if !part.bytes.is_empty() {
            self.recorder.hand_over(Event::RequestData { n: self.n, part });
        }
        let rest = locked(&self.response).take();
        let ended =
            self.recorder.happened(|at| Event::Ended { n: self.n, at, rest, ending, error, trailers });
        self.ended_as.store(ended, Ordering::Relaxed);
    }

    /// Waits until this exchange, which has ended, and all that ended before it are on the disk. Where the
    /// harness hears of the end only then, a killed recorder has lost nothing that the harness has seen
    /// end. That takes a fraction of a millisecond; a disk that stands still is not waited for.
    pub async fn is_kept(&self) {
        self.recorder.has_kept(self.ended_as.load(Ordering::Relaxed)).await;
    }
}

impl Drop for ExchangeTap {
    fn drop(&mut self) {
        let ours = self.recorder.is_cutting();
        let error = ours.then(|| "still in flight when the recorder stopped".to_owned());
        self.ended(Ending::CutByHarness, error, Vec::new());
    }
}

/// Both ways of an exchange run in one task, so this never waits.
fn locked(gathered: &Mutex<Gathered>) -> MutexGuard<'_, Gathered> {
    gathered.lock().expect("nobody panics while holding it")
}
