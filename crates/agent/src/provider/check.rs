//! Checks whether a complete reply can be acted on.

use session::StopReason;
use wire::dialect::{DecodedReply, DecodedResponse, Dialect, ProviderError};
use wire::json::{Document, Value, ValueKind};

use super::failure::{FailureKind, ProviderFailure, RetryAdvice};
use super::protocol::{calls, member, optional};
use super::response::CompleteReply;

/// Decodes a body that is complete, or was assembled from a complete stream.
pub(super) fn decode(dialect: Dialect, body: Vec<u8>) -> Result<CompleteReply, ProviderFailure> {
    let outcome = dialect.decode_reply(&body).map_err(|error| ProviderFailure::garbage(error.to_string()))?;
    let answer = match outcome {
        DecodedResponse::Reply(answer) => answer,
        DecodedResponse::Error(error) => return Err(ProviderFailure::in_stream(&error)),
        DecodedResponse::Other => {
            return Err(ProviderFailure::garbage(format!("the answer is JSON, but no {dialect} reply")));
        }
    };
    shape(dialect, &body).map_err(|what| ProviderFailure::garbage(format!("the answer holds {what}")))?;
    usable(dialect, &answer)?;
    Ok(CompleteReply { body, answer })
}

/// Checks the types that the decoder relies on. With other types it would miss content.
fn shape(dialect: Dialect, body: &[u8]) -> Result<(), String> {
    let document = Document::parse(body).map_err(|error| error.to_string())?;
    let root = document.root();
    match dialect {
        Dialect::AnthropicMessages => {
            for block in typed(member(root, "message", "content", &[ValueKind::Array])?)? {
                let strings: &[&str] = match block.str_at("type").as_deref() {
                    Some("text") => &["text"],
                    Some("thinking") => &["thinking"],
                    Some("tool_use") => &["id", "name"],
                    _ => &[],
                };
                for name in strings {
                    member(block, "block", name, &[ValueKind::String])?;
                }
            }
        }
        Dialect::OpenAiChat => {
            let choices = member(root, "completion", "choices", &[ValueKind::Array])?;
            let choice = choices.items().next().ok_or("no choice")?;
            let message = member(choice, "choice", "message", &[ValueKind::Object])?;
            optional(message, "message", "content", &[ValueKind::String, ValueKind::Array])?;
            calls(message)?;
        }
        Dialect::OpenAiResponses => {
            for item in typed(member(root, "response", "output", &[ValueKind::Array])?)? {
                for name in ["id", "call_id", "name", "arguments", "input"] {
                    optional(item, "item", name, &[ValueKind::String])?;
                }
                let Some(content) = optional(item, "item", "content", &[ValueKind::Array])? else { continue };
                for part in typed(content)? {
                    optional(part, "part", "text", &[ValueKind::String])?;
                }
            }
        }
    }
    Ok(())
}

/// Returns the items of a list, which must be objects with a `type`.
fn typed<'a, 'd>(list: Value<'a, 'd>) -> Result<Vec<Value<'a, 'd>>, String> {
    let items: Vec<_> = list.items().collect();
    let sound = |item: &Value<'_, '_>| item.kind() == ValueKind::Object && item.str_at("type").is_some();
    if items.iter().all(sound) { Ok(items) } else { Err("something that does not say what it is".to_owned()) }
}

/// Status words of the dialects for a failed reply.
const FAILED: &[&str] = &["error", "failed", "cancelled"];

fn usable(dialect: Dialect, answer: &DecodedReply) -> Result<(), ProviderFailure> {
    let reply = &answer.reply;
    match &reply.stop {
        None => return Err(ProviderFailure::garbage("the reply ends without saying why it stopped")),
        Some(StopReason::Other(word))
            if dialect != Dialect::AnthropicMessages && FAILED.contains(&word.as_str()) =>
        {
            return Err(ProviderFailure::in_stream(&ProviderError::new(word.clone(), "")));
        }
        Some(_) => {}
    }
    let cut = matches!(reply.stop, Some(StopReason::MaxTokens | StopReason::ContextWindow));
    let calls = reply.calls().count();
    let mut ids = Vec::new();
    for (at, call) in reply.calls().enumerate() {
        if call.id.as_str().is_empty() || call.name.is_empty() {
            return Err(ProviderFailure::garbage("a call without an id or without a name"));
        }
        if ids.contains(&call.id.as_str()) {
            return Err(ProviderFailure::garbage(format!("two calls with the id `{}`", call.id)));
        }
        ids.push(call.id.as_str());
        // If the output limit ended the reply with a call without input, the input may be lost.
        let lost = cut && at + 1 == calls && matches!(call.input.trim(), "" | "{}");
        if !lost && (call.input.is_empty() || is_object(&call.input)) {
            continue;
        }
        return Err(if cut {
            let message = format!("the output limit fell into the input of a call to `{}`", call.name);
            let hint = "allow more output, or ask for a smaller step";
            ProviderFailure::new(FailureKind::OutputLimit, message, RetryAdvice::No).hinted(hint)
        } else {
            ProviderFailure::garbage(format!("the input of a call to `{}` is not a JSON object", call.name))
        });
    }
    Ok(())
}

fn is_object(text: &str) -> bool {
    Document::parse(text.as_bytes()).is_ok_and(|document| document.root().kind() == ValueKind::Object)
}
