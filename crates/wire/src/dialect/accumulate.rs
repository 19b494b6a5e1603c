//! Converts a stream of events into the message that it transmits.
//!
//! The message is joined from the raw content of the deltas' strings and never serialized again. An escape keeps
//! its spelling, and a surrogate pair that was split over two deltas becomes complete.

use crate::json::Document;
use crate::sse::Frame;

use super::builder::{Fragment, Log, MessageBuilder, StreamEnd};
use super::cursor::Cursor;
use super::{Dialect, UnknownValue, anthropic, chat, responses};

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
