//! One run's conversation as the journal has it, and the next step.
//!
//! Pure: the loop loads the journal into a [`Conversation`], asks it for the [`Next`] step, takes it, and adds the result.

use session::{Block, Message, Role, RunId, StopReason, ToolResult};
use store::{
    CallStatus, Digest, Head, InboxEntry, InboxId, ModelCall, ModelCallId, ModelCallStatus, Origin, Purpose,
    RunSnapshot, RunStatus, Seq, StoredToolCall,
};
use wire::dialect::{DecodedResponse, Dialect, EncodeError};

use crate::final_text::FinalText;
use crate::preview;
use crate::prompts::{self, text_block};
use crate::request;
use crate::schema;
use crate::settings::RunSettings;

/// Number of messages with a cache marker: the newest, and the one that was the newest in the request before, which the
/// provider has cached already.
const MARKED: usize = 2;

/// Bytes per token in usual texts.
const BYTES_A_TOKEN: u64 = 4;

/// A conversation, as far as it is in the journal.
#[derive(Debug)]
pub(crate) struct Conversation {
    pub(crate) dialect: Dialect,
    /// The head of its requests.
    pub(crate) head: Head,
    /// The messages that the model sees.
    pub(crate) messages: Vec<WireMessage>,
    /// Number of replies, including those that a summary has replaced.
    pub(crate) step: u32,
    /// Number of replies since the last message from outside. The step limit counts these.
    pub(crate) steps_since_prompt: u32,
    /// Tokens of the last request and its reply. 0 if unknown, and the maximum if a summary is due.
    pub(crate) context_tokens: u64,
    /// Its last answer.
    pub(crate) final_text: FinalText,
    denials: Denials,
    /// True if the provider rejected the conversation as too long. The summary is then requested without the last messages.
    too_long: bool,
    pub(crate) cache: CacheScope,
    last: Last,
    open: Option<OpenRequest>,
    /// True if the model was asked to correct its answer. A summary may have replaced that message.
    pub(crate) repaired: bool,
    /// The inbox entries for the next turn.
    inbox: Vec<InboxEntry>,
    /// Texts that follow the last reply and its results: of hooks, and instructions of folders.
    notes: Vec<String>,
}

/// Denied calls since the last prompt.
#[derive(Debug, Default)]
struct Denials {
    in_a_row: u32,
    total: u32,
}

/// The part of a fork's messages that may be cached.
#[derive(Debug, Default)]
pub(crate) struct CacheScope {
    /// The last message that may have a cache marker.
    pub(crate) mark_up_to: Option<Seq>,
    /// The last message that all forks of a turn share. Until a fork has its own reply, it caches only up to there.
    pub(crate) shared_to: Option<Seq>,
}

/// The next message to the model. It may be empty.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct NextMessage {
    pub(crate) blocks: Vec<Block>,
    /// The inbox entries that it delivers.
    pub(crate) delivers: Vec<InboxId>,
    /// The jobs whose ends it reports.
    pub(crate) jobs: Vec<RunId>,
}

/// One message as it is sent.
#[derive(Clone, Debug)]
pub(crate) struct WireMessage {
    pub(crate) seq: Seq,
    pub(crate) role: Role,
    pub(crate) origin: Origin,
    pub(crate) bytes: String,
}

/// The last message.
#[derive(Debug)]
enum Last {
    /// A message to the model.
    Prompt,
    /// A reply.
    Reply { stop: Option<StopReason>, calls: Vec<StoredToolCall> },
}

/// A request in the journal whose reply is missing or not used yet.
#[derive(Clone, Debug)]
pub(crate) enum OpenRequest {
    /// It has no reply.
    Sent(SentRequest),
    /// A summary that was received: its text, and the last message that it covers.
    Summary(String, Seq),
}

/// A request as the journal has it.
#[derive(Clone, Debug)]
pub(crate) struct SentRequest {
    pub(crate) call: ModelCallId,
    pub(crate) purpose: Purpose,
    /// Its last message.
    pub(crate) to: Seq,
    /// Digest of its head.
    pub(crate) head: Digest,
    /// Digest of the whole request.
    pub(crate) request: Digest,
}

/// The next step.
#[derive(Debug, PartialEq)]
pub(crate) enum Next {
    /// Request the next turn, after this message.
    Ask(NextMessage),
    /// Request a summary, after this message.
    Compact(NextMessage),
    /// Run the calls without a result.
    Call,
    /// End: that many calls were denied.
    CallsDenied(u32),
    /// End: the answer was cut off that many times in a row.
    CutOff(u32),
    /// End with this status.
    End(RunStatus),
}

/// Limits of denied calls: in a row, and since the last prompt.
const MAX_DENIALS: u32 = 8;
const MAX_DENIALS_IN_TOTAL: u32 = 3 * MAX_DENIALS;

/// Maximum number of continuations in a row of an answer that was cut off at the output limit.
const MAX_CUTS: u32 = 8;

impl Denials {
    fn count(&mut self, is_denied: bool) {
        self.in_a_row = if is_denied { self.in_a_row + 1 } else { 0 };
        self.total += u32::from(is_denied);
    }

    fn are_too_many(&self) -> bool {
        self.in_a_row >= MAX_DENIALS || self.total >= MAX_DENIALS_IN_TOTAL
    }
}

impl Conversation {
    /// Creates the conversation of a journal. `head` is the head of its requests.
    pub(crate) fn of(journal: RunSnapshot, dialect: Dialect, head: Head) -> Self {
        let RunSnapshot { messages, last_call, calls, .. } = journal;
        let final_text = FinalText::of(&messages);
        let summary = messages.iter().filter(|m| m.origin == Origin::Summary).map(|m| m.seq).max();
        let replied = messages.last().filter(|message| message.origin == Origin::Reply);
        let answered = last_call.as_ref().filter(|call| call.status == ModelCallStatus::Answered);
        let last = match (replied, &last_call) {
            // A paused turn is continued without a message in between.
            (Some(reply), Some(call)) if call.to >= reply.seq => Last::Prompt,
            (Some(_), _) => Last::Reply { stop: answered.and_then(|call| stop_of(dialect, call)), calls },
            (None, _) => Last::Prompt,
        };
        let unused = |call: &&ModelCall| call.purpose == Purpose::Summary && summary < Some(call.to);
        let due = last_call.as_ref().filter(unused);
        let open = last_call.as_ref().and_then(|call| match call.status {
            ModelCallStatus::Asked => Some(OpenRequest::Sent(SentRequest {
                call: call.id,
                purpose: call.purpose,
                to: call.to,
                head: call.head,
                request: call.request_sha256,
            })),
            ModelCallStatus::Answered => due
                .and_then(|call| Some(OpenRequest::Summary(summary_of(&reply_of(dialect, call)?)?, call.to))),
            ModelCallStatus::Failed => None,
        });
        // Every call counts the step it is asked for; only a turn that was answered has taken it.
        let step = last_call.as_ref().map_or(0, |call| match (call.status, call.purpose) {
            (ModelCallStatus::Answered, Purpose::Turn) => call.step,
            _ => call.step.saturating_sub(1),
        });
        let measured = answered.filter(|call| call.purpose == Purpose::Turn && summary < Some(call.to));
        let messages = messages.into_iter().map(|message| WireMessage {
            seq: message.seq,
            role: message.role,
            origin: message.origin,
            bytes: String::from_utf8_lossy(&message.bytes).into_owned(),
        });
        let context_tokens = match due {
            Some(_) => u64::MAX,
            None => measured.map_or(0, |call| context_tokens(&call.usage)),
        };
        let empty = Self::with(dialect, head, messages.collect());
        Self { step, steps_since_prompt: step, context_tokens, final_text, last, open, ..empty }
    }

    /// Creates a conversation of these messages. The last one is to the model.
    pub(crate) fn with(dialect: Dialect, head: Head, messages: Vec<WireMessage>) -> Self {
        Self {
            dialect,
            head,
            messages,
            step: 0,
            steps_since_prompt: 0,
            context_tokens: 0,
            final_text: FinalText::default(),
            denials: Denials::default(),
            too_long: false,
            cache: CacheScope::default(),
            last: Last::Prompt,
            open: None,
            repaired: false,
            inbox: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Sets the texts that follow the last reply and its results.
    pub(crate) fn set_notes(&mut self, notes: Vec<String>) {
        self.notes = notes;
    }

    /// Returns the last message if it is a reply.
    pub(crate) fn last_reply(&self) -> Option<Seq> {
        let last = self.messages.last().filter(|_| matches!(self.last, Last::Reply { .. }));
        last.map(|message| message.seq)
    }

    /// Sets the inbox entries for the next turn.
    pub(crate) fn set_inbox(&mut self, inbox: Vec<InboxEntry>) {
        self.inbox = inbox;
    }

    /// Returns whether nothing but the inbox needs another turn.
    pub(crate) fn has_only_inbox(&self) -> bool {
        let is_answered = matches!(&self.last, Last::Reply { calls, .. } if calls.is_empty());
        is_answered && self.open.is_none() && !self.inbox.is_empty()
    }

    /// Returns the next step. `waits` says whether jobs are still at work for it.
    pub(crate) fn next(&self, settings: &RunSettings, waits: bool) -> Next {
        match &self.open {
            Some(OpenRequest::Sent(SentRequest { purpose: Purpose::Turn, .. })) => {
                return Next::Ask(NextMessage::default());
            }
            Some(_) => return Next::Compact(NextMessage::default()),
            None => {}
        }
        if self.too_long {
            return Next::Compact(NextMessage::default());
        }
        let over = self.steps_since_prompt > settings.max_steps;
        let note = match &self.last {
            Last::Prompt => Vec::new(),
            // InboxEntry entries reset its steps. Calls that it has asked for are not made any more.
            Last::Reply { calls, .. }
                if over && (self.inbox.is_empty() || calls.iter().any(|call| call.status.is_open())) =>
            {
                match self.repair(settings).filter(|_| self.is_answered() && !waits) {
                    Some(repair) => vec![text_block(&repair)],
                    None => return Next::End(RunStatus::StepCap),
                }
            }
            // The calls of a refusal are not made.
            Last::Reply { stop: Some(stop), .. } if is_refusal(stop) => return Next::End(RunStatus::Failed),
            Last::Reply { calls, .. } if calls.iter().any(|call| call.status.is_open()) => return Next::Call,
            Last::Reply { .. } if self.denials.are_too_many() => {
                return Next::CallsDenied(self.denials.total);
            }
            Last::Reply { calls, .. } if !calls.is_empty() => self.results(),
            Last::Reply { stop: Some(StopReason::MaxTokens | StopReason::ContextWindow), .. } => {
                if self.final_text.cuts() >= MAX_CUTS {
                    return Next::CutOff(MAX_CUTS);
                }
                vec![text_block(prompts::CONTINUE)]
            }
            Last::Reply { stop: Some(StopReason::PauseTurn), .. } => {
                return self.ask(settings, Vec::new(), true);
            }
            // A hook prevents the end of the turn.
            Last::Reply { .. } if !self.notes.is_empty() => {
                self.notes.iter().map(|text| text_block(text)).collect()
            }
            // A reply before the last inbox entry is not the answer.
            Last::Reply { .. } if !self.inbox.is_empty() => Vec::new(),
            Last::Reply { .. } if waits => return Next::End(RunStatus::Completed),
            Last::Reply { .. } => match self.repair(settings) {
                Some(repair) => vec![text_block(&repair)],
                None => return Next::End(RunStatus::Completed),
            },
        };
        self.ask(settings, note, false)
    }

    /// Returns the step that requests the next turn, with the inbox and reminders. Nothing may come before the continuation
    /// of a paused turn.
    fn ask(&self, settings: &RunSettings, note: Vec<Block>, paused: bool) -> Next {
        let mut blocks = note;
        if self.steps_since_prompt == settings.max_steps && matches!(self.last, Last::Reply { .. }) {
            blocks.push(text_block(prompts::last_step(settings.output_schema.is_some())));
        }
        let paused = paused && blocks.is_empty();
        let (mut delivers, mut jobs) = (Vec::new(), Vec::new());
        if !paused {
            blocks.extend(self.inbox.iter().map(|entry| text_block(&String::from_utf8_lossy(&entry.body))));
            delivers.extend(self.inbox.iter().map(|entry| entry.id));
            jobs.extend(self.inbox.iter().filter_map(|entry| entry.job.clone()));
        }
        let reminder = settings.fork.as_ref().and_then(|fork| fork.reminder.as_deref());
        if !blocks.is_empty() {
            blocks.extend(reminder.map(text_block));
        }
        let message = NextMessage { blocks, delivers, jobs };
        if self.is_full(settings) && self.messages.len() > 2 && !paused {
            return Next::Compact(message);
        }
        Next::Ask(message)
    }

    /// Returns whether the last reply is an answer: it makes no calls and is not a refusal.
    fn is_answered(&self) -> bool {
        let is_incomplete = |stop: &StopReason| is_refusal(stop) || *stop == StopReason::PauseTurn;
        match &self.last {
            Last::Prompt => false,
            Last::Reply { stop, calls } => calls.is_empty() && !stop.as_ref().is_some_and(is_incomplete),
        }
    }

    /// Returns whether the last reply is an answer that was not cut off.
    pub(crate) fn is_complete(&self) -> bool {
        let is_cut = |stop: &StopReason| matches!(stop, StopReason::MaxTokens | StopReason::ContextWindow);
        self.is_answered() && !matches!(&self.last, Last::Reply { stop: Some(stop), .. } if is_cut(stop))
    }

    /// Returns the text that asks to correct an answer that does not match the schema. It is sent once.
    fn repair(&self, settings: &RunSettings) -> Option<String> {
        let schema = settings.output_schema.as_ref()?;
        if self.repaired {
            return None;
        }
        let why = schema::check(schema, self.final_text.last().unwrap_or_default()).err()?;
        Some(prompts::repair(&why))
    }

    /// Returns whether a summary is due. Without reported usage, four bytes count as a token. There is no second summary
    /// before a reply to the first.
    fn is_full(&self, settings: &RunSettings) -> bool {
        if self.context_tokens > 0 {
            return self.context_tokens >= settings.compact_at;
        }
        let bytes: usize = self.messages.iter().map(|message| message.bytes.len()).sum();
        let replied = self.messages.iter().any(|message| message.origin == Origin::Reply);
        replied && (bytes + self.head.bytes().len()) as u64 / BYTES_A_TOKEN >= settings.compact_at
    }

    /// Returns the calls of the last reply.
    pub(crate) fn calls(&self) -> &[StoredToolCall] {
        match &self.last {
            Last::Prompt => &[],
            Last::Reply { calls, .. } => calls,
        }
    }

    /// Returns the results of the last reply's calls, as the model sees them, and the texts that follow them.
    pub(crate) fn results(&self) -> Vec<Block> {
        let results: Vec<Block> = self.calls().iter().filter_map(call_block).collect();
        let notes = self.notes.iter().filter(|_| !results.is_empty()).map(|text| text_block(text));
        let notes: Vec<Block> = notes.collect();
        results.into_iter().chain(notes).collect()
    }

    /// Takes the open request of an earlier process.
    pub(crate) fn take_open(&mut self) -> Option<OpenRequest> {
        self.open.take()
    }

    /// Returns the open request.
    pub(crate) fn open(&self) -> Option<&OpenRequest> {
        self.open.as_ref()
    }

    /// Adds a message to the model.
    pub(crate) fn prompted(&mut self, seq: Seq, origin: Origin, bytes: String) {
        self.repaired |= is_repair(origin, bytes.as_bytes());
        self.final_text.prompted(origin, bytes.as_bytes());
        self.messages.push(WireMessage { seq, role: Role::User, origin, bytes });
        if resets_steps(origin) {
            self.steps_since_prompt = 0;
        }
        self.last = Last::Prompt;
    }

    /// Adds a reply.
    pub(crate) fn replied(
        &mut self,
        reply: &session::Reply,
        seq: Seq,
        bytes: String,
        calls: Vec<StoredToolCall>,
    ) {
        self.messages.push(WireMessage { seq, role: Role::Assistant, origin: Origin::Reply, bytes });
        self.step += 1;
        self.steps_since_prompt += 1;
        self.context_tokens = context_tokens(&reply.usage);
        self.final_text.replied(reply.text());
        self.last = Last::Reply { stop: reply.stop.clone(), calls };
    }

    /// Adds the result of a call.
    pub(crate) fn finished(&mut self, finished: StoredToolCall) {
        self.denials.count(finished.status == CallStatus::Denied);
        if let Last::Reply { calls, .. } = &mut self.last
            && let Some(call) = calls.iter_mut().find(|call| call.key == finished.key)
        {
            *call = finished;
        }
    }

    /// Returns the messages that a summary never replaces: the last reply with its results, or the last prompt.
    pub(crate) fn in_flight(&self) -> &[WireMessage] {
        let reply = self.messages.iter().rposition(|message| message.origin == Origin::Reply);
        let last = self.messages.len().saturating_sub(1);
        // Results and the kernel's messages refer to the reply before them, a prompt does not.
        let refers_back = |message: &WireMessage| matches!(message.origin, Origin::Results | Origin::Kernel);
        match reply {
            Some(reply) if self.messages[reply + 1..].iter().any(refers_back) => &self.messages[reply..],
            _ => &self.messages[last..],
        }
    }

    /// Returns the messages that a summary up to that one does not replace.
    pub(crate) fn after_summary(&self, to: Option<Seq>) -> &[WireMessage] {
        let in_flight = self.messages.len() - self.in_flight().len();
        let later = self.messages.iter().position(|message| Some(message.seq) > to);
        &self.messages[later.map_or(in_flight, |later| later.min(in_flight))..]
    }

    /// Records that the provider rejected the conversation as too long. Returns whether a summary can help: not if one was
    /// tried already, or there is nothing to summarize.
    pub(crate) fn shorten(&mut self) -> bool {
        let older = self.messages.len() - self.in_flight().len();
        let replied = self.messages.iter().any(|message| message.origin == Origin::Reply);
        let asked = self.messages.last().is_some_and(|message| message.role == Role::User);
        let can = !self.too_long && replied && asked && older >= 2;
        self.too_long |= can;
        can
    }

    /// Returns the last message of a request for that purpose.
    pub(crate) fn last_for(&self, purpose: Purpose) -> Option<Seq> {
        let left_out = if purpose == Purpose::Summary && self.too_long { self.in_flight().len() } else { 0 };
        self.messages.iter().rev().nth(left_out).map(|message| message.seq)
    }

    /// Replaces all messages by compacted ones.
    pub(crate) fn compacted(&mut self, messages: Vec<WireMessage>) {
        self.messages = messages;
        self.context_tokens = 0;
        self.too_long = false;
        self.last = Last::Prompt;
    }

    /// Returns the number of the next message.
    pub(crate) fn next_seq(&self) -> Seq {
        self.messages.last().map_or(Seq::FIRST, |message| Seq(message.seq.0 + 1))
    }

    /// Encodes a message to the model.
    pub(crate) fn encode(&self, blocks: Vec<Block>) -> Result<String, EncodeError> {
        self.dialect.encode_message(&Message { role: Role::User, blocks })
    }

    /// Builds the body of a request, from the head to the message `to`, and the list of its cache markers. `tail` is added
    /// as the last message and not stored.
    pub(crate) fn request(&self, head: &Head, to: Option<Seq>, tail: Option<&str>) -> (Vec<u8>, String) {
        let sent = || self.messages.iter().filter(|message| Some(message.seq) <= to);
        let shared = self.cache.shared_to.filter(|shared| sent().any(|message| message.seq == *shared));
        let last = self.cache.mark_up_to.or(shared.filter(|_| self.step == 0));
        let may_have_marker = |message: &&WireMessage| last.is_none_or(|to| message.seq <= to);
        let is_prompt = |message: &&WireMessage| {
            message.role == Role::User || (Some(message.seq) == shared && self.step == 0)
        };
        let prompts = sent().rev().filter(is_prompt).filter(may_have_marker).map(|message| message.seq);
        // The first request cached nothing of the fork's own, so the second one marks the shared part again.
        let marked: Vec<Seq> = match shared.filter(|_| self.step == 1) {
            Some(shared) => prompts.take(MARKED - 1).chain([shared]).collect(),
            None => prompts.take(MARKED).collect(),
        };
        let messages = sent().map(|message| (message.seq, message.bytes.as_str()));
        let body = request::body(self.dialect, head.bytes(), messages, &marked, tail);
        (body, request::marks(&marked))
    }
}

/// Returns the tokens of a conversation after a reply. 0 if the provider did not report them.
fn context_tokens(usage: &session::Usage) -> u64 {
    if usage.is_reported() { usage.input_total().saturating_add(usage.output) } else { 0 }
}

/// Returns whether a message asks to correct an answer.
pub(crate) fn is_repair(origin: Origin, bytes: &[u8]) -> bool {
    origin == Origin::Kernel && String::from_utf8_lossy(bytes).contains(prompts::REPAIR)
}

/// Returns whether a message comes from outside the run, so that its steps count from there.
pub(crate) fn resets_steps(origin: Origin) -> bool {
    matches!(origin, Origin::Prompt | Origin::Inbox)
}

/// Returns a call's result as the model sees it.
fn call_block(call: &StoredToolCall) -> Option<Block> {
    let result = call.result.as_ref()?;
    Some(Block::ToolResult(preview::with_preview(result, call.preview.as_deref())))
}

/// Returns the result of a call that is not made: one constant sentence.
pub(crate) fn placeholder(call: &StoredToolCall, sentence: &str) -> ToolResult {
    ToolResult { call: call.call.clone(), blocks: vec![text_block(sentence)], is_error: true, server: false }
}

fn reply_of(dialect: Dialect, call: &ModelCall) -> Option<session::Reply> {
    let decoded = dialect.decode_reply(call.reply.as_deref()?).ok()?;
    match decoded {
        DecodedResponse::Reply(answer) => Some(answer.reply),
        _ => None,
    }
}

fn stop_of(dialect: Dialect, call: &ModelCall) -> Option<StopReason> {
    reply_of(dialect, call)?.stop
}

fn is_refusal(stop: &StopReason) -> bool {
    matches!(stop, StopReason::Refusal | StopReason::ContentFilter)
}

/// Returns the summary in a reply. A refusal, an incomplete reply, and a reply with calls have none.
pub(crate) fn summary_of(reply: &session::Reply) -> Option<String> {
    let is_incomplete = |stop: &StopReason| {
        let is_cut =
            matches!(stop, StopReason::MaxTokens | StopReason::ContextWindow | StopReason::PauseTurn);
        is_refusal(stop) || is_cut
    };
    let whole = !reply.stop.as_ref().is_some_and(is_incomplete) && reply.calls().next().is_none();
    reply.text().filter(|text| whole && !text.trim().is_empty())
}
