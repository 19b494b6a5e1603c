//! A recorded response as it goes out: head, pieces and how it ends.

use std::borrow::Cow;
use std::ops::Range;
use std::time::Duration;

use http::StatusCode;
use recording::lanes::Heard;
use session::Usage;
use wire::Ending;
use wire::dialect::Dialect;
use wire::json::Edits;
use wire::rename::Renames;

use super::tape::{Recorded, event_starts};

/// Characters in one event of an answer that was recorded whole.
const CHUNK: usize = 24;

/// A response that is about to go out.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    pub(super) status: Option<u16>,
    pub(super) headers: Vec<(String, String)>,
    pub(super) pieces: Vec<Piece>,
    pub(super) end: End,
    is_stream: bool,
    /// The body's length, where the head says so.
    length: Option<usize>,
}

/// What goes out in one write.
#[derive(Clone, Debug, Default)]
pub(super) struct Piece {
    pub(super) bytes: Vec<u8>,
    /// The recorded part it ends in.
    pub(super) part: usize,
    /// When it came, in microseconds since the request.
    pub(super) us: u64,
    /// What a fault adds to that.
    pub(super) delay: Duration,
}

/// How a response ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// As it should.
    Clean,
    /// The connection is closed in the middle.
    Cut,
    /// The connection is reset.
    Reset,
    /// Nothing more comes until the client leaves.
    Hold,
}

impl Piece {
    pub(super) fn of(bytes: Vec<u8>) -> Self {
        Self { bytes, ..Self::default() }
    }
}

impl Reply {
    /// The recorded one, with other names in it.
    pub(super) fn of(recorded: &Recorded, renames: &Renames) -> Self {
        Self::edited(recorded, &renames.edits(&recorded.body, recorded.is_stream))
    }

    /// The recorded one, with other names and another usage in it.
    pub(super) fn with_usage(
        recorded: &Recorded,
        renames: &Renames,
        dialect: Dialect,
        usage: &Usage,
    ) -> Self {
        let mut edits = renames.edits(&recorded.body, recorded.is_stream);
        edits.extend(dialect.set_usage(&recorded.body, recorded.is_stream, usage));
        Self::edited(recorded, &edits)
    }

    fn edited(recorded: &Recorded, edits: &Edits) -> Self {
        let starts: Vec<usize> = recorded.parts.iter().map(|(start, _)| *start).collect();
        let (body, starts) = match edits.is_empty() {
            true => (Cow::Borrowed(&recorded.body), starts),
            false => match edits.apply(&recorded.body) {
                Ok(body) => (Cow::Owned(body), edits.shift(starts)),
                Err(_) => (Cow::Borrowed(&recorded.body), starts),
            },
        };
        let ends = starts[1..].iter().copied().chain([body.len()]);
        let pieces = starts.iter().zip(ends).enumerate().map(|(part, (start, end))| Piece {
            bytes: body[*start..end].to_vec(),
            part,
            us: recorded.parts[part].1,
            delay: Duration::ZERO,
        });
        let end = match recorded.ending {
            Some(Ending::Complete) => End::Clean,
            Some(Ending::CutByUpstream | Ending::NoResponse) => End::Cut,
            Some(Ending::CutByHarness) | None => End::Hold,
        };
        Self {
            status: recorded.status,
            headers: recorded.headers.clone(),
            pieces: pieces.collect(),
            end,
            is_stream: recorded.is_stream,
            length: (!recorded.is_stream && end == End::Clean).then_some(body.len()),
        }
    }

    /// The same answer in the form that was asked for, where it was recorded in the other one: harnesses fall back from
    /// streams to whole answers.
    pub(super) fn in_form(self, dialect: Dialect, streamed: bool) -> Self {
        if streamed == self.is_stream
            || self.end != End::Clean
            || self.status.is_none_or(|status| status >= 400)
        {
            return self;
        }
        let heard = Heard::of(dialect, 200, &self.body());
        let kept = |(name, _): &(String, String)| !name.eq_ignore_ascii_case("content-type");
        let mut headers: Vec<(String, String)> =
            self.headers.iter().filter(|header| kept(header)).cloned().collect();
        let last = self.pieces.last().map_or((0, 0), |piece| (piece.part, piece.us));
        let piece = |bytes| Piece { bytes, part: last.0, us: last.1, delay: Duration::ZERO };
        let (pieces, kind) = match (streamed, &heard.reply, heard.message) {
            (false, _, Some(message)) => (vec![piece(message)], "application/json"),
            (true, Some(reply), _) => match dialect.encode_stream(reply, CHUNK) {
                Ok(events) => (events.into_iter().map(piece).collect(), "text/event-stream"),
                Err(_) => return self,
            },
            _ => return self,
        };
        headers.push(("content-type".to_owned(), kind.to_owned()));
        let length = (!streamed).then(|| pieces.iter().map(|piece| piece.bytes.len()).sum());
        Self { headers, pieces, length, is_stream: streamed, ..self }
    }

    /// An error as a whole.
    pub(super) fn error(status: u16, body: Vec<u8>) -> Self {
        Self {
            status: Some(status),
            headers: vec![("content-type".to_owned(), "application/json".to_owned())],
            length: Some(body.len()),
            pieces: vec![Piece::of(body)],
            end: End::Clean,
            is_stream: false,
        }
    }

    pub(super) fn body(&self) -> Vec<u8> {
        self.pieces.iter().map(|piece| piece.bytes.as_slice()).collect::<Vec<_>>().concat()
    }

    /// Whether the body is this one, without putting it together.
    pub(super) fn says(&self, body: &[u8]) -> bool {
        let rest = self.pieces.iter().try_fold(body, |rest, piece| rest.strip_prefix(piece.bytes.as_slice()));
        rest.is_some_and(<[u8]>::is_empty)
    }

    /// One piece an event; what is no stream is two halves.
    pub(super) fn by_event(&mut self) {
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
            Piece { bytes: body[*start..end].to_vec(), part, us, delay: Duration::ZERO }
        };
        self.pieces = starts.iter().zip(ends).map(piece).collect();
    }

    /// Nothing from that piece on.
    pub(super) fn stop(&mut self, at: usize, end: End) {
        self.pieces.truncate(at);
        self.end = end;
    }

    /// What the head says of a body that goes out in full must hold.
    pub(super) fn settle_length(&mut self) {
        if self.length.is_some() && self.end == End::Clean {
            self.length = Some(self.pieces.iter().map(|piece| piece.bytes.len()).sum());
        }
    }

    pub(super) fn is_stream(&self) -> bool {
        self.is_stream
    }

    /// How many events there are; of what is no stream, two.
    pub(super) fn events(&self) -> usize {
        if self.is_stream { event_starts(&self.body()).len() } else { 2 }
    }

    pub(super) fn insert(&mut self, at: usize, piece: Piece) {
        let before =
            self.pieces.get(at).or(self.pieces.last()).map_or((0, 0), |piece| (piece.part, piece.us));
        self.pieces.insert(at, Piece { part: before.0, us: before.1, ..piece });
    }

    pub(super) fn delay(&mut self, pieces: Range<usize>, time: Duration) {
        let range = pieces.start.min(self.pieces.len())..pieces.end.min(self.pieces.len());
        self.pieces[range].iter_mut().for_each(|piece| piece.delay = time);
    }

    /// Whether the body goes out in chunks.
    pub(super) fn is_chunked(&self) -> bool {
        self.length.is_none()
    }

    /// Status line and headers.
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
