//! Time and memory of a command by number of exchanges.

use std::env;
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::process::ResourceUsage;

/// Maximum growth of the CPU time per exchange for ten times as many exchanges.
const GROWTH: f64 = 1.25;

/// One row of the table.
pub(super) struct GrowthRow {
    pub(super) exchanges: u32,
    pub(super) seconds: f64,
    pub(super) cpu: f64,
    pub(super) megabytes: f64,
}

impl GrowthRow {
    /// Takes the fastest of several runs, and the largest memory.
    pub(super) fn of(exchanges: u32, runs: &[ResourceUsage]) -> Self {
        let fastest = |time: fn(&ResourceUsage) -> Duration| {
            runs.iter().map(time).min().map_or(0.0, |time| time.as_secs_f64())
        };
        Self {
            exchanges,
            seconds: fastest(|used| used.took),
            cpu: fastest(|used| used.cpu),
            megabytes: runs.iter().map(|used| used.memory).max().unwrap_or_default() as f64 / 1e6,
        }
    }

    /// Returns the CPU time of one exchange in milliseconds, which shows growth better than the time.
    pub(super) fn cpu_ms_per_exchange(&self) -> f64 {
        self.cpu * 1e3 / f64::from(self.exchanges)
    }

    /// Compares the CPU time per exchange with that of a smaller row. Returns the name, the aim, the measured value, and
    /// whether the aim is met.
    pub(super) fn cpu_figure(&self, least: &Self) -> (&'static str, String, String, bool) {
        let growth = self.cpu_ms_per_exchange() / least.cpu_ms_per_exchange();
        (
            "CPU per exchange, against a tenth as many",
            format!("at most {GROWTH} ×"),
            format!("{growth:.2} ×"),
            growth <= GROWTH,
        )
    }
}

/// Creates the folder of one measurement, beside the program.
pub(super) fn measurement_folder() -> Result<TempDir> {
    tempfile::Builder::new()
        .prefix("bench-")
        .tempdir_in(env::current_exe()?.parent().context("a program is in a folder")?)
        .context("cannot create a folder for the measurement")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_relative_to_the_smaller_row() {
        let row = |exchanges, cpu| GrowthRow { exchanges, seconds: 0.0, cpu, megabytes: 0.0 };
        let (.., measured, is_met) = row(1000, 1.2).cpu_figure(&row(100, 0.1));
        assert_eq!((measured.as_str(), is_met), ("1.20 ×", true));
        let (.., measured, is_met) = row(1000, 1.3).cpu_figure(&row(100, 0.1));
        assert_eq!((measured.as_str(), is_met), ("1.30 ×", false));
    }
}
