//! Events on the wire, as the recorder receives them.

use wire::{Ending, SocketRead};

/// Raw header: its name as sent, and its bytes.
pub(crate) type RawHeader = (String, Vec<u8>);

/// Time of an event and its number in the sequence of all events.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) seq: u64,
    pub(crate) us: u64,
}

/// Event on the wire. `n` is the exchange's number.
#[derive(Debug)]
pub(crate) enum WireEvent {
    RequestHead {
        n: u64,
        at: Moment,
        method: String,
        url: String,
        headers: Vec<RawHeader>,
    },
    RequestData {
        n: u64,
        part: BodyPart,
    },
    RequestEnd {
        n: u64,
        at: Moment,
        rest: BodyPart,
        whole: bool,
        trailers: Vec<RawHeader>,
    },
    ResponseHead {
        n: u64,
        at: Moment,
        status: u16,
        headers: Vec<RawHeader>,
    },
    ResponseData {
        n: u64,
        part: BodyPart,
    },
    End {
        n: u64,
        at: Moment,
        rest: BodyPart,
        ending: Ending,
        error: Option<String>,
        trailers: Vec<RawHeader>,
    },
    Output {
        output: OutputStream,
        bytes: Vec<u8>,
    },
}

/// Next part of a body.
#[derive(Debug, Default)]
pub(crate) struct BodyPart {
    pub(crate) bytes: Vec<u8>,
    /// Time and body offset of each read of a response.
    pub(crate) reads: Vec<SocketRead>,
}

impl WireEvent {
    /// Returns the number of body bytes that the event carries.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::RequestData { part, .. } | Self::ResponseData { part, .. } => part.bytes.len(),
            Self::RequestEnd { rest, .. } | Self::End { rest, .. } => rest.bytes.len(),
            Self::Output { bytes, .. } => bytes.len(),
            Self::RequestHead { .. } | Self::ResponseHead { .. } => 0,
        }
    }

    /// Returns whether the event must be handled now. That is the end of an exchange, for which the proxy
    /// waits, or the end of a request while its exchange is the only open one (`alone`). All other events can
    /// wait for those, or for a moment.
    pub(crate) fn is_urgent(&self, alone: bool) -> bool {
        matches!(self, Self::End { .. }) || (alone && matches!(self, Self::RequestEnd { .. }))
    }
}

/// Output stream of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl OutputStream {
    /// Returns the name of the file that keeps the output.
    pub fn file(self) -> &'static str {
        match self {
            Self::Stdout => "stdout.txt",
            Self::Stderr => "stderr.txt",
        }
    }
}
