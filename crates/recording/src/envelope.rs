//! `replay_session.json`: one tree with the turns of every lane.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use session::{CallId, RequestId, Role, StopReason, Usage};

use crate::lanes::{LaneJob, LaneKind, TurnMark, tree_roots};

/// Name of the session's file.
pub const ENVELOPE: &str = "replay_session.json";
/// Version of the files that are written.
pub const ENVELOPE_FORMAT: u32 = 1;

/// Session of several agents: the turns of main, and under each spawning call the agent that it started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Envelope {
    /// Version of the file.
    pub format: u32,
    /// Source of the session: `wire`, `opencode-export`, `claude-transcript`.
    pub source: String,
    /// Roots: `main` and other main lanes, then forks, agents whose call is unknown, and agents that nest
    /// deeper than 16 levels.
    pub lanes: Vec<SessionLane>,
    /// Titles, warm-ups and token counts.
    pub side: Vec<SessionLane>,
}

/// Lane of one agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionLane {
    /// Id, such as `sub-1`.
    pub id: String,
    /// Kind of the lane.
    pub kind: LaneKind,
    /// Parent lane.
    pub parent: Option<String>,
    /// Call that started the lane.
    pub spawned_by: Option<CallId>,
    /// Agent type that the call asks for.
    pub agent_type: Option<String>,
    /// Session id of the harness.
    pub session: Option<String>,
    /// Agent id of the harness.
    pub agent: Option<String>,
    /// Model of the first request.
    pub model: Option<String>,
    /// Start, polls and notices of the agent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub job: Option<LaneJob>,
    /// Turns.
    pub turns: Vec<SessionTurn>,
    /// Text of the last reply that has one.
    pub final_text: Option<String>,
    /// Usage of all turns.
    pub usage: Usage,
}

/// One turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionTurn {
    /// Number in the lane, from 1.
    pub turn: u32,
    /// Number in the recording, from 1.
    pub seq: u32,
    /// Requests. The last one counts.
    pub requests: Vec<RequestId>,
    /// Message id that the harness gave the reply.
    pub message: Option<String>,
    /// Anomalies.
    pub marks: Vec<TurnMark>,
    /// Results in the request.
    pub results: Vec<SessionResult>,
    /// Texts in the request.
    pub injected: Vec<SessionText>,
    /// Text of the reply.
    pub text: Option<String>,
    /// Calls of the reply.
    pub calls: Vec<SessionCall>,
    /// Stop reason.
    pub stop: Option<StopReason>,
    /// Usage.
    pub usage: Usage,
}

/// Result of a call, in the turn that carries it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionResult {
    /// Call.
    pub call: CallId,
    /// Text of the result.
    pub text: String,
    /// True if the tool failed.
    pub is_error: bool,
}

/// Text that the harness added.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionText {
    /// Role of the message.
    pub role: Role,
    /// Text.
    pub text: String,
}

/// Call, and the agents that it started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionCall {
    /// Call id.
    pub id: CallId,
    /// Tool name.
    pub name: String,
    /// Arguments.
    pub input: Value,
    /// Agents that the call started.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub started: Vec<SessionLane>,
}

impl Envelope {
    /// Puts each lane under the call that started it.
    pub fn from_lanes(source: &str, flat: Vec<SessionLane>) -> Self {
        let made: HashMap<(String, CallId), ()> = flat
            .iter()
            .flat_map(|lane| {
                let calls = lane.turns.iter().flat_map(|turn| &turn.calls);
                calls.map(|call| ((lane.id.clone(), call.id.clone()), ())).collect::<Vec<_>>()
            })
            .collect();
        let deep: HashSet<String> =
            tree_roots(flat.iter().map(|lane| (lane.id.as_str(), lane.parent.as_deref())))
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
            attach_children(lane, &mut children);
        }
        envelope
    }

    /// Serializes the file.
    pub fn to_json(&self) -> Vec<u8> {
        let mut json = serde_json::to_vec_pretty(self).expect("it has only string keys");
        json.push(b'\n');
        json
    }

    /// Returns the lanes of all agents, parents before their children.
    pub fn agents(&self) -> Vec<&SessionLane> {
        let mut lanes = Vec::new();
        self.lanes.iter().for_each(|lane| walk(lane, &mut lanes));
        lanes
    }
}

fn attach_children(lane: &mut SessionLane, waiting: &mut Vec<SessionLane>) {
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
        call.started.iter_mut().for_each(|child| attach_children(child, waiting));
    }
}

fn walk<'l>(lane: &'l SessionLane, lanes: &mut Vec<&'l SessionLane>) {
    lanes.push(lane);
    for call in lane.turns.iter().flat_map(|turn| &turn.calls) {
        call.started.iter().for_each(|child| walk(child, lanes));
    }
}
