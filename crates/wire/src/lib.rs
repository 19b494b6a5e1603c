//! Provider traffic as values: exchanges, events, JSON that keeps its bytes, and the dialects of providers.
//!
//! Start at [`Exchange`]. This crate opens no socket, touches no file and reads no clock, so every test is bytes
//! in, values out. Decoded values know their byte range in the original. An edit is a splice: all other bytes stay
//! as they were sent.

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
