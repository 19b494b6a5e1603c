//! Which lanes a live conversation has been served from.

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use session::{Block, Role};
use wire::dialect::Prompt;

/// A live conversation as numbers, one for each time it had been the model's turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Trail {
    /// What had been said then, the oldest first.
    before: Vec<u64>,
    /// What has been said now.
    now: u64,
}

/// Who answered which conversation so far.
#[derive(Debug, Default)]
pub(super) struct Served {
    lanes: HashMap<u64, BTreeSet<String>>,
}

impl Trail {
    /// The trail of a request; `follows` is the reply that it names instead of carrying it.
    pub(super) fn of(prompt: &Prompt, follows: Option<&str>) -> Self {
        let mut trail = Self { before: follows.map(reply).into_iter().collect(), now: 0 };
        let mut said = DefaultHasher::new();
        trail.before.hash(&mut said);
        let mut is_reply = false;
        for message in prompt.conversation() {
            if message.role == Role::Assistant {
                // One reply may be spread over several messages. Its words are the finder's business.
                if !is_reply {
                    trail.before.push(said.finish());
                }
                is_reply = true;
                continue;
            }
            is_reply = false;
            message.parts.iter().for_each(|part| hash(&part.block, &mut said));
        }
        trail.now = said.finish();
        trail
    }
}

impl Served {
    /// A lane answers a conversation, with the reply of this id.
    pub(super) fn note(&mut self, trail: &Trail, lane: &str, reply_id: Option<&str>) {
        for at in [Some(trail.now), reply_id.map(reply)].into_iter().flatten() {
            self.lanes.entry(at).or_default().insert(lane.to_owned());
        }
    }

    /// The lanes that answered a conversation, the newest turn's first. Twins share theirs.
    pub(super) fn lanes<'s>(&'s self, trail: &'s Trail) -> impl Iterator<Item = &'s BTreeSet<String>> {
        trail.before.iter().rev().filter_map(|at| self.lanes.get(at))
    }
}

fn reply(id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    ("reply", id).hash(&mut hasher);
    hasher.finish()
}

fn hash(block: &Block, said: &mut DefaultHasher) {
    match block {
        Block::Text { text } => text.trim().hash(said),
        Block::ToolResult(result) => {
            result.call.as_str().hash(said);
            result.blocks.iter().for_each(|block| hash(block, said));
        }
        other => format!("{other:?}").hash(said),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use wire::dialect::Dialect;

    use super::*;

    fn trail(dialect: Dialect, body: Value, follows: Option<&str>) -> Trail {
        Trail::of(&dialect.decode_request(body.to_string().as_bytes()).expect("a request"), follows)
    }

    fn lanes(served: &Served, trail: &Trail) -> Vec<String> {
        served.lanes(trail).map(|lanes| lanes.iter().cloned().collect::<Vec<_>>().join("+")).collect()
    }

    #[test]
    fn a_conversation_is_known_by_what_was_said_before_and_the_newest_counts_first() {
        let say = |said: &[&str]| {
            let role = |at: usize| if at.is_multiple_of(2) { "user" } else { "assistant" };
            let messages: Vec<Value> = said
                .iter()
                .enumerate()
                .map(|(at, text)| json!({"role": role(at), "content": [{"type": "text", "text": text}]}))
                .collect();
            trail(Dialect::AnthropicMessages, json!({"model": "m", "messages": messages}), None)
        };
        let mut served = Served::default();
        served.note(&say(&["tides"]), "sub-1", None);
        served.note(&say(&["boats"]), "sub-2", None);
        served.note(&say(&["tides", "well", "go on"]), "sub-3", None);
        for (said, expected) in [
            (vec!["tides"], vec![]),
            (vec!["boats", "well", "go on"], vec!["sub-2"]),
            (vec!["tides", "well", "turn back"], vec!["sub-1"]),
            (vec![" tides\n", "well", "go on", "and", "on"], vec!["sub-3", "sub-1"]),
            (vec!["winds", "well", "go on"], vec![]),
        ] {
            assert_eq!(lanes(&served, &say(&said)), expected, "{said:?}");
        }
        served.note(&say(&["boats"]), "sub-4", None);
        assert_eq!(lanes(&served, &say(&["boats", "well", "go on"])), ["sub-2+sub-4"], "twins share theirs");
    }

    #[test]
    fn a_reply_that_is_named_and_not_carried_is_known_by_its_id() {
        let say =
            |text, follows| trail(Dialect::OpenAiResponses, json!({"model": "m", "input": text}), follows);
        let mut served = Served::default();
        served.note(&say("tides", None), "sub-1", Some("resp_1"));
        served.note(&say("boats", None), "sub-2", Some("resp_2"));
        for (follows, expected) in [("resp_1", vec!["sub-1"]), ("resp_2", vec!["sub-2"]), ("resp_3", vec![])]
        {
            assert_eq!(lanes(&served, &say("go on", Some(follows))), expected, "{follows}");
        }
    }
}
