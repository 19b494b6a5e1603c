//! Placement of requests: the rules, in the order of their application.
//!
//! Nothing here changes the tracker. `docs/reference/lanes.md` has the same rules as a table.

use std::collections::{HashMap, HashSet};

use session::{CallId, Role};

use super::identity::Identity;
use super::jobs::all_words;
use super::prompts::PromptMatch;
use super::request::{InjectedText, LaneRequest, QUOTED, atom_of_call, digest};
use super::state::{LaneTracker, TurnIndex, TurnMark};

/// Number of similar lanes that are checked for a compaction.
const REMEMBERED: usize = 64;
/// Number of newest replies of a lane that are searched for quotations.
const QUOTABLE: usize = 8;

/// Placement of a request.
pub(super) enum Placement {
    /// Another attempt at a turn.
    Retry(TurnIndex),
    /// Next turn of a lane.
    Next(usize, Option<TurnMark>),
    /// New lane that leaves another lane's history before this turn.
    Branch(TurnIndex),
    /// Fork from a lane's history before this turn, known by the prompt of a call or by its own text.
    Fork(TurnIndex, Option<CallId>),
    /// New lane whose forks came first and had no parent.
    ForkParent,
    /// New lane that carries another lane's history under different instructions.
    SideQuestion(usize),
    /// New lane.
    New(Option<PromptMatch>),
}

/// Evidence that a new history is a compaction of an old one, the strongest last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ResetEvidence {
    /// Number of quotations from the old lane's replies, or from texts about it.
    Quotations(usize),
    /// The id of a call.
    CallId,
    /// Equal ids of the sender.
    SenderId,
}

impl LaneTracker {
    /// Returns the lane that a request without tools is about, such as for a summary or a title.
    pub(super) fn subject_of(
        &self,
        place: &Placement,
        request: &LaneRequest,
        identity: &Identity,
    ) -> Option<usize> {
        if !matches!(place, Placement::New(None) | Placement::SideQuestion(_))
            || request.is_first()
            || request.has_tools
        {
            return None;
        }
        let turns = self
            .turns_by_replies_after
            .get(&request.replies_digest())
            .or_else(|| self.turns_by_replies.get(&request.replies_digest()))?;
        self.best_turn(request, identity, &mut turns.iter()).map(|at| at.0)
    }

    pub(super) fn place_after_reply(&self, request: &LaneRequest, (lane, turn): TurnIndex) -> Placement {
        match self.lanes[lane].turns.len() {
            length if length == turn + 1 => Placement::Next(lane, None),
            _ if self.lanes[lane].turns[turn + 1].history == request.history => {
                Placement::Retry((lane, turn + 1))
            }
            _ => Placement::Branch((lane, turn + 1)),
        }
    }

    /// Places a request without replies: another attempt, a compaction, or a new conversation.
    pub(super) fn place_without_history(&self, request: &LaneRequest, identity: &Identity) -> Placement {
        let agrees = |lane: &&usize| {
            let lane = &self.lanes[**lane];
            lane.setup.dialect == request.dialect
                && lane.identity.shares_endpoint_with(identity)
                && lane.identity.agrees_with(identity)
        };
        let failed = |lane: &&usize| {
            let lane = &self.lanes[**lane];
            lane.turns.len() == 1 && lane.origin.branch.is_none() && lane.turns[0].has_failed()
        };
        // A harness may retry with another model. The last request may be a compaction that failed.
        let equal = self.turns_by_first_request.get(&request.history).into_iter().flatten();
        let failed_turn = |(lane, turn): &&TurnIndex| {
            let turns = &self.lanes[*lane].turns;
            turns.len() == turn + 1 && turns[*turn].has_failed()
        };
        if let Some(at) = equal.filter(|at| agrees(&&at.0)).find(failed_turn) {
            return Placement::Retry(*at);
        }
        let texts = request.opening_texts.iter().map(String::as_str);
        let prompt_match = self.prompts.find_in(texts, request.first_user_text.as_deref());
        let prompt_match = prompt_match
            .or_else(|| self.prompts.find_in_instructions(request.instructions.iter().map(String::as_str)));
        let similar = self.lanes_by_setup.get(&request.setup()).map_or(&[][..], Vec::as_slice);
        let similar = similar.iter().rev().filter(agrees);
        if let Some(prompt_match) = &prompt_match {
            let has_prompt = |lane: &&usize| self.has_prompt(**lane, prompt_match);
            if let Some(lane) = similar.clone().filter(has_prompt).find(failed) {
                return Placement::Retry((*lane, 0));
            }
        }
        let resets = similar.take(REMEMBERED).filter_map(|lane| {
            let evidence = self.reset_evidence(*lane, request, prompt_match.as_ref(), identity)?;
            Some((evidence, *lane))
        });
        match resets.max_by_key(|(evidence, _)| *evidence) {
            Some((_, lane)) => Placement::Next(lane, Some(TurnMark::Compaction)),
            None => Placement::New(prompt_match),
        }
    }

    /// Returns the evidence that a first request is the compaction of a lane.
    ///
    /// It goes before evidence of a spawn: the compaction of a sub-agent repeats the prompt of its call.
    fn reset_evidence(
        &self,
        number: usize,
        request: &LaneRequest,
        prompt_match: Option<&PromptMatch>,
        identity: &Identity,
    ) -> Option<ResetEvidence> {
        let lane = &self.lanes[number];
        let last = lane.turns.last()?;
        let is_agent = request.has_tools && !request.is_probe;
        // The same opening is another sample.
        let starts_over = lane.openings.contains(&request.gaps[0].texts);
        if !is_agent || starts_over || !last.is_whole() || last.is_open() {
            return None;
        }
        // Sub-agents may send the session of their parent, but they carry the prompt of their call.
        let is_its_own = prompt_match.is_none_or(|prompt_match| self.has_prompt(number, prompt_match));
        if lane.identity.names_the_same_as(identity) && (identity.agent.is_some() || is_its_own) {
            return Some(ResetEvidence::SenderId);
        }
        // The prompt of a call may quote its parent.
        let texts = request.opening_texts.iter().filter(|text| !self.prompts.is_known(text));
        let texts: Vec<&str> = texts.map(String::as_str).collect();
        if self.names_a_call(number, &texts) {
            return Some(ResetEvidence::CallId);
        }
        let replies = lane.turns.iter().rev().take(QUOTABLE);
        let replies = replies.filter_map(|turn| turn.reply.as_ref()?.text.as_ref());
        let quotable = replies.chain(lane.notes.iter().rev().take(QUOTABLE)).map(String::as_str);
        let runs = count_quotations(&texts, quotable, &lane.origin.opening_texts);
        (runs > 0).then_some(ResetEvidence::Quotations(runs))
    }

    /// Returns whether a lane began with that prompt.
    fn has_prompt(&self, lane: usize, prompt_match: &PromptMatch) -> bool {
        let own = self.lanes[lane].origin.prompt_match.as_ref();
        own.is_some_and(|own| own.prompt == prompt_match.prompt)
    }

    /// Returns whether texts contain the id of a call that the lane made.
    fn names_a_call(&self, lane: usize, texts: &[&str]) -> bool {
        texts.iter().flat_map(|text| all_words(text)).any(|word| {
            let made_at = self.turns_by_atom.get(&atom_of_call(&CallId::new(word)));
            made_at.and_then(|turns| turns.last()).is_some_and(|(maker, _)| *maker == lane)
        })
    }

    /// Places a request with replies.
    pub(super) fn place_with_history(&self, request: &LaneRequest, identity: &Identity) -> Placement {
        let lacks_tools = |at: &TurnIndex| self.lanes[at.0].setup.has_tools && !request.has_tools;
        let told = is_marked_fork(request);
        // A fork is an agent of its own, whose first request carries the history of another.
        let is_new_agent =
            identity.agent.is_some() && self.lanes.iter().all(|lane| lane.identity.agent != identity.agent);
        let may_fork = |at: &TurnIndex| is_new_agent && (told || self.fork_call(request, *at).is_some());
        let agrees = |at: &&TurnIndex| {
            let may_be_its_own = !lacks_tools(at) || self.may_belong_to(at.0, request);
            may_be_its_own
                && self.lanes[at.0].setup.dialect == request.dialect
                && (self.lanes[at.0].identity.agrees_with(identity) || may_fork(at))
        };
        let is_head = |at: &&TurnIndex| self.lanes[at.0].turns.len() == at.1 + 1;
        let of = |index: &HashMap<u64, Vec<TurnIndex>>, replies: &u64| -> Vec<TurnIndex> {
            let found = index.get(replies).into_iter().flatten().filter(agrees).copied().collect();
            self.nearest_openings(found, request, identity)
        };
        let best = |turns: &mut dyn Iterator<Item = &TurnIndex>| self.best_turn(request, identity, turns);
        let turn = |at: &TurnIndex| &self.lanes[at.0].turns[at.1];
        let replies_digest = request.replies_digest();

        let awaited = of(&self.turns_by_replies_after, &replies_digest);
        let asked = of(&self.turns_by_replies, &replies_digest);
        // A failed fork is retried while its parent waits at the fork point, and so is a failed side question.
        let begins_there =
            |at: &TurnIndex| self.lanes[at.0].origin.is_fork || self.lanes[at.0].origin.is_side_question;
        let fails = |at: &&TurnIndex| begins_there(at) && is_head(at) && turn(at).has_failed();
        if let Some(at) = asked.iter().filter(fails).find(|at| turn(at).history == request.history) {
            return Placement::Retry(*at);
        }
        if let Some(at) = best(&mut awaited.iter().filter(is_head)) {
            let behind = (at.0, at.1 + 1);
            // An empty reply does not change the digest, so the rest of the history decides.
            return match self.fork_call(request, at) {
                // A summary, or the agent's final answer: known when the agent continues or does not.
                _ if lacks_tools(&at) => Placement::SideQuestion(at.0),
                _ if turn(&at).history == request.history => Placement::Retry(at),
                call if call.is_some() || told => Placement::Fork(behind, call),
                _ if self.has_other_instructions(at.0, request) => Placement::SideQuestion(at.0),
                _ => Placement::Next(at.0, None),
            };
        }
        // Forks without a known parent, as after a restart: another request from their fork point is a fork,
        // too, or their parent.
        let is_again = |at: &TurnIndex| turn(at).history == request.history;
        let mut orphans = asked.iter().filter(|at| self.is_orphan(at)).peekable();
        if awaited.is_empty() && orphans.peek().is_some() && !orphans.any(is_again) {
            return if told { Placement::New(None) } else { Placement::ForkParent };
        }
        let asked: Vec<TurnIndex> =
            asked.into_iter().filter(|at| told || !self.begins_beside(at, request)).collect();
        let repeats =
            |at: &&TurnIndex| is_head(at) && (turn(at).has_failed() || turn(at).history == request.history);
        if let Some(at) = best(&mut asked.iter().filter(repeats)) {
            return Placement::Retry(at);
        }
        if let Some(at) = best(&mut awaited.iter()) {
            let behind = (at.0, at.1 + 1);
            // A fork may omit the reply that started it.
            let call = self.fork_call(request, at).or_else(|| self.fork_call(request, behind));
            return match call.is_some() || told {
                true => Placement::Fork(behind, call),
                false => Placement::Branch(behind),
            };
        }
        if let Some(at) = best(&mut asked.iter()) {
            let call = self.fork_call(request, at);
            return match call.is_some() || told {
                true => Placement::Fork(at, call),
                false => Placement::Branch(at),
            };
        }
        // The last reply is unknown: still in flight, cut, or never recorded.
        for (index, replies_digest) in request.replies_digests.iter().enumerate().rev().skip(1) {
            let opens_alike = |at: &&TurnIndex| {
                index > 0
                    || self.lanes[at.0].gaps.first().map(|gap| &gap.texts) == Some(&request.gaps[0].texts)
            };
            let unknown = |at: &&TurnIndex| is_head(at) && !turn(at).is_whole() && opens_alike(at);
            if let Some(at) = best(&mut of(&self.turns_by_replies, replies_digest).iter().filter(unknown)) {
                return Placement::Next(at.0, None);
            }
        }
        // The beginning may be missing. A turn that the same replies precede is no earlier one.
        let carried = request.last_atom.map(|atom| of(&self.turns_by_atom, &atom)).unwrap_or_default();
        let is_earlier = |at: &&TurnIndex| turn(at).replies_digest != replies_digest;
        if let Some(at) = carried.iter().rfind(is_earlier).copied() {
            return match self.summarised_lane(at.0, request) {
                Some(lane) => Placement::Next(lane, Some(TurnMark::Compaction)),
                None if is_head(&&at) => Placement::Next(at.0, Some(TurnMark::Rewrite)),
                None => Placement::Branch((at.0, at.1 + 1)),
            };
        }
        for replies_digest in
            request.replies_digests.iter().rev().skip(1).take(request.replies_digests.len().saturating_sub(2))
        {
            if let Some(at) = best(&mut of(&self.turns_by_replies_after, replies_digest).iter()) {
                return Placement::Branch((at.0, at.1 + 1));
            }
        }
        match self.find_reworded(request, identity) {
            Some(lane) => Placement::Branch((lane, 1)),
            None => Placement::New(None),
        }
    }

    /// Keeps the turns of conversations that opened as the request does, if there are any. A few words, which any
    /// conversation may contain, continue no other one.
    fn nearest_openings(
        &self,
        mut found: Vec<TurnIndex>,
        request: &LaneRequest,
        identity: &Identity,
    ) -> Vec<TurnIndex> {
        let lane = |at: &TurnIndex| &self.lanes[at.0];
        let is_clear = found.len() < 2 && !request.has_few_words;
        if is_clear || found.iter().any(|at| lane(at).identity.names_the_same_as(identity)) {
            return found;
        }
        let opening = &request.gaps[0].texts;
        let is_equal = |at: &TurnIndex| lane(at).gaps.first().is_some_and(|gap| gap.texts == *opening);
        let said: HashSet<u64> = request.gaps.iter().flat_map(|gap| &gap.texts).copied().collect();
        let is_alike =
            |at: &TurnIndex| lane(at).gaps.iter().flat_map(|gap| &gap.texts).any(|text| said.contains(text));
        if found.iter().any(is_equal) {
            found.retain(is_equal);
        } else if request.has_few_words || found.iter().any(is_alike) {
            found.retain(is_alike);
        }
        if request.has_few_words {
            let is_retry = |at: &TurnIndex| {
                let turn = &lane(at).turns[at.1];
                turn.history == request.history && turn.has_failed()
            };
            found.retain(|at| self.shares_route(at.0, request, identity) || is_retry(at));
        }
        found
    }

    /// Returns whether a lane asks the same model at the same address.
    fn shares_route(&self, lane: usize, request: &LaneRequest, identity: &Identity) -> bool {
        let lane = &self.lanes[lane];
        lane.setup.model == request.model && lane.identity.shares_endpoint_with(identity)
    }

    /// Returns whether a lane began at this turn with replies from before the recording, such as examples, and the
    /// request begins another conversation after the same replies. A retry and an answer to calls do not.
    fn begins_beside(&self, at: &TurnIndex, request: &LaneRequest) -> bool {
        let lane = &self.lanes[at.0];
        let turn = &lane.turns[at.1];
        at.1 == 0
            && lane.origin.branch.is_none()
            && request.results.is_empty()
            && !(turn.has_failed() && turn.history == request.history)
            && self.fork_call(request, *at).is_none()
    }

    /// Returns the lane that a side lane summarised, if a request with that summary has the instructions of the lane.
    fn summarised_lane(&self, side: usize, request: &LaneRequest) -> Option<usize> {
        let lane = &self.lanes[side];
        let branch = lane.origin.branch.filter(|_| lane.origin.is_side_question);
        let about = lane.subject.or(branch.map(|(base, _)| base))?;
        let setup = &self.lanes[about].setup;
        let continues = setup.system == request.system && setup.has_tools == request.has_tools;
        let differs = lane.setup.system != request.system || lane.setup.has_tools != request.has_tools;
        (continues && differs).then_some(about)
    }

    /// Finds the lane whose first reply the request carries in other words, as when a harness removes thinking.
    /// Everything else must be equal. Among equal lanes it prefers one whose reply contains these words, then
    /// one that was not continued yet, then the one with most words in common.
    fn find_reworded(&self, request: &LaneRequest, identity: &Identity) -> Option<usize> {
        let alike = self.lanes_by_setup.get(&request.setup())?;
        if request.replies_digests.len() != 2 || !request.results.is_empty() {
            return None;
        }
        let is_it = |lane: &&usize| {
            let lane = &self.lanes[**lane];
            let opens_alike = lane.gaps.first().map(|gap| &gap.texts) == Some(&request.gaps[0].texts);
            let reply = lane.turns.first().and_then(|turn| turn.reply.as_ref());
            let is_talk = reply.is_some_and(|reply| reply.calls.is_empty());
            let is_young = lane.turns.len() == 1 && lane.origin.branch.is_none() && lane.turns[0].is_whole();
            is_young && opens_alike && is_talk && lane.identity.agrees_with(identity)
        };
        let taken: HashSet<TurnIndex> = self.lanes.iter().filter_map(|lane| lane.origin.branch).collect();
        let words: HashSet<&str> = request.first_reply_text.split_whitespace().collect();
        let rank = |lane: &&usize| {
            let reply = self.lanes[**lane].turns[0].reply.as_ref();
            let said = reply.and_then(|reply| reply.text.as_deref()).unwrap_or_default();
            let shared = said.split_whitespace().collect::<HashSet<_>>().intersection(&words).count();
            let is_free = !taken.contains(&(**lane, 1));
            (said.contains(&request.first_reply_text), is_free, shared, std::cmp::Reverse(**lane))
        };
        alike.iter().filter(is_it).max_by_key(rank).copied()
    }

    /// Returns whether a turn is the start of a fork without a known parent.
    pub(super) fn is_orphan(&self, (lane, turn): &TurnIndex) -> bool {
        *turn == 0 && self.lanes[*lane].origin.is_marked_fork && self.lanes[*lane].origin.branch.is_none()
    }

    /// Returns whether a request's instructions differ much from a lane's. It may be a side question that keeps
    /// the tools to share the prompt cache.
    fn has_other_instructions(&self, lane: usize, request: &LaneRequest) -> bool {
        let known = &self.lanes[lane].setup.instruction_sample;
        let shared = request.instruction_sample.iter().filter(|word| known.contains(word)).count();
        !known.is_empty()
            && !request.instruction_sample.is_empty()
            && 2 * shared < known.len().min(request.instruction_sample.len())
    }

    /// Returns whether a request with a lane's history but without its tools may belong to the lane. Not with
    /// other instructions, and not without results after the agent's answer: such a request summarises or names
    /// it.
    fn may_belong_to(&self, lane: usize, request: &LaneRequest) -> bool {
        !request.results.is_empty()
            && self.lanes[lane].setup.instruction_sample.is_empty() == request.instruction_sample.is_empty()
            && !self.has_other_instructions(lane, request)
    }

    /// Selects among turns that a request may follow: first by equal ids, then by equal texts of the harness,
    /// then by the longest wait.
    fn best_turn(
        &self,
        request: &LaneRequest,
        identity: &Identity,
        turns: &mut dyn Iterator<Item = &TurnIndex>,
    ) -> Option<TurnIndex> {
        let rank = |at: &&TurnIndex| {
            let lane = &self.lanes[at.0];
            let named = lane.identity.names_the_same_as(identity);
            let carried = lane.gaps.iter().zip(&request.gaps).take_while(|(old, new)| old == new).count();
            let waiting = lane.turns[at.1].attempts.last().and_then(|attempt| attempt.ended_at);
            (
                named,
                carried,
                self.shares_route(at.0, request, identity),
                lane.setup.system == request.system,
                std::cmp::Reverse(waiting),
                std::cmp::Reverse(at.0),
            )
        };
        turns.max_by_key(rank).copied()
    }

    /// Returns the call of that reply whose prompt the request carries. Then the request is a fork, not the
    /// caller.
    fn fork_call(&self, request: &LaneRequest, (lane, turn): TurnIndex) -> Option<CallId> {
        let calls = &self.lanes[lane].turns[turn].reply.as_ref()?.calls;
        let prompt_match =
            self.prompts.find_in(request.new_texts.iter().map(|said| said.text.as_str()), None)?;
        let handed = self.prompts.calls(prompt_match.prompt).iter().filter(|call| calls.contains(call));
        // Forks of one reply with equal prompts take its calls in order.
        let taken = |call: &&usize| {
            self.lanes.iter().any(|lane| lane.origin.fork_call.as_ref() == Some(&self.calls[**call].id))
        };
        let call = handed.clone().find(|call| !taken(call)).or_else(|| handed.clone().next())?;
        let open = |id: &CallId| calls.iter().any(|call| self.calls[*call].id == *id);
        let answers = request.results.iter().filter(|result| open(&result.call));
        let answers: Vec<&str> = answers.map(|result| result.text.as_str()).collect();
        let placeholders = answers.windows(2).all(|pair| pair[0] == pair[1]);
        (prompt_match.exact || placeholders).then(|| self.calls[*call].id.clone())
    }
}

/// Returns whether the newest texts start with a tag named `fork`. Harnesses have no other way to mark a fork.
pub(super) fn is_marked_fork(request: &LaneRequest) -> bool {
    let opens = |said: &InjectedText| said.text.trim_start().starts_with("<fork");
    request.new_texts.iter().any(|said| said.role == Role::User && opens(said))
}

/// Counts the runs of words that texts quote from others, without runs that are in `known`: a reply may repeat a
/// template that several conversations open with.
fn count_quotations<'t>(texts: &[&str], others: impl Iterator<Item = &'t str>, known: &[String]) -> usize {
    let runs = |text: &str| -> Vec<u64> {
        // A quotation may end with another punctuation mark.
        let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        let words: Vec<u64> = words.map(digest).collect();
        words.windows(QUOTED).map(digest).collect()
    };
    let mut quotable: HashSet<u64> = others.flat_map(runs).collect();
    if quotable.is_empty() {
        return 0;
    }
    for run in known.iter().flat_map(|text| runs(text)) {
        quotable.remove(&run);
    }
    texts.iter().flat_map(|text| runs(text)).filter(|run| quotable.contains(run)).count()
}
