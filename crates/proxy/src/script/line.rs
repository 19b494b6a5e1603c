//! The words of a turn: a reply put together for one request.

use serde_json::Value;
use session::{Block, CallId, Reply, ToolCall, Usage};
use wire::dialect::{Dialect, Prompt, ToolExecution};

use super::ask;
use super::format::{Call, Failure, Item, Tokens, Turn};
use super::play::{Line, Miss, Play, Ticket};
use super::template::Template;

/// What every thought is signed with; harnesses send it back.
const SIGNATURE: &str = "c2NyaXB0ZWQ=";

pub(super) fn compose(play: &mut Play, ticket: &Ticket, prompt: &Prompt) -> Result<Line, Miss> {
    let turn = play.turn_of(ticket).clone();
    match &turn.error {
        Some(failure) => error(play, ticket, failure),
        None => reply(play, ticket, &turn, prompt).map(Line::Reply),
    }
}

fn error(play: &Play, ticket: &Ticket, failure: &Failure) -> Result<Line, Miss> {
    let message = match &failure.message {
        Some(message) => message.fill(|name| play.value(ticket, name))?,
        None => format!("{} of the script says so", play.name(ticket)),
    };
    let Failure { status, kind, retry_after, .. } = failure;
    Ok(Line::Error { status: status.0, kind: kind.clone(), message, retry_after: *retry_after })
}

fn reply(play: &mut Play, ticket: &Ticket, turn: &Turn, prompt: &Prompt) -> Result<Reply, Miss> {
    // Whatever can go wrong comes before the first id is given out: an attempt must get the same ones.
    let mut said = Vec::new();
    for item in turn.reply.iter().flatten() {
        said.push(match &item.value {
            Item::Text(text) => Said::Text(text.fill(|name| play.value(ticket, name))?),
            Item::Thinking(text) => Said::Thinking(text.fill(|name| play.value(ticket, name))?),
            Item::Call(alternatives) => {
                let (call, name, runs) = choose(play, ticket, &alternatives.0, prompt)?;
                Said::Call(call, name, input(play, ticket, &call.input, runs)?)
            }
        });
    }
    let stem = format!("{}_{}", slug(&play.agent(ticket).name), ticket.number);
    let (of_reply, of_call) = prefixes(prompt.dialect);
    let mut blocks = Vec::new();
    for (at, said) in said.into_iter().enumerate() {
        blocks.push(match said {
            Said::Text(text) => Block::Text { text },
            Said::Thinking(text) => Block::Thinking { text, signature: Some(SIGNATURE.into()) },
            Said::Call(call, name, input) => {
                let wanted = match &call.id {
                    Some(written) => play.agent(ticket).call_id(written),
                    None => format!("{of_call}_{stem}_{at}"),
                };
                let id = CallId::new(play.unique(&wanted));
                if let Some(written) = &call.id {
                    play.agent(ticket).calls.insert(written.clone(), id.clone());
                }
                Block::ToolCall(ToolCall { id, name, input, server: false })
            }
        });
    }
    let calls = blocks.iter().any(|block| matches!(block, Block::ToolCall(_)));
    let Tokens { input, output, cache_read, cache_write } = turn.usage;
    Ok(Reply {
        id: play.unique(&format!("{of_reply}_{stem}")),
        model: prompt.model.clone().unwrap_or_else(|| "scripted".into()),
        blocks,
        stop: Some(play.stop(ticket, calls)),
        usage: Usage { input, output, cache_read, cache_write_5m: cache_write, ..Usage::default() },
    })
}

/// A part of a reply that lacks only its id.
enum Said<'t> {
    Text(String),
    Thinking(String),
    Call(&'t Call, String, String),
}

/// The first alternative, and of its tools the first, that the request offers; else the first that needs no offer.
fn choose<'t>(
    play: &Play,
    ticket: &Ticket,
    alternatives: &'t [Call],
    prompt: &Prompt,
) -> Result<(&'t Call, String, ToolExecution), Miss> {
    let named = || alternatives.iter().flat_map(|call| call.tool.0.iter().map(move |name| (call, name)));
    let found =
        named().find_map(|(call, name)| Some((call, name.clone(), ask::offered(prompt, name)?.execution)));
    let unoffered = || {
        named()
            .find(|(call, _)| call.unoffered)
            .map(|(call, name)| (call, name.clone(), ToolExecution::Function))
    };
    found.or_else(unoffered).ok_or_else(|| {
        let wanted: Vec<_> = named().map(|(_, name)| format!("`{name}`")).collect();
        let there: Vec<_> = prompt.tools.iter().map(|tool| format!("`{}`", tool.name)).collect();
        let there = if there.is_empty() { "no tool".to_owned() } else { there.join(", ") };
        Miss(format!("{} calls {}; the request offers {there}", play.name(ticket), wanted.join(" or ")))
    })
}

fn input(play: &Play, ticket: &Ticket, input: &Value, runs: ToolExecution) -> Result<String, Miss> {
    match fill(play, ticket, input)? {
        Value::Null if runs == ToolExecution::Custom => Ok(String::new()),
        Value::Null => Ok("{}".to_owned()),
        Value::String(text) => Ok(text),
        value => Ok(value.to_string()),
    }
}

fn fill(play: &Play, ticket: &Ticket, value: &Value) -> Result<Value, Miss> {
    Ok(match value {
        Value::String(text) => {
            let template = Template::parse(text).expect("checked when the script was read");
            Value::String(template.fill(|name| play.value(ticket, name))?)
        }
        Value::Array(list) => {
            Value::Array(list.iter().map(|value| fill(play, ticket, value)).collect::<Result<_, _>>()?)
        }
        Value::Object(object) => {
            let filled = object.iter().map(|(name, value)| Ok((name.clone(), fill(play, ticket, value)?)));
            Value::Object(filled.collect::<Result<_, _>>()?)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    })
}

/// What ids of replies and calls begin with.
fn prefixes(dialect: Dialect) -> (&'static str, &'static str) {
    match dialect {
        Dialect::AnthropicMessages => ("msg", "toolu"),
        Dialect::OpenAiChat => ("chatcmpl", "call"),
        Dialect::OpenAiResponses => ("resp", "call"),
    }
}

/// A name as part of an id, in which providers allow little.
fn slug(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect()
}
