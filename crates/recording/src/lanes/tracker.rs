//! Which lane and turn a request belongs to, decided as it arrives.

use std::collections::{HashMap, HashSet};

use session::{CallId, RequestId, StopReason, ToolCall, Usage};
use wire::dialect::Prompt;

use super::asking::{Asking, Atom, Carried, Gap, Said, atom_of_call, atoms, digest, extended, shortened};
use super::heard::Heard;
use super::identity::Identity;
use super::prompts::{Claim, Prompts};

/// How many lanes that look alike are asked whether their history was thrown away.
const REMEMBERED: usize = 64;
/// Words in a row that make a quotation.
const QUOTED: usize = 5;

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
    asked: HashMap<u64, Vec<Spot>>,
    /// Turns by what the model has said with them.
    awaited: HashMap<u64, Vec<Spot>>,
    /// Lanes by their first request.
    firsts: HashMap<u64, Vec<usize>>,
    /// Lanes by their system prompt and tools.
    looks: HashMap<(u64, u64), Vec<usize>>,
    /// The newest turn that said it.
    said: HashMap<Atom, Spot>,
    items: HashMap<String, Vec<Atom>>,
    /// Lanes whose history may have been thrown away.
    reset: HashSet<usize>,
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
type Spot = (usize, usize);

/// A lane while it grows.
#[derive(Debug, Default)]
pub(super) struct Growing {
    pub(super) turns: Vec<GrowingTurn>,
    pub(super) identity: Identity,
    /// It goes back into another lane's history: that many of its turns are shared.
    pub(super) branch: Option<Spot>,
    /// It carries on from another lane's reply, with a prompt that this call handed over.
    pub(super) fork: Option<CallId>,
    pub(super) claim: Option<Claim>,
    /// The lane whose history was thrown away for it, if that one never goes on.
    pub(super) reset: Option<usize>,
    /// The lane that it says something about, where it carries that one's history without being it.
    about: Option<usize>,
    /// What such lanes said about this one.
    notes: Vec<String>,
    /// What it opens with, where no call is known that handed it over.
    pub(super) opening: Vec<String>,
    pub(super) system: u64,
    /// A few words of its instructions.
    voice: Vec<u64>,
    /// It began with quite other instructions than the lane whose history it carries.
    pub(super) is_aside: bool,
    pub(super) has_tools: bool,
    pub(super) is_probe: bool,
    /// What it began with, each time its history was empty.
    openings: Vec<Vec<u64>>,
    /// What its newest request had between the replies.
    gaps: Vec<Gap>,
}

#[derive(Debug)]
pub(super) struct GrowingTurn {
    spine: u64,
    history: u64,
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
    spine: u64,
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

enum Place {
    Again(Spot),
    Next(usize, Option<Mark>),
    Branch(Spot),
    Fork(usize, CallId),
    Aside(usize),
    Reset(usize),
    New(Option<Claim>),
}

/// How it is told that a history was thrown away, the surest last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Told {
    /// Only if the old one never goes on.
    Maybe,
    /// The new history quotes the old one's replies, or what was said about it, so many times.
    ByWords(usize),
    /// It keeps all that the old one began with.
    ByBeginning,
    /// An id says so.
    ById,
}

impl GrowingTurn {
    fn is_open(&self) -> bool {
        self.attempts.iter().any(|attempt| attempt.ended_at.is_none())
    }

    fn is_whole(&self) -> bool {
        self.attempts.iter().any(|attempt| attempt.whole)
    }

    /// Every attempt ended, none well.
    fn has_failed(&self) -> bool {
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
        let mut asking = Asking::of(prompt, &self.items);
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

    /// The lane whose history a request without tools is about: it sums up or names what others said.
    fn history_of(&self, place: &Place, asking: &Asking, identity: &Identity) -> Option<usize> {
        if !matches!(place, Place::New(None)) || asking.is_first() || asking.has_tools {
            return None;
        }
        let spots = self.awaited.get(&asking.spine()).or_else(|| self.asked.get(&asking.spine()))?;
        self.best(asking, identity, &mut spots.iter()).map(|spot| spot.0)
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
        let numbers = self.calls.len()..self.calls.len() + unheard.len();
        for (number, call) in numbers.clone().zip(unheard) {
            self.prompts.add(number, &call);
            self.said.insert(atom_of_call(&call.id), spot);
            let input = shortened(&call.input).to_owned();
            self.calls.push(Call { id: call.id, name: call.name, input, spot, made_at });
        }
        if let Some((lane, turn)) = before {
            let turn = &mut self.lanes[lane].turns[turn];
            let spine = turn.spine;
            turn.reply.get_or_insert_with(|| Replied {
                spine,
                calls: numbers.collect(),
                ..Replied::default()
            });
        }
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
        let calls = self.calls.len()..self.calls.len() + reply.calls().count();
        for (number, call) in calls.clone().zip(reply.calls()) {
            self.prompts.add(number, call);
            let input = shortened(&call.input).to_owned();
            let (id, name) = (call.id.clone(), call.name.clone());
            self.calls.push(Call { id, name, input, spot, made_at: self.tick });
        }
        if counts {
            let text = reply.text().map(|text| shortened(&text).to_owned());
            let (stop, usage) = (reply.stop.clone(), reply.usage);
            let replied = Replied { spine, calls: calls.collect(), text, stop, usage };
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

    fn place_behind(&self, asking: &Asking, (lane, turn): Spot) -> Place {
        match self.lanes[lane].turns.len() {
            length if length == turn + 1 => Place::Next(lane, None),
            _ if self.lanes[lane].turns[turn + 1].history == asking.history => Place::Again((lane, turn + 1)),
            _ => Place::Branch((lane, turn + 1)),
        }
    }

    /// A request in which the model has not said anything yet.
    fn place_first(&self, asking: &Asking, identity: &Identity) -> Place {
        let agrees = |lane: &&usize| self.lanes[**lane].identity.agrees_with(identity);
        let alike = self.firsts.get(&asking.history).into_iter().flatten().filter(agrees);
        let failed = |lane: &&usize| {
            let lane = &self.lanes[**lane];
            lane.turns.len() == 1 && lane.branch.is_none() && lane.turns[0].has_failed()
        };
        if let Some(lane) = alike.clone().find(failed) {
            return Place::Again((*lane, 0));
        }
        let claim = self.prompts.carried_by(asking.opening.iter().map(String::as_str));
        let claim =
            claim.or_else(|| self.prompts.instructed_by(asking.instructions.iter().map(String::as_str)));
        let looks = self.looks.get(&(asking.system, asking.tools)).map_or(&[][..], Vec::as_slice);
        let looks = looks.iter().rev().filter(agrees);
        if claim.is_some() {
            let prompt = claim.as_ref().map(|claim| claim.prompt);
            let same = |lane: &&usize| self.lanes[**lane].claim.as_ref().map(|claim| claim.prompt) == prompt;
            if let Some(lane) = looks.clone().filter(same).find(failed) {
                return Place::Again((*lane, 0));
            }
        }
        let resets = looks
            .take(REMEMBERED)
            .filter_map(|lane| Some((self.reset_of(*lane, asking, claim.as_ref(), identity)?, *lane)));
        let resets: Vec<(Told, usize)> = resets.collect();
        let sure = resets.iter().filter(|(told, _)| *told != Told::Maybe).max_by_key(|(told, _)| *told);
        let waited =
            |lane: &usize| self.lanes[*lane].turns.last().and_then(|turn| turn.attempts.last()?.ended_at);
        let maybe = resets
            .iter()
            .map(|(_, lane)| lane)
            .filter(|lane| !self.reset.contains(*lane))
            .min_by_key(|lane| waited(lane));
        match (sure, maybe) {
            (Some((_, lane)), _) => Place::Next(*lane, Some(Mark::Compaction)),
            (None, Some(lane)) => Place::Reset(*lane),
            (None, None) => Place::New(claim),
        }
    }

    /// Whether a first request is this lane's, with its history thrown away.
    fn reset_of(
        &self,
        number: usize,
        asking: &Asking,
        claim: Option<&Claim>,
        identity: &Identity,
    ) -> Option<Told> {
        let lane = &self.lanes[number];
        let last = lane.turns.last()?;
        let is_agent = asking.has_tools && !asking.is_probe;
        let chain = std::iter::successors(Some(lane), |lane| Some(&self.lanes[lane.reset?]));
        let starts_over = chain.into_iter().any(|lane| lane.openings.contains(&asking.gaps[0].texts));
        if !is_agent || starts_over || !last.is_whole() || last.is_open() {
            return None;
        }
        if let Some(claim) = claim {
            // A summary may quote the prompts that were handed over. It is a new agent unless it looks
            // like the very lane that handed them over and each has its agent already.
            if claim.exact {
                return None;
            }
            let calls = self.prompts.calls(claim.prompt);
            let from_here = calls.iter().all(|call| self.calls[*call].spot.0 == number);
            let claims = self.lanes.iter().filter_map(|lane| lane.claim.as_ref());
            let taken = claims.filter(|other| other.prompt == claim.prompt).count();
            if !from_here || taken < calls.len() {
                return None;
            }
        }
        if lane.identity.names_the_same_as(identity) {
            return Some(Told::ById);
        }
        // All that it began with is still there, and more.
        let began = lane.openings.first().filter(|texts| !texts.is_empty());
        if began.is_some_and(|texts| texts.iter().all(|text| asking.gaps[0].texts.contains(text))) {
            return Some(Told::ByBeginning);
        }
        let newest = lane.turns.iter().rev().take(3).filter_map(|turn| turn.reply.as_ref()?.text.as_ref());
        let quoted =
            newest.chain(lane.notes.iter().rev().take(3)).map(|text| quotations(&asking.opening, text));
        if let Some(runs) = quoted.max().filter(|runs| *runs > 0) {
            return Some(Told::ByWords(runs));
        }
        // A sub-agent that has handed in its answer is done; of others, what becomes of them will tell.
        let waits = last.reply.as_ref().is_some_and(|reply| !reply.calls.is_empty());
        (waits || lane.claim.is_none()).then_some(Told::Maybe)
    }

    /// A request that carries a history.
    fn place_later(&self, asking: &Asking, identity: &Identity) -> Place {
        // Whoever carries an agent's history without its tools is not the agent: it sums up, or names it.
        let is_about = |lane: &Growing| lane.has_tools && !asking.has_tools;
        let agrees = |spot: &&Spot| {
            let lane = &self.lanes[spot.0];
            lane.identity.agrees_with(identity) && !is_about(lane)
        };
        let is_head = |spot: &&Spot| self.lanes[spot.0].turns.len() == spot.1 + 1;
        let of = |index: &HashMap<u64, Vec<Spot>>, spine: &u64| -> Vec<Spot> {
            index.get(spine).into_iter().flatten().filter(agrees).copied().collect()
        };
        let best = |spots: &mut dyn Iterator<Item = &Spot>| self.best(asking, identity, spots);
        let turn = |spot: &Spot| &self.lanes[spot.0].turns[spot.1];
        let spine = asking.spine();

        let awaited = of(&self.awaited, &spine);
        let asked = of(&self.asked, &spine);
        if let Some(spot) = best(&mut awaited.iter().filter(is_head)) {
            // Behind an empty reply the spine is what it was: only the rest can tell.
            return match self.fork_call(asking, spot) {
                _ if turn(&spot).history == asking.history => Place::Again(spot),
                Some(call) => Place::Fork(spot.0, call),
                None if self.speaks_otherwise(spot.0, asking) => Place::Aside(spot.0),
                None => Place::Next(spot.0, None),
            };
        }
        let repeats =
            |spot: &&Spot| is_head(spot) && (turn(spot).has_failed() || turn(spot).history == asking.history);
        if let Some(spot) = best(&mut asked.iter().filter(repeats)) {
            return Place::Again(spot);
        }
        if let Some(spot) = best(&mut awaited.iter()) {
            // A fork may leave out the reply that started it.
            let call = self.fork_call(asking, spot).or_else(|| self.fork_call(asking, (spot.0, spot.1 + 1)));
            return match call {
                Some(call) => Place::Fork(spot.0, call),
                None => Place::Branch((spot.0, spot.1 + 1)),
            };
        }
        if let Some(spot) = best(&mut asked.iter()) {
            return match self.fork_call(asking, spot) {
                Some(call) => Place::Fork(spot.0, call),
                None => Place::Branch(spot),
            };
        }
        // The reply that it carries is not known: in flight still, cut, or never recorded.
        for (at, spine) in asking.said.iter().enumerate().rev().skip(1) {
            let opens_alike = |spot: &&Spot| {
                at > 0 || self.lanes[spot.0].gaps.first().map(|gap| &gap.texts) == Some(&asking.gaps[0].texts)
            };
            let unknown = |spot: &&Spot| is_head(spot) && !turn(spot).is_whole() && opens_alike(spot);
            if let Some(spot) = best(&mut of(&self.asked, spine).iter().filter(unknown)) {
                return Place::Next(spot.0, None);
            }
        }
        if let Some(spot) = asking.last.and_then(|atom| self.said.get(&atom)).filter(agrees) {
            return match is_head(&spot) {
                true => Place::Next(spot.0, Some(Mark::Rewrite)),
                false => Place::Branch((spot.0, spot.1 + 1)),
            };
        }
        for spine in asking.said.iter().rev().skip(1).take(asking.said.len().saturating_sub(2)) {
            if let Some(spot) = best(&mut of(&self.awaited, spine).iter()) {
                return Place::Branch((spot.0, spot.1 + 1));
            }
        }
        Place::New(None)
    }

    /// Whether a request has quite other instructions than a lane: it may be a question aside, with the same tools
    /// so that the prompt cache serves it too.
    fn speaks_otherwise(&self, lane: usize, asking: &Asking) -> bool {
        let known = &self.lanes[lane].voice;
        let shared = asking.voice.iter().filter(|word| known.contains(word)).count();
        !known.is_empty() && !asking.voice.is_empty() && 2 * shared < known.len().min(asking.voice.len())
    }

    /// Of turns that a request may follow: the one that names the same agent, then the one whose
    /// own words it carries on, then the one that has waited longest.
    fn best(
        &self,
        asking: &Asking,
        identity: &Identity,
        spots: &mut dyn Iterator<Item = &Spot>,
    ) -> Option<Spot> {
        let rank = |spot: &&Spot| {
            let lane = &self.lanes[spot.0];
            let named = lane.identity.names_the_same_as(identity);
            let carried = lane.gaps.iter().zip(&asking.gaps).take_while(|(old, new)| old == new).count();
            let waiting = lane.turns[spot.1].attempts.last().and_then(|attempt| attempt.ended_at);
            (
                named,
                carried,
                lane.system == asking.system,
                std::cmp::Reverse(waiting),
                std::cmp::Reverse(spot.0),
            )
        };
        spots.max_by_key(rank).copied()
    }

    /// The call of that reply whose prompt the request hands on: it is not the caller that goes on.
    fn fork_call(&self, asking: &Asking, (lane, turn): Spot) -> Option<CallId> {
        let calls = &self.lanes[lane].turns[turn].reply.as_ref()?.calls;
        let claim = self.prompts.carried_by(asking.newest.iter().map(|said| said.text.as_str()))?;
        let handed = self.prompts.calls(claim.prompt).iter().filter(|call| calls.contains(call));
        // Forks of one reply with the same prompt take its calls in order.
        let taken =
            |call: &&usize| self.lanes.iter().any(|lane| lane.fork.as_ref() == Some(&self.calls[**call].id));
        let call = handed.clone().find(|call| !taken(call)).or_else(|| handed.clone().next())?;
        let open = |id: &CallId| calls.iter().any(|call| self.calls[*call].id == *id);
        let answers = asking.results.iter().filter(|result| open(&result.call));
        let answers: Vec<&str> = answers.map(|result| result.text.as_str()).collect();
        let placeholders = answers.windows(2).all(|pair| pair[0] == pair[1]);
        (claim.exact || placeholders).then(|| self.calls[*call].id.clone())
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
            Place::Fork(lane, call) => {
                let shared = self.lanes[lane].turns.len();
                (self.begin(fresh(Some((lane, shared)), Some(call), None), looks), None)
            }
            Place::New(claim) => (self.begin(fresh(None, None, claim), looks), None),
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
        let from = growing.branch.filter(|_| growing.fork.is_none()).map(|(base, _)| base);
        let attempts = &mut growing.turns[turn].attempts;
        attempts.push(Attempt { request: id.clone(), asked_at: tick, ended_at: None, whole: false });
        let attempt = attempts.len();
        let is_new = turn == 0 && attempt == 1;
        self.spots.insert(id.clone(), (lane, turn, attempt - 1));
        let before = from.map_or(0, |base| self.lanes[base].turns.len());
        Position { lane, turn: (before + turn + 1) as u32, attempt: attempt as u32, is_new, from }
    }
}

/// How many runs of words texts share with another one: so many words in a row are no accident.
fn quotations(texts: &[String], other: &str) -> usize {
    let words = |text: &str| -> Vec<u64> { text.split_whitespace().map(digest).collect() };
    let quotable: HashSet<Vec<u64>> = words(other).windows(QUOTED).map(<[u64]>::to_vec).collect();
    let shared = |text: &String| words(text).windows(QUOTED).filter(|run| quotable.contains(*run)).count();
    if quotable.is_empty() { 0 } else { texts.iter().map(shared).sum() }
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
