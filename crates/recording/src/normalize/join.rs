//! Adds ids that only the harness's export has, matched by calls that are in the export and on the wire.

use std::collections::HashMap;

use session::CallId;

use super::{Envelope, SessionLane, SessionTurn};
use crate::lanes::{LaneKind, Lanes};

/// Agents of an export by their calls.
pub(super) struct Exported<'e> {
    by_spawn: HashMap<&'e CallId, &'e SessionLane>,
    by_call: HashMap<&'e CallId, &'e SessionLane>,
    mains: Vec<&'e SessionLane>,
}

impl<'e> Exported<'e> {
    pub(super) fn of(exported: &'e Envelope) -> Self {
        let agents = exported.agents();
        let mut by_spawn = HashMap::new();
        let mut by_call = HashMap::new();
        for agent in &agents {
            by_spawn.extend(agent.spawned_by.as_ref().map(|call| (call, *agent)));
            for call in agent.turns.iter().flat_map(|turn| &turn.calls) {
                by_call.entry(&call.id).or_insert(*agent);
            }
        }
        let mains = agents.into_iter().filter(|agent| agent.kind == LaneKind::Main).collect();
        Self { by_spawn, by_call, mains }
    }

    /// Finds the agent that the same call started, or that made the same calls. If each side has only one main
    /// lane, these match.
    fn agent<'c>(
        &self,
        kind: LaneKind,
        spawned_by: Option<&CallId>,
        mut calls: impl Iterator<Item = &'c CallId>,
    ) -> Option<&'e SessionLane> {
        let spawned = spawned_by.and_then(|call| self.by_spawn.get(call).copied());
        let made = || calls.find_map(|call| self.by_call.get(call).copied());
        let only = || match &self.mains[..] {
            [one] if kind == LaneKind::Main => Some(*one),
            _ => None,
        };
        spawned.or_else(made).or_else(only)
    }

    /// Sets the session and agent id of each lane.
    pub(super) fn name_lanes(&self, lanes: &mut Lanes) {
        for lane in lanes.lanes.iter_mut().filter(|lane| lane.kind != LaneKind::Side) {
            let calls = lane.turns.iter().flat_map(|turn| &turn.calls).map(|call| &call.id);
            let Some(agent) = self.agent(lane.kind, lane.spawned_by.as_ref(), calls) else { continue };
            lane.session = lane.session.take().or_else(|| agent.session.clone());
            lane.agent = lane.agent.take().or_else(|| agent.agent.clone());
        }
    }

    /// Sets the harness's message id of each turn.
    pub(super) fn name_messages(&self, envelope: &mut Envelope) {
        envelope.lanes.iter_mut().for_each(|lane| self.name(lane));
    }

    fn name(&self, lane: &mut SessionLane) {
        let calls = lane.turns.iter().flat_map(|turn| &turn.calls).map(|call| &call.id);
        let agent = self.agent(lane.kind, lane.spawned_by.as_ref(), calls);
        let mut told = agent.map(|agent| &agent.turns[..]).unwrap_or_default();
        for turn in &mut lane.turns {
            // Both have the same order, so skipped turns are not compared again.
            if let Some(at) = told.iter().position(|told| is_same(turn, told)) {
                turn.message = turn.message.take().or_else(|| told[at].message.clone());
                told = &told[at + 1..];
            }
            turn.calls.iter_mut().flat_map(|call| &mut call.started).for_each(|child| self.name(child));
        }
    }
}

/// Returns whether two turns make the same calls or, without calls, have the same text.
fn is_same(turn: &SessionTurn, told: &SessionTurn) -> bool {
    let says = |turn: &SessionTurn| turn.text.as_deref().map(str::trim).unwrap_or_default().to_owned();
    match (turn.calls.first(), told.calls.first()) {
        (Some(_), Some(_)) => {
            turn.calls.iter().any(|call| told.calls.iter().any(|other| other.id == call.id))
        }
        (None, None) => says(turn) == says(told),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(text: &str, calls: &[&str], message: Option<&str>) -> SessionTurn {
        let call = |id: &&str| crate::normalize::SessionCall {
            id: CallId::new(*id),
            name: "Tool".into(),
            input: serde_json::Value::Null,
            started: Vec::new(),
        };
        SessionTurn {
            text: Some(text.to_owned()),
            calls: calls.iter().map(call).collect(),
            message: message.map(str::to_owned),
            ..SessionTurn::default()
        }
    }

    fn session(lanes: Vec<(LaneKind, Option<&str>, Vec<SessionTurn>)>) -> Envelope {
        let lane = |(kind, call, turns): (LaneKind, Option<&str>, Vec<SessionTurn>)| SessionLane {
            id: if kind == LaneKind::Main { "main".into() } else { format!("sub of {call:?}") },
            kind,
            parent: call.map(|_| "main".to_owned()),
            spawned_by: call.map(CallId::new),
            agent_type: None,
            session: None,
            agent: None,
            model: None,
            job: None,
            turns,
            final_text: None,
            usage: session::Usage::default(),
        };
        Envelope::from_lanes("test", lanes.into_iter().map(lane).collect())
    }

    #[test]
    fn repeated_text_is_two_messages() {
        let (main, sub) = (LaneKind::Main, LaneKind::Sub);
        let exported = session(vec![
            (
                main,
                None,
                vec![
                    turn("go", &["a", "b"], Some("m1")),
                    turn("ok", &[], Some("m2")),
                    turn("ok", &[], Some("m3")),
                ],
            ),
            (sub, Some("a"), vec![turn("ok", &["same"], Some("a1")), turn("ok", &[], Some("a2"))]),
            (sub, Some("b"), vec![turn("ok", &["same"], Some("b1")), turn("ok", &[], Some("b2"))]),
        ]);
        let mut wire = session(vec![
            (
                main,
                None,
                vec![
                    turn("go", &["a", "b"], None),
                    turn("cut", &[], None),
                    turn("ok ", &[], None),
                    turn("ok", &[], None),
                ],
            ),
            (sub, Some("b"), vec![turn("ok", &["same"], None), turn("ok", &[], None)]),
            (sub, Some("a"), vec![turn("ok", &["same"], None), turn("ok", &[], None)]),
        ]);
        Exported::of(&exported).name_messages(&mut wire);
        let messages = |lane: &SessionLane| {
            let message = |turn: &SessionTurn| turn.message.clone().unwrap_or_else(|| "-".to_owned());
            lane.turns.iter().map(message).collect::<Vec<_>>().join(" ")
        };
        let named: Vec<String> = wire.agents().into_iter().map(messages).collect();
        assert_eq!(named, ["m1 - m2 m3", "a1 a2", "b1 b2"]);
    }
}
