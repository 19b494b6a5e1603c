//! Another order than the recorded one: no request comes before the replies that caused it.

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
    let (mut open, mut done) = (Vec::new(), HashSet::new());
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
        let at = random.below(open.len());
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
