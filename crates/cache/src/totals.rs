//! Sums over requests.

use session::Usage;
use session::model::price;

use crate::explanation::Explanation;

/// Sum over requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CacheTotals {
    /// Number of answered requests.
    pub requests: u64,
    /// Predicted reads and writes.
    pub predicted: Usage,
    /// Reported usage.
    pub reported: Usage,
    /// Reads and writes after a perfect prefix.
    pub perfect: Usage,
    /// Tokens that were written or sent again although they had been cached.
    pub missed: u64,
    /// Predicted cost of the input in dollars; `None` if a price is unknown.
    pub predicted_usd: Option<f64>,
    /// Reported cost of the input in dollars.
    pub reported_usd: Option<f64>,
    /// Cost of the input in dollars after a perfect prefix.
    pub perfect_usd: Option<f64>,
}

impl CacheTotals {
    /// Sums up requests.
    pub fn of<'e>(requests: impl Iterator<Item = &'e Explanation>) -> Self {
        let zero = Some(0.0);
        let mut sum = Self { predicted_usd: zero, reported_usd: zero, perfect_usd: zero, ..Self::default() };
        for request in requests {
            let reported = request.reported.unwrap_or_default();
            sum.requests += u64::from(request.is_answered());
            sum.predicted += request.predicted;
            sum.reported += reported;
            sum.perfect += request.perfect;
            sum.missed += request.miss.as_ref().map_or(0, |miss| miss.tokens);
            let add = |sum: Option<f64>, usage: &Usage| Some(sum? + input_usd(&request.model, usage)?);
            sum.predicted_usd = add(sum.predicted_usd, &request.predicted);
            sum.reported_usd = add(sum.reported_usd, &reported);
            sum.perfect_usd = add(sum.perfect_usd, &request.perfect);
        }
        sum
    }
}

/// Returns the cost of a request's input if the price is known.
pub(crate) fn input_usd(model: &str, usage: &Usage) -> Option<f64> {
    let input = Usage { output: 0, reasoning: 0, ..*usage };
    price(model).map(|price| price.cost(&input))
}
