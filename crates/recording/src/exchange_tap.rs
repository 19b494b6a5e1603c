//! Recording handle of one exchange.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use wire::{Ending, SocketRead};

use crate::event::{BodyPart, Moment, RawHeader, WireEvent};
use crate::recorder::Recorder;

/// Approximate size of the parts in which a body is queued. Waking the searching thread for each small
/// piece of a stream would cost more than searching it.
const PART: usize = 64 << 10;
/// Initial capacity of a part. Most streams are not longer.
const FIRST: usize = 48 << 10;
/// Additional capacity: a body that arrives in one read often has a small remainder.
const REST: usize = 4 << 10;

/// Recording handle of one exchange. Dropping it before the end means that the harness disconnected.
#[derive(Debug)]
pub struct ExchangeTap {
    recorder: Recorder,
    n: u64,
    ended: AtomicBool,
    /// Number of exchanges that had ended when this one ended.
    ended_as: AtomicU64,
    request: Mutex<PendingBody>,
    response: Mutex<PendingBody>,
}

/// Received part of a body that was not queued yet.
#[derive(Debug, Default)]
struct PendingBody {
    part: BodyPart,
    /// Number of bytes received in total.
    received: u64,
}

impl PendingBody {
    fn push(&mut self, bytes: &[u8]) {
        if self.part.bytes.capacity() == 0 {
            self.part.bytes.reserve(FIRST.max(bytes.len() + REST));
        }
        self.part.bytes.extend_from_slice(bytes);
        self.received += bytes.len() as u64;
    }

    fn is_enough(&self) -> bool {
        self.part.bytes.len() >= PART
    }

    fn take(&mut self) -> BodyPart {
        std::mem::take(&mut self.part)
    }
}

impl Recorder {
    /// Begins an exchange when a request's head has arrived. `url` is its target.
    pub fn begin_exchange(&self, method: &str, url: &str, headers: Vec<RawHeader>) -> ExchangeTap {
        let (method, url) = (method.to_owned(), url.to_owned());
        let n = self.send_first(|n, at| WireEvent::RequestHead { n, at, method, url, headers });
        ExchangeTap::new(self.clone(), n)
    }
}

impl ExchangeTap {
    fn new(recorder: Recorder, n: u64) -> Self {
        Self {
            recorder,
            n,
            ended: AtomicBool::new(false),
            ended_as: AtomicU64::new(0),
            request: Mutex::default(),
            response: Mutex::default(),
        }
    }

    /// Returns the exchange's id.
    pub fn id(&self) -> session::RequestId {
        session::RequestId::nth(self.n)
    }

    /// Returns the recorder.
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Records request bytes that `read` passes to its argument. Never waits.
    pub fn request_data<T>(&self, read: impl FnOnce(&mut dyn FnMut(&[u8])) -> T) -> T {
        let mut request = locked(&self.request);
        let result = read(&mut |bytes| request.push(bytes));
        if request.is_enough() {
            self.recorder.send(WireEvent::RequestData { n: self.n, part: request.take() });
        }
        result
    }

    /// Ends the request's body. `whole` is false if the harness stopped early.
    pub fn end_request(&self, whole: bool, trailers: Vec<RawHeader>) {
        let rest = locked(&self.request).take();
        self.recorder.send_record(|at| WireEvent::RequestEnd { n: self.n, at, rest, whole, trailers });
    }

    /// Begins the response when its head has arrived.
    pub fn begin_response(&self, status: u16, headers: Vec<RawHeader>) {
        self.recorder.send_record(|at| WireEvent::ResponseHead { n: self.n, at, status, headers });
    }

    /// Records response bytes from one read of the socket, which `read` passes to its argument. Never waits.
    pub fn response_data<T>(&self, read: impl FnOnce(&mut dyn FnMut(&[u8])) -> T) -> T {
        let mut response = locked(&self.response);
        let offset = response.received;
        let result = read(&mut |bytes| response.push(bytes));
        if response.received > offset {
            let Moment { seq, us } = self.recorder.moment();
            response.part.reads.push(SocketRead { seq, offset, us });
        }
        if response.is_enough() {
            self.recorder.send(WireEvent::ResponseData { n: self.n, part: response.take() });
        }
        result
    }

    /// Ends the exchange. Must be called before the harness can see the end; see
    /// [`ExchangeTap::wait_until_stored`].
    pub fn end(&self, ending: Ending, error: Option<String>, trailers: Vec<RawHeader>) {
        if self.ended.swap(true, Ordering::Relaxed) {
            return;
        }
        let part = locked(&self.request).take();
        if !part.bytes.is_empty() {
            self.recorder.send(WireEvent::RequestData { n: self.n, part });
        }
        let rest = locked(&self.response).take();
        let ended =
            self.recorder.send_record(|at| WireEvent::End { n: self.n, at, rest, ending, error, trailers });
        self.ended_as.store(ended, Ordering::Relaxed);
    }

    /// Waits until this exchange and all that ended before it are on the disk. If the harness sees the end only
    /// afterwards, a killed recorder loses nothing that the harness saw end. This takes a fraction of a
    /// millisecond. It does not wait for a stuck disk.
    pub async fn wait_until_stored(&self) {
        self.recorder.wait_until_stored(self.ended_as.load(Ordering::Relaxed)).await;
    }
}

impl Drop for ExchangeTap {
    fn drop(&mut self) {
        let ours = self.recorder.is_shutting_down();
        let error = ours.then(|| "still in flight when the recorder stopped".to_owned());
        self.end(Ending::CutByHarness, error, Vec::new());
    }
}

/// Locks a half of an exchange. Both directions run in one task, so this never waits.
fn locked(pending: &Mutex<PendingBody>) -> MutexGuard<'_, PendingBody> {
    pending.lock().expect("lock is not poisoned")
}
