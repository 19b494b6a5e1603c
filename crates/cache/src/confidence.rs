//! How far what was computed can be trusted: what the usage says of it.

use std::fmt;

use session::Usage;

use crate::prompt::CachePrompt;
use crate::tokens::TokenModel;

/// From which part of a prompt on a difference is no matter of counting any more, in percent.
const COUNTING: f64 = 25.0;
/// The same where another request's usage tells how long the prefix is.
const COUNTED: f64 = 2.0;

/// How sure a prediction is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Confidence {
    /// The usage says the same, to the token.
    Exact,
    /// The same, but nothing was foretold: it read nothing, and its own usage says how long it is.
    Calibrated,
    /// Reads and writes are within so many percent of the prompt.
    Within(f64),
    /// The usage says something else.
    Contradicted,
    /// There is no usage, or one that no provider has said.
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
        let Some(reported) = tokens.believed(prompt, reported) else {
            // What says nothing of a cache, and cannot be how long the prompt is, is a stand-in's: nothing was checked.
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

/// Whether so many tokens of a prompt are more than a matter of counting.
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
