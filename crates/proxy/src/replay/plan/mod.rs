//! Plans the order of a replay: which request is awaited and how much of which reply is sent, step by step.
//!
//! Pure: a loaded recording in, steps out. `docs/reference/replay.md` explains each wait.

mod agent_ends;
mod joint_ends;
mod seeded;
mod step;
mod timeline;
mod waits;

use super::settings::Order;
use super::traffic::RecordedTraffic;

pub(super) use step::Step;

/// The steps of a replay in order. Without steps, each reply is sent at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OrderPlan {
    pub(super) steps: Vec<Step>,
}

impl OrderPlan {
    pub(super) fn new(traffic: &RecordedTraffic, order: Order) -> Self {
        let steps = match order {
            Order::Free => Vec::new(),
            Order::Recorded => {
                let mut plan = timeline::recorded(traffic);
                let mut ends = agent_ends::AgentEnds::new(traffic);
                for (child, request) in ends.too_early(traffic, &plan) {
                    timeline::move_end_after_arrival(&mut plan, child, request);
                }
                ends.groups = joint_ends::arrange(traffic, &ends, &mut plan);
                waits::with_waits(traffic, &ends, &plan)
            }
            Order::Seed(seed) => {
                let ends = agent_ends::AgentEnds::new(traffic);
                let plan = seeded::shuffled(traffic, &ends, seed);
                waits::with_waits(traffic, &ends, &plan)
            }
        };
        Self { steps }
    }
}
