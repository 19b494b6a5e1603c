//! Decoded responses: a reply of the model, or an error of the provider.

use session::Reply;

use super::{Part, UnknownValue};

/// The content of a response body.
#[derive(Clone, Debug, PartialEq)]
pub enum DecodedResponse {
    /// A reply of the model.
    Reply(DecodedReply),
    /// An error of the provider.
    Error(ProviderError),
    /// Other JSON, for example from an endpoint that counts tokens.
    Other,
}

impl DecodedResponse {
    /// Returns the reply, if there is one.
    pub fn into_reply(self) -> Option<DecodedReply> {
        match self {
            Self::Reply(reply) => Some(reply),
            Self::Error(_) | Self::Other => None,
        }
    }
}

/// A reply and the locations of its parts in the body.
#[derive(Clone, Debug, PartialEq)]
pub struct DecodedReply {
    /// The reply.
    pub reply: Reply,
    /// The blocks of the reply with their locations, in the same order.
    pub parts: Vec<Part>,
    /// Unknown values in known positions.
    pub unknown: Vec<UnknownValue>,
}

/// An error in the provider's format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderError {
    /// The type, such as `overloaded_error`.
    pub kind: String,
    /// The code if there is one, such as `context_length_exceeded`.
    pub code: Option<String>,
    /// The message.
    pub message: String,
}

impl ProviderError {
    /// Creates an error without a code.
    pub fn new(kind: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind: kind.into(), code: None, message: message.into() }
    }
}
