//! What was measured, as Markdown.

use std::fmt::Write;

use super::steps;
use crate::bench::table::{cell, quantile};

/// At least so many times faster, and smaller, than the better of the others.
const BETTER: f64 = 10.0;
/// At least so much of what group commit over SQLite alone does.
const OF_GROUP: f64 = 0.5;

/// One start of one harness.
#[derive(Clone, Copy)]
pub(super) struct Sample {
    pub(super) seconds: f64,
    pub(super) cpu: f64,
    pub(super) megabytes: f64,
    pub(super) requests: usize,
}

/// All starts of one harness, by round.
pub(super) struct Row {
    pub(super) name: String,
    pub(super) samples: Vec<Sample>,
}

/// Steps a second with so many runs at once, by round.
pub(super) struct Speed {
    pub(super) runs: usize,
    pub(super) ours: Vec<f64>,
    /// Group commit over SQLite alone.
    pub(super) group: Vec<f64>,
    /// SQLite alone, with nobody who waits.
    pub(super) bulk: Vec<f64>,
}

impl Speed {
    pub(super) fn new(runs: usize) -> Speed {
        Speed { runs, ours: Vec::new(), group: Vec::new(), bulk: Vec::new() }
    }

    /// Ours of theirs, the median of each round's own ratio.
    fn of(&self, theirs: &[f64]) -> Option<f64> {
        quantile(self.ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect(), 0.5)
    }
}

impl Row {
    fn median(&self, value: impl Fn(&Sample) -> f64) -> Option<f64> {
        quantile(self.samples.iter().map(value).collect(), 0.5)
    }

    /// Linux counts hundredths of a second, so all rounds count together.
    fn cpu(&self) -> Option<f64> {
        let all: f64 = self.samples.iter().map(|sample| sample.cpu).sum();
        (!self.samples.is_empty()).then(|| all / self.samples.len() as f64)
    }
}

/// How often ours, the first row, goes into the better of the others, the median of each round's own ratio.
fn better(rows: &[Row], value: impl Fn(&Sample) -> f64) -> Option<f64> {
    let (ours, others) = rows.split_first()?;
    let ratios = ours.samples.iter().enumerate().filter_map(|(round, us)| {
        let them = others.iter().filter_map(|row| row.samples.get(round)).map(&value);
        Some(them.min_by(f64::total_cmp)? / value(us))
    });
    quantile(ratios.collect(), 0.5)
}

/// The harnesses: medians over the rounds.
pub(super) fn harnesses(rows: &[Row]) -> String {
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
        .expect("a string takes all");
    }
    text
}

/// The journal: medians over the rounds.
pub(super) fn steps(speeds: &[Speed]) -> String {
    let mut text = "#### Durable steps\n\n\
         | runs at once | steps/s | commits waited for/s | rows/s | group commit, rows/s | ours of it | bulk, rows/s | ours of it |\n\
         |---:|---:|---:|---:|---:|---:|---:|---:|\n"
        .to_owned();
    let rows = steps::rows() as f64;
    for speed in speeds {
        let median = |values: &[f64]| quantile(values.to_vec(), 0.5);
        let ours = median(&speed.ours);
        writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            speed.runs,
            cell(ours, 0),
            cell(ours.map(|ours| ours * f64::from(steps::COMMITS)), 0),
            cell(ours.map(|ours| ours * rows), 0),
            cell(median(&speed.group).map(|steps| steps * rows), 0),
            cell(speed.of(&speed.group), 2),
            cell(median(&speed.bulk).map(|steps| steps * rows), 0),
            cell(speed.of(&speed.bulk), 2),
        )
        .expect("a string takes all");
    }
    text
}

/// What we want, and what is.
pub(super) fn aims(rows: &[Row], speeds: &[Speed]) -> String {
    let mut text = "#### The aims\n\n| figure | aim | measured | |\n|---|---|---|---|\n".to_owned();
    let mut line = |figure: &str, aim: String, measured: Option<f64>, unit: &str, least: f64| {
        let Some(measured) = measured else { return };
        let met = if measured >= least { "met" } else { "**missed**" };
        writeln!(text, "| {figure} | {aim} | {measured:.2}{unit} | {met} |").expect("a string takes all");
    };
    let least = format!("at least {BETTER} ×");
    line("faster than the better of the others", least.clone(), better(rows, |it| it.seconds), " ×", BETTER);
    line("smaller than the better of the others", least, better(rows, |it| it.megabytes), " ×", BETTER);
    for speed in speeds {
        let figure = format!("durable steps, runs at once: {}", speed.runs);
        let aim = format!("at least {OF_GROUP} of group commit");
        line(&figure, aim, speed.of(&speed.group), "", OF_GROUP);
    }
    text
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn row(name: &str, samples: &[(f64, f64)]) -> Row {
        let sample = |&(seconds, megabytes): &(f64, f64)| Sample {
            seconds,
            cpu: seconds / 2.0,
            megabytes,
            requests: 21,
        };
        Row { name: name.to_owned(), samples: samples.iter().map(sample).collect() }
    }

    #[test]
    fn the_better_of_the_others_counts_in_each_round() {
        // The second round ran at half speed for everybody, and there the other one of them was better.
        let rows = [
            row("ours", &[(0.1, 20.0), (0.2, 20.0), (0.1, 20.0)]),
            row("one", &[(1.5, 300.0), (4.0, 300.0), (1.5, 300.0)]),
            row("two", &[(2.0, 190.0), (3.0, 190.0), (2.0, 190.0)]),
        ];
        let speeds = [Speed {
            runs: 8,
            ours: vec![400.0, 900.0],
            group: vec![1000.0, 1500.0],
            bulk: vec![2000.0, 3600.0],
        }];
        expect![[r#"
            #### Twenty reads

            | harness | start to exit, s | slowest, s | CPU, s | peak memory, MB | requests |
            |---|---:|---:|---:|---:|---:|
            | ours | 0.100 | 0.200 | 0.067 | 20.0 | 21 |
            | one | 1.500 | 4.000 | 1.167 | 300.0 | 21 |
            | two | 2.000 | 3.000 | 1.167 | 190.0 | 21 |
            #### Durable steps

            | runs at once | steps/s | commits waited for/s | rows/s | group commit, rows/s | ours of it | bulk, rows/s | ours of it |
            |---:|---:|---:|---:|---:|---:|---:|---:|
            | 8 | 900 | 3600 | 7200 | 12000 | 0.60 | 28800 | 0.25 |
            #### The aims

            | figure | aim | measured | |
            |---|---|---|---|
            | faster than the better of the others | at least 10 × | 15.00 × | met |
            | smaller than the better of the others | at least 10 × | 9.50 × | **missed** |
            | durable steps, runs at once: 8 | at least 0.5 of group commit | 0.60 | met |
        "#]]
        .assert_eq(&(harnesses(&rows) + &steps(&speeds) + &aims(&rows, &speeds)));
    }
}
