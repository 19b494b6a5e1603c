//! The progress of one agent on a lane of the script.

use std::collections::HashMap;

use serde_saphyr::Spanned;
use session::{CallId, Reply};
use wire::dialect::Prompt;

use super::captures::CapturedValues;
use super::format::Turn;
use super::resumed::PriorTurns;

/// One agent of the harness on a lane of the script. Several agents may be on the same lane.
#[derive(Debug)]
pub(super) struct ScriptAgent {
    /// Index of the script's lane.
    pub(super) lane: usize,
    /// `-2` for the second agent on that lane, and so on; empty for the first.
    suffix: String,
    /// Name of the lane with the suffix.
    pub(super) name: String,
    /// Index of its current turn, and how often it was used in a row.
    at: usize,
    times: u32,
    /// Number of used turns.
    taken: u32,
    newest: NewestTurn,
    /// 1-based number of the furthest turn that was sent; 0 for none.
    reached: usize,
    /// Turns of requests that may be repeated.
    pub(super) found: HashMap<TurnKey, FoundTurn>,
    /// The newest sent id of each call that the script names.
    pub(super) calls: HashMap<String, CallId>,
    pub(super) values: CapturedValues,
}

/// The identity of a request: requests with equal keys get the same reply.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum TurnKey {
    /// Lane and turn in the tracker.
    Turn(usize, u32),
    /// The reply that the request continues.
    After(String),
}

/// The turn that was found for a request.
#[derive(Debug)]
pub(super) struct FoundTurn {
    pub(super) turn: usize,
    /// 1-based number of the turn among those of its agent.
    pub(super) number: u32,
    pub(super) reply: Option<Reply>,
}

/// State of the newest turn.
#[derive(Clone, Copy, Debug)]
enum NewestTurn {
    Unsent,
    Sent { has_calls: bool },
}

impl ScriptAgent {
    /// Creates the next agent on a lane with `before` earlier ones.
    pub(super) fn new(lane: usize, name: &str, before: usize) -> Self {
        let suffix = if before == 0 { String::new() } else { format!("-{}", before + 1) };
        Self {
            lane,
            name: format!("{name}{suffix}"),
            suffix,
            at: 0,
            times: 0,
            taken: 0,
            newest: NewestTurn::Unsent,
            reached: 0,
            found: HashMap::new(),
            calls: HashMap::new(),
            values: CapturedValues::default(),
        }
    }

    /// Returns the id to send for a call that the script names. Agents on one lane have different ones, independent of the
    /// timing of their calls.
    pub(super) fn call_id(&self, written: &str) -> String {
        format!("{written}{}", self.suffix)
    }

    /// Returns the index of the following turn, which may be the current one.
    fn following(&self, turns: &[Spanned<Turn>]) -> usize {
        if self.times < turns[self.at].value.times() { self.at } else { self.at + 1 }
    }

    /// Returns the first following turn whose `when` holds, or the reason why there is none.
    pub(super) fn next_turn(&self, turns: &[Spanned<Turn>], prompt: &Prompt) -> Result<usize, String> {
        let from = self.following(turns);
        let holds = |turn: &Turn| turn.when.as_ref().is_none_or(|when| when.value.holds(prompt));
        let found = turns.iter().enumerate().skip(from).find(|(_, turn)| holds(&turn.value));
        found.map(|(index, _)| index).ok_or_else(|| {
            let reason = if from == turns.len() {
                format!("all {from} turns of the script are used")
            } else {
                format!("the script has no turn from {} on whose `when` holds", from + 1)
            };
            format!("lane `{}` has no turn for its request {}: {reason}", self.name, self.taken + 1)
        })
    }

    /// Goes to a turn. Skipped turns are not used any more. Returns the number of the turn.
    pub(super) fn go_to(&mut self, turn: usize, key: TurnKey) -> u32 {
        self.step(turn);
        self.newest = NewestTurn::Unsent;
        self.found.insert(key, FoundTurn { turn, number: self.taken, reply: None });
        self.taken
    }

    fn step(&mut self, turn: usize) {
        self.times = if turn == self.at { self.times + 1 } else { 1 };
        self.at = turn;
        self.taken += 1;
    }

    /// Moves the agent to the turn after these.
    pub(super) fn resume(&mut self, prior: &PriorTurns) {
        (self.at, self.times, self.taken) = (prior.turn, prior.times, prior.replies);
        self.reached = prior.turn + 1;
        self.calls.extend(prior.calls.iter().cloned());
    }

    /// Notes that the last reply before this script was sent.
    pub(super) fn restore_reply(&mut self, has_calls: bool) {
        self.newest = NewestTurn::Sent { has_calls };
    }

    /// Skips the turns of errors that were sent before this script. Returns these turns.
    pub(super) fn restore_failures(&mut self, turns: &[Spanned<Turn>], times: u32) -> Vec<usize> {
        let mut skipped = Vec::new();
        for _ in 0..times {
            let next = self.following(turns);
            if turns.get(next).is_none_or(|turn| turn.value.error.is_none()) {
                break;
            }
            self.step(next);
            skipped.push(next);
        }
        skipped
    }

    /// Notes that the reply of a turn was sent.
    pub(super) fn mark_sent(&mut self, turn: usize, number: u32, has_calls: bool) {
        self.reached = self.reached.max(turn + 1);
        if number == self.taken {
            self.newest = NewestTurn::Sent { has_calls };
        }
    }

    /// Returns whether the turn with this 1-based number, or a later one, was sent.
    pub(super) fn has_reached(&self, turn: usize) -> bool {
        self.reached >= turn
    }

    /// Returns whether the newest reply was sent and no turn must follow: none is left, or the reply has no call and all
    /// remaining turns have a `when`.
    pub(super) fn is_finished(&self, turns: &[Spanned<Turn>]) -> bool {
        let NewestTurn::Sent { has_calls } = self.newest else { return false };
        let later = &turns[self.at + 1..];
        let is_last = later.is_empty() && self.times >= turns[self.at].value.times();
        is_last || (!has_calls && later.iter().all(|turn| turn.value.when.is_some()))
    }
}
