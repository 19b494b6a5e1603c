//! Which lane and turn a request belongs to, decided as it arrives.

use std::collections::{HashMap, HashSet};

use session::{CallId, RequestId, StopReason, ToolCall, Usage};
use wire::dialect::Prompt;

use super::asking::{Asking, Atom, Carried, Gap, Said, Voices, atom_of_call, atoms, extended, shortened};
use super::heard::Heard;
use super::identity::Identity;
use super::place::{Place, says_it_is_a_fork};
use super::prompts::{Claim, Prompts};

/// Finds the lane and turn of each request from what is on the wire.
///
/// Requests are told in the order of their arrival, answers when they end. What only the end of a
/// recording can tell (is it a fork or a rewritten history? whose sub-agent is it?) is left to
/// [`LaneTracker::finish`].
#[derive(Debug, Default)]
pub struct LaneTracker {
    pub(super) lanes: Vec<Growing>,
    pub(super) calls: Vec<Call>,
    pub(super) prompts: Prompts,
    pub(super) others: Vec<(String, RequestId, u64)>,
    spots: HashMap<RequestId, (usize, usize, usize)>,
    /// Turns by what the model had said before them.
    pub(super) asked: HashMap<u64, Vec<Spot>>,
    /// Turns by what the model has said with them.
    pub(super) awaited: HashMap<u64, Vec<Spot>>,
    /// Lanes by their first request.
    pub(super) firsts: HashMap<u64, Vec<usize>>,
    /// Lanes by their system prompt and tools.
    pub(super) looks: HashMap<(u64, u64), Vec<usize>>,
    /// The newest turn that said it.
    pub(super) said: HashMap<Atom, Spot>,
    items: HashMap<String, Vec<Atom>>,
    voices: Voices,
    /// Lanes whose history may have been thrown away.
    pub(super) reset: HashSet<usize>,
    replies: HashMap<String, Spot>,
    tick: u64,
}

/// Where a request belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The lane's number, in the order of first arrival.
    pub lane: usize,
    /// The turn in its lane, from 1.
    pub turn: u32,
    /// How many times that turn has been asked, this one included.
    pub attempt: u32,
    /// The lane begins with it.
    pub is_new: bool,
    /// The lane whose history it goes back into, for a lane that begins in the middle.
    pub from: Option<usize>,
}

/// A turn of a lane.
pub(super) type Spot = (usize, usize);

/// A lane while it grows.
#[derive(Debug, Default)]
pub(super) struct Growing {
    pub(super) turns: Vec<GrowingTurn>,
    pub(super) identity: Identity,
    /// It goes back into another lane's history: that many of its turns are shared.
    pub(super) branch: Option<Spot>,
    /// Its first request told it that it is a fork.
    pub(super) is_told: bool,
    /// It carries on from another lane's reply and is told so, or with the prompt of a call: it is never a rewrite.
    pub(super) is_fork: bool,
    /// The call that started such a lane, where its prompt tells it.
    pub(super) fork: Option<CallId>,
    pub(super) claim: Option<Claim>,
    /// The lane whose history was thrown away for it, if that one never goes on.
    pub(super) reset: Option<usize>,
    /// The lane that it says something about, where it carries that one's history without being it.
    about: Option<usize>,
    /// What such lanes said about this one.
    pub(super) notes: Vec<String>,
    /// What it opens with, where no call is known that handed it over.
    pub(super) opening: Vec<String>,
    pub(super) system: u64,
    /// A few words of its instructions.
    pub(super) voice: Vec<u64>,
    /// It began with quite other instructions than the lane whose history it carries.
    pub(super) is_aside: bool,
    pub(super) has_tools: bool,
    pub(super) is_probe: bool,
    /// What it began with, each time its history was empty.
    pub(super) openings: Vec<Vec<u64>>,
    /// What its newest request had between the replies.
    pub(super) gaps: Vec<Gap>,
}

#[derive(Debug)]
pub(super) struct GrowingTurn {
    pub(super) spine: u64,
    pub(super) history: u64,
    pub(super) attempts: Vec<Attempt>,
    pub(super) reply: Option<Replied>,
    pub(super) results: Vec<Carried>,
    pub(super) texts: Vec<Said>,
    pub(super) marks: Vec<Mark>,
}

#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) request: RequestId,
    pub(super) asked_at: u64,
    pub(super) ended_at: Option<u64>,
    pub(super) whole: bool,
}

/// What a turn's reply said, in short.
#[derive(Clone, Debug, Default)]
pub(super) struct Replied {
    /// What the model has said with it.
    pub(super) spine: u64,
    pub(super) calls: Vec<usize>,
    pub(super) text: Option<String>,
    pub(super) stop: Option<StopReason>,
    pub(super) usage: Usage,
}

/// A call and where it was made.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) id: CallId,
    pub(super) name: String,
    /// Its beginning.
    pub(super) input: String,
    pub(super) spot: Spot,
    pub(super) made_at: u64,
}

/// What is odd about a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// The harness changed what it had sent before.
    Rewrite,
    /// The history was reset.
    Compaction,
    /// A text was put before a reply that had been given without it: no replay can bring that back.
    LateText,
}

impl GrowingTurn {
    pub(super) fn is_open(&self) -> bool {
        self.attempts.iter().any(|attempt| attempt.ended_at.is_none())
    }

    pub(super) fn is_whole(&self) -> bool {
        self.attempts.iter().any(|attempt| attempt.whole)
    }

    /// Every attempt ended, none well.
    pub(super) fn has_failed(&self) -> bool {
        !self.is_open() && !self.is_whole()
    }
}

impl LaneTracker {
    /// A tracker that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// A request has arrived.
    pub fn asked(&mut self, id: &RequestId, prompt: &Prompt, identity: &Identity) -> Position {
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

    /// Calls that stand in a history and in no reply that was heard: their reply was lost, or came before the
    /// recording began.
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

    /// A request that is no question to a model has arrived; `what` names its kind.
    pub fn other(&mut self, id: &RequestId, what: &str) {
        self.tick += 1;
        self.others.push((what.to_owned(), id.clone(), self.tick));
    }

    /// A response has come to its end.
    pub fn answered(&mut self, id: &RequestId, heard: &Heard) {
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
        // Those that a request has carried already, before the end of this reply was seen, are known.
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

    /// Makes room for the request; a new lane or a new turn where it needs one.
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
                texts.map(|said| Said { text: shortened(&said.text).to_owned(), ..said }).collect();
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

/// How a request treats what was sent before it.
fn changed(before: &[Gap], now: &[Gap]) -> Option<Mark> {
    let mut late = false;
    for old in before {
        // Where a reply is split another way there is no such gap, and nothing to compare.
        let Ok(same) = now.binary_search_by_key(&old.at, |gap| gap.at) else { continue };
        let new = &now[same];
        let mut rest = new.texts.iter();
        if !old.texts.iter().all(|text| rest.any(|other| other == text)) {
            return Some(Mark::Rewrite);
        }
        late |= new.texts.len() > old.texts.len();
    }
    late.then_some(Mark::LateText)
}
