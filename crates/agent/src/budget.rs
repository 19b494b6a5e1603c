//! What a request may use: set aside before it is asked for, with an answer that is kept so short that it fits.

use session::{Usage, model};
use store::Limit;

use crate::error::RunError;
use crate::run::{Run, microusd};
use crate::settings::RunLimits;
use crate::words;

/// What is set aside for an answer where nobody counts the money: rarely is one longer.
const USUAL_OUTPUT: u64 = 4096;
/// Less is no answer.
const SHORTEST_ANSWER: u64 = 256;
/// An answer of whoever is above, which nobody below may use up: it is to say what came of it all.
const KEPT_ANSWER: u64 = 1024;

/// With a budget, no answer may cost more than half of it: what could be written is what has to be set aside.
pub(crate) fn affordable(limits: RunLimits, model: &str) -> Result<RunLimits, RunError> {
    let half = limits.max_budget_tokens.map_or(u64::MAX, |tokens| (tokens / 2).max(SHORTEST_ANSWER));
    let limits = RunLimits { max_tokens: limits.max_tokens.min(half), ..limits };
    let Some(budget) = limits.max_budget_microusd else { return Ok(limits) };
    let price = model::price(model).ok_or_else(|| RunError::UnknownPrice(model.to_owned()))?;
    let million = price.cost(&Usage { output: 1_000_000, ..Usage::default() });
    let affordable = if million > 0.0 { budget as f64 / 2.0 / million } else { f64::MAX };
    let max_tokens = (affordable as u64).clamp(SHORTEST_ANSWER, limits.max_tokens.max(SHORTEST_ANSWER));
    Ok(RunLimits { max_tokens, ..limits })
}

/// A limit that a request does not keep to.
pub(crate) struct Over {
    pub(crate) limit: Limit,
    /// What is counted: `microusd` or `tokens`.
    pub(crate) unit: &'static str,
    pub(crate) used: i64,
    pub(crate) reserved: i64,
    pub(crate) wanted: i64,
    pub(crate) most: i64,
}

impl Over {
    /// Whether it would fit once what others have set aside were free.
    pub(crate) fn may_pass(&self) -> bool {
        self.reserved > 0 && self.used.saturating_add(self.wanted) <= self.most
    }

    /// How long an answer may be so that the request fits all the same; `None` where that would be none.
    pub(crate) fn shorter(&self, run: &Run, request: usize) -> Option<u64> {
        let left = self.most - self.used - self.reserved;
        let (money, tokens) = run.reserve(request, 0);
        let fits = match self.unit {
            "tokens" => u64::try_from(left).ok()?.checked_sub(tokens)?,
            _ => {
                let million =
                    model::price(&run.model)?.cost(&Usage { output: 1_000_000, ..Usage::default() });
                (u64::try_from(left - money).ok()? as f64 / million.max(f64::MIN_POSITIVE)) as u64
            }
        };
        (fits >= SHORTEST_ANSWER).then_some(fits)
    }

    /// Why the request was not made.
    pub(crate) fn in_words(&self, run: &Run) -> String {
        let whole = run.within.iter().find(|limit| limit.run == self.limit.run).unwrap_or(&self.limit);
        let most = match self.unit {
            "tokens" => whole.tokens.map(|tokens| i64::try_from(tokens).unwrap_or(i64::MAX)),
            _ => whole.microusd,
        };
        let most = most.unwrap_or(self.most);
        let kept = most - self.most;
        let whose = if self.limit.run == run.id { "" } else { " in all" };
        let amount = |amount| words::amount(amount, self.unit);
        let rest = match kept {
            0 => String::new(),
            kept => format!(", of which {} are kept for those above", amount(kept)),
        };
        let (used, most, wanted) = (amount(self.used), amount(most), amount(self.wanted));
        let guess = if self.is_guess(run) { words::NOT_TOLD } else { "" };
        format!("{used} of {most} are spent{whose}{rest}, and the next request could cost {wanted}{guess}")
    }

    /// Whether more counts as used than providers told: then something of it is what was set aside.
    fn is_guess(&self, run: &Run) -> bool {
        let Ok(told) = run.kernel.store.run(&self.limit.run).totals() else { return false };
        let told = match self.unit {
            "tokens" => i64::try_from(told.usage.input_total().saturating_add(told.usage.output)),
            _ => Ok(told.cost_microusd),
        };
        told.is_ok_and(|told| self.used > told)
    }
}

impl Run {
    /// What a request of that length, and an answer of so many tokens, are expected to use at most: money, where the
    /// price is known, and tokens.
    pub(crate) fn reserve(&self, request: usize, output: u64) -> (i64, u64) {
        // Three bytes make a token in the worst of usual texts, and the cache may have none of it yet.
        let input = request as u64 / 3;
        let expected = Usage { cache_write_5m: input, output, ..Usage::default() };
        let money = model::price(&self.model).map_or(0, |price| microusd(price.cost(&expected)));
        (money, input.saturating_add(output))
    }

    /// How long an answer may be.
    pub(crate) fn longest_answer(&self) -> u64 {
        let cap = self.settings.fork.as_ref().and_then(|fork| fork.max_output_tokens);
        self.settings.max_tokens.min(cap.unwrap_or(u64::MAX))
    }

    /// What is set aside for an answer that may be so long.
    pub(crate) fn set_aside(&self, longest: u64) -> u64 {
        if self.within.is_empty() { longest.min(USUAL_OUTPUT) } else { longest }
    }

    /// What it may use: of a limit that others share, all but what those above need for a last answer.
    pub(crate) fn may_use(&self) -> Vec<Limit> {
        let left = |limit: &Limit| {
            let (money, tokens) = self.kept_for(limit);
            // Where those above need most of it there is nothing to share: then whoever comes first has it.
            Limit {
                run: limit.run.clone(),
                microusd: limit.microusd.map(|most| if money > most / 2 { most } else { most - money }),
                tokens: limit.tokens.map(|most| if tokens > most / 2 { most } else { most - tokens }),
            }
        };
        self.within.iter().map(left).collect()
    }

    /// What of a limit is kept for those above it, up to the one whose limit it is.
    fn kept_for(&self, limit: &Limit) -> (i64, u64) {
        let (mut money, mut tokens, mut at) = (0_i64, 0_u64, self);
        while at.id != limit.run {
            let Some(above) = &at.above else { break };
            let one = above.reserve(above.last_request(), KEPT_ANSWER);
            (money, tokens, at) = (money.saturating_add(one.0), tokens.saturating_add(one.1), above);
        }
        (money, tokens)
    }
}
