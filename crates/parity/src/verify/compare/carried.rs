//! Content of the model that the harness carries back.
//!
//! Two models may say different things, which is given. Each side's carried content is therefore measured by what its
//! own model said at that place. A harness that changes it, or leaves it out, is judged by what it carries.

use std::collections::HashMap;
use std::rc::Rc;

use recording::lanes::{LaneKind, Turn};
use serde_json::Value;
use session::{Block, RequestId, Role};
use wire::dialect::{Dialect, Part, Prompt};

use super::{Comparer, LaneComparison};
use crate::verify::align::{PairedRecordings, spawn_place};
use crate::verify::project::Unit;

/// The replies of both models, as far as they were needed.
pub(super) struct CarriedReplies<'c> {
    recordings: &'c PairedRecordings<'c>,
    replies: [HashMap<RequestId, Rc<Vec<String>>>; 2],
}

/// A block that a request carries back, and the turn of the reply that contained it, if there is one in the lane.
struct CarriedBlock<'c> {
    block: String,
    turn: Option<&'c Turn>,
}

/// Returns whether two unequal blocks are each carried as its own model said it, and differ because the two replies do.
pub(super) fn are_given(cx: &mut Comparer<'_>, lane: &LaneComparison, units: [&Unit; 2]) -> bool {
    let carried = [0, 1].map(|side| cx.replies.carried_block(lane, side, units[side]));
    let [Some(mine), Some(theirs)] = carried else { return false };
    // If both models said the same, the harness made the difference.
    if mine.block == theirs.block {
        return false;
    }
    let replies = [cx.replies.reply(0, mine.turn), cx.replies.reply(1, theirs.turn)];
    replies[0] != replies[1] && replies[0].contains(&mine.block) && replies[1].contains(&theirs.block)
}

/// Returns whether one side carries a block because only its own model said it.
pub(super) fn is_given_unpaired(
    cx: &mut Comparer<'_>,
    lane: &LaneComparison,
    side: usize,
    unit: &Unit,
) -> bool {
    let Some(carried) = cx.replies.carried_block(lane, side, unit) else { return false };
    let other = carried.turn.and_then(|turn| cx.replies.aligned_turn(lane, side, turn));
    let (mine, theirs) = (cx.replies.reply(side, carried.turn), cx.replies.reply(1 - side, other));
    mine.contains(&carried.block) && !theirs.contains(&carried.block)
}

impl<'c> CarriedReplies<'c> {
    pub(super) fn new(recordings: &'c PairedRecordings<'c>) -> Self {
        Self { recordings, replies: Default::default() }
    }

    /// Returns the block of a unit in the request that is being compared.
    fn carried_block(&self, lane: &LaneComparison, side: usize, unit: &Unit) -> Option<CarriedBlock<'c>> {
        let id = lane.requests[side].as_ref()?;
        let asked = self.recordings.sides[side].recording.requests.request(id)?;
        let body = asked.body.bytes?;
        let prompt = Dialect::detect(&asked.url, &body)?.decode_request(&body).ok()?;
        let is_it = |part: &&Part| part.place.pointer == unit.pointer;
        let at = prompt.messages.iter().position(|message| message.parts.iter().any(|part| is_it(&part)))?;
        let part = prompt.messages[at].parts.iter().find(is_it)?;
        let turn = turn_at(&prompt, at, &self.turns_before(lane, side, id));
        Some(CarriedBlock { block: canonical(&part.block), turn })
    }

    /// Returns the turns with replies that a request may carry, the oldest first: those before it in its lane, and in a
    /// fork those of its parent up to the call that started it.
    fn turns_before(&self, lane: &LaneComparison, side: usize, id: &RequestId) -> Vec<&'c Turn> {
        let Some(own) = self.recordings.lane(side, lane.number) else { return Vec::new() };
        let parent = own.parent.as_deref().filter(|_| own.kind == LaneKind::Fork);
        let parent = parent.and_then(|parent| self.recordings.sides[side].lanes().lane(parent));
        let inherited = parent.map_or(&[][..], |parent| {
            let end = spawn_place(parent, own).map_or(parent.turns.len(), |(turn, _)| turn + 1);
            &parent.turns[..end]
        });
        let before = own.turns.iter().take_while(|turn| !turn.attempts.contains(id));
        inherited.iter().chain(before).collect()
    }

    /// Returns the other side's counterpart of a turn of this lane.
    fn aligned_turn(&self, lane: &LaneComparison, side: usize, turn: &Turn) -> Option<&'c Turn> {
        let own = self.recordings.lane(side, lane.number)?;
        let at = own.turns.iter().position(|own| std::ptr::eq(own, turn))?;
        let row =
            self.recordings.pairs[lane.number].turns.iter().find(|row| [row.0, row.1][side] == Some(at))?;
        self.recordings.lane(1 - side, lane.number)?.turns.get([row.0, row.1][1 - side]?)
    }

    /// Returns the blocks that the model said at a turn, in any attempt.
    fn reply(&mut self, side: usize, turn: Option<&Turn>) -> Rc<Vec<String>> {
        let Some(turn) = turn else { return Rc::default() };
        let Some(id) = turn.attempts.last() else { return Rc::default() };
        if let Some(known) = self.replies[side].get(id) {
            return Rc::clone(known);
        }
        let requests = self.recordings.sides[side].recording.requests;
        let blocks = turn.attempts.iter().flat_map(|id| requests.reply_blocks(id));
        let blocks = Rc::new(blocks.map(|block| canonical(&block)).collect::<Vec<_>>());
        self.replies[side].insert(id.clone(), Rc::clone(&blocks));
        blocks
    }
}

/// Members of a block with content of the model or of its provider.
const CONTENT_MEMBERS: &[&str] = &[
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
/// Blocks whose other members are the harness's own.
const PLAIN_BLOCKS: &[&str] =
    &["output_text", "reasoning", "redacted_thinking", "refusal", "text", "thinking"];

/// Returns whether two blocks of the model differ in its content only.
pub(super) fn differ_in_reply_only(units: [&Unit; 2]) -> bool {
    let parsed = units.map(|unit| serde_json::from_str::<Value>(&unit.json));
    let [Ok(Value::Object(mut mine)), Ok(Value::Object(mut theirs))] = parsed else { return true };
    for block in [&mut mine, &mut theirs] {
        block.retain(|name, _| !CONTENT_MEMBERS.contains(&name.as_str()));
    }
    !PLAIN_BLOCKS.contains(&units[0].key.as_str()) || mine == theirs
}

/// Returns the turn whose reply a message carries. Consecutive messages of the model are one reply. A reply is recognised
/// by its calls, and one without calls by its place before the next.
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

/// Returns the form of a block for comparison. The order of a call's arguments and its id do not count.
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
