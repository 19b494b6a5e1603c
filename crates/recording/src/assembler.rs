//! Assembles exchanges from wire events, redacts them, and hands them to the disk queue.
//!
//! It runs on a thread of its own, as fast as the processor allows, and never waits for the disk. Bytes of a
//! body leave it redacted or not at all.

use std::collections::HashMap;

use redact::{RedactionWindow, Redactor};
use wire::{Ending, SocketRead};

use crate::body::{ArrivingBody, FinishedBody};
use crate::disk_queue::{DataSource, DiskOp, DiskQueue};
use crate::dump::Surroundings;
use crate::event::{BodyPart, Moment, OutputStream, RawHeader, WireEvent};
use crate::file_names;
use crate::hints::Hints;
use crate::log::{
    self, ExchangeEndRecord, LogRecord, LogStartRecord, RequestBodyRecord, RequestHeadRecord,
    ResponseHeadRecord,
};
use crate::manifest::Counts;
use crate::time::iso;

/// Exchange that has not ended.
#[derive(Debug)]
struct Open {
    request_head: RequestHeadRecord,
    request: Option<ArrivingBody>,
    hints: Hints,
    response_head: Option<ResponseHeadRecord>,
    response: ArrivingBody,
    reads: Vec<SocketRead>,
}

pub(crate) struct Assembler {
    redactor: Redactor,
    queue: DiskQueue,
    surroundings: Surroundings,
    open: HashMap<u64, Open>,
    printed: HashMap<OutputStream, RedactionWindow>,
    counts: Counts,
    unsearched: Vec<String>,
    /// Generation of the redactor when the first record with foreign text was written.
    knew_at_first: Option<u64>,
}

/// Result of the assembly after everything was handed to the disk.
pub(crate) struct AssembledRecording {
    pub(crate) redactor: Redactor,
    pub(crate) counts: Counts,
    /// Bodies that could not be decompressed for the search for secrets.
    pub(crate) unsearched: Vec<String>,
    /// True if the redactor learned a secret after something had been written.
    pub(crate) learned_late: bool,
}

impl Assembler {
    pub(crate) fn new(redactor: Redactor, queue: DiskQueue, surroundings: Surroundings) -> Self {
        let started_at = iso(surroundings.started_at);
        let opened = LogRecord::LogStart(LogStartRecord { format: log::LOG_FORMAT, started_at });
        let owner = DataSource { n: None, what: "log" };
        queue.push([DiskOp::Log { owner, record: log::encode(opened), needs: None, ends: false }]);
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

    pub(crate) fn take(&mut self, event: WireEvent) {
        match event {
            WireEvent::RequestHead { n, at, method, url, headers } => {
                self.begin_exchange(n, at, method, &url, &headers)
            }
            WireEvent::RequestData { n, part } => self.request_data(n, part),
            WireEvent::RequestEnd { n, at, rest, whole, trailers } => {
                self.request_data(n, rest);
                self.end_request(n, at, whole, &trailers);
            }
            WireEvent::ResponseHead { n, at, status, headers } => {
                self.begin_response(n, at, status, &headers)
            }
            WireEvent::ResponseData { n, part } => self.response_data(n, part),
            WireEvent::End { n, at, rest, ending, error, trailers } => {
                self.response_data(n, rest);
                self.end_exchange(n, at, ending, error, &trailers);
            }
            WireEvent::Output { output, bytes } => {
                let new = || RedactionWindow::new(output.file(), None);
                let ready = self.printed.entry(output).or_insert_with(new).push(&mut self.redactor, &bytes);
                self.print(output, ready);
            }
        }
    }

    /// Flushes the command's output and returns the result.
    pub(crate) fn finish(mut self) -> AssembledRecording {
        for (output, mut window) in std::mem::take(&mut self.printed) {
            let rest = window.finish(&mut self.redactor);
            self.unsearched.extend(window.unsearched().map(|why| format!("`{}`: {why}", output.file())));
            self.print(output, rest);
        }
        let learned_late = self.knew_at_first.is_some_and(|knew| knew < self.redactor.generation());
        AssembledRecording {
            redactor: self.redactor,
            counts: self.counts,
            unsearched: self.unsearched,
            learned_late,
        }
    }

    fn begin_exchange(&mut self, n: u64, at: Moment, method: String, url: &str, headers: &[RawHeader]) {
        let id = session::RequestId::nth(n).to_string();
        // The headers come first: they teach the redactor which secrets the address may contain.
        let headers = self.redactor.redact_headers("request headers", headers);
        let url = self.redactor.redact_url("request address", url);
        let mut request = ArrivingBody::new(n, "request body");
        request.described(&headers);
        let response = ArrivingBody::new(n, "response body");
        let request_head = RequestHeadRecord { seq: at.seq, us: at.us, id, method, url, headers };
        self.log("request head", n, LogRecord::RequestHead(request_head.clone()));
        self.counts.exchanges += 1;
        let open = Open {
            request_head,
            request: Some(request),
            hints: Hints::default(),
            response_head: None,
            response,
            reads: Vec::new(),
        };
        self.open.insert(n, open);
    }

    fn request_data(&mut self, n: u64, part: BodyPart) {
        let Some(body) = self.open.get_mut(&n).and_then(|open| open.request.as_mut()) else { return };
        body.push(part.bytes, &mut self.redactor, &self.queue);
    }

    fn response_data(&mut self, n: u64, part: BodyPart) {
        let Some(open) = self.open.get_mut(&n) else { return };
        open.reads.extend(part.reads);
        open.response.push(part.bytes, &mut self.redactor, &self.queue);
    }

    fn end_request(&mut self, n: u64, at: Moment, whole: bool, trailers: &[RawHeader]) {
        let Some(open) = self.open.get_mut(&n) else { return };
        let Some(body) = open.request.take() else { return };
        let FinishedBody { stored, bytes, blob, unsearched, .. } =
            body.finish(&mut self.redactor, &self.queue);
        self.unsearched.extend(unsearched);
        open.hints = Hints::of(
            &open.request_head.url,
            &open.request_head.headers,
            &bytes,
            self.surroundings.session_header.as_deref(),
        );
        let trailers = self.redactor.redact_headers("request trailers", trailers);
        let id = open.request_head.id.clone();
        let request_body = RequestBodyRecord { seq: at.seq, us: at.us, id, body: stored, whole, trailers };
        let dump = self.surroundings.request_dump(&open.request_head, &open.hints, &request_body, bytes);
        let file = QueuedDump {
            name: file_names::request_dump(&request_body.id),
            bytes: dump.into_json(),
            what: ["request body", "request dump"],
            blob,
        };
        self.keep(file, n, LogRecord::RequestBody(request_body));
    }

    fn begin_response(&mut self, n: u64, at: Moment, status: u16, headers: &[RawHeader]) {
        let Some(open) = self.open.get_mut(&n) else { return };
        let id = open.request_head.id.clone();
        let headers = self.redactor.redact_headers("response headers", headers);
        open.response.described(&headers);
        let response_head = ResponseHeadRecord { seq: at.seq, us: at.us, id, status, headers };
        open.response_head = Some(response_head.clone());
        self.log("response head", n, LogRecord::ResponseHead(response_head));
    }

    fn end_exchange(
        &mut self,
        n: u64,
        at: Moment,
        ending: Ending,
        error: Option<String>,
        trailers: &[RawHeader],
    ) {
        self.end_request(n, at, false, &[]); // for a request whose body never ended
        let Some(open) = self.open.remove(&n) else { return };
        let id = open.request_head.id.clone();
        let trailers = self.redactor.redact_headers("response trailers", trailers);
        let error = error.map(|error| self.redact_line("error", &error));
        let body = open.response.finish(&mut self.redactor, &self.queue);
        let reads = stored_reads(&open.reads, &body);
        let FinishedBody { stored, bytes, blob, unsearched, .. } = body;
        self.unsearched.extend(unsearched);
        self.count(ending);
        let exchange_end =
            ExchangeEndRecord { seq: at.seq, us: at.us, id, ending, error, body: stored, trailers, reads };
        let response_head = open.response_head.as_ref();
        let dump = self.surroundings.response_dump(
            &open.request_head,
            &open.hints,
            response_head,
            &exchange_end,
            bytes,
        );
        let file = QueuedDump {
            name: file_names::response_dump(&exchange_end.id),
            bytes: dump.into_json(),
            what: ["response body", "response dump"],
            blob,
        };
        self.keep(file, n, LogRecord::ExchangeEnd(exchange_end));
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

    fn log(&mut self, what: &'static str, n: u64, record: LogRecord) {
        self.knew_at_first.get_or_insert(self.redactor.generation());
        let owner = DataSource { n: Some(n), what };
        self.queue.push([DiskOp::Log { owner, record: log::encode(record), needs: None, ends: false }]);
    }

    /// Queues a dump, then the record that refers to it or to the blob.
    fn keep(&self, file: QueuedDump, n: u64, record: LogRecord) {
        let QueuedDump { name, bytes, what: [body, dump_alone], blob } = file;
        let owner = |what| DataSource { n: Some(n), what };
        let what = if blob.is_none() { body } else { dump_alone };
        let needs = Some(blob.unwrap_or_else(|| name.clone()));
        let ends = matches!(record, LogRecord::ExchangeEnd(_));
        let record = log::encode(record);
        self.queue.push([
            DiskOp::File { owner: owner(what), name, bytes },
            DiskOp::Log { owner: owner(body), record, needs, ends },
        ]);
    }

    fn print(&mut self, output: OutputStream, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.knew_at_first.get_or_insert(self.redactor.generation());
            let owner = DataSource { n: None, what: output.file() };
            self.queue.push([DiskOp::Part { owner, name: output.file().to_owned(), bytes }]);
        }
    }
}

/// Dump on its way to the disk.
struct QueuedDump {
    name: String,
    bytes: Vec<u8>,
    /// Names of the possible losses: the body, or only the dump if the body is in a blob.
    what: [&'static str; 2],
    blob: Option<String>,
}

/// Returns the reads with offsets in the stored body.
fn stored_reads(reads: &[SocketRead], body: &FinishedBody) -> Vec<SocketRead> {
    let offsets = match &body.edits {
        Some(edits) => edits.shift(reads.iter().map(|read| read.offset as usize)),
        // The body was decoded from a compressed one: its offsets are unknown.
        None => vec![0; reads.len()],
    };
    reads.iter().zip(offsets).map(|(read, offset)| SocketRead { offset: offset as u64, ..*read }).collect()
}
