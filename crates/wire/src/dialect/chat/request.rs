//! Decodes requests.

use session::Role;

use crate::dialect::cursor::Cursor;
use crate::dialect::{
    DecodeError, Marker, Prompt, PromptMessage, Setting, ToolDefinition, ToolExecution, UnknownValue,
};
use crate::json::Document;

use super::DIALECT;
use super::message::{DECODED_MEMBERS, decode_parts, tool_result};

const FIELDS: &[&str] = &["model", "messages", "tools", "stream", "max_tokens", "max_completion_tokens"];

pub(in crate::dialect) fn decode_request(document: &Document<'_>) -> Result<Prompt, DecodeError> {
    let root = Cursor::root(document)?;
    let mut unknown = Vec::new();
    let messages: Vec<_> = root.get("messages").iter().flat_map(Cursor::items).collect();
    let limit = root.value.get("max_completion_tokens").or_else(|| root.value.get("max_tokens"));
    let mut prompt = Prompt {
        dialect: DIALECT,
        model: root.text("model"),
        system: Vec::new(),
        messages: messages.iter().map(|at| message(at, &mut unknown)).collect(),
        tools: root.get("tools").iter().flat_map(Cursor::items).map(|at| tool(&at, &mut unknown)).collect(),
        stream: root.value.get("stream").and_then(|value| value.as_bool()).unwrap_or(false),
        max_tokens: limit.and_then(|value| value.as_u64()),
        settings: Setting::others(&root, FIELDS),
        markers: Vec::new(),
        unknown,
    };
    let elsewhere = messages.iter().chain([&root]).filter_map(Marker::on);
    prompt.markers = prompt.collect_markers(elsewhere);
    Ok(prompt)
}

fn message(at: &Cursor<'_, '_>, unknown: &mut Vec<UnknownValue>) -> PromptMessage {
    let role = match at.text_or_empty("role").as_str() {
        "system" => Role::System,
        "developer" => Role::Developer,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "tool" | "function" => Role::Tool,
        other => {
            unknown.push(UnknownValue::at(format!("{}/role", at.pointer), format!("role `{other}`")));
            Role::User
        }
    };
    let parts = if role == Role::Tool { vec![tool_result(at, unknown)] } else { decode_parts(at, unknown) };
    PromptMessage { role, parts, place: at.place(), extra: Setting::others(at, DECODED_MEMBERS) }
}

/// Types of tools that a provider runs.
const PROVIDER_TOOLS: &[&str] = &["browser_search", "code_interpreter", "mcp", "web_search"];

fn tool(at: &Cursor<'_, '_>, unknown: &mut Vec<UnknownValue>) -> ToolDefinition {
    let kind = at.kind();
    let execution = match kind.as_str() {
        "function" => ToolExecution::Function,
        "custom" => ToolExecution::Custom,
        _ => ToolExecution::Provider,
    };
    let known = PROVIDER_TOOLS.contains(&kind.as_str()) || kind.starts_with("openrouter:");
    if execution == ToolExecution::Provider && !known {
        unknown.push(UnknownValue::at(&at.pointer, format!("tool type `{kind}`")));
    }
    let inner = at.get(&kind);
    let text = |name: &str| inner.as_ref().and_then(|inner| inner.text(name));
    let schema = inner.as_ref().and_then(|inner| inner.get("parameters").or_else(|| inner.get("format")));
    ToolDefinition {
        name: text("name").unwrap_or_else(|| kind.clone()),
        execution,
        deferred: false,
        description: text("description"),
        place: at.place(),
        schema: schema.map(|schema| schema.place()),
        marker: Marker::on(at).or_else(|| inner.as_ref().and_then(Marker::on)),
        message: None,
        kind,
    }
}
