//! The recorded order as steps, without waits.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use recording::source::TimelineEvent;

use super::step::{PATIENCE, Step, TimedStep, arrival_of};
use crate::replay::traffic::{ExchangeIndex, RecordedTraffic};

/// Returns the steps in recorded order.
pub(super) fn recorded(traffic: &RecordedTraffic) -> Vec<TimedStep> {
    let planned: HashSet<ExchangeIndex> = traffic.planned_exchanges().collect();
    let mut reads: HashMap<usize, usize> = HashMap::new();
    for moment in &traffic.timeline {
        if let TimelineEvent::ResponseRead { exchange, .. } = moment.event {
            *reads.entry(exchange).or_default() += 1;
        }
    }
    let mut seen: HashMap<usize, usize> = HashMap::new();
    let mut steps: Vec<TimedStep> = Vec::new();
    let mut last_us = 0;
    for moment in &traffic.timeline {
        let (TimelineEvent::RequestArrived(number)
        | TimelineEvent::ResponseRead { exchange: number, .. }
        | TimelineEvent::ResponseEnded(number)) = moment.event;
        let exchange = traffic.by_number.get(&number).copied();
        let Some(exchange) = exchange.filter(|exchange| planned.contains(exchange)) else { continue };
        let parts = traffic[exchange].response.parts.len();
        let step = match moment.event {
            TimelineEvent::RequestArrived(_) => {
                let quiet = Duration::from_micros(moment.us.saturating_sub(last_us));
                Step::AwaitRequest(exchange, PATIENCE.max(quiet * 3))
            }
            TimelineEvent::ResponseRead { .. } => {
                let seen = seen.entry(number).or_default();
                *seen += 1;
                // Parts need not be reads: those of an unpacked body are its events.
                Step::Send(exchange, (parts * *seen).div_ceil(reads[&number]))
            }
            TimelineEvent::ResponseEnded(_) => Step::Send(exchange, parts),
        };
        last_us = moment.us;
        steps.push(TimedStep { us: moment.us, step });
    }
    steps
}

/// Moves the last step of the reply `child` after the arrival of `request`.
pub(super) fn move_end_after_arrival(
    steps: &mut Vec<TimedStep>,
    child: ExchangeIndex,
    request: ExchangeIndex,
) {
    let parts = steps.iter().filter_map(|timed| match timed.step {
        Step::Send(exchange, parts) if exchange == child => Some(parts),
        _ => None,
    });
    let Some(parts) = parts.max() else { return };
    let end = Step::Send(child, parts);
    let Some(first) = steps.iter().position(|timed| timed.step == end) else { return };
    let moved = steps[first].clone();
    steps.retain(|timed| timed.step != end);
    if let Some(arrived) = arrival_of(steps, request) {
        steps.insert(arrived + 1, moved);
    }
}
