//! A request before it is encoded.

use session::{Block, Message};
use thiserror::Error;

use super::Dialect;

/// A request in session values, which any dialect can encode.
///
/// The encoding is compact and deterministic, and the messages come last. So the body of a longer conversation
/// starts with that of the shorter one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Draft {
    /// The model.
    pub model: String,
    /// The output limit.
    pub max_tokens: Option<u64>,
    /// True if the reply is to be streamed.
    pub stream: bool,
    /// The thinking mode.
    pub thinking: Option<ThinkingConfig>,
    /// The effort in the provider's term, such as `high`.
    pub effort: Option<String>,
    /// Other members in order, as name and JSON.
    pub extra: Vec<(String, String)>,
    /// The available tools.
    pub tools: Vec<Element<ToolSpec>>,
    /// The instructions.
    pub system: Vec<Element<Block>>,
    /// The conversation.
    pub messages: Vec<Element<Message>>,
    /// The cache markers.
    pub marks: Vec<DraftMarker>,
}

/// A value to encode, or JSON that must keep its bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum Element<T> {
    /// A value to encode.
    Value(T),
    /// JSON in the dialect, used unchanged.
    Raw(String),
}

impl<T> From<T> for Element<T> {
    fn from(value: T) -> Self {
        Self::Value(value)
    }
}

/// A tool for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolSpec {
    /// The name.
    pub name: String,
    /// The description for the model.
    pub description: String,
    /// The JSON schema of the input.
    pub schema: String,
}

/// The thinking mode of a draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThinkingConfig {
    /// The model decides how much it thinks. If `summarized`, the request asks for a summary of the thoughts by name,
    /// because newer models return none otherwise.
    Adaptive {
        /// Asks for a summary of the thoughts.
        summarized: bool,
    },
    /// At most this number of tokens.
    Budget(u64),
    /// No thinking.
    Off,
}

/// A cache marker for a draft. Dialects without markers ignore it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DraftMarker {
    /// The element that carries the marker.
    pub on: MarkerTarget,
    /// The lifetime, such as `1h`. `None` means the provider's default.
    pub ttl: Option<String>,
}

/// The element of a draft that carries a cache marker, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkerTarget {
    /// A tool.
    Tool(usize),
    /// A block of the instructions.
    System(usize),
    /// A block of a message.
    Block {
        /// The index of the message.
        message: usize,
        /// The index of the block in the message.
        block: usize,
    },
}

impl Draft {
    /// Returns the marker for an element as JSON.
    pub(crate) fn marker(&self, on: MarkerTarget) -> Option<String> {
        let mark = self.marks.iter().find(|mark| mark.on == on)?;
        let object = super::raw::Object::new().text("type", "ephemeral");
        Some(object.maybe("ttl", mark.ttl.as_deref().map(crate::json::quote)).json())
    }
}

/// Error: a value cannot be encoded.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EncodeError {
    /// The dialect has no form for this block in this position.
    #[error("{dialect} does not support {block} in {place}")]
    NoSuchBlock {
        /// The dialect.
        dialect: Dialect,
        /// The kind of block.
        block: &'static str,
        /// The position.
        place: &'static str,
    },
    /// The input of a call is not a JSON object.
    #[error("the input of call `{call}` is not a JSON object")]
    InputNotJson {
        /// The id of the call.
        call: String,
    },
}

impl EncodeError {
    pub(crate) fn unsupported(dialect: Dialect, block: &Block, place: &'static str) -> Self {
        Self::NoSuchBlock { dialect, block: name(block), place }
    }
}

fn name(block: &Block) -> &'static str {
    match block {
        Block::Text { .. } => "text",
        Block::Thinking { .. } => "thinking",
        Block::RedactedThinking { .. } => "redacted thinking",
        Block::Refusal { .. } => "a refusal",
        Block::ToolCall(_) => "a tool call",
        Block::ToolResult(_) => "a tool result",
        Block::Image(_) => "an image",
        Block::Document { .. } => "a document without its bytes",
        Block::ToolReference { .. } => "a tool reference",
        Block::ItemReference { .. } => "an item reference",
        Block::Unknown { .. } => "an unknown block without its bytes",
    }
}

/// Returns the input of a call as JSON. An empty text becomes an empty object.
pub(crate) fn input_json(call: &session::ToolCall) -> Result<&str, EncodeError> {
    if call.input.is_empty() {
        return Ok("{}");
    }
    is_object(&call.input)
        .then_some(call.input.as_str())
        .ok_or_else(|| EncodeError::InputNotJson { call: call.id.to_string() })
}

/// Returns true if a text is a JSON object, which is what a function takes. A custom tool takes any text.
pub(crate) fn is_object(text: &str) -> bool {
    crate::json::Document::parse(text.as_bytes())
        .is_ok_and(|document| document.root().kind() == crate::json::ValueKind::Object)
}
