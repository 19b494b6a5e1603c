//! Messages and the blocks they are made of, in the words all providers share.

use serde::{Deserialize, Serialize};

use crate::{CallId, Usage};

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Instructions; some harnesses also send them in the middle of a conversation.
    System,
    /// Instructions, as newer OpenAI models call them.
    Developer,
    /// The person, or the harness speaking for them.
    User,
    /// The model.
    Assistant,
    /// A tool's answer, where the provider gives it a role of its own.
    Tool,
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said, in order.
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
    /// The model's reasoning, readable.
    Thinking {
        /// The reasoning text, or its summary.
        text: String,
        /// The provider's seal over it, opaque, sent back unchanged.
        signature: Option<String>,
    },
    /// The model's reasoning, encrypted by the provider.
    RedactedThinking {
        /// Opaque, sent back unchanged.
        data: String,
    },
    /// The model refuses, in words.
    Refusal {
        /// The words.
        text: String,
    },
    /// The model asks for a tool.
    ToolCall(ToolCall),
    /// What a tool answered.
    ToolResult(ToolResult),
    /// A picture.
    Image(ImageSource),
    /// A file or document handed to the model.
    Document {
        /// Its name or title, where given.
        name: Option<String>,
    },
    /// A tool named in a result so that its schema is loaded from now on.
    ToolReference {
        /// The tool's name.
        name: String,
    },
    /// An earlier output item, named by the provider's id instead of being sent again.
    ItemReference {
        /// The provider's id of the item.
        id: String,
    },
    /// Something this version does not understand, kept by its type's name.
    /// Its bytes are in the wire value it was decoded from.
    Unknown {
        /// The provider's name for it.
        kind: String,
    },
}

/// The model asks for a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The call's id; the result carries it back.
    pub id: CallId,
    /// The tool's name.
    pub name: String,
    /// The arguments, the exact text the model wrote: JSON, or free text for a custom tool.
    pub input: String,
    /// Run by the provider itself, not by the harness.
    pub server: bool,
}

/// What a tool answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The call that is answered.
    pub call: CallId,
    /// The answer.
    pub blocks: Vec<Block>,
    /// The tool failed.
    pub is_error: bool,
    /// Answered by the provider itself.
    pub server: bool,
}

/// Where a picture's bytes are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageSource {
    /// Inline, base64.
    Base64 {
        /// As in `image/png`.
        media_type: String,
        /// The base64 text.
        data: String,
    },
    /// By address (a `data:` address too).
    Url {
        /// The address.
        url: String,
    },
    /// A file the provider keeps.
    File {
        /// The provider's id of it.
        id: String,
    },
}

/// Why the model stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It had said everything.
    EndTurn,
    /// It waits for tool results.
    ToolUse,
    /// The output limit was reached.
    MaxTokens,
    /// A stop sequence was written.
    StopSequence,
    /// A long server-side turn was paused and may be continued.
    PauseTurn,
    /// It refused.
    Refusal,
    /// A filter of the provider's cut it.
    ContentFilter,
    /// The context window was full.
    ContextWindow,
    /// Anything else, in the provider's word.
    Other(String),
}

/// One model reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// The provider's id of the reply.
    pub id: String,
    /// The model that answered, as it names itself.
    pub model: String,
    /// What it said, in order.
    pub blocks: Vec<Block>,
    /// Why it stopped; `None` when the stream was cut before it said so.
    pub stop: Option<StopReason>,
    /// What it consumed.
    pub usage: Usage,
}

impl Reply {
    /// The tool calls that the harness is asked to run, in order.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.blocks.iter().filter_map(|block| match block {
            Block::ToolCall(call) if !call.server => Some(call),
            _ => None,
        })
    }

    /// The text blocks, joined by newlines; `None` when there are none.
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
