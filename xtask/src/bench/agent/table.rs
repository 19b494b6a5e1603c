//! Formats the results as Markdown.

use std::fmt::Write;

use super::sample::{HarnessRow, HarnessSample, StepSpeeds};
use super::steps;
use crate::bench::table::{cell, quantile};

/// Minimum factor by which our kernel must be faster and smaller than the better other harness.
const MIN_FACTOR: f64 = 10.0;
/// Minimum share of the steps of group commit with plain SQLite.
const MIN_SHARE: f64 = 0.5;

/// Returns the factor between the better other harness and offshoot, the first row: the median of the ratios of all rounds.
fn better(rows: &[HarnessRow], value: impl Fn(&HarnessSample) -> f64) -> Option<f64> {
    let (offshoot, others) = rows.split_first()?;
    let ratios = offshoot.samples.iter().enumerate().filter_map(|(round, us)| {
        let them = others.iter().filter_map(|row| row.samples.get(round)).map(&value);
        Some(them.min_by(f64::total_cmp)? / value(us))
    });
    quantile(ratios.collect(), 0.5)
}

/// Formats the medians of the harnesses.
pub(super) fn harnesses(rows: &[HarnessRow]) -> String {
    let mut text = "#### Twenty reads\n\n\
         | harness | start to exit, s | slowest, s | CPU, s | peak memory, MB | requests |\n\
         |---|---:|---:|---:|---:|---:|\n"
        .to_owned();
    for row in rows {
        let slowest = row.samples.iter().map(|sample| sample.seconds).max_by(f64::total_cmp);
        writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} |",
            row.name,
            cell(row.median(|sample| sample.seconds), 3),
            cell(slowest, 3),
            cell(row.cpu(), 3),
            cell(row.median(|sample| sample.megabytes), 1),
            cell(row.median(|sample| sample.requests as f64), 0),
        )
        .expect("a string accepts all text");
    }
    text
}

/// Formats the medians of the journal.
pub(super) fn steps(speeds: &[StepSpeeds]) -> String {
    let mut text = "#### Durable steps\n\n\
         | concurrent runs | steps/s | commits/s | rows/s | group commit, rows/s | our share | bulk, rows/s | our share |\n\
         |---:|---:|---:|---:|---:|---:|---:|---:|\n"
        .to_owned();
    let rows = steps::rows() as f64;
    for speed in speeds {
        let median = |values: &[f64]| quantile(values.to_vec(), 0.5);
        let offshoot = median(&speed.offshoot);
        writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            speed.runs,
            cell(offshoot, 0),
            cell(offshoot.map(|offshoot| offshoot * f64::from(steps::COMMITS)), 0),
            cell(offshoot.map(|offshoot| offshoot * rows), 0),
            cell(median(&speed.group).map(|steps| steps * rows), 0),
            cell(speed.of(&speed.group), 2),
            cell(median(&speed.bulk).map(|steps| steps * rows), 0),
            cell(speed.of(&speed.bulk), 2),
        )
        .expect("a string accepts all text");
    }
    text
}

/// Formats the aims with the measured figures.
pub(super) fn aims(rows: &[HarnessRow], speeds: &[StepSpeeds]) -> String {
    let mut text = "#### The aims\n\n| figure | aim | measured | |\n|---|---|---|---|\n".to_owned();
    let mut line = |figure: &str, aim: String, measured: Option<f64>, unit: &str, least: f64| {
        let Some(measured) = measured else { return };
        let met = if measured >= least { "met" } else { "**missed**" };
        writeln!(text, "| {figure} | {aim} | {measured:.2}{unit} | {met} |")
            .expect("a string accepts all text");
    };
    let least = format!("at least {MIN_FACTOR} ×");
    line(
        "faster than the better other harness",
        least.clone(),
        better(rows, |it| it.seconds),
        " ×",
        MIN_FACTOR,
    );
    line("smaller than the better other harness", least, better(rows, |it| it.megabytes), " ×", MIN_FACTOR);
    for speed in speeds {
        let figure = format!("durable steps, concurrent runs: {}", speed.runs);
        let aim = format!("at least {MIN_SHARE} of group commit");
        line(&figure, aim, speed.of(&speed.group), "", MIN_SHARE);
    }
    text
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn row(name: &str, samples: &[(f64, f64)]) -> HarnessRow {
        let sample = |&(seconds, megabytes): &(f64, f64)| HarnessSample {
            seconds,
            cpu: seconds / 2.0,
            megabytes,
            requests: 21,
        };
        HarnessRow { name: name.to_owned(), samples: samples.iter().map(sample).collect() }
    }

    #[test]
    fn the_better_other_harness_counts_in_each_round() {
        // The second round is slow for all, and the other harness is better in it.
        let rows = [
            row("offshoot", &[(0.1, 20.0), (0.2, 20.0), (0.1, 20.0)]),
            row("one", &[(1.5, 300.0), (4.0, 300.0), (1.5, 300.0)]),
            row("two", &[(2.0, 190.0), (3.0, 190.0), (2.0, 190.0)]),
        ];
        let speeds = [StepSpeeds {
            runs: 8,
            offshoot: vec![400.0, 900.0],
            group: vec![1000.0, 1500.0],
            bulk: vec![2000.0, 3600.0],
        }];
        expect![[r#"
            #### Twenty reads

            | harness | start to exit, s | slowest, s | CPU, s | peak memory, MB | requests |
            |---|---:|---:|---:|---:|---:|
            | offshoot | 0.100 | 0.200 | 0.067 | 20.0 | 21 |
            | one | 1.500 | 4.000 | 1.167 | 300.0 | 21 |
            | two | 2.000 | 3.000 | 1.167 | 190.0 | 21 |
            #### Durable steps

            | concurrent runs | steps/s | commits/s | rows/s | group commit, rows/s | our share | bulk, rows/s | our share |
            |---:|---:|---:|---:|---:|---:|---:|---:|
            | 8 | 900 | 3600 | 7200 | 12000 | 0.60 | 28800 | 0.25 |
            #### The aims

            | figure | aim | measured | |
            |---|---|---|---|
            | faster than the better other harness | at least 10 × | 15.00 × | met |
            | smaller than the better other harness | at least 10 × | 9.50 × | **missed** |
            | durable steps, concurrent runs: 8 | at least 0.5 of group commit | 0.60 | met |
        "#]]
        .assert_eq(&(harnesses(&rows) + &steps(&speeds) + &aims(&rows, &speeds)));
    }
}
