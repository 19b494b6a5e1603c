//! What a conversation *is*: messages, blocks, replies, ids and usage.
//!
//! Start at [`Message`] and [`Reply`]. Nothing here knows a provider's JSON, opens a file or reads a
//! clock: `wire` translates between these values and the bytes that crossed the wire.

mod id;
mod message;
pub mod model;
mod unseen;
mod usage;

pub use id::{CallId, RequestId, RunId, TaskId, ThreadId};
pub use message::{Block, ImageSource, Message, Reply, Role, StopReason, ToolCall, ToolResult};
pub use unseen::is_unseen;
pub use usage::Usage;
