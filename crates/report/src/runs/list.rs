//! `ps`: all runs, where they stand and what they used.

use serde_json::{Value, json};
use store::RunSummary;

use super::{FORMAT, columns, dollars, usage, usd};
use crate::text::{fit, plain, short};

/// The runs for people: a tree, newest roots first.
pub fn ps_text(runs: &[RunSummary], width: usize) -> String {
    if runs.is_empty() {
        return "no runs yet\n".to_owned();
    }
    let mut rows = vec![["RUN", "STATUS", "TOKENS", "COST", "AGENT", "MODEL"].map(str::to_owned).to_vec()];
    for run in ordered(runs) {
        let all = &run.inclusive;
        rows.push(vec![
            format!("{}{}", "  ".repeat(depth(runs, run)), run.id),
            run.status.to_string(),
            short(all.usage.input_total() + all.usage.output),
            dollars(all),
            plain(&run.agent),
            plain(&run.model),
        ]);
    }
    columns(&rows).lines().map(|line| fit(line, width) + "\n").collect()
}

/// The runs for programs.
pub fn ps_json(runs: &[RunSummary]) -> Value {
    let one = |run: &RunSummary| {
        json!({
            "run": run.id,
            "parent": run.parent,
            "thread": run.thread,
            "kind": run.kind.as_str(),
            "status": run.status.as_str(),
            "agent": run.agent,
            "model": run.model,
            "provider": run.provider,
            "job": run.job.then_some(&run.id),
            "created_at_ms": run.created_at.0,
            "ended_at_ms": run.ended_at.map(|at| at.0),
            "usage": usage(&run.own.usage),
            "usage_inclusive": usage(&run.inclusive.usage),
            "cost_usd": usd(&run.own),
            "cost_inclusive_usd": usd(&run.inclusive),
        })
    };
    json!({ "format": FORMAT, "runs": ordered(runs).into_iter().map(one).collect::<Vec<_>>() })
}

/// Each run behind its parent, brothers in the order they began; roots newest first.
fn ordered(runs: &[RunSummary]) -> Vec<&RunSummary> {
    let known = |run: &RunSummary| runs.iter().any(|other| Some(&other.id) == run.parent.as_ref());
    let mut out = Vec::new();
    for root in runs.iter().filter(|run| !known(run)) {
        below(runs, root, &mut out);
    }
    out
}

fn below<'r>(runs: &'r [RunSummary], run: &'r RunSummary, out: &mut Vec<&'r RunSummary>) {
    out.push(run);
    for child in runs.iter().rev().filter(|child| child.parent.as_ref() == Some(&run.id)) {
        below(runs, child, out);
    }
}

fn depth(runs: &[RunSummary], run: &RunSummary) -> usize {
    let parent = runs.iter().find(|other| Some(&other.id) == run.parent.as_ref());
    parent.map_or(0, |parent| depth(runs, parent) + 1)
}
