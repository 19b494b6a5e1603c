//! Content codings: gzip, deflate, br and zstd, and lists of them, in both directions.
//!
//! A list of codings is the value of a `Content-Encoding` header: in the order in which they were applied. A limit
//! on the decoded length protects against decompression bombs.

use std::io::{self, Read, Write};

use flate2::{Decompress, FlushDecompress, Status};
use thiserror::Error;

/// One content coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// No coding.
    Identity,
    /// `gzip`
    Gzip,
    /// `deflate`: with the zlib header as in the standard, or raw as many servers send it.
    Deflate,
    /// `br`
    Brotli,
    /// `zstd`
    Zstd,
}

impl Coding {
    fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
            Self::Brotli => "br",
            Self::Zstd => "zstd",
        }
    }
}

/// Error: a body cannot be decoded or encoded.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CodingError {
    /// The coding is not supported.
    #[error("unknown content coding: {0}")]
    Unknown(String),
    /// The decoded body exceeds the limit.
    #[error("the body is longer than {limit} bytes when decoded")]
    TooLong {
        /// The limit in bytes.
        limit: usize,
    },
    /// The body ends before its coding does.
    #[error("the {0} body is truncated")]
    Cut(&'static str),
    /// The body is not in that coding.
    #[error("the body is not valid {0}")]
    Broken(&'static str),
}

/// The decoded part of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartialBody {
    /// The decoded bytes.
    pub bytes: Vec<u8>,
    /// True if all of the body was decoded. False if it was truncated or invalid.
    pub complete: bool,
    /// The coding after whose end, or after whose first invalid byte, the body continues.
    pub trailing_after: Option<&'static str>,
}

/// Parses a `Content-Encoding` header into its codings, in the order in which they were applied.
pub fn codings(header: &str) -> Result<Vec<Coding>, CodingError> {
    let names = header.split(',').map(str::trim).filter(|name| !name.is_empty());
    let coding = |name: &str| match name.to_ascii_lowercase().as_str() {
        "identity" => Ok(Coding::Identity),
        "gzip" | "x-gzip" => Ok(Coding::Gzip),
        "deflate" => Ok(Coding::Deflate),
        "br" => Ok(Coding::Brotli),
        "zstd" => Ok(Coding::Zstd),
        _ => Err(CodingError::Unknown(name.to_owned())),
    };
    names.map(coding).collect()
}

/// Decodes a complete body.
pub fn decode(header: &str, body: &[u8], limit: usize) -> Result<Vec<u8>, CodingError> {
    let mut bytes = body.to_vec();
    for coding in codings(header)?.into_iter().rev() {
        let (decoded, error) = decode_one(coding, &bytes, limit);
        match error {
            Some(error) => return Err(error),
            None => bytes = decoded,
        }
    }
    check_limit(bytes, limit)
}

/// Decodes a body that may be truncated, as far as possible.
pub fn decode_partly(header: &str, body: &[u8], limit: usize) -> Result<PartialBody, CodingError> {
    let mut bytes = body.to_vec();
    let mut complete = true;
    let mut trailing_after = None;
    for coding in codings(header)?.into_iter().rev() {
        let (decoded, error) = decode_one(coding, &bytes, limit);
        match error {
            Some(too_long @ CodingError::TooLong { .. }) => return Err(too_long),
            Some(error) => {
                complete = false;
                if let CodingError::Broken(name) = error {
                    trailing_after = Some(name);
                }
            }
            None => {}
        }
        bytes = decoded;
    }
    Ok(PartialBody { bytes: check_limit(bytes, limit)?, complete, trailing_after })
}

/// Encodes a body with the given codings, in order.
pub fn encode(header: &str, body: &[u8]) -> Result<Vec<u8>, CodingError> {
    let mut bytes = body.to_vec();
    for coding in codings(header)? {
        bytes = encode_one(coding, &bytes).expect("writing to memory cannot fail");
    }
    Ok(bytes)
}

/// The format of a stream inside other data, such as an entry of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamFormat {
    /// One member of gzip.
    Gzip,
    /// deflate with the zlib header.
    Zlib,
    /// deflate without a header.
    Deflate,
    /// One frame of zstd.
    Zstd,
}

/// A decoded stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodedStream {
    /// The decoded bytes, as far as the stream is valid.
    pub bytes: Vec<u8>,
    /// The encoded length, up to the end of the stream or to its first error.
    pub consumed: usize,
    /// The error that ended the stream early.
    pub error: Option<CodingError>,
}

/// Decodes the stream at the start of `bytes` and ignores the data after it.
pub fn decode_stream(format: StreamFormat, bytes: &[u8], limit: usize) -> DecodedStream {
    match format {
        StreamFormat::Gzip => {
            let mut member = flate2::bufread::GzDecoder::new(bytes);
            let (decoded, error) = read_to_limit(Coding::Gzip, &mut member, limit);
            DecodedStream { bytes: decoded, consumed: bytes.len() - member.into_inner().len(), error }
        }
        StreamFormat::Zlib | StreamFormat::Deflate => {
            let mut inflater = Decompress::new(format == StreamFormat::Zlib);
            let (decoded, error) = inflate_as(&mut inflater, bytes, limit);
            DecodedStream { bytes: decoded, consumed: inflater.total_in() as usize, error }
        }
        StreamFormat::Zstd => match zstd::stream::read::Decoder::with_buffer(bytes) {
            Ok(decoder) => {
                let mut decoder = decoder.single_frame();
                let (decoded, error) = read_to_limit(Coding::Zstd, &mut decoder, limit);
                DecodedStream { bytes: decoded, consumed: bytes.len() - decoder.finish().len(), error }
            }
            Err(_) => {
                let error = Some(CodingError::Broken(Coding::Zstd.name()));
                DecodedStream { bytes: Vec::new(), consumed: 0, error }
            }
        },
    }
}

fn check_limit(bytes: Vec<u8>, limit: usize) -> Result<Vec<u8>, CodingError> {
    if bytes.len() > limit { Err(CodingError::TooLong { limit }) } else { Ok(bytes) }
}

/// Decodes one coding. Returns the decoded bytes and the error that ended it early.
fn decode_one(coding: Coding, body: &[u8], limit: usize) -> (Vec<u8>, Option<CodingError>) {
    if body.is_empty() {
        return (Vec::new(), None); // a response to HEAD
    }
    match coding {
        Coding::Identity => (body.to_vec(), None),
        Coding::Gzip => gunzip(body, limit),
        Coding::Deflate => inflate(body, limit),
        Coding::Brotli => {
            let mut input = ExhaustionReader { body, exhausted: false };
            let (out, error) = read_to_limit(coding, brotli::Decompressor::new(&mut input, 4096), limit);
            // The decoder has one error for both cases. If it had asked for more input, the body is truncated.
            let error = error.map(|error| match error {
                CodingError::Broken(name) if input.exhausted => CodingError::Cut(name),
                other => other,
            });
            (out, error)
        }
        Coding::Zstd => match zstd::stream::read::Decoder::with_buffer(body) {
            Ok(decoder) => read_to_limit(coding, decoder, limit),
            Err(_) => (Vec::new(), Some(CodingError::Broken(coding.name()))),
        },
    }
}

/// Decodes member by member, because the multi-member reader of `flate2` takes bytes after the last member for a
/// truncated one.
fn gunzip(body: &[u8], limit: usize) -> (Vec<u8>, Option<CodingError>) {
    let mut out = Vec::new();
    let mut rest = body;
    loop {
        let mut member = flate2::bufread::GzDecoder::new(rest);
        let (bytes, error) = read_to_limit(Coding::Gzip, &mut member, limit - out.len());
        out.extend(bytes);
        rest = member.into_inner();
        match error {
            Some(CodingError::TooLong { .. }) => return (out, Some(CodingError::TooLong { limit })),
            Some(error) => return (out, Some(error)),
            None if rest.is_empty() => return (out, None),
            None if rest[0] != 0x1f => return (out, Some(CodingError::Broken(Coding::Gzip.name()))),
            None => {}
        }
    }
}

/// A reader that records whether it was asked for more than it has.
struct ExhaustionReader<'a> {
    body: &'a [u8],
    exhausted: bool,
}

impl Read for ExhaustionReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.exhausted = self.body.is_empty();
        self.body.read(buffer)
    }
}

fn read_to_limit(coding: Coding, mut decoder: impl Read, limit: usize) -> (Vec<u8>, Option<CodingError>) {
    let mut out = Vec::new();
    let mut buffer = [0; 16 * 1024];
    loop {
        match decoder.read(&mut buffer) {
            Ok(0) => return (out, None),
            Ok(read) => out.extend_from_slice(&buffer[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return (out, Some(CodingError::Cut(coding.name())));
            }
            Err(_) => return (out, Some(CodingError::Broken(coding.name()))),
        }
        if out.len() > limit {
            return (out, Some(CodingError::TooLong { limit }));
        }
    }
}

/// Decodes with the zlib header if there is one, otherwise raw.
fn inflate(body: &[u8], limit: usize) -> (Vec<u8>, Option<CodingError>) {
    let wrapped =
        body.len() >= 2 && body[0] & 0x0f == 8 && u16::from_be_bytes([body[0], body[1]]).is_multiple_of(31);
    if wrapped {
        let (out, error) = inflate_as(&mut Decompress::new(true), body, limit);
        if !out.is_empty() || !matches!(error, Some(CodingError::Broken(_))) {
            return (out, error);
        }
    }
    inflate_as(&mut Decompress::new(false), body, limit)
}

/// Decodes without the reader of `flate2`, which takes the end of its input for the end of the data.
fn inflate_as(inflater: &mut Decompress, body: &[u8], limit: usize) -> (Vec<u8>, Option<CodingError>) {
    let mut out = Vec::new();
    let mut buffer = [0; 16 * 1024];
    loop {
        let (taken, given) = (inflater.total_in(), inflater.total_out());
        let rest = &body[taken as usize..];
        let status = inflater.decompress(rest, &mut buffer, FlushDecompress::None);
        out.extend_from_slice(&buffer[..(inflater.total_out() - given) as usize]);
        let stuck = inflater.total_in() == taken && inflater.total_out() == given;
        match status {
            _ if out.len() > limit => return (out, Some(CodingError::TooLong { limit })),
            Ok(Status::StreamEnd) => return (out, None),
            Ok(_) if stuck => return (out, Some(CodingError::Cut("deflate"))),
            Ok(_) => {}
            Err(_) => return (out, Some(CodingError::Broken("deflate"))),
        }
    }
}

fn encode_one(coding: Coding, body: &[u8]) -> io::Result<Vec<u8>> {
    let level = flate2::Compression::default();
    match coding {
        Coding::Identity => Ok(body.to_vec()),
        Coding::Gzip => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
            encoder.write_all(body)?;
            encoder.finish()
        }
        Coding::Deflate => {
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), level);
            encoder.write_all(body)?;
            encoder.finish()
        }
        Coding::Brotli => {
            let mut encoder = brotli::CompressorWriter::new(Vec::new(), 4096, 5, 22);
            encoder.write_all(body)?;
            Ok(encoder.into_inner())
        }
        Coding::Zstd => zstd::stream::encode_all(body, zstd::DEFAULT_COMPRESSION_LEVEL),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALL: &[&str] = &[
        "",
        "identity",
        "gzip",
        "deflate",
        "br",
        "zstd",
        "gzip, br",
        "zstd,identity , X-GZIP",
        "br, zstd, deflate",
    ];
    const MANY: usize = 1 << 20;

    fn text() -> Vec<u8> {
        (0..30_000)
            .flat_map(|n: u32| format!("event {} of many\n", n.wrapping_mul(2_654_435_761)).into_bytes())
            .collect()
    }

    #[test]
    fn encoding_and_decoding_returns_the_body() {
        for header in ALL {
            for body in [b"".to_vec(), b"x".to_vec(), text()] {
                let encoded = encode(header, &body).expect("known codings");
                assert_eq!(decode(header, &encoded, MANY).as_ref(), Ok(&body), "{header}");
            }
        }
    }

    #[test]
    fn raw_deflate_is_accepted() {
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(&text()).expect("memory");
        let bare = encoder.finish().expect("memory");
        assert_eq!(decode("deflate", &bare, MANY), Ok(text()));
        assert_eq!(decode("deflate", &bare[..bare.len() - 1], MANY), Err(CodingError::Cut("deflate")));
    }

    #[test]
    fn truncated_bodies_are_decoded_as_far_as_possible() {
        for header in ["gzip", "deflate", "br", "zstd", "gzip, zstd"] {
            let body = text();
            let encoded = encode(header, &body).expect("known codings");
            for cut in [1, encoded.len() / 2, encoded.len() - 1] {
                assert!(
                    matches!(decode(header, &encoded[..cut], MANY), Err(CodingError::Cut(_))),
                    "{header} {cut}"
                );
                let partly = decode_partly(header, &encoded[..cut], MANY).expect("known codings");
                assert!(!partly.complete && body.starts_with(&partly.bytes), "{header} {cut}");
            }
            let partly = decode_partly(header, &encoded[..encoded.len() - 1], MANY).expect("known codings");
            assert!(partly.bytes.len() > body.len() / 2, "{header}: only {} bytes", partly.bytes.len());
        }
    }

    /// A streaming server flushes after each event, so all events before the cut must be decoded.
    #[test]
    fn a_flushed_stream_gives_every_event_before_the_cut() {
        let event = b"data: {\"n\":1}\n\n";
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        let mut brotli = brotli::CompressorWriter::new(Vec::new(), 4096, 5, 22);
        let mut zstd = zstd::stream::write::Encoder::new(Vec::new(), 3).expect("memory");
        for _ in 0..3 {
            for encoder in [&mut gzip as &mut dyn Write, &mut brotli, &mut zstd] {
                encoder.write_all(event).expect("memory");
                encoder.flush().expect("memory");
            }
        }
        let streams = [("gzip", gzip.get_ref()), ("br", brotli.get_ref()), ("zstd", zstd.get_ref())];
        for (header, stream) in streams {
            let partly = decode_partly(header, stream, MANY).expect("known codings");
            assert_eq!((partly.bytes, partly.complete), (event.repeat(3), false), "{header}");
        }
    }

    #[test]
    fn decompression_stops_at_the_limit() {
        for header in ["gzip", "deflate", "br", "zstd", "identity"] {
            let encoded = encode(header, &vec![0; 10 * MANY]).expect("known codings");
            let too_long = CodingError::TooLong { limit: MANY };
            assert_eq!(decode(header, &encoded, MANY).as_ref(), Err(&too_long), "{header}");
            assert_eq!(decode_partly(header, &encoded, MANY).as_ref(), Err(&too_long), "{header}");
            let coding = codings(header).expect("a known coding")[0];
            let unpacked = decode_one(coding, &encoded, MANY).0.len();
            assert!(
                coding == Coding::Identity || unpacked < 2 * MANY,
                "{header} went on to {unpacked} bytes"
            );
        }
    }

    #[test]
    fn a_stream_is_decoded_up_to_its_end() {
        let mut deflate = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
        deflate.write_all(&text()).expect("memory");
        let encoded = |header| encode(header, &text()).expect("a known coding");
        let streams = [
            (StreamFormat::Gzip, encoded("gzip")),
            (StreamFormat::Zlib, encoded("deflate")),
            (StreamFormat::Deflate, deflate.finish().expect("memory")),
            (StreamFormat::Zstd, encoded("zstd")),
        ];
        for (format, stream) in streams {
            let followed = [&stream[..], b"and more"].concat();
            let expected = DecodedStream { bytes: text(), consumed: stream.len(), error: None };
            assert_eq!(decode_stream(format, &followed, MANY), expected, "{format:?}");
            let cut = decode_stream(format, &stream[..stream.len() / 2], MANY);
            assert!(cut.error.is_some() && text().starts_with(&cut.bytes), "{format:?}");
            let bomb = decode_stream(format, &stream, 1000);
            assert_eq!(bomb.error, Some(CodingError::TooLong { limit: 1000 }), "{format:?}");
        }
    }

    #[test]
    fn errors_name_the_coding() {
        let told =
            |header: &str| decode(header, b"plain text, not packed", MANY).expect_err(header).to_string();
        assert_eq!(told("gzip, snappy"), "unknown content coding: snappy");
        assert_eq!(told("gzip"), "the body is not valid gzip");
        assert_eq!(told("deflate"), "the body is not valid deflate");
        assert_eq!(told("br"), "the body is not valid br");
        assert_eq!(told("zstd"), "the body is not valid zstd");
    }

    proptest! {
        #[test]
        fn any_bytes_survive_encoding_and_truncation(body in prop::collection::vec(any::<u8>(), 0..300), which in 0..ALL.len(), cut in 0usize..400) {
            let encoded = encode(ALL[which], &body).expect("known codings");
            prop_assert_eq!(&decode(ALL[which], &encoded, MANY).expect("whole"), &body);
            let cut = cut.min(encoded.len());
            let partly = decode_partly(ALL[which], &encoded[..cut], MANY).expect("known codings");
            prop_assert!(body.starts_with(&partly.bytes));
        }

        #[test]
        fn no_bytes_make_it_panic(body in prop::collection::vec(any::<u8>(), 0..200), which in 0..ALL.len()) {
            let _ = decode_partly(ALL[which], &body, MANY);
        }
    }
}
