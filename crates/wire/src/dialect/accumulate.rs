//! Converts a stream of events into the message that it transmits.
//!
//! The message is joined from the raw content of the deltas' strings and never serialized again. An escape keeps
//! its spelling, and a surrogate pair that was split over two deltas becomes complete.

use std::ops::Range;

use crate::json::{Document, Value};
use crate::sse::Frame;

use super::cursor::Cursor;
use super::{Dialect, ProviderError, UnknownValue, anthropic, chat, responses};

/// Accumulates the events of one stream.
#[derive(Debug)]
pub struct Accumulator {
    log: Log,
    builder: Box<dyn MessageBuilder>,
}

/// The message and the ending of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct AccumulatedStream {
    /// The message that the same call returns without streaming, as far as it arrived. `None` if it did not begin.
    pub body: Option<Vec<u8>>,
    /// The ending of the stream.
    pub end: StreamEnd,
    /// The positions of all fragments of texts, thinking and arguments.
    pub fragments: Vec<Fragment>,
    /// Unknown values in known positions.
    pub unknown: Vec<UnknownValue>,
}

/// The ending of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// The final event arrived.
    Complete,
    /// The final event is missing.
    Early,
    /// The stream contains an error event.
    Failed(ProviderError),
}

/// The part of a string that one delta adds. Text that a block has from its start is not a fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// The pointer of the string in the message.
    pub pointer: String,
    /// The index of the event.
    pub frame: usize,
    /// The range of the raw content in the event's data.
    pub data: Range<usize>,
    /// The range in the stream. If the event's data has several lines, the range may include a line end and a field
    /// name.
    pub stream: Range<usize>,
}

impl Accumulator {
    /// Creates an accumulator at the start of a stream.
    pub fn new(dialect: Dialect) -> Self {
        let builder: Box<dyn MessageBuilder> = match dialect {
            Dialect::AnthropicMessages => Box::new(anthropic::MessageStream::default()),
            Dialect::OpenAiChat => Box::new(chat::CompletionStream::default()),
            Dialect::OpenAiResponses => Box::new(responses::ResponseStream::default()),
        };
        Self { log: Log::default(), builder }
    }

    /// Adds the next event and returns its fragments.
    pub fn push(&mut self, frame: &Frame) -> &[Fragment] {
        let known = self.log.fragments.len();
        if !frame.data_spans.is_empty() && !self.builder.push_plain(&frame.data) {
            let document = Document::parse(frame.data.as_bytes());
            match document.as_ref().map(Cursor::root) {
                Ok(Ok(data)) => self.builder.push_event(frame, &data, &mut self.log),
                _ => self.log.unknown("", "data that is not a JSON object"),
            }
        }
        self.log.frame += 1;
        &self.log.fragments[known..]
    }

    /// Ends the stream.
    pub fn finish(mut self) -> AccumulatedStream {
        let (body, end) = self.builder.finish(&mut self.log);
        let Log { fragments, unknown, .. } = self.log;
        AccumulatedStream { body: body.map(String::into_bytes), end, fragments, unknown }
    }
}

/// Accumulates a complete stream. An event that is truncated is ignored.
pub fn accumulate(dialect: Dialect, stream: &[u8]) -> AccumulatedStream {
    let mut accumulator = Accumulator::new(dialect);
    for frame in &crate::sse::decode(stream).0 {
        accumulator.push(frame);
    }
    accumulator.finish()
}

/// Builds the message of one dialect from its events.
pub(crate) trait MessageBuilder: std::fmt::Debug + Send {
    /// Handles data that is not JSON. Returns false if the dialect has no such data.
    fn push_plain(&mut self, data: &str) -> bool;
    /// Adds the data of one event.
    fn push_event(&mut self, frame: &Frame, data: &Cursor<'_, '_>, log: &mut Log);
    /// Returns the message, as far as it arrived.
    fn finish(&mut self, log: &mut Log) -> (Option<String>, StreamEnd);
}

/// Fragments and unknown values so far.
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

    /// Appends the raw content of a delta's string to `joined` and records its position. Ignores other values.
    pub(crate) fn join(&mut self, frame: &Frame, delta: Value<'_, '_>, pointer: String, joined: &mut String) {
        let Some(inner) = delta.inner_span() else { return };
        joined.push_str(&frame.data[inner.clone()]);
        let stream = frame.stream_offset(inner.start)..frame.stream_offset(inner.end);
        self.fragments.push(Fragment { pointer, frame: self.frame, data: inner, stream });
    }
}

/// Returns the type of an event, from its data or else from its frame.
pub(crate) fn event_kind(frame: &Frame, data: &Cursor<'_, '_>) -> String {
    data.text("type").unwrap_or_else(|| frame.event.clone())
}

/// Returns the raw content of a JSON string, or the empty string for other values.
pub(crate) fn inside(json: &str) -> &str {
    json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or("")
}
