//! Decodes the chunked transfer coding from bytes as they arrive.

use anyhow::{Result, bail};

/// State of the decoder.
#[derive(Debug, PartialEq)]
pub(super) enum Chunked {
    /// In the line with the size of a chunk.
    Size { value: usize, in_extension: bool },
    /// In a chunk with this number of missing bytes.
    Data { left: usize },
    /// In the line break after a chunk.
    DataEnd,
    /// In a line with this number of bytes after the last chunk.
    Trailer { line: usize },
    /// After the body.
    Done,
}

impl Chunked {
    /// The state at the start of a body.
    pub(super) const START: Chunked = Chunked::Size { value: 0, in_extension: false };

    /// Decodes the next bytes, and passes the content to `body`.
    pub(super) fn push(&mut self, mut wire: &[u8], mut body: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        while let Some(&first) = wire.first() {
            let taken = if let Chunked::Data { left } = *self { left.min(wire.len()) } else { 1 };
            let (data, rest) = wire.split_at(taken);
            wire = rest;
            *self = match *self {
                Chunked::Size { value: 0, .. } if first == b'\n' => Chunked::Trailer { line: 0 },
                Chunked::Size { value, .. } if first == b'\n' => Chunked::Data { left: value },
                Chunked::Size { value, in_extension: true } => Chunked::Size { value, in_extension: true },
                Chunked::Size { value, in_extension: false } => match (first as char).to_digit(16) {
                    Some(digit) => Chunked::Size { value: value * 16 + digit as usize, in_extension: false },
                    None if matches!(first, b';' | b'\r' | b' ') => {
                        Chunked::Size { value, in_extension: true }
                    }
                    None => bail!("byte {first:#04x} in the size of a chunk"),
                },
                Chunked::Data { left } => {
                    body(data)?;
                    if taken == left { Chunked::DataEnd } else { Chunked::Data { left: left - taken } }
                }
                Chunked::DataEnd if first == b'\n' => Chunked::START,
                Chunked::DataEnd if first == b'\r' => Chunked::DataEnd,
                Chunked::DataEnd => bail!("a chunk is longer than its size"),
                Chunked::Trailer { line: 0 } if first == b'\n' => Chunked::Done,
                Chunked::Trailer { .. } if first == b'\n' => Chunked::Trailer { line: 0 },
                Chunked::Trailer { line } => Chunked::Trailer { line: line + usize::from(first != b'\r') },
                Chunked::Done => bail!("bytes after the end of the response"),
            };
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(pieces: &[&[u8]]) -> Result<(Vec<u8>, Chunked)> {
        let (mut state, mut body) = (Chunked::START, Vec::new());
        for piece in pieces {
            state.push(piece, |data| {
                body.extend_from_slice(data);
                Ok(())
            })?;
        }
        Ok((body, state))
    }

    #[test]
    fn the_chunking_of_a_body_does_not_change_it() {
        let wire = b"5;name=value\r\nhello\r\n0C\r\n and a world\r\n0\r\nTrailer: x\r\n\r\n";
        for cut in 0..=wire.len() {
            let (left, right) = wire.split_at(cut);
            let (body, state) = decode(&[left, right]).expect("the body is well formed");
            assert_eq!((body.as_slice(), state), (&b"hello and a world"[..], Chunked::Done), "cut at {cut}");
        }
    }

    #[test]
    fn a_body_that_is_not_over_is_not_done() {
        let (body, state) = decode(&[b"5\r\nhel"]).expect("so far it is well formed");
        assert_eq!((body.as_slice(), state), (&b"hel"[..], Chunked::Data { left: 2 }));
    }

    #[test]
    fn malformed_bodies_are_refused() {
        for wire in [&b"x\r\n"[..], b"2\r\nabc\r\n", b"0\r\n\r\nmore"] {
            assert!(decode(&[wire]).is_err(), "{}", String::from_utf8_lossy(wire));
        }
    }
}
