//! HAR 1.2, which browsers and their tools can read.
//!
//! Fields that the format does not have start with `_`. Unknown values are expressed as the format does: `-1`
//! for a size, or an empty text.

use std::io::{self, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use recording::source::{Content, Origin, SourceRequest, SourceResponse};
use serde_json::{Map, Value, json};
use wire::Header;

use crate::place::ExchangePosition;
use crate::url;

/// An exchange with further data for its entry.
#[derive(Debug)]
pub struct HarEntry<'e> {
    /// The request.
    pub asked: &'e SourceRequest,
    /// The response, as far as it was received.
    pub answered: Option<&'e SourceResponse>,
    /// The position among the lanes, if there is one.
    pub place: Option<ExchangePosition<'e>>,
    /// Time until the whole request had arrived, in microseconds, if known.
    pub sending_us: Option<u64>,
    /// The HTTP version, such as `HTTP/1.1`, if known.
    pub http: Option<&'static str>,
}

/// Writes a HAR file entry by entry, so that only one exchange is in memory at a time.
pub struct HarWriter<W: Write> {
    out: W,
    is_first: bool,
}

impl<W: Write> HarWriter<W> {
    /// Starts the file. `version` is the version of this program.
    pub fn begin(mut out: W, version: &str) -> io::Result<Self> {
        let creator = json!({"name": "offshoot", "version": version});
        write!(out, "{{\"log\":{{\"version\":\"1.2\",\"creator\":{creator},\"pages\":[],\"entries\":[")?;
        Ok(Self { out, is_first: true })
    }

    /// Adds an exchange. Exchanges must be added in order of arrival.
    pub fn entry(&mut self, entry: &HarEntry<'_>) -> io::Result<()> {
        let comma = if std::mem::take(&mut self.is_first) { "" } else { "," };
        write!(self.out, "{comma}\n{}", har_entry(entry))
    }

    /// Ends the file.
    pub fn end(mut self) -> io::Result<W> {
        self.out.write_all(b"\n]}}\n")?;
        Ok(self.out)
    }
}

/// Converts an exchange to an entry of `log.entries`.
pub fn har_entry(entry: &HarEntry<'_>) -> Value {
    let HarEntry { asked, answered, place, .. } = entry;
    let times = Times::of(entry);
    let started = asked.timestamp.as_deref().and_then(recording::iso_of);
    let mut value = json!({
        "startedDateTime": started.as_deref().unwrap_or("1970-01-01T00:00:00.000000Z"),
        "time": ms(times.send + times.wait + times.receive),
        "request": request(asked, entry.http),
        "response": response(*answered, entry.http),
        "cache": {},
        "timings": {
            "blocked": -1, "dns": -1, "connect": -1, "ssl": -1,
            "send": ms(times.send), "wait": ms(times.wait), "receive": ms(times.receive),
        },
        "_requestId": asked.id,
        "_ending": answered.and_then(|answered| answered.ending),
    });
    let mut also = |name: &str, it: Value| value[name] = it;
    if started.is_none() {
        also("_timeUnknown", true.into());
    }
    if let Some(place) = place {
        also("_lane", place.lane.into());
        also("_turn", place.turn.into());
        also("_attempt", place.attempt.into());
        also("_seq", place.seq.into());
    }
    if let Some(error) = answered.and_then(|answered| answered.error.as_deref()) {
        also("_error", error.into());
    }
    value
}

/// The three phases of an exchange, in microseconds.
struct Times {
    send: u64,
    wait: u64,
    receive: u64,
}

impl Times {
    /// Computes phases that always add up to the total, even if clocks jumped.
    fn of(entry: &HarEntry<'_>) -> Self {
        let answered = entry.answered;
        let end = answered.and_then(|answered| answered.end_us);
        let first = answered.and_then(|answered| answered.first_byte_us);
        let end = end.or(first).or(entry.sending_us).unwrap_or_default();
        let first = first.unwrap_or(end).min(end);
        let send = entry.sending_us.unwrap_or_default().min(first);
        Self { send, wait: first - send, receive: end - first }
    }
}

fn ms(us: u64) -> f64 {
    us as f64 / 1e3
}

fn request(request: &SourceRequest, http: Option<&str>) -> Value {
    let mut value = json!({
        "method": request.method,
        "url": request.url,
        "httpVersion": http.unwrap_or("unknown"),
        "cookies": cookies(&request.headers, "cookie", sent_cookies),
        "headers": headers(&request.headers),
        "queryString": pairs(url::query(&request.url)),
        "headersSize": -1,
        "bodySize": size_on_the_wire(&request.body),
    });
    match request.body.bytes.as_deref() {
        None => value["_bodyLost"] = true.into(),
        Some([]) => {}
        Some(bytes) => value["postData"] = post_data(bytes, &request.headers),
    }
    value
}

/// The format has an `encoding` for responses only; requests get `_encoding` with the same meaning.
fn post_data(bytes: &[u8], headers: &[Header]) -> Value {
    let mime = mime_type(headers);
    match std::str::from_utf8(bytes) {
        Ok(text) => json!({"mimeType": mime, "text": text}),
        Err(_) => json!({"mimeType": mime, "text": STANDARD.encode(bytes), "_encoding": "base64"}),
    }
}

fn response(answered: Option<&SourceResponse>, http: Option<&str>) -> Value {
    let none = Vec::new();
    let headers_in = answered.map_or(&none, |answered| &answered.headers);
    let body = answered.map(|answered| &answered.body);
    let status = answered.and_then(|answered| answered.status);
    json!({
        "status": status.unwrap_or_default(),
        "statusText": "",
        "httpVersion": status.and(http).unwrap_or("unknown"),
        "cookies": cookies(headers_in, "set-cookie", set_cookies),
        "headers": headers(headers_in),
        "content": content(body, headers_in),
        "redirectURL": header(headers_in, "location").unwrap_or_default(),
        "headersSize": -1,
        "bodySize": body.map_or(-1, size_on_the_wire),
    })
}

fn content(body: Option<&Content>, headers: &[Header]) -> Value {
    let mime = mime_type(headers);
    let Some(bytes) = body.and_then(|body| body.bytes.as_deref()) else {
        return match body {
            Some(_) => json!({"size": 0, "mimeType": mime, "_bodyLost": true}),
            None => json!({"size": 0, "mimeType": mime}),
        };
    };
    match std::str::from_utf8(bytes) {
        Ok(text) => json!({"size": bytes.len(), "mimeType": mime, "text": text}),
        Err(_) => {
            json!({"size": bytes.len(), "mimeType": mime, "text": STANDARD.encode(bytes), "encoding": "base64"})
        }
    }
}

/// Returns the number of bytes on the wire; unknown (-1) for a body that was decompressed.
fn size_on_the_wire(body: &Content) -> i64 {
    match (&body.bytes, body.origin) {
        (Some(bytes), Origin::Raw) => i64::try_from(bytes.len()).unwrap_or(-1),
        _ => -1,
    }
}

/// A secret header keeps its name; its value is the placeholder that bodies contain.
fn headers(headers: &[Header]) -> Vec<Value> {
    let header = |header: &Header| match header {
        Header::Plain { name, value } => json!({"name": name, "value": value}),
        Header::Secret { name, fingerprint, .. } => {
            json!({"name": name, "value": format!("offshoot-redacted-{fingerprint}"), "_redacted": true})
        }
    };
    headers.iter().map(header).collect()
}

fn header<'h>(headers: &'h [Header], name: &str) -> Option<&'h str> {
    headers.iter().find(|header| header.name().eq_ignore_ascii_case(name)).and_then(Header::value)
}

fn mime_type(headers: &[Header]) -> &str {
    header(headers, "content-type").unwrap_or_default()
}

fn pairs(pairs: Vec<(String, String)>) -> Vec<Value> {
    pairs.into_iter().map(|(name, value)| json!({"name": name, "value": value})).collect()
}

fn cookies(headers: &[Header], name: &str, read: fn(&str) -> Vec<Value>) -> Vec<Value> {
    let named = headers.iter().filter(|header| header.name().eq_ignore_ascii_case(name));
    named.filter_map(Header::value).flat_map(read).collect()
}

fn sent_cookies(line: &str) -> Vec<Value> {
    let cookie = |pair: &str| {
        let (name, value) = pair.trim().split_once('=')?;
        Some(json!({"name": name, "value": value}))
    };
    line.split(';').filter_map(cookie).collect()
}

fn set_cookies(line: &str) -> Vec<Value> {
    let mut parts = line.split(';').map(str::trim);
    let Some((name, value)) = parts.next().and_then(|pair| pair.split_once('=')) else { return Vec::new() };
    let mut cookie = Map::from_iter([
        ("name".to_owned(), name.into()),
        ("value".to_owned(), value.into()),
        ("httpOnly".to_owned(), false.into()),
        ("secure".to_owned(), false.into()),
    ]);
    for part in parts {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        match name.to_ascii_lowercase().as_str() {
            "path" => cookie.insert("path".into(), value.into()),
            "domain" => cookie.insert("domain".into(), value.into()),
            "httponly" => cookie.insert("httpOnly".into(), true.into()),
            "secure" => cookie.insert("secure".into(), true.into()),
            _ => None,
        };
    }
    vec![Value::Object(cookie)]
}

#[cfg(test)]
mod tests;
