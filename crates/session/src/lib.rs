//! What a conversation *is*: messages, blocks, replies, ids and usage.
//!
//! Start at [`Message`] and [`Reply`]. Nothing here knows a provider's JSON, opens a file or reads a
//! clock: `wire` translates between these values and the bytes that crossed the wire.

mod id;
mod invisible;
mod message;
pub mod model;
mod usage;

pub use id::{CallId, RequestId, RunId, TaskId, ThreadId};
pub use invisible::is_invisible;
pub use message::{Block, ImageSource, Message, Reply, Role, StopReason, ToolCall, ToolResult};
pub use usage::Usage;
