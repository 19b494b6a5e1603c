//! Checks that the events of a stream follow their dialect.
//!
//! The accumulator takes what it understands and skips the rest, which is right for a recorder. An agent that
//! acts on a reply must know that nothing was skipped: a delta of the wrong type, a block that begins twice or
//! a character cut in half would leave a hole in the reply.

use wire::dialect::Dialect;
use wire::json::{Document, Value, ValueKind};
use wire::sse::Frame;

/// The meaning of an event for the watchdogs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// A sign of life.
    Life,
    /// A part of the reply.
    News,
    /// The final event.
    Last,
}

/// Checks the events of one stream.
#[derive(Debug)]
pub(super) struct Protocol {
    dialect: Dialect,
    begun: bool,
    /// Anthropic's open blocks.
    blocks: Vec<OpenBlock>,
    /// The output items of Responses that were added, by index.
    items: Vec<u64>,
    /// A piece arrived for an item that was never added. Only the complete reply at the end can contain it.
    unopened_index: Option<u64>,
}

#[derive(Debug)]
struct OpenBlock {
    index: u64,
    kind: String,
    ended: bool,
}

impl OpenBlock {
    /// Returns whether the block consists of pieces of this kind.
    fn takes(&self, piece: &str) -> bool {
        match piece {
            "text_delta" | "citations_delta" => self.kind == "text",
            "thinking_delta" | "signature_delta" => self.kind == "thinking",
            "input_json_delta" => self.kind.ends_with("tool_use"),
            "compaction_delta" => self.kind == "compaction",
            _ => false,
        }
    }
}

type Checked = Result<Event, String>;

impl Protocol {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self { dialect, begun: false, blocks: Vec::new(), items: Vec::new(), unopened_index: None }
    }

    /// Checks the next event, or returns what is wrong with it.
    pub(super) fn take(&mut self, frame: &Frame) -> Checked {
        if frame.lossy {
            return Err("an event that is not UTF-8".to_owned());
        }
        match frame.data.as_str() {
            "" => return Ok(Event::Life),
            "[DONE]" => {
                return Ok(if self.dialect == Dialect::OpenAiChat { Event::Last } else { Event::Life });
            }
            _ => {}
        }
        let document = Document::parse(frame.data.as_bytes()).map_err(|_| "an event that is not JSON")?;
        let data = document.root();
        if data.kind() != ValueKind::Object {
            return Err("an event that is not a JSON object".to_owned());
        }
        let kind = data.str_at("type").unwrap_or(frame.event.as_str().into());
        match self.dialect {
            Dialect::AnthropicMessages => self.anthropic(&kind, data),
            Dialect::OpenAiChat => chat(data),
            Dialect::OpenAiResponses => self.responses(&kind, data),
        }
    }

    fn anthropic(&mut self, kind: &str, data: Value<'_, '_>) -> Checked {
        match kind {
            "ping" => return Ok(Event::Life),
            "message_stop" if self.blocks.iter().any(|block| !block.ended) => {
                return Err("its end before the end of a block".to_owned());
            }
            "message_stop" | "error" => return Ok(Event::Last),
            "message_start" if self.begun => return Err("a second `message_start`".to_owned()),
            "message_start" => {
                member(data, kind, "message", &[ValueKind::Object])?;
                self.begun = true;
            }
            "content_block_start" => {
                let index = index(data, kind)?;
                let block = member(data, kind, "content_block", &[ValueKind::Object])?;
                if self.blocks.iter().any(|known| known.index == index) {
                    return Err(format!("block {index}, which begins twice"));
                }
                let kind = block.str_at("type").unwrap_or_default().into_owned();
                self.blocks.push(OpenBlock { index, kind, ended: false });
            }
            "content_block_delta" => {
                let index = index(data, kind)?;
                let open = self.blocks.iter().find(|block| block.index == index && !block.ended);
                let Some(block) = open else {
                    return Err(format!("a piece of block {index}, which is not open"));
                };
                let delta = member(data, kind, "delta", &[ValueKind::Object])?;
                let piece = delta.str_at("type").unwrap_or_default();
                if !block.takes(&piece) {
                    return Err(format!("a piece of kind `{piece}` for a block of kind `{}`", block.kind));
                }
                for name in ["text", "thinking", "signature", "partial_json"] {
                    optional(delta, "delta", name, &[ValueKind::String])?;
                }
            }
            "content_block_stop" => {
                let index = index(data, kind)?;
                self.blocks
                    .iter_mut()
                    .filter(|block| block.index == index)
                    .for_each(|block| block.ended = true);
            }
            "message_delta" => {
                member(data, kind, "delta", &[ValueKind::Object])?;
            }
            _ => {}
        }
        Ok(Event::News)
    }

    fn responses(&mut self, kind: &str, data: Value<'_, '_>) -> Checked {
        let output_index = || data.get("output_index").and_then(|index| index.as_u64()).unwrap_or(0);
        match kind {
            "keepalive" | "ping" => return Ok(Event::Life),
            "error" => return Ok(Event::Last),
            "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled" => {
                let response = member(data, kind, "response", &[ValueKind::Object])?;
                let has_output = response.get("output").is_some_and(|output| output.items().next().is_some());
                return match self.unopened_index.filter(|_| !has_output) {
                    Some(index) => Err(format!("a piece of item {index}, which was never added")),
                    None => Ok(Event::Last),
                };
            }
            "response.output_item.added" | "response.output_item.done" => {
                member(data, kind, "item", &[ValueKind::Object])?;
                self.items.push(output_index());
            }
            piece if PIECES.contains(&piece) => {
                member(data, kind, "delta", &[ValueKind::String])?;
                if !self.items.contains(&output_index()) {
                    self.unopened_index.get_or_insert(output_index());
                }
            }
            _ => {}
        }
        Ok(Event::News)
    }
}

fn chat(data: Value<'_, '_>) -> Checked {
    if data.get("error").is_some_and(|error| !error.is_null()) {
        return Ok(Event::Last);
    }
    optional(data, "chunk", "choices", &[ValueKind::Array])?;
    for choice in data.get("choices").iter().flat_map(Value::items) {
        if choice.kind() != ValueKind::Object {
            return Err("a choice that is not an object".to_owned());
        }
        optional(choice, "choice", "finish_reason", &[ValueKind::String])?;
        let Some(delta) = optional(choice, "choice", "delta", &[ValueKind::Object])? else { continue };
        optional(delta, "delta", "content", &[ValueKind::String, ValueKind::Array])?;
        optional(delta, "delta", "refusal", &[ValueKind::String])?;
        calls(delta)?;
    }
    Ok(Event::News)
}

/// Checks the calls of a chat message, complete or in pieces.
pub(super) fn calls(message: Value<'_, '_>) -> Result<(), String> {
    optional(message, "message", "tool_calls", &[ValueKind::Array])?;
    for call in message.get("tool_calls").iter().flat_map(Value::items) {
        if call.kind() != ValueKind::Object {
            return Err("a tool call that is not an object".to_owned());
        }
        if let Some(function) = optional(call, "tool call", "function", &[ValueKind::Object])? {
            optional(function, "function", "name", &[ValueKind::String])?;
            optional(function, "function", "arguments", &[ValueKind::String])?;
        }
    }
    Ok(())
}

/// Events with a piece of a string.
const PIECES: &[&str] = &[
    "response.custom_tool_call_input.delta",
    "response.function_call_arguments.delta",
    "response.output_text.delta",
    "response.reasoning_summary_text.delta",
    "response.reasoning_text.delta",
    "response.refusal.delta",
];

fn index(data: Value<'_, '_>, of: &str) -> Result<u64, String> {
    let index = member(data, of, "index", &[ValueKind::Number])?.as_u64();
    index.ok_or_else(|| format!("`{of}` with an `index` that counts nothing"))
}

/// Returns a required member.
pub(super) fn member<'a, 'd>(
    of: Value<'a, 'd>,
    place: &str,
    name: &str,
    kinds: &[ValueKind],
) -> Result<Value<'a, 'd>, String> {
    optional(of, place, name, kinds)?.ok_or_else(|| format!("`{place}` without `{name}`"))
}

/// Returns a member that may be missing or `null`.
pub(super) fn optional<'a, 'd>(
    of: Value<'a, 'd>,
    place: &str,
    name: &str,
    kinds: &[ValueKind],
) -> Result<Option<Value<'a, 'd>>, String> {
    match of.get(name).filter(|value| !value.is_null()) {
        Some(value) if !kinds.contains(&value.kind()) => {
            Err(format!("`{name}` of the wrong type in `{place}`"))
        }
        found => Ok(found),
    }
}
