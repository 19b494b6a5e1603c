//! A decoded answer: what the model said, or why the provider would not let it.

use session::Reply;

use super::{Part, UnknownValue};

/// What a response body holds.
#[derive(Clone, Debug, PartialEq)]
pub enum DecodedResponse {
    /// The model answered.
    Reply(DecodedReply),
    /// The provider refused, in its own shape.
    Error(ProviderError),
    /// Some other JSON, as from an endpoint that only counts tokens.
    Other,
}

impl DecodedResponse {
    /// The answer, where there is one.
    pub fn into_reply(self) -> Option<DecodedReply> {
        match self {
            Self::Reply(reply) => Some(reply),
            Self::Error(_) | Self::Other => None,
        }
    }
}

/// A reply and where its parts stand in the body.
#[derive(Clone, Debug, PartialEq)]
pub struct DecodedReply {
    /// What the model said.
    pub reply: Reply,
    /// The reply's blocks, one for one, with their places.
    pub parts: Vec<Part>,
    /// What this version does not know, in places that it knows.
    pub unknown: Vec<UnknownValue>,
}

/// An error in the provider's shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderError {
    /// The provider's word for it, as in `overloaded_error`.
    pub kind: String,
    /// A finer word, where it has two, as in `context_length_exceeded`.
    pub code: Option<String>,
    /// What it says.
    pub message: String,
}

impl ProviderError {
    /// An error of that kind.
    pub fn new(kind: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind: kind.into(), code: None, message: message.into() }
    }
}
