//! Measurements by harness and round.

use crate::bench::table::quantile;

/// One measurement of one harness.
#[derive(Clone, Copy)]
pub(super) struct HarnessSample {
    pub(super) seconds: f64,
    pub(super) cpu: f64,
    pub(super) megabytes: f64,
    pub(super) requests: usize,
}

/// All measurements of one harness, by round.
pub(super) struct HarnessRow {
    pub(super) name: String,
    pub(super) samples: Vec<HarnessSample>,
}

/// Steps per second with a number of concurrent runs, by round.
pub(super) struct StepSpeeds {
    pub(super) runs: usize,
    pub(super) offshoot: Vec<f64>,
    /// Group commit with plain SQLite.
    pub(super) group: Vec<f64>,
    /// Bulk writes with plain SQLite.
    pub(super) bulk: Vec<f64>,
}

impl StepSpeeds {
    pub(super) fn new(runs: usize) -> StepSpeeds {
        StepSpeeds { runs, offshoot: Vec::new(), group: Vec::new(), bulk: Vec::new() }
    }

    /// Returns the median of the ratios of each round.
    pub(super) fn of(&self, theirs: &[f64]) -> Option<f64> {
        quantile(self.offshoot.iter().zip(theirs).map(|(offshoot, theirs)| offshoot / theirs).collect(), 0.5)
    }
}

impl HarnessRow {
    pub(super) fn median(&self, value: impl Fn(&HarnessSample) -> f64) -> Option<f64> {
        quantile(self.samples.iter().map(value).collect(), 0.5)
    }

    /// Returns the mean over all rounds, because Linux counts in hundredths of a second.
    pub(super) fn cpu(&self) -> Option<f64> {
        let all: f64 = self.samples.iter().map(|sample| sample.cpu).sum();
        (!self.samples.is_empty()).then(|| all / self.samples.len() as f64)
    }
}
