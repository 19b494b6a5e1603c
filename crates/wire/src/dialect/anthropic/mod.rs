//! The Anthropic Messages dialect.

mod accumulate;
mod block;
mod draft;
mod reply;
mod request;
mod stream;

pub(super) use accumulate::MessageStream;
pub(super) use draft::{encode_message, encode_request};
pub(super) use reply::{decode_reply, encode_error, encode_reply};
pub(super) use request::decode_request;
pub(super) use stream::encode_stream;

const DIALECT: super::Dialect = super::Dialect::AnthropicMessages;
