//! `exchanges.log`: one append-only file with one sequence of all events.
//!
//! A record is a line `<crc32> <json>`. The checksum covers the JSON, so a truncated record is detected. Bodies
//! are not in the log: a record names the dump or blob of its body, and that file was complete before the
//! record was written.

use std::io::{BufRead as _, Read as _};

use serde::{Deserialize, Serialize};
use thiserror::Error;
use wire::{Ending, Header, SocketRead};

use crate::read_list;

/// Version of the logs that are written.
pub const LOG_FORMAT: u32 = 1;

/// Maximum length of a record. The last record of an exchange lists every read.
const LONGEST: u64 = 64 << 20;

/// Record of one event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum LogRecord {
    /// Start of the log.
    #[serde(rename = "opened")]
    LogStart(LogStartRecord),
    /// Arrival of a request's head.
    #[serde(rename = "arrived")]
    RequestHead(RequestHeadRecord),
    /// End of a request's body, complete or not.
    #[serde(rename = "asked")]
    RequestBody(RequestBodyRecord),
    /// Arrival of a response's head.
    #[serde(rename = "answered")]
    ResponseHead(ResponseHeadRecord),
    /// End of an exchange.
    #[serde(rename = "ended")]
    ExchangeEnd(ExchangeEndRecord),
}

/// Start of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogStartRecord {
    /// Version of the log.
    pub format: u32,
    /// Start of the clock that `us` counts from.
    pub started_at: String,
}

/// Arrival of a request's head.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestHeadRecord {
    /// Number in the sequence of all events.
    pub seq: u64,
    /// Microseconds since the start.
    pub us: u64,
    /// Exchange id.
    pub id: String,
    /// HTTP method, such as `POST`.
    pub method: String,
    /// Address of the request.
    pub url: String,
    /// Headers in order.
    pub headers: Vec<Header>,
}

/// End of a request's body, complete or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestBodyRecord {
    /// Number in the sequence of all events.
    pub seq: u64,
    /// Microseconds since the start.
    pub us: u64,
    /// Exchange id.
    pub id: String,
    /// Stored body.
    pub body: StoredBody,
    /// True if the complete body arrived.
    pub whole: bool,
    /// Headers after the body.
    pub trailers: Vec<Header>,
}

/// Arrival of a response's head.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResponseHeadRecord {
    /// Number in the sequence of all events.
    pub seq: u64,
    /// Microseconds since the start.
    pub us: u64,
    /// Exchange id.
    pub id: String,
    /// Status code.
    pub status: u16,
    /// Headers in order.
    pub headers: Vec<Header>,
}

/// End of an exchange.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExchangeEndRecord {
    /// Number in the sequence of all events.
    pub seq: u64,
    /// Microseconds since the start.
    pub us: u64,
    /// Exchange id.
    pub id: String,
    /// Ending of the exchange.
    pub ending: Ending,
    /// Error message, if something failed.
    pub error: Option<String>,
    /// Stored body of the response.
    pub body: StoredBody,
    /// Headers after the body.
    pub trailers: Vec<Header>,
    /// Times of the reads.
    pub reads: Vec<SocketRead>,
}

/// Location and digest of a body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredBody {
    /// Location of the bytes.
    pub at: BodyLocation,
    /// SHA-256 of the stored bytes in hex; empty if they are lost.
    pub sha256: String,
    /// Number of stored bytes.
    pub bytes: u64,
    /// Coding of a compressed body that contained a secret. The stored bytes are decoded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decoded_from: Option<String>,
}

impl StoredBody {
    /// Returns a body that could not be kept.
    pub(crate) fn lost() -> Self {
        Self { at: BodyLocation::Lost, sha256: String::new(), bytes: 0, decoded_from: None }
    }
}

/// Location of a body's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BodyLocation {
    /// The exchange's dump.
    Dump,
    /// The file `blobs/<sha256>`.
    Blob,
    /// Not kept. The manifest has the reason.
    Lost,
}

/// Error when reading a log.
#[derive(Debug, Error)]
pub enum LogError {
    /// The log was written by a newer version.
    #[error("the log has format {found}, newer than {LOG_FORMAT}")]
    Newer {
        /// Version of the log.
        found: u32,
    },
    /// The log has no version.
    #[error("the log has format 0, which was never written")]
    NoFormat,
    /// A record with a correct checksum is not understood.
    #[error("record at byte {offset} is not one of format {LOG_FORMAT}")]
    Strange {
        /// Offset of the record.
        offset: u64,
        /// Cause.
        #[source]
        source: serde_json::Error,
    },
    /// An exchange id is used twice, or cannot be a part of a file name.
    #[error("`{}` cannot be the name of an exchange", id.escape_debug())]
    BadId {
        /// Exchange id.
        id: String,
    },
    /// A record is longer than any that offshoot writes.
    #[error("the record at byte {offset} is over {LONGEST} bytes long")]
    TooLong {
        /// Offset of the record.
        offset: u64,
    },
    /// The file cannot be read.
    #[error("cannot read the log")]
    Io(#[from] std::io::Error),
}

/// Encodes a record as a line.
pub(crate) fn encode(mut record: LogRecord) -> Vec<u8> {
    const CRC: usize = "00000000 ".len();
    let mut line = vec![b' '; CRC];
    let reads = match &mut record {
        LogRecord::ExchangeEnd(ended) => std::mem::take(&mut ended.reads),
        _ => Vec::new(),
    };
    serde_json::to_writer(&mut line, &record).expect("records have only string keys");
    if !reads.is_empty() {
        // The reads are the end of a record, and most of it.
        let list = line.strip_suffix(b"]}").expect("a record with reads ends with their list").len();
        line.truncate(list);
        read_list::write(&mut line, &reads);
        line.extend_from_slice(b"]}");
    }
    let crc = format!("{:08x}", crc32fast::hash(&line[CRC..]));
    line[..crc.len()].copy_from_slice(crc.as_bytes());
    line.push(b'\n');
    line
}

/// Encodes the same record with its body and reads lost; returns `None` if it has no body.
pub(crate) fn without_body(record: &[u8]) -> Option<Vec<u8>> {
    let mut record = parse(whole(record)?, 0).ok()?;
    match &mut record {
        LogRecord::RequestBody(RequestBodyRecord { body, .. }) => *body = StoredBody::lost(),
        LogRecord::ExchangeEnd(ExchangeEndRecord { body, reads, .. }) => {
            (*body, *reads) = (StoredBody::lost(), Vec::new())
        }
        LogRecord::LogStart(_) | LogRecord::RequestHead(_) | LogRecord::ResponseHead(_) => return None,
    }
    Some(encode(record))
}

/// Reads records in order, up to the first incomplete one.
pub(crate) struct Reader<R> {
    input: R,
    at: u64,
    /// True if the file ends with an incomplete record.
    pub(crate) torn: bool,
}

impl<R: std::io::BufRead> Reader<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { input, at: 0, torn: false }
    }

    /// Returns the offset of the next record; after the last one, the length of the valid part.
    pub(crate) fn offset(&self) -> u64 {
        self.at
    }

    pub(crate) fn next(&mut self) -> Result<Option<LogRecord>, LogError> {
        // A file of zeros, or one that is no log, is not read to its end.
        match self.input.fill_buf()? {
            [] => return Ok(None),
            [first, ..] if !first.is_ascii_hexdigit() => {
                self.torn = true;
                return Ok(None);
            }
            _ => {}
        }
        let mut line = Vec::new();
        self.input.by_ref().take(LONGEST + 1).read_until(b'\n', &mut line)?;
        if line.len() as u64 > LONGEST {
            return Err(LogError::TooLong { offset: self.at });
        }
        let Some(json) = whole(&line) else {
            self.torn = true;
            return Ok(None);
        };
        let record = parse(json, self.at)?;
        self.at += line.len() as u64;
        Ok(Some(record))
    }
}

/// Returns the JSON of a line if its checksum is correct.
fn whole(line: &[u8]) -> Option<&str> {
    let line = std::str::from_utf8(line.strip_suffix(b"\n")?).ok()?;
    let (crc, json) = line.split_once(' ').filter(|(crc, _)| crc.len() == 8)?;
    (u32::from_str_radix(crc, 16).ok()? == crc32fast::hash(json.as_bytes())).then_some(json)
}

fn parse(json: &str, offset: u64) -> Result<LogRecord, LogError> {
    let record = serde_json::from_str(json)
        .map_err(|source| newer(json).unwrap_or(LogError::Strange { offset, source }))?;
    match record {
        LogRecord::LogStart(LogStartRecord { format, .. }) if format > LOG_FORMAT => {
            Err(LogError::Newer { found: format })
        }
        LogRecord::LogStart(LogStartRecord { format: 0, .. }) => Err(LogError::NoFormat),
        record => Ok(record),
    }
}

/// Recognises a newer log, whose first record may have unknown fields.
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

    fn sample() -> Vec<LogRecord> {
        let opened = LogRecord::LogStart(LogStartRecord {
            format: LOG_FORMAT,
            started_at: "2026-01-01T00:00:00.000000Z".into(),
        });
        let body = StoredBody { at: BodyLocation::Dump, sha256: "ab".into(), bytes: 5, decoded_from: None };
        let asked = LogRecord::RequestBody(RequestBodyRecord {
            seq: 2,
            us: 10,
            id: "r000001".into(),
            body,
            whole: true,
            trailers: Vec::new(),
        });
        vec![opened.clone(), asked, opened]
    }

    fn written() -> Vec<u8> {
        sample().into_iter().flat_map(encode).collect()
    }

    fn read(bytes: &[u8]) -> (Vec<LogRecord>, bool) {
        let mut reader = Reader::new(bytes);
        let mut found = Vec::new();
        while let Some(record) = reader.next().expect("readable") {
            found.push(record);
        }
        (found, reader.torn)
    }

    #[test]
    fn written_records_are_read_back() {
        assert_eq!(read(&written()), (sample(), false));
    }

    #[test]
    fn a_record_equals_the_output_of_a_serializer() {
        for count in [0, 1, 3] {
            let read = |n| SocketRead { seq: n, offset: 7 * n, us: u64::MAX - n };
            let ended = LogRecord::ExchangeEnd(ExchangeEndRecord {
                seq: 9,
                us: 10,
                id: "r000001".into(),
                ending: Ending::Complete,
                error: Some("]}".into()),
                body: StoredBody::lost(),
                trailers: Vec::new(),
                reads: (0..count).map(read).collect(),
            });
            let line = encode(ended.clone());
            let json = whole(&line).expect("its checksum is right");
            assert_eq!(json, serde_json::to_string(&ended).expect("serializes"));
        }
    }

    #[test]
    fn a_record_can_lose_its_body_and_nothing_else() {
        let [opened, asked, _] = &sample()[..] else { unreachable!("there are three") };
        assert_eq!(without_body(&encode(opened.clone())), None);
        let LogRecord::RequestBody(asked) = asked.clone() else { unreachable!("it is the second") };
        let bare = LogRecord::RequestBody(RequestBodyRecord { body: StoredBody::lost(), ..asked.clone() });
        assert_eq!(without_body(&encode(LogRecord::RequestBody(asked))), Some(encode(bare)));
    }

    #[test]
    fn a_log_cut_anywhere_keeps_every_whole_record() {
        let log = written();
        let ends: Vec<usize> =
            (1..=3).map(|n| sample().into_iter().take(n).map(|record| encode(record).len()).sum()).collect();
        for cut in 0..=log.len() {
            let (found, torn) = read(&log[..cut]);
            assert_eq!(found.len(), ends.iter().filter(|end| **end <= cut).count(), "cut at {cut}");
            assert_eq!(torn, cut != 0 && !ends.contains(&cut), "cut at {cut}");
        }
    }

    #[test]
    fn a_flipped_bit_ends_the_log_there() {
        let log = written();
        for at in 0..log.len() {
            let mut broken = log.clone();
            broken[at] ^= 1;
            assert!(read(&broken).0.len() < 3, "bit flipped at {at}");
        }
    }

    #[test]
    fn a_newer_log_is_refused_by_name() {
        let json = r#"{"type":"opened","format":2,"started_at":"x","colour":"blue"}"#;
        assert_eq!(parse(json, 0).expect_err("newer").to_string(), "the log has format 2, newer than 1");
    }
}
