//! `replay_session.json`: one tree with every lane's turns.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use session::{CallId, RequestId, Role, StopReason, Usage};

use crate::lanes::{Job, LaneKind, Mark, too_deep};

/// The version that is written.
pub const ENVELOPE_FORMAT: u32 = 1;

/// A multi-agent session: main's turns, and under each spawning call the agent it started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Envelope {
    /// Version of the file.
    pub format: u32,
    /// What it was made from: `wire`, `opencode-export`, `claude-transcript`.
    pub source: String,
    /// The lanes that nobody started: `main` and its like, then forks, agents whose call is not known, and
    /// agents that nest deeper than 16 levels.
    pub lanes: Vec<SessionLane>,
    /// Titles, warm-ups and counts.
    pub side: Vec<SessionLane>,
}

/// One agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionLane {
    /// As in `sub-1`.
    pub id: String,
    /// What it is.
    pub kind: LaneKind,
    /// The lane that started it.
    pub parent: Option<String>,
    /// The call that started it.
    pub spawned_by: Option<CallId>,
    /// What the call says it should be.
    pub agent_type: Option<String>,
    /// The harness's session.
    pub session: Option<String>,
    /// The harness's agent.
    pub agent: Option<String>,
    /// The model that was asked first.
    pub model: Option<String>,
    /// How it was started, asked after and heard of.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub job: Option<Job>,
    /// Its turns.
    pub turns: Vec<SessionTurn>,
    /// What it said last.
    pub final_text: Option<String>,
    /// What all its turns consumed.
    pub usage: Usage,
}

/// One turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionTurn {
    /// Its number in the lane, from 1.
    pub turn: u32,
    /// Its number in the recording, from 1.
    pub seq: u32,
    /// The requests; the last is the one that counts.
    pub requests: Vec<RequestId>,
    /// The harness's message that the reply became.
    pub message: Option<String>,
    /// What is odd about it.
    pub marks: Vec<Mark>,
    /// The results that the request brings.
    pub results: Vec<SessionResult>,
    /// The texts that the request brings.
    pub injected: Vec<SessionText>,
    /// What the model says.
    pub text: Option<String>,
    /// What it asks for.
    pub calls: Vec<SessionCall>,
    /// Why it stopped.
    pub stop: Option<StopReason>,
    /// What it consumed.
    pub usage: Usage,
}

/// A result, where it was injected.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionResult {
    /// The call that it answers.
    pub call: CallId,
    /// What it says.
    pub text: String,
    /// The tool failed.
    pub is_error: bool,
}

/// A text that the harness put in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionText {
    /// In whose name.
    pub role: Role,
    /// The text.
    pub text: String,
}

/// A call, and the agent it started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionCall {
    /// Its id.
    pub id: CallId,
    /// The tool.
    pub name: String,
    /// The arguments.
    pub input: Value,
    /// The agent that it started.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub started: Vec<SessionLane>,
}

impl Envelope {
    /// Hangs each lane under the call that started it.
    pub fn from_lanes(source: &str, flat: Vec<SessionLane>) -> Self {
        let made: HashMap<(String, CallId), ()> = flat
            .iter()
            .flat_map(|lane| {
                let calls = lane.turns.iter().flat_map(|turn| &turn.calls);
                calls.map(|call| ((lane.id.clone(), call.id.clone()), ())).collect::<Vec<_>>()
            })
            .collect();
        let deep: HashSet<String> =
            too_deep(flat.iter().map(|lane| (lane.id.as_str(), lane.parent.as_deref())))
                .into_iter()
                .map(str::to_owned)
                .collect();
        let mut envelope = Self { format: ENVELOPE_FORMAT, source: source.to_owned(), ..Self::default() };
        let mut children: Vec<SessionLane> = Vec::new();
        for lane in flat {
            let caller = lane.parent.clone().zip(lane.spawned_by.clone());
            match (lane.kind, caller) {
                (LaneKind::Side, _) => envelope.side.push(lane),
                (_, Some(caller)) if made.contains_key(&caller) && !deep.contains(&lane.id) => {
                    children.push(lane);
                }
                _ => envelope.lanes.push(lane),
            }
        }
        for lane in &mut envelope.lanes {
            hang(lane, &mut children);
        }
        envelope
    }

    /// The bytes of the file.
    pub fn to_json(&self) -> Vec<u8> {
        super::pretty(self)
    }

    /// Every agent's lane, parents before their children.
    pub fn agents(&self) -> Vec<&SessionLane> {
        let mut lanes = Vec::new();
        self.lanes.iter().for_each(|lane| walk(lane, &mut lanes));
        lanes
    }
}

fn hang(lane: &mut SessionLane, waiting: &mut Vec<SessionLane>) {
    let id = lane.id.clone();
    let (mut mine, others) =
        waiting.drain(..).partition(|child: &SessionLane| child.parent.as_ref() == Some(&id));
    *waiting = others;
    for call in lane.turns.iter_mut().flat_map(|turn| &mut turn.calls) {
        let (started, rest): (Vec<_>, Vec<_>) =
            mine.into_iter().partition(|child: &SessionLane| child.spawned_by.as_ref() == Some(&call.id));
        mine = rest;
        call.started.extend(started);
    }
    for call in lane.turns.iter_mut().flat_map(|turn| &mut turn.calls) {
        call.started.iter_mut().for_each(|child| hang(child, waiting));
    }
}

fn walk<'l>(lane: &'l SessionLane, lanes: &mut Vec<&'l SessionLane>) {
    lanes.push(lane);
    for call in lane.turns.iter().flat_map(|turn| &turn.calls) {
        call.started.iter().for_each(|child| walk(child, lanes));
    }
}
