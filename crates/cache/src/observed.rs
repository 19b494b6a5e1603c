//! Past requests.

use session::{RequestId, Usage};

use crate::prompt::CachePrompt;

/// Past request.
#[derive(Clone, Debug)]
pub struct ObservedRequest {
    /// Request id.
    pub id: RequestId,
    /// Lane.
    pub lane: String,
    /// Parent of the lane, if the lane is a fork.
    pub fork_of: Option<String>,
    /// Turn in the lane, from 1.
    pub turn: u32,
    /// Time of the request in microseconds.
    pub at_us: u64,
    /// Time when the response began, if it did.
    pub begun_us: Option<u64>,
    /// True if the conversation was compacted since the previous request.
    pub is_compacted: bool,
    /// Prompt.
    pub prompt: CachePrompt,
    /// Usage reported by the provider.
    pub reported: Option<Usage>,
}
