//! Accumulates a stream.

use crate::dialect::ProviderError;
use crate::dialect::builder::{Log, MessageBuilder, StreamEnd};
use crate::dialect::cursor::Cursor;
use crate::dialect::raw::{Object, array};
use crate::sse::Frame;

use super::decode_error;
use super::merge::{DeltaContext, Tree};

#[derive(Debug, Default)]
pub(in crate::dialect) struct CompletionStream {
    /// The body without its choices.
    body: Option<Object>,
    choices: Vec<Choice>,
    done: bool,
    error: Option<ProviderError>,
}

#[derive(Debug)]
struct Choice {
    index: u64,
    /// Members in the order of their first appearance, with the message among them.
    members: Vec<(String, Tree)>,
}

/// Members of a delta.
const DELTAS: &[&str] = &[
    "annotations",
    "audio",
    "content",
    "function_call",
    "images",
    "reasoning",
    "reasoning_content",
    "reasoning_details",
    "refusal",
    "role",
    "tool_calls",
];

impl MessageBuilder for CompletionStream {
    fn push_plain(&mut self, data: &str) -> bool {
        let done = data == "[DONE]";
        self.done |= done;
        done
    }

    fn push_event(&mut self, frame: &Frame, data: &Cursor<'_, '_>, log: &mut Log) {
        // Some providers report an error for the whole reply, others for a choice.
        let of_choice = || data.get("choices")?.items().next()?.get("error");
        if let Some(error) = data.get("error").or_else(of_choice) {
            self.error = Some(decode_error(&error));
        }
        if data.value.get("choices").is_none() {
            if self.error.is_none() {
                log.unknown("", "event without choices");
            }
            return;
        }
        let body = self.body.get_or_insert_default();
        for member in data.value.members() {
            match member.name().as_ref() {
                "obfuscation" | "error" => {} // padding, and handled above
                "object" => body.set("object", "\"chat.completion\""),
                "choices" => body.set("choices", "[]"),
                name if body.get(name).is_none() => body.set(name, member.value.raw()),
                name if !matches!(member.value.raw(), "null" | "\"\"") => body.set(name, member.value.raw()),
                _ => {}
            }
        }
        for choice in data.get("choices").iter().flat_map(Cursor::items) {
            self.choice(frame, &choice, log);
        }
    }

    fn finish(&mut self, _: &mut Log) -> (Option<String>, StreamEnd) {
        let end = match self.error.take() {
            Some(error) => StreamEnd::Failed(error),
            None if self.done => StreamEnd::Complete,
            None => StreamEnd::Early,
        };
        let Some(mut body) = self.body.take() else { return (None, end) };
        self.choices.sort_by_key(|choice| choice.index);
        body.set("choices", array(self.choices.drain(..).map(Choice::json)));
        (Some(body.json()), end)
    }
}

impl CompletionStream {
    fn choice(&mut self, frame: &Frame, at: &Cursor<'_, '_>, log: &mut Log) {
        let index = at.number("index");
        let position = self.choices.iter().position(|choice| choice.index == index).unwrap_or_else(|| {
            self.choices.push(Choice { index, members: Vec::new() });
            self.choices.len() - 1
        });
        let choice = &mut self.choices[position];
        for member in at.value.members() {
            let name = member.name();
            let name = if name == "delta" { "message" } else { name.as_ref() };
            if name == "message" {
                let unknown =
                    member.value.members().map(|m| m.name()).filter(|m| !DELTAS.contains(&m.as_ref()));
                unknown.for_each(|m| log.unknown(format!("{}/delta", at.pointer), format!("delta `{m}`")));
            }
            let pointer = format!("/choices/{index}/{name}");
            // Later chunks repeat the members of a choice. The last value counts.
            let depth = if ["message", "logprobs"].contains(&name) { 0 } else { usize::MAX };
            let place = DeltaContext { frame, pointer, name: name.to_owned(), depth };
            choice.member(name).add(member.value, &place, log);
        }
    }
}

impl Choice {
    fn member(&mut self, name: &str) -> &mut Tree {
        let known = self.members.iter().position(|(known, _)| known == name);
        let at = known.unwrap_or_else(|| {
            self.members.push((name.to_owned(), Tree::null()));
            self.members.len() - 1
        });
        &mut self.members[at].1
    }

    fn json(mut self) -> String {
        for (name, tree) in &mut self.members {
            if let ("message", Tree::Map(message)) = (name.as_str(), tree) {
                for (name, tree) in message {
                    if name == "tool_calls" {
                        tree.remove_from_items("index");
                    }
                }
            }
        }
        Tree::Map(self.members).json()
    }
}
