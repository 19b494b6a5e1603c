//! One provider request and its response, as they crossed the wire.

use serde::{Deserialize, Serialize};
use session::RequestId;

/// One HTTP request to a provider and its response.
#[derive(Clone, Debug, PartialEq)]
pub struct Exchange {
    /// Its number in the order of arrival.
    pub id: RequestId,
    /// What the harness sent.
    pub request: Request,
    /// What came back, as far as it came; `None` where not even a status arrived.
    pub response: Option<Response>,
    /// How it ended.
    pub ending: Ending,
}

/// What the harness sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// As in `POST`.
    pub method: String,
    /// The full address it went to.
    pub url: String,
    /// The headers in order, end to end ones only.
    pub headers: Vec<Header>,
    /// The body after transfer decoding.
    pub body: Body,
    /// Headers that came behind the body.
    pub trailers: Vec<Header>,
}

/// What the provider answered.
#[derive(Clone, Debug, PartialEq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The headers in order, end to end ones only.
    pub headers: Vec<Header>,
    /// The body after transfer decoding, as far as it came.
    pub body: Body,
    /// Headers that came behind the body.
    pub trailers: Vec<Header>,
    /// When each part of the body was read.
    pub reads: Vec<SocketRead>,
}

/// A body, where it may be too long to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// The bytes.
    Inline(Vec<u8>),
    /// Kept beside the exchange, under the digest of its bytes.
    Blob {
        /// SHA-256, hex.
        sha256: String,
        /// How many bytes.
        bytes: u64,
    },
    /// Not kept; the recording says why.
    Missing,
}

/// One header line. A secret keeps its name and loses its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Header {
    /// As it was sent.
    Plain {
        /// The name, in the case it was sent in.
        name: String,
        /// The value; bytes outside of UTF-8 are read as Latin-1.
        value: String,
    },
    /// Its value was a secret.
    Secret {
        /// The name, in the case it was sent in.
        name: String,
        /// Always `true`: the header was there.
        present: bool,
        /// Equal for equal values, under one key.
        fingerprint: String,
    },
}

impl Header {
    /// The header's name.
    pub fn name(&self) -> &str {
        match self {
            Self::Plain { name, .. } | Self::Secret { name, .. } => name,
        }
    }

    /// The header's value, unless it was a secret.
    pub fn value(&self) -> Option<&str> {
        match self {
            Self::Plain { value, .. } => Some(value),
            Self::Secret { .. } => None,
        }
    }
}

/// One read from the provider's socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketRead {
    /// Its place in the one order over everything that happened on the wire.
    pub seq: u64,
    /// Where its bytes begin in the body.
    pub offset: u64,
    /// Microseconds since the recording began.
    pub us: u64,
}

/// How an exchange ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The whole response arrived.
    Complete,
    /// The harness left before the response was whole.
    CutByHarness,
    /// The provider stopped in the middle of its response.
    CutByUpstream,
    /// Nothing came back.
    NoResponse,
}
