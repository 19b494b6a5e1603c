//! Requests that were made, one after the other through the simulator: what each should have read, and why it did not.

use std::collections::HashMap;

use session::Usage;

use crate::explanation::{Ask, AtStake, Explained, Explanation, Miss, Opening};
use crate::place::Place;
use crate::prompt::{Aside, Section};
use crate::reason::Reason;
use crate::rules::{Keeps, Reads, Rules};
use crate::simulator::{Asked, Simulator, State, back, bill, effective, written};
use crate::sure::Sure;
use crate::tokens::{Scale, Tokens};
use crate::totals::{Totals, input_usd};

/// Explains requests, in whatever order they are given.
pub fn explain(mut asks: Vec<Ask>) -> Explained {
    asks.sort_by_key(|ask| ask.at_us);
    let tokens = Tokens::learn(asks.iter());
    let scales: Vec<Scale> =
        asks.iter().map(|ask| tokens.scale(&ask.prompt, ask.reported.as_ref())).collect();
    let mut playing = Playing {
        tokens: &tokens,
        asks: &asks,
        scales: &scales,
        simulator: Simulator::new(),
        lanes: HashMap::new(),
    };
    let mut asked: Vec<Option<Asked>> = vec![None; asks.len()];
    let mut requests = Vec::with_capacity(asks.len());
    for (is_begin, n) in moments(&asks) {
        match (is_begin, &asked[n]) {
            (true, Some(told)) => playing.simulator.begin(told),
            (true, None) => {}
            (false, _) => {
                let (told, explanation) = playing.ask(n);
                asked[n] = Some(told);
                requests.push(explanation);
            }
        }
    }
    summed(requests, asks, scales)
}

/// Requests and beginnings of answers, in the order they happened.
fn moments(asks: &[Ask]) -> Vec<(bool, usize)> {
    let asked = asks.iter().enumerate().map(|(n, ask)| (ask.at_us, false, n));
    let begun = asks.iter().enumerate().filter_map(|(n, ask)| Some((ask.begun_us?.max(ask.at_us), true, n)));
    let mut all: Vec<(u64, bool, usize)> = asked.chain(begun).collect();
    // What begins at the very moment of a question was there when it was asked, unless it is its own answer.
    all.sort_by_key(|(at, is_begin, n)| (*at, !*is_begin || asks[*n].at_us == *at, *n, *is_begin));
    all.into_iter().map(|(_, is_begin, n)| (is_begin, n)).collect()
}

fn summed(requests: Vec<Explanation>, asks: Vec<Ask>, scales: Vec<Scale>) -> Explained {
    let mut openings: Vec<Opening> = Vec::new();
    let mut rules: Vec<(&'static str, &'static str)> = Vec::new();
    for (ask, scale) in asks.into_iter().zip(scales) {
        let used = (ask.prompt.rules.name, ask.prompt.rules.documented);
        if !rules.contains(&used) {
            rules.push(used);
        }
        if !openings.iter().any(|opening| opening.lane == ask.lane) {
            openings.push(Opening { lane: ask.lane, id: ask.id, prompt: ask.prompt, scale });
        }
    }
    let mut by_lane: HashMap<&str, Vec<&Explanation>> = HashMap::new();
    for request in &requests {
        by_lane.entry(&request.lane).or_default().push(request);
    }
    let of = |lane: &String| Totals::of(by_lane.get(lane.as_str()).into_iter().flatten().copied());
    let lanes = openings.iter().map(|opening| (opening.lane.clone(), of(&opening.lane))).collect();
    Explained { total: Totals::of(requests.iter()), lanes, rules, openings, requests }
}

/// All requests, while they go through the simulator.
struct Playing<'a> {
    tokens: &'a Tokens,
    asks: &'a [Ask],
    scales: &'a [Scale],
    simulator: Simulator,
    /// The requests of each lane so far, those without an answer aside.
    lanes: HashMap<&'a str, Vec<usize>>,
}

impl<'a> Playing<'a> {
    fn ask(&mut self, n: usize) -> (Asked, Explanation) {
        let ask = &self.asks[n];
        let scale = &self.scales[n];
        let found = self.before(n);
        let asked = self.simulator.ask(ask.at_us, &ask.prompt, scale);
        let marks = effective(&ask.prompt, scale);
        let is_marked = matches!(ask.prompt.rules.keeps, Keeps::Marked { .. });
        let mut explanation = Explanation {
            id: ask.id.clone(),
            lane: ask.lane.clone(),
            fork_of: ask.fork_of.clone(),
            turn: ask.turn,
            model: ask.prompt.model.clone(),
            predicted: asked.usage,
            reported: ask.reported,
            perfect: asked.usage,
            sure: Sure::of(self.tokens, &ask.prompt, &asked.usage, ask.reported.as_ref()),
            reason: None,
            miss: None,
            after: found.as_ref().map(|found| self.asks[found.before].id.clone()),
        };
        match found {
            _ if is_marked && ask.prompt.marks.is_empty() => explanation.reason = Some(Reason::Unmarked),
            _ if is_marked && marks.is_empty() => explanation.reason = Some(Reason::BelowMinimum),
            Some(found) => self.judge(n, &asked, found, &mut explanation),
            None if asked.usage.cache_read == 0 => explanation.reason = Some(Reason::Cold),
            None => {}
        }
        if ask.begun_us.is_some() {
            self.lanes.entry(&ask.lane).or_default().push(n);
        }
        (asked, explanation)
    }

    /// The request that one should go on from: the one before in its lane. Where a fork begins it is the one of its
    /// parent that left it most; a fork need not begin at the parent's latest.
    fn before(&self, n: usize) -> Option<Found> {
        let ask = &self.asks[n];
        if let Some(last) = self.lanes.get(ask.lane.as_str()).and_then(|lane| lane.last()) {
            return Some(self.found(n, *last));
        }
        let parent = self.lanes.get(ask.fork_of.as_deref()?)?;
        let all = parent.iter().map(|before| self.found(n, *before));
        all.max_by_key(|found| {
            (found.is_intact, if found.is_intact { found.kept } else { found.shared as u64 })
        })
    }

    /// What there was to read of the request before.
    fn found(&self, n: usize, before: usize) -> Found {
        let (here, there) = (&self.asks[n].prompt, &self.asks[before].prompt);
        let scale = &self.scales[before];
        let shared = here.shared_with(there);
        let reach = match there.rules.keeps {
            Keeps::Marked { .. } => written(there, &effective(there, scale)).last().map(|mark| mark.block),
            Keeps::Steps { .. } => there.blocks.len().checked_sub(1),
        };
        let is_intact = reach.is_some_and(|reach| shared > reach);
        let scale = if is_intact { &self.scales[n] } else { scale };
        let kept = reach.map_or(0, |reach| scale.ends[reach]);
        let state = reach.map_or(State::Absent, |reach| {
            self.simulator.state(self.asks[n].at_us, there.blocks[reach].chain)
        });
        Found { before, shared, reach, kept, state, is_intact }
    }

    fn judge(&self, n: usize, asked: &Asked, found: Found, explanation: &mut Explanation) {
        let (ask, scale) = (&self.asks[n], &self.scales[n]);
        let marks = written(&ask.prompt, &effective(&ask.prompt, scale));
        let (could, perfect) = match ask.prompt.rules.keeps {
            Keeps::Marked { .. } => {
                let most = marks.last().map_or(0, |mark| scale.ends[mark.block]);
                let could = found.kept.min(most);
                (could, bill(&marks, scale, could))
            }
            Keeps::Steps { step, .. } => {
                let could = found.kept.min(scale.total) / step * step;
                let could = if could >= Rules::minimum(&ask.prompt.model) { could } else { 0 };
                (could, Usage { cache_read: could, input: scale.total - could, ..Usage::default() })
            }
        };
        let missed = could.saturating_sub(asked.usage.cache_read);
        let there = &self.asks[found.before].prompt;
        if missed == 0 {
            let nothing = (asked.usage.cache_read == 0).then(|| self.nothing(&found));
            explanation.reason = nothing.or_else(|| self.aside(n, &found, explanation));
            return;
        }
        let usd = |usage: &Usage| input_usd(&ask.prompt.model, usage);
        let place = match found.reach.filter(|_| found.is_intact) {
            Some(reach) => Place::whole(&ask.prompt, reach),
            None => Place::of(&ask.prompt, there, found.shared),
        };
        explanation.reason = Some(self.reason(n, &found, &place));
        explanation.perfect = perfect;
        explanation.miss = Some(Miss {
            block: place.block + 1,
            section: place.section,
            pointer: place.pointer,
            spans: place.spans,
            tokens: missed,
            usd: usd(&asked.usage).zip(usd(&perfect)).map(|(paid, perfect)| paid - perfect),
            at_stake: None,
        });
    }

    /// Why there was nothing to read.
    fn nothing(&self, found: &Found) -> Reason {
        let before = &self.asks[found.before].prompt;
        let is_marked = matches!(before.rules.keeps, Keeps::Marked { .. });
        if is_marked && before.marks.is_empty() { Reason::Cold } else { Reason::BelowMinimum }
    }

    fn reason(&self, n: usize, found: &Found, place: &Place) -> Reason {
        if !found.is_intact {
            return place.reason;
        }
        let ask = &self.asks[n];
        let answered = self.asks[found.before].begun_us.is_some_and(|begun| begun <= ask.at_us);
        match found.state {
            State::Expired => Reason::Expired,
            _ if !answered => Reason::NotYetReadable,
            _ if !looks_back_to(ask, &self.scales[n], found.reach) => Reason::BeyondLookBack,
            _ => Reason::BelowMinimum,
        }
    }

    /// A tool that came or went beside the prefix is named, and costs nothing by the provider's own word.
    fn aside(&self, n: usize, found: &Found, explanation: &mut Explanation) -> Option<Reason> {
        let (ask, there) = (&self.asks[n], &self.asks[found.before].prompt);
        let changed = Aside::first_difference(&ask.prompt, there)?;
        let rewritten = Usage {
            cache_read: 0,
            cache_write_5m: explanation.predicted.cache_write_5m + explanation.predicted.cache_read,
            ..explanation.predicted
        };
        let usd = |usage: &Usage| input_usd(&ask.prompt.model, usage);
        explanation.miss = Some(Miss {
            block: 1,
            section: Section::Tools,
            pointer: changed.pointer.clone(),
            spans: [None, None],
            tokens: 0,
            usd: usd(&explanation.predicted).map(|_| 0.0),
            at_stake: Some(AtStake {
                tool: changed.name.clone(),
                tokens: explanation.predicted.cache_read,
                usd: usd(&rewritten).zip(usd(&explanation.predicted)).map(|(paid, less)| paid - less),
            }),
        });
        Some(Reason::ToolsChanged)
    }
}

/// What there was to read of the request before.
struct Found {
    before: usize,
    /// How many of the first blocks are the same.
    shared: usize,
    /// The last block that it wrote.
    reach: Option<usize>,
    /// How many tokens that is.
    kept: u64,
    state: State,
    /// All that was written is still said.
    is_intact: bool,
}

/// Whether a marker of a request leads to a block.
fn looks_back_to(ask: &Ask, scale: &Scale, reach: Option<usize>) -> bool {
    let Some(reach) = reach else { return false };
    match ask.prompt.rules.keeps {
        Keeps::Marked { reads: Reads::LookBack { positions, .. }, .. } => effective(&ask.prompt, scale)
            .iter()
            .any(|mark| back(&ask.prompt, mark.block, positions).any(|block| block == reach)),
        Keeps::Marked { reads: Reads::Markers { .. }, .. } => {
            ask.prompt.marks.iter().any(|mark| mark.block == reach)
        }
        Keeps::Steps { .. } => true,
    }
}
