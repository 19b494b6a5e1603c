//! Servers that fall silent, in time that only passes when nothing else happens.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Frame};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::super::reading::Reading;
use super::super::receive::{Received, receive};
use super::*;

const LIMITS: ResponseLimits =
    ResponseLimits { idle: Duration::from_secs(30), news: Duration::from_secs(100), max_bytes: 1 << 20 };

/// A body that arrives as the test sends it.
struct Sent(mpsc::Receiver<Vec<u8>>);

impl Body for Sent {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(cx).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes.into()))))
    }
}

/// Reads what is sent, and says how long it took.
async fn read(receiver: mpsc::Receiver<Vec<u8>>) -> (Result<CompleteReply, ProviderFailure>, Duration) {
    let start = Instant::now();
    let (mut reading, mut received) = (Reading::new(Dialect::AnthropicMessages), Received::default());
    let take = |bytes: &[u8], on: &mut (dyn FnMut(AttemptEvent<'_>) + Send)| reading.push(bytes, on);
    let end = receive(Sent(receiver), &LIMITS, &mut received, &mut |_| {}, take).await;
    (end.and_then(|end| reading.finish(&received.bytes, &end)), start.elapsed())
}

#[tokio::test(start_paused = true)]
async fn silence_is_cut_and_any_byte_breaks_it() {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        let events = events(Dialect::AnthropicMessages, &reply());
        for event in &events[..3] {
            sender.send(event.clone()).await.expect("still reading");
            sleep(Duration::from_secs(29)).await;
        }
        sender.send(b": still here\n\n".to_vec()).await.expect("still reading");
        sleep(Duration::from_secs(1000)).await;
    });
    let (outcome, took) = read(receiver).await;
    let failure = outcome.expect_err("it never ended");
    assert_eq!((failure.kind, failure.retry), (FailureKind::Stalled, RetryAdvice::Yes));
    assert_eq!(failure.message, "nothing came from the provider for 30 s");
    assert_eq!(took.as_secs(), 3 * 29 + 30);
}

#[tokio::test(start_paused = true)]
async fn only_pings_for_ever_are_cut_too() {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        let events = events(Dialect::AnthropicMessages, &reply());
        sender.send(events[0].clone()).await.expect("still reading");
        while sender.send(b"event: ping\ndata: {\"type\":\"ping\"}\n\n".to_vec()).await.is_ok() {
            sleep(Duration::from_secs(10)).await;
        }
    });
    let (outcome, took) = read(receiver).await;
    let failure = outcome.expect_err("it never ended");
    assert_eq!((failure.kind, failure.retry), (FailureKind::Stalled, RetryAdvice::Yes));
    assert_eq!(failure.message, "only pings came from the provider for 100 s");
    assert_eq!(took.as_secs(), 100);
}

#[tokio::test(start_paused = true)]
async fn a_reply_is_not_lost_to_a_server_that_forgets_to_hang_up() {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        sender.send(events(Dialect::AnthropicMessages, &reply()).concat()).await.expect("still reading");
        sleep(Duration::from_secs(1000)).await;
    });
    let (outcome, took) = read(receiver).await;
    assert_eq!(outcome.expect("all of it came").answer.reply.calls().count(), 2);
    assert!(took < Duration::from_secs(1), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let address = listener.local_addr().expect("bound");
    let server = Server { address, requests: Arc::default() };
    let mut provider = server.provider(Dialect::OpenAiChat);
    provider.limits = LIMITS;
    let attempt = provider.attempt(Bytes::from_static(b"{}"), &mut |_| {}).await;
    no_canary(&attempt);
    // The kernel accepts for us; whether that is in time is up to the machine.
    assert!(matches!(failure(&attempt).kind, FailureKind::Stalled | FailureKind::Connect));
    assert_eq!((attempt.status, failure(&attempt).retry), (None, RetryAdvice::Yes));
    drop(listener);
}

/// A refusal whose words never come is known by its status.
#[tokio::test(start_paused = true)]
async fn a_refusal_that_stalls_is_still_that_refusal() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let server = Server { address: listener.local_addr().expect("bound"), requests: Arc::default() };
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.expect("a client");
        read_request(&mut socket).await;
        socket.write_all(b"HTTP/1.1 529 Busy\r\ncontent-length: 9\r\n\r\nbu").await.expect("a client");
        sleep(Duration::from_secs(100_000)).await;
    });
    let attempt = server.provider(Dialect::AnthropicMessages).attempt(Bytes::new(), &mut |_| {}).await;
    assert_eq!((failure(&attempt).kind, attempt.status), (FailureKind::Overloaded, Some(529)));
    assert!(attempt.ended.duration_since(attempt.started).is_ok());
}
