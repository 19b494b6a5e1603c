//! Streams that are cut, everywhere.

use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Frame};

use super::super::protocol::Event;
use super::super::reading::{End, Reading};
use super::super::receive::{Received, receive};
use super::*;

/// A body in memory that comes in the pieces given, and then ends or breaks.
struct Pieces {
    pieces: std::vec::IntoIter<Bytes>,
    breaks: bool,
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Poll::Ready(match self.pieces.next() {
            Some(piece) => Some(Ok(Frame::data(piece))),
            None if std::mem::take(&mut self.breaks) => Some(Err(std::io::ErrorKind::ConnectionReset.into())),
            None => None,
        })
    }
}

/// Returns the result of a body, read as the client reads it.
async fn outcome(
    dialect: Dialect,
    body: &[u8],
    step: usize,
    breaks: bool,
) -> Result<CompleteReply, ProviderFailure> {
    let pieces: Vec<Bytes> = body.chunks(step.max(1)).map(Bytes::copy_from_slice).collect();
    let body = Pieces { pieces: pieces.into_iter(), breaks };
    let (mut reading, mut received) = (Reading::new(dialect), Received::default());
    let limits = ResponseLimits::default();
    let take =
        |bytes: &[u8], on: &mut (dyn FnMut(AttemptEvent<'_>) + Send)| -> Event { reading.push(bytes, on) };
    let end: End = receive(body, &limits, &mut received, &mut |_| {}, take).await?;
    reading.finish(&received.bytes, &end)
}

#[tokio::test]
async fn a_stream_cut_after_any_byte_is_never_a_reply() {
    for dialect in DIALECTS {
        let body = events(dialect, &reply()).concat();
        let expected = outcome(dialect, &body, usize::MAX, false).await.expect("the whole stream");
        assert_eq!(expected.answer.reply.calls().count(), 2, "{dialect}");
        for cut in 0..body.len() {
            // Half of them end as if all were well, the others with an error.
            let (step, breaks) = [(usize::MAX, false), (7, true)][cut % 2];
            let failure = outcome(dialect, &body[..cut], step, breaks).await.expect_err("cut is cut");
            let known = matches!(failure.kind, FailureKind::Cut | FailureKind::Garbage);
            assert!(known, "{dialect} at {cut}: {failure:?}");
            assert_eq!(failure.retry, RetryAdvice::Yes, "{dialect} at {cut}: {failure:?}");
        }
        for step in [1, 2, 3, 1000] {
            for breaks in [false, true] {
                let whole = outcome(dialect, &body, step, breaks).await;
                assert_eq!(whole.as_ref(), Ok(&expected), "{dialect}, by {step}, breaks: {breaks}");
            }
        }
    }
}

#[tokio::test]
async fn a_reply_that_is_not_streamed_is_cut_just_the_same() {
    for dialect in DIALECTS {
        let body = dialect.encode_reply(&reply()).expect("every dialect can say this");
        outcome(dialect, &body, 9, false).await.expect("the whole reply");
        for cut in 0..body.len() {
            for breaks in [false, true] {
                let failure = outcome(dialect, &body[..cut], 9, breaks).await.expect_err("cut is cut");
                assert!(matches!(failure.kind, FailureKind::Cut | FailureKind::Garbage), "{failure:?}");
            }
        }
        // All of it came, but its length said that there is more.
        assert_eq!(outcome(dialect, &body, 9, true).await.expect_err("cut").kind, FailureKind::Cut);
    }
}

/// Through sockets, where a cut is a closed connection.
#[tokio::test]
async fn connections_closed_at_every_event_are_cuts() {
    for dialect in DIALECTS {
        let events = events(dialect, &reply());
        let answers = (0..events.len()).map(|end| stream(&events[..end].concat())).collect();
        let server = Server::answering(answers).await;
        let provider = server.provider(dialect);
        for end in 0..events.len() {
            let attempt = provider.attempt(Bytes::from_static(b"{}"), &mut |_| {}).await;
            assert_eq!(failure(&attempt).kind, FailureKind::Cut, "{dialect} after {end} events");
            assert_eq!(attempt.bytes, events[..end].concat());
        }
    }
}

/// A stop reason is not the end: only the final event is.
#[tokio::test]
async fn a_stop_reason_without_the_final_event_is_a_cut() {
    let events = events(Dialect::AnthropicMessages, &reply());
    let all_but_last = events[..events.len() - 1].concat();
    assert!(String::from_utf8_lossy(&all_but_last).contains("stop_reason\":\"tool_use"));
    let attempt = attempt(Dialect::AnthropicMessages, stream(&all_but_last)).await;
    assert_eq!(failure(&attempt).kind, FailureKind::Cut);
}

/// A duplicated event changes nothing, is noticed, or doubles a piece of text, which looks like a model that repeats
/// itself. It never makes another call.
#[tokio::test]
async fn an_event_that_comes_twice_never_makes_another_call() {
    for dialect in DIALECTS {
        let events = events(dialect, &reply());
        for twice in 0..events.len() {
            let mut doubled = events.clone();
            doubled.insert(twice, events[twice].clone());
            match outcome(dialect, &doubled.concat(), 64, false).await {
                Ok(whole) => {
                    let calls = |reply: &Reply| reply.calls().cloned().collect::<Vec<_>>();
                    assert_eq!(calls(&whole.answer.reply), calls(&reply()), "{dialect}, event {twice}");
                }
                Err(failure) => assert_eq!(failure.kind, FailureKind::Garbage, "{dialect}, event {twice}"),
            }
        }
    }
}

/// An event that is lost on the way is noticed wherever the dialect allows it; what stays is never a call
/// with another input.
#[tokio::test]
async fn an_event_that_is_lost_never_changes_a_call() {
    for dialect in DIALECTS {
        let events = events(dialect, &reply());
        for lost in 0..events.len() {
            let mut fewer = events.clone();
            fewer.remove(lost);
            let Ok(whole) = outcome(dialect, &fewer.concat(), 64, false).await else { continue };
            for call in whole.answer.reply.calls() {
                assert!(reply().calls().any(|meant| meant == call), "{dialect}, event {lost}: {call:?}");
            }
        }
    }
}

#[tokio::test]
async fn half_a_character_is_garbage_and_not_another_character() {
    for dialect in DIALECTS {
        let body = events(dialect, &reply()).concat();
        let halves: Vec<usize> = (0..body.len()).filter(|at| body[*at] >= 0xc0).collect();
        assert!(!halves.is_empty());
        for at in halves {
            let mut broken = body.clone();
            broken.remove(at + 1);
            let failure = outcome(dialect, &broken, 64, false).await.expect_err("not UTF-8");
            assert_eq!(failure.kind, FailureKind::Garbage, "{dialect} at {at}: {failure:?}");
        }
    }
}

/// Any one byte turned into another.
#[tokio::test]
async fn a_flipped_byte_is_no_panic() {
    for dialect in DIALECTS {
        let body = events(dialect, &reply()).concat();
        for at in 0..body.len() {
            let mut broken = body.clone();
            broken[at] ^= [0x01, 0x20, 0x80][at % 3];
            // Whatever it is then.
            let _ = outcome(dialect, &broken, 4096, false).await;
        }
    }
}

/// Returns the streams of real providers with their dialects; nothing, with a message, if `OFFSHOOT_TRAFFIC_DIR` is not set.
#[expect(clippy::print_stderr, reason = "a skipped check must be visible")]
fn recorded() -> Vec<(String, Dialect, Vec<u8>)> {
    let Some(folder) = std::env::var_os("OFFSHOOT_TRAFFIC_DIR") else {
        eprintln!("NOT CHECKED: `OFFSHOOT_TRAFFIC_DIR` is not set, so no real stream was cut");
        return Vec::new();
    };
    let entries = std::fs::read_dir(folder).expect("`OFFSHOOT_TRAFFIC_DIR` is a readable folder");
    let paths = entries.map(|entry| entry.expect("a readable folder").path());
    let mut streams = Vec::new();
    for path in paths.filter(|path| path.extension().is_some_and(|extension| extension == "json")) {
        let bytes = std::fs::read(&path).expect("a readable file");
        let recording: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
        for exchange in recording["interactions"].as_array().expect("interactions") {
            let dialect = match exchange["request"]["url"].as_str().expect("a URL") {
                url if url.ends_with("/messages") => Dialect::AnthropicMessages,
                url if url.ends_with("/responses") => Dialect::OpenAiResponses,
                _ => Dialect::OpenAiChat,
            };
            let body = exchange["response"]["body"].as_str().expect("a body");
            if body.contains("data: ") {
                streams.push((path.display().to_string(), dialect, body.as_bytes().to_vec()));
            }
        }
    }
    assert!(!streams.is_empty(), "the folder is there, but holds no stream");
    streams
}

#[tokio::test]
async fn a_recorded_stream_cut_after_any_byte_is_never_another_reply() {
    for (name, dialect, body) in recorded() {
        let whole = outcome(dialect, &body, usize::MAX, false).await;
        let whole = whole.unwrap_or_else(|failure| panic!("{name}: {failure}"));
        let mut early = 0;
        for cut in 0..body.len() {
            match outcome(dialect, &body[..cut], usize::MAX, cut % 2 == 1).await {
                Err(failure) => assert_eq!(failure.retry, RetryAdvice::Yes, "{name} at {cut}: {failure:?}"),
                // Behind the final event there is only what ends it.
                Ok(reply) => {
                    early += 1;
                    assert_eq!(reply, whole, "{name} at {cut}");
                    assert!(body[cut..].iter().all(|byte| b"\r\n".contains(byte)), "{name} at {cut}");
                }
            }
        }
        assert!(early < 4, "{name}: {early} cuts that cut nothing");
    }
}
