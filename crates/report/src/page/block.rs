//! The page's data of one exchange: both halves byte for byte, and its decoded turn.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use recording::lanes::LaneResponse;
use recording::source::{Content, SourceResponse};
use serde_json::{Value, json};
use session::{Block, Role, ToolCall, ToolResult};
use wire::Header;
use wire::dialect::{Prompt, PromptMessage};

use super::PageExchange;

/// Maximum length of a text in a turn. The raw body is complete.
const MAX_TEXT: usize = 20_000;

/// Renders both halves. `request` renders the request's body.
pub(super) fn halves(crossed: PageExchange<'_>, request: impl FnOnce(&Content) -> Value) -> Value {
    let PageExchange { asked, answered, .. } = crossed;
    json!({
        "request": {
            "line": format!("{} {}", asked.method, asked.url),
            "headers": headers(&asked.headers),
            "body": request(&asked.body),
        },
        "response": answered.map(|answered| json!({
            "line": status_line(answered),
            "headers": headers(&answered.headers),
            "body": body(&answered.body),
        })),
    })
}

pub(super) fn body(content: &Content) -> Value {
    match content.bytes.as_deref().map(|bytes| (bytes, std::str::from_utf8(bytes))) {
        None => json!({"lost": true}),
        Some((_, Ok(text))) => json!({"text": text}),
        Some((bytes, Err(_))) => json!({"base64": STANDARD.encode(bytes)}),
    }
}

fn headers(headers: &[Header]) -> Vec<[String; 2]> {
    let value = |header: &Header| match header {
        Header::Plain { value, .. } => value.clone(),
        Header::Secret { fingerprint, .. } => format!("offshoot-redacted-{fingerprint}"),
    };
    headers.iter().map(|header| [header.name().to_owned(), value(header)]).collect()
}

fn status_line(answered: &SourceResponse) -> String {
    let status = answered.status.map_or("no status".to_owned(), |status| status.to_string());
    match &answered.error {
        Some(error) => format!("{status}: {error}"),
        None => status,
    }
}

/// Decodes the request in its dialect.
pub(super) fn decode(crossed: PageExchange<'_>) -> Option<Prompt> {
    crossed.dialect?.decode_request(crossed.asked.body.bytes.as_deref()?).ok()
}

/// Renders the input and output of a turn. `started` returns the lanes that a call started.
pub(super) fn turn(
    crossed: PageExchange<'_>,
    prompt: Option<&Prompt>,
    started: impl Fn(&str) -> Vec<usize>,
) -> Value {
    let heard = crossed.answered.map(|answered| answered.decode(crossed.dialect)).unwrap_or_default();
    let (results, injected) = prompt.map(new_input).unwrap_or_default();
    let (thinking, text) = (thinking(&heard), heard.reply.as_ref().and_then(session::Reply::text));
    let call = |call: &ToolCall| {
        let (input, cut) = shortened(&call.input);
        json!({
            "id": call.id, "name": call.name, "input": input, "cut": cut, "starts": started(call.id.as_str()),
        })
    };
    let short = text.as_deref().map(shortened);
    json!({
        "system": null,
        "tools": null,
        "injected": injected,
        "results": results,
        "thinking": thinking.as_deref().map(|text| shortened(text).0),
        "text": short.map(|(text, _)| text),
        "text_cut": short.map_or(0, |(_, cut)| cut),
        "calls": heard.reply.iter().flat_map(session::Reply::calls).map(call).collect::<Vec<_>>(),
    })
}

fn thinking(heard: &LaneResponse) -> Option<String> {
    let blocks = heard.reply.as_ref()?.blocks.iter();
    let thought = blocks.filter_map(|block| match block {
        Block::Thinking { text, .. } => Some(text.as_str()),
        _ => None,
    });
    let thought: Vec<&str> = thought.collect();
    (!thought.is_empty()).then(|| thought.join("\n"))
}

/// Returns the results and texts after the last reply.
fn new_input(prompt: &Prompt) -> (Vec<Value>, Vec<Value>) {
    let conversation = prompt.conversation();
    let replied = conversation.iter().rposition(|message| message.role == Role::Assistant);
    let behind = &conversation[replied.map_or(0, |at| at + 1)..];
    let names: HashMap<&str, &str> =
        prompt.calls().map(|call| (call.id.as_str(), call.name.as_str())).collect();
    let (mut results, mut injected) = (Vec::new(), Vec::new());
    for (message, block) in
        behind.iter().flat_map(|message| message.parts.iter().map(move |part| (message, &part.block)))
    {
        match block {
            Block::ToolResult(it) => results.push(result(it, names.get(it.call.as_str()).copied())),
            block => injected.extend(text_json(message, block)),
        }
    }
    (results, injected)
}

fn result(result: &ToolResult, name: Option<&str>) -> Value {
    let texts: Vec<String> = result.blocks.iter().filter_map(words).collect();
    let text = texts.join("\n");
    let (text, cut) = shortened(&text);
    json!({"call": result.call, "name": name, "text": text, "cut": cut, "error": result.is_error})
}

fn text_json(message: &PromptMessage, block: &Block) -> Option<Value> {
    let text = words(block)?;
    let (text, cut) = shortened(&text);
    Some(json!({"role": message.role, "text": text, "cut": cut}))
}

/// Returns the text of a block, or a description of other blocks.
fn words(block: &Block) -> Option<String> {
    match block {
        Block::Text { text } | Block::Thinking { text, .. } | Block::Refusal { text } => Some(text.clone()),
        Block::Image(_) => Some("[a picture]".to_owned()),
        Block::Document { name } => Some(format!("[a document {}]", name.as_deref().unwrap_or_default())),
        Block::ToolReference { name } => Some(format!("[the tool {name}]")),
        Block::ItemReference { id } => Some(format!("[the item {id}]")),
        Block::Unknown { kind } => Some(format!("[{kind}]")),
        Block::RedactedThinking { .. } | Block::ToolCall(_) | Block::ToolResult(_) => None,
    }
}

/// Renders the blocks of the system prompt.
pub(super) fn system(prompt: &Prompt) -> Value {
    let part = |text: String| {
        let (text, cut) = shortened(&text);
        json!({"text": text, "cut": cut})
    };
    prompt.instructions().filter_map(|it| words(&it.block)).map(part).collect()
}

/// Renders the tools as they were sent.
pub(super) fn tools(prompt: &Prompt, body: &[u8]) -> Value {
    let tool = |tool: &wire::dialect::ToolDefinition| {
        let sent = String::from_utf8_lossy(body.get(tool.place.span.clone()).unwrap_or_default());
        let (text, cut) = shortened(&sent);
        json!({"name": tool.name, "text": text, "cut": cut})
    };
    prompt.tools.iter().map(tool).collect()
}

/// Returns the shown part of a text, and the number of bytes left out.
fn shortened(text: &str) -> (&str, usize) {
    let end = text.floor_char_boundary(MAX_TEXT);
    (&text[..end], text.len() - end)
}
