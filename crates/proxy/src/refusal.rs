//! Answers of our own, where there is no provider's answer to pass on.

/// A whole response in the shape that providers give their errors; the connection closes behind it.
pub(crate) fn response(status: u16, reason: &str, message: &str) -> Vec<u8> {
    let message = wire::json::quote(message);
    let body = format!(r#"{{"type":"error","error":{{"type":"offshoot_proxy_error","message":{message}}}}}"#);
    format!(
        "HTTP/1.1 {status} {reason}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}
