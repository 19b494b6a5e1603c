//! Detects the dialect of a request by its path, or else by the shape of its body.

use crate::json::{Document, Value, ValueKind};

use super::Dialect;

/// Path endings and their dialects. `None` means an unsupported API.
const PATHS: &[(&str, Option<Dialect>)] = &[
    ("/messages", Some(Dialect::AnthropicMessages)),
    ("/messages/count_tokens", Some(Dialect::AnthropicMessages)),
    ("/chat/completions", Some(Dialect::OpenAiChat)),
    ("/responses", Some(Dialect::OpenAiResponses)),
    ("/responses/compact", Some(Dialect::OpenAiResponses)),
    ("/responses/input_tokens", Some(Dialect::OpenAiResponses)),
    ("/embeddings", None),
    ("/moderations", None),
    ("/images/generations", None),
    ("/audio/speech", None),
];

impl Dialect {
    /// Detects the dialect of a request. `path` may be a full URL.
    pub fn detect(path: &str, body: &[u8]) -> Option<Self> {
        let path = path.split(['?', '#']).next().unwrap_or(path).trim_end_matches('/');
        match PATHS.iter().find(|(ending, _)| path.ends_with(ending)) {
            Some((_, dialect)) => *dialect,
            None => detect_by_shape(Document::parse(body).ok()?.root()),
        }
    }
}

/// Members that only one dialect has.
const DISTINCTIVE_MEMBERS: &[(&str, Dialect)] = &[
    ("system", Dialect::AnthropicMessages),
    ("anthropic_version", Dialect::AnthropicMessages),
    ("stop_sequences", Dialect::AnthropicMessages),
    ("stream_options", Dialect::OpenAiChat),
    ("max_completion_tokens", Dialect::OpenAiChat),
    ("response_format", Dialect::OpenAiChat),
    ("reasoning_effort", Dialect::OpenAiChat),
];

fn detect_by_shape(body: Value<'_, '_>) -> Option<Dialect> {
    let Some(messages) = body.get("messages").filter(|value| value.kind() == ValueKind::Array) else {
        return is_responses(body).then_some(Dialect::OpenAiResponses);
    };
    if let Some((_, dialect)) = DISTINCTIVE_MEMBERS.iter().find(|(name, _)| body.get(name).is_some()) {
        return Some(*dialect);
    }
    if let Some(tool) = body.get("tools").and_then(|tools| tools.items().next()) {
        let of_chat = tool.get("function").is_some() || tool.get("custom").is_some();
        return Some(if of_chat { Dialect::OpenAiChat } else { Dialect::AnthropicMessages });
    }
    let blocks = messages.items().filter_map(|message| message.get("content"));
    let kinds: Vec<_> = blocks.flat_map(|content| content.items()).filter_map(|b| b.str_at("type")).collect();
    let of_anthropic = ["tool_use", "tool_result", "thinking", "redacted_thinking", "image", "document"];
    let anthropic = kinds.iter().any(|kind| of_anthropic.contains(&kind.as_ref()));
    Some(if anthropic { Dialect::AnthropicMessages } else { Dialect::OpenAiChat })
}

/// Returns true for a Responses body. `input` alone could also be a request for embeddings.
fn is_responses(body: Value<'_, '_>) -> bool {
    let Some(input) = body.get("input") else { return false };
    let items = input.items().next().is_some_and(|item| item.kind() == ValueKind::Object);
    let signs = ["instructions", "max_output_tokens", "previous_response_id", "reasoning", "store", "stream"];
    items || signs.iter().any(|name| body.get(name).is_some())
}
