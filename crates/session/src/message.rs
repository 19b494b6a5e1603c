//! Messages and their blocks, in terms that all providers share.

use serde::{Deserialize, Serialize};

use crate::{CallId, Usage};

/// The author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Instructions. Some harnesses also send them in the middle of a conversation.
    System,
    /// Instructions, in the term of newer OpenAI models.
    Developer,
    /// The user, or the harness on the user's behalf.
    User,
    /// The model.
    Assistant,
    /// A tool result, for providers that give it a role of its own.
    Tool,
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// The author.
    pub role: Role,
    /// The content, in order.
    pub blocks: Vec<Block>,
}

/// One piece of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// Plain text.
    Text {
        /// The text.
        text: String,
    },
    /// Readable reasoning of the model.
    Thinking {
        /// The reasoning text, or its summary.
        text: String,
        /// The provider's opaque signature, sent back unchanged.
        signature: Option<String>,
    },
    /// Reasoning of the model, encrypted by the provider.
    RedactedThinking {
        /// Opaque data, sent back unchanged.
        data: String,
    },
    /// A refusal of the model.
    Refusal {
        /// The text of the refusal.
        text: String,
    },
    /// A request for a tool.
    ToolCall(ToolCall),
    /// The result of a tool.
    ToolResult(ToolResult),
    /// An image.
    Image(ImageSource),
    /// A file or document for the model.
    Document {
        /// Its name or title, if known.
        name: Option<String>,
    },
    /// The name of a tool whose schema is loaded from this result on.
    ToolReference {
        /// The tool's name.
        name: String,
    },
    /// The id of an earlier output item that is not sent again.
    ItemReference {
        /// The provider's id of the item.
        id: String,
    },
    /// A block of an unknown type. Its bytes are in the `wire` value that it was decoded from.
    Unknown {
        /// The provider's name of the type.
        kind: String,
    },
}

/// A request of the model to run a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The id of the call. The result carries the same id.
    pub id: CallId,
    /// The tool's name.
    pub name: String,
    /// The arguments exactly as the model wrote them: JSON, or free text for a custom tool.
    pub input: String,
    /// True if the provider runs the tool, not the harness.
    pub server: bool,
}

/// The result of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The id of the call.
    pub call: CallId,
    /// The content of the result.
    pub blocks: Vec<Block>,
    /// True if the tool failed.
    pub is_error: bool,
    /// True if the provider ran the tool.
    pub server: bool,
}

/// The source of an image's bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageSource {
    /// Inline, in base64.
    Base64 {
        /// The media type, such as `image/png`.
        media_type: String,
        /// The base64 text.
        data: String,
    },
    /// A URL. It may be a `data:` URL.
    Url {
        /// The URL.
        url: String,
    },
    /// A file that the provider stores.
    File {
        /// The provider's id of the file.
        id: String,
    },
}

/// The reason why the model stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The reply is complete.
    EndTurn,
    /// The model waits for tool results.
    ToolUse,
    /// The reply reached the output limit.
    MaxTokens,
    /// The reply contains a stop sequence.
    StopSequence,
    /// The provider paused a long turn, which can be continued.
    PauseTurn,
    /// The model refused.
    Refusal,
    /// A filter of the provider cut the reply.
    ContentFilter,
    /// The context window is full.
    ContextWindow,
    /// Any other reason, in the provider's term.
    Other(String),
}

/// One reply of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// The provider's id of the reply.
    pub id: String,
    /// The model that replied, by the name that the response gives.
    pub model: String,
    /// The content, in order.
    pub blocks: Vec<Block>,
    /// The reason why the model stopped. `None` if the stream ended before it.
    pub stop: Option<StopReason>,
    /// The tokens used.
    pub usage: Usage,
}

impl Reply {
    /// Iterates over the tool calls for the harness, in order.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.blocks.iter().filter_map(|block| match block {
            Block::ToolCall(call) if !call.server => Some(call),
            _ => None,
        })
    }

    /// Returns the text blocks joined by newlines, or `None` if there are none.
    pub fn text(&self) -> Option<String> {
        let texts: Vec<&str> = self
            .blocks
            .iter()
            .filter_map(|block| match block {
                Block::Text { text } => Some(text.as_str()),
                _ => None,
            })
            .collect();
        (!texts.is_empty()).then(|| texts.join("\n"))
    }
}
