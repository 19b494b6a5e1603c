//! A stream, event by event, back into the one message it stands for.
//!
//! The message is put together from the raw insides of the deltas' strings and never
//! re-serialized: an escape keeps its spelling, and a surrogate pair that was split over two deltas
//! is whole again.

use std::ops::Range;

use crate::json::{Document, Value};
use crate::sse::Frame;

use super::cursor::Cursor;
use super::{Dialect, ProviderError, UnknownValue, anthropic, chat, responses};

/// Takes the events of one stream.
#[derive(Debug)]
pub struct Accumulator {
    log: Log,
    gathered: Box<dyn Gather>,
}

/// What a stream came to.
#[derive(Clone, Debug, PartialEq)]
pub struct AccumulatedStream {
    /// The message that the call would have given without streaming, as far as it came; `None`
    /// where it had not even begun.
    pub body: Option<Vec<u8>>,
    /// How the stream ended.
    pub end: StreamEnd,
    /// Where each piece of text, thinking and arguments stood in the stream.
    pub fragments: Vec<Fragment>,
    /// What this version does not know, in places that it knows.
    pub unknown: Vec<UnknownValue>,
}

/// How a stream ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// With its final event.
    Complete,
    /// Without it.
    Early,
    /// With an error among the events.
    Failed(ProviderError),
}

/// One delta's share of a string in the message. What a block says already as it starts, which is
/// mostly nothing, is no piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// The string in the message that it is a piece of.
    pub pointer: String,
    /// The event it came in, counted from 0.
    pub frame: usize,
    /// The inside of the delta's string, escapes and all, in the event's data.
    pub data: Range<usize>,
    /// The same in bytes of the stream. Where an event's data is spread over several lines this may
    /// hold a line's end and the next one's field name.
    pub stream: Range<usize>,
}

impl Accumulator {
    /// An accumulator at the start of a stream.
    pub fn new(dialect: Dialect) -> Self {
        let gathered: Box<dyn Gather> = match dialect {
            Dialect::AnthropicMessages => Box::new(anthropic::Gathered::default()),
            Dialect::OpenAiChat => Box::new(chat::Gathered::default()),
            Dialect::OpenAiResponses => Box::new(responses::Gathered::default()),
        };
        Self { log: Log::default(), gathered }
    }

    /// Takes the next event; returns the pieces it brought.
    pub fn push(&mut self, frame: &Frame) -> &[Fragment] {
        let known = self.log.fragments.len();
        if !frame.data_spans.is_empty() && !self.gathered.plain(&frame.data) {
            let document = Document::parse(frame.data.as_bytes());
            match document.as_ref().map(Cursor::root) {
                Ok(Ok(data)) => self.gathered.event(frame, &data, &mut self.log),
                _ => self.log.unknown("", "data that is not a JSON object"),
            }
        }
        self.log.frame += 1;
        &self.log.fragments[known..]
    }

    /// The stream is over.
    pub fn finish(mut self) -> AccumulatedStream {
        let (body, end) = self.gathered.finish(&mut self.log);
        let Log { fragments, unknown, .. } = self.log;
        AccumulatedStream { body: body.map(String::into_bytes), end, fragments, unknown }
    }
}

/// Accumulates a whole stream; an event that was cut off before its end does not count.
pub fn accumulate(dialect: Dialect, stream: &[u8]) -> AccumulatedStream {
    let mut accumulator = Accumulator::new(dialect);
    for frame in &crate::sse::decode(stream).0 {
        accumulator.push(frame);
    }
    accumulator.finish()
}

/// One dialect's way of putting a message together.
pub(crate) trait Gather: std::fmt::Debug + Send {
    /// Takes data that is not JSON, where the dialect has such; `false` where it has not.
    fn plain(&mut self, data: &str) -> bool;
    /// Takes one event's data.
    fn event(&mut self, frame: &Frame, data: &Cursor<'_, '_>, log: &mut Log);
    /// The message, as far as it came.
    fn finish(&mut self, log: &mut Log) -> (Option<String>, StreamEnd);
}

/// What is noted on the way.
#[derive(Debug, Default)]
pub(crate) struct Log {
    frame: usize,
    fragments: Vec<Fragment>,
    unknown: Vec<UnknownValue>,
}

impl Log {
    pub(crate) fn unknown(&mut self, pointer: impl Into<String>, what: impl Into<String>) {
        let frame = Some(self.frame);
        self.unknown.push(UnknownValue { frame, pointer: pointer.into(), what: what.into() });
    }

    /// Appends the raw inside of a delta's string to `joined`, noting where it came from; anything
    /// but a string is left alone.
    pub(crate) fn join(&mut self, frame: &Frame, delta: Value<'_, '_>, pointer: String, joined: &mut String) {
        let Some(inner) = delta.inner_span() else { return };
        joined.push_str(&frame.data[inner.clone()]);
        let stream = frame.stream_offset(inner.start)..frame.stream_offset(inner.end);
        self.fragments.push(Fragment { pointer, frame: self.frame, data: inner, stream });
    }
}

/// What kind of event it is: the data says so, else the frame.
pub(crate) fn event_kind(frame: &Frame, data: &Cursor<'_, '_>) -> String {
    data.text("type").unwrap_or_else(|| frame.event.clone())
}

/// The raw inside of a JSON string; nothing where it is no string.
pub(crate) fn inside(json: &str) -> &str {
    json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or("")
}
