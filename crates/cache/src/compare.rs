//! Comparison of two recordings of one scenario: new cache breaks and their cost.

use std::fmt;

use session::Usage;

use crate::explanation::{CacheMiss, Explanation};
use crate::prompt::CacheMarker;
use crate::reason::Reason;
use crate::report::CacheReport;
use crate::report::LaneOpening;
use crate::rules::{CacheRules, StoragePolicy};
use crate::simulator::cacheable_markers;
use crate::totals::input_usd;

/// Tolerance: one part in so many counts as equal, because no two recordings are identical.
const SLACK: u64 = 4;

/// Cache break that the other recording does not have.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheBreak {
    /// Lane.
    pub lane: String,
    /// Reason.
    pub reason: Reason,
    /// First differing block, from 1.
    pub block: usize,
    /// Pointer to the block in the first such turn.
    pub pointer: String,
    /// Number of turns with this break.
    pub turns: u64,
    /// Tokens that each of these turns writes or sends again, on average.
    pub tokens_a_turn: u64,
    /// Total cost in dollars.
    pub usd: Option<f64>,
}

/// Lane whose prompt begins differently than in the other recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedPrompt {
    /// Lane.
    pub lane: String,
    /// First differing block, from 1.
    pub block: usize,
    /// Pointer to the block.
    pub pointer: String,
    /// Tokens from there to the last marker. They are written once if the old prompt was in the cache.
    pub tokens: u64,
}

/// Returns the breaks of `candidate` that `golden` does not have, by lane, reason and location.
pub fn new_breaks(golden: &CacheReport, candidate: &CacheReport) -> Vec<CacheBreak> {
    let mut found: Vec<(String, CacheBreak, u64)> = Vec::new();
    for (request, miss, reason) in uncovered_breaks(golden, candidate) {
        let at = location(&miss.pointer);
        let same = |(known, broken, _): &&mut (String, CacheBreak, u64)| {
            *known == at && broken.lane == request.lane && broken.reason == reason
        };
        match found.iter_mut().find(same) {
            Some((_, broken, tokens)) => {
                broken.turns += 1;
                broken.usd = broken.usd.zip(miss.usd).map(|(sum, more)| sum + more);
                *tokens += miss.tokens;
            }
            None => {
                let broken = CacheBreak {
                    lane: request.lane.clone(),
                    reason,
                    block: miss.block,
                    pointer: miss.pointer.clone(),
                    turns: 1,
                    tokens_a_turn: 0,
                    usd: miss.usd,
                };
                found.push((at, broken, miss.tokens));
            }
        }
    }
    found.extend(unmarked_lanes(golden, candidate, &found));
    let averaged = |(_, broken, tokens): (String, CacheBreak, u64)| CacheBreak {
        tokens_a_turn: tokens / broken.turns,
        ..broken
    };
    found.into_iter().map(averaged).collect()
}

/// Returns the lanes of `candidate` whose cached part begins differently than in `golden`.
pub fn changed_prompts(golden: &CacheReport, candidate: &CacheReport) -> Vec<ChangedPrompt> {
    let mut changed = Vec::new();
    for opening in &candidate.openings {
        let Some(before) = golden.openings.iter().find(|before| before.lane == opening.lane) else {
            continue;
        };
        let shared = opening.prompt.shared_with(&before.prompt);
        // Two conversations share only what comes before the messages.
        let is_head = |block: &crate::PromptBlock| block.section != crate::Section::Messages;
        let Some(block) = opening.prompt.blocks.get(shared).filter(|block| is_head(block)) else { continue };
        let Some(last) = opening.prompt.marks.last().filter(|mark| mark.block >= shared) else { continue };
        changed.push(ChangedPrompt {
            lane: opening.lane.clone(),
            block: shared + 1,
            pointer: block.pointer.clone(),
            tokens: opening.scale.ends[last.block] - opening.scale.before(shared),
        });
    }
    changed
}

/// Returns the lanes that mark less than in `golden` from the start, so that repeated tokens are not read. Each
/// comes with its location and the sum of these tokens.
fn unmarked_lanes(
    golden: &CacheReport,
    candidate: &CacheReport,
    reported: &[(String, CacheBreak, u64)],
) -> Vec<(String, CacheBreak, u64)> {
    let is_reported =
        |lane: &str| reported.iter().any(|(_, it, _)| it.lane == lane && it.reason == Reason::Unmarked);
    let mut found = Vec::new();
    for opening in candidate.openings.iter().filter(|opening| !is_reported(&opening.lane)) {
        let Some(before) = golden.openings.iter().find(|before| before.lane == opening.lane) else {
            continue;
        };
        let Some(block) = lost_marker(before, opening) else { continue };
        let of_lane = candidate.requests.iter().filter(|request| request.lane == opening.lane);
        let again: Vec<(&Explanation, u64)> = of_lane
            .map(|request| (request, unread_repeats(request)))
            .filter(|(_, tokens)| *tokens > 0)
            .collect();
        if again.is_empty() {
            continue;
        }
        let pointer = before.prompt.blocks[block].pointer.clone();
        let broken = CacheBreak {
            lane: opening.lane.clone(),
            reason: Reason::Unmarked,
            block: block + 1,
            pointer: pointer.clone(),
            turns: again.len() as u64,
            tokens_a_turn: 0,
            usd: again.iter().map(|(request, tokens)| sending_cost(request, *tokens)).sum(),
        };
        found.push((pointer, broken, again.iter().map(|(_, tokens)| tokens).sum()));
    }
    found
}

/// Returns the last block that `golden` marks if `candidate` marks nothing in that section or later.
fn lost_marker(golden: &LaneOpening, candidate: &LaneOpening) -> Option<usize> {
    let section = |opening: &LaneOpening, mark: &CacheMarker| opening.prompt.blocks[mark.block].section;
    let there = *cacheable_markers(&golden.prompt, &golden.scale).last()?;
    let here = candidate.prompt.marks.last().map(|mark| section(candidate, mark));
    let is_marked = matches!(candidate.prompt.rules.storage, StoragePolicy::Marked { .. });
    (is_marked && here < Some(section(golden, there))).then_some(there.block)
}

/// Returns the repeated tokens that markers would have let the request read. Tokens of a miss are counted
/// elsewhere.
fn unread_repeats(request: &Explanation) -> u64 {
    let is_missed = request.miss.as_ref().is_some_and(|miss| miss.tokens > 0);
    let could = Some(request.repeated).filter(|it| !is_missed && *it >= CacheRules::minimum(&request.model));
    could.unwrap_or_default().saturating_sub(request.predicted.cache_read)
}

/// Returns the extra cost of sending tokens instead of reading them.
fn sending_cost(request: &Explanation, tokens: u64) -> Option<f64> {
    let sent = Usage { input: tokens, ..Usage::default() };
    let read = Usage { cache_read: tokens, ..Usage::default() };
    Some(input_usd(&request.model, &sent)? - input_usd(&request.model, &read)?)
}

/// Break, and the request that has it.
type Break<'e> = (&'e Explanation, &'e CacheMiss, Reason);

/// Returns the breaks of `candidate` that no break of `golden` covers. Each covers one: first one at the same
/// place, then one that costs no more.
fn uncovered_breaks<'e>(golden: &CacheReport, candidate: &'e CacheReport) -> Vec<Break<'e>> {
    let mut known: Vec<Break<'_>> = breaks(golden).collect();
    let mut new: Vec<Break<'_>> = breaks(candidate).collect();
    for covers in [is_same_place, costs_as_much] {
        new.retain(|new| {
            let covering =
                known.iter().enumerate().filter(|(_, known)| is_alike(known, new) && covers(known, new));
            let nearest = covering.min_by_key(|(_, (_, miss, _))| miss.tokens).map(|(at, _)| at);
            nearest.map(|at| known.swap_remove(at)).is_none()
        });
    }
    new
}

fn is_alike((known, there, reason): &Break<'_>, (new, here, other): &Break<'_>) -> bool {
    known.lane == new.lane && reason == other && location(&there.pointer) == location(&here.pointer)
}

/// Returns whether both breaks are in the same message, or at the same place outside the messages.
fn is_same_place((_, known, _): &Break<'_>, (_, new, _): &Break<'_>) -> bool {
    let message = |pointer: &str| pointer.split('/').take(3).map(str::to_owned).collect::<Vec<_>>();
    message(&known.pointer) == message(&new.pointer)
}

/// Returns whether a break costs no more than a known one. The same change moves to later messages in later
/// turns, so its cost identifies it better than its message.
fn costs_as_much((_, known, _): &Break<'_>, (_, new, _): &Break<'_>) -> bool {
    new.tokens <= known.tokens + known.tokens / SLACK
}

/// Returns the breaks that cost something.
fn breaks(explained: &CacheReport) -> impl Iterator<Item = Break<'_>> {
    explained.requests.iter().filter_map(|request| {
        let (miss, reason) = (request.miss.as_ref()?, request.reason?);
        let is_broken = reason.is_break() || reason == Reason::Unmarked;
        (miss.tokens > 0 && is_broken).then_some((request, miss, reason))
    })
}

/// Returns a pointer without the numbers of messages and blocks, because the same change moves to later
/// messages in later turns.
pub(crate) fn location(pointer: &str) -> String {
    match pointer.split('/').nth(1) {
        Some(list @ ("messages" | "input")) => format!("/{list}"),
        _ => pointer.to_owned(),
    }
}

impl fmt::Display for CacheBreak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (block, pointer, tokens) = (self.block, &self.pointer, group_digits(self.tokens_a_turn));
        let what = match self.reason {
            Reason::Unmarked => "leaves out a marker",
            _ => "breaks the prefix",
        };
        write!(f, "{what} at block {block} (`{pointer}`), +{tokens} tokens a turn")
    }
}

impl fmt::Display for ChangedPrompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (block, pointer, tokens) = (self.block, &self.pointer, group_digits(self.tokens));
        write!(f, "another prompt from block {block} (`{pointer}`) on, {tokens} tokens are written once")
    }
}

/// Formats a number with separators, as in `41,200`.
pub fn group_digits(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
