//! Output of `offshoot cost`: costs by model and in total.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use store::{RunSummary, UsageTotals};

use super::{FORMAT, dollars, usage, usd};
use crate::table::{Column, DropRule, Table};
use crate::text::{fit, short, wrap};

/// Renders the costs. Calls that were not paid for are excluded from the sum of paid ones.
pub fn cost_text(runs: &[RunSummary], prices_of: &str, width: usize) -> String {
    let models = by_model(runs);
    if models.is_empty() {
        return "no cost yet\n".to_owned();
    }
    let mut rows = Vec::new();
    let row = |name: String, totals: &UsageTotals| {
        let used = &totals.usage;
        vec![
            name,
            totals.calls.to_string(),
            short(used.input),
            short(used.cache_read),
            short(used.cache_write_5m + used.cache_write_1h),
            short(used.output),
            dollars(totals),
        ]
    };
    rows.extend(models.iter().map(|(model, totals)| row(fitted(model), totals)));
    let sums = [true, false].map(|paid| together(&models, paid));
    let unpaid = models.iter().filter(|((_, substitute), _)| substitute.is_some()).count();
    let names = if unpaid > 0 { ["total, paid", "total, not paid"] } else { ["total", ""] };
    for ((name, sum), several) in names.iter().zip(&sums).zip([models.len() - unpaid > 1, unpaid > 1]) {
        rows.extend(several.then(|| row((*name).to_owned(), sum)));
    }
    rows.extend(by_side_work(runs).iter().map(|(label, totals)| row(format!("of which {label}"), totals)));
    let unknown: u64 = sums.iter().map(|sum| sum.unpriced).sum();
    let note = match unknown {
        0 => None,
        1 => Some("1 call has no known cost".to_owned()),
        more => Some(format!("{more} calls have no known cost")),
    };
    let who = (unpaid > 0).then(|| "not paid: a script or a recording answered".to_owned());
    let head = ["MODEL", "CALLS", "INPUT", "CACHED", "WRITTEN", "OUTPUT", "COST"];
    let mut drop_order = vec![DropRule::spaces()];
    drop_order.extend(["CALLS", "WRITTEN", "CACHED", "OUTPUT", "INPUT"].map(DropRule::column));
    let columns = head.map(|head| Column::text(head, 0)).to_vec();
    let mut lines = Table { columns, rows, gap: 2, drop_order }.folded(width);
    let notes = note.into_iter().chain(who).chain([format!("list prices of {prices_of}")]);
    lines.extend(notes.map(|note| wrap(&note, 0, width)));
    lines.join("\n") + "\n"
}

/// A model and the substitute that answered for it, if any.
type PricedModel<'r> = (&'r str, Option<&'static str>);

/// Shortens a model's name so that a line fits a terminal. The substitute stays visible.
fn fitted((model, substitute): &PricedModel<'_>) -> String {
    const WIDTH: usize = 28;
    match substitute {
        Some(who) => format!("{} ({who})", fit(model, WIDTH - who.len() - 3)),
        None => fit(model, WIDTH),
    }
}

/// Renders the costs as JSON.
pub fn cost_json(runs: &[RunSummary], prices_of: &str) -> Value {
    let one = |totals: &UsageTotals| {
        json!({
            "calls": totals.calls,
            "usage": usage(&totals.usage),
            "cost_usd": usd(totals),
            "unpriced_calls": totals.unpriced,
        })
    };
    let models = by_model(runs);
    let lines = models.iter().map(|((model, substitute), totals)| {
        let mut line = one(totals);
        line["model"] = (*model).into();
        line["stand_in"] = (*substitute).into();
        line
    });
    let side_work = by_side_work(runs).into_iter().map(|(label, totals)| {
        let mut line = one(&totals);
        line["label"] = label.into();
        line
    });
    json!({
        "format": FORMAT,
        "prices_of": prices_of,
        "models": lines.collect::<Vec<_>>(),
        "total": one(&together(&models, true)),
        "unpaid": one(&together(&models, false)),
        "side_work": side_work.collect::<Vec<_>>(),
    })
}

/// Returns the kind of substitute that answered instead of the provider, as its name says.
fn substitute(provider: &str) -> Option<&'static str> {
    let (kind, _) = provider.split_once(':')?;
    ["script", "replay"].into_iter().find(|known| *known == kind)
}

/// Sums usage by model: paid models first, the most expensive first. Each run counts only its own calls, so
/// nothing is counted twice.
fn by_model(runs: &[RunSummary]) -> Vec<(PricedModel<'_>, UsageTotals)> {
    let mut models: Vec<(PricedModel<'_>, UsageTotals)> = Vec::new();
    for run in runs.iter().filter(|run| run.own.calls > 0) {
        let name = (run.model.as_str(), substitute(&run.provider));
        match models.iter_mut().find(|(model, _)| *model == name) {
            Some((_, totals)) => add(totals, &run.own),
            None => models.push((name, run.own)),
        }
    }
    models.sort_by_key(|(name, totals)| (name.1, std::cmp::Reverse(totals.cost_microusd), name.0));
    models
}

/// Sums usage by kind of side work. The models have it, too.
fn by_side_work(runs: &[RunSummary]) -> BTreeMap<&str, UsageTotals> {
    let mut kinds = BTreeMap::new();
    for run in runs.iter().filter(|run| run.own.calls > 0) {
        if let Some(label) = &run.side_work {
            add(kinds.entry(label.as_str()).or_default(), &run.own);
        }
    }
    kinds
}

/// Returns the sum of all paid models, or of all others.
fn together(models: &[(PricedModel<'_>, UsageTotals)], paid: bool) -> UsageTotals {
    let mut all = UsageTotals::default();
    let those = models.iter().filter(|((_, substitute), _)| substitute.is_none() == paid);
    those.for_each(|(_, totals)| add(&mut all, totals));
    all
}

fn add(totals: &mut UsageTotals, more: &UsageTotals) {
    *totals += *more;
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use session::Usage;

    use super::*;

    fn cost_text(runs: &[RunSummary], prices_of: &str, width: usize) -> String {
        crate::terminal_text(&super::cost_text(runs, prices_of, width), false)
    }
    use crate::runs::sample;

    fn runs() -> Vec<RunSummary> {
        let of = |provider: &str, cost: i64| {
            let usage = Usage { input: 1_000, output: 20, ..Usage::default() };
            let own = UsageTotals { calls: 2, usage, cost_microusd: cost, ..UsageTotals::default() };
            RunSummary { provider: provider.to_owned(), own, ..sample::run() }
        };
        vec![
            of("script:anthropic", 900),
            of("anthropic", 500),
            of("replay:anthropic", 700),
            of("anthropic", 1_000),
        ]
    }

    #[test]
    fn scripted_and_replayed_calls_are_counted_apart() {
        expect![[r#"
            MODEL                       CALLS  INPUT  CACHED  WRITTEN  OUTPUT  COST
            claude-sonnet-5-5           4      2.0k   0       0        40      $0.0015
            claude-sonnet-5-5 (replay)  2      1.0k   0       0        20      $0.0007
            claude-sonnet-5-5 (script)  2      1.0k   0       0        20      $0.0009
            total, not paid             4      2.0k   0       0        40      $0.0016
            not paid: a script or a recording answered
            list prices of 2026-11
        "#]]
        .assert_eq(&cost_text(&runs(), "2026-11", usize::MAX));
        let json = cost_json(&runs(), "2026-11");
        let told = json["models"].as_array().expect("a list").iter();
        let told: Vec<_> = told.map(|it| (it["model"].clone(), it["stand_in"].clone())).collect();
        let model = Value::from("claude-sonnet-5-5");
        assert_eq!(
            told,
            [(model.clone(), Value::Null), (model.clone(), "replay".into()), (model, "script".into())]
        );
        assert_eq!(json["total"]["cost_usd"], 0.0015);
        assert_eq!(json["unpaid"]["cost_usd"], 0.0016);
        expect![[r#"
            MODEL              CALLS  INPUT  CACHED  WRITTEN  OUTPUT  COST
            claude-sonnet-5-5  2      1.0k   0       0        20      $0.0010
            list prices of 2026-11
        "#]]
        .assert_eq(&cost_text(&runs()[3..], "2026-11", 80));
    }

    #[test]
    fn side_work_has_lines_of_its_own_and_counts_once() {
        let mut all = runs()[3..].to_vec();
        let side = |label: &str| RunSummary { side_work: Some(label.to_owned()), ..all[0].clone() };
        let forks = [side("turn_summary"), side("supervisor"), side("turn_summary")];
        all.extend(forks);
        expect![[r#"
            MODEL                  CALLS  INPUT  CACHED  WRITTEN  OUTPUT  COST
            claude-sonnet-5-5      8      4.0k   0       0        80      $0.0040
            of which supervisor    2      1.0k   0       0        20      $0.0010
            of which turn_summary  4      2.0k   0       0        40      $0.0020
            list prices of 2026-11
        "#]]
        .assert_eq(&cost_text(&all, "2026-11", usize::MAX));
        let json = cost_json(&all, "2026-11");
        assert_eq!(json["side_work"][1]["label"], "turn_summary");
        assert_eq!(json["side_work"][1]["cost_usd"], 0.002);
        assert_eq!(json["total"]["cost_usd"], 0.004);
    }

    #[test]
    fn a_narrow_screen_keeps_the_cost() {
        assert_eq!(cost_text(&runs(), "2026-11", 80), cost_text(&runs(), "2026-11", usize::MAX));
        expect![[r#"
            MODEL                      INPUT CACHED OUTPUT COST
            claude-sonnet-5-5          2.0k  0      40     $0.0015
            claude-sonnet-5-5 (replay) 1.0k  0      20     $0.0007
            claude-sonnet-5-5 (script) 1.0k  0      20     $0.0009
            total, not paid            2.0k  0      40     $0.0016
            not paid: a script or a recording answered
            list prices of 2026-11
        "#]]
        .assert_eq(&cost_text(&runs(), "2026-11", 60));
        expect![[r#"
            MODEL                      INPUT COST
            claude-sonnet-5-5          2.0k  $0.0015
            claude-sonnet-5-5 (replay) 1.0k  $0.0007
            claude-sonnet-5-5 (script) 1.0k  $0.0009
            total, not paid            2.0k  $0.0016
            not paid: a script or a recording
            answered
            list prices of 2026-11
        "#]]
        .assert_eq(&cost_text(&runs(), "2026-11", 40));
    }
}
