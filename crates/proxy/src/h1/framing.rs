//! Finds the end of a body, and removes its framing.

use thiserror::Error;

/// Framing of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// No body.
    None,
    /// A number of bytes.
    Length(u64),
    /// Chunks with their sizes, followed by trailers.
    Chunked,
    /// All bytes until the connection closes.
    UntilClose,
}

/// A chunked body is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a chunked body with a broken {0}")]
pub(crate) struct ChunkError(&'static str);

/// Maximum length of a line of the framing.
const MAX_LINE: usize = 64 << 10;

/// Decodes the framing of a body from bytes as they come.
#[derive(Debug)]
pub(crate) struct BodyDecoder {
    state: DecoderState,
    line: Vec<u8>,
    trailers: Vec<(String, Vec<u8>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DecoderState {
    Data(u64),
    Endless,
    Size,
    Chunk(u64),
    ChunkEnd,
    Trailers,
    Done,
}

impl BodyDecoder {
    pub(crate) fn new(framing: Framing) -> Self {
        let state = match framing {
            Framing::None | Framing::Length(0) => DecoderState::Done,
            Framing::Length(bytes) => DecoderState::Data(bytes),
            Framing::Chunked => DecoderState::Size,
            Framing::UntilClose => DecoderState::Endless,
        };
        Self { state, line: Vec::new(), trailers: Vec::new() }
    }

    /// Returns whether the body is complete.
    pub(crate) fn is_done(&self) -> bool {
        self.state == DecoderState::Done
    }

    /// Returns whether the body is complete if the connection closes now.
    pub(crate) fn may_end_at_close(&self) -> bool {
        matches!(self.state, DecoderState::Done | DecoderState::Endless)
    }

    /// Returns the trailers.
    pub(crate) fn take_trailers(&mut self) -> Vec<(String, Vec<u8>)> {
        std::mem::take(&mut self.trailers)
    }

    /// Decodes bytes, and passes the content of the body to `data`. Returns how many of `bytes` belong to this message:
    /// fewer than all only when it is done.
    pub(crate) fn push(&mut self, bytes: &[u8], data: &mut dyn FnMut(&[u8])) -> Result<usize, ChunkError> {
        let mut at = 0;
        while at < bytes.len() && self.state != DecoderState::Done {
            let rest = &bytes[at..];
            at += match self.state {
                DecoderState::Data(left) => {
                    let take = rest.len().min(left as usize);
                    data(&rest[..take]);
                    self.state = if take as u64 == left {
                        DecoderState::Done
                    } else {
                        DecoderState::Data(left - take as u64)
                    };
                    take
                }
                DecoderState::Endless => {
                    data(rest);
                    rest.len()
                }
                DecoderState::Chunk(left) => {
                    let take = rest.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    data(&rest[..take]);
                    self.state = if take as u64 == left {
                        DecoderState::ChunkEnd
                    } else {
                        DecoderState::Chunk(left - take as u64)
                    };
                    take
                }
                DecoderState::Size | DecoderState::ChunkEnd | DecoderState::Trailers => self.line(rest)?,
                DecoderState::Done => 0,
            };
        }
        Ok(at)
    }

    /// Consumes bytes up to the end of a line of the framing.
    fn line(&mut self, rest: &[u8]) -> Result<usize, ChunkError> {
        let end = rest.iter().position(|byte| *byte == b'\n');
        let take = end.map_or(rest.len(), |end| end + 1);
        if end.is_some() && self.line.is_empty() && take <= MAX_LINE {
            self.whole_line(rest[..take].trim_ascii_end())?; // the usual case
            return Ok(take);
        }
        self.line.extend_from_slice(&rest[..take]);
        if self.line.len() > MAX_LINE {
            return Err(ChunkError("line of over 64 KiB"));
        }
        if end.is_some() {
            let line = std::mem::take(&mut self.line);
            self.whole_line(line.trim_ascii_end())?;
        }
        Ok(take)
    }

    fn whole_line(&mut self, line: &[u8]) -> Result<(), ChunkError> {
        self.state = match self.state {
            DecoderState::Size => {
                let size = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
                let digits =
                    std::str::from_utf8(size).ok().filter(|text| text.bytes().all(|b| b.is_ascii_hexdigit()));
                let size =
                    digits.and_then(|text| u64::from_str_radix(text, 16).ok()).ok_or(ChunkError("size"))?;
                if size == 0 { DecoderState::Trailers } else { DecoderState::Chunk(size) }
            }
            DecoderState::ChunkEnd if line.is_empty() => DecoderState::Size,
            DecoderState::ChunkEnd => return Err(ChunkError("end of a chunk")),
            _ if line.is_empty() => DecoderState::Done,
            _ => {
                let colon = line.iter().position(|byte| *byte == b':').ok_or(ChunkError("trailer"))?;
                let name = String::from_utf8_lossy(&line[..colon]).into_owned();
                self.trailers.push((name, line[colon + 1..].trim_ascii().to_vec()));
                DecoderState::Trailers
            }
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Decoded = Result<(String, usize, bool, Vec<(String, Vec<u8>)>), ChunkError>;

    fn decode(framing: Framing, pieces: &[&[u8]]) -> Decoded {
        let mut decoder = BodyDecoder::new(framing);
        let mut body = Vec::new();
        let mut taken = 0;
        for piece in pieces {
            taken += decoder.push(piece, &mut |data| body.extend_from_slice(data))?;
        }
        let done = decoder.is_done();
        Ok((String::from_utf8_lossy(&body).into_owned(), taken, done, decoder.take_trailers()))
    }

    #[test]
    fn chunks_anywhere_cut_are_one_body() {
        let wire = b"5;ext=1\r\nhello\r\n1\r\n!\r\n0\r\nX-Sum: 7\r\n\r\nNEXT";
        for cut in 0..wire.len() {
            let decoded = decode(Framing::Chunked, &[&wire[..cut], &wire[cut..]]).expect("well framed");
            let trailers = vec![("X-Sum".to_owned(), b"7".to_vec())];
            assert_eq!(decoded, ("hello!".to_owned(), wire.len() - 4, true, trailers), "cut at {cut}");
        }
    }

    #[test]
    fn a_length_ends_the_body() {
        let (body, taken, done, _) = decode(Framing::Length(3), &[b"ab", b"cd"]).expect("well framed");
        assert_eq!((body.as_str(), taken, done), ("abc", 3, true));
        assert!(decode(Framing::Length(0), &[b"x"]).expect("well framed").2);
        assert!(!decode(Framing::UntilClose, &[b"x"]).expect("well framed").2);
    }

    #[test]
    fn broken_chunks_are_named() {
        for (wire, broken) in [
            (b"x\r\n".as_slice(), "size"),
            (b"\r\n", "size"),
            (b"-1\r\n", "size"),
            (b"1\r\nabc\r\n", "end of a chunk"),
            (b"0\r\nno colon\r\n", "trailer"),
            (b"fffffffffffffffff\r\n", "size"),
        ] {
            assert_eq!(decode(Framing::Chunked, &[wire]), Err(ChunkError(broken)));
        }
    }
}
