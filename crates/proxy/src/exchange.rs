//! Passes one request and its response on, in both directions at once.

use std::io;
use std::pin::pin;
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use recording::ExchangeTap;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::watch;
use wire::Ending;

use crate::h1::{BodyDecoder, Framing, RequestHead, ResponseHead};
use crate::hangup::SocketAddrs;

/// Maximum number of bytes per read.
const READ: usize = 64 << 10;
/// Maximum time for the rest of a request that was answered before its end.
const REST_OF_REQUEST: Duration = Duration::from_secs(30);
/// Maximum time that a response waits for the end of its request, which usually has been read and is only not passed on.
const END_OF_REQUEST: Duration = Duration::from_millis(20);
/// Maximum time that a response waits for the disk before all but its last byte is passed on.
const DISK: Duration = Duration::from_millis(2);

/// Bytes that were read and not used yet.
pub(crate) type Buffer = BytesMut;

/// Reads more into `buffer`. Returns 0 at the end of the stream.
pub(crate) async fn fill(from: &mut (impl AsyncRead + Unpin), buffer: &mut Buffer) -> io::Result<usize> {
    buffer.reserve(READ);
    from.read_buf(buffer).await
}

/// Consequence of an exchange for the connections it used.
#[derive(Debug)]
pub(crate) enum ExchangeOutcome {
    /// Both connections can be used again.
    Reusable,
    /// Both connections must be closed.
    Close,
    /// The provider's connection broke, so the harness's must not end in the usual way.
    Reset,
    /// The provider sent no response.
    NoResponse(NoResponse),
    /// Both sides agreed on another protocol. What follows is not HTTP.
    Upgraded,
}

/// Reason why there is no response.
#[derive(Debug)]
pub(crate) struct NoResponse {
    pub(crate) error: String,
    /// The provider sent bytes that are not HTTP, so the harness gets an error. If the provider's connection just closed,
    /// the harness's connection is closed as well, as it would have been without the proxy.
    pub(crate) is_garbage: bool,
    /// The connection was reset, not closed.
    pub(crate) is_reset: bool,
}

/// End of the way from the provider to the harness.
enum ResponseEnd {
    /// The whole response was passed on.
    Complete(ResponseHead),
    Upgraded,
    /// The provider stopped in the middle.
    CutByUpstream {
        error: String,
        is_reset: bool,
    },
    None(NoResponse),
    /// The harness took no more.
    CutByHarness,
}

/// One exchange between the connections of harness and provider.
pub(crate) struct Exchange<'c, H, U> {
    pub(crate) harness: &'c mut H,
    pub(crate) from_harness: &'c mut Buffer,
    /// Addresses of the harness's connection, if it is a socket.
    pub(crate) addrs: Option<SocketAddrs>,
    pub(crate) upstream: &'c mut U,
    pub(crate) from_upstream: &'c mut Buffer,
}

impl<H, U> Exchange<'_, H, U>
where
    H: AsyncRead + AsyncWrite + Unpin,
    U: AsyncRead + AsyncWrite + Unpin,
{
    /// Sends the request with the head `head_bytes` and passes the response back.
    pub(crate) async fn run(
        self,
        request: &RequestHead,
        head_bytes: &[u8],
        tap: ExchangeTap,
    ) -> ExchangeOutcome {
        let (mut harness_read, mut harness_write) = tokio::io::split(self.harness);
        let (mut upstream_read, mut upstream_write) = tokio::io::split(self.upstream);
        let mut request_body = BodyDecoder::new(request.framing);
        let (passed, mut is_passed) = watch::channel(false);
        let mut request_way = RequestWay {
            from: &mut harness_read,
            buffer: self.from_harness,
            to: &mut upstream_write,
            addrs: self.addrs,
            tap: &tap,
            passed,
        };
        let mut response_way = ResponseWay {
            from: &mut upstream_read,
            buffer: self.from_upstream,
            to: &mut harness_write,
            tap: &tap,
            has_head: false,
            is_passed: is_passed.clone(),
            unrecorded_trailers: None,
        };
        // A harness that waits for permission to send the rest has been refused it by a final response.
        let sends_rest = !request.head.has_token("expect", "100-continue");
        let end = {
            let mut passing = pin!(request_way.run(head_bytes, &mut request_body));
            let end = tokio::select! {
                biased; // a harness that leaves with the whole response has not cut it
                end = response_way.run(&request.method) => end,
                // Returns only when the harness has left.
                () = &mut passing => ResponseEnd::CutByHarness,
            };
            if matches!(end, ResponseEnd::Complete(_)) && sends_rest && !*is_passed.borrow() {
                // A provider may respond early and still read the whole request.
                tokio::select! {
                    () = &mut passing => {}
                    _ = is_passed.wait_for(|passed| *passed) => {}
                    () = response_way.wait_until_closed() => {}
                    () = tokio::time::sleep(REST_OF_REQUEST) => {}
                }
            }
            end
        };
        let has_head = response_way.has_head;
        if !request_body.is_done() {
            tap.end_request(false, Vec::new());
        }
        if let Some(trailers) = response_way.unrecorded_trailers.take() {
            tap.end(Ending::Complete, None, trailers);
        }
        let closes = request.head.closes() || !request_body.is_done();
        let is_complete = matches!(end, ResponseEnd::Complete(_));
        let outcome = conclude(end, has_head, closes, &tap);
        if !is_complete {
            tap.wait_until_stored().await; // before the harness notices the end
        }
        outcome
    }
}

/// Records the ending, and returns its consequence for the connections.
fn conclude(end: ResponseEnd, has_head: bool, closes: bool, tap: &ExchangeTap) -> ExchangeOutcome {
    match end {
        ResponseEnd::Complete(head) => {
            let until_close = head.framing == Framing::UntilClose;
            match closes || head.head.closes() || until_close {
                true => ExchangeOutcome::Close,
                false => ExchangeOutcome::Reusable,
            }
        }
        ResponseEnd::Upgraded => {
            tap.end(Ending::Complete, Some("upgraded to another protocol".into()), Vec::new());
            ExchangeOutcome::Upgraded
        }
        ResponseEnd::CutByUpstream { error, is_reset } => {
            tap.end(Ending::CutByUpstream, Some(error), Vec::new());
            if is_reset { ExchangeOutcome::Reset } else { ExchangeOutcome::Close }
        }
        ResponseEnd::None(no_response) => {
            tap.end(Ending::NoResponse, Some(no_response.error.clone()), Vec::new());
            ExchangeOutcome::NoResponse(no_response)
        }
        ResponseEnd::CutByHarness => {
            let error = (!has_head).then(|| "the harness left before the response".to_owned());
            tap.end(Ending::CutByHarness, error, Vec::new());
            ExchangeOutcome::Close
        }
    }
}

/// The way from the harness to the provider.
struct RequestWay<'e, R, W> {
    from: &'e mut R,
    buffer: &'e mut Buffer,
    to: &'e mut W,
    addrs: Option<SocketAddrs>,
    tap: &'e ExchangeTap,
    /// True if the whole request was passed on.
    passed: watch::Sender<bool>,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> RequestWay<'_, R, W> {
    /// Passes the request on and then waits until the harness leaves.
    async fn run(&mut self, head: &[u8], body: &mut BodyDecoder) {
        // A provider that stops reading may still respond: the other way reports how it ended.
        let mut is_open = self.to.write_all(head).await.is_ok();
        if body.is_done() {
            self.tap.end_request(true, Vec::new());
        }
        while !body.is_done() {
            if self.buffer.is_empty() && !matches!(fill(self.from, self.buffer).await, Ok(1..)) {
                return;
            }
            // Recorded before the next await: a quick response ends this way at any await.
            let Ok(taken) = self.tap.request_data(|keep| body.push(self.buffer, keep)) else { return };
            let bytes = self.buffer.split_to(taken);
            if body.is_done() {
                self.tap.end_request(true, body.take_trailers());
            }
            is_open = is_open && self.to.write_all(&bytes).await.is_ok();
            // No wait follows the last part, so that a quick response finds the request passed on.
            if !body.is_done() {
                self.tap.recorder().wait_for_room().await;
            }
        }
        if is_open {
            let _ = self.to.flush().await; // the other way reports a failure
        }
        self.passed.send_replace(true);
        wait_until_harness_leaves(self.from, self.buffer, self.addrs).await;
    }
}

/// Waits until the harness has left. What it sends until then is kept in the buffer, up to a limit.
pub(crate) async fn wait_until_harness_leaves(
    from: &mut (impl AsyncRead + Unpin),
    buffer: &mut Buffer,
    addrs: Option<SocketAddrs>,
) {
    // A request that waits to be forwarded may be in the buffer as a whole.
    let full = buffer.len() + READ;
    while buffer.len() < full {
        match (fill(from, buffer).await, addrs) {
            (Ok(1..), _) => {}
            // It sends no more, but may still read.
            (Ok(0), Some(addrs)) => return addrs.wait_until_closed().await,
            _ => return,
        }
    }
    std::future::pending().await
}

/// The way from the provider to the harness.
struct ResponseWay<'e, R, W> {
    from: &'e mut R,
    buffer: &'e mut Buffer,
    to: &'e mut W,
    tap: &'e ExchangeTap,
    has_head: bool,
    is_passed: watch::Receiver<bool>,
    /// Trailers of a complete response whose end is not recorded yet.
    unrecorded_trailers: Option<Vec<(String, Vec<u8>)>>,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> ResponseWay<'_, R, W> {
    async fn run(&mut self, method: &str) -> ResponseEnd {
        let head = match self.head(method).await {
            Ok(head) => head,
            Err(end) => return end,
        };
        self.has_head = true;
        self.tap.begin_response(head.status, head.head.end_to_end());
        if head.status == 101 {
            let is_sent = self.send(head.head.bytes().len()).await;
            return if is_sent { ResponseEnd::Upgraded } else { ResponseEnd::CutByHarness };
        }
        self.body(head).await
    }

    /// Passes interim heads on. Returns the final head, which stays at the front of the buffer.
    async fn head(&mut self, method: &str) -> Result<ResponseHead, ResponseEnd> {
        let none =
            |error, is_garbage, is_reset| Err(ResponseEnd::None(NoResponse { error, is_garbage, is_reset }));
        loop {
            match ResponseHead::parse(self.buffer, method) {
                Ok(Some((head, length))) if head.is_interim() => {
                    if !self.send(length).await {
                        return Err(ResponseEnd::CutByHarness);
                    }
                }
                Ok(Some((head, _))) => return Ok(head),
                Ok(None) => match fill(self.from, self.buffer).await {
                    Ok(0) => {
                        return none(
                            "the provider closed the connection without a response".into(),
                            false,
                            false,
                        );
                    }
                    Ok(_) => {}
                    Err(error) => {
                        return none(format!("the provider's connection failed: {error}"), false, true);
                    }
                },
                Err(error) => return none(format!("the provider's response is {error}"), true, false),
            }
        }
    }

    /// Passes the head at the front of the buffer and the body after it on, as they come.
    async fn body(&mut self, head: ResponseHead) -> ResponseEnd {
        let cut = |error, is_reset| ResponseEnd::CutByUpstream { error, is_reset };
        let mut decoder = BodyDecoder::new(head.framing);
        let mut head_left = head.head.bytes().len();
        loop {
            let body_bytes = &self.buffer[head_left..];
            let taken = self.tap.response_data(|keep| decoder.push(body_bytes, keep));
            // If the framing is broken, the harness gets the provider's bytes unchanged.
            let passed_on = taken.as_ref().map_or(self.buffer.len(), |taken| head_left + taken);
            let is_sent = match decoder.is_done() {
                true => self.complete(decoder.take_trailers(), passed_on).await,
                false => self.send(passed_on).await,
            };
            head_left = 0;
            if let Err(error) = taken {
                return cut(error.to_string(), false);
            }
            if !is_sent {
                return ResponseEnd::CutByHarness;
            }
            if decoder.is_done() {
                return ResponseEnd::Complete(head);
            }
            self.tap.recorder().wait_for_room().await;
            match fill(self.from, self.buffer).await {
                Ok(0) if decoder.may_end_at_close() => {
                    self.complete(Vec::new(), 0).await;
                    return ResponseEnd::Complete(head);
                }
                Ok(0) => return cut("the provider closed the connection in the middle".into(), false),
                Ok(_) => {}
                Err(error) => return cut(format!("the provider's connection failed: {error}"), true),
            }
        }
    }

    /// Passes the last `left` bytes of a complete response on. The response is on the disk before the harness gets its last
    /// byte, unless its request has not ended: an exchange is not complete before its request. Returns whether the harness
    /// took the bytes.
    async fn complete(&mut self, trailers: Vec<(String, Vec<u8>)>, left: usize) -> bool {
        let passed = tokio::time::timeout(END_OF_REQUEST, self.is_passed.wait_for(|passed| *passed)).await;
        if !passed.is_ok_and(|passed| passed.is_ok()) {
            self.unrecorded_trailers = Some(trailers);
            return self.send(left).await;
        }
        self.tap.end(Ending::Complete, None, trailers);
        let is_kept = tokio::time::timeout(DISK, self.tap.wait_until_stored()).await.is_ok();
        if is_kept {
            return self.send(left).await;
        }
        // Only the last byte, or the end of the connection, waits for a slow disk.
        let last = left.min(1);
        let is_sent = self.send(left - last).await;
        self.tap.wait_until_stored().await;
        is_sent && self.send(last).await
    }

    /// Passes the first bytes of the buffer on. Returns whether the harness took them.
    async fn send(&mut self, length: usize) -> bool {
        let is_sent =
            self.to.write_all(&self.buffer[..length]).await.is_ok() && self.to.flush().await.is_ok();
        self.buffer.advance(length);
        is_sent
    }

    /// Waits until the provider closes its connection.
    async fn wait_until_closed(&mut self) {
        while self.buffer.len() < READ {
            if !matches!(fill(self.from, self.buffer).await, Ok(1..)) {
                return;
            }
        }
        std::future::pending().await
    }
}
