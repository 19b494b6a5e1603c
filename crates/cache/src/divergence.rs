//! First difference of two prompts.

use std::ops::Range;

use crate::prompt::{CacheKey, CachePrompt, KeyDifference, PromptBlock};
use crate::reason::Reason;
use crate::section::Section;

/// First difference of two prompts.
pub(crate) struct Divergence {
    pub(crate) block: usize,
    pub(crate) section: Section,
    pub(crate) pointer: String,
    pub(crate) spans: [Option<Range<usize>>; 2],
    pub(crate) reason: Reason,
}

impl Divergence {
    /// Builds the value for prompts without a difference: the last block that was not read.
    pub(crate) fn whole(here: &CachePrompt, last: usize) -> Self {
        let PromptBlock { section, pointer, .. } = &here.blocks[last];
        let (section, pointer) = (*section, pointer.clone());
        Self { block: last, section, pointer, spans: [None, None], reason: Reason::change_in(section) }
    }

    pub(crate) fn of(here: &CachePrompt, there: &CachePrompt, shared: usize) -> Self {
        let (ours, theirs) = (here.blocks.get(shared), there.blocks.get(shared));
        // Something that only one of them has in a section is the change of that section.
        let block = [ours, theirs].into_iter().flatten().min_by_key(|block| block.section);
        let section = block.map_or(Section::Messages, |block| block.section);
        // A key changes everything from its section on, whatever the blocks contain.
        let started = shared.checked_sub(1).is_some_and(|last| here.blocks[last].section >= section);
        let key = CacheKey::first_difference(here, there).filter(|it| it.key.section <= section && !started);
        match key {
            Some(KeyDifference { key, of, spans }) => {
                let reason = match key.name {
                    "/model" => Reason::ModelChanged,
                    _ => Reason::change_in(key.section),
                };
                // A picture is a block, and changes earlier blocks, too. A setting is no block.
                let block = of.blocks.iter().position(|block| block.contains(&key.pointer)).unwrap_or(shared);
                Self { block, section: key.section, pointer: key.pointer.clone(), spans, reason }
            }
            None => Self {
                block: shared,
                section,
                pointer: block.map(|block| block.pointer.clone()).unwrap_or_default(),
                spans: [ours, theirs].map(|block| block.map(|block| block.span.clone())),
                reason: Reason::change_in(section),
            },
        }
    }
}
