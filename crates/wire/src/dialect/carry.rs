//! A conversation in the making: a head that stays, and messages that are only ever added.
//!
//! Each is encoded once and kept as bytes; a request is then nothing but their concatenation. So a longer
//! conversation begins with the bytes of the shorter one, and nothing that was sent is ever rendered again.

use session::{Block, Message, Reply, Role};

use crate::json::{Document, Edits, Value, ValueKind};

use super::raw::{Object, array};
use super::{Dialect, Draft, EncodeError, anthropic, chat, responses};

/// What stands for a reply in which the model said nothing: providers refuse an empty message.
const NOTHING_SAID: &str = "(no answer)";

/// Blocks that may not carry a cache marker.
const UNMARKABLE: &[&str] = &["thinking", "redacted_thinking"];

impl Dialect {
    /// Everything of a request that comes before its first message. The draft's messages are left out.
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

    /// One message as it stands among others: an element, or several with commas between them.
    pub fn encode_message(self, message: &Message) -> Result<String, EncodeError> {
        match self {
            Self::AnthropicMessages => anthropic::encode_message(message),
            Self::OpenAiChat => chat::encode_messages(&chat::plain::message(message)),
            Self::OpenAiResponses => responses::encode_items(message),
        }
    }

    /// A reply as the requests that follow carry it back. `body` is the whole reply, not streamed or accumulated, and
    /// what it says stays byte for byte, also where we do not understand it.
    pub fn carry(self, body: &[u8], reply: &Reply) -> Result<String, EncodeError> {
        let document = Document::parse(body).ok();
        let raw = |member: &str| -> Vec<String> {
            let items = document.iter().flat_map(|document| document.root().get(member));
            items.flat_map(|value| value.items()).filter(|item| !is_empty_text(item)).map(whole).collect()
        };
        let says_nothing =
            reply.blocks.iter().all(|block| matches!(block, Block::Text { text } if text.trim().is_empty()));
        if says_nothing {
            let text = Block::Text { text: NOTHING_SAID.to_owned() };
            return self.encode_message(&Message { role: Role::Assistant, blocks: vec![text] });
        }
        match self {
            Self::AnthropicMessages => {
                let mut content = raw("content");
                // Nor may a message end with what was only thought.
                if reply.blocks.iter().all(is_thought_or_blank) {
                    content.push(Object::new().text("type", "text").text("text", NOTHING_SAID).json());
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

    /// The same message with a cache marker on the last block that can carry one; unchanged in the dialects whose
    /// providers find repeated beginnings by themselves.
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

/// A request's body: the head, the messages, and the end.
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

/// Models write one now and then, and providers refuse it.
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

/// What a question may have of an answer's message. An answer has more, and most providers refuse it.
const CARRIED: &[&str] =
    &["content", "refusal", "reasoning", "reasoning_content", "reasoning_details", "tool_calls"];

/// The message of a chat reply, each member as it came; `None` for a call from before calls had ids.
fn chat_message(body: &Document<'_>) -> Option<String> {
    let message = body.root().get("choices")?.items().next()?.get("message")?;
    let said = |name: &str| message.get(name).filter(|value| !matches!(value.raw(), "null" | "\"\""));
    if said("function_call").is_some() {
        return None;
    }
    let speaks = ["content", "refusal", "tool_calls"].into_iter().any(|name| said(name).is_some());
    let mut object = Object::new().text("role", "assistant");
    if !speaks {
        object = object.text("content", NOTHING_SAID);
    } else if said("content").is_none() {
        object = object.raw("content", "null");
    }
    for name in CARRIED {
        if let Some(value) = said(name) {
            object = object.raw(name, value.raw());
        }
    }
    Some(object.json())
}

/// One block of a reply as it came, without what we put beside an input that was cut.
fn whole(item: Value<'_, '_>) -> String {
    if item.get("partial_json").is_none() {
        return item.raw().to_owned();
    }
    let mut object = Object::of(item);
    object.remove("partial_json");
    object.json()
}
