//! Decodes and encodes replies and errors without streaming.

use session::{Reply, StopReason, Usage};

use crate::dialect::cursor::Cursor;
use crate::dialect::raw::{Object, array};
use crate::dialect::{DecodeError, DecodedReply, DecodedResponse, EncodeError, ProviderError, UnknownValue};
use crate::json::{Document, quote};

use super::block;

pub(in crate::dialect) fn decode_reply(body: &[u8]) -> Result<DecodedResponse, DecodeError> {
    let document = Document::parse(body)?;
    let root = Cursor::root(&document)?;
    if let Some(error) = root.get("error") {
        return Ok(DecodedResponse::Error(decode_error(&error)));
    }
    let Some(content) = root.get("content") else { return Ok(DecodedResponse::Other) };
    let mut unknown = Vec::new();
    let parts: Vec<_> = content.items().map(|at| block::decode(&at, &mut unknown)).collect();
    let reply = Reply {
        id: root.text_or_empty("id"),
        model: root.text_or_empty("model"),
        blocks: parts.iter().map(|part| part.block.clone()).collect(),
        stop: root.text("stop_reason").map(|reason| stop_reason(reason, &mut unknown)),
        usage: root.get("usage").map(|usage| decode_usage(&usage)).unwrap_or_default(),
    };
    Ok(DecodedResponse::Reply(DecodedReply { reply, parts, unknown }))
}

/// Decodes the value of `error`.
pub(super) fn decode_error(error: &Cursor<'_, '_>) -> ProviderError {
    ProviderError::new(error.kind(), error.text_or_empty("message"))
}

/// Stop reasons and the provider's terms for them.
const STOPS: &[(StopReason, &str)] = &[
    (StopReason::EndTurn, "end_turn"),
    (StopReason::ToolUse, "tool_use"),
    (StopReason::MaxTokens, "max_tokens"),
    (StopReason::StopSequence, "stop_sequence"),
    (StopReason::PauseTurn, "pause_turn"),
    (StopReason::Refusal, "refusal"),
    (StopReason::ContextWindow, "model_context_window_exceeded"),
];

fn stop_reason(reason: String, unknown: &mut Vec<UnknownValue>) -> StopReason {
    if let Some((stop, _)) = STOPS.iter().find(|(_, word)| *word == reason) {
        return stop.clone();
    }
    if reason != "compaction" {
        unknown.push(UnknownValue::at("/stop_reason", format!("stop reason `{reason}`")));
    }
    StopReason::Other(reason)
}

pub(super) fn stop_word(stop: &StopReason) -> &str {
    match stop {
        StopReason::Other(word) => word,
        // This dialect has no content filter. A refusal is the closest reason.
        StopReason::ContentFilter => "refusal",
        known => STOPS.iter().find(|(stop, _)| stop == known).map_or("end_turn", |(_, word)| word),
    }
}

fn decode_usage(at: &Cursor<'_, '_>) -> Usage {
    let written = at.tokens("cache_creation_input_tokens");
    let split = at.get("cache_creation");
    let hour = split.map_or(0, |split| split.tokens("ephemeral_1h_input_tokens"));
    Usage {
        input: at.tokens("input_tokens"),
        output: at.tokens("output_tokens"),
        cache_read: at.tokens("cache_read_input_tokens"),
        // The total is final. The split may be that of the first event of a stream.
        cache_write_5m: written.saturating_sub(hour),
        cache_write_1h: hour,
        reasoning: at.get("output_tokens_details").map_or(0, |details| details.tokens("thinking_tokens")),
    }
}

/// Encodes the message around the given blocks.
pub(super) fn message(reply: &Reply, blocks: &[String], stop: Option<&StopReason>, usage: String) -> String {
    Object::new()
        .text("model", &reply.model)
        .text("id", &reply.id)
        .text("type", "message")
        .text("role", "assistant")
        .raw("content", array(blocks))
        .raw("stop_reason", stop.map_or("null".to_owned(), |stop| quote(stop_word(stop))))
        .raw("stop_sequence", "null")
        .raw("usage", usage)
        .json()
}

pub(super) fn encode_usage(usage: &Usage, output: u64) -> String {
    let split = Object::new()
        .number("ephemeral_5m_input_tokens", usage.cache_write_5m)
        .number("ephemeral_1h_input_tokens", usage.cache_write_1h);
    let details =
        (usage.reasoning > 0).then(|| Object::new().number("thinking_tokens", usage.reasoning).json());
    Object::new()
        .number("input_tokens", usage.input)
        .number("cache_creation_input_tokens", usage.cache_write_5m + usage.cache_write_1h)
        .number("cache_read_input_tokens", usage.cache_read)
        .raw("cache_creation", split.json())
        .number("output_tokens", output)
        .maybe("output_tokens_details", details)
        .text("service_tier", "standard")
        .json()
}

pub(in crate::dialect) fn encode_reply(reply: &Reply) -> Result<String, EncodeError> {
    let blocks = reply.blocks.iter().map(|block| Ok(block::encode(block, None, "a reply")?.json()));
    let blocks = blocks.collect::<Result<Vec<_>, EncodeError>>()?;
    let usage = encode_usage(&reply.usage, reply.usage.output);
    Ok(message(reply, &blocks, reply.stop.as_ref(), usage))
}

pub(in crate::dialect) fn encode_error(error: &ProviderError) -> String {
    let inner = Object::new().text("type", &error.kind).text("message", &error.message);
    Object::new().text("type", "error").raw("error", inner.json()).json()
}
