//! What all connections of a replay share: positions, names and the report, under one lock.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};

use recording::lanes::{Heard, Replies};
use recording::source::Source;
use tokio::time::Instant;
use wire::dialect::{Dialect, Prompt};
use wire::difference::{Difference, first_difference};

use super::fault::Fault;
use super::find::{Finder, Found, Nowhere};
use super::names::Mapping;
use super::question::Question;
use super::report::{FaultOutcome, ReplayMiss, ReplayReport, TurnRef};
use super::response::Reply;
use super::tape::RecordedTraffic;
use super::trail::Trail;
use super::{OnMiss, ReplaySettings};
use crate::cache_sim::CacheSim;
use crate::serve::{Request, identity};

/// The longest value of a difference that is shown.
const SHOWN: usize = 120;

#[derive(Debug)]
pub(super) struct Stage {
    pub(super) tape: Arc<RecordedTraffic>,
    state: Mutex<State>,
    faults: Vec<Fault>,
    on_miss: OnMiss,
    cache: Option<CacheSim>,
}

#[derive(Debug, Default)]
struct State {
    finder: Finder,
    mapping: Mapping,
    /// What was said live.
    replies: Replies,
    /// Takes that ask no model and were played.
    others: HashSet<usize>,
    served: u64,
    again: u64,
    /// Turns whose request had other words.
    reworded: Vec<usize>,
    misses: Vec<ReplayMiss>,
    hits: Vec<u32>,
    /// What was done about each fault.
    then: Vec<Vec<String>>,
    /// The newest fault of a turn: which, when, and whether a stream was asked for.
    struck: HashMap<usize, (usize, Instant, bool)>,
}

/// A request that has its answer.
#[derive(Debug)]
pub(super) struct Ticket {
    pub(super) take: usize,
    /// It keeps the place in the order that its take has.
    pub(super) is_ordered: bool,
    pub(super) reply: Reply,
    spot: usize,
    /// What the cache made of it, where there is one.
    asked: Option<cache::Asked>,
}

impl Stage {
    pub(super) fn new(tape: Arc<RecordedTraffic>, settings: &ReplaySettings) -> Self {
        let state = State {
            replies: tape.replies.clone(),
            hits: vec![0; settings.faults.len()],
            then: vec![Vec::new(); settings.faults.len()],
            ..State::default()
        };
        Self {
            tape,
            state: Mutex::new(state),
            faults: settings.faults.clone(),
            on_miss: settings.on_miss,
            cache: settings.cache_sim.then(CacheSim::new),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics while holding it")
    }

    /// A request to a model came: its place and its answer. `arrived` is told of the take before any other request
    /// can be placed.
    pub(super) fn arrive(
        &self,
        prompt: &Prompt,
        request: &Request,
        arrived: impl FnOnce(usize),
    ) -> Result<Ticket, Nowhere> {
        let identity = identity(&request.headers, &request.body, prompt);
        let mut state = self.lock();
        let state = &mut *state;
        let outline = state.replies.outline(prompt, &identity);
        let trail = Trail::of(prompt, identity.follows.as_deref());
        let nearest = self.on_miss == OnMiss::Nearest;
        let found = state.finder.find(&self.tape, &outline, &trail, prompt.dialect, nearest)?;
        let take = &self.tape.takes[found.take];
        if found.is_other && !take.outline.is_probe && !state.reworded.contains(&found.spot) {
            state.reworded.push(found.spot);
        }
        self.tape.names.learn(take.exchange, prompt, &mut state.mapping);
        let asked = self.cache.as_ref().and_then(|cache| cache.ask(prompt.dialect, &request.body));
        let renames = state.mapping.renames();
        let reply = match &asked {
            Some(asked) => Reply::with_usage(&take.response, &renames, prompt.dialect, &asked.usage),
            None => Reply::of(&take.response, &renames),
        };
        let mut reply = reply.in_form(prompt.dialect, prompt.stream);
        if let Some((fault, at, streamed)) = state.struck.remove(&found.spot) {
            let how = match (streamed, prompt.stream) {
                (true, false) => " without streaming",
                (false, true) => " with streaming",
                _ => "",
            };
            state.then[fault].push(format!("asked again after {:.1} s{how}", at.elapsed().as_secs_f64()));
        }
        let fault = self.fault(&found).filter(|fault| self.faults[*fault].reaches(&reply));
        let mut fails = !take.whole;
        if let Some(fault) = fault {
            state.hits[fault] += 1;
            state.struck.insert(found.spot, (fault, Instant::now(), prompt.stream));
            fails = !self.faults[fault].apply(prompt.dialect, &mut reply);
            reply.settle_length();
        }
        if fails {
            // Told before it goes out: the next try may come before its end is noticed here.
            state.finder.failed(found.spot);
        }
        // A fault stands for an answer that was never recorded: the recorded one is still to come.
        let is_recorded = fault.is_none() || !fails;
        if is_recorded {
            state.finder.played(&found);
            state.served += 1;
            state.again += u64::from(found.again);
        }
        let is_ordered = is_recorded && !found.again;
        if is_ordered {
            arrived(found.take);
        }
        self.note(state, prompt.dialect, outline.spine, found.take, &reply);
        Ok(Ticket { take: found.take, is_ordered, reply, spot: found.spot, asked })
    }

    /// The first bytes of an answer leave.
    pub(super) fn begins(&self, ticket: &Ticket) {
        let begun = ticket.asked.as_ref().filter(|_| ticket.reply.status.is_some_and(|status| status < 400));
        if let (Some(cache), Some(asked)) = (&self.cache, begun) {
            cache.begin(asked);
        }
    }

    /// What will have been said live, where it is not what was recorded.
    fn note(&self, state: &mut State, dialect: Dialect, spine: u64, take: usize, reply: &Reply) {
        let take = &self.tape.takes[take];
        if spine == take.outline.spine && reply.says(&take.response.body) {
            return;
        }
        let heard = Heard::of(dialect, reply.status.unwrap_or(200), &reply.body());
        let live = state.replies.learn(spine, &heard);
        if heard.whole {
            state.finder.alias(live, take.after);
        }
    }

    fn fault(&self, found: &Found) -> Option<usize> {
        let spot = &self.tape.spots[found.spot];
        self.faults.iter().position(|fault| fault.hits(&spot.lane, spot.turn, found.attempt))
    }

    /// Whoever asked has left before the answer was whole.
    pub(super) fn left(&self, ticket: &Ticket) {
        self.lock().finder.failed(ticket.spot);
    }

    /// The recorded answer to a request that asks no model: the next of those that ask for what is most like it.
    pub(super) fn other(&self, request: &Request) -> Option<Reply> {
        let path = request.path();
        // The recorded address may have had a prefix that this one has not, or the other way round.
        let fits = |known: &&String| {
            known.split_once(' ').is_some_and(|(method, known)| {
                let prefixed = !known.is_empty() && !path.is_empty();
                let alike = prefixed && (path.ends_with(known) || known.ends_with(path));
                method == request.method && (known == path || alike)
            })
        };
        let same = format!("{} {path}", request.method);
        let known = self.tape.others.get_key_value(&same).map(|(known, _)| known);
        let known = known.or_else(|| self.tape.others.keys().filter(fits).min())?;
        let takes = &self.tape.others[known];
        let asked = Question::of(request.query(), &request.body);
        let likeness = |take: &usize| self.tape.takes[*take].question.likeness(&asked);
        let best = takes.iter().map(likeness).max()?;
        let mut alike = takes.iter().filter(|take| likeness(take) == best);
        let mut state = self.lock();
        let new = alike.clone().find(|take| !state.others.contains(take));
        let take = *new.or_else(|| alike.next_back())?;
        state.again += u64::from(!state.others.insert(take));
        state.served += 1;
        Some(Reply::of(&self.tape.takes[take].response, &state.mapping.renames()))
    }

    /// A request without an answer; gives the words for its sender.
    pub(super) fn miss(&self, request: &Request, nowhere: Nowhere, is_side: bool) -> String {
        let nearest = nowhere.nearest.map(|spot| self.tape.spots[spot].takes[0]);
        let difference = nearest.and_then(|take| {
            let source = Source::open(&self.tape.dir).ok()?;
            let asked = source.asked(self.tape.takes[take].exchange).ok()?;
            first_difference(&asked.body.bytes?, &request.body).map(|difference| in_words(&difference))
        });
        let miss = ReplayMiss {
            request: match request.path() {
                "" => format!("{} /", request.method),
                path => format!("{} {path}", request.method),
            },
            why: nowhere.why,
            is_side,
            nearest: nearest.map(|take| self.place(take)),
            difference,
            count: 1,
        };
        let mut words = format!("replay: {}", miss.why);
        if let Some(nearest) = &miss.nearest {
            words.push_str(&format!("; nearest: turn {} of lane `{}`", nearest.turn, nearest.lane));
        }
        if let Some(difference) = &miss.difference {
            words.push_str(&format!(", which differs at {difference}"));
        }
        let mut state = self.lock();
        match state.misses.iter_mut().find(|known| ReplayMiss { count: 1, ..(*known).clone() } == miss) {
            Some(known) => known.count += 1,
            None => {
                tracing::warn!("{words}");
                state.misses.push(miss);
            }
        }
        words
    }

    fn place(&self, take: usize) -> TurnRef {
        let take = &self.tape.takes[take];
        TurnRef { lane: take.lane.clone(), turn: take.turn, request: take.id.to_string() }
    }

    pub(super) fn report(&self) -> ReplayReport {
        let state = self.lock();
        let unasked = state.finder.unasked(&self.tape);
        let (side, agents): (Vec<usize>, Vec<usize>) =
            unasked.into_iter().partition(|spot| self.tape.spots[*spot].is_side);
        let places = |spots: Vec<usize>| -> Vec<TurnRef> {
            spots.into_iter().map(|spot| self.place(self.tape.spots[spot].takes[0])).collect()
        };
        let faults = self.faults.iter().zip(&state.hits).zip(&state.then);
        ReplayReport {
            recorded: self.tape.len(),
            served: state.served,
            again: state.again,
            unasked: places(agents),
            unasked_side: places(side),
            reworded: places(state.reworded.clone()),
            mapped: state.mapping.pairs(),
            conflicts: state.mapping.conflicts().to_vec(),
            waits: Vec::new(),
            misses: state.misses.clone(),
            faults: faults
                .map(|((fault, hits), then)| FaultOutcome {
                    fault: fault.to_string(),
                    hits: *hits,
                    then: then.clone(),
                })
                .collect(),
        }
    }
}

fn in_words(difference: &Difference) -> String {
    let short = |text: &str| match text.len() > SHOWN {
        true => format!("{}…", &text[..text.floor_char_boundary(SHOWN)]),
        false => text.to_owned(),
    };
    let shown = |value: &Option<String>| value.as_deref().map_or("nothing".to_owned(), short);
    match difference {
        Difference::Value { pointer, left, right } => {
            format!("`{pointer}`: recorded {}, now {}", shown(left), shown(right))
        }
        Difference::Spelling { pointer, .. } => format!("`{pointer}`: only in how it is written"),
        Difference::Bytes { offset, left, right } => {
            format!("byte {offset}: recorded {}, now {}", short(left), short(right))
        }
    }
}
