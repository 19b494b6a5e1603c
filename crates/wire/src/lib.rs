//! What crossed the wire: exchanges, server-sent events, the providers' dialects, and redaction.
//!
//! Start at [`Exchange`]. Nothing here opens a socket, touches a file or reads a clock, so every
//! test is bytes in, values out. Decoded values know their byte range in the original, and an edit
//! is a splice: bytes that nobody edited stay as they were sent.

pub mod dialect;
pub mod difference;
pub mod encoding;
mod exchange;
pub mod json;
mod pieces;
pub mod redact;
pub mod rename;
pub mod sse;

pub use exchange::{Body, Ending, Exchange, Header, Read, Request, Response};
