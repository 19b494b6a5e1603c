//! Sums: of a lane, and of all.

use session::Usage;
use session::model::price;

use crate::explanation::Explanation;

/// What some requests came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CacheTotals {
    /// How many were answered.
    pub requests: u64,
    /// What the cache should have read and written.
    pub predicted: Usage,
    /// What the usage says.
    pub reported: Usage,
    /// What a perfect prefix would have read and written.
    pub perfect: Usage,
    /// Tokens that were written or sent again although they had been kept.
    pub missed: u64,
    /// Dollars for the input, as predicted; `None` where a price is not known.
    pub predicted_usd: Option<f64>,
    /// Dollars for the input, as reported.
    pub reported_usd: Option<f64>,
    /// Dollars for the input, with a perfect prefix.
    pub perfect_usd: Option<f64>,
}

impl CacheTotals {
    /// The sum of some requests.
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

/// What the input of a call costs, where the price is known.
pub(crate) fn input_usd(model: &str, usage: &Usage) -> Option<f64> {
    let input = Usage { output: 0, reasoning: 0, ..*usage };
    price(model).map(|price| price.cost(&input))
}
