//! What is learned late is removed from what was already written.
//!
//! The log is read record by record, redacted again with everything that is known by now, and
//! written anew beside itself; the dumps follow from it.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read as _, Write as _};
use std::path::Path;
use std::time::SystemTime;

use sha2::{Digest, Sha256};
use wire::Header;
use wire::redact::{BodyHints, Redactor, Window};

use crate::body::hex;
use crate::dump::Surroundings;
use crate::folder;
use crate::hints::{Hints, header};
use crate::log::{self, Place, Reader, Record, StoredBody};
use crate::open::Recording;
use crate::recorder::Output;
use crate::seal::SealError;

/// Redacts again everything that was written.
pub(crate) fn scrub(dir: &Path, redactor: &mut Redactor) -> Result<(), SealError> {
    let failed = |source| SealError::Io { dir: dir.to_owned(), source };
    redactor.mark_late(true);
    let renamed = scrub_blobs(dir, redactor).map_err(failed)?;
    for output in [Output::Stdout, Output::Stderr] {
        let path = dir.join(output.file());
        if path.exists() {
            scrub_file(&path, output.file(), redactor).map_err(failed)?;
        }
    }
    scrub_log(dir, redactor, &renamed)?;
    rebuild_dumps(dir)
}

/// Blobs that changed, by their old digests.
fn scrub_blobs(dir: &Path, redactor: &mut Redactor) -> io::Result<HashMap<String, (String, u64)>> {
    let mut renamed = HashMap::new();
    for entry in fs::read_dir(dir.join(folder::BLOBS))? {
        let path = entry?.path();
        let old = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (new, bytes) = scrub_file(&path, &folder::blob(&old), redactor)?;
        if new != old {
            fs::rename(&path, dir.join(folder::blob(&new)))?;
            renamed.insert(old, (new, bytes));
        }
    }
    Ok(renamed)
}

/// Redacts one file in place, through a window; returns its digest and size afterwards.
fn scrub_file(path: &Path, name: &str, redactor: &mut Redactor) -> io::Result<(String, u64)> {
    let beside = path.with_extension("scrubbed");
    let mut input = BufReader::with_capacity(1 << 20, File::open(path)?);
    let mut output = BufWriter::new(File::create(&beside)?);
    let mut window = Window::new(name, None);
    let mut hasher = Sha256::new();
    let mut size = 0;
    let mut piece = vec![0; 1 << 20];
    loop {
        let read = input.read(&mut piece)?;
        let ready = if read == 0 { window.finish(redactor) } else { window.push(redactor, &piece[..read]) };
        hasher.update(&ready);
        size += ready.len() as u64;
        output.write_all(&ready)?;
        if read == 0 {
            break;
        }
    }
    output.flush()?;
    fs::rename(&beside, path)?;
    Ok((hex(hasher.finalize()), size))
}

fn scrub_log(
    dir: &Path,
    redactor: &mut Redactor,
    blobs: &HashMap<String, (String, u64)>,
) -> Result<(), SealError> {
    let failed = |source| SealError::Io { dir: dir.to_owned(), source };
    let path = dir.join(folder::LOG);
    let beside = dir.join(".exchanges.log");
    let mut output = BufWriter::new(File::create(&beside).map_err(failed)?);
    let mut reader = Reader::new(BufReader::with_capacity(1 << 20, File::open(&path).map_err(failed)?));
    let mut scrubber = Scrubber { redactor, blobs, requests: HashMap::new(), responses: HashMap::new() };
    while let Some(found) = reader.next().map_err(|source| SealError::Log { dir: dir.to_owned(), source })? {
        let (record, payload) = scrubber.record(found.record, found.payload);
        output.write_all(&log::encode(&record, &payload)).map_err(failed)?;
    }
    output.flush().map_err(failed)?;
    fs::rename(&beside, &path).map_err(failed)
}

struct Scrubber<'a> {
    redactor: &'a mut Redactor,
    blobs: &'a HashMap<String, (String, u64)>,
    /// Content type and coding of the bodies to come, by exchange.
    requests: HashMap<String, [Option<String>; 2]>,
    responses: HashMap<String, [Option<String>; 2]>,
}

impl Scrubber<'_> {
    fn record(&mut self, record: Record, payload: Vec<u8>) -> (Record, Vec<u8>) {
        match record {
            Record::Opened(opened) => (Record::Opened(opened), payload),
            Record::Arrived(mut arrived) => {
                self.headers("request headers", &mut arrived.headers);
                arrived.url = self.redactor.url("request address", &arrived.url);
                self.requests.insert(arrived.id.clone(), described(&arrived.headers));
                (Record::Arrived(arrived), payload)
            }
            Record::Asked(mut asked) => {
                let hints = self.requests.remove(&asked.id).unwrap_or_default();
                let (payload, _) = self.body("request body", &mut asked.body, &hints, payload);
                (Record::Asked(asked), payload)
            }
            Record::Answered(mut answered) => {
                self.headers("response headers", &mut answered.headers);
                self.responses.insert(answered.id.clone(), described(&answered.headers));
                (Record::Answered(answered), payload)
            }
            Record::Ended(mut ended) => {
                let hints = self.responses.remove(&ended.id).unwrap_or_default();
                self.headers("response trailers", &mut ended.trailers);
                if let Some(error) = &mut ended.error {
                    *error = self.line("error", error);
                }
                let (payload, edits) = self.body("response body", &mut ended.body, &hints, payload);
                if let Some(edits) = edits {
                    let offsets = edits.shift(ended.reads.iter().map(|read| read.offset as usize));
                    ended
                        .reads
                        .iter_mut()
                        .zip(offsets)
                        .for_each(|(read, offset)| read.offset = offset as u64);
                }
                (Record::Ended(ended), payload)
            }
        }
    }

    fn body(
        &mut self,
        place: &str,
        stored: &mut StoredBody,
        [content_type, content_encoding]: &[Option<String>; 2],
        payload: Vec<u8>,
    ) -> (Vec<u8>, Option<wire::json::Edits>) {
        if let Some((sha256, bytes)) = self.blobs.get(&stored.sha256).filter(|_| stored.at == Place::Blob) {
            (stored.sha256, stored.bytes) = (sha256.clone(), *bytes);
        }
        if stored.at != Place::Payload {
            return (payload, None);
        }
        let encoding = content_encoding.as_deref().filter(|_| stored.decoded_from.is_none());
        let hints = BodyHints { content_type: content_type.as_deref(), content_encoding: encoding };
        let redacted = self.redactor.body(place, hints, &payload);
        if redacted.decoded {
            stored.decoded_from = content_encoding.clone();
        }
        let bytes = redacted.bytes.into_owned();
        stored.sha256 = hex(Sha256::digest(&bytes));
        stored.bytes = bytes.len() as u64;
        (bytes, redacted.edits)
    }

    fn headers(&mut self, place: &str, headers: &mut [Header]) {
        for header in headers {
            if let Header::Plain { value, .. } = header {
                *value = self.line(place, value);
            }
        }
    }

    fn line(&mut self, place: &str, line: &str) -> String {
        String::from_utf8_lossy(&self.redactor.text(place, line.as_bytes()).bytes).into_owned()
    }
}

fn described(headers: &[Header]) -> [Option<String>; 2] {
    ["content-type", "content-encoding"].map(|name| header(headers, name).map(str::to_owned))
}

/// Writes all dumps anew from the log.
pub(crate) fn rebuild_dumps(dir: &Path) -> Result<(), SealError> {
    let unreadable = |source| SealError::Unreadable { dir: dir.to_owned(), source };
    let recording = Recording::open(dir).map_err(unreadable)?;
    let manifest = recording.manifest();
    let surroundings = Surroundings {
        started_at: manifest
            .and_then(|manifest| crate::time::parse(&manifest.started_at))
            .unwrap_or(SystemTime::UNIX_EPOCH),
        workspace: manifest.and_then(|manifest| manifest.command.as_ref()).map(|command| command.cwd.clone()),
    };
    for entry in recording.entries() {
        let Some((asked, at)) = &entry.asked else { continue };
        let payload = |stored: &StoredBody, at| match stored.at {
            Place::Payload => recording.payload(at, stored.bytes),
            _ => Ok(Vec::new()),
        };
        let request = payload(&asked.body, *at).map_err(unreadable)?;
        let hints = Hints::of(&entry.arrived.url, &entry.arrived.headers, &request);
        let dump = surroundings.request_dump(&entry.arrived, &hints, asked, request);
        write_dump(dir, &folder::request_dump(&asked.id), &dump)?;
        if let Some((ended, at)) = &entry.ended {
            let response = payload(&ended.body, *at).map_err(unreadable)?;
            let dump =
                surroundings.response_dump(&entry.arrived, &hints, entry.answered.as_ref(), ended, response);
            write_dump(dir, &folder::response_dump(&ended.id), &dump)?;
        }
    }
    Ok(())
}

/// A dump that the disk does not take is one that was lost before; the log has it all the same.
fn write_dump(dir: &Path, name: &str, dump: &impl serde::Serialize) -> Result<(), SealError> {
    let bytes = serde_json::to_vec(dump).expect("a dump has only string keys");
    match fs::write(dir.join(name), bytes) {
        Err(error) if error.kind() == io::ErrorKind::StorageFull => {
            let _ = fs::remove_file(dir.join(name)); // half a dump is worse than none
            Ok(())
        }
        Err(source) => Err(SealError::Io { dir: dir.to_owned(), source }),
        Ok(()) => Ok(()),
    }
}
