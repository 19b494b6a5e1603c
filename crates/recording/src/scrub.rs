//! Removes secrets that were learned late from what was already written.
//!
//! Every exchange is read and redacted again with all known secrets, and its dumps and records are rewritten.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read as _, Write as _};
use std::path::Path;
use std::time::SystemTime;

use redact::{BodyHints, RedactionWindow, Redactor};
use sha2::{Digest, Sha256};
use wire::json::Edits;
use wire::{Body, Header};

use crate::body::{self, hex};
use crate::disk::{Disk as _, FolderDisk};
use crate::dump::Surroundings;
use crate::error::{OpenError, SealError};
use crate::event::OutputStream;
use crate::file_names;
use crate::hints::{Hints, header};
use crate::log::{self, BodyLocation, LogRecord, Reader, StoredBody};
use crate::open::{Entry, Recording};

/// Scrubbed blobs by their old digests.
type Blobs = HashMap<String, Scrubbed>;

/// File that was redacted again.
struct Scrubbed {
    sha256: String,
    bytes: u64,
    /// Coding that the file was stored in, if it was decoded.
    decoded_from: Option<String>,
    /// Edits; `None` if the file was decoded just now, because the old offsets are unknown then.
    edits: Option<Edits>,
}

/// Maximum size of a stream that is searched in one piece, however far apart the parts of its texts are.
const LONGEST_HELD: u64 = 64 << 20;

/// Returns whether a long stream contains a secret whose parts were too far apart to be found on arrival.
pub(crate) fn is_needed(dir: &Path, redactor: &Redactor) -> Result<bool, SealError> {
    let failed = |source| SealError::Io { dir: dir.to_owned(), source };
    if fs::read_dir(dir.join(file_names::BLOBS)).map_err(failed)?.next().is_none() {
        return Ok(false);
    }
    let recording = open(dir)?;
    for (stored, _, headers) in recording.entries().iter().flat_map(Entry::bodies) {
        let name = file_names::blob(&stored.sha256);
        let path = dir.join(&name);
        let is_held = stored.at == BodyLocation::Blob && is_stream(headers) && stored.bytes <= LONGEST_HELD;
        if is_held
            && path.exists()
            && !redactor.find_residues(&name, &fs::read(path).map_err(failed)?).is_empty()
        {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_stream(headers: &[Header]) -> bool {
    let kind = header(headers, "content-type").unwrap_or_default().to_ascii_lowercase();
    ["event-stream", "ndjson", "jsonl", "json-seq"].iter().any(|stream| kind.contains(stream))
}

/// Redacts everything that was written.
pub(crate) fn scrub(dir: &Path, redactor: &mut Redactor) -> Result<(), SealError> {
    let failed = |source| SealError::Io { dir: dir.to_owned(), source };
    redactor.set_late(true);
    let recording = open(dir)?;
    let blobs = scrub_blobs(dir, &recording, redactor).map_err(failed)?;
    for output in [OutputStream::Stdout, OutputStream::Stderr] {
        let path = dir.join(output.file());
        if path.exists() {
            scrub_file(&path, output.file(), None, redactor).map_err(failed)?;
        }
    }
    scrub_exchanges(dir, &recording, redactor, &blobs)
}

fn scrub_blobs(dir: &Path, recording: &Recording, redactor: &mut Redactor) -> io::Result<Blobs> {
    let bodies = recording.entries().iter().flat_map(Entry::bodies);
    let described: HashMap<&str, (&[Header], bool)> = bodies
        .map(|(stored, _, headers)| (stored.sha256.as_str(), (headers, stored.decoded_from.is_some())))
        .collect();
    let mut scrubbed = HashMap::new();
    for entry in fs::read_dir(dir.join(file_names::BLOBS))? {
        let path = entry?.path();
        let old = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let described = described.get(old.as_str()).copied().unwrap_or_default();
        let now = scrub_blob(&path, &file_names::blob(&old), described, redactor)?;
        if now.sha256 != old {
            fs::rename(&path, dir.join(file_names::blob(&now.sha256)))?;
        }
        scrubbed.insert(old, now);
    }
    Ok(scrubbed)
}

/// Redacts one blob in place: through a window, or in one piece if it is compressed or a stream. A blob that
/// was decoded before has no coding, whatever its headers say.
fn scrub_blob(
    path: &Path,
    name: &str,
    (headers, is_decoded): (&[Header], bool),
    redactor: &mut Redactor,
) -> io::Result<Scrubbed> {
    let mut begins = Vec::new();
    File::open(path)?.take(4).read_to_end(&mut begins)?;
    let content_type = header(headers, "content-type");
    let coding = body::coding(headers, &begins).filter(|_| !is_decoded);
    let is_held = is_stream(headers) && fs::metadata(path)?.len() <= LONGEST_HELD;
    if coding.is_none() && !is_held {
        return scrub_file(path, name, content_type, redactor);
    }
    let bytes = fs::read(path)?;
    let hints = BodyHints { content_type, content_encoding: coding.as_deref() };
    let redacted = redactor.redact_body(name, hints, &bytes);
    if !redacted.is_clean() {
        let beside = path.with_extension("scrubbed");
        fs::write(&beside, &redacted.bytes)?;
        fs::rename(&beside, path)?;
    }
    Ok(Scrubbed {
        sha256: hex(Sha256::digest(&redacted.bytes)),
        bytes: redacted.bytes.len() as u64,
        decoded_from: coding.filter(|_| redacted.decoded),
        edits: redacted.edits,
    })
}

/// Redacts one file in place, through a window.
fn scrub_file(
    path: &Path,
    name: &str,
    content_type: Option<&str>,
    redactor: &mut Redactor,
) -> io::Result<Scrubbed> {
    let beside = path.with_extension("scrubbed");
    let mut input = BufReader::with_capacity(1 << 20, File::open(path)?);
    let mut output = BufWriter::new(File::create(&beside)?);
    let mut window = RedactionWindow::new(name, content_type);
    let mut hasher = Sha256::new();
    let mut bytes = 0;
    let mut piece = vec![0; 1 << 20];
    loop {
        let read = input.read(&mut piece)?;
        let ready = if read == 0 { window.finish(redactor) } else { window.push(redactor, &piece[..read]) };
        hasher.update(&ready);
        bytes += ready.len() as u64;
        output.write_all(&ready)?;
        if read == 0 {
            break;
        }
    }
    output.flush()?;
    fs::rename(&beside, path)?;
    let edits = Some(window.edits().clone());
    Ok(Scrubbed { sha256: hex(hasher.finalize()), bytes, decoded_from: None, edits })
}

/// Rewrites every dump, then the log that refers to them.
fn scrub_exchanges(
    dir: &Path,
    recording: &Recording,
    redactor: &mut Redactor,
    blobs: &Blobs,
) -> Result<(), SealError> {
    let surroundings = surroundings(recording);
    let mut scrubber = Scrubber { redactor, blobs, recording };
    let mut scrubbed = HashMap::new();
    for entry in recording.entries() {
        let mut entry = entry.clone();
        let (request, response) = scrubber.entry(&mut entry).map_err(|source| unreadable(dir, source))?;
        write_dumps(dir, &surroundings, &entry, request, response)?;
        scrubbed.insert(entry.request_head.id.clone(), entry);
    }
    rewrite_log(dir, &scrubbed)
}

/// Replaces the records of the log by the scrubbed ones, in their old order.
fn rewrite_log(dir: &Path, scrubbed: &HashMap<String, Entry>) -> Result<(), SealError> {
    let failed = |source| SealError::Io { dir: dir.to_owned(), source };
    let path = dir.join(file_names::LOG);
    let beside = dir.join(".exchanges.log");
    let mut output = BufWriter::new(File::create(&beside).map_err(failed)?);
    let mut reader = Reader::new(BufReader::with_capacity(1 << 20, File::open(&path).map_err(failed)?));
    while let Some(record) = reader.next().map_err(|source| SealError::Log { dir: dir.to_owned(), source })? {
        let of = |id: &str| scrubbed.get(id);
        let record = match &record {
            LogRecord::LogStart(_) => Some(record),
            LogRecord::RequestHead(old) => {
                of(&old.id).map(|entry| LogRecord::RequestHead(entry.request_head.clone()))
            }
            LogRecord::RequestBody(old) => {
                of(&old.id).and_then(|entry| entry.request_body.clone()).map(LogRecord::RequestBody)
            }
            LogRecord::ResponseHead(old) => {
                of(&old.id).and_then(|entry| entry.response_head.clone()).map(LogRecord::ResponseHead)
            }
            LogRecord::ExchangeEnd(old) => {
                of(&old.id).and_then(|entry| entry.exchange_end.clone()).map(LogRecord::ExchangeEnd)
            }
        };
        if let Some(record) = record {
            output.write_all(&log::encode(record)).map_err(failed)?;
        }
    }
    output.flush().map_err(failed)?;
    fs::rename(&beside, &path).map_err(failed)
}

struct Scrubber<'a> {
    redactor: &'a mut Redactor,
    blobs: &'a Blobs,
    recording: &'a Recording,
}

impl Scrubber<'_> {
    /// Redacts an exchange's records and returns both bodies, unless they are in blobs.
    fn entry(&mut self, entry: &mut Entry) -> Result<(Vec<u8>, Vec<u8>), OpenError> {
        self.headers("request headers", &mut entry.request_head.headers);
        entry.request_head.url = self.redactor.redact_url("request address", &entry.request_head.url);
        let mut request = Vec::new();
        if let Some(request_body) = &mut entry.request_body {
            let dump = file_names::request_dump(&request_body.id);
            self.headers("request trailers", &mut request_body.trailers);
            (request, _) =
                self.body("request body", &mut request_body.body, &dump, &entry.request_head.headers)?;
        }
        let mut headers: &[Header] = &[];
        if let Some(response_head) = &mut entry.response_head {
            self.headers("response headers", &mut response_head.headers);
            headers = &response_head.headers;
        }
        let mut response = Vec::new();
        if let Some(exchange_end) = &mut entry.exchange_end {
            self.headers("response trailers", &mut exchange_end.trailers);
            if let Some(error) = &mut exchange_end.error {
                *error = self.line("error", error);
            }
            let dump = file_names::response_dump(&exchange_end.id);
            let edits;
            (response, edits) = self.body("response body", &mut exchange_end.body, &dump, headers)?;
            let offsets = match edits {
                Some(edits) => edits.shift(exchange_end.reads.iter().map(|read| read.offset as usize)),
                None => vec![0; exchange_end.reads.len()], // decoded just now: the offsets are unknown
            };
            exchange_end.reads.iter_mut().zip(offsets).for_each(|(read, offset)| read.offset = offset as u64);
        }
        Ok((request, response))
    }

    fn body(
        &mut self,
        place: &str,
        stored: &mut StoredBody,
        dump: &str,
        headers: &[Header],
    ) -> Result<(Vec<u8>, Option<Edits>), OpenError> {
        if let Some(blob) = self.blobs.get(&stored.sha256).filter(|_| stored.at == BodyLocation::Blob) {
            (stored.sha256, stored.bytes) = (blob.sha256.clone(), blob.bytes);
            stored.decoded_from = stored.decoded_from.take().or_else(|| blob.decoded_from.clone());
            return Ok((Vec::new(), blob.edits.clone()));
        }
        let Body::Inline(bytes) = self.recording.body(stored, dump)? else {
            return Ok((Vec::new(), Some(Edits::default())));
        };
        let coding = body::coding(headers, &bytes).filter(|_| stored.decoded_from.is_none());
        let hints =
            BodyHints { content_type: header(headers, "content-type"), content_encoding: coding.as_deref() };
        let redacted = self.redactor.redact_body(place, hints, &bytes);
        if redacted.decoded {
            stored.decoded_from = coding.clone();
        }
        let edits = redacted.edits;
        let bytes = redacted.bytes.into_owned();
        stored.sha256 = hex(Sha256::digest(&bytes));
        stored.bytes = bytes.len() as u64;
        Ok((bytes, edits))
    }

    fn headers(&mut self, place: &str, headers: &mut [Header]) {
        for header in headers {
            if let Header::Plain { value, .. } = header {
                *value = self.line(place, value);
            }
        }
    }

    fn line(&mut self, place: &str, line: &str) -> String {
        String::from_utf8_lossy(&self.redactor.redact_text(place, line.as_bytes()).bytes).into_owned()
    }
}

/// Writes the dumps that did not reach the disk, from the data in the log.
pub(crate) fn write_missing_dumps(dir: &Path) -> Result<(), SealError> {
    let recording = open(dir)?;
    let surroundings = surroundings(&recording);
    for entry in recording.entries() {
        let missing = |name: String| !dir.join(name).exists();
        let id = &entry.request_head.id;
        if missing(file_names::request_dump(id)) || missing(file_names::response_dump(id)) {
            let body = |stored: Option<&StoredBody>, dump: String| match stored {
                Some(stored) => recording.body(stored, &dump).map_err(|source| unreadable(dir, source)),
                None => Ok(Body::Missing),
            };
            let request = body(
                entry.request_body.as_ref().map(|request_body| &request_body.body),
                file_names::request_dump(id),
            )?;
            let response = body(
                entry.exchange_end.as_ref().map(|exchange_end| &exchange_end.body),
                file_names::response_dump(id),
            )?;
            let here = |body| if let Body::Inline(bytes) = body { bytes } else { Vec::new() };
            write_dumps(dir, &surroundings, entry, here(request), here(response))?;
        }
    }
    Ok(())
}

fn open(dir: &Path) -> Result<Recording, SealError> {
    Recording::open(dir).map_err(|source| unreadable(dir, source))
}

fn unreadable(dir: &Path, source: OpenError) -> SealError {
    SealError::Unreadable { dir: dir.to_owned(), source }
}

fn surroundings(recording: &Recording) -> Surroundings {
    let manifest = recording.manifest();
    let started_at = manifest.and_then(|manifest| crate::time::parse(&manifest.started_at));
    Surroundings {
        started_at: started_at.unwrap_or(SystemTime::UNIX_EPOCH),
        workspace: manifest.and_then(|manifest| manifest.command.as_ref()).map(|command| command.cwd.clone()),
        session_header: manifest.and_then(|manifest| manifest.session_header.clone()),
    }
}

fn write_dumps(
    dir: &Path,
    surroundings: &Surroundings,
    entry: &Entry,
    request: Vec<u8>,
    response: Vec<u8>,
) -> Result<(), SealError> {
    let Some(request_body) = &entry.request_body else { return Ok(()) };
    let hints = Hints::of(
        &entry.request_head.url,
        &entry.request_head.headers,
        &request,
        surroundings.session_header.as_deref(),
    );
    let dump = surroundings.request_dump(&entry.request_head, &hints, request_body, request);
    write_dump(dir, &file_names::request_dump(&request_body.id), &dump.into_json())?;
    let Some(exchange_end) = &entry.exchange_end else { return Ok(()) };
    let dump = surroundings.response_dump(
        &entry.request_head,
        &hints,
        entry.response_head.as_ref(),
        exchange_end,
        response,
    );
    write_dump(dir, &file_names::response_dump(&exchange_end.id), &dump.into_json())
}

/// Writes a dump. A full disk is no error: the dump was lost before, too.
fn write_dump(dir: &Path, name: &str, bytes: &[u8]) -> Result<(), SealError> {
    match FolderDisk::new(dir).write(name, bytes) {
        Err(error) if !is_full(&error) => Err(SealError::Io { dir: dir.to_owned(), source: error }),
        _ => Ok(()),
    }
}

/// Returns whether the disk or the process's quota is full.
fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | FileTooLarge | QuotaExceeded)
}
