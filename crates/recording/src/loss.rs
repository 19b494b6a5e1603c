//! What could not be kept, named one by one.

use serde::{Deserialize, Serialize};

/// One thing that the recording should hold and does not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Loss {
    /// The exchange it belongs to, as in `r000007`; `None` for output of the command and the like.
    pub request_id: Option<String>,
    /// What it was, as in `response body`.
    pub what: String,
    /// How many bytes.
    pub bytes: u64,
    /// Why it could not be kept.
    pub reason: String,
}

impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let whose = self.request_id.as_deref().unwrap_or("command");
        write!(f, "{whose}: {} ({} bytes): {}", self.what, self.bytes, self.reason)
    }
}
