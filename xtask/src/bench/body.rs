//! A response's body, taken off the wire as its head says.

use anyhow::{Context, Result, bail, ensure};

use super::chunked::Chunked;

/// Where in a body we are.
#[derive(Debug, PartialEq)]
pub(super) enum Body {
    Chunked(Chunked),
    /// So many bytes are still to come.
    Sized(usize),
}

impl Body {
    /// The body behind a head in small letters, which must be of a good answer.
    pub(super) fn behind(head: &str) -> Result<Body> {
        ensure!(head.starts_with("http/1.1 200 "), "expected 200, got:\n{head}");
        if head.contains("\r\ntransfer-encoding: chunked\r\n") {
            return Ok(Body::Chunked(Chunked::START));
        }
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
        let Some(length) = length else { bail!("the length of the body is not known:\n{head}") };
        Ok(Body::Sized(length.trim().parse().context("a length that is no number")?))
    }

    pub(super) fn is_done(&self) -> bool {
        matches!(self, Body::Chunked(Chunked::Done) | Body::Sized(0))
    }

    /// Takes the next bytes from the wire and gives the body's bytes among them to `body`.
    pub(super) fn push(&mut self, wire: &[u8], mut body: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        match self {
            Body::Chunked(chunked) => chunked.push(wire, body),
            Body::Sized(left) => {
                *left = left.checked_sub(wire.len()).context("bytes behind the end of the response")?;
                body(wire)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_says_how_a_body_ends() {
        let of = |more: &str| Body::behind(&format!("http/1.1 200 ok\r\n{more}\r\n\r\n"));
        assert_eq!(of("transfer-encoding: chunked").expect("chunks"), Body::Chunked(Chunked::START));
        assert_eq!(of("content-length: 12").expect("a length"), Body::Sized(12));
        assert!(of("connection: close").is_err());
        assert!(Body::behind("http/1.1 500 no\r\ncontent-length: 0\r\n\r\n").is_err());
    }

    #[test]
    fn a_length_is_kept_to() {
        let mut body = Body::Sized(5);
        body.push(b"hel", |_| Ok(())).expect("there is more to come");
        assert!(!body.is_done());
        body.push(b"lo", |_| Ok(())).expect("this is the rest");
        assert!(body.is_done());
        assert!(body.push(b"!", |_| Ok(())).is_err());
    }
}
