//! Heads of requests and responses, with the byte ranges of their parts.

use std::ops::Range;

use thiserror::Error;

use super::Framing;

/// Maximum length of a head.
const MAX_HEAD: usize = 2 << 20;

/// Headers for one connection only. They are passed on but not recorded.
const HOP_BY_HOP: &[&str] =
    &["connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"];

/// A head is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum HeadError {
    #[error("not HTTP: {0}")]
    Syntax(httparse::Error),
    #[error("a head of more than {MAX_HEAD} bytes")]
    TooLong,
    #[error("a body framed in two ways, or in an unknown one")]
    Framing,
}

/// The bytes of a head and the ranges of its headers.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    bytes: Vec<u8>,
    headers: Vec<(Range<usize>, Range<usize>)>,
    minor: u8,
}

impl Head {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns name and value of each header for the other end.
    pub(crate) fn end_to_end(&self) -> Vec<(String, Vec<u8>)> {
        let named = self.headers.iter().map(|(name, value)| {
            (
                String::from_utf8_lossy(&self.bytes[name.clone()]).into_owned(),
                self.bytes[value.clone()].to_vec(),
            )
        });
        named.filter(|(name, _)| !HOP_BY_HOP.contains(&name.to_ascii_lowercase().as_str())).collect()
    }

    fn values<'h>(&'h self, name: &'h str) -> impl Iterator<Item = &'h [u8]> {
        self.headers
            .iter()
            .filter(|(found, _)| self.bytes[found.clone()].eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, value)| &self.bytes[value.clone()])
    }

    /// Returns the first value of a header.
    pub(crate) fn value(&self, name: &str) -> Option<String> {
        self.values(name).next().map(|value| String::from_utf8_lossy(value).into_owned())
    }

    /// Returns whether a comma-separated header has this token.
    pub(crate) fn has_token(&self, name: &str, token: &str) -> bool {
        self.tokens(name).any(|word| word.eq_ignore_ascii_case(token.as_bytes()))
    }

    /// Returns whether the connection closes after this message.
    pub(crate) fn closes(&self) -> bool {
        self.has_token("connection", "close")
            || (self.minor == 0 && !self.has_token("connection", "keep-alive"))
    }

    /// Returns the framing that the headers declare.
    fn declared(&self) -> Result<DeclaredFraming, HeadError> {
        let codings =
            self.tokens("transfer-encoding").filter(|coding| !coding.eq_ignore_ascii_case(b"identity"));
        let last = codings.last();
        if last.is_some_and(|coding| !coding.eq_ignore_ascii_case(b"chunked")) {
            return Err(HeadError::Framing);
        }
        let mut length = None;
        for value in self.tokens("content-length") {
            let digits =
                std::str::from_utf8(value).ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
            let parsed = digits.and_then(|text| text.parse::<u64>().ok()).ok_or(HeadError::Framing)?;
            if length.replace(parsed).is_some_and(|before| before != parsed) {
                return Err(HeadError::Framing);
            }
        }
        Ok(DeclaredFraming { chunked: last.is_some(), length })
    }

    /// Returns the tokens of a comma-separated header, over all its lines.
    fn tokens<'h>(&'h self, name: &'h str) -> impl Iterator<Item = &'h [u8]> {
        self.values(name).flat_map(|value| value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii))
    }
}

/// The framing that a head declares.
struct DeclaredFraming {
    chunked: bool,
    length: Option<u64>,
}

/// The head of a request.
#[derive(Clone, Debug)]
pub(crate) struct RequestHead {
    pub(crate) head: Head,
    pub(crate) method: String,
    target: Range<usize>,
    pub(crate) framing: Framing,
}

impl RequestHead {
    /// Parses the head at the beginning of `bytes`. Returns it with its length, or `None` if it is not complete.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, HeadError> {
        let mut headers = vec![httparse::EMPTY_HEADER; count_lines(bytes)];
        let mut parsed = httparse::Request::new(&mut headers);
        let length = match parsed.parse(bytes).map_err(HeadError::Syntax)? {
            httparse::Status::Complete(length) => length,
            httparse::Status::Partial if bytes.len() > MAX_HEAD => return Err(HeadError::TooLong),
            httparse::Status::Partial => return Ok(None),
        };
        let target = range_in(bytes, parsed.path.unwrap_or_default().as_bytes());
        let method = parsed.method.unwrap_or_default().to_owned();
        let head = head(&bytes[..length], parsed.headers, parsed.version);
        let framing = match head.declared()? {
            // Both at once enable request smuggling: the provider might interpret them differently.
            DeclaredFraming { chunked: true, length: Some(_) } => return Err(HeadError::Framing),
            DeclaredFraming { chunked: true, length: None } => Framing::Chunked,
            DeclaredFraming { chunked: false, length } => length.map_or(Framing::None, Framing::Length),
        };
        Ok(Some((Self { head, method, target, framing }, length)))
    }

    /// Returns the request target, usually path and query.
    pub(crate) fn target(&self) -> String {
        String::from_utf8_lossy(&self.head.bytes[self.target.clone()]).into_owned()
    }

    /// Returns the bytes of the head with another target and `Host`, and no other change.
    pub(crate) fn redirected(&self, target: &str, host: &str) -> Vec<u8> {
        let mut edits = wire::json::Edits::default();
        edits.replace(self.target.clone(), target);
        let is_host = |(name, _): &&(Range<usize>, Range<usize>)| {
            self.head.bytes[name.clone()].eq_ignore_ascii_case(b"host")
        };
        for (_, value) in self.head.headers.iter().filter(is_host) {
            edits.replace(value.clone(), host);
        }
        edits.apply(&self.head.bytes).expect("target and headers do not overlap")
    }
}

/// The head of a response.
#[derive(Clone, Debug)]
pub(crate) struct ResponseHead {
    pub(crate) head: Head,
    pub(crate) status: u16,
    pub(crate) framing: Framing,
}

impl ResponseHead {
    /// Parses the head at the beginning of `bytes`, which answers a request with this method. Returns it with its length,
    /// or `None` if it is not complete.
    pub(crate) fn parse(bytes: &[u8], method: &str) -> Result<Option<(Self, usize)>, HeadError> {
        let mut headers = vec![httparse::EMPTY_HEADER; count_lines(bytes)];
        let mut parsed = httparse::Response::new(&mut headers);
        let mut lenient = httparse::ParserConfig::default();
        lenient.allow_obsolete_multiline_headers_in_responses(true);
        let length = match lenient.parse_response(&mut parsed, bytes).map_err(HeadError::Syntax)? {
            httparse::Status::Complete(length) => length,
            httparse::Status::Partial if bytes.len() > MAX_HEAD => return Err(HeadError::TooLong),
            httparse::Status::Partial => return Ok(None),
        };
        let status = parsed.code.unwrap_or_default();
        let head = head(&bytes[..length], parsed.headers, parsed.version);
        let bodiless = method == "HEAD" || matches!(status, 100..200 | 204 | 304);
        let framing = match bodiless {
            true => Framing::None,
            // Clients ignore a length beside chunks.
            false => match head.declared()? {
                DeclaredFraming { chunked: true, .. } => Framing::Chunked,
                DeclaredFraming { chunked: false, length } => {
                    length.map_or(Framing::UntilClose, Framing::Length)
                }
            },
        };
        Ok(Some((Self { head, status, framing }, length)))
    }

    /// Returns whether another head follows for the same request.
    pub(crate) fn is_interim(&self) -> bool {
        (100..200).contains(&self.status) && self.status != 101
    }
}

fn head(bytes: &[u8], headers: &[httparse::Header<'_>], version: Option<u8>) -> Head {
    let places =
        headers.iter().map(|header| (range_in(bytes, header.name.as_bytes()), range_in(bytes, header.value)));
    Head { bytes: bytes.to_vec(), headers: places.collect(), minor: version.unwrap_or(1) }
}

/// Returns the number of lines up to the end of the head, which is more than the number of its headers.
fn count_lines(bytes: &[u8]) -> usize {
    let is_empty = |line: &&[u8]| matches!(line, [] | [b'\r']);
    bytes.split(|byte| *byte == b'\n').skip_while(is_empty).take_while(|line| !is_empty(line)).count()
}

/// Returns the range of `part`, a slice of `whole`.
fn range_in(whole: &[u8], part: &[u8]) -> Range<usize> {
    let start = (part.as_ptr() as usize).wrapping_sub(whole.as_ptr() as usize);
    // An empty part may point anywhere.
    if start <= whole.len() { start..start + part.len() } else { 0..0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_target_and_host_change_on_the_way() {
        let sent = b"POST /a/v1/messages?beta=true HTTP/1.1\r\nhOsT:  127.0.0.1:1 \r\nX-OdD:\tkept  \r\nx-odd: twice\r\n\r\nrest";
        let (head, length) = RequestHead::parse(sent).expect("HTTP").expect("whole");
        assert_eq!(&sent[length..], b"rest");
        assert_eq!(
            String::from_utf8_lossy(&head.redirected("/v1/messages?beta=true", "api.test")),
            "POST /v1/messages?beta=true HTTP/1.1\r\nhOsT:  api.test \r\nX-OdD:\tkept  \r\nx-odd: twice\r\n\r\n"
        );
        let odd: Vec<_> = head.head.end_to_end().into_iter().skip(1).collect();
        assert_eq!(odd, [("X-OdD".into(), b"kept".to_vec()), ("x-odd".into(), b"twice".to_vec())]);
    }

    fn framing(head: &str) -> Result<Framing, HeadError> {
        let text = format!("{head}\r\n\r\n").replace('|', "\r\n");
        match head.starts_with("HTTP") {
            true => ResponseHead::parse(text.as_bytes(), "POST").map(|head| head.expect("whole").0.framing),
            false => RequestHead::parse(text.as_bytes()).map(|head| head.expect("whole").0.framing),
        }
    }

    #[test]
    fn the_head_decides_the_framing() {
        for (head, expected) in [
            ("GET / HTTP/1.1|a: b", Ok(Framing::None)),
            ("POST / HTTP/1.1|Content-Length: 7", Ok(Framing::Length(7))),
            ("POST / HTTP/1.1|Content-Length: 7|content-length: 7", Ok(Framing::Length(7))),
            ("POST / HTTP/1.1|Content-Length: 7|content-length: 8", Err(HeadError::Framing)),
            ("POST / HTTP/1.1|Content-Length: +7", Err(HeadError::Framing)),
            ("POST / HTTP/1.1|transfer-encoding: gzip, Chunked", Ok(Framing::Chunked)),
            ("POST / HTTP/1.1|transfer-encoding: gzip", Err(HeadError::Framing)),
            ("POST / HTTP/1.1|transfer-encoding: chunked|content-length: 3", Err(HeadError::Framing)),
            ("POST / HTTP/1.1|Content-Length: 7, 7", Ok(Framing::Length(7))),
            ("HTTP/1.1 200 OK|a: b", Ok(Framing::UntilClose)),
            ("HTTP/1.1 200 OK|transfer-encoding: chunked|content-length: 3", Ok(Framing::Chunked)),
            ("HTTP/1.1 200 OK|transfer-encoding: identity|content-length: 3", Ok(Framing::Length(3))),
            ("HTTP/1.1 200 OK|a: folded|  line|content-length: 3", Ok(Framing::Length(3))),
            ("HTTP/1.1 204 No|content-length: 9", Ok(Framing::None)),
            ("HTTP/1.1 100 Continue", Ok(Framing::None)),
        ] {
            assert_eq!(framing(head), expected, "{head}");
        }
    }

    #[test]
    fn a_head_is_awaited_and_garbage_is_not() {
        assert!(RequestHead::parse(b"POST / HT").expect("so far so good").is_none());
        assert!(matches!(ResponseHead::parse(b"\x16\x03\x01garbage", "GET"), Err(HeadError::Syntax(_))));
        let long = [b"GET / HTTP/1.1\r\na: ".as_slice(), &vec![b'x'; MAX_HEAD]].concat();
        assert!(matches!(RequestHead::parse(&long), Err(HeadError::TooLong)));
    }
}
