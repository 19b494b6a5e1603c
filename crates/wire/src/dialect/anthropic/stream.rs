//! Encodes a reply as a stream, as the provider would send it.

use session::{Block, Reply};

use crate::dialect::draft::input_json;
use crate::dialect::raw::{Object, chunks};
use crate::dialect::{EncodeError, event};
use crate::json::quote;

use super::block;
use super::reply::{encode_usage, message, stop_word};

pub(in crate::dialect) fn encode_stream(reply: &Reply, chunk: usize) -> Result<Vec<String>, EncodeError> {
    let first_guess = reply.usage.output.min(1);
    let start = message(reply, &[], None, encode_usage(&reply.usage, first_guess));
    let mut events = vec![typed("message_start", |event| event.raw("message", start))];
    for (index, block) in reply.blocks.iter().enumerate() {
        let index = index as u64;
        let (start, deltas) = split_block(block, chunk)?;
        events.push(typed("content_block_start", |event| {
            event.number("index", index).raw("content_block", start.json())
        }));
        if index == 0 {
            events.push(typed("ping", |event| event));
        }
        for delta in deltas {
            events
                .push(typed("content_block_delta", |event| event.number("index", index).raw("delta", delta)));
        }
        events.push(typed("content_block_stop", |event| event.number("index", index)));
    }
    if let Some(stop) = &reply.stop {
        let delta = Object::new().text("stop_reason", stop_word(stop)).raw("stop_sequence", "null");
        let usage = Object::new()
            .number("input_tokens", reply.usage.input)
            .number("cache_creation_input_tokens", reply.usage.cache_write_5m + reply.usage.cache_write_1h)
            .number("cache_read_input_tokens", reply.usage.cache_read)
            .number("output_tokens", reply.usage.output);
        events.push(typed("message_delta", |event| {
            event.raw("delta", delta.json()).raw("usage", usage.json())
        }));
        events.push(typed("message_stop", |event| event));
    }
    Ok(events)
}

fn typed(kind: &str, fill: impl FnOnce(Object) -> Object) -> String {
    event(kind, &fill(Object::new().text("type", kind)).json())
}

/// Returns the block as it starts, and the deltas that complete it.
fn split_block(whole: &Block, chunk: usize) -> Result<(Object, Vec<String>), EncodeError> {
    let delta =
        |kind: &str, member: &str, text: &str| Object::new().text("type", kind).text(member, text).json();
    let mut start = block::encode(whole, None, "a reply")?;
    let mut deltas = Vec::new();
    match whole {
        Block::Text { text } | Block::Refusal { text } => {
            start.set("text", quote(""));
            deltas.extend(chunks(text, chunk).map(|piece| delta("text_delta", "text", piece)));
        }
        Block::Thinking { text, signature } => {
            start.set("thinking", quote(""));
            deltas.extend(chunks(text, chunk).map(|piece| delta("thinking_delta", "thinking", piece)));
            if let Some(signature) = signature {
                start.set("signature", quote(""));
                deltas.push(delta("signature_delta", "signature", signature));
            }
        }
        Block::ToolCall(call) => {
            start.set("input", "{}");
            deltas.push(delta("input_json_delta", "partial_json", ""));
            let pieces = chunks(input_json(call)?, chunk);
            deltas.extend(pieces.map(|piece| delta("input_json_delta", "partial_json", piece)));
        }
        _ => {} // complete in its first event
    }
    Ok((start, deltas))
}
