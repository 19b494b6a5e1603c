//! Requests of a growing conversation: a constant head and a list of messages.
//!
//! Every part is encoded once and kept as bytes, and a request is their concatenation. So a longer conversation
//! starts with the bytes of the shorter one, and no part is rendered twice.

use session::{Block, Message, Reply, Role};

use crate::json::{Document, Edits, Value, ValueKind};

use super::raw::{Object, array};
use super::{Dialect, Draft, EncodeError, anthropic, chat, responses};

/// The text of an empty reply, because providers reject an empty message.
const EMPTY_REPLY: &str = "(no answer)";

/// Block types that cannot carry a cache marker.
const UNMARKABLE: &[&str] = &["thinking", "redacted_thinking"];

impl Dialect {
    /// Encodes the part of a request before its first message. Ignores the draft's messages.
    pub fn encode_head(self, draft: &Draft) -> Result<Vec<u8>, EncodeError> {
        let bare = Draft { messages: Vec::new(), ..draft.clone() };
        let mut head = match self {
            Self::OpenAiChat => self.encode_request(&chat::plain::instructions(&bare))?,
            _ => self.encode_request(&bare)?,
        };
        debug_assert!(head.ends_with(b"]}"), "messages come last in every dialect");
        head.truncate(head.len() - 2);
        Ok(head)
    }

    /// Encodes a message for the list of messages: one element, or several separated by commas.
    pub fn encode_message(self, message: &Message) -> Result<String, EncodeError> {
        match self {
            Self::AnthropicMessages => anthropic::encode_message(message),
            Self::OpenAiChat => chat::encode_messages(&chat::plain::message(message)),
            Self::OpenAiResponses => responses::encode_items(message),
        }
    }

    /// Encodes a reply for the requests after it. `body` is the complete reply, from a call without streaming or
    /// from an [`Accumulator`](super::Accumulator). Its content keeps its bytes, including blocks of unknown types.
    pub fn carry(self, body: &[u8], reply: &Reply) -> Result<String, EncodeError> {
        let document = Document::parse(body).ok();
        let raw = |member: &str| -> Vec<String> {
            let items = document.iter().flat_map(|document| document.root().get(member));
            items
                .flat_map(|value| value.items())
                .filter(|item| !is_empty_text(item))
                .map(original_block)
                .collect()
        };
        let is_empty =
            reply.blocks.iter().all(|block| matches!(block, Block::Text { text } if text.trim().is_empty()));
        if is_empty {
            let text = Block::Text { text: EMPTY_REPLY.to_owned() };
            return self.encode_message(&Message { role: Role::Assistant, blocks: vec![text] });
        }
        match self {
            Self::AnthropicMessages => {
                let mut content = raw("content");
                // Providers also reject a message that ends with thinking.
                if reply.blocks.iter().all(is_thought_or_blank) {
                    content.push(Object::new().text("type", "text").text("text", EMPTY_REPLY).json());
                }
                Ok(Object::new().text("role", "assistant").raw("content", array(content)).json())
            }
            Self::OpenAiResponses => Ok(raw("output").join(",")),
            Self::OpenAiChat => match document.as_ref().and_then(chat_message) {
                Some(message) => Ok(message),
                None => self.encode_message(&Message { role: Role::Assistant, blocks: reply.blocks.clone() }),
            },
        }
    }

    /// Adds a cache marker to the last block of a message that can carry one. Does nothing in dialects whose
    /// providers detect repeated prefixes themselves.
    pub fn mark(self, message: &str, ttl: Option<&str>) -> String {
        let unchanged = || message.to_owned();
        if self != Self::AnthropicMessages {
            return unchanged();
        }
        let Ok(document) = Document::parse(message.as_bytes()) else { return unchanged() };
        let content = document.root().get("content");
        let markable = content.iter().flat_map(|content| content.items()).filter(can_be_marked).last();
        let Some(block) = markable else { return unchanged() };
        let marker = Object::new().text("type", "ephemeral").maybe("ttl", ttl.map(crate::json::quote));
        let end = block.span().end - 1;
        let mut edits = Edits::default();
        edits.replace(end..end, format!(",\"cache_control\":{}", marker.json()));
        let marked = edits.apply(message.as_bytes()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        marked.unwrap_or_else(unchanged)
    }
}

/// Joins the head and the messages to a request's body.
pub fn join_request<'a>(head: &[u8], messages: impl IntoIterator<Item = &'a str>) -> Vec<u8> {
    let mut body = head.to_vec();
    for message in messages {
        if !body.ends_with(b"[") {
            body.push(b',');
        }
        body.extend_from_slice(message.as_bytes());
    }
    body.extend_from_slice(b"]}");
    body
}

/// Returns true for an empty text block. Models send them, and providers reject them.
fn is_empty_text(block: &Value<'_, '_>) -> bool {
    let is_blank = || block.str_at("text").is_some_and(|text| text.trim().is_empty());
    block.str_at("type").as_deref() == Some("text") && is_blank()
}

fn is_thought_or_blank(block: &Block) -> bool {
    match block {
        Block::Thinking { .. } | Block::RedactedThinking { .. } => true,
        Block::Text { text } => text.trim().is_empty(),
        _ => false,
    }
}

fn can_be_marked(block: &Value<'_, '_>) -> bool {
    let kind = block.str_at("type").unwrap_or_default();
    block.kind() == ValueKind::Object && !UNMARKABLE.contains(&kind.as_ref())
}

/// Members of a reply's message that a request may contain. Most providers reject the other members.
const REQUEST_MEMBERS: &[&str] =
    &["content", "refusal", "reasoning", "reasoning_content", "reasoning_details", "tool_calls"];

/// Returns the message of a chat reply with its members as received. Returns `None` for a call in the old format
/// without ids.
fn chat_message(body: &Document<'_>) -> Option<String> {
    let message = body.root().get("choices")?.items().next()?.get("message")?;
    let member_value = |name: &str| message.get(name).filter(|value| !matches!(value.raw(), "null" | "\"\""));
    if member_value("function_call").is_some() {
        return None;
    }
    let has_content =
        ["content", "refusal", "tool_calls"].into_iter().any(|name| member_value(name).is_some());
    let mut object = Object::new().text("role", "assistant");
    if !has_content {
        object = object.text("content", EMPTY_REPLY);
    } else if member_value("content").is_none() {
        object = object.raw("content", "null");
    }
    for name in REQUEST_MEMBERS {
        if let Some(value) = member_value(name) {
            object = object.raw(name, value.raw());
        }
    }
    Some(object.json())
}

/// Returns a block of a reply as received, without the member that the accumulator adds for a truncated input.
fn original_block(item: Value<'_, '_>) -> String {
    if item.get("partial_json").is_none() {
        return item.raw().to_owned();
    }
    let mut object = Object::of(item);
    object.remove("partial_json");
    object.json()
}
