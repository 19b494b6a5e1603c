//! Reads recordings, sealed or not.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use wire::json::{Document, MAX_DEPTH};
use wire::{Body, Ending, Exchange, Header, Request, Response};

use crate::body::sha256;
use crate::bounds;
use crate::digests::digests;
use crate::dump::{BodyDump, DumpError, RequestDump, ResponseDump};
use crate::error::OpenError;
use crate::file_names;
use crate::log::{
    BodyLocation, ExchangeEndRecord, LogError, LogRecord, Reader, RequestBodyRecord, RequestHeadRecord,
    ResponseHeadRecord, StoredBody,
};
use crate::manifest::{Manifest, ParsedManifest};

/// State of a recording's seal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SealState {
    /// The recording is sealed.
    Sealed,
    /// The recording is not sealed and holds what reached the disk.
    Unsealed {
        /// Reason, as far as known.
        because: String,
    },
}

/// Open recording. Bodies stay on disk until they are loaded.
#[derive(Debug)]
pub struct Recording {
    dir: PathBuf,
    manifest: Option<Manifest>,
    state: SealState,
    entries: Vec<Entry>,
    /// Length of the incomplete record at the end of the log.
    torn_bytes: u64,
}

/// Records of one exchange in the log.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) request_head: RequestHeadRecord,
    pub(crate) request_body: Option<RequestBodyRecord>,
    pub(crate) response_head: Option<ResponseHeadRecord>,
    pub(crate) exchange_end: Option<ExchangeEndRecord>,
}

impl Entry {
    /// Returns the stored bodies that arrived, each with its dump and its headers.
    pub(crate) fn bodies(&self) -> impl Iterator<Item = (&StoredBody, String, &[Header])> {
        let request_body = self.request_body.as_ref().map(|request_body| {
            (
                &request_body.body,
                file_names::request_dump(&request_body.id),
                self.request_head.headers.as_slice(),
            )
        });
        let response_head =
            self.response_head.as_ref().map_or(&[][..], |response_head| &response_head.headers);
        let exchange_end = self.exchange_end.as_ref().map(|exchange_end| {
            (&exchange_end.body, file_names::response_dump(&exchange_end.id), response_head)
        });
        request_body.into_iter().chain(exchange_end)
    }
}

impl Recording {
    /// Opens the recording in `dir` without changing it.
    pub fn open(dir: &Path) -> Result<Self, OpenError> {
        if !dir.is_dir() {
            return Err(match dir.exists() {
                true => OpenError::NotAFolder { path: dir.to_owned() },
                false => OpenError::Missing { dir: dir.to_owned() },
            });
        }
        let log = dir.join(file_names::LOG);
        let (manifest, mut state) = read_manifest(dir)?;
        if manifest.is_none() && !log.exists() {
            return Err(OpenError::NotARecording { dir: dir.to_owned() });
        }
        let (entries, torn_bytes) = match bounds::open(dir, file_names::LOG, u64::MAX)? {
            Some((file, path)) => read_log(file).map_err(|source| OpenError::Log { path, source })?,
            None => (Vec::new(), 0),
        };
        if torn_bytes > 0 && state == SealState::Sealed {
            state = SealState::Unsealed { because: "the log was damaged after sealing".into() };
        }
        Ok(Self { dir: dir.to_owned(), manifest, state, entries, torn_bytes })
    }

    /// Returns the state of the seal.
    pub fn state(&self) -> &SealState {
        &self.state
    }

    /// Returns the manifest if there is one.
    pub fn manifest(&self) -> Option<&Manifest> {
        self.manifest.as_ref()
    }

    /// Returns pairs of names that a replay had to map: the name in the replayed recording, and the name in
    /// this one.
    pub fn replayed_names(&self) -> Vec<(String, String)> {
        #[derive(serde::Deserialize)]
        struct Report {
            mapped: Vec<(String, String)>,
        }
        let report = bounds::read(&self.dir, file_names::REPLAY, bounds::LONGEST_DUMP).ok().flatten();
        let report = report.and_then(|report| serde_json::from_slice::<Report>(&report).ok());
        report.map(|report| report.mapped).unwrap_or_default()
    }

    /// Returns the length of the incomplete record at the end of the log.
    pub fn torn_bytes(&self) -> u64 {
        self.torn_bytes
    }

    /// Returns the number of exchanges.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether there are no exchanges.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Loads the exchanges one by one, in the order of their arrival.
    pub fn exchanges(&self) -> impl Iterator<Item = Result<Exchange, OpenError>> {
        self.entries.iter().map(|entry| self.load(entry))
    }

    /// Returns whether the `n`th exchange (from 0) had ended when the recording stopped.
    pub fn has_ended(&self, n: usize) -> bool {
        self.entries.get(n).is_some_and(|entry| entry.exchange_end.is_some())
    }

    /// Returns the error of the `n`th exchange (from 0), if any.
    pub fn error(&self, n: usize) -> Option<&str> {
        self.entries.get(n)?.exchange_end.as_ref()?.error.as_deref()
    }

    /// Returns the start and end of the `n`th exchange (from 0) in microseconds since the recording's start.
    pub fn times(&self, n: usize) -> Option<(u64, Option<u64>)> {
        self.entries.get(n).map(|entry| {
            (entry.request_head.us, entry.exchange_end.as_ref().map(|exchange_end| exchange_end.us))
        })
    }

    /// Returns how many microseconds the `n`th request (from 0) took to arrive.
    pub fn sending(&self, n: usize) -> Option<u64> {
        let entry = self.entries.get(n)?;
        Some(entry.request_body.as_ref()?.us.saturating_sub(entry.request_head.us))
    }

    /// Returns the bytes of a body, from its blob if needed; `None` if they are lost.
    pub fn bytes_of(&self, body: &Body) -> Result<Option<Vec<u8>>, OpenError> {
        match body {
            Body::Inline(bytes) => Ok(Some(bytes.clone())),
            Body::Missing => Ok(None),
            Body::Blob { sha256, .. } => {
                let gone = || damaged(self.dir.join(file_names::blob(sha256)), "it is gone");
                bounds::blob(&self.dir, sha256)?.map(Some).ok_or_else(gone)
            }
        }
    }

    /// Returns the files that were changed, removed or added after sealing.
    pub fn damage(&self) -> Result<Vec<String>, OpenError> {
        let Some(manifest) = self.manifest.as_ref().filter(|manifest| manifest.sealed) else {
            return Ok(Vec::new());
        };
        let found = digests(&self.dir).map_err(|source| OpenError::Io { path: self.dir.clone(), source })?;
        let changed = manifest.digests.iter().filter_map(|(name, digest)| match found.get(name) {
            None => Some(format!("`{name}` is gone")),
            Some(now) if now != digest => Some(format!("`{name}` was changed")),
            Some(_) => None,
        });
        let new = found.keys().filter(|name| !manifest.digests.contains_key(*name));
        Ok(changed.chain(new.map(|name| format!("`{name}` is new"))).collect())
    }

    /// Returns the manifest of a recording that was sealed without losses, so that its log has every exchange.
    pub(crate) fn kept_whole(&self) -> Option<&Manifest> {
        self.manifest.as_ref().filter(|manifest| manifest.sealed && manifest.lost.is_empty())
    }

    /// Checks that every file that the log names exists and matches it, and that nothing in the folder leads
    /// out of it.
    pub(crate) fn check_entries(&self) -> Result<(), OpenError> {
        bounds::check_entries(&self.dir, "")?;
        let log = self.dir.join(file_names::LOG);
        let sealed = self.manifest.as_ref().filter(|manifest| manifest.sealed);
        if self.torn_bytes > 0 && sealed.is_some() {
            return Err(damaged(log, "it was truncated after sealing"));
        }
        if let Some(manifest) = self.kept_whole()
            && manifest.counts.exchanges != self.len() as u64
        {
            let (sealed, now) = (manifest.counts.exchanges, self.len());
            if !log.exists() {
                return Err(OpenError::Gone { path: log });
            }
            return Err(damaged(log, &format!("it has {now} of {sealed} sealed exchanges")));
        }
        self.check_text(file_names::SCENARIO, |text| {
            Document::parse(text).err().map(|error| error.to_string())
        })?;
        self.check_text(file_names::EXIT_CODE, |text| {
            let is_number = std::str::from_utf8(text).is_ok_and(|text| text.trim().parse::<i32>().is_ok());
            (!is_number).then(|| "it is not a number".to_owned())
        })?;
        for entry in &self.entries {
            if let Some(request_body) = &entry.request_body {
                let bytes = |dump: &[u8]| RequestDump::read(dump).map(|dump| dump.body.bytes());
                self.check_file(&request_body.body, &file_names::request_dump(&request_body.id), bytes)?;
            }
            if let Some(exchange_end) = &entry.exchange_end {
                let bytes = |dump: &[u8]| ResponseDump::read(dump).map(|dump| dump.body.bytes());
                self.check_file(&exchange_end.body, &file_names::response_dump(&exchange_end.id), bytes)?;
            }
        }
        Ok(())
    }

    /// Checks a small text file, if it exists. `wrong` returns the reason if it is invalid.
    fn check_text(&self, name: &str, wrong: impl Fn(&[u8]) -> Option<String>) -> Result<(), OpenError> {
        let Some(text) = bounds::read(&self.dir, name, bounds::LONGEST_TEXT)? else { return Ok(()) };
        let Some(why) = wrong(&text) else { return Ok(()) };
        let source = io::Error::new(io::ErrorKind::InvalidData, why);
        Err(OpenError::Io { path: self.dir.join(name), source })
    }

    fn check_file(
        &self,
        stored: &StoredBody,
        dump: &str,
        body: impl FnOnce(&[u8]) -> Result<Option<Vec<u8>>, DumpError>,
    ) -> Result<(), OpenError> {
        let not_whole = |name: &str, why: &str| damaged(self.dir.join(name), why);
        match stored.at {
            BodyLocation::Lost => Ok(()),
            BodyLocation::Blob if !bounds::is_digest(&stored.sha256) => {
                Err(OpenError::Outside { path: self.dir.join(file_names::blob(&stored.sha256)) })
            }
            BodyLocation::Blob => {
                let name = file_names::blob(&stored.sha256);
                match bounds::file(&self.dir, &name)? {
                    None => Err(not_whole(&name, "it is gone")),
                    Some((path, length)) if length > bounds::LONGEST_BODY => {
                        Err(OpenError::TooLong { path, longest: bounds::LONGEST_BODY })
                    }
                    Some((_, length)) if length != stored.bytes => {
                        let why = format!("it has {length} bytes, and had {}", stored.bytes);
                        Err(not_whole(&name, &why))
                    }
                    Some(_) => Ok(()),
                }
            }
            BodyLocation::Dump => {
                let bytes = bounds::read(&self.dir, dump, bounds::LONGEST_DUMP)?;
                let bytes = bytes.ok_or_else(|| not_whole(dump, "it is gone"))?;
                match body(&bytes) {
                    // A body that is nested too deeply is kept if it was sent like that, but must not be put
                    // there later.
                    Ok(Some(body)) if is_too_deep(&body) && sha256(&body) != stored.sha256 => {
                        Err(not_whole(dump, "its body was changed and is nested too deeply"))
                    }
                    Ok(Some(_)) => Ok(()),
                    Ok(None) => Err(not_whole(dump, "it has no readable body")),
                    Err(error) => {
                        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
                        Err(not_whole(dump, &format!("{error}{}", cause.unwrap_or_default())))
                    }
                }
            }
        }
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    fn load(&self, entry: &Entry) -> Result<Exchange, OpenError> {
        let request_body = match &entry.request_body {
            Some(request_body) => {
                self.body(&request_body.body, &file_names::request_dump(&request_body.id))?
            }
            None => Body::Missing,
        };
        let response = match (&entry.response_head, &entry.exchange_end) {
            (Some(response_head), Some(exchange_end)) => Some(Response {
                status: response_head.status,
                headers: response_head.headers.clone(),
                body: self.body(&exchange_end.body, &file_names::response_dump(&exchange_end.id))?,
                trailers: exchange_end.trailers.clone(),
                reads: exchange_end.reads.clone(),
            }),
            (Some(response_head), None) => Some(Response {
                status: response_head.status,
                headers: response_head.headers.clone(),
                body: Body::Missing,
                trailers: Vec::new(),
                reads: Vec::new(),
            }),
            (None, _) => None,
        };
        Ok(Exchange {
            id: session::RequestId::new(entry.request_head.id.clone()),
            request: Request {
                method: entry.request_head.method.clone(),
                url: entry.request_head.url.clone(),
                headers: entry.request_head.headers.clone(),
                body: request_body,
                trailers: entry
                    .request_body
                    .as_ref()
                    .map_or_else(Vec::new, |request_body| request_body.trailers.clone()),
            },
            response,
            ending: entry
                .exchange_end
                .as_ref()
                .map_or(Ending::NoResponse, |exchange_end| exchange_end.ending),
        })
    }

    pub(crate) fn body(&self, stored: &StoredBody, dump: &str) -> Result<Body, OpenError> {
        Ok(match stored.at {
            BodyLocation::Dump => self.dumped(dump)?.map_or(Body::Missing, Body::Inline),
            BodyLocation::Blob => Body::Blob { sha256: stored.sha256.clone(), bytes: stored.bytes },
            BodyLocation::Lost => Body::Missing,
        })
    }

    /// Reads the body in a dump; returns `None` if the dump is missing or has no body.
    fn dumped(&self, name: &str) -> Result<Option<Vec<u8>>, OpenError> {
        #[derive(Deserialize)]
        struct Dump {
            body: BodyDump,
        }
        let Some(bytes) = bounds::read(&self.dir, name, bounds::LONGEST_DUMP)? else { return Ok(None) };
        let dump: Dump = serde_json::from_slice(&bytes)
            .map_err(|error| OpenError::Io { path: self.dir.join(name), source: error.into() })?;
        Ok(dump.body.bytes())
    }
}

/// Returns whether a body is nested too deeply to parse. Counting brackets first avoids parsing most bodies.
fn is_too_deep(body: &[u8]) -> bool {
    let opens = body.iter().filter(|byte| matches!(byte, b'[' | b'{')).count();
    opens > MAX_DEPTH && Document::parse(body).is_err_and(|error| error.what == "nested too deep")
}

fn damaged(path: PathBuf, why: &str) -> OpenError {
    OpenError::Damaged { path, why: why.to_owned() }
}

fn read_manifest(dir: &Path) -> Result<(Option<Manifest>, SealState), OpenError> {
    let path = dir.join(file_names::MANIFEST);
    let Some(bytes) = bounds::read(dir, file_names::MANIFEST, bounds::LONGEST_TEXT)? else {
        return Ok((None, SealState::Unsealed { because: "it has no `recording.json`".into() }));
    };
    match Manifest::read(&bytes) {
        ParsedManifest::Valid(manifest) if manifest.sealed => Ok((Some(*manifest), SealState::Sealed)),
        ParsedManifest::Valid(manifest) => {
            let because = manifest.unsealed_because.clone().unwrap_or_else(|| "it was never sealed".into());
            Ok((Some(*manifest), SealState::Unsealed { because }))
        }
        ParsedManifest::Newer(format) => Err(OpenError::Newer { dir: dir.to_owned(), format }),
        // The manifest is replaced by a rename, so a killed recorder leaves no half-written one.
        ParsedManifest::Invalid(why) => Err(OpenError::Manifest { path, why }),
    }
}

/// Reads the exchanges of a log in the order of arrival, and the length of the incomplete record at its end.
fn read_log(file: File) -> Result<(Vec<Entry>, u64), LogError> {
    let length = file.metadata()?.len();
    let mut reader = Reader::new(BufReader::with_capacity(1 << 20, file));
    let mut entries: Vec<Entry> = Vec::new();
    let mut places = std::collections::HashMap::new();
    while let Some(record) = reader.next()? {
        match record {
            LogRecord::LogStart(_) => {}
            LogRecord::RequestHead(request_head) => {
                if !bounds::is_id(&request_head.id) || places.contains_key(&request_head.id) {
                    return Err(LogError::BadId { id: request_head.id });
                }
                places.insert(request_head.id.clone(), entries.len());
                entries.push(Entry {
                    request_head,
                    request_body: None,
                    response_head: None,
                    exchange_end: None,
                });
            }
            // The exchange's first record was lost. The manifest lists that loss.
            LogRecord::RequestBody(request_body) => {
                if let Some(&at) = places.get(&request_body.id) {
                    entries[at].request_body = Some(request_body);
                }
            }
            LogRecord::ResponseHead(response_head) => {
                if let Some(&at) = places.get(&response_head.id) {
                    entries[at].response_head = Some(response_head);
                }
            }
            LogRecord::ExchangeEnd(exchange_end) => {
                if let Some(&at) = places.get(&exchange_end.id) {
                    entries[at].exchange_end = Some(exchange_end);
                }
            }
        }
    }
    let good = reader.offset();
    Ok((entries, if reader.torn { length - good } else { 0 }))
}
