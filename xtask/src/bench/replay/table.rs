//! Formats the results and aims as Markdown.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Duration;

use super::target::{ReplayTarget, ReplayTargetKind};
use crate::bench::load::Reads;
use crate::bench::table::{Memory, cell, quantile, render_memory as memory};

/// Maximum CPU time per request in milliseconds.
const MAX_CPU_MS: f64 = 0.2;
/// Maximum deviation of a replay at the recorded pace.
const MAX_DEVIATION: f64 = 0.05;

/// One measurement of one target.
#[derive(Clone)]
pub(super) struct ReplaySample {
    pub(super) requests_per_second: f64,
    pub(super) total_median_ms: f64,
    pub(super) cpu_ms_per_request: f64,
    pub(super) responses: usize,
    /// Hashes of the different bodies.
    pub(super) bodies: BTreeSet<u64>,
}

/// All measurements of one target at one number of connections, by round.
pub(super) struct ReplayRow {
    pub(super) kind: ReplayTargetKind,
    pub(super) description: String,
    pub(super) samples: Vec<ReplaySample>,
}

/// A performance target.
pub(super) struct PerformanceAim {
    pub(super) figure: String,
    pub(super) aim: String,
    pub(super) measured: String,
    pub(super) is_met: bool,
}

impl ReplayRow {
    pub(super) fn of(target: &ReplayTarget) -> ReplayRow {
        ReplayRow { kind: target.kind.clone(), description: target.description.clone(), samples: Vec::new() }
    }

    fn median(&self, value: impl Fn(&ReplaySample) -> f64) -> Option<f64> {
        quantile(self.samples.iter().map(value).collect(), 0.5)
    }

    /// Returns the median of the ratios of each round.
    fn against(&self, other: Option<&ReplayRow>, value: impl Fn(&ReplaySample) -> f64) -> Option<f64> {
        let other = other.filter(|other| other.kind != self.kind)?;
        let ratios = self.samples.iter().zip(&other.samples).map(|(us, them)| value(us) / value(them));
        quantile(ratios.collect(), 0.5)
    }

    /// Returns the mean over all rounds, because Linux counts in hundredths of a second and nginx needs few.
    fn cpu(&self) -> Option<f64> {
        let all: f64 = self.samples.iter().map(|sample| sample.cpu_ms_per_request).sum();
        (!self.samples.is_empty()).then(|| all / self.samples.len() as f64)
    }

    fn cpu_against(&self, other: Option<&ReplayRow>) -> Option<f64> {
        let other = other.filter(|other| other.kind != self.kind)?.cpu()?;
        (other > 0.0).then_some(self.cpu()? / other)
    }

    /// Returns the number of responses and of different bodies.
    fn bodies(&self) -> (usize, usize) {
        let bodies: BTreeSet<u64> = self.samples.iter().flat_map(|sample| &sample.bodies).copied().collect();
        (self.samples.iter().map(|sample| sample.responses).sum(), bodies.len())
    }
}

/// Formats the medians over the rounds for one size and one number of connections.
pub(super) fn render(size: usize, connections: usize, rows: &[ReplayRow]) -> String {
    let mut text = format!(
        "### A request of {} KB, {connections} connection{}\n\n\
         | target | requests/s | of nginx | whole response, median ms | CPU ms per request | of nginx | distinct bodies |\n\
         |---|---|---|---|---|---|---|\n",
        size / 1000,
        if connections == 1 { "" } else { "s" }
    );
    let nginx = rows.iter().find(|row| row.kind == ReplayTargetKind::Nginx);
    for row in rows {
        let (answers, bodies) = row.bodies();
        writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {bodies} in {answers} |",
            row.description,
            cell(row.median(|sample| sample.requests_per_second), 0),
            cell(row.against(nginx, |sample| sample.requests_per_second), 2),
            cell(row.median(|sample| sample.total_median_ms), 2),
            cell(row.cpu(), 3),
            cell(row.cpu_against(nginx), 1),
        )
        .expect("a string accepts all text");
    }
    let before = rows.iter().find(|row| matches!(row.kind, ReplayTargetKind::Before(_)));
    let ours = rows.iter().find(|row| row.kind == ReplayTargetKind::Offshoot);
    if let (Some(before), Some(ours)) = (before, ours) {
        let speed = cell(ours.against(Some(before), |sample| sample.requests_per_second), 2);
        let cpu = cell(ours.cpu_against(Some(before)), 2);
        writeln!(text, "\nAgainst before: {speed} × the requests/s, {cpu} × the CPU.")
            .expect("a string accepts all text");
    }
    text
}

/// Returns the aims of our row.
pub(super) fn aims(size: usize, connections: usize, rows: &[ReplayRow]) -> Vec<PerformanceAim> {
    let Some(ours) = rows.iter().find(|row| row.kind == ReplayTargetKind::Offshoot) else {
        return Vec::new();
    };
    let Some(cpu) = ours.cpu() else { return Vec::new() };
    let (answers, bodies) = ours.bodies();
    let what = format!("{} KB, connections: {connections}", size / 1000);
    vec![
        PerformanceAim {
            figure: format!("CPU per request, {what}"),
            aim: format!("at most {MAX_CPU_MS} ms"),
            measured: format!("{cpu:.3} ms"),
            is_met: cpu <= MAX_CPU_MS,
        },
        PerformanceAim {
            figure: format!("distinct bodies, {what}"),
            aim: "1".to_owned(),
            measured: format!("{bodies} in {answers}"),
            is_met: bodies == 1,
        },
    ]
}

pub(super) fn render_aims(aims: &[PerformanceAim]) -> String {
    let mut text = "### The aims\n\n| figure | aim | measured | |\n|---|---|---|---|\n".to_owned();
    for aim in aims {
        let met = if aim.is_met { "met" } else { "**missed**" };
        writeln!(text, "| {} | {} | {} | {met} |", aim.figure, aim.aim, aim.measured)
            .expect("a string accepts all text");
    }
    text
}

/// Formats the peak memory of each target after the first round and now.
pub(super) fn render_memory(targets: &[ReplayTarget], early: &[f64]) -> String {
    let rows = targets.iter().zip(early).map(|(target, early)| Memory {
        description: target.description.clone(),
        after_first_round: *early,
        after_last_round: target.peak_memory(),
    });
    memory(&rows.collect::<Vec<_>>())
}

/// Replays at the recorded pace, with the recorded reads.
pub(super) struct PaceRow {
    pub(super) kind: ReplayTargetKind,
    description: String,
    recorded: Reads,
    replayed: Vec<Reads>,
}

impl PaceRow {
    pub(super) fn of(target: &ReplayTarget, recorded: &Reads) -> PaceRow {
        PaceRow {
            kind: target.kind.clone(),
            description: target.description.clone(),
            recorded: recorded.clone(),
            replayed: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, reads: &Reads) {
        self.replayed.push(reads.clone());
    }

    /// Returns the relative deviation of the total time of each replay.
    fn deviations(&self) -> Vec<f64> {
        let recorded = total(&self.recorded).as_secs_f64();
        self.replayed.iter().map(|reads| total(reads).as_secs_f64() / recorded - 1.0).collect()
    }

    /// Returns the largest deviation.
    fn worst(&self) -> f64 {
        self.deviations().into_iter().max_by(|a, b| a.abs().total_cmp(&b.abs())).unwrap_or_default()
    }

    /// Returns the largest time difference between a read and the recorded read at the same offset.
    fn shift(&self) -> Option<Duration> {
        let recorded: std::collections::BTreeMap<usize, Duration> =
            self.recorded.iter().map(|(time, seen)| (*seen, *time)).collect();
        let same = self
            .replayed
            .iter()
            .flatten()
            .filter_map(|(time, seen)| recorded.get(seen).map(|recorded| time.abs_diff(*recorded)));
        same.max()
    }

    pub(super) fn aim(&self) -> PerformanceAim {
        PerformanceAim {
            figure: "total time at the recorded pace, the worst round".to_owned(),
            aim: format!("within {:.0} % of the recording", MAX_DEVIATION * 100.0),
            measured: format!("{:+.1} %", self.worst() * 100.0),
            is_met: self.worst().abs() <= MAX_DEVIATION,
        }
    }

    /// Returns the numbers of reads. A late client may read two events at once.
    fn reads(&self) -> String {
        let counts: BTreeSet<usize> = self.replayed.iter().map(Vec::len).collect();
        counts.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
    }
}

fn total(reads: &Reads) -> Duration {
    reads.last().map_or(Duration::ZERO, |(time, _)| *time)
}

pub(super) fn render_pace(rows: &[PaceRow]) -> String {
    let mut text = "### The recorded pace\n\n\
         | target | recorded s | replayed s, median | deviation, median | deviation, worst | reads recorded | reads replayed | largest shift of a read, ms |\n\
         |---|---|---|---|---|---|---|---|\n"
        .to_owned();
    for row in rows {
        let totals = row.replayed.iter().map(|reads| total(reads).as_secs_f64()).collect();
        let percent =
            |share: Option<f64>| share.map_or("–".to_owned(), |share| format!("{:+.1} %", share * 100.0));
        writeln!(
            text,
            "| {} | {:.2} | {} | {} | {} | {} | {} | {} |",
            row.description,
            total(&row.recorded).as_secs_f64(),
            cell(quantile(totals, 0.5), 2),
            percent(quantile(row.deviations(), 0.5)),
            percent(Some(row.worst())),
            row.recorded.len(),
            row.reads(),
            cell(row.shift().map(|shift| shift.as_secs_f64() * 1e3), 1),
        )
        .expect("a string accepts all text");
    }
    text
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn row(kind: ReplayTargetKind, samples: &[(f64, f64, &[u64])]) -> ReplayRow {
        let samples = samples.iter().map(|&(requests_per_second, cpu_ms_per_request, bodies)| ReplaySample {
            requests_per_second,
            total_median_ms: 1e3 / requests_per_second,
            cpu_ms_per_request,
            responses: 10,
            bodies: bodies.iter().copied().collect(),
        });
        ReplayRow { description: kind.name().to_owned(), kind, samples: samples.collect() }
    }

    #[test]
    fn bodies_are_counted_over_all_rounds() {
        let rows = [
            row(ReplayTargetKind::Nginx, &[(8000.0, 0.05, &[7]), (4000.0, 0.05, &[7])]),
            row(ReplayTargetKind::Offshoot, &[(4000.0, 0.15, &[7]), (2000.0, 0.15, &[7])]),
            row(ReplayTargetKind::Aimock, &[(800.0, 1.5, &[1, 2, 3]), (400.0, 1.5, &[3, 4])]),
        ];
        expect![[r#"
            ### A request of 20 KB, 1 connection

            | target | requests/s | of nginx | whole response, median ms | CPU ms per request | of nginx | distinct bodies |
            |---|---|---|---|---|---|---|
            | nginx | 8000 | – | 0.25 | 0.050 | – | 1 in 20 |
            | offshoot replay | 4000 | 0.50 | 0.50 | 0.150 | 3.0 | 1 in 20 |
            | aimock | 800 | 0.10 | 2.50 | 1.500 | 30.0 | 4 in 20 |
        "#]]
        .assert_eq(&render(20_000, 1, &rows));
        expect![[r#"
            ### The aims

            | figure | aim | measured | |
            |---|---|---|---|
            | CPU per request, 20 KB, connections: 1 | at most 0.2 ms | 0.150 ms | met |
            | distinct bodies, 20 KB, connections: 1 | 1 | 1 in 20 | met |
        "#]]
        .assert_eq(&render_aims(&aims(20_000, 1, &rows)));
    }

    #[test]
    fn a_pace_is_judged_by_its_worst_round() {
        let reads = |times: &[u64]| -> Reads {
            times.iter().enumerate().map(|(at, ms)| (Duration::from_millis(*ms), at + 1)).collect()
        };
        let paced = PaceRow {
            kind: ReplayTargetKind::Offshoot,
            description: "offshoot replay".to_owned(),
            recorded: reads(&[100, 500, 1000]),
            replayed: vec![reads(&[101, 503, 1010]), reads(&[100, 500, 940])],
        };
        expect![[r#"
            ### The recorded pace

            | target | recorded s | replayed s, median | deviation, median | deviation, worst | reads recorded | reads replayed | largest shift of a read, ms |
            |---|---|---|---|---|---|---|---|
            | offshoot replay | 1.00 | 1.01 | +1.0 % | -6.0 % | 3 | 3 | 60.0 |
        "#]]
        .assert_eq(&render_pace(std::slice::from_ref(&paced)));
        assert!(!paced.aim().is_met);
    }
}
