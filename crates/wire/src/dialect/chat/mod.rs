//! OpenAI Chat Completions, as OpenAI and the many who follow it speak it.

mod accumulate;
mod draft;
mod merge;
mod message;
pub(super) mod plain;
mod reply;
mod request;
mod stream;

pub(super) use accumulate::Gathered;
pub(super) use draft::{encode_messages, encode_request};
pub(super) use reply::{decode_error, decode_reply, encode_error, encode_reply};
pub(super) use request::decode_request;
pub(super) use stream::encode_stream;

const DIALECT: super::Dialect = super::Dialect::OpenAiChat;
