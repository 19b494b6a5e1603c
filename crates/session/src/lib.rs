//! The values of a conversation: messages, blocks, replies, ids and usage.
//!
//! Start at [`Message`] and [`Reply`]. This crate knows no provider's JSON, opens no file and reads no clock. The
//! `wire` crate translates between these values and the bytes of a request or response.

mod id;
mod invisible;
mod message;
pub mod model;
mod usage;

pub use id::{CallId, RequestId, RunId, TaskId, ThreadId};
pub use invisible::is_invisible;
pub use message::{Block, ImageSource, Message, Reply, Role, StopReason, ToolCall, ToolResult};
pub use usage::Usage;
