//! Our own runs as lanes and exchanges, built from the journal.

use std::collections::HashMap;

use recording::lanes::{CallNote, CarriedResult, JobNotice, Lane, LaneJob, LaneKind, Lanes, Turn};
use recording::source::{ExchangeSummary, OrderedExchanges};
use session::RequestId;
use store::{Attempt, Millis, ModelCall, ModelCallId, ModelCallStatus, RunKind, StoredToolCall};
use wire::Ending;
use wire::dialect::Dialect;

use super::{BodySizes, LaneResumption, Measurements, ToolSpan};
use crate::runs::OneRun;

/// Runs in the form of a recording.
#[derive(Debug)]
pub struct RunsAsRecording {
    /// The lanes and exchanges.
    pub ordered: OrderedExchanges,
    /// All jobs.
    pub jobs: Vec<LaneJob>,
    /// Measured times and sizes.
    pub measured: Measurements,
    /// The source of each exchange: run number, model call number, and attempt number if the attempt has
    /// ended.
    pub kept: Vec<(usize, usize, Option<usize>)>,
    /// Start time of the first run.
    pub began: Millis,
}

/// Returns the request id of a model call. Earlier attempts get their number appended.
fn name(call: ModelCallId, attempt: Option<u32>) -> RequestId {
    match attempt {
        None => RequestId::new(format!("call-{call}")),
        Some(n) => RequestId::new(format!("call-{call}-{n}")),
    }
}

/// Converts a run and all runs below it. `dialect_of` returns the dialect of a run's requests.
pub fn runs_as_recording(
    runs: &[OneRun],
    dialect_of: impl Fn(&OneRun) -> Option<Dialect>,
) -> RunsAsRecording {
    let began = runs.iter().map(|one| one.run.created_at).min().unwrap_or_default();
    let since = |at: Millis| u64::try_from(at.0.saturating_sub(began.0)).unwrap_or_default() * 1_000;
    let mut exchanges: Vec<SourcedExchange> = Vec::new();
    for (run, one) in runs.iter().enumerate() {
        for (call, (asked, attempts)) in one.model_calls.iter().enumerate() {
            for (n, attempt) in attempts.iter().enumerate() {
                let is_last = n + 1 == attempts.len() && !lacks_attempt(asked, attempts);
                exchanges.push(SourcedExchange {
                    summary: summary(asked, attempt, is_last, dialect_of(one), since, one),
                    first_byte: attempt.first_byte_at.map(since),
                    size: BodySizes { sent: asked.request_len, received: attempt.response.len() as u64 },
                    at: (run, call, attempt.ended_at.is_some().then_some(n)),
                });
            }
            if lacks_attempt(asked, attempts) {
                exchanges.push(SourcedExchange {
                    summary: unanswered(asked, dialect_of(one), since),
                    first_byte: None,
                    size: BodySizes { sent: asked.request_len, received: 0 },
                    at: (run, call, None),
                });
            }
        }
    }
    exchanges.sort_by_key(|kept| kept.summary.started_us);
    let first_bytes = exchanges.iter().enumerate().filter_map(|(n, kept)| Some((n, kept.first_byte?)));
    let tools = runs.iter().flat_map(|one| one.tool_calls.iter().map(move |call| (one, call)));
    let tools = tools.filter_map(|(one, call)| {
        let worked = ToolSpan {
            from: since(call.started_at?),
            to: call.ended_at.map(since),
            failed: call.result.as_ref().is_some_and(|result| result.is_error),
        };
        Some(((one.run.id.to_string(), call.call.clone()), worked))
    });
    let state = |one: &OneRun| (one.run.id.to_string(), one.summary.status.as_str());
    RunsAsRecording {
        measured: Measurements {
            first_bytes: first_bytes.collect(),
            sizes: exchanges.iter().enumerate().map(|(n, kept)| (n, kept.size)).collect(),
            states: runs.iter().map(state).collect(),
            resumptions: runs.iter().flat_map(|one| resumptions(one, since)).collect(),
            tools: tools.collect(),
        },
        jobs: runs.iter().filter_map(|one| job(one, runs)).collect(),
        kept: exchanges.iter().map(|kept| kept.at).collect(),
        ordered: OrderedExchanges {
            lanes: lanes(runs),
            exchanges: exchanges.into_iter().map(|kept| kept.summary).collect(),
            problems: Vec::new(),
        },
        began,
    }
}

/// An exchange and its source.
struct SourcedExchange {
    summary: ExchangeSummary,
    first_byte: Option<u64>,
    size: BodySizes,
    at: (usize, usize, Option<usize>),
}

fn summary(
    asked: &ModelCall,
    attempt: &Attempt,
    is_last: bool,
    dialect: Option<Dialect>,
    since: impl Fn(Millis) -> u64,
    one: &OneRun,
) -> ExchangeSummary {
    // The time of the kill is unknown. It was before the run went on.
    let later = one.resumptions.iter().map(|resumption| resumption.at).find(|at| *at >= attempt.started_at);
    let is_killed = attempt.ending == KILLED;
    let end = attempt.ended_at.or(later.or(one.run.ended_at).filter(|_| is_killed));
    ExchangeSummary {
        id: name(asked.id, (!is_last).then_some(attempt.n)),
        method: "POST".to_owned(),
        url: asked.provider.clone(),
        dialect,
        model: Some(asked.model.clone()),
        status: attempt.status,
        ending: ending(&attempt.ending),
        started_us: Some(since(attempt.started_at)),
        took_us: end.map(|end| since(end).saturating_sub(since(attempt.started_at))),
        error: attempt.error.clone().or(is_killed.then(|| "its process was killed".to_owned())),
    }
}

/// The ending of an attempt whose process was killed.
const KILLED: &str = "killed";

/// Returns whether the call has no end and no open attempt: the run was stopped between two attempts.
fn lacks_attempt(call: &ModelCall, attempts: &[Attempt]) -> bool {
    let is_open =
        attempts.last().is_some_and(|attempt| attempt.ended_at.is_none() && attempt.ending != KILLED);
    call.status == ModelCallStatus::Asked && !is_open
}

/// Summarises a request without a response.
fn unanswered(asked: &ModelCall, dialect: Option<Dialect>, since: impl Fn(Millis) -> u64) -> ExchangeSummary {
    ExchangeSummary {
        id: name(asked.id, None),
        method: "POST".to_owned(),
        url: asked.provider.clone(),
        dialect,
        model: Some(asked.model.clone()),
        status: None,
        ending: None,
        started_us: Some(since(asked.asked_at)),
        took_us: None,
        error: None,
    }
}

fn ending(word: &str) -> Option<Ending> {
    serde_json::from_value(word.into()).ok()
}

/// Creates one lane per run, with turns numbered over all lanes in order of their requests.
fn lanes(runs: &[OneRun]) -> Lanes {
    let mut order: Vec<(Millis, usize, usize)> = runs
        .iter()
        .enumerate()
        .flat_map(|(run, one)| {
            one.model_calls.iter().enumerate().map(move |(n, (call, _))| (call.asked_at, run, n))
        })
        .collect();
    order.sort();
    let seqs: HashMap<(usize, usize), u32> =
        order.iter().zip(1..).map(|((_, run, n), seq)| ((*run, *n), seq)).collect();
    let lane = |(run, one): (usize, &OneRun)| Lane {
        id: one.run.id.to_string(),
        kind: match one.run.kind {
            RunKind::Main => LaneKind::Main,
            RunKind::Sub => LaneKind::Sub,
            RunKind::Fork => LaneKind::Fork,
        },
        parent: one.run.parent.as_ref().map(ToString::to_string),
        spawned_by: one.run.spawned_by.clone(),
        agent_type: Some(one.run.agent.clone()),
        session: None,
        agent: None,
        turns: (0..one.model_calls.len())
            .map(|n| turn(one, n, seqs.get(&(run, n)).copied().unwrap_or_default()))
            .collect(),
    };
    Lanes { lanes: runs.iter().enumerate().map(lane).collect() }
}

fn turn(one: &OneRun, n: usize, seq: u32) -> Turn {
    let (call, attempts) = &one.model_calls[n];
    let is_unanswered = lacks_attempt(call, attempts);
    let last = attempts.len() + usize::from(is_unanswered);
    let note = |call: &StoredToolCall| CallNote {
        id: call.call.clone(),
        name: call.name.clone(),
        input: String::from_utf8_lossy(&call.input).into_owned(),
    };
    let carried = |call: &StoredToolCall| CarriedResult {
        call: call.call.clone(),
        text: String::new(),
        is_error: call.result.as_ref().is_some_and(|result| result.is_error),
    };
    let before = n.checked_sub(1).map(|before| &one.model_calls[before].0);
    Turn {
        turn: number(n),
        seq,
        attempts: attempts
            .iter()
            .enumerate()
            .map(|(at, attempt)| name(call.id, (at + 1 < last).then_some(attempt.n)))
            .chain(is_unanswered.then(|| name(call.id, None)))
            .collect(),
        calls: made(one, call).map(note).collect(),
        results: before
            .into_iter()
            .flat_map(|before| made(one, before))
            .filter(|call| call.result.is_some())
            .map(carried)
            .collect(),
        text: reply(one, call).and_then(|message| message.text.clone()),
        usage: call.usage,
        whole: true,
        ..Turn::default()
    }
}

/// Turns are numbered from 1.
fn number(n: usize) -> u32 {
    u32::try_from(n + 1).unwrap_or(u32::MAX)
}

fn reply<'r>(one: &'r OneRun, call: &ModelCall) -> Option<&'r store::StoredMessage> {
    one.messages
        .iter()
        .find(|message| message.model_call == Some(call.id) && message.role == session::Role::Assistant)
}

/// Returns the tool calls in a reply.
fn made<'r>(one: &'r OneRun, call: &ModelCall) -> impl Iterator<Item = &'r StoredToolCall> {
    let message = reply(one, call).map(|message| message.seq);
    one.tool_calls.iter().filter(move |call| Some(call.key.message) == message)
}

/// Describes how a run was started, and when its parent received the result.
fn job(one: &OneRun, runs: &[OneRun]) -> Option<LaneJob> {
    let parent = runs.iter().find(|other| Some(&other.run.id) == one.run.parent.as_ref())?;
    let call = one.run.spawned_by.clone()?;
    let made_in = parent.tool_calls.iter().find(|made| made.call == call)?.key.message;
    let reply = parent.messages.iter().find(|message| message.seq == made_in)?;
    let launched = parent.model_calls.iter().position(|(asked, _)| Some(asked.id) == reply.model_call)?;
    let delivered = parent.delivered_jobs.iter().find(|delivered| delivered.job.id == one.run.id);
    let heard = delivered.and_then(|delivered| {
        parent.model_calls.iter().position(|(asked, _)| (asked.from..=asked.to).contains(&delivered.message))
    });
    let next = (launched + 1 < parent.model_calls.len()).then(|| number(launched + 1));
    // The parent was idle if its reply before contains no calls; then the message woke it.
    let idle = |turn: usize| {
        turn.checked_sub(1).is_some_and(|before| made(parent, &parent.model_calls[before].0).next().is_none())
    };
    Some(LaneJob {
        lane: one.run.id.to_string(),
        parent: parent.run.id.to_string(),
        call,
        launched: number(launched),
        acknowledged: next,
        background: one.summary.job,
        touches: Vec::new(),
        notices: heard.map(|turn| JobNotice { turn: number(turn), wakes: idle(turn) }).into_iter().collect(),
        delivered: if one.summary.job { heard.map(number) } else { next },
    })
}

/// Returns the times at which a run went on after a kill or a pause. It stopped after the last step that is stored.
fn resumptions(one: &OneRun, since: impl Fn(Millis) -> u64) -> Vec<LaneResumption> {
    let requests = one.model_calls.iter().flat_map(|(call, attempts)| {
        let ends = attempts.iter().flat_map(|attempt| [Some(attempt.started_at), attempt.ended_at]);
        ends.chain([Some(call.asked_at), call.ended_at])
    });
    let calls = one.tool_calls.iter().flat_map(|call| [call.started_at, call.ended_at]);
    let messages = one.messages.iter().map(|message| Some(message.at));
    let steps: Vec<Millis> = requests.chain(calls).chain(messages).flatten().collect();
    let stops = one.resumptions.iter().filter(|it| it.status.is_live() || it.status.is_paused());
    let resumption = |it: &store::Resumption| {
        let stopped = steps.iter().copied().filter(|step| *step <= it.at).max().unwrap_or(it.at);
        LaneResumption {
            lane: one.run.id.to_string(),
            stopped: since(stopped),
            resumed: since(it.at),
            is_kill: it.status.is_live(),
        }
    };
    stops.map(resumption).collect()
}
