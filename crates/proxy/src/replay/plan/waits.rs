//! Adds waits to a plan, where the harness needs time to notice what it was sent.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::agent_ends::{AgentEnds, AnnouncedEnd};
use super::step::{Step, TimedStep};
use crate::replay::traffic::{ExchangeIndex, RecordedTraffic};

/// Time for the harness to notice the end of an agent, if it may continue by itself.
const NOTICE: Duration = Duration::from_millis(20);
/// Minimum and maximum wait after an end that a text announces.
const ANNOUNCEMENT: (Duration, Duration) = (Duration::from_millis(300), Duration::from_secs(5));
/// Microseconds between two parts in which a harness may have begun to run the first one's call.
const TOOL_START_US: u64 = 50_000;
/// Ends that are closer to each other may have been noticed together.
const CLOSE: Duration = Duration::from_millis(50);

/// Converts timed steps to steps with waits between them.
pub(super) fn with_waits(traffic: &RecordedTraffic, ends: &AgentEnds, steps: &[TimedStep]) -> Vec<Step> {
    let holds = holds(ends);
    let mut sent: HashMap<ExchangeIndex, usize> = HashMap::new();
    let mut ended: HashSet<ExchangeIndex> = HashSet::new();
    let mut plan: Vec<Step> = Vec::new();
    for (at, TimedStep { us, step }) in steps.iter().enumerate() {
        let Step::Send(exchange, parts) = *step else {
            plan.push(step.clone());
            continue;
        };
        let so_far = sent.get(&exchange).copied().unwrap_or_default();
        if parts <= so_far {
            continue; // the end of a reply that is complete already
        }
        let is_complete = parts >= traffic[exchange].response.parts.len();
        for (child, hold) in holds.get(&exchange).into_iter().flatten().filter(|_| is_complete) {
            plan.push(Step::PauseSince(*child, *hold));
        }
        if so_far > 0 && may_start_tool(traffic, exchange, so_far) {
            plan.push(Step::AwaitIdle(NOTICE));
        }
        match plan.last_mut() {
            Some(Step::Send(before, so_far)) if *before == exchange => *so_far = parts,
            _ => plan.push(Step::Send(exchange, parts)),
        }
        sent.insert(exchange, parts);
        if !is_complete {
            continue;
        }
        ended.insert(exchange);
        // If a request comes next, it is awaited anyway.
        let next = steps[at + 1..].iter().find(|timed| !is_sent(&timed.step, &sent));
        if let Some(TimedStep { us: next_us, step: Step::Send(next, _) }) = next {
            // The parent waits only a moment for other ends, and on a busy machine each confirmation may take as long.
            if ends.wakes_together(exchange, *next) {
                plan.pop();
                plan.push(Step::Allow(exchange, parts));
                continue;
            }
            let gap = Duration::from_micros(next_us.saturating_sub(*us));
            plan.extend(wait_after(traffic, ends, exchange, *next, gap, &ended));
        }
    }
    plan
}

/// Returns the time between the end of an agent and the reply before its announcement, by that reply.
fn holds(ends: &AgentEnds) -> HashMap<ExchangeIndex, Vec<(ExchangeIndex, Duration)>> {
    let mut holds: HashMap<ExchangeIndex, Vec<(ExchangeIndex, Duration)>> = HashMap::new();
    for AnnouncedEnd { child, request, .. } in ends.announced() {
        let (from, to) = (ends.sent_us[&child], ends.sent_us[&request]);
        if from < to {
            let hold = Duration::from_micros(to - from).mul_f64(1.25);
            holds.entry(request).or_default().push((child, hold));
        }
    }
    holds
}

/// Returns the wait after a complete reply that is followed by a part of another reply.
fn wait_after(
    traffic: &RecordedTraffic,
    ends: &AgentEnds,
    exchange: ExchangeIndex,
    next: ExchangeIndex,
    gap: Duration,
    ended: &HashSet<ExchangeIndex>,
) -> Option<Step> {
    if ends.is_poll(exchange) {
        return Some(Step::AwaitIdle(NOTICE));
    }
    if traffic[exchange].lane == "main" || !ends.is_last(traffic, exchange) {
        return None;
    }
    // With more time between them, the parent would send a request in between that was not recorded.
    let is_blocked = ends.is_parent_blocked(traffic, exchange, ended);
    if !is_blocked && gap < CLOSE && ends.is_reported_together(traffic, exchange, next) {
        return Some(Step::Pause(gap));
    }
    let is_announced = ends.announced().any(|announced| announced.child == exchange);
    // A parent that waits for its own reply cannot continue, and may be about to poll this agent.
    if is_announced || ends.is_parent(traffic, next, exchange) {
        return Some(Step::Pause(gap.clamp(ANNOUNCEMENT.0, ANNOUNCEMENT.1)));
    }
    Some(match is_blocked {
        true => Step::AwaitIdle(gap.max(NOTICE)),
        false => Step::Pause(NOTICE),
    })
}

/// Returns whether a step has been taken with an earlier one.
fn is_sent(step: &Step, sent: &HashMap<ExchangeIndex, usize>) -> bool {
    matches!(step, Step::Send(exchange, parts) if sent.get(exchange).is_some_and(|so_far| so_far >= parts))
}

/// Returns whether a harness may have begun to run a tool between the part before `part` and `part`.
fn may_start_tool(traffic: &RecordedTraffic, exchange: ExchangeIndex, part: usize) -> bool {
    const CALL_ENDS: [&[u8]; 3] = [b"content_block_stop", b"arguments.done", b"output_item.done"];
    let response = &traffic[exchange].response;
    let [Some(before), Some(this)] = [part.checked_sub(1), Some(part)].map(|at| response.parts.get(at?))
    else {
        return false;
    };
    let bytes = &response.body[before.start..this.start];
    let has = |needle: &&[u8]| bytes.windows(needle.len()).any(|window| window == *needle);
    this.us.saturating_sub(before.us) >= TOOL_START_US && CALL_ENDS.iter().any(has)
}
