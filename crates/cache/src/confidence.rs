//! Confidence in a prediction, judged by the reported usage.

use std::fmt;

use session::Usage;

use crate::prompt::CachePrompt;
use crate::tokens::TokenModel;

/// Difference in percent of the prompt up to which token counting explains it.
const COUNTING: f64 = 25.0;
/// The same limit if another request's usage gives the length of the prefix.
const COUNTED: f64 = 2.0;

/// Confidence in a prediction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Confidence {
    /// The usage agrees to the token.
    Exact,
    /// The usage agrees, but the prediction depends on it: the request read nothing, and its own usage gives
    /// its length.
    Calibrated,
    /// Reads and writes differ by at most this percentage of the prompt.
    Within(f64),
    /// The usage disagrees.
    Contradicted,
    /// There is no usage, or none from a real provider.
    Unchecked,
}

impl Confidence {
    pub(crate) fn of(
        tokens: &TokenModel,
        prompt: &CachePrompt,
        predicted: &Usage,
        reported: Option<&Usage>,
    ) -> Self {
        if reported.is_none_or(|usage| usage.input_total() == 0) {
            return Self::Unchecked;
        }
        let Some(reported) = tokens.plausible_usage(prompt, reported) else {
            // A usage without cache fields that cannot be the prompt's length comes from a scripted provider:
            // nothing was checked.
            let is_silent = reported.is_none_or(|usage| usage.input_total() == usage.input);
            return if is_silent { Self::Unchecked } else { Self::Contradicted };
        };
        let parts = [
            (predicted.cache_read, reported.cache_read),
            (predicted.cache_write_5m, reported.cache_write_5m),
            (predicted.cache_write_1h, reported.cache_write_1h),
            (predicted.input, reported.input),
        ];
        let most = parts.iter().map(|(ours, theirs)| ours.abs_diff(*theirs)).max().unwrap_or_default();
        if most == 0 {
            return Self::Exact;
        }
        match most as f64 * 100.0 / reported.input_total() as f64 {
            percent if percent <= COUNTING => Self::Within(percent),
            _ => Self::Contradicted,
        }
    }
}

/// Returns whether a difference in tokens is too large to be explained by counting.
pub(crate) fn is_beyond_counting(tokens: u64, of: u64, is_counted: bool) -> bool {
    tokens as f64 * 100.0 > of as f64 * if is_counted { COUNTED } else { COUNTING }
}

impl fmt::Display for Confidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact => f.write_str("exact"),
            Self::Calibrated => f.write_str("calibrated"),
            Self::Within(percent) => write!(f, "within {:.1} %", percent.max(0.1)),
            Self::Contradicted => f.write_str("contradicted by the usage"),
            Self::Unchecked => f.write_str("without a usage"),
        }
    }
}
