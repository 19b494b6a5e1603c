//! The OpenAI Chat Completions dialect, of OpenAI and compatible providers.

mod accumulate;
mod draft;
mod merge;
mod message;
pub(super) mod plain;
mod reply;
mod request;
mod stream;

pub(super) use accumulate::CompletionStream;
pub(super) use draft::{encode_messages, encode_request};
pub(super) use reply::{decode_error, decode_reply, encode_error, encode_reply};
pub(super) use request::decode_request;
pub(super) use stream::encode_stream;

const DIALECT: super::Dialect = super::Dialect::OpenAiChat;
