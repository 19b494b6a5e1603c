//! Decodes and encodes replies and errors without streaming.

use session::{Block, Reply, StopReason, ToolCall, Usage};

use crate::dialect::cursor::Cursor;
use crate::dialect::raw::{Object, array};
use crate::dialect::{DecodeError, DecodedReply, DecodedResponse, EncodeError, ProviderError, UnknownValue};
use crate::json::{Document, ValueKind, quote};

use super::DIALECT;
use super::draft::{encode_call, with_reasoning};
use super::message::decode_parts;

pub(in crate::dialect) fn decode_reply(body: &[u8]) -> Result<DecodedResponse, DecodeError> {
    let document = Document::parse(body)?;
    let root = Cursor::root(&document)?;
    if let Some(error) = root.get("error") {
        return Ok(DecodedResponse::Error(decode_error(&error)));
    }
    let Some(choices) = root.get("choices") else { return Ok(DecodedResponse::Other) };
    let mut unknown = Vec::new();
    // The first choice is the reply. Further choices stay in the body.
    let choice = choices.items().next();
    if let Some(error) = choice.as_ref().and_then(|choice| choice.get("error")) {
        return Ok(DecodedResponse::Error(decode_error(&error)));
    }
    let message = choice.as_ref().and_then(|choice| choice.get("message"));
    let parts = message.map(|message| decode_parts(&message, &mut unknown)).unwrap_or_default();
    let refused = parts.iter().any(|part| matches!(part.block, Block::Refusal { .. }));
    let finish = choice.as_ref().and_then(|choice| choice.text("finish_reason"));
    let reply = Reply {
        id: root.text_or_empty("id"),
        model: root.text_or_empty("model"),
        blocks: parts.iter().map(|part| part.block.clone()).collect(),
        stop: finish.map(|reason| stop_reason(reason, refused, &mut unknown)),
        usage: root.get("usage").map(|usage| decode_usage(&usage)).unwrap_or_default(),
    };
    Ok(DecodedResponse::Reply(DecodedReply { reply, parts, unknown }))
}

/// Decodes the value of `error`: usually an object, sometimes a string.
pub(in crate::dialect) fn decode_error(error: &Cursor<'_, '_>) -> ProviderError {
    let word = |name: &str| {
        let value = error.get(name)?.value;
        let word = if value.kind() == ValueKind::String {
            value.as_str()?.into_owned()
        } else {
            value.raw().to_owned()
        };
        Some(word).filter(|word| !word.is_empty())
    };
    let (kind, code) = match (word("type"), word("code")) {
        (Some(kind), code) => (kind, code),
        (None, code) => (code.unwrap_or_else(|| "error".to_owned()), None),
    };
    let code = code.filter(|code| *code != kind);
    let message = error.value.as_str().map(|text| text.into_owned());
    ProviderError { kind, code, message: message.unwrap_or_else(|| error.text_or_empty("message")) }
}

fn stop_reason(reason: String, refused: bool, unknown: &mut Vec<UnknownValue>) -> StopReason {
    match reason.as_str() {
        "stop" if refused => StopReason::Refusal,
        "stop" => StopReason::EndTurn,
        "tool_calls" | "function_call" => StopReason::ToolUse,
        "length" => StopReason::MaxTokens,
        "content_filter" => StopReason::ContentFilter,
        "error" => StopReason::Other(reason),
        _ => {
            unknown.push(UnknownValue::at("/choices/0/finish_reason", format!("stop reason `{reason}`")));
            StopReason::Other(reason)
        }
    }
}

pub(super) fn stop_word(stop: &StopReason) -> &str {
    match stop {
        StopReason::EndTurn | StopReason::StopSequence | StopReason::PauseTurn | StopReason::Refusal => {
            "stop"
        }
        StopReason::ToolUse => "tool_calls",
        StopReason::MaxTokens | StopReason::ContextWindow => "length",
        StopReason::ContentFilter => "content_filter",
        StopReason::Other(word) => word,
    }
}

/// Converts the usage. Cached tokens are a part of the prompt here, and disjoint in [`Usage`].
fn decode_usage(at: &Cursor<'_, '_>) -> Usage {
    let details = at.get("prompt_tokens_details");
    let of_prompt = |name: &str| details.as_ref().map_or(0, |details| details.tokens(name));
    // DeepSeek has a name of its own besides the common one.
    let read = of_prompt("cached_tokens").max(at.tokens("prompt_cache_hit_tokens"));
    let written = of_prompt("cache_write_tokens");
    Usage {
        input: at.tokens("prompt_tokens").saturating_sub(read).saturating_sub(written),
        output: at.tokens("completion_tokens"),
        cache_read: read,
        cache_write_5m: written,
        cache_write_1h: 0,
        reasoning: at
            .get("completion_tokens_details")
            .map_or(0, |details| details.tokens("reasoning_tokens")),
    }
}

pub(super) fn encode_usage(usage: &Usage) -> String {
    let written = usage.cache_write_5m + usage.cache_write_1h;
    let prompt = Object::new().number("cached_tokens", usage.cache_read);
    let prompt = prompt.maybe("cache_write_tokens", (written > 0).then(|| written.to_string()));
    let completion = Object::new().number("reasoning_tokens", usage.reasoning);
    Object::new()
        .number("prompt_tokens", usage.input_total())
        .number("completion_tokens", usage.output)
        .number("total_tokens", usage.input_total() + usage.output)
        .raw("prompt_tokens_details", prompt.json())
        .raw("completion_tokens_details", completion.json())
        .json()
}

/// The content of a reply, grouped as in a message.
pub(super) struct ReplyParts<'a> {
    pub(super) thoughts: Vec<&'a Block>,
    /// All text blocks, joined by newlines, because a message has one string for them.
    pub(super) text: Option<String>,
    pub(super) refusal: Option<&'a str>,
    pub(super) calls: Vec<&'a ToolCall>,
}

impl<'a> ReplyParts<'a> {
    pub(super) fn group(reply: &'a Reply) -> Result<Self, EncodeError> {
        let mut parts = Self { thoughts: Vec::new(), text: reply.text(), refusal: None, calls: Vec::new() };
        for block in &reply.blocks {
            match block {
                Block::Text { .. } => {}
                Block::Thinking { .. } | Block::RedactedThinking { .. } => parts.thoughts.push(block),
                Block::Refusal { text } => parts.refusal = Some(text),
                Block::ToolCall(call) if !call.server => parts.calls.push(call),
                other => return Err(EncodeError::unsupported(DIALECT, other, "a reply")),
            }
        }
        Ok(parts)
    }
}

pub(in crate::dialect) fn encode_reply(reply: &Reply) -> Result<String, EncodeError> {
    let parts = ReplyParts::group(reply)?;
    let null = || "null".to_owned();
    let message = Object::new()
        .text("role", "assistant")
        .raw("content", parts.text.as_deref().map_or_else(null, quote))
        .raw("refusal", parts.refusal.map_or_else(null, quote));
    let message = with_reasoning(message, &parts.thoughts);
    let calls = (!parts.calls.is_empty()).then(|| array(parts.calls.iter().map(|call| encode_call(call))));
    let choice = Object::new()
        .number("index", 0)
        .raw("message", message.maybe("tool_calls", calls).json())
        .raw("logprobs", "null")
        .raw("finish_reason", reply.stop.as_ref().map_or_else(null, |stop| quote(stop_word(stop))));
    let body = head(reply, "chat.completion").raw("choices", array([choice.json()]));
    Ok(body.raw("usage", encode_usage(&reply.usage)).json())
}

/// Encodes the start of every body and every chunk. A reply has no time, so `created` is 0.
pub(super) fn head(reply: &Reply, object: &str) -> Object {
    Object::new()
        .text("id", &reply.id)
        .text("object", object)
        .number("created", 0)
        .text("model", &reply.model)
}

pub(in crate::dialect) fn encode_error(error: &ProviderError) -> String {
    let inner = Object::new().text("message", &error.message).text("type", &error.kind);
    let code = error.code.as_deref().map_or("null".into(), quote);
    Object::new().raw("error", inner.raw("param", "null").raw("code", code).json()).json()
}
