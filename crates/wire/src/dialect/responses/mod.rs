//! The OpenAI Responses dialect.

mod accumulate;
mod draft;
mod item;
mod reply;
mod request;
mod stream;

pub(super) use accumulate::ResponseStream;
pub(super) use draft::{encode_items, encode_request};
pub(super) use reply::{decode_reply, encode_reply};
pub(super) use request::decode_request;
pub(super) use stream::{encode_stream, encode_stream_error};

const DIALECT: super::Dialect = super::Dialect::OpenAiResponses;
