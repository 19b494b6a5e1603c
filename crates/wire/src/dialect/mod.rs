//! The dialects of providers: requests and replies, encoded and decoded, with and without streaming.
//!
//! Start at [`Dialect`]. Each dialect is a pure codec. A [`Prompt`] is a decoded request, a [`Draft`] is a request
//! to encode, and a [`DecodedReply`] is a decoded reply. An [`Accumulator`] converts a stream into the body of the
//! same call without streaming, so there is one decoder for replies. Values that a dialect does not know are kept
//! and reported as [`UnknownValue`].

mod accumulate;
mod builder;
mod carry;
mod cursor;
mod detect;
mod draft;
mod edit;
mod prompt;
mod raw;
mod response;
mod usage;

mod anthropic;
mod chat;
mod responses;

#[cfg(test)]
mod tests;

use std::fmt;

use session::Reply;
use thiserror::Error;

use crate::json::{Document, JsonError};

pub use accumulate::{AccumulatedStream, Accumulator, accumulate};
pub use builder::{Fragment, StreamEnd};
pub use carry::join_request;
pub use draft::{Draft, DraftMarker, Element, EncodeError, MarkerTarget, ThinkingConfig, ToolSpec};
pub use edit::replace_in;
pub use prompt::{
    JsonLocation, Marker, Part, Prompt, PromptMessage, Setting, ToolDefinition, ToolExecution, UnknownValue,
};
pub use response::{DecodedReply, DecodedResponse, ProviderError};

/// The API format of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// `/v1/messages`
    AnthropicMessages,
    /// `/v1/chat/completions`
    OpenAiChat,
    /// `/v1/responses`
    OpenAiResponses,
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AnthropicMessages => "Anthropic Messages",
            Self::OpenAiChat => "OpenAI Chat Completions",
            Self::OpenAiResponses => "OpenAI Responses",
        })
    }
}

/// Error: a body cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The body is not JSON.
    #[error("the body is not JSON: {0}")]
    NotJson(JsonError),
    /// The body is JSON, but not an object.
    #[error("the body is JSON, but not an object")]
    NotAnObject,
}

impl Dialect {
    /// Decodes the body of a request.
    pub fn decode_request(self, body: &[u8]) -> Result<Prompt, DecodeError> {
        self.decode_document(&Document::parse(body)?)
    }

    /// Decodes the body of a request from parsed JSON.
    pub fn decode_document(self, body: &Document<'_>) -> Result<Prompt, DecodeError> {
        match self {
            Self::AnthropicMessages => anthropic::decode_request(body),
            Self::OpenAiChat => chat::decode_request(body),
            Self::OpenAiResponses => responses::decode_request(body),
        }
    }

    /// Encodes the body of a request.
    pub fn encode_request(self, draft: &Draft) -> Result<Vec<u8>, EncodeError> {
        let json = match self {
            Self::AnthropicMessages => anthropic::encode_request(draft),
            Self::OpenAiChat => chat::encode_request(draft),
            Self::OpenAiResponses => responses::encode_request(draft),
        };
        json.map(String::into_bytes)
    }

    /// Decodes the body of a response, which is not streamed or was accumulated.
    pub fn decode_reply(self, body: &[u8]) -> Result<DecodedResponse, DecodeError> {
        match self {
            Self::AnthropicMessages => anthropic::decode_reply(body),
            Self::OpenAiChat => chat::decode_reply(body),
            Self::OpenAiResponses => responses::decode_reply(body),
        }
    }

    /// Encodes a reply as a body without streaming.
    pub fn encode_reply(self, reply: &Reply) -> Result<Vec<u8>, EncodeError> {
        let json = match self {
            Self::AnthropicMessages => anthropic::encode_reply(reply),
            Self::OpenAiChat => chat::encode_reply(reply),
            Self::OpenAiResponses => responses::encode_reply(reply),
        };
        json.map(String::into_bytes)
    }

    /// Encodes a reply as a stream and returns its events. Texts are split into chunks of `chunk` characters.
    ///
    /// A reply without a stop reason becomes a stream without its final events.
    pub fn encode_stream(self, reply: &Reply, chunk: usize) -> Result<Vec<Vec<u8>>, EncodeError> {
        let events = match self {
            Self::AnthropicMessages => anthropic::encode_stream(reply, chunk),
            Self::OpenAiChat => chat::encode_stream(reply, chunk),
            Self::OpenAiResponses => responses::encode_stream(reply, chunk),
        };
        Ok(events?.into_iter().map(String::into_bytes).collect())
    }

    /// Encodes an error as a body.
    pub fn encode_error(self, error: &ProviderError) -> Vec<u8> {
        let json = match self {
            Self::AnthropicMessages => anthropic::encode_error(error),
            Self::OpenAiChat | Self::OpenAiResponses => chat::encode_error(error),
        };
        json.into_bytes()
    }

    /// Encodes an error as an event in the middle of a stream.
    pub fn encode_stream_error(self, error: &ProviderError) -> Vec<u8> {
        let event = match self {
            Self::AnthropicMessages => event("error", &anthropic::encode_error(error)),
            Self::OpenAiChat => data(&chat::encode_error(error)),
            Self::OpenAiResponses => event("error", &responses::encode_stream_error(error)),
        };
        event.into_bytes()
    }

    /// Returns the provider's usual error type for a status code.
    pub fn error_kind(self, status: u16) -> &'static str {
        match (self, status) {
            (_, 400) => "invalid_request_error",
            (_, 401) => "authentication_error",
            (_, 403) => "permission_error",
            (_, 404) => "not_found_error",
            (_, 413) => "request_too_large",
            (_, 429) => "rate_limit_error",
            (Self::AnthropicMessages, 402) => "billing_error",
            (Self::AnthropicMessages, 504) => "timeout_error",
            (Self::AnthropicMessages, 529) => "overloaded_error",
            (Self::AnthropicMessages, _) => "api_error",
            (_, 500..) => "server_error",
            _ => "invalid_request_error",
        }
    }
}

/// Formats an event with a name.
fn event(name: &str, json: &str) -> String {
    format!("event: {name}\ndata: {json}\n\n")
}

/// Formats an event without a name.
fn data(json: &str) -> String {
    format!("data: {json}\n\n")
}
