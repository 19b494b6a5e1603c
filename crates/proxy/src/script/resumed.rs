//! A conversation that comes with a past: a run that is resumed with a fresh scripted model.

use serde_saphyr::Spanned;
use session::{Block, CallId, Role};
use wire::dialect::Prompt;

use super::format::{Call, Item, Turn};
use super::template::Template;

/// Where a conversation stands that this script has not seen, though it may have said all of it before.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Past {
    /// The turn that was said last.
    pub(super) turn: usize,
    /// How often in a row.
    pub(super) times: u32,
    /// How many replies there were.
    pub(super) replies: u32,
    /// The script's ids of calls, and those that they went out with.
    pub(super) calls: Vec<(String, CallId)>,
}

/// The past of a conversation, as far as its last reply looks like one of these turns. Where several do, it is
/// the one that is nearest to the number of replies.
pub(super) fn past(turns: &[Spanned<Turn>], prompt: &Prompt) -> Option<Past> {
    let replies = replies(prompt);
    let (last, before) = replies.split_last()?;
    let like = |index: &usize, reply: &[&Block]| is_like(&turns[*index].value, reply);
    let distance = |index: &usize| index.abs_diff(before.len());
    let turn = (0..turns.len()).filter(|index| like(index, last)).min_by_key(distance)?;
    let times = replies.iter().rev().take_while(|reply| like(&turn, reply)).count();
    let limit = turns[turn].value.times();
    Some(Past {
        turn,
        times: u32::try_from(times).unwrap_or(u32::MAX).min(limit),
        replies: u32::try_from(replies.len()).unwrap_or(u32::MAX),
        calls: calls(turns, prompt),
    })
}

/// What the model said, reply by reply. A dialect may spread one over several messages.
fn replies(prompt: &Prompt) -> Vec<Vec<&Block>> {
    let mut replies: Vec<Vec<&Block>> = Vec::new();
    let mut speaking = false;
    for message in &prompt.messages {
        let says = message.role == Role::Assistant;
        if says && !speaking {
            replies.push(Vec::new());
        }
        if let Some(reply) = replies.last_mut().filter(|_| says) {
            reply.extend(message.parts.iter().map(|part| &part.block));
        }
        speaking = says;
    }
    replies
}

/// Whether a turn may have said this: the same words, and calls of the same tools.
fn is_like(turn: &Turn, reply: &[&Block]) -> bool {
    let items = || turn.reply.iter().flatten().map(|item| &item.value);
    let called: Vec<&str> = reply.iter().filter_map(|block| name(block)).collect();
    let planned: Vec<&[Call]> = items().filter_map(alternatives).collect();
    let same_calls = called.len() == planned.len()
        && called
            .iter()
            .zip(&planned)
            .all(|(name, calls)| calls.iter().any(|call| call.tool.0.iter().any(|tool| tool == name)));
    let said: Vec<&str> = reply.iter().filter_map(|block| words(block)).collect();
    let texts: Vec<&Template> = items().filter_map(text).collect();
    let same_words = said.len() == texts.len() && said.iter().zip(&texts).all(|(said, text)| text.fits(said));
    turn.reply.is_some() && same_calls && same_words
}

fn name(block: &Block) -> Option<&str> {
    match block {
        Block::ToolCall(call) => Some(&call.name),
        _ => None,
    }
}

fn words(block: &Block) -> Option<&str> {
    match block {
        Block::Text { text } => Some(text),
        _ => None,
    }
}

fn alternatives(item: &Item) -> Option<&[Call]> {
    match item {
        Item::Call(calls) => Some(&calls.0),
        Item::Text(_) | Item::Thinking(_) => None,
    }
}

fn text(item: &Item) -> Option<&Template> {
    match item {
        Item::Text(template) => Some(template),
        Item::Thinking(_) | Item::Call(_) => None,
    }
}

/// The ids of calls that the script names itself, as they are in the history: alone, or with a number behind them.
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

    /// The past of a conversation with these replies: words, or a call's tool and id.
    fn of(replies: &[(&str, &str)]) -> Option<(usize, u32, u32, Vec<String>)> {
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
        let past = past(&script.lanes[0].turns.value, &prompt)?;
        let calls = past.calls.iter().map(|(written, id)| format!("{written}={id}")).collect();
        Some((past.turn, past.times, past.replies, calls))
    }

    #[test]
    fn a_conversation_stands_where_its_last_reply_was_said() {
        let first = ("First.+!read", "toolu_a");
        let poll = ("!read", "toolu_poll-2");
        assert_eq!(of(&[]), None);
        assert_eq!(
            of(&[("Something else.", "")]),
            None,
            "not said by this script: it begins at its beginning"
        );
        assert_eq!(of(&[first]), Some((0, 1, 1, vec!["toolu_a=toolu_a".into()])));
        let two = vec!["toolu_a=toolu_a".into(), "toolu_poll=toolu_poll-2".into()];
        assert_eq!(of(&[first, poll, poll]), Some((1, 2, 3, two.clone())));
        assert_eq!(of(&[first, poll, ("Filled main.", "")]), Some((3, 1, 3, two)));
        assert_eq!(of(&[("Skipped.", "")]), Some((2, 1, 1, vec![])));
    }

    #[test]
    fn what_was_summed_up_still_stands_where_it_was() {
        // Only the last reply is left of three.
        let kept = of(&[("!read", "toolu_poll")]).expect("said by this script");
        assert_eq!(kept.0, 1);
    }
}
