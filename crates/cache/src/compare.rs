//! Two recordings of one intent: which breaks are new, and what they come to.

use std::collections::HashMap;
use std::fmt;

use crate::explanation::{Explained, Explanation, Miss};
use crate::reason::Reason;

/// A break of the prefix that another recording has not.
#[derive(Clone, Debug, PartialEq)]
pub struct Broken {
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
pub struct Changed {
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
pub fn broken(golden: &Explained, candidate: &Explained) -> Vec<Broken> {
    let mut known: HashMap<(&str, Reason, String), u64> = HashMap::new();
    for (request, miss, reason) in breaks(golden) {
        *known.entry((&request.lane, reason, place(&miss.pointer))).or_default() += 1;
    }
    let mut found: Vec<(String, Broken, u64)> = Vec::new();
    for (request, miss, reason) in breaks(candidate) {
        let at = place(&miss.pointer);
        if let Some(left) = known.get_mut(&(&*request.lane, reason, at.clone())).filter(|left| **left > 0) {
            *left -= 1;
            continue;
        }
        let same = |(known, broken, _): &&mut (String, Broken, u64)| {
            *known == at && broken.lane == request.lane && broken.reason == reason
        };
        match found.iter_mut().find(same) {
            Some((_, broken, tokens)) => {
                broken.turns += 1;
                broken.usd = broken.usd.zip(miss.usd).map(|(sum, more)| sum + more);
                *tokens += miss.tokens;
            }
            None => {
                let broken = Broken {
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
    let averaged = |(_, broken, tokens): (String, Broken, u64)| Broken {
        tokens_a_turn: tokens / broken.turns,
        ..broken
    };
    found.into_iter().map(averaged).collect()
}

/// The lanes of `candidate` that begin otherwise than in `golden`, within what is kept.
pub fn changed(golden: &Explained, candidate: &Explained) -> Vec<Changed> {
    let mut changed = Vec::new();
    for opening in &candidate.openings {
        let Some(before) = golden.openings.iter().find(|before| before.lane == opening.lane) else {
            continue;
        };
        let shared = opening.prompt.shared_with(&before.prompt);
        // Only what both begin with can be shared by two conversations: what the user says differs anyway.
        let is_head = |block: &crate::Block| block.section != crate::Section::Messages;
        let Some(block) = opening.prompt.blocks.get(shared).filter(|block| is_head(block)) else { continue };
        let Some(last) = opening.prompt.marks.last().filter(|mark| mark.block >= shared) else { continue };
        changed.push(Changed {
            lane: opening.lane.clone(),
            block: shared + 1,
            pointer: block.pointer.clone(),
            tokens: opening.scale.ends[last.block] - opening.scale.before(shared),
        });
    }
    changed
}

/// The breaks that cost something.
fn breaks(explained: &Explained) -> impl Iterator<Item = (&Explanation, &Miss, Reason)> {
    explained.requests.iter().filter_map(|request| {
        let (miss, reason) = (request.miss.as_ref()?, request.reason?);
        (miss.tokens > 0 && reason.is_break()).then_some((request, miss, reason))
    })
}

/// A pointer without the numbers of messages and blocks: the same change comes further down in the next turn.
pub(crate) fn place(pointer: &str) -> String {
    match pointer.split('/').nth(1) {
        Some(list @ ("messages" | "input")) => format!("/{list}"),
        _ => pointer.to_owned(),
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (block, pointer, tokens) = (self.block, &self.pointer, grouped(self.tokens_a_turn));
        write!(f, "breaks the prefix at block {block} (`{pointer}`), +{tokens} tokens a turn")
    }
}

impl fmt::Display for Changed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (block, pointer, tokens) = (self.block, &self.pointer, grouped(self.tokens));
        write!(f, "another prompt from block {block} (`{pointer}`) on, {tokens} tokens are written once")
    }
}

/// A number as people read it, as in `41,200`.
pub fn grouped(number: u64) -> String {
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
