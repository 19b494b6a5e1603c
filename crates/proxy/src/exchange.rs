//! One request and its response, passed on in both directions at once.

use std::io;
use std::pin::pin;
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use recording::ExchangeTap;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::watch;
use wire::Ending;

use crate::h1::{BodyDecoder, Framing, RequestHead, ResponseHead};
use crate::hangup::Ends;

/// How much is read at a time.
const READ: usize = 64 << 10;
/// How long the rest of a request is passed on that was answered before its end.
const REST: Duration = Duration::from_secs(30);
/// How long an answer waits for the end of its request, which has mostly been read and is only not passed on yet.
const EARLY: Duration = Duration::from_millis(20);
/// How long an answer waits for the disk before all but its last byte goes on.
const SOON: Duration = Duration::from_millis(2);

/// Bytes that were read and not used yet.
pub(crate) type Buffer = BytesMut;

/// Reads more into `buffer`; 0 at the end of the stream.
pub(crate) async fn fill(from: &mut (impl AsyncRead + Unpin), buffer: &mut Buffer) -> io::Result<usize> {
    buffer.reserve(READ);
    from.read_buf(buffer).await
}

/// How an exchange went, for the connections it ran on.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Both connections can be used again.
    Reusable,
    /// Both connections must be closed.
    Close,
    /// The provider's connection broke: the harness's must not end as if all were well.
    Reset,
    /// The provider gave no answer at all.
    Unanswered(Silence),
    /// Both sides agreed on another protocol: what follows is not HTTP.
    Upgraded,
}

/// Why there is no answer to pass on.
#[derive(Debug)]
pub(crate) struct Silence {
    /// What went wrong.
    pub(crate) error: String,
    /// The provider said something, but not in HTTP: the harness is told so. A connection that just
    /// closed is closed towards the harness too, as it would have been without us.
    pub(crate) garbage: bool,
    /// The connection did not just close, it broke.
    pub(crate) reset: bool,
}

/// What was heard from the provider before the exchange ended.
enum Heard {
    /// Everything; the recorder knows.
    Whole(ResponseHead),
    Upgraded,
    /// The provider stopped in the middle: what went wrong, and whether its connection broke.
    Cut {
        error: String,
        reset: bool,
    },
    Nothing(Silence),
    /// The harness took no more.
    HarnessGone,
}

/// One exchange between the harness's and the provider's connection.
pub(crate) struct Exchange<'c, H, U> {
    pub(crate) harness: &'c mut H,
    pub(crate) from_harness: &'c mut Buffer,
    /// Where the harness's connection is one that can be asked about.
    pub(crate) ends: Option<Ends>,
    pub(crate) upstream: &'c mut U,
    pub(crate) from_upstream: &'c mut Buffer,
}

impl<H, U> Exchange<'_, H, U>
where
    H: AsyncRead + AsyncWrite + Unpin,
    U: AsyncRead + AsyncWrite + Unpin,
{
    /// Sends the request whose head is given (as `head_bytes` to the provider) and passes the
    /// answer back.
    pub(crate) async fn run(self, request: &RequestHead, head_bytes: &[u8], tap: ExchangeTap) -> Outcome {
        let (mut harness_read, mut harness_write) = tokio::io::split(self.harness);
        let (mut upstream_read, mut upstream_write) = tokio::io::split(self.upstream);
        let mut asking = BodyDecoder::new(request.framing);
        let (passed, mut is_passed) = watch::channel(false);
        let mut up = Up {
            from: &mut harness_read,
            buffer: self.from_harness,
            to: &mut upstream_write,
            ends: self.ends,
            tap: &tap,
            passed,
        };
        let mut down = Down {
            from: &mut upstream_read,
            buffer: self.from_upstream,
            to: &mut harness_write,
            tap: &tap,
            answered: false,
            is_passed: is_passed.clone(),
            untold: None,
        };
        // Who waits for permission to send the rest has been told not to.
        let goes_on = !request.head.has_token("expect", "100-continue");
        let heard = {
            let mut passing = pin!(up.run(head_bytes, &mut asking));
            let heard = tokio::select! {
                biased; // a harness that leaves with the whole answer has not cut it
                heard = down.run(&request.method) => heard,
                // Comes back only when the harness has left.
                () = &mut passing => Heard::HarnessGone,
            };
            if matches!(heard, Heard::Whole(_)) && goes_on && !*is_passed.borrow() {
                // A provider may answer early and still read all that it is sent.
                tokio::select! {
                    () = &mut passing => {}
                    _ = is_passed.wait_for(|passed| *passed) => {}
                    () = down.until_the_provider_closes() => {}
                    () = tokio::time::sleep(REST) => {}
                }
            }
            heard
        };
        let answered = down.answered;
        if !asking.is_done() {
            tap.request_ended(false, Vec::new());
        }
        if let Some(trailers) = down.untold.take() {
            tap.ended(Ending::Complete, None, trailers);
        }
        let closes = request.head.closes() || !asking.is_done();
        let is_whole = matches!(heard, Heard::Whole(_));
        let outcome = conclude(heard, answered, closes, &tap);
        if !is_whole {
            tap.is_kept().await; // before the harness hears of the end
        }
        outcome
    }
}

/// Tells the recorder how it ended, and the connections what to do.
fn conclude(heard: Heard, answered: bool, closes: bool, tap: &ExchangeTap) -> Outcome {
    match heard {
        Heard::Whole(head) => {
            let until_close = head.framing == Framing::UntilClose;
            if closes || head.head.closes() || until_close { Outcome::Close } else { Outcome::Reusable }
        }
        Heard::Upgraded => {
            tap.ended(Ending::Complete, Some("upgraded to another protocol".into()), Vec::new());
            Outcome::Upgraded
        }
        Heard::Cut { error, reset } => {
            tap.ended(Ending::CutByUpstream, Some(error), Vec::new());
            if reset { Outcome::Reset } else { Outcome::Close }
        }
        Heard::Nothing(silence) => {
            tap.ended(Ending::NoResponse, Some(silence.error.clone()), Vec::new());
            Outcome::Unanswered(silence)
        }
        Heard::HarnessGone => {
            let error = (!answered).then(|| "the harness left before an answer came".to_owned());
            tap.ended(Ending::CutByHarness, error, Vec::new());
            Outcome::Close
        }
    }
}

/// The way from the harness to the provider.
struct Up<'e, R, W> {
    from: &'e mut R,
    buffer: &'e mut Buffer,
    to: &'e mut W,
    ends: Option<Ends>,
    tap: &'e ExchangeTap,
    /// The whole request was passed on.
    passed: watch::Sender<bool>,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Up<'_, R, W> {
    /// Passes the request on and then watches for the harness to leave.
    async fn run(&mut self, head: &[u8], body: &mut BodyDecoder) {
        // A provider that stops taking bytes may still answer: that way says how it went.
        let mut open = self.to.write_all(head).await.is_ok();
        if body.is_done() {
            self.tap.request_ended(true, Vec::new());
        }
        while !body.is_done() {
            if self.buffer.is_empty() && !matches!(fill(self.from, self.buffer).await, Ok(1..)) {
                return;
            }
            // All before the first await: a quick answer ends this way wherever it waits.
            let Ok(taken) = self.tap.request_data(|keep| body.push(self.buffer, keep)) else { return };
            let bytes = self.buffer.split_to(taken);
            if body.is_done() {
                self.tap.request_ended(true, body.take_trailers());
            }
            open = open && self.to.write_all(&bytes).await.is_ok();
            // Behind the last part nothing waits, so that a quick answer finds the request passed on.
            if !body.is_done() {
                self.tap.recorder().room().await;
            }
        }
        if open {
            let _ = self.to.flush().await; // the other way will say that it failed
        }
        self.passed.send_replace(true);
        until_the_harness_leaves(self.from, self.buffer, self.ends).await;
    }
}

/// Comes back when the harness has left. What it sends until then is kept, within reason.
pub(crate) async fn until_the_harness_leaves(
    from: &mut (impl AsyncRead + Unpin),
    buffer: &mut Buffer,
    ends: Option<Ends>,
) {
    while buffer.len() < READ {
        match (fill(from, buffer).await, ends) {
            (Ok(1..), _) => {}
            // It has said all it will say, and may still listen.
            (Ok(0), Some(ends)) => return ends.let_go().await,
            _ => return,
        }
    }
    std::future::pending().await
}

/// The way from the provider to the harness.
struct Down<'e, R, W> {
    from: &'e mut R,
    buffer: &'e mut Buffer,
    to: &'e mut W,
    tap: &'e ExchangeTap,
    answered: bool,
    is_passed: watch::Receiver<bool>,
    /// The trailers of an answer whose end the recorder does not know yet.
    untold: Option<Vec<(String, Vec<u8>)>>,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Down<'_, R, W> {
    async fn run(&mut self, method: &str) -> Heard {
        let head = match self.head(method).await {
            Ok(head) => head,
            Err(heard) => return heard,
        };
        self.answered = true;
        self.tap.answered(head.status, head.head.end_to_end());
        if head.status == 101 {
            let sent = self.send(head.head.bytes().len()).await;
            return if sent { Heard::Upgraded } else { Heard::HarnessGone };
        }
        self.body(head).await
    }

    /// Passes interim heads on; returns the one that counts, which stays at the front of the buffer.
    async fn head(&mut self, method: &str) -> Result<ResponseHead, Heard> {
        loop {
            match ResponseHead::parse(self.buffer, method) {
                Ok(Some((head, length))) if head.is_interim() => {
                    if !self.send(length).await {
                        return Err(Heard::HarnessGone);
                    }
                }
                Ok(Some((head, _))) => return Ok(head),
                Ok(None) => match fill(self.from, self.buffer).await {
                    Ok(0) => {
                        return Err(silence("the provider closed the connection without an answer".into()));
                    }
                    Ok(_) => {}
                    Err(error) => {
                        let error = format!("the provider's connection failed: {error}");
                        return Err(Heard::Nothing(Silence { error, garbage: false, reset: true }));
                    }
                },
                Err(error) => {
                    let error = format!("the provider's answer is {error}");
                    return Err(Heard::Nothing(Silence { error, garbage: true, reset: false }));
                }
            }
        }
    }

    /// Passes the head at the front of the buffer and the body behind it on, as they come.
    async fn body(&mut self, head: ResponseHead) -> Heard {
        let mut decoder = BodyDecoder::new(head.framing);
        let mut head_left = head.head.bytes().len();
        loop {
            let body_bytes = &self.buffer[head_left..];
            let taken = self.tap.response_data(|keep| decoder.push(body_bytes, keep));
            // Where the framing is broken, the harness gets what the provider said, as it is.
            let passed_on = taken.as_ref().map_or(self.buffer.len(), |taken| head_left + taken);
            let sent = match decoder.is_done() {
                true => self.complete(decoder.take_trailers(), passed_on).await,
                false => self.send(passed_on).await,
            };
            head_left = 0;
            if let Err(error) = taken {
                return Heard::Cut { error: error.to_string(), reset: false };
            }
            if !sent {
                return Heard::HarnessGone;
            }
            if decoder.is_done() {
                return Heard::Whole(head);
            }
            self.tap.recorder().room().await;
            match fill(self.from, self.buffer).await {
                Ok(0) if decoder.ends_well_at_close() => {
                    self.complete(Vec::new(), 0).await;
                    return Heard::Whole(head);
                }
                Ok(0) => {
                    let error = "the provider closed the connection in the middle".into();
                    return Heard::Cut { error, reset: false };
                }
                Ok(_) => {}
                Err(error) => {
                    let error = format!("the provider's connection failed: {error}");
                    return Heard::Cut { error, reset: true };
                }
            }
        }
    }

    /// The whole answer is here, and so many bytes of it are still to be passed on: it is on the disk before the harness
    /// gets the last of them. But an exchange is not over before its request is. Whether the harness took them.
    async fn complete(&mut self, trailers: Vec<(String, Vec<u8>)>, left: usize) -> bool {
        let passed = tokio::time::timeout(EARLY, self.is_passed.wait_for(|passed| *passed)).await;
        if !passed.is_ok_and(|passed| passed.is_ok()) {
            self.untold = Some(trailers);
            return self.send(left).await;
        }
        self.tap.ended(Ending::Complete, None, trailers);
        let is_kept = tokio::time::timeout(SOON, self.tap.is_kept()).await.is_ok();
        if is_kept {
            return self.send(left).await;
        }
        // Nobody waits for a slow disk with more than the last byte, or the end of the connection.
        let last = left.min(1);
        let begun = self.send(left - last).await;
        self.tap.is_kept().await;
        begun && self.send(last).await
    }

    /// Comes back when nothing more comes; what was said ahead of time is kept, within reason.
    async fn until_the_provider_closes(&mut self) {
        while self.buffer.len() < READ {
            if !matches!(fill(self.from, self.buffer).await, Ok(1..)) {
                return;
            }
        }
        std::future::pending().await
    }

    /// Passes on the first bytes of the buffer; whether the harness took them.
    async fn send(&mut self, length: usize) -> bool {
        let sent = self.to.write_all(&self.buffer[..length]).await.is_ok() && self.to.flush().await.is_ok();
        self.buffer.advance(length);
        sent
    }
}

fn silence(error: String) -> Heard {
    Heard::Nothing(Silence { error, garbage: false, reset: false })
}
