//! The cache itself: what was written, from when it can be read, and until when.

use std::collections::HashMap;

use session::Usage;

use crate::prompt::{CacheMarker, CachePrompt};
use crate::rules::{CacheRules, LookupPolicy, StoragePolicy};
use crate::tokens::TokenScale;

/// A provider's cache. Times are microseconds since whatever moment, and never go back.
#[derive(Clone, Debug, Default)]
pub struct Simulator {
    /// By the chain of the last block.
    entries: HashMap<u64, Entry>,
}

/// What can be read: it is written down when the first answer to who wrote it begins.
#[derive(Clone, Copy, Debug)]
struct Entry {
    until: u64,
    /// How long it lives when it is read.
    term: u64,
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimulatedRequest {
    /// The tokens as they are billed.
    pub usage: Usage,
    /// The index of the last block that was read.
    pub read: Option<usize>,
    at: u64,
    /// What can be read once the answer has begun.
    pub(crate) writes: Vec<(u64, u64)>,
}

/// Where an entry stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Readable,
    Expired,
    Absent,
}

impl Simulator {
    /// An empty cache.
    pub fn new() -> Self {
        Self::default()
    }

    /// A request comes: what it reads, and what it will have written when its answer begins.
    pub fn ask(&mut self, at: u64, prompt: &CachePrompt, scale: &TokenScale) -> SimulatedRequest {
        match &prompt.rules.keeps {
            StoragePolicy::Marked { .. } => self.marked(at, prompt, scale),
            StoragePolicy::Steps { step, .. } => self.in_steps(at, prompt, scale, *step),
        }
    }

    /// The answer begins; one that fails writes nothing and is not told.
    pub fn begin(&mut self, asked: &SimulatedRequest) {
        for (chain, term) in &asked.writes {
            let until = asked.at.saturating_add(*term);
            let new = Entry { until, term: *term };
            let entry = self.entries.entry(*chain).or_insert(new);
            // What had gone is written anew, and its term is gone with it.
            *entry = match entry.until <= asked.at {
                true => new,
                false => Entry { until: entry.until.max(until), term: entry.term.max(*term) },
            };
        }
    }

    fn marked(&mut self, at: u64, prompt: &CachePrompt, scale: &TokenScale) -> SimulatedRequest {
        let marks = effective(prompt, scale);
        let read = self.find(at, prompt, &marks);
        // Who reads a prefix has read those before it that are marked, too.
        let touched = marks.iter().map(|mark| mark.block).filter(|block| Some(*block) <= read).chain(read);
        for block in touched {
            self.refresh(at, prompt.blocks[block].chain);
        }
        let hit = read.map_or(0, |block| scale.ends[block]);
        let written = written(prompt, &marks);
        let writes = written.iter().filter(|mark| Some(mark.block) > read);
        let writes =
            writes.map(|mark| (prompt.blocks[mark.block].chain, prompt.rules.term(mark.is_long))).collect();
        SimulatedRequest { usage: bill(&written, scale, hit), read, at, writes }
    }

    /// The highest block that was written before and that a marker leads to.
    fn find(&self, at: u64, prompt: &CachePrompt, marks: &[&CacheMarker]) -> Option<usize> {
        let StoragePolicy::Marked { reads, .. } = prompt.rules.keeps else { return None };
        let is_hit = |block: &usize| self.state(at, prompt.blocks[*block].chain) == State::Readable;
        match reads {
            LookupPolicy::Markers { latest } => {
                let latest = &marks[marks.len().saturating_sub(latest)..];
                latest.iter().rev().map(|mark| mark.block).find(is_hit)
            }
            LookupPolicy::LookBack { positions, .. } => {
                marks.iter().rev().filter_map(|mark| back(prompt, mark.block, positions).find(is_hit)).max()
            }
        }
    }

    fn in_steps(&mut self, at: u64, prompt: &CachePrompt, scale: &TokenScale, step: u64) -> SimulatedRequest {
        let blocks = prompt.blocks.iter().enumerate();
        let deepest = blocks.rev().find(|(_, block)| self.state(at, block.chain) == State::Readable);
        let shared = deepest.map_or(0, |(index, _)| scale.ends[index]);
        let read = if shared >= CacheRules::minimum(&prompt.model) { shared / step * step } else { 0 };
        let last = deepest.map(|(index, _)| index).filter(|_| read > 0);
        if let Some(last) = last {
            prompt.blocks[..=last].iter().for_each(|block| self.refresh(at, block.chain));
        }
        let term = prompt.rules.term(prompt.is_retained);
        let writes = prompt.blocks.iter().map(|block| (block.chain, term)).collect();
        let usage = Usage { cache_read: read, input: scale.total - read, ..Usage::default() };
        SimulatedRequest { usage, read: last, at, writes }
    }

    pub(crate) fn state(&self, at: u64, chain: u64) -> State {
        match self.entries.get(&chain) {
            Some(entry) if entry.until <= at => State::Expired,
            Some(_) => State::Readable,
            None => State::Absent,
        }
    }

    fn refresh(&mut self, at: u64, chain: u64) {
        if let Some(entry) = self.entries.get_mut(&chain).filter(|entry| at < entry.until) {
            entry.until = entry.until.max(at.saturating_add(entry.term));
        }
    }
}

/// A block and those before it that a look-back reaches, the nearest first.
pub(crate) fn back(prompt: &CachePrompt, from: usize, positions: usize) -> impl Iterator<Item = usize> + '_ {
    let first = prompt.blocks[from].position;
    let near = move |block: &usize| first - prompt.blocks[*block].position < positions;
    (0..=from).rev().take_while(near)
}

/// The marks whose prefix is long enough to be kept.
pub(crate) fn effective<'p>(prompt: &'p CachePrompt, scale: &TokenScale) -> Vec<&'p CacheMarker> {
    let minimum = CacheRules::minimum(&prompt.model);
    prompt.marks.iter().filter(|mark| scale.ends[mark.block] >= minimum).collect()
}

/// The marks that are written: the latest, and of those that the provider put there itself only the last.
pub(crate) fn written<'p>(prompt: &CachePrompt, marks: &[&'p CacheMarker]) -> Vec<&'p CacheMarker> {
    let StoragePolicy::Marked { slots, .. } = prompt.rules.keeps else { return Vec::new() };
    let mut own_seen = false;
    let mut counts = |mark: &&&CacheMarker| mark.pointer.is_some() || !std::mem::replace(&mut own_seen, true);
    let mut written: Vec<&CacheMarker> =
        marks.iter().rev().filter(|mark| counts(mark)).take(slots).copied().collect();
    written.reverse();
    written
}

/// What is billed where the first `hit` tokens were read.
pub(crate) fn bill(marks: &[&CacheMarker], scale: &TokenScale, hit: u64) -> Usage {
    let until = |marks: &mut dyn Iterator<Item = &&CacheMarker>| {
        marks.map(|mark| scale.ends[mark.block]).max().unwrap_or_default().max(hit)
    };
    let long = until(&mut marks.iter().filter(|mark| mark.is_long));
    let all = until(&mut marks.iter()).max(long);
    Usage {
        cache_read: hit,
        cache_write_1h: long - hit,
        cache_write_5m: all - long,
        input: scale.total.saturating_sub(all),
        ..Usage::default()
    }
}
