//! Decodes the items of requests and replies.

use session::{Block, CallId, ImageSource, Role, ToolCall, ToolResult};

use crate::dialect::cursor::Cursor;
use crate::dialect::{Part, UnknownValue};

/// The content of one item and its author.
pub(super) struct Item {
    pub(super) role: Role,
    pub(super) parts: Vec<Part>,
}

/// Calls of tools that the provider defines: the type, the party that runs the tool, and the member with the input.
/// The tool's name is the type without `_call`.
const CALLS: &[(&str, ToolHost, &str)] = &[
    ("apply_patch_call", ToolHost::Harness, "operation"),
    ("code_interpreter_call", ToolHost::Provider, "code"),
    ("computer_call", ToolHost::Harness, "action"),
    ("file_search_call", ToolHost::Provider, "queries"),
    ("image_generation_call", ToolHost::Provider, "prompt"),
    ("local_shell_call", ToolHost::Harness, "action"),
    ("mcp_call", ToolHost::Provider, "arguments"),
    ("program", ToolHost::Provider, "code"),
    ("shell_call", ToolHost::Harness, "action"),
    ("tool_search_call", ToolHost::Execution, "arguments"),
    ("web_search_call", ToolHost::Provider, "action"),
];

/// The party that runs a tool.
#[derive(Clone, Copy, PartialEq)]
enum ToolHost {
    Harness,
    Provider,
    /// Given by the item's member `execution`.
    Execution,
}

/// Results of calls: the type, and the member with the result.
const OUTPUTS: &[(&str, &str)] = &[
    ("apply_patch_call_output", "output"),
    ("computer_call_output", "output"),
    ("custom_tool_call_output", "output"),
    ("function_call_output", "output"),
    ("local_shell_call_output", "output"),
    ("program_output", "output"),
    ("shell_call_output", "output"),
    ("tool_search_output", "tools"),
];

/// Known item types that no session value represents, and their authors.
const PLAIN: &[(&str, Role)] = &[
    ("additional_tools", Role::Developer),
    ("compaction", Role::Assistant),
    ("compaction_summary", Role::Assistant),
    ("compaction_trigger", Role::User),
    ("context_compaction", Role::Assistant),
    ("mcp_approval_request", Role::Assistant),
    ("mcp_approval_response", Role::User),
    ("mcp_list_tools", Role::Assistant),
];

pub(super) fn decode(at: &Cursor<'_, '_>, unknown: &mut Vec<UnknownValue>) -> Item {
    let kind = at.kind();
    let by_model = |part: Part| Item { role: Role::Assistant, parts: vec![part] };
    match kind.as_str() {
        "message" => message(at, unknown),
        "" if at.get("role").is_some() => message(at, unknown),
        "" | "item_reference" if at.get("id").is_some() => {
            let block = Block::ItemReference { id: at.text_or_empty("id") };
            by_model(Part::new(at, "item_reference", block).with_content(at.get("id").as_ref()))
        }
        "reasoning" => by_model(reasoning(at, unknown)),
        "function_call" => by_model(call(at, kind, "arguments")),
        "custom_tool_call" => by_model(call(at, kind, "input")),
        other => other_item(at, other, unknown),
    }
}

fn other_item(at: &Cursor<'_, '_>, kind: &str, unknown: &mut Vec<UnknownValue>) -> Item {
    if let Some((_, host, member)) = CALLS.iter().find(|(known, _, _)| *known == kind) {
        return Item { role: Role::Assistant, parts: vec![provider_call(at, kind, *host, member)] };
    }
    if let Some((_, member)) = OUTPUTS.iter().find(|(known, _)| *known == kind) {
        return Item { role: Role::Tool, parts: vec![output(at, kind, member, unknown)] };
    }
    let plain = PLAIN.iter().find(|(known, _)| *known == kind);
    if plain.is_none() {
        unknown.push(UnknownValue::at(&at.pointer, format!("item type `{kind}`")));
    }
    let part = Part::new(at, kind, Block::Unknown { kind: kind.to_owned() });
    Item { role: plain.map_or(Role::User, |(_, role)| *role), parts: vec![part] }
}

fn message(at: &Cursor<'_, '_>, unknown: &mut Vec<UnknownValue>) -> Item {
    let role = match at.text_or_empty("role").as_str() {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "system" => Role::System,
        "developer" => Role::Developer,
        other => {
            unknown.push(UnknownValue::at(format!("{}/role", at.pointer), format!("role `{other}`")));
            Role::User
        }
    };
    let parts = at.get("content").map(|content| decode_parts(&content, unknown)).unwrap_or_default();
    Item { role, parts }
}

/// Decodes a string or a list of parts.
fn decode_parts(at: &Cursor<'_, '_>, unknown: &mut Vec<UnknownValue>) -> Vec<Part> {
    if at.is_string() {
        return vec![Part::text(at)];
    }
    at.items().map(|part| decode_part(&part, unknown)).collect()
}

fn decode_part(at: &Cursor<'_, '_>, unknown: &mut Vec<UnknownValue>) -> Part {
    let kind = at.kind();
    let (block, content) = match kind.as_str() {
        "input_text" | "output_text" | "text" | "summary_text" | "reasoning_text" => {
            (Block::Text { text: at.text_or_empty("text") }, at.get("text"))
        }
        "refusal" => (Block::Refusal { text: at.text_or_empty("refusal") }, at.get("refusal")),
        "input_image" | "computer_screenshot" => (Block::Image(image(at)), at.get("image_url")),
        "input_file" => (Block::Document { name: at.text("filename") }, at.get("file_data")),
        other => {
            if !["input_audio", "output_audio", "encrypted_content"].contains(&other) {
                unknown.push(UnknownValue::at(&at.pointer, format!("part type `{other}`")));
            }
            (Block::Unknown { kind: other.to_owned() }, None)
        }
    };
    Part::new(at, kind, block).with_content(content.as_ref())
}

fn image(at: &Cursor<'_, '_>) -> ImageSource {
    match at.text("file_id") {
        Some(id) => ImageSource::File { id },
        None => ImageSource::Url { url: at.text_or_empty("image_url") },
    }
}

/// Decodes reasoning as one block: its summary or its text, and its signature.
fn reasoning(at: &Cursor<'_, '_>, unknown: &mut Vec<UnknownValue>) -> Part {
    let texts = |name: &str, kind: &str, unknown: &mut Vec<UnknownValue>| {
        let mut texts = Vec::new();
        for part in at.get(name).iter().flat_map(Cursor::items) {
            if part.kind() != kind {
                unknown.push(UnknownValue::at(&part.pointer, format!("reasoning type `{}`", part.kind())));
            }
            texts.push(part.text_or_empty("text"));
        }
        texts.join("\n\n")
    };
    let summary = texts("summary", "summary_text", unknown);
    let full = texts("content", "reasoning_text", unknown);
    let text = if summary.is_empty() { full } else { summary };
    let sealed = at.text("encrypted_content");
    let block = match sealed {
        Some(data) if text.is_empty() => Block::RedactedThinking { data },
        signature => Block::Thinking { text, signature },
    };
    let one = at.get("summary").filter(|summary| summary.value.items().count() == 1);
    let content = match &block {
        Block::RedactedThinking { .. } => at.get("encrypted_content"),
        _ => one.and_then(|summary| summary.items().next()).and_then(|part| part.get("text")),
    };
    Part::new(at, "reasoning", block).with_content(content.or_else(|| at.get("summary")).as_ref())
}

fn call(at: &Cursor<'_, '_>, kind: String, member: &str) -> Part {
    let block = Block::ToolCall(ToolCall {
        id: CallId::new(at.text_or_empty("call_id")),
        name: at.text_or_empty("name"),
        input: at.text_or_empty(member),
        server: false,
    });
    Part::new(at, kind, block).with_content(at.get(member).as_ref())
}

/// Decodes the call of a tool that the provider defines.
fn provider_call(at: &Cursor<'_, '_>, kind: &str, host: ToolHost, member: &str) -> Part {
    let content = at.get(member);
    let input = content.as_ref().map(|content| match content.value.as_str() {
        Some(text) => text.into_owned(),
        None => content.value.raw().to_owned(),
    });
    let id = at.text("call_id").or_else(|| at.text("id")).unwrap_or_default();
    let block = Block::ToolCall(ToolCall {
        id: CallId::new(id),
        name: at.text("name").unwrap_or_else(|| kind.strip_suffix("_call").unwrap_or(kind).to_owned()),
        input: input.unwrap_or_default(),
        server: match host {
            ToolHost::Harness => false,
            ToolHost::Provider => true,
            ToolHost::Execution => at.text("execution").as_deref() != Some("client"),
        },
    });
    Part::new(at, kind, block).with_content(content.as_ref())
}

fn output(at: &Cursor<'_, '_>, kind: &str, member: &str, unknown: &mut Vec<UnknownValue>) -> Part {
    let content = at.get(member);
    let parts = match &content {
        Some(tools) if member == "tools" => tools.items().map(|tool| reference(&tool)).collect(),
        // Output of a shell comes in chunks with a format of their own.
        Some(chunks) if kind == "shell_call_output" => {
            let chunk = |at: Cursor<'_, '_>| {
                Part::new(&at, "shell_output", Block::Unknown { kind: "shell_output".to_owned() })
            };
            chunks.items().map(chunk).collect()
        }
        Some(one) if !one.is_string() && !one.is_array() => vec![decode_part(one, unknown)],
        Some(content) => decode_parts(content, unknown),
        None => Vec::new(),
    };
    let block = Block::ToolResult(ToolResult {
        call: CallId::new(at.text("call_id").or_else(|| at.text("id")).unwrap_or_default()),
        blocks: parts.iter().map(|part| part.block.clone()).collect(),
        is_error: at.text("status").as_deref() == Some("failed"),
        server: at.text("execution").as_deref() == Some("server"),
    });
    Part { parts, ..Part::new(at, kind, block).with_content(content.as_ref()) }
}

/// Decodes a tool that a search returned.
fn reference(at: &Cursor<'_, '_>) -> Part {
    let name = at.text("name").unwrap_or_else(|| at.kind());
    Part::new(at, at.kind(), Block::ToolReference { name }).with_content(at.get("name").as_ref())
}
