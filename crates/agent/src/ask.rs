//! One question to the model: written down, asked until it is answered or given up, and the answer written down.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use session::{Block, RunId};
use store::{
    CallKey, CallStatus, Digest, Head, Millis, ModelCallId, NewAttempt, NewMessage, NewModelCall, NewReply,
    NewToolCall, Origin, Purpose, RunKind, Seq, StoreError, StoredToolCall,
};
use tokio::sync::OwnedMutexGuard;

use crate::budget::Over;
use crate::cache_warmup::{First, Lead, Place};
use crate::conversation::{Conversation, Open, Telling, summary_of};
use crate::crash;
use crate::error::RunError;
use crate::event::EventKind;
use crate::fork;
use crate::provider::{
    AttemptEvent, CompleteReply, HttpAttempt, ProviderFailure, RetryAdvice, RetryDecision,
};
use crate::request;
use crate::run::Run;
use crate::stop::StopRequest;

/// What became of a question.
#[derive(Debug)]
pub(crate) enum Asked {
    /// The answer is in the journal.
    Answered,
    /// The run was told to stop.
    Stopped,
    /// It would cost more than the run may; in words.
    NoBudget(String),
    /// The provider gave no answer, however often it was asked.
    GaveUp(ProviderFailure),
}

/// Asks for the next turn. What there is to tell becomes the next message.
pub(crate) async fn turn(run: &Run, talk: &mut Conversation, telling: Telling) -> Result<Asked, RunError> {
    let question = match open_or_new(run, talk, Purpose::Turn, telling).await? {
        Ok(question) => question,
        Err(asked) => return Ok(asked),
    };
    let (whole, attempt) = match persist(run, &question).await? {
        Ok(answered) => answered,
        Err(asked) => return Ok(asked),
    };
    let reply = &whole.answer.reply;
    let bytes = talk.dialect.carry(&whole.body, reply).map_err(RunError::Encode)?;
    let at = run.kernel.clock.millis();
    let calls: Vec<NewToolCall> = reply.calls().map(|call| planned(run, call)).collect();
    let message = NewMessage {
        role: session::Role::Assistant,
        origin: Origin::Reply,
        bytes: bytes.clone().into_bytes(),
        text: reply.text(),
        at,
    };
    let cost = run.cost(reply);
    let answered = NewReply {
        reply: whole.body.clone(),
        usage: reply.usage,
        cost_microusd: cost,
        message: Some(message),
        calls: calls.clone(),
    };
    crash::point("ask.last_byte");
    let seq = run.kernel.store.finish_model_call(question.call, attempt, answered).await?;
    crash::point("ask.commit.after");
    run.tree.settled();
    let seq = seq.expect("a reply with a message has a number");
    let calls = calls.into_iter().enumerate().map(|(position, call)| row(run, seq, position, call)).collect();
    talk.replied(reply, seq, bytes, calls);
    run.tell(EventKind::Message {
        seq: seq.0,
        step: talk.step,
        text: reply.text(),
        calls: reply.calls().map(|call| (call.id.clone(), call.name.clone())).collect(),
        usage: reply.usage,
        cost_microusd: cost,
    });
    Ok(Asked::Answered)
}

/// A call as it is written down with the reply that asks for it.
fn planned(run: &Run, call: &session::ToolCall) -> NewToolCall {
    NewToolCall {
        call: call.id.clone(),
        name: call.name.clone(),
        input: call.input.clone().into_bytes(),
        policy: run.tools.policy(&call.name),
    }
}

/// The same, as the journal has it then.
fn row(run: &Run, message: Seq, position: usize, planned: NewToolCall) -> StoredToolCall {
    let position = u32::try_from(position).unwrap_or(u32::MAX);
    StoredToolCall {
        key: CallKey { run: run.id.clone(), message, position },
        call: planned.call,
        name: planned.name,
        input: planned.input,
        policy: planned.policy,
        status: CallStatus::Planned,
        result: None,
        preview: None,
        started_at: None,
        ended_at: None,
    }
}

/// Asks for a summary; its text, where there is one, and the last message that it is about.
pub(crate) async fn summary(
    run: &Run,
    talk: &mut Conversation,
    telling: Telling,
) -> Result<Result<(Option<String>, Option<Seq>), Asked>, RunError> {
    let question = match open_or_new(run, talk, Purpose::Summary, telling).await? {
        Ok(question) => question,
        Err(asked) => return Ok(Err(asked)),
    };
    let (whole, attempt) = match persist(run, &question).await? {
        Ok(answered) => answered,
        Err(asked) => return Ok(Err(asked)),
    };
    let reply = whole.answer.reply;
    let answered = NewReply {
        reply: whole.body,
        usage: reply.usage,
        cost_microusd: run.cost(&reply),
        message: None,
        calls: Vec::new(),
    };
    crash::point("ask.last_byte");
    run.kernel.store.finish_model_call(question.call, attempt, answered).await?;
    crash::point("ask.commit.after");
    run.tree.settled();
    Ok(Ok((summary_of(&reply), question.to)))
}

/// A question that is in the journal.
struct Question {
    call: ModelCallId,
    body: Bytes,
    step: u32,
    /// The last message that it holds.
    to: Option<Seq>,
    /// It was written down by a process that is gone.
    is_old: bool,
}

/// The question that was written down before the process ended, or a new one, written down now.
async fn open_or_new(
    run: &Run,
    talk: &mut Conversation,
    purpose: Purpose,
    Telling { blocks, delivers, jobs }: Telling,
) -> Result<Result<Question, Asked>, RunError> {
    let tail = request::tail(talk.dialect, purpose).map_err(RunError::Encode)?;
    let step = talk.step + 1;
    let at = run.kernel.clock.millis();
    if let Some(Open::Asked(written)) = talk.take_open() {
        // A summary is one of what came before; whatever was said since comes behind it.
        let to = if written.purpose == Purpose::Summary {
            Some(written.to)
        } else {
            talk.last_for(written.purpose)
        };
        let (call, head) = (written.call, head_of(run, talk, written.head)?);
        let (body, _) = talk.request(&head, to, tail.as_deref());
        if Digest::of(&body) == written.request {
            return Ok(Ok(Question { call, body: body.into(), step, to, is_old: true }));
        }
        // More was said since, or another version of us says it differently: then it is another question.
        crash::point("ask.other.before");
        run.kernel.store.fail_model_call(call, at, "another question was asked instead").await?;
        crash::point("ask.other.after");
    }
    let message = match blocks.is_empty() {
        true => None,
        false => Some(NewMessage {
            role: session::Role::User,
            origin: origin(&blocks, delivers.len()),
            bytes: talk.encode(blocks.clone()).map_err(RunError::Encode)?.into_bytes(),
            text: None,
            at,
        }),
    };
    let next = talk.next_seq();
    let from = talk.messages.first().map_or(next, |said| said.seq);
    if let Some(message) = &message {
        talk.said(next, message.origin, String::from_utf8_lossy(&message.bytes).into_owned());
    }
    let to = talk.last_for(purpose);
    let mut longest = run.longest_answer();
    let (call, body) = loop {
        let head = shortened(run, talk, longest)?;
        let (body, marks) = talk.request(&head, to, tail.as_deref());
        let length = body.len();
        run.requests(length);
        let (reserved_microusd, reserved_tokens) = run.reserve(length, run.set_aside(longest));
        let asked = NewModelCall {
            run: run.id.clone(),
            step,
            purpose,
            head,
            from,
            to,
            marks,
            request_sha256: Digest::of(&body),
            request_len: length as u64,
            model: run.model.clone(),
            provider: run.provider.clone(),
            reserved_microusd,
            reserved_tokens,
            within: run.may_use(),
            results: message.clone(),
            delivers: delivers.clone(),
            at,
        };
        match write_down(run, asked, length).await? {
            Ok(call) => break (call, body),
            Err(Refused::Unless(shorter)) => longest = shorter.min(longest - 1),
            Err(Refused::Asked(asked)) => return Ok(Err(asked)),
        }
    };
    if !jobs.is_empty() {
        run.tell(EventKind::Woken { seq: next.0, jobs });
    }
    Ok(Ok(Question { call, body: body.into(), step, to, is_old: false }))
}

#[cfg(test)]
thread_local! {
    /// How often a question did not fit yet.
    pub(crate) static PUT_OFF: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// The head of that name: the usual one, or one that a request was sent with.
fn head_of(run: &Run, talk: &Conversation, hash: Digest) -> Result<Head, RunError> {
    let other = match hash == talk.head.hash() {
        true => None,
        false => run.kernel.store.run(&run.id).head(hash)?,
    };
    Ok(other.map_or_else(|| talk.head.clone(), Head::new))
}

/// The usual head, or one that asks for no longer an answer than that.
fn shortened(run: &Run, talk: &Conversation, longest: u64) -> Result<Head, RunError> {
    if longest >= run.longest_answer() {
        return Ok(talk.head.clone());
    }
    let capped = fork::capped(talk.dialect, talk.head.bytes(), longest, true);
    capped.map(Head::new).map_err(RunError::CacheLost)
}

/// Why a question is not written down.
enum Refused {
    /// It would cost too much, unless its answer is no longer than that.
    Unless(u64),
    /// It is not asked.
    Asked(Asked),
}

/// Writes a question down, as soon as what it could use is free: others of the tree may have set it aside, and use less.
async fn write_down(
    run: &Run,
    asked: NewModelCall,
    length: usize,
) -> Result<Result<ModelCallId, Refused>, RunError> {
    let delivers = !asked.delivers.is_empty();
    let mut first: Option<(RunId, OwnedMutexGuard<()>)> = None;
    loop {
        let mut settling = run.tree.settling();
        crash::point("ask.intent.before");
        if delivers {
            crash::point("inbox.before");
        }
        let over = match run.kernel.store.begin_model_call(asked.clone()).await {
            // Another process asked for it, and nobody has looked for that yet.
            Err(StoreError::CancelRequested(_)) => {
                run.stop_handle.request(StopRequest::Cancel);
                return Ok(Err(Refused::Asked(Asked::Stopped)));
            }
            Err(StoreError::OverBudget { limit, unit, used, wanted, most, reserved }) => {
                Over { limit, unit, used, reserved, wanted, most }
            }
            call => {
                let call = call?;
                crash::point("ask.intent.after");
                if delivers {
                    crash::point("inbox.after");
                }
                return Ok(Ok(call));
            }
        };
        if !over.may_pass() {
            if let Some(shorter) = over.shorter(run, length) {
                return Ok(Err(Refused::Unless(shorter)));
            }
            if over.reserved == 0 {
                return Ok(Err(Refused::Asked(Asked::NoBudget(over.in_words(run)))));
            }
        }
        #[cfg(test)]
        PUT_OFF.with(|count| count.set(count.get() + 1));
        // Whoever has set it aside may be waiting for a place.
        run.leave_place();
        let of = over.limit.run;
        let is_first = first.as_ref().is_some_and(|(line, _)| *line == of);
        if !is_first {
            first = None; // two lines at once could wait for each other
        }
        tokio::select! {
            _ = settling.changed(), if is_first => {}
            turn = run.tree.line(&of), if !is_first => first = Some((of.clone(), turn)),
            () = run.stop.wait_for(StopRequest::Pause) => return Ok(Err(Refused::Asked(Asked::Stopped))),
        }
        run.take_place().await;
    }
}

/// Results are told from news, and both from the kernel's own words.
fn origin(blocks: &[Block], news: usize) -> Origin {
    let results = blocks.iter().any(|block| matches!(block, Block::ToolResult(_)));
    match results {
        true => Origin::Results,
        false if news > 0 && news == blocks.len() => Origin::Inbox,
        false => Origin::Kernel,
    }
}

/// Asks until there is an answer, it is given up, or the run is told to stop. Every attempt is in the journal before
/// the next one; the one that succeeded is handed back, to be written down together with what it brought.
async fn persist(
    run: &Run,
    question: &Question,
) -> Result<Result<(CompleteReply, NewAttempt), Asked>, RunError> {
    let store = &run.kernel.store;
    let Some(lead) = follow(run, question).await? else { return Ok(Err(Asked::Stopped)) };
    for number in 1.. {
        // Whoever was asked to stop before its process was gone, or while it waited, asks nobody any more.
        if (question.is_old || number > 1) && store.run(&run.id).cancel_requested()? {
            run.stop_handle.request(StopRequest::Cancel);
            return Ok(Err(Asked::Stopped));
        }
        let turn = tokio::select! {
            turn = run.tree.request() => turn,
            () = run.stop.wait_for(StopRequest::Pause) => return Ok(Err(Asked::Stopped)),
        };
        let attempted = one(run, question, lead.as_ref()).await;
        drop(turn);
        let attempt = match attempted {
            Ok(attempt) => attempt,
            Err(mut dropped) => {
                run.kernel.model.hide_key(&mut dropped.response);
                store.record_failed_attempt(question.call, dropped).await?;
                return Ok(Err(Asked::Stopped));
            }
        };
        run.log_attempt(question.step, number, &attempt);
        let kept = kept(&attempt);
        let failure = match attempt.outcome {
            Ok(whole) => {
                run.kernel.backoff.succeeded();
                return Ok(Ok((whole, kept)));
            }
            Err(failure) => failure,
        };
        crash::point("ask.failed.before");
        store.record_failed_attempt(question.call, kept).await?;
        crash::point("ask.failed.after");
        match run.kernel.backoff.next(number, &failure, &mut fastrand::Rng::new()) {
            RetryDecision::GiveUp { reason, .. } => {
                let message = format!("{failure}; {reason}");
                crash::point("ask.gave_up.before");
                store.fail_model_call(question.call, run.kernel.clock.millis(), message.clone()).await?;
                crash::point("ask.gave_up.after");
                run.tree.settled();
                // Where it may pass, whoever reads this wants to know why nobody waited for that.
                return Ok(Err(Asked::GaveUp(match failure.retry {
                    RetryAdvice::No => failure,
                    _ => ProviderFailure { message, ..failure },
                })));
            }
            RetryDecision::Wait(wait) => {
                let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
                run.tell(EventKind::Retrying { attempt: number, error: failure.to_string(), wait_ms });
                tokio::select! {
                    () = tokio::time::sleep(wait) => {}
                    () = run.stop.wait_for(StopRequest::Pause) => return Ok(Err(Asked::Stopped)),
                }
            }
        }
    }
    unreachable!("whoever counts attempts gives up some day")
}

/// How long a fork waits for another one's answer to begin.
const FAN_OUT: Duration = Duration::from_secs(5);

/// Lets the first fork of a turn go ahead: what it writes can be read by the others once its answer has begun. Whether
/// this one is the first; nothing where the run was told to stop meanwhile.
async fn follow(run: &Run, question: &Question) -> Result<Option<Option<Lead>>, RunError> {
    if run.kind != RunKind::Fork || question.step != 1 {
        return Ok(Some(None));
    }
    let Some(fork) = run.kernel.store.run(&run.id).fork()? else { return Ok(Some(None)) };
    let (turn, cache_warmup) = ((fork.of, fork.to), &run.kernel.cache_warmup);
    let enough = tokio::time::sleep(FAN_OUT);
    tokio::pin!(enough);
    loop {
        let mut first = match cache_warmup.place(turn.clone()) {
            Place::Leads(lead) => return Ok(Some(Some(lead))),
            Place::Follows(first) => first,
        };
        let first = tokio::select! {
            first = first.wait() => first,
            () = &mut enough => First::Begun, // or it never will
            () = run.stop.wait_for(StopRequest::Pause) => return Ok(None),
        };
        if first == First::Begun {
            return Ok(Some(None));
        }
    }
}

/// One attempt; what had come of it where the run is told to stop before it ends.
async fn one(run: &Run, question: &Question, lead: Option<&Lead>) -> Result<HttpAttempt, NewAttempt> {
    let mut dropped = NewAttempt {
        status: None,
        ending: "stopped".to_owned(),
        error: None,
        retry_after_ms: None,
        response: Vec::new(),
        started_at: millis(SystemTime::now()),
        first_byte_at: None,
        ended_at: Millis::default(),
    };
    let mut on = |seen: AttemptEvent<'_>| match seen {
        AttemptEvent::Head(status, _) => dropped.status = Some(status.as_u16()),
        AttemptEvent::FirstByte => {
            // A refusal writes nothing that others could read.
            if let Some(lead) = lead.filter(|_| dropped.status.is_some_and(|status| status < 300)) {
                lead.begun();
            }
            dropped.first_byte_at = Some(millis(SystemTime::now()));
            crash::point("ask.first_byte");
        }
        // A refusal may quote the key; only who reads it to its end can star that out.
        AttemptEvent::Bytes(bytes) if dropped.status.is_some_and(|status| status < 300) => {
            dropped.response.extend_from_slice(bytes);
        }
        AttemptEvent::Bytes(_) => {}
        AttemptEvent::Delta { block, text } => {
            crash::point("ask.mid_stream");
            run.tell(EventKind::Provisional { part: block, text: text.to_owned() });
        }
    };
    tokio::select! {
        attempt = run.kernel.model.attempt(question.body.clone(), &mut on) => Ok(attempt),
        () = run.stop.wait_for(StopRequest::Pause) => {
            dropped.ended_at = millis(SystemTime::now());
            Err(dropped)
        }
    }
}

/// An attempt as the journal keeps it.
fn kept(attempt: &HttpAttempt) -> NewAttempt {
    let (ending, error) = match &attempt.outcome {
        Ok(_) => ("complete", None),
        Err(failure) => (failure.kind.word(), Some(failure.message.clone())),
    };
    NewAttempt {
        status: attempt.status,
        ending: ending.to_owned(),
        error,
        retry_after_ms: attempt.retry_after.map(|after| i64::try_from(after.as_millis()).unwrap_or(i64::MAX)),
        response: attempt.bytes.clone(),
        started_at: millis(attempt.started),
        first_byte_at: attempt.first_byte.map(millis),
        ended_at: millis(attempt.ended),
    }
}

fn millis(at: SystemTime) -> Millis {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
