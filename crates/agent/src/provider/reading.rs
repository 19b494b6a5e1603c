//! A response while it arrives: bytes in, deltas out, and at the end a complete reply or a failure.

use wire::dialect::{Accumulator, Dialect, StreamEnd};
use wire::sse::SseDecoder;

use super::check;
use super::deltas::Deltas;
use super::failure::{FailureKind, ProviderFailure, RetryAdvice, plain};
use super::protocol::{Event, Protocol};
use super::response::{AttemptEvent, CompleteReply};

/// Reads the body of one response with a good status.
#[derive(Debug)]
pub(super) struct Reading {
    dialect: Dialect,
    form: Form,
    decoder: SseDecoder,
    accumulator: Accumulator,
    protocol: Protocol,
    deltas: Deltas,
    ended: bool,
    broken: Option<String>,
}

/// The form of the body by its first byte, because servers send wrong headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Unknown,
    Stream,
    /// One JSON document. Some compatible servers never stream.
    Json,
}

/// The end of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// A regular end.
    Clean,
    /// Everything needed has arrived.
    Enough,
    /// The connection broke, for this reason.
    Broke(String),
}

impl Reading {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            form: Form::Unknown,
            decoder: SseDecoder::new(),
            accumulator: Accumulator::new(dialect),
            protocol: Protocol::new(dialect),
            deltas: Deltas::default(),
            ended: false,
            broken: None,
        }
    }

    /// Takes arrived bytes, and returns their meaning for the watchdogs.
    pub(super) fn push(&mut self, bytes: &[u8], on: &mut (dyn FnMut(AttemptEvent<'_>) + Send)) -> Event {
        if self.form == Form::Unknown {
            let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
            match first {
                Some(b'{' | b'[') => self.form = Form::Json,
                Some(_) => self.form = Form::Stream,
                None => {}
            }
        }
        if self.form == Form::Json {
            return Event::News;
        }
        let mut most = Event::Life;
        for frame in self.decoder.push(bytes) {
            if self.ended || self.broken.is_some() {
                break; // Data after the final event is ignored.
            }
            match self.protocol.take(&frame) {
                Ok(event) => {
                    self.ended = event == Event::Last;
                    most = most.max(event);
                }
                Err(what) => {
                    self.broken = Some(what);
                    return Event::Last;
                }
            }
            for piece in self.accumulator.push(&frame) {
                if let Some((block, text)) = self.deltas.text(&frame, piece) {
                    on(AttemptEvent::Delta { block, text: &text });
                }
            }
        }
        most
    }

    /// Ends the body; `bytes` is all of it.
    pub(super) fn finish(self, bytes: &[u8], end: &End) -> Result<CompleteReply, ProviderFailure> {
        if let Some(what) = self.broken {
            return Err(ProviderFailure::garbage(format!("the stream holds {}", plain(&what))));
        }
        if self.form == Form::Json {
            return match end {
                End::Broke(why) => Err(cut(&format!("the answer broke off: {why}"))),
                End::Clean | End::Enough => check::decode(self.dialect, bytes.to_vec()),
            };
        }
        let gathered = self.accumulator.finish();
        match (gathered.end, gathered.body) {
            (StreamEnd::Failed(error), _) => Err(ProviderFailure::in_stream(&error)),
            (StreamEnd::Complete, Some(body)) => check::decode(self.dialect, body),
            (StreamEnd::Complete, None) => {
                Err(ProviderFailure::garbage("the stream ends without ever having begun"))
            }
            (StreamEnd::Early, body) => Err(match (body, end, bytes.first()) {
                (_, End::Broke(why), _) => {
                    cut(&format!("the stream broke off before its final event: {why}"))
                }
                (None, _, Some(_)) if !has_events(bytes) => {
                    ProviderFailure::garbage(format!("the answer is no stream of events: {}", opening(bytes)))
                }
                _ => cut("the stream ended before its final event"),
            }),
        }
    }
}

fn cut(message: &str) -> ProviderFailure {
    ProviderFailure::new(FailureKind::Cut, message, RetryAdvice::Yes)
}

/// Returns whether any line begins like an event, if only with its first letters.
fn has_events(bytes: &[u8]) -> bool {
    let fields: [&[u8]; 5] = [b"data:", b"event:", b"id:", b"retry:", b":"];
    let lines = bytes.split(|byte| matches!(byte, b'\n' | b'\r')).filter(|line| !line.is_empty());
    lines.take(16).any(|line| fields.iter().any(|field| line.starts_with(field) || field.starts_with(line)))
}

/// Returns the beginning of an unexpected body, for messages.
pub(super) fn opening(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(200)]);
    format!("it begins with `{}`", plain(&text).chars().take(60).collect::<String>())
}
