//! A request before it is encoded.

use session::{Block, Message};
use thiserror::Error;

use super::Dialect;

/// A request in session values, to be encoded in any dialect.
///
/// The encoding is compact and deterministic and has the messages last, so that a longer
/// conversation is a longer body with the same beginning.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Draft {
    /// The model to ask.
    pub model: String,
    /// The output limit.
    pub max_tokens: Option<u64>,
    /// Whether the answer shall be streamed.
    pub stream: bool,
    /// How the model shall think.
    pub thinking: Option<ThinkingConfig>,
    /// How hard, in the provider's word, as in `high`.
    pub effort: Option<String>,
    /// Members that have no field here: name and JSON, in this order.
    pub extra: Vec<(String, String)>,
    /// The tools on offer.
    pub tools: Vec<Element<ToolSpec>>,
    /// Instructions.
    pub system: Vec<Element<Block>>,
    /// The conversation.
    pub messages: Vec<Element<Message>>,
    /// What shall be cached.
    pub marks: Vec<DraftMarker>,
}

/// Something to encode, or its bytes where they are already known and must stay as they are.
#[derive(Clone, Debug, PartialEq)]
pub enum Element<T> {
    /// To be encoded.
    Value(T),
    /// JSON in the dialect, taken as it is.
    Raw(String),
}

impl<T> From<T> for Element<T> {
    fn from(value: T) -> Self {
        Self::Value(value)
    }
}

/// A tool to offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolSpec {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The JSON schema of its input.
    pub schema: String,
}

/// How the model shall think.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThinkingConfig {
    /// As much as it sees fit.
    Adaptive,
    /// Up to that many tokens.
    Budget(u64),
    /// Not at all.
    Off,
}

/// A cache marker to set; dialects without markers have no use for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DraftMarker {
    /// What carries it.
    pub on: MarkerTarget,
    /// How long, as in `1h`; `None` for the provider's usual term.
    pub ttl: Option<String>,
}

/// What carries a cache marker, by its index in the draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkerTarget {
    /// A tool.
    Tool(usize),
    /// A block of the instructions.
    System(usize),
    /// A block of a message.
    Block {
        /// The message.
        message: usize,
        /// The block in it.
        block: usize,
    },
}

impl Draft {
    /// The marker for `on` as JSON.
    pub(crate) fn marker(&self, on: MarkerTarget) -> Option<String> {
        let mark = self.marks.iter().find(|mark| mark.on == on)?;
        let object = super::raw::Object::new().text("type", "ephemeral");
        Some(object.maybe("ttl", mark.ttl.as_deref().map(crate::json::quote)).json())
    }
}

/// Why a value cannot be encoded.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EncodeError {
    /// The dialect has no form for such a block in this place.
    #[error("{dialect} cannot carry {block} in {place}")]
    NoSuchBlock {
        /// The dialect.
        dialect: Dialect,
        /// What kind of block.
        block: &'static str,
        /// Where it should have stood.
        place: &'static str,
    },
    /// The arguments of a call must be JSON here, and are not.
    #[error("the input of call `{call}` is not a JSON object")]
    InputNotJson {
        /// The call's id.
        call: String,
    },
}

impl EncodeError {
    pub(crate) fn no_such(dialect: Dialect, block: &Block, place: &'static str) -> Self {
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

/// A call's input as JSON: the empty text is the empty object.
pub(crate) fn input_json(call: &session::ToolCall) -> Result<&str, EncodeError> {
    if call.input.is_empty() {
        return Ok("{}");
    }
    is_object(&call.input)
        .then_some(call.input.as_str())
        .ok_or_else(|| EncodeError::InputNotJson { call: call.id.to_string() })
}

/// Whether the text is a JSON object: what a function takes, where a custom tool takes any text.
pub(crate) fn is_object(text: &str) -> bool {
    crate::json::Document::parse(text.as_bytes())
        .is_ok_and(|document| document.root().kind() == crate::json::ValueKind::Object)
}
