//! Data inside data: compressed files, archives, documents and databases.
//!
//! Streams are found by their signatures at any offset. So one method serves archives, PDF documents, pictures and
//! the objects of Git, without a reader for each format. The work is limited, because an archive may unpack to any
//! length. Everything that cannot be searched is reported as a gap.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use wire::encoding::{self, CodingError, StreamFormat, decode_stream};

use super::sqlite;
use super::utf16::Utf16Text;

/// The maximum number of layers, such as a compressed file in an archive in an archive.
const MOST_LAYERS: usize = 6;
/// The maximum length of all decoded data of one text.
pub(super) const MOST_DECODED: usize = 64 << 20;
/// The maximum number of streams in one text.
const MOST_STREAMS: usize = 1 << 16;
/// The maximum length of data in a coding that has no signature.
const MOST_UNSIGNED: usize = 16 << 20;
/// The minimum length of a damaged stream. Shorter ones are usually random bytes with the signature of a stream.
const SHORTEST_DAMAGED: usize = 64;

/// A kind of data that cannot be searched, or not completely.
pub(super) type Gap = &'static str;

/// The meaning of a signature.
#[derive(Clone, Copy)]
enum Signature {
    Stream(StreamFormat),
    Zip,
    Sqlite,
    Gap(Gap),
}

const SIGNATURES: &[(&[u8], Signature)] = &[
    (b"\x1f\x8b\x08", Signature::Stream(StreamFormat::Gzip)),
    (b"\x28\xb5\x2f\xfd", Signature::Stream(StreamFormat::Zstd)),
    (b"\x78\x01", Signature::Stream(StreamFormat::Zlib)),
    (b"\x78\x5e", Signature::Stream(StreamFormat::Zlib)),
    (b"\x78\x9c", Signature::Stream(StreamFormat::Zlib)),
    (b"\x78\xda", Signature::Stream(StreamFormat::Zlib)),
    (b"PK\x03\x04", Signature::Zip),
    (b"SQLite format 3\0", Signature::Sqlite),
    (b"\xfd7zXZ\0", Signature::Gap("XZ data")),
    (b"\x5d\x00\x00\x80\x00", Signature::Gap("LZMA data")),
    (b"BZh91AY&SY", Signature::Gap("bzip2 data")),
    (b"BZh61AY&SY", Signature::Gap("bzip2 data")),
    (b"BZh11AY&SY", Signature::Gap("bzip2 data")),
    (b"\x04\x22\x4d\x18", Signature::Gap("LZ4 data")),
    (b"LZIP\x01", Signature::Gap("lzip data")),
    (b"\x89LZO\0", Signature::Gap("LZO data")),
    (b"7z\xbc\xaf\x27\x1c", Signature::Gap("a 7-Zip archive")),
    (b"Rar!\x1a\x07", Signature::Gap("a RAR archive")),
    (b"MSCF\0\0\0\0", Signature::Gap("a CAB archive")),
    (b"\x89PNG\r\n\x1a\n", Signature::Gap("a PNG image")),
    (b"\xff\xd8\xff", Signature::Gap("a JPEG image")),
    (b"GIF87a", Signature::Gap("a GIF image")),
    (b"GIF89a", Signature::Gap("a GIF image")),
    (b"WEBPVP8", Signature::Gap("a WebP image")),
    (b"ftypheic", Signature::Gap("a HEIC image")),
    (b"ftypavif", Signature::Gap("an AVIF image")),
    (b"%PDF-", Signature::Gap("a PDF document")),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", Signature::Gap("an OLE document")),
    (b"age-encryption.org/v1\n", Signature::Gap("encrypted data")),
];

static AUTOMATON: LazyLock<AhoCorasick> = LazyLock::new(|| {
    AhoCorasick::new(SIGNATURES.iter().map(|(signature, _)| signature))
        .expect("the signatures fit an automaton")
});

/// Finds what is inside of some bytes.
struct Unpacker<'v> {
    visit: Visit<'v>,
    /// The number of bytes that may still be decoded.
    left: &'v mut usize,
    streams: usize,
    gaps: BTreeSet<Gap>,
}

/// Receives decoded data, and the number of bytes that may still be decoded.
type Visit<'v> = &'v mut dyn FnMut(&[u8], &mut usize);

/// Calls `visit` with everything inside of `bytes`, but not with `bytes`. At most `left` bytes are decoded. Returns
/// the parts that cannot be searched.
pub(super) fn unpack<'v>(bytes: &[u8], left: &'v mut usize, visit: Visit<'v>) -> BTreeSet<Gap> {
    let mut unpacker = Unpacker { visit, left, streams: 0, gaps: BTreeSet::new() };
    unpacker.open(bytes, MOST_LAYERS);
    unpacker.gaps
}

/// Returns true for data that is not text.
pub fn is_binary(bytes: &[u8]) -> bool {
    const SAMPLE: usize = 4096;
    if memchr::memchr(0, bytes).is_some() {
        return Utf16Text::decode(bytes).is_none();
    }
    let sample = &bytes[..bytes.len().min(SAMPLE)];
    let most = sample.len() / 50;
    // Most texts have few control characters of any kind, which is faster to count.
    let is_control = |byte: &&u8| **byte < b' ' && !b"\t\n\r\x08\x0c\x1b".contains(byte);
    let has_many = |sample: &[u8]| sample.iter().filter(is_control).count() > most;
    (count_below_space(sample) > most && has_many(sample)) || is_packed(bytes)
}

fn count_below_space(bytes: &[u8]) -> usize {
    // A sum of bytes, which cannot overflow in a short chunk, needs no wider registers.
    let count = |chunk: &[u8]| chunk.iter().fold(0_u8, |sum, &byte| sum.wrapping_add(u8::from(byte < b' ')));
    bytes.chunks(128).map(|chunk| usize::from(count(chunk))).sum()
}

/// Returns true for data that begins as an archive, a compressed file, a document, a database or a picture does.
pub fn is_packed(bytes: &[u8]) -> bool {
    let begins = |(signature, _): &(&[u8], Signature)| bytes.starts_with(signature);
    SIGNATURES.iter().any(begins) && (!bytes.starts_with(b"x") || is_zlib(bytes))
}

/// Returns true for the first bytes of such data.
pub(super) fn is_signed(head: &[u8]) -> bool {
    // The signature of a WebP image is its third word.
    AUTOMATON.find(head).is_some_and(|found| found.start() == 0 || found.start() == 8)
}

/// Returns true for the header of zlib and a first block that is valid.
fn is_zlib(bytes: &[u8]) -> bool {
    let head = decode_stream(StreamFormat::Zlib, &bytes[..bytes.len().min(4096)], 64 << 10);
    !matches!(head.error, Some(CodingError::Broken(_))) && !head.bytes.is_empty()
}

impl Unpacker<'_> {
    /// Searches a decoded layer, and what is inside of it.
    fn layer(&mut self, bytes: &[u8], layers: usize) {
        (self.visit)(bytes, self.left);
        self.open(bytes, layers);
    }

    fn open(&mut self, bytes: &[u8], layers: usize) {
        if !is_binary(bytes) {
            return;
        }
        if layers == 0 {
            self.gaps.insert("data in too many layers");
            return;
        }
        let mut at = 0;
        let mut is_known = is_tar(bytes);
        while let Some(found) = AUTOMATON.find(&bytes[at..]) {
            let start = at + found.start();
            let end = self.part(bytes, start, SIGNATURES[found.pattern().as_usize()].1, layers);
            is_known |= start <= 4 && end.is_some();
            at = end.unwrap_or(start).max(start + 1);
        }
        if !is_known && !self.unsigned(bytes, layers) {
            self.gaps.insert("binary data");
        }
    }

    /// Searches the part with a signature at `start`. Returns its end, or `None` if the signature occurs by chance.
    fn part(&mut self, bytes: &[u8], start: usize, signature: Signature, layers: usize) -> Option<usize> {
        match signature {
            Signature::Stream(format) => self.stream(format, bytes, start, layers),
            Signature::Zip => self.zip_entry(bytes, start, layers),
            Signature::Sqlite => {
                self.gaps.insert("an SQLite database");
                let complete =
                    sqlite::for_each_long_row(&bytes[start..], &mut |row| (self.visit)(row, self.left));
                if !complete {
                    self.gaps.insert(TOO_MUCH);
                }
                Some(start + 1)
            }
            Signature::Gap(gap) => {
                self.gaps.insert(gap);
                Some(start + 1)
            }
        }
    }

    fn stream(&mut self, format: StreamFormat, bytes: &[u8], start: usize, layers: usize) -> Option<usize> {
        if self.streams >= MOST_STREAMS || *self.left == 0 {
            self.gaps.insert(TOO_MUCH);
            return None;
        }
        self.streams += 1;
        let stream = decode_stream(format, &bytes[start..], *self.left);
        let is_damaged = matches!(stream.error, Some(CodingError::Broken(_) | CodingError::Cut(_)));
        if stream.bytes.is_empty() || (is_damaged && stream.bytes.len() < SHORTEST_DAMAGED) {
            return None;
        }
        *self.left = self.left.saturating_sub(stream.bytes.len());
        match stream.error {
            Some(CodingError::TooLong { .. }) => drop(self.gaps.insert(TOO_MUCH)),
            Some(_) if format != StreamFormat::Zlib => drop(self.gaps.insert("damaged data")),
            _ => {}
        }
        self.layer(&stream.bytes, layers - 1);
        Some(start + stream.consumed)
    }

    /// Searches an entry of a ZIP archive. A stored entry is searched with the archive.
    fn zip_entry(&mut self, bytes: &[u8], start: usize, layers: usize) -> Option<usize> {
        const HEADER: usize = 30;
        let header = bytes.get(start..start + HEADER)?;
        let number = |at: usize| usize::from(header[at]) | usize::from(header[at + 1]) << 8;
        let (flags, method) = (number(6), number(8));
        let data = start + HEADER + number(26) + number(28);
        if number(26) == 0 || data > bytes.len() {
            return None;
        }
        const STORED: usize = 0;
        const DEFLATED: usize = 8;
        const ZSTANDARD: usize = 93;
        match method {
            _ if flags & 1 == 1 => drop(self.gaps.insert("an encrypted entry of a ZIP archive")),
            STORED | ZSTANDARD => {}
            DEFLATED => {
                let end = self.stream(StreamFormat::Deflate, bytes, data, layers);
                return Some(end.unwrap_or(data));
            }
            _ => drop(self.gaps.insert("an entry of a ZIP archive in an unknown method")),
        }
        Some(data)
    }

    /// Searches data in a coding that has no signature. Returns false if it is in none.
    fn unsigned(&mut self, bytes: &[u8], layers: usize) -> bool {
        if bytes.len() > MOST_UNSIGNED || *self.left == 0 {
            return false;
        }
        let limit = *self.left;
        let inflated = decode_stream(StreamFormat::Deflate, bytes, limit);
        let decoded = match inflated {
            stream if stream.error.is_none() && stream.consumed == bytes.len() => Some(stream.bytes),
            _ => encoding::decode("br", bytes, limit).ok(),
        };
        let Some(decoded) = decoded.filter(|decoded| !decoded.is_empty()) else { return false };
        *self.left = self.left.saturating_sub(decoded.len());
        self.layer(&decoded, layers - 1);
        true
    }
}

const TOO_MUCH: Gap = "more data than is unpacked";

/// Returns true for a tar archive. Its headers contain zeros, and its files are searched with it.
fn is_tar(bytes: &[u8]) -> bool {
    bytes.get(257..262) == Some(b"ustar")
}
