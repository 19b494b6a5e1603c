//! One request to the model: written to the journal, sent until it is answered or given up, and the reply written.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use session::{Block, RunId};
use store::{
    CallKey, CallStatus, Digest, Head, Millis, ModelCallId, NewAttempt, NewMessage, NewModelCall, NewReply,
    NewToolCall, Origin, Purpose, RunKind, Seq, StoreError, StoredToolCall,
};
use tokio::sync::OwnedMutexGuard;

use crate::budget::BudgetExcess;
use crate::cache_warmup::{Leader, LeaderState, WarmupRole};
use crate::conversation::{Conversation, NextMessage, OpenRequest, summary_of};
use crate::crash;
use crate::error::RunError;
use crate::event::EventKind;
use crate::head;
use crate::provider::{
    AttemptEvent, CompleteReply, HttpAttempt, ProviderFailure, RequestSender, RetryAdvice, RetryDecision,
};
use crate::request;
use crate::run::Run;
use crate::stop::StopRequest;

/// The outcome of a request.
#[derive(Debug)]
pub(crate) enum CallOutcome {
    /// The reply is in the journal.
    Answered,
    /// A stop was requested.
    Stopped,
    /// The request could exceed a budget. The text says by how much.
    OverBudget(String),
    /// All attempts failed.
    GaveUp(ProviderFailure),
}

/// Requests the next turn. `message` becomes the next message.
pub(crate) async fn turn(
    run: &Run,
    conversation: &mut Conversation,
    message: NextMessage,
) -> Result<CallOutcome, RunError> {
    let request = match open_or_new(run, conversation, Purpose::Turn, message).await? {
        Ok(request) => request,
        Err(outcome) => return Ok(outcome),
    };
    let (whole, attempt) = match send(run, &request).await? {
        Ok(answered) => answered,
        Err(outcome) => return Ok(outcome),
    };
    let reply = &whole.answer.reply;
    let bytes = conversation.dialect.carry(&whole.body, reply).map_err(RunError::Encode)?;
    let at = run.kernel.clock.millis();
    let calls: Vec<NewToolCall> = reply.calls().map(|call| new_call(run, call)).collect();
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
    let seq = run.kernel.store.finish_model_call(request.call, attempt, answered).await?;
    crash::point("ask.commit.after");
    run.tree.notify_released();
    let seq = seq.expect("a reply with a message has a number");
    let calls =
        calls.into_iter().enumerate().map(|(position, call)| stored_call(run, seq, position, call)).collect();
    conversation.replied(reply, seq, bytes, calls);
    run.emit(EventKind::Message {
        seq: seq.0,
        step: conversation.step,
        text: reply.text(),
        calls: reply.calls().map(|call| (call.id.clone(), call.name.clone())).collect(),
        usage: reply.usage,
        cost_microusd: cost,
    });
    Ok(CallOutcome::Answered)
}

/// Creates the row of a call.
fn new_call(run: &Run, call: &session::ToolCall) -> NewToolCall {
    NewToolCall {
        call: call.id.clone(),
        name: call.name.clone(),
        input: call.input.clone().into_bytes(),
        policy: run.bounds.tools.policy(&call.name),
    }
}

/// Returns the row as the journal has it.
fn stored_call(run: &Run, message: Seq, position: usize, new: NewToolCall) -> StoredToolCall {
    let position = u32::try_from(position).unwrap_or(u32::MAX);
    StoredToolCall {
        key: CallKey { run: run.id().clone(), message, position },
        call: new.call,
        name: new.name,
        input: new.input,
        policy: new.policy,
        status: CallStatus::Planned,
        result: None,
        preview: None,
        started_at: None,
        ended_at: None,
    }
}

/// Requests a summary. Returns its text, unless the reply is not a summary, and the last message that it covers.
pub(crate) async fn summary(
    run: &Run,
    conversation: &mut Conversation,
    message: NextMessage,
) -> Result<Result<(Option<String>, Option<Seq>), CallOutcome>, RunError> {
    let request = match open_or_new(run, conversation, Purpose::Summary, message).await? {
        Ok(request) => request,
        Err(outcome) => return Ok(Err(outcome)),
    };
    let (whole, attempt) = match send(run, &request).await? {
        Ok(answered) => answered,
        Err(outcome) => return Ok(Err(outcome)),
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
    run.kernel.store.finish_model_call(request.call, attempt, answered).await?;
    crash::point("ask.commit.after");
    run.tree.notify_released();
    Ok(Ok((summary_of(&reply), request.to)))
}

/// A request that is in the journal.
struct PendingRequest {
    call: ModelCallId,
    body: Bytes,
    step: u32,
    /// Its last message.
    to: Option<Seq>,
    /// True if an earlier process wrote it.
    is_old: bool,
}

/// Returns the request that an earlier process wrote, or writes a new one.
async fn open_or_new(
    run: &Run,
    conversation: &mut Conversation,
    purpose: Purpose,
    NextMessage { blocks, delivers, jobs }: NextMessage,
) -> Result<Result<PendingRequest, CallOutcome>, RunError> {
    let tail = request::tail(conversation.dialect, purpose).map_err(RunError::Encode)?;
    let step = conversation.step + 1;
    let at = run.kernel.clock.millis();
    if let Some(OpenRequest::Sent(written)) = conversation.take_open() {
        // A summary covers the messages before its request, and later messages follow it.
        let to = if written.purpose == Purpose::Summary {
            Some(written.to)
        } else {
            conversation.last_for(written.purpose)
        };
        let (call, head) = (written.call, head_of(run, conversation, written.head)?);
        let (body, _) = conversation.request(&head, to, tail.as_deref());
        if Digest::of(&body) == written.request {
            return Ok(Ok(PendingRequest { call, body: body.into(), step, to, is_old: true }));
        }
        // There are new messages, or this version encodes them differently: this is another request.
        crash::point("ask.other.before");
        run.kernel.store.fail_model_call(call, at, "replaced by another request").await?;
        crash::point("ask.other.after");
    }
    let message = match blocks.is_empty() {
        true => None,
        false => Some(NewMessage {
            role: session::Role::User,
            origin: origin(&blocks, delivers.len()),
            bytes: conversation.encode(blocks.clone()).map_err(RunError::Encode)?.into_bytes(),
            text: None,
            at,
        }),
    };
    let next = conversation.next_seq();
    let from = conversation.messages.first().map_or(next, |message| message.seq);
    if let Some(message) = &message {
        conversation.prompted(next, message.origin, String::from_utf8_lossy(&message.bytes).into_owned());
    }
    let to = conversation.last_for(purpose);
    let mut limit = run.output_limit();
    let (call, body) = loop {
        let head = limited_head(run, conversation, limit)?;
        let (body, marks) = conversation.request(&head, to, tail.as_deref());
        let length = body.len();
        run.set_last_request_len(length);
        let (reserved_microusd, reserved_tokens) = run.reserve(length, run.reserved_output(limit));
        let new = NewModelCall {
            run: run.id().clone(),
            step,
            purpose,
            head,
            from,
            to,
            marks,
            request_sha256: Digest::of(&body),
            request_len: length as u64,
            model: run.row.model.clone(),
            provider: run.row.provider.clone(),
            reserved_microusd,
            reserved_tokens,
            within: run.usable_budgets(),
            results: message.clone(),
            delivers: delivers.clone(),
            at,
        };
        match write_request(run, new, length).await? {
            Ok(call) => break (call, body),
            Err(NotWritten::TooLong(fits)) => limit = fits.min(limit - 1),
            Err(NotWritten::Outcome(outcome)) => return Ok(Err(outcome)),
        }
    };
    if !jobs.is_empty() {
        run.emit(EventKind::Woken { seq: next.0, jobs });
    }
    Ok(Ok(PendingRequest { call, body: body.into(), step, to, is_old: false }))
}

#[cfg(test)]
thread_local! {
    /// Counts requests that waited for a reservation.
    pub(crate) static PUT_OFF: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Returns the head with that digest: the conversation's, or one that an earlier request was sent with.
fn head_of(run: &Run, conversation: &Conversation, hash: Digest) -> Result<Head, RunError> {
    let other = match hash == conversation.head.hash() {
        true => None,
        false => run.kernel.store.run(run.id()).head(hash)?,
    };
    Ok(other.map_or_else(|| conversation.head.clone(), Head::new))
}

/// Returns the conversation's head with that output limit.
fn limited_head(run: &Run, conversation: &Conversation, limit: u64) -> Result<Head, RunError> {
    if limit >= run.output_limit() {
        return Ok(conversation.head.clone());
    }
    let limited = head::with_output_limit(conversation.dialect, conversation.head.bytes(), limit, true);
    limited.map(Head::new).map_err(RunError::CacheLost)
}

/// The reason why a request is not written.
enum NotWritten {
    /// It fits the budget only with this output limit.
    TooLong(u64),
    /// It is not sent at all.
    Outcome(CallOutcome),
}

/// Writes a request as soon as it fits the budgets. Other runs of the tree may hold reservations, and use less in the end.
async fn write_request(
    run: &Run,
    new: NewModelCall,
    length: usize,
) -> Result<Result<ModelCallId, NotWritten>, RunError> {
    let delivers = !new.delivers.is_empty();
    let mut first: Option<(RunId, OwnedMutexGuard<()>)> = None;
    loop {
        let mut releases = run.tree.releases();
        crash::point("ask.intent.before");
        if delivers {
            crash::point("inbox.before");
        }
        let excess = match run.kernel.store.begin_model_call(new.clone()).await {
            // Another process has requested it, and this one has not looked since.
            Err(StoreError::CancelRequested(_)) => {
                run.stop_handle.request(StopRequest::Cancel);
                return Ok(Err(NotWritten::Outcome(CallOutcome::Stopped)));
            }
            Err(StoreError::OverBudget { limit, unit, used, wanted, most, reserved }) => {
                BudgetExcess { limit, unit, used, reserved, requested: wanted, maximum: most }
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
        if !excess.may_fit_later() {
            if let Some(fits) = excess.fitting_output(run, length) {
                return Ok(Err(NotWritten::TooLong(fits)));
            }
            if excess.reserved == 0 {
                return Ok(Err(NotWritten::Outcome(CallOutcome::OverBudget(excess.describe(run)))));
            }
        }
        #[cfg(test)]
        PUT_OFF.with(|count| count.set(count.get() + 1));
        // The run that holds the reservation may be waiting for a slot.
        run.release_slot();
        let of = excess.limit.run;
        let is_first = first.as_ref().is_some_and(|(limit, _)| *limit == of);
        if !is_first {
            first = None; // two queues at once could wait for each other
        }
        tokio::select! {
            _ = releases.changed(), if is_first => {}
            turn = run.tree.budget_turn(&of), if !is_first => first = Some((of.clone(), turn)),
            () = run.stop.wait_for(StopRequest::Pause) => return Ok(Err(NotWritten::Outcome(CallOutcome::Stopped))),
        }
        run.acquire_slot().await;
    }
}

/// Returns the origin of a message: results, inbox entries, or the kernel's own text.
fn origin(blocks: &[Block], entries: usize) -> Origin {
    let results = blocks.iter().any(|block| matches!(block, Block::ToolResult(_)));
    match results {
        true => Origin::Results,
        false if entries > 0 && entries == blocks.len() => Origin::Inbox,
        false => Origin::Kernel,
    }
}

/// Sends a request until it is answered, given up, or a stop is requested. Every failed attempt is in the journal before
/// the next one. The successful one is returned, to be written together with its reply.
async fn send(
    run: &Run,
    request: &PendingRequest,
) -> Result<Result<(CompleteReply, NewAttempt), CallOutcome>, RunError> {
    let store = &run.kernel.store;
    let Some(leader) = wait_for_cache(run, request).await? else { return Ok(Err(CallOutcome::Stopped)) };
    for number in 1.. {
        // A cancel may have been requested since the request was written.
        if (request.is_old || number > 1) && store.run(run.id()).cancel_requested()? {
            run.stop_handle.request(StopRequest::Cancel);
            return Ok(Err(CallOutcome::Stopped));
        }
        let slot = tokio::select! {
            slot = run.tree.request_slot() => slot,
            () = run.stop.wait_for(StopRequest::Pause) => return Ok(Err(CallOutcome::Stopped)),
        };
        let attempted = attempt(run, request, leader.as_ref()).await;
        drop(slot);
        let attempt = match attempted {
            Ok(attempt) => attempt,
            Err(mut dropped) => {
                run.kernel.model.hide_key(&mut dropped.response);
                store.record_failed_attempt(request.call, dropped).await?;
                return Ok(Err(CallOutcome::Stopped));
            }
        };
        run.log_attempt(request.step, number, &attempt);
        let row = attempt_row(&attempt);
        let failure = match attempt.outcome {
            Ok(whole) => {
                run.kernel.backoff.succeeded();
                return Ok(Ok((whole, row)));
            }
            Err(failure) => failure,
        };
        crash::point("ask.failed.before");
        store.record_failed_attempt(request.call, row).await?;
        crash::point("ask.failed.after");
        match run.kernel.backoff.next(number, &failure, &mut fastrand::Rng::new()) {
            RetryDecision::GiveUp { reason, .. } => {
                let message = format!("{failure}; {reason}");
                crash::point("ask.gave_up.before");
                store.fail_model_call(request.call, run.kernel.clock.millis(), message.clone()).await?;
                crash::point("ask.gave_up.after");
                run.tree.notify_released();
                // A failure that may be temporary says why it was not retried.
                return Ok(Err(CallOutcome::GaveUp(match failure.retry {
                    RetryAdvice::No => failure,
                    _ => ProviderFailure { message, ..failure },
                })));
            }
            RetryDecision::Wait(wait) => {
                let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
                run.emit(EventKind::Retrying { attempt: number, error: failure.to_string(), wait_ms });
                tokio::select! {
                    () = tokio::time::sleep(wait) => {}
                    () = run.stop.wait_for(StopRequest::Pause) => return Ok(Err(CallOutcome::Stopped)),
                }
            }
        }
    }
    unreachable!("the number of attempts is limited")
}

/// Time that a fork waits for the first fork's reply to start.
const MAX_WARMUP: Duration = Duration::from_secs(5);

/// Lets the first fork of a turn send its request before the others: they can read its cache entry once its reply starts.
/// Returns the leader's handle if this is the first one. Returns `None` if a stop was requested meanwhile.
async fn wait_for_cache(run: &Run, request: &PendingRequest) -> Result<Option<Option<Leader>>, RunError> {
    if run.row.kind != RunKind::Fork || request.step != 1 {
        return Ok(Some(None));
    }
    let Some(fork) = run.kernel.store.run(run.id()).fork()? else { return Ok(Some(None)) };
    let (turn, cache_warmup) = ((fork.of, fork.to), &run.kernel.cache_warmup);
    let enough = tokio::time::sleep(MAX_WARMUP);
    tokio::pin!(enough);
    loop {
        let mut leader = match cache_warmup.join(turn.clone()) {
            WarmupRole::Leader(leader) => return Ok(Some(Some(leader))),
            WarmupRole::Follower(leader) => leader,
        };
        let state = tokio::select! {
            state = leader.wait() => state,
            () = &mut enough => LeaderState::Answered, // it took too long
            () = run.stop.wait_for(StopRequest::Pause) => return Ok(None),
        };
        if state == LeaderState::Answered {
            return Ok(Some(None));
        }
    }
}

/// Makes one attempt. If a stop is requested before its end, the error has what was received so far.
async fn attempt(
    run: &Run,
    request: &PendingRequest,
    leader: Option<&Leader>,
) -> Result<HttpAttempt, NewAttempt> {
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
            // An error response creates no cache entry.
            if let Some(leader) = leader.filter(|_| dropped.status.is_some_and(|status| status < 300)) {
                leader.answered();
            }
            dropped.first_byte_at = Some(millis(SystemTime::now()));
            crash::point("ask.first_byte");
        }
        // An error response may quote the key, which is only redacted in a complete one.
        AttemptEvent::Bytes(bytes) if dropped.status.is_some_and(|status| status < 300) => {
            dropped.response.extend_from_slice(bytes);
        }
        AttemptEvent::Bytes(_) => {}
        AttemptEvent::Delta { block, text } => {
            crash::point("ask.mid_stream");
            run.emit(EventKind::Provisional { part: block, text: text.to_owned() });
        }
    };
    let sender = RequestSender { root: run.row.root.clone(), run: run.id().clone() };
    tokio::select! {
        attempt = run.kernel.model.attempt(request.body.clone(), &sender, &mut on) => Ok(attempt),
        () = run.stop.wait_for(StopRequest::Pause) => {
            dropped.ended_at = millis(SystemTime::now());
            Err(dropped)
        }
    }
}

/// Creates the row of an attempt.
fn attempt_row(attempt: &HttpAttempt) -> NewAttempt {
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
