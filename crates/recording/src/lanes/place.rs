//! Where a request belongs: the questions that are asked of the lanes, in their order.
//!
//! Nothing here changes anything. `docs/reference/lanes.md` has the same rules as a table.

use std::collections::{HashMap, HashSet};

use session::{CallId, Role};

use super::asking::{Asking, Said, digest};
use super::identity::Identity;
use super::prompts::Claim;
use super::tracker::{LaneTracker, Mark, Spot};

/// How many lanes that look alike are asked whether their history was thrown away.
const REMEMBERED: usize = 64;
/// Words in a row that make a quotation.
const QUOTED: usize = 5;

/// Where a request belongs.
pub(super) enum Place {
    /// It asks a turn again.
    Again(Spot),
    /// A lane's next turn.
    Next(usize, Option<Mark>),
    /// It leaves a lane's history before this turn.
    Branch(Spot),
    /// It starts from a lane's history before this turn, with the prompt of a call or told that it is a fork.
    Fork(Spot, Option<CallId>),
    /// A lane of its own, whose forks came first and were taken for lanes of their own.
    Above,
    /// It carries a lane's history under quite other instructions.
    Aside(usize),
    /// It may be a lane whose history was thrown away.
    Reset(usize),
    /// A lane of its own.
    New(Option<Claim>),
}

/// How it is told that a history was thrown away, the surest last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Told {
    /// Only if the old one never goes on.
    Maybe,
    /// The new history quotes the old one's replies, or what was said about it, so many times.
    ByWords(usize),
    /// It keeps all that the old one began with.
    ByBeginning,
    /// An id says so.
    ById,
}

impl LaneTracker {
    /// The lane whose history a request without tools is about: it sums up or names what others said.
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

    /// A request in which the model has not said anything yet.
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
            (Some((_, lane)), _) => Place::Next(*lane, Some(Mark::Compaction)),
            (None, Some(lane)) => Place::Reset(*lane),
            (None, None) => Place::New(claim),
        }
    }

    /// Whether a first request is this lane's, with its history thrown away.
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
            // A summary may quote the prompts that were handed over. It is a new agent unless it looks
            // like the very lane that handed them over and each has its agent already.
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
        // All that it began with is still there, and more.
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
        // A sub-agent that has handed in its answer is done; of others, what becomes of them will tell.
        let waits = last.reply.as_ref().is_some_and(|reply| !reply.calls.is_empty());
        (waits || lane.claim.is_none()).then_some(Told::Maybe)
    }

    /// A request that carries a history.
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
        // A fork that failed is asked again, while its parent waits where it began; a question aside too.
        let begins_there = |spot: &Spot| self.lanes[spot.0].is_fork || self.lanes[spot.0].is_aside;
        let fails = |spot: &&Spot| begins_there(spot) && is_head(spot) && turn(spot).has_failed();
        if let Some(spot) = asked.iter().filter(fails).find(|spot| turn(spot).history == asking.history) {
            return Place::Again(*spot);
        }
        let told = says_it_is_a_fork(asking);
        if let Some(spot) = best(&mut awaited.iter().filter(is_head)) {
            let behind = (spot.0, spot.1 + 1);
            // Behind an empty reply the spine is what it was: only the rest can tell.
            return match self.fork_call(asking, spot) {
                // It sums up, or it is the agent's last word: known when the agent goes on, or does not.
                _ if lacks_tools(&spot) => Place::Aside(spot.0),
                _ if turn(&spot).history == asking.history => Place::Again(spot),
                call if call.is_some() || told => Place::Fork(behind, call),
                _ if self.speaks_otherwise(spot.0, asking) => Place::Aside(spot.0),
                _ => Place::Next(spot.0, None),
            };
        }
        // Forks whose parent has not been seen, as after a restart: whoever stands where they began is another of them, or
        // their parent.
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
            // A fork may leave out the reply that started it.
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
        // The reply that it carries is not known: in flight still, cut, or never recorded.
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
                true => Place::Next(spot.0, Some(Mark::Rewrite)),
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

    /// The lane whose first reply a request carries in other words, as where a harness leaves out what the model
    /// thought: all else is as it was there. Of twins it is the one whose reply has these words in it, then one that
    /// nobody has carried on yet, then the one that shares most of them.
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

    /// Whether it is the beginning of a fork of nobody that is known.
    pub(super) fn is_orphan(&self, (lane, turn): &Spot) -> bool {
        *turn == 0 && self.lanes[*lane].is_told && self.lanes[*lane].branch.is_none()
    }

    /// Whether a request has quite other instructions than a lane: it may be a question aside, with the same tools
    /// so that the prompt cache serves it too.
    fn speaks_otherwise(&self, lane: usize, asking: &Asking) -> bool {
        let known = &self.lanes[lane].voice;
        let shared = asking.voice.iter().filter(|word| known.contains(word)).count();
        !known.is_empty() && !asking.voice.is_empty() && 2 * shared < known.len().min(asking.voice.len())
    }

    /// Whether a request that carries a lane's history without its tools may be that lane's own. Under other
    /// instructions it is not the agent, nor where it brings no results though the agent had its say: it sums up, or
    /// names it.
    fn may_speak_for(&self, lane: usize, asking: &Asking) -> bool {
        !asking.results.is_empty()
            && self.lanes[lane].voice.is_empty() == asking.voice.is_empty()
            && !self.speaks_otherwise(lane, asking)
    }

    /// Of turns that a request may follow: the one that names the same agent, then the one whose
    /// own words it carries on, then the one that has waited longest.
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

    /// The call of that reply whose prompt the request hands on: it is not the caller that goes on.
    fn fork_call(&self, asking: &Asking, (lane, turn): Spot) -> Option<CallId> {
        let calls = &self.lanes[lane].turns[turn].reply.as_ref()?.calls;
        let claim = self.prompts.carried_by(asking.newest.iter().map(|said| said.text.as_str()))?;
        let handed = self.prompts.calls(claim.prompt).iter().filter(|call| calls.contains(call));
        // Forks of one reply with the same prompt take its calls in order.
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

/// Whether the newest words tell their reader that it is a fork, in a tag of that name: harnesses have no other way to say so.
pub(super) fn says_it_is_a_fork(asking: &Asking) -> bool {
    let opens = |said: &Said| said.text.trim_start().starts_with("<fork");
    asking.newest.iter().any(|said| said.role == Role::User && opens(said))
}

/// How many runs of words texts share with another one: so many words in a row are no accident.
fn quotations(texts: &[String], other: &str) -> usize {
    let words = |text: &str| -> Vec<u64> { text.split_whitespace().map(digest).collect() };
    let quotable: HashSet<Vec<u64>> = words(other).windows(QUOTED).map(<[u64]>::to_vec).collect();
    let shared = |text: &String| words(text).windows(QUOTED).filter(|run| quotable.contains(*run)).count();
    if quotable.is_empty() { 0 } else { texts.iter().map(shared).sum() }
}
