//! Parses HTTP/1.1 without changing its bytes, so that they can be passed on unchanged.
//!
//! Nothing here reads or writes a socket. A library that models requests would lose what the proxy keeps: the case and
//! order of header names, interim responses, trailers, and the framing.

mod framing;
mod head;

pub(crate) use framing::{BodyDecoder, Framing};
pub(crate) use head::{RequestHead, ResponseHead};
