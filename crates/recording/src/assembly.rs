//! Puts exchanges together from what arrives, redacts them, and hands them to the disk's queue.
//!
//! Runs on a thread of its own. It works as fast as the processor allows and never waits for the
//! disk; a body's bytes leave it redacted, or not at all.

use std::collections::HashMap;

use redact::{RedactionWindow, Redactor};
use wire::{Ending, SocketRead};

use crate::body::{ArrivingBody, FinishedBody};
use crate::dump::Surroundings;
use crate::folder;
use crate::hints::Hints;
use crate::log::{self, Answered, Arrived, Asked, Ended, Opened, Record};
use crate::manifest::Counts;
use crate::queue::{Op, Owner, Queue};
use crate::recorder::Output;
use crate::time::iso;

/// A raw header: its name as it was sent, and its bytes.
pub(crate) type RawHeader = (String, Vec<u8>);

/// When something happened, and its place in the one order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) seq: u64,
    pub(crate) us: u64,
}

/// One thing that happened on the wire; `n` is the exchange's number.
#[derive(Debug)]
pub(crate) enum Event {
    Arrived { n: u64, at: Moment, method: String, url: String, headers: Vec<RawHeader> },
    RequestData { n: u64, part: Part },
    Asked { n: u64, at: Moment, rest: Part, whole: bool, trailers: Vec<RawHeader> },
    Answered { n: u64, at: Moment, status: u16, headers: Vec<RawHeader> },
    ResponseData { n: u64, part: Part },
    Ended { n: u64, at: Moment, rest: Part, ending: Ending, error: Option<String>, trailers: Vec<RawHeader> },
    Printed { output: Output, bytes: Vec<u8> },
}

/// More of a body.
#[derive(Debug, Default)]
pub(crate) struct Part {
    pub(crate) bytes: Vec<u8>,
    /// When and where in the body each read of a response began.
    pub(crate) reads: Vec<SocketRead>,
}

impl Event {
    /// How many bytes of a body it carries.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::RequestData { part, .. } | Self::ResponseData { part, .. } => part.bytes.len(),
            Self::Asked { rest, .. } | Self::Ended { rest, .. } => rest.bytes.len(),
            Self::Printed { bytes, .. } => bytes.len(),
            Self::Arrived { .. } | Self::Answered { .. } => 0,
        }
    }

    /// Whether there is work to do now: an end, for which somebody waits, or the request of an exchange that is `alone`,
    /// so that nothing else ends soon. The rest can wait for that, or for a moment.
    pub(crate) fn is_urgent(&self, alone: bool) -> bool {
        matches!(self, Self::Ended { .. }) || (alone && matches!(self, Self::Asked { .. }))
    }
}

/// An exchange that has not ended.
#[derive(Debug)]
struct Open {
    arrived: Arrived,
    request: Option<ArrivingBody>,
    hints: Hints,
    answered: Option<Answered>,
    response: ArrivingBody,
    reads: Vec<SocketRead>,
}

pub(crate) struct Assembly {
    redactor: Redactor,
    queue: Queue,
    surroundings: Surroundings,
    open: HashMap<u64, Open>,
    printed: HashMap<Output, RedactionWindow>,
    counts: Counts,
    unsearched: Vec<String>,
    /// What the redactor knew when the first record with foreign text was written.
    knew_at_first: Option<u64>,
}

/// What is left when everything has been handed to the disk.
pub(crate) struct Assembled {
    pub(crate) redactor: Redactor,
    pub(crate) counts: Counts,
    /// Bodies that could not be unpacked to be searched.
    pub(crate) unsearched: Vec<String>,
    /// Something was learned after something had been written.
    pub(crate) learned_late: bool,
}

impl Assembly {
    pub(crate) fn new(redactor: Redactor, queue: Queue, surroundings: Surroundings) -> Self {
        let started_at = iso(surroundings.started_at);
        let opened = Record::Opened(Opened { format: log::LOG_FORMAT, started_at });
        let owner = Owner { n: None, what: "log" };
        queue.push([Op::Log { owner, record: log::encode(opened), needs: None, ends: false }]);
        Self {
            redactor,
            queue,
            surroundings,
            open: HashMap::new(),
            printed: HashMap::new(),
            counts: Counts::default(),
            unsearched: Vec::new(),
            knew_at_first: None,
        }
    }

    pub(crate) fn take(&mut self, event: Event) {
        match event {
            Event::Arrived { n, at, method, url, headers } => self.arrived(n, at, method, &url, &headers),
            Event::RequestData { n, part } => self.request_data(n, part),
            Event::Asked { n, at, rest, whole, trailers } => {
                self.request_data(n, rest);
                self.asked(n, at, whole, &trailers);
            }
            Event::Answered { n, at, status, headers } => self.answered(n, at, status, &headers),
            Event::ResponseData { n, part } => self.response_data(n, part),
            Event::Ended { n, at, rest, ending, error, trailers } => {
                self.response_data(n, rest);
                self.ended(n, at, ending, error, &trailers);
            }
            Event::Printed { output, bytes } => {
                let new = || RedactionWindow::new(output.file(), None);
                let ready = self.printed.entry(output).or_insert_with(new).push(&mut self.redactor, &bytes);
                self.print(output, ready);
            }
        }
    }

    /// Nothing more will happen.
    pub(crate) fn finish(mut self) -> Assembled {
        for (output, mut window) in std::mem::take(&mut self.printed) {
            let rest = window.finish(&mut self.redactor);
            self.print(output, rest);
        }
        let learned_late = self.knew_at_first.is_some_and(|knew| knew < self.redactor.generation());
        Assembled { redactor: self.redactor, counts: self.counts, unsearched: self.unsearched, learned_late }
    }

    fn arrived(&mut self, n: u64, at: Moment, method: String, url: &str, headers: &[RawHeader]) {
        let id = session::RequestId::nth(n).to_string();
        // The headers first: they teach the redactor what must not stand in the address.
        let headers = self.redactor.redact_headers("request headers", headers);
        let url = self.redactor.redact_url("request address", url);
        let mut request = ArrivingBody::new(n, "request body");
        request.described(&headers);
        let response = ArrivingBody::new(n, "response body");
        let arrived = Arrived { seq: at.seq, us: at.us, id, method, url, headers };
        self.log("request head", n, Record::Arrived(arrived.clone()));
        self.counts.exchanges += 1;
        let open = Open {
            arrived,
            request: Some(request),
            hints: Hints::default(),
            answered: None,
            response,
            reads: Vec::new(),
        };
        self.open.insert(n, open);
    }

    fn request_data(&mut self, n: u64, part: Part) {
        let Some(body) = self.open.get_mut(&n).and_then(|open| open.request.as_mut()) else { return };
        body.push(part.bytes, &mut self.redactor, &self.queue);
    }

    fn response_data(&mut self, n: u64, part: Part) {
        let Some(open) = self.open.get_mut(&n) else { return };
        open.reads.extend(part.reads);
        open.response.push(part.bytes, &mut self.redactor, &self.queue);
    }

    fn asked(&mut self, n: u64, at: Moment, whole: bool, trailers: &[RawHeader]) {
        let Some(open) = self.open.get_mut(&n) else { return };
        let Some(body) = open.request.take() else { return };
        let FinishedBody { stored, bytes, blob, unsearched, .. } =
            body.finish(&mut self.redactor, &self.queue);
        self.unsearched.extend(unsearched);
        open.hints = Hints::of(&open.arrived.url, &open.arrived.headers, &bytes);
        let trailers = self.redactor.redact_headers("request trailers", trailers);
        let id = open.arrived.id.clone();
        let asked = Asked { seq: at.seq, us: at.us, id, body: stored, whole, trailers };
        let dump = self.surroundings.request_dump(&open.arrived, &open.hints, &asked, bytes);
        let file = Dumped {
            name: folder::request_dump(&asked.id),
            bytes: dump.into_json(),
            what: ["request body", "request dump"],
            blob,
        };
        self.keep(file, n, Record::Asked(asked));
    }

    fn answered(&mut self, n: u64, at: Moment, status: u16, headers: &[RawHeader]) {
        let Some(open) = self.open.get_mut(&n) else { return };
        let id = open.arrived.id.clone();
        let headers = self.redactor.redact_headers("response headers", headers);
        open.response.described(&headers);
        let answered = Answered { seq: at.seq, us: at.us, id, status, headers };
        open.answered = Some(answered.clone());
        self.log("response head", n, Record::Answered(answered));
    }

    fn ended(&mut self, n: u64, at: Moment, ending: Ending, error: Option<String>, trailers: &[RawHeader]) {
        self.asked(n, at, false, &[]); // where the request's body never ended by itself
        let Some(open) = self.open.remove(&n) else { return };
        let id = open.arrived.id.clone();
        let trailers = self.redactor.redact_headers("response trailers", trailers);
        let error = error.map(|error| self.redact_line("error", &error));
        let body = open.response.finish(&mut self.redactor, &self.queue);
        let reads = stored_reads(&open.reads, &body);
        let FinishedBody { stored, bytes, blob, unsearched, .. } = body;
        self.unsearched.extend(unsearched);
        self.count(ending);
        let ended = Ended { seq: at.seq, us: at.us, id, ending, error, body: stored, trailers, reads };
        let answered = open.answered.as_ref();
        let dump = self.surroundings.response_dump(&open.arrived, &open.hints, answered, &ended, bytes);
        let file = Dumped {
            name: folder::response_dump(&ended.id),
            bytes: dump.into_json(),
            what: ["response body", "response dump"],
            blob,
        };
        self.keep(file, n, Record::Ended(ended));
    }

    fn redact_line(&mut self, place: &str, line: &str) -> String {
        String::from_utf8_lossy(&self.redactor.redact_text(place, line.as_bytes()).bytes).into_owned()
    }

    fn count(&mut self, ending: Ending) {
        let count = match ending {
            Ending::Complete => &mut self.counts.complete,
            Ending::CutByHarness => &mut self.counts.cut_by_harness,
            Ending::CutByUpstream => &mut self.counts.cut_by_upstream,
            Ending::NoResponse => &mut self.counts.no_response,
        };
        *count += 1;
    }

    fn log(&mut self, what: &'static str, n: u64, record: Record) {
        self.knew_at_first.get_or_insert(self.redactor.generation());
        let owner = Owner { n: Some(n), what };
        self.queue.push([Op::Log { owner, record: log::encode(record), needs: None, ends: false }]);
    }

    /// Hands a dump to the disk, and behind it the record that counts on it (or on the blob).
    fn keep(&self, file: Dumped, n: u64, record: Record) {
        let Dumped { name, bytes, what: [body, dump_alone], blob } = file;
        let owner = |what| Owner { n: Some(n), what };
        let what = if blob.is_none() { body } else { dump_alone };
        let needs = Some(blob.unwrap_or_else(|| name.clone()));
        let ends = matches!(record, Record::Ended(_));
        let record = log::encode(record);
        self.queue.push([
            Op::File { owner: owner(what), name, bytes },
            Op::Log { owner: owner(body), record, needs, ends },
        ]);
    }

    fn print(&mut self, output: Output, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.knew_at_first.get_or_insert(self.redactor.generation());
            let owner = Owner { n: None, what: output.file() };
            self.queue.push([Op::Part { owner, name: output.file().to_owned(), bytes }]);
        }
    }
}

/// A dump on its way to the disk.
struct Dumped {
    name: String,
    bytes: Vec<u8>,
    /// What is lost with it: the body, or, where that is in a blob, only the dump.
    what: [&'static str; 2],
    blob: Option<String>,
}

/// The reads with offsets of what is stored.
fn stored_reads(reads: &[SocketRead], body: &FinishedBody) -> Vec<SocketRead> {
    let offsets = match &body.edits {
        Some(edits) => edits.shift(reads.iter().map(|read| read.offset as usize)),
        // Decoded from a compressed body: the times are right, the places are unknown.
        None => vec![0; reads.len()],
    };
    reads.iter().zip(offsets).map(|(read, offset)| SocketRead { offset: offset as u64, ..*read }).collect()
}
