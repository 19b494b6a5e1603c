//! Receives a body under two watchdogs.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Body;
use tokio::time::{Instant, timeout};

use super::failure::{FailureKind, ProviderFailure, RetryAdvice};
use super::protocol::Event;
use super::reading::End;
use super::response::{AttemptEvent, ResponseLimits};

/// A received body.
#[derive(Debug, Default)]
pub(super) struct Received {
    pub(super) bytes: Vec<u8>,
    pub(super) first_byte: Option<SystemTime>,
}

/// Maximum wait for the end of a body after its final event. A connection that is read to its end can be
/// reused, but a complete response is not put at risk for that.
const DRAIN: Duration = Duration::from_millis(500);

/// Reads a body to its end. `take` classifies each read; after `Last` nothing more is needed.
///
/// Any byte resets the first watchdog, because pings say that all is well. The second one needs content: a
/// server that has lost its model may send pings forever.
pub(super) async fn receive<B>(
    mut body: B,
    limits: &ResponseLimits,
    received: &mut Received,
    on: &mut (dyn FnMut(AttemptEvent<'_>) + Send),
    mut take: impl FnMut(&[u8], &mut (dyn FnMut(AttemptEvent<'_>) + Send)) -> Event,
) -> Result<End, ProviderFailure>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::error::Error + 'static,
{
    let mut news_by = Instant::now() + limits.news;
    let mut ended = false;
    loop {
        let patience = match ended {
            true => DRAIN,
            false => limits.idle.min(news_by.saturating_duration_since(Instant::now())),
        };
        let frame = match timeout(patience, body.frame()).await {
            Err(_) if ended => return Ok(End::Enough),
            Err(_) if Instant::now() >= news_by => return Err(stalled("only pings", limits.news)),
            Err(_) => return Err(stalled("nothing", limits.idle)),
            Ok(None) => return Ok(End::Clean),
            Ok(Some(Err(_))) if ended => return Ok(End::Enough),
            Ok(Some(Err(error))) => return Ok(End::Broke(chain(&error))),
            Ok(Some(Ok(frame))) => frame,
        };
        let Ok(data) = frame.into_data() else { continue };
        if data.is_empty() {
            continue;
        }
        if received.first_byte.is_none() {
            received.first_byte = Some(SystemTime::now());
            on(AttemptEvent::FirstByte);
        }
        if received.bytes.len() + data.len() > limits.max_bytes {
            if ended {
                return Ok(End::Enough);
            }
            let message = format!("the answer is larger than {} bytes", limits.max_bytes);
            return Err(ProviderFailure::new(FailureKind::TooLarge, message, RetryAdvice::No));
        }
        received.bytes.extend_from_slice(&data);
        on(AttemptEvent::Bytes(&data));
        match take(&data, on) {
            Event::Life => {}
            Event::News => news_by = Instant::now() + limits.news,
            Event::Last => ended = true,
        }
    }
}

pub(super) fn stalled(what: &str, patience: Duration) -> ProviderFailure {
    let message = format!("{what} came from the provider for {} s", patience.as_secs_f64());
    ProviderFailure::new(FailureKind::Stalled, message, RetryAdvice::Yes)
}

/// Formats an error with its causes on one line, because the outer errors of an HTTP library say little.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let more = inner.to_string();
        if !words.contains(&more) {
            words = format!("{words}: {more}");
        }
        cause = inner.source();
    }
    words
}
