//! What is measured by itself, and by nothing else used.

use session::{Block, CallId, Message, Role, RunId};
use store::{CallKey, CallStatus, Head, Origin, Policy, Purpose, Seq, StoredToolCall};
use wire::dialect::Dialect;

use crate::conversation::{Conversation, Said};
use crate::fork::ForkPoint;
use crate::tool;
use crate::words;

const DIALECT: Dialect = Dialect::AnthropicMessages;

/// A conversation of some length, at a turn that may be forked.
pub struct Parent {
    talk: Conversation,
    point: ForkPoint,
}

impl Parent {
    /// One with that many messages of that many bytes each.
    pub fn new(messages: i64, bytes: usize) -> Self {
        let head = Head::new(&br#"{"model":"m","max_tokens":1000,"messages":["#[..]);
        let run = RunId::new("m");
        let said = (1..=messages).map(|seq| {
            let role = if seq % 2 == 0 { Role::Assistant } else { Role::User };
            let origin = if seq % 2 == 0 { Origin::Reply } else { Origin::Results };
            let text = format!("{seq} {}", "abcdefghijklmnop ".repeat(bytes / 17));
            let message = Message { role, blocks: vec![Block::Text { text }] };
            let bytes = DIALECT.encode_message(&message).expect("words can always be said");
            Said { seq: Seq(seq), role, origin, bytes }
        });
        let said: Vec<Said> = said.collect();
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
        Self { talk: Conversation::with(DIALECT, head, said), point }
    }

    /// Builds the first request of a fork, and forgets the fork again.
    pub fn fork(&mut self, prompt: &str) -> Vec<u8> {
        let mut blocks = self.point.results();
        blocks.push(tool::text(&words::fork(prompt)));
        let first = self.talk.encode(blocks).expect("words can always be said");
        self.talk.said(self.talk.next_seq(), Origin::Prompt, first);
        let to = self.talk.last_for(Purpose::Turn);
        let (body, _) = self.talk.request(&self.talk.head, to, None);
        self.talk.messages.pop();
        body
    }
}
