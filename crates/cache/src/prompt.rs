//! A request as a cache sees it: blocks in the order of the prefix, each with the digest of all up to it.

use std::collections::HashMap;
use std::ops::Range;

use wire::dialect::Dialect;
use wire::json::Document;

use crate::prompt_builder;
use crate::rules::{CacheRules, StoragePolicy};

/// A part of a prompt. A change in one is a change in all behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Section {
    /// The tools' definitions.
    Tools,
    /// The instructions beside the messages.
    System,
    /// The conversation.
    Messages,
}

impl Section {
    pub(crate) const ALL: [Self; 3] = [Self::Tools, Self::System, Self::Messages];
}

/// What a block is, as far as a cache cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptBlockKind {
    /// A tool call.
    Call,
    /// A tool result.
    Result,
    /// Anything else.
    Other,
}

/// One block of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptBlock {
    /// The section it stands in.
    pub section: Section,
    /// What it is.
    pub kind: PromptBlockKind,
    /// Where it stands in the body.
    pub pointer: String,
    /// Its bytes there.
    pub span: Range<usize>,
    /// How many bytes of it the model is thought to see.
    pub weight: u64,
    /// The digest of what it says by itself.
    pub(crate) digest: u64,
    /// The digest of everything up to and with it.
    pub chain: u64,
    /// The same with the key that routes a request aside.
    pub(crate) unrouted: u64,
    /// Its position: look-backs count these.
    pub position: usize,
}

impl PromptBlock {
    /// Whether a pointer leads to it, or into it.
    pub(crate) fn holds(&self, pointer: &str) -> bool {
        let rest = pointer.strip_prefix(&self.pointer);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// Everything up to and with a block shall be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheMarker {
    /// The block's index.
    pub block: usize,
    /// For the longer of the two terms.
    pub is_long: bool,
    /// Where it stands; nothing where the provider put it there.
    pub pointer: Option<String>,
}

/// A part of the key that is no block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) section: Section,
    /// Which part it is.
    pub(crate) name: &'static str,
    pub(crate) pointer: String,
    /// Its bytes in the body.
    pub(crate) span: Range<usize>,
    pub(crate) digest: u64,
}

/// A part of the key that two prompts do not share.
pub(crate) struct Differs<'p> {
    pub(crate) key: &'p Key,
    /// Who has it.
    pub(crate) of: &'p CachePrompt,
    /// Its bytes: here, and there.
    pub(crate) spans: [Option<Range<usize>>; 2],
}

/// A tool whose definition is not in the prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeferredTool {
    /// Its name.
    pub name: String,
    /// Where it stands in the body.
    pub pointer: String,
    pub(crate) digest: u64,
}

/// The bytes of all pictures and files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pictures {
    pub(crate) sent: u64,
    /// What they weigh among texts.
    pub(crate) seen: u64,
}

/// A request as a cache sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct CachePrompt {
    /// The provider's rules.
    pub rules: &'static CacheRules,
    /// The model.
    pub model: String,
    /// The blocks: tools, then system, then messages.
    pub blocks: Vec<PromptBlock>,
    /// What is marked, in the order of the blocks.
    pub marks: Vec<CacheMarker>,
    /// How many markers the body has, whether they mark something or not.
    pub marker_count: usize,
    /// Tools whose definitions are not in the prefix.
    pub asides: Vec<DeferredTool>,
    pub(crate) pictures: Pictures,
    /// Kept for the longer term although no marker says so.
    pub(crate) is_retained: bool,
    /// What came before is named, and not said: the blocks are only the end of the prompt.
    pub(crate) is_tail: bool,
    pub(crate) keys: Vec<Key>,
}

impl CachePrompt {
    /// Takes a request apart; `document` is what `prompt` was decoded from.
    pub fn of(document: &Document<'_>, prompt: &wire::dialect::Prompt) -> Self {
        prompt_builder::built(document, prompt)
    }

    /// Decodes and takes apart a body; `None` where it asks no model.
    pub fn read(url: &str, body: &[u8]) -> Option<Self> {
        Self::decode(Dialect::detect(url, body)?, body)
    }

    /// The same for a body whose dialect is known.
    pub fn decode(dialect: Dialect, body: &[u8]) -> Option<Self> {
        let document = Document::parse(body).ok()?;
        let prompt = dialect.decode_document(&document).ok()?;
        Some(Self::of(&document, &prompt))
    }

    /// Nothing of it is marked, and so nothing read or written.
    pub(crate) fn is_unmarked(&self) -> bool {
        matches!(self.rules.keeps, StoragePolicy::Marked { .. }) && self.marks.is_empty()
    }

    /// How many of the first blocks are those of another prompt.
    pub fn shared_with(&self, other: &Self) -> usize {
        self.blocks.iter().zip(&other.blocks).take_while(|(one, other)| one.chain == other.chain).count()
    }

    /// How many blocks of another conversation are said here, too, wherever they stand; less those that are not.
    pub(crate) fn likeness(&self, other: &Self) -> usize {
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

impl Key {
    /// The first part of the key that two prompts do not share.
    pub(crate) fn first_difference<'p>(here: &'p CachePrompt, there: &'p CachePrompt) -> Option<Differs<'p>> {
        let own = [(here, there), (there, here)].map(|(of, from)| {
            let is_own = |key: &&Key| !from.keys.iter().any(|it| it.digest == key.digest);
            of.keys.iter().filter(is_own).map(|key| (key, of)).collect::<Vec<_>>()
        });
        let (key, of) = *own.iter().flatten().min_by_key(|(key, _)| key.section)?;
        let span = |keys: &Vec<(&Key, &CachePrompt)>| {
            keys.iter().find(|(it, _)| it.name == key.name).map(|(it, _)| it.span.clone())
        };
        Some(Differs { key, of, spans: [span(&own[0]), span(&own[1])] })
    }
}

impl DeferredTool {
    /// The first tool beside the prefix that another prompt has not, or has otherwise.
    pub(crate) fn first_difference<'p>(
        here: &'p CachePrompt,
        there: &CachePrompt,
    ) -> Option<&'p DeferredTool> {
        let is_new = |aside: &&DeferredTool| !there.asides.iter().any(|it| it.digest == aside.digest);
        here.asides.iter().find(is_new)
    }
}
