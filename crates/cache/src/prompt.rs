//! Prompts as a cache sees them: blocks in the order of the prefix, each with the digest of everything up to
//! it.

use std::collections::HashMap;
use std::ops::Range;

use crate::rules::{CacheRules, StoragePolicy};
use crate::section::Section;

/// Kind of a block, as far as a cache distinguishes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptBlockKind {
    /// Tool call.
    Call,
    /// Tool result.
    Result,
    /// Any other block.
    Other,
}

/// Block of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptBlock {
    /// Section.
    pub section: Section,
    /// Kind.
    pub kind: PromptBlockKind,
    /// Pointer in the body.
    pub pointer: String,
    /// Range in the body.
    pub span: Range<usize>,
    /// Estimated number of bytes that the model sees.
    pub weight: u64,
    /// Digest of the block.
    pub(crate) digest: u64,
    /// Digest of everything up to the end of the block.
    pub chain: u64,
    /// The same digest without the routing key.
    pub(crate) unrouted: u64,
    /// Position for look-backs.
    pub position: usize,
}

impl PromptBlock {
    /// Returns whether a pointer leads to the block or into it.
    pub(crate) fn contains(&self, pointer: &str) -> bool {
        let rest = pointer.strip_prefix(&self.pointer);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// Request to cache everything up to the end of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheMarker {
    /// Index of the block.
    pub block: usize,
    /// True if the longer of the two lifetimes is requested.
    pub is_long: bool,
    /// Pointer to the marker; `None` if the provider placed it.
    pub pointer: Option<String>,
}

/// Part of the cache key that is no block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CacheKey {
    pub(crate) section: Section,
    /// Name of the part.
    pub(crate) name: &'static str,
    pub(crate) pointer: String,
    /// Range in the body.
    pub(crate) span: Range<usize>,
    pub(crate) digest: u64,
}

/// Key that two prompts do not share.
pub(crate) struct KeyDifference<'p> {
    pub(crate) key: &'p CacheKey,
    /// Prompt that has the key.
    pub(crate) of: &'p CachePrompt,
    /// Ranges in this body and in the other one.
    pub(crate) spans: [Option<Range<usize>>; 2],
}

/// Tool whose definition is not in the prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeferredTool {
    /// Name.
    pub name: String,
    /// Pointer in the body.
    pub pointer: String,
    pub(crate) digest: u64,
}

/// Size of all pictures and files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pictures {
    pub(crate) sent: u64,
    /// Size that they have as text.
    pub(crate) seen: u64,
}

/// Prompt as a cache sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct CachePrompt {
    /// Rules of the provider.
    pub rules: &'static CacheRules,
    /// Model.
    pub model: String,
    /// Blocks: tools, then system, then messages.
    pub blocks: Vec<PromptBlock>,
    /// Markers in the order of the blocks.
    pub marks: Vec<CacheMarker>,
    /// Number of markers in the body, including those without effect.
    pub marker_count: usize,
    /// Tools whose definitions are not in the prefix.
    pub deferred_blocks: Vec<DeferredTool>,
    pub(crate) pictures: Pictures,
    /// True if the longer lifetime applies without a marker.
    pub(crate) is_retained: bool,
    /// True if the request refers to earlier messages by id, so that the blocks are only the end of the prompt.
    pub(crate) is_tail: bool,
    pub(crate) keys: Vec<CacheKey>,
}

impl CachePrompt {
    /// Returns whether nothing is marked, so that nothing is read or written.
    pub(crate) fn is_unmarked(&self) -> bool {
        matches!(self.rules.storage, StoragePolicy::Marked { .. }) && self.marks.is_empty()
    }

    /// Returns the number of equal first blocks.
    pub fn shared_with(&self, other: &Self) -> usize {
        self.blocks.iter().zip(&other.blocks).take_while(|(one, other)| one.chain == other.chain).count()
    }

    /// Returns the number of message blocks that are in the other conversation, too, minus those that are not.
    pub(crate) fn similarity(&self, other: &Self) -> usize {
        let said = |prompt: &Self| {
            let of_messages = prompt.blocks.iter().filter(|block| block.section == Section::Messages);
            of_messages.map(|block| block.digest).collect::<Vec<u64>>()
        };
        let mut here: HashMap<u64, usize> = HashMap::new();
        said(self).into_iter().for_each(|digest| *here.entry(digest).or_default() += 1);
        let there = said(other);
        let is_here = |digest: &&u64| match here.get_mut(*digest) {
            Some(left) if *left > 0 => {
                *left -= 1;
                true
            }
            _ => false,
        };
        let same = there.iter().filter(is_here).count();
        same.saturating_sub(there.len() - same)
    }
}

impl CacheKey {
    /// Returns the first key that two prompts do not share.
    pub(crate) fn first_difference<'p>(
        here: &'p CachePrompt,
        there: &'p CachePrompt,
    ) -> Option<KeyDifference<'p>> {
        let own = [(here, there), (there, here)].map(|(of, from)| {
            let is_own = |key: &&CacheKey| !from.keys.iter().any(|it| it.digest == key.digest);
            of.keys.iter().filter(is_own).map(|key| (key, of)).collect::<Vec<_>>()
        });
        let (key, of) = *own.iter().flatten().min_by_key(|(key, _)| key.section)?;
        let span = |keys: &Vec<(&CacheKey, &CachePrompt)>| {
            keys.iter().find(|(it, _)| it.name == key.name).map(|(it, _)| it.span.clone())
        };
        Some(KeyDifference { key, of, spans: [span(&own[0]), span(&own[1])] })
    }
}

impl DeferredTool {
    /// Returns the first tool outside the prefix that is missing or different in the other prompt.
    pub(crate) fn first_difference<'p>(
        here: &'p CachePrompt,
        there: &CachePrompt,
    ) -> Option<&'p DeferredTool> {
        let is_new = |tool: &&DeferredTool| !there.deferred_blocks.iter().any(|it| it.digest == tool.digest);
        here.deferred_blocks.iter().find(is_new)
    }
}
