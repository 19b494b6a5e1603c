//! Bytes as tokens: nobody outside has the tokenizer, but usage tells what it made of our bytes.
//!
//! A usage says exactly how many tokens a whole prompt has, and how many stand up to its last marker. Between such
//! anchors tokens are spread by bytes; where there is none, by what a byte came to elsewhere with the same model.

use std::collections::HashMap;

use session::Usage;

use crate::explanation::ObservedRequest;
use crate::prompt::CachePrompt;

/// Tokens a byte where no usage tells: four bytes are a token.
const USUAL: f64 = 0.25;
/// More bytes in a token than any text has on average; a usage that says so was made up.
const MOST_BYTES: u64 = 10;
/// One in so many may be odd.
const MADE_UP: usize = 10;
/// What a provider may add to a prompt by itself: how to call tools, the date, rules.
const ADDED: u64 = 4_096;

/// What is known of how many tokens bytes are.
#[derive(Clone, Debug, Default)]
pub struct TokenModel {
    /// Tokens up to and with a block, by its chain.
    anchors: HashMap<u64, u64>,
    /// Tokens and bytes that were seen, by model.
    seen: HashMap<String, (u64, u64)>,
    /// The usage was made up, so that nothing is learned from it.
    is_made_up: bool,
}

/// A prompt in tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenScale {
    /// Up to and with each block.
    pub ends: Vec<u64>,
    /// All of it.
    pub total: u64,
}

impl TokenScale {
    /// Tokens before the block of that index.
    pub(crate) fn before(&self, block: usize) -> u64 {
        block.checked_sub(1).and_then(|last| self.ends.get(last)).copied().unwrap_or_default()
    }
}

impl TokenModel {
    /// Learns from the usage that a recording has.
    pub fn learn<'a>(asks: impl Iterator<Item = &'a ObservedRequest>) -> Self {
        let mut tokens = Self::default();
        let (mut plausible, mut made_up) = (0_usize, 0_usize);
        for ask in asks {
            let Some(usage) = ask.reported.as_ref().filter(|_| !ask.prompt.is_tail) else { continue };
            // What a picture comes to is anybody's guess, so that it gives nobody away.
            let votes = usize::from(ask.prompt.pictures.sent == 0);
            match is_plausible(&ask.prompt, usage) {
                true => {
                    plausible += votes;
                    tokens.note(&ask.prompt, usage);
                }
                false => made_up += votes,
            }
        }
        // Who makes up some makes up all: numbers that happen to be possible are no better.
        match made_up > (plausible + made_up) / MADE_UP {
            true => Self { is_made_up: true, ..Self::default() },
            false => tokens,
        }
    }

    /// The usage of a request, where it can be believed.
    pub(crate) fn believed<'u>(&self, prompt: &CachePrompt, usage: Option<&'u Usage>) -> Option<&'u Usage> {
        usage.filter(|usage| !self.is_made_up && !prompt.is_tail && is_plausible(prompt, usage))
    }

    /// Whether a usage says how many tokens stand up to and with a block.
    pub(crate) fn is_counted(&self, chain: u64) -> bool {
        self.anchors.contains_key(&chain)
    }

    fn note(&mut self, prompt: &CachePrompt, usage: &Usage) {
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

    /// A prompt in tokens, with its own usage where it has one.
    pub fn scale(&self, prompt: &CachePrompt, usage: Option<&Usage>) -> TokenScale {
        let total = self.believed(prompt, usage).map(Usage::input_total);
        let a_byte = match self.seen.get(&prompt.model) {
            Some((tokens, bytes)) if *bytes > 0 => *tokens as f64 / *bytes as f64,
            _ => USUAL,
        };
        let mut scale = TokenScale { ends: Vec::with_capacity(prompt.blocks.len()), total: 0 };
        let mut from = (0_usize, 0_u64); // how many blocks are done, and their tokens
        let most = total.unwrap_or(u64::MAX);
        for (index, block) in prompt.blocks.iter().enumerate() {
            let anchor = self.anchors.get(&block.chain).copied();
            if let Some(tokens) = anchor.filter(|tokens| (from.1..=most).contains(tokens)) {
                spread(&mut scale, prompt, from.0..index + 1, tokens);
                from = (index + 1, tokens);
            }
        }
        let rest = from.0..prompt.blocks.len();
        scale.total = match total {
            Some(total) => {
                spread(&mut scale, prompt, rest, total);
                total
            }
            // Counted from the front: two prompts that begin alike must agree on how long that is.
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

/// Spreads the tokens between two anchors over the blocks between them, by their bytes.
fn spread(scale: &mut TokenScale, prompt: &CachePrompt, blocks: std::ops::Range<usize>, until: u64) {
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

/// Whether a provider can have counted that. Scripts and stand-ins make up what they like.
fn is_plausible(prompt: &CachePrompt, usage: &Usage) -> bool {
    let text = weight(prompt).saturating_sub(prompt.pictures.seen);
    let tokens = usage.input_total();
    tokens > 0 && tokens >= text / MOST_BYTES && tokens <= text + prompt.pictures.sent + ADDED
}
