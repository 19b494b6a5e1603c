//! Provider traffic as values: exchanges, server-sent events, JSON that keeps its bytes, and the dialects of providers.
//!
//! Start at [`Exchange`]. Nothing here opens a socket, touches a file or reads a clock, so every
//! test is bytes in, values out. Decoded values know their byte range in the original, and an edit
//! is a splice: bytes that nobody edited stay as they were sent.

pub mod dialect;
pub mod difference;
pub mod encoding;
mod exchange;
pub mod json;
pub mod opaque;
pub mod rename;
pub mod sse;
pub mod stream_text;

pub use exchange::{Body, Ending, Exchange, Header, Request, Response, SocketRead};
