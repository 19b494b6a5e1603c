//! Content blocks of requests and replies.

use session::{Block, CallId, ImageSource, ToolCall, ToolResult};

use crate::dialect::cursor::Cursor;
use crate::dialect::draft::input_json;
use crate::dialect::raw::{Object, array};
use crate::dialect::{EncodeError, Part, UnknownValue};
use crate::json::quote;

use super::DIALECT;

/// Known block types that no session value represents.
const PLAIN: &[&str] = &["container_upload", "compaction", "search_result", "mid_conv_system", "fallback"];

/// Results of tools that the provider ran.
const SERVER_RESULTS: &[&str] = &[
    "advisor_tool_result",
    "bash_code_execution_tool_result",
    "code_execution_tool_result",
    "mcp_tool_result",
    "text_editor_code_execution_tool_result",
    "tool_search_tool_result",
    "web_fetch_tool_result",
    "web_search_tool_result",
];

/// Decodes one content block.
pub(super) fn decode(at: &Cursor<'_, '_>, unknown: &mut Vec<UnknownValue>) -> Part {
    let kind = at.kind();
    let content_at = |name: &str| at.get(name);
    let (block, content) = match kind.as_str() {
        "text" => (Block::Text { text: at.text_or_empty("text") }, content_at("text")),
        "thinking" => {
            let signature = at.text("signature").filter(|signature| !signature.is_empty());
            (Block::Thinking { text: at.text_or_empty("thinking"), signature }, content_at("thinking"))
        }
        "redacted_thinking" => {
            (Block::RedactedThinking { data: at.text_or_empty("data") }, content_at("data"))
        }
        "tool_use" => (call(at, false), content_at("input")),
        "server_tool_use" | "mcp_tool_use" => (call(at, true), content_at("input")),
        "tool_result" => return result(at, kind, false, unknown),
        server if SERVER_RESULTS.contains(&server) => return result(at, kind, true, unknown),
        "image" => (image(at, unknown), content_at("source")),
        "document" => (Block::Document { name: at.text("title") }, content_at("source")),
        "tool_reference" => {
            (Block::ToolReference { name: at.text_or_empty("tool_name") }, content_at("tool_name"))
        }
        other => {
            if !PLAIN.contains(&other) {
                unknown.push(UnknownValue::at(&at.pointer, format!("block type `{other}`")));
            }
            (Block::Unknown { kind: other.to_owned() }, content_at("content"))
        }
    };
    Part::new(at, kind, block).with_content(content.as_ref())
}

fn call(at: &Cursor<'_, '_>, server: bool) -> Block {
    // The accumulator adds `partial_json` for a truncated input.
    let partial = at.text("partial_json");
    let input = partial.or_else(|| at.value.get("input").map(|input| input.raw().to_owned()));
    Block::ToolCall(ToolCall {
        id: CallId::new(at.text_or_empty("id")),
        name: at.text_or_empty("name"),
        input: input.unwrap_or_default(),
        server,
    })
}

fn image(at: &Cursor<'_, '_>, unknown: &mut Vec<UnknownValue>) -> Block {
    let Some(source) = at.get("source") else { return Block::Unknown { kind: "image".to_owned() } };
    Block::Image(match source.kind().as_str() {
        "base64" => ImageSource::Base64 {
            media_type: source.text_or_empty("media_type"),
            data: source.text_or_empty("data"),
        },
        "url" => ImageSource::Url { url: source.text_or_empty("url") },
        "file" => ImageSource::File { id: source.text_or_empty("file_id") },
        other => {
            unknown.push(UnknownValue::at(&source.pointer, format!("image source `{other}`")));
            return Block::Unknown { kind: "image".to_owned() };
        }
    })
}

/// Decodes a tool result. Its content is a string, a list of blocks, or one object for the provider's tools.
fn result(at: &Cursor<'_, '_>, kind: String, server: bool, unknown: &mut Vec<UnknownValue>) -> Part {
    let content = at.get("content");
    let mut failed = at.value.get("is_error").and_then(|value| value.as_bool()).unwrap_or(false);
    let mut parts = Vec::new();
    match &content {
        Some(text) if text.is_string() => parts.push(Part::text(text)),
        Some(list) if list.is_array() => {
            parts.extend(list.items().map(|item| inner(&item, server, unknown)));
        }
        Some(object) => {
            failed |= object.kind().ends_with("_error");
            match object.get("tool_references") {
                Some(list) => parts.extend(list.items().map(|item| inner(&item, server, unknown))),
                None => parts.push(inner(object, server, unknown)),
            }
        }
        None => {}
    }
    let block = Block::ToolResult(ToolResult {
        call: CallId::new(at.text_or_empty("tool_use_id")),
        blocks: parts.iter().map(|part| part.block.clone()).collect(),
        is_error: failed,
        server,
    });
    Part { parts, ..Part::new(at, kind, block).with_content(content.as_ref()) }
}

/// Decodes a block inside a tool result. The provider's tools have types of their own.
fn inner(at: &Cursor<'_, '_>, server: bool, unknown: &mut Vec<UnknownValue>) -> Part {
    let kind = at.kind();
    let of_server = kind.ends_with("_result") || kind.ends_with("_error") || kind.ends_with("_output");
    match kind.as_str() {
        "text" | "image" | "document" | "search_result" | "tool_reference" => decode(at, unknown),
        _ if server && of_server => Part::new(at, kind.clone(), Block::Unknown { kind }),
        _ => {
            unknown.push(UnknownValue::at(&at.pointer, format!("block type `{kind}` in a tool result")));
            Part::new(at, kind.clone(), Block::Unknown { kind })
        }
    }
}

/// Encodes one block with its cache marker.
pub(super) fn encode(
    block: &Block,
    marker: Option<String>,
    place: &'static str,
) -> Result<Object, EncodeError> {
    let object = |kind: &str| Object::new().text("type", kind);
    let encoded = match block {
        Block::Text { text } => object("text").text("text", text),
        Block::Thinking { text, signature } => {
            object("thinking").text("thinking", text).maybe("signature", signature.as_deref().map(quote))
        }
        Block::RedactedThinking { data } => object("redacted_thinking").text("data", data),
        // A refusal is plain text here. Only the stop reason identifies it.
        Block::Refusal { text } => object("text").text("text", text),
        Block::ToolCall(call) => object(if call.server { "server_tool_use" } else { "tool_use" })
            .text("id", call.id.as_str())
            .text("name", &call.name)
            .raw("input", input_json(call)?),
        Block::ToolResult(result) if !result.server => encode_result(result)?,
        Block::Image(source) => object("image").raw("source", encode_image(source)),
        Block::ToolReference { name } => object("tool_reference").text("tool_name", name),
        Block::ToolResult(_)
        | Block::Document { .. }
        | Block::ItemReference { .. }
        | Block::Unknown { .. } => return Err(EncodeError::unsupported(DIALECT, block, place)),
    };
    Ok(encoded.maybe("cache_control", marker))
}

fn encode_result(result: &ToolResult) -> Result<Object, EncodeError> {
    let content = match result.blocks.as_slice() {
        [Block::Text { text }] => quote(text),
        blocks => {
            let encoded: Result<Vec<_>, _> =
                blocks.iter().map(|block| Ok(encode(block, None, "a tool result")?.json())).collect();
            array(encoded?)
        }
    };
    let object = Object::new().text("type", "tool_result").text("tool_use_id", result.call.as_str());
    Ok(object.raw("content", content).maybe("is_error", result.is_error.then(|| "true".to_owned())))
}

fn encode_image(source: &ImageSource) -> String {
    let object = |kind: &str| Object::new().text("type", kind);
    match source {
        ImageSource::Base64 { media_type, data } => {
            object("base64").text("media_type", media_type).text("data", data)
        }
        ImageSource::Url { url } => object("url").text("url", url),
        ImageSource::File { id } => object("file").text("file_id", id),
    }
    .json()
}
