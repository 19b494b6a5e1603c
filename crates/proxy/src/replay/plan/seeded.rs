//! Another order than the recorded one: no request comes before the replies that caused it, and no reply ends before a
//! request that would not come any more.

use std::collections::{HashMap, HashSet};

use recording::lanes::LaneJob;

use super::agent_ends::AgentEnds;
use super::step::{PATIENCE, Step, TimedStep};
use crate::replay::traffic::{ExchangeIndex, RecordedTraffic};

/// Returns a random possible order, equal for equal seeds.
pub(super) fn shuffled(traffic: &RecordedTraffic, ends: &AgentEnds, seed: u64) -> Vec<TimedStep> {
    let mut random = SplitMix64(seed);
    let causes = causes(traffic, ends);
    let mut waiting: Vec<ExchangeIndex> = traffic.planned_exchanges().collect();
    let holds = holds(traffic, ends);
    let (mut open, mut done): (Vec<(ExchangeIndex, usize)>, _) = (Vec::new(), HashSet::new());
    let mut steps = Vec::new();
    loop {
        let is_ready = |exchange: &ExchangeIndex| causes[exchange].iter().all(|cause| done.contains(cause));
        let (arrived, later): (Vec<ExchangeIndex>, Vec<ExchangeIndex>) =
            waiting.iter().partition(|exchange| is_ready(exchange));
        waiting = later;
        for exchange in arrived {
            let us = traffic[exchange].requested_us;
            steps.push(TimedStep { us, step: Step::AwaitRequest(exchange, PATIENCE) });
            open.push((exchange, 0));
        }
        if open.is_empty() {
            break;
        }
        let is_awaited = |exchange: &ExchangeIndex| waiting.contains(exchange);
        let is_held = |(exchange, sent): &(ExchangeIndex, usize)| {
            let is_last = *sent + 1 >= traffic[*exchange].response.parts.len();
            is_last && holds.get(exchange).is_some_and(|awaited| awaited.iter().any(is_awaited))
        };
        let mut free: Vec<usize> = (0..open.len()).filter(|at| !is_held(&open[*at])).collect();
        if free.is_empty() {
            free = (0..open.len()).collect();
        }
        let at = free[random.below(free.len())];
        let (exchange, sent) = &mut open[at];
        *sent += 1;
        steps.push(TimedStep { us: 0, step: Step::Send(*exchange, *sent) });
        if *sent >= traffic[*exchange].response.parts.len() {
            done.insert(*exchange);
            open.remove(at);
        }
    }
    steps
}

/// Returns the requests that must have come before each reply ends: those of an agent before the reply that cancels it,
/// and the request before the one that announces an agent's end, which would carry the announcement otherwise.
fn holds(traffic: &RecordedTraffic, ends: &AgentEnds) -> HashMap<ExchangeIndex, Vec<ExchangeIndex>> {
    let mut holds: HashMap<ExchangeIndex, Vec<ExchangeIndex>> = HashMap::new();
    for job in &ends.jobs {
        for touch in job.touches.iter().filter(|touch| touch.cancels) {
            let Some(cancel) = ends.last_attempt(&job.parent, touch.turn) else { continue };
            // What came after the result of the cancellation is none of the agent's usual requests.
            let result =
                ends.last_attempt(&job.parent, touch.turn + 1).map(|result| traffic[result].requested_us);
            let is_before = |exchange: &ExchangeIndex| {
                let is_early = result.is_none_or(|result| traffic[*exchange].requested_us < result);
                traffic[*exchange].lane == job.lane && is_early
            };
            holds.entry(cancel).or_default().extend(traffic.planned_exchanges().filter(is_before));
        }
        let first = job.notices.iter().map(|notice| notice.turn).min();
        let before = first.and_then(|turn| ends.last_attempt(&job.parent, turn.checked_sub(1)?));
        if let (Some(request), Some(child)) = (before, ends.last.get(&job.lane)) {
            let is_delivered = job.delivered.is_some_and(|delivered| delivered <= traffic[request].turn);
            holds.entry(*child).or_default().extend((!is_delivered).then_some(request));
        }
    }
    holds
}

/// Returns the replies that must be complete before each request can come.
fn causes(traffic: &RecordedTraffic, ends: &AgentEnds) -> HashMap<ExchangeIndex, Vec<ExchangeIndex>> {
    let mut causes: HashMap<ExchangeIndex, Vec<ExchangeIndex>> = HashMap::new();
    for lane in &traffic.lanes.lanes {
        for turn in &lane.turns {
            let attempts = ends.attempts(&lane.id, turn.turn);
            for (at, attempt) in attempts.iter().enumerate() {
                let causes = causes.entry(*attempt).or_default();
                causes.extend(at.checked_sub(1).map(|before| attempts[before]));
                let turn_before = turn.turn.checked_sub(1);
                causes.extend(turn_before.and_then(|before| ends.last_attempt(&lane.id, before)));
                for result in &turn.results {
                    let job = ends.jobs.iter().find(|job| job.call == result.call && !job.background);
                    causes.extend(job.and_then(|job| ends.last.get(&job.lane)));
                }
                if turn.turn == 1
                    && let Some(job) = ends.jobs.iter().find(|job| job.lane == lane.id)
                {
                    causes.extend(ends.last_attempt(&job.parent, job.launched));
                }
                let wakes = |job: &&LaneJob| {
                    job.parent == lane.id && job.notices.iter().any(|notice| notice.turn == turn.turn)
                };
                causes.extend(ends.jobs.iter().filter(wakes).filter_map(|job| ends.last.get(&job.lane)));
            }
        }
    }
    for exchange in traffic.planned_exchanges() {
        causes.entry(exchange).or_default().retain(|cause| *cause != exchange);
    }
    causes
}

/// The SplitMix64 generator: small, and stable across versions.
struct SplitMix64(u64);

impl SplitMix64 {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) as usize % limit
    }
}
