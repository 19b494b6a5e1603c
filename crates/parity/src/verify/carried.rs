//! What the model said and the harness carries back: measured by what was said at that place of the same recording.
//!
//! Two models may say different things, and that is given. A harness that carries back something else than was
//! said there, or leaves it out, is judged by what it carries.

use std::collections::HashMap;
use std::rc::Rc;

use recording::lanes::{Lane, LaneKind, Lanes, Turn};
use serde_json::Value;
use session::{Block, RequestId, Role};
use wire::dialect::{Dialect, Prompt};

use super::compare::Comparison;
use super::found::Spot;
use super::lane::LaneWork;
use super::pair::spawn_place;
use super::unit::{Projected, Unit};
use crate::verdict::{Level, Surface};

/// What the model of one side said, request by request, as far as it was asked for.
pub(super) type Spoken = HashMap<RequestId, Rc<Vec<String>>>;

/// A block that is carried back, and the turn whose reply stands there; none where no reply of the lane does.
struct Carried<'c> {
    block: String,
    turn: Option<&'c Turn>,
}

impl<'c> Comparison<'c> {
    /// Two of the model's blocks that meet and are not equal. Returns whether both are carried as they were said
    /// there, and differ because the two replies do.
    pub(super) fn are_as_said(&mut self, lane: &LaneWork<'_>, units: [&Unit; 2]) -> bool {
        let carried = [0, 1].map(|side| self.carried(lane, side, units[side]));
        let [Some(mine), Some(theirs)] = carried else { return false };
        // Where the same was said, what differs around it is the harness's own.
        if mine.block == theirs.block {
            return false;
        }
        let replies = [self.reply(0, mine.turn), self.reply(1, theirs.turn)];
        replies[0] != replies[1] && replies[0].contains(&mine.block) && replies[1].contains(&theirs.block)
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
        // The other model may never have said it there: then there was nothing to carry.
        let given = self.carried(lane, side, unit).is_some_and(|carried| {
            let other = carried.turn.and_then(|turn| self.turn_beside(lane, side, turn));
            let (mine, theirs) = (self.reply(side, carried.turn), self.reply(1 - side, other));
            mine.contains(&carried.block) && !theirs.contains(&carried.block)
        });
        match given {
            true if side == 0 => self.echoed(lane, turn, [Some((unit, of)), None]),
            true => self.echoed(lane, turn, [None, Some((unit, of))]),
            false => self.alone(lane, turn, side, unit, of),
        }
    }

    /// What a unit of the turn at hand carries.
    fn carried(&self, lane: &LaneWork<'_>, side: usize, unit: &Unit) -> Option<Carried<'c>> {
        let id = lane.at_hand[side].as_ref()?;
        let asked = self.sides[side].requests.request(id)?;
        let body = asked.body.bytes?;
        let prompt = Dialect::detect(&asked.url, &body)?.decode_request(&body).ok()?;
        let is_it = |part: &&wire::dialect::Part| part.place.pointer == unit.pointer;
        let at = prompt.messages.iter().position(|message| message.parts.iter().any(|part| is_it(&part)))?;
        let part = prompt.messages[at].parts.iter().find(is_it)?;
        let turn = turn_at(&prompt, at, &self.turns_before(lane, side, id));
        Some(Carried { block: canonical(&part.block), turn })
    }

    /// The turns whose replies a request may carry, the oldest first: those before it in its lane, and in a fork
    /// those of its parent up to the call that started it.
    fn turns_before(&self, lane: &LaneWork<'_>, side: usize, id: &RequestId) -> Vec<&'c Turn> {
        let lanes: &'c Lanes = &self.sides[side].ordered.lanes;
        let pair = &self.pairs[lane.number];
        let Some(at) = [pair.golden, pair.candidate][side] else { return Vec::new() };
        let own: &'c Lane = &lanes.lanes[at];
        let parent = own.parent.as_deref().filter(|_| own.kind == LaneKind::Fork);
        let parent = parent.and_then(|parent| lanes.lane(parent));
        let inherited = parent.map_or(&[][..], |parent| {
            let end = spawn_place(parent, own).map_or(parent.turns.len(), |(turn, _)| turn + 1);
            &parent.turns[..end]
        });
        let before = own.turns.iter().take_while(|turn| !turn.attempts.contains(id));
        inherited.iter().chain(before).collect()
    }

    /// The turn of the other side that a turn of this lane meets.
    fn turn_beside(&self, lane: &LaneWork<'_>, side: usize, turn: &Turn) -> Option<&'c Turn> {
        let pair = &self.pairs[lane.number];
        let lanes = [0, 1].map(|side| &self.sides[side].ordered.lanes.lanes);
        let of = |side: usize| [pair.golden, pair.candidate][side].map(|at| &lanes[side][at]);
        let at = of(side)?.turns.iter().position(|own| std::ptr::eq(own, turn))?;
        let row = pair.turns.iter().find(|row| [row.0, row.1][side] == Some(at))?;
        of(1 - side)?.turns.get([row.0, row.1][1 - side]?)
    }

    /// What the model said at a turn, in whichever attempt.
    fn reply(&mut self, side: usize, turn: Option<&Turn>) -> Rc<Vec<String>> {
        let Some(id) = turn.and_then(|turn| turn.attempts.last()) else { return Rc::default() };
        if let Some(known) = self.spoken[side].get(id) {
            return Rc::clone(known);
        }
        let attempts = turn.map(|turn| &turn.attempts[..]).unwrap_or_default();
        let said = attempts.iter().flat_map(|id| self.sides[side].requests.reply_blocks(id));
        let said = Rc::new(said.map(|block| canonical(&block)).collect::<Vec<_>>());
        self.spoken[side].insert(id.clone(), Rc::clone(&said));
        said
    }
}

/// Members of a block that hold what the model said, or what its provider made of it.
const SAID: &[&str] = &[
    "annotations",
    "citations",
    "content",
    "data",
    "encrypted_content",
    "id",
    "logprobs",
    "refusal",
    "signature",
    "summary",
    "text",
    "thinking",
];
/// Blocks that have nothing else but a few members of the harness's own.
const PLAIN: &[&str] = &["output_text", "reasoning", "redacted_thinking", "refusal", "text", "thinking"];

/// Whether two blocks of the model, given as JSON, differ in nothing but what it said.
pub(super) fn differ_in_words_only(key: &str, golden: &str, candidate: &str) -> bool {
    let parsed = [golden, candidate].map(serde_json::from_str::<Value>);
    let [Ok(Value::Object(mut mine)), Ok(Value::Object(mut theirs))] = parsed else { return true };
    for block in [&mut mine, &mut theirs] {
        block.retain(|name, _| !SAID.contains(&name.as_str()));
    }
    !PLAIN.contains(&key) || mine == theirs
}

/// The turn whose reply stands at a message. What the model said in a row is one reply; a reply is known by its
/// calls, and one without by its place: each before the one that follows it.
fn turn_at<'t>(prompt: &Prompt, at: usize, turns: &[&'t Turn]) -> Option<&'t Turn> {
    let is_reply = |at: usize| prompt.messages[at].role == Role::Assistant;
    let mut end = prompt.messages.len();
    let mut next = turns.len();
    while end > 0 {
        if !is_reply(end - 1) {
            end -= 1;
            continue;
        }
        let start = (0..end).rev().find(|at| !is_reply(*at)).map_or(0, |before| before + 1);
        let parts = prompt.messages[start..end].iter().flat_map(|message| &message.parts);
        let calls: Vec<_> = parts
            .filter_map(|part| match &part.block {
                Block::ToolCall(call) => Some(&call.id),
                _ => None,
            })
            .collect();
        let made = |turn: &&Turn| turn.calls.iter().any(|call| calls.contains(&&call.id));
        let said =
            |turn: &&Turn| calls.is_empty() && turn.calls.is_empty() && (turn.whole || turn.text.is_some());
        next = turns[..next].iter().rposition(|turn| made(turn) || said(turn))?;
        if start <= at {
            return Some(turns[next]);
        }
        end = start;
    }
    None
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
