//! `exchanges.log`: one append-only file with one sequence over everything that happened.
//!
//! A record is a line `<crc32> <payload bytes> <json>` and, behind it, the payload and a newline.
//! The checksum covers everything behind itself, so a record that was cut off is recognised. Bodies
//! are payloads: their exact (redacted) bytes, neither escaped nor encoded.

use std::io::Read as _;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use wire::{Ending, Header, Read};

/// The version that is written.
pub const LOG_FORMAT: u32 = 1;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Record {
    /// The log begins.
    Opened(Opened),
    /// A request's head arrived.
    Arrived(Arrived),
    /// A request's body is there, as far as it came.
    Asked(Asked),
    /// A response's head arrived.
    Answered(Answered),
    /// An exchange ended.
    Ended(Ended),
}

/// The log begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Opened {
    /// Version of the log.
    pub format: u32,
    /// When the clock that `us` counts from began.
    pub started_at: String,
}

/// A request's head arrived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arrived {
    /// Place in the one order.
    pub seq: u64,
    /// Microseconds since the start.
    pub us: u64,
    /// The exchange.
    pub id: String,
    /// As in `POST`.
    pub method: String,
    /// Where it goes.
    pub url: String,
    /// The headers in order.
    pub headers: Vec<Header>,
}

/// A request's body is there, as far as it came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// Place in the one order.
    pub seq: u64,
    /// Microseconds since the start.
    pub us: u64,
    /// The exchange.
    pub id: String,
    /// Where the body is.
    pub body: StoredBody,
    /// The whole body came.
    pub whole: bool,
}

/// A response's head arrived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answered {
    /// Place in the one order.
    pub seq: u64,
    /// Microseconds since the start.
    pub us: u64,
    /// The exchange.
    pub id: String,
    /// The status code.
    pub status: u16,
    /// The headers in order.
    pub headers: Vec<Header>,
}

/// An exchange ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ended {
    /// Place in the one order.
    pub seq: u64,
    /// Microseconds since the start.
    pub us: u64,
    /// The exchange.
    pub id: String,
    /// How it ended.
    pub ending: Ending,
    /// What went wrong, where something did.
    pub error: Option<String>,
    /// Where the response's body is.
    pub body: StoredBody,
    /// Headers behind the body.
    pub trailers: Vec<Header>,
    /// When its parts were read.
    pub reads: Vec<Read>,
}

/// Where the bytes of a body are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredBody {
    /// The bytes are in this place.
    pub at: Place,
    /// SHA-256 of the stored bytes, hex; empty where they are lost.
    pub sha256: String,
    /// How many bytes are stored.
    pub bytes: u64,
    /// It was compressed and held a secret: what is stored is decoded from this coding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decoded_from: Option<String>,
}

/// Where the bytes of a body are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// The record's payload.
    Payload,
    /// `blobs/<sha256>`.
    Blob,
    /// Nowhere: the manifest says why.
    Lost,
}

/// A log that cannot be read.
#[derive(Debug, Error)]
pub enum LogError {
    /// It was written by a newer version.
    #[error("the log has format {found}, newer than {LOG_FORMAT}")]
    Newer {
        /// Its version.
        found: u32,
    },
    /// The line of a record whose checksum is right says something unknown.
    #[error("record at byte {offset} is not one of format {LOG_FORMAT}")]
    Strange {
        /// Where the record begins.
        offset: u64,
        /// What the reader stumbled on.
        #[source]
        source: serde_json::Error,
    },
    /// The file could not be read.
    #[error("cannot read the log")]
    Io(#[from] std::io::Error),
}

/// The bytes of a record; `payload` is what a body stored as [`Place::Payload`] consists of.
pub(crate) fn encode(record: &Record, payload: &[u8]) -> Vec<u8> {
    let json = serde_json::to_string(record).expect("records have only string keys");
    let head = format!("{} {json}\n", payload.len());
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(head.as_bytes());
    hasher.update(payload);
    let mut out = Vec::with_capacity(head.len() + payload.len() + 10);
    out.extend_from_slice(format!("{:08x} ", hasher.finalize()).as_bytes());
    out.extend_from_slice(head.as_bytes());
    out.extend_from_slice(payload);
    out.push(b'\n');
    out
}

/// A record as found in the file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Found {
    pub(crate) record: Record,
    pub(crate) payload: Vec<u8>,
    /// Where the payload begins in the file.
    pub(crate) payload_at: u64,
}

/// Reads records one after the other until the end, or until the first one that is not whole.
pub(crate) struct Reader<R> {
    input: R,
    at: u64,
    /// The file ends with something that is no whole record.
    pub(crate) torn: bool,
}

impl<R: std::io::BufRead> Reader<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { input, at: 0, torn: false }
    }

    /// Where the next record begins; after the last one, how much of the file is good.
    pub(crate) fn offset(&self) -> u64 {
        self.at
    }

    pub(crate) fn next(&mut self) -> Result<Option<Found>, LogError> {
        let mut line = Vec::new();
        if self.input.read_until(b'\n', &mut line)? == 0 {
            return Ok(None);
        }
        let Some((crc, length, json)) = split(&line) else {
            self.torn = true;
            return Ok(None);
        };
        let mut payload = Vec::new();
        (&mut self.input).take(length + 1).read_to_end(&mut payload)?;
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&line[9..]);
        hasher.update(payload.strip_suffix(b"\n").unwrap_or_default());
        if payload.len() as u64 != length + 1 || payload.last() != Some(&b'\n') || hasher.finalize() != crc {
            self.torn = true;
            return Ok(None);
        }
        payload.pop();
        let record = parse(json, self.at)?;
        let payload_at = self.at + line.len() as u64;
        self.at = payload_at + length + 1;
        Ok(Some(Found { record, payload, payload_at }))
    }
}

/// `crc length json`, or nothing where the line is not of that form.
fn split(line: &[u8]) -> Option<(u32, u64, &str)> {
    let line = std::str::from_utf8(line.strip_suffix(b"\n")?).ok()?;
    let (crc, rest) = line.split_once(' ').filter(|(crc, _)| crc.len() == 8)?;
    let (length, json) = rest.split_once(' ')?;
    Some((u32::from_str_radix(crc, 16).ok()?, length.parse().ok()?, json))
}

fn parse(json: &str, offset: u64) -> Result<Record, LogError> {
    let record = serde_json::from_str(json)
        .map_err(|source| newer(json).unwrap_or(LogError::Strange { offset, source }))?;
    match record {
        Record::Opened(Opened { format, .. }) if format > LOG_FORMAT => {
            Err(LogError::Newer { found: format })
        }
        record => Ok(record),
    }
}

/// A newer log's first record may have fields that this version does not know.
fn newer(json: &str) -> Option<LogError> {
    #[derive(Deserialize)]
    struct Versioned {
        format: u32,
    }
    let found = serde_json::from_str::<Versioned>(json).ok()?.format;
    (found > LOG_FORMAT).then_some(LogError::Newer { found })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<u8> {
        let opened =
            Record::Opened(Opened { format: LOG_FORMAT, started_at: "2026-01-01T00:00:00.000000Z".into() });
        let body = StoredBody { at: Place::Payload, sha256: "ab".into(), bytes: 5, decoded_from: None };
        let asked = Record::Asked(Asked { seq: 2, us: 10, id: "r000001".into(), body, whole: true });
        [encode(&opened, b""), encode(&asked, b"a\nb\xff\n"), encode(&opened, b"tail")].concat()
    }

    fn read(bytes: &[u8]) -> (Vec<Found>, bool) {
        let mut reader = Reader::new(bytes);
        let mut found = Vec::new();
        while let Some(record) = reader.next().expect("readable") {
            found.push(record);
        }
        (found, reader.torn)
    }

    #[test]
    fn what_was_written_is_read_back() {
        let log = sample();
        let (found, torn) = read(&log);
        let payloads: Vec<&[u8]> = found.iter().map(|f| f.payload.as_slice()).collect();
        assert_eq!(payloads, [b"".as_slice(), b"a\nb\xff\n", b"tail"]);
        assert!(!torn);
        let at = found[1].payload_at as usize;
        assert_eq!(&log[at..at + 5], b"a\nb\xff\n");
    }

    #[test]
    fn a_log_cut_anywhere_keeps_every_whole_record() {
        let log = sample();
        let ends: Vec<usize> = (1..=3).map(|n| read(&log).0[..n].iter().map(size).sum()).collect();
        for cut in 0..=log.len() {
            let (found, torn) = read(&log[..cut]);
            assert_eq!(found.len(), ends.iter().filter(|end| **end <= cut).count(), "cut at {cut}");
            assert_eq!(torn, cut != 0 && !ends.contains(&cut), "cut at {cut}");
        }
    }

    fn size(found: &Found) -> usize {
        encode(&found.record, &found.payload).len()
    }

    #[test]
    fn a_flipped_bit_ends_the_log_there() {
        let log = sample();
        for at in 0..log.len() {
            let mut broken = log.clone();
            broken[at] ^= 1;
            let mut reader = Reader::new(broken.as_slice());
            let mut whole = 0;
            while let Ok(Some(_)) = reader.next() {
                whole += 1;
            }
            assert!(whole < 3, "bit flipped at {at}");
        }
    }

    #[test]
    fn a_newer_log_is_refused_by_name() {
        let json = r#"{"type":"opened","format":2,"started_at":"x","colour":"blue"}"#;
        assert_eq!(parse(json, 0).expect_err("newer").to_string(), "the log has format 2, newer than 1");
    }
}
