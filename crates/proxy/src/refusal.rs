//! Responses of the proxy itself, if there is no provider's response to pass on.

/// Encodes a complete error response in the format of providers, after which the connection closes.
pub(crate) fn response(status: u16, reason: &str, message: &str) -> Vec<u8> {
    let message = wire::json::quote(message);
    let body = format!(r#"{{"type":"error","error":{{"type":"offshoot_proxy_error","message":{message}}}}}"#);
    format!(
        "HTTP/1.1 {status} {reason}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}
