//! A connection of a harness: requests in, bytes out.

use std::io;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::exchange::{Buffer, fill};
use crate::h1::{BodyDecoder, RequestHead};

/// Maximum number of bytes read ahead of a request that is not answered yet.
const READ_AHEAD: usize = 1 << 20;

/// Maximum length of an unpacked request body.
const MAX_UNPACKED: usize = 256 << 20;

/// A connection of a harness.
pub(crate) struct Client {
    tcp: TcpStream,
    buffer: Buffer,
}

/// One request of a harness.
pub(crate) struct Request {
    pub(crate) method: String,
    /// Path and query.
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    /// The unpacked body.
    pub(crate) body: Vec<u8>,
    /// True if the connection closes after the response.
    pub(crate) is_last: bool,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&[u8]> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_slice())
    }

    /// Returns the target without its query and without a slash at its end.
    pub(crate) fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default().trim_end_matches('/')
    }

    /// Returns the query without the `?`.
    pub(crate) fn query(&self) -> &str {
        self.target.split_once('?').map_or("", |(_, query)| query)
    }
}

impl Client {
    pub(crate) fn new(tcp: TcpStream) -> Self {
        let _ = tcp.set_nodelay(true); // only slower without
        Self { tcp, buffer: Buffer::new() }
    }

    /// Reads the next request; `None` at the end of the connection.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Request>> {
        let (head, length) = loop {
            match RequestHead::parse(&self.buffer).map_err(io::Error::other)? {
                Some(parsed) => break parsed,
                None if fill(&mut self.tcp, &mut self.buffer).await? == 0 => return Ok(None),
                None => {}
            }
        };
        let _ = self.buffer.split_to(length);
        if head.head.has_token("expect", "100-continue") {
            self.tcp.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        let mut decoder = BodyDecoder::new(head.framing);
        let mut body = Vec::new();
        while !decoder.is_done() {
            if self.buffer.is_empty() && fill(&mut self.tcp, &mut self.buffer).await? == 0 {
                return Ok(None);
            }
            let taken = decoder
                .push(&self.buffer, &mut |part| body.extend_from_slice(part))
                .map_err(io::Error::other)?;
            let _ = self.buffer.split_to(taken);
        }
        let mut request = Request {
            target: head.target(),
            headers: head.head.end_to_end(),
            is_last: head.head.closes(),
            method: head.method,
            body,
        };
        if let Some(coding) = request.header("content-encoding") {
            let coding = String::from_utf8_lossy(coding).into_owned();
            request.body =
                wire::encoding::decode(&coding, &request.body, MAX_UNPACKED).map_err(io::Error::other)?;
        }
        Ok(Some(request))
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.tcp.write_all(bytes).await
    }

    /// Returns when the harness has left. What it sends until then is kept for the next request.
    pub(crate) async fn gone(&mut self) -> io::Error {
        while self.buffer.len() < READ_AHEAD {
            match fill(&mut self.tcp, &mut self.buffer).await {
                Ok(0) => return io::ErrorKind::ConnectionAborted.into(),
                Ok(_) => {}
                Err(error) => return error,
            }
        }
        std::future::pending().await
    }

    /// Waits for this time. Fails if the harness leaves.
    pub(crate) async fn wait(&mut self, time: Duration) -> io::Result<()> {
        if time.is_zero() {
            return Ok(());
        }
        tokio::select! {
            () = tokio::time::sleep(time) => Ok(()),
            error = self.gone() => Err(error),
        }
    }

    /// Resets the connection.
    pub(crate) fn reset(self) {
        let _ = self.tcp.set_zero_linger(); // without it, closed in the usual way
    }
}
