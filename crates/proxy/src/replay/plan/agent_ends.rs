//! The last replies of agents, and the requests of their parents that depend on them.

use std::collections::{HashMap, HashSet};

use recording::lanes::{Lane, LaneJob, Turn};
use session::CallId;

use super::step::{TimedStep, arrival_of, end_of};
use crate::replay::traffic::{ExchangeIndex, RecordedTraffic};

/// Last replies that wake their parent together.
pub(super) type WakeGroup = HashSet<ExchangeIndex>;

/// The last replies of agents and what follows from them.
pub(super) struct AgentEnds {
    pub(super) jobs: Vec<LaneJob>,
    /// The last exchange of each lane.
    pub(super) last: HashMap<String, ExchangeIndex>,
    /// The attempts at each turn of each lane.
    attempts: HashMap<(String, u32), Vec<ExchangeIndex>>,
    /// Times in microseconds at which the replies were complete.
    pub(super) sent_us: HashMap<ExchangeIndex, u64>,
    pub(super) groups: Vec<WakeGroup>,
}

/// An agent whose end is announced by a text in a request of its parent.
pub(super) struct AnnouncedEnd<'e> {
    job: &'e LaneJob,
    /// The agent's last exchange.
    pub(super) child: ExchangeIndex,
    /// The request whose reply comes before the text.
    pub(super) request: ExchangeIndex,
}

impl AgentEnds {
    pub(super) fn new(traffic: &RecordedTraffic) -> Self {
        let mut ends = Self {
            jobs: traffic.lanes.jobs(),
            last: HashMap::new(),
            attempts: HashMap::new(),
            sent_us: HashMap::new(),
            groups: Vec::new(),
        };
        for exchange in traffic.planned_exchanges() {
            let recorded = &traffic[exchange];
            ends.attempts.entry((recorded.lane.clone(), recorded.turn)).or_default().push(exchange);
            let last = ends.last.entry(recorded.lane.clone()).or_insert(exchange);
            if traffic[*last].turn <= recorded.turn {
                *last = exchange;
            }
            let last_part_us = recorded.response.parts.last().map_or(0, |part| part.us);
            ends.sent_us.insert(exchange, recorded.requested_us + last_part_us);
        }
        ends
    }

    /// Returns the attempts at a turn.
    pub(super) fn attempts(&self, lane: &str, turn: u32) -> &[ExchangeIndex] {
        self.attempts.get(&(lane.to_owned(), turn)).map_or(&[], Vec::as_slice)
    }

    pub(super) fn last_attempt(&self, lane: &str, turn: u32) -> Option<ExchangeIndex> {
        self.attempts(lane, turn).last().copied()
    }

    /// Returns whether the exchange is the last one of its lane.
    pub(super) fn is_last(&self, traffic: &RecordedTraffic, exchange: ExchangeIndex) -> bool {
        self.last.get(&traffic[exchange].lane) == Some(&exchange)
    }

    pub(super) fn announced(&self) -> impl Iterator<Item = AnnouncedEnd<'_>> {
        self.jobs.iter().flat_map(move |job| {
            let child = self.last.get(&job.lane).copied();
            job.notices.iter().filter_map(move |notice| {
                let request = self.last_attempt(&job.parent, notice.turn.checked_sub(1)?)?;
                Some(AnnouncedEnd { job, child: child?, request })
            })
        })
    }

    /// Returns whether the reply asks for the state of an agent that has not ended: the result depends on its progress.
    pub(super) fn is_poll(&self, exchange: ExchangeIndex) -> bool {
        self.jobs.iter().any(|job| {
            let polls = job.touches.iter().filter(|touch| job.delivered != Some(touch.turn + 1));
            polls.into_iter().any(|touch| self.last_attempt(&job.parent, touch.turn) == Some(exchange))
        })
    }

    /// Returns whether `parent` is in the lane that started the background agent of `child`.
    pub(super) fn is_parent(
        &self,
        traffic: &RecordedTraffic,
        parent: ExchangeIndex,
        child: ExchangeIndex,
    ) -> bool {
        let lane = |exchange: ExchangeIndex| &traffic[exchange].lane;
        self.jobs.iter().any(|job| job.background && job.lane == *lane(child) && job.parent == *lane(parent))
    }

    /// Returns whether both are last replies of agents that the same request of their parent reports.
    pub(super) fn is_reported_together(
        &self,
        traffic: &RecordedTraffic,
        exchange: ExchangeIndex,
        next: ExchangeIndex,
    ) -> bool {
        let report = |exchange: ExchangeIndex| {
            let lane = &traffic[exchange].lane;
            let job = self.jobs.iter().find(|job| job.lane == *lane)?;
            self.is_last(traffic, exchange).then_some((&job.parent, report_turn(job)?))
        };
        report(exchange).is_some_and(|turn| report(next) == Some(turn))
    }

    /// Returns whether both replies wake their parent together.
    pub(super) fn wakes_together(&self, exchange: ExchangeIndex, next: ExchangeIndex) -> bool {
        self.groups.iter().any(|group| group.contains(&exchange) && group.contains(&next))
    }

    /// Returns the announced ends that were recorded before the request whose reply precedes the announcement. In a
    /// replay they would be announced a turn too early, so each must wait for its request.
    pub(super) fn too_early(
        &self,
        traffic: &RecordedTraffic,
        steps: &[TimedStep],
    ) -> Vec<(ExchangeIndex, ExchangeIndex)> {
        let mut moves = Vec::new();
        for AnnouncedEnd { job, child, request } in self.announced() {
            // A result that the request already carries did not wait for the text.
            let is_delivered = job.delivered.is_some_and(|delivered| delivered <= traffic[request].turn);
            let ended = end_of(traffic, steps, child);
            let arrived = arrival_of(steps, request);
            if !is_delivered && ended.zip(arrived).is_some_and(|(ended, arrived)| ended < arrived) {
                moves.push((child, request));
            }
        }
        moves
    }

    /// Returns whether the parent cannot continue at the end of this agent, because its next request also carries the
    /// result of another agent that has not ended.
    pub(super) fn is_parent_blocked(
        &self,
        traffic: &RecordedTraffic,
        exchange: ExchangeIndex,
        ended: &HashSet<ExchangeIndex>,
    ) -> bool {
        let lanes = &traffic.lanes.lanes;
        let Some(lane) = lanes.iter().find(|lane| lane.id == traffic[exchange].lane) else { return false };
        let Some(call) = &lane.spawned_by else { return false };
        let Some(parent) = lanes.iter().find(|other| Some(&other.id) == lane.parent.as_ref()) else {
            return false;
        };
        let carries = |turn: &&Turn| turn.results.iter().any(|result| result.call == *call);
        let Some(turn) = parent.turns.iter().find(carries) else { return false };
        // The result of a background agent says only that it was started.
        let is_awaited = |call: &CallId| !self.jobs.iter().any(|job| job.call == *call && job.background);
        let is_running = |call: &CallId| {
            let spawned = lanes.iter().find(|lane| lane.spawned_by.as_ref() == Some(call));
            let last = spawned.and_then(|lane: &Lane| self.last.get(&lane.id));
            last.is_some_and(|last| !ended.contains(last))
        };
        let others = turn.results.iter().filter(|result| result.call != *call);
        others.into_iter().any(|result| is_awaited(&result.call) && is_running(&result.call))
    }
}

/// Returns the first turn of the parent whose request reports the end of the agent.
pub(super) fn report_turn(job: &LaneJob) -> Option<u32> {
    job.notices.iter().map(|notice| notice.turn).chain(job.delivered).min()
}
