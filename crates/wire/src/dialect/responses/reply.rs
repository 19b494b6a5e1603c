//! Decodes and encodes replies without streaming. Errors have the format of Chat Completions.

use session::{Block, Reply, StopReason, Usage};

use crate::dialect::chat::decode_error;
use crate::dialect::cursor::Cursor;
use crate::dialect::raw::{Object, array};
use crate::dialect::{DecodeError, DecodedReply, DecodedResponse, EncodeError, UnknownValue};
use crate::json::{Document, quote};

use super::draft::{call_item, reasoning_item};
use super::{DIALECT, item};

pub(in crate::dialect) fn decode_reply(body: &[u8]) -> Result<DecodedResponse, DecodeError> {
    let document = Document::parse(body)?;
    let root = Cursor::root(&document)?;
    if let Some(error) = root.get("error") {
        return Ok(DecodedResponse::Error(decode_error(&error)));
    }
    let Some(output) = root.get("output") else { return Ok(DecodedResponse::Other) };
    let mut unknown = Vec::new();
    let parts: Vec<_> = output.items().flat_map(|at| item::decode(&at, &mut unknown).parts).collect();
    let mut reply = Reply {
        id: root.text_or_empty("id"),
        model: root.text_or_empty("model"),
        blocks: parts.iter().map(|part| part.block.clone()).collect(),
        stop: None,
        usage: root.get("usage").map(|usage| decode_usage(&usage)).unwrap_or_default(),
    };
    reply.stop = stop_reason(&root, &reply, &mut unknown);
    Ok(DecodedResponse::Reply(DecodedReply { reply, parts, unknown }))
}

/// Derives the stop reason. A completed response has only a status, so its content decides.
fn stop_reason(root: &Cursor<'_, '_>, reply: &Reply, unknown: &mut Vec<UnknownValue>) -> Option<StopReason> {
    let status = root.text_or_empty("status");
    match status.as_str() {
        "completed" if reply.calls().next().is_some() => Some(StopReason::ToolUse),
        "completed" if reply.blocks.iter().any(|block| matches!(block, Block::Refusal { .. })) => {
            Some(StopReason::Refusal)
        }
        "completed" => Some(StopReason::EndTurn),
        "incomplete" => {
            let details = root.get("incomplete_details");
            let reason = details.map(|details| details.text_or_empty("reason")).unwrap_or_default();
            Some(match reason.as_str() {
                "max_output_tokens" => StopReason::MaxTokens,
                "content_filter" => StopReason::ContentFilter,
                _ => {
                    let what = format!("stop reason `{reason}`");
                    unknown.push(UnknownValue::at("/incomplete_details/reason", what));
                    StopReason::Other(reason)
                }
            })
        }
        "cancelled" | "failed" => Some(StopReason::Other(status)),
        "" | "in_progress" | "queued" => None,
        other => {
            unknown.push(UnknownValue::at("/status", format!("status `{other}`")));
            None
        }
    }
}

/// Converts the usage. Cached tokens are a part of the input here, and disjoint in [`Usage`].
fn decode_usage(at: &Cursor<'_, '_>) -> Usage {
    let details = at.get("input_tokens_details");
    let of_input = |name: &str| details.as_ref().map_or(0, |details| details.tokens(name));
    let (read, written) = (of_input("cached_tokens"), of_input("cache_write_tokens"));
    Usage {
        input: at.tokens("input_tokens").saturating_sub(read).saturating_sub(written),
        output: at.tokens("output_tokens"),
        cache_read: read,
        cache_write_5m: written,
        cache_write_1h: 0,
        reasoning: at.get("output_tokens_details").map_or(0, |details| details.tokens("reasoning_tokens")),
    }
}

fn encode_usage(usage: &Usage) -> String {
    let written = usage.cache_write_5m + usage.cache_write_1h;
    let input = Object::new().number("cached_tokens", usage.cache_read);
    let input = input.maybe("cache_write_tokens", (written > 0).then(|| written.to_string()));
    Object::new()
        .number("input_tokens", usage.input_total())
        .raw("input_tokens_details", input.json())
        .number("output_tokens", usage.output)
        .raw("output_tokens_details", Object::new().number("reasoning_tokens", usage.reasoning).json())
        .number("total_tokens", usage.input_total() + usage.output)
        .json()
}

pub(in crate::dialect) fn encode_reply(reply: &Reply) -> Result<String, EncodeError> {
    let items =
        reply.blocks.iter().enumerate().map(|(index, block)| Ok(encode_item(reply, index, block)?.json()));
    Ok(response(reply, reply.stop.as_ref(), &items.collect::<Result<Vec<_>, EncodeError>>()?))
}

/// Encodes the response around the given items.
pub(super) fn response(reply: &Reply, stop: Option<&StopReason>, items: &[String]) -> String {
    let reason = match stop {
        Some(StopReason::MaxTokens | StopReason::ContextWindow) => Some("max_output_tokens"),
        Some(StopReason::ContentFilter) => Some("content_filter"),
        Some(StopReason::Other(word)) => Some(word.as_str()),
        _ => None,
    };
    let status = match (stop, reason) {
        (None, _) => "in_progress",
        (Some(_), Some(_)) => "incomplete",
        (Some(_), None) => "completed",
    };
    let details = reason.map(|reason| Object::new().text("reason", reason).json());
    let null = || "null".to_owned();
    Object::new()
        .text("id", &reply.id)
        .text("object", "response")
        .number("created_at", 0)
        .text("status", status)
        .raw("error", "null")
        .raw("incomplete_details", details.unwrap_or_else(null))
        .raw("instructions", "null")
        .text("model", &reply.model)
        .raw("output", array(items))
        .raw("parallel_tool_calls", "true")
        .text("tool_choice", "auto")
        .raw("tools", "[]")
        .raw("usage", stop.map_or_else(null, |_| encode_usage(&reply.usage)))
        .raw("metadata", "{}")
        .json()
}

/// Returns the id of an item. Its prefix depends on the type.
fn item_id(reply: &Reply, index: usize, block: &Block) -> String {
    let kind = match block {
        Block::Thinking { .. } | Block::RedactedThinking { .. } => "rs",
        Block::ToolCall(call) if super::draft::is_custom(call) => "ctc",
        Block::ToolCall(_) => "fc",
        _ => "msg",
    };
    format!("{kind}_{}_{index}", reply.id)
}

/// Encodes a complete item of the output.
pub(super) fn encode_item(reply: &Reply, index: usize, block: &Block) -> Result<Object, EncodeError> {
    let head = Object::new().text("id", &item_id(reply, index, block));
    Ok(match block {
        Block::Text { .. } | Block::Refusal { .. } => head
            .text("type", "message")
            .text("status", "completed")
            .raw("content", array([encode_part(block).json()]))
            .text("role", "assistant"),
        Block::Thinking { .. } | Block::RedactedThinking { .. } => reasoning_item(block, head),
        Block::ToolCall(call) if !call.server => {
            let mut item = call_item(call, head);
            item.set("status", quote("completed"));
            item
        }
        other => return Err(EncodeError::unsupported(DIALECT, other, "a reply")),
    })
}

/// Encodes the only part of a message.
pub(super) fn encode_part(block: &Block) -> Object {
    match block {
        Block::Refusal { text } => Object::new().text("type", "refusal").text("refusal", text),
        Block::Text { text } => Object::new()
            .text("type", "output_text")
            .raw("annotations", "[]")
            .raw("logprobs", "[]")
            .text("text", text),
        _ => Object::new(),
    }
}
