//! Simulated cache: entries and their lifetimes.

use std::collections::HashMap;

use session::Usage;

use crate::prompt::{CacheMarker, CachePrompt};
use crate::rules::{CacheRules, LookupPolicy, StoragePolicy};
use crate::tokens::TokenScale;

/// Simulated cache. Times are microseconds and must not decrease.
#[derive(Clone, Debug, Default)]
pub struct Simulator {
    /// Entries by the chain of their last block.
    entries: HashMap<u64, CacheEntry>,
}

/// Cache entry. It is created when the first response to a writing request begins.
#[derive(Clone, Copy, Debug)]
struct CacheEntry {
    until: u64,
    /// Lifetime after each read.
    term: u64,
}

/// Cache use of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimulatedRequest {
    /// Billed tokens.
    pub usage: Usage,
    /// Index of the last block that was read.
    pub read: Option<usize>,
    at: u64,
    /// Prefixes that become readable when the response begins.
    pub(crate) writes: Vec<(u64, u64)>,
}

/// State of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryState {
    Readable,
    Expired,
    Absent,
}

impl Simulator {
    /// Creates an empty cache.
    pub fn new() -> Self {
        Self::default()
    }

    /// Simulates a request: returns its reads, and its writes once its response begins.
    pub fn ask(&mut self, at: u64, prompt: &CachePrompt, scale: &TokenScale) -> SimulatedRequest {
        match &prompt.rules.storage {
            StoragePolicy::Marked { .. } => self.marked(at, prompt, scale),
            StoragePolicy::Steps { step, .. } => self.in_steps(at, prompt, scale, *step),
        }
    }

    /// Begins a response. A failed one writes nothing and is not passed here.
    pub fn begin(&mut self, simulated: &SimulatedRequest) {
        for (chain, term) in &simulated.writes {
            let until = simulated.at.saturating_add(*term);
            let new = CacheEntry { until, term: *term };
            let entry = self.entries.entry(*chain).or_insert(new);
            // An expired entry is written again, with a new lifetime.
            *entry = match entry.until <= simulated.at {
                true => new,
                false => CacheEntry { until: entry.until.max(until), term: entry.term.max(*term) },
            };
        }
    }

    fn marked(&mut self, at: u64, prompt: &CachePrompt, scale: &TokenScale) -> SimulatedRequest {
        let marks = cacheable_markers(prompt, scale);
        let read = self.find(at, prompt, &marks);
        // Reading a prefix also refreshes the marked prefixes in it.
        let touched = marks.iter().map(|mark| mark.block).filter(|block| Some(*block) <= read).chain(read);
        for block in touched {
            self.refresh(at, prompt.blocks[block].chain);
        }
        let hit = read.map_or(0, |block| scale.ends[block]);
        let written = written_markers(prompt, &marks);
        let writes = written.iter().filter(|mark| Some(mark.block) > read);
        let writes =
            writes.map(|mark| (prompt.blocks[mark.block].chain, prompt.rules.term(mark.is_long))).collect();
        SimulatedRequest { usage: bill(&written, scale, hit), read, at, writes }
    }

    /// Returns the highest block that was written before and that a marker's lookup reaches.
    fn find(&self, at: u64, prompt: &CachePrompt, marks: &[&CacheMarker]) -> Option<usize> {
        let StoragePolicy::Marked { reads, .. } = prompt.rules.storage else { return None };
        let is_hit = |block: &usize| self.state(at, prompt.blocks[*block].chain) == EntryState::Readable;
        match reads {
            LookupPolicy::Markers { latest } => {
                let latest = &marks[marks.len().saturating_sub(latest)..];
                latest.iter().rev().map(|mark| mark.block).find(is_hit)
            }
            LookupPolicy::LookBack { positions, .. } => marks
                .iter()
                .rev()
                .filter_map(|mark| look_back(prompt, mark.block, positions).find(is_hit))
                .max(),
        }
    }

    fn in_steps(&mut self, at: u64, prompt: &CachePrompt, scale: &TokenScale, step: u64) -> SimulatedRequest {
        let blocks = prompt.blocks.iter().enumerate();
        let deepest = blocks.rev().find(|(_, block)| self.state(at, block.chain) == EntryState::Readable);
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

    pub(crate) fn state(&self, at: u64, chain: u64) -> EntryState {
        match self.entries.get(&chain) {
            Some(entry) if entry.until <= at => EntryState::Expired,
            Some(_) => EntryState::Readable,
            None => EntryState::Absent,
        }
    }

    fn refresh(&mut self, at: u64, chain: u64) {
        if let Some(entry) = self.entries.get_mut(&chain).filter(|entry| at < entry.until) {
            entry.until = entry.until.max(at.saturating_add(entry.term));
        }
    }
}

/// Returns a block and the earlier ones that a look-back reaches, nearest first.
pub(crate) fn look_back(
    prompt: &CachePrompt,
    from: usize,
    positions: usize,
) -> impl Iterator<Item = usize> + '_ {
    let first = prompt.blocks[from].position;
    let near = move |block: &usize| first - prompt.blocks[*block].position < positions;
    (0..=from).rev().take_while(near)
}

/// Returns the markers whose prefix is long enough to be cached.
pub(crate) fn cacheable_markers<'p>(prompt: &'p CachePrompt, scale: &TokenScale) -> Vec<&'p CacheMarker> {
    let minimum = CacheRules::minimum(&prompt.model);
    prompt.marks.iter().filter(|mark| scale.ends[mark.block] >= minimum).collect()
}

/// Returns the markers that are written: the latest, but only the last of those that the provider placed.
pub(crate) fn written_markers<'p>(prompt: &CachePrompt, marks: &[&'p CacheMarker]) -> Vec<&'p CacheMarker> {
    let StoragePolicy::Marked { slots, .. } = prompt.rules.storage else { return Vec::new() };
    let mut own_seen = false;
    let mut counts = |mark: &&&CacheMarker| mark.pointer.is_some() || !std::mem::replace(&mut own_seen, true);
    let mut written: Vec<&CacheMarker> =
        marks.iter().rev().filter(|mark| counts(mark)).take(slots).copied().collect();
    written.reverse();
    written
}

/// Returns the billed usage if the first `hit` tokens were read.
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
