//! Finds the position of a conversation that another scripted model served: a resumed run with a new scripted model.

use serde_saphyr::Spanned;
use session::{Block, CallId, Role};
use wire::dialect::Prompt;

use super::format::{ReplyItem, ScriptCall, Turn};
use super::template::Template;

/// The position of a conversation in the script.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PriorTurns {
    /// Index of the last used turn.
    pub(super) turn: usize,
    /// Number of its uses in a row.
    pub(super) times: u32,
    /// Number of replies so far.
    pub(super) replies: u32,
    /// The sent id of each call that the script names.
    pub(super) calls: Vec<(String, CallId)>,
}

/// Returns the position of a conversation whose last reply is like one of these turns. Of several similar turns, it takes the
/// one nearest to the number of replies.
pub(super) fn prior_turns(turns: &[Spanned<Turn>], prompt: &Prompt) -> Option<PriorTurns> {
    let replies = replies(prompt);
    let (last, before) = replies.split_last()?;
    let like = |index: &usize, reply: &[&Block]| is_like(&turns[*index].value, reply);
    let distance = |index: &usize| index.abs_diff(before.len());
    let turn = (0..turns.len()).filter(|index| like(index, last)).min_by_key(distance)?;
    let times = replies.iter().rev().take_while(|reply| like(&turn, reply)).count();
    let limit = turns[turn].value.times();
    Some(PriorTurns {
        turn,
        times: u32::try_from(times).unwrap_or(u32::MAX).min(limit),
        replies: u32::try_from(replies.len()).unwrap_or(u32::MAX),
        calls: calls(turns, prompt),
    })
}

/// Returns the blocks of each model reply. A dialect may divide one reply into several messages.
fn replies(prompt: &Prompt) -> Vec<Vec<&Block>> {
    let mut replies: Vec<Vec<&Block>> = Vec::new();
    let mut was_reply = false;
    for message in &prompt.messages {
        let is_reply = message.role == Role::Assistant;
        if is_reply && !was_reply {
            replies.push(Vec::new());
        }
        if let Some(reply) = replies.last_mut().filter(|_| is_reply) {
            reply.extend(message.parts.iter().map(|part| &part.block));
        }
        was_reply = is_reply;
    }
    replies
}

/// Returns whether the reply may come from the turn: the same texts, and calls of the same tools.
fn is_like(turn: &Turn, reply: &[&Block]) -> bool {
    let items = || turn.reply.iter().flatten().map(|item| &item.value);
    let called: Vec<&str> = reply.iter().filter_map(|block| tool_name(block)).collect();
    let planned: Vec<&[ScriptCall]> = items().filter_map(alternatives).collect();
    let same_calls = called.len() == planned.len()
        && called
            .iter()
            .zip(&planned)
            .all(|(name, calls)| calls.iter().any(|call| call.tool.0.iter().any(|tool| tool == name)));
    let said: Vec<&str> = reply.iter().filter_map(|block| block_text(block)).collect();
    let texts: Vec<&Template> = items().filter_map(item_text).collect();
    let same_words = said.len() == texts.len() && said.iter().zip(&texts).all(|(said, text)| text.fits(said));
    turn.reply.is_some() && same_calls && same_words
}

fn tool_name(block: &Block) -> Option<&str> {
    match block {
        Block::ToolCall(call) => Some(&call.name),
        _ => None,
    }
}

fn block_text(block: &Block) -> Option<&str> {
    match block {
        Block::Text { text } => Some(text),
        _ => None,
    }
}

fn alternatives(item: &ReplyItem) -> Option<&[ScriptCall]> {
    match item {
        ReplyItem::Call(calls) => Some(&calls.0),
        ReplyItem::Text(_) | ReplyItem::Thinking(_) => None,
    }
}

fn item_text(item: &ReplyItem) -> Option<&Template> {
    match item {
        ReplyItem::Text(template) => Some(template),
        ReplyItem::Thinking(_) | ReplyItem::Call(_) => None,
    }
}

/// Returns the sent ids of the calls that the script names: the same ids, or with a number appended.
fn calls(turns: &[Spanned<Turn>], prompt: &Prompt) -> Vec<(String, CallId)> {
    let items = turns.iter().flat_map(|turn| turn.value.reply.iter().flatten());
    let written =
        items.filter_map(|item| alternatives(&item.value)).flatten().filter_map(|call| call.id.as_ref());
    let mut found = Vec::new();
    for written in written {
        let is_it = |id: &str| {
            id.strip_prefix(written.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        if let Some(call) = prompt.calls().filter(|call| is_it(call.id.as_str())).last() {
            found.push((written.clone(), call.id.clone()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;
    use wire::dialect::Dialect;

    use super::*;
    use crate::script::Script;

    const SCRIPT: &str = r#"
format: 1
lanes:
  - lane: main
    match: { any: true }
    turns:
      - reply: [ { text: "First." }, { call: { tool: [read, Read], id: toolu_a, input: {} } } ]
      - repeat: 3
        reply: [ { call: { tool: read, id: toolu_poll, input: {} } } ]
      - when: { results_contain: "never" }
        reply: [ { text: "Skipped." } ]
      - reply: [ { text: "Filled ${lane}." } ]
"#;

    /// Returns the position after these replies: texts, or the tool and id of a call.
    fn position(replies: &[(&str, &str)]) -> Option<(usize, u32, u32, Vec<String>)> {
        let mut messages = vec![json!({"role": "user", "content": "go"})];
        for (what, id) in replies {
            let mut content = Vec::new();
            for piece in what.split('+') {
                content.push(match piece.strip_prefix('!') {
                    Some(tool) => json!({"type": "tool_use", "id": id, "name": tool, "input": {}}),
                    None => json!({"type": "text", "text": piece}),
                });
            }
            messages.push(json!({"role": "assistant", "content": content}));
            messages.push(json!({"role": "user", "content": "result"}));
        }
        let body = json!({"model": "m", "messages": messages}).to_string();
        let prompt = Dialect::AnthropicMessages.decode_request(body.as_bytes()).expect("a request");
        let script = Script::parse(SCRIPT, Path::new("s.yaml")).expect("a script");
        let prior = prior_turns(&script.lanes[0].turns.value, &prompt)?;
        let calls = prior.calls.iter().map(|(written, id)| format!("{written}={id}")).collect();
        Some((prior.turn, prior.times, prior.replies, calls))
    }

    #[test]
    fn the_last_reply_determines_the_position() {
        let first = ("First.+!read", "toolu_a");
        let poll = ("!read", "toolu_poll-2");
        assert_eq!(position(&[]), None);
        assert_eq!(
            position(&[("Something else.", "")]),
            None,
            "not from this script: it starts at the beginning"
        );
        assert_eq!(position(&[first]), Some((0, 1, 1, vec!["toolu_a=toolu_a".into()])));
        let two = vec!["toolu_a=toolu_a".into(), "toolu_poll=toolu_poll-2".into()];
        assert_eq!(position(&[first, poll, poll]), Some((1, 2, 3, two.clone())));
        assert_eq!(position(&[first, poll, ("Filled main.", "")]), Some((3, 1, 3, two)));
        assert_eq!(position(&[("Skipped.", "")]), Some((2, 1, 1, vec![])));
    }

    #[test]
    fn a_summarised_conversation_keeps_its_position() {
        // Only the last of three replies is left.
        let kept = position(&[("!read", "toolu_poll")]).expect("from this script");
        assert_eq!(kept.0, 1);
    }
}
