//! Where the script has got to with every agent that plays it, and what comes next: no IO.
//!
//! A request passes three gates. [`Play::take`] finds its lane and turn, [`Play::unmet`] says what
//! the turn still waits for, and [`Play::say`] gives the words; [`Play::sent`] notes that they left.

use std::collections::{HashMap, HashSet};

use recording::lanes::Position;
use session::{Reply, StopReason};
use wire::dialect::Prompt;

use super::agent::{Agent, Found, Key};
use super::format::{Lane, Pace, Turn, Wait};
use super::report::UnusedTurn;
use super::resumed::{Past, past};
use super::values::{Values, look};
use super::{Script, line};

/// Why a request has no answer, in words that name lane and turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Miss(pub(super) String);

/// A script being played.
#[derive(Debug)]
pub(super) struct Play {
    script: Script,
    workspace: String,
    agents: Vec<Agent>,
    /// The tracker's lanes, and who plays in them.
    lanes: HashMap<usize, usize>,
    /// Replies by id, and whose they are.
    replies: HashMap<String, usize>,
    /// Every id that was given out.
    ids: HashSet<String>,
    /// What was captured last under each name, by whomever.
    values: Values,
    /// Lane and turn of everything that was taken.
    used: HashSet<(usize, usize)>,
}

/// A request that has its turn.
#[derive(Clone, Debug)]
pub(super) struct Ticket {
    agent: usize,
    key: Key,
    /// The index of the turn in the script's lane.
    turn: usize,
    /// The how manieth of its agent it is.
    pub(super) number: u32,
}

/// What is said.
#[derive(Clone, Debug)]
pub(super) enum Line {
    Reply(Reply),
    Error { status: u16, kind: Option<String>, message: String, retry_after: Option<u32> },
}

impl Play {
    pub(super) fn new(script: Script, workspace: String) -> Self {
        Self {
            script,
            workspace,
            agents: Vec::new(),
            lanes: HashMap::new(),
            replies: HashMap::new(),
            ids: HashSet::new(),
            values: Values::default(),
            used: HashSet::new(),
        }
    }

    /// Finds the turn for a request, and moves its agent there. `continues` is the reply that the
    /// request names where it does not carry its history.
    pub(super) fn take(
        &mut self,
        prompt: &Prompt,
        position: Position,
        continues: Option<String>,
    ) -> Result<Ticket, Miss> {
        let named = continues.as_ref().and_then(|id| self.replies.get(id));
        // A lane that goes back into another's history is still the same agent.
        let known = || self.lanes.get(&position.lane).or_else(|| self.lanes.get(&position.from?));
        let agent = match (named.or_else(known), &continues) {
            (Some(agent), _) => *agent,
            (None, None) => self.enter(prompt, prompt)?,
            (None, Some(id)) => {
                return Err(Miss(format!("the request continues `{id}`, which is no reply of this script")));
            }
        };
        let again = continues.is_some() || position.attempt > 1;
        let key = continues.map_or(Key::Turn(position.lane, position.turn), Key::After);
        self.lanes.insert(position.lane, agent);
        if let Some(found) = self.agents[agent].found.get(&key).filter(|_| again) {
            return Ok(Ticket { agent, key, turn: found.turn, number: found.number });
        }
        let turn = self.agents[agent].next(&self.lane_of(agent).turns.value, prompt).map_err(Miss)?;
        self.used.insert((self.agents[agent].lane, turn));
        let number = self.agents[agent].go(turn, key.clone());
        Ok(Ticket { agent, key, turn, number })
    }

    /// An agent who asked before this script was there. `said` is its last request that was answered with the reply behind
    /// it, and whether that called tools; then it failed so many times.
    pub(super) fn remember(
        &mut self,
        prompt: &Prompt,
        said: Option<&(Prompt, bool)>,
        position: Position,
        failed: u32,
    ) {
        let Ok(agent) = self.enter(prompt, said.map_or(prompt, |(said, _)| said)) else { return };
        self.lanes.insert(position.lane, agent);
        if let Some((_, calls)) = said {
            self.agents[agent].has_said(*calls);
        }
        let turns = &self.script.lanes[self.agents[agent].lane].turns.value;
        for turn in self.agents[agent].has_failed(turns, failed) {
            self.used.insert((self.agents[agent].lane, turn));
        }
    }

    /// A new agent, on the first lane that takes its request; `said` is what it has come to.
    fn enter(&mut self, prompt: &Prompt, said: &Prompt) -> Result<usize, Miss> {
        let Some(lane) = self.script.lanes.iter().position(|lane| lane.matching.value.takes(prompt)) else {
            let names = self.script.lanes.iter().map(|lane| format!("`{}`", lane.lane.value));
            let names = names.collect::<Vec<_>>().join(", ");
            return Err(Miss(format!("no lane of the script takes this request; there are {names}")));
        };
        let name = &self.script.lanes[lane].lane.value;
        self.agents.push(Agent::new(lane, name, self.on(lane).count()));
        let agent = self.agents.len() - 1;
        if let Some(past) = past(&self.script.lanes[lane].turns.value, said) {
            self.resume(agent, &past, said);
        }
        Ok(agent)
    }

    /// Brings a new agent to where its conversation stands, with the values that were found on the way.
    fn resume(&mut self, agent: usize, past: &Past, prompt: &Prompt) {
        self.agents[agent].resume(past);
        self.ids.extend(prompt.calls().map(|call| call.id.to_string()));
        let lane = self.agents[agent].lane;
        for turn in 0..=past.turn {
            self.used.insert((lane, turn));
            let key = Key::Turn(usize::MAX, u32::MAX); // nobody asks for what was said before
            self.capture(&Ticket { agent, key, turn, number: 0 }, prompt);
        }
    }

    /// What the turn waits for and has not come about.
    pub(super) fn unmet(&self, ticket: &Ticket) -> Vec<&Wait> {
        if self.said(ticket).is_some() {
            return Vec::new();
        }
        let waits = self.turn_of(ticket).wait_for.iter().map(|wait| &wait.value);
        waits.filter(|wait| !self.is_met(wait)).collect()
    }

    fn is_met(&self, wait: &Wait) -> bool {
        let Some(lane) = self.lane_named(&wait.lane) else { return false };
        let turns = &self.script.lanes[lane].turns.value;
        self.on(lane).count() >= wait.agents()
            && self.on(lane).all(|agent| match wait.turn {
                Some(turn) => agent.has_reached(turn.get() as usize),
                None => agent.is_finished(turns),
            })
    }

    /// Why a request waited in vain.
    pub(super) fn in_vain(&self, ticket: &Ticket, wait: &Wait) -> Miss {
        let what = wait.turn.map_or_else(|| "the end".to_owned(), |turn| format!("turn {turn}"));
        let there = self.lane_named(&wait.lane).map_or(0, |lane| self.on(lane).count());
        let Wait { lane, .. } = wait;
        let missing = match wait.agents() {
            wanted if there < wanted => format!(", and {there} of {wanted} agents came to it"),
            _ => String::new(),
        };
        let after = wait.timeout().as_millis();
        Miss(format!("{} waited {after} ms for {what} of lane `{lane}`{missing}", self.name(ticket)))
    }

    /// What the turn says to this request; the same again where it was said before.
    pub(super) fn say(&mut self, ticket: &Ticket, prompt: &Prompt) -> Result<Line, Miss> {
        if let Some(said) = self.said(ticket) {
            return Ok(Line::Reply(said.clone()));
        }
        self.capture(ticket, prompt);
        let line = line::compose(self, ticket, prompt)?;
        let found = &mut self.agents[ticket.agent].found;
        match &line {
            Line::Reply(reply) => {
                self.replies.insert(reply.id.clone(), ticket.agent);
                if let Some(found) = found.get_mut(&ticket.key) {
                    found.said = Some(reply.clone());
                }
            }
            // An error is to be tried again, and the next attempt takes the next turn.
            Line::Error { .. } => {
                found.remove(&ticket.key);
            }
        }
        Ok(line)
    }

    fn capture(&mut self, ticket: &Ticket, prompt: &Prompt) {
        let name = self.name(ticket);
        let agent = &mut self.agents[ticket.agent];
        let turn = &self.script.lanes[agent.lane].turns.value[ticket.turn].value;
        for (value, capture) in &turn.capture {
            let found = look(&capture.value, &agent.calls, prompt).map_err(|why| format!("{name} {why}"));
            agent.values.keep(value, found.clone());
            self.values.keep(value, found);
        }
    }

    /// The reply has left in full.
    pub(super) fn sent(&mut self, ticket: &Ticket, line: &Line) {
        let calls = matches!(line, Line::Reply(reply) if reply.calls().next().is_some());
        self.agents[ticket.agent].sent(ticket.turn, ticket.number, calls);
    }

    /// A value by its name: the agent's own first, then anybody's.
    pub(super) fn value(&self, ticket: &Ticket, name: &str) -> Result<String, Miss> {
        let agent = &self.agents[ticket.agent];
        match name {
            "workspace" => return Ok(self.workspace.clone()),
            "lane" => return Ok(agent.name.clone()),
            "turn" => return Ok(ticket.number.to_string()),
            _ => {}
        }
        // Who looked in vain does not get what another found: it would be about something else.
        let reason = match agent.values.get(name).or_else(|| self.values.get(name)) {
            Some(Ok(value)) => return Ok(value.to_owned()),
            Some(Err(reason)) => format!(": {reason}"),
            None => " yet".to_owned(),
        };
        Err(Miss(format!("{} says `${{{name}}}`, which has no value{reason}", self.name(ticket))))
    }

    /// An id that nobody had before: the wanted one, or that with a number behind it.
    pub(super) fn unique(&mut self, wanted: &str) -> String {
        let mut id = wanted.to_owned();
        let mut number = 1;
        while !self.ids.insert(id.clone()) {
            number += 1;
            id = format!("{wanted}-{number}");
        }
        id
    }

    /// How fast it is said.
    pub(super) fn pace(&self, ticket: &Ticket) -> Pace {
        self.turn_of(ticket).pace.or(self.lane_of(ticket.agent).pace).unwrap_or_default()
    }

    /// Why the model stops: the turn says so, or for replies without calls the lane.
    pub(super) fn stop(&self, ticket: &Ticket, calls: bool) -> StopReason {
        let of_lane = self.lane_of(ticket.agent).stop_reason.as_ref().filter(|_| !calls);
        match self.turn_of(ticket).stop_reason.as_ref().or(of_lane) {
            Some(stop) => stop.0.clone(),
            None if calls => StopReason::ToolUse,
            None => StopReason::EndTurn,
        }
    }

    /// As in ``turn 2 of lane `main` ``.
    pub(super) fn name(&self, ticket: &Ticket) -> String {
        format!("turn {} of lane `{}`", ticket.turn + 1, self.agents[ticket.agent].name)
    }

    pub(super) fn agent(&mut self, ticket: &Ticket) -> &mut Agent {
        &mut self.agents[ticket.agent]
    }

    pub(super) fn turn_of(&self, ticket: &Ticket) -> &Turn {
        &self.lane_of(ticket.agent).turns.value[ticket.turn].value
    }

    /// The turns that nobody was given.
    pub(super) fn unused(&self) -> Vec<UnusedTurn> {
        let mut unused = Vec::new();
        for (index, lane) in self.script.lanes.iter().enumerate() {
            let turns = (0..lane.turns.value.len()).filter(|turn| !self.used.contains(&(index, *turn)));
            unused.extend(turns.map(|turn| UnusedTurn { lane: lane.lane.value.clone(), turn: turn + 1 }));
        }
        unused
    }

    /// The models that lanes are found by.
    pub(super) fn models(&self) -> impl Iterator<Item = &str> {
        self.script.lanes.iter().flat_map(|lane| &lane.matching.value.model.0).map(String::as_str)
    }

    fn said(&self, ticket: &Ticket) -> Option<&Reply> {
        self.agents[ticket.agent].found.get(&ticket.key).and_then(|found: &Found| found.said.as_ref())
    }

    fn lane_of(&self, agent: usize) -> &Lane {
        &self.script.lanes[self.agents[agent].lane]
    }

    fn lane_named(&self, name: &str) -> Option<usize> {
        self.script.lanes.iter().position(|lane| lane.lane.value == name)
    }

    /// The agents on a lane of the script.
    fn on(&self, lane: usize) -> impl Iterator<Item = &Agent> {
        self.agents.iter().filter(move |agent| agent.lane == lane)
    }
}
