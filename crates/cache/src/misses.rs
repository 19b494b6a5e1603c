//! Cache misses: their reason, location and cost.

use session::Usage;

use crate::confidence::is_beyond_counting;
use crate::divergence::Divergence;
use crate::explain::{Predecessor, Simulation};
use crate::explanation::{AvoidedMiss, CacheMiss, Explanation};
use crate::observed::ObservedRequest;
use crate::prompt::{DeferredTool, PromptBlock};
use crate::reason::Reason;
use crate::rules::{CacheRules, LookupPolicy, StoragePolicy};
use crate::section::Section;
use crate::simulator::{EntryState, SimulatedRequest, bill, cacheable_markers, look_back, written_markers};
use crate::tokens::TokenScale;
use crate::totals::input_usd;

impl Simulation<'_> {
    /// Compares a request with the one that it should continue. Returns the reason why it read no more.
    pub(crate) fn explain_miss(
        &self,
        n: usize,
        simulated: &SimulatedRequest,
        found: &Predecessor,
        explanation: &mut Explanation,
    ) -> Option<Reason> {
        let (ask, scale) = (&self.observed[n], &self.scales[n]);
        let could = readable_tokens(ask, scale, found);
        let is_messages = |block: &PromptBlock| block.section == Section::Messages;
        let parts_in_messages = ask.prompt.blocks.get(found.shared).is_none_or(is_messages);
        if ask.is_compacted && !found.is_intact && parts_in_messages {
            return Some(Reason::Compacted);
        }
        let missed = could.saturating_sub(simulated.usage.cache_read);
        if missed == 0 {
            let nothing = (simulated.usage.cache_read == 0).then(|| self.reason_without_read(ask, found));
            return nothing.or_else(|| self.deferred_tool_change(n, found, explanation));
        }
        explanation.perfect = billed_usage(ask, scale, could);
        // Tokens that the usage shows as read were cached, whatever the bytes say: a provider may ignore the
        // order of keys.
        if let Some(reported) = self.tokens.plausible_usage(&ask.prompt, ask.reported.as_ref()) {
            let lacking = could.saturating_sub(reported.cache_read);
            // A short miss is within the counting error but still a miss.
            let is_nearer = 2 * lacking < missed;
            if is_nearer && !is_beyond_counting(lacking, reported.input_total(), true) {
                explanation.is_disproved = true;
                return None;
            }
        }
        let place = match found.reach.filter(|_| found.is_intact) {
            Some(reach) => Divergence::whole(&ask.prompt, reach),
            None => Divergence::of(&ask.prompt, &self.observed[found.before].prompt, found.shared),
        };
        let reason = self.miss_reason(n, found, &place);
        let usd = extra_cost(ask, &simulated.usage, &explanation.perfect);
        explanation.miss = Some(CacheMiss::new(place, missed, usd));
        Some(reason)
    }

    /// Records tokens that the provider did not have according to the usage.
    pub(crate) fn check_usage(&self, n: usize, simulated: &SimulatedRequest, explanation: &mut Explanation) {
        let ask = &self.observed[n];
        let reported = self.tokens.plausible_usage(&ask.prompt, ask.reported.as_ref());
        let (Some(reported), Some(read)) = (reported, simulated.read) else { return };
        let lacking = simulated.usage.cache_read.saturating_sub(reported.cache_read);
        let is_counted = self.tokens.is_counted(ask.prompt.blocks[read].chain);
        if !is_beyond_counting(lacking, reported.input_total(), is_counted) {
            return;
        }
        let usd = extra_cost(ask, reported, &explanation.perfect);
        let known = explanation.miss.as_ref().map_or(0, |miss| miss.tokens);
        let is_named = |miss: &CacheMiss| miss.at_stake.is_some() || miss.tokens >= lacking;
        let miss = explanation.miss.take().filter(is_named).unwrap_or_else(|| {
            explanation.reason = Some(Reason::Unavailable);
            CacheMiss::new(Divergence::whole(&ask.prompt, read), 0, None)
        });
        explanation.miss = Some(CacheMiss { tokens: known + lacking, usd, at_stake: None, ..miss });
    }

    /// Returns the reason why there was nothing to read.
    fn reason_without_read(&self, ask: &ObservedRequest, found: &Predecessor) -> Reason {
        if ask.prompt.is_unmarked() {
            return Reason::Unmarked;
        }
        let before = &self.observed[found.before].prompt;
        let is_marked = matches!(before.rules.storage, StoragePolicy::Marked { .. });
        if is_marked && before.marks.is_empty() { Reason::Cold } else { Reason::BelowMinimum }
    }

    fn miss_reason(&self, n: usize, found: &Predecessor, place: &Divergence) -> Reason {
        let ask = &self.observed[n];
        if !found.is_intact {
            return if ask.prompt.is_unmarked() { Reason::Unmarked } else { place.reason };
        }
        let last = cacheable_markers(&ask.prompt, &self.scales[n]).last().map(|mark| mark.block);
        let answered = self.observed[found.before].begun_us.is_some_and(|begun| begun <= ask.at_us);
        match found.state {
            EntryState::Expired => Reason::Expired,
            _ if !answered => Reason::NotYetReadable,
            _ if found.is_due && last < found.reach => Reason::Unmarked,
            _ if !reaches(ask, &self.scales[n], found.reach) => Reason::BeyondLookBack,
            _ => Reason::BelowMinimum,
        }
    }

    /// Reports a tool that was added or removed outside the prefix, which costs nothing according to the
    /// provider.
    fn deferred_tool_change(
        &self,
        n: usize,
        found: &Predecessor,
        explanation: &mut Explanation,
    ) -> Option<Reason> {
        let (ask, there) = (&self.observed[n], &self.observed[found.before].prompt);
        let changed = DeferredTool::first_difference(&ask.prompt, there)?;
        let rewritten = billed_usage(ask, &self.scales[n], 0);
        explanation.miss = Some(CacheMiss {
            block: 1,
            section: Section::Tools,
            pointer: changed.pointer.clone(),
            spans: [None, None],
            tokens: 0,
            usd: extra_cost(ask, &explanation.predicted, &explanation.predicted),
            at_stake: Some(AvoidedMiss {
                tool: changed.name.clone(),
                tokens: explanation.predicted.cache_read,
                usd: extra_cost(ask, &rewritten, &explanation.predicted),
            }),
        });
        Some(Reason::ToolsChanged)
    }
}

impl CacheMiss {
    fn new(place: Divergence, tokens: u64, usd: Option<f64>) -> Self {
        let Divergence { block, section, pointer, spans, .. } = place;
        Self { block: block + 1, section, pointer, spans, tokens, usd, at_stake: None }
    }
}

/// Returns the tokens that a request could have read.
fn readable_tokens(ask: &ObservedRequest, scale: &TokenScale, found: &Predecessor) -> u64 {
    let marks = || written_markers(&ask.prompt, &cacheable_markers(&ask.prompt, scale));
    let could = match ask.prompt.rules.storage {
        // All of it could have been marked.
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

/// Returns the billed usage of a request that reads `read` tokens.
fn billed_usage(ask: &ObservedRequest, scale: &TokenScale, read: u64) -> Usage {
    match ask.prompt.rules.storage {
        StoragePolicy::Marked { .. } => {
            bill(&written_markers(&ask.prompt, &cacheable_markers(&ask.prompt, scale)), scale, read)
        }
        StoragePolicy::Steps { .. } => {
            Usage { cache_read: read, input: scale.total - read, ..Usage::default() }
        }
    }
}

/// Returns the extra cost of one usage over another.
fn extra_cost(ask: &ObservedRequest, paid: &Usage, less: &Usage) -> Option<f64> {
    let usd = |usage: &Usage| input_usd(&ask.prompt.model, usage);
    usd(paid).zip(usd(less)).map(|(paid, less)| paid - less)
}

/// Returns whether a marker's lookup reaches a block.
fn reaches(ask: &ObservedRequest, scale: &TokenScale, reach: Option<usize>) -> bool {
    let Some(reach) = reach else { return false };
    match ask.prompt.rules.storage {
        StoragePolicy::Marked { reads: LookupPolicy::LookBack { positions, .. }, .. } => {
            cacheable_markers(&ask.prompt, scale)
                .iter()
                .any(|mark| look_back(&ask.prompt, mark.block, positions).any(|block| block == reach))
        }
        StoragePolicy::Marked { reads: LookupPolicy::Markers { .. }, .. } => {
            ask.prompt.marks.iter().any(|mark| mark.block == reach)
        }
        StoragePolicy::Steps { .. } => true,
    }
}
