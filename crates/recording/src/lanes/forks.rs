//! Detection of forks that looked like the lane's next turn, and of the calls that started forks.
//!
//! A fork that answers the calls of a reply and adds a text looks like the next turn of its parent. Later the
//! parent continues from the same reply with other results and without that text. The calls were open all the
//! time, so the first continuation was the fork.

use std::collections::HashSet;

use session::CallId;

use super::state::{LaneTracker, TurnIndex, TurnState};

impl LaneTracker {
    /// Makes the parentless forks before a lane its children. Calls that were made before belong to the lane.
    pub(super) fn adopt_forks(&mut self, lane: usize, replies_digest: u64) {
        let orphans =
            self.turns_by_replies.get(&replies_digest).into_iter().flatten().filter(|at| self.is_orphan(at));
        for (fork, _) in orphans.copied().collect::<Vec<_>>() {
            (self.lanes[fork].origin.branch, self.lanes[fork].origin.is_fork) = (Some((lane, 0)), true);
            let said_before = self.calls.iter_mut().filter(|call| call.at == (fork, 0) && call.made_at == 0);
            said_before.for_each(|call| call.at = (lane, 0));
        }
    }

    /// Swaps the turns of a fork out of its parent's lane.
    pub(super) fn separate_forks(&mut self) {
        for number in 0..self.lanes.len() {
            let lane = &self.lanes[number];
            if let Some(at) =
                lane.origin.branch.filter(|_| !lane.origin.is_fork && !lane.origin.is_side_question)
                && self.belongs_to_fork(at, &lane.turns[0])
            {
                self.swap_turns(at, number);
            }
        }
    }

    /// Returns whether the turn at `at` belongs to a fork, judged by `other`, which follows the same reply.
    fn belongs_to_fork(&self, (base, at): TurnIndex, other: &TurnState) -> bool {
        let turns = &self.lanes[base].turns;
        let (Some(fork), Some(before)) = (turns.get(at), at.checked_sub(1).map(|at| &turns[at])) else {
            return false;
        };
        let is_said = |text: &str| other.texts.iter().any(|said| said.text == text);
        let speaks = fork.texts.iter().any(|said| !said.text.trim().is_empty());
        speaks
            && !fork.texts.iter().any(|said| is_said(&said.text))
            && self.calls_of(before).any(|call| is_answered_otherwise(call, fork, other))
    }

    /// Swaps the turns of `base` from `at` on with those of `fork`.
    fn swap_turns(&mut self, (base, at): TurnIndex, fork: usize) {
        let old = self.lanes[base].turns.split_off(at);
        let new = std::mem::replace(&mut self.lanes[fork].turns, old);
        self.lanes[base].turns.extend(new);
        let moved = |(lane, turn): TurnIndex| match lane {
            lane if lane == base && turn >= at => (fork, turn - at),
            lane if lane == fork => (base, at + turn),
            lane => (lane, turn),
        };
        self.calls.iter_mut().for_each(|call| call.at = moved(call.at));
        // A branch at that very point left the common history.
        let branches = self.lanes.iter_mut().filter_map(|lane| lane.origin.branch.as_mut());
        branches.filter(|branch| **branch != (base, at)).for_each(|branch| *branch = moved(*branch));
        self.lanes[fork].origin.is_fork = true;
    }

    /// Finds the call of each fork whose prompt does not name it: the call that got the fork's last text as its
    /// result, else the only open one.
    pub(super) fn bind_forks(&mut self, homes: &[usize]) {
        let taken = self.lanes.iter().filter_map(|lane| lane.origin.fork_call.clone());
        let mut taken: HashSet<CallId> = taken.collect();
        for tells in [Self::call_by_final_text, Self::call_by_order] {
            for lane in self.unbound(homes) {
                let Some(call) = tells(self, homes, lane, &self.open_calls(homes, lane, &taken)) else {
                    continue;
                };
                let call = self.calls[call].id.clone();
                taken.insert(call.clone());
                self.lanes[lane].origin.fork_call = Some(call);
            }
        }
    }

    /// Returns the forks without a call, in the order of their first requests.
    fn unbound(&self, homes: &[usize]) -> Vec<usize> {
        let is_unbound = |lane: &usize| {
            let state = &self.lanes[*lane];
            homes[*lane] == *lane
                && state.origin.branch.is_some()
                && state.origin.fork_call.is_none()
                && !state.origin.is_side_question
        };
        let mut forks: Vec<usize> = (0..self.lanes.len()).filter(is_unbound).collect();
        forks.sort_by_key(|lane| self.lanes[*lane].turns[0].attempts[0].asked_at);
        forks
    }

    /// Returns the calls that were open when a fork began: its parent has other results for them.
    fn open_calls(&self, homes: &[usize], lane: usize, taken: &HashSet<CallId>) -> Vec<usize> {
        let Some(next) = self.parent_turn_after(homes, lane) else { return Vec::new() };
        let first = &self.lanes[lane].turns[0];
        let is_open = |id: &&CallId| !taken.contains(*id) && is_answered_otherwise(id, first, next);
        let open = first.results.iter().map(|result| &result.call).filter(is_open);
        open.filter_map(|id| self.calls.iter().rposition(|call| call.id == *id)).collect()
    }

    /// Returns the parent's turn after the fork point.
    fn parent_turn_after(&self, homes: &[usize], lane: usize) -> Option<&TurnState> {
        let (base, at) = self.lanes[lane].origin.branch.filter(|(base, _)| homes[*base] == *base)?;
        self.lanes[base].turns.get(at)
    }

    fn call_by_final_text(&self, homes: &[usize], lane: usize, open: &[usize]) -> Option<usize> {
        open.iter().copied().find(|call| self.has_final_text_in(lane, &self.answers_of(homes, *call)))
    }

    /// Returns the only open call, if the fork had ended before it was answered.
    fn call_by_order(&self, homes: &[usize], lane: usize, open: &[usize]) -> Option<usize> {
        let next = self.parent_turn_after(homes, lane)?;
        let ended = self.lanes[lane].turns.last()?.attempts.last()?.ended_at?;
        open.first().copied().filter(|_| open.len() == 1 && ended < next.attempts[0].asked_at)
    }

    fn calls_of<'l>(&'l self, turn: &'l TurnState) -> impl Iterator<Item = &'l CallId> {
        let calls = turn.reply.iter().flat_map(|reply| &reply.calls);
        calls.map(|call| &self.calls[*call].id)
    }
}

/// Returns whether two turns carry different results of a call.
fn is_answered_otherwise(call: &CallId, one: &TurnState, other: &TurnState) -> bool {
    let of = [one, other].map(|turn| turn.results.iter().find(|result| result.call == *call));
    matches!(of, [Some(one), Some(other)] if one.text != other.text)
}
