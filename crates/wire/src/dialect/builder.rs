//! Interface between the accumulator and the dialects: a builder of messages, and its log of fragments.

use std::ops::Range;

use crate::json::Value;
use crate::sse::Frame;

use super::cursor::Cursor;
use super::{ProviderError, UnknownValue};

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
    pub(super) frame: usize,
    pub(super) fragments: Vec<Fragment>,
    pub(super) unknown: Vec<UnknownValue>,
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
