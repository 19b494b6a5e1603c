//! Formats the results of the proxy benchmark as Markdown.

use std::fmt::Write;

use super::target::ProxyTargetKind;

/// One measurement of one target.
#[derive(Clone, Copy)]
pub(super) struct ProxySample {
    pub(super) requests_per_second: f64,
    pub(super) first_byte_median_ms: f64,
    pub(super) first_byte_p99_ms: f64,
    /// CPU time of the target's processes; `None` without a target between client and upstream.
    pub(super) cpu_ms_per_request: Option<f64>,
}

/// All measurements of one target at one number of connections, by round.
pub(super) struct ProxyRow {
    pub(super) kind: ProxyTargetKind,
    pub(super) description: String,
    pub(super) samples: Vec<ProxySample>,
}

/// Peak memory of one target in megabytes.
pub(super) struct Memory {
    pub(super) description: String,
    pub(super) after_first_round: f64,
    pub(super) after_last_round: f64,
}

/// Formats the medians over the rounds for one number of connections.
///
/// A ratio is the median of the ratios of each round, because load on the machine slows both sides of a round.
pub(super) fn render(connections: usize, rows: &[ProxyRow]) -> String {
    let mut text = format!(
        "### {connections} connection{}\n\n\
         | target | requests/s | of direct | first byte, median ms | more than direct | first byte, p99 ms | CPU ms per request | of nginx |\n\
         |---|---|---|---|---|---|---|---|\n",
        if connections == 1 { "" } else { "s" }
    );
    let direct = rows.iter().find(|row| row.kind == ProxyTargetKind::Direct);
    let nginx = rows.iter().find(|row| row.kind == ProxyTargetKind::Nginx);
    for row in rows {
        let throughput =
            row.against(direct, |us, them| Some(us.requests_per_second / them.requests_per_second));
        let later = row.against(direct, |us, them| Some(us.first_byte_median_ms - them.first_byte_median_ms));
        let cpu = row.against(nginx, |us, them| Some(us.cpu_ms_per_request? / them.cpu_ms_per_request?));
        writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            row.description,
            cell(row.median(|sample| Some(sample.requests_per_second)), 0),
            cell(throughput, 2),
            cell(row.median(|sample| Some(sample.first_byte_median_ms)), 2),
            cell(later, 2),
            cell(row.median(|sample| Some(sample.first_byte_p99_ms)), 2),
            cell(row.median(|sample| sample.cpu_ms_per_request), 2),
            cell(cpu, 2),
        )
        .expect("a string accepts all text");
    }
    let find = |is_wanted: fn(&ProxyTargetKind) -> bool| rows.iter().find(|row| is_wanted(&row.kind));
    let before = find(|kind| matches!(kind, ProxyTargetKind::Before(_)));
    if let (Some(before), Some(ours)) = (before, find(|kind| *kind == ProxyTargetKind::Offshoot)) {
        let speed =
            |us: &ProxySample, them: &ProxySample| Some(us.requests_per_second / them.requests_per_second);
        let cpu =
            |us: &ProxySample, them: &ProxySample| Some(us.cpu_ms_per_request? / them.cpu_ms_per_request?);
        let (speed, cpu) = (ours.against(Some(before), speed), ours.against(Some(before), cpu));
        writeln!(text, "\nAgainst before: {} × the requests/s, {} × the CPU.", cell(speed, 2), cell(cpu, 2))
            .expect("a string accepts all text");
    }
    text
}

/// Formats the peak memory of each target after the first and the last round, which shows growth.
pub(super) fn render_memory(rows: &[Memory]) -> String {
    let mut text =
        "### Peak memory\n\n| target | MB after the first round | MB after the last |\n|---|---|---|\n"
            .to_owned();
    for row in rows {
        writeln!(
            text,
            "| {} | {:.1} | {:.1} |",
            row.description, row.after_first_round, row.after_last_round
        )
        .expect("a string accepts all text");
    }
    text
}

impl ProxyRow {
    fn median(&self, value: impl Fn(&ProxySample) -> Option<f64>) -> Option<f64> {
        quantile(self.samples.iter().filter_map(value).collect(), 0.5)
    }

    fn against(
        &self,
        other: Option<&ProxyRow>,
        ratio: impl Fn(&ProxySample, &ProxySample) -> Option<f64>,
    ) -> Option<f64> {
        let other = other.filter(|other| other.kind != self.kind)?;
        let ratios = self.samples.iter().zip(&other.samples).filter_map(|(us, them)| ratio(us, them));
        quantile(ratios.collect(), 0.5)
    }
}

pub(super) fn cell(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
}

/// The value below which the given share of `values` lies.
pub(super) fn quantile(mut values: Vec<f64>, share: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    Some(values[(last as f64 * share).round() as usize])
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn row(kind: ProxyTargetKind, samples: &[(f64, f64, Option<f64>)]) -> ProxyRow {
        let samples =
            samples.iter().map(|&(requests_per_second, first_byte, cpu_ms_per_request)| ProxySample {
                requests_per_second,
                first_byte_median_ms: first_byte,
                first_byte_p99_ms: 2.0 * first_byte,
                cpu_ms_per_request,
            });
        ProxyRow { description: kind.name().to_owned(), kind, samples: samples.collect() }
    }

    #[test]
    fn ratios_compare_within_a_round() {
        // The second round ran at half speed for everybody.
        let rows = [
            row(ProxyTargetKind::Direct, &[(4000.0, 0.1, None), (2000.0, 0.2, None), (4000.0, 0.1, None)]),
            row(
                ProxyTargetKind::Nginx,
                &[(2400.0, 0.5, Some(0.3)), (1200.0, 0.9, Some(0.3)), (2400.0, 0.5, Some(0.3))],
            ),
            row(
                ProxyTargetKind::Offshoot,
                &[(2000.0, 0.6, Some(0.6)), (1000.0, 1.0, Some(0.6)), (1000.0, 0.6, Some(0.6))],
            ),
            row(
                ProxyTargetKind::Before("before".into()),
                &[(1000.0, 0.6, Some(0.5)), (1000.0, 1.0, Some(0.5)), (500.0, 0.6, Some(0.4))],
            ),
        ];
        expect![[r#"
            ### 32 connections

            | target | requests/s | of direct | first byte, median ms | more than direct | first byte, p99 ms | CPU ms per request | of nginx |
            |---|---|---|---|---|---|---|---|
            | direct | 4000 | – | 0.10 | – | 0.20 | – | – |
            | nginx | 2400 | 0.60 | 0.50 | 0.40 | 1.00 | 0.30 | – |
            | offshoot proxy | 1000 | 0.50 | 0.60 | 0.50 | 1.20 | 0.60 | 2.00 |
            | offshoot proxy, before | 1000 | 0.25 | 0.60 | 0.50 | 1.20 | 0.50 | 1.67 |

            Against before: 2.00 × the requests/s, 1.20 × the CPU.
        "#]]
        .assert_eq(&render(32, &rows));
    }

    #[test]
    fn quantiles_are_values_that_were_measured() {
        let values = vec![5.0, 1.0, 3.0, 2.0, 4.0];
        assert_eq!(quantile(values.clone(), 0.5), Some(3.0));
        assert_eq!(quantile(values, 0.99), Some(5.0));
        assert_eq!(quantile(Vec::new(), 0.5), None);
    }
}
