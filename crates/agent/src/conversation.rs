//! One run's conversation as the journal has it, and what comes next.
//!
//! Pure: the loop reads the journal into a [`Conversation`], asks it what is [`Next`], does that, and tells it what
//! came of it. A run that was killed is read the same way, so resuming is not a case of its own.

use session::{Block, Message, Role, StopReason, ToolResult};
use store::{
    Head, Journal, ModelCall, ModelCallId, ModelCallStatus, Origin, Purpose, RunStatus, Seq, ToolCall,
};
use wire::dialect::{Dialect, EncodeError, Outcome, join_request};

use crate::preview;
use crate::settings::Settings;
use crate::words;

/// How many messages carry a cache marker besides the tools and the system prompt: the newest, and the one that was
/// the newest before, which the provider has already.
const MARKED: usize = 2;

/// A conversation, as far as it is durable.
#[derive(Debug)]
pub(crate) struct Conversation {
    pub(crate) dialect: Dialect,
    /// The request up to its messages.
    pub(crate) head: Head,
    /// What the model sees, in order.
    pub(crate) messages: Vec<Said>,
    /// How many replies there were, those included that a summary has replaced.
    pub(crate) step: u32,
    /// The tokens of the last request and its reply; 0 where none is known.
    pub(crate) filled: u64,
    /// The last words.
    pub(crate) last_text: Option<String>,
    last: Last,
    open: Option<Open>,
}

/// One message on the wire.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    pub(crate) seq: Seq,
    pub(crate) origin: Origin,
    pub(crate) bytes: String,
}

/// Whose turn it is.
#[derive(Debug)]
enum Last {
    /// The model's: the last message is a question.
    Question,
    /// Ours: it has replied.
    Reply { stop: Option<StopReason>, calls: Vec<ToolCall> },
}

/// A question that is written down and has no use made of its answer yet.
#[derive(Clone, Debug)]
pub(crate) enum Open {
    /// It waits for an answer.
    Asked(ModelCallId, Purpose),
    /// A summary that came, with its text.
    Summary(String),
}

/// What comes next.
#[derive(Debug, PartialEq)]
pub(crate) enum Next {
    /// Ask the model, with these blocks as the next message where there are any.
    Ask(Vec<Block>),
    /// Ask for a summary first; the blocks come before it.
    Compact(Vec<Block>),
    /// Call the tools that have no result.
    Call,
    /// End.
    End(RunStatus),
}

impl Conversation {
    /// The conversation of a journal. `head` is what its requests begin with.
    pub(crate) fn of(journal: Journal, dialect: Dialect, head: Head) -> Self {
        let Journal { messages, last_call, calls, .. } = journal;
        let last_text =
            messages.iter().rev().find(|m| m.origin == Origin::Reply).and_then(|m| m.text.clone());
        let summary = messages.iter().filter(|m| m.origin == Origin::Summary).map(|m| m.seq).max();
        let replied = messages.last().is_some_and(|message| message.origin == Origin::Reply);
        let answered = last_call.as_ref().filter(|call| call.status == ModelCallStatus::Answered);
        let last = if replied {
            let brought_it = answered.filter(|call| call.purpose == Purpose::Turn);
            Last::Reply { stop: brought_it.and_then(|call| stop_of(dialect, call)), calls }
        } else {
            Last::Question
        };
        let open = last_call.as_ref().and_then(|call| match (call.status, call.purpose) {
            (ModelCallStatus::Asked, purpose) => Some(Open::Asked(call.id, purpose)),
            (ModelCallStatus::Answered, Purpose::Summary) if summary < Some(call.to) => {
                Some(Open::Summary(text_of(dialect, call).unwrap_or_default()))
            }
            _ => None,
        });
        // Every call counts the step it is asked for; only a turn that was answered has taken it.
        let step = last_call.as_ref().map_or(0, |call| match (call.status, call.purpose) {
            (ModelCallStatus::Answered, Purpose::Turn) => call.step,
            _ => call.step.saturating_sub(1),
        });
        let filled = answered.filter(|call| call.purpose == Purpose::Turn && summary < Some(call.to));
        let said = messages.into_iter().map(|message| Said {
            seq: message.seq,
            origin: message.origin,
            bytes: String::from_utf8_lossy(&message.bytes).into_owned(),
        });
        let filled = filled.map_or(0, |call| call.usage.input_total() + call.usage.output);
        Self { dialect, head, messages: said.collect(), step, filled, last_text, last, open }
    }

    /// What comes next.
    pub(crate) fn next(&self, settings: &Settings) -> Next {
        match &self.open {
            Some(Open::Asked(_, Purpose::Turn)) => return Next::Ask(Vec::new()),
            Some(Open::Asked(_, Purpose::Summary) | Open::Summary(_)) => return Next::Compact(Vec::new()),
            None => {}
        }
        let over = self.step > settings.max_steps;
        let note = match &self.last {
            Last::Question => Vec::new(),
            Last::Reply { .. } if over => return Next::End(RunStatus::StepCap),
            Last::Reply { calls, .. } if calls.iter().any(|call| call.status.is_open()) => return Next::Call,
            Last::Reply { calls, .. } if !calls.is_empty() => self.results(),
            Last::Reply { stop: Some(StopReason::MaxTokens), .. } => vec![text(words::GO_ON)],
            Last::Reply { stop: Some(StopReason::PauseTurn), .. } => Vec::new(),
            Last::Reply { stop: Some(StopReason::Refusal | StopReason::ContentFilter), .. } => {
                return Next::End(RunStatus::Failed);
            }
            Last::Reply { .. } => return Next::End(RunStatus::Completed),
        };
        let mut blocks = note;
        if self.step == settings.max_steps && matches!(self.last, Last::Reply { .. }) {
            blocks.push(text(words::GRACE));
        }
        // A reply that ends the conversation is not summed up: there may be nothing to go on with.
        if self.filled >= settings.compact_at && self.messages.len() > 2 && self.closed() {
            return Next::Compact(blocks);
        }
        Next::Ask(blocks)
    }

    /// All calls have their results, or there are none.
    fn closed(&self) -> bool {
        match &self.last {
            Last::Question => true,
            Last::Reply { calls, .. } => !calls.is_empty(),
        }
    }

    /// The calls of the last reply, in order.
    pub(crate) fn calls(&self) -> &[ToolCall] {
        match &self.last {
            Last::Question => &[],
            Last::Reply { calls, .. } => calls,
        }
    }

    /// The results of the last reply's calls, as the model sees them.
    pub(crate) fn results(&self) -> Vec<Block> {
        self.calls().iter().filter_map(shown).collect()
    }

    /// A question that was written down before and whose answer is still to be used.
    pub(crate) fn take_open(&mut self) -> Option<Open> {
        self.open.take()
    }

    /// Whether such a question waits.
    pub(crate) fn open(&self) -> Option<&Open> {
        self.open.as_ref()
    }

    /// A message was written down.
    pub(crate) fn said(&mut self, seq: Seq, origin: Origin, bytes: String) {
        self.messages.push(Said { seq, origin, bytes });
        self.last = Last::Question;
    }

    /// The model replied.
    pub(crate) fn replied(&mut self, reply: &session::Reply, seq: Seq, bytes: String, calls: Vec<ToolCall>) {
        self.messages.push(Said { seq, origin: Origin::Reply, bytes });
        self.step += 1;
        self.filled = reply.usage.input_total() + reply.usage.output;
        if let Some(text) = reply.text() {
            self.last_text = Some(text);
        }
        self.last = Last::Reply { stop: reply.stop.clone(), calls };
    }

    /// A call has its result.
    pub(crate) fn finished(&mut self, finished: ToolCall) {
        if let Last::Reply { calls, .. } = &mut self.last
            && let Some(call) = calls.iter_mut().find(|call| call.key == finished.key)
        {
            *call = finished;
        }
    }

    /// The messages that are still needed word for word behind a summary: the last reply with its results, or the last
    /// question.
    pub(crate) fn in_flight(&self) -> &[Said] {
        let reply = self.messages.iter().rposition(|said| said.origin == Origin::Reply);
        let last = self.messages.len().saturating_sub(1);
        match reply {
            // Results follow their reply; a plain question needs none.
            Some(reply) if self.messages[reply + 1..].iter().any(|said| said.origin == Origin::Results) => {
                &self.messages[reply..]
            }
            _ => &self.messages[last..],
        }
    }

    /// Older messages were replaced.
    pub(crate) fn compacted(&mut self, messages: Vec<Said>) {
        self.messages = messages;
        self.filled = 0;
        self.last = Last::Question;
    }

    /// The number that the next message gets.
    pub(crate) fn next_seq(&self) -> Seq {
        self.messages.last().map_or(Seq::FIRST, |said| Seq(said.seq.0 + 1))
    }

    /// A message encoded for this conversation.
    pub(crate) fn encode(&self, blocks: Vec<Block>) -> Result<String, EncodeError> {
        self.dialect.encode_message(&Message { role: Role::User, blocks })
    }

    /// The request's body, and where its markers are. `tail` are messages that are not written down.
    pub(crate) fn request(&self, tail: &[String]) -> (Vec<u8>, String) {
        let mut messages: Vec<String> = self.messages.iter().map(|said| said.bytes.clone()).collect();
        let questions = |said: &&Said| said.origin != Origin::Reply;
        let marked: Vec<Seq> =
            self.messages.iter().rev().filter(questions).take(MARKED).map(|s| s.seq).collect();
        for (said, bytes) in self.messages.iter().zip(&mut messages) {
            if marked.contains(&said.seq) {
                *bytes = self.dialect.mark(bytes, None);
            }
        }
        messages.extend_from_slice(tail);
        let marks = marked.iter().rev().map(ToString::to_string).collect::<Vec<_>>().join(",");
        (join_request(self.head.bytes(), messages.iter().map(String::as_str)), marks)
    }
}

/// A call's result as the model sees it.
fn shown(call: &ToolCall) -> Option<Block> {
    let result = call.result.as_ref()?;
    Some(Block::ToolResult(preview::shown(result, call.preview.as_deref())))
}

fn text(text: &str) -> Block {
    Block::Text { text: text.to_owned() }
}

/// The results of calls that will never be run: what exists stays, what is missing gets one constant sentence each.
pub(crate) fn placeholder(call: &ToolCall, sentence: &str) -> ToolResult {
    ToolResult { call: call.call.clone(), blocks: vec![text(sentence)], is_error: true, server: false }
}

fn reply_of(dialect: Dialect, call: &ModelCall) -> Option<session::Reply> {
    let decoded = dialect.decode_reply(call.reply.as_deref()?).ok()?;
    match decoded {
        Outcome::Answer(answer) => Some(answer.reply),
        _ => None,
    }
}

fn stop_of(dialect: Dialect, call: &ModelCall) -> Option<StopReason> {
    reply_of(dialect, call)?.stop
}

fn text_of(dialect: Dialect, call: &ModelCall) -> Option<String> {
    reply_of(dialect, call)?.text()
}
