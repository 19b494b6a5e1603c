//! Decodes messages of requests and replies.

use session::{Block, CallId, ImageSource, ToolCall, ToolResult};

use crate::dialect::cursor::Cursor;
use crate::dialect::{Part, UnknownValue};

/// Members that `decode_parts` reads.
pub(super) const DECODED_MEMBERS: &[&str] = &[
    "role",
    "content",
    "refusal",
    "tool_calls",
    "tool_call_id",
    "function_call",
    "reasoning",
    "reasoning_content",
    "reasoning_details",
];

/// Decodes the content of a message in the order of the model: reasoning, texts, calls.
pub(super) fn decode_parts(at: &Cursor<'_, '_>, unknown: &mut Vec<UnknownValue>) -> Vec<Part> {
    let mut parts = reasoning(at, unknown);
    parts.extend(at.get("content").map(|content| content_parts(&content, unknown)).unwrap_or_default());
    if let Some(refusal) = at.get("refusal").filter(|refusal| not_empty(refusal)) {
        let block = Block::Refusal { text: at.text_or_empty("refusal") };
        parts.push(Part::new(&refusal, "refusal", block).with_content(Some(&refusal)));
    }
    parts.extend(at.get("tool_calls").iter().flat_map(Cursor::items).map(|call| tool_call(&call, unknown)));
    if let Some(call) = at.get("function_call") {
        parts.push(function_call(&call));
    }
    parts
}

fn not_empty(at: &Cursor<'_, '_>) -> bool {
    at.value.raw() != "\"\""
}

/// Decodes a string or a list of parts. An empty string has no parts.
pub(super) fn content_parts(at: &Cursor<'_, '_>, unknown: &mut Vec<UnknownValue>) -> Vec<Part> {
    if at.is_string() {
        return if not_empty(at) { vec![Part::text(at)] } else { Vec::new() };
    }
    at.items().map(|part| content_part(&part, unknown)).collect()
}

/// Known part types that no session value represents.
const PLAIN: &[&str] = &["input_audio", "video_url"];

fn content_part(at: &Cursor<'_, '_>, unknown: &mut Vec<UnknownValue>) -> Part {
    let kind = at.kind();
    let (block, content) = match kind.as_str() {
        "text" => (Block::Text { text: at.text_or_empty("text") }, at.get("text")),
        "refusal" => (Block::Refusal { text: at.text_or_empty("refusal") }, at.get("refusal")),
        "image_url" => {
            let image = at.get("image_url");
            let url = image
                .as_ref()
                .map(|image| image.text("url").unwrap_or_else(|| at.text_or_empty("image_url")));
            (Block::Image(ImageSource::Url { url: url.unwrap_or_default() }), image)
        }
        "file" => {
            let file = at.get("file");
            (Block::Document { name: file.as_ref().and_then(|file| file.text("filename")) }, file)
        }
        other => {
            if !PLAIN.contains(&other) {
                unknown.push(UnknownValue::at(&at.pointer, format!("part type `{other}`")));
            }
            (Block::Unknown { kind: other.to_owned() }, at.get(other))
        }
    };
    Part::new(at, kind, block).with_content(content.as_ref())
}

/// Decodes detailed reasoning, or else the plain text under either of its names.
fn reasoning(at: &Cursor<'_, '_>, unknown: &mut Vec<UnknownValue>) -> Vec<Part> {
    let details = at.get("reasoning_details").filter(|details| details.value.items().next().is_some());
    if let Some(details) = details {
        return details.items().map(|detail| reasoning_detail(&detail, unknown)).collect();
    }
    let plain = ["reasoning_content", "reasoning"];
    let text = plain.iter().find_map(|name| {
        let value = at.get(name).filter(|value| value.is_string() && not_empty(value))?;
        let block = Block::Thinking { text: at.text_or_empty(name), signature: None };
        Some(Part::new(&value, *name, block).with_content(Some(&value)))
    });
    text.into_iter().collect()
}

fn reasoning_detail(at: &Cursor<'_, '_>, unknown: &mut Vec<UnknownValue>) -> Part {
    let kind = at.kind();
    let thinking = |member: &str| Block::Thinking {
        text: at.text_or_empty(member),
        signature: at.text("signature").filter(|signature| !signature.is_empty()),
    };
    let (block, content) = match kind.as_str() {
        "reasoning.text" => (thinking("text"), at.get("text")),
        "reasoning.summary" => (thinking("summary"), at.get("summary")),
        "reasoning.encrypted" => (Block::RedactedThinking { data: at.text_or_empty("data") }, at.get("data")),
        other => {
            unknown.push(UnknownValue::at(&at.pointer, format!("reasoning type `{other}`")));
            (Block::Unknown { kind: other.to_owned() }, None)
        }
    };
    Part::new(at, kind, block).with_content(content.as_ref())
}

fn tool_call(at: &Cursor<'_, '_>, unknown: &mut Vec<UnknownValue>) -> Part {
    let kind = at.text("type").unwrap_or_else(|| "function".to_owned());
    let member = match kind.as_str() {
        "function" => "arguments",
        "custom" => "input",
        other => {
            unknown.push(UnknownValue::at(&at.pointer, format!("tool call type `{other}`")));
            "input"
        }
    };
    let called = at.get(&kind);
    let text = |name: &str| called.as_ref().map(|called| called.text_or_empty(name)).unwrap_or_default();
    let block = Block::ToolCall(ToolCall {
        id: CallId::new(at.text_or_empty("id")),
        name: text("name"),
        input: text(member),
        server: false,
    });
    Part::new(at, kind, block).with_content(called.as_ref().and_then(|called| called.get(member)).as_ref())
}

/// Decodes a call in the old format without id. The name of the function replaces the id.
fn function_call(at: &Cursor<'_, '_>) -> Part {
    let name = at.text_or_empty("name");
    let input = at.text_or_empty("arguments");
    let block = Block::ToolCall(ToolCall { id: CallId::new(&name), name, input, server: false });
    Part::new(at, "function_call", block).with_content(at.get("arguments").as_ref())
}

/// Decodes a message that is a tool result.
pub(super) fn tool_result(at: &Cursor<'_, '_>, unknown: &mut Vec<UnknownValue>) -> Part {
    let content = at.get("content");
    let parts = content.as_ref().map(|content| content_parts(content, unknown)).unwrap_or_default();
    let call = at.text("tool_call_id").unwrap_or_else(|| at.text_or_empty("name"));
    let block = Block::ToolResult(ToolResult {
        call: CallId::new(call),
        blocks: parts.iter().map(|part| part.block.clone()).collect(),
        is_error: false,
        server: false,
    });
    Part { parts, ..Part::new(at, "tool", block).with_content(content.as_ref()) }
}
