//! Explanation of past requests: simulates them in order, predicts what each should have read, and finds
//! reasons for misses.

use std::collections::{HashMap, HashSet};

use session::Usage;

use crate::confidence::Confidence;
use crate::explanation::Explanation;
use crate::observed::ObservedRequest;
use crate::reason::Reason;
use crate::report::CacheReport;
use crate::report::LaneOpening;
use crate::rules::{CacheRules, ROUTE, StoragePolicy};
use crate::section::Section;
use crate::simulator::{EntryState, SimulatedRequest, Simulator, cacheable_markers, written_markers};
use crate::tokens::{TokenModel, TokenScale};
use crate::totals::CacheTotals;
use crate::unread_markers::find_unread_markers;

/// Distance in time within which two events may have reached the provider in the other order.
const CLOSE_US: u64 = 50_000;

/// Explains requests. They are sorted by time first.
pub fn explain(mut observed: Vec<ObservedRequest>) -> CacheReport {
    observed.sort_by_key(|ask| ask.at_us);
    let tokens = TokenModel::learn(observed.iter());
    let mut result = simulate(&tokens, &observed);
    // If a request was sent about when another response began, the usage shows which came first.
    let other = corrected_times(&observed, &result);
    if let Some(times) = other {
        let before = swap_times(&mut observed, times);
        let again = simulate(&tokens, &observed);
        match again.contradicted() < result.contradicted() {
            true => result = again,
            false => drop(swap_times(&mut observed, before)),
        }
    }
    let SimulationResult { scales, simulated, requests } = result;
    let unread = find_unread_markers(&observed, &scales, &simulated, &requests);
    CacheReport { unread, ..summarize(requests, observed, scales) }
}

/// Result of a simulation.
struct SimulationResult {
    scales: Vec<TokenScale>,
    simulated: Vec<Option<SimulatedRequest>>,
    /// Explanations in the order of the requests.
    requests: Vec<Explanation>,
}

impl SimulationResult {
    fn contradicted(&self) -> usize {
        self.requests.iter().filter(|request| request.confidence == Confidence::Contradicted).count()
    }
}

fn simulate(tokens: &TokenModel, observed: &[ObservedRequest]) -> SimulationResult {
    let scales: Vec<TokenScale> =
        observed.iter().map(|ask| tokens.scale(&ask.prompt, ask.reported.as_ref())).collect();
    let mut simulation = Simulation {
        tokens,
        observed,
        scales: &scales,
        simulator: Simulator::new(),
        lanes: HashMap::new(),
        writers: HashMap::new(),
        unrouted: HashMap::new(),
    };
    let mut simulated: Vec<Option<SimulatedRequest>> = vec![None; observed.len()];
    let mut requests: Vec<Explanation> = observed.iter().map(Explanation::of).collect();
    for (is_begin, n) in event_order(observed) {
        match (is_begin, &simulated[n]) {
            (true, Some(request)) => simulation.simulator.begin(request),
            (true, None) => {}
            (false, _) => {
                simulated[n] =
                    observed[n].begun_us.and_then(|_| simulation.simulate_request(n, &mut requests[n]))
            }
        }
    }
    SimulationResult { scales, simulated, requests }
}

/// Returns corrected times if requests that the usage contradicts may have come a moment earlier or later.
fn corrected_times(observed: &[ObservedRequest], result: &SimulationResult) -> Option<Vec<u64>> {
    let mut times: Vec<u64> = observed.iter().map(|ask| ask.at_us).collect();
    let mut is_moved = false;
    for (n, request) in
        result.requests.iter().enumerate().filter(|(_, it)| it.confidence == Confidence::Contradicted)
    {
        let Some(reported) = &observed[n].reported else { continue };
        let (at, predicted) = (observed[n].at_us, request.predicted.cache_read);
        // Requests of one lane, and of the lane it was forked from, wait for each other.
        let (own, others): (Vec<&ObservedRequest>, Vec<&ObservedRequest>) =
            observed.iter().partition(|ask| ask.lane == observed[n].lane);
        let others = others.iter().filter(|ask| observed[n].fork_of.as_ref() != Some(&ask.lane));
        let others = others.filter_map(|ask| ask.begun_us);
        let time = match reported.cache_read > predicted {
            true => {
                let next = own.iter().map(|ask| ask.at_us).filter(|next| *next > at).min();
                let until = (at + CLOSE_US).min(next.map_or(u64::MAX, |next| next - 1));
                others.filter(|begun| (at..=until).contains(begun)).max()
            }
            false => {
                let before = own.iter().filter_map(|ask| ask.begun_us).filter(|begun| *begun <= at).max();
                let since = at.saturating_sub(CLOSE_US).max(before.map_or(0, |begun| begun + 2));
                others.filter(|begun| (since..=at).contains(begun)).min().map(|begun| begun.saturating_sub(1))
            }
        };
        if let Some(time) = time {
            (times[n], is_moved) = (time, true);
        }
    }
    is_moved.then_some(times)
}

/// Sets the times of requests and returns the previous ones.
fn swap_times(observed: &mut [ObservedRequest], times: Vec<u64>) -> Vec<u64> {
    observed.iter_mut().zip(times).map(|(ask, time)| std::mem::replace(&mut ask.at_us, time)).collect()
}

/// Returns requests and starts of responses in the order of time.
fn event_order(observed: &[ObservedRequest]) -> Vec<(bool, usize)> {
    let simulated = observed.iter().enumerate().map(|(n, ask)| (ask.at_us, false, n));
    let begun =
        observed.iter().enumerate().filter_map(|(n, ask)| Some((ask.begun_us?.max(ask.at_us), true, n)));
    let mut all: Vec<(u64, bool, usize)> = simulated.chain(begun).collect();
    // A response that begins at the time of a request comes first, unless it answers that request.
    all.sort_by_key(|(at, is_begin, n)| (*at, !*is_begin || observed[*n].at_us == *at, *n, *is_begin));
    all.into_iter().map(|(_, is_begin, n)| (is_begin, n)).collect()
}

fn summarize(
    requests: Vec<Explanation>,
    observed: Vec<ObservedRequest>,
    scales: Vec<TokenScale>,
) -> CacheReport {
    let mut openings: Vec<LaneOpening> = Vec::new();
    let mut rules: Vec<(&'static str, &'static str)> = Vec::new();
    let (answered, failed): (Vec<_>, Vec<_>) =
        observed.into_iter().zip(scales).partition(|(ask, _)| ask.begun_us.is_some());
    for (ask, scale) in answered.into_iter().chain(failed) {
        let used = (ask.prompt.rules.name, ask.prompt.rules.documented);
        if !rules.contains(&used) {
            rules.push(used);
        }
        if !openings.iter().any(|opening| opening.lane == ask.lane) {
            openings.push(LaneOpening { lane: ask.lane, id: ask.id, prompt: ask.prompt, scale });
        }
    }
    let mut by_lane: HashMap<&str, Vec<&Explanation>> = HashMap::new();
    for request in &requests {
        by_lane.entry(&request.lane).or_default().push(request);
    }
    let of = |lane: &String| CacheTotals::of(by_lane.get(lane.as_str()).into_iter().flatten().copied());
    let lanes = openings.iter().map(|opening| (opening.lane.clone(), of(&opening.lane))).collect();
    CacheReport {
        total: CacheTotals::of(requests.iter()),
        lanes,
        rules,
        openings,
        requests,
        unread: Vec::new(),
    }
}

/// Simulation of all requests.
pub(crate) struct Simulation<'a> {
    pub(crate) tokens: &'a TokenModel,
    pub(crate) observed: &'a [ObservedRequest],
    pub(crate) scales: &'a [TokenScale],
    simulator: Simulator,
    /// Answered requests of each lane so far.
    lanes: HashMap<&'a str, Vec<usize>>,
    /// Latest writer of each prefix, by the chain of its last block.
    writers: HashMap<u64, usize>,
    /// Latest writer of each prefix, without routing keys.
    unrouted: HashMap<u64, usize>,
}

impl<'a> Simulation<'a> {
    /// Simulates a request. Returns `None` if its bytes do not contain the prompt.
    fn simulate_request(&mut self, n: usize, explanation: &mut Explanation) -> Option<SimulatedRequest> {
        let ask = &self.observed[n];
        let scale = &self.scales[n];
        if ask.prompt.is_tail {
            // Only the usage shows its length and what was read.
            let unknown = Usage { input: scale.total, ..Usage::default() };
            let usage = ask.reported.map_or(unknown, |reported| Usage { output: 0, ..reported });
            (explanation.predicted, explanation.perfect) = (usage, usage);
            explanation.reason = Some(Reason::HistoryElsewhere);
            return None;
        }
        let found = self.predecessor(n);
        let simulated = self.simulator.ask(ask.at_us, &ask.prompt, scale);
        let found = found
            .or_else(|| self.other_writer(n, &simulated))
            .or_else(|| self.rerouted_writer(n, &simulated));
        let marks = cacheable_markers(&ask.prompt, scale);
        let is_marked = matches!(ask.prompt.rules.storage, StoragePolicy::Marked { .. });
        explanation.predicted = simulated.usage;
        explanation.perfect = simulated.usage;
        explanation.after = found.as_ref().map(|found| self.observed[found.before].id.clone());
        explanation.repeated =
            found.as_ref().filter(|found| found.is_due).map_or(0, |found| scale.before(found.shared));
        explanation.reason = match found {
            // A prefix that was written for this request is missed, however few markers it has.
            Some(found) if found.is_due && found.kept > 0 => {
                self.explain_miss(n, &simulated, &found, explanation)
            }
            _ if is_marked && ask.prompt.marks.is_empty() => Some(Reason::Unmarked),
            _ if is_marked && marks.is_empty() => Some(Reason::BelowMinimum),
            Some(found) => self.explain_miss(n, &simulated, &found, explanation),
            None => (simulated.usage.cache_read == 0).then_some(Reason::Cold),
        };
        self.check_usage(n, &simulated, explanation);
        explanation.confidence =
            match Confidence::of(self.tokens, &ask.prompt, &simulated.usage, ask.reported.as_ref()) {
                Confidence::Exact if simulated.usage.cache_read == 0 && explanation.miss.is_none() => {
                    Confidence::Calibrated
                }
                sure => sure,
            };
        self.lanes.entry(&ask.lane).or_default().push(n);
        self.writers.extend(simulated.writes.iter().map(|(chain, _)| (*chain, n)));
        if ask.prompt.rules.keys.iter().any(|(name, _)| *name == ROUTE) {
            let written: HashSet<u64> = simulated.writes.iter().map(|(chain, _)| *chain).collect();
            let blocks = ask.prompt.blocks.iter().filter(|block| written.contains(&block.chain));
            self.unrouted.extend(blocks.map(|block| (block.unrouted, n)));
        }
        Some(simulated)
    }

    /// Returns the request that this one should continue: the previous one of its lane. A fork continues the
    /// request of its parent that it shares most with. That need not be the latest one. An earlier turn that is
    /// still complete in a fork does not prove that the fork began there.
    fn predecessor(&self, n: usize) -> Option<Predecessor> {
        let ask = &self.observed[n];
        if let Some(lane) = self.lanes.get(ask.lane.as_str()) {
            return self.last_marked(lane).map(|last| self.compare_with(n, last));
        }
        let parent = self.lanes.get(ask.fork_of.as_deref()?)?;
        let all = parent.iter().map(|before| self.compare_with(n, *before));
        all.max_by_key(|found| (ask.prompt.similarity(&self.observed[found.before].prompt), found.is_intact))
    }

    /// Returns the last request of a lane whose cache entries the next one can use. A request that lost its
    /// markers leaves earlier entries, unless the conversation was compacted.
    fn last_marked(&self, lane: &[usize]) -> Option<usize> {
        let leaves = |n: &&usize| self.observed[**n].is_compacted || !self.observed[**n].prompt.is_unmarked();
        lane.iter().rev().find(leaves).or(lane.last()).copied()
    }

    /// Returns another lane's request that wrote more of this prompt than was read.
    fn other_writer(&self, n: usize, simulated: &SimulatedRequest) -> Option<Predecessor> {
        let (ask, scale) = (&self.observed[n], &self.scales[n]);
        let reach = ask.prompt.blocks.iter().rposition(|block| self.writers.contains_key(&block.chain))?;
        let chain = ask.prompt.blocks[reach].chain;
        let kept = scale.ends[reach];
        let is_more = kept > simulated.usage.cache_read && kept >= CacheRules::minimum(&ask.prompt.model);
        is_more.then(|| Predecessor {
            before: self.writers[&chain],
            shared: reach + 1,
            reach: Some(reach),
            kept,
            state: self.simulator.state(ask.at_us, chain),
            is_intact: true,
            is_due: false,
        })
    }

    /// Returns the same conversation under another routing key: the prefix is cached, but on another machine.
    fn rerouted_writer(&self, n: usize, simulated: &SimulatedRequest) -> Option<Predecessor> {
        let (ask, scale) = (&self.observed[n], &self.scales[n]);
        let blocks = &ask.prompt.blocks;
        let reach = blocks.iter().rposition(|block| self.unrouted.contains_key(&block.unrouted))?;
        let before = self.unrouted[&blocks[reach].unrouted];
        let there = &self.observed[before].prompt;
        let state = self.simulator.state(ask.at_us, there.blocks.get(reach)?.chain);
        let kept = scale.ends[reach];
        // Agents that share only tools and instructions may have different keys on purpose.
        let is_shared = blocks[reach].section == Section::Messages && state == EntryState::Readable;
        let is_more = kept > simulated.usage.cache_read && kept >= CacheRules::minimum(&ask.prompt.model);
        let shared = ask.prompt.shared_with(there);
        (is_shared && is_more).then_some(Predecessor {
            before,
            shared,
            reach: Some(reach),
            kept,
            state,
            is_intact: false,
            is_due: false,
        })
    }

    /// Compares a request with an earlier one.
    fn compare_with(&self, n: usize, before: usize) -> Predecessor {
        let (here, there) = (&self.observed[n].prompt, &self.observed[before].prompt);
        let scale = &self.scales[before];
        let shared = here.shared_with(there);
        let reach = match there.rules.storage {
            StoragePolicy::Marked { .. } => {
                written_markers(there, &cacheable_markers(there, scale)).last().map(|mark| mark.block)
            }
            StoragePolicy::Steps { .. } => there.blocks.len().checked_sub(1),
        };
        let is_intact = reach.is_some_and(|reach| shared > reach);
        let scale = if is_intact { &self.scales[n] } else { scale };
        let kept = reach.map_or(0, |reach| scale.ends[reach]);
        let state = reach.map_or(EntryState::Absent, |reach| {
            self.simulator.state(self.observed[n].at_us, there.blocks[reach].chain)
        });
        Predecessor { before, shared, reach, kept, state, is_intact, is_due: true }
    }
}

/// Comparison of a request with an earlier one that it could have read from.
pub(crate) struct Predecessor {
    pub(crate) before: usize,
    /// Number of equal first blocks.
    pub(crate) shared: usize,
    /// Last block that the earlier request wrote.
    pub(crate) reach: Option<usize>,
    /// Tokens up to that block.
    pub(crate) kept: u64,
    pub(crate) state: EntryState,
    /// True if everything that was written is still in the prompt.
    pub(crate) is_intact: bool,
    /// True if this request should continue the earlier one, in its lane or as its fork, so that all writes
    /// were meant for it.
    pub(crate) is_due: bool,
}
