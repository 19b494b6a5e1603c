//! Budgets: what a request may cost at most is reserved before it is sent, with an output limit that fits.

use session::{Usage, model};
use store::Limit;

use crate::error::RunError;
use crate::prompts;
use crate::run::{Run, microusd};
use crate::settings::RunLimits;

/// Output tokens that are reserved without a budget: few replies are longer.
const USUAL_OUTPUT: u64 = 4096;
/// The smallest useful output limit.
const SHORTEST_REPLY: u64 = 256;
/// Output tokens that are kept for each run above, so that it can report the results.
const KEPT_OUTPUT: u64 = 1024;

/// Returns limits whose output limit fits the budget: no reply may cost more than half of it.
pub(crate) fn affordable(limits: RunLimits, model: &str) -> Result<RunLimits, RunError> {
    let half = limits.max_budget_tokens.map_or(u64::MAX, |tokens| (tokens / 2).max(SHORTEST_REPLY));
    let limits = RunLimits { max_tokens: limits.max_tokens.min(half), ..limits };
    let Some(budget) = limits.max_budget_microusd else { return Ok(limits) };
    let price = model::price(model).ok_or_else(|| RunError::UnknownPrice(model.to_owned()))?;
    let million = price.cost(&Usage { output: 1_000_000, ..Usage::default() });
    let affordable = if million > 0.0 { budget as f64 / 2.0 / million } else { f64::MAX };
    let max_tokens = (affordable as u64).clamp(SHORTEST_REPLY, limits.max_tokens.max(SHORTEST_REPLY));
    Ok(RunLimits { max_tokens, ..limits })
}

/// A limit that a request could exceed.
pub(crate) struct BudgetExcess {
    pub(crate) limit: Limit,
    /// `microusd` or `tokens`.
    pub(crate) unit: &'static str,
    pub(crate) used: i64,
    pub(crate) reserved: i64,
    pub(crate) requested: i64,
    pub(crate) maximum: i64,
}

impl BudgetExcess {
    /// Returns whether the request may fit when reservations of other runs are released.
    pub(crate) fn may_fit_later(&self) -> bool {
        self.reserved > 0 && self.used.saturating_add(self.requested) <= self.maximum
    }

    /// Returns the output limit with which the request fits. Returns `None` if that is too short.
    pub(crate) fn fitting_output(&self, run: &Run, request: usize) -> Option<u64> {
        let left = self.maximum - self.used - self.reserved;
        let (money, tokens) = run.reserve(request, 0);
        let fits = match self.unit {
            "tokens" => u64::try_from(left).ok()?.checked_sub(tokens)?,
            _ => {
                let million =
                    model::price(&run.row.model)?.cost(&Usage { output: 1_000_000, ..Usage::default() });
                (u64::try_from(left - money).ok()? as f64 / million.max(f64::MIN_POSITIVE)) as u64
            }
        };
        (fits >= SHORTEST_REPLY).then_some(fits)
    }

    /// Describes why the request was not sent.
    pub(crate) fn describe(&self, run: &Run) -> String {
        let whole =
            run.bounds.budgets.iter().find(|limit| limit.run == self.limit.run).unwrap_or(&self.limit);
        let maximum = match self.unit {
            "tokens" => whole.tokens.map(|tokens| i64::try_from(tokens).unwrap_or(i64::MAX)),
            _ => whole.microusd,
        };
        let maximum = maximum.unwrap_or(self.maximum);
        let kept = maximum - self.maximum;
        let whose = if self.limit.run == *run.id() { "" } else { " in all" };
        let amount = |amount| prompts::amount(amount, self.unit);
        let rest = match kept {
            0 => String::new(),
            kept => format!(", of which {} are reserved for the agents above", amount(kept)),
        };
        let (used, maximum, requested) = (amount(self.used), amount(maximum), amount(self.requested));
        let estimate = if self.has_estimates(run) { prompts::USAGE_UNKNOWN } else { "" };
        format!(
            "{used} of {maximum} are spent{whose}{rest}, and the next request could cost {requested}{estimate}"
        )
    }

    /// Returns whether the usage includes reservations whose real usage is unknown.
    fn has_estimates(&self, run: &Run) -> bool {
        let Ok(reported) = run.kernel.store.run(&self.limit.run).totals() else { return false };
        let reported = match self.unit {
            "tokens" => i64::try_from(reported.usage.input_total().saturating_add(reported.usage.output)),
            _ => Ok(reported.cost_microusd),
        };
        reported.is_ok_and(|reported| self.used > reported)
    }
}

impl Run {
    /// Returns the maximum that a request of that length and a reply of that many tokens are expected to use: money, if the
    /// price is known, and tokens.
    pub(crate) fn reserve(&self, request: usize, output: u64) -> (i64, u64) {
        // Usual texts have at least three bytes per token, and the cache may have none of them.
        let input = request as u64 / 3;
        let expected = Usage { cache_write_5m: input, output, ..Usage::default() };
        let money = model::price(&self.row.model).map_or(0, |price| microusd(price.cost(&expected)));
        (money, input.saturating_add(output))
    }

    /// Returns the output limit of a reply.
    pub(crate) fn output_limit(&self) -> u64 {
        let cap = self.settings.fork.as_ref().and_then(|fork| fork.max_output_tokens);
        self.settings.max_tokens.min(cap.unwrap_or(u64::MAX))
    }

    /// Returns the output tokens to reserve for a reply with that limit.
    pub(crate) fn reserved_output(&self, limit: u64) -> u64 {
        if self.bounds.budgets.is_empty() { limit.min(USUAL_OUTPUT) } else { limit }
    }

    /// Returns the budgets without the part that the runs above need for their last replies.
    pub(crate) fn usable_budgets(&self) -> Vec<Limit> {
        let left = |limit: &Limit| {
            let (money, tokens) = self.kept_for(limit);
            // If the runs above need most of it, the first request gets it.
            Limit {
                run: limit.run.clone(),
                microusd: limit
                    .microusd
                    .map(|maximum| if money > maximum / 2 { maximum } else { maximum - money }),
                tokens: limit
                    .tokens
                    .map(|maximum| if tokens > maximum / 2 { maximum } else { maximum - tokens }),
            }
        };
        self.bounds.budgets.iter().map(left).collect()
    }

    /// Returns the part of a limit that is kept for the runs above, up to the one whose limit it is.
    fn kept_for(&self, limit: &Limit) -> (i64, u64) {
        let (mut money, mut tokens, mut at) = (0_i64, 0_u64, self);
        while *at.id() != limit.run {
            let Some(above) = &at.parent else { break };
            let one = above.reserve(above.last_request_len(), KEPT_OUTPUT);
            (money, tokens, at) = (money.saturating_add(one.0), tokens.saturating_add(one.1), above);
        }
        (money, tokens)
    }
}
