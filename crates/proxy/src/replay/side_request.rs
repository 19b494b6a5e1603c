//! Requests that ask no model: token counts, lists of models, embeddings.

use serde_json::Value;

use super::digest::digest;

/// Members of a body that hold its content. The others, such as sender and settings, may differ in each run.
const CONTENT: [&str; 8] =
    ["contents", "input", "instructions", "messages", "model", "prompt", "system", "tools"];

/// A request that asks no model, reduced to what distinguishes it from others for the same path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SideRequest {
    query: String,
    body: u64,
    /// Digest of the content only.
    content: u64,
}

impl SideRequest {
    pub(super) fn new(query: &str, body: &[u8]) -> Self {
        let content =
            serde_json::from_slice(body).map_or_else(|_| digest(body), |value| content_digest(&value));
        Self { query: query.to_owned(), body: digest(body), content }
    }

    /// Returns how similar two requests are. The query counts most, because it selects a part of a list.
    pub(super) fn similarity(&self, other: &Self) -> u32 {
        4 * u32::from(self.query == other.query)
            + 2 * u32::from(self.content == other.content)
            + u32::from(self.body == other.body)
    }
}

fn content_digest(body: &Value) -> u64 {
    let members: Vec<String> =
        CONTENT.iter().filter_map(|name| Some(format!("{name} {}", body.get(name)?))).collect();
    let text = if members.is_empty() { body.to_string() } else { members.join("\n") };
    digest(text.as_bytes())
}
