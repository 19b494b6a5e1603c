//! Assembles the agents of a harness's own files to one session.

use std::collections::HashMap;

use recording::lanes::{CallNote, CarriedResult, InjectedText, Lane, LaneJob, LaneKind, Lanes, Turn};
use recording::normalize::{Envelope, SessionLane, SessionTurn};
use serde_json::Value;
use session::{CallId, Usage};

/// Minimum length of an id that a result may name an agent by.
const MIN_ID_LENGTH: usize = 6;

/// Milliseconds since 1970.
pub(super) type Millis = i64;

/// An agent.
#[derive(Debug, Default)]
pub(super) struct Agent {
    pub(super) session: Option<String>,
    pub(super) agent: Option<String>,
    pub(super) agent_type: Option<String>,
    pub(super) model: Option<String>,
    /// True if the user talks to it.
    pub(super) is_main: bool,
    /// The agent that started it, if recorded.
    pub(super) parent: Option<usize>,
    /// The call that started it, if recorded.
    pub(super) call: Option<CallId>,
    /// Its first prompt.
    pub(super) opening: Option<String>,
    pub(super) began: Millis,
    pub(super) turns: Vec<AgentTurn>,
}

/// A turn with its times.
#[derive(Debug, Default)]
pub(super) struct AgentTurn {
    pub(super) turn: SessionTurn,
    pub(super) asked_at: Millis,
    pub(super) answered_at: Millis,
    /// The times of the results.
    pub(super) results_at: Vec<Millis>,
}

impl Agent {
    /// The id that results name it by.
    fn id(&self) -> Option<&str> {
        self.agent.as_deref().or(self.session.as_deref()).filter(|id| id.len() >= MIN_ID_LENGTH)
    }

    fn kind(&self) -> LaneKind {
        let says_one_thing = self.turns.len() == 1 && self.turns[0].turn.calls.is_empty();
        match self.is_main {
            true => LaneKind::Main,
            // Without a parent and without work, it is a warm-up call.
            false if self.call.is_none() && self.parent.is_none() && says_one_thing => LaneKind::Side,
            false => LaneKind::Sub,
        }
    }
}

/// A call that may have started an agent.
struct CallSite {
    agent: usize,
    id: CallId,
    input: Value,
    at: Millis,
    result: String,
}

/// Assembles a session from all agents.
pub(super) fn assemble(source: &str, mut agents: Vec<Agent>) -> Envelope {
    bind(&mut agents);
    let order = by_time(&agents);
    let ids = names(&agents, &order);
    number(&mut agents, &order);
    let mut jobs = jobs(&agents, &order, &ids);
    let mut agents: Vec<Option<Agent>> = agents.into_iter().map(Some).collect();
    let lanes = order.iter().filter_map(|&at| {
        let agent = agents[at].take()?;
        let mut usage = Usage::default();
        agent.turns.iter().for_each(|turn| usage += turn.turn.usage);
        let turns: Vec<SessionTurn> = agent.turns.iter().map(|turn| turn.turn.clone()).collect();
        Some(SessionLane {
            id: ids[at].clone(),
            kind: agent.kind(),
            parent: agent.parent.map(|parent| ids[parent].clone()),
            spawned_by: agent.call,
            agent_type: agent.agent_type,
            session: agent.session,
            agent: agent.agent,
            model: agent.model,
            job: jobs.remove(&ids[at]),
            final_text: turns.iter().rev().find_map(|turn| turn.text.clone()),
            turns,
            usage,
        })
    });
    Envelope::from_lanes(source, lanes.collect())
}

/// Finds the call that started each agent. Candidates in order: the call that the agent names; a call with
/// the agent's prompt as an argument whose result names the agent; the first free call with that prompt; a
/// call whose result names the agent.
fn bind(agents: &mut [Agent]) {
    let calls = calls(agents);
    let mut taken = vec![false; calls.len()];
    let mut order: Vec<usize> = (0..agents.len()).filter(|at| !agents[*at].is_main).collect();
    order.sort_by_key(|at| agents[*at].began);
    type SpawnEvidence = fn(&Agent, &CallSite) -> bool;
    let passes: [SpawnEvidence; 4] = [
        |agent, made| agent.call.as_ref() == Some(&made.id),
        |agent, made| is_named(agent, made) && has_prompt(agent, made),
        |agent, made| made.at <= agent.began && has_prompt(agent, made),
        |agent, made| made.at <= agent.began && is_named(agent, made),
    ];
    let mut bound = vec![false; agents.len()];
    for (pass, is_spawn) in passes.into_iter().enumerate() {
        for &at in &order {
            let agent = &agents[at];
            if bound[at] || (agent.call.is_some() && pass > 0) {
                continue;
            }
            let fits = |number: &usize| {
                let made = &calls[*number];
                made.agent != at && !taken[*number] && is_spawn(agent, made)
            };
            let mut fitting = (0..calls.len()).filter(fits).peekable();
            let first = fitting.peek().copied();
            let by_parent = fitting.find(|number| Some(calls[*number].agent) == agent.parent);
            let Some(number) = by_parent.or(first) else { continue };
            (taken[number], bound[at]) = (true, true);
            let made = &calls[number];
            let asked_for = agent_type(&made.input);
            let agent = &mut agents[at];
            (agent.parent, agent.call) = (Some(made.agent), Some(made.id.clone()));
            agent.agent_type = asked_for.or(agent.agent_type.take());
        }
    }
}

fn calls(agents: &[Agent]) -> Vec<CallSite> {
    let mut calls = Vec::new();
    for (agent, transcript) in agents.iter().enumerate() {
        let results = || transcript.turns.iter().flat_map(|turn| &turn.turn.results);
        for turn in &transcript.turns {
            calls.extend(turn.turn.calls.iter().map(|call| {
                CallSite {
                    agent,
                    id: call.id.clone(),
                    input: call.input.clone(),
                    at: turn.asked_at,
                    result: results()
                        .find(|result| result.call == call.id)
                        .map(|result| &result.text)
                        .cloned()
                        .unwrap_or_default(),
                }
            }));
        }
    }
    calls
}

/// Returns whether an argument of the call is the agent's first prompt.
fn has_prompt(agent: &Agent, made: &CallSite) -> bool {
    let Some(opening) = agent.opening.as_deref().map(str::trim).filter(|text| !text.is_empty()) else {
        return false;
    };
    let says = |value: &Value| value.as_str().is_some_and(|text| text.trim() == opening);
    made.input.as_object().is_some_and(|input| input.values().any(says))
}

/// Returns whether the call's result names the agent.
fn is_named(agent: &Agent, made: &CallSite) -> bool {
    agent.id().is_some_and(|id| made.result.contains(id))
}

/// Returns the agent type that a call asks for, under the names that tools use.
fn agent_type(input: &Value) -> Option<String> {
    let names = ["subagent_type", "agent_type", "agent", "agent_name", "category"];
    names.iter().find_map(|name| input.get(name)?.as_str().map(str::to_owned))
}

/// Returns the agents in order of their first requests. Agents without a parent call and without turns are
/// left out.
fn by_time(agents: &[Agent]) -> Vec<usize> {
    let began = |at: &usize| {
        let agent = &agents[*at];
        (agent.turns.first().map_or(agent.began, |turn| turn.asked_at), !agent.is_main, *at)
    };
    let is_one = |at: &usize| !agents[*at].turns.is_empty() || agents[*at].call.is_some();
    let mut order: Vec<usize> = (0..agents.len()).filter(is_one).collect();
    order.sort_by_key(began);
    order
}

/// Names lanes `main`, `main-2`; `sub-1`, `sub-2`; `side-1`.
fn names(agents: &[Agent], order: &[usize]) -> Vec<String> {
    let mut counts: HashMap<LaneKind, usize> = HashMap::new();
    let mut ids = vec![String::new(); agents.len()];
    for &at in order {
        let count = counts.entry(agents[at].kind()).or_default();
        *count += 1;
        ids[at] = match (agents[at].kind(), *count) {
            (LaneKind::Main, 1) => "main".to_owned(),
            (LaneKind::Main, n) => format!("main-{n}"),
            (LaneKind::Side, n) => format!("side-{n}"),
            (LaneKind::Sub | LaneKind::Fork, n) => format!("sub-{n}"),
        };
    }
    ids
}

/// Numbers turns in their lane, and by time in the session.
fn number(agents: &mut [Agent], order: &[usize]) {
    let mut all: Vec<(Millis, usize, usize)> = Vec::new();
    for (rank, &at) in order.iter().enumerate() {
        let mut last = Millis::MIN;
        for (index, turn) in agents[at].turns.iter_mut().enumerate() {
            turn.turn.turn = index as u32 + 1;
            // If the clock was set back, a lane's turns keep their order.
            last = last.max(turn.asked_at);
            all.push((last, rank, index));
        }
    }
    all.sort();
    for (seq, (_, rank, turn)) in all.into_iter().enumerate() {
        agents[order[rank]].turns[turn].turn.seq = seq as u32 + 1;
    }
}

/// Determines the state of each job, by its lane.
fn jobs(agents: &[Agent], order: &[usize], ids: &[String]) -> HashMap<String, LaneJob> {
    let lane = |&at: &usize| {
        let agent = &agents[at];
        Lane {
            id: ids[at].clone(),
            kind: agent.kind(),
            parent: agent.parent.map(|parent| ids[parent].clone()),
            spawned_by: agent.call.clone(),
            agent_type: agent.agent_type.clone(),
            // Agents that share a session cannot be identified by it.
            session: agent.session.clone().filter(|_| agent.agent.is_none()),
            agent: agent.agent.clone(),
            turns: agent.turns.iter().map(turn).collect(),
        }
    };
    let lanes = Lanes { lanes: order.iter().map(lane).collect() };
    let by_name = |id: &str| ids.iter().position(|known| known == id).map(|at| &agents[at]);
    let jobs = lanes.jobs().into_iter().map(|mut job| {
        let ended = by_name(&job.lane).and_then(|agent| agent.turns.last()).map(|turn| turn.answered_at);
        let turns = by_name(&job.parent).into_iter().flat_map(|agent| &agent.turns);
        let answers = |turn: &AgentTurn| {
            let at = turn.turn.results.iter().position(|result| result.call == job.call)?;
            turn.results_at.get(at).copied()
        };
        // Each result has its own time here, which may be much earlier than the request that carries it.
        if let Some(answered) = turns.into_iter().find_map(answers) {
            job.background = ended.is_none_or(|ended| ended > answered);
        }
        (job.lane.clone(), job)
    });
    jobs.collect()
}

fn turn(agent_turn: &AgentTurn) -> Turn {
    let SessionTurn { turn, seq, results, injected, calls, .. } = &agent_turn.turn;
    let note = |call: &recording::normalize::SessionCall| CallNote {
        id: call.id.clone(),
        name: call.name.clone(),
        input: call.input.to_string(),
    };
    let carried = |result: &recording::normalize::SessionResult| CarriedResult {
        call: result.call.clone(),
        text: result.text.clone(),
        is_error: result.is_error,
    };
    Turn {
        turn: *turn,
        seq: *seq,
        calls: calls.iter().map(note).collect(),
        results: results.iter().map(carried).collect(),
        texts: injected
            .iter()
            .map(|said| InjectedText { role: said.role, text: said.text.clone() })
            .collect(),
        text: agent_turn.turn.text.clone(),
        asked_at: u64::try_from(agent_turn.asked_at).unwrap_or_default(),
        answered_at: u64::try_from(agent_turn.answered_at).ok(),
        whole: true,
        ..Turn::default()
    }
}
