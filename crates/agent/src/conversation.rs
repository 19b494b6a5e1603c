//! One run's conversation as the journal has it, and what comes next.
//!
//! Pure: the loop reads the journal into a [`Conversation`], asks it what is [`Next`], does that, and tells it what
//! came of it. A run that was killed is read the same way, so resuming is not a case of its own.

use session::{Block, Message, Role, RunId, StopReason, ToolResult};
use store::{
    CallStatus, Digest, Head, InboxEntry, InboxId, ModelCall, ModelCallId, ModelCallStatus, Origin, Purpose,
    RunSnapshot, RunStatus, Seq, StoredToolCall,
};
use wire::dialect::{DecodedResponse, Dialect, EncodeError};

use crate::preview;
use crate::request;
use crate::run::starts_anew;
use crate::schema;
use crate::settings::RunSettings;
use crate::spoken::Spoken;
use crate::words;

/// How many messages carry a cache marker besides the tools and the system prompt: the newest, and the one that was
/// the newest before, which the provider has already.
const MARKED: usize = 2;

/// In usual texts.
const BYTES_A_TOKEN: u64 = 4;

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
    /// How many of them since somebody last said something: those are limited.
    pub(crate) since_prompt: u32,
    /// The tokens of the last request and its reply; 0 where none is known, and more than there can be where a
    /// summary is due.
    pub(crate) filled: u64,
    /// What it has said.
    pub(crate) spoken: Spoken,
    /// How many calls were refused since one was made.
    refused: u32,
    /// How many were refused in all.
    refused_in_all: u32,
    /// The provider would not take all of it: then the summary is asked for without what is in flight.
    too_long: bool,
    /// Nothing behind this message is to be kept in the prompt cache.
    pub(crate) mark_up_to: Option<Seq>,
    /// The last message that a fork shares with the others of its turn, until it has a reply of its own: what is written
    /// up to there is for all of them.
    pub(crate) shared_to: Option<Seq>,
    last: Last,
    open: Option<Open>,
    /// It was told that its answer has not the shape that was asked for; a summary may have replaced that since.
    pub(crate) repaired: bool,
    /// What waits for the next turn.
    news: Vec<InboxEntry>,
}

/// What is said to the model next, where there is anything to say.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Telling {
    pub(crate) blocks: Vec<Block>,
    /// What of the inbox it says.
    pub(crate) delivers: Vec<InboxId>,
    /// The jobs that this tells of.
    pub(crate) jobs: Vec<RunId>,
}

/// One message on the wire.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    pub(crate) seq: Seq,
    pub(crate) role: Role,
    pub(crate) origin: Origin,
    pub(crate) bytes: String,
}

/// Whose turn it is.
#[derive(Debug)]
enum Last {
    /// The model's: the last message is a question.
    Question,
    /// Ours: it has replied.
    Reply { stop: Option<StopReason>, calls: Vec<StoredToolCall> },
}

/// A question that is written down and has no use made of its answer yet.
#[derive(Clone, Debug)]
pub(crate) enum Open {
    /// It waits for an answer.
    Asked(Written),
    /// A summary that came: its text, and the last message that it is about.
    Summary(String, Seq),
}

/// A question as it was written down.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub(crate) call: ModelCallId,
    pub(crate) purpose: Purpose,
    /// Its last message.
    pub(crate) to: Seq,
    /// What it begins with.
    pub(crate) head: Digest,
    /// All of it.
    pub(crate) request: Digest,
}

/// What comes next.
#[derive(Debug, PartialEq)]
pub(crate) enum Next {
    /// Ask the model, and say this first.
    Ask(Telling),
    /// Ask for a summary, and say this first.
    Compact(Telling),
    /// Call the tools that have no result.
    Call,
    /// End: so many calls were refused.
    Refused(u32),
    /// End: it was asked so often in a row to go on, and is still not done.
    CutOff(u32),
    /// End.
    End(RunStatus),
}

/// How many calls in a row may be refused, and how many in all until somebody says something.
const REFUSALS: u32 = 8;
const REFUSALS_IN_ALL: u32 = 3 * REFUSALS;

/// How often in a row an answer that was cut off at the output limit is gone on with.
const CUTS: u32 = 8;

impl Conversation {
    /// The conversation of a journal. `head` is what its requests begin with.
    pub(crate) fn of(journal: RunSnapshot, dialect: Dialect, head: Head) -> Self {
        let RunSnapshot { messages, last_call, calls, .. } = journal;
        let spoken = Spoken::of(&messages);
        let summary = messages.iter().filter(|m| m.origin == Origin::Summary).map(|m| m.seq).max();
        let replied = messages.last().filter(|message| message.origin == Origin::Reply);
        let answered = last_call.as_ref().filter(|call| call.status == ModelCallStatus::Answered);
        let last = match (replied, &last_call) {
            // A turn that was paused has been asked to go on with nothing said in between.
            (Some(reply), Some(call)) if call.to >= reply.seq => Last::Question,
            (Some(_), _) => Last::Reply { stop: answered.and_then(|call| stop_of(dialect, call)), calls },
            (None, _) => Last::Question,
        };
        let unused = |call: &&ModelCall| call.purpose == Purpose::Summary && summary < Some(call.to);
        let due = last_call.as_ref().filter(unused);
        let open = last_call.as_ref().and_then(|call| match call.status {
            ModelCallStatus::Asked => Some(Open::Asked(Written {
                call: call.id,
                purpose: call.purpose,
                to: call.to,
                head: call.head,
                request: call.request_sha256,
            })),
            ModelCallStatus::Answered => {
                due.and_then(|call| Some(Open::Summary(summary_of(&reply_of(dialect, call)?)?, call.to)))
            }
            ModelCallStatus::Failed => None,
        });
        // Every call counts the step it is asked for; only a turn that was answered has taken it.
        let step = last_call.as_ref().map_or(0, |call| match (call.status, call.purpose) {
            (ModelCallStatus::Answered, Purpose::Turn) => call.step,
            _ => call.step.saturating_sub(1),
        });
        let filled = answered.filter(|call| call.purpose == Purpose::Turn && summary < Some(call.to));
        let said = messages.into_iter().map(|message| Said {
            seq: message.seq,
            role: message.role,
            origin: message.origin,
            bytes: String::from_utf8_lossy(&message.bytes).into_owned(),
        });
        let filled = match due {
            Some(_) => u64::MAX,
            None => filled.map_or(0, |call| self::filled(&call.usage)),
        };
        let said = Self::with(dialect, head, said.collect());
        Self { step, since_prompt: step, filled, spoken, last, open, ..said }
    }

    /// A conversation that consists of these messages, and the last is a question.
    pub(crate) fn with(dialect: Dialect, head: Head, messages: Vec<Said>) -> Self {
        Self {
            dialect,
            head,
            messages,
            step: 0,
            since_prompt: 0,
            filled: 0,
            spoken: Spoken::default(),
            refused: 0,
            refused_in_all: 0,
            too_long: false,
            mark_up_to: None,
            shared_to: None,
            last: Last::Question,
            open: None,
            repaired: false,
            news: Vec::new(),
        }
    }

    /// This waits for the next turn.
    pub(crate) fn hears(&mut self, news: Vec<InboxEntry>) {
        self.news = news;
    }

    /// Whether there is nothing to do but to hear what waits for it.
    pub(crate) fn only_hears(&self) -> bool {
        let has_spoken = matches!(&self.last, Last::Reply { calls, .. } if calls.is_empty());
        has_spoken && self.open.is_none() && !self.news.is_empty()
    }

    /// What comes next. `waits` where others are still at work for it.
    pub(crate) fn next(&self, settings: &RunSettings, waits: bool) -> Next {
        match &self.open {
            Some(Open::Asked(Written { purpose: Purpose::Turn, .. })) => {
                return Next::Ask(Telling::default());
            }
            Some(_) => return Next::Compact(Telling::default()),
            None => {}
        }
        if self.too_long {
            return Next::Compact(Telling::default());
        }
        let over = self.since_prompt > settings.max_steps;
        let note = match &self.last {
            Last::Question => Vec::new(),
            // News gives it steps anew; what it still asks for itself is not done any more.
            Last::Reply { calls, .. }
                if over && (self.news.is_empty() || calls.iter().any(|call| call.status.is_open())) =>
            {
                match self.repair(settings).filter(|_| self.is_answered() && !waits) {
                    Some(repair) => vec![text(&repair)],
                    None => return Next::End(RunStatus::StepCap),
                }
            }
            // What it asks for before it breaks off is not done either.
            Last::Reply { stop: Some(stop), .. } if is_refusal(stop) => return Next::End(RunStatus::Failed),
            Last::Reply { calls, .. } if calls.iter().any(|call| call.status.is_open()) => return Next::Call,
            Last::Reply { .. } if self.refused >= REFUSALS || self.refused_in_all >= REFUSALS_IN_ALL => {
                return Next::Refused(self.refused_in_all);
            }
            Last::Reply { calls, .. } if !calls.is_empty() => self.results(),
            Last::Reply { stop: Some(StopReason::MaxTokens | StopReason::ContextWindow), .. } => {
                if self.spoken.cuts() >= CUTS {
                    return Next::CutOff(CUTS);
                }
                vec![text(words::GO_ON)]
            }
            Last::Reply { stop: Some(StopReason::PauseTurn), .. } => {
                return self.go_on(settings, Vec::new(), true);
            }
            // What it says before it has heard of all that it waits for is not its answer.
            Last::Reply { .. } if !self.news.is_empty() => Vec::new(),
            Last::Reply { .. } if waits => return Next::End(RunStatus::Completed),
            Last::Reply { .. } => match self.repair(settings) {
                Some(repair) => vec![text(&repair)],
                None => return Next::End(RunStatus::Completed),
            },
        };
        self.go_on(settings, note, false)
    }

    /// Asks, with what else there is to say. A turn that was paused goes on as it is: nothing may come between.
    fn go_on(&self, settings: &RunSettings, note: Vec<Block>, paused: bool) -> Next {
        let mut blocks = note;
        if self.since_prompt == settings.max_steps && matches!(self.last, Last::Reply { .. }) {
            blocks.push(text(words::grace(settings.output_schema.is_some())));
        }
        let paused = paused && blocks.is_empty();
        let (mut delivers, mut jobs) = (Vec::new(), Vec::new());
        if !paused {
            blocks.extend(self.news.iter().map(|entry| text(&String::from_utf8_lossy(&entry.body))));
            delivers.extend(self.news.iter().map(|entry| entry.id));
            jobs.extend(self.news.iter().filter_map(|entry| entry.job.clone()));
        }
        let reminder = settings.fork.as_ref().and_then(|fork| fork.reminder.as_deref());
        if !blocks.is_empty() {
            blocks.extend(reminder.map(text));
        }
        let telling = Telling { blocks, delivers, jobs };
        if self.is_full(settings) && self.messages.len() > 2 && !paused {
            return Next::Compact(telling);
        }
        Next::Ask(telling)
    }

    /// Whether the last reply is an answer, of whatever shape: it asks for nothing more, and does not refuse.
    fn is_answered(&self) -> bool {
        let goes_on = |stop: &StopReason| is_refusal(stop) || *stop == StopReason::PauseTurn;
        match &self.last {
            Last::Question => false,
            Last::Reply { stop, calls } => calls.is_empty() && !stop.as_ref().is_some_and(goes_on),
        }
    }

    /// What is wrong with an answer that must be of a certain shape; once, since the second is taken as it is.
    fn repair(&self, settings: &RunSettings) -> Option<String> {
        let schema = settings.output_schema.as_ref()?;
        if self.repaired {
            return None;
        }
        let why = schema::check(schema, self.spoken.last().unwrap_or_default()).err()?;
        Some(words::repair(&why))
    }

    /// Whether a summary is due. Who does not say how many tokens there were is taken at four bytes for each; what a
    /// summary has left is not summed up again before there was a reply to it.
    fn is_full(&self, settings: &RunSettings) -> bool {
        if self.filled > 0 {
            return self.filled >= settings.compact_at;
        }
        let bytes: usize = self.messages.iter().map(|said| said.bytes.len()).sum();
        let replied = self.messages.iter().any(|said| said.origin == Origin::Reply);
        replied && (bytes + self.head.bytes().len()) as u64 / BYTES_A_TOKEN >= settings.compact_at
    }

    /// The calls of the last reply, in order.
    pub(crate) fn calls(&self) -> &[StoredToolCall] {
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
        self.repaired |= is_repair(origin, bytes.as_bytes());
        self.spoken.said(origin, bytes.as_bytes());
        self.messages.push(Said { seq, role: Role::User, origin, bytes });
        if starts_anew(origin) {
            self.since_prompt = 0;
        }
        self.last = Last::Question;
    }

    /// The model replied.
    pub(crate) fn replied(
        &mut self,
        reply: &session::Reply,
        seq: Seq,
        bytes: String,
        calls: Vec<StoredToolCall>,
    ) {
        self.messages.push(Said { seq, role: Role::Assistant, origin: Origin::Reply, bytes });
        self.step += 1;
        self.since_prompt += 1;
        self.filled = filled(&reply.usage);
        self.spoken.replied(reply.text());
        self.last = Last::Reply { stop: reply.stop.clone(), calls };
    }

    /// A call has its result.
    pub(crate) fn finished(&mut self, finished: StoredToolCall) {
        let is_refused = finished.status == CallStatus::Denied;
        self.refused = if is_refused { self.refused + 1 } else { 0 };
        self.refused_in_all += u32::from(is_refused);
        if let Last::Reply { calls, .. } = &mut self.last
            && let Some(call) = calls.iter_mut().find(|call| call.key == finished.key)
        {
            *call = finished;
        }
    }

    /// The messages that are still needed word for word behind a summary: the last reply with what was said to it, or
    /// the last question.
    pub(crate) fn in_flight(&self) -> &[Said] {
        let reply = self.messages.iter().rposition(|said| said.origin == Origin::Reply);
        let last = self.messages.len().saturating_sub(1);
        // Results and our own words are about the reply before them; a plain question needs none.
        let about_it = |said: &Said| matches!(said.origin, Origin::Results | Origin::Kernel);
        match reply {
            Some(reply) if self.messages[reply + 1..].iter().any(about_it) => &self.messages[reply..],
            _ => &self.messages[last..],
        }
    }

    /// The messages that a summary up to that one does not replace.
    pub(crate) fn behind(&self, to: Option<Seq>) -> &[Said] {
        let in_flight = self.messages.len() - self.in_flight().len();
        let later = self.messages.iter().position(|said| Some(said.seq) > to);
        &self.messages[later.map_or(in_flight, |later| later.min(in_flight))..]
    }

    /// The provider would not take the last question: the conversation is too long for it. Whether a summary of what
    /// came before the part in flight can help; not where that was tried already, or is next to nothing.
    pub(crate) fn shorten(&mut self) -> bool {
        let older = self.messages.len() - self.in_flight().len();
        let replied = self.messages.iter().any(|said| said.origin == Origin::Reply);
        let asked = self.messages.last().is_some_and(|said| said.role == Role::User);
        let can = !self.too_long && replied && asked && older >= 2;
        self.too_long |= can;
        can
    }

    /// The last message that a question for that purpose holds.
    pub(crate) fn last_for(&self, purpose: Purpose) -> Option<Seq> {
        let left_out = if purpose == Purpose::Summary && self.too_long { self.in_flight().len() } else { 0 };
        self.messages.iter().rev().nth(left_out).map(|said| said.seq)
    }

    /// Older messages were replaced.
    pub(crate) fn compacted(&mut self, messages: Vec<Said>) {
        self.messages = messages;
        self.filled = 0;
        self.too_long = false;
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

    /// The body of a request that begins with that head and ends with that message, and where its markers are. `tail` is
    /// said last and not written down.
    pub(crate) fn request(&self, head: &Head, to: Option<Seq>, tail: Option<&str>) -> (Vec<u8>, String) {
        let sent = || self.messages.iter().filter(|said| Some(said.seq) <= to);
        let shared = self.shared_to.filter(|shared| sent().any(|said| said.seq == *shared));
        let last = self.mark_up_to.or(shared.filter(|_| self.step == 0));
        let may_be = |said: &&Said| last.is_none_or(|to| said.seq <= to);
        let is_question =
            |said: &&Said| said.role == Role::User || (Some(said.seq) == shared && self.step == 0);
        let questions = sent().rev().filter(is_question).filter(may_be).map(|said| said.seq);
        // The first request kept nothing of the fork's own: the second one finds what both have read, however far back.
        let marked: Vec<Seq> = match shared.filter(|_| self.step == 1) {
            Some(shared) => questions.take(MARKED - 1).chain([shared]).collect(),
            None => questions.take(MARKED).collect(),
        };
        let messages = sent().map(|said| (said.seq, said.bytes.as_str()));
        let body = request::body(self.dialect, head.bytes(), messages, &marked, tail);
        (body, request::marks(&marked))
    }
}

/// The tokens that a conversation takes after a reply; 0 where they are not told.
fn filled(usage: &session::Usage) -> u64 {
    if usage.is_reported() { usage.input_total().saturating_add(usage.output) } else { 0 }
}

/// Whether a message says that an answer has not the shape that was asked for.
pub(crate) fn is_repair(origin: Origin, bytes: &[u8]) -> bool {
    origin == Origin::Kernel && String::from_utf8_lossy(bytes).contains(words::REPAIR)
}

/// A call's result as the model sees it.
fn shown(call: &StoredToolCall) -> Option<Block> {
    let result = call.result.as_ref()?;
    Some(Block::ToolResult(preview::shown(result, call.preview.as_deref())))
}

fn text(text: &str) -> Block {
    Block::Text { text: text.to_owned() }
}

/// The results of calls that will never be run: what exists stays, what is missing gets one constant sentence each.
pub(crate) fn placeholder(call: &StoredToolCall, sentence: &str) -> ToolResult {
    ToolResult { call: call.call.clone(), blocks: vec![text(sentence)], is_error: true, server: false }
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

/// The summary that a reply is; a refusal is none, whatever it says, and neither is one that breaks off or what a model
/// says before a call.
pub(crate) fn summary_of(reply: &session::Reply) -> Option<String> {
    let broke_off = |stop: &StopReason| {
        let is_cut =
            matches!(stop, StopReason::MaxTokens | StopReason::ContextWindow | StopReason::PauseTurn);
        is_refusal(stop) || is_cut
    };
    let whole = !reply.stop.as_ref().is_some_and(broke_off) && reply.calls().next().is_none();
    reply.text().filter(|text| whole && !text.trim().is_empty())
}
