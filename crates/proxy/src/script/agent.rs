//! One agent as it plays a lane of the script.

use std::collections::HashMap;

use serde_saphyr::Spanned;
use session::{CallId, Reply};
use wire::dialect::Prompt;

use super::format::Turn;
use super::resumed::Past;
use super::values::Values;

/// One agent: a lane as the harness runs it. Several may play the same lane of the script.
#[derive(Debug)]
pub(super) struct Agent {
    /// The index of the script's lane.
    pub(super) lane: usize,
    /// The how manieth it is on that lane, as in `-2`; nothing for the first.
    suffix: String,
    /// The lane's name with that.
    pub(super) name: String,
    /// The turn it is at, and how often that was taken.
    at: usize,
    times: u32,
    /// How many turns were taken in all.
    taken: u32,
    newest: Newest,
    /// The furthest turn that was sent, from 1; 0 for none.
    reached: usize,
    /// What was found for requests that may come again.
    pub(super) found: HashMap<Key, Found>,
    /// The script's ids of calls, and the newest that each went out with.
    pub(super) calls: HashMap<String, CallId>,
    pub(super) values: Values,
}

/// What makes two requests ask for the same reply.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    /// The tracker's numbers of the lane and of the turn in it.
    Turn(usize, u32),
    /// The reply that a request says it continues.
    After(String),
}

/// The turn that was found for a request.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) turn: usize,
    /// The how manieth of its agent it is.
    pub(super) number: u32,
    pub(super) said: Option<Reply>,
}

/// What became of the newest turn.
#[derive(Clone, Copy, Debug)]
enum Newest {
    Unsent,
    Sent { calls: bool },
}

impl Agent {
    /// The next agent on a lane that has had so many before.
    pub(super) fn new(lane: usize, name: &str, before: usize) -> Self {
        let suffix = if before == 0 { String::new() } else { format!("-{}", before + 1) };
        Self {
            lane,
            name: format!("{name}{suffix}"),
            suffix,
            at: 0,
            times: 0,
            taken: 0,
            newest: Newest::Unsent,
            reached: 0,
            found: HashMap::new(),
            calls: HashMap::new(),
            values: Values::default(),
        }
    }

    /// The id of a call that the script names so. Agents on one lane must not share it, and which of
    /// them has which must not depend on who is quicker.
    pub(super) fn call_id(&self, written: &str) -> String {
        format!("{written}{}", self.suffix)
    }

    /// The turn that follows, which may be the same once more.
    fn following(&self, turns: &[Spanned<Turn>]) -> usize {
        if self.times < turns[self.at].value.times() { self.at } else { self.at + 1 }
    }

    /// The first turn from here on whose `when` holds; else in words why there is none.
    pub(super) fn next(&self, turns: &[Spanned<Turn>], prompt: &Prompt) -> Result<usize, String> {
        let from = self.following(turns);
        let holds = |turn: &Turn| turn.when.as_ref().is_none_or(|when| when.value.holds(prompt));
        let found = turns.iter().enumerate().skip(from).find(|(_, turn)| holds(&turn.value));
        found.map(|(index, _)| index).ok_or_else(|| {
            let reason = if from == turns.len() {
                format!("all {from} turns of the script are said")
            } else {
                format!("the script has no turn from {} on whose `when` holds", from + 1)
            };
            format!("lane `{}` has no turn for its request {}: {reason}", self.name, self.taken + 1)
        })
    }

    /// Goes to a turn; what was skipped is gone.
    pub(super) fn go(&mut self, turn: usize, key: Key) -> u32 {
        self.step(turn);
        self.newest = Newest::Unsent;
        self.found.insert(key, Found { turn, number: self.taken, said: None });
        self.taken
    }

    fn step(&mut self, turn: usize) {
        self.times = if turn == self.at { self.times + 1 } else { 1 };
        self.at = turn;
        self.taken += 1;
    }

    /// Begins behind what was said before this script was there.
    pub(super) fn resume(&mut self, past: &Past) {
        (self.at, self.times, self.taken) = (past.turn, past.times, past.replies);
        self.reached = past.turn + 1;
        self.calls.extend(past.calls.iter().cloned());
    }

    /// The last of what was said before is said in full.
    pub(super) fn has_said(&mut self, calls: bool) {
        self.newest = Newest::Sent { calls };
    }

    /// So many errors were told before; gives the turns that told them.
    pub(super) fn has_failed(&mut self, turns: &[Spanned<Turn>], times: u32) -> Vec<usize> {
        let mut told = Vec::new();
        for _ in 0..times {
            let next = self.following(turns);
            if turns.get(next).is_none_or(|turn| turn.value.error.is_none()) {
                break;
            }
            self.step(next);
            told.push(next);
        }
        told
    }

    /// A turn has left in full.
    pub(super) fn sent(&mut self, turn: usize, number: u32, calls: bool) {
        self.reached = self.reached.max(turn + 1);
        if number == self.taken {
            self.newest = Newest::Sent { calls };
        }
    }

    /// Whether the turn, counted from 1, or a later one was sent.
    pub(super) fn has_reached(&self, turn: usize) -> bool {
        self.reached >= turn
    }

    /// Whether the newest reply was sent and nothing must follow: there is nothing left, or it called
    /// no tool and all that is left depends on something.
    pub(super) fn is_finished(&self, turns: &[Spanned<Turn>]) -> bool {
        let Newest::Sent { calls } = self.newest else { return false };
        let later = &turns[self.at + 1..];
        let over = later.is_empty() && self.times >= turns[self.at].value.times();
        over || (!calls && later.iter().all(|turn| turn.value.when.is_some()))
    }
}
