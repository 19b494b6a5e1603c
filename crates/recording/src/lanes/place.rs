//! Placement of requests: the rules, in the order of their application.
//!
//! Nothing here changes the tracker. `docs/reference/lanes.md` has the same rules as a table.

use std::collections::{HashMap, HashSet};

use session::{CallId, Role};

use super::asking::{Asking, InjectedText, digest};
use super::identity::Identity;
use super::prompts::Claim;
use super::tracker::{LaneTracker, Spot, TurnMark};

/// Number of similar lanes that are checked for a compaction.
const REMEMBERED: usize = 64;
/// Number of equal words in a row that count as a quotation.
const QUOTED: usize = 5;

/// Placement of a request.
pub(super) enum Place {
    /// Another attempt at a turn.
    Again(Spot),
    /// Next turn of a lane.
    Next(usize, Option<TurnMark>),
    /// New lane that leaves another lane's history before this turn.
    Branch(Spot),
    /// Fork from a lane's history before this turn, known by the prompt of a call or by its own text.
    Fork(Spot, Option<CallId>),
    /// New lane whose forks came first and had no parent.
    Above,
    /// New lane that carries another lane's history under different instructions.
    Aside(usize),
    /// New lane that may be the compaction of another one.
    Reset(usize),
    /// New lane.
    New(Option<Claim>),
}

/// Evidence that a new history is a compaction of an old one, the strongest last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Told {
    /// None, except that the old lane never continues.
    Maybe,
    /// Number of quotations from the old lane's replies, or from texts about it.
    ByWords(usize),
    /// All opening texts of the old lane are still there.
    ByBeginning,
    /// Equal ids.
    ById,
}

impl LaneTracker {
    /// Returns the lane that a request without tools is about, such as for a summary or a title.
    pub(super) fn history_of(&self, place: &Place, asking: &Asking, identity: &Identity) -> Option<usize> {
        if !matches!(place, Place::New(None) | Place::Aside(_)) || asking.is_first() || asking.has_tools {
            return None;
        }
        let spots = self.awaited.get(&asking.spine()).or_else(|| self.asked.get(&asking.spine()))?;
        self.best(asking, identity, &mut spots.iter()).map(|spot| spot.0)
    }

    pub(super) fn place_behind(&self, asking: &Asking, (lane, turn): Spot) -> Place {
        match self.lanes[lane].turns.len() {
            length if length == turn + 1 => Place::Next(lane, None),
            _ if self.lanes[lane].turns[turn + 1].history == asking.history => Place::Again((lane, turn + 1)),
            _ => Place::Branch((lane, turn + 1)),
        }
    }

    /// Places a request without replies.
    pub(super) fn place_first(&self, asking: &Asking, identity: &Identity) -> Place {
        let agrees = |lane: &&usize| self.lanes[**lane].identity.agrees_with(identity);
        let alike = self.firsts.get(&asking.history).into_iter().flatten().filter(agrees);
        let failed = |lane: &&usize| {
            let lane = &self.lanes[**lane];
            lane.turns.len() == 1 && lane.branch.is_none() && lane.turns[0].has_failed()
        };
        if let Some(lane) = alike.clone().find(failed) {
            return Place::Again((*lane, 0));
        }
        let claim = self.prompts.carried_by(asking.opening.iter().map(String::as_str));
        let claim =
            claim.or_else(|| self.prompts.instructed_by(asking.instructions.iter().map(String::as_str)));
        let looks = self.looks.get(&(asking.system, asking.tools)).map_or(&[][..], Vec::as_slice);
        let looks = looks.iter().rev().filter(agrees);
        if claim.is_some() {
            let prompt = claim.as_ref().map(|claim| claim.prompt);
            let same = |lane: &&usize| self.lanes[**lane].claim.as_ref().map(|claim| claim.prompt) == prompt;
            if let Some(lane) = looks.clone().filter(same).find(failed) {
                return Place::Again((*lane, 0));
            }
        }
        let resets = looks
            .take(REMEMBERED)
            .filter_map(|lane| Some((self.reset_of(*lane, asking, claim.as_ref(), identity)?, *lane)));
        let resets: Vec<(Told, usize)> = resets.collect();
        let sure = resets.iter().filter(|(told, _)| *told != Told::Maybe).max_by_key(|(told, _)| *told);
        let waited =
            |lane: &usize| self.lanes[*lane].turns.last().and_then(|turn| turn.attempts.last()?.ended_at);
        let maybe = resets
            .iter()
            .map(|(_, lane)| lane)
            .filter(|lane| !self.reset.contains(*lane))
            .min_by_key(|lane| waited(lane));
        match (sure, maybe) {
            (Some((_, lane)), _) => Place::Next(*lane, Some(TurnMark::Compaction)),
            (None, Some(lane)) => Place::Reset(*lane),
            (None, None) => Place::New(claim),
        }
    }

    /// Returns the evidence that a first request is the compaction of a lane.
    fn reset_of(
        &self,
        number: usize,
        asking: &Asking,
        claim: Option<&Claim>,
        identity: &Identity,
    ) -> Option<Told> {
        let lane = &self.lanes[number];
        let last = lane.turns.last()?;
        let is_agent = asking.has_tools && !asking.is_probe;
        let chain = std::iter::successors(Some(lane), |lane| Some(&self.lanes[lane.reset?]));
        let starts_over = chain.into_iter().any(|lane| lane.openings.contains(&asking.gaps[0].texts));
        if !is_agent || starts_over || !last.is_whole() || last.is_open() {
            return None;
        }
        if let Some(claim) = claim {
            // A summary may quote prompts of calls. It is a new agent unless all calls with the prompt are in
            // this lane and each has its agent already.
            if claim.exact {
                return None;
            }
            let calls = self.prompts.calls(claim.prompt);
            let from_here = calls.iter().all(|call| self.calls[*call].spot.0 == number);
            let claims = self.lanes.iter().filter_map(|lane| lane.claim.as_ref());
            let taken = claims.filter(|other| other.prompt == claim.prompt).count();
            if !from_here || taken < calls.len() {
                return None;
            }
        }
        if lane.identity.names_the_same_as(identity) {
            return Some(Told::ById);
        }
        // The opening texts are still there, with others.
        let began = lane.openings.first().filter(|texts| !texts.is_empty());
        if began.is_some_and(|texts| texts.iter().all(|text| asking.gaps[0].texts.contains(text))) {
            return Some(Told::ByBeginning);
        }
        let newest = lane.turns.iter().rev().take(3).filter_map(|turn| turn.reply.as_ref()?.text.as_ref());
        let quoted =
            newest.chain(lane.notes.iter().rev().take(3)).map(|text| quotations(&asking.opening, text));
        if let Some(runs) = quoted.max().filter(|runs| *runs > 0) {
            return Some(Told::ByWords(runs));
        }
        // A sub-agent that has answered is done. For other lanes, their future decides.
        let waits = last.reply.as_ref().is_some_and(|reply| !reply.calls.is_empty());
        (waits || lane.claim.is_none()).then_some(Told::Maybe)
    }

    /// Places a request with replies.
    pub(super) fn place_later(&self, asking: &Asking, identity: &Identity) -> Place {
        let lacks_tools = |spot: &Spot| self.lanes[spot.0].has_tools && !asking.has_tools;
        let agrees = |spot: &&Spot| {
            let may_be_its_own = !lacks_tools(spot) || self.may_speak_for(spot.0, asking);
            may_be_its_own && self.lanes[spot.0].identity.agrees_with(identity)
        };
        let is_head = |spot: &&Spot| self.lanes[spot.0].turns.len() == spot.1 + 1;
        let of = |index: &HashMap<u64, Vec<Spot>>, spine: &u64| -> Vec<Spot> {
            index.get(spine).into_iter().flatten().filter(agrees).copied().collect()
        };
        let best = |spots: &mut dyn Iterator<Item = &Spot>| self.best(asking, identity, spots);
        let turn = |spot: &Spot| &self.lanes[spot.0].turns[spot.1];
        let spine = asking.spine();

        let awaited = of(&self.awaited, &spine);
        let asked = of(&self.asked, &spine);
        // A failed fork is retried while its parent waits at the fork point, and so is a failed side question.
        let begins_there = |spot: &Spot| self.lanes[spot.0].is_fork || self.lanes[spot.0].is_aside;
        let fails = |spot: &&Spot| begins_there(spot) && is_head(spot) && turn(spot).has_failed();
        if let Some(spot) = asked.iter().filter(fails).find(|spot| turn(spot).history == asking.history) {
            return Place::Again(*spot);
        }
        let told = says_it_is_a_fork(asking);
        if let Some(spot) = best(&mut awaited.iter().filter(is_head)) {
            let behind = (spot.0, spot.1 + 1);
            // An empty reply does not change the spine, so the rest of the history decides.
            return match self.fork_call(asking, spot) {
                // A summary, or the agent's final answer: known when the agent continues or does not.
                _ if lacks_tools(&spot) => Place::Aside(spot.0),
                _ if turn(&spot).history == asking.history => Place::Again(spot),
                call if call.is_some() || told => Place::Fork(behind, call),
                _ if self.speaks_otherwise(spot.0, asking) => Place::Aside(spot.0),
                _ => Place::Next(spot.0, None),
            };
        }
        // Forks without a known parent, as after a restart: another request from their fork point is a fork,
        // too, or their parent.
        let is_again = |spot: &Spot| turn(spot).history == asking.history;
        let mut orphans = asked.iter().filter(|spot| self.is_orphan(spot)).peekable();
        if awaited.is_empty() && orphans.peek().is_some() && !orphans.any(is_again) {
            return if told { Place::New(None) } else { Place::Above };
        }
        let repeats =
            |spot: &&Spot| is_head(spot) && (turn(spot).has_failed() || turn(spot).history == asking.history);
        if let Some(spot) = best(&mut asked.iter().filter(repeats)) {
            return Place::Again(spot);
        }
        if let Some(spot) = best(&mut awaited.iter()) {
            let behind = (spot.0, spot.1 + 1);
            // A fork may omit the reply that started it.
            let call = self.fork_call(asking, spot).or_else(|| self.fork_call(asking, behind));
            return match call.is_some() || told {
                true => Place::Fork(behind, call),
                false => Place::Branch(behind),
            };
        }
        if let Some(spot) = best(&mut asked.iter()) {
            let call = self.fork_call(asking, spot);
            return match call.is_some() || told {
                true => Place::Fork(spot, call),
                false => Place::Branch(spot),
            };
        }
        // The last reply is unknown: still in flight, cut, or never recorded.
        for (at, spine) in asking.said.iter().enumerate().rev().skip(1) {
            let opens_alike = |spot: &&Spot| {
                at > 0 || self.lanes[spot.0].gaps.first().map(|gap| &gap.texts) == Some(&asking.gaps[0].texts)
            };
            let unknown = |spot: &&Spot| is_head(spot) && !turn(spot).is_whole() && opens_alike(spot);
            if let Some(spot) = best(&mut of(&self.asked, spine).iter().filter(unknown)) {
                return Place::Next(spot.0, None);
            }
        }
        if let Some(spot) = asking.last.and_then(|atom| self.said.get(&atom)).filter(agrees) {
            return match is_head(&spot) {
                true => Place::Next(spot.0, Some(TurnMark::Rewrite)),
                false => Place::Branch((spot.0, spot.1 + 1)),
            };
        }
        for spine in asking.said.iter().rev().skip(1).take(asking.said.len().saturating_sub(2)) {
            if let Some(spot) = best(&mut of(&self.awaited, spine).iter()) {
                return Place::Branch((spot.0, spot.1 + 1));
            }
        }
        match self.rewords(asking, identity) {
            Some(lane) => Place::Branch((lane, 1)),
            None => Place::New(None),
        }
    }

    /// Finds the lane whose first reply the request carries in other words, as when a harness removes thinking.
    /// Everything else must be equal. Among equal lanes it prefers one whose reply contains these words, then
    /// one that was not continued yet, then the one with most words in common.
    fn rewords(&self, asking: &Asking, identity: &Identity) -> Option<usize> {
        let alike = self.looks.get(&(asking.system, asking.tools))?;
        if asking.said.len() != 2 || !asking.results.is_empty() {
            return None;
        }
        let is_it = |lane: &&usize| {
            let lane = &self.lanes[**lane];
            let opens_alike = lane.gaps.first().map(|gap| &gap.texts) == Some(&asking.gaps[0].texts);
            let reply = lane.turns.first().and_then(|turn| turn.reply.as_ref());
            let is_talk = reply.is_some_and(|reply| reply.calls.is_empty());
            let is_young = lane.turns.len() == 1 && lane.branch.is_none() && lane.turns[0].is_whole();
            is_young && opens_alike && is_talk && lane.identity.agrees_with(identity)
        };
        let taken: HashSet<Spot> = self.lanes.iter().filter_map(|lane| lane.branch).collect();
        let words: HashSet<&str> = asking.first_words.split_whitespace().collect();
        let rank = |lane: &&usize| {
            let reply = self.lanes[**lane].turns[0].reply.as_ref();
            let said = reply.and_then(|reply| reply.text.as_deref()).unwrap_or_default();
            let shared = said.split_whitespace().collect::<HashSet<_>>().intersection(&words).count();
            let is_free = !taken.contains(&(**lane, 1));
            (said.contains(&asking.first_words), is_free, shared, std::cmp::Reverse(**lane))
        };
        alike.iter().filter(is_it).max_by_key(rank).copied()
    }

    /// Returns whether a turn is the start of a fork without a known parent.
    pub(super) fn is_orphan(&self, (lane, turn): &Spot) -> bool {
        *turn == 0 && self.lanes[*lane].is_told && self.lanes[*lane].branch.is_none()
    }

    /// Returns whether a request's instructions differ much from a lane's. It may be a side question that keeps
    /// the tools to share the prompt cache.
    fn speaks_otherwise(&self, lane: usize, asking: &Asking) -> bool {
        let known = &self.lanes[lane].voice;
        let shared = asking.voice.iter().filter(|word| known.contains(word)).count();
        !known.is_empty() && !asking.voice.is_empty() && 2 * shared < known.len().min(asking.voice.len())
    }

    /// Returns whether a request with a lane's history but without its tools may belong to the lane. Not with
    /// other instructions, and not without results after the agent's answer: such a request summarises or names
    /// it.
    fn may_speak_for(&self, lane: usize, asking: &Asking) -> bool {
        !asking.results.is_empty()
            && self.lanes[lane].voice.is_empty() == asking.voice.is_empty()
            && !self.speaks_otherwise(lane, asking)
    }

    /// Selects among turns that a request may follow: first by equal ids, then by equal texts of the harness,
    /// then by the longest wait.
    fn best(
        &self,
        asking: &Asking,
        identity: &Identity,
        spots: &mut dyn Iterator<Item = &Spot>,
    ) -> Option<Spot> {
        let rank = |spot: &&Spot| {
            let lane = &self.lanes[spot.0];
            let named = lane.identity.names_the_same_as(identity);
            let carried = lane.gaps.iter().zip(&asking.gaps).take_while(|(old, new)| old == new).count();
            let waiting = lane.turns[spot.1].attempts.last().and_then(|attempt| attempt.ended_at);
            (
                named,
                carried,
                lane.system == asking.system,
                std::cmp::Reverse(waiting),
                std::cmp::Reverse(spot.0),
            )
        };
        spots.max_by_key(rank).copied()
    }

    /// Returns the call of that reply whose prompt the request carries. Then the request is a fork, not the
    /// caller.
    fn fork_call(&self, asking: &Asking, (lane, turn): Spot) -> Option<CallId> {
        let calls = &self.lanes[lane].turns[turn].reply.as_ref()?.calls;
        let claim = self.prompts.carried_by(asking.newest.iter().map(|said| said.text.as_str()))?;
        let handed = self.prompts.calls(claim.prompt).iter().filter(|call| calls.contains(call));
        // Forks of one reply with equal prompts take its calls in order.
        let taken =
            |call: &&usize| self.lanes.iter().any(|lane| lane.fork.as_ref() == Some(&self.calls[**call].id));
        let call = handed.clone().find(|call| !taken(call)).or_else(|| handed.clone().next())?;
        let open = |id: &CallId| calls.iter().any(|call| self.calls[*call].id == *id);
        let answers = asking.results.iter().filter(|result| open(&result.call));
        let answers: Vec<&str> = answers.map(|result| result.text.as_str()).collect();
        let placeholders = answers.windows(2).all(|pair| pair[0] == pair[1]);
        (claim.exact || placeholders).then(|| self.calls[*call].id.clone())
    }
}

/// Returns whether the newest texts start with a tag named `fork`. Harnesses have no other way to mark a fork.
pub(super) fn says_it_is_a_fork(asking: &Asking) -> bool {
    let opens = |said: &InjectedText| said.text.trim_start().starts_with("<fork");
    asking.newest.iter().any(|said| said.role == Role::User && opens(said))
}

/// Counts the runs of words that the texts share with another one.
fn quotations(texts: &[String], other: &str) -> usize {
    let words = |text: &str| -> Vec<u64> { text.split_whitespace().map(digest).collect() };
    let quotable: HashSet<Vec<u64>> = words(other).windows(QUOTED).map(<[u64]>::to_vec).collect();
    let shared = |text: &String| words(text).windows(QUOTED).filter(|run| quotable.contains(*run)).count();
    if quotable.is_empty() { 0 } else { texts.iter().map(shared).sum() }
}
