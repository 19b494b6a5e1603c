//! What a request asks for that asks no model: a count, a list, a vector.

use serde_json::Value;

use super::tape::digest;

/// Members of a body that hold what is asked about. All else (who asks, with which settings) may be another in each run.
const CONTENT: [&str; 8] =
    ["contents", "input", "instructions", "messages", "model", "prompt", "system", "tools"];

/// What is asked for, as far as it tells one request from another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Question {
    query: String,
    body: u64,
    /// Of the content alone, however it is written.
    content: u64,
}

impl Question {
    pub(super) fn of(query: &str, body: &[u8]) -> Self {
        let content = serde_json::from_slice(body).map_or_else(|_| digest(body), |value| content(&value));
        Self { query: query.to_owned(), body: digest(body), content }
    }

    /// How much two have in common; the query counts most, for it says which part of a list is wanted.
    pub(super) fn likeness(&self, other: &Self) -> u32 {
        4 * u32::from(self.query == other.query)
            + 2 * u32::from(self.content == other.content)
            + u32::from(self.body == other.body)
    }
}

fn content(body: &Value) -> u64 {
    let held: Vec<String> =
        CONTENT.iter().filter_map(|name| Some(format!("{name} {}", body.get(name)?))).collect();
    let text = if held.is_empty() { body.to_string() } else { held.join("\n") };
    digest(text.as_bytes())
}
