//! A minimal HTTP client for an API on loopback: one request and one response per connection.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A response.
#[derive(Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// Null if the body is not JSON.
    pub(super) json: Value,
}

/// Sends a request and reads the whole response within the deadline.
pub(super) async fn ask(
    mut tcp: TcpStream,
    method: &str,
    path: &str,
    body: Option<&Value>,
    deadline: Duration,
) -> Result<Answer, String> {
    let body = body.map(Value::to_string).unwrap_or_default();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: application/json\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let exchange = async {
        tcp.write_all(request.as_bytes()).await.map_err(|error| error.to_string())?;
        let mut heard = Vec::new();
        loop {
            if let Some(answer) = parse(&heard, false)? {
                return Ok(answer);
            }
            if tcp.read_buf(&mut heard).await.map_err(|error| error.to_string())? == 0 {
                return parse(&heard, true)?.ok_or_else(|| "the answer is cut".to_owned());
            }
        }
    };
    let late = || Err(format!("no answer to {method} {path} within {} s", deadline.as_secs()));
    tokio::time::timeout(deadline, exchange).await.unwrap_or_else(|_| late())
}

/// Parses a response when it is complete.
fn parse(heard: &[u8], closed: bool) -> Result<Option<Answer>, String> {
    let Some(end) = heard.windows(4).position(|window| window == b"\r\n\r\n") else { return Ok(None) };
    let head = String::from_utf8_lossy(&heard[..end]);
    let mut lines = head.lines();
    let status =
        lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).ok_or("that is not HTTP")?;
    let header = |name: &str| {
        let mut fields = head.lines().skip(1).filter_map(|line| line.split_once(':'));
        fields.find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim().to_owned())
    };
    let rest = &heard[end + 4..];
    let body = if header("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
        chunks(rest)
    } else {
        match header("content-length").and_then(|length| length.parse().ok()) {
            Some(length) => rest.get(..length).map(<[u8]>::to_vec),
            None if status == 204 => Some(Vec::new()),
            None => closed.then(|| rest.to_vec()),
        }
    };
    Ok(body.map(|body| Answer { status, json: serde_json::from_slice(&body).unwrap_or(Value::Null) }))
}

/// Joins a chunked body when its last chunk has arrived.
fn chunks(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = rest.windows(2).position(|window| window == b"\r\n")?;
        let size = std::str::from_utf8(&rest[..line]).ok()?.split(';').next()?.trim().to_owned();
        let size = usize::from_str_radix(&size, 16).ok()?;
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(rest.get(line + 2..line + 2 + size)?);
        rest = rest.get(line + 4 + size..)?;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(heard: &str, closed: bool, expected: Option<(u16, Value)>) {
        let expected = expected.map(|(status, json)| Answer { status, json });
        assert_eq!(parse(heard.as_bytes(), closed), Ok(expected), "{heard:?}");
    }

    #[test]
    fn a_response_ends_at_its_declared_length() {
        check("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n[1", false, None);
        check("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n[1]", false, Some((200, json!([1]))));
        check("HTTP/1.1 204 No Content\r\n\r\n", false, Some((204, Value::Null)));
        check("HTTP/1.1 200 OK\r\n\r\n{}", false, None);
        check("HTTP/1.1 200 OK\r\n\r\n{}", true, Some((200, json!({}))));
        check("HTTP/1.1 200 OK\r\n", false, None);
    }

    #[test]
    fn chunks_are_joined() {
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        check(&format!("{head}2\r\n[1\r\n"), false, None);
        check(&format!("{head}2\r\n[1\r\n3;x=y\r\n,2]\r\n0\r\n\r\n"), false, Some((200, json!([1, 2]))));
    }
}
