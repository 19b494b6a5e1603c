//! Ids that only the harness knows, joined to what is on the wire by the calls both know.

use std::collections::HashMap;

use session::CallId;

use super::{Envelope, SessionLane};
use crate::lanes::Lanes;

/// Gives each lane the session and agent of the exported lane that made the same calls, or was
/// started by the same call.
pub(super) fn name_lanes(lanes: &mut Lanes, exported: &Envelope) {
    let agents = exported.agents();
    let mut by_call: HashMap<&CallId, &SessionLane> = HashMap::new();
    let mut by_spawn: HashMap<&CallId, &SessionLane> = HashMap::new();
    for agent in &agents {
        by_call.extend(agent.turns.iter().flat_map(|turn| &turn.calls).map(|call| (&call.id, *agent)));
        by_spawn.extend(agent.spawned_by.as_ref().map(|call| (call, *agent)));
    }
    let only = match &agents[..] {
        [one] => Some(*one),
        _ => None,
    };
    for lane in &mut lanes.lanes {
        if lane.kind == crate::lanes::LaneKind::Side {
            continue;
        }
        let mut calls = lane.turns.iter().flat_map(|turn| &turn.calls);
        let spawned = lane.spawned_by.as_ref().and_then(|call| by_spawn.get(call).copied());
        let made = || calls.find_map(|call| by_call.get(&call.id).copied());
        let Some(agent) = spawned.or_else(made).or(only) else { continue };
        lane.session = lane.session.take().or_else(|| agent.session.clone());
        lane.agent = lane.agent.take().or_else(|| agent.agent.clone());
    }
}

/// Gives each turn the harness's message that made the same calls or said the same.
pub(super) fn name_messages(envelope: &mut Envelope, exported: &Envelope) {
    let mut by_call: HashMap<CallId, String> = HashMap::new();
    let mut by_text: HashMap<(Option<String>, String), String> = HashMap::new();
    for agent in exported.agents() {
        for turn in &agent.turns {
            let Some(message) = &turn.message else { continue };
            by_call.extend(turn.calls.iter().map(|call| (call.id.clone(), message.clone())));
            if let Some(text) = &turn.text {
                by_text.insert((agent.session.clone(), text.trim().to_owned()), message.clone());
            }
        }
    }
    for lane in &mut envelope.lanes {
        name(lane, &by_call, &by_text);
    }
}

fn name(
    lane: &mut SessionLane,
    by_call: &HashMap<CallId, String>,
    by_text: &HashMap<(Option<String>, String), String>,
) {
    for turn in &mut lane.turns {
        let called = turn.calls.iter().find_map(|call| by_call.get(&call.id));
        let said = || by_text.get(&(lane.session.clone(), turn.text.as_deref()?.trim().to_owned()));
        let message = called.or_else(said).cloned();
        turn.message = turn.message.take().or(message);
        for call in &mut turn.calls {
            call.started.iter_mut().for_each(|child| name(child, by_call, by_text));
        }
    }
}
