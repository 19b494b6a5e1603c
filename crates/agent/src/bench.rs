//! Entry points of benchmarks.

use session::{Block, CallId, Message, Role, RunId};
use store::{CallKey, CallStatus, Head, Origin, Policy, Purpose, Seq, StoredToolCall};
use wire::dialect::Dialect;

use crate::conversation::{Conversation, WireMessage};
use crate::fork::ForkPoint;
use crate::prompts::{self, text_block};

const DIALECT: Dialect = Dialect::AnthropicMessages;

/// A conversation at a turn that can be forked.
pub struct Parent {
    conversation: Conversation,
    point: ForkPoint,
}

impl Parent {
    /// Creates one with that many messages of that many bytes each.
    pub fn new(messages: i64, bytes: usize) -> Self {
        let head = Head::new(&br#"{"model":"m","max_tokens":1000,"messages":["#[..]);
        let run = RunId::new("m");
        let messages_of = (1..=messages).map(|seq| {
            let role = if seq % 2 == 0 { Role::Assistant } else { Role::User };
            let origin = if seq % 2 == 0 { Origin::Reply } else { Origin::Results };
            let text = format!("{seq} {}", "abcdefghijklmnop ".repeat(bytes / 17));
            let message = Message { role, blocks: vec![Block::Text { text }] };
            let bytes = DIALECT.encode_message(&message).expect("words can always be said");
            WireMessage { seq: Seq(seq), role, origin, bytes }
        });
        let key = |position| CallKey { run: run.clone(), message: Seq(messages), position };
        let calls = (0..4).map(|position| StoredToolCall {
            key: key(position),
            call: CallId::new(format!("call_{position}")),
            name: "spawn_sub_agent".to_owned(),
            input: b"{}".to_vec(),
            policy: Policy::Idempotent,
            status: CallStatus::Running,
            result: None,
            preview: None,
            started_at: None,
            ended_at: None,
        });
        let calls = calls.collect();
        let point = ForkPoint::of(run, head.hash(), Seq(1), Seq(messages), calls);
        Self { conversation: Conversation::with(DIALECT, head, messages_of.collect()), point }
    }

    /// Builds the first request of a fork. The fork is not kept.
    pub fn fork(&mut self, prompt: &str) -> Vec<u8> {
        let mut blocks = self.point.results();
        blocks.push(text_block(&prompts::fork(prompt)));
        let first = self.conversation.encode(blocks).expect("words can always be said");
        self.conversation.prompted(self.conversation.next_seq(), Origin::Prompt, first);
        let to = self.conversation.last_for(Purpose::Turn);
        let (body, _) = self.conversation.request(&self.conversation.head, to, None);
        self.conversation.messages.pop();
        body
    }
}
