//! Two recordings of one intent: which breaks are new, and what they come to.

use std::fmt;

use session::Usage;

use crate::explanation::{CacheMiss, CacheReport, Explanation, LaneOpening};
use crate::prompt::CacheMarker;
use crate::reason::Reason;
use crate::rules::{CacheRules, StoragePolicy};
use crate::simulator::effective;
use crate::totals::input_usd;

/// One part in so many more is still as much: no two recordings say the same to the letter.
const SLACK: u64 = 4;

/// A break of the prefix that another recording has not.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheBreak {
    /// The lane.
    pub lane: String,
    /// Why.
    pub reason: Reason,
    /// The first block that is not the same, from 1.
    pub block: usize,
    /// Where it stands the first time.
    pub pointer: String,
    /// In how many turns.
    pub turns: u64,
    /// Tokens that each of these turns writes or sends again, on average.
    pub tokens_a_turn: u64,
    /// What all of them cost, in dollars.
    pub usd: Option<f64>,
}

/// A lane that begins with another prompt than in another recording, and keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedPrompt {
    /// The lane.
    pub lane: String,
    /// The first block that is not the same, from 1.
    pub block: usize,
    /// Where it stands.
    pub pointer: String,
    /// Tokens from there to the last marker: who has the old prompt in the cache writes them once.
    pub tokens: u64,
}

/// The breaks of `candidate` that `golden` has not: by lane, reason and place.
pub fn new_breaks(golden: &CacheReport, candidate: &CacheReport) -> Vec<CacheBreak> {
    let mut found: Vec<(String, CacheBreak, u64)> = Vec::new();
    for (request, miss, reason) in unknown(golden, candidate) {
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
    found.extend(unmarked(golden, candidate, &found));
    let averaged = |(_, broken, tokens): (String, CacheBreak, u64)| CacheBreak {
        tokens_a_turn: tokens / broken.turns,
        ..broken
    };
    found.into_iter().map(averaged).collect()
}

/// The lanes of `candidate` that begin otherwise than in `golden`, within what is kept.
pub fn changed_prompts(golden: &CacheReport, candidate: &CacheReport) -> Vec<ChangedPrompt> {
    let mut changed = Vec::new();
    for opening in &candidate.openings {
        let Some(before) = golden.openings.iter().find(|before| before.lane == opening.lane) else {
            continue;
        };
        let shared = opening.prompt.shared_with(&before.prompt);
        // Only what both begin with can be shared by two conversations: what the user says differs anyway.
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

/// Lanes that from the start mark less than they do in `golden`: what they say again could have been read. Each with its
/// place and all of these tokens.
fn unmarked(
    golden: &CacheReport,
    candidate: &CacheReport,
    told: &[(String, CacheBreak, u64)],
) -> Vec<(String, CacheBreak, u64)> {
    let is_told = |lane: &str| told.iter().any(|(_, it, _)| it.lane == lane && it.reason == Reason::Unmarked);
    let mut found = Vec::new();
    for opening in candidate.openings.iter().filter(|opening| !is_told(&opening.lane)) {
        let Some(before) = golden.openings.iter().find(|before| before.lane == opening.lane) else {
            continue;
        };
        let Some(block) = lost(before, opening) else { continue };
        let of_lane = candidate.requests.iter().filter(|request| request.lane == opening.lane);
        let again: Vec<(&Explanation, u64)> =
            of_lane.map(|request| (request, said_again(request))).filter(|(_, tokens)| *tokens > 0).collect();
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
            usd: again.iter().map(|(request, tokens)| too_much(request, *tokens)).sum(),
        };
        found.push((pointer, broken, again.iter().map(|(_, tokens)| tokens).sum()));
    }
    found
}

/// The last block that a lane marks, where another one marks nothing in that section or behind it.
fn lost(golden: &LaneOpening, candidate: &LaneOpening) -> Option<usize> {
    let section = |opening: &LaneOpening, mark: &CacheMarker| opening.prompt.blocks[mark.block].section;
    let there = *effective(&golden.prompt, &golden.scale).last()?;
    let here = candidate.prompt.marks.last().map(|mark| section(candidate, mark));
    let is_marked = matches!(candidate.prompt.rules.keeps, StoragePolicy::Marked { .. });
    (is_marked && here < Some(section(golden, there))).then_some(there.block)
}

/// The tokens of a request that could have been read if it were marked; those of a miss are told apart.
fn said_again(request: &Explanation) -> u64 {
    let is_missed = request.miss.as_ref().is_some_and(|miss| miss.tokens > 0);
    let could = Some(request.repeated).filter(|it| !is_missed && *it >= CacheRules::minimum(&request.model));
    could.unwrap_or_default().saturating_sub(request.predicted.cache_read)
}

/// What it costs to send so many tokens and not to read them.
fn too_much(request: &Explanation, tokens: u64) -> Option<f64> {
    let sent = Usage { input: tokens, ..Usage::default() };
    let read = Usage { cache_read: tokens, ..Usage::default() };
    Some(input_usd(&request.model, &sent)? - input_usd(&request.model, &read)?)
}

/// A break, with the request that has it.
type Break<'e> = (&'e Explanation, &'e CacheMiss, Reason);

/// The breaks of `candidate` that none of `golden` covers. Each covers one: first the one at its own place, then one
/// that costs no more.
fn unknown<'e>(golden: &CacheReport, candidate: &'e CacheReport) -> Vec<Break<'e>> {
    let mut known: Vec<Break<'_>> = breaks(golden).collect();
    let mut new: Vec<Break<'_>> = breaks(candidate).collect();
    for covers in [is_there, costs_as_much] {
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

/// Whether a break is in the same message as a known one, or in the same place beside the messages.
fn is_there((_, known, _): &Break<'_>, (_, new, _): &Break<'_>) -> bool {
    let message = |pointer: &str| pointer.split('/').take(3).map(str::to_owned).collect::<Vec<_>>();
    message(&known.pointer) == message(&new.pointer)
}

/// The same change comes further down in the next turn, so that its message says little; what it loses says more.
fn costs_as_much((_, known, _): &Break<'_>, (_, new, _): &Break<'_>) -> bool {
    new.tokens <= known.tokens + known.tokens / SLACK
}

/// The breaks that cost something.
fn breaks(explained: &CacheReport) -> impl Iterator<Item = Break<'_>> {
    explained.requests.iter().filter_map(|request| {
        let (miss, reason) = (request.miss.as_ref()?, request.reason?);
        let is_broken = reason.is_break() || reason == Reason::Unmarked;
        (miss.tokens > 0 && is_broken).then_some((request, miss, reason))
    })
}

/// A pointer without the numbers of messages and blocks: the same change comes further down in the next turn.
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

/// A number as people read it, as in `41,200`.
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
