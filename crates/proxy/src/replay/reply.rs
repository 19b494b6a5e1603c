//! The reply that is sent to a live request: head, pieces and ending.

use std::borrow::Cow;
use std::ops::Range;
use std::time::Duration;

use http::StatusCode;
use recording::lanes::LaneResponse;
use session::Usage;
use wire::Ending;
use wire::dialect::Dialect;
use wire::json::Edits;
use wire::rename::Renames;

use super::traffic::{RecordedResponse, event_starts};

/// Characters in one event of a stream that is made from a complete reply.
const CHUNK: usize = 24;

/// A reply that is ready to be sent.
#[derive(Clone, Debug)]
pub(super) struct LiveReply {
    pub(super) status: Option<u16>,
    pub(super) headers: Vec<(String, String)>,
    pub(super) pieces: Vec<ReplyPiece>,
    pub(super) end: ReplyEnd,
    is_stream: bool,
    /// Length of the body if the head declares it. Otherwise the body is chunked.
    length: Option<usize>,
}

/// Bytes that become due together.
#[derive(Clone, Debug, Default)]
pub(super) struct ReplyPiece {
    pub(super) bytes: Vec<u8>,
    /// Index of the recorded part that it ends in.
    pub(super) part: usize,
    /// Recorded time since the request in microseconds.
    pub(super) us: u64,
    /// Delay added by a fault.
    pub(super) delay: Duration,
}

/// Ending of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyEnd {
    /// The reply is complete.
    Complete,
    /// The connection is closed.
    Cut,
    /// The connection is reset.
    Reset,
    /// The connection stays open, silent, until the client closes it.
    Stall,
}

impl ReplyPiece {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, ..Self::default() }
    }
}

impl LiveReply {
    /// Creates the reply from the recorded one, with live names.
    pub(super) fn new(recorded: &RecordedResponse, renames: &Renames) -> Self {
        Self::with_edits(recorded, &renames.edits(&recorded.body, recorded.is_stream))
    }

    /// Creates the reply from the recorded one, with live names and another usage.
    pub(super) fn with_usage(
        recorded: &RecordedResponse,
        renames: &Renames,
        dialect: Dialect,
        usage: &Usage,
    ) -> Self {
        let mut edits = renames.edits(&recorded.body, recorded.is_stream);
        edits.extend(dialect.set_usage(&recorded.body, recorded.is_stream, usage));
        Self::with_edits(recorded, &edits)
    }

    fn with_edits(recorded: &RecordedResponse, edits: &Edits) -> Self {
        let starts: Vec<usize> = recorded.parts.iter().map(|part| part.start).collect();
        let (body, starts) = match edits.is_empty() {
            true => (Cow::Borrowed(&recorded.body), starts),
            false => match edits.apply(&recorded.body) {
                Ok(body) => (Cow::Owned(body), edits.shift(starts)),
                Err(_) => (Cow::Borrowed(&recorded.body), starts),
            },
        };
        let ends = starts[1..].iter().copied().chain([body.len()]);
        let pieces = starts.iter().zip(ends).enumerate().map(|(part, (start, end))| ReplyPiece {
            bytes: body[*start..end].to_vec(),
            part,
            us: recorded.parts[part].us,
            delay: Duration::ZERO,
        });
        let end = match recorded.ending {
            Some(Ending::Complete) => ReplyEnd::Complete,
            Some(Ending::CutByUpstream | Ending::NoResponse) => ReplyEnd::Cut,
            Some(Ending::CutByHarness) | None => ReplyEnd::Stall,
        };
        Self {
            status: recorded.status,
            headers: recorded.headers.clone(),
            pieces: pieces.collect(),
            end,
            is_stream: recorded.is_stream,
            length: (!recorded.is_stream && end == ReplyEnd::Complete).then_some(body.len()),
        }
    }

    /// Converts a complete reply to a stream or back, because harnesses fall back from one form to the other.
    pub(super) fn in_form(self, dialect: Dialect, as_stream: bool) -> Self {
        if as_stream == self.is_stream
            || self.end != ReplyEnd::Complete
            || self.status.is_none_or(|status| status >= 400)
        {
            return self;
        }
        let heard = LaneResponse::decode(dialect, 200, &self.body());
        let last = self.pieces.last().map_or((0, 0), |piece| (piece.part, piece.us));
        let piece = |bytes| ReplyPiece { bytes, part: last.0, us: last.1, delay: Duration::ZERO };
        let (pieces, kind) = match (as_stream, &heard.reply, heard.message) {
            (false, _, Some(message)) => (vec![piece(message)], "application/json"),
            (true, Some(reply), _) => match dialect.encode_stream(reply, CHUNK) {
                Ok(events) => (events.into_iter().map(piece).collect(), "text/event-stream"),
                Err(_) => return self,
            },
            _ => return self,
        };
        let length = (!as_stream).then(|| pieces.iter().map(|piece| piece.bytes.len()).sum());
        let mut reply = Self { pieces, length, is_stream: as_stream, ..self };
        reply.set_content_type(kind);
        reply
    }

    /// Creates a complete error.
    pub(super) fn error(status: u16, body: Vec<u8>) -> Self {
        Self {
            status: Some(status),
            headers: vec![("content-type".to_owned(), "application/json".to_owned())],
            length: Some(body.len()),
            pieces: vec![ReplyPiece::new(body)],
            end: ReplyEnd::Complete,
            is_stream: false,
        }
    }

    pub(super) fn set_content_type(&mut self, kind: &str) {
        self.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("content-type"));
        self.headers.push(("content-type".to_owned(), kind.to_owned()));
    }

    pub(super) fn body(&self) -> Vec<u8> {
        self.pieces.iter().map(|piece| piece.bytes.as_slice()).collect::<Vec<_>>().concat()
    }

    /// Returns whether the body equals `body`, without copying it.
    pub(super) fn has_body(&self, body: &[u8]) -> bool {
        let rest = self.pieces.iter().try_fold(body, |rest, piece| rest.strip_prefix(piece.bytes.as_slice()));
        rest.is_some_and(<[u8]>::is_empty)
    }

    /// Divides the body into one piece per event; a body that is no stream, into halves.
    pub(super) fn split_by_event(&mut self) {
        let body = self.body();
        let starts = if self.is_stream { event_starts(&body) } else { vec![0, body.len() / 2] };
        let mut borders = Vec::new();
        let mut at = 0;
        for piece in &self.pieces {
            at += piece.bytes.len();
            borders.push((at, piece.part, piece.us));
        }
        let ends = starts[1..].iter().copied().chain([body.len()]);
        let piece = |(start, end): (&usize, usize)| {
            let (_, part, us) =
                borders.iter().find(|(border, ..)| *border >= end).copied().unwrap_or_default();
            ReplyPiece { bytes: body[*start..end].to_vec(), part, us, delay: Duration::ZERO }
        };
        self.pieces = starts.iter().zip(ends).map(piece).collect();
    }

    /// Ends the reply before the piece `at`.
    pub(super) fn truncate(&mut self, at: usize, end: ReplyEnd) {
        self.pieces.truncate(at);
        self.end = end;
    }

    /// Updates the declared length of a complete body.
    pub(super) fn update_length(&mut self) {
        if self.length.is_some() && self.end == ReplyEnd::Complete {
            self.length = Some(self.pieces.iter().map(|piece| piece.bytes.len()).sum());
        }
    }

    pub(super) fn is_stream(&self) -> bool {
        self.is_stream
    }

    /// Returns the number of events; two for a body that is no stream.
    pub(super) fn event_count(&self) -> usize {
        if self.is_stream { event_starts(&self.body()).len() } else { 2 }
    }

    /// Inserts a piece before the piece `at`, with its part and time.
    pub(super) fn insert(&mut self, at: usize, piece: ReplyPiece) {
        let next = self.pieces.get(at).or(self.pieces.last()).map_or((0, 0), |piece| (piece.part, piece.us));
        self.pieces.insert(at, ReplyPiece { part: next.0, us: next.1, ..piece });
    }

    pub(super) fn delay(&mut self, pieces: Range<usize>, time: Duration) {
        let range = pieces.start.min(self.pieces.len())..pieces.end.min(self.pieces.len());
        self.pieces[range].iter_mut().for_each(|piece| piece.delay = time);
    }

    pub(super) fn is_chunked(&self) -> bool {
        self.length.is_none()
    }

    /// Encodes status line and headers.
    pub(super) fn head(&self, status: u16) -> Vec<u8> {
        let reason = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
        let mut head = format!("HTTP/1.1 {status} {}\r\n", reason.unwrap_or("Recorded"));
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        match self.length {
            Some(length) => head.push_str(&format!("content-length: {length}\r\n\r\n")),
            None => head.push_str("transfer-encoding: chunked\r\n\r\n"),
        }
        head.into_bytes()
    }
}
