//! Whether the events of a stream are what their dialect says they are.
//!
//! The accumulator takes what it understands and leaves the rest, which is right for a recorder. Who acts on
//! a reply must know that nothing was left: a delta of the wrong type, a block that begins twice or a
//! character cut in half would else be a reply with a hole in it.

use wire::dialect::Dialect;
use wire::json::{Document, Kind, Value};
use wire::sse::Frame;

/// What an event is to somebody who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// A sign of life.
    Life,
    /// The reply goes on.
    News,
    /// There is no more to come.
    Last,
}

/// Watches over the events of one stream.
#[derive(Debug)]
pub(super) struct Protocol {
    dialect: Dialect,
    begun: bool,
    /// Anthropic's blocks, by their index, and whether each is still open.
    blocks: Vec<(u64, bool)>,
}

type Checked = Result<Event, String>;

impl Protocol {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self { dialect, begun: false, blocks: Vec::new() }
    }

    /// Takes the next event; an error says what is wrong with it.
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
        if data.kind() != Kind::Object {
            return Err("an event that is not a JSON object".to_owned());
        }
        let kind = data.str_at("type").unwrap_or(frame.event.as_str().into());
        match self.dialect {
            Dialect::AnthropicMessages => self.anthropic(&kind, data),
            Dialect::OpenAiChat => chat(data),
            Dialect::OpenAiResponses => responses(&kind, data),
        }
    }

    fn anthropic(&mut self, kind: &str, data: Value<'_, '_>) -> Checked {
        match kind {
            "ping" => return Ok(Event::Life),
            "message_stop" if self.blocks.iter().any(|(_, open)| *open) => {
                return Err("its end before the end of a block".to_owned());
            }
            "message_stop" | "error" => return Ok(Event::Last),
            "message_start" if self.begun => return Err("a second `message_start`".to_owned()),
            "message_start" => {
                member(data, kind, "message", &[Kind::Object])?;
                self.begun = true;
            }
            "content_block_start" => {
                let index = index(data, kind)?;
                member(data, kind, "content_block", &[Kind::Object])?;
                if self.blocks.iter().any(|(known, _)| *known == index) {
                    return Err(format!("block {index}, which begins twice"));
                }
                self.blocks.push((index, true));
            }
            "content_block_delta" => {
                let index = index(data, kind)?;
                if !self.blocks.contains(&(index, true)) {
                    return Err(format!("a piece of block {index}, which is not open"));
                }
                let delta = member(data, kind, "delta", &[Kind::Object])?;
                for name in ["text", "thinking", "signature", "partial_json"] {
                    optional(delta, "delta", name, &[Kind::String])?;
                }
            }
            "content_block_stop" => {
                let index = index(data, kind)?;
                self.blocks.iter_mut().filter(|(known, _)| *known == index).for_each(|block| block.1 = false);
            }
            "message_delta" => {
                member(data, kind, "delta", &[Kind::Object])?;
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
    optional(data, "chunk", "choices", &[Kind::Array])?;
    for choice in data.get("choices").iter().flat_map(Value::items) {
        if choice.kind() != Kind::Object {
            return Err("a choice that is not an object".to_owned());
        }
        optional(choice, "choice", "finish_reason", &[Kind::String])?;
        let Some(delta) = optional(choice, "choice", "delta", &[Kind::Object])? else { continue };
        optional(delta, "delta", "content", &[Kind::String, Kind::Array])?;
        optional(delta, "delta", "refusal", &[Kind::String])?;
        calls(delta)?;
    }
    Ok(Event::News)
}

/// The calls of a chat message, whole or in pieces.
pub(super) fn calls(message: Value<'_, '_>) -> Result<(), String> {
    optional(message, "message", "tool_calls", &[Kind::Array])?;
    for call in message.get("tool_calls").iter().flat_map(Value::items) {
        if call.kind() != Kind::Object {
            return Err("a tool call that is not an object".to_owned());
        }
        if let Some(function) = optional(call, "tool call", "function", &[Kind::Object])? {
            optional(function, "function", "name", &[Kind::String])?;
            optional(function, "function", "arguments", &[Kind::String])?;
        }
    }
    Ok(())
}

/// Events that bring a piece of a string.
const PIECES: &[&str] = &[
    "response.custom_tool_call_input.delta",
    "response.function_call_arguments.delta",
    "response.output_text.delta",
    "response.reasoning_summary_text.delta",
    "response.reasoning_text.delta",
    "response.refusal.delta",
];

fn responses(kind: &str, data: Value<'_, '_>) -> Checked {
    match kind {
        "keepalive" | "ping" => return Ok(Event::Life),
        "error" => return Ok(Event::Last),
        "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled" => {
            member(data, kind, "response", &[Kind::Object])?;
            return Ok(Event::Last);
        }
        "response.output_item.added" | "response.output_item.done" => {
            member(data, kind, "item", &[Kind::Object])?;
        }
        piece if PIECES.contains(&piece) => {
            member(data, kind, "delta", &[Kind::String])?;
        }
        _ => {}
    }
    Ok(Event::News)
}

fn index(data: Value<'_, '_>, of: &str) -> Result<u64, String> {
    let index = member(data, of, "index", &[Kind::Number])?.as_u64();
    index.ok_or_else(|| format!("`{of}` with an `index` that counts nothing"))
}

/// A member that must be there.
pub(super) fn member<'a, 'd>(
    of: Value<'a, 'd>,
    place: &str,
    name: &str,
    kinds: &[Kind],
) -> Result<Value<'a, 'd>, String> {
    optional(of, place, name, kinds)?.ok_or_else(|| format!("`{place}` without `{name}`"))
}

/// A member that may be missing or `null`.
pub(super) fn optional<'a, 'd>(
    of: Value<'a, 'd>,
    place: &str,
    name: &str,
    kinds: &[Kind],
) -> Result<Option<Value<'a, 'd>>, String> {
    match of.get(name).filter(|value| !value.is_null()) {
        Some(value) if !kinds.contains(&value.kind()) => {
            Err(format!("`{name}` of the wrong type in `{place}`"))
        }
        found => Ok(found),
    }
}
