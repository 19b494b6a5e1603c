//! Values of a response: its limits, its events, and the complete reply.

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use wire::dialect::DecodedReply;

use super::deltas::BlockKind;

/// Timeouts and size limits of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseLimits {
    /// Maximum time without any byte.
    pub idle: Duration,
    /// Maximum time with pings only. A model that thinks without visible output is silent for minutes.
    pub news: Duration,
    /// Maximum size of a response.
    pub max_bytes: usize,
}

impl Default for ResponseLimits {
    fn default() -> Self {
        Self { idle: Duration::from_secs(300), news: Duration::from_secs(1800), max_bytes: 64 << 20 }
    }
}

impl ResponseLimits {
    pub(super) fn at_most(self, other: Self) -> Self {
        Self {
            idle: self.idle.min(other.idle),
            news: self.news.min(other.news),
            max_bytes: self.max_bytes.min(other.max_bytes),
        }
    }
}

/// An event while a response arrives.
#[derive(Clone, Copy, Debug)]
pub enum AttemptEvent<'a> {
    /// Status and headers have arrived.
    Head(StatusCode, &'a HeaderMap),
    /// The first byte of the body has arrived.
    FirstByte,
    /// One read of the body, unchanged.
    Bytes(&'a [u8]),
    /// A piece of the reply, only for display. Only a complete reply counts.
    Delta {
        /// The kind of block that it belongs to.
        block: BlockKind,
        /// The piece.
        text: &'a str,
    },
}

/// A complete reply.
#[derive(Clone, Debug, PartialEq)]
pub struct CompleteReply {
    /// The body of the equivalent non-streaming call.
    pub body: Vec<u8>,
    /// The decoded body.
    pub answer: DecodedReply,
}
