//! Encodes requests.

use session::{Block, ImageSource, Message, Role, ToolCall, ToolResult};

use crate::dialect::draft::is_object;
use crate::dialect::raw::{Object, array};
use crate::dialect::{Draft, Element, EncodeError, MarkerTarget, ToolSpec};
use crate::json::quote;

use super::DIALECT;

pub(in crate::dialect) fn encode_request(draft: &Draft) -> Result<String, EncodeError> {
    let mut body = Object::new().text("model", &draft.model);
    body = body.maybe("max_completion_tokens", draft.max_tokens.map(|tokens| tokens.to_string()));
    if draft.stream {
        // A stream contains its usage only on request.
        body = body.raw("stream", "true").raw("stream_options", r#"{"include_usage":true}"#);
    }
    body = body.maybe("reasoning_effort", draft.effort.as_deref().map(quote));
    for (name, json) in &draft.extra {
        body = body.raw(name, json.clone());
    }
    if !draft.tools.is_empty() {
        let tools = draft.tools.iter().enumerate();
        body = body.raw("tools", array(tools.map(|(index, element)| tool(draft, index, element))));
    }
    let mut messages = Vec::new();
    if !draft.system.is_empty() {
        messages.push(system(draft)?);
    }
    for (index, element) in draft.messages.iter().enumerate() {
        match element {
            Element::Raw(json) => messages.push(json.clone()),
            Element::Value(message) => {
                let marker = |block| draft.marker(MarkerTarget::Block { message: index, block });
                encode_message(message, marker, &mut messages)?;
            }
        }
    }
    Ok(body.raw("messages", array(messages)).json())
}

fn tool(draft: &Draft, index: usize, element: &Element<ToolSpec>) -> String {
    match element {
        Element::Raw(json) => json.clone(),
        Element::Value(ToolSpec { name, description, schema }) => {
            let function = Object::new().text("name", name).text("description", description);
            Object::new()
                .text("type", "function")
                .raw("function", function.raw("parameters", schema.clone()).json())
                .maybe("cache_control", draft.marker(MarkerTarget::Tool(index)))
                .json()
        }
    }
}

fn system(draft: &Draft) -> Result<String, EncodeError> {
    let marker = |index| draft.marker(MarkerTarget::System(index));
    let content = match draft.system.as_slice() {
        [Element::Value(block)] => content(&[(block, marker(0))], "the instructions")?,
        elements => {
            let parts = elements.iter().enumerate().map(|(index, element)| match element {
                Element::Value(block) => part(block, marker(index), "the instructions"),
                Element::Raw(json) => Ok(json.clone()),
            });
            array(parts.collect::<Result<Vec<_>, _>>()?)
        }
    };
    Ok(Object::new().text("role", "system").raw("content", content).json())
}

pub(in crate::dialect) fn encode_messages(message: &Message) -> Result<String, EncodeError> {
    let mut messages = Vec::new();
    encode_message(message, |_| None, &mut messages)?;
    Ok(messages.join(","))
}

/// Encodes one session message as one or more messages, because each tool result is a message of its own.
fn encode_message(
    message: &Message,
    marker: impl Fn(usize) -> Option<String>,
    out: &mut Vec<String>,
) -> Result<(), EncodeError> {
    let mut thoughts = Vec::new();
    let mut words = Vec::new();
    let mut calls = Vec::new();
    for (index, block) in message.blocks.iter().enumerate() {
        match block {
            Block::ToolResult(result) => out.push(tool_message(result, marker(index))?),
            Block::ToolCall(call) if !call.server => calls.push(encode_call(call)),
            Block::Thinking { .. } | Block::RedactedThinking { .. } => thoughts.push(block),
            other => words.push((other, marker(index))),
        }
    }
    if words.is_empty() && calls.is_empty() && thoughts.is_empty() {
        return Ok(());
    }
    let role = match message.role {
        Role::System => "system",
        Role::Developer => "developer",
        Role::User | Role::Tool => "user",
        Role::Assistant => "assistant",
    };
    let content = if words.is_empty() { "null".to_owned() } else { content(&words, "a message")? };
    let object = Object::new().text("role", role).raw("content", content);
    let object = with_reasoning(object, &thoughts);
    out.push(object.maybe("tool_calls", (!calls.is_empty()).then(|| array(calls))).json());
    Ok(())
}

fn tool_message(result: &ToolResult, mut marker: Option<String>) -> Result<String, EncodeError> {
    let last = result.blocks.len().saturating_sub(1);
    let blocks = result.blocks.iter().enumerate();
    let blocks: Vec<_> = blocks.map(|(index, block)| (block, marker.take_if(|_| index == last))).collect();
    let object = Object::new().text("role", "tool").text("tool_call_id", result.call.as_str());
    Ok(object.raw("content", content(&blocks, "a tool result")?).json())
}

/// Encodes blocks with their markers. A single text without marker becomes a string, because some servers accept no
/// parts.
fn content(blocks: &[(&Block, Option<String>)], place: &'static str) -> Result<String, EncodeError> {
    if let [(Block::Text { text }, None)] = blocks {
        return Ok(quote(text));
    }
    let parts = blocks.iter().map(|(block, marker)| part(block, marker.clone(), place));
    Ok(array(parts.collect::<Result<Vec<_>, _>>()?))
}

fn part(block: &Block, marker: Option<String>, place: &'static str) -> Result<String, EncodeError> {
    let object = |kind: &str| Object::new().text("type", kind);
    let encoded = match block {
        Block::Text { text } => object("text").text("text", text),
        Block::Refusal { text } => object("refusal").text("refusal", text),
        Block::Image(ImageSource::Url { url }) => {
            object("image_url").raw("image_url", Object::new().text("url", url).json())
        }
        Block::Image(ImageSource::Base64 { media_type, data }) => {
            let url = format!("data:{media_type};base64,{data}");
            object("image_url").raw("image_url", Object::new().text("url", &url).json())
        }
        other => return Err(EncodeError::unsupported(DIALECT, other, place)),
    };
    Ok(encoded.maybe("cache_control", marker).json())
}

/// Encodes the call of a function, or of a custom tool if its input is not JSON.
pub(super) fn encode_call(call: &ToolCall) -> String {
    call_object(call, &call.input).json()
}

pub(super) fn call_object(call: &ToolCall, input: &str) -> Object {
    let (kind, member) = call_kind(call);
    let called = Object::new().text("name", &call.name).text(member, input);
    Object::new().text("id", call.id.as_str()).text("type", kind).raw(kind, called.json())
}

pub(super) fn call_kind(call: &ToolCall) -> (&'static str, &'static str) {
    let function = call.input.is_empty() || is_object(&call.input);
    if function { ("function", "arguments") } else { ("custom", "input") }
}

/// Adds reasoning as plain text if that holds all of it, otherwise as details.
pub(super) fn with_reasoning(object: Object, thoughts: &[&Block]) -> Object {
    if thoughts.is_empty() {
        return object;
    }
    match plain_reasoning(thoughts) {
        Some(text) => object.text("reasoning_content", text),
        None => {
            let details = thoughts.iter().enumerate().map(|(index, block)| detail(block, index).json());
            object.raw("reasoning_details", array(details))
        }
    }
}

/// Returns the text of reasoning that consists of at most one block without signature.
pub(super) fn plain_reasoning<'a>(thoughts: &[&'a Block]) -> Option<&'a str> {
    match thoughts {
        [] => Some(""),
        [Block::Thinking { text, signature: None }] => Some(text),
        _ => None,
    }
}

pub(super) fn detail(block: &Block, index: usize) -> Object {
    match block {
        Block::Thinking { text, signature } => Object::new()
            .text("type", "reasoning.text")
            .text("text", text)
            .maybe("signature", signature.as_deref().map(quote)),
        Block::RedactedThinking { data } => {
            Object::new().text("type", "reasoning.encrypted").text("data", data)
        }
        _ => Object::new(),
    }
    .number("index", index as u64)
}
