//! Remembers which recorded lanes served a live conversation so far.

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use session::{Block, Role};
use wire::dialect::Prompt;

/// Digests of a live conversation as it was at each of its requests. The model's replies are not part of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ConversationDigests {
    /// Digests at the earlier requests, oldest first.
    earlier: Vec<u64>,
    /// Digest at this request.
    current: u64,
}

/// The lanes that served each conversation so far.
#[derive(Debug, Default)]
pub(super) struct ServedLanes {
    lanes: HashMap<u64, BTreeSet<String>>,
}

impl ConversationDigests {
    /// Computes the digests of a request. `follows` is the reply that the request names if it does not carry its history.
    pub(super) fn new(prompt: &Prompt, follows: Option<&str>) -> Self {
        let mut digests = Self { earlier: follows.map(reply_digest).into_iter().collect(), current: 0 };
        let mut hasher = DefaultHasher::new();
        digests.earlier.hash(&mut hasher);
        let mut is_reply = false;
        for message in prompt.conversation() {
            if message.role == Role::Assistant {
                // One reply may consist of several messages. Its text is compared by the matcher.
                if !is_reply {
                    digests.earlier.push(hasher.finish());
                }
                is_reply = true;
                continue;
            }
            is_reply = false;
            message.parts.iter().for_each(|part| hash_block(&part.block, &mut hasher));
        }
        digests.current = hasher.finish();
        digests
    }
}

impl ServedLanes {
    /// Notes that `lane` serves this request of a conversation, with the reply `reply_id`.
    pub(super) fn insert(&mut self, digests: &ConversationDigests, lane: &str, reply_id: Option<&str>) {
        for digest in [Some(digests.current), reply_id.map(reply_digest)].into_iter().flatten() {
            self.lanes.entry(digest).or_default().insert(lane.to_owned());
        }
    }

    /// Returns the lanes that served the earlier requests of a conversation, newest request first. Conversations with
    /// equal requests share their lanes.
    pub(super) fn lanes<'s>(
        &'s self,
        digests: &'s ConversationDigests,
    ) -> impl Iterator<Item = &'s BTreeSet<String>> {
        digests.earlier.iter().rev().filter_map(|digest| self.lanes.get(digest))
    }
}

fn reply_digest(id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    ("reply", id).hash(&mut hasher);
    hasher.finish()
}

fn hash_block(block: &Block, hasher: &mut DefaultHasher) {
    match block {
        Block::Text { text } => text.trim().hash(hasher),
        Block::ToolResult(result) => {
            result.call.as_str().hash(hasher);
            result.blocks.iter().for_each(|block| hash_block(block, hasher));
        }
        other => format!("{other:?}").hash(hasher),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use wire::dialect::Dialect;

    use super::*;

    fn digests(dialect: Dialect, body: Value, follows: Option<&str>) -> ConversationDigests {
        let prompt = dialect.decode_request(body.to_string().as_bytes()).expect("a request");
        ConversationDigests::new(&prompt, follows)
    }

    fn lanes(served: &ServedLanes, digests: &ConversationDigests) -> Vec<String> {
        served.lanes(digests).map(|lanes| lanes.iter().cloned().collect::<Vec<_>>().join("+")).collect()
    }

    #[test]
    fn the_newest_earlier_request_of_a_conversation_comes_first() {
        let say = |said: &[&str]| {
            let role = |at: usize| if at.is_multiple_of(2) { "user" } else { "assistant" };
            let messages: Vec<Value> = said
                .iter()
                .enumerate()
                .map(|(at, text)| json!({"role": role(at), "content": [{"type": "text", "text": text}]}))
                .collect();
            digests(Dialect::AnthropicMessages, json!({"model": "m", "messages": messages}), None)
        };
        let mut served = ServedLanes::default();
        served.insert(&say(&["tides"]), "sub-1", None);
        served.insert(&say(&["boats"]), "sub-2", None);
        served.insert(&say(&["tides", "well", "go on"]), "sub-3", None);
        for (said, expected) in [
            (vec!["tides"], vec![]),
            (vec!["boats", "well", "go on"], vec!["sub-2"]),
            (vec!["tides", "well", "turn back"], vec!["sub-1"]),
            (vec![" tides\n", "well", "go on", "and", "on"], vec!["sub-3", "sub-1"]),
            (vec!["winds", "well", "go on"], vec![]),
        ] {
            assert_eq!(lanes(&served, &say(&said)), expected, "{said:?}");
        }
        served.insert(&say(&["boats"]), "sub-4", None);
        assert_eq!(lanes(&served, &say(&["boats", "well", "go on"])), ["sub-2+sub-4"], "twins share theirs");
    }

    #[test]
    fn a_reply_that_is_named_and_not_carried_is_found_by_its_id() {
        let say =
            |text, follows| digests(Dialect::OpenAiResponses, json!({"model": "m", "input": text}), follows);
        let mut served = ServedLanes::default();
        served.insert(&say("tides", None), "sub-1", Some("resp_1"));
        served.insert(&say("boats", None), "sub-2", Some("resp_2"));
        for (follows, expected) in [("resp_1", vec!["sub-1"]), ("resp_2", vec!["sub-2"]), ("resp_3", vec![])]
        {
            assert_eq!(lanes(&served, &say("go on", Some(follows))), expected, "{follows}");
        }
    }
}
