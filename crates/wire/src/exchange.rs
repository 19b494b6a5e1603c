//! A provider request and its response as they were sent.

use serde::{Deserialize, Serialize};
use session::RequestId;

/// One HTTP request to a provider and its response.
#[derive(Clone, Debug, PartialEq)]
pub struct Exchange {
    /// The number in the order of arrival.
    pub id: RequestId,
    /// The request of the harness.
    pub request: Request,
    /// The response, as far as it arrived. `None` if not even a status arrived.
    pub response: Option<Response>,
    /// The ending.
    pub ending: Ending,
}

/// A request of the harness.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The method, such as `POST`.
    pub method: String,
    /// The full URL.
    pub url: String,
    /// The end-to-end headers, in order.
    pub headers: Vec<Header>,
    /// The body after transfer decoding.
    pub body: Body,
    /// The headers after the body.
    pub trailers: Vec<Header>,
}

/// A response of the provider.
#[derive(Clone, Debug, PartialEq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The end-to-end headers, in order.
    pub headers: Vec<Header>,
    /// The body after transfer decoding, as far as it arrived.
    pub body: Body,
    /// The headers after the body.
    pub trailers: Vec<Header>,
    /// The reads from the socket that the body came from.
    pub reads: Vec<SocketRead>,
}

/// A body, which may be too long for memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// The bytes.
    Inline(Vec<u8>),
    /// Bytes that are stored beside the exchange, under their digest.
    Blob {
        /// SHA-256 in hex.
        sha256: String,
        /// The number of bytes.
        bytes: u64,
    },
    /// A body that was not stored. The recording states the reason.
    Missing,
}

/// One header. A secret header keeps its name and loses its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Header {
    /// A header as it was sent.
    Plain {
        /// The name, with its original case.
        name: String,
        /// The value. Bytes that are not UTF-8 are read as Latin-1.
        value: String,
    },
    /// A header with a secret value.
    Secret {
        /// The name, with its original case.
        name: String,
        /// Always `true`: the header was present.
        present: bool,
        /// A keyed fingerprint. Equal values have equal fingerprints under one key.
        fingerprint: String,
    },
}

impl Header {
    /// Returns the name.
    pub fn name(&self) -> &str {
        match self {
            Self::Plain { name, .. } | Self::Secret { name, .. } => name,
        }
    }

    /// Returns the value, unless it was a secret.
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
    /// The position in the order of all events on the wire.
    pub seq: u64,
    /// The offset of its bytes in the body.
    pub offset: u64,
    /// Microseconds since the start of the recording.
    pub us: u64,
}

/// The ending of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The whole response arrived.
    Complete,
    /// The harness closed the connection before the response was complete.
    CutByHarness,
    /// The provider closed the connection before the response was complete.
    CutByUpstream,
    /// Nothing arrived.
    NoResponse,
}
