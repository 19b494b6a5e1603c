//! `cost`: what was spent, by model and together.

use serde_json::{Value, json};
use store::{RunSummary, Totals};

use super::{FORMAT, columns, dollars, usage, usd};
use crate::text::{fit, short};

/// What was spent, for people.
pub fn cost_text(runs: &[RunSummary], prices_of: &str) -> String {
    let models = by_model(runs);
    if models.is_empty() {
        return "nothing was spent yet\n".to_owned();
    }
    let head = ["MODEL", "CALLS", "INPUT", "CACHED", "WRITTEN", "OUTPUT", "COST"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let row = |name: &str, totals: &Totals| {
        let used = &totals.usage;
        vec![
            fitted(name),
            totals.calls.to_string(),
            short(used.input),
            short(used.cache_read),
            short(used.cache_write_5m + used.cache_write_1h),
            short(used.output),
            dollars(totals),
        ]
    };
    rows.extend(models.iter().map(|(model, totals)| row(model, totals)));
    if models.len() > 1 {
        rows.push(row("together", &together(runs)));
    }
    let unknown = together(runs).unpriced;
    let note = match unknown {
        0 => String::new(),
        1 => "1 call has no known price\n".to_owned(),
        more => format!("{more} calls have no known price\n"),
    };
    format!("{}{note}list prices of {prices_of}\n", columns(&rows))
}

/// A model's name, so that a line of usual numbers fits a terminal; that nobody paid for it stays to be seen.
fn fitted(name: &str) -> String {
    const WIDTH: usize = 28;
    match name.strip_suffix(SCRIPTED) {
        Some(model) => format!("{}{SCRIPTED}", fit(model, WIDTH - SCRIPTED.len())),
        None => fit(name, WIDTH),
    }
}

/// Behind a model's name where nobody paid for what a script said.
const SCRIPTED: &str = " (script)";

/// The same for programs.
pub fn cost_json(runs: &[RunSummary], prices_of: &str) -> Value {
    let one = |totals: &Totals| {
        json!({
            "calls": totals.calls,
            "usage": usage(&totals.usage),
            "cost_usd": usd(totals),
            "unpriced_calls": totals.unpriced,
        })
    };
    let models = by_model(runs).into_iter().map(|(model, totals)| {
        let mut line = one(&totals);
        line["model"] = model.into();
        line
    });
    json!({
        "format": FORMAT,
        "prices_of": prices_of,
        "models": models.collect::<Vec<_>>(),
        "total": one(&together(runs)),
    })
}

/// Sums by model, the dearest first. Every run counts its own calls only, so nothing is counted twice.
fn by_model(runs: &[RunSummary]) -> Vec<(String, Totals)> {
    let mut models: Vec<(String, Totals)> = Vec::new();
    for run in runs.iter().filter(|run| run.own.calls > 0) {
        let scripted = if run.provider.starts_with("script:") { SCRIPTED } else { "" };
        let name = format!("{}{scripted}", run.model);
        match models.iter_mut().find(|(model, _)| *model == name) {
            Some((_, totals)) => add(totals, &run.own),
            None => models.push((name, run.own)),
        }
    }
    models.sort_by(|(a, x), (b, y)| y.cost_microusd.cmp(&x.cost_microusd).then_with(|| a.cmp(b)));
    models
}

fn together(runs: &[RunSummary]) -> Totals {
    let mut all = Totals::default();
    runs.iter().for_each(|run| add(&mut all, &run.own));
    all
}

fn add(totals: &mut Totals, more: &Totals) {
    totals.calls += more.calls;
    totals.unpriced += more.unpriced;
    totals.usage += more.usage;
    totals.cost_microusd += more.cost_microusd;
    totals.reserved_microusd += more.reserved_microusd;
}
