//! Encodes a reply as a stream, as the provider would send it.

use session::{Block, Reply, ToolCall};

use crate::dialect::raw::{Object, array, chunks};
use crate::dialect::{EncodeError, data};
use crate::json::quote;

use super::draft::{call_kind, call_object, detail, plain_reasoning};
use super::reply::{ReplyParts, encode_usage, head, stop_word};

pub(in crate::dialect) fn encode_stream(reply: &Reply, chunk: usize) -> Result<Vec<String>, EncodeError> {
    let parts = ReplyParts::group(reply)?;
    let mut events = Vec::new();
    let mut send = |delta: Object, finish: Option<&str>| {
        let choice = Object::new()
            .number("index", 0)
            .raw("delta", delta.json())
            .raw("logprobs", "null")
            .raw("finish_reason", finish.map_or("null".to_owned(), quote));
        let body = head(reply, "chat.completion.chunk").raw("choices", array([choice.json()]));
        events.push(data(&body.raw("usage", "null").json()));
    };
    let start = |text: Option<&str>| text.map_or("null".to_owned(), |_| quote(""));
    let first = Object::new().text("role", "assistant").raw("content", start(parts.text.as_deref()));
    send(first.raw("refusal", start(parts.refusal)), None);
    reasoning_deltas(&parts.thoughts, chunk).into_iter().for_each(|delta| send(delta, None));
    for (member, text) in [("content", parts.text.as_deref()), ("refusal", parts.refusal)] {
        for piece in chunks(text.unwrap_or_default(), chunk) {
            send(Object::new().text(member, piece), None);
        }
    }
    for (index, call) in parts.calls.iter().enumerate() {
        call_deltas(call, index, chunk).into_iter().for_each(|delta| send(delta, None));
    }
    if let Some(stop) = &reply.stop {
        send(Object::new(), Some(stop_word(stop)));
        let usage = head(reply, "chat.completion.chunk").raw("choices", "[]");
        events.push(data(&usage.raw("usage", encode_usage(&reply.usage)).json()));
        events.push(data("[DONE]"));
    }
    Ok(events)
}

fn reasoning_deltas(thoughts: &[&Block], chunk: usize) -> Vec<Object> {
    if let Some(text) = plain_reasoning(thoughts) {
        return chunks(text, chunk).map(|piece| Object::new().text("reasoning_content", piece)).collect();
    }
    let mut deltas = Vec::new();
    for (index, block) in thoughts.iter().enumerate() {
        let whole = detail(block, index);
        let Block::Thinking { text, signature } = block else {
            deltas.push(whole);
            continue;
        };
        let mut start = whole;
        start.set("text", quote(""));
        if signature.is_some() {
            start.set("signature", "null");
        }
        deltas.push(start);
        let more = || Object::new().text("type", "reasoning.text");
        deltas.extend(
            chunks(text, chunk).map(|piece| more().text("text", piece).number("index", index as u64)),
        );
        deltas.extend(signature.iter().map(|s| more().text("signature", s).number("index", index as u64)));
    }
    deltas.into_iter().map(|detail| Object::new().raw("reasoning_details", array([detail.json()]))).collect()
}

fn call_deltas(call: &ToolCall, index: usize, chunk: usize) -> Vec<Object> {
    let index = index.to_string();
    let (kind, member) = call_kind(call);
    let first = call_object(call, "").first("index", &index);
    let more = chunks(&call.input, chunk).map(|piece| {
        Object::new().raw("index", index.as_str()).raw(kind, Object::new().text(member, piece).json())
    });
    let all = std::iter::once(first).chain(more);
    all.map(|delta| Object::new().raw("tool_calls", array([delta.json()]))).collect()
}
