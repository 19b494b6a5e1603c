//! Encodes requests.

use session::{Block, CallId, ImageSource, Message, Role, ToolCall, ToolResult};

use crate::dialect::draft::is_object;
use crate::dialect::raw::{Object, array};
use crate::dialect::{Draft, Element, EncodeError, MarkerTarget, ThinkingConfig, ToolSpec};
use crate::json::quote;

use super::DIALECT;

pub(in crate::dialect) fn encode_request(draft: &Draft) -> Result<String, EncodeError> {
    let mut body = Object::new().text("model", &draft.model);
    body = body.maybe("max_output_tokens", draft.max_tokens.map(|tokens| tokens.to_string()));
    body = body.maybe("stream", draft.stream.then(|| "true".to_owned()));
    body = body.maybe("reasoning", reasoning(draft));
    for (name, json) in &draft.extra {
        body = body.raw(name, json.clone());
    }
    if !draft.tools.is_empty() {
        body = body.raw("tools", array(draft.tools.iter().map(tool)));
    }
    let mut items = Vec::new();
    if !draft.system.is_empty() {
        items.push(instructions(draft)?);
    }
    let custom = custom_calls(draft);
    for (index, element) in draft.messages.iter().enumerate() {
        match element {
            Element::Raw(json) => items.push(json.clone()),
            Element::Value(message) => {
                let marked = |block| marker(draft, MarkerTarget::Block { message: index, block });
                encode_message(message, &custom, marked, &mut items)?;
            }
        }
    }
    Ok(body.raw("input", array(items)).json())
}

fn reasoning(draft: &Draft) -> Option<String> {
    let shown = matches!(draft.thinking, Some(ThinkingConfig::Adaptive { .. } | ThinkingConfig::Budget(_)));
    let object = Object::new().maybe("effort", draft.effort.as_deref().map(quote));
    (shown || draft.effort.is_some()).then(|| object.maybe("summary", shown.then(|| quote("auto"))).json())
}

fn tool(element: &Element<ToolSpec>) -> String {
    match element {
        Element::Raw(json) => json.clone(),
        Element::Value(ToolSpec { name, description, schema }) => Object::new()
            .text("type", "function")
            .text("name", name)
            .text("description", description)
            .raw("parameters", schema.clone())
            .raw("strict", "false")
            .json(),
    }
}

/// Encodes a marker. Its format differs in this dialect, and it has no lifetime.
fn marker(draft: &Draft, on: MarkerTarget) -> Option<String> {
    draft.marker(on).map(|_| Object::new().text("mode", "explicit").json())
}

/// Encodes the instructions as an item, because the member `instructions` cannot carry markers.
fn instructions(draft: &Draft) -> Result<String, EncodeError> {
    let parts = draft.system.iter().enumerate().map(|(index, element)| match element {
        Element::Value(block) => {
            part(block, Role::Developer, marker(draft, MarkerTarget::System(index)), "the instructions")
        }
        Element::Raw(json) => Ok(json.clone()),
    });
    let parts = parts.collect::<Result<Vec<_>, _>>()?;
    Ok(Object::new().text("role", "developer").raw("content", array(parts)).json())
}

/// Returns the ids of the calls whose results must have the type for custom tools.
fn custom_calls(draft: &Draft) -> Vec<&CallId> {
    let made = draft.messages.iter().filter_map(|element| match element {
        Element::Value(message) => Some(message),
        Element::Raw(_) => None,
    });
    let custom = made.flat_map(|message| &message.blocks).filter_map(|block| match block {
        Block::ToolCall(call) if is_custom(call) => Some(&call.id),
        _ => None,
    });
    custom.collect()
}

/// Returns true if a call is for a custom tool. The input of a function is a JSON object.
pub(super) fn is_custom(call: &ToolCall) -> bool {
    !call.input.is_empty() && !is_object(&call.input)
}

pub(in crate::dialect) fn encode_items(message: &Message) -> Result<String, EncodeError> {
    let mut items = Vec::new();
    encode_message(message, &[], |_| None, &mut items)?;
    Ok(items.join(","))
}

/// Encodes one session message as one or more items. Adjacent texts become one item, and each call, result and
/// thought becomes an item of its own.
fn encode_message(
    message: &Message,
    custom: &[&CallId],
    marked: impl Fn(usize) -> Option<String>,
    out: &mut Vec<String>,
) -> Result<(), EncodeError> {
    let mut words = Vec::new();
    for (index, block) in message.blocks.iter().enumerate() {
        let item = match block {
            Block::ToolCall(call) if !call.server => call_item(call, Object::new()).json(),
            Block::ToolResult(result) if !result.server => {
                output_item(result, custom.contains(&&result.call), marked(index))?
            }
            Block::Thinking { .. } | Block::RedactedThinking { .. } => {
                reasoning_item(block, Object::new()).json()
            }
            Block::ItemReference { id } => Object::new().text("type", "item_reference").text("id", id).json(),
            other => {
                words.push(part(other, message.role, marked(index), "a message")?);
                continue;
            }
        };
        flush(message.role, &mut words, out);
        out.push(item);
    }
    flush(message.role, &mut words, out);
    Ok(())
}

fn flush(role: Role, words: &mut Vec<String>, out: &mut Vec<String>) {
    if words.is_empty() {
        return;
    }
    let role = match role {
        Role::System => "system",
        Role::Developer => "developer",
        Role::User | Role::Tool => "user",
        Role::Assistant => "assistant",
    };
    out.push(Object::new().text("role", role).raw("content", array(words.drain(..))).json());
}

fn part(
    block: &Block,
    role: Role,
    marker: Option<String>,
    place: &'static str,
) -> Result<String, EncodeError> {
    let object = |kind: &str| Object::new().text("type", kind);
    let encoded = match block {
        Block::Text { text } => {
            object(if role == Role::Assistant { "output_text" } else { "input_text" }).text("text", text)
        }
        Block::Refusal { text } => object("refusal").text("refusal", text),
        Block::Image(ImageSource::Url { url }) => object("input_image").text("image_url", url),
        Block::Image(ImageSource::Base64 { media_type, data }) => {
            object("input_image").text("image_url", &format!("data:{media_type};base64,{data}"))
        }
        Block::Image(ImageSource::File { id }) => object("input_image").text("file_id", id),
        other => return Err(EncodeError::unsupported(DIALECT, other, place)),
    };
    Ok(encoded.maybe("prompt_cache_breakpoint", marker).json())
}

fn output_item(result: &ToolResult, custom: bool, marker: Option<String>) -> Result<String, EncodeError> {
    let output = match (result.blocks.as_slice(), marker) {
        ([Block::Text { text }], None) => quote(text),
        (blocks, mut marker) => {
            let last = blocks.len().saturating_sub(1);
            let parts = blocks.iter().enumerate().map(|(index, block)| {
                part(block, Role::User, marker.take_if(|_| index == last), "a tool result")
            });
            array(parts.collect::<Result<Vec<_>, _>>()?)
        }
    };
    let kind = if custom { "custom_tool_call_output" } else { "function_call_output" };
    let object = Object::new().text("type", kind).text("call_id", result.call.as_str());
    Ok(object.raw("output", output).json())
}

/// Encodes a call as an item. `head` contains the first members.
pub(super) fn call_item(call: &ToolCall, head: Object) -> Object {
    let (kind, member) =
        if is_custom(call) { ("custom_tool_call", "input") } else { ("function_call", "arguments") };
    head.text("type", kind)
        .text("call_id", call.id.as_str())
        .text("name", &call.name)
        .text(member, &call.input)
}

/// Encodes reasoning as an item. `head` contains the first members.
pub(super) fn reasoning_item(block: &Block, head: Object) -> Object {
    let (text, sealed) = match block {
        Block::Thinking { text, signature } => (text.as_str(), signature.as_deref()),
        Block::RedactedThinking { data } => ("", Some(data.as_str())),
        _ => ("", None),
    };
    let summary =
        (!text.is_empty()).then(|| Object::new().text("type", "summary_text").text("text", text).json());
    let item = head.text("type", "reasoning").raw("summary", array(summary));
    item.maybe("encrypted_content", sealed.map(quote))
}
