//! HTTP/1.1 as it is written, so that it can be passed on as it is written.
//!
//! Nothing here reads or writes a socket. A library that models requests would lose what we promise
//! to keep: the case and order of header names, interim responses, trailers, the framing itself.

mod framing;
mod head;

pub(crate) use framing::{BodyDecoder, Framing};
pub(crate) use head::{RequestHead, ResponseHead};
