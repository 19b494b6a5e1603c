//! Reading a recording back, sealed or not.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use thiserror::Error;
use wire::json::{Document, MAX_DEPTH};
use wire::{Body, Ending, Exchange, Header, Request, Response};

use crate::body::sha256;
use crate::bounds;
use crate::dump::{BodyDump, DumpError, RequestDump, ResponseDump};
use crate::folder;
use crate::log::{Answered, Arrived, Asked, Ended, LogError, Place, Reader, Record, StoredBody};
use crate::manifest::{Manifest, Reading};
use crate::seal::digests;

/// A folder that cannot be read as a recording.
#[derive(Debug, Error)]
pub enum OpenError {
    /// There is no such folder.
    #[error("there is no folder `{}`", dir.display())]
    Missing {
        /// The folder.
        dir: PathBuf,
    },
    /// Something else has its place.
    #[error("`{}` is a file, and a recording is a folder", path.display())]
    NotAFolder {
        /// What is there.
        path: PathBuf,
    },
    /// It holds neither manifest nor log.
    #[error("`{}` is not a recording: it holds neither `recording.json` nor `exchanges.log`", dir.display())]
    NotARecording {
        /// The folder.
        dir: PathBuf,
    },
    /// Written by a newer version.
    #[error("`{}` was written by a newer version of offshoot (format {format})", dir.display())]
    Newer {
        /// The folder.
        dir: PathBuf,
        /// The format it has.
        format: u32,
    },
    /// The log cannot be read.
    #[error("cannot read `{}`", path.display())]
    Log {
        /// The log.
        path: PathBuf,
        /// Why.
        #[source]
        source: LogError,
    },
    /// The manifest is not one.
    #[error("`{}` is not the manifest of a recording: {why}", path.display())]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A file is not what the log says it is.
    #[error("`{}` is damaged: {why}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A file that was sealed is not there.
    #[error("`{}` is missing, and was there when the recording was sealed", path.display())]
    Gone {
        /// The file.
        path: PathBuf,
    },
    /// Something names a file elsewhere.
    #[error("`{}` leads out of the recording's folder", path.display())]
    Outside {
        /// What was named.
        path: PathBuf,
    },
    /// There is something that can neither be read nor walked through.
    #[error("`{}` is neither a file nor a folder", path.display())]
    NotAFile {
        /// It.
        path: PathBuf,
    },
    /// A file is too long to be what it should be.
    #[error("`{}` is longer than such a file can be ({longest} bytes)", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// The longest there can be.
        longest: u64,
    },
    /// A file cannot be read.
    #[error("cannot read `{}`", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Whether a recording can be trusted to be what was sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It was sealed.
    Sealed,
    /// It was not; what it holds is what reached the disk.
    Unsealed {
        /// Why, as far as that is known.
        because: String,
    },
}

/// An open recording. Bodies stay on disk until they are asked for.
#[derive(Debug)]
pub struct Recording {
    dir: PathBuf,
    manifest: Option<Manifest>,
    state: State,
    entries: Vec<Entry>,
    /// Bytes at the end of the log that are no whole record.
    torn_bytes: u64,
}

/// One exchange in the log.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) arrived: Arrived,
    pub(crate) asked: Option<Asked>,
    pub(crate) answered: Option<Answered>,
    pub(crate) ended: Option<Ended>,
}

impl Entry {
    /// Its bodies, as far as they came: where each is, its dump, and the headers that describe it.
    pub(crate) fn bodies(&self) -> impl Iterator<Item = (&StoredBody, String, &[Header])> {
        let asked = self
            .asked
            .as_ref()
            .map(|asked| (&asked.body, folder::request_dump(&asked.id), self.arrived.headers.as_slice()));
        let answered = self.answered.as_ref().map_or(&[][..], |answered| &answered.headers);
        let ended =
            self.ended.as_ref().map(|ended| (&ended.body, folder::response_dump(&ended.id), answered));
        asked.into_iter().chain(ended)
    }
}

impl Recording {
    /// Opens the recording in `dir`. Nothing is changed on disk.
    pub fn open(dir: &Path) -> Result<Self, OpenError> {
        if !dir.is_dir() {
            return Err(match dir.exists() {
                true => OpenError::NotAFolder { path: dir.to_owned() },
                false => OpenError::Missing { dir: dir.to_owned() },
            });
        }
        let log = dir.join(folder::LOG);
        let (manifest, mut state) = read_manifest(dir)?;
        if manifest.is_none() && !log.exists() {
            return Err(OpenError::NotARecording { dir: dir.to_owned() });
        }
        let (entries, torn_bytes) = match bounds::open(dir, folder::LOG, u64::MAX)? {
            Some((file, path)) => read_log(file).map_err(|source| OpenError::Log { path, source })?,
            None => (Vec::new(), 0),
        };
        if torn_bytes > 0 && state == State::Sealed {
            state = State::Unsealed { because: "the log was damaged after sealing".into() };
        }
        Ok(Self { dir: dir.to_owned(), manifest, state, entries, torn_bytes })
    }

    /// Whether it is sealed.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The manifest, where it can be read.
    pub fn manifest(&self) -> Option<&Manifest> {
        self.manifest.as_ref()
    }

    /// The names that a replay had to make anew: the one in the recording that was played, and the one here.
    pub fn named_anew(&self) -> Vec<(String, String)> {
        #[derive(serde::Deserialize)]
        struct Report {
            mapped: Vec<(String, String)>,
        }
        let report = bounds::read(&self.dir, folder::REPLAY, bounds::LONGEST_DUMP).ok().flatten();
        let report = report.and_then(|report| serde_json::from_slice::<Report>(&report).ok());
        report.map(|report| report.mapped).unwrap_or_default()
    }

    /// How many bytes at the end of the log are not a whole record.
    pub fn torn_bytes(&self) -> u64 {
        self.torn_bytes
    }

    /// How many exchanges it holds.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it holds no exchange.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The exchanges in the order of their arrival, each loaded when it is reached.
    pub fn exchanges(&self) -> impl Iterator<Item = Result<Exchange, OpenError>> {
        self.entries.iter().map(|entry| self.load(entry))
    }

    /// Whether the `n`th exchange (from 0) had ended when the recording stopped.
    pub fn has_ended(&self, n: usize) -> bool {
        self.entries.get(n).is_some_and(|entry| entry.ended.is_some())
    }

    /// What went wrong with the `n`th exchange (from 0), where something did.
    pub fn error(&self, n: usize) -> Option<&str> {
        self.entries.get(n)?.ended.as_ref()?.error.as_deref()
    }

    /// When the `n`th exchange (from 0) arrived and when it ended, in microseconds since the start.
    pub fn times(&self, n: usize) -> Option<(u64, Option<u64>)> {
        self.entries.get(n).map(|entry| (entry.arrived.us, entry.ended.as_ref().map(|ended| ended.us)))
    }

    /// How long the request of the `n`th exchange (from 0) took to arrive, in microseconds.
    pub fn sending(&self, n: usize) -> Option<u64> {
        let entry = self.entries.get(n)?;
        Some(entry.asked.as_ref()?.us.saturating_sub(entry.arrived.us))
    }

    /// The bytes of a body, from its blob where it is in one; `None` where it is lost.
    pub fn bytes_of(&self, body: &Body) -> Result<Option<Vec<u8>>, OpenError> {
        match body {
            Body::Inline(bytes) => Ok(Some(bytes.clone())),
            Body::Missing => Ok(None),
            Body::Blob { sha256, .. } => {
                let gone = || damaged(self.dir.join(folder::blob(sha256)), "it is gone");
                bounds::blob(&self.dir, sha256)?.map(Some).ok_or_else(gone)
            }
        }
    }

    /// The files that are not what they were when the recording was sealed: changed, gone or new.
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

    /// The manifest of a recording that was sealed without a loss: its log had every exchange.
    pub(crate) fn kept_whole(&self) -> Option<&Manifest> {
        self.manifest.as_ref().filter(|manifest| manifest.sealed && manifest.lost.is_empty())
    }

    /// Whether every file that the log speaks of is there and is what it should be; and nothing in the folder leads
    /// out of it.
    pub(crate) fn look_through(&self) -> Result<(), OpenError> {
        bounds::look_through(&self.dir, "")?;
        let log = self.dir.join(folder::LOG);
        let sealed = self.manifest.as_ref().filter(|manifest| manifest.sealed);
        if self.torn_bytes > 0 && sealed.is_some() {
            return Err(damaged(log, "it was whole when the recording was sealed, and is cut off now"));
        }
        if let Some(manifest) = self.kept_whole()
            && manifest.counts.exchanges != self.len() as u64
        {
            let (sealed, now) = (manifest.counts.exchanges, self.len());
            if !log.exists() {
                return Err(OpenError::Gone { path: log });
            }
            return Err(damaged(log, &format!("{sealed} exchanges were sealed, and it has {now}")));
        }
        self.look_at_text(folder::SCENARIO, |text| {
            Document::parse(text).err().map(|error| error.to_string())
        })?;
        self.look_at_text(folder::EXIT_CODE, |text| {
            let is_number = std::str::from_utf8(text).is_ok_and(|text| text.trim().parse::<i32>().is_ok());
            (!is_number).then(|| "it is no number".to_owned())
        })?;
        for entry in &self.entries {
            if let Some(asked) = &entry.asked {
                let bytes = |dump: &[u8]| RequestDump::read(dump).map(|dump| dump.body.bytes());
                self.look_at(&asked.body, &folder::request_dump(&asked.id), bytes)?;
            }
            if let Some(ended) = &entry.ended {
                let bytes = |dump: &[u8]| ResponseDump::read(dump).map(|dump| dump.body.bytes());
                self.look_at(&ended.body, &folder::response_dump(&ended.id), bytes)?;
            }
        }
        Ok(())
    }

    /// A file of ours beside the exchanges, where there is one: `wrong` says what is wrong with it.
    fn look_at_text(&self, name: &str, wrong: impl Fn(&[u8]) -> Option<String>) -> Result<(), OpenError> {
        let Some(text) = bounds::read(&self.dir, name, bounds::LONGEST_TEXT)? else { return Ok(()) };
        let Some(why) = wrong(&text) else { return Ok(()) };
        let source = io::Error::new(io::ErrorKind::InvalidData, why);
        Err(OpenError::Io { path: self.dir.join(name), source })
    }

    fn look_at(
        &self,
        stored: &StoredBody,
        dump: &str,
        body: impl FnOnce(&[u8]) -> Result<Option<Vec<u8>>, DumpError>,
    ) -> Result<(), OpenError> {
        let not_whole = |name: &str, why: &str| damaged(self.dir.join(name), why);
        match stored.at {
            Place::Lost => Ok(()),
            Place::Blob if !bounds::is_digest(&stored.sha256) => {
                Err(OpenError::Outside { path: self.dir.join(folder::blob(&stored.sha256)) })
            }
            Place::Blob => {
                let name = folder::blob(&stored.sha256);
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
            Place::Dump => {
                let bytes = bounds::read(&self.dir, dump, bounds::LONGEST_DUMP)?;
                let bytes = bytes.ok_or_else(|| not_whole(dump, "it is gone"))?;
                match body(&bytes) {
                    // Such a body may have been sent, and then it is kept; but not one that was put there later.
                    Ok(Some(body)) if is_too_deep(&body) && sha256(&body) != stored.sha256 => {
                        Err(not_whole(dump, "its body was changed, and is nested too deep to be read"))
                    }
                    Ok(Some(_)) => Ok(()),
                    Ok(None) => Err(not_whole(dump, "it holds no body that can be read")),
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
        let request_body = match &entry.asked {
            Some(asked) => self.body(&asked.body, &folder::request_dump(&asked.id))?,
            None => Body::Missing,
        };
        let response = match (&entry.answered, &entry.ended) {
            (Some(answered), Some(ended)) => Some(Response {
                status: answered.status,
                headers: answered.headers.clone(),
                body: self.body(&ended.body, &folder::response_dump(&ended.id))?,
                trailers: ended.trailers.clone(),
                reads: ended.reads.clone(),
            }),
            (Some(answered), None) => Some(Response {
                status: answered.status,
                headers: answered.headers.clone(),
                body: Body::Missing,
                trailers: Vec::new(),
                reads: Vec::new(),
            }),
            (None, _) => None,
        };
        Ok(Exchange {
            id: session::RequestId::new(entry.arrived.id.clone()),
            request: Request {
                method: entry.arrived.method.clone(),
                url: entry.arrived.url.clone(),
                headers: entry.arrived.headers.clone(),
                body: request_body,
                trailers: entry.asked.as_ref().map_or_else(Vec::new, |asked| asked.trailers.clone()),
            },
            response,
            ending: entry.ended.as_ref().map_or(Ending::NoResponse, |ended| ended.ending),
        })
    }

    pub(crate) fn body(&self, stored: &StoredBody, dump: &str) -> Result<Body, OpenError> {
        Ok(match stored.at {
            Place::Dump => self.dumped(dump)?.map_or(Body::Missing, Body::Inline),
            Place::Blob => Body::Blob { sha256: stored.sha256.clone(), bytes: stored.bytes },
            Place::Lost => Body::Missing,
        })
    }

    /// The body in a dump; `None` where the dump is gone or holds none.
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

/// Whether a body opens more lists and objects than any reader of it follows. Most are told by how many there are.
fn is_too_deep(body: &[u8]) -> bool {
    let opens = body.iter().filter(|byte| matches!(byte, b'[' | b'{')).count();
    opens > MAX_DEPTH && Document::parse(body).is_err_and(|error| error.what == "nested too deep")
}

fn damaged(path: PathBuf, why: &str) -> OpenError {
    OpenError::Damaged { path, why: why.to_owned() }
}

fn read_manifest(dir: &Path) -> Result<(Option<Manifest>, State), OpenError> {
    let path = dir.join(folder::MANIFEST);
    let Some(bytes) = bounds::read(dir, folder::MANIFEST, bounds::LONGEST_TEXT)? else {
        return Ok((None, State::Unsealed { because: "it has no `recording.json`".into() }));
    };
    match Manifest::read(&bytes) {
        Reading::Good(manifest) if manifest.sealed => Ok((Some(*manifest), State::Sealed)),
        Reading::Good(manifest) => {
            let because = manifest.unsealed_because.clone().unwrap_or_else(|| "it was never sealed".into());
            Ok((Some(*manifest), State::Unsealed { because }))
        }
        Reading::Newer(format) => Err(OpenError::Newer { dir: dir.to_owned(), format }),
        // It is written beside and renamed, so half a manifest is not what a killed recorder leaves.
        Reading::Bad(why) => Err(OpenError::Manifest { path, why }),
    }
}

/// The exchanges of a log in the order of arrival, and how many bytes at its end are no record.
fn read_log(file: File) -> Result<(Vec<Entry>, u64), LogError> {
    let length = file.metadata()?.len();
    let mut reader = Reader::new(BufReader::with_capacity(1 << 20, file));
    let mut entries: Vec<Entry> = Vec::new();
    let mut places = std::collections::HashMap::new();
    while let Some(record) = reader.next()? {
        match record {
            Record::Opened(_) => {}
            Record::Arrived(arrived) => {
                if !bounds::is_id(&arrived.id) || places.contains_key(&arrived.id) {
                    return Err(LogError::BadId { id: arrived.id });
                }
                places.insert(arrived.id.clone(), entries.len());
                entries.push(Entry { arrived, asked: None, answered: None, ended: None });
            }
            // A record whose exchange's first record was lost has no place; the manifest names it.
            Record::Asked(asked) => {
                if let Some(&at) = places.get(&asked.id) {
                    entries[at].asked = Some(asked);
                }
            }
            Record::Answered(answered) => {
                if let Some(&at) = places.get(&answered.id) {
                    entries[at].answered = Some(answered);
                }
            }
            Record::Ended(ended) => {
                if let Some(&at) = places.get(&ended.id) {
                    entries[at].ended = Some(ended);
                }
            }
        }
    }
    let good = reader.offset();
    Ok((entries, if reader.torn { length - good } else { 0 }))
}
