//! Ends of agents that one request of their parent reports: the parent must know of all of them before it sends it.
//!
//! Something lets the parent send that request: the end of its own reply, the answer of an agent that a call waits for, or,
//! if it is idle, the first end that wakes it. That therefore comes last, and ends that wake an idle parent come at once.
//! Only steps at nearly the same time are moved, and none past the first request of an agent, which it may have caused.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use super::agent_ends::{AgentEnds, WakeGroup, report_turn};
use super::step::{Step, TimedStep, arrival_of, end_of};
use crate::replay::traffic::{ExchangeIndex, RecordedTraffic};

/// Steps that are closer to each other may have come in either order.
const NEAR: Duration = Duration::from_millis(250);

/// A request that reports ends of agents.
struct ReportingRequest {
    request: ExchangeIndex,
    /// The parent's exchange before it.
    before: ExchangeIndex,
    /// Last exchanges of background agents.
    background: Vec<ExchangeIndex>,
    /// Last exchanges of agents that a call waits for.
    awaited: Vec<ExchangeIndex>,
    /// True if the reply before it has calls.
    has_calls: bool,
}

/// Moves what lets a parent continue after the ends that its next request reports. Returns the ends that wake a parent
/// together.
pub(super) fn arrange(
    traffic: &RecordedTraffic,
    ends: &AgentEnds,
    steps: &mut Vec<TimedStep>,
) -> Vec<WakeGroup> {
    // A reply that was completed by an earlier step needs no second one for its end.
    let mut complete = HashSet::new();
    steps.retain(|timed| match timed.step {
        Step::Send(exchange, parts) if parts >= traffic[exchange].response.parts.len() => {
            complete.insert(exchange)
        }
        _ => true,
    });
    let requests = reporting_requests(traffic, ends);
    requests.iter().filter_map(|request| request.arrange(traffic, steps)).collect()
}

fn reporting_requests(traffic: &RecordedTraffic, ends: &AgentEnds) -> Vec<ReportingRequest> {
    let mut requests: BTreeMap<(&str, u32), ReportingRequest> = BTreeMap::new();
    for job in &ends.jobs {
        let Some(turn) = report_turn(job) else { continue };
        let before = turn.checked_sub(1).and_then(|before| ends.last_attempt(&job.parent, before));
        let request = ends.attempts(&job.parent, turn).first().copied();
        let (Some(request), Some(before)) = (request, before) else { continue };
        let Some(child) = ends.last.get(&job.lane) else { continue };
        let entry = requests.entry((&job.parent, turn)).or_insert_with(|| ReportingRequest {
            request,
            before,
            background: Vec::new(),
            awaited: Vec::new(),
            has_calls: has_calls(traffic, &job.parent, turn - 1),
        });
        let is_awaited = !job.background || job.touches.iter().any(|touch| touch.turn + 1 == turn);
        if is_awaited { &mut entry.awaited } else { &mut entry.background }.push(*child);
    }
    requests.into_values().collect()
}

fn has_calls(traffic: &RecordedTraffic, lane: &str, turn: u32) -> bool {
    let lane = traffic.lanes.lanes.iter().find(|other| other.id == lane);
    let turn = lane.and_then(|lane| lane.turns.iter().find(|other| other.turn == turn));
    turn.is_some_and(|turn| !turn.calls.is_empty())
}

impl ReportingRequest {
    fn arrange(&self, traffic: &RecordedTraffic, steps: &mut Vec<TimedStep>) -> Option<WakeGroup> {
        let end = |exchange: ExchangeIndex| end_of(traffic, steps, exchange);
        let arrival = arrival_of(steps, self.request)?;
        let reply = end(self.before)?;
        let reported = |exchange: &ExchangeIndex| end(*exchange).filter(|at| *at < arrival);
        let awaited = self.awaited.iter().filter_map(reported).max();
        let background: Vec<usize> = self.background.iter().filter_map(reported).collect();
        let last = background.iter().copied().max()?;
        let unblocks = awaited.map_or(reply, |awaited| awaited.max(reply));
        let is_woken = awaited.is_none() && !self.has_calls && background.iter().all(|at| *at > reply);
        if is_woken {
            let group = self.background.iter().copied().filter(|end| reported(end).is_some()).collect();
            return gather(traffic, steps, background).then_some(group);
        }
        if last > unblocks && may_move(traffic, steps, unblocks, last) {
            move_step(steps, unblocks, last);
        }
        None
    }
}

/// Moves ends to the last of them. Returns whether there are several that may be moved.
fn gather(traffic: &RecordedTraffic, steps: &mut Vec<TimedStep>, mut ends: Vec<usize>) -> bool {
    ends.sort_unstable();
    let [first, .., last] = ends[..] else { return false };
    if !may_move(traffic, steps, first, last) {
        return false;
    }
    for (moved, at) in ends[..ends.len() - 1].iter().enumerate() {
        move_step(steps, at - moved, last - 1);
    }
    true
}

/// Returns whether a step may wait for a later one. An agent that begins between them may have been started by it, or may
/// have waited for the slot of an agent that ended.
fn may_move(traffic: &RecordedTraffic, steps: &[TimedStep], at: usize, last: usize) -> bool {
    let distance = Duration::from_micros(steps[last].us.saturating_sub(steps[at].us));
    let begins_agent =
        |step: &Step| matches!(step, Step::AwaitRequest(exchange, _) if traffic[*exchange].turn == 1);
    distance < NEAR && !steps[at..last].iter().any(|timed| begins_agent(&timed.step))
}

fn move_step(steps: &mut Vec<TimedStep>, at: usize, to: usize) {
    let step = steps.remove(at);
    steps.insert(to, step);
}
