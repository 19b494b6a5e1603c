//! The recorder's end of one exchange.

use std::sync::{Mutex, MutexGuard};

use bytes::Bytes;
use wire::{Ending, Read};

use crate::assembly::{Event, Moment, Pieces, RawHeader};
use crate::recorder::Recorder;

/// A body is handed over in parts of about this size, and at its end: to wake the searching thread
/// for each piece of a stream costs more than the piece, and it can do nothing with it anyway.
const PART: usize = 64 << 10;

/// The recorder's end of one exchange. Dropped before its end, it means that the harness left.
#[derive(Debug)]
pub struct ExchangeTap {
    recorder: Recorder,
    n: u64,
    ended: bool,
    request: Mutex<Gathered>,
    response: Mutex<Gathered>,
}

/// What has come of a body and was not handed over yet.
#[derive(Debug, Default)]
struct Gathered {
    pieces: Pieces,
    /// How many bytes there are in `pieces`.
    held: usize,
    /// How many bytes came in all.
    came: u64,
}

impl Gathered {
    /// Takes more; gives back what is to be handed over, where it is enough.
    fn push(&mut self, bytes: Bytes) -> Option<Pieces> {
        self.held += bytes.len();
        self.came += bytes.len() as u64;
        self.pieces.bytes.push(bytes);
        (self.held >= PART).then(|| self.take())
    }

    fn take(&mut self) -> Pieces {
        self.held = 0;
        std::mem::take(&mut self.pieces)
    }
}

impl ExchangeTap {
    pub(crate) fn new(recorder: Recorder, n: u64) -> Self {
        Self { recorder, n, ended: false, request: Mutex::default(), response: Mutex::default() }
    }

    /// The exchange's id.
    pub fn id(&self) -> session::RequestId {
        session::RequestId::nth(self.n)
    }

    /// The recorder, to wait for room.
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// More of the request's body. Never waits.
    pub fn request_data(&self, bytes: Bytes) {
        let part = locked(&self.request).push(bytes);
        if let Some(pieces) = part {
            self.recorder.hand_over(Event::RequestData { n: self.n, pieces });
        }
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

    /// More of the response's body, of which each call is one read of the socket. Never waits.
    pub fn response_data(&self, bytes: Bytes) {
        let Moment { seq, us } = self.recorder.moment();
        let mut response = locked(&self.response);
        let offset = response.came;
        response.pieces.reads.push(Read { seq, offset, us });
        let part = response.push(bytes);
        drop(response);
        if let Some(pieces) = part {
            self.recorder.hand_over(Event::ResponseData { n: self.n, pieces });
        }
    }

    /// The exchange is over.
    pub fn ended(mut self, ending: Ending, error: Option<String>, trailers: Vec<RawHeader>) {
        self.end(ending, error, trailers);
    }

    fn end(&mut self, ending: Ending, error: Option<String>, trailers: Vec<RawHeader>) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let pieces = locked(&self.request).take();
        if !pieces.bytes.is_empty() {
            self.recorder.hand_over(Event::RequestData { n: self.n, pieces });
        }
        let rest = locked(&self.response).take();
        self.recorder.happened(|at| Event::Ended { n: self.n, at, rest, ending, error, trailers });
    }
}

impl Drop for ExchangeTap {
    fn drop(&mut self) {
        let ours = self.recorder.is_cutting();
        let error = ours.then(|| "still in flight when the recorder stopped".to_owned());
        self.end(Ending::CutByHarness, error, Vec::new());
    }
}

/// Both ways of an exchange run in one task, so this never waits.
fn locked(gathered: &Mutex<Gathered>) -> MutexGuard<'_, Gathered> {
    gathered.lock().expect("nobody panics while holding it")
}
