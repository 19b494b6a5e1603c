//! Tracker of lanes and turns: places each request when it arrives.

use session::{RequestId, ToolCall};
use wire::dialect::Prompt;

use super::identity::Identity;
use super::placement::{Placement, is_marked_fork};
use super::request::{
    Gap, InjectedText, LaneRequest, atom_of_call, atoms, extended, said_by_user, shortened,
};
use super::response::LaneResponse;
use super::state::{
    Attempt, Call, LaneOrigin, LaneSetup, LaneState, LaneTracker, TurnIndex, TurnMark, TurnReply, TurnState,
};

/// Position of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Number of the lane, in the order of first requests.
    pub lane: usize,
    /// Turn in the lane, from 1.
    pub turn: u32,
    /// Attempt at the turn, from 1.
    pub attempt: u32,
    /// True if the request begins a lane.
    pub is_new: bool,
    /// Lane whose history a new lane branches off.
    pub from: Option<usize>,
}

impl LaneTracker {
    /// Creates an empty tracker.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a request that has arrived.
    pub fn add_request(&mut self, id: &RequestId, prompt: &Prompt, identity: &Identity) -> Position {
        self.tick += 1;
        let mut request = LaneRequest::of(prompt, &self.items, &mut self.instructions);
        let followed = identity.follows.as_ref().and_then(|reply| self.turns_by_reply.get(reply)).copied();
        if let Some(at) = followed {
            let turn = &self.lanes[at.0].turns[at.1];
            request.replies_digests =
                vec![turn.reply.as_ref().map_or(turn.replies_digest, |reply| reply.replies_digest)];
        }
        let place = match followed {
            Some(at) => self.place_after_reply(&request, at),
            None if request.is_first() => self.place_without_history(&request, identity),
            None => self.place_with_history(&request, identity),
        };
        let subject = self.subject_of(&place, &request, identity);
        let at = self.open_turn(place, &mut request, identity);
        if let Some(subject) = subject {
            self.lanes[at.0].subject = Some(subject);
        }
        let position = self.add_attempt(id, at, request, identity);
        self.learn_calls(at, prompt);
        position
    }

    /// Adds calls that are in the history and in no known reply: the reply was lost, or came before the
    /// recording.
    fn learn_calls(&mut self, (lane, turn): TurnIndex, prompt: &Prompt) {
        let unheard: Vec<ToolCall> = prompt
            .calls()
            .filter(|call| !call.server && !self.turns_by_atom.contains_key(&atom_of_call(&call.id)))
            .cloned()
            .collect();
        if unheard.is_empty() {
            return;
        }
        let before = turn.checked_sub(1).map(|before| (lane, before));
        let at = before.unwrap_or((lane, turn));
        let made_at = before.map_or(0, |(lane, turn)| self.lanes[lane].turns[turn].attempts[0].asked_at);
        for call in &unheard {
            self.turns_by_atom.entry(atom_of_call(&call.id)).or_default().push(at);
        }
        let numbers: Vec<usize> = unheard.iter().map(|call| self.note_call(call, at, made_at)).collect();
        if let Some((lane, turn)) = before {
            let turn = &mut self.lanes[lane].turns[turn];
            let replies_digest = turn.replies_digest;
            turn.reply.get_or_insert_with(|| TurnReply {
                replies_digest,
                calls: numbers,
                ..TurnReply::default()
            });
        }
    }

    fn note_call(&mut self, call: &ToolCall, at: TurnIndex, made_at: u64) -> usize {
        let number = self.calls.len();
        self.prompts.add(number, call);
        let (id, name) = (call.id.clone(), call.name.clone());
        self.calls.push(Call { id, name, input: shortened(&call.input).to_owned(), at, made_at });
        number
    }

    /// Adds a request that does not ask a model. `what` names its kind.
    pub fn add_side_call(&mut self, id: &RequestId, what: &str) {
        self.tick += 1;
        self.other_requests.push((what.to_owned(), id.clone(), self.tick));
    }

    /// Adds a response that has ended.
    pub fn add_response(&mut self, id: &RequestId, response: &LaneResponse) {
        self.tick += 1;
        let Some(&(lane, turn, attempt)) = self.positions.get(id) else { return };
        let at = (lane, turn);
        let turn_state = &mut self.lanes[lane].turns[turn];
        turn_state.attempts[attempt].ended_at = Some(self.tick);
        turn_state.attempts[attempt].whole = response.whole;
        let Some(reply) = &response.reply else { return };
        let atoms = atoms(reply);
        let replies_digest =
            atoms.iter().fold(turn_state.replies_digest, |digest, atom| extended(digest, *atom));
        let counts = response.whole || turn_state.reply.is_none();
        // A request may have carried these calls before the reply's end was seen.
        let known = turn_state.reply.as_ref().map_or_else(Vec::new, |reply| reply.calls.clone());
        let mut calls = Vec::new();
        for call in reply.calls() {
            let seen = known.iter().copied().find(|number| self.calls[*number].id == call.id);
            calls.push(seen.unwrap_or_else(|| self.note_call(call, at, self.tick)));
        }
        if counts {
            let text = reply.text().map(|text| shortened(&text).to_owned());
            let (stop, usage) = (reply.stop.clone(), reply.usage);
            let replied = TurnReply { replies_digest, calls, text, stop, usage };
            self.lanes[lane].turns[turn].reply = Some(replied);
        }
        if let (Some(subject), Some(text)) = (self.lanes[lane].subject, reply.text()) {
            self.lanes[subject].notes.push(shortened(&text).to_owned());
        }
        self.turns_by_replies_after.entry(replies_digest).or_default().push(at);
        self.turns_by_reply.insert(reply.id.clone(), at);
        self.items.extend(response.items.iter().map(|item| (item.clone(), atoms.clone())));
        for atom in atoms {
            self.turns_by_atom.entry(atom).or_default().push(at);
        }
    }

    /// Creates the lane or turn for a request.
    fn open_turn(&mut self, place: Placement, request: &mut LaneRequest, identity: &Identity) -> TurnIndex {
        let from = |at| LaneOrigin { branch: Some(at), ..LaneOrigin::default() };
        let (lane, mark) = match place {
            Placement::Retry(at) => return at,
            Placement::Next(lane, mark) => (lane, mark),
            Placement::Branch(at) => (self.add_lane(from(at), request, identity), None),
            Placement::SideQuestion(lane) => {
                let shared = self.lanes[lane].turns.len();
                let origin = LaneOrigin { is_side_question: true, ..from((lane, shared)) };
                (self.add_lane(origin, request, identity), None)
            }
            Placement::Fork(at, fork_call) => {
                let origin = LaneOrigin { is_fork: true, fork_call, ..from(at) };
                (self.add_lane(origin, request, identity), None)
            }
            Placement::New(prompt_match) => {
                let origin = LaneOrigin { prompt_match, ..LaneOrigin::default() };
                (self.add_lane(origin, request, identity), None)
            }
            Placement::ForkParent => {
                let lane = self.add_lane(LaneOrigin::default(), request, identity);
                self.adopt_forks(lane, request.replies_digest());
                (lane, None)
            }
        };
        let state = &mut self.lanes[lane];
        if state.turns.is_empty() && state.origin.branch.is_none() {
            let texts = request.opening_texts.iter();
            state.origin.opening_texts = texts.map(|text| shortened(text).to_owned()).collect();
            state.origin.first_user_text =
                request.first_user_text.as_deref().map(|text| shortened(text).to_owned());
        }
        let marks =
            mark.into_iter().chain(compare_gaps(&state.gaps, &request.gaps).filter(|_| mark.is_none()));
        let turn = state.turns.len();
        if request.is_first() {
            self.turns_by_first_request.entry(request.history).or_default().push((lane, turn));
        }
        state.turns.push(TurnState {
            replies_digest: request.replies_digest(),
            history: request.history,
            asked: said_by_user(&request.new_texts, turn == 0),
            attempts: Vec::new(),
            reply: None,
            results: std::mem::take(&mut request.results),
            texts: Vec::new(),
            marks: marks.collect(),
        });
        if turn > 0 || state.origin.branch.is_some() {
            let texts = request.new_texts.drain(..);
            state.turns[turn].texts =
                texts.map(|said| InjectedText { text: shortened(&said.text).to_owned(), ..said }).collect();
        }
        self.turns_by_replies.entry(request.replies_digest()).or_default().push((lane, turn));
        (lane, turn)
    }

    fn add_lane(&mut self, origin: LaneOrigin, request: &LaneRequest, identity: &Identity) -> usize {
        let setup = LaneSetup {
            dialect: request.dialect,
            model: request.model,
            system: request.system,
            instruction_sample: request.instruction_sample.clone(),
            has_tools: request.has_tools,
            is_probe: request.is_probe,
        };
        let origin = LaneOrigin { is_marked_fork: is_marked_fork(request), ..origin };
        let identity = identity.clone();
        self.lanes.push(LaneState { identity, origin, setup, ..LaneState::default() });
        let number = self.lanes.len() - 1;
        self.lanes_by_setup.entry(request.setup()).or_default().push(number);
        number
    }

    fn add_attempt(
        &mut self,
        id: &RequestId,
        (lane, turn): TurnIndex,
        request: LaneRequest,
        identity: &Identity,
    ) -> Position {
        let (tick, state) = (self.tick, &mut self.lanes[lane]);
        state.identity.learn(identity);
        state.setup.model = request.model;
        if request.is_first() {
            state.openings.push(request.gaps[0].texts.clone());
        }
        state.gaps = request.gaps;
        let from = state.origin.branch.filter(|_| !state.origin.is_fork).map(|(base, _)| base);
        let attempts = &mut state.turns[turn].attempts;
        attempts.push(Attempt { request: id.clone(), asked_at: tick, ended_at: None, whole: false });
        let attempt = attempts.len();
        let is_new = turn == 0 && attempt == 1;
        self.positions.insert(id.clone(), (lane, turn, attempt - 1));
        let before = from.map_or(0, |base| self.lanes[base].turns.len());
        Position { lane, turn: (before + turn + 1) as u32, attempt: attempt as u32, is_new, from }
    }
}

/// Compares the gaps of a request with those of the previous one.
fn compare_gaps(before: &[Gap], now: &[Gap]) -> Option<TurnMark> {
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
