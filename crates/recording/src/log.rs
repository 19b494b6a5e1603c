//! `exchanges.log`: one append-only file with one sequence over everything that happened.
//!
//! A record is a line `<crc32> <json>`. The checksum covers everything behind itself, so a record that
//! was cut off is recognised. Bodies are not in it: a record says in which dump or blob its body is,
//! and that file was whole before the record was written.

use std::io::{BufRead as _, Read as _};

use serde::{Deserialize, Serialize};
use thiserror::Error;
use wire::{Ending, Header, SocketRead};

use crate::reads;

/// The version that is written.
pub const LOG_FORMAT: u32 = 1;

/// The longest record: the one at an exchange's end has a place for each read.
const LONGEST: u64 = 64 << 20;

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
    /// Headers behind the body.
    pub trailers: Vec<Header>,
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
    pub reads: Vec<SocketRead>,
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

impl StoredBody {
    /// A body that is nowhere.
    pub(crate) fn lost() -> Self {
        Self { at: Place::Lost, sha256: String::new(), bytes: 0, decoded_from: None }
    }
}

/// Where the bytes of a body are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// The exchange's dump.
    Dump,
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
    /// It has no version.
    #[error("the log has format 0, which was never written")]
    NoFormat,
    /// The line of a record whose checksum is right says something unknown.
    #[error("record at byte {offset} is not one of format {LOG_FORMAT}")]
    Strange {
        /// Where the record begins.
        offset: u64,
        /// What the reader stumbled on.
        #[source]
        source: serde_json::Error,
    },
    /// An exchange has the name of another, or one that cannot be part of a file's name.
    #[error("`{}` cannot be the name of an exchange", id.escape_debug())]
    BadId {
        /// The name.
        id: String,
    },
    /// A record is longer than any that was ever written.
    #[error("the record at byte {offset} is over {LONGEST} bytes long")]
    TooLong {
        /// Where the record begins.
        offset: u64,
    },
    /// The file could not be read.
    #[error("cannot read the log")]
    Io(#[from] std::io::Error),
}

/// The bytes of a record.
pub(crate) fn encode(mut record: Record) -> Vec<u8> {
    const CRC: usize = "00000000 ".len();
    let mut line = vec![b' '; CRC];
    let reads = match &mut record {
        Record::Ended(ended) => std::mem::take(&mut ended.reads),
        _ => Vec::new(),
    };
    serde_json::to_writer(&mut line, &record).expect("records have only string keys");
    if !reads.is_empty() {
        // The reads are the end of a record, and most of it.
        let list = line.strip_suffix(b"]}").expect("a record with reads ends with their list").len();
        line.truncate(list);
        reads::write(&mut line, &reads);
        line.extend_from_slice(b"]}");
    }
    let crc = format!("{:08x}", crc32fast::hash(&line[CRC..]));
    line[..crc.len()].copy_from_slice(crc.as_bytes());
    line.push(b'\n');
    line
}

/// The bytes of the same record with its body lost, and with it when its pieces came; `None` where it has none.
pub(crate) fn without_body(record: &[u8]) -> Option<Vec<u8>> {
    let mut record = parse(whole(record)?, 0).ok()?;
    match &mut record {
        Record::Asked(Asked { body, .. }) => *body = StoredBody::lost(),
        Record::Ended(Ended { body, reads, .. }) => (*body, *reads) = (StoredBody::lost(), Vec::new()),
        Record::Opened(_) | Record::Arrived(_) | Record::Answered(_) => return None,
    }
    Some(encode(record))
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

    pub(crate) fn next(&mut self) -> Result<Option<Record>, LogError> {
        // A file of zeros, or of anything else that is no log, is not read to its end to find that out.
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

/// The JSON of a line whose checksum is right.
fn whole(line: &[u8]) -> Option<&str> {
    let line = std::str::from_utf8(line.strip_suffix(b"\n")?).ok()?;
    let (crc, json) = line.split_once(' ').filter(|(crc, _)| crc.len() == 8)?;
    (u32::from_str_radix(crc, 16).ok()? == crc32fast::hash(json.as_bytes())).then_some(json)
}

fn parse(json: &str, offset: u64) -> Result<Record, LogError> {
    let record = serde_json::from_str(json)
        .map_err(|source| newer(json).unwrap_or(LogError::Strange { offset, source }))?;
    match record {
        Record::Opened(Opened { format, .. }) if format > LOG_FORMAT => {
            Err(LogError::Newer { found: format })
        }
        Record::Opened(Opened { format: 0, .. }) => Err(LogError::NoFormat),
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

    fn sample() -> Vec<Record> {
        let opened =
            Record::Opened(Opened { format: LOG_FORMAT, started_at: "2026-01-01T00:00:00.000000Z".into() });
        let body = StoredBody { at: Place::Dump, sha256: "ab".into(), bytes: 5, decoded_from: None };
        let asked = Record::Asked(Asked {
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

    fn read(bytes: &[u8]) -> (Vec<Record>, bool) {
        let mut reader = Reader::new(bytes);
        let mut found = Vec::new();
        while let Some(record) = reader.next().expect("readable") {
            found.push(record);
        }
        (found, reader.torn)
    }

    #[test]
    fn what_was_written_is_read_back() {
        assert_eq!(read(&written()), (sample(), false));
    }

    #[test]
    fn a_record_is_what_a_serializer_would_have_written() {
        for count in [0, 1, 3] {
            let read = |n| SocketRead { seq: n, offset: 7 * n, us: u64::MAX - n };
            let ended = Record::Ended(Ended {
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
        let Record::Asked(asked) = asked.clone() else { unreachable!("it is the second") };
        let bare = Record::Asked(Asked { body: StoredBody::lost(), ..asked.clone() });
        assert_eq!(without_body(&encode(Record::Asked(asked))), Some(encode(bare)));
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
