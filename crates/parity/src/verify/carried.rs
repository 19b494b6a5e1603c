//! What the model said and the harness carries back: measured by what was said in the same recording.
//!
//! Two models may say different things, and that is given. A harness that carries back something else than was
//! said, or leaves it out, is judged by what it carries.

use std::collections::HashSet;

use serde_json::Value;
use session::{Block, RequestId};
use wire::dialect::Dialect;

use super::compare::Comparison;
use super::found::Spot;
use super::lane::LaneWork;
use super::unit::{Projected, Unit};
use crate::verdict::{Level, Surface};

/// What the models of one side said, once it was asked for.
pub(super) type Spoken = Option<HashSet<String>>;

impl Comparison<'_> {
    /// Two of the model's blocks that meet and are not equal. Returns whether both are carried as they were said.
    pub(super) fn are_as_said(&mut self, lane: &LaneWork<'_>, units: [&Unit; 2]) -> bool {
        let as_said = [0, 1].map(|side| {
            let block = self.carried(lane, side, units[side]);
            block.is_some_and(|block| self.was_said(side, &block))
        });
        as_said == [true; 2]
    }

    /// What is carried differs as what was said does: given, and yet not equal to the byte.
    pub(super) fn echoed(&mut self, lane: &LaneWork<'_>, turn: u32, units: [Option<(&Unit, &Projected)>; 2]) {
        self.tally.counts(lane.number, Surface::Prompt).echoed += 1;
        let pointer = units.iter().flatten().next().map(|(unit, _)| unit.pointer.clone()).unwrap_or_default();
        let [golden, candidate] =
            units.map(|unit| unit.map(|(unit, of): (&Unit, &Projected)| of.raw(unit).into_owned()));
        let spot = Spot { surface: Surface::Prompt, lane: lane.name, turn };
        let what = "what is carried back differs, as the models' replies do";
        let difference =
            spot.difference(Some(Level::E3), &pointer, what, golden.as_deref(), candidate.as_deref());
        self.differ_by_byte(lane.number, difference);
    }

    /// One of the model's blocks that only one side carries.
    pub(super) fn reply_alone(
        &mut self,
        lane: &LaneWork<'_>,
        turn: u32,
        side: usize,
        unit: &Unit,
        of: &Projected,
    ) {
        // The other model may never have said it: then there was nothing to carry.
        let given = self
            .carried(lane, side, unit)
            .is_some_and(|block| self.was_said(side, &block) && !self.was_said(1 - side, &block));
        match given {
            true if side == 0 => self.echoed(lane, turn, [Some((unit, of)), None]),
            true => self.echoed(lane, turn, [None, Some((unit, of))]),
            false => self.alone(lane, turn, side, unit, of),
        }
    }

    /// The block that a unit of the turn at hand carries.
    fn carried(&self, lane: &LaneWork<'_>, side: usize, unit: &Unit) -> Option<Block> {
        let asked = self.sides[side].requests.asked(lane.at_hand[side].as_ref()?)?;
        let body = asked.body.bytes?;
        let prompt = Dialect::of(&asked.url, &body)?.decode_request(&body).ok()?;
        let mut parts = prompt.messages.into_iter().flat_map(|message| message.parts);
        parts.find(|part| part.place.pointer == unit.pointer).map(|part| part.block)
    }

    fn was_said(&mut self, side: usize, block: &Block) -> bool {
        let of = self.sides[side];
        let spoken = self.spoken[side].get_or_insert_with(|| {
            let turns = of.ordered.lanes.lanes.iter().flat_map(|lane| &lane.turns);
            let replies = turns.flat_map(|turn| &turn.attempts).map(|id: &RequestId| of.requests.said(id));
            replies.flatten().map(|block| canonical(&block)).collect()
        });
        spoken.contains(&canonical(block))
    }
}

/// A block as it is looked up. The arguments of a call are the same in whatever order they come, and it may go by
/// another id.
fn canonical(block: &Block) -> String {
    match block {
        Block::ToolCall(call) => {
            let input = serde_json::from_str::<Value>(&call.input).map(sorted);
            format!("{} {}", call.name, input.map_or_else(|_| call.input.clone(), |input| input.to_string()))
        }
        block => format!("{block:?}"),
    }
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<(String, Value)> =
                members.into_iter().map(|(name, value)| (name, sorted(value))).collect();
            members.sort_by(|(a, _), (b, _)| a.cmp(b));
            Value::Object(members.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        value => value,
    }
}
