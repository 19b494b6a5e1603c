//! Requests that were made, one after the other through the simulator: what each should have read, and why it did not.

use std::collections::{HashMap, HashSet};

use session::Usage;

use crate::confidence::Confidence;
use crate::explanation::{CacheReport, Explanation, LaneOpening, ObservedRequest};
use crate::prompt::Section;
use crate::reason::Reason;
use crate::rules::{CacheRules, ROUTE, StoragePolicy};
use crate::simulator::{SimulatedRequest, Simulator, State, effective, written};
use crate::tokens::{TokenModel, TokenScale};
use crate::totals::CacheTotals;
use crate::unread_markers::unread;

/// Two moments that are no farther apart may have come to the provider the other way round: they are measured on the way.
const CLOSE_US: u64 = 50_000;

/// Explains requests, in whatever order they are given.
pub fn explain(mut asks: Vec<ObservedRequest>) -> CacheReport {
    asks.sort_by_key(|ask| ask.at_us);
    let tokens = TokenModel::learn(asks.iter());
    let mut played = play(&tokens, &asks);
    // Who asked when somebody else's answer just began has the usage's word for which of them was first.
    let other = moved(&asks, &played);
    if let Some(times) = other {
        let before = swap(&mut asks, times);
        let again = play(&tokens, &asks);
        match again.contradicted() < played.contradicted() {
            true => played = again,
            false => drop(swap(&mut asks, before)),
        }
    }
    let Played { scales, asked, requests } = played;
    let unread = unread(&asks, &scales, &asked, &requests);
    CacheReport { unread, ..summed(requests, asks, scales) }
}

/// What became of all requests.
struct Played {
    scales: Vec<TokenScale>,
    asked: Vec<Option<SimulatedRequest>>,
    /// In the order of the requests.
    requests: Vec<Explanation>,
}

impl Played {
    fn contradicted(&self) -> usize {
        self.requests.iter().filter(|request| request.confidence == Confidence::Contradicted).count()
    }
}

fn play(tokens: &TokenModel, asks: &[ObservedRequest]) -> Played {
    let scales: Vec<TokenScale> =
        asks.iter().map(|ask| tokens.scale(&ask.prompt, ask.reported.as_ref())).collect();
    let mut playing = Playing {
        tokens,
        asks,
        scales: &scales,
        simulator: Simulator::new(),
        lanes: HashMap::new(),
        writers: HashMap::new(),
        unrouted: HashMap::new(),
    };
    let mut asked: Vec<Option<SimulatedRequest>> = vec![None; asks.len()];
    let mut requests: Vec<Explanation> = asks.iter().map(Explanation::of).collect();
    for (is_begin, n) in moments(asks) {
        match (is_begin, &asked[n]) {
            (true, Some(told)) => playing.simulator.begin(told),
            (true, None) => {}
            (false, _) => asked[n] = asks[n].begun_us.and_then(|_| playing.ask(n, &mut requests[n])),
        }
    }
    Played { scales, asked, requests }
}

/// When requests came if those that the usage contradicts came a moment earlier or later; `None` where none may have.
fn moved(asks: &[ObservedRequest], played: &Played) -> Option<Vec<u64>> {
    let mut times: Vec<u64> = asks.iter().map(|ask| ask.at_us).collect();
    let mut is_moved = false;
    for (n, request) in
        played.requests.iter().enumerate().filter(|(_, it)| it.confidence == Confidence::Contradicted)
    {
        let Some(reported) = &asks[n].reported else { continue };
        let (at, predicted) = (asks[n].at_us, request.predicted.cache_read);
        // In a lane, and where it was forked from, one asks when the other has its answer.
        let (own, others): (Vec<&ObservedRequest>, Vec<&ObservedRequest>) =
            asks.iter().partition(|ask| ask.lane == asks[n].lane);
        let others = others.iter().filter(|ask| asks[n].fork_of.as_ref() != Some(&ask.lane));
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

/// Gives requests other times; which they had.
fn swap(asks: &mut [ObservedRequest], times: Vec<u64>) -> Vec<u64> {
    asks.iter_mut().zip(times).map(|(ask, time)| std::mem::replace(&mut ask.at_us, time)).collect()
}

/// Requests and beginnings of answers, in the order they happened.
fn moments(asks: &[ObservedRequest]) -> Vec<(bool, usize)> {
    let asked = asks.iter().enumerate().map(|(n, ask)| (ask.at_us, false, n));
    let begun = asks.iter().enumerate().filter_map(|(n, ask)| Some((ask.begun_us?.max(ask.at_us), true, n)));
    let mut all: Vec<(u64, bool, usize)> = asked.chain(begun).collect();
    // What begins at the very moment of a question was there when it was asked, unless it is its own answer.
    all.sort_by_key(|(at, is_begin, n)| (*at, !*is_begin || asks[*n].at_us == *at, *n, *is_begin));
    all.into_iter().map(|(_, is_begin, n)| (is_begin, n)).collect()
}

fn summed(requests: Vec<Explanation>, asks: Vec<ObservedRequest>, scales: Vec<TokenScale>) -> CacheReport {
    let mut openings: Vec<LaneOpening> = Vec::new();
    let mut rules: Vec<(&'static str, &'static str)> = Vec::new();
    let (answered, failed): (Vec<_>, Vec<_>) =
        asks.into_iter().zip(scales).partition(|(ask, _)| ask.begun_us.is_some());
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

/// All requests, while they go through the simulator.
pub(crate) struct Playing<'a> {
    pub(crate) tokens: &'a TokenModel,
    pub(crate) asks: &'a [ObservedRequest],
    pub(crate) scales: &'a [TokenScale],
    simulator: Simulator,
    /// The requests of each lane so far, those without an answer aside.
    lanes: HashMap<&'a str, Vec<usize>>,
    /// Who last wrote what, by the chain of its last block.
    writers: HashMap<u64, usize>,
    /// The same with the keys that route requests aside.
    unrouted: HashMap<u64, usize>,
}

impl<'a> Playing<'a> {
    /// What becomes of a request; `None` where its bytes cannot tell.
    fn ask(&mut self, n: usize, explanation: &mut Explanation) -> Option<SimulatedRequest> {
        let ask = &self.asks[n];
        let scale = &self.scales[n];
        if ask.prompt.is_tail {
            // Only the usage knows how long it is, and what of it was read.
            let unknown = Usage { input: scale.total, ..Usage::default() };
            let usage = ask.reported.map_or(unknown, |reported| Usage { output: 0, ..reported });
            (explanation.predicted, explanation.perfect) = (usage, usage);
            explanation.reason = Some(Reason::HistoryElsewhere);
            return None;
        }
        let found = self.before(n);
        let asked = self.simulator.ask(ask.at_us, &ask.prompt, scale);
        let found = found.or_else(|| self.elsewhere(n, &asked)).or_else(|| self.rerouted(n, &asked));
        let marks = effective(&ask.prompt, scale);
        let is_marked = matches!(ask.prompt.rules.keeps, StoragePolicy::Marked { .. });
        explanation.predicted = asked.usage;
        explanation.perfect = asked.usage;
        explanation.after = found.as_ref().map(|found| self.asks[found.before].id.clone());
        explanation.repeated =
            found.as_ref().filter(|found| found.is_due).map_or(0, |found| scale.before(found.shared));
        explanation.reason = match found {
            // What was written for it is missed, however little it marks itself.
            Some(found) if found.is_due && found.kept > 0 => self.judge(n, &asked, &found, explanation),
            _ if is_marked && ask.prompt.marks.is_empty() => Some(Reason::Unmarked),
            _ if is_marked && marks.is_empty() => Some(Reason::BelowMinimum),
            Some(found) => self.judge(n, &asked, &found, explanation),
            None => (asked.usage.cache_read == 0).then_some(Reason::Cold),
        };
        self.doubt(n, &asked, explanation);
        explanation.confidence =
            match Confidence::of(self.tokens, &ask.prompt, &asked.usage, ask.reported.as_ref()) {
                Confidence::Exact if asked.usage.cache_read == 0 && explanation.miss.is_none() => {
                    Confidence::Calibrated
                }
                sure => sure,
            };
        self.lanes.entry(&ask.lane).or_default().push(n);
        self.writers.extend(asked.writes.iter().map(|(chain, _)| (*chain, n)));
        if ask.prompt.rules.keys.iter().any(|(name, _)| *name == ROUTE) {
            let written: HashSet<u64> = asked.writes.iter().map(|(chain, _)| *chain).collect();
            let blocks = ask.prompt.blocks.iter().filter(|block| written.contains(&block.chain));
            self.unrouted.extend(blocks.map(|block| (block.unrouted, n)));
        }
        Some(asked)
    }

    /// The request that one should go on from: the one before in its lane. Where a fork begins it is the one of its
    /// parent that it says most of: it need not begin at the parent's latest, and one of another beginning is no fork of
    /// an earlier turn only because that turn is still whole in it.
    fn before(&self, n: usize) -> Option<Found> {
        let ask = &self.asks[n];
        if let Some(lane) = self.lanes.get(ask.lane.as_str()) {
            return self.last_marked(lane).map(|last| self.found(n, last));
        }
        let parent = self.lanes.get(ask.fork_of.as_deref()?)?;
        let all = parent.iter().map(|before| self.found(n, *before));
        all.max_by_key(|found| (ask.prompt.likeness(&self.asks[found.before].prompt), found.is_intact))
    }

    /// The last request of a lane that could leave something to the next: one that lost its markers leaves what was there
    /// before it, unless the conversation begins anew with it.
    fn last_marked(&self, lane: &[usize]) -> Option<usize> {
        let leaves = |n: &&usize| self.asks[**n].begins_anew || !self.asks[**n].prompt.is_unmarked();
        lane.iter().rev().find(leaves).or(lane.last()).copied()
    }

    /// Somebody else's request that wrote more of what this one says than it read.
    fn elsewhere(&self, n: usize, asked: &SimulatedRequest) -> Option<Found> {
        let (ask, scale) = (&self.asks[n], &self.scales[n]);
        let reach = ask.prompt.blocks.iter().rposition(|block| self.writers.contains_key(&block.chain))?;
        let chain = ask.prompt.blocks[reach].chain;
        let kept = scale.ends[reach];
        let is_more = kept > asked.usage.cache_read && kept >= CacheRules::minimum(&ask.prompt.model);
        is_more.then(|| Found {
            before: self.writers[&chain],
            shared: reach + 1,
            reach: Some(reach),
            kept,
            state: self.simulator.state(ask.at_us, chain),
            is_intact: true,
            is_due: false,
        })
    }

    /// The same conversation under another key: what was written is there, where nobody looks for it.
    fn rerouted(&self, n: usize, asked: &SimulatedRequest) -> Option<Found> {
        let (ask, scale) = (&self.asks[n], &self.scales[n]);
        let blocks = &ask.prompt.blocks;
        let reach = blocks.iter().rposition(|block| self.unrouted.contains_key(&block.unrouted))?;
        let before = self.unrouted[&blocks[reach].unrouted];
        let there = &self.asks[before].prompt;
        let state = self.simulator.state(ask.at_us, there.blocks.get(reach)?.chain);
        let kept = scale.ends[reach];
        // Agents that share no more than tools and instructions may well have keys of their own.
        let is_shared = blocks[reach].section == Section::Messages && state == State::Readable;
        let is_more = kept > asked.usage.cache_read && kept >= CacheRules::minimum(&ask.prompt.model);
        let shared = ask.prompt.shared_with(there);
        (is_shared && is_more).then_some(Found {
            before,
            shared,
            reach: Some(reach),
            kept,
            state,
            is_intact: false,
            is_due: false,
        })
    }

    /// What there was to read of the request before.
    fn found(&self, n: usize, before: usize) -> Found {
        let (here, there) = (&self.asks[n].prompt, &self.asks[before].prompt);
        let scale = &self.scales[before];
        let shared = here.shared_with(there);
        let reach = match there.rules.keeps {
            StoragePolicy::Marked { .. } => {
                written(there, &effective(there, scale)).last().map(|mark| mark.block)
            }
            StoragePolicy::Steps { .. } => there.blocks.len().checked_sub(1),
        };
        let is_intact = reach.is_some_and(|reach| shared > reach);
        let scale = if is_intact { &self.scales[n] } else { scale };
        let kept = reach.map_or(0, |reach| scale.ends[reach]);
        let state = reach.map_or(State::Absent, |reach| {
            self.simulator.state(self.asks[n].at_us, there.blocks[reach].chain)
        });
        Found { before, shared, reach, kept, state, is_intact, is_due: true }
    }
}

/// What there was to read of the request before.
pub(crate) struct Found {
    pub(crate) before: usize,
    /// How many of the first blocks are the same.
    pub(crate) shared: usize,
    /// The last block that it wrote.
    pub(crate) reach: Option<usize>,
    /// How many tokens that is.
    pub(crate) kept: u64,
    pub(crate) state: State,
    /// All that was written is still said.
    pub(crate) is_intact: bool,
    /// It is the one to go on from, in its lane or where that was forked: all that it wrote was written for this one.
    pub(crate) is_due: bool,
}
