//! Random conversations on the pure builder: with any messages, calls, forks and wake-ups, every request of a lane starts
//! with the one before, and a fork's with its parent's reply. Every step reads the journal again, as after a
//! restart.

use session::{Block, CallId, Reply, Role, RunId, StopReason, ThreadId, ToolResult, Usage};
use store::{
    CallKey, CallStatus, Digest, Head, InboxEntry, InboxId, InboxKind, Millis, ModelCall, ModelCallId,
    ModelCallStatus, Origin, Policy, Purpose, RunKind, RunSnapshot, RunStatus, Seq, StoredMessage,
    StoredToolCall,
};
use wire::dialect::{DecodedResponse, Dialect, Draft, DraftMarker, Element, MarkerTarget, ToolSpec};

use super::{DIALECTS, laws};
use crate::conversation::{Conversation, Next};
use crate::fork::ForkPoint;
use crate::preview;
use crate::settings::RunSettings;
use crate::*;

/// One agent, as the journal has it.
#[derive(Clone)]
struct Lane {
    id: RunId,
    messages: Vec<StoredMessage>,
    calls: Vec<StoredToolCall>,
    last: Option<ModelCall>,
    /// Its requests, in order.
    sent: Vec<Vec<u8>>,
}

/// A conversation with all its forks.
struct World {
    rng: fastrand::Rng,
    dialect: Dialect,
    head: Head,
    settings: RunSettings,
    lanes: Vec<Lane>,
    number: i64,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let dialect = *rng.choice(&DIALECTS).expect("three");
        let mark = |on| DraftMarker { on, ttl: None };
        let spec =
            ToolSpec { name: "t".into(), description: "d".into(), schema: r#"{"type":"object"}"#.into() };
        let is_marked = dialect == Dialect::AnthropicMessages;
        let draft = Draft {
            model: "m".to_owned(),
            stream: true,
            tools: vec![Element::Value(spec)],
            system: vec![Element::Value(Block::Text { text: "You are.".to_owned() })],
            marks: if is_marked {
                vec![mark(MarkerTarget::Tool(0)), mark(MarkerTarget::System(0))]
            } else {
                Vec::new()
            },
            max_tokens: Some(1000),
            ..Draft::default()
        };
        let head = Head::new(dialect.encode_head(&draft).expect("a head"));
        let limits = RunLimits { max_steps: 1000, compact_at: u64::MAX, ..RunLimits::of("m") };
        let settings = RunSettings::new(dialect, &limits, String::new(), "/w".to_owned());
        let mut world = Self { rng, dialect, head, settings, lanes: Vec::new(), number: 0 };
        let first = world.message(Seq(1), Role::User, Origin::Prompt, vec![world.text()]);
        let id = RunId::new("m");
        let lane = Lane { id, messages: vec![first], calls: Vec::new(), last: None, sent: Vec::new() };
        world.lanes.push(lane);
        world
    }

    fn text(&self) -> Block {
        Block::Text { text: format!("words \"quoted\" ü {}", self.rng.clone().u32(..1000)) }
    }

    fn message(&self, seq: Seq, role: Role, origin: Origin, blocks: Vec<Block>) -> StoredMessage {
        let bytes = self.dialect.encode_message(&session::Message { role, blocks }).expect("it can be said");
        StoredMessage {
            seq,
            role,
            origin,
            bytes: bytes.into_bytes(),
            text: None,
            model_call: None,
            at: Millis(0),
        }
    }

    /// The lane's conversation, read from its journal.
    fn talk(&self, lane: usize) -> Conversation {
        let lane = &self.lanes[lane];
        let journal = RunSnapshot {
            run: row(&lane.id),
            last_seq: lane.messages.last().map(|message| message.seq),
            messages: lane.messages.clone(),
            last_call: lane.last.clone(),
            calls: lane.calls.clone(),
        };
        Conversation::of(journal, self.dialect, self.head.clone())
    }

    /// One step of a lane: whatever comes next.
    fn step(&mut self, at: usize) {
        let mut talk = self.talk(at);
        if self.rng.u8(..4) == 0 {
            self.number += 1;
            let body = format!("<job_ended job_id=\"j{}\">news</job_ended>", self.number).into_bytes();
            let (id, kind) = (InboxId(self.number), InboxKind::Job);
            talk.set_inbox(vec![InboxEntry { id, kind, job: None, body, at: Millis(0) }]);
        }
        match talk.next(&self.settings, false) {
            Next::Call => self.call(at),
            Next::Ask(telling) => {
                let seq = talk.next_seq();
                if !telling.blocks.is_empty() {
                    let said = self.message(seq, Role::User, Origin::Results, telling.blocks);
                    let bytes = String::from_utf8(said.bytes.clone()).expect("text");
                    talk.prompted(seq, Origin::Results, bytes);
                    self.lanes[at].messages.push(said);
                }
                let to = talk.last_for(Purpose::Turn);
                let (body, marks) = talk.request(&talk.head, to, None);
                let other = self.talk(at);
                let again = other.request(&other.head, to, None).0;
                assert_eq!(body, again, "what was said and what is read are the same");
                self.lanes[at].sent.push(body);
                self.reply(at, marks);
            }
            Next::End(_) => {
                // The user sends another prompt.
                let seq = talk.next_seq();
                let said = self.message(seq, Role::User, Origin::Prompt, vec![self.text()]);
                self.lanes[at].messages.push(said);
                (self.lanes[at].calls, self.lanes[at].last) = (Vec::new(), None);
            }
            other => panic!("not in these conversations: {other:?}"),
        }
    }

    fn reply(&mut self, at: usize, marks: String) {
        self.number += 1;
        let mut blocks = Vec::new();
        if self.rng.bool() {
            let signature = Some(format!("s{}", self.number));
            blocks.push(Block::Thinking { text: "hm".to_owned(), signature });
        }
        blocks.push(self.text());
        for n in 0..self.rng.usize(..4) {
            let id = CallId::new(format!("call_{}_{n}", self.number));
            let input = format!(r#"{{"n":{n},"x":"{}"}}"#, self.rng.u32(..));
            blocks.push(Block::ToolCall(session::ToolCall {
                id,
                name: "t".to_owned(),
                input,
                server: false,
            }));
        }
        let calls = blocks.iter().any(|block| matches!(block, Block::ToolCall(_)));
        let stop = Some(if calls { StopReason::ToolUse } else { StopReason::EndTurn });
        let reply = Reply { id: "r".into(), model: "m".into(), blocks, stop, usage: Usage::default() };
        let body = self.dialect.encode_reply(&reply).expect("it can be said");
        let Ok(DecodedResponse::Reply(answer)) = self.dialect.decode_reply(&body) else {
            panic!("no answer")
        };
        let bytes = self.dialect.carry(&body, &answer.reply).expect("it can be carried").into_bytes();
        let lane = &mut self.lanes[at];
        let to = lane.messages.last().expect("a question").seq;
        let seq = Seq(to.0 + 1);
        let id = ModelCallId(self.number);
        let (role, origin) = (Role::Assistant, Origin::Reply);
        let at = Millis(0);
        lane.messages.push(StoredMessage { seq, role, origin, bytes, text: None, model_call: Some(id), at });
        let planned = answer.reply.calls().enumerate().map(|(n, call)| StoredToolCall {
            key: CallKey { run: lane.id.clone(), message: seq, position: n as u32 },
            call: call.id.clone(),
            name: call.name.clone(),
            input: call.input.clone().into_bytes(),
            policy: Policy::Pure,
            status: CallStatus::Planned,
            result: None,
            preview: None,
            started_at: None,
            ended_at: None,
        });
        lane.calls = planned.collect();
        lane.last = Some(answered(&lane.id, id, &self.head, to, marks, body));
    }

    /// Some of the open calls have their results, some of them long.
    fn call(&mut self, at: usize) {
        let rng = &mut self.rng;
        for call in self.lanes[at].calls.iter_mut().filter(|call| call.status.is_open()) {
            if rng.u8(..3) == 0 {
                continue;
            }
            let length = if rng.u16(..500) == 0 { 120_000 } else { rng.usize(..40) };
            let blocks = vec![Block::Text { text: "é".repeat(length) }];
            let result = ToolResult { call: call.call.clone(), blocks, is_error: rng.bool(), server: false };
            call.preview = preview::decide(&result);
            (call.status, call.result) = (CallStatus::Done, Some(result));
        }
    }

    /// A fork of a lane that has had a turn.
    fn fork(&mut self, of: usize) {
        let (parent, number) = (self.lanes[of].clone(), self.lanes.len());
        let Some(reply) = parent.messages.iter().rposition(|message| message.origin == Origin::Reply) else {
            return;
        };
        let seq = parent.messages[reply].seq;
        // What was said since belongs to the parent alone, but for the results that are there.
        let is_last = reply + 1 == parent.messages.len();
        let calls = if is_last { parent.calls.clone() } else { return };
        let point = ForkPoint::of(parent.id.clone(), self.head.hash(), parent.messages[0].seq, seq, calls);
        let mut blocks = point.results();
        blocks.push(self.text());
        let first = self.message(Seq(seq.0 + 1), Role::User, Origin::Prompt, blocks);
        let mut messages = parent.messages[..=reply].to_vec();
        messages.push(first);
        let lane = Lane {
            id: RunId::new(format!("m-{number}")),
            messages,
            calls: Vec::new(),
            last: None,
            sent: Vec::new(),
        };
        self.lanes.push(lane);
        // It is asked at once, so that what it begins with can be seen.
        self.step(number);
        let first = &self.lanes[number].sent[0];
        let before = parent.sent.last().expect("a turn was asked for");
        laws::begins_with(first, before);
        let reply = String::from_utf8_lossy(&parent.messages[reply].bytes).into_owned();
        let plain = |body: &[u8]| String::from_utf8_lossy(body).replace(laws::MARKER, "");
        let opening = plain(before).strip_suffix("]}").expect("messages come last").to_owned();
        assert!(plain(first).starts_with(&format!("{opening},{reply},")), "the reply as it was stored");
    }
}

fn row(id: &RunId) -> store::Run {
    store::Run {
        id: id.clone(),
        thread: ThreadId::new("t"),
        kind: RunKind::Main,
        root: id.clone(),
        parent: None,
        task: None,
        spawned_by: None,
        agent: String::new(),
        model: "m".to_owned(),
        provider: String::new(),
        status: RunStatus::Running,
        partial_text: None,
        final_text: None,
        error: None,
        settings: Vec::new(),
        chain: String::new(),
        depth: 0,
        context_from: Seq::FIRST,
        created_at: Millis(0),
        started_at: Millis(0),
        ended_at: None,
        writer: None,
        updated_at: Millis(0),
    }
}

fn answered(run: &RunId, id: ModelCallId, head: &Head, to: Seq, marks: String, reply: Vec<u8>) -> ModelCall {
    ModelCall {
        id,
        run: run.clone(),
        step: 1,
        purpose: Purpose::Turn,
        head: head.hash(),
        from: Seq::FIRST,
        to,
        marks,
        request_sha256: Digest::of(b""),
        request_len: 0,
        model: "m".to_owned(),
        provider: String::new(),
        status: ModelCallStatus::Answered,
        error: None,
        usage: Usage::default(),
        cost_microusd: None,
        reserved_microusd: 0,
        asked_at: Millis(0),
        first_byte_at: None,
        ended_at: None,
        reply: Some(reply),
    }
}

#[test]
fn every_fork_shares_the_prefix_of_its_parent() {
    let (mut forks, mut deep) = (0, 0);
    for seed in 0..10_000 {
        let mut world = World::new(seed);
        for _ in 0..world.rng.usize(2..16) {
            let at = world.rng.usize(..world.lanes.len());
            match world.rng.u8(..5) {
                0 if world.lanes.len() < 6 => world.fork(at),
                _ => world.step(at),
            }
        }
        for lane in &world.lanes {
            for pair in lane.sent.windows(2) {
                laws::begins_with(&pair[1], &pair[0]);
            }
        }
        forks += world.lanes.len() - 1;
        deep += usize::from(world.lanes.len() > 3);
    }
    assert!(forks > 5_000 && deep > 500, "{forks} forks, {deep} with several");
}
