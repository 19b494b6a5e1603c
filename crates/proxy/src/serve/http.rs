//! Encodes responses.

use std::io::Write as _;

use http::StatusCode;

fn head(status: u16, rest: &str) -> String {
    let reason = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
    format!("HTTP/1.1 {status} {}\r\n{rest}\r\n\r\n", reason.unwrap_or("Scripted"))
}

/// Encodes a complete response. `headers` are additional headers, each with its line break.
pub(crate) fn json(status: u16, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let rest = format!("{headers}content-type: application/json\r\ncontent-length: {length}");
    [head(status, &rest).as_bytes(), body].concat()
}

/// Encodes the response to a `HEAD` request.
pub(crate) fn empty(status: u16) -> Vec<u8> {
    head(status, "content-type: application/json\r\ncontent-length: 0").into_bytes()
}

/// Encodes the head of a stream.
pub(crate) fn stream() -> Vec<u8> {
    let rest = "content-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\ntransfer-encoding: chunked";
    head(200, rest).into_bytes()
}

/// Appends one event as one chunk, as providers send it.
pub(crate) fn push_chunk(out: &mut Vec<u8>, event: &[u8]) {
    out.reserve(event.len() + 20);
    write!(out, "{:x}\r\n", event.len()).expect("a vector accepts all bytes");
    out.extend_from_slice(event);
    out.extend_from_slice(b"\r\n");
}

/// The end of a chunked body.
pub(crate) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";
