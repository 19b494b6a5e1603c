//! Decodes requests.

use session::Role;

use crate::dialect::cursor::Cursor;
use crate::dialect::{
    DecodeError, Marker, Part, Prompt, PromptMessage, Setting, ToolDefinition, ToolExecution, UnknownValue,
};
use crate::json::Document;

use super::{DIALECT, item};

const FIELDS: &[&str] = &["model", "instructions", "input", "tools", "stream", "max_output_tokens"];

/// Members of items that the decoder reads.
const DECODED_MEMBERS: &[&str] =
    &["type", "role", "content", "call_id", "name", "arguments", "input", "output", "summary"];

pub(in crate::dialect) fn decode_request(document: &Document<'_>) -> Result<Prompt, DecodeError> {
    let root = Cursor::root(document)?;
    let mut unknown = Vec::new();
    let mut tools = Vec::new();
    for at in root.get("tools").iter().flat_map(Cursor::items) {
        tool(&at, None, &mut tools, &mut unknown);
    }
    let input = root.get("input");
    let messages = match &input {
        Some(text) if text.is_string() => {
            let parts = vec![Part::text(text)];
            vec![PromptMessage { role: Role::User, parts, place: text.place(), extra: Vec::new() }]
        }
        Some(list) => list.items().map(|at| message(&at, &mut unknown)).collect(),
        None => Vec::new(),
    };
    for (index, at) in input.iter().flat_map(Cursor::items).enumerate() {
        for brought in at.get("tools").iter().flat_map(Cursor::items) {
            tool(&brought, Some(index), &mut tools, &mut unknown);
        }
    }
    let mut system = Vec::new();
    match root.get("instructions") {
        Some(text) if text.is_string() => system.push(Part::text(&text)),
        Some(list) => list.items().for_each(|at| system.extend(item::decode(&at, &mut unknown).parts)),
        None => {}
    }
    let mut prompt = Prompt {
        dialect: DIALECT,
        model: root.text("model"),
        system,
        messages,
        tools,
        stream: root.value.get("stream").and_then(|value| value.as_bool()).unwrap_or(false),
        max_tokens: root.value.get("max_output_tokens").and_then(|value| value.as_u64()),
        settings: Setting::others(&root, FIELDS),
        markers: Vec::new(),
        unknown,
    };
    let items: Vec<_> = input.iter().flat_map(Cursor::items).collect();
    prompt.markers = prompt.collect_markers(items.iter().chain([&root]).filter_map(Marker::on));
    Ok(prompt)
}

fn message(at: &Cursor<'_, '_>, unknown: &mut Vec<UnknownValue>) -> PromptMessage {
    let item::Item { role, parts } = item::decode(at, unknown);
    PromptMessage { role, parts, place: at.place(), extra: Setting::others(at, DECODED_MEMBERS) }
}

/// Types of tools that the provider defines.
const PROVIDER_TOOLS: &[&str] = &[
    "apply_patch",
    "code_interpreter",
    "computer",
    "computer_use_preview",
    "file_search",
    "image_generation",
    "local_shell",
    "mcp",
    "programmatic_tool_calling",
    "shell",
    "tool_search",
    "web_search",
    "web_search_2025_08_26",
    "web_search_preview",
    "web_search_preview_2025_03_11",
];

fn tool(
    at: &Cursor<'_, '_>,
    message: Option<usize>,
    out: &mut Vec<ToolDefinition>,
    unknown: &mut Vec<UnknownValue>,
) {
    let kind = at.kind();
    let execution = match kind.as_str() {
        "function" => ToolExecution::Function,
        "custom" => ToolExecution::Custom,
        _ => ToolExecution::Provider,
    };
    // Tools of an MCP server have no type.
    let known = ["", "namespace"].contains(&kind.as_str()) || PROVIDER_TOOLS.contains(&kind.as_str());
    if execution == ToolExecution::Provider && !known {
        unknown.push(UnknownValue::at(&at.pointer, format!("tool type `{kind}`")));
    }
    let schema = ["parameters", "format", "input_schema"].iter().find_map(|name| at.get(name));
    out.push(ToolDefinition {
        name: at.text("name").or_else(|| at.text("server_label")).unwrap_or_else(|| kind.clone()),
        execution,
        deferred: at.value.get("defer_loading").and_then(|value| value.as_bool()).unwrap_or(false),
        description: at.text("description"),
        place: at.place(),
        schema: schema.map(|schema| schema.place()),
        marker: Marker::on(at),
        message,
        kind,
    });
    // A namespace is a tool that contains tools. It does not nest.
    if at.kind() == "namespace" {
        for inner in
            at.get("tools").iter().flat_map(Cursor::items).filter(|inner| inner.kind() != "namespace")
        {
            tool(&inner, message, out, unknown);
        }
    }
}
