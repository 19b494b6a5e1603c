//! Matches live requests to recorded turns.
//!
//! The history decides: what the model had said before a request is known from the recording. Everything else may differ
//! from run to run, and is used only to choose between several turns with the same history.

use std::collections::{BTreeSet, HashMap};

use recording::lanes::{LaneKind, Outline};
use wire::dialect::Dialect;

use super::conversation::{ConversationDigests, ServedLanes};
use super::similarity::{
    NEARLY_EQUAL, SIMILAR, contains_text, is_similar, similarity, words, words_without_digits,
};
use super::traffic::{ExchangeIndex, RecordedTraffic, TurnIndex};

/// Matches live requests to recorded turns, and counts the requests for each turn.
#[derive(Debug, Default)]
pub(super) struct TurnMatcher {
    requested: HashMap<TurnIndex, TurnProgress>,
    /// Digests of live replies that differ from the recorded ones, and the digests of the recorded ones.
    recorded_replies: HashMap<u64, u64>,
    served: ServedLanes,
}

/// Progress of a turn that was requested.
#[derive(Clone, Copy, Debug, Default)]
struct TurnProgress {
    /// Number of recorded attempts that were replayed.
    replayed: usize,
    /// Number of live requests.
    requests: u32,
    /// History of the newest request.
    history: u64,
    /// True if the newest request got a failure, or its reply did not arrive.
    has_failed: bool,
}

/// A live request.
#[derive(Clone, Copy, Debug)]
pub(super) struct LiveRequest<'r> {
    pub(super) outline: &'r Outline,
    pub(super) conversation: &'r ConversationDigests,
    pub(super) dialect: Dialect,
}

/// The recorded turn for a live request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TurnMatch {
    pub(super) turn: TurnIndex,
    /// 1-based attempt number.
    pub(super) attempt: u32,
    /// The recorded attempt to replay.
    pub(super) exchange: ExchangeIndex,
    /// True if all recorded attempts had been replayed before.
    pub(super) is_repeat: bool,
    /// True if the request starts an agent with a text that is not similar to the recorded one.
    pub(super) is_reworded: bool,
}

/// A live request matches no recorded turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NoMatch {
    pub(super) why: String,
    /// The most similar turn.
    pub(super) nearest: Option<TurnIndex>,
}

impl TurnMatcher {
    /// Finds the turn and the attempt for a request, and counts the request. With `or_nearest`, takes the most similar turn
    /// if none matches.
    pub(super) fn match_request(
        &mut self,
        traffic: &RecordedTraffic,
        request: LiveRequest<'_>,
        or_nearest: bool,
    ) -> Result<TurnMatch, NoMatch> {
        let turn = match self.find_turn(traffic, request) {
            Ok(turn) => turn,
            Err(NoMatch { nearest: Some(nearest), .. }) if or_nearest => nearest,
            Err(no_match) => return Err(no_match),
        };
        let progress = self.requested.entry(turn).or_default();
        let attempts = &traffic[turn].attempts;
        let is_repeat = progress.replayed >= attempts.len();
        // A repeated request gets the successful attempt.
        let successful = || attempts.iter().rev().copied().find(|attempt| traffic[*attempt].is_complete);
        let exchange = match attempts.get(progress.replayed) {
            Some(attempt) => *attempt,
            None => successful().unwrap_or(attempts[attempts.len() - 1]),
        };
        progress.requests += 1;
        progress.history = request.outline.history;
        progress.has_failed = false;
        let attempt = progress.requests;
        let reply_id = traffic[exchange].reply_id.as_deref();
        self.served.insert(request.conversation, &traffic[turn].lane, reply_id);
        let recorded = &traffic.first_attempt(turn).outline;
        let is_reworded = request.outline.is_first && !is_similar(recorded, request.outline);
        Ok(TurnMatch { turn, attempt, exchange, is_repeat, is_reworded })
    }

    /// Notes that the recorded attempt is sent.
    pub(super) fn mark_replayed(&mut self, matched: &TurnMatch) {
        if !matched.is_repeat {
            self.requested.entry(matched.turn).or_default().replayed += 1;
        }
    }

    /// Notes that the newest request for a turn got a failure, or its reply did not arrive.
    pub(super) fn mark_failed(&mut self, turn: TurnIndex) {
        self.requested.entry(turn).or_default().has_failed = true;
    }

    /// Notes that a history with these live replies corresponds to one with these recorded replies.
    pub(super) fn add_alias(&mut self, live: u64, recorded: u64) {
        if live != recorded {
            self.recorded_replies.insert(live, recorded);
        }
    }

    /// Returns the turns that were never requested.
    pub(super) fn unrequested(&self, traffic: &RecordedTraffic) -> Vec<TurnIndex> {
        traffic.turn_indexes().filter(|turn| !self.requested.contains_key(turn)).collect()
    }

    /// Finds the turn for a request among those with the same replies before. The first rule that matches wins:
    ///
    /// 1. a failed turn with the same history and shape, then a new one;
    /// 2. the most similar text in the lane that answered this conversation before;
    /// 3. the most similar text in any lane;
    /// 4. the same for turns of another shape (tools or none), which must be nearly equal.
    fn find_turn(&self, traffic: &RecordedTraffic, request: LiveRequest<'_>) -> Result<TurnIndex, NoMatch> {
        let outline = request.outline;
        let candidates = self.with_same_replies(traffic, request);
        let has_same_shape = |turn: &TurnIndex| {
            let recorded = &traffic.first_attempt(*turn).outline;
            recorded.has_tools == outline.has_tools && recorded.is_probe == outline.is_probe
        };
        let (same_shape, others): (Vec<TurnIndex>, Vec<TurnIndex>) =
            candidates.iter().copied().partition(has_same_shape);
        // A main agent matches with any text, because only one turn is left for it, and so does a probe.
        let takes_any_text = |kind| kind == LaneKind::Main && outline.has_tools;
        let least = |kind| if takes_any_text(kind) || outline.is_probe { 0 } else { SIMILAR };
        // Two agents may have equal replies in their history. Each stays with the lane that it began with.
        let same_lane = self.in_served_lanes(traffic, &same_shape, request.conversation);
        // A request with `previous_response_id` instead of its history carries too little text to choose between lanes.
        let preferred = if same_lane.is_empty() { &same_shape } else { &same_lane };
        let found = self.failed_with_same_history(preferred, outline);
        let found = found.or_else(|| self.new_with_same_history(traffic, preferred, outline));
        let found = found.or_else(|| self.by_text(traffic, &same_lane, outline, least));
        let found = found.or_else(|| self.by_text(traffic, &same_shape, outline, least));
        // Agents and side calls differ in their tools. Only a nearly equal text outweighs that.
        let found = found.or_else(|| self.failed_with_same_history(&others, outline));
        let found = found.or_else(|| self.by_text(traffic, &others, outline, |_| NEARLY_EQUAL));
        found.ok_or_else(|| no_match(traffic, request, &candidates))
    }

    /// Returns the turns whose history has the same model replies; if there are none, those with the same last reply,
    /// because a harness may shorten or rewrite its history.
    fn with_same_replies(&self, traffic: &RecordedTraffic, request: LiveRequest<'_>) -> Vec<TurnIndex> {
        let lookup = |index: &HashMap<u64, Vec<TurnIndex>>, key: u64| -> Vec<TurnIndex> {
            let has_dialect =
                |turn: &TurnIndex| traffic.first_attempt(*turn).dialect == Some(request.dialect);
            index.get(&key).into_iter().flatten().copied().filter(has_dialect).collect()
        };
        let live = request.outline.replies_digest;
        let replies = self.recorded_replies.get(&live).copied().unwrap_or(live);
        let turns = lookup(&traffic.by_replies, replies);
        match request.outline.last {
            Some(last) if turns.is_empty() => lookup(&traffic.by_last_reply, last),
            _ => turns,
        }
    }

    /// Returns the turns in the lanes that served this conversation, and first turns of other lanes: a fork continues the
    /// conversation of another lane.
    fn in_served_lanes(
        &self,
        traffic: &RecordedTraffic,
        turns: &[TurnIndex],
        conversation: &ConversationDigests,
    ) -> Vec<TurnIndex> {
        let has_turn =
            |lanes: &BTreeSet<String>| turns.iter().any(|turn| lanes.contains(&traffic[*turn].lane));
        let Some(lanes) = self.served.lanes(conversation).find(|lanes| has_turn(lanes)) else {
            return Vec::new();
        };
        let is_served = |turn: &TurnIndex| traffic[*turn].number == 1 || lanes.contains(&traffic[*turn].lane);
        turns.iter().copied().filter(is_served).collect()
    }

    /// Returns the turn whose newest request failed and had the same history: the harness retries it.
    fn failed_with_same_history(&self, turns: &[TurnIndex], outline: &Outline) -> Option<TurnIndex> {
        let is_retried = |progress: &TurnProgress| progress.has_failed && progress.history == outline.history;
        turns.iter().copied().find(|turn| self.requested.get(turn).is_some_and(is_retried))
    }

    /// Returns the turn that was not requested yet and whose request had the same texts from the start.
    fn new_with_same_history(
        &self,
        traffic: &RecordedTraffic,
        turns: &[TurnIndex],
        outline: &Outline,
    ) -> Option<TurnIndex> {
        let is_new = |turn: &TurnIndex| !self.requested.contains_key(turn);
        let is_same = |turn: &TurnIndex| traffic.first_attempt(*turn).outline.history == outline.history;
        let same: Vec<TurnIndex> =
            turns.iter().copied().filter(|turn| is_new(turn) && is_same(turn)).collect();
        by_surroundings(traffic, &same, outline)
    }

    /// Returns the turn whose new text matches best. `least` is the required similarity of a turn that was not requested.
    fn by_text(
        &self,
        traffic: &RecordedTraffic,
        turns: &[TurnIndex],
        outline: &Outline,
        least: impl Fn(LaneKind) -> usize,
    ) -> Option<TurnIndex> {
        let progress = |turn: &TurnIndex| self.requested.get(turn);
        let is_same =
            |turn: &TurnIndex| progress(turn).is_some_and(|progress| progress.history == outline.history);
        let has_failed = |turn: &TurnIndex| progress(turn).is_some_and(|progress| progress.has_failed);
        let new: Vec<TurnIndex> = turns.iter().copied().filter(|turn| progress(turn).is_none()).collect();
        let exact = || by_surroundings(traffic, &with_same_text(traffic, &new, outline), outline);
        // A repeated request is recognised before a new turn with another text is chosen.
        let repeated = || turns.iter().rev().copied().find(is_same);
        let similar = || nearest(traffic, &new, outline, least);
        let retried = || turns.iter().rev().copied().find(has_failed);
        let least_repeated = |_| if outline.is_probe { 0 } else { NEARLY_EQUAL };
        let nearly_repeated = || nearest(traffic, turns, outline, least_repeated);
        exact().or_else(repeated).or_else(similar).or_else(retried).or_else(nearly_repeated)
    }
}

/// Returns the turns whose request has exactly the same new texts.
fn with_same_text(traffic: &RecordedTraffic, turns: &[TurnIndex], outline: &Outline) -> Vec<TurnIndex> {
    let is_same = |turn: &TurnIndex| traffic.first_attempt(*turn).outline.texts == outline.texts;
    turns.iter().copied().filter(is_same).collect()
}

/// Returns the turn with the same tools, the same instructions and the most common words, numbers included. Of equal turns
/// it returns the first, so that twins come in recorded order.
fn by_surroundings(traffic: &RecordedTraffic, turns: &[TurnIndex], outline: &Outline) -> Option<TurnIndex> {
    if let [turn] = turns {
        return Some(*turn);
    }
    let live = words(&outline.texts);
    let score = |turn: &TurnIndex| {
        let recorded = &traffic.first_attempt(*turn).outline;
        let common = similarity(&words(&recorded.texts), &live);
        (recorded.tools == outline.tools, recorded.system == outline.system, common)
    };
    turns.iter().rev().copied().max_by_key(score)
}

/// Returns the turn whose request is most similar. A first request must reach the similarity `least`; a later one has its
/// history as evidence.
fn nearest(
    traffic: &RecordedTraffic,
    turns: &[TurnIndex],
    outline: &Outline,
    least: impl Fn(LaneKind) -> usize,
) -> Option<TurnIndex> {
    let recorded = |turn: &TurnIndex| &traffic.first_attempt(*turn).outline;
    let same = with_same_text(traffic, turns, outline);
    if !same.is_empty() {
        return by_surroundings(traffic, &same, outline);
    }
    if !outline.is_first && turns.len() == 1 {
        return turns.first().copied();
    }
    let live = words_without_digits(&outline.texts);
    let same_words: Vec<TurnIndex> =
        turns.iter().filter(|turn| words_without_digits(&recorded(turn).texts) == live).copied().collect();
    if !same_words.is_empty() {
        return by_surroundings(traffic, &same_words, outline);
    }
    let containing: Vec<TurnIndex> =
        turns.iter().filter(|turn| contains_text(recorded(turn), outline)).copied().collect();
    if !containing.is_empty() {
        return by_surroundings(traffic, &containing, outline);
    }
    let score = |turn: &TurnIndex| similarity(&words_without_digits(&recorded(turn).texts), &live);
    let passes =
        |turn: &TurnIndex| !outline.is_first || score(turn) >= least(traffic.first_attempt(*turn).kind);
    turns.iter().rev().copied().filter(passes).max_by_key(score)
}

/// Explains why no turn matches, and names the most similar one.
fn no_match(traffic: &RecordedTraffic, request: LiveRequest<'_>, candidates: &[TurnIndex]) -> NoMatch {
    let LiveRequest { outline, dialect, .. } = request;
    let has_dialect = |turn: TurnIndex| traffic.first_attempt(turn).dialect == Some(dialect);
    if !traffic.turn_indexes().any(has_dialect) {
        return NoMatch { why: format!("nothing was recorded in the dialect {dialect}"), nearest: None };
    }
    let is_same_kind = |turn: TurnIndex| {
        has_dialect(turn) && traffic.first_attempt(turn).outline.has_tools == outline.has_tools
    };
    let live = words_without_digits(&outline.texts);
    let score = |turn: &TurnIndex| {
        let recorded = &traffic.first_attempt(*turn).outline;
        let surroundings = (recorded.tools == outline.tools, recorded.system == outline.system);
        let common = similarity(&words_without_digits(&recorded.texts), &live);
        (is_same_kind(*turn), recorded.is_first == outline.is_first, surroundings, common)
    };
    // Of equal scores the first counts: candidates, then turns of the same kind, then all.
    let all = || traffic.turn_indexes();
    let ranked: Vec<TurnIndex> =
        candidates.iter().copied().chain(all().filter(|turn| is_same_kind(*turn))).chain(all()).collect();
    let nearest = ranked.iter().rev().copied().max_by_key(score);
    let why = match (outline.is_first, outline.has_tools) {
        (true, true) => "no recorded agent begins like this request",
        (true, false) => "no recorded side call is like this request",
        (false, _) => "no recorded request has this history",
    };
    NoMatch { why: why.to_owned(), nearest }
}
