//! Encodes a reply as a stream, as the provider would send it.

use session::{Block, Reply, StopReason};

use crate::dialect::raw::{Object, chunks};
use crate::dialect::{EncodeError, ProviderError, event};
use crate::json::quote;

use super::draft::is_custom;
use super::reply::{encode_item, encode_part, response};

/// Numbers the events in the order of writing.
#[derive(Default)]
struct Events {
    list: Vec<String>,
}

impl Events {
    fn send(&mut self, kind: &str, fill: impl FnOnce(Object) -> Object) {
        let number = self.list.len() as u64;
        let object = fill(Object::new().text("type", kind)).number("sequence_number", number);
        self.list.push(event(kind, &object.json()));
    }
}

pub(in crate::dialect) fn encode_stream(reply: &Reply, chunk: usize) -> Result<Vec<String>, EncodeError> {
    let mut events = Events::default();
    let begun = response(reply, None, &[]);
    for kind in ["response.created", "response.in_progress"] {
        events.send(kind, |event| event.raw("response", begun.clone()));
    }
    let mut items = Vec::new();
    for (index, block) in reply.blocks.iter().enumerate() {
        let item = encode_item(reply, index, block)?;
        send_item(&mut events, index as u64, block, &item, chunk);
        items.push(item.json());
    }
    if let Some(stop) = &reply.stop {
        let kind = match stop {
            StopReason::MaxTokens | StopReason::ContextWindow => "response.incomplete",
            StopReason::ContentFilter | StopReason::Other(_) => "response.incomplete",
            _ => "response.completed",
        };
        let whole = response(reply, Some(stop), &items);
        events.send(kind, |event| event.raw("response", whole));
    }
    Ok(events.list)
}

fn send_item(events: &mut Events, index: u64, block: &Block, item: &Object, chunk: usize) {
    let mut started = item.clone();
    match block {
        Block::ToolCall(call) => {
            let member = if is_custom(call) { "input" } else { "arguments" };
            started.set(member, quote(""));
            started.set("status", quote("in_progress"));
        }
        Block::Thinking { .. } | Block::RedactedThinking { .. } => started.set("summary", "[]"),
        _ => {
            started.set("content", "[]");
            started.set("status", quote("in_progress"));
        }
    }
    let whole = |event: Object, item: &Object| event.number("output_index", index).raw("item", item.json());
    events.send("response.output_item.added", |event| whole(event, &started));
    let id = item.get("id").unwrap_or_default().to_owned();
    let place = |event: Object| event.raw("item_id", id.clone()).number("output_index", index);
    match block {
        Block::ToolCall(call) => {
            let (kind, member) = match is_custom(call) {
                true => ("response.custom_tool_call_input", "input"),
                false => ("response.function_call_arguments", "arguments"),
            };
            send_deltas(events, kind, member, &call.input, chunk, place);
        }
        Block::Thinking { text, .. } if !text.is_empty() => {
            let place = |event: Object| place(event).number("summary_index", 0);
            let part = |text: &str| Object::new().text("type", "summary_text").text("text", text).json();
            events.send("response.reasoning_summary_part.added", |event| place(event).raw("part", part("")));
            send_deltas(events, "response.reasoning_summary_text", "text", text, chunk, place);
            events.send("response.reasoning_summary_part.done", |event| place(event).raw("part", part(text)));
        }
        Block::Text { text } | Block::Refusal { text } => {
            let place = |event: Object| place(event).number("content_index", 0);
            let (kind, member) = match block {
                Block::Refusal { .. } => ("response.refusal", "refusal"),
                _ => ("response.output_text", "text"),
            };
            let done = encode_part(block);
            let mut begun = done.clone();
            begun.set(member, quote(""));
            events.send("response.content_part.added", |event| place(event).raw("part", begun.json()));
            send_deltas(events, kind, member, text, chunk, place);
            events.send("response.content_part.done", |event| place(event).raw("part", done.json()));
        }
        _ => {}
    }
    events.send("response.output_item.done", |event| whole(event, item));
}

/// Writes the deltas of one string, and its `done` event.
fn send_deltas(
    events: &mut Events,
    kind: &str,
    member: &str,
    text: &str,
    chunk: usize,
    place: impl Fn(Object) -> Object,
) {
    for piece in chunks(text, chunk) {
        events.send(&format!("{kind}.delta"), |event| place(event).text("delta", piece));
    }
    events.send(&format!("{kind}.done"), |event| place(event).text(member, text));
}

pub(in crate::dialect) fn encode_stream_error(error: &ProviderError) -> String {
    let object =
        Object::new().text("type", "error").text("code", &error.kind).text("message", &error.message);
    object.raw("param", "null").number("sequence_number", 0).json()
}
