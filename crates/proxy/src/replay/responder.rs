//! Chooses the recorded reply for each live request. All connections share its state, under one lock.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};

use recording::lanes::{LaneResponse, Replies};
use recording::source::Source;
use tokio::time::Instant;
use wire::dialect::{Dialect, Prompt};
use wire::difference::{Difference, first_difference};

use super::conversation::ConversationDigests;
use super::fault::Fault;
use super::matcher::{LiveRequest, NoMatch, TurnMatch, TurnMatcher};
use super::names::NameMap;
use super::reply::LiveReply;
use super::report::{FaultOutcome, ReplayMiss, ReplayReport, TurnRef};
use super::settings::{OnMiss, ReplaySettings};
use super::side_request::SideRequest;
use super::traffic::{ExchangeIndex, RecordedTraffic, TurnIndex};
use crate::cache_sim::CacheSim;
use crate::serve::{Request, identity};

/// Maximum length of a path, pointer or value in a message.
const MAX_TEXT: usize = 120;

/// Chooses the recorded reply for each live request.
#[derive(Debug)]
pub(super) struct Responder {
    traffic: Arc<RecordedTraffic>,
    state: Mutex<ResponderState>,
    faults: Vec<Fault>,
    on_miss: OnMiss,
    cache: Option<CacheSim>,
}

#[derive(Debug, Default)]
struct ResponderState {
    matcher: TurnMatcher,
    names: NameMap,
    /// Live replies so far.
    replies: Replies,
    /// Side requests that were answered.
    answered_side: HashSet<ExchangeIndex>,
    served: u64,
    repeated: u64,
    reworded: Vec<TurnIndex>,
    misses: Vec<ReplayMiss>,
    faults: Vec<FaultProgress>,
    /// The newest fault of each turn.
    faulted: HashMap<TurnIndex, AppliedFault>,
}

/// Effects of a fault so far.
#[derive(Clone, Debug, Default)]
struct FaultProgress {
    hits: u32,
    retries: Vec<String>,
}

/// One application of a fault.
#[derive(Debug)]
struct AppliedFault {
    fault: usize,
    at: Instant,
    as_stream: bool,
}

/// A request that has its reply.
#[derive(Debug)]
pub(super) struct PreparedReply {
    pub(super) exchange: ExchangeIndex,
    /// True if it has the place of its exchange in the planned order.
    pub(super) is_ordered: bool,
    pub(super) reply: LiveReply,
    turn: TurnIndex,
    /// The request in the simulated cache.
    cached: Option<cache::SimulatedRequest>,
}

impl Responder {
    pub(super) fn new(traffic: Arc<RecordedTraffic>, settings: &ReplaySettings) -> Self {
        let state = ResponderState {
            replies: traffic.replies.clone(),
            faults: vec![FaultProgress::default(); settings.faults.len()],
            ..ResponderState::default()
        };
        Self {
            traffic,
            state: Mutex::new(state),
            faults: settings.faults.clone(),
            on_miss: settings.on_miss,
            cache: settings.cache_sim.then(CacheSim::new),
        }
    }

    fn lock(&self) -> MutexGuard<'_, ResponderState> {
        self.state.lock().expect("lock is not poisoned")
    }

    /// Matches a request to a model and prepares its reply. Calls `on_arrival` before another request can be matched.
    pub(super) fn prepare(
        &self,
        prompt: &Prompt,
        request: &Request,
        on_arrival: impl FnOnce(ExchangeIndex),
    ) -> Result<PreparedReply, NoMatch> {
        let identity = identity(&request.headers, &request.body, prompt);
        let mut state = self.lock();
        let state = &mut *state;
        let outline = state.replies.outline(prompt, &identity);
        let conversation = ConversationDigests::new(prompt, identity.follows.as_deref());
        let live = LiveRequest { outline: &outline, conversation: &conversation, dialect: prompt.dialect };
        let or_nearest = self.on_miss == OnMiss::Nearest;
        let matched = state.matcher.match_request(&self.traffic, live, or_nearest)?;
        let exchange = &self.traffic[matched.exchange];
        if matched.is_reworded && !exchange.outline.is_probe && !state.reworded.contains(&matched.turn) {
            state.reworded.push(matched.turn);
        }
        self.traffic.names.learn(exchange.number, prompt, &mut state.names);
        let cached = self.cache.as_ref().and_then(|cache| cache.ask(prompt.dialect, &request.body));
        let renames = state.names.renames();
        let reply = match &cached {
            Some(cached) => {
                LiveReply::with_usage(&exchange.response, &renames, prompt.dialect, &cached.usage)
            }
            None => LiveReply::new(&exchange.response, &renames),
        };
        let mut reply = reply.in_form(prompt.dialect, prompt.stream);
        let fault = self.apply_fault(state, &matched, prompt, &mut reply);
        let is_answer = fault.unwrap_or(exchange.is_complete);
        if !is_answer {
            // Marked before it is sent: the retry may come before the end is noticed here.
            state.matcher.mark_failed(matched.turn);
        }
        // A fault without an answer does not use up the recorded attempt.
        let is_recorded = fault.is_none() || is_answer;
        if is_recorded {
            state.matcher.mark_replayed(&matched);
            state.served += 1;
            state.repeated += u64::from(matched.is_repeat);
        }
        let is_ordered = is_recorded && !matched.is_repeat;
        if is_ordered {
            on_arrival(matched.exchange);
        }
        self.learn_reply(state, prompt.dialect, outline.replies_digest, matched.exchange, &reply);
        Ok(PreparedReply { exchange: matched.exchange, is_ordered, reply, turn: matched.turn, cached })
    }

    /// Applies the first fault for this attempt. Returns whether the reply still carries the recorded answer, or `None`
    /// without a fault.
    fn apply_fault(
        &self,
        state: &mut ResponderState,
        matched: &TurnMatch,
        prompt: &Prompt,
        reply: &mut LiveReply,
    ) -> Option<bool> {
        if let Some(AppliedFault { fault, at, as_stream }) = state.faulted.remove(&matched.turn) {
            let form = match (as_stream, prompt.stream) {
                (true, false) => " without streaming",
                (false, true) => " with streaming",
                _ => "",
            };
            let retry = format!("retried after {:.1} s{form}", at.elapsed().as_secs_f64());
            state.faults[fault].retries.push(retry);
        }
        let turn = &self.traffic[matched.turn];
        let applies = |fault: &Fault| fault.applies_to(&turn.lane, turn.number, matched.attempt);
        let fault = self.faults.iter().position(applies)?;
        if !self.faults[fault].has_event_in(reply) {
            return None;
        }
        state.faults[fault].hits += 1;
        let applied = AppliedFault { fault, at: Instant::now(), as_stream: prompt.stream };
        state.faulted.insert(matched.turn, applied);
        let is_answer = self.faults[fault].apply(prompt.dialect, reply);
        reply.update_length();
        Some(is_answer)
    }

    /// Remembers a live reply that differs from the recorded one, so that later requests with it are recognised.
    fn learn_reply(
        &self,
        state: &mut ResponderState,
        dialect: Dialect,
        replies_before: u64,
        exchange: ExchangeIndex,
        reply: &LiveReply,
    ) {
        let exchange = &self.traffic[exchange];
        if replies_before == exchange.outline.replies_digest && reply.has_body(&exchange.response.body) {
            return;
        }
        let heard = LaneResponse::decode(dialect, reply.status.unwrap_or(200), &reply.body());
        let live = state.replies.learn(replies_before, &heard);
        if heard.whole {
            state.matcher.add_alias(live, exchange.replies_after);
        }
    }

    /// Notes that the first bytes of a reply are sent: now other requests can read what it wrote to the cache.
    pub(super) fn mark_begun(&self, prepared: &PreparedReply) {
        let is_success = prepared.reply.status.is_some_and(|status| status < 400);
        if let (Some(cache), Some(cached)) = (&self.cache, prepared.cached.as_ref().filter(|_| is_success)) {
            cache.begin(cached);
        }
    }

    /// Notes that the client left before the reply was complete.
    pub(super) fn mark_abandoned(&self, prepared: &PreparedReply) {
        self.lock().matcher.mark_failed(prepared.turn);
    }

    /// Returns the recorded reply to a request that asks no model: the next one of those to the most similar requests.
    pub(super) fn answer_side_request(&self, request: &Request) -> Option<LiveReply> {
        let candidates = self.side_candidates(request)?;
        let live = SideRequest::new(request.query(), &request.body);
        let similarity = |at: &ExchangeIndex| self.traffic[*at].side_request.similarity(&live);
        let best = candidates.iter().map(similarity).max()?;
        let mut similar = candidates.iter().filter(|at| similarity(at) == best);
        let mut state = self.lock();
        let unanswered = similar.clone().find(|at| !state.answered_side.contains(at));
        let exchange = *unanswered.or_else(|| similar.next_back())?;
        state.repeated += u64::from(!state.answered_side.insert(exchange));
        state.served += 1;
        Some(LiveReply::new(&self.traffic[exchange].response, &state.names.renames()))
    }

    /// Returns the recorded side requests with the same method and path. One of the two addresses may have a prefix.
    fn side_candidates(&self, request: &Request) -> Option<&[ExchangeIndex]> {
        let path = request.path();
        let known = &self.traffic.side_requests;
        if let Some(exact) = known.get(&format!("{} {path}", request.method)) {
            return Some(exact);
        }
        let fits = |key: &&String| {
            key.split_once(' ').is_some_and(|(method, known)| {
                let may_have_prefix = !known.is_empty() && !path.is_empty();
                method == request.method
                    && may_have_prefix
                    && (path.ends_with(known) || known.ends_with(path))
            })
        };
        let key = known.keys().filter(fits).min()?;
        known.get(key).map(Vec::as_slice)
    }

    /// Records a miss. Returns the message for the client.
    pub(super) fn miss(&self, request: &Request, no_match: NoMatch, is_side: bool) -> String {
        let nearest = no_match.nearest.map(|turn| self.traffic[turn].attempts[0]);
        let miss = ReplayMiss {
            request: match request.path() {
                "" => format!("{} /", request.method),
                path => format!("{} {}", request.method, shortened(path)),
            },
            reason: no_match.why,
            is_side,
            nearest: nearest.map(|exchange| self.turn_ref(exchange)),
            difference: nearest.and_then(|exchange| self.difference(exchange, request)),
            count: 1,
        };
        let mut message = format!("replay: {}", miss.reason);
        if let Some(nearest) = &miss.nearest {
            message.push_str(&format!("; nearest: turn {} of lane `{}`", nearest.turn, nearest.lane));
        }
        if let Some(difference) = &miss.difference {
            message.push_str(&format!(", which differs at {difference}"));
        }
        let mut state = self.lock();
        match state.misses.iter_mut().find(|known| ReplayMiss { count: 1, ..(*known).clone() } == miss) {
            Some(known) => known.count += 1,
            None => {
                tracing::warn!("{message}");
                state.misses.push(miss);
            }
        }
        message
    }

    /// Describes the first difference between a recorded and a live request.
    fn difference(&self, exchange: ExchangeIndex, request: &Request) -> Option<String> {
        let source = Source::open(&self.traffic.dir).ok()?;
        let recorded = source.request(self.traffic[exchange].number).ok()?;
        let difference = first_difference(&recorded.body.bytes?, &request.body)?;
        Some(describe(&difference))
    }

    fn turn_ref(&self, exchange: ExchangeIndex) -> TurnRef {
        let exchange = &self.traffic[exchange];
        TurnRef { lane: exchange.lane.clone(), turn: exchange.turn, request: exchange.id.to_string() }
    }

    /// Returns the report so far, without the waits.
    pub(super) fn report(&self) -> ReplayReport {
        let state = self.lock();
        let unrequested = state.matcher.unrequested(&self.traffic);
        let (side, agents): (Vec<TurnIndex>, Vec<TurnIndex>) =
            unrequested.into_iter().partition(|turn| self.traffic[*turn].is_side);
        let refs = |turns: &[TurnIndex]| -> Vec<TurnRef> {
            turns.iter().map(|turn| self.turn_ref(self.traffic[*turn].attempts[0])).collect()
        };
        let faults = self.faults.iter().zip(&state.faults).map(|(fault, progress)| FaultOutcome {
            fault: fault.to_string(),
            hits: progress.hits,
            retries: progress.retries.clone(),
        });
        ReplayReport {
            recorded: self.traffic.len(),
            served: state.served,
            repeated: state.repeated,
            unrequested: refs(&agents),
            unrequested_side: refs(&side),
            reworded: refs(&state.reworded),
            renamed: state.names.changed(),
            conflicts: state.names.conflicts().to_vec(),
            waits: Vec::new(),
            misses: state.misses.clone(),
            faults: faults.collect(),
        }
    }
}

fn describe(difference: &Difference) -> String {
    let value = |value: &Option<String>| value.as_deref().map_or("nothing".to_owned(), shortened);
    match difference {
        Difference::Value { pointer, left, right } => {
            format!("`{}`: recorded {}, now {}", shortened(pointer), value(left), value(right))
        }
        Difference::Spelling { pointer, .. } => {
            format!("`{}`: equal value, written differently", shortened(pointer))
        }
        Difference::Bytes { offset, left, right } => {
            format!("byte {offset}: recorded {}, now {}", shortened(left), shortened(right))
        }
    }
}

/// Shortens a text of a request for a message, and escapes its control characters.
fn shortened(text: &str) -> String {
    let mut short = String::new();
    for c in text.chars() {
        if short.len() >= MAX_TEXT {
            short.push('…');
            break;
        }
        match c.is_control() {
            true => short.extend(c.escape_default()),
            false => short.push(c),
        }
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_short_and_has_no_control_characters() {
        let long = format!("\u{1b}[31m{}", "x".repeat(1_000));
        for difference in [
            Difference::Value { pointer: long.clone(), left: Some(long.clone()), right: None },
            Difference::Spelling { pointer: long.clone(), offset: 1 },
            Difference::Bytes { offset: 1, left: long.clone(), right: long.clone() },
        ] {
            let text = describe(&difference);
            assert!(text.len() < 500 && !text.contains('\u{1b}') && text.contains("…"), "{text}");
        }
    }
}
