//! Estimation of tokens from bytes. The tokenizers are not public, but usage shows their results.
//!
//! A usage gives the exact tokens of a prompt, and of its part up to the last marker. Between such anchors,
//! tokens are distributed by bytes. Without anchors, the average of other prompts for the same model is used.

use std::collections::HashMap;

use session::Usage;

use crate::observed::ObservedRequest;
use crate::prompt::CachePrompt;

/// Default number of tokens per byte.
const USUAL: f64 = 0.25;
/// Maximum average number of bytes per token. A usage beyond it was made up.
const MOST_BYTES: u64 = 10;
/// Share of implausible usages that is tolerated: one in this many.
const MADE_UP: usize = 10;
/// Maximum number of tokens that a provider adds to a prompt, such as rules for calling tools.
const ADDED: u64 = 4_096;

/// Known token counts.
#[derive(Clone, Debug, Default)]
pub struct TokenModel {
    /// Tokens up to the end of a block, by its chain.
    anchors: HashMap<u64, u64>,
    /// Sums of tokens and bytes by model.
    seen: HashMap<String, (u64, u64)>,
    /// True if the usage was made up, so that nothing is learned from it.
    is_made_up: bool,
}

/// Prompt in tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenScale {
    /// Tokens up to the end of each block.
    pub ends: Vec<u64>,
    /// Tokens of the entire prompt.
    pub total: u64,
}

impl TokenScale {
    /// Returns the tokens before a block.
    pub(crate) fn before(&self, block: usize) -> u64 {
        block.checked_sub(1).and_then(|last| self.ends.get(last)).copied().unwrap_or_default()
    }
}

impl TokenModel {
    /// Learns from the usage in a recording.
    pub fn learn<'a>(observed: impl Iterator<Item = &'a ObservedRequest>) -> Self {
        let mut tokens = Self::default();
        let (mut plausible, mut made_up) = (0_usize, 0_usize);
        for ask in observed {
            let Some(usage) = ask.reported.as_ref().filter(|_| !ask.prompt.is_tail) else { continue };
            // Tokens of pictures cannot be estimated, so they do not count as evidence.
            let votes = usize::from(ask.prompt.pictures.sent == 0);
            match is_plausible(&ask.prompt, usage) {
                true => {
                    plausible += votes;
                    tokens.add_usage(&ask.prompt, usage);
                }
                false => made_up += votes,
            }
        }
        // A provider that makes up some usages makes up all of them.
        match made_up > (plausible + made_up) / MADE_UP {
            true => Self { is_made_up: true, ..Self::default() },
            false => tokens,
        }
    }

    /// Returns the usage of a request if it is plausible.
    pub(crate) fn plausible_usage<'u>(
        &self,
        prompt: &CachePrompt,
        usage: Option<&'u Usage>,
    ) -> Option<&'u Usage> {
        usage.filter(|usage| !self.is_made_up && !prompt.is_tail && is_plausible(prompt, usage))
    }

    /// Returns whether a usage gives the tokens up to the end of a block.
    pub(crate) fn is_counted(&self, chain: u64) -> bool {
        self.anchors.contains_key(&chain)
    }

    fn add_usage(&mut self, prompt: &CachePrompt, usage: &Usage) {
        if prompt.pictures.sent == 0 {
            let (tokens, bytes) = self.seen.entry(prompt.model.clone()).or_default();
            *tokens = tokens.saturating_add(usage.input_total());
            *bytes = bytes.saturating_add(weight(prompt));
        }
        let marked = prompt.marks.last().map(|mark| prompt.blocks[mark.block].chain);
        let kept = usage.input_total() - usage.input;
        if let Some(chain) = marked.filter(|_| kept > 0) {
            self.anchors.entry(chain).or_insert(kept);
        }
    }

    /// Converts a prompt into tokens, by its own usage if there is one.
    pub fn scale(&self, prompt: &CachePrompt, usage: Option<&Usage>) -> TokenScale {
        let total = self.plausible_usage(prompt, usage).map(Usage::input_total);
        let a_byte = match self.seen.get(&prompt.model) {
            Some((tokens, bytes)) if *bytes > 0 => *tokens as f64 / *bytes as f64,
            _ => USUAL,
        };
        let mut scale = TokenScale { ends: Vec::with_capacity(prompt.blocks.len()), total: 0 };
        let mut from = (0_usize, 0_u64); // number of finished blocks, and their tokens
        let most = total.unwrap_or(u64::MAX);
        for (index, block) in prompt.blocks.iter().enumerate() {
            let anchor = self.anchors.get(&block.chain).copied();
            if let Some(tokens) = anchor.filter(|tokens| (from.1..=most).contains(tokens)) {
                distribute(&mut scale, prompt, from.0..index + 1, tokens);
                from = (index + 1, tokens);
            }
        }
        let rest = from.0..prompt.blocks.len();
        scale.total = match total {
            Some(total) => {
                distribute(&mut scale, prompt, rest, total);
                total
            }
            // Counted from the front, so that prompts with the same start agree on its length.
            None => {
                let mut bytes = 0;
                for block in &prompt.blocks[rest] {
                    bytes += block.weight;
                    scale.ends.push(from.1 + (bytes as f64 * a_byte).round() as u64);
                }
                scale.ends.last().copied().unwrap_or(from.1)
            }
        };
        scale
    }
}

/// Distributes the tokens between two anchors over the blocks between them by their bytes.
fn distribute(scale: &mut TokenScale, prompt: &CachePrompt, blocks: std::ops::Range<usize>, until: u64) {
    let from = scale.ends.last().copied().unwrap_or_default();
    let all: u64 = prompt.blocks[blocks.clone()].iter().map(|block| block.weight).sum();
    let mut done = 0;
    for block in &prompt.blocks[blocks] {
        done += block.weight;
        let share = if all == 0 { 1.0 } else { done as f64 / all as f64 };
        scale.ends.push(from + ((until - from) as f64 * share).round() as u64);
    }
}

fn weight(prompt: &CachePrompt) -> u64 {
    prompt.blocks.iter().map(|block| block.weight).sum()
}

/// Returns whether a provider can have counted this. Scripts make up any number.
fn is_plausible(prompt: &CachePrompt, usage: &Usage) -> bool {
    let text = weight(prompt).saturating_sub(prompt.pictures.seen);
    let tokens = usage.input_total();
    tokens > 0 && tokens >= text / MOST_BYTES && tokens <= text + prompt.pictures.sent + ADDED
}
