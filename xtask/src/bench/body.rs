//! Decodes the body of a response with the framing of its head.

use anyhow::{Context, Result, bail, ensure};

use super::chunked::Chunked;

/// State of the decoder.
#[derive(Debug, PartialEq)]
pub(super) enum Body {
    Chunked(Chunked),
    /// Number of missing bytes.
    Sized(usize),
}

impl Body {
    /// Creates the decoder for a head in lower case, whose status must be 200.
    pub(super) fn after_head(head: &str) -> Result<Body> {
        ensure!(head.starts_with("http/1.1 200 "), "expected 200, got:\n{head}");
        if head.contains("\r\ntransfer-encoding: chunked\r\n") {
            return Ok(Body::Chunked(Chunked::START));
        }
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
        let Some(length) = length else { bail!("unknown length of the body:\n{head}") };
        Ok(Body::Sized(length.trim().parse().context("the length is not a number")?))
    }

    pub(super) fn is_done(&self) -> bool {
        matches!(self, Body::Chunked(Chunked::Done) | Body::Sized(0))
    }

    /// Decodes the next bytes, and passes the content to `body`.
    pub(super) fn push(&mut self, wire: &[u8], mut body: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        match self {
            Body::Chunked(chunked) => chunked.push(wire, body),
            Body::Sized(left) => {
                *left = left.checked_sub(wire.len()).context("bytes after the end of the response")?;
                body(wire)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_determines_the_framing() {
        let of = |more: &str| Body::after_head(&format!("http/1.1 200 ok\r\n{more}\r\n\r\n"));
        assert_eq!(of("transfer-encoding: chunked").expect("chunks"), Body::Chunked(Chunked::START));
        assert_eq!(of("content-length: 12").expect("a length"), Body::Sized(12));
        assert!(of("connection: close").is_err());
        assert!(Body::after_head("http/1.1 500 no\r\ncontent-length: 0\r\n\r\n").is_err());
    }

    #[test]
    fn a_length_is_enforced() {
        let mut body = Body::Sized(5);
        body.push(b"hel", |_| Ok(())).expect("there is more to come");
        assert!(!body.is_done());
        body.push(b"lo", |_| Ok(())).expect("this is the rest");
        assert!(body.is_done());
        assert!(body.push(b"!", |_| Ok(())).is_err());
    }
}
