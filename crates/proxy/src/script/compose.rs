//! Composes the reply of a turn to one request.

use serde_json::Value;
use session::{Block, CallId, Reply, ToolCall, Usage};
use wire::dialect::{Dialect, Prompt, ToolExecution};

use super::format::{ReplyItem, ScriptCall, ScriptFailure, ScriptTokens, Turn};
use super::player::{ClaimedTurn, ScriptMiss, ScriptPlayer, ScriptedReply};
use super::prompt_text;
use super::template::Template;

/// The signature of all thinking blocks. Harnesses send it back.
const SIGNATURE: &str = "c2NyaXB0ZWQ=";

impl ScriptPlayer {
    /// Returns the reply of the turn to this request. A repeated request gets the same reply.
    pub(super) fn reply(
        &mut self,
        claimed: &ClaimedTurn,
        prompt: &Prompt,
    ) -> Result<ScriptedReply, ScriptMiss> {
        if let Some(reply) = self.earlier_reply(claimed) {
            return Ok(ScriptedReply::Reply(reply.clone()));
        }
        self.capture_values(claimed, prompt);
        let reply = compose(self, claimed, prompt)?;
        self.keep_reply(claimed, &reply);
        Ok(reply)
    }
}

/// Composes the reply or error of a turn.
fn compose(
    player: &mut ScriptPlayer,
    claimed: &ClaimedTurn,
    prompt: &Prompt,
) -> Result<ScriptedReply, ScriptMiss> {
    let turn = player.turn_of(claimed).clone();
    match &turn.error {
        Some(failure) => error(player, claimed, failure),
        None => reply(player, claimed, &turn, prompt).map(ScriptedReply::Reply),
    }
}

fn error(
    player: &ScriptPlayer,
    claimed: &ClaimedTurn,
    failure: &ScriptFailure,
) -> Result<ScriptedReply, ScriptMiss> {
    let message = match &failure.message {
        Some(message) => message.fill(|name| player.value(claimed, name))?,
        None => format!("error scripted by {}", player.name(claimed)),
    };
    let ScriptFailure { status, kind, retry_after, .. } = failure;
    Ok(ScriptedReply::Error { status: status.0, kind: kind.clone(), message, retry_after: *retry_after })
}

fn reply(
    player: &mut ScriptPlayer,
    claimed: &ClaimedTurn,
    turn: &Turn,
    prompt: &Prompt,
) -> Result<Reply, ScriptMiss> {
    // All that can fail comes before the first id is used, so that a retry gets the same ids.
    let mut draft = Vec::new();
    for item in turn.reply.iter().flatten() {
        draft.push(match &item.value {
            ReplyItem::Text(text) => DraftPart::Text(text.fill(|name| player.value(claimed, name))?),
            ReplyItem::Thinking(text) => DraftPart::Thinking(text.fill(|name| player.value(claimed, name))?),
            ReplyItem::Call(alternatives) => {
                let (call, name, execution) = choose(player, claimed, &alternatives.0, prompt)?;
                DraftPart::Call(call, name, input(player, claimed, &call.input, execution)?)
            }
        });
    }
    let stem = format!("{}_{}", slug(&player.agent(claimed).name), claimed.number);
    let (of_reply, of_call) = prefixes(prompt.dialect);
    let mut blocks = Vec::new();
    for (at, part) in draft.into_iter().enumerate() {
        blocks.push(match part {
            DraftPart::Text(text) => Block::Text { text },
            DraftPart::Thinking(text) => Block::Thinking { text, signature: Some(SIGNATURE.into()) },
            DraftPart::Call(call, name, input) => {
                let wanted = match &call.id {
                    Some(written) => player.agent(claimed).call_id(written),
                    None => format!("{of_call}_{stem}_{at}"),
                };
                let id = CallId::new(player.unique_id(&wanted));
                if let Some(written) = &call.id {
                    player.agent(claimed).calls.insert(written.clone(), id.clone());
                }
                Block::ToolCall(ToolCall { id, name, input, server: false })
            }
        });
    }
    let has_calls = blocks.iter().any(|block| matches!(block, Block::ToolCall(_)));
    let ScriptTokens { input, output, cache_read, cache_write } = turn.usage;
    Ok(Reply {
        id: player.unique_id(&format!("{of_reply}_{stem}")),
        model: prompt.model.clone().unwrap_or_else(|| "scripted".into()),
        blocks,
        stop: Some(player.stop_reason(claimed, has_calls)),
        usage: Usage { input, output, cache_read, cache_write_5m: cache_write, ..Usage::default() },
    })
}

/// A part of a reply that has no id yet.
enum DraftPart<'t> {
    Text(String),
    Thinking(String),
    Call(&'t ScriptCall, String, String),
}

/// Returns the first alternative with a tool that the request offers, else the first that needs no offer.
fn choose<'t>(
    player: &ScriptPlayer,
    claimed: &ClaimedTurn,
    alternatives: &'t [ScriptCall],
    prompt: &Prompt,
) -> Result<(&'t ScriptCall, String, ToolExecution), ScriptMiss> {
    let named = || alternatives.iter().flat_map(|call| call.tool.0.iter().map(move |name| (call, name)));
    let found = named().find_map(|(call, name)| {
        Some((call, name.clone(), prompt_text::offered_tool(prompt, name)?.execution))
    });
    let unoffered = || {
        named()
            .find(|(call, _)| call.unoffered)
            .map(|(call, name)| (call, name.clone(), ToolExecution::Function))
    };
    found.or_else(unoffered).ok_or_else(|| {
        let wanted: Vec<_> = named().map(|(_, name)| format!("`{name}`")).collect();
        let there: Vec<_> = prompt.tools.iter().map(|tool| format!("`{}`", tool.name)).collect();
        let there = if there.is_empty() { "no tool".to_owned() } else { there.join(", ") };
        ScriptMiss(format!(
            "{} calls {}; the request offers {there}",
            player.name(claimed),
            wanted.join(" or ")
        ))
    })
}

fn input(
    player: &ScriptPlayer,
    claimed: &ClaimedTurn,
    input: &Value,
    execution: ToolExecution,
) -> Result<String, ScriptMiss> {
    match fill(player, claimed, input)? {
        Value::Null if execution == ToolExecution::Custom => Ok(String::new()),
        Value::Null => Ok("{}".to_owned()),
        Value::String(text) => Ok(text),
        value => Ok(value.to_string()),
    }
}

fn fill(player: &ScriptPlayer, claimed: &ClaimedTurn, value: &Value) -> Result<Value, ScriptMiss> {
    Ok(match value {
        Value::String(text) => {
            let template = Template::parse(text).expect("checked when the script was read");
            Value::String(template.fill(|name| player.value(claimed, name))?)
        }
        Value::Array(list) => {
            Value::Array(list.iter().map(|value| fill(player, claimed, value)).collect::<Result<_, _>>()?)
        }
        Value::Object(object) => {
            let filled = object.iter().map(|(name, value)| Ok((name.clone(), fill(player, claimed, value)?)));
            Value::Object(filled.collect::<Result<_, _>>()?)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    })
}

/// Returns the prefixes of ids of replies and calls.
fn prefixes(dialect: Dialect) -> (&'static str, &'static str) {
    match dialect {
        Dialect::AnthropicMessages => ("msg", "toolu"),
        Dialect::OpenAiChat => ("chatcmpl", "call"),
        Dialect::OpenAiResponses => ("resp", "call"),
    }
}

/// Converts a name to characters that providers allow in ids.
fn slug(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect()
}
