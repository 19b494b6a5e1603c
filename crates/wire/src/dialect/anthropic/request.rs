//! Decodes requests.

use session::Role;

use crate::dialect::cursor::Cursor;
use crate::dialect::{
    DecodeError, Marker, Part, Prompt, PromptMessage, Setting, ToolDefinition, ToolExecution, UnknownValue,
};
use crate::json::Document;

use super::{DIALECT, block};

const FIELDS: &[&str] = &["model", "system", "messages", "tools", "stream", "max_tokens"];

pub(in crate::dialect) fn decode_request(document: &Document<'_>) -> Result<Prompt, DecodeError> {
    let root = Cursor::root(document)?;
    let mut unknown = Vec::new();
    let mut prompt = Prompt {
        dialect: DIALECT,
        model: root.text("model"),
        system: root.get("system").map(|at| content(&at, &mut unknown)).unwrap_or_default(),
        messages: root
            .get("messages")
            .iter()
            .flat_map(Cursor::items)
            .map(|at| message(&at, &mut unknown))
            .collect(),
        tools: root.get("tools").iter().flat_map(Cursor::items).map(|at| tool(&at, &mut unknown)).collect(),
        stream: root.value.get("stream").and_then(|value| value.as_bool()).unwrap_or(false),
        max_tokens: root.value.get("max_tokens").and_then(|value| value.as_u64()),
        settings: Setting::others(&root, FIELDS),
        markers: Vec::new(),
        unknown,
    };
    prompt.markers = prompt.collect_markers(Marker::on(&root));
    Ok(prompt)
}

/// Decodes a string or a list of blocks.
fn content(at: &Cursor<'_, '_>, unknown: &mut Vec<UnknownValue>) -> Vec<Part> {
    if at.is_string() {
        return vec![Part::text(at)];
    }
    at.items().map(|item| block::decode(&item, unknown)).collect()
}

fn message(at: &Cursor<'_, '_>, unknown: &mut Vec<UnknownValue>) -> PromptMessage {
    let role = match at.text_or_empty("role").as_str() {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "system" => Role::System,
        other => {
            unknown.push(UnknownValue::at(format!("{}/role", at.pointer), format!("role `{other}`")));
            Role::User
        }
    };
    PromptMessage {
        role,
        parts: at.get("content").map(|at| content(&at, unknown)).unwrap_or_default(),
        place: at.place(),
        extra: Setting::others(at, &["role", "content"]),
    }
}

/// Prefixes of the dated types of tools that the provider defines.
const PROVIDER_TOOLS: &[&str] = &[
    "advisor_",
    "bash_",
    "code_execution_",
    "computer_",
    "mcp_toolset",
    "memory_",
    "text_editor_",
    "tool_search_tool_",
    "web_fetch_",
    "web_search_",
];

fn tool(at: &Cursor<'_, '_>, unknown: &mut Vec<UnknownValue>) -> ToolDefinition {
    let kind = at.text("type").unwrap_or_else(|| "custom".to_owned());
    let ours = kind == "custom";
    if !ours && !PROVIDER_TOOLS.iter().any(|known| kind.starts_with(known)) {
        unknown.push(UnknownValue::at(&at.pointer, format!("tool type `{kind}`")));
    }
    ToolDefinition {
        name: at.text("name").or_else(|| at.text("mcp_server_name")).unwrap_or_else(|| kind.clone()),
        execution: if ours { ToolExecution::Function } else { ToolExecution::Provider },
        deferred: at.value.get("defer_loading").and_then(|value| value.as_bool()).unwrap_or(false),
        description: at.text("description"),
        place: at.place(),
        schema: at.get("input_schema").map(|schema| schema.place()),
        marker: Marker::on(at),
        message: None,
        kind,
    }
}
