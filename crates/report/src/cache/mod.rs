//! Output of `offshoot cache`: predicted cache use of each request.

mod json;
mod lint;
mod text;

use std::collections::HashMap;

use ::cache::{ByteDiff, CacheReport, Confidence};
use session::{RequestId, Usage};

pub use json::cache_json;
pub(crate) use json::section;
pub use lint::{lint_json, lint_text};
pub use text::cache_text;

/// The explained cache of a recording or run.
#[derive(Debug)]
pub struct CacheView<'a> {
    /// The explanation of each request.
    pub explained: &'a CacheReport,
    /// The first difference to the cached prefix, by request.
    pub shown: &'a HashMap<RequestId, ByteDiff>,
    /// The month of the list prices.
    pub prices_of: &'a str,
    /// Requests that are not explained.
    pub left_out: UnexplainedRequests,
}

/// Requests of which only the usage is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnexplainedRequests {
    /// Number of requests.
    pub requests: u64,
    /// Their usage.
    pub usage: Usage,
}

impl CacheView<'_> {
    /// Summarises the counts, as in `exact in 3 requests, within 1.2 % in 2`.
    pub(crate) fn sure(&self) -> String {
        AccuracyCounts::of(self.explained).in_words()
    }
}

/// PageNumbers of requests by accuracy of the prediction.
#[derive(Default)]
struct AccuracyCounts {
    exact: u64,
    calibrated: u64,
    within: u64,
    /// The largest deviation of those.
    percent: f64,
    contradicted: u64,
    unchecked: u64,
}

impl AccuracyCounts {
    fn of(explained: &CacheReport) -> Self {
        let mut counted = Self::default();
        for request in explained.requests.iter().filter(|request| request.is_answered()) {
            match request.confidence {
                Confidence::Exact => counted.exact += 1,
                Confidence::Calibrated => counted.calibrated += 1,
                Confidence::Within(percent) => {
                    counted.within += 1;
                    counted.percent = counted.percent.max(percent);
                }
                Confidence::Contradicted => counted.contradicted += 1,
                Confidence::Unchecked => counted.unchecked += 1,
            }
        }
        counted
    }

    /// Summarises the counts, as in `exact in 3 requests, within 1.2 % in 2`.
    fn in_words(&self) -> String {
        let within = Confidence::Within(self.percent).to_string();
        let parts = [
            (self.exact, "exact"),
            (self.calibrated, "calibrated"),
            (self.within, within.as_str()),
            (self.contradicted, "contradicted by the usage"),
            (self.unchecked, "without a usage"),
        ];
        let told: Vec<String> = parts
            .iter()
            .filter(|(count, _)| *count > 0)
            .enumerate()
            .map(|(at, (count, what))| match (at, count) {
                (0, 1) => format!("{what} in 1 request"),
                (0, count) => format!("{what} in {count} requests"),
                (_, count) => format!("{what} in {count}"),
            })
            .collect();
        if told.is_empty() { "nothing was asked".to_owned() } else { told.join(", ") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_sure_is_said_in_one_line() {
        let counted = AccuracyCounts {
            exact: 3,
            calibrated: 1,
            within: 2,
            percent: 1.24,
            contradicted: 1,
            unchecked: 0,
        };
        assert_eq!(
            counted.in_words(),
            "exact in 3 requests, calibrated in 1, within 1.2 % in 2, contradicted by the usage in 1"
        );
        assert_eq!(
            AccuracyCounts { unchecked: 1, ..AccuracyCounts::default() }.in_words(),
            "without a usage in 1 request"
        );
        assert_eq!(AccuracyCounts::default().in_words(), "nothing was asked");
    }
}
