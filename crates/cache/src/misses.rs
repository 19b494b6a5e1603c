//! What a request missed: why, where, and what that cost.

use session::Usage;

use crate::confidence::is_beyond_counting;
use crate::divergence::Divergence;
use crate::explain::{Found, Playing};
use crate::explanation::{AvoidedMiss, CacheMiss, Explanation, ObservedRequest};
use crate::prompt::{DeferredTool, PromptBlock, Section};
use crate::reason::Reason;
use crate::rules::{CacheRules, LookupPolicy, StoragePolicy};
use crate::simulator::{SimulatedRequest, State, back, bill, effective, written};
use crate::tokens::TokenScale;
use crate::totals::input_usd;

impl Playing<'_> {
    /// Measures a request by the one that it should go on from; says why it read no more.
    pub(crate) fn judge(
        &self,
        n: usize,
        asked: &SimulatedRequest,
        found: &Found,
        explanation: &mut Explanation,
    ) -> Option<Reason> {
        let (ask, scale) = (&self.asks[n], &self.scales[n]);
        let could = readable(ask, scale, found);
        let is_messages = |block: &PromptBlock| block.section == Section::Messages;
        let parts_in_messages = ask.prompt.blocks.get(found.shared).is_none_or(is_messages);
        if ask.begins_anew && !found.is_intact && parts_in_messages {
            return Some(Reason::Compacted);
        }
        let missed = could.saturating_sub(asked.usage.cache_read);
        if missed == 0 {
            let nothing = (asked.usage.cache_read == 0).then(|| self.nothing(ask, found));
            return nothing.or_else(|| self.aside(n, found, explanation));
        }
        explanation.perfect = billed(ask, scale, could);
        // What the usage read was there, whatever the bytes say: a provider may see past an order of keys.
        if let Some(reported) = self.tokens.believed(&ask.prompt, ask.reported.as_ref()) {
            let lacking = could.saturating_sub(reported.cache_read);
            // A short miss is within what may be miscounted, and no less a miss.
            let is_nearer = 2 * lacking < missed;
            if is_nearer && !is_beyond_counting(lacking, reported.input_total(), true) {
                explanation.is_disproved = true;
                return None;
            }
        }
        let place = match found.reach.filter(|_| found.is_intact) {
            Some(reach) => Divergence::whole(&ask.prompt, reach),
            None => Divergence::of(&ask.prompt, &self.asks[found.before].prompt, found.shared),
        };
        let reason = self.reason(n, found, &place);
        let usd = more(ask, &asked.usage, &explanation.perfect);
        explanation.miss = Some(CacheMiss::at(place, missed, usd));
        Some(reason)
    }

    /// What the usage says that the provider did not have.
    pub(crate) fn doubt(&self, n: usize, asked: &SimulatedRequest, explanation: &mut Explanation) {
        let ask = &self.asks[n];
        let reported = self.tokens.believed(&ask.prompt, ask.reported.as_ref());
        let (Some(reported), Some(read)) = (reported, asked.read) else { return };
        let lacking = asked.usage.cache_read.saturating_sub(reported.cache_read);
        let is_counted = self.tokens.is_counted(ask.prompt.blocks[read].chain);
        if !is_beyond_counting(lacking, reported.input_total(), is_counted) {
            return;
        }
        let usd = more(ask, reported, &explanation.perfect);
        let known = explanation.miss.as_ref().map_or(0, |miss| miss.tokens);
        let is_named = |miss: &CacheMiss| miss.at_stake.is_some() || miss.tokens >= lacking;
        let miss = explanation.miss.take().filter(is_named).unwrap_or_else(|| {
            explanation.reason = Some(Reason::Unavailable);
            CacheMiss::at(Divergence::whole(&ask.prompt, read), 0, None)
        });
        explanation.miss = Some(CacheMiss { tokens: known + lacking, usd, at_stake: None, ..miss });
    }

    /// Why there was nothing to read.
    fn nothing(&self, ask: &ObservedRequest, found: &Found) -> Reason {
        if ask.prompt.is_unmarked() {
            return Reason::Unmarked;
        }
        let before = &self.asks[found.before].prompt;
        let is_marked = matches!(before.rules.keeps, StoragePolicy::Marked { .. });
        if is_marked && before.marks.is_empty() { Reason::Cold } else { Reason::BelowMinimum }
    }

    fn reason(&self, n: usize, found: &Found, place: &Divergence) -> Reason {
        let ask = &self.asks[n];
        if !found.is_intact {
            return if ask.prompt.is_unmarked() { Reason::Unmarked } else { place.reason };
        }
        let last = effective(&ask.prompt, &self.scales[n]).last().map(|mark| mark.block);
        let answered = self.asks[found.before].begun_us.is_some_and(|begun| begun <= ask.at_us);
        match found.state {
            State::Expired => Reason::Expired,
            _ if !answered => Reason::NotYetReadable,
            _ if found.is_due && last < found.reach => Reason::Unmarked,
            _ if !looks_back_to(ask, &self.scales[n], found.reach) => Reason::BeyondLookBack,
            _ => Reason::BelowMinimum,
        }
    }

    /// A tool that came or went beside the prefix is named, and costs nothing by the provider's own word.
    fn aside(&self, n: usize, found: &Found, explanation: &mut Explanation) -> Option<Reason> {
        let (ask, there) = (&self.asks[n], &self.asks[found.before].prompt);
        let changed = DeferredTool::first_difference(&ask.prompt, there)?;
        let rewritten = billed(ask, &self.scales[n], 0);
        explanation.miss = Some(CacheMiss {
            block: 1,
            section: Section::Tools,
            pointer: changed.pointer.clone(),
            spans: [None, None],
            tokens: 0,
            usd: more(ask, &explanation.predicted, &explanation.predicted),
            at_stake: Some(AvoidedMiss {
                tool: changed.name.clone(),
                tokens: explanation.predicted.cache_read,
                usd: more(ask, &rewritten, &explanation.predicted),
            }),
        });
        Some(Reason::ToolsChanged)
    }
}

impl CacheMiss {
    fn at(place: Divergence, tokens: u64, usd: Option<f64>) -> Self {
        let Divergence { block, section, pointer, spans, .. } = place;
        Self { block: block + 1, section, pointer, spans, tokens, usd, at_stake: None }
    }
}

/// How much a request might have read of what was written.
fn readable(ask: &ObservedRequest, scale: &TokenScale, found: &Found) -> u64 {
    let marks = || written(&ask.prompt, &effective(&ask.prompt, scale));
    let could = match ask.prompt.rules.keeps {
        // All of it is there to be marked.
        StoragePolicy::Marked { .. } if found.is_due && found.is_intact => found.kept,
        StoragePolicy::Marked { .. } if found.is_due && ask.prompt.is_unmarked() => {
            found.kept.min(scale.total)
        }
        StoragePolicy::Marked { .. } => {
            found.kept.min(marks().last().map_or(0, |mark| scale.ends[mark.block]))
        }
        StoragePolicy::Steps { step, .. } => found.kept.min(scale.total) / step * step,
    };
    if could >= CacheRules::minimum(&ask.prompt.model) { could } else { 0 }
}

/// What is billed for a request that reads so much.
fn billed(ask: &ObservedRequest, scale: &TokenScale, read: u64) -> Usage {
    match ask.prompt.rules.keeps {
        StoragePolicy::Marked { .. } => {
            bill(&written(&ask.prompt, &effective(&ask.prompt, scale)), scale, read)
        }
        StoragePolicy::Steps { .. } => {
            Usage { cache_read: read, input: scale.total - read, ..Usage::default() }
        }
    }
}

/// How much more one usage costs than another.
fn more(ask: &ObservedRequest, paid: &Usage, less: &Usage) -> Option<f64> {
    let usd = |usage: &Usage| input_usd(&ask.prompt.model, usage);
    usd(paid).zip(usd(less)).map(|(paid, less)| paid - less)
}

/// Whether a marker of a request leads to a block.
fn looks_back_to(ask: &ObservedRequest, scale: &TokenScale, reach: Option<usize>) -> bool {
    let Some(reach) = reach else { return false };
    match ask.prompt.rules.keeps {
        StoragePolicy::Marked { reads: LookupPolicy::LookBack { positions, .. }, .. } => {
            effective(&ask.prompt, scale)
                .iter()
                .any(|mark| back(&ask.prompt, mark.block, positions).any(|block| block == reach))
        }
        StoragePolicy::Marked { reads: LookupPolicy::Markers { .. }, .. } => {
            ask.prompt.marks.iter().any(|mark| mark.block == reach)
        }
        StoragePolicy::Steps { .. } => true,
    }
}
