//! Plays a script: the progress of each agent, and the next reply. No IO.
//!
//! A request takes three steps: [`ScriptPlayer::claim`] finds its lane and turn, [`ScriptPlayer::unmet_waits`] returns what
//! the turn still waits for, and [`ScriptPlayer::reply`] (in `compose`) composes the reply. [`ScriptPlayer::mark_sent`] notes that it was
//! sent.

use std::collections::{HashMap, HashSet};

use recording::lanes::Position;
use session::{Reply, StopReason};
use wire::dialect::Prompt;

use super::Script;
use super::agent::{FoundTurn, ScriptAgent, TurnKey};
use super::captures::{CapturedValues, capture};
use super::format::{Lane, ScriptPace, Turn, Wait};
use super::report::UnusedTurn;
use super::resumed::{PriorTurns, prior_turns};

/// The reason why a request has no reply. Names lane and turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ScriptMiss(pub(super) String);

/// A script that is played.
#[derive(Debug)]
pub(super) struct ScriptPlayer {
    script: Script,
    workspace: String,
    agents: Vec<ScriptAgent>,
    /// Indexes of agents by the tracker's lanes.
    lanes: HashMap<usize, usize>,
    /// Indexes of agents by the ids of their replies.
    replies: HashMap<String, usize>,
    /// All ids that were used.
    ids: HashSet<String>,
    /// The newest captured values of all agents.
    values: CapturedValues,
    /// Lane and turn of each used turn.
    used: HashSet<(usize, usize)>,
}

/// The turn that a request claimed.
#[derive(Clone, Debug)]
pub(super) struct ClaimedTurn {
    agent: usize,
    key: TurnKey,
    /// Index of the turn in the script's lane.
    turn: usize,
    /// 1-based number of the turn among those of its agent.
    pub(super) number: u32,
}

/// A reply or an error of the script.
#[derive(Clone, Debug)]
pub(super) enum ScriptedReply {
    Reply(Reply),
    Error { status: u16, kind: Option<String>, message: String, retry_after: Option<u32> },
}

impl ScriptPlayer {
    pub(super) fn new(script: Script, workspace: String) -> Self {
        Self {
            script,
            workspace,
            agents: Vec::new(),
            lanes: HashMap::new(),
            replies: HashMap::new(),
            ids: HashSet::new(),
            values: CapturedValues::default(),
            used: HashSet::new(),
        }
    }

    /// Finds the turn for a request, and moves its agent there. `continues` is the reply that the request names instead of
    /// carrying its history.
    pub(super) fn claim(
        &mut self,
        prompt: &Prompt,
        position: Position,
        continues: Option<String>,
    ) -> Result<ClaimedTurn, ScriptMiss> {
        let named = continues.as_ref().and_then(|id| self.replies.get(id));
        // A lane that continues from inside another's history belongs to the same agent.
        let known = || self.lanes.get(&position.lane).or_else(|| self.lanes.get(&position.from?));
        let agent = match (named.or_else(known), &continues) {
            (Some(agent), _) => *agent,
            (None, None) => self.add_agent(prompt, prompt)?,
            (None, Some(id)) => {
                return Err(ScriptMiss(format!(
                    "the request continues `{id}`, which is not a reply of this script"
                )));
            }
        };
        let may_repeat = continues.is_some() || position.attempt > 1;
        let key = continues.map_or(TurnKey::Turn(position.lane, position.turn), TurnKey::After);
        self.lanes.insert(position.lane, agent);
        if let Some(found) = self.agents[agent].found.get(&key).filter(|_| may_repeat) {
            return Ok(ClaimedTurn { agent, key, turn: found.turn, number: found.number });
        }
        let turn =
            self.agents[agent].next_turn(&self.lane_of(agent).turns.value, prompt).map_err(ScriptMiss)?;
        self.used.insert((self.agents[agent].lane, turn));
        let number = self.agents[agent].go_to(turn, key.clone());
        Ok(ClaimedTurn { agent, key, turn, number })
    }

    /// Adds an agent that an earlier scripted model served. `last_reply` is its last answered request with the reply
    /// appended, and whether that reply has calls. After it came `failures` errors.
    pub(super) fn restore(
        &mut self,
        prompt: &Prompt,
        last_reply: Option<&(Prompt, bool)>,
        position: Position,
        failures: u32,
    ) {
        let history = last_reply.map_or(prompt, |(history, _)| history);
        let Ok(agent) = self.add_agent(prompt, history) else { return };
        self.lanes.insert(position.lane, agent);
        if let Some((_, has_calls)) = last_reply {
            self.agents[agent].restore_reply(*has_calls);
        }
        let turns = &self.script.lanes[self.agents[agent].lane].turns.value;
        for turn in self.agents[agent].restore_failures(turns, failures) {
            self.used.insert((self.agents[agent].lane, turn));
        }
    }

    /// Adds an agent to the first lane that matches its request. `history` is its conversation so far.
    fn add_agent(&mut self, prompt: &Prompt, history: &Prompt) -> Result<usize, ScriptMiss> {
        let Some(lane) = self.script.lanes.iter().position(|lane| lane.matching.value.matches(prompt)) else {
            let names = self.script.lanes.iter().map(|lane| format!("`{}`", lane.lane.value));
            let names = names.collect::<Vec<_>>().join(", ");
            return Err(ScriptMiss(format!(
                "no lane of the script matches this request; its lanes are {names}"
            )));
        };
        let name = &self.script.lanes[lane].lane.value;
        self.agents.push(ScriptAgent::new(lane, name, self.agents_on(lane).count()));
        let agent = self.agents.len() - 1;
        if let Some(prior) = prior_turns(&self.script.lanes[lane].turns.value, history) {
            self.resume(agent, &prior, history);
        }
        Ok(agent)
    }

    /// Moves a new agent to the position of its conversation, and captures the values up to there.
    fn resume(&mut self, agent: usize, prior: &PriorTurns, prompt: &Prompt) {
        self.agents[agent].resume(prior);
        self.ids.extend(prompt.calls().map(|call| call.id.to_string()));
        let lane = self.agents[agent].lane;
        for turn in 0..=prior.turn {
            self.used.insert((lane, turn));
            let key = TurnKey::Turn(usize::MAX, u32::MAX); // never requested
            self.capture_values(&ClaimedTurn { agent, key, turn, number: 0 }, prompt);
        }
    }

    /// Returns the waits of the turn that have not ended.
    pub(super) fn unmet_waits(&self, claimed: &ClaimedTurn) -> Vec<&Wait> {
        if self.earlier_reply(claimed).is_some() {
            return Vec::new();
        }
        let waits = self.turn_of(claimed).wait_for.iter().map(|wait| &wait.value);
        waits.filter(|wait| !self.is_met(wait)).collect()
    }

    fn is_met(&self, wait: &Wait) -> bool {
        let Some(lane) = self.lane_named(&wait.lane) else { return false };
        let turns = &self.script.lanes[lane].turns.value;
        self.agents_on(lane).count() >= wait.agents()
            && self.agents_on(lane).all(|agent| match wait.turn {
                Some(turn) => agent.has_reached(turn.get() as usize),
                None => wait.finished.is_none() || agent.is_finished(turns),
            })
    }

    /// Describes a wait that timed out.
    pub(super) fn timeout_miss(&self, claimed: &ClaimedTurn, wait: &Wait) -> ScriptMiss {
        let without_turn = if wait.finished.is_some() { "the end" } else { "the first request" };
        let what = wait.turn.map_or_else(|| without_turn.to_owned(), |turn| format!("turn {turn}"));
        let there = self.lane_named(&wait.lane).map_or(0, |lane| self.agents_on(lane).count());
        let Wait { lane, .. } = wait;
        let missing = match wait.agents() {
            wanted if there < wanted => format!("; {there} of {wanted} agents started"),
            _ => String::new(),
        };
        let after = wait.timeout().as_millis();
        ScriptMiss(format!("{} waited {after} ms for {what} of lane `{lane}`{missing}", self.name(claimed)))
    }

    /// Notes the reply of a turn, for repeated requests. An error is retried, and the retry claims the next turn.
    pub(super) fn keep_reply(&mut self, claimed: &ClaimedTurn, reply: &ScriptedReply) {
        let found = &mut self.agents[claimed.agent].found;
        match reply {
            ScriptedReply::Reply(reply) => {
                self.replies.insert(reply.id.clone(), claimed.agent);
                if let Some(found) = found.get_mut(&claimed.key) {
                    found.reply = Some(reply.clone());
                }
            }
            ScriptedReply::Error { .. } => {
                found.remove(&claimed.key);
            }
        }
    }

    /// Captures the values that the turn takes from the request.
    pub(super) fn capture_values(&mut self, claimed: &ClaimedTurn, prompt: &Prompt) {
        let name = self.name(claimed);
        let agent = &mut self.agents[claimed.agent];
        let scripted = &self.script.lanes[agent.lane].turns.value[claimed.turn].value;
        for (value, rule) in &scripted.capture {
            let found = capture(&rule.value, &agent.calls, prompt).map_err(|why| format!("{name} {why}"));
            agent.values.insert(value, found.clone());
            self.values.insert(value, found);
        }
    }

    /// Notes that the reply was sent.
    pub(super) fn mark_sent(&mut self, claimed: &ClaimedTurn, reply: &ScriptedReply) {
        let has_calls = matches!(reply, ScriptedReply::Reply(reply) if reply.calls().next().is_some());
        self.agents[claimed.agent].mark_sent(claimed.turn, claimed.number, has_calls);
    }

    /// Returns a value by its name: the agent's own first, then that of any agent.
    pub(super) fn value(&self, claimed: &ClaimedTurn, name: &str) -> Result<String, ScriptMiss> {
        let agent = &self.agents[claimed.agent];
        match name {
            "workspace" => return Ok(self.workspace.clone()),
            "lane" => return Ok(agent.name.clone()),
            "turn" => return Ok(claimed.number.to_string()),
            _ => {}
        }
        // An agent whose own capture failed does not get the value of another agent.
        let reason = match agent.values.get(name).or_else(|| self.values.get(name)) {
            Some(Ok(value)) => return Ok(value.to_owned()),
            Some(Err(reason)) => format!(": {reason}"),
            None => " yet".to_owned(),
        };
        Err(ScriptMiss(format!("{} uses `${{{name}}}`, which has no value{reason}", self.name(claimed))))
    }

    /// Returns an unused id: the wanted one, or that with a number appended.
    pub(super) fn unique_id(&mut self, wanted: &str) -> String {
        let mut id = wanted.to_owned();
        let mut number = 1;
        while !self.ids.insert(id.clone()) {
            number += 1;
            id = format!("{wanted}-{number}");
        }
        id
    }

    /// Returns the pace of the turn.
    pub(super) fn pace(&self, claimed: &ClaimedTurn) -> ScriptPace {
        self.turn_of(claimed).pace.or(self.lane_of(claimed.agent).pace).unwrap_or_default()
    }

    /// Returns the stop reason: that of the turn, or for replies without calls that of the lane.
    pub(super) fn stop_reason(&self, claimed: &ClaimedTurn, has_calls: bool) -> StopReason {
        let of_lane = self.lane_of(claimed.agent).stop_reason.as_ref().filter(|_| !has_calls);
        match self.turn_of(claimed).stop_reason.as_ref().or(of_lane) {
            Some(stop) => stop.0.clone(),
            None if has_calls => StopReason::ToolUse,
            None => StopReason::EndTurn,
        }
    }

    /// Returns a name such as ``turn 2 of lane `main` ``.
    pub(super) fn name(&self, claimed: &ClaimedTurn) -> String {
        format!("turn {} of lane `{}`", claimed.turn + 1, self.agents[claimed.agent].name)
    }

    pub(super) fn agent(&mut self, claimed: &ClaimedTurn) -> &mut ScriptAgent {
        &mut self.agents[claimed.agent]
    }

    pub(super) fn turn_of(&self, claimed: &ClaimedTurn) -> &Turn {
        &self.lane_of(claimed.agent).turns.value[claimed.turn].value
    }

    /// Returns the turns that were never used.
    pub(super) fn unused(&self) -> Vec<UnusedTurn> {
        let mut unused = Vec::new();
        for (index, lane) in self.script.lanes.iter().enumerate() {
            let turns = (0..lane.turns.value.len()).filter(|turn| !self.used.contains(&(index, *turn)));
            unused.extend(turns.map(|turn| UnusedTurn { lane: lane.lane.value.clone(), turn: turn + 1 }));
        }
        unused
    }

    /// Returns the models that lanes match.
    pub(super) fn models(&self) -> impl Iterator<Item = &str> {
        self.script.lanes.iter().flat_map(|lane| &lane.matching.value.model.0).map(String::as_str)
    }

    /// Returns the reply that an earlier request for the turn got.
    pub(super) fn earlier_reply(&self, claimed: &ClaimedTurn) -> Option<&Reply> {
        self.agents[claimed.agent].found.get(&claimed.key).and_then(|found: &FoundTurn| found.reply.as_ref())
    }

    fn lane_of(&self, agent: usize) -> &Lane {
        &self.script.lanes[self.agents[agent].lane]
    }

    fn lane_named(&self, name: &str) -> Option<usize> {
        self.script.lanes.iter().position(|lane| lane.lane.value == name)
    }

    /// Returns the agents on a lane of the script.
    fn agents_on(&self, lane: usize) -> impl Iterator<Item = &ScriptAgent> {
        self.agents.iter().filter(move |agent| agent.lane == lane)
    }
}
