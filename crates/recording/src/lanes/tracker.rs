//! Tracker of lanes and turns: places each request when it arrives.

use std::collections::{HashMap, HashSet};

use session::{CallId, RequestId, StopReason, ToolCall, Usage};
use wire::dialect::Prompt;

use super::asking::{
    Asking, Atom, CarriedResult, Gap, InjectedText, Voices, atom_of_call, atoms, extended, shortened,
};
use super::heard::LaneResponse;
use super::identity::Identity;
use super::place::{Place, says_it_is_a_fork};
use super::prompts::{Claim, Prompts};

/// Finds the lane and turn of each request from the wire alone.
///
/// Requests are added in the order of their arrival, responses when they end. Questions that only the end of a
/// recording can answer (fork or rewritten history? whose sub-agent?) are left to [`LaneTracker::finish`].
#[derive(Debug, Default)]
pub struct LaneTracker {
    pub(super) lanes: Vec<Growing>,
    pub(super) calls: Vec<Call>,
    pub(super) prompts: Prompts,
    pub(super) others: Vec<(String, RequestId, u64)>,
    spots: HashMap<RequestId, (usize, usize, usize)>,
    /// Turns by the spine before their reply.
    pub(super) asked: HashMap<u64, Vec<Spot>>,
    /// Turns by the spine after their reply.
    pub(super) awaited: HashMap<u64, Vec<Spot>>,
    /// Lanes by the digest of their first request.
    pub(super) firsts: HashMap<u64, Vec<usize>>,
    /// Lanes by their system prompt and tools.
    pub(super) looks: HashMap<(u64, u64), Vec<usize>>,
    /// Newest turn whose reply contains an atom.
    pub(super) said: HashMap<Atom, Spot>,
    items: HashMap<String, Vec<Atom>>,
    voices: Voices,
    /// Lanes that may have been compacted.
    pub(super) reset: HashSet<usize>,
    replies: HashMap<String, Spot>,
    tick: u64,
}

/// Position of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Number of the lane, in the order of first requests.
    pub lane: usize,
    /// Turn in the lane, from 1.
    pub turn: u32,
    /// Attempt at the turn, from 1.
    pub attempt: u32,
    /// Whether the request begins a lane.
    pub is_new: bool,
    /// Lane whose history a new lane branches off.
    pub from: Option<usize>,
}

/// Turn by the numbers of its lane and itself.
pub(super) type Spot = (usize, usize);

/// Lane under construction.
#[derive(Debug, Default)]
pub(super) struct Growing {
    pub(super) turns: Vec<GrowingTurn>,
    pub(super) identity: Identity,
    /// Branch point: the other lane, and the number of shared turns.
    pub(super) branch: Option<Spot>,
    /// Whether its first request says that it is a fork.
    pub(super) is_told: bool,
    /// Whether it is a fork, by its own text or by the prompt of a call, and never a rewrite.
    pub(super) is_fork: bool,
    /// Call that started the fork, if its prompt names it.
    pub(super) fork: Option<CallId>,
    pub(super) claim: Option<Claim>,
    /// Lane that this one may be the compaction of, if that one never continues.
    pub(super) reset: Option<usize>,
    /// Lane whose history this one carries without being it, such as for a summary.
    about: Option<usize>,
    /// Texts of such lanes about this one.
    pub(super) notes: Vec<String>,
    /// Opening texts, if they match no call.
    pub(super) opening: Vec<String>,
    pub(super) system: u64,
    /// Sample of the words of its instructions.
    pub(super) voice: Vec<u64>,
    /// Whether it began under other instructions than the lane whose history it carries.
    pub(super) is_aside: bool,
    pub(super) has_tools: bool,
    pub(super) is_probe: bool,
    /// Opening texts of each request without replies.
    pub(super) openings: Vec<Vec<u64>>,
    /// Gaps of the newest request.
    pub(super) gaps: Vec<Gap>,
}

#[derive(Debug)]
pub(super) struct GrowingTurn {
    pub(super) spine: u64,
    pub(super) history: u64,
    pub(super) attempts: Vec<Attempt>,
    pub(super) reply: Option<Replied>,
    pub(super) results: Vec<CarriedResult>,
    pub(super) texts: Vec<InjectedText>,
    pub(super) marks: Vec<TurnMark>,
}

#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) request: RequestId,
    pub(super) asked_at: u64,
    pub(super) ended_at: Option<u64>,
    pub(super) whole: bool,
}

/// Summary of a turn's reply.
#[derive(Clone, Debug, Default)]
pub(super) struct Replied {
    /// Spine after the reply.
    pub(super) spine: u64,
    pub(super) calls: Vec<usize>,
    pub(super) text: Option<String>,
    pub(super) stop: Option<StopReason>,
    pub(super) usage: Usage,
}

/// Call, and the turn that made it.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) id: CallId,
    pub(super) name: String,
    /// Beginning of the input.
    pub(super) input: String,
    pub(super) spot: Spot,
    pub(super) made_at: u64,
}

/// Anomaly of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnMark {
    /// The harness changed its earlier messages.
    Rewrite,
    /// The harness replaced the history by a summary.
    Compaction,
    /// A text was inserted before an existing reply, which no replay can reproduce.
    LateText,
}

impl GrowingTurn {
    pub(super) fn is_open(&self) -> bool {
        self.attempts.iter().any(|attempt| attempt.ended_at.is_none())
    }

    pub(super) fn is_whole(&self) -> bool {
        self.attempts.iter().any(|attempt| attempt.whole)
    }

    /// Returns whether every attempt ended and none succeeded.
    pub(super) fn has_failed(&self) -> bool {
        !self.is_open() && !self.is_whole()
    }
}

impl LaneTracker {
    /// Creates an empty tracker.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a request that has arrived.
    pub fn add_request(&mut self, id: &RequestId, prompt: &Prompt, identity: &Identity) -> Position {
        self.tick += 1;
        let mut asking = Asking::of(prompt, &self.items, &mut self.voices);
        let followed = identity.follows.as_ref().and_then(|reply| self.replies.get(reply)).copied();
        if let Some(spot) = followed {
            let turn = &self.lanes[spot.0].turns[spot.1];
            asking.said = vec![turn.reply.as_ref().map_or(turn.spine, |reply| reply.spine)];
        }
        let place = match followed {
            Some(spot) => self.place_behind(&asking, spot),
            None if asking.is_first() => self.place_first(&asking, identity),
            None => self.place_later(&asking, identity),
        };
        let about = self.history_of(&place, &asking, identity);
        let spot = self.settle(place, &mut asking, identity);
        if let Some(about) = about {
            self.lanes[spot.0].about = Some(about);
        }
        let position = self.enter(id, spot, asking, identity);
        self.learn_calls(spot, prompt);
        position
    }

    /// Adds calls that are in the history and in no known reply: the reply was lost, or came before the
    /// recording.
    fn learn_calls(&mut self, (lane, turn): Spot, prompt: &Prompt) {
        let unheard: Vec<ToolCall> = prompt
            .calls()
            .filter(|call| !call.server && !self.said.contains_key(&atom_of_call(&call.id)))
            .cloned()
            .collect();
        if unheard.is_empty() {
            return;
        }
        let before = turn.checked_sub(1).map(|before| (lane, before));
        let spot = before.unwrap_or((lane, turn));
        let made_at = before.map_or(0, |(lane, turn)| self.lanes[lane].turns[turn].attempts[0].asked_at);
        self.said.extend(unheard.iter().map(|call| (atom_of_call(&call.id), spot)));
        let numbers: Vec<usize> = unheard.iter().map(|call| self.note_call(call, spot, made_at)).collect();
        if let Some((lane, turn)) = before {
            let turn = &mut self.lanes[lane].turns[turn];
            let spine = turn.spine;
            turn.reply.get_or_insert_with(|| Replied { spine, calls: numbers, ..Replied::default() });
        }
    }

    fn note_call(&mut self, call: &ToolCall, spot: Spot, made_at: u64) -> usize {
        let number = self.calls.len();
        self.prompts.add(number, call);
        let (id, name) = (call.id.clone(), call.name.clone());
        self.calls.push(Call { id, name, input: shortened(&call.input).to_owned(), spot, made_at });
        number
    }

    /// Adds a request that does not ask a model. `what` names its kind.
    pub fn add_side_call(&mut self, id: &RequestId, what: &str) {
        self.tick += 1;
        self.others.push((what.to_owned(), id.clone(), self.tick));
    }

    /// Adds a response that has ended.
    pub fn add_response(&mut self, id: &RequestId, heard: &LaneResponse) {
        self.tick += 1;
        let Some(&(lane, turn, attempt)) = self.spots.get(id) else { return };
        let spot = (lane, turn);
        let growing = &mut self.lanes[lane].turns[turn];
        growing.attempts[attempt].ended_at = Some(self.tick);
        growing.attempts[attempt].whole = heard.whole;
        let Some(reply) = &heard.reply else { return };
        let atoms = atoms(reply);
        let spine = atoms.iter().fold(growing.spine, |spine, atom| extended(spine, *atom));
        let counts = heard.whole || growing.reply.is_none();
        // A request may have carried these calls before the reply's end was seen.
        let known = growing.reply.as_ref().map_or_else(Vec::new, |reply| reply.calls.clone());
        let mut calls = Vec::new();
        for call in reply.calls() {
            let seen = known.iter().copied().find(|number| self.calls[*number].id == call.id);
            calls.push(seen.unwrap_or_else(|| self.note_call(call, spot, self.tick)));
        }
        if counts {
            let text = reply.text().map(|text| shortened(&text).to_owned());
            let (stop, usage) = (reply.stop.clone(), reply.usage);
            let replied = Replied { spine, calls, text, stop, usage };
            self.lanes[lane].turns[turn].reply = Some(replied);
        }
        if let (Some(about), Some(text)) = (self.lanes[lane].about, reply.text()) {
            self.lanes[about].notes.push(shortened(&text).to_owned());
        }
        self.awaited.entry(spine).or_default().push(spot);
        self.replies.insert(reply.id.clone(), spot);
        self.items.extend(heard.items.iter().map(|item| (item.clone(), atoms.clone())));
        self.said.extend(atoms.into_iter().map(|atom| (atom, spot)));
    }

    /// Creates the lane or turn for a request.
    fn settle(&mut self, place: Place, asking: &mut Asking, identity: &Identity) -> Spot {
        let looks = (asking.system, asking.tools);
        let fresh = |branch, fork, claim| Growing {
            identity: identity.clone(),
            branch,
            fork,
            claim,
            system: looks.0,
            voice: asking.voice.clone(),
            has_tools: asking.has_tools,
            is_probe: asking.is_probe,
            is_told: says_it_is_a_fork(asking),
            ..Growing::default()
        };
        if let Place::Reset(old) = place {
            self.reset.insert(old);
        }
        let (lane, mark) = match place {
            Place::Again(spot) => return spot,
            Place::Next(lane, mark) => (lane, mark),
            Place::Branch(spot) => (self.begin(fresh(Some(spot), None, None), looks), None),
            Place::Aside(lane) => {
                let shared = self.lanes[lane].turns.len();
                let aside = Growing { is_aside: true, ..fresh(Some((lane, shared)), None, None) };
                (self.begin(aside, looks), None)
            }
            Place::Fork(spot, call) => {
                let fork = Growing { is_fork: true, ..fresh(Some(spot), call, None) };
                (self.begin(fork, looks), None)
            }
            Place::New(claim) => (self.begin(fresh(None, None, claim), looks), None),
            Place::Above => {
                let lane = self.begin(fresh(None, None, None), looks);
                self.adopt(lane, asking.spine());
                (lane, None)
            }
            Place::Reset(old) => {
                (self.begin(Growing { reset: Some(old), ..fresh(None, None, None) }, looks), None)
            }
        };
        let growing = &mut self.lanes[lane];
        if growing.turns.is_empty() && growing.branch.is_none() {
            self.firsts.entry(asking.history).or_default().push(lane);
            if growing.claim.is_none() {
                growing.opening = asking.opening.iter().map(|text| shortened(text).to_owned()).collect();
            }
        }
        let marks = mark.into_iter().chain(changed(&growing.gaps, &asking.gaps).filter(|_| mark.is_none()));
        let turn = growing.turns.len();
        growing.turns.push(GrowingTurn {
            spine: asking.spine(),
            history: asking.history,
            attempts: Vec::new(),
            reply: None,
            results: std::mem::take(&mut asking.results),
            texts: Vec::new(),
            marks: marks.collect(),
        });
        if turn > 0 || growing.branch.is_some() {
            let texts = asking.newest.drain(..);
            growing.turns[turn].texts =
                texts.map(|said| InjectedText { text: shortened(&said.text).to_owned(), ..said }).collect();
        }
        self.asked.entry(asking.spine()).or_default().push((lane, turn));
        (lane, turn)
    }

    fn begin(&mut self, lane: Growing, looks: (u64, u64)) -> usize {
        self.lanes.push(lane);
        self.looks.entry(looks).or_default().push(self.lanes.len() - 1);
        self.lanes.len() - 1
    }

    fn enter(&mut self, id: &RequestId, (lane, turn): Spot, asking: Asking, identity: &Identity) -> Position {
        let (tick, growing) = (self.tick, &mut self.lanes[lane]);
        growing.identity.learn(identity);
        if asking.is_first() {
            growing.openings.push(asking.gaps[0].texts.clone());
        }
        growing.gaps = asking.gaps;
        let from = growing.branch.filter(|_| !growing.is_fork).map(|(base, _)| base);
        let attempts = &mut growing.turns[turn].attempts;
        attempts.push(Attempt { request: id.clone(), asked_at: tick, ended_at: None, whole: false });
        let attempt = attempts.len();
        let is_new = turn == 0 && attempt == 1;
        self.spots.insert(id.clone(), (lane, turn, attempt - 1));
        let before = from.map_or(0, |base| self.lanes[base].turns.len());
        Position { lane, turn: (before + turn + 1) as u32, attempt: attempt as u32, is_new, from }
    }
}

/// Compares the gaps of a request with those of the previous one.
fn changed(before: &[Gap], now: &[Gap]) -> Option<TurnMark> {
    let mut late = false;
    for old in before {
        // If a reply is split differently, there is no corresponding gap.
        let Ok(same) = now.binary_search_by_key(&old.at, |gap| gap.at) else { continue };
        let new = &now[same];
        let mut rest = new.texts.iter();
        if !old.texts.iter().all(|text| rest.any(|other| other == text)) {
            return Some(TurnMark::Rewrite);
        }
        late |= new.texts.len() > old.texts.len();
    }
    late.then_some(TurnMark::LateText)
}
